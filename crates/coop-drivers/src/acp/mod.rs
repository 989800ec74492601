//! Any agent that speaks the Agent Client Protocol, version 1, over its standard input and output.
//!
//! Measured with Gemini CLI 0.61.0 (`gemini --acp`) and OpenCode 1.18.33 (`opencode acp`). An agent of its own name that
//! can be run this way takes [`driver`] for its runtime `pipe`:
//!
//! ```ignore
//! new: |rules, launch| match launch.runtime {
//!     Runtime::Pipe => acp::driver(launch, &["--acp"]),
//!     Runtime::Pty | Runtime::Server | Runtime::Inproc => Box::new(Gemini::new(rules, launch)),
//! },
//! ```
//!
//! and lists [`VARIABLES`] among those it wants to know.
//!
//! A prompt is a request that stays open until its turn is over: the agent works from the moment it is written until the
//! reply. A permission is a request of the agent's, answered with one of the options it offers.

mod ask;
mod config;
mod fault;
mod opening;
mod serve;
mod tools;
mod turn;
mod updates;
mod wire;

use std::collections::HashMap;

use agent_client_protocol_schema::{
    AgentCapabilities, AuthMethod, CLIENT_METHOD_NAMES, CancelNotification, Error, RequestId,
};
use coop_api::{Answer, Ask, Capability, Configure, EvidenceSource, PermissionMode};
use serde_json::Value;

use self::ask::Asking;
use self::config::Settings;
use self::opening::Phase;
use self::tools::Tools;
use self::turn::Turn;
use self::wire::Incoming;
use crate::driver::{
    Driver, Heeds, Launch, Link, Observation, Refusal, Runtime, Say, Setup, SetupError, Step, StopReply, View,
};
use crate::modes::{self, OwnMode};
use crate::registry::Known;
use crate::tools::{NamedTool, Tool};
use crate::{Meaning, Reach, Signal, StartSource};

pub(crate) use self::opening::VARIABLES;

/// How coop's own agent tells that a call of the model failed and is made again. The protocol has no word for it.
const RETRY: &str = "_coop/retry";
/// What one call of the model took; so tells coop's own agent, and then not by turns.
const USED: &str = "_coop/used";

/// What can be done with such an agent; the first and the last only with those that say so.
const CAPABILITIES: [Capability; 7] = [
    Capability::Configure,
    Capability::Nudge,
    Capability::Permission,
    Capability::Plan,
    Capability::Interrupt,
    Capability::Usage,
    Capability::Resume,
];
pub(crate) const TOOLS: &[NamedTool] = &[
    ("execute", &[Tool::Shell]),
    ("read", &[Tool::Read]),
    ("edit", &[Tool::Edit, Tool::Write]),
    ("delete", &[Tool::Other]),
    ("move", &[Tool::Other]),
    ("search", &[Tool::Glob, Tool::Grep]),
    ("fetch", &[Tool::Fetch, Tool::WebSearch]),
    ("think", &[Tool::Note]),
    ("switch_mode", &[Tool::Other]),
    ("other", &[Tool::Other]),
];

/// Names that ACP agents have for their session modes. No option of theirs is common to all.
const MODES: &[OwnMode] = &[
    OwnMode { mode: PermissionMode::Default, names: &["default", "ask", "manual"], words: &[] },
    OwnMode { mode: PermissionMode::AcceptEdits, names: &["acceptEdits", "autoEdit", "auto_edit"], words: &[] },
    OwnMode { mode: PermissionMode::Auto, names: &["auto"], words: &[] },
    OwnMode { mode: PermissionMode::Plan, names: &["plan"], words: &[] },
    OwnMode { mode: PermissionMode::DontAsk, names: &["dontAsk"], words: &[] },
    OwnMode { mode: PermissionMode::Bypass, names: &["bypassPermissions", "yolo"], words: &[] },
];

/// Returns the permission mode that an agent names, if that is known.
fn mode_from_name(name: &str) -> Option<Meaning> {
    modes::by_name(MODES, name).map(Meaning::PermissionMode)
}

pub(crate) const KNOWN: Known = Known {
    name: "acp",
    programs: &["acp", "codex-acp", "claude-code-acp", "claude-agent-acp"],
    package: "",
    binaries: &[],
    tested: None,
    runtimes: &[Runtime::Pipe],
    variables: VARIABLES,
    folders: &[],
    files: &[],
    state_variable: None,
    asks_version: false,
    keys: &[],
    logins: &[],
    rules: include_str!("../../rules/acp.toml"),
    reads: |_| Vec::new(),
    new: |_, launch| driver(launch, &[]),
    tools: &[TOOLS],
    never_asks: &[],
    modes: MODES,
};

