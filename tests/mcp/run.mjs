// Runs the public conformance suite of MCP against the tools of a daemon: node run.mjs --coop target/debug/coop
//
// The suite knows no tokens, so it comes through a proxy that adds one and changes nothing else.

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { APPLY, NO_SUCH_CHECK, WHY_NOT } from './scenarios.mjs';

const COOP = resolve(process.argv[process.argv.indexOf('--coop') + 1]);
const HERE = fileURLToPath(new URL('.', import.meta.url));
const SUITE = join(HERE, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const LIMIT = 60_000;

const home = mkdtempSync(join(tmpdir(), 'coop-mcp-'));
const env = { PATH: process.env.PATH, HOME: home, XDG_RUNTIME_DIR: home, LANG: 'C.UTF-8', COOP_STATE: join(home, 's') };
const coop = (...args) => execFileSync(COOP, args, { env, cwd: join(home, 'p'), encoding: 'utf8', timeout: LIMIT });
const git = (...args) =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.org', ...args], { cwd: join(home, 'p'), env });

const daemon = spawn(COOP, ['up', '--port', '0'], { env, stdio: ['ignore', 'pipe', 'ignore'] });
let failed = true;
try {
  const port = await ready(daemon);
  mkdirSync(join(home, 'p'));
  const agentEnv = `{ HOME = "${home}", XDG_RUNTIME_DIR = "${home}", XDG_STATE_HOME = "${home}", COOP_SIM_SCENARIO = "plain" }`;
  writeFileSync(join(home, 'p/coop.toml'), `[agents.a]
driver = "claude"
kind = "crew"
isolate = true
env = ${agentEnv}
command = ["${COOP}", "sim", "claude"]
`);
  git('init', '--quiet', '--initial-branch', 'main');
  git('add', '.');
  git('commit', '--quiet', '-m', 'first');
  coop('ws', 'open');
  coop('ws', 'create', 'w', '--agent', 'a');
  const { token } = JSON.parse(readFileSync(join(home, 's/agents/a/tools.json'), 'utf8'));
  const proxy = await listen(port, token);
  failed = !(await all(`http://localhost:${proxy.address().port}/mcp`));
  proxy.closeAllConnections();
  proxy.close();
} finally {
  spawnSync(COOP, ['down', '--kill'], { env, cwd: home, timeout: LIMIT });
  daemon.kill('SIGKILL');
  rmSync(home, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;

function ready(child) {
  return new Promise((done, fail) => {
    let port;
    setTimeout(() => fail(new Error('the daemon did not get ready')), LIMIT).unref();
    createInterface({ input: child.stdout }).on('line', (line) => {
      port = /^listening http .*:(\d+)$/.exec(line)?.[1] ?? port;
      if (line === 'ready') done(port);
    });
  });
}

function listen(port, token) {
  const proxy = http.createServer((request, response) => {
    const headers = { ...request.headers, authorization: `Bearer ${token}` };
    const passed = http.request({ host: '127.0.0.1', port, method: request.method, path: request.url, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    request.pipe(passed);
  });
  return new Promise((done) => proxy.listen(0, '127.0.0.1', () => done(proxy)));
}

async function all(url) {
  const listed = (await suite('list', '--server')).stdout.matchAll(/^ {2}- (\S+) \[(.*)\]$/gm);
  let good = true;
  for (const [, name, versions] of listed) {
    if (WHY_NOT[name]) {
      console.log(`not applicable  ${name}: ${WHY_NOT[name]}`);
    } else if (!APPLY.includes(name)) {
      console.log(`UNKNOWN         ${name} (${versions}): say in scenarios.mjs whether it applies`);
      good = false;
    } else {
      const { status, stdout } = await suite('server', '--url', url, '--scenario', name);
      const plain = stdout.replaceAll(/\x1b\[\d+m/g, '');
      const checks = [...plain.matchAll(/^\S+ \[(\S+) *\] (SUCCESS|FAILURE)/gm)];
      const wrong = checks.filter(([, , outcome]) => outcome === 'FAILURE').map(([, check]) => check);
      const left = wrong.filter((check) => !NO_SUCH_CHECK[check]);
      // A scenario without a check that held has shown nothing.
      const passes = left.length === 0 && checks.length > wrong.length && (status === 0 || wrong.length > 0);
      console.log(`${passes ? 'passed          ' : 'FAILED          '}${name}: ${checks.length - wrong.length} checks`);
      for (const check of wrong.filter((check) => NO_SUCH_CHECK[check])) {
        console.log(`not applicable  ${name}, ${check}: ${NO_SUCH_CHECK[check]}`);
      }
      if (!passes) console.log(plain);
      good &&= passes;
    }
  }
  return good;
}

/** Beside us: the proxy has to answer meanwhile. */
function suite(...args) {
  const child = spawn(process.execPath, ['--import', join(HERE, 'old-node.mjs'), SUITE, ...args], { cwd: home, timeout: LIMIT });
  let stdout = '';
  child.stdout.on('data', (data) => (stdout += data));
  child.stderr.on('data', (data) => (stdout += data));
  return new Promise((done) => child.on('close', (status) => done({ status, stdout })));
}
