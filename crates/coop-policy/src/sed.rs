//! What sed does with its scripts: GNU's runs commands by `e`, as a command and as a flag of `s`, and `w` writes files.
//!
//! ```text
//! script  = ((";" | "{" | "}" | blank | newline)* [address] blank* "!"* command)*
//! address = (number | "$" | "," | "~" | "+" | blank | "/" regex "/" | "\" sign regex sign) ["I" | "M"] …
//! command = "s" sign regex sign text sign flags | "y" sign text sign text sign | ("a" | "i" | "c") text | one of PLAIN
//! ```
//!
//! Any other script may run something.

use crate::judge::Does;

/// Commands that are one letter, run nothing and write no file.
const PLAIN: &str = "=dDgGhHlnNpPqQxz";
/// What parts commands.
const SEPARATORS: &[char] = &[' ', '\t', '\n', ';', '{', '}'];

/// Judges sed by its words after the name.
pub(crate) fn effect(words: &[String]) -> Does {
    match Invocation::of(words) {
        Some(sed) if sed.scripts.iter().all(|script| edits(script).is_some()) => {
            if sed.in_place {
                Does::Changes
            } else {
                Does::Looks
            }
        }
        _ => Does::Destroys,
    }
}

#[derive(Default)]
struct Invocation<'a> {
    scripts: Vec<&'a str>,
    in_place: bool,
}

impl<'a> Invocation<'a> {
    /// Returns nothing for scripts that are in files.
    fn of(words: &'a [String]) -> Option<Self> {
        let (mut sed, mut others, mut ended) = (Self::default(), Vec::new(), false);
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                Some("-") if !ended => ended = true,
                Some(option) if !ended && !option.is_empty() => match option.strip_prefix('-') {
                    Some(long) => sed.long(long, &mut words)?,
                    None => sed.short(option, &mut words)?,
                },
                _ => others.push(word),
            }
        }
        if sed.scripts.is_empty() {
            // An empty word may be the suffix of BSD's `-i`.
            sed.scripts.extend(others.iter().find(|word| !word.is_empty()));
        }
        Some(sed)
    }

    /// The beginning of a long option stands for it.
    fn long(&mut self, option: &'a str, words: &mut impl Iterator<Item = &'a str>) -> Option<()> {
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        match name.get(..1) {
            Some("e") => self.scripts.push(value.or_else(|| words.next())?),
            Some("l") if value.is_none() => drop(words.next()),
            Some("i") => self.in_place = true,
            Some("f") if !name.starts_with("fo") => return None,
            _ => {}
        }
        Some(())
    }

    /// What follows such a letter, or else the next word, is its value.
    fn short(&mut self, letters: &'a str, words: &mut impl Iterator<Item = &'a str>) -> Option<()> {
        let Some(at) = letters.find(['e', 'f', 'i', 'l']) else { return Some(()) };
        let value = letters.get(at + 1..).filter(|value| !value.is_empty());
        match letters.get(at..=at) {
            Some("e") => self.scripts.push(value.or_else(|| words.next())?),
            Some("l") if value.is_none() => drop(words.next()),
            Some("i") => self.in_place = true,
            Some("f") => return None,
            _ => {}
        }
        Some(())
    }
}

/// Returns nothing for a script that may do more than edit.
fn edits(script: &str) -> Option<()> {
    let mut rest = script.trim_start_matches(SEPARATORS);
    while !rest.is_empty() {
        rest = after_address(rest)?.trim_start_matches([' ', '\t', '!']);
        rest = if rest.starts_with('{') { rest } else { after_command(rest)? };
        rest = rest.trim_start_matches(SEPARATORS);
    }
    Some(())
}

fn after_address(mut rest: &str) -> Option<&str> {
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || "$,~+ \t".contains(c));
        let (sign, regex) = match rest.strip_prefix('\\') {
            Some(other) => first(other)?,
            None if rest.starts_with('/') => first(rest)?,
            None => return Some(rest),
        };
        rest = after_regex(regex, sign)?.trim_start_matches(['I', 'M']);
    }
}

fn after_command(rest: &str) -> Option<&str> {
    let (command, rest) = first(rest)?;
    let rest = match command {
        's' => {
            let (sign, regex) = first(rest)?;
            let flags = after_part(after_regex(regex, sign)?, sign)?.1;
            flags.trim_start_matches(|c: char| c.is_ascii_digit() || "gpiIM".contains(c))
        }
        'y' => {
            let (sign, from) = first(rest)?;
            after_part(after_part(from, sign)?.1, sign)?.1
        }
        // The text ends where the line does.
        'a' | 'i' | 'c' if !rest.contains(['\n', '\\']) => "",
        'l' | 'q' | 'Q' => rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' '),
        plain if PLAIN.contains(plain) => rest,
        _ => return None,
    };
    (rest.is_empty() || rest.starts_with(SEPARATORS)).then_some(rest)
}

fn after_regex(rest: &str, sign: char) -> Option<&str> {
    let (regex, rest) = after_part(rest, sign)?;
    // To some sed the sign within brackets does not end the regex.
    brackets_close(regex).then_some(rest)
}

/// Returns what is before the next such sign that no backslash precedes, and what is after it.
fn after_part(rest: &str, sign: char) -> Option<(&str, &str)> {
    if sign == '\\' || sign == '\n' {
        return None;
    }
    let mut is_escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' => return None,
            c if c == sign => return Some((&rest[..at], &rest[at + c.len_utf8()..])),
            _ => {}
        }
    }
    None
}

/// Tells whether each bracket expression of a regex ends in it, whatever a backslash in it means.
fn brackets_close(mut regex: &str) -> bool {
    while let Some((_, after)) = regex.split_once('[') {
        let after = after.strip_prefix('^').unwrap_or(after);
        let after = after.strip_prefix(']').unwrap_or(after);
        match after.split_once(']') {
            Some((characters, rest)) if !characters.contains('\\') => regex = rest,
            _ => return false,
        }
    }
    true
}

fn first(text: &str) -> Option<(char, &str)> {
    let mut chars = text.chars();
    Some((chars.next()?, chars.as_str()))
}

#[cfg(test)]
mod tests;
