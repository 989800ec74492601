import { expect, test } from 'vitest';

import { parse, visible } from '../src/lib/visible';

test('hidden characters are named', () => {
  const cases: [string, string][] = [
    ['plain\n\ttext ß 漢字 שלום', 'plain\n\ttext ß 漢字 שלום'],
    ['ls \u202ehtap', 'ls <U+202E>htap'],
    ['\u001b[2K\r\u007f\u009b31m', '<U+001B>[2K<U+000D><U+007F><U+009B>31m'],
    ['a\u200bb\ufeffc\u00ad\u2060\u3164\u2800', 'a<U+200B>b<U+FEFF>c<U+00AD><U+2060><U+3164><U+2800>'],
    ['\u{e0041}\u2028', '<U+E0041><U+2028>'],
    ['⚠\ufe0f 👩\u200d💻', '⚠\ufe0f 👩\u200d💻'],
    ['rm\ufe0f a\u200db ⚠\ufe0f\ufe0f', 'rm<U+FE0F> a<U+200D>b ⚠\ufe0f<U+FE0F>'],
  ];
  for (const [text, shown] of cases) expect(visible(text)).toBe(shown);
});

test('JSON has nothing hidden in it, however it is written', () => {
  expect(parse('{"a":["\\u202els","\u202els"],"b\u200b":{"c":1,"d":null}}')).toEqual({ a: ['<U+202E>ls', '<U+202E>ls'], 'b<U+200B>': { c: 1, d: null } });
  expect(parse('{"a":"plain","b":[true]}')).toEqual({ a: 'plain', b: [true] });
});
