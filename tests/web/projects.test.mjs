// Projects and their workspaces in the list; agents are started in them, put to sleep and woken.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';

import { browser, COOP, Lab, LIMIT, open } from './lab.mjs';

const limit = { timeout: 3 * LIMIT };
let lab;
let chromium;

before(async () => {
  lab = new Lab();
  lab.write('a.txt', 'one\n');
  const git = (...args) => execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.c', ...args], { cwd: lab.work });
  git('init', '-q', '-b', 'main');
  git('add', '.');
  git('commit', '-qm', 'first');
  await lab.up();
  const { id } = await lab.ok('POST', 'projects', { path: lab.work });
  await lab.ok('POST', 'workspaces', { project: id, name: 'fix/login' });
  await lab.agent('outside', '[[text:Here.]]', { folder: `${lab.home}/elsewhere` });
  chromium = await browser();
});
after(async () => {
  await chromium?.close();
  await lab?.close();
});

/** A label's text has its options in it, too. */
const field = (page, name) => page.locator('dialog label', { hasText: new RegExp(`^\\s*${name}`) }).locator('select');
const section = (page) => page.locator('.sidebar section', { has: page.locator('.project', { hasText: /^api$/ }) });

test('an agent is started in a workspace, put to sleep there and woken', limit, async () => {
  const page = await open(chromium, lab.url);
  await section(page).locator('h3', { hasText: 'fix/login' }).waitFor();
  await section(page).getByText('no agents').waitFor();
  await page.locator('.sidebar section', { hasText: 'elsewhere' }).locator('.agent', { hasText: 'outside' }).waitFor();

  await page.getByRole('button', { name: 'New' }).click();
  await page.getByLabel('Name', { exact: true }).fill('fixer');
  await field(page, 'Project').selectOption({ label: 'api' });
  await field(page, 'Workspace').selectOption({ label: 'fix/login' });
  assert.equal(await page.locator('dialog input[list]').count(), 0, 'the workspace says where');
  await page.getByLabel('Command').fill(`${COOP} sim claude`);
  await page.getByLabel('with settings of its own').check();
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.getByRole('heading', { name: 'fixer' }).waitFor();
  const fixer = section(page).locator('.agent', { hasText: 'fixer' });
  await fixer.filter({ hasText: 'idle' }).waitFor();
  await section(page).locator('h2', { hasText: '1 idle' }).waitFor();
  const { projects } = await lab.ok('GET', 'projects');
  assert.equal(projects[0].workspaces[0].agent.type, 'idle');
  // So that there is something to go on with.
  await page.getByLabel('Message to fixer').fill('[[text:Good morning.]]');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.said', { hasText: 'Good morning.' }).waitFor();

  await page.getByRole('button', { name: 'Put api / fix/login to sleep' }).click();
  await section(page).locator('.tag', { hasText: 'asleep' }).waitFor();
  await fixer.filter({ hasText: 'exited' }).waitFor();
  await page.getByRole('button', { name: 'Wake api / fix/login' }).click();
  await section(page).locator('.tag', { hasText: 'asleep' }).waitFor({ state: 'detached' });
  await fixer.filter({ hasText: 'idle' }).waitFor();
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('a workspace is made for a new agent', limit, async () => {
  const page = await open(chromium, lab.url);
  await page.getByRole('button', { name: 'New' }).click();
  await page.getByLabel('Name', { exact: true }).fill('maker');
  await field(page, 'Project').selectOption({ label: 'api' });
  await field(page, 'Workspace').selectOption({ label: 'a new one…' });
  await page.getByLabel('Name of the new workspace').fill('new/thing');
  await field(page, 'Agent').selectOption('unknown');
  await page.getByLabel('Command').fill('cat');
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.getByRole('heading', { name: 'maker' }).waitFor();
  await section(page).locator('h3', { hasText: 'new/thing' }).waitFor();
  await page.locator('.meta .path', { hasText: 'new%thing' }).waitFor();
  assert.deepEqual(page.errors, []);
  await page.context().close();
});
