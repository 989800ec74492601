//! Turns what the byte parser recognises into calls on the terminal.

use alacritty_terminal::vte::ansi::{CharsetIndex, StandardCharset};
use coop_api::CursorShape;
use vte::{Params, Perform};

use super::modes::ModeKind;
use super::terminal::{TAB_WIDTH, Terminal};
use super::{osc, sgr};

/// How many parameters the parser keeps.
const MAX_PARAMS: usize = 32;
/// A device control string longer than this is none we answer.
const MAX_DCS: usize = 256;

/// The terminal with what the parser needs to remember between calls.
pub(super) struct Performer {
    pub(super) term: Terminal,
    /// Set when a control sequence is complete and the parser back at plain text.
    pub(super) at_ground: bool,
    /// Set when a synchronized frame has begun.
    pub(super) frame_began: bool,
    dcs: Option<Dcs>,
    /// Whether the string under way began before the bytes that are being parsed.
    pub(super) string_is_older: bool,
}

struct Dcs {
    intermediates: Vec<u8>,
    action: char,
    data: Vec<u8>,
}

impl Performer {
    pub(super) fn new(term: Terminal) -> Self {
        Self { term, at_ground: true, frame_began: false, dcs: None, string_is_older: false }
    }

    /// Forgets a control string that is under way.
    pub(super) fn cancel(&mut self) {
        self.dcs = None;
    }

    fn done(&mut self) {
        self.at_ground = true;
        self.term.last_printed = None;
    }
}

impl Perform for Performer {
    fn print(&mut self, c: char) {
        self.term.print(c);
    }

