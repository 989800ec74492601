// What happened, as rows to read: a tool's steps are one row, and so is an ask with its answer.

import type { AgentState, Ask, Entry, Evidence, Fault, Receipt, Usage } from './types';

export type Row = { key: string; at: number } & (
  | { kind: 'prompt'; text: string }
  | { kind: 'message'; role: 'user' | 'assistant'; text: string; subagent?: string }
  | {
      kind: 'tool';
      tool: string;
      phase: 'requested' | 'running' | 'completed' | 'failed';
      input?: unknown;
      output?: unknown;
      duration?: number;
      subagent?: string;
    }
  | { kind: 'ask'; ask: Ask; outcome?: Outcome }
  | { kind: 'artifact'; path: string; tool: string }
  | { kind: 'fault'; fault: Fault; retry?: string }
  | { kind: 'delivery'; receipt: Receipt }
  | { kind: 'note'; text: string; tone: 'plain' | 'good' | 'bad' }
);

export interface Outcome {
  what: 'answered' | 'withdrawn';
  text: string;
  by?: string;
}

/** A stretch of time in one state. */
export interface Span {
  state: AgentState;
  from: number;
  /** Nothing while it lasts. */
  to?: number;
  evidence: Evidence;
}

export interface TurnUsage {
  at: number;
  turn: Usage;
  total: Usage;
}

/** A process of the agent, as the daemon started it and saw it end. */
export interface Run {
  began: number;
  /** Nothing while it runs. */
  ended?: number;
}

export class Timeline {
  readonly rows: Row[] = [];
  readonly runs: Run[] = [];
  readonly spans: Span[] = [];
  readonly usage: TurnUsage[] = [];
  #tools = new Map<string, number>();
  #asks = new Map<string, number>();
  #lastPrompt = '';
  #newTurn = true;

  add(entries: Entry[]): void {
    for (const entry of entries) this.#one(entry);
  }

