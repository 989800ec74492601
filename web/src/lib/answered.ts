// What was answered lately: the asks that this page saw being closed, with who or what answered them, and before those what
// the daemon has written down.

import type { Outcome } from './timeline';
import type { Ask, Decision } from './types';

export interface Answered {
  /** Its own, and the same as long as it is listed. */
  key: string;
  agent: string;
  at: number;
  /** Nothing if this page has not seen it open. */
  ask?: Ask;
  what: Outcome['what'];
  /** What the answer was. */
  text: string;
  /** Who gave it, or what. */
  by: string;
  why: string;
}

interface Closed {
  agent: string;
  ask: Ask;
  outcome: Outcome;
  at: number;
}

export function deciderInWords(by: Decision['by']): string {
  switch (by.by) {
    case 'rule':
      return `the rule in line ${by.line}`;
    case 'action':
      return 'the definition';
    case 'gate':
      return `the gate “${by.run}”`;
    case 'person':
      return by.name;
    case 'sidecar':
      return 'a client of the sidecar itself';
  }
}

export function answered(closed: Closed[], decisions: Decision[], most: number): Answered[] {
  const about = (agent: string, ask: string) => `${agent}/${ask}`;
  const known = new Map<string, Decision>();
  // What was decided about no ask in particular is each its own.
  const alone: Decision[] = [];
  for (const decision of decisions) {
    if (decision.ask === null) alone.push(decision);
    // Of several answers to one ask, the one that counted.
    else if (known.get(about(decision.agent, decision.ask))?.state !== 'done') known.set(about(decision.agent, decision.ask), decision);
  }
  const live = closed.map(({ agent, ask, outcome, at }): Omit<Answered, 'key'> => {
    const decision = known.get(about(agent, ask.id));
    known.delete(about(agent, ask.id));
    const by = decision ? deciderInWords(decision.by) : (outcome.by ?? '');
    // What a person said with an answer is in its words already.
    const why = decision && decision.by.by !== 'person' && decision.by.by !== 'sidecar' ? (decision.why ?? '') : '';
    return { agent, at, ask, what: outcome.what, text: outcome.text, by, why };
  });
  const before = [...known.values(), ...alone].map((decision): Omit<Answered, 'key'> => {
    const { agent, at, accept, by, why, state } = decision;
    const text = accept === null ? 'answered' : accept ? 'allowed' : 'denied';
    const became = state === 'done' ? '' : ` (${state})`;
    return { agent, at, what: 'answered', text: text + became, by: deciderInWords(by), why: why ?? '' };
  });
  const oldestFirst = [...live, ...before].sort((a, b) => a.at - b.at);
  // Two may be alike in all that is known of them.
  const alike = new Map<string, number>();
  const named = oldestFirst.map((one): Answered => {
    const name = `${one.agent}/${one.ask?.id ?? ''}/${one.at}/${one.by}`;
    const count = (alike.get(name) ?? 0) + 1;
    alike.set(name, count);
    return { key: `${name}#${count}`, ...one };
  });
  return named.reverse().slice(0, most);
}
