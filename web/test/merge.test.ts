import { expect, test } from 'vitest';

import { Cursor, Joined, loadAll } from '../src/lib/merge';

const numbered = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => ({ id: from + at }));

function collector() {
  const got: number[] = [];
  return { got, joined: new Joined<{ id: number }>((items) => got.push(...items.map((item) => item.id))) };
}

test('a cursor lets each number through once', () => {
  const cursor = new Cursor(3);
  expect([2, 3, 4, 4, 7, 6].map((id) => cursor.take(id))).toEqual([false, false, true, false, true, false]);
  expect(cursor.last).toBe(7);
});

test('what comes while history is loaded follows it, once', async () => {
  const { got, joined } = collector();
  const log = numbered(1, 25);
  const pages = async (after: number) => {
    // The log grows while it is read, and what is new comes over the connection too.
    if (after === 10) {
      log.push(...numbered(26, 27));
      joined.live({ id: 27 });
      joined.live({ id: 26 });
      joined.live({ id: 28 });
    }
    return log.filter((item) => item.id > after).slice(0, 10);
  };
  await loadAll(pages, 10, joined);
  joined.live({ id: 28 });
  joined.live({ id: 29 });
  expect(got).toEqual(numbered(1, 29).map((item) => item.id));
});

test('a page that is exactly full is not taken for the last', async () => {
  const { got, joined } = collector();
  const asked: number[] = [];
  await loadAll(
    async (after) => {
      asked.push(after);
      return numbered(1, 20).filter((item) => item.id > after).slice(0, 10);
    },
    10,
    joined,
  );
  expect(asked).toEqual([0, 10, 20]);
  expect(got.length).toBe(20);
});

test('a history that cannot be loaded lets nothing through', async () => {
  const { got, joined } = collector();
  joined.live({ id: 5 });
  await expect(loadAll(() => Promise.reject(new Error('no')), 10, joined)).rejects.toThrow('no');
  expect(got).toEqual([]);
});
