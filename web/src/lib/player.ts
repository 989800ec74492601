// Plays a recording onto a screen, from any moment to any other.

import { reached, sizeOf, squeeze, type Cast } from './cast';

/** What is played on. */
export interface Screen {
  /** Empties it and gives it this size. */
  reset(cols: number, rows: number): void;
  resize(cols: number, rows: number): void;
  write(data: string): void;
}

/** More than this at once is written in several pieces. */
const PIECE = 256 * 1024;

export class Player {
  /** When each event is played. */
  readonly times: number[];
  position = 0;
  /** The last event that is on the screen. */
  #shown = -1;
  /** Where the screen is empty, or drawn whole: from there on nothing before is needed. With the size it has then. */
  #beginnings: { index: number; cols: number; rows: number }[];

  constructor(
    readonly cast: Cast,
    readonly screen: Screen,
    longestPause: number,
  ) {
    this.times = squeeze(cast.events, longestPause);
    let { cols, rows } = cast;
    this.#beginnings = [{ index: 0, cols, rows }];
    cast.events.forEach((event, index) => {
      if (event.code === 'r') [cols, rows] = sizeOf(event.data) ?? [cols, rows];
      else if (event.code === 'o' && event.data.startsWith('\x1bc')) this.#beginnings.push({ index, cols, rows });
    });
    this.screen.reset(cast.cols, cast.rows);
  }

  get duration(): number {
    return this.times[this.times.length - 1] ?? 0;
  }

  get isOver(): boolean {
    return this.position >= this.duration;
  }

  /** Goes to a moment; back, too. */
  seek(to: number): void {
    this.position = Math.max(0, Math.min(to, this.duration));
    const target = reached(this.times, this.position);
    const from = this.#beginnings.findLast((beginning) => beginning.index <= Math.max(0, target))!;
    if (target < this.#shown || from.index > this.#shown + 1) {
      this.screen.reset(from.cols, from.rows);
      this.#shown = from.index - 1;
    }
    this.#play(target);
  }

  /** Goes to the beginning of the state before, or of the next. */
  toState(direction: -1 | 1, froms: number[]): void {
    // One that has just begun is not the one before.
    const here = direction < 0 ? this.position - 500 : this.position;
    const next = direction < 0 ? froms.findLast((from) => from < here) : froms.find((from) => from > here);
    this.seek(next ?? (direction < 0 ? 0 : this.duration));
  }

  #play(target: number): void {
    let text = '';
    const write = () => {
      if (text !== '') this.screen.write(text);
      text = '';
    };
    for (let index = this.#shown + 1; index <= target; index++) {
      const { code, data } = this.cast.events[index]!;
      if (code === 'o') {
        text += data;
        if (text.length > PIECE) write();
      } else if (code === 'r') {
        write();
        const size = sizeOf(data);
        if (size) this.screen.resize(...size);
      }
    }
    write();
    this.#shown = Math.max(this.#shown, target);
  }
}
