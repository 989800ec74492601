//! Text that an agent or a tool wrote, made safe to show to a person.

use std::fmt::Write;

use serde_json::Value;

/// Returns text in which every character can be seen: one that is invisible, moves the cursor or changes the direction of
/// writing becomes `<U+202E>`. Line ends and tabs stay, and so do the joiners within an emoji.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = '\0';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let joins_emoji = match c {
            '\u{fe0f}' => is_symbol(before),
            '\u{200d}' => {
                (is_symbol(before) || before == '\u{fe0f}') && rest.peek().is_some_and(|next| is_symbol(*next))
            }
            _ => false,
        };
        if is_hidden(c) && !joins_emoji {
            // Writing to a string cannot fail.
            let _ = write!(shown, "<U+{:04X}>", u32::from(c));
        } else {
            shown.push(c);
        }
        before = c;
    }
    shown
}

/// Returns [`visible`] text on one line: a line end becomes `␤`, a tab a blank.
pub fn visible_line(text: &str) -> String {
    visible(text.trim_end()).replace('\n', "␤").replace('\t', " ")
}

/// Returns a value as JSON for a terminal: characters that [`visible`] marks are escaped, so that programs read the same
/// value and people see each of them.
pub fn visible_json(value: &Value) -> String {
    let mut shown = String::new();
    for c in value.to_string().chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Control characters except line end and tab, bidirectional controls, Unicode's `Default_Ignorable_Code_Point`, and the
/// few that are drawn as nothing without having that property.
pub fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}'
        | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn is_symbol(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}') && !is_hidden(c)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hidden_characters_are_named() {
        for (text, shown) in [
            ("plain\n\ttext ß 漢字 שלום", "plain\n\ttext ß 漢字 שלום"),
            ("ls \u{202e}htap", "ls <U+202E>htap"),
            ("\u{2066}a\u{2069}", "<U+2066>a<U+2069>"),
            ("\u{1b}[2K\r\u{7f}\u{9b}31m", "<U+001B>[2K<U+000D><U+007F><U+009B>31m"),
            ("a\u{200b}b\u{feff}c\u{ad}\u{2060}\u{3164}", "a<U+200B>b<U+FEFF>c<U+00AD><U+2060><U+3164>"),
            ("\u{e0041}\u{2028}", "<U+E0041><U+2028>"),
            // The parts of an emoji are no secret; the same characters elsewhere are.
            ("⚠\u{fe0f} 👩\u{200d}💻", "⚠\u{fe0f} 👩\u{200d}💻"),
            ("rm\u{fe0f} a\u{200d}b ⚠\u{fe0f}\u{fe0f}", "rm<U+FE0F> a<U+200D>b ⚠\u{fe0f}<U+FE0F>"),
        ] {
            assert_eq!(visible(text), shown);
            assert_eq!(visible(shown), shown, "marking twice changes nothing");
        }
        assert_eq!(visible_line("a\tb\nc\u{1b}\n"), "a b␤c<U+001B>");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = json!({ "a\u{9b}": "x\u{202e}\u{e0041}\u{1b}\n\u{7f}", "b": "ß" });
        let shown = visible_json(&value);
        assert_eq!(shown, r#"{"a\u009b":"x\u202e\udb40\udc41\u001b\n\u007f","b":"ß"}"#);
        assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON"), value);
    }
}
