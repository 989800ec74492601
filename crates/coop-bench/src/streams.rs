//! What programs write to terminals, made up: the same bytes in every run.

use std::io::Write;

use clap::ValueEnum;

/// A kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Lines of ASCII.
    Plain,
    /// Lines with colours, as compilers and `ls` write them.
    Coloured,
    /// A full-screen program: cursor moves, erased lines, redrawn blocks, some of them in synchronized frames.
    Tui,
    /// Lines in many scripts, with wide characters, emoji and combining marks.
    Unicode,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Plain, Self::Coloured, Self::Tui, Self::Unicode];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Coloured => "coloured",
            Self::Tui => "TUI",
            Self::Unicode => "unicode",
        }
    }
}

/// A pattern this long is repeated; it is far longer than a screen and its scrollback.
const BLOCK: usize = 1024 * 1024;

/// Returns about this many bytes. They end with a whole line or frame, so that the parser is at rest.
pub(crate) fn generate(kind: Kind, size: usize) -> Vec<u8> {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut block = Vec::with_capacity(BLOCK + 16 * 1024);
    while block.len() < BLOCK.min(size) {
        match kind {
            Kind::Plain => plain_line(&mut dice, &mut block),
            Kind::Coloured => coloured_line(&mut dice, &mut block),
            Kind::Tui => frame(&mut dice, &mut block),
            Kind::Unicode => unicode_line(&mut dice, &mut block),
        }
    }
    let count = (size / block.len()).max(1);
    block.repeat(count)
}

/// Small, fast and the same everywhere (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        number as usize % limit
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

fn word(dice: &mut Dice, out: &mut Vec<u8>) {
    for _ in 0..2 + dice.below(9) {
        out.push(b"etaoinshrdlucmfwypvbgkjqxz0123456789_-./:()"[dice.below(43)]);
    }
}

fn words(dice: &mut Dice, count: usize, out: &mut Vec<u8>) {
    for _ in 0..count {
        word(dice, out);
        out.push(b' ');
    }
}

fn plain_line(dice: &mut Dice, out: &mut Vec<u8>) {
    let count = 1 + dice.below(20);
    words(dice, count, out);
    out.push(b'\n');
}

/// Writing to a vector cannot fail.
fn put(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(arguments);
}

fn coloured_line(dice: &mut Dice, out: &mut Vec<u8>) {
    for _ in 0..1 + dice.below(12) {
        match dice.below(6) {
            0 => put(out, format_args!("\x1b[1;{}m", 30 + dice.below(8))),
            1 => put(out, format_args!("\x1b[38;5;{}m", dice.below(256))),
            2 => put(out, format_args!("\x1b[38;2;{};{};{}m", dice.below(256), dice.below(256), dice.below(256))),
            3 => put(out, format_args!("\x1b[4m\x1b[{}m", 40 + dice.below(8))),
            _ => {}
        }
        word(dice, out);
        out.extend_from_slice(b"\x1b[0m ");
    }
    out.push(b'\n');
}

fn frame(dice: &mut Dice, out: &mut Vec<u8>) {
    if dice.below(2) == 0 { addressed_frame(dice, out) } else { redrawn_block(dice, out) }
}

/// Cells here and there, as an editor or a monitor updates them.
fn addressed_frame(dice: &mut Dice, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x1b[?25l\x1b[H\x1b[7m");
    words(dice, 6, out);
    out.extend_from_slice(b"\x1b[K\x1b[0m");
    for _ in 0..12 {
        put(out, format_args!("\x1b[{};{}H", 1 + dice.below(50), 1 + dice.below(150)));
        put(out, format_args!("\x1b[{}m\u{2502} ", 31 + dice.below(7)));
        let count = 1 + dice.below(4);
        words(dice, count, out);
        out.extend_from_slice(dice.pick(&[&b"\x1b[K"[..], b"\x1b[0m\x1b[5X", b"\x1b[0m\x1b[2P", b"\x1b[39m"]));
    }
    out.extend_from_slice(b"\x1b[0m\x1b[48;1H\x1b[?25h");
}

/// Some lines erased and written again, as the agents' own screens do it.
fn redrawn_block(dice: &mut Dice, out: &mut Vec<u8>) {
    const LINES: usize = 8;
    out.extend_from_slice(b"\x1b[?2026h");
    out.extend_from_slice(&b"\x1b[2K\x1b[1A".repeat(LINES));
    out.extend_from_slice(b"\x1b[2K\x1b[G");
    for _ in 0..LINES {
        put(out, format_args!("\x1b[38;5;{}m\u{2500}\u{25cf}\x1b[39m ", dice.below(256)));
        let count = 2 + dice.below(8);
        words(dice, count, out);
        out.push(b'\n');
    }
    out.extend_from_slice(b"\x1b[?2026l");
}

fn unicode_line(dice: &mut Dice, out: &mut Vec<u8>) {
    const WORDS: [&str; 14] = [
        "терминал",
        "сообщение",
        "Ελληνικά",
        "日本語",
        "文字列を表示",
        "漢字仮名交じり",
        "한국어",
        "naïve",
        "cafe\u{301}",
        "e\u{301}u\u{308}o\u{302}",
        "🚀✨",
        "👩\u{200d}💻",
        "├──┤",
        "plain",
    ];
    for _ in 0..2 + dice.below(12) {
        out.extend_from_slice(dice.pick(&WORDS).as_bytes());
        out.push(b' ');
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_the_same_every_time_and_about_as_long_as_asked() {
        for kind in Kind::ALL {
            let stream = generate(kind, 3_000_000);
            assert_eq!(stream, generate(kind, 3_000_000));
            assert!((1_800_000..=3_000_000).contains(&stream.len()), "{kind:?}: {}", stream.len());
            assert!(std::str::from_utf8(&stream).is_ok(), "{kind:?}");
        }
    }

    #[test]
    fn streams_leave_the_terminal_at_rest_and_without_questions() {
        for kind in Kind::ALL {
            let mut screen = coop_term::Screen::new(coop_api::Size::DEFAULT);
            screen.feed(&generate(kind, 200_000));
            assert!(screen.take_replies().is_empty(), "{kind:?}");
            assert!(screen.open_frame().is_none(), "{kind:?}");
        }
    }
}
