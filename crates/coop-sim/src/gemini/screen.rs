//! What it shows: what was said, and below it its input or a dialog.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use unicode_width::UnicodeWidthStr;

use crate::claude::face::Size;
use crate::claude::tui::paint::wrap;

const PLACEHOLDER: &str = "  Type your message or @path/to/file";
/// A paste longer than this, in lines or characters, is shown by a short form.
const LONG_PASTE: (usize, usize) = (5, 500);
/// How many rows of a text a dialog shows at most: the last ones.
const BOX_ROWS: usize = 36;
/// How wide the title is, with blanks at its end.
const TITLE: usize = 80;

pub(super) struct Screen {
    out: File,
    size: Size,
    folder: String,
    said: Vec<String>,
    dialog: Vec<String>,
    input: String,
    working: bool,
}

impl Screen {
    pub(super) fn new(out: File, size: Size, cwd: &Path) -> Self {
        let folder = cwd.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let said = vec![" ▝▜▄     Gemini CLI v0.61.0".to_owned(), String::new()];
        Self { out, size, folder, said, dialog: Vec::new(), input: String::new(), working: false }
    }

    /// Adds to what was said.
    pub(super) fn say(&mut self, text: &str) {
        self.said.extend(text.lines().map(str::to_owned));
        self.said.push(String::new());
    }

    pub(super) fn input(&mut self, text: &str) {
        let (lines, chars) = LONG_PASTE;
        let is_long = text.lines().count() > lines || text.len() > chars;
        self.input = if is_long { format!("[Pasted Text: {} chars]", text.len()) } else { text.to_owned() };
    }

    /// Shows a dialog instead of the input; an empty one takes it away.
    pub(super) fn dialog(&mut self, rows: Vec<String>) {
        self.dialog = rows;
    }

    /// Returns a text in a box of its own, as a dialog shows a command.
    pub(super) fn boxed(&self, text: &str) -> Vec<String> {
        let width = self.size.cols.saturating_sub(8);
        let rows: Vec<_> = text.lines().flat_map(|line| wrap(line, width)).collect();
        let hidden = rows.len().saturating_sub(BOX_ROWS);
        let note = (hidden > 0).then(|| format!("... first {hidden} lines hidden (Ctrl+O to show) ..."));
        let inside = note.into_iter().chain(rows.into_iter().skip(hidden)).map(|row| format!("│ {row:<width$} │"));
        let edge = "─".repeat(width + 2);
        std::iter::once(format!("╭{edge}╮")).chain(inside).chain([format!("╰{edge}╯")]).collect()
    }

    pub(super) fn title(&mut self, status: &str) {
        self.working = status.starts_with('✦');
        let title = format!("{status} ({})", self.folder);
        self.write(&format!("\x1b]0;{title:<TITLE$}\x07"));
    }

    pub(super) fn take_pastes(&mut self) {
        self.write("\x1b[?2004h");
    }

    /// Draws all of it, at once.
    pub(super) fn draw(&mut self) {
        let below = if self.dialog.is_empty() { self.bottom() } else { self.framed() };
        let room = self.size.rows.saturating_sub(below.len());
        let from = self.said.len().saturating_sub(room);
        let width = self.size.cols;
        let clip = |row: &String| row.chars().take(width).collect::<String>();
        let rows: Vec<_> = self.said[from..].iter().chain(&below).map(clip).collect();
        let text = rows.join("\r\n");
        self.write(&format!("\x1b[?2026h\x1b[2J\x1b[H{text}\x1b[?2026l"));
    }

    fn bottom(&self) -> Vec<String> {
        let width = self.size.cols;
        let input = if self.input.is_empty() { PLACEHOLDER } else { &self.input };
        let mut rows = vec![
            if self.working { " ⠏ Thinking... (esc to cancel, 0s)".to_owned() } else { String::new() },
            "─".repeat(width),
            " Shift+Tab to accept edits".to_owned(),
            "▄".repeat(width),
        ];
        let marks = [" > "].into_iter().chain(std::iter::repeat("   "));
        rows.extend(input.split('\n').zip(marks).map(|(line, mark)| format!("{mark}{line}")));
        rows.extend(["▀".repeat(width), " workspace (/directory)".to_owned(), format!(" {}", self.folder)]);
        rows
    }

    fn framed(&self) -> Vec<String> {
        let width = self.size.cols.saturating_sub(4);
        let row = |text: &String| format!("│ {text}{} │", " ".repeat(width.saturating_sub(text.width())));
        let edge = "─".repeat(width + 2);
        let rows = self.dialog.iter().map(row);
        std::iter::once(format!("╭{edge}╮")).chain(rows).chain([format!("╰{edge}╯")]).collect()
    }

    fn write(&mut self, text: &str) {
        // Without a terminal nobody sees it.
        let _ = self.out.write_all(text.as_bytes());
    }
}
