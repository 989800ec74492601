// Runs the same bytes through our screen and through xterm.js and compares what both show.
//
//   node compare.mjs --show PATH [--filter NAME] [--recordings DIR] [--raw DIR] [--verbose]

import { appendFileSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import { rawCases, recordedCases, writtenCases } from './cases.mjs';
import { differences } from './diff.mjs';
import { liveCases } from './live.mjs';
import { shownByUs } from './ours.mjs';
import { shownByReference } from './reference.mjs';

const { values: options } = parseArgs({
  options: {
    show: { type: 'string' },
    filter: { type: 'string', default: '' },
    recordings: { type: 'string' },
    raw: { type: 'string' },
    verbose: { type: 'boolean', default: false },
  },
});
if (!options.show) {
  console.error('usage: node compare.mjs --show PATH [options], see README.md');
  process.exit(2);
}

const accepted = JSON.parse(readFileSync(new URL('differences.json', import.meta.url), 'utf8'));
const tally = { passed: 0, failed: 0 };

const written = writtenCases();
for (const name of Object.keys(accepted)) {
  if (!written.some((one) => one.name === name)) fail(name, ['differences.json names it, but there is no such case']);
}
const cases = [...written, ...optional('recordings', recordedCases), ...optional('raw', rawCases), ...live()]
  .filter((one) => one.name.includes(options.filter));

const ours = await shownByUs(options.show, cases);
for (const [index, one] of cases.entries()) {
  const theirs = await shownByReference(one).catch(({ message }) => ({ error: `xterm.js gave up: ${message}` }));
  judge(one, ours[index], theirs);
}
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exitCode = tally.failed > 0 ? 1 : 0;

/** A difference is a failure unless it is accepted, and so is an accepted one that is gone. */
function judge(one, mine, theirs) {
  const error = mine.error ?? theirs.error;
  if (error) return fail(one.name, [error]);
  const found = differences(one, mine, theirs);
  const reason = accepted[one.name];
  const differs = found.length > 0;
  if (differs && reason === undefined) fail(one.name, found);
  else if (!differs && reason !== undefined) fail(one.name, ['no longer differs: remove it from differences.json']);
  else pass(one.name, found, reason);
}

function pass(name, found, reason) {
  tally.passed += 1;
  if (!options.verbose) return;
  console.log(reason === undefined ? `ok   ${name}` : `ok   ${name} (differs: ${reason})`);
  found.forEach((line) => console.log(`       ${line}`));
}

function fail(name, lines) {
  tally.failed += 1;
  console.log(`FAIL ${name}`);
  lines.forEach((line) => console.log(`       ${line}`));
}

/** Returns the cases from a directory, if one was named; then there must be some. */
function optional(option, load) {
  const directory = options[option];
  if (directory === undefined) return [];
  const found = load(directory);
  if (found.length === 0) fail(`--${option}`, [`nothing to compare in ${directory}`]);
  return found;
}

function live() {
  const { cases: found, missing, broken } = liveCases(options.filter);
  for (const name of missing) {
    console.log(`note: ${name} skipped, not installed`);
    if (process.env.COOP_SKIPS) appendFileSync(process.env.COOP_SKIPS, `test-xterm ${name}\tnot installed\n`);
  }
  broken.forEach(({ name, error }) => fail(name, [error]));
  return found;
}
