// The terminal: typing, several viewers, and a tab that is too slow.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { browser, inTime, Lab, LIMIT, open } from './lab.mjs';

const limit = { timeout: 4 * LIMIT };
let lab;
let chromium;

before(async () => {
  lab = new Lab();
  await lab.sidecar({ agent: 'unknown', command: ['bash', '--norc', '--noprofile'] });
  chromium = await browser();
});
after(async () => {
  await chromium?.close();
  await lab?.close();
});

const terminal = (page) => page.locator('.room');
const opened = async (options) => {
  const page = await open(chromium, `${lab.url}/#/agents/unknown/terminal`, options);
  await page.locator('.room[data-link=live]').waitFor();
  return page;
};
/** Gives control back. One that is closed with it has it until coop sees that, which is too late for the next test. */
async function release(page) {
  await page.getByRole('button', { name: 'Release control' }).click();
  await page.locator('.room[data-held=false]').waitFor();
}

const size = async (page) => [await terminal(page).getAttribute('data-cols'), await terminal(page).getAttribute('data-rows')].map(Number);

/** Waits until the terminal has the size of the window it is in, with letters of the usual size; a cell is about 8 by 17. */
async function settled(page) {
  await page.waitForFunction(() => {
    const room = document.querySelector('.room');
    const [cols, rows] = [Number(room.dataset.cols), Number(room.dataset.rows)];
    return Math.abs(cols * 8 - room.clientWidth) < 60 && Math.abs(rows * 17 - room.clientHeight) < 90;
  });
  return size(page);
}

/** Waits until the agent's screen has a line. */
async function shown(text) {
  const look = async () => {
    for (;;) {
      const { json } = await lab.api('GET', 'screen/text');
      if (json.includes(text)) return json;
    }
  };
  return inTime(look(), `${text} is shown`);
}

test('nothing is typed without control, and what is typed with it echoes', limit, async () => {
  const page = await opened();
  await terminal(page).click();
  await page.keyboard.type('echo never\n');
  await page.getByRole('button', { name: 'Take control' }).click();
  await page.locator('.room[data-held=true]').waitFor();
  await page.keyboard.type('echo $((40 + 2)) is the answer\n');
  const screen = await shown('42 is the answer');
  assert.equal(screen.includes('never'), false);
  await release(page);
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('whoever has control gives the size, and others see it scaled', limit, async () => {
  const wide = await opened({ viewport: { width: 1400, height: 900 } });
  const small = await opened({ viewport: { width: 800, height: 560 } });
  await wide.getByRole('button', { name: 'Take control' }).click();
  await wide.locator('.room[data-held=true]').waitFor();
  const [cols, rows] = await settled(wide);
  await small.locator(`.room[data-cols="${cols}"][data-rows="${rows}"]`).waitFor();
  // All of it is in sight.
  await small.waitForFunction(() => {
    const of = (selector) => document.querySelector(selector).getBoundingClientRect();
    const [room, drawn] = [of('.room'), of('.xterm-screen')];
    return drawn.right <= room.right + 1 && drawn.bottom <= room.bottom + 1;
  });
  await small.getByRole('button', { name: 'Take control' }).click();
  await small.getByText('another client holds the write lock').waitFor();
  assert.deepEqual(await size(wide), [cols, rows], 'a watcher changes nothing');
  await wide.getByRole('button', { name: 'Release control' }).click();
  await small.getByRole('button', { name: 'Take control' }).click();
  await small.locator('.room[data-held=true]').waitFor();
  const after = await settled(small);
  assert.ok(after[0] < cols && after[1] < rows, `${after} after ${[cols, rows]}`);
  await wide.locator(`.room[data-cols="${after[0]}"]`).waitFor();
  await release(small);
  assert.deepEqual([...wide.errors, ...small.errors], []);
  await wide.context().close();
  await small.context().close();
});

test('what the program asks of its terminal is answered once, by coop', limit, async () => {
  const page = await opened();
  await page.getByRole('button', { name: 'Take control' }).click();
  await page.locator('.room[data-held=true]').waitFor();
  lab.write('check.sh', "printf '\\033[6n'; IFS= read -rs -d R one; if IFS= read -rs -t 1 -d R two; then echo answered twice; else echo answered once; fi\n");
  await page.keyboard.type('bash check.sh\n');
  const screen = await shown('answered once');
  assert.equal(screen.includes('twice'), false);
  await release(page);
  await page.context().close();
});

test('a tab that is too slow is told, and up to date in the end', { timeout: 5 * LIMIT }, async () => {
  const page = await opened();
  await lab.ok('POST', 'input', { text: 'yes "$(printf %0100d 7)" | head -c 60000000; clear; echo all is $((1 + 1)) over', enter: true });
  // The page does nothing else until the flood is over, so that coop cannot keep all of it for the page.
  await inTime(
    page.evaluate(() => {
      for (;;) {
        const look = new XMLHttpRequest();
        look.open('GET', '/api/v1/screen/text', false);
        look.send();
        if (look.responseText.includes('all is 2 over')) return;
      }
    }),
    'the flood ends',
    3 * LIMIT,
  );
  await page.getByText('up to date again').waitFor();
  // What it draws in the end is the end.
  await page.waitForFunction(() => document.querySelector('.room').innerText.includes('all is 2 over'));
  assert.deepEqual(page.errors, []);
  await page.context().close();
});
