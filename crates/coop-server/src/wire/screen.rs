//! What the terminal shows, and what the child wrote.

use std::sync::Arc;

use coop_api::{Cursor, Dump, Line, Modes, Offset, Screen, Seq};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::to_base64;

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

/// The whole terminal as control sequences.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DumpBody {
    /// What makes a fresh terminal show the same, in base64. It begins with a reset.
    data: String,
    /// How much of the child's output is in it; go on there.
    offset: Offset,
    cols: u16,
    rows: u16,
}

impl From<&Dump> for DumpBody {
    fn from(dump: &Dump) -> Self {
        Self { data: to_base64(&dump.data), offset: dump.offset, cols: dump.size.cols(), rows: dump.size.rows() }
    }
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
