//! OpenCode, measured with 1.18.33.
//!
//! It has a server, also behind its terminal interface, and the server says and takes everything: states, asks, messages.
//! So nothing is ever typed. A stream of events tells what happens; when it breaks and comes back, all that is known is
//! read anew. Conversations are called sessions there; one that a sub-agent works in is the child of another.

mod answer;
mod content;
mod deliver;
mod events;
mod fault;
mod ids;
mod reread;
mod setup;
mod wrap;

use std::collections::HashMap;

use coop_api::{Answer, Ask, Capability, Configure, EvidenceSource, PermissionMode, Role, Screen, TurnOutcome};
use serde_json::Value;

pub(crate) use self::wrap::{chosen, converses, wrapped};

use self::reread::Reread;
use self::setup::{Begin, Program, Words};
use crate::driver::{
    Driver, Expected, Heeds, Launch, Observation, Refusal, Runtime, Say, ScreenKind, Setup, SetupError, Step,
    StopReply, View,
};
use crate::modes::OwnMode;
use crate::recent::Recent;
use crate::registry::{Known, Login};
use crate::rules::{Rules, rows};
use crate::tools::{NamedTool, Tool, Unasked};
use crate::{Meaning, Reach, Signal, StartSource};

const CAPABILITIES: [Capability; 7] = [
    Capability::Nudge,
    Capability::Permission,
    Capability::Question,
    Capability::Interrupt,
    Capability::Usage,
    Capability::Cost,
    Capability::Resume,
];
const TOOLS: &[NamedTool] = &[
    ("bash", &[Tool::Shell]),
    ("read", &[Tool::Read]),
    ("edit", &[Tool::Edit, Tool::Write]),
    ("write", &[Tool::Write]),
    ("patch", &[Tool::Edit, Tool::Write]),
    ("apply_patch", &[Tool::Edit, Tool::Write]),
    ("glob", &[Tool::Glob]),
    ("grep", &[Tool::Grep]),
    ("list", &[Tool::Glob]),
    ("webfetch", &[Tool::Fetch]),
    ("websearch", &[Tool::WebSearch]),
    ("codesearch", &[Tool::WebSearch]),
    ("task", &[Tool::Task]),
    ("todoread", &[Tool::Note]),
    ("todowrite", &[Tool::Note]),
    ("skill", &[Tool::Other]),
    ("lsp", &[Tool::Other]),
    ("external_directory", &[Tool::Other]),
    ("doom_loop", &[Tool::Other]),
];

/// Its agents are its modes, and what they may do is in its settings; without those it asks about nothing.
const MODES: &[OwnMode] = &[
    OwnMode { mode: PermissionMode::Plan, names: &["plan"], words: &["--agent=plan"] },
    OwnMode { mode: PermissionMode::Bypass, names: &[], words: &["--auto"] },
];

pub(crate) const KNOWN: Known = Known {
    name: "opencode",
    programs: &["opencode"],
    package: "opencode-ai",
    binaries: &["opencode-{platform}/bin/opencode", ".bin/opencode"],
    tested: Some(("1.18.33", "1.18.33")),
    runtimes: &[Runtime::Pty, Runtime::Server],
    variables: &[setup::PASSWORD, setup::USERNAME, setup::CONFIG],
    folders: &[".cache/opencode", ".config/opencode", ".local/share/opencode", ".local/state/opencode"],
    files: &[],
    state_variable: None,
    asks_version: false,
    keys: &[],
    logins: &[Login { variable: "XDG_DATA_HOME", folder: ".local/share", file: "opencode/auth.json" }],
    rules: include_str!("../../rules/opencode.toml"),
    reads: |_| Vec::new(),
    new: |rules, launch| Box::new(OpenCode::new(rules, launch)),
    tools: &[TOOLS],
    never_asks: &[
        Unasked::Flag("--auto"),
        Unasked::Flag("--dangerously-skip-permissions"),
        Unasked::Setting("/permission", "allow"),
        Unasked::Without("/permission"),
    ],
    modes: MODES,
};

/// What its terminal interface shows as long as it shows no conversation.
const HOME: &str = "Ask anything";

