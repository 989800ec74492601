//! Claude Code, measured with 2.1.197.
//!
//! In its terminal interface hooks report what happens, and the hook of a permission waits for the answer. There is no
//! hook for an interrupt, so the status file and the log are watched too. Over pipes its control protocol says all of
//! it. Keys are typed only where neither is there.

mod answer;
mod content;
mod hooks;
mod keys;
mod log;
mod price;
mod setup;
mod stream;

use std::collections::{HashMap, HashSet};

use coop_api::{Answer, Ask, Capability, Configure, EvidenceSource, Screen, TurnOutcome};
use serde_json::{Value, json};

use crate::driver::{Driver, Launch, Observation, Refusal, Runtime, Setup, SetupError, Step, StopReply, View};
use crate::registry::Known;
use crate::rules::{Rules, TitleSays, rows};
use crate::{AskDraft, Meaning, Reach, Signal, StartSource};

/// What can be done with it; the first only over pipes.
const CAPABILITIES: [Capability; 13] = [
    Capability::Configure,
    Capability::Nudge,
    Capability::Permission,
    Capability::Plan,
    Capability::Question,
    Capability::Interrupt,
    Capability::StopGate,
    Capability::StartContext,
    Capability::Usage,
    Capability::Cost,
    Capability::Transcript,
    Capability::Resume,
    Capability::Fork,
];
/// Tools whose use is an ask and not work.
const ASKING: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];

