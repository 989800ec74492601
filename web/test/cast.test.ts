import { expect, test } from 'vitest';

import { asText, assign, bands, cut, parseCast, reached, remarks, squeeze, takes } from '../src/lib/cast';
import { Player, type Screen } from '../src/lib/player';

const HEADER = '{"version":3,"term":{"cols":80,"rows":24},"timestamp":1790000000}';
const cast = (...lines: [number, string, string][]) => parseCast([HEADER, ...lines.map((line) => JSON.stringify(line)), ''].join('\n'));

/** A screen that only knows the text since it was last emptied, and its size. */
class Fake implements Screen {
  text = '';
  size = '';
  written = 0;
  reset(cols: number, rows: number): void {
    this.text = '';
    this.size = `${cols}x${rows}`;
  }
  resize(cols: number, rows: number): void {
    this.size = `${cols}x${rows}`;
  }
  write(data: string): void {
    this.written += data.length;
    const at = data.lastIndexOf('\x1bc');
    this.text = at < 0 ? this.text + data : data.slice(at + 2);
  }
}

test('a recording is read up to a line that is cut', () => {
  const read = parseCast(`${HEADER}\n# a comment\n[0.5,"o","a\\u001b[1m"]\n[0.25,"m","idle"]\n[1,"o","cu`);
  expect(read).toEqual({ cols: 80, rows: 24, began: 1_790_000_000_000, events: [{ at: 500, code: 'o', data: 'a\x1b[1m' }, { at: 750, code: 'm', data: 'idle' }] });
  for (const wrong of ['', '{}', '{"version":2,"width":80}', 'hello']) expect(() => parseCast(wrong)).toThrow('no recording');
});

test('long pauses are played short', () => {
  const { events } = cast([1, 'o', 'a'], [60, 'o', 'b'], [0.5, 'o', 'c']);
  expect(squeeze(events, 2000)).toEqual([1000, 3000, 3500]);
  expect(squeeze(events, Infinity)).toEqual([1000, 61_000, 61_500]);
});

test('states are bands, and what coop says is not one', () => {
  const { events } = cast([0, 'm', 'starting'], [1, 'm', 'working Bash'], [1, 'm', 'coop: 5 bytes of output are missing here'], [1, 'm', 'constructor'], [1, 'm', 'exited']);
  const times = squeeze(events, Infinity);
  expect(bands(events, times)).toEqual([
    { state: 'starting', label: 'starting', from: 0, to: 1000 },
    { state: 'working', label: 'working Bash', from: 1000, to: 4000 },
    { state: 'exited', label: 'exited', from: 4000, to: 4000 },
  ]);
  expect(remarks(events, times)).toEqual([{ at: 2000, text: '5 bytes of output are missing here' }]);
});

test('the last event by a time is found', () => {
  expect([-1, 0, 9, 10, 11, 99].map((time) => reached([0, 10, 10, 20], time))).toEqual([-1, 0, 0, 2, 2, 3]);
});

test('whatever way one goes to a moment, the screen is the same', () => {
  const lines: [number, string, string][] = [];
  for (let step = 0; step < 60; step++) {
    lines.push(step % 20 === 19 ? [1, 'o', `\x1bcfresh ${step} `] : step % 7 === 6 ? [1, 'r', `${50 + step}x20`] : [1, 'o', `${step} `]);
  }
  const recording = cast(...lines);
  const shownAt = (time: number) => {
    const screen = new Fake();
    new Player(recording, screen, Infinity).seek(time);
    return `${screen.size} ${screen.text}`;
  };
  const screen = new Fake();
  const player = new Player(recording, screen, Infinity);
  let seed = 7;
  for (let turn = 0; turn < 200; turn++) {
    seed = (seed * 48_271) % 2_147_483_647;
    const time = seed % 62_000;
    player.seek(time);
    expect(`${screen.size} ${screen.text}`).toBe(shownAt(time));
  }
  // From the beginning of the last whole screen only.
  const late = new Fake();
  new Player(recording, late, Infinity).seek(60_000);
  expect(late.written).toBeLessThan(20);
});

test('states can be gone to, back and forth', () => {
  const player = new Player(cast([1, 'm', 'idle'], [2, 'm', 'working'], [2, 'm', 'exited']), new Fake(), Infinity);
  const froms = [1000, 3000, 5000];
  player.toState(1, froms);
  expect(player.position).toBe(1000);
  player.toState(1, froms);
  expect(player.position).toBe(3000);
  player.toState(-1, froms);
  expect(player.position).toBe(1000);
  player.toState(-1, froms);
  expect(player.position).toBe(0);
});

test('each process of an agent is a recording of its own', () => {
  const began = 1_790_000_000_000;
  const recording = cast([1, 'o', 'one'], [1, 'r', '100x30'], [1, 'x', '0'], [60, 'm', 'coop: another process'], [0, 'r', '90x20'], [0, 'o', '\x1bctwo'], [5, 'x', '1']);
  const all = takes(recording);
  expect(all).toEqual([
    { from: 0, to: 3, began: began + 1000, ended: began + 3000 },
    { from: 3, to: 7, began: began + 63_000, ended: began + 68_000 },
  ]);
  const run = (from: number, to: number) => ({ began: began + from, ended: began + to });
  // The daemon heard of both a moment later.
  expect(assign(all, [run(1500, 3900), run(64_000, Infinity)])).toEqual(all);
  // Of one in between, or before what is still there, nothing is recorded.
  expect(assign(all, [run(1500, 3900), run(20_000, 30_000), run(64_000, Infinity)])).toEqual([all[0], undefined, all[1]]);
  expect(assign(all.slice(1), [run(-90_000, -80_000), run(1500, 3900), run(64_000, 70_000)])).toEqual([undefined, undefined, all[1]]);
  expect(assign(all, [])).toEqual([]);
  expect(assign([], [run(0, 1)])).toEqual([undefined]);
  // Short ones after one another, all of which seem to have begun a second later.
  const brief = [0, 300, 700].map((from, index) => ({ from: index, to: index + 1, began: began + from, ended: began + from + 200 }));
  expect(assign(brief, [run(990, 1200), run(1290, 1500), run(1690, Infinity)])).toEqual(brief);
  const second = cut(recording, all[1]!);
  expect(second).toMatchObject({ cols: 100, rows: 30, began: began + 63_000 });
  const screen = new Fake();
  new Player(second, screen, Infinity).seek(Infinity);
  expect([screen.size, screen.text]).toEqual(['90x20', 'two']);
  expect(parseCast(asText(second))).toEqual(second);
});
