//! The agent itself: a state machine without I/O. An [`Event`] goes in, [`Effect`]s come out.
//!
//! ```text
//! Dormant → Starting → Idle ⇄ Submitting → { Waiting | PreTool → Asking → Running → PostTool }* → Stopping → Idle
//! ```
//!
//! One thing is under way at a time, and it is the phase. What comes in about anything else (a hook that was killed,
//! a timer that was cancelled) is stale and dropped, so the outside never has to win a race.

mod ask;
mod finish;
mod payload;
mod session;
#[cfg(test)]
mod tests;
mod tools;
mod turn;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use super::hook::{Decision, HookCall, HookEvent, HookResult};
use super::ids::{HookRun, Ids, MessageId, RequestId, SessionId, ToolUseId, WaitId};
use super::notice::{AgentRef, ApiError, Local, Notice, PromptSource, StartSource};
use super::permission::{PermissionMode, Rules};
use super::scenario::Scenario;
use super::step::Step;
use super::tool::{ToolCall, ToolOutcome};
use super::tui::Closed;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Command(Command),
    HookResult { run: HookRun, result: HookResult },
    HooksDone(HookRun),
    ToolDone { id: ToolUseId, outcome: ToolOutcome },
    WaitDone(WaitId),
    TaskEnded(String),
}

