// Runs a command in coop and talks to it over HTTP.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const START_LIMIT = 10_000;
const REQUEST_LIMIT = 10_000;
const POLL_EVERY = 100;
/** The whole recording is wanted, so nothing may be dropped. */
const RING_SIZE = 8 * 1024 * 1024;

export class Sidecar {
  #child;
  #exited;
  #url;

  /** Starts coop with exactly this environment. */
  static async start(coop, argv, { cols, rows, env, cwd }) {
    const sidecar = new Sidecar();
    const options = ['--port', '0', '--cols', cols, '--rows', rows, '--ring-size', RING_SIZE, '--log-level', 'off'];
    sidecar.#child = spawn(coop, [...options.map(String), '--', ...argv], { env, cwd, stdio: ['ignore', 'pipe', 'inherit'] });
    sidecar.#exited = new Promise((resolve) => {
      sidecar.#child.on('error', ({ message }) => resolve(message));
      sidecar.#child.on('exit', (code, signal) => resolve(signal ?? `code ${code}`));
    });
    sidecar.#url = await limited(START_LIMIT, 'coop did not get ready', sidecar.#ready());
    return sidecar;
  }

  /** Polls the screen until the test holds and returns it; what it showed last is in the error. */
  async until(test, what, limit) {
    const end = Date.now() + limit;
    for (;;) {
      const screen = await this.#get('screen');
      if (test(screen)) return screen;
      if (Date.now() > end) throw new Error(`${what} within ${limit / 1000} s; the screen shows:\n${drawn(screen)}`);
      await sleep(POLL_EVERY);
    }
  }

  paste(text) {
    return this.#post('input', { text, paste: true });
  }

  press(...keys) {
    return this.#post('input/keys', { keys });
  }

  /** Returns all the command has written so far. */
  async output() {
    const parts = [];
    for (let offset = 0; ;) {
      const { data, gap, next_offset, total_written } = await this.#get(`output?offset=${offset}`);
      if (gap) throw new Error(`the output from ${gap.from} to ${gap.to} is gone`);
      parts.push(Buffer.from(data, 'base64'));
      if (next_offset === total_written || next_offset === offset) return Buffer.concat(parts);
      offset = next_offset;
    }
  }

  shutDown() {
    return this.#post('shutdown');
  }

  /** Returns how coop has exited. */
  exited(limit) {
    return limited(limit, `coop did not exit within ${limit / 1000} s`, this.#exited);
  }

  kill() {
    this.#child.kill('SIGKILL');
  }

  async #ready() {
    let url;
    for await (const line of createInterface({ input: this.#child.stdout })) {
      if (line.startsWith('listening http ')) url = line.slice('listening http '.length);
      if (line === 'ready') return url;
    }
    throw new Error(`coop exited: ${await this.#exited}`);
  }

  #get(path) {
    return this.#call(path, {});
  }

  #post(path, body) {
    return this.#call(path, { method: 'POST', body: body && JSON.stringify(body), headers: { 'content-type': 'application/json' } });
  }

  async #call(path, request) {
    const reply = await fetch(`${this.#url}/api/v1/${path}`, { ...request, signal: AbortSignal.timeout(REQUEST_LIMIT) })
      .catch(async (error) => { throw new Error(`coop does not answer ${path}: ${error.cause ?? error}`); });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`coop says ${reply.status} to ${path}: ${text}`);
    return JSON.parse(text);
  }
}

export function drawn({ title, lines }) {
  return [`  title: ${title}`, ...lines.map((line) => `  | ${line}`)].join('\n');
}

async function limited(limit, message, promise) {
  const abort = new AbortController();
  const late = sleep(limit, undefined, { signal: abort.signal }).then(() => { throw new Error(message); });
  late.catch(() => {});
  try {
    return await Promise.race([promise, late]);
  } finally {
    abort.abort();
  }
}
