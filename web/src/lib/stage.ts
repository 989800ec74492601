// A terminal on which things happen in their order. xterm.js draws what is written when it finds the time, but empties and
// resizes itself at once; here each of that waits until what was written before it is drawn.

import type { Screen } from './player';

/** As much of a terminal as is needed. */
export interface Drawn {
  reset(): void;
  resize(cols: number, rows: number): void;
  /** Calls back when it is drawn. */
  write(data: string | Uint8Array, drawn: () => void): void;
}

type Act = { what: 'reset' | 'resize'; cols: number; rows: number } | { what: 'write'; data: string | Uint8Array; drawn: () => void };

/** Ends a sequence that was cut, and does nothing else. */
const CANCEL = '\x18';
const nothing = () => {};

export class Stage implements Screen {
  #todo: Act[] = [];
  #drawing = 0;

  /** @param ahead how many pieces the terminal may have at a time: what it has cannot be taken back. */
  constructor(
    readonly terminal: Drawn,
    readonly ahead: number,
    readonly resized: () => void,
  ) {}

  /** Empties it and gives it this size. What was yet to be drawn is given up, for nobody would see it. */
  reset(cols: number, rows: number): void {
    const given = this.#todo;
    this.#todo = [
      { what: 'write', data: CANCEL, drawn: nothing },
      { what: 'reset', cols, rows },
    ];
    for (const act of given) if (act.what === 'write') act.drawn();
    this.#next();
  }

  resize(cols: number, rows: number): void {
    this.#todo.push({ what: 'resize', cols, rows });
    this.#next();
  }

  /** Calls back when it is drawn, or given up. */
  write(data: string | Uint8Array, drawn: () => void = nothing): void {
    this.#todo.push({ what: 'write', data, drawn });
    this.#next();
  }

  #next(): void {
    for (let act = this.#todo[0]; act; act = this.#todo[0]) {
      if (this.#drawing >= (act.what === 'write' ? this.ahead : 1)) return;
      this.#todo.shift();
      if (act.what === 'write') {
        const { data, drawn } = act;
        this.#drawing++;
        this.terminal.write(data, () => {
          this.#drawing--;
          drawn();
          this.#next();
        });
      } else {
        if (act.what === 'reset') this.terminal.reset();
        this.terminal.resize(act.cols, act.rows);
        this.resized();
      }
    }
  }
}
