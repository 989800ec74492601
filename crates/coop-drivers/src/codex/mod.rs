//! Codex, measured with 0.166.0.
//!
//! Its app-server says all of it and takes answers, messages and interrupts. In the terminal the server runs beside the
//! interface, which is its first client, and coop is the second; over pipes coop is the only one. `codex exec --json`
//! prints what it does and asks nothing. Without any of that there are the title and the screen, which are only watched.

mod asks;
mod content;
mod exec;
mod fault;
mod mode;
mod protocol;
mod screen;
mod setup;

use std::collections::HashSet;
use std::time::Duration;

use coop_api::{Answer, Ask, Capability, Configure, PermissionMode, Screen, Usage};
use serde_json::{Value, json};

use self::setup::{Begin, Way};
use crate::driver::{
    Driver, Expected, Heeds, Launch, Observation, Refusal, Runtime, Say, ScreenKind, Setup, SetupError, Step,
    StopReply, View,
};
use crate::modes::OwnMode;
use crate::recent::Recent;
use crate::registry::{Known, Login};
use crate::rules::Rules;
use crate::tools::{NamedTool, Tool, Unasked};
use crate::{AskDraft, Reach, Signal, StartSource, keys};

/// What can be done by its server.
const BY_SERVER: [Capability; 9] = [
    Capability::Nudge,
    Capability::Permission,
    Capability::Question,
    Capability::Interrupt,
    Capability::Configure,
    Capability::Usage,
    Capability::Transcript,
    Capability::Resume,
    Capability::Fork,
];
/// What can be done with one that only prints.
const BY_LINES: [Capability; 2] = [Capability::Usage, Capability::Resume];
/// What can be done by its screen.
const BY_SCREEN: [Capability; 2] = [Capability::Permission, Capability::Interrupt];

const BEGINS_WITHIN: Duration = Duration::from_secs(60);
const ENDS_WITHIN: Duration = Duration::from_secs(20);
const REPLIES_WITHIN: Duration = Duration::from_secs(20);
const TOOLS: &[NamedTool] = &[
    ("command_execution", &[Tool::Shell]),
    ("file_change", &[Tool::Edit, Tool::Write]),
    ("request_permissions", &[Tool::Other]),
    ("mcp_elicitation", &[Tool::Mcp]),
    ("mcp__*", &[Tool::Mcp]),
    ("exec_command", &[Tool::Shell]),
    ("local_shell", &[Tool::Shell]),
    ("shell", &[Tool::Shell]),
    ("apply_patch", &[Tool::Edit, Tool::Write]),
    ("web_search", &[Tool::WebSearch]),
    ("image_view", &[Tool::Read]),
];

/// Codex has no names for these: a mode is an approval policy and a sandbox, see `mode.rs`.
const MODES: &[OwnMode] = &[
    OwnMode {
        mode: PermissionMode::Default,
        names: &[],
        words: &["--ask-for-approval=on-request", "--sandbox=read-only"],
    },
    OwnMode {
        mode: PermissionMode::AcceptEdits,
        names: &[],
        words: &["--ask-for-approval=on-request", "--sandbox=workspace-write"],
    },
    OwnMode {
        mode: PermissionMode::DontAsk,
        names: &[],
        words: &["--ask-for-approval=never", "--sandbox=workspace-write"],
    },
    OwnMode { mode: PermissionMode::Bypass, names: &[], words: &["--dangerously-bypass-approvals-and-sandbox"] },
];

pub(crate) const KNOWN: Known = Known {
    name: "codex",
    programs: &["codex"],
    package: "@openai/codex",
    binaries: &[".bin/codex"],
    tested: Some(("0.166.0", "0.166.0")),
    runtimes: &[Runtime::Pty, Runtime::Pipe],
    variables: &[setup::HOME],
    folders: &[".codex"],
    files: &[],
    state_variable: None,
    asks_version: true,
    keys: &["OPENAI_API_KEY", "CODEX_API_KEY"],
    logins: &[Login { variable: "CODEX_HOME", folder: ".codex", file: "auth.json" }],
    rules: include_str!("../../rules/codex.toml"),
    reads: |_| Vec::new(),
    new: |rules, launch| Box::new(Codex::new(rules, launch)),
    tools: &[TOOLS],
    never_asks: &[
        Unasked::Flag("--dangerously-bypass-approvals-and-sandbox"),
        Unasked::Flag("--yolo"),
        Unasked::Option(&["-a", "--ask-for-approval"], "never"),
        Unasked::Option(&["-c", "--config"], "approval_policy=never"),
        Unasked::Setting("/approval_policy", "never"),
    ],
    modes: MODES,
};