/// What coop knows of OpenCode, and what it remembers of one that runs.
#[derive(Debug)]
pub(crate) struct OpenCode {
    rules: Rules,
    words: Words,
    /// A name that no other run has.
    run: String,
    link: LinkState,
    /// Whether somebody else has started it, and nothing but its screen is known.
    is_alone: bool,
    /// Whether its terminal takes what it is told; a server has none.
    ready: bool,
    /// Whether its terminal shows no conversation, and whether it has shown one.
    at_home: bool,
    shown: bool,
    /// Whether the state was read since it was started, or since nobody was there for long.
    known: bool,
    /// The conversation it is about.
    session: Option<String>,
    /// Conversations, and whose children they are.
    parents: Recent<Option<String>>,
    /// The newest time that a name from the server had in it.
    newest: Option<String>,
    /// Whether a turn is under way.
    busy: bool,
    /// Whether it has to be told once more that it works: it tried again, or nobody was there for long.
    retell: bool,
    /// What was wrong since it last worked.
    error: Option<Value>,
    /// The newest message of the user.
    prompt: Option<Prompt>,
    /// As which of its agents it works, and with which provider and model.
    agent: Option<String>,
    model: Option<(String, String)>,
    /// What is asked: the session of each request.
    asks: HashMap<String, String>,
    /// What was settled; a list that is older may still have it.
    settled: Recent,
    /// Asks of sessions that are not known yet.
    unplaced: Vec<(events::Asking, Value)>,
    /// Who wrote which message.
    roles: Recent<Role>,
    /// Parts of messages that were told already.
    told: Recent,
    reread: Reread,
    /// The names of what could not be read.
    again: Vec<String>,
    outbox: Vec<Say>,
}

/// A message of the user.
#[derive(Clone, Debug, Default)]
struct Prompt {
    message: String,
    /// The name of its text, and the text.
    text: Option<(String, String)>,
    /// Whether a turn began with it.
    ran: bool,
    /// Whether an answer to it was begun.
    answered: bool,
    /// Whether it was sent again.
    again: bool,
}

/// How the server can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    /// It never could.
    Never,
    Up,
    Down,
}

/// Whose conversation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// The agent's own.
    Own,
    /// A sub-agent's.
    Child,
    /// Somebody else's.
    Other,
    /// Nobody has said yet.
    Unknown,
}

impl OpenCode {
    fn new(rules: Rules, launch: &Launch) -> Self {
        let words = Words::of(launch);
        let session = match &words.begin {
            Begin::Named(id) => Some(id.clone()),
            Begin::Last | Begin::New => None,
        };
        Self {
            rules,
            run: launch.session_id.clone(),
            link: LinkState::Never,
            is_alone: launch.secret.is_empty(),
            ready: launch.runtime == Runtime::Server || words.program == Program::Serve,
            at_home: false,
            shown: false,
            known: false,
            parents: Recent::default(),
            session,
            newest: None,
            busy: false,
            retell: false,
            error: None,
            prompt: None,
            agent: words.agent.clone(),
            model: words.model.clone(),
            words,
            asks: HashMap::new(),
            settled: Recent::default(),
            unplaced: Vec::new(),
            roles: Recent::default(),
            told: Recent::default(),
            reread: Reread::default(),
            again: Vec::new(),
            outbox: Vec::new(),
        }
    }

    fn whose(&self, session: &str) -> Whose {
        let mut at = session;
        let mut depth = 0;
        loop {
            if Some(at) == self.session.as_deref() {
                return if depth == 0 { Whose::Own } else { Whose::Child };
            }
            depth += 1;
            match self.parents.get(at) {
                // Nobody is their own grandparent, but whoever says so must not stop us.
                Some(Some(parent)) if depth < 32 => at = parent,
                Some(_) => return Whose::Other,
                None => return Whose::Unknown,
            }
        }
    }

    /// Says that it waits for a message, if that is known and it takes one.
    fn first_idle(&mut self, detail: &str) -> Option<Signal> {
        let awaits_prompt = self.words.has_prompt && self.prompt.is_none();
        if !self.known || !self.ready || self.busy || awaits_prompt {
            return None;
        }
        Some(Signal::new(EvidenceSource::Control, detail, Meaning::Idle(TurnOutcome::Completed)))
    }

    fn observe_screen(&mut self, screen: &Screen) -> Vec<Signal> {
        if self.is_alone {
            return self.observe_screen_alone(screen);
        }
        if !self.shown {
            let is_home = rows(screen).iter().any(|line| line.contains(HOME));
            let was_home = std::mem::replace(&mut self.at_home, is_home);
            self.shown = was_home && !is_home && self.session.is_some();
        }
        if self.ready || !screen.modes.bracketed_paste {
            return Vec::new();
        }
        self.ready = true;
        self.first_idle("session/status, and the terminal takes pastes").into_iter().collect()
    }

