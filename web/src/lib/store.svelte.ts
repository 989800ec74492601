// What the page knows: a snapshot, then everything that happens by one connection and its cursor.

import { ApiError, get, request, said, whenLoggedOut } from './api';
import { calm } from './calm';
import { follow } from './follow';
import { Cursor, Joined, loadAll } from './merge';
import { inPlace, keyOf, type OpenAsk } from './open';
import { readFrames, type Frame } from './sse';
import { ofPhase } from './state';
import { answerInWords, Timeline, type Outcome } from './timeline';
import { parse } from './visible';
import type { AgentState, Ask, Card, Decision, Entry, Event, Evidence, PermissionMode, Project, Report, StateName } from './types';

export interface Agent {
  id: string;
  name: string;
  driver: string;
  folder: string | null;
  state: StateName;
  tool: string | undefined;
  /** Since when it is in this state; nothing while that is not known. */
  since: number | undefined;
  evidence: Evidence | undefined;
  needs: string | null;
  outcome: string | null;
  last: string | null;
  mode: PermissionMode | null;
  /** What it does in its permission mode without an ask. */
  usedWithoutAsk: string | undefined;
  cost: number;
  capabilities: string[];
}

export interface ClosedAsk extends OpenAsk {
  outcome: Outcome;
  at: number;
}

/** What the daemon tells. */
type Told =
  | { type: 'snapshot'; newest: number; agents: Card[]; asks: OpenAsk[] }
  | ({ type: 'entry' } & Entry)
  | { type: 'agent'; newest: number; agent: Card; asks: Ask[] }
  | { type: `workspace:${string}`; data: unknown };

export type Link = 'connecting' | 'live' | 'lost' | 'login';

/** A page of the daemon's log. */
const PAGE = 1000;
/** Closed asks that stay in sight. */
const REMEMBERED = 50;
/** Things that are told one after another are looked at together. */
const MOMENT = 150;
const FIRST_PAUSE = 250;
const LAST_PAUSE = 5000;

/** One agent's history, loaded when somebody looks at it. */
export class History {
  readonly timeline = new Timeline();
  version = $state(0);
  loading = $state(true);
  failed = $state('');
  readonly joined = new Joined<Entry>((entries) => {
    this.timeline.add(entries);
    this.#changed();
  });
  #frame = 0;

  /** Once for everything that comes within one frame. */
  #changed(): void {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.version++;
    });
  }
}

export class Store {
  link = $state<Link>('connecting');
  /** Whether there was a connection already, so that its absence is worth a banner. */
  was = $state(false);
  mode = $state<'fleet' | 'single'>('fleet');
  version = $state('');
  agents = $state<Record<string, Agent>>({});
  asks = $state<OpenAsk[]>([]);
  closed = $state<ClosedAsk[]>([]);
  /** Who or what has answered lately, the last first. */
  decisions = $state.raw<Decision[]>([]);
  projects = $state.raw<Project[]>([]);
  now = $state(Date.now());
  #cursor = new Cursor();
  #histories = new Map<string, History>();
  #stop = new AbortController();
  #wake: () => void = () => {};

  start(): void {
    whenLoggedOut(() => {
      this.link = 'login';
    });
    setInterval(() => {
      this.now = Date.now();
    }, 1000);
    addEventListener('online', () => this.#wake());
    void this.#follow();
  }

  /** Connects at once instead of after the pause. */
  retry(): void {
    this.#wake();
  }

  /** Where the routes of an agent's sidecar are. */
  base(agent: string): string {
    return this.mode === 'fleet' ? `agents/${encodeURIComponent(agent)}/` : '';
  }

  history(agent: string): History {
    const known = this.#histories.get(agent);
    if (known) return known;
    const history = new History();
    this.#histories.set(agent, history);
    // A sidecar tells everything from the beginning; only the daemon has to be asked.
    if (this.mode === 'single') {
      history.joined.loaded();
      history.loading = false;
    } else {
      void this.#load(agent, history);
    }
    return history;
  }

  async #load(agent: string, history: History): Promise<void> {
    const page = (after: number) => get<Entry[]>(`log?agent=${encodeURIComponent(agent)}&after=${after}&limit=${PAGE}`);
    try {
      await loadAll(page, PAGE, history.joined);
    } catch (error) {
      history.failed = said(error);
      this.#histories.delete(agent);
    }
    history.loading = false;
  }

