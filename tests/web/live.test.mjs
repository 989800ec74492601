// The daemon is killed and started again under an open page; a sidecar is too.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { browser, Lab, LIMIT, open } from './lab.mjs';

const limit = { timeout: 3 * LIMIT };
let chromium;

before(async () => {
  chromium = await browser();
});
after(() => chromium?.close());

test('a daemon that is killed and comes back is followed without a reload', limit, async () => {
  const lab = new Lab();
  try {
    await lab.up();
    await lab.agent('stays', '[[bash:touch before.txt]]');
    await lab.agent('rests', '[[text:I rest.]]');
    const page = await open(chromium, lab.url);
    const errors = page.errors;
    await page.locator('.ask', { hasText: 'stays' }).waitFor();
    await page.evaluate(() => (window.sameDocument = true));
    await lab.kill();
    await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor();
    await lab.up();
    await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor({ state: 'detached' });
    // What happens from here on is there once, and what was asked before can be answered.
    await lab.tell('rests', '[[bash:touch later.txt]]');
    await page.locator('.ask', { hasText: 'rests' }).waitFor();
    assert.equal(await page.locator('.ask').count(), 2);
    await page.locator('.ask', { hasText: 'stays' }).getByRole('button', { name: 'Yes', exact: true }).click();
    await page.locator('.sidebar .agent', { hasText: 'stays' }).filter({ hasText: 'idle' }).waitFor();
    assert.equal(existsSync(join(lab.work, 'before.txt')), true);
    await page.locator('.sidebar .agent', { hasText: 'rests' }).click();
    await page.locator('.item.is-prompt').nth(1).waitFor();
    const prompts = await page.locator('.item.is-prompt .bubble').allTextContents();
    assert.equal(prompts.length, 2, `each prompt is there once: ${prompts}`);
    assert.equal(await page.evaluate(() => window.sameDocument), true, 'it was not loaded again');
    assert.deepEqual(errors, []);
    await page.context().close();
  } finally {
    await lab.close();
  }
});

test('one agent in a sidecar has the same page, also after a restart of the sidecar', limit, async () => {
  const lab = new Lab();
  try {
    const sidecar = await lab.sidecar();
    const page = await open(chromium, lab.url);
    await page.locator('.sidebar .agent', { hasText: 'claude' }).filter({ hasText: 'idle' }).click();
    await page.getByLabel('Message to claude').fill('[[bash:touch one.txt]] [[text:Done with one.]]');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.ask').getByRole('button', { name: 'Yes', exact: true }).click();
    await page.locator('.said', { hasText: 'Done with one.' }).waitFor();
    assert.equal(existsSync(join(lab.work, 'one.txt')), true);
    const ended = new Promise((done) => sidecar.once('exit', done));
    sidecar.kill('SIGTERM');
    await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor();
    await ended;
    await lab.sidecar();
    await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor({ state: 'detached' });
    await page.locator('.pill.idle').waitFor();
    await page.getByLabel('Message to claude').fill('[[text:A new one.]]');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.said', { hasText: 'A new one.' }).waitFor();
    assert.equal(await page.locator('.said', { hasText: 'Done with one.' }).count(), 0, 'that was another process');
    assert.deepEqual(page.errors, []);
    await page.context().close();
  } finally {
    await lab.close();
  }
});
