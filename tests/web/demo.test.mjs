// What `make run` shows to somebody who has read nothing: the address that is printed leads to what is asked, and a click
// answers it.
import assert from 'node:assert/strict';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, before, test } from 'node:test';

import { browser, COOP, inTime, Lab, LIMIT, open } from './lab.mjs';

const SCRIPT = resolve(dirname(fileURLToPath(import.meta.url)), '../../tools/run.sh');
const limit = { timeout: 4 * LIMIT };
let chromium;

before(async () => {
  chromium = await browser();
});
after(() => chromium?.close());

/** Runs the demo on a terminal, which is a sidecar's, and returns the one address that it prints. */
async function demo(lab) {
  await lab.sidecar({ agent: 'unknown', command: ['env', `TMPDIR=${lab.home}`, SCRIPT, COOP], args: ['--cols', '120', '--rows', '60'] });
  const printed = async () => {
    for (;;) {
      const { json } = await lab.api('GET', 'screen/text');
      const found = /runs at (http:\S+)/.exec(json);
      if (found && json.includes('Ctrl-C here ends')) return found[1];
    }
  };
  return inTime(printed(), 'the demo is up', 3 * LIMIT);
}

for (const [device, viewport] of [
  ['desk', { width: 1280, height: 800 }],
  ['phone', { width: 390, height: 844 }],
]) {
  test(`the address of make run leads to the ask that waits, on a ${device}`, limit, async () => {
    const lab = new Lab();
    try {
      const url = await demo(lab);
      const page = await open(chromium, url, { viewport });
      // In sight without a scroll, with who asks, what for, and a button that says yes.
      const ask = page.locator('.ask');
      const yes = ask.getByRole('button', { name: 'Yes', exact: true });
      await yes.waitFor();
      for (const part of [ask.getByText('tester'), ask.getByText('echo ok > test.txt'), yes]) {
        const box = await part.first().boundingBox();
        assert.ok(box && box.y >= 0 && box.y + box.height <= viewport.height && box.x >= 0 && box.x + box.width <= viewport.width, JSON.stringify(box));
      }
      assert.equal(await page.title(), '(1) coop');
      await yes.click();
      await page.locator('.closed li', { hasText: 'tester' }).waitFor();
      await page.getByText('nothing is asked').waitFor();
      await page.locator('.closed a', { hasText: 'tester' }).click();
      await page.locator('.said', { hasText: 'The test is written.' }).waitFor();
      assert.deepEqual(page.errors, []);
      await page.context().close();
      // Ended as a person would, so that nothing is left.
      const ended = new Promise((done) => lab.main.once('exit', done));
      lab.main.kill('SIGTERM');
      await inTime(ended, 'the demo ends');
    } finally {
      await lab.close();
    }
  });
}
