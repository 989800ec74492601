//! Claude Code, measured with 2.1.197.
//!
//! In its terminal interface hooks report what happens, and the hook of a permission waits for the answer. There is no
//! hook for an interrupt, so the status file and the log are watched too. Over pipes its control protocol says all of
//! it. Keys are typed only where neither is there.

mod answer;
mod behind;
mod content;
mod guest;
pub(crate) mod hooks;
mod input;
mod keys;
mod log;
mod price;
mod screen;
mod setup;
mod status;
mod stream;
mod told;
mod wrap;

use std::collections::HashMap;

use coop_api::{Answer, Ask, Capability, Configure, EvidenceSource, PermissionMode, Screen, TurnOutcome};
use serde_json::{Value, json};

use crate::driver::{
    Driver, Heeds, Launch, Observation, OnScreen, Refusal, Runtime, ScreenKind, Setup, SetupError, Step, StopReply,
    View,
};
use crate::modes::{self, OwnMode};
use crate::registry::{Known, Login};
use crate::rules::Rules;
use crate::tools::{NamedTool, Tool, Unasked};
use crate::{AskDraft, Meaning, Reach, Signal, StartSource};

pub use self::guest::{Doing, Guest};
pub use self::setup::guest_settings;
pub(crate) use self::setup::logs_in;
pub(crate) use self::wrap::{chosen, converses, takes_hooks, wrapped};

use self::behind::Behind;
use self::told::Told;

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
const TOOLS: &[NamedTool] = &[
    ("Bash", &[Tool::Shell]),
    ("Read", &[Tool::Read]),
    ("NotebookRead", &[Tool::Read]),
    ("Write", &[Tool::Write]),
    ("Edit", &[Tool::Edit]),
    ("MultiEdit", &[Tool::Edit]),
    ("NotebookEdit", &[Tool::Edit]),
    ("Glob", &[Tool::Glob]),
    ("Grep", &[Tool::Grep]),
    ("LS", &[Tool::Glob]),
    ("WebFetch", &[Tool::Fetch]),
    ("WebSearch", &[Tool::WebSearch]),
    // It has had both names.
    ("Task", &[Tool::Task]),
    ("Agent", &[Tool::Task]),
    ("TodoRead", &[Tool::Note]),
    ("TodoWrite", &[Tool::Note]),
    ("mcp__*", &[Tool::Mcp]),
    ("Skill", &[Tool::Other]),
    ("SlashCommand", &[Tool::Other]),
    ("KillShell", &[Tool::Other]),
    ("EnterWorktree", &[Tool::Other]),
];

const MODES: &[OwnMode] = &[
    OwnMode { mode: PermissionMode::Default, names: &["default", "manual"], words: &["--permission-mode=default"] },
    OwnMode { mode: PermissionMode::AcceptEdits, names: &["acceptEdits"], words: &["--permission-mode=acceptEdits"] },
    OwnMode { mode: PermissionMode::Auto, names: &["auto"], words: &["--permission-mode=auto"] },
    OwnMode { mode: PermissionMode::Plan, names: &["plan"], words: &["--permission-mode=plan"] },
    OwnMode { mode: PermissionMode::DontAsk, names: &["dontAsk"], words: &["--permission-mode=dontAsk"] },
    OwnMode {
        mode: PermissionMode::Bypass,
        names: &["bypassPermissions"],
        words: &["--permission-mode=bypassPermissions"],
    },
];

