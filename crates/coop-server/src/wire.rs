//! The JSON that goes over the wire.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use coop_api::{
    AgentReport, Cursor, Error, ErrorCode, EventBody, Health, Lifecycle, Line, Modes, Offset, ProcessState, Screen,
    Seq, Size, Status,
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

#[derive(Serialize, JsonSchema)]
pub(crate) struct Delivered {
    pub(crate) delivered: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NudgeBody {
    /// What to tell the agent.
    pub(crate) message: String,
}

/// The agent's state in the seed's spelling.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentBody {
    #[serde(flatten)]
    report: AgentReport,
    /// Which kind of evidence the state rests on.
    detection_tier: &'static str,
    idle_grace_remaining_secs: Option<f32>,
    prompt: Option<()>,
}

impl From<AgentReport> for AgentBody {
    fn from(report: AgentReport) -> Self {
        let detection_tier = report.evidence.source.as_str();
        Self { report, detection_tier, idle_grace_remaining_secs: None, prompt: None }
    }
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
    StateChange {
        prev: &'static str,
        next: &'static str,
        seq: Seq,
        prompt: Option<()>,
    },
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

impl From<Error> for ServerMessage {
    fn from(error: Error) -> Self {
        Self::Error { message: error.message, code: error.code }
    }
}

impl ServerMessage {
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

    pub(crate) fn event(body: &EventBody) -> Self {
        match body {
            EventBody::State { prev, next, screen_seq } => {
                Self::StateChange { prev: prev.as_str(), next: next.as_str(), seq: *screen_seq, prompt: None }
            }
            EventBody::Lifecycle(Lifecycle::Exited { code, signal }) => Self::Exit { code: *code, signal: *signal },
            EventBody::Lifecycle(Lifecycle::Resized { size }) => Self::Resize { cols: size.cols(), rows: size.rows() },
            EventBody::Lifecycle(Lifecycle::Started { pid }) => Self::Started { pid: *pid },
            EventBody::Lifecycle(Lifecycle::Stopping) => Self::Stopping,
        }
    }
}

/// What a client tells a WebSocket.
#[derive(Debug, Deserialize)]
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
    Nudge {
        message: String,
    },
    Respond(coop_api::Answer),
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

pub(crate) fn from_base64(text: &str) -> Result<Bytes, Error> {
    match STANDARD.decode(text) {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) => Err(Error::bad_request(format!("the data is not base64: {error}"))),
    }
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
