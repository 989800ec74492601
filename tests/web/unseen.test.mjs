// Nothing is allowed that was not seen: an ask keeps its place and its mark, and all of it has to have been on the screen.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { browser, Lab, LIMIT, open } from './lab.mjs';

const limit = { timeout: 4 * LIMIT };
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
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

const card = (page, agent) => page.locator('.ask', { hasText: agent });
const allow = (page, agent) => card(page, agent).locator('[data-kind=allow_once]');
const isOff = async (button) => (await button.getAttribute('aria-disabled')) === 'true';
const isOn = (page, agent) => card(page, agent).locator('[data-kind=allow_once][aria-disabled=false]').waitFor();

/** Counts the answers that a page sends. */
function answersOf(page) {
  const sent = [];
  page.on('request', (request) => {
    if (request.url().endsWith('/agent/respond')) sent.push(request.postDataJSON());
  });
  return sent;
}

async function isAccessible(page) {
  await page.evaluate(AXE);
  const violations = await page.evaluate(async () => (await globalThis.axe.run(document)).violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`));
  assert.deepEqual(violations, []);
}

test('an ask that arrives between look and key changes nothing', limit, async () => {
  await lab.agent('older', '[[bash:touch older.txt]]');
  const page = await open(chromium, lab.url);
  const sent = answersOf(page);
  await isOn(page, 'older');
  const place = await allow(page, 'older').boundingBox();
  await lab.agent('newer', '[[bash:touch newer.txt]]');
  await card(page, 'newer').waitFor();
  assert.deepEqual(await allow(page, 'older').boundingBox(), place, 'nothing moves under the pointer');
  assert.equal(await page.locator('.ask.selected .who').textContent(), 'older');
  assert.equal(await isOff(allow(page, 'older')), false, 'nor is it kept from being answered');
  await page.keyboard.press('a');
  await page.locator('.closed li', { hasText: 'older' }).waitFor();
  await page.locator('.sidebar .agent', { hasText: 'older' }).filter({ hasText: 'idle' }).waitFor();
  assert.deepEqual([existsSync(join(lab.work, 'older.txt')), existsSync(join(lab.work, 'newer.txt'))], [true, false]);
  assert.equal(sent.length, 1);
  await lab.ok('POST', 'agents/newer/agent/respond', { accept: false });
  await page.context().close();
});

test('an ask that takes the place of another is not answered in its stead', limit, async () => {
  await lab.agent('upper', '[[bash:touch upper.txt]]');
  await lab.agent('lower', '[[bash:touch lower.txt]]');
  const page = await open(chromium, lab.url);
  await page.clock.install();
  await page.reload();
  const sent = answersOf(page);
  await isOn(page, 'upper');
  await isOn(page, 'lower');
  const first = (await page.locator('.ask .who').first().textContent()).trim();
  const second = first === 'upper' ? 'lower' : 'upper';
  assert.equal((await page.locator('.ask.selected .who').textContent()).trim(), first);
  // From here on time stands still in the page, but for what is let pass.
  await page.clock.pauseAt(new Date(Date.now() + 60_000));
  await lab.ok('POST', `agents/${first}/agent/respond`, { accept: false });
  while ((await card(page, first).count()) > 0) await page.clock.runFor(30);
  assert.equal(await page.locator('.ask.selected').count(), 0, 'the next one was not looked at');
  await page.keyboard.press('a');
  assert.equal(await isOff(allow(page, second)), true);
  await page.keyboard.press('j');
  await page.keyboard.press('a');
  await allow(page, second).click({ force: true });
  assert.deepEqual(sent, []);
  await page.clock.runFor(500);
  await isOn(page, second);
  await page.keyboard.press('a');
  while ((await card(page, second).count()) > 0) await page.clock.runFor(30);
  assert.equal(sent.length, 1);
  await page.context().close();
});

const LINES = Array.from({ length: 500 }, (_, at) => `line ${at + 1}`).join('\n');

/** Waits until the lines that were not shown are fewer than this, and returns how many there are: 0 once it can be allowed. */
async function missing(page, agent, most) {
  const note = await card(page, agent).locator('.unread').elementHandle();
  const count = ([note, most]) => {
    const lines = note.classList.contains('read') ? 0 : Number.parseInt(note.textContent.match(/\d+/)?.[0] ?? '', 10);
    return lines < most && { lines };
  };
  return (await (await page.waitForFunction(count, [note, most])).jsonValue()).lines;
}

test('a long input can be allowed once all of it was on the screen, by keys, and not by its end', limit, async () => {
  await lab.agent('long', `[[write:long.txt|${LINES}]] [[text:Written.]]`);
  const page = await open(chromium, lab.url);
  const sent = answersOf(page);
  const button = allow(page, 'long');
  const body = card(page, 'long').locator('.body');
  // A no needs no reading.
  await card(page, 'long').locator('[data-kind=reject][aria-disabled=false]').waitFor();
  // All but the lines on the first page.
  const first = await missing(page, 'long', 500);
  assert.ok(first > 400, `${first}`);
  assert.equal(await isOff(button), true);
  const why = await button.getAttribute('aria-describedby');
  assert.equal(await page.locator(`[id="${why}"]`).textContent(), `${first} lines not shown yet`);
  await isAccessible(page);
  const place = await button.boundingBox();
  await page.keyboard.press('End');
  const between = await missing(page, 'long', first);
  assert.ok(between > 400, `one page more was shown, and not ${first - between} lines`);
  for (const key of ['a', '1']) await page.keyboard.press(key);
  await button.click({ force: true });
  assert.deepEqual([sent, await isOff(button)], [[], true]);
  // The button has the focus, and would take a space as a press.
  await page.getByRole('heading', { name: /Inbox/ }).click();
  await page.keyboard.press('Home');
  assert.equal(await body.evaluate((body) => body.scrollTop), 0);
  let left = between;
  for (const key of ['ArrowDown', 'Space']) {
    await page.keyboard.press(key);
    left = await missing(page, 'long', left);
  }
  while (left > 0) {
    assert.equal(await isOff(button), true);
    await page.keyboard.press('a');
    await page.keyboard.press('PageDown');
    left = await missing(page, 'long', left);
  }
  await isOn(page, 'long');
  assert.deepEqual(sent, []);
  assert.equal(await button.getAttribute('aria-describedby'), null);
  assert.deepEqual(await button.boundingBox(), place, 'it stays where it is');
  await isAccessible(page);
  await page.keyboard.press('a');
  await page.locator('.sidebar .agent', { hasText: 'long' }).filter({ hasText: 'idle' }).waitFor();
  assert.equal(readFileSync(join(lab.work, 'long.txt'), 'utf8').trim(), LINES);
  const { decisions } = await lab.ok('GET', 'audit');
  const { shown } = decisions.find((decision) => decision.agent === 'long');
  assert.deepEqual([shown.surface, shown.whole, shown.characters > LINES.length], ['page', true, true]);
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('a long input can be allowed once all of it was on the screen, on a phone, also beside the timeline', limit, async () => {
  await lab.agent('scrolled', `[[write:scrolled.txt|${LINES}]]`);
  const page = await open(chromium, `${lab.url}/#/agents/scrolled`, { viewport: { width: 390, height: 844 } });
  const button = allow(page, 'scrolled');
  const body = card(page, 'scrolled').locator('.body');
  await card(page, 'scrolled').locator('[data-kind=reject][aria-disabled=false]').waitFor();
  await body.scrollIntoViewIfNeeded();
  let left = await missing(page, 'scrolled', 500);
  // The end first, then what follows the beginning.
  for (const share of [1, 0.01]) {
    await body.evaluate((body, share) => (body.scrollTop = body.scrollHeight * share), share);
    left = await missing(page, 'scrolled', left);
    assert.ok(left > 400, `${left}`);
    assert.equal(await isOff(button), true);
  }
  while (left > 0) {
    await card(page, 'scrolled').getByRole('button', { name: 'Next lines' }).click();
    left = await missing(page, 'scrolled', left);
  }
  await isOn(page, 'scrolled');
  await button.click();
  await page.locator('.ask').waitFor({ state: 'detached' });
  assert.equal(readFileSync(join(lab.work, 'scrolled.txt'), 'utf8').trim(), LINES);
  await page.context().close();
});

