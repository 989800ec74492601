//! Gemini CLI, measured with 0.61.0.
//!
//! In its terminal interface hooks report what happens, where it can be given any (see `setup`); the title says whether it
//! works, waits or is ready; its log has what was said, and every cancelled or failed request. No hook can allow what it
//! asks: one before a tool can only forbid it, and holds back the dialog meanwhile. So asks are answered by keys.

mod ask;
mod content;
mod hooks;
mod input;
mod log;
mod setup;

use std::collections::VecDeque;

use coop_api::{Answer, Ask, AskKind, Capability, Configure, EvidenceSource, PermissionMode, Screen, TurnOutcome};
use serde_json::{Value, json};

use self::ask::Notified;
use self::content::Calls;
use crate::driver::{
    Driver, Heeds, Launch, Observation, OnScreen, Refusal, Runtime, ScreenKind, Setup, SetupError, Step, StopReply,
    View,
};
use crate::modes::OwnMode;
use crate::recent::Recent;
use crate::registry::{Known, Login};
use crate::rules::{Dialog, Hint, Rules, TitleSays, rows, shows_rows};
use crate::tools::{NamedTool, Tool, Unasked};
use crate::{AskDraft, Meaning, Reach, Signal, StartSource, acp, keys};

/// What can be done with it; the first two only by hooks.
const CAPABILITIES: [Capability; 10] = [
    Capability::StopGate,
    Capability::StartContext,
    Capability::Nudge,
    Capability::Permission,
    Capability::Plan,
    Capability::Question,
    Capability::Interrupt,
    Capability::Usage,
    Capability::Transcript,
    Capability::Resume,
];
const TOOLS: &[NamedTool] = &[
    ("run_shell_command", &[Tool::Shell]),
    ("read_file", &[Tool::Read]),
    ("read_many_files", &[Tool::Read]),
    ("write_file", &[Tool::Write]),
    ("replace", &[Tool::Edit]),
    ("glob", &[Tool::Glob]),
    ("grep_search", &[Tool::Grep]),
    ("search_file_content", &[Tool::Grep]),
    ("list_directory", &[Tool::Glob]),
    ("web_fetch", &[Tool::Fetch]),
    ("google_web_search", &[Tool::WebSearch]),
    ("write_todos", &[Tool::Note]),
    ("save_memory", &[Tool::Other]),
    ("activate_skill", &[Tool::Other]),
    ("mcp_*", &[Tool::Mcp]),
];

const MODES: &[OwnMode] = &[
    OwnMode { mode: PermissionMode::Default, names: &["default"], words: &["--approval-mode=default"] },
    OwnMode {
        mode: PermissionMode::AcceptEdits,
        names: &["autoEdit", "auto_edit"],
        words: &["--approval-mode=auto_edit"],
    },
    OwnMode { mode: PermissionMode::Plan, names: &["plan"], words: &["--approval-mode=plan"] },
    OwnMode { mode: PermissionMode::Bypass, names: &["yolo"], words: &["--approval-mode=yolo"] },
];

pub(crate) const KNOWN: Known = Known {
    name: "gemini",
    programs: &["gemini"],
    package: "@google/gemini-cli",
    binaries: &[".bin/gemini"],
    tested: Some(("0.61.0", "0.61.0")),
    runtimes: &[Runtime::Pty, Runtime::Pipe],
    variables: &[setup::HOME, setup::API_KEY, "GOOGLE_API_KEY", setup::SYSTEM_DEFAULTS, setup::SYSTEM_SETTINGS],
    keys: &[setup::API_KEY, "GOOGLE_API_KEY"],
    logins: &[Login { variable: "GEMINI_CLI_HOME", folder: "", file: ".gemini/oauth_creds.json" }],
    folders: &[".gemini"],
    files: &[],
    state_variable: None,
    asks_version: false,
    rules: include_str!("../../rules/gemini.toml"),
    reads: setup::reads,
    new: |rules, launch| match launch.runtime {
        Runtime::Pty | Runtime::Server | Runtime::Inproc => Box::new(Gemini::new(rules, launch)),
        // There it speaks the Agent Client Protocol.
        Runtime::Pipe => acp::driver(launch, &["--acp"]),
    },
    tools: &[TOOLS, acp::TOOLS],
    never_asks: &[Unasked::Flag("--yolo"), Unasked::Flag("-y"), Unasked::Option(&["--approval-mode"], "yolo")],
    modes: MODES,
};

