// The words of the API that the page uses. docs/API.md and docs/FLEET.md say what they mean.

export type StateName = 'starting' | 'working' | 'idle' | 'waiting' | 'blocked' | 'exited' | 'unknown';

export interface AgentState {
  state: StateName;
  tool?: string;
  ask?: string;
  kind?: string;
  fault?: Fault;
  code?: number | null;
  signal?: number | null;
}

export interface Fault {
  kind: string;
  message: string;
  status?: number;
  until?: string;
}

export interface Evidence {
  source: string;
  detail: string;
}

export interface AskOption {
  id: string;
  label: string;
  description?: string;
  kind: 'allow_once' | 'allow_always' | 'reject' | 'choice';
}

export interface Question {
  question: string;
  header?: string;
  options: AskOption[];
  multi_select?: boolean;
}

export interface Ask {
  id: string;
  kind: 'permission' | 'plan' | 'question' | 'setup';
  tool?: string;
  input?: unknown;
  preview: string;
  questions?: Question[];
  options?: AskOption[];
  opened: string;
  channel: 'structured' | 'keys';
  screen_lines?: string[];
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  cost_usd: number | null;
}

export interface Receipt {
  id: string;
  delivered: boolean;
  queued: boolean;
  confirmed_by?: string;
  attempts: number;
  ms: number;
  reason?: string;
}

/** Which tools an agent uses without asking. */
export type PermissionMode = 'default' | 'accept-edits' | 'auto' | 'plan' | 'dont-ask' | 'bypass';

export type Body =
  | { kind: 'state'; prev: AgentState; next: AgentState; evidence: Evidence; ask?: Ask; last_message?: string }
  | { kind: 'turn'; what: 'began'; prompt?: string | null }
  | { kind: 'turn'; what: 'ended'; outcome: 'completed' | 'interrupted' | 'failed' }
  | { kind: 'message'; role: 'user' | 'assistant'; text: string; id?: string; subagent?: string }
  | {
      kind: 'tool';
      id: string;
      tool: string;
      phase: 'requested' | 'running' | 'completed' | 'failed';
      input?: unknown;
      output?: unknown;
      duration_ms?: number;
      subagent?: string;
    }
  | { kind: 'ask'; what: 'opened'; ask: Ask }
  | { kind: 'ask'; what: 'answered'; ask: string; answer: string; via: string }
  | { kind: 'ask'; what: 'withdrawn'; ask: string; why: string }
  | { kind: 'artifact'; path: string; artifact_kind: string; tool: string }
  | { kind: 'usage'; turn: Usage; total: Usage; requests: number }
  | { kind: 'fault'; fault: Fault; retry?: { attempt: number; max?: number; delay_ms?: number } }
  | { kind: 'stop'; outcome: 'blocked' | 'allowed'; reason?: string }
  | ({ kind: 'delivery' } & Receipt)
  | { kind: 'lifecycle'; what: 'started'; pid: number }
  | { kind: 'lifecycle'; what: 'session'; id: string }
  | { kind: 'lifecycle'; what: 'resized'; size: { cols: number; rows: number } }
  | { kind: 'lifecycle'; what: 'permission_mode'; mode: PermissionMode }
  | { kind: 'lifecycle'; what: 'stopping' }
  | { kind: 'lifecycle'; what: 'unrecorded'; why: string }
  | { kind: 'lifecycle'; what: 'exited'; code: number | null; signal: number | null };

/** An event of a sidecar. */
export interface Event {
  seq: number;
  id: string;
  ts: string;
  agent: string;
  run: number;
  offset: number;
  body: Body;
}

/** What the page keeps of each thing that happened: a number that only grows, when, and what. */
export interface Entry {
  id: number;
  agent: string;
  /** Milliseconds since 1970. */
  at: number;
  event?: Event;
  input?: { what: string; by?: string; answer?: { ask?: string; accept?: boolean; text?: string }; [key: string]: unknown };
}

/** An agent as the daemon lists it. */
export interface Card {
  id: string;
  name: string | null;
  folder: string | null;
  phase: 'starting' | 'working' | 'idle' | 'asking' | 'blocked' | 'dead';
  outcome: { outcome: string; why?: string; by?: string } | null;
  needs: string | null;
  asks: string[];
  run: number;
  turn: number;
  since: number;
  cost_usd: number;
  last_message: string | null;
  exit: { code: number | null; signal: number | null } | null;
  permission_mode: PermissionMode | null;
  /** What it does in this mode without an ask. */
  used_without_ask?: string;
}

/** What the daemon tells of one agent beyond its card. */
export interface AgentDetails {
  warnings?: string[];
  /** Absent for an agent that runs in no sandbox. */
  sandbox?: true;
}

/** An answer that was given, as the daemon's audit has it. */
export interface Decision {
  at: number;
  agent: string;
  ask: string | null;
  accept: boolean | null;
  by: { by: 'rule'; line: number } | { by: 'action' } | { by: 'gate'; run: string } | { by: 'person'; name: string } | { by: 'sidecar' };
  why: string | null;
  state: string;
}

/** What agents do, added up. */
export interface Status {
  type: 'none' | 'idle' | 'busy' | 'mixed';
  counts?: { idle: number; busy: number; total: number };
}

export interface Workspace {
  name: string;
  path: string;
  branch: string | null;
  metadata: Record<string, string>;
  agent: Status;
}

export interface Project {
  id: string;
  name: string;
  path: string;
  agent: Status;
  defaultBaseBranch?: string | null;
  workspaces?: Workspace[];
  error?: string;
}

/** A process of an agent that has ended, as the daemon's history has it. */
export interface PastRun {
  id: string;
  folder: string | null;
  /** Which of its agent's, from 1, and how many that has had. */
  run: number;
  runs: number;
  resumed: boolean;
  outcome: Card['outcome'];
  exit: Card['exit'];
  began: number;
  ended: number;
  turns: number;
  cost_usd: number | null;
  prompt: string | null;
  last_message: string | null;
  /** How large the recording of its terminal is. */
  recorded: number | null;
  /** What was said, where that is what was looked for. */
  found: string | null;
}

/** `GET /agent` of a sidecar. */
export interface Report {
  agent: string;
  detail: AgentState;
  since: string;
  evidence: Evidence;
  session_id: string | null;
  last_message: string | null;
  stop_held: boolean;
  runtime: string;
  permission_mode: PermissionMode | null;
  capabilities: string[];
}