test('a short input cannot be allowed below the window or behind a dialog', limit, async () => {
  await lab.agent('tall', `[[write:tall.txt|${LINES}]]`);
  const page = await open(chromium, lab.url, { viewport: { width: 1280, height: 300 } });
  await card(page, 'tall').waitFor();
  await lab.agent('small', '[[bash:touch small.txt]]');
  // A no comes later than a yes would, if it were in sight.
  const isThere = () => card(page, 'small').locator('[data-kind=reject][aria-disabled=false]').waitFor();
  await isThere();
  assert.equal(await isOff(allow(page, 'small')), true);
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await page.setViewportSize({ width: 1280, height: 1200 });
  await isThere();
  assert.equal(await isOff(allow(page, 'small')), true);
  await page.keyboard.press('Escape');
  await isOn(page, 'small');
  assert.equal(await isOff(allow(page, 'tall')), true);
  for (const agent of ['tall', 'small']) await lab.ok('POST', `agents/${agent}/agent/respond`, { accept: false });
  await page.locator('.ask').waitFor({ state: 'detached' });
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('characters that cannot be seen are named', limit, async () => {
  await lab.agent('turned', '[[bash:touch \u202etxt.exe\u200b]]');
  const page = await open(chromium, lab.url);
  await card(page, 'turned').getByText('touch <U+202E>txt.exe<U+200B>').first().waitFor();
  const hidden = await page.evaluate(() => /[\u202e\u200b]/.test(document.body.textContent));
  assert.equal(hidden, false);
  await page.goto(`${lab.url}/#/agents/turned`);
  await page.locator('.asked .preview', { hasText: '<U+202E>' }).waitFor();
  await page.context().close();
});

test('the state says that an agent never asks, which leaves its rules without effect', limit, async () => {
  const more = '[[policy]]\ntool = "shell"\ndecide = "ask"\nwhy = "a person looks"\n';
  const text = lab.definition('unasked', '[[text:words]]', more).replace('"sim", "claude"]', '"sim", "claude", "--dangerously-skip-permissions"]');
  await lab.ok('POST', 'agents', { definition: text, name: 'unasked', folder: lab.work });
  const page = await open(chromium, lab.url);
  await page.locator('.sidebar .agent', { hasText: 'unasked' }).click();
  await page.getByRole('tab', { name: 'State' }).click();
  await page.locator('.panel.state [role=note]', { hasText: '--dangerously-skip-permissions' }).waitFor();
  await page.context().close();
});

test('the state says whether an agent runs in a sandbox', limit, async () => {
  await lab.agent('walled', '[[text:ready]]');
  const page = await open(chromium, lab.url);
  // Not every machine can make one, so the daemon's word for it is put in here.
  let sandbox = true;
  await page.route('**/api/v1/agents/walled', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), sandbox } });
  });
  await page.goto(`${lab.url}/#/agents/walled/state`);
  await page.locator('.panel.state .hint', { hasText: 'Sandbox: the agent writes only to its folder' }).waitFor();
  sandbox = undefined;
  await page.getByRole('tab', { name: 'Usage' }).click();
  await page.getByRole('tab', { name: 'State' }).click();
  await page.locator('.panel.state .hint', { hasText: 'No sandbox' }).waitFor();
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