    fn execute(&mut self, byte: u8) {
        let term = &mut self.term;
        term.last_printed = None;
        match byte {
            0x08 => term.backspace(),
            0x09 => term.tab(1),
            0x0a..=0x0c => term.line_feed(),
            0x0d => term.carriage_return(),
            0x0e => term.charset = CharsetIndex::G1,
            0x0f => term.charset = CharsetIndex::G0,
            0x84 => term.index(),
            0x85 => {
                term.carriage_return();
                term.index();
            }
            0x88 => set_tab(term),
            0x8d => term.reverse_index(),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        let repeats = self.term.last_printed;
        self.done();
        // Too many intermediates make no sequence; too many parameters are cut off.
        if ignore && params.len() < MAX_PARAMS {
            return;
        }
        let term = &mut self.term;
        let given = |index: usize| params.iter().nth(index).and_then(|param| param.first()).copied().unwrap_or(0);
        let count = usize::from(given(0).max(1));
        match (action, intermediates) {
            ('@', []) => term.insert_blank(count),
            ('A', []) => term.move_up(count),
            ('B', []) => term.move_down(count),
            ('C' | 'a', []) => term.move_right(count),
            ('D', []) => term.move_left(count),
            ('E', []) => {
                term.move_down(count);
                term.carriage_return();
            }
            ('F', []) => {
                term.move_up(count);
                term.carriage_return();
            }
            ('G' | '`', []) => term.set_cursor(term.row(), count - 1),
            ('H' | 'f', []) => term.goto(count - 1, usize::from(given(1).max(1)) - 1),
            ('I', []) => term.tab(count),
            ('J', [] | [b'?']) => match given(0) {
                0 => term.erase_below(),
                1 => term.erase_above(),
                2 => term.erase_rows(0, term.rows()),
                3 => term.grid.clear_history(),
                _ => {}
            },
            ('K', [] | [b'?']) => match given(0) {
                0 => term.erase_right(),
                1 => term.erase_left(),
                2 => term.erase_rows(term.row(), term.row() + 1),
                _ => {}
            },
            ('L', []) => term.insert_lines(count),
            ('M', []) => term.delete_lines(count),
            ('P', []) => term.delete_chars(count),
            ('S', []) => term.scroll_up(count),
            ('T', []) if params.len() <= 1 => term.scroll_down(count),
            ('X', []) => term.erase_chars(count),
            ('Z', []) => term.back_tab(count),
            ('b', []) => {
                term.last_printed = repeats;
                term.repeat(count);
            }
            ('c', _) if given(0) == 0 => term.report_identity(intermediates),
            ('d', []) => term.goto(count - 1, term.col()),
            ('e', []) => term.set_cursor(term.row() + count, term.col()),
            ('g', []) => match given(0) {
                0 => {
                    let col = term.col();
                    term.tabs[col] = false;
                }
                3 => term.tabs.fill(false),
                _ => {}
            },
            ('W', [b'?']) if given(0) == 5 => {
                term.tabs.iter_mut().enumerate().for_each(|(col, stop)| *stop = col % TAB_WIDTH == 0);
            }
            ('h' | 'l', [] | [b'?']) => {
                let kind = if intermediates.is_empty() { ModeKind::Ansi } else { ModeKind::Private };
                for mode in params.iter().filter_map(|param| param.first().copied()) {
                    term.set_mode(kind, mode, action == 'h');
                }
                if term.flags.synchronized {
                    self.frame_began = true;
                }
            }
            ('m', []) => sgr::apply(term, params),
            ('m', [b'>']) if given(0) == 4 => term.keyboard.modify_other_keys = given(1).min(2) as u8,
            ('m', [b'?']) if given(0) == 4 => {
                let value = term.keyboard.modify_other_keys;
                term.reply(format_args!("\x1b[>4;{value}m"));
            }
            ('n', [] | [b'?']) => term.report_status(given(0), !intermediates.is_empty()),
            ('p', [b'!']) => term.soft_reset(),
            ('p', [b'$']) => term.report_mode(ModeKind::Ansi, given(0)),
            ('p', [b'?', b'$']) => term.report_mode(ModeKind::Private, given(0)),
            ('q', [b' ']) => {
                let style = given(0);
                let shape = match style {
                    0..=2 => CursorShape::Block,
                    3 | 4 => CursorShape::Underline,
                    5 | 6 => CursorShape::Bar,
                    _ => return,
                };
                term.cursor_style = (shape, style % 2 == 1);
            }
            ('q', [b'>']) if given(0) == 0 => {
                term.reply(format_args!("\x1bP>|coop({})\x1b\\", env!("CARGO_PKG_VERSION")));
            }
            ('r', []) => term.set_margins(count, usize::from(given(1))),
            ('s', []) => term.save_cursor(),
            ('t', []) => term.report_window(given(0), given(1)),
            ('u', []) => term.restore_cursor(),
            ('u', [b'?']) => {
                let flags = term.keyboard.flags();
                term.reply(format_args!("\x1b[?{flags}u"));
            }
            ('u', [b'=']) => term.keyboard.set(given(0) as u8, given(1).max(1)),
            ('u', [b'>']) => term.keyboard.push(given(0) as u8),
            ('u', [b'<']) => term.keyboard.pop(given(0).max(1)),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, byte: u8) {
        self.done();
        if ignore {
            return;
        }
        let term = &mut self.term;
        match (byte, intermediates) {
            (b'7', []) => term.save_cursor(),
            (b'8', []) => term.restore_cursor(),
            (b'=', []) => term.flags.app_keypad = true,
            (b'>', []) => term.flags.app_keypad = false,
            (b'D', []) => term.index(),
            (b'E', []) => {
                term.carriage_return();
                term.index();
            }
            (b'H', []) => set_tab(term),
            (b'M', []) => term.reverse_index(),
            (b'Z', []) => term.report_identity(&[]),
            (b'c', []) => term.reset(),
            (b'n', []) => term.charset = CharsetIndex::G2,
            (b'o', []) => term.charset = CharsetIndex::G3,
            (b'8', [b'#']) => term.align(),
            (set, [slot @ (b'(' | b')' | b'*' | b'+')]) => {
                let slot = match slot {
                    b'(' => CharsetIndex::G0,
                    b')' => CharsetIndex::G1,
                    b'*' => CharsetIndex::G2,
                    _ => CharsetIndex::G3,
                };
                term.grid.cursor.charsets[slot] = match set {
                    b'0' => StandardCharset::SpecialCharacterAndLineDrawing,
                    _ => StandardCharset::Ascii,
                };
            }
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], bell_terminated: bool) {
        // ESC \ ends the string too, and then its backslash is still to come.
        self.at_ground = bell_terminated;
        osc::dispatch(&mut self.term, params, bell_terminated);
    }

    fn hook(&mut self, _params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        self.string_is_older = false;
        self.dcs = (!ignore).then(|| Dcs { intermediates: intermediates.to_vec(), action, data: Vec::new() });
    }

    fn put(&mut self, byte: u8) {
        if let Some(dcs) = &mut self.dcs {
            dcs.data.push(byte);
            if dcs.data.len() > MAX_DCS {
                self.dcs = None;
            }
        }
    }

    fn unhook(&mut self) {
        // Ended by the eight-bit ST. The ESC of the other one comes as the first byte of what is parsed.
        self.at_ground = !self.string_is_older;
        if let Some(dcs) = self.dcs.take() {
            match (dcs.action, dcs.intermediates.as_slice()) {
                ('q', [b'$']) => self.term.report_setting(&dcs.data),
                ('q', [b'+']) => self.term.report_capability(&dcs.data),
                _ => {}
            }
        }
    }

    fn terminated(&self) -> bool {
        self.at_ground
    }
}

fn set_tab(term: &mut Terminal) {
    let col = term.col();
    term.tabs[col] = true;
}

/// Returns the row the cursor is in, for reports that count from the scroll region.
pub(super) fn reported_row(term: &Terminal) -> usize {
    if term.flags.origin { term.row().saturating_sub(term.top) + 1 } else { term.row() + 1 }
}
