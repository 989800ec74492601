// How much of something long a person can have read: a line counts once it was on the screen for long enough.

/** A part of a height, in pixels from its top. */
export interface Part {
  from: number;
  to: number;
}

/** The part that is on the screen at a time, in milliseconds, and the size of the whole then, in pixels. */
export interface Sample extends Part {
  at: number;
  width: number;
  height: number;
}

/** The time that a line has to be on the screen. Lines that fly past, as after a press of `End`, do not count. */
export const LONG_ENOUGH_MS = 200;
/** What rounding may leave between two parts, or add to a size, in pixels. */
const ROUNDING_PX = 2;

export class Reading {
  #width = 0;
  #height = 0;
  #samples: Sample[] = [];
  #parts: Part[] = [];

  look(sample: Sample): void {
    // In another size lines break elsewhere, so the old parts say nothing about the new ones.
    if (differs(sample.width, this.#width) || differs(sample.height, this.#height)) {
      this.#width = sample.width;
      this.#height = sample.height;
      this.#samples = [];
      this.#parts = [];
    }
    this.#samples.push(sample);
    const first = this.#samples.findLastIndex(({ at }) => at <= sample.at - LONG_ENOUGH_MS);
    if (first < 0) return;
    this.#samples = this.#samples.slice(first);
    // What was on the screen all the time since then.
    const from = Math.max(...this.#samples.map((one) => one.from));
    const to = Math.min(...this.#samples.map((one) => one.to));
    if (from < to) this.#parts = addPart(this.#parts, { from, to });
  }

  /** The page is not in sight from now on, until the next look. */
  interrupt(): void {
    this.#samples = [];
  }

  /** Returns the parts that were not on the screen for long enough. */
  get missing(): Part[] {
    return partsBetween(this.#parts, this.#height);
  }

  get isWhole(): boolean {
    return this.#parts.length > 0 && this.missing.length === 0;
  }

  /** Whether something is on the screen that does not count yet. */
  get isUnderWay(): boolean {
    const last = this.#samples.at(-1);
    return last !== undefined && this.missing.some(({ from, to }) => Math.max(from, last.from) < Math.min(to, last.to));
  }
}

/** Returns the parts with one more, in order, and joined where they meet. */
export function addPart(parts: Part[], more: Part): Part[] {
  const joined: Part[] = [];
  for (const { from, to } of [...parts, more].sort((a, b) => a.from - b.from)) {
    const last = joined.at(-1);
    if (last && from <= last.to + ROUNDING_PX) last.to = Math.max(last.to, to);
    else joined.push({ from, to });
  }
  return joined;
}

/** Returns what the parts, which are in order, leave out of a height. */
export function partsBetween(parts: Part[], height: number): Part[] {
  const between: Part[] = [];
  let end = 0;
  for (const { from, to } of [...parts, { from: height, to: height }]) {
    if (from - end > ROUNDING_PX) between.push({ from: end, to: from });
    end = Math.max(end, to);
  }
  return between;
}

const differs = (a: number, b: number) => Math.abs(a - b) > ROUNDING_PX;