/// What coop knows of Gemini CLI, and what it remembers of one that runs.
#[derive(Debug)]
pub(crate) struct Gemini {
    rules: Rules,
    expects_hooks: bool,
    /// Whether there is a file of ours with settings that it will read.
    takes_settings: bool,
    /// Whether a hook will say for sure that it has begun.
    waits_for_hook: bool,
    /// Whether it goes on with an earlier conversation, which takes a while after the start.
    resumes: bool,
    /// Whether a first prompt was given on the command line.
    has_prompt: bool,
    /// Whether any hook was heard; without them the log has to do.
    hooked: bool,
    /// Whether its conversation is there.
    started: bool,
    /// Whether its input is on the screen, and its terminal takes pastes.
    ready: bool,
    /// Whether it was told to be idle for the first time.
    begun: bool,
    /// Whether its titles say anything; they can be switched off.
    titled: bool,
    title: Option<TitleSays>,
    /// When the title last came to say that it is ready. On a busy machine it stays as it was long after a turn began.
    ready_at: u64,
    /// Whether a turn is under way.
    busy: bool,
    /// When the last turn began or ended, by the agent's own clock; what is older says nothing about now.
    settled_at: u64,
    /// When work was seen last in the turn. A title that says it is ready before any is that of the turn before.
    worked_at: Option<u64>,
    /// Whether a log is kept of the conversation.
    logged: bool,
    /// Whether the log has told anything of the turn but its prompt.
    answered: bool,
    /// Whether a turn is over of which the log has told nothing yet: it may have failed.
    unanswered: bool,
    /// Permissions that hooks reported and no dialog has shown yet. Several tools may ask in one step; their dialogs come one after
    /// another.
    notified: VecDeque<Notified>,
    /// Where it works.
    folder: String,
    /// What it asks, and whether a hook has told of it.
    asked: Option<AskDraft>,
    /// Whether the agent has said something since it asked.
    has_gone_on: bool,
    /// A dialog on the screen that belongs to a turn of which the log has not told yet.
    early: Option<Dialog>,
    /// The set-up dialog on the screen.
    set_up: Option<AskDraft>,
    calls: Calls,
    /// Messages that were told already.
    told: Recent,
    /// Whether the log repeats what was there before.
    repeating: bool,
    /// What it was sent back with when it wanted to end its turn.
    sent_back: Option<String>,
    last_prompt: String,
}

impl Gemini {
    /// Returns a driver for one that is about to be launched.
    fn new(rules: Rules, launch: &Launch) -> Self {
        let expects_hooks = setup::expects_hooks(launch);
        Self {
            rules,
            expects_hooks,
            takes_settings: setup::takes_settings(launch),
            // In a folder that is not trusted it runs no hooks.
            waits_for_hook: expects_hooks && launch.isolated.is_some() && launch.trusts_folder,
            resumes: setup::resumes(launch),
            has_prompt: setup::has_prompt(launch),
            hooked: false,
            // Without hooks and log nothing will say so.
            started: !expects_hooks && setup::session_id(launch).is_none(),
            ready: false,
            begun: false,
            titled: false,
            title: None,
            ready_at: 0,
            busy: false,
            settled_at: 0,
            worked_at: None,
            logged: setup::session_id(launch).is_some(),
            answered: false,
            unanswered: false,
            notified: VecDeque::new(),
            folder: launch.cwd.clone(),
            asked: None,
            has_gone_on: false,
            early: None,
            set_up: None,
            calls: Calls::default(),
            told: Recent::default(),
            repeating: false,
            sent_back: None,
            last_prompt: String::new(),
        }
    }

    fn begin_turn(&mut self, at: u64, prompt: &str) {
        self.busy = true;
        self.begun = true;
        self.has_prompt = false;
        self.settled_at = at;
        (self.answered, self.unanswered) = (false, false);
        let has_title_of_turn =
            self.ready_at >= at || self.title.as_ref().is_some_and(|title| *title != TitleSays::Idle);
        let worked_at = self.worked_at.filter(|worked| *worked >= at);
        self.worked_at = worked_at.or(has_title_of_turn.then_some(at));
        self.notified.clear();
        self.asked = None;
        prompt.clone_into(&mut self.last_prompt);
    }

    fn end_turn(&mut self) {
        self.busy = false;
        self.notified.clear();
    }

