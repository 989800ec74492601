import { expect, test } from 'vitest';

import { SseParser } from '../src/lib/sse';

const TEXT = ': hello\n\nid: 1\nevent: state\ndata: {"a":1}\n\ndata: two\r\ndata:  lines\r\n\r\nid\ndata\n\nevent: none\n\n';
const FRAMES = [
  { id: '1', event: 'state', data: '{"a":1}' },
  { event: 'message', data: 'two\n lines' },
  { id: '', event: 'message', data: '' },
];

test('frames are the same in whatever pieces they come', () => {
  for (let size = 1; size <= TEXT.length; size++) {
    const parser = new SseParser();
    const frames = [];
    for (let at = 0; at < TEXT.length; at += size) frames.push(...parser.push(TEXT.slice(at, at + size)));
    expect(frames).toEqual(FRAMES);
  }
});
