//! Turning a screen into what the person's terminal has to be sent, and no more than has changed.

use std::fmt::Write;

use coop_api::{Cursor, CursorShape, Line, Modes, Mouse, Size};
use coop_term::{Screen, char_width};

pub(super) struct Painter {
    name: String,
    hint: String,
    status: String,
    /// What each row of the person's terminal shows.
    rows: Vec<Option<String>>,
    modes: Option<Modes>,
    look: Option<(CursorShape, bool)>,
}

impl Painter {
    pub(super) fn new(name: String, detach_key: &str, read_only: bool) -> Self {
        let hint = format!("{}{detach_key} detaches", if read_only { "read-only · " } else { "" });
        Self { name, hint, status: String::new(), rows: Vec::new(), modes: None, look: None }
    }

    /// Sets what the status line says beside the agent's name; nothing gives the hint back.
    pub(super) fn status(&mut self, text: String) {
        self.status = text;
    }

    /// Forgets what the terminal shows, so that everything is painted.
    pub(super) fn forget(&mut self) {
        self.rows.clear();
    }

    pub(super) fn paint(&mut self, screen: Option<&mut Screen>, local: Size) -> String {
        let mut out = String::from("\x1b[?2026h\x1b[?25l");
        if self.rows.len() != usize::from(local.rows()) {
            self.rows = vec![None; usize::from(local.rows())];
            out.push_str("\x1b[0m\x1b[2J");
        }
        let height = usize::from(local.rows()).saturating_sub(1).max(1);
        let mut cursor = None;
        let mut title = String::new();
        if let Some(screen) = screen {
            let shown = screen.snapshot();
            let (top, left) = origin(&shown.cursor, shown.size, local.cols(), height);
            for row in 0..height {
                let line = shown
                    .lines
                    .get(top + row)
                    .map_or_else(String::new, |line| crop(line, left, usize::from(local.cols())));
                self.put(row, line, &mut out);
            }
            self.follow_modes(&shown.modes, (shown.cursor.shape, shown.cursor.blinking), &mut out);
            title = shown.title.to_string();
            if shown.cursor.visible {
                cursor = Some((usize::from(shown.cursor.row) - top + 1, usize::from(shown.cursor.col) - left + 1));
            }
        }
        if local.rows() > 1 {
            let line = self.status_line(&title, local.cols());
            self.put(usize::from(local.rows()) - 1, line, &mut out);
        }
        if let Some((row, col)) = cursor {
            let _ = write!(out, "\x1b[{row};{col}H\x1b[?25h");
        }
        out.push_str("\x1b[?2026l");
        out
    }

    fn put(&mut self, row: usize, line: String, out: &mut String) {
        let Some(known) = self.rows.get_mut(row) else { return };
        if known.as_deref() != Some(&line) {
            let _ = write!(out, "\x1b[{};1H\x1b[0m{line}\x1b[0m\x1b[K", row + 1);
            *known = Some(line);
        }
    }

    fn status_line(&self, title: &str, cols: u16) -> String {
        let said = if self.status.is_empty() { &self.hint } else { &self.status };
        let left = if title.is_empty() { format!(" {} ", self.name) } else { format!(" {} · {title} ", self.name) };
        let right = format!(" {said} ");
        let cols = usize::from(cols);
        let right = cut(&right, cols);
        let left = cut(&left, cols - width(&right));
        let gap = cols - width(&right) - width(&left);
        format!("\x1b[7m{left}{}{right}", " ".repeat(gap))
    }

    /// Has the person's terminal send what the agent asked its own for.
    fn follow_modes(&mut self, modes: &Modes, look: (CursorShape, bool), out: &mut String) {
        let before = self.modes.unwrap_or_default();
        let mut switch = |was: bool, is: bool, on: &str, off: &str| {
            if was != is {
                out.push_str(if is { on } else { off });
            }
        };
        switch(before.app_cursor, modes.app_cursor, "\x1b[?1h", "\x1b[?1l");
        switch(before.app_keypad, modes.app_keypad, "\x1b=", "\x1b>");
        switch(before.bracketed_paste, modes.bracketed_paste, "\x1b[?2004h", "\x1b[?2004l");
        switch(before.focus, modes.focus, "\x1b[?1004h", "\x1b[?1004l");
        switch(before.sgr_mouse, modes.sgr_mouse, "\x1b[?1006h", "\x1b[?1006l");
        if before.mouse != modes.mouse {
            out.push_str("\x1b[?1000l\x1b[?1002l\x1b[?1003l");
            out.push_str(match modes.mouse {
                Mouse::Off => "",
                Mouse::Click => "\x1b[?1000h",
                Mouse::Drag => "\x1b[?1002h",
                Mouse::Motion => "\x1b[?1003h",
            });
        }
        if before.kitty != modes.kitty {
            let _ = write!(out, "\x1b[<9u\x1b[>{}u", modes.kitty);
        }
        if self.look != Some(look) {
            let style = match look.0 {
                CursorShape::Block => 2,
                CursorShape::Underline => 4,
                CursorShape::Bar => 6,
            };
            let _ = write!(out, "\x1b[{} q", style - u8::from(look.1));
            self.look = Some(look);
        }
        self.modes = Some(*modes);
    }
}

