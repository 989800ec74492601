import { expect, test } from 'vitest';

import { takeToken } from '../src/lib/brought';

test('a token is taken out of the address, whatever it looks like', () => {
  expect(takeToken('#token=a%2Bb')).toEqual({ token: 'a+b', hash: '#/' });
  expect(takeToken('#token=100%')).toEqual({ token: '100%', hash: '#/' });
  for (const hash of ['', '#/', '#token=', '#/agent/x#token=y']) expect(takeToken(hash)).toBeUndefined();
});
