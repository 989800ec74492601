import { expect, test } from 'vitest';

import { inPlace, keyOf } from '../src/lib/open';
import type { Ask } from '../src/lib/types';

const one = (agent: string, id: string, opened = '1') => ({ agent, ask: { id, kind: 'permission', preview: '', opened, channel: 'structured' } as Ask });
const keys = (asks: ReturnType<typeof one>[]) => asks.map(keyOf);

test('an open ask keeps its place, and a new one comes last', () => {
  const before = [one('b', 'ask-1'), one('a', 'ask-1')];
  expect(keys(inPlace(before, [one('c', 'ask-1'), one('a', 'ask-1'), one('b', 'ask-1')]))).toEqual(['b/ask-1/1', 'a/ask-1/1', 'c/ask-1/1']);
  expect(keys(inPlace(before, [one('a', 'ask-2'), one('a', 'ask-1')]))).toEqual(['a/ask-1/1', 'a/ask-2/1']);
});

test('an ask with an old id that was opened again is another', () => {
  expect(keys(inPlace([one('a', 'ask-1', '1'), one('b', 'ask-1')], [one('a', 'ask-1', '2'), one('b', 'ask-1')]))).toEqual(['b/ask-1/1', 'a/ask-1/2']);
});
