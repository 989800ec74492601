//! A pane that tmux captured, as the bytes that show it on a terminal. Pure.

use super::control::{Line, WindowId};
use super::raw::Size;

/// Modes of a pane: the variable that tells, and what switches the mode on and off.
/// A variable that this tmux does not know is empty; then the mode is left alone.
const MODES: [(&str, &str, &str); 11] = [
    ("wrap_flag", "\x1b[?7h", "\x1b[?7l"),
    ("insert_flag", "\x1b[4h", "\x1b[4l"),
    ("keypad_cursor_flag", "\x1b[?1h", "\x1b[?1l"),
    ("keypad_flag", "\x1b=", "\x1b>"),
    ("mouse_standard_flag", "\x1b[?1000h", "\x1b[?1000l"),
    ("mouse_button_flag", "\x1b[?1002h", "\x1b[?1002l"),
    ("mouse_all_flag", "\x1b[?1003h", "\x1b[?1003l"),
    ("mouse_utf8_flag", "\x1b[?1005h", "\x1b[?1005l"),
    ("mouse_sgr_flag", "\x1b[?1006h", "\x1b[?1006l"),
    ("bracket_paste_flag", "\x1b[?2004h", "\x1b[?2004l"),
    ("cursor_flag", "\x1b[?25h", "\x1b[?25l"),
];

/// The variables before the modes, in the order of [`PaneState::parse`]. The title comes last: it may hold blanks.
const FIELDS: [&str; 11] = [
    "window_id",
    "pane_width",
    "pane_height",
    "cursor_x",
    "cursor_y",
    "scroll_region_upper",
    "scroll_region_lower",
    "origin_flag",
    "alternate_on",
    "alternate_saved_x",
    "alternate_saved_y",
];

/// A known start: no style, line drawing in G1 (captures use it), no margins, no origin mode, no insertion, no wrap.
const PREPARE: &str = "\x1b[0m\x1b(B\x1b)0\x0f\x1b[r\x1b[?6l\x1b[4l\x1b[?7l";
const FINISH: &str = "\x1b[0m\x0f\x1b)B";

/// Clears a line in no colour, but keeps the style: in a capture it carries over from row to row.
const CLEAR_LINE: &str = "\x1b7\x1b[0m\x1b[2K\x1b8";

/// What tmux knows of a pane apart from its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PaneState {
    pub(super) window: WindowId,
    pub(super) size: Size,
    cursor: Position,
    /// First and last row that scroll.
    region: (u16, u16),
    origin: bool,
    /// Where the cursor will be when the program leaves the alternate screen, if it is on it.
    alternate: Option<Position>,
    modes: [Option<bool>; MODES.len()],
    title: Line,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    x: u16,
    y: u16,
}

/// A pane at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Capture {
    pub(super) state: PaneState,
    /// The rows that show.
    pub(super) rows: Vec<Line>,
    /// The rows of the main screen while the program is on the alternate one.
    pub(super) covered: Vec<Line>,
    /// The start of an escape sequence whose end the program has yet to write.
    pub(super) pending: Vec<u8>,
}

impl PaneState {
    /// Returns the format that makes tmux print what [`PaneState::parse`] reads.
    pub(super) fn format() -> String {
        let names = FIELDS.into_iter().chain(MODES.map(|(name, ..)| name)).chain(["pane_title"]);
        names.map(|name| format!("#{{{name}}}")).collect::<Vec<_>>().join(" ")
    }

    /// Reads what tmux printed.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.splitn(FIELDS.len() + MODES.len() + 1, |&byte| byte == b' ');
        let window = WindowId::parse(words.next()?)?;
        let mut number = || Some(std::str::from_utf8(words.next()?).ok()?.parse().unwrap_or(u16::MAX));
        let size = Size { cols: number()?, rows: number()? };
        let cursor = Position { x: number()?, y: number()? };
        let region = (number()?, number()?);
        let origin = number()? == 1;
        let on_alternate = number()? == 1;
        let saved = Position { x: number()?, y: number()? };
        let mut modes = [None; MODES.len()];
        for mode in &mut modes {
            *mode = match words.next()? {
                b"" => None,
                flag => Some(flag != b"0"),
            };
        }
        let alternate = on_alternate.then_some(saved);
        Some(Self { window, size, cursor, region, origin, alternate, modes, title: words.next()?.to_vec() })
    }
}

