// Open asks, each in its place for as long as it is open.

import type { Ask } from './types';

export interface OpenAsk {
  agent: string;
  ask: Ask;
}

/** Names an ask among all. An agent that was started again counts from one again, so its time belongs to it. */
export function keyOf({ agent, ask }: OpenAsk): string {
  return `${agent}/${ask.id}/${ask.opened}`;
}

/** Returns what is open now: what was there stays where it is, and what is new comes last, so that nothing moves down. */
export function inPlace(before: OpenAsk[], now: OpenAsk[]): OpenAsk[] {
  const open = new Set(now.map(keyOf));
  const known = new Set(before.map(keyOf));
  return [...before.filter((one) => open.has(keyOf(one))), ...now.filter((one) => !known.has(keyOf(one)))];
}
