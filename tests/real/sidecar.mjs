// Runs a command in coop and talks to it over HTTP.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const START_LIMIT = 60_000;
const REQUEST_LIMIT = 60_000;
const POLL_EVERY = 100;
/** Large enough to lose nothing of a recording. */
const RING_SIZE = 8 * 1024 * 1024;

export class Sidecar {
  #child;
  #exit;
  #url;

  /** Starts coop with this environment and nothing else in it. */
  static async start(coop, argv, { cols, rows, env, cwd, flags = [] }) {
    const sidecar = new Sidecar();
    const options = { port: 0, cols, rows, 'ring-size': RING_SIZE, 'log-level': 'off' };
    const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
    sidecar.#run(coop, [...args, ...flags, '--', ...argv], { env, cwd, stdio: ['ignore', 'pipe', 'inherit'] });
    sidecar.#url = await limited(sidecar.#ready(), START_LIMIT, 'coop did not get ready');
    return sidecar;
  }

  /** Polls the screen until the test holds. The error shows the screen. */
  async until(test, otherwise, limit) {
    const end = Date.now() + limit;
    let screen;
    const failed = (why) => new Error(`${why}; the screen:\n${drawn(screen)}`);
    for (;;) {
      screen = await this.#call('screen').catch(({ message }) => { throw failed(message); });
      if (test(screen)) return;
      if (Date.now() > end) throw failed(`${otherwise} within ${limit / 1000} s`);
      await sleep(POLL_EVERY);
    }
  }

  paste(text) {
    return this.#call('input', { text, paste: true });
  }

  press(...keys) {
    return this.#call('input/keys', { keys });
  }

  /** Returns all that the command has written so far. */
  async output() {
    const parts = [];
    for (let offset = 0, total = 1; offset < total;) {
      const part = await this.#call(`output?offset=${offset}`);
      if (part.offset !== offset) throw new Error(`the output from ${offset} to ${part.offset} is gone`);
      parts.push(Buffer.from(part.data, 'base64'));
      [offset, total] = [part.next_offset, part.total_written];
    }
    return Buffer.concat(parts);
  }

  /** Ends command and coop and returns how coop has exited. */
  async shutDown(limit) {
    await this.#call('shutdown', {});
    return limited(this.#exit, limit, 'coop did not exit');
  }

  #run(coop, args, options) {
    const child = spawn(coop, args, options);
    this.#child = child;
    this.#exit = new Promise((resolve) => {
      child.on('error', ({ message }) => resolve(message));
      child.on('exit', (code, signal) => resolve(signal ?? `code ${code}`));
    });
    process.once('exit', () => child.kill());
  }

  async #ready() {
    let url;
    for await (const line of createInterface({ input: this.#child.stdout })) {
      if (line.startsWith('listening http ')) url = line.slice('listening http '.length);
      if (line === 'ready') return url;
    }
    throw new Error(`coop exited early: ${await this.#exit}`);
  }

  /** Posts the body if there is one. */
  async #call(path, body) {
    const headers = { 'content-type': 'application/json' };
    const post = body && { method: 'POST', headers, body: JSON.stringify(body) };
    const request = { ...post, signal: AbortSignal.timeout(REQUEST_LIMIT) };
    const silent = (error) => { throw new Error(`coop does not answer ${path}: ${error.cause ?? error}`); };
    const reply = await fetch(`${this.#url}/api/v1/${path}`, request).catch(silent);
    const text = await reply.text();
    if (!reply.ok) throw new Error(`coop says ${reply.status} to ${path}: ${text}`);
    return JSON.parse(text);
  }
}

function drawn(screen) {
  if (screen === undefined) return '  never seen';
  return [`title: ${screen.title}`, ...screen.lines].map((line) => `  | ${line}`).join('\n');
}

async function limited(promise, limit, otherwise) {
  const timer = new AbortController();
  const late = sleep(limit, undefined, timer).then(() => { throw new Error(`${otherwise} within ${limit / 1000} s`); });
  try {
    return await Promise.race([promise, late]);
  } finally {
    late.catch(() => {});
    timer.abort();
  }
}
