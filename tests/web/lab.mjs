// A daemon with simulated agents, or a sidecar, in a folder of its own; and a browser to look at it with.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, 'target');
export const COOP = resolve(process.env.COOP_BIN ?? join(TARGET, 'debug/coop'));
/** What the tests leave to be looked at. */
export const SHOTS = process.env.COOP_SHOTS ?? join(TARGET, 'web');
/** Nothing takes longer, unless something is wrong. */
export const LIMIT = 120_000;

/** A page that does not come over the network counts as one from elsewhere, which may not reach this machine. */
const DISK = process.env.COOP_WEB_DIST ? ['--disable-features=LocalNetworkAccessChecks'] : [];

mkdirSync(SHOTS, { recursive: true });

export class Lab {
  constructor() {
    // Short, for the paths of sockets.
    this.home = mkdtempSync(join(tmpdir(), 'coop-w-'));
    this.work = join(this.home, 'shop', 'api');
    mkdirSync(this.work, { recursive: true });
    this.port = 0;
    this.processes = new Set();
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  get env() {
    const { PATH } = process.env;
    // A shell whose sidecar is killed would write its history while the folder is removed.
    return { PATH, HOME: this.home, XDG_RUNTIME_DIR: this.home, XDG_STATE_HOME: this.home, COOP_STATE: join(this.home, 's'), LANG: 'C.UTF-8', USER: 'ann', HISTFILE: '/dev/null' };
  }

  /** Starts coop and waits until it is ready. Started again, it listens on the same port. */
  async #start(args, env = {}) {
    const child = spawn(COOP, args, { cwd: this.work, env: { ...this.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    this.processes.add(child);
    let log = '';
    child.stderr.on('data', (data) => (log += data));
    child.on('exit', (code, signal) => {
      this.processes.delete(child);
      // What nobody here has ended.
      if (!child.killed) console.error(`coop ended (${code ?? signal}): ${log}`);
    });
    const lines = createInterface({ input: child.stdout });
    const ready = (async () => {
      for await (const line of lines) {
        const port = /^listening http .*:(\d+)$/.exec(line);
        if (port) this.port = Number(port[1]);
        if (line === 'ready') return;
      }
      throw new Error(`coop did not start: ${log}`);
    })();
    await inTime(ready, 'coop starts');
    child.stdout.resume();
    this.main = child;
    return child;
  }

  async up(token) {
    const args = ['up', '--port', String(this.port), '--log-format', 'text'];
    return this.#start(args, token ? { COOP_AUTH_TOKEN: token } : {});
  }

  async sidecar({ agent = 'claude', command = [COOP, 'sim', 'claude'], token, args = [] } = {}) {
    const isolate = agent === 'claude' ? ['--isolate'] : [];
    const all = ['--port', String(this.port), '--socket', join(this.home, 'one.sock'), '--agent', agent, ...isolate, ...args, '--log-format', 'text', '--', ...command];
    return this.#start(all, { COOP_SIM_SCENARIO: 'plain', ...(token && { COOP_AUTH_TOKEN: token }) });
  }

  /** Ends the daemon at once, as a crash would. Its agents go on. */
  async kill() {
    const ended = new Promise((done) => this.main.once('exit', done));
    this.main.kill('SIGKILL');
    await inTime(ended, 'coop ends');
  }

  async api(method, path, body, headers = {}) {
    const response = await fetch(`${this.url}/api/v1/${path}`, {
      method,
      headers: { 'x-coop-by': 'bob', ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(LIMIT),
    });
    const text = await response.text();
    let json;
    try {
      json = JSON.parse(text);
    } catch {
      json = text;
    }
    return { status: response.status, json };
  }

  async ok(method, path, body) {
    const { status, json } = await this.api(method, path, body);
    if (status !== 200) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(json)}`);
    return json;
  }

  /** Defines a simulated agent that is first told this. */
  definition(name, prompt, more = '') {
    const home = JSON.stringify(this.home);
    return `[agents.${JSON.stringify(name)}]
driver = "claude"
kind = "crew"
isolate = true
command = [${JSON.stringify(COOP)}, "sim", "claude"]
env = { COOP_SIM_SCENARIO = "plain", HOME = ${home}, XDG_RUNTIME_DIR = ${home}, XDG_STATE_HOME = ${home} }
${prompt === undefined ? '' : `prompt = ${JSON.stringify(prompt)}`}
${more}
`;
  }

  async agent(name, prompt, { folder = this.work, more = '' } = {}) {
    mkdirSync(folder, { recursive: true });
    return (await this.ok('POST', 'agents', { definition: this.definition(name, prompt, more), name, folder })).id;
  }

  /** Makes a workspace of a project, with an agent in it. */
  async workspace(project, workspace, name, prompt) {
    await this.ok('POST', 'workspaces', { project, name: workspace });
    await this.ok('POST', `workspaces/${project}/${encodeURIComponent(workspace)}/agents`, { definition: this.definition(name, prompt), name });
  }

  /** Ends an agent; that is answered when its end is known. */
  async end(agent) {
    await this.ok('POST', `agents/${agent}/dismiss`, {});
  }

  tell(agent, message) {
    return this.ok('POST', `agents/${agent}/agent/nudge`, { message, when: 'idle', wait: true });
  }

  write(path, text) {
    writeFileSync(join(this.work, path), text);
  }

  /** Ends all that was started here, also sidecars that an earlier daemon left. */
  async close() {
    for (const child of this.processes) child.kill('SIGKILL');
    const agents = join(this.home, 's', 'agents');
    let names = [];
    try {
      names = readdirSync(agents);
    } catch {
      // There were none.
    }
    for (const name of names) {
      try {
        const { pid } = JSON.parse(readFileSync(join(agents, name, 'sidecar.json'), 'utf8'));
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        if (line.includes(this.home)) process.kill(pid, 'SIGKILL');
      } catch {
        // It is gone already.
      }
    }
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

export async function inTime(promise, what, limit = LIMIT) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${limit} ms`)), limit);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

export function browser() {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  // As root, as in a container, the browser has no sandbox of its own. Without 3D the terminal's text is in the document.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-3d-apis', '--disable-dev-shm-usage', ...DISK] });
}

/** Opens the page. Whatever it logs as an error or is refused fails the test that asks for it afterwards. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: 'light', reducedMotion: 'reduce', ...options });
  if (process.env.COOP_WEB_DIST) await fromDisk(context, url, process.env.COOP_WEB_DIST);
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT);
  page.errors = [];
  page.on('pageerror', (error) => page.errors.push(String(error)));
  page.on('console', (message) => {
    const text = message.text();
    // That a server is away is what some tests are about.
    if (message.type() === 'error' && !/Failed to load resource|WebSocket connection|ERR_/.test(text)) page.errors.push(text);
  });
  await page.goto(url);
  return page;
}

/** Takes the page's files from a folder, with the headers of those in the program: for whoever works on the page. */
async function fromDisk(context, url, folder) {
  const types = { html: 'text/html; charset=utf-8', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };
  const { origin } = new URL(url);
  const { headers } = await fetch(origin);
  const policy = headers.get('content-security-policy');
  await context.route(
    (asked) => asked.origin === origin && (asked.pathname === '/' || asked.pathname === '/favicon.svg' || asked.pathname.startsWith('/assets/')),
    (route) => {
      const path = new URL(route.request().url()).pathname;
      const file = path === '/' ? '/index.html' : path;
      const contentType = types[file.split('.').pop()];
      return route.fulfill({ path: join(resolve(ROOT, folder), file), contentType, headers: { 'content-security-policy': policy, 'content-type': contentType } });
    },
  );
}
