//! One line about an ask, which states how much it leaves out.

use serde_json::Value;

use crate::visible_line;

/// The longest preview, in characters, before what it says of the rest.
const MAX_PREVIEW: usize = 200;
/// The agent's own words about what it wants to do. They do nothing, so a preview may leave them out without a word.
const COMMENT: &str = "description";

/// Returns the preview of an ask: the first line of what it is about, made visible. What it leaves out is counted at the
/// end, ` … (+3 lines)` or ` … (+40 characters)`: the rest of `about`, and every other part of `input`.
pub fn preview(about: &str, input: &Value) -> String {
    let about = about.trim();
    let first = about.lines().next().unwrap_or_default();
    let lines = lines(about).saturating_sub(1) + lines_beside(input, about);
    let shown = visible_line(first);
    let cut: String = shown.chars().take(MAX_PREVIEW).collect();
    let missing = shown.chars().count() - cut.chars().count();
    match (missing, lines) {
        (0, 0) => cut,
        (0, 1) => format!("{cut} … (+1 line)"),
        (0, _) => format!("{cut} … (+{lines} lines)"),
        (1, 0) => format!("{cut} … (+1 character)"),
        (_, 0) => format!("{cut} … (+{missing} characters)"),
        // The rest of the first line is one of them.
        (_, _) => format!("{cut} … (+{} lines)", lines + 1),
    }
}

fn lines(text: &str) -> usize {
    text.lines().count()
}

/// Counts the lines of all texts in a value but this one, and each number and `true` as a line.
fn lines_beside(value: &Value, about: &str) -> usize {
    match value {
        Value::Null | Value::Bool(false) => 0,
        Value::Bool(true) | Value::Number(_) => 1,
        Value::String(text) if text.trim() == about => 0,
        Value::String(text) => lines(text.trim()),
        Value::Array(values) => values.iter().map(|value| lines_beside(value, about)).sum(),
        Value::Object(fields) => {
            let said = fields.iter().filter(|(name, _)| *name != COMMENT);
            said.map(|(_, value)| lines_beside(value, about)).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn preview_states_what_it_leaves_out() {
        let long = "x".repeat(MAX_PREVIEW + 7);
        let cut = "x".repeat(MAX_PREVIEW);
        for (about, input, shown) in [
            ("ls", json!({ "command": "ls", "description": "list\nall" }), "ls".to_owned()),
            ("touch harmless.txt\ntouch victim", Value::Null, "touch harmless.txt … (+1 line)".to_owned()),
            ("\n a\n\n b\n", json!(["\n a\n\n b\n"]), "a … (+2 lines)".to_owned()),
            (&long, Value::Null, format!("{cut} … (+7 characters)")),
            (&long[..=MAX_PREVIEW], Value::Null, format!("{cut} … (+1 character)")),
            (&format!("{long}\nrm"), Value::Null, format!("{cut} … (+2 lines)")),
            ("/a", json!({ "file_path": "/a", "content": "1\n2\n3\n" }), "/a … (+3 lines)".to_owned()),
            ("ls", json!({ "command": "ls", "sandbox": { "off": true, "x": false } }), "ls … (+1 line)".to_owned()),
            ("Run tests", json!({ "command": "rm -rf /" }), "Run tests … (+1 line)".to_owned()),
            ("a\u{1b}[1A\u{202e}b\rc", Value::Null, "a<U+001B>[1A<U+202E>b<U+000D>c".to_owned()),
        ] {
            assert_eq!(preview(about, &input), shown, "{about:?} {input}");
        }
    }
}
