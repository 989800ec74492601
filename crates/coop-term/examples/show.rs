//! Reads cases as JSON lines, feeds them to a screen and writes what it shows as JSON lines.
//!
//! In:  `{"cols": 80, "rows": 24, "steps": [{"feed": "<base64>"}, {"resize": [100, 30]}]}`
//! Out: `{"rows": [[["x", 1], ["漢", 2], …], …], "cursor": {…}, "modes": {…}, "title": "…", "replies": "<base64>"}`
//!
//! `tests/xterm` compares this with what xterm.js shows for the same bytes.

use std::error::Error;
use std::io::{BufRead, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coop_api::{Line, Size};
use coop_term::{Screen, char_width};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Case {
    cols: u32,
    rows: u32,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    Feed(String),
    Resize(u32, u32),
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let case: Case = serde_json::from_str(&line?)?;
        writeln!(out, "{}", show(case)?)?;
    }
    Ok(())
}

fn show(case: Case) -> Result<Value, Box<dyn Error>> {
    let mut screen = Screen::new(Size::new(case.cols, case.rows)?);
    for step in case.steps {
        match step {
            Step::Feed(bytes) => screen.feed(&STANDARD.decode(bytes)?),
            Step::Resize(cols, rows) => screen.resize(Size::new(cols, rows)?),
        }
    }
    screen.end_frame();
    let replies = STANDARD.encode(screen.take_replies());
    let shown = screen.snapshot();
    Ok(json!({
        "rows": shown.lines.iter().map(|line| cells(line, usize::from(shown.size.cols()))).collect::<Vec<_>>(),
        "wrapped": shown.lines.iter().map(|line| line.wrapped).collect::<Vec<_>>(),
        "cursor": shown.cursor,
        "modes": shown.modes,
        "title": &*shown.title,
        "replies": replies,
    }))
}

/// Returns the row as pairs of character (with its marks) and width, padded with blanks.
fn cells(line: &Line, cols: usize) -> Vec<Value> {
    let mut cells: Vec<(String, usize)> = Vec::new();
    for c in line.text.chars() {
        match (char_width(c).unwrap_or(0), cells.last_mut()) {
            (0, Some((text, _))) => text.push(c),
            (width, _) => cells.push((c.to_string(), width)),
        }
    }
    let used: usize = cells.iter().map(|(_, width)| width).sum();
    cells.extend((used..cols).map(|_| (" ".to_owned(), 1)));
    cells.into_iter().map(|(text, width)| json!([text, width])).collect()
}
