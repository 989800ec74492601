//! How many cells a character takes.

use unicode_width::UnicodeWidthChar;

/// Returns how many cells a character takes; nothing for controls.
///
/// The tables are those of `unicode-width`, but for vowel signs of Indic scripts and the Hangul fillers: these extend
/// a grapheme and still take room of their own, in every C library and so in what programs expect.
pub fn char_width(c: char) -> Option<usize> {
    match c {
        '\u{3164}' => Some(2),
        '\u{ffa0}' => Some(1),
        '\u{09be}' | '\u{09d7}' | '\u{0b3e}' | '\u{0b57}' | '\u{0bbe}' | '\u{0bd7}' => Some(1),
        '\u{0cc0}' | '\u{0cc2}' | '\u{0cc7}' | '\u{0cc8}' | '\u{0cca}' | '\u{0ccb}' | '\u{0cd5}' | '\u{0cd6}' => {
            Some(1)
        }
        '\u{0d3e}' | '\u{0d57}' | '\u{0dcf}' | '\u{0ddf}' => Some(1),
        '\u{1b35}' | '\u{1b3b}' | '\u{1b3d}' | '\u{1b43}' => Some(1),
        _ => c.width(),
    }
}
