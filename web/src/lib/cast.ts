// Recordings: asciicast v3 read into events with times, and what a scrubber shows of it. docs/PAGE.md says what coop writes.

import { STATES } from './state';
import type { StateName } from './types';

export interface CastEvent {
  /** Milliseconds since the beginning. */
  at: number;
  code: string;
  data: string;
}

export interface Cast {
  cols: number;
  rows: number;
  /** When it began, in milliseconds since 1970; 0 if nobody knows. */
  began: number;
  events: CastEvent[];
}

/** A stretch of playing time in one state. */
export interface Band {
  state: StateName;
  label: string;
  from: number;
  to: number;
}

/** What one process of the agent showed: events from one to before another, and when that was. */
export interface Take {
  from: number;
  to: number;
  began: number;
  ended: number;
}

export function parseCast(text: string): Cast {
  const lines = text.split('\n');
  let header: { version?: number; timestamp?: number; term?: { cols?: number; rows?: number } } | undefined;
  try {
    header = JSON.parse(lines[0] ?? '');
  } catch {
    // Told below.
  }
  const { cols, rows } = header?.term ?? {};
  if (header?.version !== 3 || !cols || !rows) throw new Error('this is no recording that can be played (asciicast v3)');
  const events: CastEvent[] = [];
  let at = 0;
  for (let number = 1; number < lines.length; number++) {
    const line = lines[number]!;
    if (line === '' || line.startsWith('#')) continue;
    const event = read(line);
    // The last line of a recording that is being made may be cut.
    if (!event) break;
    at += event.interval * 1000;
    events.push({ at: Math.round(at), code: event.code, data: event.data });
  }
  return { cols, rows, began: (header.timestamp ?? 0) * 1000, events };
}

function read(line: string): { interval: number; code: string; data: string } | undefined {
  try {
    const [interval, code, data] = JSON.parse(line) as unknown[];
    return typeof interval === 'number' && typeof code === 'string' && typeof data === 'string' ? { interval, code, data } : undefined;
  } catch {
    return undefined;
  }
}

/** Returns when each event is played, with no pause longer than this. */
export function squeeze(events: CastEvent[], longest: number): number[] {
  let before = 0;
  let time = 0;
  return events.map((event) => {
    time += Math.min(event.at - before, longest);
    before = event.at;
    return time;
  });
}

/** Returns the states of the agent over the playing time. */
export function bands(events: CastEvent[], times: number[]): Band[] {
  const found: Band[] = [];
  const end = times[times.length - 1] ?? 0;
  events.forEach((event, index) => {
    if (event.code !== 'm') return;
    const state = event.data.split(' ', 1)[0] as StateName;
    if (!Object.hasOwn(STATES, state)) return;
    const from = times[index]!;
    const open = found[found.length - 1];
    if (open) open.to = from;
    found.push({ state, label: event.data, from, to: end });
  });
  return found;
}

/** Returns what coop has to say about the recording itself: what is missing, where another process began. */
export function remarks(events: CastEvent[], times: number[]): { at: number; text: string }[] {
  return events.flatMap((event, index) => (event.code === 'm' && event.data.startsWith('coop: ') ? [{ at: times[index]!, text: event.data.slice(6) }] : []));
}

/** Returns the last event that is played by this time, or -1. */
export function reached(times: number[], time: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle]! <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Returns the size that an event tells of. */
export function sizeOf(data: string): [number, number] | undefined {
  const match = /^(\d{1,4})x(\d{1,4})$/.exec(data);
  return match ? [Math.max(2, Number(match[1])), Math.max(1, Number(match[2]))] : undefined;
}

/** Returns the processes that a recording has, in order. */
export function takes({ began, events }: Cast): Take[] {
  const starts = [0, ...events.flatMap((event, index) => (index > 0 && event.code === 'm' && event.data === 'coop: another process' ? [index] : []))];
  return starts.map((from, index) => {
    const to = starts[index + 1] ?? events.length;
    return { from, to, began: began + (events[from]?.at ?? 0), ended: began + (events[to - 1]?.at ?? 0) };
  });
}

/** How far the daemon's time of a process and its recording's may be apart: that begins with a whole second, and the daemon hears of it later. */
const SLACK = 5000;
/** What it costs to leave one out, in milliseconds that others are wrong. */
const LEFT_OUT = 60_000;

/**
 * Returns for each process that the daemon knows what was recorded of it, if anything. Both are in order, so that also those
 * that are shorter than the times are exact find theirs.
 */
export function assign(all: Take[], runs: { began: number; ended: number }[]): (Take | undefined)[] {
  const apart = (take: Take, run: { began: number }) => Math.abs(take.began - run.began);
  // cost[i][j]: the first i of what was recorded, on the first j processes.
  const cost = Array.from({ length: all.length + 1 }, (_, i) => [i * LEFT_OUT, ...runs.map(() => 0)]);
  all.forEach((take, i) => {
    runs.forEach((run, j) => {
      cost[i + 1]![j + 1] = Math.min(cost[i]![j]! + apart(take, run), cost[i + 1]![j]!, cost[i]![j + 1]! + LEFT_OUT);
    });
  });
  const found: (Take | undefined)[] = runs.map(() => undefined);
  for (let [i, j] = [all.length, runs.length]; i > 0 && j > 0; ) {
    const [take, run] = [all[i - 1]!, runs[j - 1]!];
    if (cost[i]![j] === cost[i - 1]![j - 1]! + apart(take, run)) {
      const shared = Math.min(take.ended, run.ended) - Math.max(take.began, run.began);
      if (shared > -SLACK) found[j - 1] = take;
      i--;
      j--;
    } else if (cost[i]![j] === cost[i]![j - 1]) j--;
    else i--;
  }
  return found;
}

/** Returns a recording of one process alone. */
export function cut(cast: Cast, take: Take): Cast {
  let { cols, rows } = cast;
  for (const { code, data } of cast.events.slice(0, take.from)) if (code === 'r') [cols, rows] = sizeOf(data) ?? [cols, rows];
  const start = cast.events[take.from]?.at ?? 0;
  const events = cast.events.slice(take.from, take.to).map((event) => ({ ...event, at: event.at - start }));
  return { cols, rows, began: take.began, events };
}

/** Returns it as a file of asciicast v3. */
export function asText({ cols, rows, began, events }: Cast): string {
  const header = { version: 3, term: { cols, rows }, timestamp: Math.floor(began / 1000) };
  const lines = events.map(({ at, code, data }, index) => [(at - (events[index - 1]?.at ?? 0)) / 1000, code, data]);
  return `${[header, ...lines].map((line) => JSON.stringify(line)).join('\n')}\n`;
}
