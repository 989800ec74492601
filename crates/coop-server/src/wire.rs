//! The JSON that goes over the wire.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use coop_api::{
    AgentReport, AgentState, Ask, AskId, AskKind, Cursor, Error, ErrorCode, Event, EventBody, Evidence, Health,
    Lifecycle, Line, Modes, Nudge, NudgeRequest, Offset, ProcessState, Receipt, Screen, Seq, Size, Status,
    StopDecision, When,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Serialize, JsonSchema)]
pub(crate) struct HealthBody {
    status: ProcessState,
    pid: Option<u32>,
    uptime_secs: u64,
    agent: String,
    terminal: Size,
    ws_clients: usize,
    /// coop's own version.
    version: &'static str,
}

impl HealthBody {
    pub(crate) fn new(health: Health, ws_clients: usize) -> Self {
        Self {
            status: health.state,
            pid: health.pid,
            uptime_secs: health.uptime.as_secs(),
            agent: health.agent,
            terminal: health.size,
            ws_clients,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct StatusBody {
    state: ProcessState,
    pid: Option<u32>,
    uptime_secs: u64,
    exit_code: Option<i32>,
    /// The signal that ended the child, if one did.
    exit_signal: Option<i32>,
    screen_seq: Seq,
    bytes_read: u64,
    bytes_written: u64,
    ws_clients: usize,
    /// Which child of this session it is; grows with every restart.
    epoch: u64,
}

impl StatusBody {
    pub(crate) fn new(status: Status, ws_clients: usize) -> Self {
        Self {
            state: status.state,
            pid: status.pid,
            uptime_secs: status.uptime.as_secs(),
            exit_code: status.exit_code,
            exit_signal: status.exit_signal,
            screen_seq: status.screen_seq,
            bytes_read: status.bytes_read,
            bytes_written: status.bytes_written,
            ws_clients,
            epoch: status.epoch.0,
        }
    }
}

/// How a screen's rows are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Characters only.
    #[default]
    Text,
    /// With control sequences for the styles.
    Ansi,
    /// As runs of text with their styles.
    Styled,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ScreenBody {
    lines: Lines,
    rows: u16,
    cols: u16,
    /// Where the cursor is; absent with `cursor=false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<Cursor>,
    alt_screen: bool,
    sequence: Seq,
    /// How much of the child's output is in it.
    offset: Offset,
    title: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<Arc<str>>,
    modes: Modes,
    /// How many lines have scrolled off and are kept.
    scrollback: usize,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Lines {
    Text(Vec<String>),
    Styled(Vec<Arc<Line>>),
}

impl ScreenBody {
    pub(crate) fn new(screen: &Screen, format: Format, with_cursor: bool) -> Self {
        Self {
            lines: match format {
                Format::Text => Lines::Text(text_lines(screen)),
                Format::Ansi => Lines::Text(ansi_lines(screen)),
                Format::Styled => Lines::Styled(screen.lines.clone()),
            },
            rows: screen.size.rows(),
            cols: screen.size.cols(),
            cursor: with_cursor.then_some(screen.cursor),
            alt_screen: screen.modes.alt_screen,
            sequence: screen.seq,
            offset: screen.offset,
            title: Arc::clone(&screen.title),
            cwd: screen.cwd.clone(),
            modes: screen.modes,
            scrollback: screen.scrollback,
        }
    }
}

pub(crate) fn text_lines(screen: &Screen) -> Vec<String> {
    screen.lines.iter().map(|line| line.plain().to_owned()).collect()
}

pub(crate) fn ansi_lines(screen: &Screen) -> Vec<String> {
    screen.lines.iter().map(|line| line.ansi()).collect()
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct OutputBody {
    /// The bytes, in base64.
    pub(crate) data: String,
    /// Where they begin. Later than asked for if what came before is gone.
    pub(crate) offset: Offset,
    /// Where to go on.
    pub(crate) next_offset: Offset,
    /// Where the output ends now.
    pub(crate) total_written: Offset,
    /// Bytes between the offset asked for and the one given that are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gap: Option<Gap>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Gap {
    pub(crate) from: Offset,
    pub(crate) to: Offset,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputBody {
    /// What to type.
    pub(crate) text: String,
    /// Whether to press Enter after it.
    #[serde(default)]
    pub(crate) enter: bool,
    /// Whether to send it as a paste: in brackets if the child asked for that, and without control characters.
    #[serde(default)]
    pub(crate) paste: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeysBody {
    /// Key names, such as `Enter`, `Ctrl-C` or `F5`.
    pub(crate) keys: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalBody {
    /// A signal's name, such as `SIGINT`.
    pub(crate) signal: String,
}

/// The body of what takes none. It is read all the same: what is left unread would break the connection.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Delivered {
    pub(crate) delivered: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NudgeBody {
    /// What to tell the agent.
    pub(crate) message: String,
    /// `now` (the default) or `idle`, which queues it.
    #[serde(default)]
    pub(crate) when: When,
    /// Whether to wait until a queued message is delivered.
    #[serde(default)]
    pub(crate) wait: bool,
}

impl From<NudgeBody> for NudgeRequest {
    fn from(body: NudgeBody) -> Self {
        Self { message: body.message, when: body.when, wait: body.wait }
    }
}

/// What to do with an agent that wants to end its turn and is held.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StopBody {
    /// `allow` (the default) or `block`.
    pub(crate) decision: StopChoice,
    /// What an agent that is sent back is told.
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StopChoice {
    #[default]
    Allow,
    Block,
}

impl From<StopBody> for StopDecision {
    fn from(body: StopBody) -> Self {
        match body.decision {
            StopChoice::Allow => Self::Allow,
            StopChoice::Block => Self::Block(body.reason.unwrap_or_default()),
        }
    }
}

/// The agent's state in the words of both kinds of clients.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentBody {
    /// The agent's type, as given by `--agent`.
    agent: String,
    /// `starting`, `working`, `waiting_for_input`, `permission_prompt`, `plan_prompt`, `ask_user`, `error`, `unknown` or
    /// `exited`.
    state: &'static str,
    /// The same in one of `starting`, `working`, `idle`, `prompt`, `error`, `unknown`, `exited`.
    name: &'static str,
    /// The state with all that belongs to it.
    detail: AgentState,
    /// The screen's sequence number when the state began.
    since_seq: Seq,
    /// When the state began, RFC 3339.
    since: String,
    screen_seq: Seq,
    /// Which kind of evidence the state rests on.
    detection_tier: &'static str,
    evidence: Evidence,
    idle_grace_remaining_secs: Option<f32>,
    prompt: Option<PromptBody>,
    /// The agent's own session, which it can be resumed with.
    session_id: Option<String>,
    last_message: Option<String>,
    /// Messages that wait to be delivered.
    queue: Vec<Nudge>,
}

impl From<AgentReport> for AgentBody {
    fn from(report: AgentReport) -> Self {
        Self {
            agent: report.agent,
            state: report.state.as_str(),
            name: report.state.short_name(),
            detail: report.state,
            since_seq: report.since_seq,
            since: report.since,
            screen_seq: report.screen_seq,
            detection_tier: report.evidence.source.as_str(),
            evidence: report.evidence,
            idle_grace_remaining_secs: report.idle_grace_remaining.map(|left| left.as_secs_f32()),
            prompt: report.ask.as_ref().map(PromptBody::from),
            session_id: report.session_id,
            last_message: report.last_message,
            queue: report.queue,
        }
    }
}

/// What the agent asks.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct PromptBody {
    /// `permission`, `plan`, `question` or `setup`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The ask's name, to answer just this one.
    pub(crate) ask: AskId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input_preview: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<String>,
    /// The labels of what can be chosen, in order.
    pub(crate) options: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<String>,
    pub(crate) screen_lines: Vec<String>,
}

impl From<&Ask> for PromptBody {
    fn from(ask: &Ask) -> Self {
        let only = |kind: AskKind| (ask.kind == kind).then(|| ask.preview.clone());
        Self {
            kind: ask.kind.as_str(),
            ask: ask.id.clone(),
            tool: ask.tool.clone(),
            input_preview: only(AskKind::Permission).or(only(AskKind::Setup)),
            question: only(AskKind::Question),
            options: ask.options.iter().map(|option| option.label.clone()).collect(),
            summary: only(AskKind::Plan),
            screen_lines: ask.screen_lines.clone(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct AsksBody {
    pub(crate) asks: Vec<Ask>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct NudgesBody {
    pub(crate) nudges: Vec<Nudge>,
}

/// What a WebSocket tells its client.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerMessage {
    Output {
        data: String,
        offset: Offset,
    },
    /// Bytes that are gone: they came faster than this client took them.
    Gap {
        from: Offset,
        to: Offset,
    },
    /// The whole terminal as control sequences; output goes on at `offset`.
    Resync {
        data: String,
        offset: Offset,
        cols: u16,
        rows: u16,
    },
    Screen {
        lines: Vec<String>,
        cols: u16,
        rows: u16,
        alt_screen: bool,
        cursor: Cursor,
        seq: Seq,
        title: Arc<str>,
    },
    StateChange(Transition),
    /// The same in the shorter words.
    Transition(Transition),
    #[serde(rename = "stop:outcome")]
    StopOutcome {
        event: Seq,
        #[serde(flatten)]
        outcome: coop_api::StopOutcome,
    },
    /// What became of a nudge sent over this connection.
    Receipt(Receipt),
    /// What became of an answer sent over this connection.
    Answered(coop_api::Answered),
    /// The agent's state, to those who asked.
    State(Box<AgentBody>),
    Asks(AsksBody),
    Explanation(coop_api::Explanation),
    Usage(coop_api::UsageReport),
    /// What was asked is done.
    Done,
    /// Events that are no longer kept.
    Lagged {
        from: Seq,
        to: Seq,
    },
    Exit {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// The sidecar has begun to stop the child.
    Stopping,
    /// A child was started, the first or after a restart.
    Started {
        pid: u32,
    },
    Error {
        message: String,
        code: ErrorCode,
        /// The input that failed, if it had one.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    Resize {
        cols: u16,
        rows: u16,
    },
    /// How far an input came, to those who asked with an `id`.
    Written {
        id: u64,
        bytes_written: u64,
        queued: u64,
    },
    Lock {
        held: bool,
    },
    Auth {
        ok: bool,
    },
    Pong,
}

/// A change of the agent's state.
#[derive(Serialize)]
pub(crate) struct Transition {
    prev: &'static str,
    next: &'static str,
    /// The tool it now works with.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The screen's sequence number.
    seq: Seq,
    /// The event's number.
    event: Seq,
    prompt: Option<PromptBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_message: Option<String>,
    /// What failed, if it is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<coop_api::Fault>,
    evidence: Evidence,
}

/// Which words a client wants states in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// `state_change` with the sidecar's names.
    #[default]
    Long,
    /// `transition` with `idle` and `prompt`.
    Short,
}

impl Transition {
    fn new(event: Seq, change: &coop_api::StateChange, spelling: Spelling) -> Self {
        let name = |state: &AgentState| match spelling {
            Spelling::Long => state.as_str(),
            Spelling::Short => state.short_name(),
        };
        Self {
            prev: name(&change.prev),
            next: name(&change.next),
            tool: tool(&change.next),
            seq: change.screen_seq,
            event,
            prompt: change.ask.as_ref().map(PromptBody::from),
            last_message: change.last_message.clone(),
            fault: match &change.next {
                AgentState::Blocked { fault } => Some(fault.clone()),
                _ => None,
            },
            evidence: change.evidence.clone(),
        }
    }
}

/// Returns the tool that an agent works with.
pub(crate) fn tool(state: &AgentState) -> Option<String> {
    match state {
        AgentState::Working { tool } => tool.clone(),
        _ => None,
    }
}

impl From<Error> for ServerMessage {
    fn from(error: Error) -> Self {
        Self::Error { message: error.message, code: error.code, id: None }
    }
}

impl ServerMessage {
    pub(crate) fn failed(error: Error, id: Option<u64>) -> Self {
        Self::Error { message: error.message, code: error.code, id }
    }

    pub(crate) fn output(offset: Offset, data: &[u8]) -> Self {
        Self::Output { data: STANDARD.encode(data), offset }
    }

    pub(crate) fn screen(screen: &Screen) -> Self {
        Self::Screen {
            lines: text_lines(screen),
            cols: screen.size.cols(),
            rows: screen.size.rows(),
            alt_screen: screen.modes.alt_screen,
            cursor: screen.cursor,
            seq: screen.seq,
            title: Arc::clone(&screen.title),
        }
    }

    /// Returns what has a message of its own; the rest goes as it is.
    pub(crate) fn event(event: &Event, spelling: Spelling) -> Option<Self> {
        Some(match &event.body {
            EventBody::State(change) => match spelling {
                Spelling::Long => Self::StateChange(Transition::new(event.seq, change, spelling)),
                Spelling::Short => Self::Transition(Transition::new(event.seq, change, spelling)),
            },
            EventBody::Stop(outcome) => Self::StopOutcome { event: event.seq, outcome: outcome.clone() },
            EventBody::Lifecycle(Lifecycle::Exited { code, signal }) => Self::Exit { code: *code, signal: *signal },
            EventBody::Lifecycle(Lifecycle::Resized { size }) => Self::Resize { cols: size.cols(), rows: size.rows() },
            EventBody::Lifecycle(Lifecycle::Started { pid }) => Self::Started { pid: *pid },
            EventBody::Lifecycle(Lifecycle::Stopping) => Self::Stopping,
            EventBody::Lifecycle(Lifecycle::Session { .. })
            | EventBody::Turn(_)
            | EventBody::Message(_)
            | EventBody::Tool(_)
            | EventBody::Ask(_)
            | EventBody::Artifact(_)
            | EventBody::Usage(_)
            | EventBody::Fault(_)
            | EventBody::Delivery(_) => return None,
        })
    }
}

/// Returns an event as a message: its kind as `type`, its number as `event`, and all that is in it.
pub(crate) fn event_message(event: &Event) -> serde_json::Value {
    let mut message = serde_json::to_value(&event.body).unwrap_or_default();
    if let Some(fields) = message.as_object_mut() {
        fields.remove("kind");
        fields.insert("type".into(), event.body.kind().into());
        fields.insert("event".into(), event.seq.0.into());
    }
    message
}

/// What a client tells a WebSocket.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ClientMessage {
    Input {
        text: String,
        #[serde(default)]
        id: Option<u64>,
    },
    InputRaw {
        data: String,
        #[serde(default)]
        id: Option<u64>,
    },
    Keys {
        keys: Vec<String>,
        #[serde(default)]
        id: Option<u64>,
    },
    Resize(Size),
    ScreenRequest {},
    StateRequest {},
    Nudge(NudgeBody),
    Respond(coop_api::Answer),
    Interrupt {},
    StopResolve(StopBody),
    AsksRequest {},
    ExplainRequest {},
    UsageRequest {},
    Replay {
        offset: Offset,
    },
    Lock {
        action: coop_api::LockAction,
    },
    Auth {
        token: String,
    },
    Ping {},
    Pong {},
}

impl ClientMessage {
    /// Returns the number by which the client knows its input.
    pub(crate) fn id(&self) -> Option<u64> {
        match self {
            Self::Input { id, .. } | Self::InputRaw { id, .. } | Self::Keys { id, .. } => *id,
            Self::Resize(_)
            | Self::ScreenRequest {}
            | Self::StateRequest {}
            | Self::Nudge(_)
            | Self::Respond(_)
            | Self::Interrupt {}
            | Self::StopResolve(_)
            | Self::AsksRequest {}
            | Self::ExplainRequest {}
            | Self::UsageRequest {}
            | Self::Replay { .. }
            | Self::Lock { .. }
            | Self::Auth { .. }
            | Self::Ping {}
            | Self::Pong {} => None,
        }
    }
}

pub(crate) fn from_base64(text: &str) -> Result<Bytes, Error> {
    match STANDARD.decode(text) {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) => Err(Error::bad_request(format!("the data is not base64: {error}"))),
    }
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