/// What coop knows of Codex, and what it remembers of one that runs.
#[derive(Debug)]
pub(crate) struct Codex {
    rules: Rules,
    way: Way,
    runtime: Runtime,
    /// What the protocol is to be told next.
    outbox: Vec<Say>,
    /// Whether it is to ask about each command.
    asks_first: bool,
    /// The permission mode that its server told last.
    permission_mode: Option<PermissionMode>,
    /// How often its settings were changed.
    settings: u64,
    /// Whether its server is there to talk to.
    linked: bool,
    /// How the conversation begins, over pipes.
    begin: Begin,
    /// The first message of the command line, until it was taken.
    prompt: Option<String>,
    /// The conversation.
    thread: Option<String>,
    /// The model it is with.
    model: String,
    /// Whether we hear of what happens in it.
    joined: bool,
    /// Tokens of the conversation that were told of; none until its sum is known.
    counted_usage: Option<Usage>,
    /// The sum that was told before it was known what the turn is about.
    untold_usage: Option<Value>,
    /// Whether we have asked to.
    joining: bool,
    /// Conversations that are not the person's: sub-agents, and those in which titles are made up.
    others: Recent,
    /// Conversations that the person left while they worked.
    left: HashSet<String>,
    /// The turn that is under way, if its name is known.
    turn: Option<String>,
    /// Turns that are over.
    over: Recent,
    /// Commands of the last turn, by their items: the server may have left some of them running.
    commands: HashSet<String>,
    /// Requests to end such commands that the server has not answered.
    ending: HashSet<String>,
    busy: bool,
    /// Whether the server has said that the conversation rests, and of no work since.
    rests: bool,
    /// Whether the turn was told of.
    announced: bool,
    /// The names of the requests by which something is asked.
    asking: HashSet<String>,
    /// The last item of the turn when it was joined: that it ended may have been announced before.
    last_before_join: Option<Value>,
    /// Items that were told of, at their beginning and end.
    begun: Recent,
    /// The last change of files that began, by its item, with its `changes`: what is asked about it does not repeat them.
    file_change: Option<(String, Value)>,
    ended: Recent,
    /// The dialog on the screen, as last seen.
    on_screen: Option<AskDraft>,
    /// Whether the title showed work.
    title_works: bool,
    /// The title that showed no work any more, and since when, until the screen has shown what Codex waits for.
    rest: Option<(u64, String)>,
}

impl Codex {
    /// Returns a driver for one that is about to be launched.
    fn new(rules: Rules, launch: &Launch) -> Self {
        let plan = setup::plan(launch);
        Self {
            rules,
            way: plan.way,
            runtime: launch.runtime,
            outbox: Vec::new(),
            settings: 0,
            asks_first: launch.ask_first,
            permission_mode: None,
            linked: launch.runtime == Runtime::Pipe && plan.way == Way::Server,
            begin: plan.begin,
            prompt: plan.prompt,
            thread: None,
            model: String::new(),
            joined: false,
            counted_usage: None,
            untold_usage: None,
            joining: false,
            others: Recent::default(),
            left: HashSet::new(),
            turn: None,
            over: Recent::default(),
            commands: HashSet::new(),
            ending: HashSet::new(),
            busy: false,
            rests: false,
            announced: false,
            asking: HashSet::new(),
            last_before_join: None,
            begun: Recent::default(),
            file_change: None,
            ended: Recent::default(),
            on_screen: None,
            title_works: false,
            rest: None,
        }
    }

    /// Returns the conversation, if its server can be told something about it.
    fn reachable(&self) -> Result<&str, Refusal> {
        let down = || Refusal::Occupied("Codex's server cannot be reached right now; try again in a moment".into());
        match (self.way, &self.thread) {
            (Way::Server, Some(thread)) if self.linked => Ok(thread),
            (Way::Server, _) => Err(down()),
            (Way::Lines, _) => Err(Refusal::Unsupported("codex exec takes one prompt, on its command line".into())),
            (Way::Screen, _) => {
                let why = "without its app-server coop only watches Codex; type into its terminal instead";
                Err(Refusal::Unsupported(why.into()))
            }
        }
    }
}

