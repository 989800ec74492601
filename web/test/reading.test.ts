import { expect, test } from 'vitest';

import { addPart, LONG_ENOUGH_MS, partsBetween, Reading } from '../src/lib/reading';

const HEIGHT = 10_000;
const PAGE = 400;
/** Shows a page of it from there on, now and for a while. */
function show(reading: Reading, from: number, at: number, size = { width: 800, height: HEIGHT }) {
  const part = { from, to: Math.min(from + PAGE, size.height) };
  reading.look({ at, ...size, ...part });
  reading.look({ at: at + LONG_ENOUGH_MS, ...size, ...part });
}

test('parts are joined where they meet, in any order', () => {
  const parts = [{ from: 300, to: 400 }, { from: 0, to: 100 }, { from: 90, to: 200 }, { from: 201, to: 301 }, { from: 500, to: 600 }];
  expect(parts.reduce(addPart, [] as typeof parts)).toEqual([{ from: 0, to: 400 }, { from: 500, to: 600 }]);
  expect(addPart([{ from: 0, to: 400 }], { from: 100, to: 200 })).toEqual([{ from: 0, to: 400 }]);
});

test('what parts leave out is found, but for what rounding leaves', () => {
  expect(partsBetween([], 100)).toEqual([{ from: 0, to: 100 }]);
  expect(partsBetween([{ from: 1.5, to: 40 }, { from: 60, to: 99 }], 100)).toEqual([{ from: 40, to: 60 }]);
  expect(partsBetween([{ from: 0, to: 101 }], 100)).toEqual([]);
});

test('the beginning and the end of an input are not all of it', () => {
  const reading = new Reading();
  expect(reading.isWhole).toBe(false);
  show(reading, 0, 1000);
  show(reading, HEIGHT - PAGE, 2000);
  expect(reading.isWhole).toBe(false);
  expect(reading.missing).toEqual([{ from: PAGE, to: HEIGHT - PAGE }]);
});

test('all of an input was shown after page by page, in any order', () => {
  const reading = new Reading();
  const pages = Array.from({ length: HEIGHT / PAGE }, (_, at) => at * PAGE).reverse();
  for (const [at, from] of pages.entries()) {
    expect(reading.isWhole).toBe(false);
    show(reading, from, at * 1000);
  }
  expect(reading.isWhole).toBe(true);
});

test('an input that fits was shown once it was on the screen for long enough', () => {
  const reading = new Reading();
  const all = { width: 800, height: 300, from: 0, to: 300 };
  reading.look({ at: 5000, ...all });
  expect([reading.isWhole, reading.isUnderWay]).toEqual([false, true]);
  reading.look({ at: 5000 + LONG_ENOUGH_MS, ...all });
  expect([reading.isWhole, reading.isUnderWay]).toEqual([true, false]);
});

test('an input that was off the screen in between is not shown', () => {
  const reading = new Reading();
  const size = { width: 800, height: 300 };
  for (const [at, to] of [300, 0, 300].entries()) reading.look({ at: (at * LONG_ENOUGH_MS) / 2, ...size, from: 0, to });
  expect([reading.isWhole, reading.isUnderWay]).toEqual([false, true]);
  reading.look({ at: 3 * LONG_ENOUGH_MS, ...size, from: 0, to: 0 });
  expect([reading.isWhole, reading.isUnderWay]).toEqual([false, false]);
});

test('an input that was in the background in between is not shown', () => {
  const reading = new Reading();
  const all = { width: 800, height: 300, from: 0, to: 300 };
  reading.look({ at: 0, ...all });
  reading.interrupt();
  reading.look({ at: 60_000, ...all });
  expect([reading.isWhole, reading.isUnderWay]).toEqual([false, true]);
});

test('lines that fly past do not count, and lines that are scrolled slowly do', () => {
  const scrolled = (pixelsPerFrame: number) => {
    const reading = new Reading();
    show(reading, 0, 0);
    let at = 1000;
    for (let from = 0; from < HEIGHT - PAGE; from += pixelsPerFrame, at += 16) reading.look({ at, width: 800, height: HEIGHT, from, to: from + PAGE });
    show(reading, HEIGHT - PAGE, at);
    return reading.isWhole;
  };
  // As a browser scrolls that makes a press of End smooth.
  expect(scrolled(200)).toBe(false);
  expect(scrolled(10)).toBe(true);
});

test('in another width nothing was shown yet', () => {
  const reading = new Reading();
  show(reading, 0, 0);
  show(reading, PAGE, 1000, { width: 400, height: 2 * PAGE });
  expect(reading.missing).toEqual([{ from: 0, to: PAGE }]);
  show(reading, 0, 2000, { width: 401, height: 2 * PAGE + 1 });
  expect(reading.isWhole).toBe(true);
});
