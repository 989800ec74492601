// Runs cases through our screen: the `show` example of coop-term.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** Returns what our screen shows for every case, or why it shows nothing. */
export async function shownByUs(path, cases) {
  const child = spawn(path, { stdio: ['pipe', 'pipe', 'inherit'] });
  const failed = new Promise((_, reject) => child.on('error', reject));
  // A screen that panics closes its input while we still write to it; the missing answers tell.
  child.stdin.on('error', () => {});
  for (const one of cases) child.stdin.write(`${JSON.stringify(asked(one))}\n`);
  child.stdin.end();

  const shown = [];
  const answers = (async () => {
    for await (const line of createInterface({ input: child.stdout })) shown.push(JSON.parse(line));
  })();
  await Promise.race([answers, failed]);
  return cases.map((_, index) => {
    if (index < shown.length) return shown[index];
    return { error: index === shown.length ? 'our screen gave up here' : 'not run: our screen gave up earlier' };
  });
}

function asked({ cols, rows, steps }) {
  return { cols, rows, steps: steps.map((step) => (step.feed ? { feed: step.feed.toString('base64') } : step)) };
}