  #push(row: Row): number {
    return this.rows.push(row) - 1;
  }

  #one(entry: Entry): void {
    const { at } = entry;
    const key = String(entry.id);
    const note = (text: string, tone: 'plain' | 'good' | 'bad' = 'plain') => this.#push({ key, at, kind: 'note', text, tone });
    if (entry.input) this.#heard(entry);
    const event = entry.event;
    if (!event) return;
    const body = event.body;
    // A process that was started anew counts its tools and asks anew.
    const named = (id: string) => `${event.agent}/${event.run}/${id}`;
    switch (body.kind) {
      case 'state': {
        const open = this.spans[this.spans.length - 1];
        if (open && open.to === undefined) open.to = at;
        this.spans.push({ state: body.next, from: at, evidence: body.evidence });
        break;
      }
      case 'turn':
        if (body.what === 'began') {
          this.#newTurn = true;
          this.#lastPrompt = body.prompt ?? '';
          this.#push({ key, at, kind: 'prompt', text: this.#lastPrompt });
        } else if (body.outcome !== 'completed') {
          note(body.outcome === 'interrupted' ? 'Interrupted' : 'The turn failed', 'bad');
        }
        break;
      case 'message':
        // The prompt that began the turn is shown already.
        if (body.role === 'user' && body.text === this.#lastPrompt && !body.subagent) break;
        this.#push({ key, at, kind: 'message', role: body.role, text: body.text, ...(body.subagent && { subagent: body.subagent }) });
        break;
      case 'tool': {
        const known = this.#tools.get(named(body.id));
        const before = known === undefined ? undefined : this.rows[known];
        const row: Row = {
          ...(before?.kind === 'tool' ? before : { key, at, kind: 'tool', tool: body.tool }),
          phase: body.phase,
          ...(body.input !== undefined && { input: body.input }),
          ...(body.output !== undefined && { output: body.output }),
          ...(body.duration_ms !== undefined && { duration: body.duration_ms }),
          ...(body.subagent && { subagent: body.subagent }),
        };
        if (known === undefined) this.#tools.set(named(body.id), this.#push(row));
        else this.rows[known] = row;
        break;
      }
      case 'ask':
        if (body.what === 'opened') {
          this.#asks.set(body.ask.id, this.#push({ key, at, kind: 'ask', ask: body.ask }));
        } else {
          const text = body.what === 'answered' ? answerInWords(body.answer) : body.why;
          this.#close(body.ask, { what: body.what, text });
        }
        break;
      case 'artifact':
        this.#push({ key, at, kind: 'artifact', path: body.path, tool: body.tool });
        break;
      case 'usage':
        if (this.#newTurn || this.usage.length === 0) this.usage.push({ at, turn: body.turn, total: body.total });
        else this.usage[this.usage.length - 1] = { at, turn: body.turn, total: body.total };
        this.#newTurn = false;
        break;
      case 'fault': {
        const retry = body.retry && `tries again, attempt ${body.retry.attempt}${body.retry.max ? ` of ${body.retry.max}` : ''}`;
        this.#push({ key, at, kind: 'fault', fault: body.fault, ...(retry && { retry }) });
        break;
      }
      case 'stop':
        if (body.outcome === 'blocked') note(body.reason ? `Sent back: ${body.reason}` : 'Held at the end of its turn');
        break;
      case 'delivery': {
        const { kind: _, ...receipt } = body;
        this.#push({ key, at, kind: 'delivery', receipt });
        break;
      }
      case 'lifecycle':
        if (body.what === 'started') note('Started');
        else if (body.what === 'permission_mode') note(`Permission mode: ${body.mode}`);
        else if (body.what === 'unrecorded') note(`The terminal is no longer recorded: ${body.why}`, 'bad');
        else if (body.what === 'exited') {
          const how = body.signal !== null ? `killed by signal ${body.signal}` : `with code ${body.code}`;
          note(`Exited ${how}`, body.code === 0 ? 'plain' : 'bad');
        }
        break;
    }
  }

  #close(ask: string, outcome: Outcome): void {
    const at = this.#asks.get(ask);
    const row = at === undefined ? undefined : this.rows[at];
    if (at !== undefined && row?.kind === 'ask') this.rows[at] = { ...row, outcome: { ...row.outcome, ...outcome } };
  }

  /** What the daemon has to say beside the agent's own events. */
  #heard(entry: Entry): void {
    const last = this.runs[this.runs.length - 1];
    const isOpen = last !== undefined && last.ended === undefined;
    if ((entry.input?.what === 'spawned' || entry.input?.what === 'gone') && isOpen) last.ended = entry.at;
    if (entry.input?.what === 'spawned') this.runs.push({ began: entry.at });
    this.#decided(entry);
  }

  /** What people and rules decided comes beside what the agent made of it. */
  #decided(entry: Entry): void {
    const { input } = entry;
    if (input?.what !== 'decided' || !input.answer?.ask) return;
    const at = this.#asks.get(input.answer.ask);
    const row = at === undefined ? undefined : this.rows[at];
    if (at !== undefined && row?.kind === 'ask' && input.by) {
      this.rows[at] = { ...row, outcome: { what: 'answered', text: '', ...row.outcome, by: input.by } };
    }
  }
}

/** Makes words of an answer as an event has it: JSON, or words already. */
export function answerInWords(answer: string): string {
  try {
    const given = JSON.parse(answer) as Record<string, unknown>;
    const parts: string[] = [];
    if (given.accept === true) parts.push(given.always ? 'allowed, from now on' : 'allowed');
    if (given.accept === false) parts.push('denied');
    if (typeof given.option === 'number') parts.push(`chose option ${given.option}`);
    if (Array.isArray(given.options)) parts.push(`chose ${given.options.join(', ')}`);
    if (Array.isArray(given.answers)) parts.push(`${given.answers.length} answers`);
    if (typeof given.text === 'string') parts.push(`“${given.text}”`);
    if (given.input !== undefined) parts.push('with another input');
    return parts.join(' · ') || answer;
  } catch {
    return answer;
  }
}
