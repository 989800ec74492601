//! Claude Code, measured with 2.1.197.
//!
//! In its terminal interface hooks report what happens, and the hook of a permission waits for the answer. There is no
//! hook for an interrupt, so the status file and the log are watched too. Over pipes its control protocol says all of
//! it. Keys are typed only where neither is there.

mod answer;
mod content;
mod fault;
mod hooks;
mod input;
mod keys;
mod log;
mod price;
mod program;
mod screen;
mod setup;
mod status;
mod stream;

use std::collections::{HashMap, HashSet};

use coop_api::{Answer, Ask, Configure, EvidenceSource, Screen, TurnOutcome};
use serde_json::{Value, json};

use crate::driver::{Driver, Launch, Observation, OnScreen, Refusal, Runtime, Setup, Step, StopReply, View};
use crate::rules::Rules;
use crate::{AskDraft, Meaning, Reach, Signal, StartSource};

/// Tools whose use is an ask and not work.
const ASKING: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];

/// What coop knows of Claude Code, and what it remembers of one that runs.
#[derive(Debug)]
pub struct Claude {
    rules: Rules,
    runtime: Runtime,
    session: Option<String>,
    /// Whether a first prompt was given on the command line.
    has_prompt: bool,
    /// Whether its hooks are switched on, as far as is known.
    expects_hooks: bool,
    /// Whether any hook was heard; without them the status file has to do.
    hooked: bool,
    /// Whether it said that it began.
    started: bool,
    /// Whether its terminal takes pastes.
    ready: bool,
    /// Whether a turn is under way.
    busy: bool,
    /// When the last turn began or ended, as a hook told; what is older says nothing about now.
    settled_at: u64,
    /// When the last ask was reported; a status that is older says nothing about it.
    asked_at: u64,
    /// What is asked, by the name that its settlement will have: that of a tool's use or of a request.
    asking: HashMap<String, (String, Value)>,
    compacting: Option<Compaction>,
    /// Whether something goes on in the background after the turn.
    unfinished: bool,
    /// Whether the turn ended with an error; being at its prompt after it says nothing new.
    gave_up: bool,
    /// The last message it took.
    last_prompt: String,
    /// What the status file said last, and what for it waits.
    status: String,
    waiting_for: String,
    /// Whose status file it is.
    pid: Option<u64>,
    /// Where its logs are.
    logs: String,
    /// The last work that the status file told of; the log tells of its message later.
    worked: status::Worked,
    /// Uses of tools that were told already.
    requested: HashSet<String>,
    finished: HashSet<String>,
    /// The screen as last seen, and whether the input is open on it.
    rows: Vec<String>,
    input_open: bool,
    /// The dialog on it.
    on_screen: Option<AskDraft>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compaction {
    /// Somebody asked for it.
    Manual,
    /// It came in the middle of a turn, which goes on.
    Auto,
}

impl Claude {
    /// Returns a driver for one that is about to be launched.
    pub fn new(rules: Rules, launch: &Launch) -> Self {
        Self {
            rules,
            runtime: launch.runtime,
            session: setup::session_id(launch),
            has_prompt: setup::has_prompt(&launch.command),
            expects_hooks: setup::expects_hooks(launch),
            hooked: false,
            started: false,
            ready: launch.runtime == Runtime::Pipe,
            busy: false,
            settled_at: 0,
            asked_at: 0,
            asking: HashMap::new(),
            compacting: None,
            unfinished: false,
            gave_up: false,
            last_prompt: String::new(),
            status: String::new(),
            waiting_for: String::new(),
            pid: None,
            logs: setup::logs(launch),
            worked: status::Worked::default(),
            requested: HashSet::new(),
            finished: HashSet::new(),
            rows: Vec::new(),
            input_open: false,
            on_screen: None,
        }
    }

    /// Checks that it can be told where in a command line options for the agent belong.
    pub fn check(command: &[String]) -> Result<(), Refusal> {
        program::position(command).map(drop).map_err(Refusal::BadRequest)
    }