impl Capture {
    /// Shows the pane on a terminal of the same size, so that the pane's further output continues it.
    pub(super) fn replace_all(&self) -> Vec<u8> {
        let state = &self.state;
        let mut paint = format!("\x1b[?1049l{PREPARE}").into_bytes();
        if let Some(saved) = state.alternate {
            // It has the size from when it was covered. tmux will shrink it like this: first from below the cursor.
            let hidden = saved.y.saturating_add(1).saturating_sub(state.size.rows);
            put_rows(&mut paint, &self.covered, hidden, state.size);
            let saved = Position { y: saved.y - hidden, ..saved };
            put(&mut paint, &format!("{FINISH}{}\x1b[?1049h{PREPARE}", saved.go()));
        }
        put_rows(&mut paint, &self.rows, 0, state.size);
        put(&mut paint, FINISH);
        let (upper, lower) = state.region;
        if (upper, lower) != (0, state.size.rows.saturating_sub(1)) {
            put(&mut paint, &format!("\x1b[{};{}r", upper + 1, lower.saturating_add(1)));
        }
        state.put_modes(&mut paint);
        if state.origin {
            let y = state.cursor.y.saturating_sub(upper);
            put(&mut paint, &format!("\x1b[?6h{}", Position { y, ..state.cursor }.go()));
        } else {
            put(&mut paint, &state.cursor.go());
        }
        state.put_title(&mut paint);
        paint.extend_from_slice(&self.pending);
        paint
    }

    /// Shows as much of the pane as fits a terminal of another size. A pane that is too high shows the cursor's part.
    pub(super) fn fit(&self, terminal: Size) -> Vec<u8> {
        let state = &self.state;
        let screen = if state.alternate.is_some() { "\x1b[?1049h" } else { "\x1b[?1049l" };
        let mut paint = format!("{screen}{PREPARE}").into_bytes();
        let hidden = state.size.rows.saturating_sub(terminal.rows).min(state.cursor.y);
        put_rows(&mut paint, &self.rows, hidden, terminal);
        put(&mut paint, FINISH);
        state.put_modes(&mut paint);
        put(&mut paint, &Position { y: state.cursor.y - hidden, ..state.cursor }.go());
        state.put_title(&mut paint);
        paint
    }
}

/// Paints rows from the top and clears the lines below. The first `hidden` ones are painted over by those that follow,
/// because only the style they leave behind matters.
fn put_rows(paint: &mut Vec<u8>, rows: &[Line], hidden: u16, terminal: Size) {
    let below = rows.len() + usize::from(terminal.rows);
    let rows = rows.iter().map(Vec::as_slice).chain(std::iter::repeat(&b""[..]));
    for (index, row) in rows.take(below).enumerate() {
        let line = index.saturating_sub(hidden.into());
        if line >= usize::from(terminal.rows) {
            break;
        }
        put(paint, &format!("\x1b[{};1H{CLEAR_LINE}", line + 1));
        paint.extend_from_slice(row);
    }
}

fn put(paint: &mut Vec<u8>, text: &str) {
    paint.extend_from_slice(text.as_bytes());
}

impl PaneState {
    fn put_modes(&self, paint: &mut Vec<u8>) {
        // Off comes first: to a terminal the kinds of mouse reports are one setting.
        for wanted in [false, true] {
            for ((_, on, off), mode) in MODES.into_iter().zip(self.modes) {
                if mode == Some(wanted) {
                    put(paint, if wanted { on } else { off });
                }
            }
        }
    }

    fn put_title(&self, paint: &mut Vec<u8>) {
        put(paint, "\x1b]2;");
        paint.extend(self.title.iter().filter(|byte| !byte.is_ascii_control()));
        put(paint, "\x1b\\");
    }
}

