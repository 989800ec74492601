//! Select Graphic Rendition: how the next characters look.

use alacritty_terminal::term::cell::Flags;
use vte::Params;

use super::cell::{ExtraId, Ink, UnderlineInk};
use super::terminal::Terminal;

pub(super) fn apply(term: &mut Terminal, params: &Params) {
    let mut codes = params.iter();
    let mut any = false;
    while let Some(code) = codes.next() {
        any = true;
        let cell = &mut term.grid.cursor.template;
        let flags = &mut cell.flags;
        match *code {
            [] | [0] => reset(term),
            [1] => flags.insert(Flags::BOLD),
            [2] => flags.insert(Flags::DIM),
            [3] => flags.insert(Flags::ITALIC),
            [4] => underline(flags, Flags::UNDERLINE),
            [4, kind] => match kind {
                0 => flags.remove(Flags::ALL_UNDERLINES),
                1 => underline(flags, Flags::UNDERLINE),
                2 => underline(flags, Flags::DOUBLE_UNDERLINE),
                3 => underline(flags, Flags::UNDERCURL),
                4 => underline(flags, Flags::DOTTED_UNDERLINE),
                5 => underline(flags, Flags::DASHED_UNDERLINE),
                _ => {}
            },
            [7] => flags.insert(Flags::INVERSE),
            [8] => flags.insert(Flags::HIDDEN),
            [9] => flags.insert(Flags::STRIKEOUT),
            [21] => underline(flags, Flags::DOUBLE_UNDERLINE),
            [22] => flags.remove(Flags::BOLD | Flags::DIM),
            [23] => flags.remove(Flags::ITALIC),
            [24] => flags.remove(Flags::ALL_UNDERLINES),
            [27] => flags.remove(Flags::INVERSE),
            [28] => flags.remove(Flags::HIDDEN),
            [29] => flags.remove(Flags::STRIKEOUT),
            [n @ 30..=37] => cell.fg = Ink::indexed((n - 30) as u8),
            [n @ 40..=47] => cell.bg = Ink::indexed((n - 40) as u8),
            [n @ 90..=97] => cell.fg = Ink::indexed((n - 90 + 8) as u8),
            [n @ 100..=107] => cell.bg = Ink::indexed((n - 100 + 8) as u8),
            [39] => cell.fg = Ink::DEFAULT,
            [49] => cell.bg = Ink::DEFAULT,
            [59] => term.change_extra(|extra| extra.underline = None),
            [which @ (38 | 48 | 58), ref sub @ ..] => {
                let color = if sub.is_empty() { semicolon_color(&mut codes) } else { colon_color(sub) };
                let Some(color) = color else { continue };
                match which {
                    38 => cell.fg = color,
                    48 => cell.bg = color,
                    _ => term.change_extra(|extra| extra.underline = Some(UnderlineInk(color))),
                }
            }
            _ => {}
        }
    }
    if !any {
        reset(term);
    }
}

fn reset(term: &mut Terminal) {
    let cell = &mut term.grid.cursor.template;
    cell.flags = Flags::empty();
    cell.fg = Ink::DEFAULT;
    cell.bg = Ink::DEFAULT;
    if cell.extra != ExtraId::NONE {
        term.change_extra(|extra| extra.underline = None);
    }
}

fn underline(flags: &mut Flags, kind: Flags) {
    flags.remove(Flags::ALL_UNDERLINES);
    flags.insert(kind);
}

/// `38:5:n`, `38:2:r:g:b` and, with a colour space that nobody uses, `38:2:space:r:g:b`.
fn colon_color(sub: &[u16]) -> Option<Ink> {
    match *sub {
        [5, n, ..] => indexed(n),
        [2, r, g, b] | [2, _, r, g, b, ..] => rgb(r, g, b),
        _ => None,
    }
}

/// `38;5;n` and `38;2;r;g;b`; a part left out counts as zero.
fn semicolon_color<'a>(codes: &mut impl Iterator<Item = &'a [u16]>) -> Option<Ink> {
    let mut next = || codes.next().and_then(|code| code.first()).copied();
    match next()? {
        5 => indexed(next().unwrap_or(0)),
        2 => rgb(next().unwrap_or(0), next().unwrap_or(0), next().unwrap_or(0)),
        _ => None,
    }
}

fn indexed(n: u16) -> Option<Ink> {
    u8::try_from(n).ok().map(Ink::indexed)
}

fn rgb(r: u16, g: u16, b: u16) -> Option<Ink> {
    Some(Ink::rgb(u8::try_from(r).ok()?, u8::try_from(g).ok()?, u8::try_from(b).ok()?))
}