    /// Returns the screen rules that come with coop.
    pub fn rules() -> Result<Rules, crate::RuleError> {
        Rules::parse(include_str!("../../rules/claude.toml"))
    }

    fn begin_turn(&mut self) {
        self.busy = true;
        self.has_prompt = false;
        self.compacting = None;
        self.unfinished = false;
        self.gave_up = false;
        self.asking.clear();
    }

    fn observe_title(&mut self, title: &str) -> Vec<Signal> {
        let detail = format!("the title is {title:?}");
        match self.rules.title_works(title) {
            Some(true) => vec![Signal::new(EvidenceSource::Title, detail, Meaning::Working { tool: None })],
            Some(false) | None => Vec::new(),
        }
    }

    /// Says that the agent is idle for the first time, once it has begun and takes what is typed.
    fn begin_idle(&mut self, detail: &str) -> Option<Signal> {
        let awaits_prompt = self.has_prompt && !self.busy;
        if !self.started || !self.ready || self.busy || awaits_prompt {
            return None;
        }
        Some(Signal::new(
            EvidenceSource::Hook,
            format!("SessionStart, and {detail}"),
            Meaning::Idle(TurnOutcome::Completed),
        ))
    }
}

impl Driver for Claude {
    fn setup(&self, launch: &Launch) -> Setup {
        setup::setup(launch)
    }

    fn observe(&mut self, seen: &Observation<'_>, at: u64) -> Vec<Signal> {
        match seen {
            Observation::Hook { event, payload } => self.observe_hook(event, payload, at),
            Observation::LogLine { line, past } => self.observe_log(line, *past),
            Observation::StatusFile(file) => self.observe_status(file),
            Observation::Control(message) => self.observe_control(message),
            Observation::Title(title) => self.observe_title(title),
            Observation::Screen(screen) => self.observe_screen(screen),
        }
    }

    fn deliver(&self, text: &str, view: &View<'_>) -> Result<Vec<Step>, Refusal> {
        match view.runtime {
            Runtime::Pty => input::deliver(text, view.screen, &self.last_prompt),
            Runtime::Pipe => Ok(stream::deliver(text)),
        }
    }

    fn answer(&self, ask: &Ask, reach: &Reach, answer: &Answer, view: &View<'_>) -> Result<Vec<Step>, Refusal> {
        match reach {
            Reach::Hook { suggestions } => answer::by_hook(ask, answer, suggestions),
            Reach::Control { request, suggestions } => answer::by_control(ask, answer, request, suggestions),
            Reach::Keys => keys::answer(ask, answer, self.shown(view.screen)),
        }
    }

    fn interrupt(&self, view: &View<'_>) -> Vec<Step> {
        match view.runtime {
            Runtime::Pty => keys::interrupt(),
            Runtime::Pipe => stream::interrupt(),
        }
    }

    fn stop_reply(&self, reply: &StopReply) -> Option<Value> {
        match reply {
            StopReply::Allow => None,
            StopReply::Block(reason) => Some(json!({ "decision": "block", "reason": reason })),
        }
    }

    fn start_reply(&self, _: StartSource, context: &str) -> Option<Value> {
        let output = json!({ "hookEventName": "SessionStart", "additionalContext": context });
        Some(json!({ "hookSpecificOutput": output }))
    }

    fn shows(&self, what: &OnScreen, screen: &Screen) -> bool {
        self.is_on_screen(what, screen)
    }

    fn configure(&self, settings: &Configure, view: &View<'_>) -> Result<Vec<Step>, Refusal> {
        match view.runtime {
            Runtime::Pipe => Ok(stream::configure(settings)),
            Runtime::Pty => {
                let why =
                    "its mode and model can be set only with --runtime pipe; in its terminal use /model or the keys";
                Err(Refusal::BadRequest(why.into()))
            }
        }
    }
}
