// Reads cases: the written ones in cases/*.txt, screens as plain text and raw recordings.
//
// A file of written cases:
//
//   # A comment.
//   == 20x6 the cursor goes home without parameters
//   \e[3;3H
//   x\e[H
//   -- resize 30x8
//   y
//
// The lines of a case are joined without the line ends between them. Escapes: \e \r \n \t \b \a \\, \xHH for one byte,
// \u{H…} for a character. `-- compare replies` also compares what the terminal answered, `-- compare wraps` which rows
// run on in the next. The latter is asked for only where both can agree: xterm.js notes it in the later row, we (and
// xterm) in the earlier one, so that editing either row has another outcome.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const RECORDED_SIZE = { cols: 120, rows: 40 };
/** A long recording is compared at this many places, not only at its end. */
const CUTS = 16;

const CONTROLS = { e: 0x1b, r: 0x0d, n: 0x0a, t: 0x09, b: 0x08, a: 0x07, '\\': 0x5c };

export function writtenCases() {
  const directory = new URL('cases/', import.meta.url);
  const files = readdirSync(directory).filter((file) => file.endsWith('.txt')).sort();
  const cases = files.flatMap((file) => parseCases(file, readFileSync(new URL(file, directory), 'utf8')));
  const seen = new Set();
  for (const { name } of cases) {
    if (seen.has(name)) throw new Error(`two cases are called "${name}"`);
    seen.add(name);
  }
  return cases;
}

/** Returns the plain-text screens, one directory deep, as if a program had printed them. */
export function recordedCases(directory) {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true })
    .filter((file) => /^[^/]+\/B[^/]*\.txt$/.test(file))
    .sort()
    .map((file) => {
      const text = readFileSync(join(directory, file), 'utf8').replaceAll(/\r?\n/g, '\r\n');
      const steps = [{ feed: Buffer.from(text) }];
      return { name: `recording: ${file}`, ...RECORDED_SIZE, steps, comparesWraps: true };
    });
}

/** Returns `name.120x40.raw` recordings, each compared at several places. */
export function rawCases(directory) {
  if (!existsSync(directory)) return [];
  return readdirSync(directory).sort().flatMap((file) => {
    const size = /\.(\d+)x(\d+)\.raw$/.exec(file);
    if (!size) return [];
    const bytes = readFileSync(join(directory, file));
    return prefixes(`raw: ${file}`, { cols: Number(size[1]), rows: Number(size[2]) }, bytes);
  });
}

function prefixes(name, size, bytes) {
  const ends = Array.from({ length: CUTS }, (_, cut) => Math.ceil((bytes.length * (cut + 1)) / CUTS));
  return [...new Set(ends)].map((end) => ({
    name: end === bytes.length ? name : `${name} up to byte ${end}`,
    ...size,
    steps: [{ feed: bytes.subarray(0, end) }],
  }));
}

function parseCases(file, text) {
  const cases = [];
  for (const [index, line] of text.split('\n').entries()) {
    const wrong = (what) => new Error(`cases/${file}:${index + 1}: ${what}`);
    if (line === '' || line.startsWith('# ')) continue;
    if (line.startsWith('== ')) {
      cases.push(headed(file, line, wrong));
      continue;
    }
    const current = cases.at(-1);
    if (!current) throw wrong('input before the first case');
    if (line.startsWith('-- ')) direct(current, line, wrong);
    else feed(current, unescape(line, wrong));
  }
  return cases;
}

function headed(file, line, wrong) {
  const match = /^== (\d+)x(\d+) (.+)$/.exec(line);
  if (!match) throw wrong('expected "== COLSxROWS name"');
  const name = `${file.replace(/\.txt$/, '')}: ${match[3]}`;
  return { name, cols: Number(match[1]), rows: Number(match[2]), steps: [] };
}

function direct(current, line, wrong) {
  const size = /^-- resize (\d+)x(\d+)$/.exec(line);
  if (size) current.steps.push({ resize: [Number(size[1]), Number(size[2])] });
  else if (line === '-- compare replies') current.comparesReplies = true;
  else if (line === '-- compare wraps') current.comparesWraps = true;
  else throw wrong(`unknown directive "${line}"`);
}

function feed(current, bytes) {
  const last = current.steps.at(-1);
  if (last?.feed) last.feed = Buffer.concat([last.feed, bytes]);
  else current.steps.push({ feed: bytes });
}

function unescape(line, wrong) {
  const pieces = line.match(/\\x[0-9a-fA-F]{2}|\\u\{[0-9a-fA-F]+\}|\\.|[^\\]+|\\$/gu) ?? [];
  return Buffer.concat(pieces.map((piece) => {
    if (!piece.startsWith('\\')) return Buffer.from(piece);
    if (piece.startsWith('\\x') && piece.length === 4) return Buffer.from([parseInt(piece.slice(2), 16)]);
    if (piece.startsWith('\\u{')) return Buffer.from(String.fromCodePoint(parseInt(piece.slice(3, -1), 16)));
    const control = CONTROLS[piece[1]];
    if (control === undefined) throw wrong(`unknown escape "${piece}"`);
    return Buffer.from([control]);
  }));
}
