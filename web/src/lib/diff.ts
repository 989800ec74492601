// Lines that differ: of an edit that is asked for, and as git tells them.

export interface Line {
  kind: 'same' | 'add' | 'del' | 'note';
  text: string;
}

export interface FileDiff {
  path: string;
  lines: Line[];
  added: number;
  removed: number;
}

/** More lines than this on both sides are not compared one by one: the table would be too large. */
const MOST = 2000;

/** Compares two texts line by line. */
export function compare(before: string, after: string): Line[] {
  const a = split(before);
  const b = split(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const same = (text: string): Line => ({ kind: 'same', text });
  const middle = between(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  return [...a.slice(0, head).map(same), ...middle, ...a.slice(a.length - tail).map(same)];
}

function split(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  return lines;
}

/** The longest common subsequence, by the usual table. */
function between(a: string[], b: string[]): Line[] {
  const del = (text: string): Line => ({ kind: 'del', text });
  const add = (text: string): Line => ({ kind: 'add', text });
  if (a.length === 0 || b.length === 0 || a.length > MOST || b.length > MOST) return [...a.map(del), ...b.map(add)];
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const at = i * width + j;
      table[at] = a[i] === b[j] ? table[at + width + 1]! + 1 : Math.max(table[at + width]!, table[at + 1]!);
    }
  }
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ kind: 'same', text: a[i]! });
      i++;
      j++;
    } else if (table[(i + 1) * width + j]! >= table[i * width + j + 1]!) {
      lines.push(del(a[i++]!));
    } else {
      lines.push(add(b[j++]!));
    }
  }
  return [...lines, ...a.slice(i).map(del), ...b.slice(j).map(add)];
}

/** Reads what `git diff` prints. */
export function parseGit(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: FileDiff | undefined;
  let inHunk = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('diff --git ')) {
      file = { path: line.replace(/^diff --git a\/(.*) b\/.*$/, '$1'), lines: [], added: 0, removed: 0 };
      files.push(file);
      inHunk = false;
    } else if (!file) {
      continue;
    } else if (line.startsWith('@@')) {
      inHunk = true;
      file.lines.push({ kind: 'note', text: line });
    } else if (!inHunk) {
      if (line.startsWith('+++ b/')) file.path = line.slice(6);
      else if (/^(new file|deleted file|rename |Binary )/.test(line)) file.lines.push({ kind: 'note', text: line });
    } else if (line.startsWith('+')) {
      file.added++;
      file.lines.push({ kind: 'add', text: line.slice(1) });
    } else if (line.startsWith('-')) {
      file.removed++;
      file.lines.push({ kind: 'del', text: line.slice(1) });
    } else if (line.startsWith(' ')) {
      file.lines.push({ kind: 'same', text: line.slice(1) });
    } else if (line.startsWith('\\')) {
      file.lines.push({ kind: 'note', text: line.slice(2) });
    }
  }
  return files;
}
