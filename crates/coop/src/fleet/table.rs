//! Lists for people.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use coop_api::visible_line;
use serde_json::Value;

/// The longest that a column gets on a terminal, unless it is the last.
const WIDEST: usize = 48;
/// Below this a column says nothing.
const NARROWEST: usize = 8;

/// Where a list is written: with colours and cut to the width of a terminal, or plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paper {
    /// Anything but a terminal.
    Plain,
    /// A terminal that is so wide.
    Terminal { columns: usize, colours: bool },
}

impl Paper {
    /// Returns what standard output is.
    pub(super) fn of_stdout() -> Self {
        Self::of(&io::stdout())
    }

    /// Returns what a stream is.
    pub(super) fn of<S: IsTerminal + AsFd>(stream: &S) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if !stream.is_terminal() {
            return Self::Plain;
        }
        let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self::Terminal { columns: if columns == 0 { 80 } else { columns }, colours: !set("NO_COLOR") && !is_dumb }
    }

    fn painted(self, text: &str, colour: &str) -> String {
        match self {
            Self::Terminal { colours: true, .. } => format!("\x1b[{colour}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// Returns rows under a head, in columns that are as wide as they need to be. The last takes what is left of the width.
pub(super) fn layout(head: &[&str], rows: &[Vec<String>], paper: Paper) -> String {
    // Whoever reads it elsewhere gets all of it: a program would take a part for the whole.
    let widest = match paper {
        Paper::Plain => usize::MAX,
        Paper::Terminal { .. } => WIDEST,
    };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| visible_line(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0).min(widest)
    };
    let mut widths: Vec<usize> = (0..head.len()).map(width).collect();
    if let (Paper::Terminal { columns, .. }, Some((last, others))) = (paper, widths.split_last_mut()) {
        let before: usize = others.iter().map(|width| width + 2).sum();
        *last = (*last).min(columns.saturating_sub(before).max(NARROWEST));
    }
    let mut text = String::new();
    let heading: Vec<String> = head.iter().map(|&word| word.to_owned()).collect();
    for (number, row) in std::iter::once(&heading).chain(&rows).enumerate() {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = cut(cell, *width);
            let blanks = " ".repeat(width - cell.chars().count());
            let colour = if number == 0 { Some("2") } else { colour(head[column], &cell) };
            let shown = colour.map_or_else(|| cell.clone(), |colour| paper.painted(&cell, colour));
            line += &format!("{}{shown}{blanks}", if column == 0 { "" } else { "  " });
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Writes such a list to standard output.
pub(super) fn write(head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    io::stdout().lock().write_all(layout(head, rows, Paper::of_stdout()).as_bytes())
}

/// What catches the eye is what waits for somebody.
fn colour(column: &str, cell: &str) -> Option<&'static str> {
    match (column, cell) {
        (_, "") => None,
        ("AGENT", _) => Some("1"),
        ("NEEDS", _) => Some("33"),
        ("STATE", "asking" | "blocked") => Some("1;33"),
        ("STATE", "working" | "done") => Some("32"),
        ("STATE", "failed" | "dead") => Some("31"),
        ("STATE", "starting" | "dismissed") => Some("2"),
        _ => None,
    }
}

/// Keeps a cell short. A cut one ends with how many characters it leaves out.
fn cut(cell: &str, most: usize) -> String {
    let length = cell.chars().count();
    if length <= most {
        return cell.to_owned();
    }
    // As much is left out as it takes to say so.
    let mark = |kept: usize| format!("… (+{})", length - kept);
    let kept = (0..most).rev().find(|kept| kept + mark(*kept).chars().count() <= most).unwrap_or(0);
    cell.chars().take(kept).chain(mark(kept).chars()).collect()
}

/// Returns a value's text, or nothing.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let long = "I have looked at all of it and \u{1b}[31mfound nothing";
        vec![
            vec!["fixer".to_owned(), "asking".to_owned(), long.to_owned()],
            vec!["b".to_owned(), "idle".to_owned(), String::new()],
        ]
    }

    #[test]
    fn a_list_is_plain_where_nobody_looks() {
        insta::assert_snapshot!(layout(&["AGENT", "STATE", "SAYS"], &rows(), Paper::Plain), @r"
        AGENT  STATE   SAYS
        fixer  asking  I have looked at all of it and <U+001B>[31mfound nothing
        b      idle
        ");
    }

    #[test]
    fn a_terminal_has_colours_and_an_edge() {
        let paper = Paper::Terminal { columns: 30, colours: true };
        let shown = layout(&["AGENT", "STATE", "SAYS"], &rows(), paper).replace('\x1b', "^");
        insta::assert_snapshot!(shown, @r"
        ^[2mAGENT^[0m  ^[2mSTATE^[0m   ^[2mSAYS^[0m
        ^[1mfixer^[0m  ^[1;33masking^[0m  I have l… (+48)
        ^[1mb^[0m      idle
        ");
        let paper = Paper::Terminal { columns: 30, colours: false };
        assert!(!layout(&["AGENT", "STATE", "SAYS"], &rows(), paper).contains('\x1b'));
    }
}
