// Every view in both themes and on a phone: pictures to look at, nothing that overflows, nothing axe objects to.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { browser, Lab, LIMIT, open, SHOTS } from './lab.mjs';
import { tell } from './story.mjs';

const limit = { timeout: 4 * LIMIT };
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
let lab;
let chromium;

before(async () => {
  lab = new Lab();
  await tell(lab);
  chromium = await browser();
});
after(async () => {
  await chromium?.close();
  await lab?.close();
});

/** Fails if axe finds something, or if the page is wider than its window. */
async function isFine(page, where) {
  // Scripts from outside may not run in the page; the debugger's may.
  await page.evaluate(AXE);
  const violations = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { rules: { 'color-contrast': { enabled: true } } });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 120)} ${node.failureSummary}`).join(' | ')}`);
  });
  assert.deepEqual(violations, [], where);
  const wide = await page.evaluate(() => {
    const over = document.documentElement.scrollWidth - innerWidth;
    // What is cut off without a way to see it: text that leaves its box where nothing scrolls or ends in an ellipsis.
    const cut = [...document.querySelectorAll('main *:not(.xterm *), .sidebar *')].filter((node) => {
      const style = getComputedStyle(node);
      return node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0 && style.overflowX === 'visible' && style.display !== 'inline' && node.getBoundingClientRect().right > innerWidth + 1;
    });
    return { over, cut: cut.slice(0, 3).map((node) => node.outerHTML.slice(0, 160)) };
  });
  assert.deepEqual(wide, { over: 0, cut: [] }, where);
}

const VIEWS = [
  ['inbox', '#/', '.ask .diff'],
  ['answered', '#/', '.closed li'],
  ['timeline', '#/agents/parser/timeline', '.here .ask'],
  ['working', '#/agents/painter/timeline', '.pill.working'],
  ['failed', '#/agents/failing/timeline', '.item.is-fault'],
  ['terminal', '#/agents/parser/terminal', '.room[data-link=live] .xterm-screen'],
  ['replay', '#/agents/parser/replay', '.scrubber .bar'],
  ['run', '#/agents/fixer/replay/1', '.scrubber .bar'],
  ['history', '#/history', '.runs .run'],
  ['state', '#/agents/parser/state', '.band .bar'],
  ['usage', '#/agents/parser/usage', '.charts canvas'],
  ['files', '#/agents/parser/files', '.diff .line.add'],
];

const DEVICES = [
  ['desk', { width: 1280, height: 800 }],
  ['phone', { width: 390, height: 844 }],
];

for (const [device, viewport] of DEVICES) {
  for (const colorScheme of ['light', 'dark']) {
    test(`every view on a ${device}, ${colorScheme}`, limit, async () => {
      const page = await open(chromium, lab.url, { viewport, colorScheme, hasTouch: device === 'phone', isMobile: device === 'phone' });
      for (const [name, hash, ready] of VIEWS) {
        await page.goto(`${lab.url}/${hash}`);
        await page.locator(ready).first().waitFor();
        if (name === 'replay' || name === 'run') {
          // Where something is on the screen; it is drawn a moment later.
          await page.keyboard.press('End');
          const last = name === 'replay' ? 'Esc to cancel' : 'Worked for';
          await page.waitForFunction((last) => document.querySelector('.room').innerText.includes(last), last);
        }
        if (name === 'answered') await page.locator('.closed').scrollIntoViewIfNeeded();
        await page.evaluate(() => document.fonts.ready);
        await page.screenshot({ path: join(SHOTS, `${name}-${device}-${colorScheme}.png`) });
        await isFine(page, `${name} ${device} ${colorScheme}`);
      }
      await page.goto(`${lab.url}/#/`);
      if (device === 'phone') {
        await page.getByRole('button', { name: 'Agents' }).click();
        await page.locator('.drawer .sidebar .agent').first().waitFor();
        await page.screenshot({ path: join(SHOTS, `drawer-${device}-${colorScheme}.png`) });
        await isFine(page, `drawer ${device} ${colorScheme}`);
        await page.locator('.sidebar .agent', { hasText: 'parser' }).click();
        await page.getByRole('heading', { name: 'parser' }).waitFor();
        await page.goto(`${lab.url}/#/`);
      }
      // On a phone, too: it may have a keyboard.
      for (const [name, key] of [['help', '?'], ['spawn', 'n']]) {
        await page.keyboard.press(key);
        await page.getByRole('dialog').waitFor();
        await page.screenshot({ path: join(SHOTS, `${name}-${device}-${colorScheme}.png`) });
        await isFine(page, `${name} ${device} ${colorScheme}`);
        await page.keyboard.press('Escape');
        await page.getByRole('dialog').waitFor({ state: 'detached' });
      }
      assert.deepEqual(page.errors, []);
      await page.context().close();
    });
  }
}

test('logging in, and a connection that is lost, look right everywhere', limit, async () => {
  const one = new Lab();
  const token = 'a-token-of-this-test';
  try {
    await one.up(token);
    const pages = [];
    for (const [device, viewport] of DEVICES) {
      for (const colorScheme of ['light', 'dark']) {
        const page = await open(chromium, one.url, { viewport, colorScheme });
        const look = async (name) => {
          await page.screenshot({ path: join(SHOTS, `${name}-${device}-${colorScheme}.png`) });
          await isFine(page, `${name} ${device} ${colorScheme}`);
        };
        await page.getByLabel('Token').fill('wrong');
        await page.getByRole('button', { name: 'Log in' }).click();
        await page.getByRole('alert').waitFor();
        await look('login');
        await page.getByLabel('Token').fill(token);
        await page.getByRole('button', { name: 'Log in' }).click();
        await page.getByRole('heading', { name: /Inbox/ }).waitFor();
        await look('empty');
        pages.push([page, look]);
      }
    }
    await one.kill();
    for (const [page, look] of pages) {
      await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor();
      await look('lost');
      await page.context().close();
    }
  } finally {
    await one.close();
  }
});

test('the theme can be chosen, and stays', limit, async () => {
  const page = await open(chromium, lab.url);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByRole('button', { name: 'Theme: system' }).click();
  await page.getByRole('button', { name: 'Theme: light' }).click();
  await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
  assert.notEqual(await ground(), light);
  await page.reload();
  await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
  assert.notEqual(await ground(), light);
  await page.context().close();
});
