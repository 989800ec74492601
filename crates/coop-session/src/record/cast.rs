//! Lines of asciicast v3.
//!
//! ```text
//! {"version":3,"term":{"cols":80,"rows":24,"type":"xterm-256color"},"timestamp":1790000000,"title":"claude"}
//! [0.250,"o","hello\r\n"]      output
//! [1.000,"r","100x30"]         another size
//! [0.000,"m","working Bash"]   a state, or what coop has to say: "coop: …"
//! [3.000,"x","0"]              the exit
//! ```
//!
//! Times are seconds since the line before.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coop_api::{AgentState, Size};
use serde_json::json;

/// What a player has to know before it begins.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) size: Size,
    pub(super) term: String,
    pub(super) title: String,
}

impl Header {
    /// Returns the first line.
    pub(super) fn line(&self, now: SystemTime) -> String {
        let (cols, rows) = (self.size.cols(), self.size.rows());
        let timestamp = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let term = json!({ "cols": cols, "rows": rows, "type": self.term });
        format!("{}\n", json!({ "version": 3, "term": term, "timestamp": timestamp, "title": self.title }))
    }
}

/// Something that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    Output(&'a str),
    Resize(Size),
    Marker(&'a str),
    Exit(i32),
}

/// Makes lines of what happens. Parts of a second that do not fit into one line are told with the next, so that no error
/// adds up.
#[derive(Debug, Default)]
pub(super) struct Clock {
    told: Duration,
}

impl Clock {
    /// Returns a line for what happens now.
    pub(super) fn line(&mut self, now: Duration, entry: Entry<'_>) -> String {
        let millis = now.saturating_sub(self.told).as_millis();
        self.told += Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        let (code, data) = match entry {
            Entry::Output(text) => ("o", json!(text)),
            Entry::Resize(size) => ("r", json!(format!("{}x{}", size.cols(), size.rows()))),
            Entry::Marker(label) => ("m", json!(label)),
            Entry::Exit(status) => ("x", json!(status.to_string())),
        };
        format!("[{}.{:03},\"{code}\",{data}]\n", millis / 1000, millis % 1000)
    }
}

/// Makes text of bytes that come in any pieces. A character that is cut waits for the rest; what is none becomes U+FFFD,
/// as it does on the screen.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    cut: Vec<u8>,
}

impl Decoder {
    pub(super) fn push(&mut self, bytes: &[u8], text: &mut String) {
        let joined;
        let mut rest = bytes;
        if !self.cut.is_empty() {
            joined = [std::mem::take(&mut self.cut).as_slice(), bytes].concat();
            rest = &joined;
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => return text.push_str(valid),
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(wrong) = error.error_len() else {
                        self.cut = after.to_vec();
                        return;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &after[wrong..];
                }
            }
        }
    }

    /// Gives up on a character whose rest will not come.
    pub(super) fn end(&mut self, text: &mut String) {
        if !std::mem::take(&mut self.cut).is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Returns what a state is called in a marker: one word, and what it is about.
pub(super) fn label(state: &AgentState) -> String {
    match state {
        AgentState::Starting => "starting".to_owned(),
        AgentState::Working { tool: None } => "working".to_owned(),
        AgentState::Working { tool: Some(tool) } => format!("working {tool}"),
        AgentState::Idle => "idle".to_owned(),
        AgentState::Waiting { kind, .. } => format!("waiting {}", kind.as_str()),
        AgentState::Blocked { fault } => format!("blocked {}", fault.kind.as_str()),
        AgentState::Unknown => "unknown".to_owned(),
        AgentState::Exited { .. } => "exited".to_owned(),
    }
}
