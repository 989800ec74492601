import { expect, test } from 'vitest';

import { answered } from '../src/lib/answered';
import { placed } from '../src/lib/sorted';
import type { Ask, Decision, Project } from '../src/lib/types';

const ask: Ask = { id: 'a1', kind: 'permission', tool: 'Bash', preview: 'ls', opened: '', channel: 'structured' };
const decision = (more: Partial<Decision>): Decision => ({ at: 1, agent: 'x', ask: 'a1', accept: true, by: { by: 'person', name: 'ann' }, why: null, state: 'done', ...more });

test('what was answered says by whom and by which rule, once', () => {
  const closed = [{ agent: 'x', ask, outcome: { what: 'answered' as const, text: 'allowed' }, at: 50 }];
  const listed = answered(
    closed,
    [
      decision({ by: { by: 'rule', line: 12 }, why: 'tests change nothing' }),
      decision({ agent: 'y', at: 40, accept: false, why: 'not now' }),
      decision({ agent: 'z', at: 60, by: { by: 'gate', run: 'make check' }, state: 'overtaken' }),
    ],
    10,
  );
  expect(listed.map(({ agent, text, by, why }) => [agent, text, by, why])).toEqual([
    ['z', 'allowed (overtaken)', 'the gate “make check”', ''],
    ['x', 'allowed', 'the rule in line 12', 'tests change nothing'],
    ['y', 'denied', 'ann', 'not now'],
  ]);
  expect(answered(closed, [], 10)).toMatchObject([{ agent: 'x', by: '' }]);
});

test('each answer is listed once, with a name of its own', () => {
  const closed = [1, 2].map(() => ({ agent: 'x', ask, outcome: { what: 'answered' as const, text: 'allowed' }, at: 50 }));
  const listed = answered(
    closed,
    // Two messages that said yes to whatever was asked, at the same moment, and an answer that came too late.
    [decision({ ask: null }), decision({ ask: null }), decision({ agent: 'y', at: 2 }), decision({ agent: 'y', at: 3, accept: false, state: 'failed' })],
    10,
  );
  expect(listed.map(({ agent, at, text }) => [agent, at, text])).toEqual([
    ['x', 50, 'allowed'],
    ['x', 50, 'allowed'],
    ['y', 2, 'allowed'],
    ['x', 1, 'allowed'],
    ['x', 1, 'allowed'],
  ]);
  expect(new Set(listed.map((one) => one.key)).size).toBe(listed.length);
  // What comes later changes no name.
  const more = answered(closed, [decision({ ask: null }), decision({ ask: null }), decision({ ask: null, at: 99 })], 10);
  expect(more.slice(1, 3).map((one) => one.key)).toEqual(listed.slice(0, 2).map((one) => one.key));
});

test('an agent is in the workspace whose folder it works in or below', () => {
  const none = { type: 'none' as const };
  const projects: Project[] = [
    { id: 'p1', name: 'shop', path: '/src/shop', agent: none, workspaces: [{ name: 'fix/a', path: '/state/p1/fix%a', branch: 'fix/a', metadata: {}, agent: none }] },
  ];
  expect(placed('/state/p1/fix%a', projects)).toMatchObject({ project: 'shop', workspace: 'fix/a' });
  expect(placed('/state/p1/fix%a/sub', projects)).toMatchObject({ project: 'shop', workspace: 'fix/a' });
  expect(placed('/state/p1/fix%ab', projects)).toEqual({ project: 'p1', workspace: 'fix%ab' });
  expect(placed('/src/shop/api', projects)).toMatchObject({ project: 'shop', workspace: '' });
  expect(placed('/src/shop', [])).toEqual({ project: 'src', workspace: 'shop' });
});
