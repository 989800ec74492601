import { expect, test } from 'vitest';

import { answerInWords, Timeline } from '../src/lib/timeline';
import { asJson, asMarkdown } from '../src/lib/transcript';
import type { Ask, Body, Entry } from '../src/lib/types';

let id = 0;
const entry = (body: Body): Entry => {
  id++;
  return { id, agent: 'a', at: id * 1000, event: { seq: id, id: `a-${id}`, ts: '', agent: 'a-1', run: 1, offset: 0, body } };
};
const usage = (cost: number) => ({ input_tokens: 1, output_tokens: 1, cache_read_tokens: 0, cache_write_tokens: 0, cost_usd: cost });
const ask: Ask = { id: 'ask-1', kind: 'permission', tool: 'Bash', preview: 'ls', opened: '', channel: 'structured' };

test('a tool is one row, whatever comes between its steps', () => {
  const timeline = new Timeline();
  timeline.add([
    entry({ kind: 'tool', id: 't1', tool: 'Bash', phase: 'requested', input: { command: 'ls' } }),
    entry({ kind: 'message', role: 'assistant', text: 'wait' }),
    entry({ kind: 'tool', id: 't1', tool: 'Bash', phase: 'completed', output: 'a.txt', duration_ms: 12 }),
  ]);
  expect(timeline.rows.map((row) => row.kind)).toEqual(['tool', 'message']);
  expect(timeline.rows[0]).toMatchObject({ phase: 'completed', input: { command: 'ls' }, output: 'a.txt', duration: 12 });
});

test('an ask is one row with its answer and who gave it, in either order', () => {
  for (const decidedFirst of [true, false]) {
    const timeline = new Timeline();
    const answered = entry({ kind: 'ask', what: 'answered', ask: 'ask-1', answer: '{"accept":false,"text":"no"}', via: 'hook' });
    const decided: Entry = { id: ++id, agent: 'a', at: 0, input: { what: 'decided', by: 'ann', answer: { ask: 'ask-1' } } };
    timeline.add([entry({ kind: 'ask', what: 'opened', ask }), ...(decidedFirst ? [decided, answered] : [answered, decided])]);
    expect(timeline.rows).toHaveLength(1);
    expect(timeline.rows[0]).toMatchObject({ outcome: { what: 'answered', text: 'denied · “no”', by: 'ann' } });
  }
});

test('the prompt of a turn is said once', () => {
  const timeline = new Timeline();
  timeline.add([
    entry({ kind: 'turn', what: 'began', prompt: 'do it' }),
    entry({ kind: 'message', role: 'user', text: 'do it' }),
    entry({ kind: 'message', role: 'assistant', text: 'done' }),
  ]);
  expect(timeline.rows.map((row) => row.kind)).toEqual(['prompt', 'message']);
});

test('usage has one line for each turn, the last that was told in it', () => {
  const timeline = new Timeline();
  timeline.add([
    entry({ kind: 'turn', what: 'began', prompt: '1' }),
    entry({ kind: 'usage', turn: usage(1), total: usage(1), requests: 1 }),
    entry({ kind: 'usage', turn: usage(2), total: usage(2), requests: 2 }),
    entry({ kind: 'turn', what: 'began', prompt: '2' }),
    entry({ kind: 'usage', turn: usage(3), total: usage(5), requests: 3 }),
  ]);
  expect(timeline.usage.map((one) => [one.turn.cost_usd, one.total.cost_usd])).toEqual([[2, 2], [3, 5]]);
});

test('a state lasts until the next', () => {
  const timeline = new Timeline();
  const change = (state: 'idle' | 'working') =>
    entry({ kind: 'state', prev: { state: 'unknown' }, next: { state }, evidence: { source: 'hook', detail: '' } });
  const [one, two] = [change('working'), change('idle')];
  timeline.add([one, two]);
  expect(timeline.spans.map((span) => [span.state.state, span.from, span.to])).toEqual([['working', one.at, two.at], ['idle', two.at, undefined]]);
});

test('each process has a beginning and an end, and a recording that stops is told of', () => {
  const timeline = new Timeline();
  const heard = (what: string, at: number): Entry => ({ id: ++id, agent: 'a', at, input: { what } });
  timeline.add([heard('spawned', 1), heard('gone', 5), heard('gone', 6), heard('spawned', 7), heard('spawned', 9)]);
  timeline.add([entry({ kind: 'lifecycle', what: 'unrecorded', why: 'no room' })]);
  expect(timeline.runs).toEqual([{ began: 1, ended: 5 }, { began: 7, ended: 9 }, { began: 9 }]);
  expect(timeline.rows).toMatchObject([{ kind: 'note', text: 'The terminal is no longer recorded: no room', tone: 'bad' }]);
});

test('answers are told in words', () => {
  expect(answerInWords('{"accept":true,"always":true}')).toBe('allowed, from now on');
  expect(answerInWords('{"option":2}')).toBe('chose option 2');
  expect(answerInWords('plain words')).toBe('plain words');
});

test('a transcript has all of it, and code that holds a fence stays inside its own', () => {
  const timeline = new Timeline();
  timeline.add([
    entry({ kind: 'turn', what: 'began', prompt: 'do it' }),
    entry({ kind: 'tool', id: 't9', tool: 'Bash', phase: 'completed', input: 'ls', output: '```\nx' }),
    entry({ kind: 'message', role: 'assistant', text: 'done' }),
  ]);
  const text = asMarkdown('a', timeline.rows);
  for (const part of ['# a', '> do it', '**Bash** completed', '````\n```\nx\n````', '\n\ndone\n']) expect(text).toContain(part);
  expect(JSON.parse(asJson('a', timeline.rows)).rows.map((row: { kind: string }) => row.kind)).toEqual(['prompt', 'tool', 'message']);
});
