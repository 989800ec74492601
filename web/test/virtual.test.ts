import { expect, test } from 'vitest';

import { Heights } from '../src/lib/virtual';

/** A small generator, so that a failure can be seen again. */
function random(seed: number) {
  return () => {
    seed = (seed * 1664525 + 1013904223) % 2 ** 32;
    return seed / 2 ** 32;
  };
}

test('sums and rows agree with adding up, however heights change', () => {
  const next = random(7);
  const heights = new Heights(50);
  let plain: number[] = [];
  for (let step = 0; step < 400; step++) {
    const choice = next();
    if (choice < 0.3) {
      const count = plain.length + Math.floor(next() * 20);
      while (plain.length < count) plain.push(50);
      heights.grow(count);
    } else if (choice < 0.34) {
      plain = plain.slice(0, Math.floor(next() * plain.length));
      heights.grow(plain.length);
    } else if (plain.length > 0) {
      const row = Math.floor(next() * plain.length);
      const height = Math.ceil(next() * 300);
      expect(heights.set(row, height)).toBe(height - plain[row]!);
      plain[row] = height;
    }
    const sum = (to: number) => plain.slice(0, to).reduce((all, height) => all + height, 0);
    expect(heights.total).toBe(sum(plain.length));
    const row = Math.floor(next() * plain.length);
    expect(heights.offset(row)).toBe(sum(row));
    if (plain.length > 0) {
      const y = next() * heights.total;
      const at = heights.at(y);
      expect(sum(at)).toBeLessThanOrEqual(y);
      expect(sum(at + 1)).toBeGreaterThan(y);
    }
  }
});

test('a window has what is in sight and a little more, never the whole list', () => {
  const heights = new Heights(40);
  heights.grow(10_000);
  expect(heights.window(0, 800, 400)).toEqual({ from: 0, to: 31 });
  const middle = heights.window(200_000, 800, 400);
  expect(middle).toEqual({ from: 4990, to: 5031 });
  const end = heights.window(heights.total - 800, 800, 400);
  expect(end.to).toBe(10_000);
  expect(new Heights(40).window(0, 800, 400)).toEqual({ from: 0, to: 0 });
});

test('questions about a long list are quick', () => {
  const heights = new Heights(40);
  const begin = performance.now();
  heights.grow(100_000);
  for (let row = 0; row < 100_000; row += 10) heights.set(row, 90);
  for (let y = 0; y < 100_000; y += 10) heights.window(y * 40, 800, 400);
  expect(performance.now() - begin).toBeLessThan(2000);
});