const STRANGER = `#!/bin/sh
case "$*" in *--version*) echo stranger 0; exit 0;; esac
printf '\\033[?2004h\\033[?25lA quite new dialog\\r\\n\\r\\n   [ Go on ]   [ Leave ]\\r\\n'
stty raw -echo
dd bs=1 count=4 of=keys 2>/dev/null
printf '\\033[2J\\033[HOn we go.\\r\\n'
exec sleep 1000
`;

test('a screen that coop does not know is answered by keys', limit, async () => {
  const program = join(lab.work, 'claude');
  writeFileSync(program, STRANGER, { mode: 0o755 });
  const definition = `[agents.stranger]\ndriver = "claude"\nkind = "crew"\ncommand = [${JSON.stringify(program)}]\n`;
  await lab.ok('POST', 'agents', { definition, name: 'stranger', folder: lab.work });
  const page = await open(chromium, lab.url);
  const sent = answersOf(page);
  await card(page, 'stranger').getByText('A quite new dialog').waitFor();
  const press = card(page, 'stranger').locator('[data-kind=keys]');
  assert.equal(await press.isDisabled(), true, 'no key is chosen');
  await card(page, 'stranger').getByRole('button', { name: 'Add Right' }).click();
  await card(page, 'stranger').getByLabel('Characters to type').fill('y');
  await isAccessible(page);
  await press.filter({ hasText: '→ y' }).click();
  await card(page, 'stranger').waitFor({ state: 'detached' });
  assert.deepEqual(sent[0].keys, ['Right', 'y']);
  assert.equal(readFileSync(join(lab.work, 'keys'), 'latin1'), '\x1b[Cy');
  assert.deepEqual(page.errors, []);
  await page.context().close();
});