/// Returns the agent's row and column that come to the upper left, so that the cursor can be seen.
fn origin(cursor: &Cursor, size: Size, cols: u16, height: usize) -> (usize, usize) {
    let fit = |at: u16, whole: u16, shown: usize| {
        let most = usize::from(whole).saturating_sub(shown);
        (usize::from(at) + 1).saturating_sub(shown).min(most)
    };
    (fit(cursor.row, size.rows(), height), fit(cursor.col, size.cols(), usize::from(cols)))
}

/// Returns the cells `left..left + cols` of a line with their styles.
fn crop(line: &Line, left: usize, cols: usize) -> String {
    if left == 0 && line.cells() <= cols {
        return line.ansi();
    }
    let mut shown = Line { wrapped: false, ..Line::default() };
    let mut rest = line.text.as_str();
    let mut at = 0;
    for run in &line.runs {
        let (part, after) = rest.split_at((run.bytes as usize).min(rest.len()));
        rest = after;
        let (mut bytes, mut cells) = (0_u32, 0_u16);
        for c in part.chars() {
            let width = char_width(c).unwrap_or(0);
            if at >= left && at + width <= left + cols {
                shown.text.push(c);
                bytes += c.len_utf8() as u32;
                cells += width as u16;
            } else if at < left && at + width > left {
                // Half of a wide character.
                shown.text.push(' ');
                bytes += 1;
                cells += 1;
            }
            at += width;
        }
        if bytes > 0 {
            shown.runs.push(coop_api::Run { bytes, cells, style: run.style.clone() });
        }
    }
    shown.ansi()
}

fn width(text: &str) -> usize {
    text.chars().filter_map(char_width).sum()
}

fn cut(text: &str, cols: usize) -> String {
    let mut used = 0;
    text.chars()
        .filter(|c| !c.is_control())
        .take_while(|c| {
            used += char_width(*c).unwrap_or(0);
            used <= cols
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(cols: u32, rows: u32) -> Size {
        Size::new(cols, rows).expect("within bounds")
    }

    /// What a terminal shows that was sent these.
    fn on_terminal(sent: &[String], local: Size) -> String {
        let mut terminal = Screen::new(local);
        sent.iter().for_each(|text| terminal.feed(text.as_bytes()));
        let shown = terminal.snapshot();
        shown.lines.iter().map(|line| format!("{}|\n", line.plain())).collect()
    }

    #[test]
    fn the_agents_screen_and_the_status_line_are_painted() {
        let mut agent = Screen::new(size(20, 3));
        agent.feed("\x1b[31mhello\x1b[0m\r\n漢字\x1b]2;title\x07".as_bytes());
        let mut painter = Painter::new("box".into(), "Ctrl-]", false);
        let local = size(40, 4);
        let first = painter.paint(Some(&mut agent), local);
        agent.feed(b"\x1b[3;1Hmore");
        let second = painter.paint(Some(&mut agent), local);
        assert!(!second.contains("hello"), "only what changed is sent");
        insta::assert_snapshot!(on_terminal(&[first, second], local), @r"
        hello|
        漢字|
        more|
         box · title            Ctrl-] detaches|
        ");
    }

    #[test]
    fn a_smaller_terminal_shows_the_part_with_the_cursor() {
        let mut agent = Screen::new(size(10, 5));
        agent.feed("one\r\ntwo\r\n012345漢9\r\nfour\r\nfive\x1b[3;10H".as_bytes());
        let mut painter = Painter::new("b".into(), "C-]", true);
        let local = size(5, 3);
        let painted = painter.paint(Some(&mut agent), local);
        insta::assert_snapshot!(on_terminal(&[painted], local), @r"
        |
        5漢9|
         read|
        ");
    }
}
