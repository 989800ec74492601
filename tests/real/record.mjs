// Runs the real agents in coop, lets each answer one prompt and writes down what it drew.
//
//   node record.mjs --coop PATH --out DIR [--only NAME]

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { AGENTS } from './agents.mjs';
import { SHOWN, startModel } from './model.mjs';
import { drawn, Sidecar } from './sidecar.mjs';

const SIZE = { cols: 120, rows: 40 };
const PROMPT = 'What is the answer?';
const SCREEN_LIMIT = 120_000;
const EXIT_LIMIT = 20_000;
/** Gemini takes an Enter that comes right after a paste for a part of it. */
const PASTE_PAUSE = 200;

const { values: options } = parseArgs({
  options: { coop: { type: 'string' }, out: { type: 'string' }, only: { type: 'string' } },
});
const agents = AGENTS.filter(({ name }) => [undefined, name].includes(options.only));
if (!options.coop || !options.out || agents.length === 0) {
  console.error('usage: node record.mjs --coop PATH --out DIR [--only NAME], see README.md');
  process.exit(2);
}

const tally = { passed: 0, failed: 0 };
mkdirSync(options.out, { recursive: true });
for (const agent of agents) await record(agent);
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exitCode = tally.failed > 0 ? 1 : 0;

async function record(agent) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `coop-real-${agent.name}-`)));
  const model = await startModel();
  const check = checker(agent.name);
  try {
    const sidecar = await check('starts', () => start(agent, folder, model.url));
    if (!sidecar) return;
    const isReady = await check('shows its prompt', () => prompt(sidecar, agent));
    if (isReady && await check('answers', () => answer(sidecar))) {
      await check('is recorded', () => save(sidecar, agent));
    }
    await check('exits with coop', () => end(sidecar));
    await check('leaves no process', () => gone(folder));
    await check('asks for nothing outside', () => assertNone(model.outside, 'it wanted'));
  } finally {
    model.stop();
    for (const { pid } of processesOf(folder)) process.kill(pid, 'SIGKILL');
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

function start(agent, folder, url) {
  const [home, work, tmp] = ['home', 'work', 'tmp'].map((name) => join(folder, name));
  for (const path of [home, work, tmp]) mkdirSync(path);
  const { argv, env } = agent.prepare({ home, work, url });
  return Sidecar.start(resolve(options.coop), argv, { ...SIZE, cwd: work, env: { ...environment(home, tmp, url), ...env } });
}

/** Everything the agent knows of this machine. */
function environment(home, tmp, url) {
  return {
    HOME: home,
    LANG: 'C.UTF-8',
    PATH: `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
    SHELL: '/bin/sh',
    TERM: 'xterm-256color',
    // Codex wants its home elsewhere than among temporary files.
    TMPDIR: tmp,
    XDG_RUNTIME_DIR: tmp,
    HTTP_PROXY: url,
    HTTPS_PROXY: url,
    NO_PROXY: '127.0.0.1,localhost',
  };
}

function prompt(sidecar, agent) {
  const isShown = ({ lines }) => agent.prompt.test(lines.join('\n'));
  return sidecar.until(isShown, 'no prompt', SCREEN_LIMIT);
}

async function answer(sidecar) {
  await sidecar.paste(PROMPT);
  await sidecar.until(shows(PROMPT), 'the text pasted did not show', SCREEN_LIMIT);
  await sleep(PASTE_PAUSE);
  await sidecar.press('Enter');
  return sidecar.until(shows(SHOWN), 'no answer', SCREEN_LIMIT);
}

function shows(text) {
  return ({ lines }) => lines.some((line) => line.includes(text));
}

async function save(sidecar, { name }) {
  const bytes = await sidecar.output();
  if (process.env.TRACE) console.error(drawn(await sidecar.until(() => true)));
  writeFileSync(join(options.out, `${name}.${SIZE.cols}x${SIZE.rows}.raw`), bytes);
  return `${bytes.length} bytes`;
}

async function end(sidecar) {
  try {
    await sidecar.shutDown();
    return await sidecar.exited(EXIT_LIMIT);
  } catch (error) {
    sidecar.kill();
    throw error;
  }
}

async function gone(folder) {
  assertNone(processesOf(folder).map(({ pid, command }) => `${pid} (${command})`), 'still running');
}

/** Returns the processes that have the folder in their environment. */
function processesOf(folder) {
  const read = (pid, file) => readFileSync(`/proc/${pid}/${file}`, 'latin1').replaceAll('\0', ' ');
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      return read(pid, 'environ').includes(folder) ? [{ pid: Number(pid), command: read(pid, 'cmdline') }] : [];
    } catch {
      return []; // It has gone meanwhile.
    }
  });
}

function assertNone(found, what) {
  if (found.length > 0) throw new Error(`${what}: ${found.join(', ')}`);
}

/** Returns a function that takes a step, tells how it went and returns what it gave, or nothing if it failed. */
function checker(name) {
  return async (what, step) => {
    const began = Date.now();
    try {
      const result = await step();
      tally.passed += 1;
      const detail = typeof result === 'string' ? `, ${result}` : '';
      console.log(`ok   ${name} ${what} (${((Date.now() - began) / 1000).toFixed(1)} s${detail})`);
      return result ?? true;
    } catch ({ message }) {
      tally.failed += 1;
      console.log(`FAIL ${name} ${what}: ${message}`);
      return undefined;
    }
  };
}