/// What a face asks of the engine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Command {
    /// Set-up is done: begin.
    Start,
    /// The user trusts this folder.
    Trust,
    /// A prompt, a `/command` or a `!command`.
    Submit(String),
    Interrupt,
    /// Hand the queued prompts back.
    Unqueue,
    Decide {
        request: RequestId,
        decision: Decision,
    },
    /// A command's dialog was closed.
    CloseDialog(Closed),
    SetMode(PermissionMode),
    SetModel(String),
    /// No more input: end when there is nothing left to do.
    Close,
    Quit(Quit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quit {
    pub(crate) code: i32,
    pub(crate) reason: QuitReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuitReason {
    /// The user typed `/exit` or Ctrl-C twice.
    PromptInputExit,
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    RunHooks(HookCall),
    KillHooks(HookRun),
    RunTool(ToolCall),
    KillTool(ToolUseId),
    StartTask {
        id: String,
        command: String,
    },
    Wait {
        id: WaitId,
        wait: Wait,
    },
    CancelWait(WaitId),
    Tell(Notice),
    Count(Counter),
    /// Remember that this folder is trusted.
    Trust,
    /// A prompt reached the agent.
    Record(String),
    Exit(i32),
    Crash,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wait {
    Time(Duration),
    Gate(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    Starts,
    Turns,
    Tools,
    Allowed,
    Denied,
    StopBlocks,
}

/// Milliseconds since the epoch, told to the engine with every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Millis(pub(crate) u64);

/// Who is there to answer a permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A person before the screen: a Notification hook follows after this long.
    Screen { notify_after: Duration },
    /// A program at the control channel.
    Channel,
    /// Nobody: what needs leave is refused.
    Nobody,
}

/// What a session starts with.
pub(crate) struct Setup {
    pub(crate) ids: Ids,
    pub(crate) session: SessionId,
    pub(crate) source: StartSource,
    pub(crate) cwd: PathBuf,
    /// The folder of this project's logs.
    pub(crate) logs: PathBuf,
    pub(crate) model: String,
    pub(crate) mode: PermissionMode,
    /// Whether the mode may be set to bypass later on.
    pub(crate) bypass: Bypass,
    pub(crate) rules: Rules,
    pub(crate) scenario: Scenario,
    pub(crate) asker: Asker,
    pub(crate) max_retries: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bypass {
    Available,
    Refused,
}

pub(crate) struct Engine {
    setup: Setup,
    phase: Phase,
    frames: Vec<Frame>,
    queue: VecDeque<String>,
    prompt_id: Option<String>,
    tally: Tally,
    /// What hooks added for the model.
    context: Vec<String>,
    tasks: Vec<Task>,
    tool_started: Millis,
    input: Input,
    out: Vec<Effect>,
    now: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Open,
    Closed,
}

enum Phase {
    Dormant,
    Starting(Hooks),
    Idle,
    Submitting { hooks: Hooks, text: String, source: PromptSource },
    Waiting { wait: WaitId, work: Work },
    PreTool { hooks: Hooks, call: ToolCall },
    Asking { hooks: Hooks, request: RequestId, call: ToolCall, notify: Option<WaitId> },
    Running(ToolCall),
    PostTool { hooks: Hooks, call: ToolCall, outcome: ToolOutcome },
    AgentStarting(Hooks),
    AgentStopping(Hooks),
    Stopping(Hooks),
    Failing { hooks: Hooks, error: ApiError },
    Shell(ToolCall),
    ShellStopping(Hooks),
    Compacting { hooks: Hooks, stage: Stage },
    Clearing(Hooks),
    Dialog(Local),
    Ending { hooks: Hooks, code: i32 },
    Gone,
}

/// A round of hooks under way.
struct Hooks {
    run: HookRun,
    event: HookEvent,
    results: Vec<HookResult>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Pre,
    Post,
    Start,
}

enum Work {
    Pace,
    Silence,
    Hang,
    Gate,
    Ticks { message: MessageId, said: String, tick: u32, total: u32 },
    Retry { error: ApiError, attempt: u32, last: u32, max: u32, then: AfterRetries },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterRetries {
    GoOn,
    GiveUp,
}

/// The main agent's script, or a sub-agent's on top of it.
struct Frame {
    steps: VecDeque<Step>,
    pace: Duration,
    prompt: String,
    results: u32,
    last_result: String,
    /// What to say together with the next tool call.
    lead: Option<String>,
    answer: Option<String>,
    /// Whether a Stop hook has sent it back to work.
    blocked_before: bool,
    agent: Option<(AgentRef, ToolCall)>,
}

#[derive(Default)]
struct Tally {
    started: Millis,
    requests: super::notice::Requests,
    num_turns: u32,
    denials: Vec<serde_json::Value>,
}

struct Task {
    id: String,
    command: String,
}

impl Engine {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            setup,
            phase: Phase::Dormant,
            frames: Vec::new(),
            queue: VecDeque::new(),
            prompt_id: None,
            tally: Tally::default(),
            context: Vec::new(),
            tasks: Vec::new(),
            tool_started: Millis::default(),
            input: Input::Open,
            out: Vec::new(),
            now: Millis::default(),
        }
    }

    pub(crate) fn handle(&mut self, now: Millis, event: Event) -> Vec<Effect> {
        self.now = now;
        match event {
            Event::Command(command) => self.command(command),
            Event::HookResult { run, result } => self.hook_result(run, result),
            Event::HooksDone(run) => self.hooks_done(run),
            Event::ToolDone { id, outcome } => self.tool_done(&id, outcome),
            Event::WaitDone(wait) => self.wait_done(wait),
            Event::TaskEnded(id) => self.tasks.retain(|task| task.id != id),
        }
        std::mem::take(&mut self.out)
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Start => self.start(),
            Command::Trust => self.out.push(Effect::Trust),
            Command::Submit(text) => self.submit(text),
            Command::Interrupt => self.interrupt(),
            Command::Unqueue => {
                let texts: Vec<String> = self.queue.drain(..).collect();
                self.tell(Notice::Unqueued(texts));
            }
            Command::Decide { request, decision } => self.decide(&request, decision),
            Command::CloseDialog(closed) => self.close_dialog(closed),
            Command::SetMode(mode) => self.set_mode(mode),
            Command::SetModel(model) => {
                self.setup.model.clone_from(&model);
                self.tell(Notice::Model(model));
            }
            Command::Close => {
                self.input = Input::Closed;
                if matches!(self.phase, Phase::Idle | Phase::Dormant) {
                    self.quit(Quit { code: 0, reason: QuitReason::Other });
                }
            }
            Command::Quit(quit) => self.quit(quit),
        }
    }

    fn hook_result(&mut self, run: HookRun, result: HookResult) {
        let Some(hooks) = self.phase.hooks().filter(|hooks| hooks.run == run) else { return };
        hooks.results.push(result);
        if hooks.event == HookEvent::PermissionRequest {
            self.hook_answered();
        }
    }

    fn hooks_done(&mut self, run: HookRun) {
        if self.phase.hooks().is_none_or(|hooks| hooks.run != run) {
            return;
        }
        match std::mem::replace(&mut self.phase, Phase::Gone) {
            Phase::Starting(hooks) => self.started(&hooks),
            Phase::Submitting { hooks, text, source } => self.submitted(&hooks, text, source),
            Phase::PreTool { hooks, call } => self.judged_by_hooks(&hooks, call),
            Phase::PostTool { hooks: _, call, outcome } => self.tool_over(call, outcome),
            Phase::AgentStarting(_) => self.next_step(),
            Phase::AgentStopping(hooks) => self.agent_stopped(&hooks),
            Phase::Stopping(hooks) => self.stopped(hooks),
            Phase::Failing { hooks: _, error } => self.end_turn(super::notice::TurnOutcome::ApiError(error)),
            Phase::ShellStopping(_) => self.rest(),
            Phase::Compacting { hooks, stage } => self.compacted(&hooks, stage),
            Phase::Clearing(_) => self.cleared(),
            Phase::Ending { hooks: _, code } => self.out.push(Effect::Exit(code)),
            // The hooks had nothing to say; the question stands.
            asking @ Phase::Asking { .. } => self.phase = asking,
            other @ (Phase::Dormant
            | Phase::Idle
            | Phase::Waiting { .. }
            | Phase::Running(_)
            | Phase::Shell(_)
            | Phase::Dialog(_)
            | Phase::Gone) => self.phase = other,
        }
    }

    fn tell(&mut self, notice: Notice) {
        self.out.push(Effect::Tell(notice));
    }

    fn count(&mut self, counter: Counter) {
        self.out.push(Effect::Count(counter));
    }

    fn wait(&mut self, wait: Wait, work: Work) {
        let id = self.setup.ids.wait();
        self.out.push(Effect::Wait { id, wait });
        self.phase = Phase::Waiting { wait: id, work };
    }
}

impl Phase {
    fn hooks(&mut self) -> Option<&mut Hooks> {
        match self {
            Self::Starting(hooks)
            | Self::Submitting { hooks, .. }
            | Self::PreTool { hooks, .. }
            | Self::Asking { hooks, .. }
            | Self::PostTool { hooks, .. }
            | Self::AgentStarting(hooks)
            | Self::AgentStopping(hooks)
            | Self::Stopping(hooks)
            | Self::Failing { hooks, .. }
            | Self::ShellStopping(hooks)
            | Self::Compacting { hooks, .. }
            | Self::Clearing(hooks)
            | Self::Ending { hooks, .. } => Some(hooks),
            Self::Dormant
            | Self::Idle
            | Self::Waiting { .. }
            | Self::Running(_)
            | Self::Shell(_)
            | Self::Dialog(_)
            | Self::Gone => None,
        }
    }
}