pub(crate) const KNOWN: Known = Known {
    name: "claude",
    programs: &["claude"],
    package: "@anthropic-ai/claude-code",
    tested: ("2.1.197", "2.1.197"),
    runtimes: &[Runtime::Pty, Runtime::Pipe],
    variables: &[setup::CONFIG_DIR, setup::API_KEY],
    keys: &[setup::API_KEY, "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
    logins: &[".claude/.credentials.json"],
    rules: include_str!("../../rules/claude.toml"),
    reads: setup::reads,
    new: |rules, launch| Box::new(Claude::new(rules, launch)),
};

/// What coop knows of Claude Code, and what it remembers of one that runs.
#[derive(Debug)]
pub(crate) struct Claude {
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
    /// What the status file said last.
    status: String,
    /// Uses of tools that were told already.
    requested: HashSet<String>,
    finished: HashSet<String>,
    /// The dialog on the screen, as last seen.
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
    fn new(rules: Rules, launch: &Launch) -> Self {
        Self {
            rules,
            runtime: launch.runtime,
            session: setup::session_id(launch),
            has_prompt: setup::has_prompt(launch),
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
            requested: HashSet::new(),
            finished: HashSet::new(),
            on_screen: None,
        }
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
        match self.rules.title(title) {
            Some(TitleSays::Working) => {
                vec![Signal::new(EvidenceSource::Title, detail, Meaning::Working { tool: None })]
            }
            Some(TitleSays::Idle | TitleSays::Waiting) | None => Vec::new(),
        }
    }

    fn observe_screen(&mut self, screen: &Screen) -> Vec<Signal> {
        let mut signals = Vec::new();
        if !self.ready && screen.modes.bracketed_paste {
            self.ready = true;
            signals.extend(self.begin_idle("the terminal takes pastes"));
            if !self.expects_hooks && !self.has_prompt && self.status == "idle" {
                let detail = "the status file says idle, and the terminal takes pastes";
                signals.push(Signal::new(EvidenceSource::SessionLog, detail, Meaning::Idle(TurnOutcome::Completed)));
            }
        }
        let lines = rows(screen);
        let dialog = self.rules.dialog(&lines).map(|dialog| crate::keys::draft(&dialog));
        if dialog != self.on_screen {
            if self.on_screen.take().is_some() {
                let meaning = Meaning::AskGone { about: None };
                signals.push(Signal::new(EvidenceSource::Screen, "the dialog is gone", meaning));
            }
            if let Some(draft) = dialog {
                let detail = format!("a dialog: {}", draft.preview);
                signals.push(Signal::new(EvidenceSource::Screen, detail, Meaning::Ask(Box::new(draft.clone()))));
                self.on_screen = Some(draft);
            }
        }
        if self.on_screen.is_none() {
            if self.rules.shows_work(&lines) {
                let meaning = Meaning::Working { tool: None };
                signals.push(Signal::new(EvidenceSource::Screen, "the screen shows work", meaning));
            } else if self.rules.shows_prompt(&lines) && screen.modes.bracketed_paste {
                signals.push(Signal::new(EvidenceSource::Screen, "the screen shows the prompt", Meaning::Quiet));
            }
        }
        signals
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

    /// The status file: the only sign of an interrupt that comes at once.
    fn observe_status(&mut self, file: &Value) -> Vec<Signal> {
        let is_ours = self.session.is_some() && file["sessionId"].as_str() == self.session.as_deref();
        let status = file["status"].as_str().unwrap_or_default();
        let updated_at = file["statusUpdatedAt"].as_u64().unwrap_or(0);
        if !is_ours || updated_at < self.settled_at {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.status, status.to_owned());
        // The log is written when the agent has time: its older lines say nothing any more.
        self.settled_at = updated_at;
        let detail = format!("the status file says {status}");
        let signal = |meaning| Signal::new(EvidenceSource::SessionLog, detail.clone(), meaning);
        match status {
            "busy" => {
                let begins = !self.hooked && matches!(before.as_str(), "" | "idle");
                self.busy = true;
                self.gave_up = false;
                let is_answered = before == "waiting" && updated_at >= self.asked_at;
                let answered = is_answered.then(|| signal(Meaning::AskGone { about: None }));
                let began = begins.then(|| signal(Meaning::TurnBegan { prompt: None }));
                answered.into_iter().chain(began).chain([signal(Meaning::Working { tool: None })]).collect()
            }
            "idle" if self.ready && (self.started || !self.expects_hooks) && !self.unfinished && !self.gave_up => {
                let outcome = if self.busy { TurnOutcome::Interrupted } else { TurnOutcome::Completed };
                self.busy = false;
                vec![signal(Meaning::Idle(outcome))]
            }
            _ => Vec::new(),
        }
    }
}

impl Driver for Claude {
    fn capabilities(&self) -> &'static [Capability] {
        match self.runtime {
            Runtime::Pty | Runtime::Server => &CAPABILITIES[1..],
            Runtime::Pipe => &CAPABILITIES,
        }
    }

    fn setup(&self, launch: &Launch) -> Result<Setup, SetupError> {
        setup::setup(launch)
    }

    fn observe(&mut self, seen: &Observation<'_>, at: u64) -> Vec<Signal> {
        match seen {
            Observation::Hook { event, payload } => self.observe_hook(event, payload, at),
            Observation::LogLine { line, past } => self.observe_log(line, *past),
            Observation::StatusFile(file) => self.observe_status(file),
            Observation::Control(message) => self.observe_control(message),
            Observation::Reply { .. } | Observation::Link { .. } => Vec::new(),
            Observation::Title(title) => self.observe_title(title),
            Observation::Screen(screen) => self.observe_screen(screen),
        }
    }

    fn deliver(&self, text: &str, view: &View<'_>) -> Result<Vec<Step>, Refusal> {
        match view.runtime {
            Runtime::Pty | Runtime::Server => keys::deliver(text, view.screen, &self.last_prompt),
            Runtime::Pipe => Ok(stream::deliver(text)),
        }
    }

    fn answer(&self, ask: &Ask, reach: &Reach, answer: &Answer, view: &View<'_>) -> Result<Vec<Step>, Refusal> {
        match reach {
            Reach::Hook { suggestions } => answer::by_hook(ask, answer, suggestions),
            Reach::Control { request, suggestions } => answer::by_control(ask, answer, request, suggestions),
            Reach::Keys => keys::MANNERS.answer(&self.rules, ask, answer, view.screen),
        }
    }

    fn interrupt(&self, view: &View<'_>) -> Vec<Step> {
        match view.runtime {
            Runtime::Pty | Runtime::Server => crate::keys::interrupt(),
            Runtime::Pipe => stream::interrupt(),
        }
    }

    fn stop_reply(&mut self, reply: &StopReply) -> Option<Value> {
        match reply {
            StopReply::Allow => None,
            StopReply::Block(reason) => Some(json!({ "decision": "block", "reason": reason })),
        }
    }

    fn start_reply(&self, _: StartSource, context: &str) -> Option<Value> {
        let output = json!({ "hookEventName": "SessionStart", "additionalContext": context });
        Some(json!({ "hookSpecificOutput": output }))
    }

    fn configure(&self, settings: &Configure, view: &View<'_>) -> Result<Vec<Step>, Refusal> {
        match view.runtime {
            Runtime::Pipe => Ok(stream::configure(settings)),
            Runtime::Pty | Runtime::Server => {
                let why =
                    "its mode and model can be set only with --runtime pipe; in its terminal use /model or the keys";
                Err(Refusal::Unsupported(why.into()))
            }
        }
    }
}