impl Position {
    fn go(self) -> String {
        format!("\x1b[{};{}H", self.y.saturating_add(1), self.x.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "@1 10 3 4 1 0 2 0 0 4294967295 4294967295 1 0 0 0 0 0 0 0 0  1 a title";

    fn state(line: &str) -> PaneState {
        PaneState::parse(line.as_bytes()).unwrap()
    }

    /// A state that says nothing of modes.
    fn modeless(fields: &str) -> PaneState {
        state(&format!("{fields}{}t", " ".repeat(MODES.len() + 1)))
    }

    fn capture(state: PaneState, rows: &[&str]) -> Capture {
        let rows = rows.iter().map(|row| row.as_bytes().to_vec()).collect();
        Capture { state, rows, covered: vec![b"shell".to_vec()], pending: b"\x1b[3".to_vec() }
    }

    fn text(paint: Vec<u8>) -> String {
        let text = String::from_utf8(paint).unwrap();
        text.replace(PREPARE, "<prepare>")
            .replace(FINISH, "<finish>")
            .replace(CLEAR_LINE, "<clear>")
            .replace('\x1b', "^")
    }

    #[test]
    fn the_format_and_the_parser_agree() {
        let format = PaneState::format();
        assert!(format.starts_with("#{window_id} #{pane_width} #{pane_height} #{cursor_x} #{cursor_y} "));
        assert!(format.ends_with(" #{bracket_paste_flag} #{cursor_flag} #{pane_title}"));
        assert_eq!(format.split(' ').count(), FIELDS.len() + MODES.len() + 1);

        let state = state(PLAIN);
        assert_eq!(state.size, Size { cols: 10, rows: 3 });
        assert_eq!(state.alternate, None);
        assert_eq!(state.modes[0], Some(true));
        assert_eq!(state.modes[9], None, "what tmux does not know is left alone");
        assert_eq!(state.title, b"a title");
        assert_eq!(PaneState::parse(b"@1 10 3"), None);
    }

    #[test]
    fn a_pane_of_our_size_is_replaced_with_its_modes_and_what_is_pending() {
        assert_eq!(
            text(capture(state(PLAIN), &["one", "two "]).replace_all()),
            "^[?1049l<prepare>^[1;1H<clear>one^[2;1H<clear>two ^[3;1H<clear><finish>\
             ^[4l^[?1l^>^[?1000l^[?1002l^[?1003l^[?1005l^[?1006l^[?7h^[?25h^[2;5H^]2;a title^\\^[3"
        );
    }

    #[test]
    fn the_main_screen_waits_below_the_alternate_one() {
        let alternate = state("@1 10 2 0 1 0 1 0 1 3 0 1 0 1 0 0 0 1 0 1 1 0 t");
        assert_eq!(
            text(capture(alternate, &["vi"]).replace_all()),
            "^[?1049l<prepare>^[1;1H<clear>shell^[2;1H<clear><finish>^[1;4H^[?1049h<prepare>\
             ^[1;1H<clear>vi^[2;1H<clear><finish>\
             ^[4l^>^[?1000l^[?1002l^[?1005l^[?25l^[?7h^[?1h^[?1003h^[?1006h^[?2004h^[2;1H^]2;t^\\^[3"
        );
    }

    #[test]
    fn a_main_screen_that_was_covered_when_larger_keeps_its_cursor() {
        let rows = |rows: &[&str]| rows.iter().map(|row| row.as_bytes().to_vec()).collect();
        let mut shrunk = capture(modeless("@1 10 2 0 0 0 1 0 1 3 2"), &[]);
        shrunk.covered = rows(&["one", "two", "$ vi"]);
        let paint = text(shrunk.replace_all());
        assert!(
            paint.starts_with("^[?1049l<prepare>^[1;1H<clear>one^[1;1H<clear>two^[2;1H<clear>$ vi<finish>^[2;4H"),
            "{paint}"
        );
    }

    #[test]
    fn margins_and_origin_mode_are_kept() {
        let margins = modeless("@1 10 5 2 3 1 3 1 0 0 0");
        let paint = text(capture(margins, &[]).replace_all());
        assert!(paint.ends_with("<finish>^[2;4r^[?6h^[3;3H^]2;t^\\^[3"), "{paint}");
    }

    #[test]
    fn a_smaller_terminal_shows_the_part_with_the_cursor() {
        let terminal = Size { cols: 5, rows: 2 };
        let rows = ["a", "b", "c"];
        let at_the_end = text(capture(modeless("@1 10 3 1 2 0 2 0 0 0 0"), &rows).fit(terminal));
        assert_eq!(at_the_end, "^[?1049l<prepare>^[1;1H<clear>a^[1;1H<clear>b^[2;1H<clear>c<finish>^[2;2H^]2;t^\\");
        let at_the_start = text(capture(modeless("@1 10 3 1 0 0 2 0 0 0 0"), &rows).fit(terminal));
        assert_eq!(at_the_start, "^[?1049l<prepare>^[1;1H<clear>a^[2;1H<clear>b<finish>^[1;2H^]2;t^\\");
    }

    #[test]
    fn a_larger_terminal_is_cleared_around_the_pane() {
        let paint = text(capture(modeless("@1 2 1 0 0 0 0 0 0 0 0"), &["a"]).fit(Size { cols: 5, rows: 3 }));
        assert_eq!(paint, "^[?1049l<prepare>^[1;1H<clear>a^[2;1H<clear>^[3;1H<clear><finish>^[1;1H^]2;t^\\");
    }
}