/// Returns a driver for an agent that speaks the protocol when these words stand behind its program.
pub(crate) fn driver(launch: &Launch, words: &'static [&'static str]) -> Box<dyn Driver> {
    Box::new(Acp::new(launch, words))
}

/// What coop knows of such an agent, and what it remembers of one that runs.
#[derive(Debug)]
pub(crate) struct Acp {
    words: &'static [&'static str],
    launch: Launch,
    phase: Phase,
    capabilities: AgentCapabilities,
    auth_methods: Vec<AuthMethod>,
    session: Option<String>,
    /// Whether what it tells is an earlier conversation, told again. Gemini goes on with that after it has answered.
    tells_past: bool,
    settings: Settings,
    /// The turn that is under way.
    turn: Option<Turn>,
    /// How many messages it was sent.
    turns: i64,
    /// What the conversation has cost so far; not known of an earlier one until the agent tells.
    cost: Option<f64>,
    /// Whether the agent tells what it costs.
    tells_cost: bool,
    /// Whether it tells what each call took.
    tells_used: bool,
    tools: Tools,
    /// How many plans it has told.
    plans: u64,
    /// What it says, as far as it has come.
    saying: updates::Saying,
    /// What it asks, by the request's id.
    asking: HashMap<String, Asking>,
    /// What is being done for it, by the request's id.
    serving: HashMap<String, serve::Asked>,
    to_say: Vec<Say>,
}

impl Acp {
    fn new(launch: &Launch, words: &'static [&'static str]) -> Self {
        Self {
            words,
            launch: launch.clone(),
            phase: Phase::Initializing,
            capabilities: AgentCapabilities::default(),
            auth_methods: Vec::new(),
            session: None,
            tells_past: false,
            settings: Settings::default(),
            turn: None,
            turns: 0,
            cost: launch.resume.is_none().then_some(0.0),
            tells_cost: false,
            tells_used: false,
            tools: Tools::default(),
            plans: 0,
            saying: updates::Saying::default(),
            asking: HashMap::new(),
            serving: HashMap::new(),
            to_say: Vec::new(),
        }
    }

    fn observe_message(&mut self, message: &Value, at: u64) -> Vec<Signal> {
        // Some send several at once.
        if let Some(batch) = message.as_array() {
            return batch
                .iter()
                .filter(|part| !part.is_array())
                .flat_map(|part| self.observe_message(part, at))
                .collect();
        }
        match wire::incoming(message) {
            Some(Incoming::Reply { id, outcome }) => self.replied(id, outcome),
            Some(Incoming::Notification { method, params }) => self.told(method, params, at),
            Some(Incoming::Request { id, method, params }) => self.requested(id, method, params, at),
            None => {
                self.to_say.push(Say::Show(message.to_string()));
                Vec::new()
            }
        }
    }

    fn requested(&mut self, id: RequestId, method: &str, params: &Value, at: u64) -> Vec<Signal> {
        let mut meanings = self.turn_shows();
        if method == CLIENT_METHOD_NAMES.session_request_permission {
            match self.asked(&id, params, at) {
                Some(asked) => meanings.extend(asked),
                // Whoever is not understood is told so, and not left waiting.
                None => self.refuse(id, Error::invalid_params()),
            }
        } else if let Some(wanted) = self.wanted(method, params) {
            match wanted {
                Ok((what, kept)) => self.serve(&id, what, kept),
                Err(error) => self.refuse(id, error),
            }
        } else {
            self.refuse(id, Error::method_not_found());
        }
        signals(method, meanings)
    }

    fn refuse(&mut self, id: RequestId, error: Error) {
        self.to_say.push(Say::Message(wire::error(id, error)));
    }

    fn told(&mut self, method: &str, params: &Value, at: u64) -> Vec<Signal> {
        match method {
            _ if method == CLIENT_METHOD_NAMES.session_update => {
                let kind = params["update"]["sessionUpdate"].as_str().unwrap_or(method).to_owned();
                let meanings = self.updated(params, at);
                signals(&kind, meanings)
            }
            RETRY => signals(method, vec![Meaning::Retrying(fault::retry(params))]),
            USED => {
                self.tells_used = true;
                signals(method, turn::used(params).into_iter().collect())
            }
            // It no longer waits for an answer.
            "$/cancel_request" => {
                let gone = wire::parse::<RequestId>(&params["requestId"]);
                let gone = gone.and_then(|id| self.asking.remove_entry(&ask::name(&id)));
                let meanings = gone.map(|(request, _)| Meaning::RequestGone { request });
                signals(method, meanings.into_iter().collect())
            }
            _ => Vec::new(),
        }
    }
}

