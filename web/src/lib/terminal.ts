// A terminal and its connection. The agent's bytes come as they are and are drawn by xterm.js; what is typed goes back
// only while this page has control.
//
// Size lease: whoever has control gives the terminal its size, and all others show that size, scaled into the room they
// have. A page that cannot keep up drops its connection, and begins anew with the whole screen when it has caught up, so
// that neither its memory nor anybody else suffers.

import { FitAddon } from '@xterm/addon-fit';
import type { SearchAddon } from '@xterm/addon-search';
import type { Terminal } from '@xterm/xterm';

import { Stage } from './stage';
import { fitInto, makeTerminal } from './xterm';

export interface Told {
  link: (state: 'connecting' | 'live' | 'lost') => void;
  control: (held: boolean) => void;
  size: (cols: number, rows: number, scale: number) => void;
  /** So many bytes were left out because this page was too slow. */
  skipped: (bytes: number) => void;
  error: (message: string) => void;
  /** Somebody wants out of the terminal by keys. */
  left: () => void;
}

/** More than this that is not drawn yet is too much. */
const MOST_PENDING = 4 * 1024 * 1024;
/** The lock is kept for 30 seconds after it was last acquired. */
const KEEP_MS = 10_000;
const FIRST_PAUSE = 250;
const LAST_PAUSE = 5000;
const SCROLLBACK = 1000;
/** What is drawn has its new size a frame or two after it was told to; so it is looked at again. */
const FRAMES_TO_SETTLE = 3;

export class LiveTerminal {
  readonly term: Terminal;
  readonly search: SearchAddon;
  #stage: Stage;
  #fit = new FitAddon();
  #socket: WebSocket | undefined;
  #keep: ReturnType<typeof setInterval> | undefined;
  #again: ReturnType<typeof setTimeout> | undefined;
  #pause = FIRST_PAUSE;
  #pending = 0;
  #behind = false;
  #offset = 0;
  #held = false;
  #wanted = false;
  #closed = false;
  #observer: ResizeObserver;