pub(crate) const KNOWN: Known = Known {
    name: "claude",
    programs: &["claude"],
    package: "@anthropic-ai/claude-code",
    binaries: &["@anthropic-ai/claude-code-{platform}/claude", ".bin/claude"],
    tested: Some(("2.1.197", "2.1.197")),
    runtimes: &[Runtime::Pty, Runtime::Pipe],
    variables: &[setup::CONFIG_DIR, setup::API_KEY],
    keys: &[setup::API_KEY, "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
    logins: &[Login { variable: "CLAUDE_CONFIG_DIR", folder: ".claude", file: ".credentials.json" }],
    folders: &[".claude"],
    files: &[".claude.json"],
    state_variable: None,
    asks_version: false,
    rules: include_str!("../../rules/claude.toml"),
    reads: setup::reads,
    new: |rules, launch| Box::new(Claude::new(rules, launch)),
    tools: &[TOOLS],
    never_asks: &[
        Unasked::Flag("--dangerously-skip-permissions"),
        Unasked::Option(&["--permission-mode"], "bypassPermissions"),
        Unasked::Setting("/permissions/defaultMode", "bypassPermissions"),
    ],
    modes: MODES,
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
    /// When the last turn began.
    began_at: u64,
    /// When the last ask was reported; a status that is older says nothing about it.
    asked_at: u64,
    /// What is asked, by the name that its settlement will have: that of a tool's use or of a request.
    asking: HashMap<String, (String, Value)>,
    compacting: Option<Compaction>,
    /// Whether something goes on in the background after the turn.
    unfinished: bool,
    /// Over pipes: whether sub-agents work in the background.
    has_background_agents: bool,
    /// Whether the turn ended with an error; being at its prompt after it says nothing new.
    gave_up: bool,
    /// The last message it took.
    last_prompt: String,
    /// The last message that was typed for it. One that it did not take is still in its input.
    typed: String,
    /// What the status file said last, when, and what for it waits.
    status: String,
    status_at: u64,
    waiting_for: String,
    /// Whose status file it is.
    pid: Option<u64>,
    /// Where its logs are.
    logs: String,
    /// The last work that the status file told of; the log tells of its message later.
    worked: status::Worked,
    /// Whether it ever told of any.
    worked_once: bool,
    /// Uses of tools that were told already.
    told: Told,
    behind: Behind,
    /// Whether the log has told of any message of a person.
    has_logged_prompt: bool,
    /// Over pipes: whether a hook told of a turn that the protocol is yet to tell of.
    announced: bool,
    /// How many requests were made over the control protocol.
    requests: u64,
    /// The screen as last seen, and whether the input is open on it.
    rows: Vec<String>,
    input_open: bool,
    /// The dialog on it.
    on_screen: Option<AskDraft>,
    /// The permission mode that was told last, by any source.
    mode: Option<PermissionMode>,
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
            began_at: 0,
            asked_at: 0,
            asking: HashMap::new(),
            compacting: None,
            unfinished: false,
            has_background_agents: false,
            gave_up: false,
            last_prompt: String::new(),
            typed: String::new(),
            status: String::new(),
            status_at: 0,
            waiting_for: String::new(),
            pid: None,
            logs: setup::logs(launch),
            worked: status::Worked::default(),
            worked_once: false,
            told: Told::default(),
            behind: Behind::default(),
            has_logged_prompt: false,
            announced: false,
            requests: 0,
            rows: Vec::new(),
            input_open: false,
            on_screen: None,
            mode: None,
        }
    }

    fn begin_turn(&mut self) {
        self.busy = true;
        self.has_prompt = false;
        self.compacting = None;
        self.unfinished = false;
        self.gave_up = false;
        self.asking.clear();
        self.told.begin_turn();
        self.behind.begin_turn();
    }

    /// Returns the permission mode that a source names, if that is news.
    fn mode_from_name(&mut self, name: &Value) -> Option<Meaning> {
        self.record_mode(modes::by_name(MODES, name.as_str()?)?)
    }

    fn record_mode(&mut self, mode: PermissionMode) -> Option<Meaning> {
        (self.mode.replace(mode) != Some(mode)).then_some(Meaning::PermissionMode(mode))
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
    fn capabilities(&self) -> &'static [Capability] {
        match self.runtime {
            Runtime::Pty | Runtime::Server | Runtime::Inproc => &CAPABILITIES[1..],
            Runtime::Pipe => &CAPABILITIES,
        }
    }

    fn heeds(&self) -> Heeds {
        Heeds {
            resume: true,
            isolated: true,
            settings: true,
            mcp: true,
            ask_first: self.expects_hooks,
            ..Heeds::default()
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
            Observation::Reply { .. }
            | Observation::Link { .. }
            | Observation::LinkLost
            | Observation::Sent(_)
            | Observation::Served { .. } => Vec::new(),
            Observation::Title(title) => self.observe_title(title),
            Observation::Screen(screen) => self.observe_screen(screen),
        }
    }

    fn classify(&self, screen: &Screen) -> ScreenKind {
        self.classify(screen)
    }

    fn missing_signals(&self) -> Vec<&'static str> {
        let hook = (self.expects_hooks && !self.hooked).then_some("a hook");
        let status = self.status.is_empty().then_some("the status file");
        let pastes = (self.runtime == Runtime::Pty && !self.ready).then_some("a terminal that takes pastes");
        [hook, status, pastes].into_iter().flatten().collect()
    }

    fn owns_status(&self, file: &Value) -> bool {
        self.is_own_status(file)
    }

    fn deliver(&mut self, text: &str, view: &View<'_>) -> Result<Vec<Step>, Refusal> {
        match view.runtime {
            Runtime::Pty | Runtime::Server | Runtime::Inproc => {
                let steps = input::deliver(text, view.screen, &[&self.last_prompt, &self.typed])?;
                text.clone_into(&mut self.typed);
                Ok(steps)
            }
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
            Runtime::Pty | Runtime::Server | Runtime::Inproc => crate::keys::interrupt(),
            Runtime::Pipe => stream::interrupt(),
        }
    }

    fn stop_reply(&mut self, reply: &StopReply) -> Option<Value> {
        match reply {
            StopReply::Allow => {
                self.busy = false;
                None
            }
            StopReply::Block(reason) => Some(json!({ "decision": "block", "reason": reason })),
        }
    }

    /// The user's own hooks may yet send it back. The status file and the log tell when all have let it go, and over pipes
    /// the protocol does. But where the status file told of no work it will tell of no end.
    fn ends_on_stop(&self) -> bool {
        let is_silent = self.status.is_empty() || self.status == "idle" && self.status_at >= self.began_at;
        self.runtime == Runtime::Pty && is_silent
    }

    fn start_reply(&self, _: StartSource, context: &str) -> Option<Value> {
        let output = json!({ "hookEventName": "SessionStart", "additionalContext": context });
        Some(json!({ "hookSpecificOutput": output }))
    }

    fn shows(&self, what: &OnScreen, screen: &Screen) -> bool {
        self.is_on_screen(what, screen)
    }

    fn is_behind(&self) -> bool {
        self.behind.is_any()
    }

    fn configure(&mut self, settings: &Configure, view: &View<'_>) -> Result<Vec<Step>, Refusal> {
        match view.runtime {
            Runtime::Pipe => self.configure_by_control(settings),
            Runtime::Pty | Runtime::Server | Runtime::Inproc => {
                let why =
                    "its mode and model can be set only with --runtime pipe; in its terminal use /model or the keys";
                Err(Refusal::Unsupported(why.into()))
            }
        }
    }
}
