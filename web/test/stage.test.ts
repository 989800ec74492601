import { expect, test } from 'vitest';

import { calm } from '../src/lib/calm';
import { parseCast } from '../src/lib/cast';
import { Player } from '../src/lib/player';
import { Stage, type Drawn } from '../src/lib/stage';

/** Draws what is written only when it is told to, and resets and resizes at once, as xterm.js does. */
class Slow implements Drawn {
  text = '';
  size = '80x24';
  #queue: { data: string; drawn: () => void }[] = [];
  most = 0;
  reset(): void {
    this.text = '';
  }
  resize(cols: number, rows: number): void {
    this.size = `${cols}x${rows}`;
    this.text += `<${this.size}>`;
  }
  write(data: string | Uint8Array, drawn: () => void): void {
    this.#queue.push({ data: String(data), drawn });
    this.most = Math.max(this.most, this.#queue.length);
  }
  draw(): boolean {
    const one = this.#queue.shift();
    if (!one) return false;
    this.text += one.data.replace('\x18', '');
    one.drawn();
    return true;
  }
  drawAll(): void {
    while (this.draw());
  }
}

const recording = () => {
  const lines = Array.from({ length: 40 }, (_, step) => (step % 5 === 4 ? [1, 'r', `${50 + step}x20`] : [1, 'o', `${step} `]));
  return parseCast(['{"version":3,"term":{"cols":80,"rows":24}}', ...lines.map((line) => JSON.stringify(line))].join('\n'));
};

/** What somebody sees who goes there at once. */
function direct(to: number): string {
  const terminal = new Slow();
  new Player(recording(), new Stage(terminal, 1, () => {}), Infinity).seek(to);
  terminal.drawAll();
  return terminal.text;
}

test('a resize and a reset come after what was written before them', () => {
  for (const ahead of [1, Infinity]) {
    const terminal = new Slow();
    const stage = new Stage(terminal, ahead, () => {});
    for (const text of ['a', 'b', 'c']) stage.write(text);
    stage.resize(100, 30);
    stage.write('d');
    expect([terminal.size, terminal.most]).toEqual(['80x24', Math.min(ahead, 3)]);
    terminal.drawAll();
    expect(terminal.text).toBe('abc<100x30>d');
    stage.write('of before');
    stage.reset(90, 20);
    stage.write('of now');
    terminal.drawAll();
    expect(terminal.text).toBe('<90x20>of now');
  }
});

test('however often one goes elsewhere before it is drawn, the last place is shown', () => {
  const terminal = new Slow();
  const player = new Player(recording(), new Stage(terminal, 1, () => {}), Infinity);
  let seed = 11;
  for (let turn = 0; turn < 300; turn++) {
    seed = (seed * 48_271) % 2_147_483_647;
    const to = seed % 42_000;
    player.seek(to);
    // Some of it is drawn meanwhile, or nothing.
    for (let left = seed % 4; left > 0; left--) terminal.draw();
    if (turn % 10 !== 0) continue;
    terminal.drawAll();
    expect(terminal.text).toBe(direct(to));
  }
});

test('what a jump back made useless is not drawn', () => {
  const terminal = new Slow();
  const stage = new Stage(terminal, 1, () => {});
  let told = 0;
  for (let piece = 0; piece < 100; piece++) stage.write(`piece ${piece} `, () => told++);
  stage.reset(80, 24);
  expect(told).toBe(99);
  let drawn = 0;
  while (terminal.draw()) drawn++;
  expect([drawn, terminal.text]).toEqual([2, '<80x24>']);
});

test('work is done once at a time, and once more for all who asked meanwhile', async () => {
  const ends: (() => void)[] = [];
  let begun = 0;
  const look = calm(() => {
    begun++;
    return new Promise<void>((end) => ends.push(end));
  });
  const first = look();
  const others = [look(), look(), look()];
  expect(begun).toBe(1);
  ends.shift()!();
  await first;
  await Promise.resolve();
  expect(begun).toBe(2);
  // It began after they asked, so one who asks now waits for another.
  const late = look();
  ends.shift()!();
  await Promise.all(others);
  await Promise.resolve();
  expect(begun).toBe(3);
  ends.shift()!();
  await late;
  void look();
  expect(begun).toBe(4);
});
