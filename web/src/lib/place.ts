// Where in the page one is: the part of the address after `#`, so that every view can be linked and gone back to.

export const TABS = ['timeline', 'terminal', 'replay', 'state', 'usage', 'files'] as const;
export type Tab = (typeof TABS)[number];

export type Place = { view: 'inbox' } | { view: 'history' } | { view: 'agent'; agent: string; tab: Tab; run?: number };

export function parse(hash: string): Place {
  const [, view, agent, tab, run] = hash.replace(/^#/, '').split('/');
  if (view === 'history') return { view };
  if (view !== 'agents' || !agent) return { view: 'inbox' };
  const known = TABS.find((name) => name === tab);
  try {
    const place: Place = { view: 'agent', agent: decodeURIComponent(agent), tab: known ?? 'timeline' };
    // Only a recording is of one process or of all.
    return known === 'replay' && /^[1-9]\d{0,8}$/.test(run ?? '') ? { ...place, run: Number(run) } : place;
  } catch {
    return { view: 'inbox' };
  }
}

export function linkTo(agent: string, tab: Tab = 'timeline', run?: number): string {
  return `#/agents/${encodeURIComponent(agent)}/${tab}${run === undefined ? '' : `/${run}`}`;
}
