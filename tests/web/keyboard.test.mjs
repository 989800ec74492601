// Without a mouse: an ask is answered, a terminal opened, typed into and left. And what a first look at the page costs.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { browser, Lab, LIMIT, open } from './lab.mjs';

const limit = { timeout: 3 * LIMIT };
let lab;
let chromium;

before(async () => {
  lab = new Lab();
  await lab.up();
  chromium = await browser();
});
after(async () => {
  await chromium?.close();
  await lab?.close();
});

/** Presses Tab until this has the focus. */
async function tabTo(page, what) {
  await what.waitFor();
  for (let pressed = 0; pressed < 100; pressed++) {
    if (await what.evaluate((node) => node === document.activeElement)) return;
    await page.keyboard.press('Tab');
  }
  assert.fail(`${what} is not reached by Tab`);
}

test('an ask is answered and a terminal is opened, typed into and left by keys alone', limit, async () => {
  await lab.agent('keys', '[[bash:touch by-keys.txt]] [[text:Then I wait.]]');
  const page = await open(chromium, lab.url);
  const focused = (selector) => page.waitForFunction((selector) => document.activeElement?.matches(selector), selector);
  // What has the focus can be seen.
  await page.locator('.ask').waitFor();
  await page.keyboard.press('Tab');
  await focused('.skip');
  await page.keyboard.press('Enter');
  await focused('main');
  await tabTo(page, page.locator('.ask').getByRole('button', { name: 'Yes', exact: true }));
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'none');
  // A card that has just appeared takes no answer yet.
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-disabled') !== 'true');
  await page.keyboard.press('Enter');
  await page.locator('.closed li', { hasText: 'keys' }).waitFor();
  await page.locator('.sidebar .agent', { hasText: 'keys' }).filter({ hasText: 'idle' }).waitFor();
  assert.equal(existsSync(join(lab.work, 'by-keys.txt')), true);

  await tabTo(page, page.locator('.sidebar .agent', { hasText: 'keys' }));
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'keys' }).waitFor();
  await tabTo(page, page.getByRole('tab', { name: 'Timeline' }));
  await page.keyboard.press('ArrowRight');
  await page.locator('.room[data-link=live] .xterm-screen').waitFor();
  await focused('#tab-terminal');
  // Who only watches goes through it.
  const take = page.getByRole('button', { name: 'Take control' });
  await tabTo(page, page.locator('.xterm-helper-textarea'));
  await page.keyboard.press('Tab');
  await page.waitForFunction(() => !document.activeElement?.closest('.xterm'));
  await tabTo(page, take);
  await page.keyboard.press('Enter');
  await page.locator('.room[data-held=true]').waitFor();
  await focused('.xterm-helper-textarea');
  await page.keyboard.type('[[text:Typed by hand.]]');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.xterm-rows').textContent.includes('Typed by hand.'));
  // Tab is the agent's now; there is another way out, and what is pressed then is no letter for the agent.
  await page.keyboard.press('Tab');
  await focused('.xterm-helper-textarea');
  await page.keyboard.press('Control+Shift+Period');
  await page.locator('.room[data-held=false]').waitFor();
  await page.waitForFunction(() => document.activeElement?.textContent === 'Take control');
  await page.keyboard.press('i');
  await page.getByRole('heading', { name: /Inbox/ }).waitFor();
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('a first look costs less than 200 KB, without the terminal', { ...limit, skip: process.env.COOP_WEB_DIST && 'files from the disk are not packed' }, async () => {
  const page = await open(chromium, 'about:blank');
  const loaded = [];
  page.on('requestfinished', (request) => loaded.push(request));
  await page.goto(lab.url);
  await page.getByRole('heading', { name: /Inbox/ }).waitFor();
  const files = loaded.filter((request) => !new URL(request.url()).pathname.startsWith('/api/'));
  const sizes = await Promise.all(files.map(async (request) => (await request.sizes()).responseBodySize));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  assert.ok(files.length >= 3 && total > 20_000 && total < 200 * 1024, `${total} bytes in ${files.length} files`);
  const names = files.map((request) => new URL(request.url()).pathname).join(' ');
  assert.equal(/xterm|TerminalTab|ReplayTab|UsageTab/.test(names), false, names);
  await page.context().close();
});
