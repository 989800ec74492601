// The token is asked for once, and only coop's own page may use what it is given for it.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';

import { browser, Lab, LIMIT, open } from './lab.mjs';

const limit = { timeout: 4 * LIMIT };
const TOKEN = 'a-long-token-of-this-test';
let lab;
let chromium;

before(async () => {
  lab = new Lab();
  await lab.up(TOKEN);
  chromium = await browser();
});
after(async () => {
  await chromium?.close();
  await lab?.close();
});

async function logIn(page, token) {
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
}

test('a wrong token is told of, the right one lets in, and logging out ends it', limit, async () => {
  const page = await open(chromium, lab.url);
  await logIn(page, 'wrong');
  await page.getByRole('alert').filter({ hasText: 'the token is wrong' }).waitFor();
  await logIn(page, TOKEN);
  await page.getByRole('heading', { name: /Inbox/ }).waitFor();
  const [cookie] = await page.context().cookies();
  assert.equal(cookie.httpOnly, true);
  assert.equal(cookie.sameSite, 'Strict');
  assert.equal(cookie.value.includes(TOKEN), false);
  assert.equal(await page.evaluate(() => document.cookie), '', 'scripts cannot read it');
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href]));
  assert.equal(kept.includes(TOKEN), false, 'the token is kept nowhere');
  await page.reload();
  await page.getByRole('heading', { name: /Inbox/ }).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('Token').waitFor();
  await page.reload();
  await page.getByLabel('Token').waitFor();
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('a link with the token logs in and does not keep it', limit, async () => {
  const page = await open(chromium, `${lab.url}/#token=${TOKEN}`);
  await page.getByRole('heading', { name: /Inbox/ }).waitFor();
  assert.equal(page.url().includes(TOKEN), false);
  await page.context().close();
});

test('a page of another port cannot use the cookie', limit, async () => {
  const other = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end('<p>other')).listen(0, '127.0.0.1');
  try {
    await new Promise((done) => other.once('listening', done));
    const page = await open(chromium, `${lab.url}/#token=${TOKEN}`);
    await page.getByRole('heading', { name: /Inbox/ }).waitFor();
    await page.goto(`http://127.0.0.1:${other.address().port}/`);
    // The browser hides the answer from other pages. The health check below shows that the daemon did nothing.
    const blocked = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/api/v1/down'));
    await page.evaluate((url) => fetch(`${url}/api/v1/down`, { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' }).catch(() => {}), lab.url);
    assert.match((await blocked).failure().errorText, /BLOCKED_BY_RESPONSE/);
    const opened = await page.evaluate(
      (url) =>
        new Promise((done) => {
          const socket = new WebSocket(`${url.replace('http', 'ws')}/api/v1/ws`);
          socket.onmessage = () => done('told');
          socket.onclose = () => done('refused');
        }),
      lab.url,
    );
    assert.equal(opened, 'refused');
    assert.equal((await lab.api('GET', 'health', undefined, { authorization: `Bearer ${TOKEN}` })).status, 200, 'it still runs');
    await page.context().close();
  } finally {
    other.close();
  }
});

test('a daemon that is started again knows its browsers, and with another token it does not', limit, async () => {
  const page = await open(chromium, `${lab.url}/#token=${TOKEN}`);
  await page.getByRole('heading', { name: /Inbox/ }).waitFor();
  await lab.kill();
  await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor();
  await lab.up(TOKEN);
  await page.getByRole('alert').filter({ hasText: 'No connection' }).waitFor({ state: 'detached' });
  await page.reload();
  await page.getByRole('heading', { name: /Inbox/ }).waitFor();
  await lab.kill();
  await lab.up(`${TOKEN}-new`);
  await page.getByLabel('Token').waitFor();
  await logIn(page, `${TOKEN}-new`);
  await page.getByRole('heading', { name: /Inbox/ }).waitFor();
  await page.context().close();
});
