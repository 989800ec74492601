use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Memo, Offset, Seq, Style};

/// A terminal's size in cells, always within bounds the emulator and the machine can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "RawSize")]
pub struct Size {
    /// Columns, 2 to 1000.
    cols: u16,
    /// Rows, 1 to 1000.
    rows: u16,
}

/// A size that cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a terminal of {cols}x{rows} cannot be made: use 2 to 1000 columns, 1 to 1000 rows and at most 250000 cells")]
pub struct SizeError {
    cols: u32,
    rows: u32,
}

impl Size {
    /// What a terminal has when nobody says otherwise.
    pub const DEFAULT: Self = Self { cols: 200, rows: 50 };

    /// The narrowest terminal: wide characters take two cells.
    pub const MIN_COLS: u16 = 2;
    /// More would let one request take hundreds of megabytes.
    const MAX_SIDE: u32 = 1000;
    const MAX_CELLS: u32 = 250_000;

    /// Returns a size, or says why it cannot be had.
    pub fn new(cols: u32, rows: u32) -> Result<Self, SizeError> {
        let sides =
            (u32::from(Self::MIN_COLS)..=Self::MAX_SIDE).contains(&cols) && (1..=Self::MAX_SIDE).contains(&rows);
        match (u16::try_from(cols), u16::try_from(rows)) {
            (Ok(c), Ok(r)) if sides && cols * rows <= Self::MAX_CELLS => Ok(Self { cols: c, rows: r }),
            _ => Err(SizeError { cols, rows }),
        }
    }

    /// Returns the number of columns.
    pub fn cols(self) -> u16 {
        self.cols
    }

    /// Returns the number of rows.
    pub fn rows(self) -> u16 {
        self.rows
    }
}

#[derive(Deserialize, JsonSchema)]
struct RawSize {
    cols: u32,
    rows: u32,
}

impl TryFrom<RawSize> for Size {
    type Error = SizeError;

    fn try_from(raw: RawSize) -> Result<Self, SizeError> {
        Self::new(raw.cols, raw.rows)
    }
}

/// What the terminal shows at one moment. Immutable, and shared by everyone who asks.
#[derive(Debug)]
pub struct Screen {
    /// Grows whenever anything below changes.
    pub seq: Seq,
    /// How much of the child's output is in it.
    pub offset: Offset,
    /// The terminal's size.
    pub size: Size,
    /// One line per row, top first.
    pub lines: Vec<Arc<Line>>,
    /// Where the cursor is and how it looks.
    pub cursor: Cursor,
    /// What the child switched on.
    pub modes: Modes,
    /// The window title.
    pub title: Arc<str>,
    /// How often the child has set the title, also to the same text.
    pub title_count: u64,
    /// The working directory the child told by OSC 7.
    pub cwd: Option<Arc<str>>,
    /// How many lines have scrolled off and are kept.
    pub scrollback: usize,
    /// The encoding of the plain-text form, made once.
    pub plain: Memo,
    /// The encoding of the ANSI form, made once.
    pub ansi: Memo,
    /// The encoding of the styled form, made once.
    pub styled: Memo,
    /// The encoding as a message to those who follow the screen, made once.
    pub message: Memo,
}

/// One row of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// The row's characters, without trailing blanks.
    pub text: String,
    /// How the characters look; the runs cover the whole text in order.
    pub runs: Vec<Run>,
    /// Whether the text goes on in the next row because it was too long.
    pub wrapped: bool,
    /// The screen's sequence number when this row last changed.
    pub seq: Seq,
}

impl Line {
    /// Tells whether both show the same, whenever they changed.
    pub fn same_content(&self, other: &Self) -> bool {
        self.text == other.text && self.runs == other.runs && self.wrapped == other.wrapped
    }

    /// Returns the row's characters as a person would copy them: without blanks at the end.
    pub fn plain(&self) -> &str {
        self.text.trim_end_matches(' ')
    }

    /// Returns the row with its styles as control sequences; it begins and ends in the default style.
    pub fn ansi(&self) -> String {
        let mut out = String::with_capacity(self.text.len() + 16 * self.runs.len());
        let mut rest = self.text.as_str();
        let mut styled = false;
        for run in &self.runs {
            let (part, after) = rest.split_at((run.bytes as usize).min(rest.len()));
            rest = after;
            if run.style != Style::default() || styled {
                out.push_str(&run.style.sgr());
                styled = run.style != Style::default();
            }
            match &run.style.link {
                Some(link) => {
                    out.push_str("\x1b]8;;");
                    out.push_str(link);
                    out.push_str("\x1b\\");
                    out.push_str(part);
                    out.push_str("\x1b]8;;\x1b\\");
                }
                None => out.push_str(part),
            }
        }
        if styled {
            out.push_str("\x1b[0m");
        }
        out
    }

    /// Returns how many cells the text takes.
    pub fn cells(&self) -> usize {
        self.runs.iter().map(|run| usize::from(run.cells)).sum()
    }
}

/// A stretch of a row with one style.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// How many bytes of the line's text it takes.
    pub bytes: u32,
    /// How many cells it takes.
    pub cells: u16,
    /// How it looks.
    #[serde(flatten)]
    pub style: Style,
}

/// Where the cursor is and how it looks. Rows and columns count from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cursor {
    /// The row, from the top.
    pub row: u16,
    /// The column, from the left.
    pub col: u16,
    /// Whether the child shows it.
    pub visible: bool,
    /// Its shape.
    pub shape: CursorShape,
    /// Whether it blinks.
    pub blinking: bool,
    /// Whether the last column was just filled, so that the next character wraps first.
    pub pending_wrap: bool,
}

/// The cursor's shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum CursorShape {
    #[default]
    Block,
    Underline,
    Bar,
}

/// The terminal modes that matter to someone who types or watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Modes {
    /// The alternate screen is shown.
    pub alt_screen: bool,
    /// Cursor keys send `ESC O` (DECCKM).
    pub app_cursor: bool,
    /// The keypad sends application codes (DECKPAM).
    pub app_keypad: bool,
    /// Pasted text is to be bracketed.
    pub bracketed_paste: bool,
    /// Focus changes are reported.
    pub focus: bool,
    /// Which mouse events are reported.
    pub mouse: Mouse,
    /// Mouse events are reported in SGR form.
    pub sgr_mouse: bool,
    /// Enter sends CR LF (LNM).
    pub newline: bool,
    /// Text wraps at the right edge (DECAWM).
    pub autowrap: bool,
    /// Typed text shifts the rest of the row (IRM).
    pub insert: bool,
    /// Rows count from the scroll region (DECOM).
    pub origin: bool,
    /// A synchronized frame is being drawn; the screen shows what was there before it.
    pub synchronized: bool,
    /// The kitty keyboard protocol's flags.
    pub kitty: u8,
}

/// Which mouse events the child wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Mouse {
    #[default]
    Off,
    Click,
    Drag,
    Motion,
}