    fn observe_title(&mut self, title: &str, at: u64) -> Vec<Signal> {
        let title = title.trim();
        let detail = format!("the title is {title:?}");
        self.title = self.rules.title(title);
        self.titled |= self.title.is_some();
        match self.title {
            Some(TitleSays::Working) => {
                self.worked_at = Some(at);
                let mut signals = self.ask_over(EvidenceSource::Title, &detail);
                signals.push(Signal::new(EvidenceSource::Title, detail, Meaning::Working { tool: None }));
                signals
            }
            Some(TitleSays::Waiting) => {
                self.worked_at = Some(at);
                Vec::new()
            }
            Some(TitleSays::Idle) => {
                self.ready_at = at;
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn observe_screen(&mut self, screen: &Screen) -> Vec<Signal> {
        let lines = rows(screen);
        self.ready = screen.modes.bracketed_paste && input::input(&lines).is_some();
        let mut signals = self.observe_dialog(&lines);
        if self.title == Some(TitleSays::Idle) {
            signals.extend(self.settle());
        }
        if !self.titled && self.asked.is_none() && self.set_up.is_none() {
            let signal = |detail, meaning| Signal::new(EvidenceSource::Screen, detail, meaning);
            if self.rules.shows_work(&lines) {
                signals.push(signal("the screen shows work", Meaning::Working { tool: None }));
            } else if self.ready && self.rules.shows_prompt(&lines) {
                signals.push(signal("the screen shows the prompt", Meaning::Quiet));
            }
        }
        signals.extend(self.begin_idle());
        signals
    }

    /// Looks for a dialog. But for those of the set-up, which come before, the title has to say that it waits.
    fn observe_dialog(&mut self, lines: &[String]) -> Vec<Signal> {
        let dialog = self.rules.dialog(lines, Hint::Needed);
        let (set_up, asked) = match dialog {
            Some(dialog) if dialog.kind == AskKind::Setup => (Some(keys::draft(&dialog)), None),
            Some(dialog) if !self.titled || self.title == Some(TitleSays::Waiting) => (None, Some(dialog)),
            Some(_) | None => (None, None),
        };
        let mut signals = Vec::new();
        let gone = || Signal::new(EvidenceSource::Screen, "the dialog is gone", Meaning::AskGone { about: None });
        if set_up != self.set_up {
            signals.extend(self.set_up.take().map(|_| gone()));
            if let Some(draft) = set_up {
                let detail = format!("a dialog: {}", draft.preview);
                signals.push(Signal::new(EvidenceSource::Screen, detail, Meaning::Ask(Box::new(draft.clone()))));
                self.set_up = Some(draft);
            }
        }
        // Without hooks the log tells that a turn began, and may be read late.
        let is_early = self.started && !self.busy && !self.hooked;
        self.early = asked.clone().filter(|_| is_early);
        match asked {
            Some(_) if is_early => {}
            Some(dialog) => signals.extend(self.dialog_seen(&dialog)),
            None if !self.titled && self.asked.take().is_some() => signals.push(gone()),
            None => {}
        }
        signals
    }

    /// Says that the turn is over, if the title has said so after there was work in it.
    fn settle(&mut self) -> Vec<Signal> {
        let detail = "the title says that it is ready";
        let idle = |outcome| Signal::new(EvidenceSource::Title, detail, Meaning::Idle(outcome));
        let mut signals = self.ask_over(EvidenceSource::Title, detail);
        if !signals.is_empty() {
            // A request whose dialog is declined is cancelled; after another answer the agent goes on, and may be done
            // before its title says so.
            let outcome = if self.has_gone_on { TurnOutcome::Completed } else { TurnOutcome::Interrupted };
            self.end_turn();
            signals.push(idle(outcome));
        } else if self.busy && self.worked_at.is_some_and(|at| at <= self.ready_at) {
            self.end_turn();
            self.unanswered = self.logged && !self.answered;
            signals.push(idle(TurnOutcome::Completed));
        }
        signals
    }

    /// Says that what it asked is settled, if it asked anything.
    fn ask_over(&mut self, source: EvidenceSource, detail: &str) -> Vec<Signal> {
        let gone = |_| Signal::new(source, detail, Meaning::AskGone { about: None });
        self.asked.take().map(gone).into_iter().collect()
    }

    /// Says that the agent is idle for the first time: its conversation is there, and it takes what is typed. The title
    /// alone says so too early, and beside a set-up dialog.
    fn begin_idle(&mut self) -> Option<Signal> {
        let is_ready = self.ready && (self.title == Some(TitleSays::Idle) || !self.titled);
        if self.begun || !self.started || !is_ready || self.set_up.is_some() || self.busy || self.has_prompt {
            return None;
        }
        self.begun = true;
        let detail = "its conversation is there, its title says that it is ready, and its input takes pastes";
        Some(Signal::new(EvidenceSource::Title, detail, Meaning::Idle(TurnOutcome::Completed)))
    }
}

impl Driver for Gemini {
    fn capabilities(&self) -> &'static [Capability] {
        if self.expects_hooks { &CAPABILITIES } else { &CAPABILITIES[2..] }
    }

    fn heeds(&self) -> Heeds {
        Heeds {
            resume: true,
            isolated: true,
            settings: true,
            mcp: self.takes_settings,
            ask_first: true,
            ..Heeds::default()
        }
    }

    fn setup(&self, launch: &Launch) -> Result<Setup, SetupError> {
        setup::setup(launch)
    }

    fn observe(&mut self, seen: &Observation<'_>, at: u64) -> Vec<Signal> {
        match seen {
            Observation::Hook { event, payload } => self.observe_hook(event, payload, at),
            Observation::LogLine { line, past } => self.observe_log(line, *past, at),
            Observation::Title(title) => self.observe_title(title, at),
            Observation::Screen(screen) => self.observe_screen(screen),
            Observation::StatusFile(_)
            | Observation::Control(_)
            | Observation::Reply { .. }
            | Observation::Sent(_)
            | Observation::Served { .. }
            | Observation::Link { .. }
            | Observation::LinkLost => Vec::new(),
        }
    }

    fn deliver(&mut self, text: &str, view: &View<'_>) -> Result<Vec<Step>, Refusal> {
        input::deliver(text, view.screen, &self.last_prompt)
    }

    fn answer(&self, ask: &Ask, _: &Reach, answer: &Answer, view: &View<'_>) -> Result<Vec<Step>, Refusal> {
        ask::answer(&self.rules, ask, answer, view.screen)
    }

    fn interrupt(&self, _: &View<'_>) -> Vec<Step> {
        keys::interrupt()
    }

    fn stop_reply(&mut self, reply: &StopReply) -> Option<Value> {
        match reply {
            StopReply::Allow => None,
            StopReply::Block(reason) => {
                self.sent_back = Some(reason.clone());
                Some(json!({ "decision": "block", "reason": reason }))
            }
        }
    }

    /// Hooks of the project have a say in it too; the title tells, unless it is switched off.
    fn ends_on_stop(&self) -> bool {
        !self.titled
    }

    fn classify(&self, screen: &Screen) -> ScreenKind {
        let lines = rows(screen);
        let is_dialog = self.set_up.is_some() || self.asked.is_some() || self.early.is_some();
        if is_dialog && self.rules.dialog(&lines, Hint::Needed).is_some() {
            ScreenKind::Dialog
        } else if input::input(&lines).is_some() {
            ScreenKind::Input
        } else {
            ScreenKind::Unknown
        }
    }

    fn missing_signals(&self) -> Vec<&'static str> {
        let hook = (self.expects_hooks && !self.hooked).then_some("a hook");
        let title = (!self.titled).then_some("a title with its state");
        let input = (!self.ready).then_some("an input that takes pastes");
        [hook, title, input].into_iter().flatten().collect()
    }

    fn is_behind(&self) -> bool {
        self.unanswered
    }

    fn start_reply(&self, _: StartSource, context: &str) -> Option<Value> {
        let output = json!({ "hookEventName": "SessionStart", "additionalContext": context });
        Some(json!({ "hookSpecificOutput": output }))
    }

    fn shows(&self, what: &OnScreen, screen: &Screen) -> bool {
        let typed = || input::input(&rows(screen));
        match what {
            OnScreen::InputEmpty => typed().is_some_and(|typed| typed.is_empty()),
            OnScreen::InputFilled => typed().is_some_and(|typed| !typed.is_empty()),
            OnScreen::InputHolds(text) => typed().is_some_and(|typed| input::holds(&typed, text)),
            OnScreen::Asked(ask) => ask::is_asked(&self.rules, ask, screen),
            OnScreen::Rows { rows, below } => shows_rows(screen, rows, below),
            // Nothing of its waits for these.
            OnScreen::Marked { .. } | OnScreen::Ticked { .. } => false,
        }
    }

    fn configure(&mut self, _: &Configure, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        let why = "its mode and model cannot be set from outside; in its terminal use /model or the keys";
        Err(Refusal::Unsupported(why.into()))
    }
}