    /// Without its server there is nothing else to go by.
    fn observe_screen_alone(&self, screen: &Screen) -> Vec<Signal> {
        let lines = rows(screen);
        let (detail, meaning) = if self.rules.shows_work(&lines) {
            ("the screen shows work", Meaning::Working { tool: None })
        } else if self.rules.shows_prompt(&lines) && screen.modes.bracketed_paste {
            ("the screen shows the prompt", Meaning::Quiet)
        } else {
            return Vec::new();
        };
        vec![Signal::new(EvidenceSource::Screen, detail, meaning)]
    }
}

impl Driver for OpenCode {
    fn capabilities(&self) -> &'static [Capability] {
        if self.is_alone { &[] } else { &CAPABILITIES }
    }

    fn heeds(&self) -> Heeds {
        Heeds { resume: true, isolated: true, settings: true, mcp: true, ask_first: true, ..Heeds::default() }
    }

    fn classify(&self, screen: &Screen) -> ScreenKind {
        if self.rules.shows_prompt(&rows(screen)) { ScreenKind::Input } else { ScreenKind::Unknown }
    }

    fn missing_signals(&self) -> Vec<&'static str> {
        let server = (!self.is_alone && self.link != LinkState::Up).then_some("its server");
        let session = (!self.is_alone && self.session.is_none()).then_some("a session");
        [server, session].into_iter().flatten().collect()
    }

    fn setup(&self, launch: &Launch) -> Result<Setup, SetupError> {
        setup::setup(launch)
    }

    fn observe(&mut self, seen: &Observation<'_>, at: u64) -> Vec<Signal> {
        match seen {
            Observation::Control(event) => {
                let signals = self.observe_event(event, at);
                // Not at every event: being shown is one too.
                if matches!(event["type"].as_str(), Some("session.status" | "server.heartbeat" | "permission.asked")) {
                    self.show_session();
                }
                signals
            }
            Observation::Reply { name, status, body } => self.observe_reply(name, *status, body, at),
            Observation::Link { up: true } => self.link_up(),
            Observation::Link { up: false } => {
                self.link = LinkState::Down;
                Vec::new()
            }
            Observation::LinkLost => {
                (self.known, self.retell) = (false, true);
                self.asks.clear();
                let detail = "opencode's server cannot be reached any more";
                vec![Signal::new(EvidenceSource::Process, detail, Meaning::Lost)]
            }
            Observation::Screen(screen) => self.observe_screen(screen),
            // Its title has the name of the conversation and says nothing of its state.
            Observation::Title(_)
            | Observation::Hook { .. }
            | Observation::LogLine { .. }
            | Observation::StatusFile(_)
            | Observation::Sent(_)
            | Observation::Served { .. } => Vec::new(),
        }
    }

    fn say(&mut self) -> Vec<Say> {
        std::mem::take(&mut self.outbox)
    }

    fn deliver(&mut self, text: &str, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        self.reachable()?;
        Ok(self.deliver_steps(text))
    }

    fn answer(&self, ask: &Ask, reach: &Reach, answer: &Answer, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        self.reachable()?;
        match reach {
            Reach::Control { request, suggestions } => self.answer_steps(ask, answer, request, suggestions),
            Reach::Hook { .. } | Reach::Keys => Err(Refusal::Unsupported("opencode is answered by its server".into())),
        }
    }

    fn interrupt(&self, _: &View<'_>) -> Vec<Step> {
        match (&self.session, self.link) {
            (Some(session), LinkState::Up) => self.interrupt_steps(session),
            // There is nobody to tell, and that is what the answer will be.
            _ => vec![Step::Expect { what: Expected::Idle, within: std::time::Duration::ZERO, retry: None }],
        }
    }

    fn stop_reply(&mut self, _: &StopReply) -> Option<Value> {
        None
    }

    fn start_reply(&self, _: StartSource, _: &str) -> Option<Value> {
        None
    }

    fn configure(&mut self, _: &Configure, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        let why = "opencode's model and agent are chosen with --model and --agent, or in its terminal interface";
        Err(Refusal::Unsupported(why.into()))
    }
}
