//! For tests: an engine on a bench. Hooks and tools do what the test says, and time passes when it says so.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::engine::{Asker, Bypass, Command, Effect, Engine, Event, Millis, Setup, Wait};
use super::hook::{HookCall, HookEvent, HookExit, HookResult};
use super::ids::{HookRun, Ids, RequestId, SessionId, WaitId};
use super::notice::{Notice, StartSource};
use super::permission::{PermissionMode, Rules};
use super::scenario::Scenario;
use super::tool::ToolOutcome;

pub(crate) const SESSION: &str = "e5555555-5555-4555-8555-555555555555";

/// What the bench does with the hooks of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// There are none.
    None,
    /// One, which exits with 0 after saying this.
    Says(&'static str),
    /// One, which does not end until the test says so.
    Holds,
}

pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) answers: Vec<(HookEvent, Answer)>,
    /// Everything that came out, in order.
    pub(crate) effects: Vec<Effect>,
    now: Millis,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(Asker::Screen { notify_after: Duration::from_secs(6) }, "")
    }

    pub(crate) fn with(asker: Asker, scenario: &str) -> Self {
        let engine = Engine::new(Setup {
            ids: Ids::seeded(1),
            session: SessionId(SESSION.into()),
            source: StartSource::Startup,
            cwd: PathBuf::from("/home/dev/project"),
            logs: PathBuf::from("/home/dev/.claude/projects/-home-dev-project"),
            model: "claude-opus-4-8[1m]".into(),
            mode: PermissionMode::Default,
            bypass: Bypass::Refused,
            rules: Rules::default(),
            scenario: Scenario::parse(scenario).unwrap(),
            asker,
            max_retries: None,
        });
        Self { engine, answers: Vec::new(), effects: Vec::new(), now: Millis(1_794_722_820_000) }
    }

    pub(crate) fn started() -> Self {
        let mut rig = Self::new();
        rig.command(Command::Start);
        rig
    }

    /// Sets what the hooks of an event do from now on.
    pub(crate) fn hook(&mut self, event: HookEvent, answer: Answer) {
        self.answers.retain(|(other, _)| *other != event);
        self.answers.push((event, answer));
    }

    pub(crate) fn command(&mut self, command: Command) -> Vec<Effect> {
        self.event(Event::Command(command))
    }

    pub(crate) fn submit(&mut self, text: &str) -> Vec<Effect> {
        self.command(Command::Submit(text.into()))
    }

    /// Hands in an event and everything that follows from it without the outside.
    pub(crate) fn event(&mut self, event: Event) -> Vec<Effect> {
        let from = self.effects.len();
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            self.now.0 += 1;
            for effect in self.engine.handle(self.now, event) {
                events.extend(self.outside(&effect));
                self.effects.push(effect);
            }
        }
        self.effects[from..].to_vec()
    }

    fn outside(&self, effect: &Effect) -> Vec<Event> {
        match effect {
            Effect::RunHooks(call) => {
                let answer = self.answers.iter().find(|(event, _)| *event == call.event);
                match answer.map_or(&Answer::None, |(_, answer)| answer) {
                    Answer::None => vec![Event::HooksDone(call.run)],
                    Answer::Says(text) => vec![says(call.run, text), Event::HooksDone(call.run)],
                    Answer::Holds => Vec::new(),
                }
            }
            Effect::RunTool(call) if !call.field("command").starts_with("hold") => {
                let detail = json!({ "stdout": "", "stderr": "", "interrupted": false });
                let outcome = ToolOutcome::done("(Bash completed with no output)", detail);
                vec![Event::ToolDone { id: call.id.clone(), outcome }]
            }
            Effect::RunTool(_)
            | Effect::KillHooks(_)
            | Effect::KillTool(_)
            | Effect::StartTask { .. }
            | Effect::Wait { .. }
            | Effect::CancelWait(_)
            | Effect::Tell(_)
            | Effect::Count(_)
            | Effect::Trust
            | Effect::Record(_)
            | Effect::Exit(_)
            | Effect::Crash => Vec::new(),
        }
    }

    /// Lets the last timer or gate that was started pass.
    pub(crate) fn pass(&mut self) -> Vec<Effect> {
        let id = self.last_wait().0;
        self.event(Event::WaitDone(id))
    }

    pub(crate) fn last_wait(&self) -> (WaitId, Wait) {
        let wait = |effect: &Effect| match effect {
            Effect::Wait { id, wait } => Some((*id, wait.clone())),
            _ => None,
        };
        self.effects.iter().rev().find_map(wait).expect("nothing was waited for")
    }

    pub(crate) fn request(&self) -> RequestId {
        let asked = |effect: &Effect| match effect {
            Effect::Tell(Notice::Asked(request)) => Some(request.id.clone()),
            _ => None,
        };
        self.effects.iter().rev().find_map(asked).expect("nothing was asked")
    }

    /// The last call of an event's hooks.
    pub(crate) fn last_hook(&self, event: HookEvent) -> HookCall {
        self.hook_calls().into_iter().rev().find(|call| call.event == event).expect("no such hook ran")
    }

    pub(crate) fn hook_calls(&self) -> Vec<HookCall> {
        let call = |effect: &Effect| match effect {
            Effect::RunHooks(call) => Some(call.clone()),
            _ => None,
        };
        self.effects.iter().filter_map(call).collect()
    }

    /// The names of the hook events so far.
    pub(crate) fn hook_names(&self) -> Vec<&'static str> {
        self.hook_calls().iter().map(|call| call.event.name()).collect()
    }
}

pub(crate) fn says(run: HookRun, stdout: &str) -> Event {
    let result = HookResult {
        command: "a hook".into(),
        exit: HookExit::Code(0),
        stdout: stdout.into(),
        stderr: String::new(),
        duration: Duration::ZERO,
    };
    Event::HookResult { run, result }
}

/// The notices among effects.
pub(crate) fn notices(effects: &[Effect]) -> Vec<&Notice> {
    effects.iter().filter_map(|effect| if let Effect::Tell(notice) = effect { Some(notice) } else { None }).collect()
}

/// The text answers among effects, one per message.
pub(crate) fn texts(effects: &[Effect]) -> Vec<String> {
    let text = |block: &super::notice::Block| match block {
        super::notice::Block::Text(text) => Some(text.clone()),
        _ => None,
    };
    notices(effects)
        .into_iter()
        .filter_map(|notice| if let Notice::Message(message) = notice { Some(message) } else { None })
        .flat_map(|message| message.blocks.iter().filter_map(text))
        .collect()
}

/// A PermissionRequest hook's output.
pub(crate) fn decision(value: &Value) -> String {
    json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": value } }).to_string()
}
