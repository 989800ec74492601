// Agents that have ended: found again by what was said, and their terminals replayed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { browser, inTime, Lab, LIMIT, open } from './lab.mjs';

const limit = { timeout: 3 * LIMIT };
let lab;
let chromium;

before(async () => {
  lab = new Lab();
  await lab.up();
  await lab.agent('painter', '[[bash:touch blue.txt]] [[wait:3]] [[text:The walls are **blue** now.]]');
  await lab.agent('baker', 'Bake a loaf. [[text:The bread is done.]]');
  const asked = async () => {
    for (;;) {
      const { asks } = await lab.ok('GET', 'asks');
      if (asks.length > 0) return asks[0].ask.id;
    }
  };
  const ask = await inTime(asked(), 'the painter asks');
  await lab.ok('POST', 'agents/painter/agent/respond', { ask, accept: true });
  await lab.tell('painter', '[[text:All of it.]]');
  await lab.tell('baker', '[[text:Enjoy.]]');
  for (const agent of ['painter', 'baker']) await lab.end(agent);
  chromium = await browser();
});
after(async () => {
  await chromium?.close();
  await lab?.close();
});

const runs = (page) => page.locator('.runs .run');
const replay = (page) => page.locator('.player');
const drawn = (page, text) => page.waitForFunction((text) => document.querySelector('.room').innerText.includes(text), text);

