import type { Card, StateName } from './types';

/** How states are called, and which come first for whoever looks. */
export const STATES: Record<StateName, { word: string; rank: number }> = {
  waiting: { word: 'asks', rank: 0 },
  blocked: { word: 'blocked', rank: 1 },
  working: { word: 'working', rank: 2 },
  starting: { word: 'starting', rank: 3 },
  idle: { word: 'idle', rank: 4 },
  unknown: { word: 'unknown', rank: 5 },
  exited: { word: 'exited', rank: 6 },
};

/** Tells whether a person is called for something that no ask in the inbox says. */
export function needs(agent: { needs: string | null; state: StateName }): boolean {
  return agent.needs !== null && agent.state !== 'exited' && agent.state !== 'waiting';
}

export function ofPhase(phase: Card['phase']): StateName {
  switch (phase) {
    case 'asking':
      return 'waiting';
    case 'dead':
      return 'exited';
    default:
      return phase;
  }
}
