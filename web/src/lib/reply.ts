import type { AskOption } from './types';

/**
 * Makes the answer of a click. What the agent offers is chosen by its number, so that it does what its label says; a no
 * takes the words along, which a number cannot.
 */
export function reply(option: AskOption | undefined, number: number, words: string): Record<string, unknown> {
  const text = words.trim();
  if (option?.kind === 'reject' && text !== '') return { accept: false, text };
  return { option: number };
}