  async #follow(): Promise<void> {
    let pause = FIRST_PAUSE;
    for (;;) {
      try {
        await this.#connect(() => {
          pause = FIRST_PAUSE;
        });
        this.link = 'lost';
      } catch (error) {
        this.link = error instanceof ApiError && error.status === 401 ? 'login' : 'lost';
      }
      const loggedOut = (this.link as Link) === 'login';
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        // Who is logged out connects when somebody has logged in.
        if (!loggedOut) setTimeout(resolve, pause);
      });
      pause = Math.min(pause * 2, LAST_PAUSE);
    }
  }

  async #connect(live: () => void): Promise<void> {
    const health = await get<{ version: string; newest?: number; terminal?: unknown }>('health');
    this.version = health.version;
    this.mode = health.terminal === undefined ? 'fleet' : 'single';
    const isLive = () => {
      this.link = 'live';
      this.was = true;
      live();
    };
    if (this.mode === 'single') return this.#followOne(isLive);
    // What was known is of another fleet.
    if ((health.newest ?? 0) < this.#cursor.last) this.#forget();
    const after = this.#cursor.last > 0 ? `?after=${this.#cursor.last}` : '';
    await follow<Told>(`/api/v1/ws${after}`, (message) => {
      if (message.type === 'snapshot') isLive();
      this.#hear(message);
    });
  }

  async #followOne(isLive: () => void): Promise<void> {
    this.#stop = new AbortController();
    await this.#snapshotOfOne();
    const response = await request('GET', `events?after=${this.#cursor.last}`, undefined, this.#stop.signal);
    isLive();
    await readFrames(response, this.#stop, (frames) => this.#take(frames));
  }

  #hear(message: Told): void {
    switch (message.type) {
      case 'snapshot': {
        const next: Record<string, Agent> = {};
        for (const card of message.agents) next[card.id] = this.#fromCard(card);
        this.agents = next;
        this.asks = inPlace(this.asks, message.asks);
        // The first time only what comes is wanted; later everything since the connection was lost.
        if (this.#cursor.last === 0) this.#cursor.last = message.newest;
        this.#later('audit');
        this.#later('projects');
        void this.#details(message.agents.filter((card) => card.phase !== 'dead').map((card) => card.id));
        break;
      }
      case 'entry':
        if (this.#cursor.take(message.id)) this.#apply(message);
        break;
      case 'agent': {
        const { id, phase } = message.agent;
        const isNew = this.agents[id] === undefined;
        const wasDead = this.agents[id]?.state === 'exited';
        this.agents[id] = this.#fromCard(message.agent);
        this.#asksOf(id, message.asks);
        if (isNew || (wasDead && phase !== 'dead')) void this.#details([id]);
        if (isNew) this.#later('projects');
        break;
      }
      default:
        if (message.type.startsWith('workspace:')) this.#later('projects');
    }
  }

  /** Looks again at what the connection does not tell whole, once for all that happens within a moment. */
  #later(what: 'audit' | 'projects'): void {
    if (this.#looking.has(what)) return;
    this.#looking.add(what);
    setTimeout(() => {
      this.#looking.delete(what);
      void (what === 'audit' ? this.#lookAtAudit() : this.lookAtProjects());
    }, MOMENT);
  }
  #looking = new Set<string>();

  #lookAtAudit = calm(async () => {
    try {
      const { decisions } = await get<{ decisions: Decision[] }>(`audit?limit=${REMEMBERED}`);
      this.decisions = decisions.reverse();
    } catch {
      // It stays as it was, and is looked at again when something is answered.
    }
  });

  lookAtProjects = calm(async () => {
    try {
      this.projects = (await get<{ projects: Project[] }>('projects')).projects;
    } catch {
      // Then agents are listed by their folders.
    }
  });

  /** What an agent asks, all of it. The daemon is right, whatever was heard before. */
  #asksOf(agent: string, asks: Ask[]): void {
    const others = this.asks.filter((open) => open.agent !== agent);
    const next = inPlace(this.asks, [...others, ...asks.map((ask) => ({ agent, ask }))]);
    if (next.map(keyOf).join() !== this.asks.map(keyOf).join()) this.asks = next;
  }

  async #snapshotOfOne(): Promise<void> {
    const report = await get<Report>('agent');
    const asks = await get<{ asks: Ask[] }>('agent/asks').catch(() => ({ asks: [] }));
    const id = report.agent;
    this.agents = { [id]: { ...blank(id), ...fromReport(report) } };
    this.asks = inPlace(this.asks, asks.asks.map((ask) => ({ agent: id, ask })));
  }

  /** Since when, by what evidence, and with which abilities: the sidecars know. A few at a time. */
  async #details(ids: string[]): Promise<void> {
    const queue = [...ids];
    const work = async () => {
      for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
        try {
          const report = await get<Report>(`agents/${encodeURIComponent(id)}/agent`);
          const agent = this.agents[id];
          if (agent) Object.assign(agent, fromReport(report));
        } catch {
          // A sidecar that cannot be asked is shown as the daemon knows it.
        }
      }
    };
    await Promise.all([work(), work(), work(), work()]);
  }

  #fromCard(card: Card): Agent {
    const known = this.agents[card.id];
    // Of a program without a driver the daemon knows only that it was started.
    const isUnknown = known?.state === 'unknown' && known.driver !== '' && card.phase === 'starting';
    const state = isUnknown ? 'unknown' : ofPhase(card.phase);
    const outcome = card.outcome && [card.outcome.outcome, card.outcome.why].filter(Boolean).join(': ');
    return {
      ...blank(card.id),
      ...known,
      ...(known?.state !== state && { since: undefined, tool: undefined }),
      name: card.name ?? card.id,
      folder: card.folder,
      state,
      needs: card.needs,
      outcome: outcome || null,
      last: card.last_message,
      mode: card.permission_mode,
      usedWithoutAsk: card.used_without_ask,
      cost: card.cost_usd,
    };
  }

  #forget(): void {
    this.#cursor = new Cursor();
    this.#histories.clear();
    this.closed = [];
    this.decisions = [];
  }

  #take(frames: Frame[]): void {
    for (const frame of frames) {
      if (frame.event === 'lagged') continue;
      const entry = this.#ofOne(parse<Event>(frame.data));
      if (entry && this.#cursor.take(entry.id)) this.#apply(entry);
    }
  }

  /** A sidecar's own number is the event's; one that was started anew counts from the beginning. */
  #ofOne(event: Event): Entry | undefined {
    const agent = Object.keys(this.agents)[0];
    if (!agent) return undefined;
    const isAnother = this.#sidecar !== '' && this.#sidecar !== event.agent;
    this.#sidecar = event.agent;
    if (isAnother) {
      // What it told before this one is wanted too: connect again, from its beginning.
      this.#forget();
      this.#stop.abort();
      return undefined;
    }
    return { id: event.seq, agent, at: Date.parse(event.ts), event };
  }
  #sidecar = '';
  /** Who answered what is still open to us. */
  #deciders = new Map<string, string>();

  #apply(entry: Entry): void {
    if (this.mode === 'single') this.history(entry.agent);
    this.#histories.get(entry.agent)?.joined.live(entry);
    const agent = this.agents[entry.agent];
    const body = entry.event?.body;
    if (entry.input) this.#decided(entry);
    // One that was just started is told of after what happened to it.
    if (!agent || !body) return;
    switch (body.kind) {
      case 'state':
        this.#enter(agent, body.next, entry.at);
        agent.evidence = body.evidence;
        if (body.last_message !== undefined) agent.last = body.last_message;
        break;
      case 'ask':
        if (body.what === 'opened') this.#open(entry.agent, body.ask);
        else
          this.#close(entry.agent, body.ask, entry.at, {
            what: body.what,
            text: body.what === 'answered' ? answerInWords(body.answer) : body.why,
          });
        break;
      case 'message':
        if (body.role === 'assistant' && !body.subagent) agent.last = body.text;
        break;
      case 'usage':
        if (body.total.cost_usd !== null) agent.cost = body.total.cost_usd;
        break;
      case 'lifecycle':
        if (body.what === 'permission_mode') agent.mode = body.mode;
        if (body.what === 'exited') this.asks = this.asks.filter((open) => open.agent !== entry.agent);
        break;
    }
  }

  /** Who has answered comes beside what the agent made of it, before or after. */
  #decided(entry: Entry): void {
    const { what, by, answer } = entry.input!;
    if (what !== 'decided') return;
    this.#later('audit');
    if (!by || !answer?.ask) return;
    const isIt = (one: ClosedAsk) => one.agent === entry.agent && one.ask.id === answer.ask;
    if (!this.closed.some(isIt)) this.#deciders.set(`${entry.agent}/${answer.ask}`, by);
    this.closed = this.closed.map((one) => (isIt(one) ? { ...one, outcome: { ...one.outcome, by } } : one));
  }

  #enter(agent: Agent, state: AgentState, at: number): void {
    if (agent.state !== state.state) agent.since = at;
    agent.state = state.state;
    agent.tool = state.tool;
  }

  #open(agent: string, ask: Ask): void {
    this.asks = inPlace(this.asks, [...this.asks, { agent, ask }]);
  }

  #close(agent: string, id: string, at: number, outcome: Outcome): void {
    const open = this.asks.find((one) => one.agent === agent && one.ask.id === id);
    if (!open) return;
    this.asks = this.asks.filter((one) => one !== open);
    const key = `${agent}/${id}`;
    const by = this.#deciders.get(key);
    this.#deciders.delete(key);
    if (this.mode === 'fleet') this.#later('audit');
    this.closed = [{ agent, ask: open.ask, outcome: { by, ...outcome }, at }, ...this.closed].slice(0, REMEMBERED);
  }
}

function blank(id: string): Agent {
  return {
    id,
    name: id,
    driver: '',
    folder: null,
    state: 'unknown',
    tool: undefined,
    since: undefined,
    evidence: undefined,
    needs: null,
    outcome: null,
    last: null,
    mode: null,
    usedWithoutAsk: undefined,
    cost: 0,
    capabilities: [],
  };
}

function fromReport(report: Report): Partial<Agent> {
  return {
    driver: report.agent,
    state: report.detail.state,
    tool: report.detail.tool,
    since: Date.parse(report.since),
    evidence: report.evidence,
    last: report.last_message,
    mode: report.permission_mode,
    capabilities: report.capabilities,
  };
}

export const store = new Store();