  constructor(
    readonly room: HTMLElement,
    readonly base: string,
    readonly told: Told,
  ) {
    const { term, search } = makeTerminal(room);
    [this.term, this.search] = [term, search];
    this.#stage = new Stage(term, Infinity, () => this.#scale());
    term.attachCustomKeyEventHandler((event) => this.#key(event));
    term.loadAddon(this.#fit);
    this.term.onData((data) => this.#type(new TextEncoder().encode(data)));
    this.term.onBinary((data) => this.#type(Uint8Array.from(data, (char) => char.charCodeAt(0))));
    this.#observer = new ResizeObserver(() => this.#scale());
    this.#observer.observe(room);
    this.#connect();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#again);
    clearInterval(this.#keep);
    this.#observer.disconnect();
    this.#socket?.close();
    this.term.dispose();
  }

  takeControl(): void {
    this.#wanted = true;
    this.#send({ type: 'lock', action: 'acquire' });
  }

  releaseControl(): void {
    this.#wanted = false;
    this.#send({ type: 'lock', action: 'release' });
    this.#control(false);
  }

  #connect(): void {
    if (this.#closed) return;
    this.told.link('connecting');
    this.#behind = false;
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    const socket = new WebSocket(`${scheme}://${location.host}${this.base}?subscribe=output&binary=1&resync=1`);
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => {
      this.#pause = FIRST_PAUSE;
      this.told.link('live');
      if (this.#wanted) this.takeControl();
    };
    socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
      if (socket !== this.#socket) return;
      if (typeof event.data === 'string') void this.#message(JSON.parse(event.data) as Message);
      else this.#output(event.data);
    };
    socket.onclose = () => {
      if (socket !== this.#socket || this.#closed) return;
      this.#control(false);
      this.told.link('lost');
      this.#again = setTimeout(() => this.#connect(), this.#pause);
      this.#pause = Math.min(this.#pause * 2, LAST_PAUSE);
    };
    this.#socket = socket;
  }

  #output(frame: ArrayBuffer): void {
    const view = new DataView(frame);
    const offset = view.getUint32(0) * 2 ** 32 + view.getUint32(4);
    const bytes = new Uint8Array(frame, 8);
    this.#offset = offset + bytes.length;
    this.#write(bytes);
    if (this.#pending > MOST_PENDING) this.#fallBehind();
  }

  #write(bytes: Uint8Array): void {
    this.#pending += bytes.length;
    this.#stage.write(bytes, () => {
      this.#pending -= bytes.length;
      if (this.#behind && this.#pending === 0) this.#connect();
    });
  }

  #fallBehind(): void {
    this.#behind = true;
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close();
    this.#control(false);
  }

  async #message(message: Message): Promise<void> {
    switch (message.type) {
      case 'resync':
        await this.#resync(message);
        break;
      case 'gap':
        this.told.skipped(message.to - message.from);
        break;
      case 'resize':
        this.#stage.resize(message.cols, message.rows);
        break;
      case 'lock':
        this.#control(message.held);
        break;
      case 'error':
        if (message.code === 'WRITER_BUSY' && !this.#held) this.#wanted = false;
        this.told.error(message.message);
        break;
    }
  }

  /** Shows the whole screen anew, above it what has scrolled off. */
  async #resync(message: Resync): Promise<void> {
    if (this.#offset > 0 && message.offset > this.#offset) this.told.skipped(message.offset - this.#offset);
    this.#offset = message.offset;
    const screen = Uint8Array.from(atob(message.data), (char) => char.charCodeAt(0));
    const first = this.term.buffer.normal.length <= this.term.rows;
    this.#stage.reset(message.cols, message.rows);
    if (first && this.#history !== undefined) {
      this.#write(new TextEncoder().encode(this.#history + '\r\n'.repeat(message.rows)));
    }
    // It begins with a reset, which would take the history with it.
    const isReset = screen[0] === 0x1b && screen[1] === 0x63;
    this.#write(isReset ? screen.subarray(2) : screen);
  }
  #history: string | undefined;

  /** What has scrolled off before this page came, as plain text; given before the first screen. */
  setHistory(text: string): void {
    this.#history = text;
  }

  /** Tells whether a key is the terminal's. All are while one types; else Tab and the others are the page's. */
  #key(event: KeyboardEvent): boolean {
    const isWayOut = event.ctrlKey && event.shiftKey && (event.code === 'Period' || event.key === '.');
    if (!this.#held || !isWayOut) return this.#held;
    event.preventDefault();
    if (event.type === 'keydown') {
      this.releaseControl();
      this.told.left();
    }
    return false;
  }

  #lease(): void {
    const fits = this.#fit.proposeDimensions();
    if (!fits || !Number.isFinite(fits.cols) || !Number.isFinite(fits.rows)) return;
    const [cols, rows] = [Math.max(20, fits.cols), Math.max(5, fits.rows)];
    if (cols !== this.term.cols || rows !== this.term.rows) this.#send({ type: 'resize', cols, rows });
  }

  /** The room or the terminal has another size: whoever has control gives the room's, others fit what there is into it. */
  #scale(): void {
    cancelAnimationFrame(this.#settling);
    let left = FRAMES_TO_SETTLE;
    const look = () => {
      if (this.#closed) return;
      this.#scaleNow();
      if (left-- > 0) this.#settling = requestAnimationFrame(look);
      // Only letters of the right size tell how many fit.
      else if (this.#held) this.#lease();
    };
    look();
  }
  #settling = 0;

  #scaleNow(): void {
    const scale = fitInto(this.term, this.room, this.#held ? 'full' : 'fitting');
    if (scale !== undefined) this.told.size(this.term.cols, this.term.rows, scale);
  }

  #control(held: boolean): void {
    if (held === this.#held) return;
    this.#held = held;
    clearInterval(this.#keep);
    if (held) {
      this.#keep = setInterval(() => this.#send({ type: 'lock', action: 'acquire' }), KEEP_MS);
      this.term.focus();
    }
    this.term.options.disableStdin = !held;
    this.#scale();
    this.told.control(held);
  }

  #type(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#held && this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(bytes);
  }

  #send(message: Record<string, unknown>): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }
}

interface Resync {
  type: 'resync';
  data: string;
  offset: number;
  cols: number;
  rows: number;
}

type Message =
  | Resync
  | { type: 'gap'; from: number; to: number }
  | { type: 'resize'; cols: number; rows: number }
  | { type: 'lock'; held: boolean }
  | { type: 'error'; message: string; code: string };

export { SCROLLBACK };
