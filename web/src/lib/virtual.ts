// Which rows of a long list are in sight, when each has a height of its own that is known only once it was shown.

/** Heights with their sums, in a binary indexed tree: each question takes a few steps however long the list is. */
export class Heights {
  #heights: number[] = [];
  #tree: number[] = [0];

  constructor(readonly guess: number) {}

  get count(): number {
    return this.#heights.length;
  }

  get total(): number {
    return this.offset(this.count);
  }

  /** Makes the list as long as this; new rows have the height that is guessed. */
  grow(count: number): void {
    if (count < this.count) {
      this.#heights.length = count;
      this.#tree.length = count + 1;
      return;
    }
    while (this.count < count) {
      this.#heights.push(this.guess);
      const node = this.count;
      // A node has the sum of the rows below it, which are all here already.
      let sum = this.guess;
      for (let child = node - 1, end = node - (node & -node); child > end; child -= child & -child) {
        sum += this.#tree[child] ?? 0;
      }
      this.#tree.push(sum);
    }
  }

  /** Sets a row's height and returns by how much it differs. */
  set(row: number, height: number): number {
    const difference = height - (this.#heights[row] ?? height);
    if (difference === 0) return 0;
    this.#heights[row] = height;
    for (let node = row + 1; node <= this.count; node += node & -node) {
      this.#tree[node] = (this.#tree[node] ?? 0) + difference;
    }
    return difference;
  }

  /** Returns where a row begins. */
  offset(row: number): number {
    let sum = 0;
    for (let node = Math.min(row, this.count); node > 0; node -= node & -node) sum += this.#tree[node] ?? 0;
    return sum;
  }

  /** Returns the row at a height. */
  at(y: number): number {
    let node = 0;
    let rest = Math.max(0, y);
    let step = 1;
    while (step * 2 <= this.count) step *= 2;
    for (; step > 0; step = Math.floor(step / 2)) {
      const next = node + step;
      const sum = this.#tree[next];
      if (next <= this.count && sum !== undefined && sum <= rest) {
        node = next;
        rest -= sum;
      }
    }
    return Math.min(node, Math.max(0, this.count - 1));
  }

  /** Returns the rows to show, from and up to but without, with some beyond both edges. */
  window(top: number, height: number, beyond: number): { from: number; to: number } {
    if (this.count === 0) return { from: 0, to: 0 };
    const from = this.at(top - beyond);
    const to = this.at(top + height + beyond) + 1;
    return { from, to: Math.min(to, this.count) };
  }
}
