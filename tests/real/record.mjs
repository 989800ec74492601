// Runs the real agents in coop, has each answer a prompt, and keeps what it wrote to its terminal.
//
//   node record.mjs --coop PATH --out DIR [--only NAME] [--sandbox]

import { appendFileSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { AGENTS } from './agents.mjs';
import { SHOWN, startModel } from './model.mjs';
import { killAll, processesOf } from './processes.mjs';
import { Sidecar } from './sidecar.mjs';

const SIZE = { cols: 120, rows: 40 };
const PROMPT = 'What is the answer?';
const SCREEN_LIMIT = 120_000;
/** Twice the time after which coop kills what does not end. */
const EXIT_LIMIT = 60_000;
const GONE_LIMIT = 60_000;
/** Gemini takes an Enter that comes right after a paste for a part of it. */
const PASTE_PAUSE = 200;
/** Longer than any agent lets pass between two frames while it works. */
const QUIET = 1000;

const { values: options } = parseArgs({
  options: { coop: { type: 'string' }, out: { type: 'string' }, only: { type: 'string' }, sandbox: { type: 'boolean' } },
});
const agents = AGENTS.filter(({ name }) => [undefined, name].includes(options.only));
if (!options.coop || !options.out || agents.length === 0) {
  console.error('usage: node record.mjs --coop PATH --out DIR [--only NAME] [--sandbox], see README.md');
  process.exit(2);
}
if (options.sandbox && ['/tmp/', '/var/tmp/'].some((folder) => resolve(options.out).startsWith(folder))) {
  console.log('the repository is in a folder for temporary files, and a sandbox hides those');
  if (process.env.COOP_SKIPS) appendFileSync(process.env.COOP_SKIPS, 'record.mjs --sandbox\tthe repository is among temporary files\n');
  process.exit(0);
}
// What runs is ended when this process exits, so it must not just die.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

const tally = { passed: 0, failed: 0 };
mkdirSync(options.out, { recursive: true });
for (const agent of agents) await record(agent);
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exitCode = tally.failed > 0 ? 1 : 0;

async function record(agent) {
  // An agent in a sandbox has a folder for temporary files of its own, so nothing of its may be in that of this machine.
  const parent = options.sandbox ? resolve(options.out) : tmpdir();
  const folder = realpathSync(mkdtempSync(join(parent, `coop-real-${agent.name}-`)));
  const file = join(options.out, `${agent.name}.${SIZE.cols}x${SIZE.rows}.raw`);
  const model = await startModel();
  const check = checker(agent.name);
  rmSync(file, { force: true });
  try {
    const sidecar = await check('starts', () => start(agent, folder, model.url));
    if (!sidecar) return;
    await check('answers a prompt', () => converse(sidecar, agent));
    await check('is recorded', () => save(sidecar, file));
    await check('ends with coop', () => sidecar.shutDown(EXIT_LIMIT));
    await check('leaves no process', () => assertGone(folder));
  } finally {
    model.stop();
    killAll(processesOf(folder));
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
  const refused = [...model.refused].join(', ');
  if (refused) console.log(`note: ${agent.name} asked for ${refused} and was refused`);
}

function start(agent, folder, url) {
  const [home, work, tmp] = ['home', 'work', 'tmp'].map((name) => join(folder, name));
  for (const path of [home, work, tmp]) mkdirSync(path);
  const { argv, env } = agent.prepare({ home, work, url });
  const all = { ...environment({ home, tmp, url }), ...env };
  const flags = options.sandbox ? ['--sandbox'] : [];
  return Sidecar.start(resolve(options.coop), argv, { ...SIZE, cwd: work, env: all, flags });
}

/** Returns all an agent is told of this machine. */
function environment({ home, tmp, url }) {
  const bubblewrap = process.env.COOP_BUBBLEWRAP;
  return {
    ...(bubblewrap && { COOP_BUBBLEWRAP: bubblewrap }),
    HOME: home,
    LANG: 'C.UTF-8',
    PATH: `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
    SHELL: '/bin/sh',
    TERM: 'xterm-256color',
    // Codex does not like a home among the temporary files.
    TMPDIR: options.sandbox ? '/tmp' : tmp,
    XDG_RUNTIME_DIR: tmp,
    HTTP_PROXY: url,
    HTTPS_PROXY: url,
    NO_PROXY: '127.0.0.1,localhost',
  };
}

async function converse(sidecar, agent) {
  // Gemini shows its prompt before it knows a paste from typed keys.
  const isReady = ({ lines, modes }) => modes.bracketed_paste && agent.prompt.test(lines.join('\n'));
  await sidecar.until(isReady, 'it did not ask for a prompt', SCREEN_LIMIT);
  await sidecar.paste(PROMPT);
  await sidecar.until(shows(PROMPT), 'it did not show what was pasted', SCREEN_LIMIT);
  await sleep(PASTE_PAUSE);
  await sidecar.press('Enter');
  await sidecar.until(shows(SHOWN), 'it did not show the answer', SCREEN_LIMIT);
  await sidecar.until(quiet(), 'it did not come to rest', SCREEN_LIMIT);
}

function shows(text) {
  return ({ lines }) => lines.some((line) => line.includes(text));
}

/** Returns a test that holds once nothing was written for a while, so that the end of the turn is recorded too. */
function quiet() {
  let last = { offset: -1, at: 0 };
  return ({ offset }) => {
    if (offset !== last.offset) last = { offset, at: Date.now() };
    return Date.now() - last.at >= QUIET;
  };
}

async function save(sidecar, file) {
  const bytes = await sidecar.output();
  writeFileSync(file, bytes);
  return `${bytes.length} bytes`;
}

/** Waits until no process is left. One that was killed may take a moment to go. */
async function assertGone(folder) {
  const until = Date.now() + GONE_LIMIT;
  while (processesOf(folder).length > 0 && Date.now() < until) await sleep(20);
  const left = processesOf(folder).map(({ pid, command }) => `${pid} ${command}`);
  if (left.length > 0) throw new Error(left.join(', '));
}

/** Returns a function that takes a step, tells how it went, and returns what it gave; nothing if it failed. */
function checker(name) {
  return async (what, step) => {
    const began = Date.now();
    try {
      const result = await step();
      tally.passed += 1;
      const seconds = ((Date.now() - began) / 1000).toFixed(1);
      console.log(`ok   ${name} ${what} (${seconds} s${typeof result === 'string' ? `, ${result}` : ''})`);
      return result;
    } catch ({ message }) {
      tally.failed += 1;
      console.log(`FAIL ${name} ${what}: ${message}`);
      return undefined;
    }
  };
}
