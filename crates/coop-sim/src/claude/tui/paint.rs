//! Lines become bytes. What is over goes into the scrollback; what is not is drawn below it, again and again.
//!
//! Not the alternate screen: the live part is erased from its first row and drawn anew, as the real one does.

use unicode_width::UnicodeWidthChar;

use crate::claude::face::Size;

/// The part of the screen that still changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Live {
    pub(crate) lines: Vec<String>,
    /// The line behind whose end the cursor stands; none: behind the last.
    pub(crate) cursor: Option<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct Painter {
    size: Size,
    drawn: Option<Live>,
    /// How many rows the cursor is below the first live row.
    cursor_row: usize,
}

impl Painter {
    pub(crate) fn width(&self) -> usize {
        self.size.cols
    }

    pub(crate) fn resize(&mut self, size: Size) {
        self.size = size;
        self.drawn = None;
    }

    pub(crate) fn paint(&mut self, over: &[String], live: Live) -> Vec<u8> {
        if over.is_empty() && self.drawn.as_ref() == Some(&live) {
            return Vec::new();
        }
        let mut out = String::from("\r");
        if self.cursor_row > 0 {
            out.push_str(&format!("\x1b[{}A", self.cursor_row));
        }
        out.push_str("\x1b[J");
        for line in over {
            out.push_str(&coloured(line));
            out.push_str("\r\n");
        }
        self.draw_live(&mut out, &live);
        self.drawn = Some(live);
        out.into_bytes()
    }

    fn draw_live(&mut self, out: &mut String, live: &Live) {
        let mut rows: Vec<String> = Vec::new();
        let mut cursor = None;
        for (index, line) in live.lines.iter().enumerate() {
            rows.extend(wrap(line, self.size.cols));
            if live.cursor == Some(index) {
                cursor = Some(rows.len() - 1);
            }
        }
        // A region taller than the screen could not be erased again: its head is left out.
        let hidden = rows.len().saturating_sub(self.size.rows.max(2) - 1);
        let rows = &rows[hidden..];
        let last = rows.len().saturating_sub(1);
        let at = cursor.map_or(last, |row| row.saturating_sub(hidden));
        for (index, row) in rows.iter().enumerate() {
            out.push_str(&coloured(row));
            if index < last {
                out.push_str("\r\n");
            }
        }
        if at < last {
            out.push_str(&format!("\x1b[{}A", last - at));
        }
        out.push('\r');
        let column = rows.get(at).map_or(0, |row| width(row));
        if column > 0 {
            out.push_str(&format!("\x1b[{column}C"));
        }
        self.cursor_row = at;
    }
}

/// Cuts a line into rows that fit; there is always at least one.
pub(crate) fn wrap(line: &str, cols: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for c in line.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide > cols.max(2) {
            rows.push(String::new());
            used = 0;
        }
        used += wide;
        if let Some(row) = rows.last_mut() {
            row.push(c);
        }
    }
    rows
}

fn width(row: &str) -> usize {
    row.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// A little colour at the head of a line, where the real one has it too.
fn coloured(row: &str) -> String {
    let colour = match row.trim_start().chars().next() {
        Some('●') => "32",
        Some('✽' | '✻') => "35",
        Some('─' | '╌') => return format!("\x1b[2m{row}\x1b[0m"),
        Some('❯') => "36",
        _ => return row.to_owned(),
    };
    let at = row.len() - row.trim_start().len();
    let end = at + row[at..].chars().next().map_or(0, char::len_utf8);
    format!("{}\x1b[{colour}m{}\x1b[0m{}", &row[..at], &row[at..end], &row[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(lines: &[&str], cursor: Option<usize>) -> Live {
        Live { lines: lines.iter().map(|line| (*line).to_owned()).collect(), cursor }
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(wrap("ab漢字c", 4), ["ab漢", "字c"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn the_live_part_is_erased_from_its_first_row() {
        let mut painter = Painter::default();
        let first = painter.paint(&[], live(&["a", "box", "foot"], Some(1)));
        assert_eq!(String::from_utf8(first).unwrap(), "\r\x1b[Ja\r\nbox\r\nfoot\x1b[1A\r\x1b[3C");
        let second = painter.paint(&["over".into()], live(&["b"], None));
        assert_eq!(String::from_utf8(second).unwrap(), "\r\x1b[1A\x1b[Jover\r\nb\r\x1b[1C");
    }

    #[test]
    fn nothing_new_draws_nothing() {
        let mut painter = Painter::default();
        painter.paint(&[], live(&["a"], None));
        assert_eq!(painter.paint(&[], live(&["a"], None)), b"");
    }
}