impl Driver for Acp {
    fn capabilities(&self) -> &'static [Capability] {
        let resumes = self.capabilities.load_session || self.capabilities.session_capabilities.resume.is_some();
        let from = usize::from(!self.settings.any());
        &CAPABILITIES[from..CAPABILITIES.len() - usize::from(!resumes)]
    }

    fn heeds(&self) -> Heeds {
        Heeds { resume: true, allowed: true, mcp: true, ..Heeds::default() }
    }

    fn setup(&self, launch: &Launch) -> Result<Setup, SetupError> {
        let (before, after) = launch.split();
        let words = self.words.iter().filter(|word| !after.iter().any(|given| given == *word));
        let words: Vec<_> = words.map(|&word| word.to_owned()).collect();
        Ok(Setup {
            command: [before, &words, after].concat(),
            link: Link::Pipe,
            opening: vec![Say::Message(opening::initialize(launch))],
            ..Setup::default()
        })
    }

    fn observe(&mut self, seen: &Observation<'_>, at: u64) -> Vec<Signal> {
        match seen {
            Observation::Control(message) => self.observe_message(message, at),
            Observation::Sent(message) => self.sent(message, at),
            Observation::Served { name, outcome } => self.served(name, outcome),
            Observation::Hook { .. }
            | Observation::LogLine { .. }
            | Observation::StatusFile(_)
            | Observation::Reply { .. }
            | Observation::Link { .. }
            | Observation::LinkLost
            | Observation::Title(_)
            | Observation::Screen(_) => Vec::new(),
        }
    }

    fn say(&mut self) -> Vec<Say> {
        std::mem::take(&mut self.to_say)
    }

    fn deliver(&mut self, text: &str, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        let Some(session) = &self.session else {
            return Err(Refusal::Occupied("the agent has no conversation that could take a message".into()));
        };
        Ok(turn::deliver(session, self.turns + 1, text))
    }

    fn answer(&self, ask: &Ask, reach: &Reach, answer: &Answer, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        match reach {
            Reach::Control { request, .. } => self.answered(ask, request, answer),
            Reach::Hook { .. } | Reach::Keys => Err(Refusal::BadRequest("it was not asked over ACP".into())),
        }
    }

    fn interrupt(&self, _: &View<'_>) -> Vec<Step> {
        let Some(session) = &self.session else { return Vec::new() };
        let cancel = CancelNotification::new(session.clone());
        let cancel = Step::Send(wire::notification(turn::METHODS.session_cancel, cancel));
        // The protocol wants what is asked meanwhile to be answered, as cancelled.
        let asked = self.asking.values().filter_map(|asking| ask::cancelled(&asking.request));
        [cancel].into_iter().chain(asked).chain([turn::expect_idle()]).collect()
    }

    fn stop_reply(&mut self, _: &StopReply) -> Option<Value> {
        None
    }

    fn start_reply(&self, _: StartSource, _: &str) -> Option<Value> {
        None
    }

    fn configure(&mut self, settings: &Configure, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        let session = self.session.as_deref().unwrap_or_default();
        self.settings.change(session, settings)
    }
}

/// Returns what one message of the protocol means.
fn signals(detail: &str, meanings: Vec<Meaning>) -> Vec<Signal> {
    meanings.into_iter().map(|meaning| Signal::new(EvidenceSource::Control, detail, meaning)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How Gemini is run over ACP, by its own name.
    #[test]
    fn an_agents_own_words_stand_behind_its_program_once() {
        let command = |line: &str| {
            let command = line.split(' ').map(str::to_owned).collect();
            let launch = Launch { runtime: Runtime::Pipe, command, program_at: 1, ..Launch::default() };
            let setup = driver(&launch, &["--acp"]).setup(&launch).expect("a set-up");
            assert_eq!(setup.link, Link::Pipe);
            setup.command.join(" ")
        };
        assert_eq!(command("env gemini -m x"), "env gemini --acp -m x");
        assert_eq!(command("env gemini -m x --acp"), "env gemini -m x --acp");
    }
}