test('past runs are listed and found by name, prompt, folder and words', limit, async () => {
  const page = await open(chromium, `${lab.url}/#/history`);
  await runs(page).nth(1).waitFor();
  for (const [wanted, found] of [
    ['PAINT', ['painter']],
    ['loaf', ['baker']],
    ['bread is', ['baker']],
    ['shop/api', ['baker', 'painter']],
    ['"quoted" %_', []],
  ]) {
    await page.getByLabel('Search past runs').fill(wanted);
    await page.waitForFunction(
      (names) => {
        const listed = [...document.querySelectorAll('.runs .run .name')].map((node) => node.textContent).sort();
        return listed.join() === names.join();
      },
      found,
    );
  }
  await page.getByLabel('Search past runs').fill('bread is');
  await page.locator('.run .said', { hasText: 'The bread is done.' }).waitFor();
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('a terminal is replayed to any moment, with its states, by mouse and by keys', limit, async () => {
  const page = await open(chromium, `${lab.url}/#/history`);
  await runs(page).filter({ hasText: 'painter' }).click();
  await page.locator('.scrubber .bar').first().waitFor();
  assert.ok((await page.locator('.scrubber .bar.waiting').count()) > 0, 'it asked');
  const at = async () => Number(await replay(page).getAttribute('data-at'));
  const scrubber = page.getByLabel('Position');
  const end = Number(await scrubber.getAttribute('max'));
  await page.keyboard.press('End');
  await page.waitForFunction((end) => Number(document.querySelector('.player').dataset.at) === end, end);
  await drawn(page, 'All of it.');
  // Back to before anything was said, and the screen is that of then.
  await page.keyboard.press('Home');
  await page.waitForFunction(() => !document.querySelector('.room').innerText.includes('All of it.'));
  assert.equal(await at(), 0);
  // To the ask, which the screen shows.
  while (!(await page.locator('.scrubber .pill.waiting').isVisible())) {
    const before = await at();
    await page.keyboard.press('.');
    // Another press before it has moved would go past.
    await page.waitForFunction((before) => Number(document.querySelector('.player').dataset.at) !== before, before);
  }
  const asked = await at();
  await page.keyboard.press(',');
  await page.waitForFunction((asked) => Number(document.querySelector('.player').dataset.at) < asked, asked);
  await scrubber.fill(String(end));
  await drawn(page, 'All of it.');
  // Playing goes on from the beginning, faster if that is wanted.
  await page.getByLabel('Speed').selectOption({ label: '16×' });
  // It may be over before anybody looks.
  await replay(page).evaluate((node) => {
    window.played = [];
    new MutationObserver(() => window.played.push(node.dataset.playing)).observe(node, { attributeFilter: ['data-playing'] });
  });
  const played = (...wanted) => page.waitForFunction((wanted) => window.played.join().endsWith(wanted), wanted.join());
  await page.getByRole('button', { name: 'Play' }).click();
  await played(true, false);
  assert.equal(await at(), end);
  await page.getByLabel('Speed').selectOption({ label: '0.5×' });
  await page.locator('.room').click();
  // Paused by the same key as soon as it plays: until a second press comes to a busy browser, it may be over.
  await replay(page).evaluate((node) => {
    const space = () => new KeyboardEvent('keydown', { key: ' ', bubbles: true, cancelable: true });
    new MutationObserver((_, observer) => {
      if (node.dataset.playing !== 'true') return;
      observer.disconnect();
      document.querySelector('.room').dispatchEvent(space());
    }).observe(node, { attributeFilter: ['data-playing'] });
  });
  await page.keyboard.press(' ');
  await played(true, false, true, false);
  assert.ok((await at()) < end, 'it was paused');
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('a recording and a transcript can be taken home', limit, async () => {
  const page = await open(chromium, `${lab.url}/#/agents/painter/replay`);
  const save = async (act) => {
    const [download] = await Promise.all([page.waitForEvent('download'), act()]);
    return { name: download.suggestedFilename(), text: readFileSync(await download.path(), 'utf8') };
  };
  const cast = await save(() => page.getByRole('link', { name: 'Download .cast' }).click());
  assert.equal(cast.name, 'painter.cast');
  const [header, ...lines] = cast.text.trim().split('\n').map((line) => JSON.parse(line));
  assert.equal(header.version, 3);
  assert.ok(lines.every(([interval, code, data]) => interval >= 0 && 'ormx'.includes(code) && typeof data === 'string'));
  await page.locator('summary', { hasText: 'Transcript' }).click();
  const markdown = await save(() => page.getByRole('button', { name: 'as Markdown' }).click());
  assert.ok(markdown.name === 'painter.md' && markdown.text.includes('The walls are **blue** now.'), markdown.text);
  await page.locator('summary', { hasText: 'Transcript' }).click();
  const json = await save(() => page.getByRole('button', { name: 'as JSON' }).click());
  assert.ok(JSON.parse(json.text).rows.some((row) => row.kind === 'tool' && row.tool === 'Bash'), json.text);
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('an agent that runs can be replayed up to now', limit, async () => {
  await lab.agent('runner', '[[text:Still here.]]');
  await lab.tell('runner', '[[text:And here.]]');
  const page = await open(chromium, `${lab.url}/#/agents/runner/replay`);
  await page.locator('.scrubber .bar').first().waitFor();
  await page.keyboard.press('End');
  await drawn(page, 'And here.');
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('an earlier run of an agent that goes on is there, with its part of the recording', limit, async () => {
  await lab.agent('twin', '[[text:Ready.]]');
  // The first run has more events than the second: its position must not be looked up in the other's.
  for (const text of ['One.', 'Two.', 'Three.', 'Before the break.']) await lab.tell('twin', `[[text:${text}]]`);
  await lab.end('twin');
  await lab.ok('POST', 'agents/twin/revive', {});
  await lab.tell('twin', '[[text:After the break.]]');
  const page = await open(chromium, `${lab.url}/#/history`);
  const earlier = runs(page).filter({ hasText: 'twin' }).filter({ hasText: 'run 1 of 2' });
  await earlier.waitFor();
  assert.equal(await runs(page).filter({ hasText: 'twin' }).count(), 1, 'the one that runs has not ended');
  await page.getByLabel('Search past runs').fill('after the break');
  await page.getByText('No past run fits.').waitFor();
  await page.getByLabel('Search past runs').fill('before the break');
  await earlier.click();
  await page.locator('.scrubber .bar').first().waitFor();
  await page.keyboard.press('End');
  await drawn(page, 'Before the break.');
  await page.locator('.scrubber .pill', { hasText: 'exited' }).waitFor();
  assert.equal(await page.getByLabel('Run', { exact: true }).inputValue(), '1');
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download .cast' }).click()]);
  const cast = readFileSync(await download.path(), 'utf8');
  assert.equal(download.suggestedFilename(), 'twin-run-1.cast');
  assert.ok(cast.includes('Before the break.') && !cast.includes('After the break.'), cast);
  await page.getByLabel('Run', { exact: true }).selectOption('2');
  await page.locator('.player[data-at="0"]').waitFor();
  await page.keyboard.press('End');
  await drawn(page, 'After the break.');
  assert.ok(page.url().endsWith('/replay/2'));
  // One that was never there is said to be none.
  await page.goto(`${lab.url}/#/agents/twin/replay/7`);
  await page.getByText('There is no recording of run 7.').waitFor();
  await page.getByRole('link', { name: 'All that was recorded' }).click();
  await page.locator('.scrubber .bar').first().waitFor();
  assert.equal(await page.getByLabel('Run', { exact: true }).inputValue(), '');
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

/** xterm.js draws what is written when it finds the time, but was emptied and resized at once: what came late was drawn over the rest. */
test('however fast one goes back and forth over other sizes, the screen is that of the last moment', limit, async () => {
  const one = new Lab();
  try {
    const script = 'i=0; while [ $i -lt 40 ]; do seq -f "line $i of %.0f" 400; i=$((i + 1)); read -r next; clear; done';
    await one.sidecar({ agent: 'unknown', command: ['bash', '-c', `stty -echo; ${script}; echo the end`], args: ['--record', 'a.cast', '--linger', 'forever'] });
    const shows = async (text) => {
      while (!(await one.api('GET', 'screen/text')).json.includes(text));
    };
    // What comes while a frame is recorded becomes part of it; here each turn is to be one that can be gone to.
    const recorded = async (text) => {
      while (!String((await one.api('GET', 'recording')).json).includes(text));
    };
    for (let turn = 0; turn < 40; turn++) {
      await inTime(recorded(`line ${turn} of 400`), `turn ${turn}`);
      await one.ok('POST', 'resize', { cols: 60 + (turn % 7) * 10, rows: 20 + (turn % 3) * 5 });
      await one.ok('POST', 'input', { text: '', enter: true });
    }
    await inTime(shows('the end'), 'the end').catch(async (late) => {
      const [screen, status, recording] = await Promise.all(['screen/text', 'status', 'recording'].map((path) => one.api('GET', path)));
      throw new Error(JSON.stringify({ screen: screen.json, status: status.json, recorded: String(recording.json).slice(-500) }), { cause: late });
    });
    const page = await open(chromium, `${one.url}/#/agents/unknown/replay`);
    const scrubber = page.getByLabel('Position');
    await scrubber.waitFor();
    // When each turn was whole on the screen, in the time that is played.
    const moments = new Map();
    let time = 0;
    const lines = (await one.api('GET', 'recording')).json.split('\n').slice(1).filter(Boolean).map((line) => JSON.parse(line));
    lines.forEach(([interval, code, data], index) => {
      time += Math.min(interval * 1000, 2000);
      const turn = code === 'o' && /line (\d+) of 400\r\n$/.exec(data)?.[1];
      // What is played at the same moment as the next is not seen.
      const isSeen = (lines[index + 1]?.[0] ?? 1) > 0;
      if (turn && isSeen) moments.set(Number(turn), Math.round(time));
    });
    const turns = [...moments.keys()].filter((turn) => turn > 0);
    assert.ok(turns.length > 5, `${turns}`);
    const end = Number(await scrubber.getAttribute('max'));
    for (const turn of [0.9, 0.3, 0.7, 0.1, 0.5].map((part) => turns[Math.floor(part * turns.length)])) {
      // All in one go, without a moment to draw in between.
      await scrubber.evaluate((input, ats) => {
        input.step = 'any';
        for (const at of ats) {
          input.value = at;
          input.dispatchEvent(new Event('input', { bubbles: true }));
        }
      }, [...moments.values(), end, 0, ...[...moments.values()].toReversed(), moments.get(turn)]);
      // Nothing of another turn is on the screen, and no row is missing.
      await page.waitForFunction((turn) => {
        const rows = [...document.querySelectorAll('.xterm-rows > div')].map((row) => row.textContent.trim());
        const shown = rows.filter((row) => row !== '');
        return shown.length === rows.length - 1 && shown.every((row, at) => row === `line ${turn} of ${400 - shown.length + 1 + at}`);
      }, turn);
    }
    assert.deepEqual(page.errors, []);
    await page.context().close();
  } finally {
    await one.close();
  }
});
