// Asks are answered in the inbox, and the agent's folder shows what came of it.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { browser, Lab, LIMIT, open } from './lab.mjs';

const limit = { timeout: 4 * LIMIT };
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

test('a yes lets the tool run, a no does not, and says who answered', limit, async () => {
  await lab.agent('writer', '[[write:yes.txt|hello]] [[text:Written.]]');
  await lab.agent('denied', '[[write:no.txt|hello]] [[text:Then not.]]');
  const page = await open(chromium, lab.url);
  await card(page, 'writer').getByRole('button', { name: 'Yes', exact: true }).click();
  await page.locator('.closed li', { hasText: 'writer' }).waitFor();
  await page.locator('.sidebar .agent', { hasText: 'writer' }).filter({ hasText: 'idle' }).waitFor();
  assert.equal(readFileSync(join(lab.work, 'yes.txt'), 'utf8').trim(), 'hello');

  const denied = card(page, 'denied');
  await denied.getByLabel('Feedback with a no').fill('not here');
  await denied.getByRole('button', { name: 'Deny with this' }).click();
  await page.locator('.closed li', { hasText: 'denied' }).filter({ hasText: 'not here' }).filter({ hasText: 'by the page' }).waitFor();
  await page.locator('.sidebar .agent', { hasText: 'denied' }).filter({ hasText: 'idle' }).waitFor();
  assert.equal(existsSync(join(lab.work, 'no.txt')), false);
  assert.equal(await page.title(), 'coop');
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('everything can be answered by keys', limit, async () => {
  await lab.agent('keys-a', '[[bash:touch keys-a.txt]]');
  await lab.agent('keys-b', '[[bash:touch keys-b.txt]]');
  const page = await open(chromium, lab.url);
  await card(page, 'keys-a').waitFor();
  await card(page, 'keys-b').waitFor();
  assert.equal(await page.title(), '(2) coop');
  // Nothing is answered in the moment that it appears.
  const isReady = () => page.locator('.ask.selected [data-kind=allow_once][aria-disabled=false]').waitFor();
  await page.keyboard.press('j');
  await isReady();
  const second = await page.locator('.ask.selected .who').textContent();
  await page.keyboard.press('d');
  await page.locator('.closed li', { hasText: second.trim() }).waitFor();
  await page.keyboard.press('k');
  await isReady();
  const first = await page.locator('.ask.selected .who').textContent();
  await page.keyboard.press('a');
  await page.locator('.closed li', { hasText: first.trim() }).waitFor();
  for (const agent of ['keys-a', 'keys-b']) {
    await page.locator('.sidebar .agent', { hasText: agent }).filter({ hasText: 'idle' }).waitFor();
  }
  assert.equal(existsSync(join(lab.work, `${first.trim()}.txt`)), true);
  assert.equal(existsSync(join(lab.work, `${second.trim()}.txt`)), false);
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('/');
  await page.keyboard.type('keys-a');
  await page.locator('.sidebar .agent', { hasText: 'keys-b' }).waitFor({ state: 'detached' });
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('what a rule has answered says so, also to who comes later', limit, async () => {
  const rule = '[[policy]]\ntool = "Bash"\ncommand = "touch *"\ndecide = "allow"\nwhy = "it is only a file"\n';
  const page = await open(chromium, lab.url);
  await lab.agent('ruled', '[[bash:touch ruled.txt]]', { more: rule });
  const told = (where) => where.locator('.closed li', { hasText: 'ruled' }).filter({ hasText: /by the rule in line \d+.*it is only a file/ });
  await told(page).waitFor();
  await page.locator('.sidebar .agent', { hasText: 'ruled' }).filter({ hasText: 'idle' }).waitFor();
  assert.equal(existsSync(join(lab.work, 'ruled.txt')), true);
  const later = await open(chromium, lab.url);
  await told(later).waitFor();
  assert.deepEqual([...page.errors, ...later.errors], []);
  await page.context().close();
  await later.context().close();
});

test('of two who answer, the second sees that it was taken', limit, async () => {
  await lab.agent('twice', '[[bash:touch twice.txt]]');
  const first = await open(chromium, lab.url);
  const second = await open(chromium, lab.url);
  await card(second, 'twice').waitFor();
  const answers = second.waitForResponse((response) => response.url().endsWith('/agent/respond'));
  await second.route('**/agent/respond', async (route) => {
    // The first answers while the second's answer is on its way.
    await card(first, 'twice').getByRole('button', { name: 'Yes', exact: true }).click();
    await first.locator('.closed li', { hasText: 'twice' }).waitFor();
    await route.continue();
  });
  await card(second, 'twice').getByRole('button', { name: 'No', exact: true }).click();
  assert.equal((await answers).status(), 409);
  await second.getByText('somebody else was first').first().waitFor();
  await second.locator('.closed li', { hasText: 'twice' }).filter({ hasText: /option 1|allowed/ }).waitFor();
  await first.locator('.sidebar .agent', { hasText: 'twice' }).filter({ hasText: 'idle' }).waitFor();
  assert.equal(existsSync(join(lab.work, 'twice.txt')), true, 'the first answer counts');
  await first.context().close();
  await second.context().close();
});

test('questions and plans are answered with what the agent offers, or in words', limit, async () => {
  const page = await open(chromium, lab.url);
  await lab.agent('chooser', '[[ask]]');
  await card(page, 'chooser').getByRole('button', { name: /SQLite/ }).click();
  await page.locator('.closed li', { hasText: 'chooser' }).waitFor();
  await lab.agent('several', '[[ask2]]');
  const several = card(page, 'several');
  await several.locator('.question').nth(1).waitFor();
  await several.locator('.question').nth(0).getByRole('button').first().click();
  await several.locator('.question').nth(1).getByRole('textbox').fill('Zig');
  await several.getByRole('button', { name: 'Send answers' }).click();
  await page.locator('.closed li', { hasText: 'several' }).filter({ hasText: '2 answers' }).waitFor();
  await lab.agent('planner', '[[plan]]');
  const planner = card(page, 'planner');
  await planner.getByLabel('Feedback with a no').fill('smaller steps');
  await planner.getByRole('button', { name: 'Deny with this' }).click();
  await page.locator('.closed li', { hasText: 'planner' }).filter({ hasText: 'smaller steps' }).waitFor();
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('a message is sent, waits, and is taken back', limit, async () => {
  await lab.agent('busy', '[[hang]]');
  const page = await open(chromium, `${lab.url}/#/agents/busy`);
  await page.locator('.pill.working').waitFor();
  await page.getByLabel('Message to busy').fill('Then do this');
  await page.getByRole('button', { name: 'Queue' }).click();
  await page.locator('.waiting li', { hasText: 'Then do this' }).waitFor();
  await page.getByRole('button', { name: 'Take back: Then do this' }).click();
  await page.locator('.waiting li').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Interrupt' }).click();
  await page.locator('.pill.idle').waitFor();
  await page.getByLabel('Message to busy').fill('[[text:Good **morning**]]');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.said strong', { hasText: 'morning' }).waitFor();
  await page.getByRole('button', { name: 'End…' }).click();
  await page.getByRole('button', { name: 'End busy for good' }).click();
  await page.locator('.pill.exited').waitFor();
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('an agent is started from the page', limit, async () => {
  const page = await open(chromium, lab.url);
  await page.getByRole('button', { name: 'New' }).click();
  await page.getByLabel('Name').fill('fresh');
  await page.locator('dialog select').selectOption('unknown');
  await page.getByLabel('Folder').fill(lab.work);
  await page.getByLabel('Command').fill('cat');
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.getByRole('heading', { name: 'fresh' }).waitFor();
  await page.locator('.sidebar .agent', { hasText: 'fresh' }).waitFor();
  assert.deepEqual(page.errors, []);
  await page.context().close();
});
