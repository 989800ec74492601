// Runs real programs under a terminal, records what they write and makes cases of it: one for every step of theirs.

import { spawnSync } from 'node:child_process';
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SIZE = { cols: 80, rows: 24 };
const LIMIT_SECONDS = 30;
const SAMPLE = 'sample.txt';
const CTRL_B = '\x02';
const F10 = '\x1b[21~';
const TMUX = ['tmux', '-L', 'compare'];
const TMUX_CONFIG = 'tmux.conf';
/** Keys that come at once would be a paste to tmux, and its shells would be login shells. */
const TMUX_OPTIONS = 'set -g assume-paste-time 0\nset -g default-command sh\n';

/** Vim echoes what is typed, so a mark must look different when it is done than when it is typed. */
const mark = (word) => `:echo '${word[0]}'.'${word.slice(1)}'\r`;

const PROGRAMS = [
  {
    name: 'vim',
    argv: ['vim', '--clean', '-n', SAMPLE],
    script: [
      { expect: `"${SAMPLE}"`, send: `Gotyped 漢字 😀 e\u0301 here\x1b${mark('inserted')}` },
      { expect: 'inserted', send: `:set number list\r:syntax on\rgg10dd5j3>>${mark('edited')}` },
      { expect: 'edited', send: `:vsplit\r:split\r\x06${mark('divided')}` },
      { expect: 'divided', send: `\x17l:set nowrap\r20zl\x04\x04\x15${mark('scrolled')}` },
      { expect: 'scrolled', send: `:only\rggVGJ:set wrap\r0${mark('joined')}` },
      { expect: 'joined', send: ':qa!\r' },
    ],
  },
  {
    name: 'less',
    argv: ['less', '-N', SAMPLE],
    script: [
      { expect: SAMPLE, send: ' ' },
      { expect: 'line 30', send: '/line 77\r' },
      { expect: 'line 77', send: 'kkkkjj' },
      { expect: 'line 75', send: 'G' },
      { expect: '(END)', send: '-S\r' },
      { expect: 'Chop long lines', send: '\r\x1b[C\x1b[Dg' },
      { expect: 'line 1 ', send: 'q' },
    ],
  },
  {
    name: 'htop',
    argv: ['htop'],
    script: [
      { expect: 'F10', send: 't' },
      { expect: 'List', send: 'h' },
      { expect: 'strace', send: '\r' },
      { expect: 'Quit', send: 'S' },
      { expect: 'Done', send: F10 },
      { expect: 'Quit', send: 'q' },
    ],
  },
  {
    name: 'tmux',
    argv: [...TMUX, '-f', TMUX_CONFIG, 'new-session'],
    cleanup: [...TMUX, 'kill-server'],
    script: [
      { expect: 'ready>', send: `${CTRL_B}%` },
      { expect: 'ready>', send: `${CTRL_B}"` },
      { expect: 'ready>', send: `cat ${SAMPLE}\r` },
      { expect: 'line 100', send: `${CTRL_B}[\x1b[5~` },
      { expect: '[', send: `q${CTRL_B}z` },
      { expect: 'line 100', send: `${CTRL_B}c` },
      { expect: 'ready>', send: `printf '\\033[?1049h\\033[5;5H漢字\\n'\r` },
      { expect: 'ready>', send: 'tmux kill-server\r' },
    ],
  },
];

/** Returns the cases, the programs that are not installed, and those that did not do what they were told. */
export function liveCases(filter) {
  const found = { cases: [], missing: [], broken: [] };
  for (const program of PROGRAMS) {
    const name = `live: ${program.name}`;
    if (!name.includes(filter) && !filter.startsWith(name)) continue;
    if (![program.argv[0], 'python3'].every(isInstalled)) {
      found.missing.push(name);
      continue;
    }
    const { chunks, error } = recorded(program);
    if (error) found.broken.push({ name, error });
    else found.cases.push(...casesOf(name, chunks));
  }
  return found;
}

function casesOf(name, chunks) {
  const bytes = chunks.map((chunk) => Buffer.from(chunk, 'base64'));
  return bytes.map((_, index) => ({
    name: `${name}, step ${index + 1} of ${bytes.length}`,
    ...SIZE,
    steps: [{ feed: Buffer.concat(bytes.slice(0, index + 1)) }],
  }));
}

function recorded({ argv, script, cleanup }) {
  const home = mkdtempSync(join(tmpdir(), 'xterm-live-'));
  const env = {
    HOME: home,
    LANG: 'C.UTF-8',
    LESSHISTFILE: '-',
    PATH: process.env.PATH,
    PS1: 'ready> ',
    SHELL: '/bin/sh',
    TERM: 'xterm-256color',
    TMUX_TMPDIR: home,
  };
  try {
    writeFileSync(join(home, SAMPLE), sample());
    writeFileSync(join(home, TMUX_CONFIG), TMUX_OPTIONS);
    const order = { argv, env, cwd: home, ...SIZE, limit: LIMIT_SECONDS, script };
    const helper = fileURLToPath(new URL('record.py', import.meta.url));
    const done = spawnSync('python3', [helper], { input: JSON.stringify(order), timeout: 2000 * LIMIT_SECONDS });
    if (done.error || done.status !== 0) return { error: `record.py failed: ${done.error ?? done.stderr}` };
    return JSON.parse(done.stdout);
  } finally {
    if (cleanup) spawnSync(cleanup[0], cleanup.slice(1), { env });
    rmSync(home, { recursive: true, force: true });
  }
}

/** A text with short and long lines, wide characters, marks and tabs. */
function sample() {
  const tails = ['', 'äöü 漢字かな', '\ttab\tbed', `long ${'word '.repeat(30)}`, 'e\u0301 👍🏽 ❤\ufe0f שלום'];
  return Array.from({ length: 100 }, (_, index) => `line ${index + 1} ${tails[index % tails.length]}\n`).join('');
}

function isInstalled(program) {
  return process.env.PATH.split(delimiter).some((directory) => {
    try {
      accessSync(join(directory, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
