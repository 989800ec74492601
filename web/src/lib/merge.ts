// Joining what was and what comes: pages of history on one side, live entries on the other, nothing twice, in order.

interface Numbered {
  id: number;
}

/** Lets each number through once, in order. */
export class Cursor {
  constructor(public last = 0) {}

  /** Tells whether this is new, and remembers it. */
  take(id: number): boolean {
    if (id <= this.last) return false;
    this.last = id;
    return true;
  }
}

/**
 * One agent's history. While its pages are loaded, live entries wait; afterwards they come in behind them, without
 * those that the pages had already.
 */
export class Joined<T extends Numbered> {
  #cursor = new Cursor();
  #waiting: T[] = [];
  #loading = true;

  constructor(readonly emit: (items: T[]) => void) {}

  get last(): number {
    return this.#cursor.last;
  }

  page(items: T[]): void {
    const fresh = items.filter((item) => this.#cursor.take(item.id));
    if (fresh.length > 0) this.emit(fresh);
  }

  /** All pages are here. */
  loaded(): void {
    this.#loading = false;
    const waiting = this.#waiting.sort((a, b) => a.id - b.id);
    this.#waiting = [];
    this.page(waiting);
  }

  live(item: T): void {
    if (this.#loading) this.#waiting.push(item);
    else this.page([item]);
  }
}

/** Loads pages until one is not full. */
export async function loadAll<T extends Numbered>(
  fetchPage: (after: number) => Promise<T[]>,
  full: number,
  joined: Joined<T>,
): Promise<void> {
  for (;;) {
    const page = await fetchPage(joined.last);
    joined.page(page);
    if (page.length < full) break;
  }
  joined.loaded();
}
