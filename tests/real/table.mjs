// Prints the cases of a run as a table: agent and runtime down, cases across, milliseconds from cause to state in between.
// Every cell is there or has a reason; one that is missing fails the run.
//
//   node tests/real/table.mjs cases.tsv

import { readFileSync } from 'node:fs';

const CASES = [
  'idle', 'working', 'permission denied', 'permission allowed', 'question', 'interrupt', 'error and recovery', 'resume', 'exit',
];
/** Other words for the same case. */
const ALSO = { 'API error and recovery': 'error and recovery', 'shutdown leaves no process': 'exit' };
const ROWS = [
  'claude pty', 'claude pipe', 'codex pty', 'codex pipe', 'opencode pty', 'opencode server', 'opencode acp', 'gemini pty', 'gemini acp',
];
/** Cells that cannot be, and why. */
const NONE = {
  'opencode acp|question': 'ACP 1 has no questions',
  'gemini acp|question': 'ACP 1 has no questions',
};

const times = new Map();
for (const line of readFileSync(process.argv[2], 'utf8').split('\n')) {
  const [agent, runtime, name, ms] = line.split('\t');
  if (!ms || /\bsim\b/.test(agent)) continue;
  times.set(`${agent} ${runtime}|${ALSO[name] ?? name}`, ms);
}
const cell = (row, name) => (NONE[`${row}|${name}`] ? '–' : times.get(`${row}|${name}`) ?? 'MISSING');
const rows = [...new Set([...ROWS, ...[...times.keys()].map((key) => key.split('|')[0])])];
const table = [['', ...CASES], ...rows.map((row) => [row, ...CASES.map((name) => cell(row, name))])];
const widths = table[0].map((_, column) => Math.max(...table.map((row) => row[column].length)));
for (const row of table) console.log(row.map((text, column) => text.padEnd(widths[column])).join('  ').trimEnd());
const others = [...times].filter(([key]) => !CASES.includes(key.split('|')[1]));
for (const [key, ms] of others) console.log(`   ${key.replace('|', ', ')}: ${ms}${/^\d+$/.test(ms) ? ' ms' : ''}`);
for (const [key, why] of Object.entries(NONE)) console.log(`–  ${key.replace('|', ', ')}: ${why}`);
const missing = table.slice(1).flatMap((row) => (row.includes('MISSING') ? [row[0]] : []));
if (missing.length > 0) {
  console.error(`cells are missing for ${missing.join(', ')}`);
  process.exitCode = 1;
}