impl Driver for Codex {
    fn capabilities(&self) -> &'static [Capability] {
        match self.way {
            Way::Server => &BY_SERVER,
            Way::Lines => &BY_LINES,
            Way::Screen => &BY_SCREEN,
        }
    }

    fn heeds(&self) -> Heeds {
        let has_server = self.way == Way::Server;
        Heeds {
            resume: has_server,
            isolated: true,
            settings: has_server,
            mcp: has_server,
            ask_first: has_server,
            ..Heeds::default()
        }
    }

    fn classify(&self, screen: &Screen) -> ScreenKind {
        self.classify(screen)
    }

    fn missing_signals(&self) -> Vec<&'static str> {
        let server = (self.way == Way::Server && !self.linked).then_some("its app-server");
        let thread = (self.way == Way::Server && self.thread.is_none()).then_some("a conversation");
        [server, thread].into_iter().flatten().collect()
    }

    fn setup(&self, launch: &Launch) -> Result<Setup, SetupError> {
        setup::setup(launch)
    }

    fn observe(&mut self, seen: &Observation<'_>, at: u64) -> Vec<Signal> {
        match seen {
            Observation::Control(message) => match self.way {
                Way::Server => self.observe_message(message),
                Way::Lines => self.observe_line(message),
                Way::Screen => Vec::new(),
            },
            Observation::Link { up } => self.observe_link(*up),
            Observation::LinkLost => self.observe_lost(),
            Observation::Title(title) => self.observe_title(title, at),
            Observation::Screen(screen) => self.observe_screen(screen, at),
            Observation::StatusFile(file) => {
                if self.way == Way::Server && file["companion"] == "missing" {
                    self.way = Way::Screen;
                }
                Vec::new()
            }
            // What the log has was told by the server before.
            Observation::Hook { .. }
            | Observation::LogLine { .. }
            | Observation::Sent(_)
            | Observation::Served { .. }
            | Observation::Reply { .. } => Vec::new(),
        }
    }

    fn say(&mut self) -> Vec<Say> {
        std::mem::take(&mut self.outbox)
    }

    fn deliver(&mut self, text: &str, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        let thread = self.reachable()?;
        if text.trim().is_empty() {
            return Err(Refusal::BadRequest("there is nothing in this message".into()));
        }
        let began = Step::Expect { what: Expected::TurnBegan, within: BEGINS_WITHIN, retry: None };
        Ok(vec![Step::Send(protocol::turn_start(thread, text)), began])
    }

    fn answer(&self, ask: &Ask, reach: &Reach, answer: &Answer, view: &View<'_>) -> Result<Vec<Step>, Refusal> {
        match reach {
            Reach::Control { request, suggestions } => {
                let thread = self.reachable()?;
                let steer = |text: &str| self.turn.as_ref().map(|turn| protocol::steer(thread, turn, text));
                asks::answer(ask, answer, request, suggestions, steer)
            }
            Reach::Keys => screen::answer(&self.rules, ask, answer, view.screen),
            Reach::Hook { .. } => Err(Refusal::BadRequest("Codex's hooks are not used".into())),
        }
    }

    fn interrupt(&self, _: &View<'_>) -> Vec<Step> {
        let ends = Step::Expect { what: Expected::Idle, within: ENDS_WITHIN, retry: None };
        match (self.reachable(), &self.turn, self.runtime) {
            (Ok(thread), Some(turn), _) => {
                let mut steps = vec![Step::Send(protocol::interrupt(thread, turn)), ends];
                // Codex leaves a command running that it no longer waits for.
                if !self.commands.is_empty() {
                    let what = Expected::Reply(protocol::TERMINALS.to_owned());
                    let ended = Step::Expect { what, within: REPLIES_WITHIN, retry: None };
                    steps.extend([Step::Send(protocol::list_terminals(thread)), ended]);
                }
                steps
            }
            // In its own terminal the key does the same, also where the turn's name is not known.
            (_, _, Runtime::Pty) if self.way != Way::Lines => vec![Step::Type(keys::ESCAPE), ends],
            _ => vec![ends],
        }
    }

    fn stop_reply(&mut self, _: &StopReply) -> Option<Value> {
        None
    }

    fn start_reply(&self, _: StartSource, _: &str) -> Option<Value> {
        None
    }

    fn configure(&mut self, settings: &Configure, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        let thread = self.reachable()?;
        let mut changes = json!({ "threadId": thread });
        if let Some(model) = &settings.model {
            changes["model"] = json!(model);
        }
        match settings.mode.as_deref() {
            None => {}
            Some(mode @ ("plan" | "default")) => {
                let model = settings.model.as_ref().unwrap_or(&self.model);
                let own = json!({ "model": model, "reasoning_effort": null, "developer_instructions": null });
                changes["collaborationMode"] = json!({ "mode": mode, "settings": own });
            }
            Some(policy @ ("on-request" | "never")) if self.asks_first => {
                let why = format!("this agent was started with --ask-first, and the policy {policy} would end that");
                return Err(Refusal::BadRequest(why));
            }
            Some(policy @ ("on-request" | "never")) => changes["approvalPolicy"] = json!(policy),
            Some(other) => {
                let why = format!("Codex has no mode {other}; there are plan, default, on-request and never");
                return Err(Refusal::BadRequest(why));
            }
        }
        self.settings += 1;
        let id = format!("{}{}", protocol::SETTINGS, self.settings);
        let replied = Step::Expect { what: Expected::Reply(id.clone()), within: REPLIES_WITHIN, retry: None };
        Ok(vec![Step::Send(protocol::request(&id, "thread/settings/update", &changes)), replied])
    }
}
