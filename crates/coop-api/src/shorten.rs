//! Events are bounded: what a tool took and gave, and what was said, is cut with a note that says how much is missing.
//!
//! Asks stay whole: a person decides about all of one.

use serde_json::Value;

use crate::{EventBody, Turn};

/// How many bytes an event holds of what a tool is called with, and of what came of it.
pub const TOOL_BYTES: usize = 64 * 1024;
/// How many bytes an event holds of a message.
pub const MESSAGE_BYTES: usize = 1024 * 1024;
/// What a value counts beside its text.
const VALUE_BYTES: usize = 8;
/// Where the whole is, as far as anybody has it.
const WHOLE: &str = "the agent's own log has it all: GET /api/v1/transcripts/catchup";

impl EventBody {
    /// Cuts what is longer than an event may be.
    pub fn shorten(&mut self) {
        match self {
            Self::Tool(tool) => [&mut tool.input, &mut tool.output].into_iter().flatten().for_each(shorten_value),
            Self::Message(message) => shorten_text(&mut message.text, MESSAGE_BYTES),
            Self::Turn(Turn::Began { prompt: Some(prompt) }) => shorten_text(prompt, MESSAGE_BYTES),
            Self::State(change) => {
                change.last_message.iter_mut().for_each(|text| shorten_text(text, MESSAGE_BYTES));
            }
            Self::Turn(_)
            | Self::Ask(_)
            | Self::Artifact(_)
            | Self::Usage(_)
            | Self::Fault(_)
            | Self::Stop(_)
            | Self::Delivery(_)
            | Self::Lifecycle(_) => {}
        }
    }
}

fn shorten_value(value: &mut Value) {
    let whole = bytes_of(value);
    if whole > TOOL_BYTES {
        let mut left = TOOL_BYTES;
        cut(value, &mut left);
        let note = note(whole - bytes_of(value).min(whole));
        match value {
            Value::Object(fields) => drop(fields.insert("coop_cut".to_owned(), note.into())),
            Value::Array(items) => items.push(note.into()),
            Value::String(text) => text.push_str(&note),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn shorten_text(text: &mut String, most: usize) {
    if text.len() > most {
        let missing = text.len() - most;
        truncate(text, most);
        text.push_str(&note(missing));
    }
}

/// Keeps at most so many bytes, and no part of a character.
fn truncate(text: &mut String, most: usize) {
    let most = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(most.unwrap_or_default());
}

fn note(missing: usize) -> String {
    format!("[coop left out {missing} bytes here; {WHOLE}]")
}

/// Returns about how many bytes a value takes.
fn bytes_of(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes_of).sum(),
            Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + bytes_of(value)).sum(),
        }
}

/// Keeps what comes first, as far as `left` goes.
fn cut(value: &mut Value, left: &mut usize) {
    *left = left.saturating_sub(VALUE_BYTES);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => {
            truncate(text, *left);
            *left -= text.len();
        }
        Value::Array(items) => {
            let mut kept = 0;
            while kept < items.len() && *left > 0 {
                cut(&mut items[kept], left);
                kept += 1;
            }
            items.truncate(kept);
        }
        Value::Object(fields) => fields.retain(|name, value| {
            let fits = name.len() + VALUE_BYTES < *left;
            if fits {
                *left -= name.len();
                cut(value, left);
            }
            fits
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Message, Role, ToolPhase, ToolUse};

    fn tool(output: Value) -> Value {
        let (id, tool, phase) = ("1".to_owned(), "Bash".to_owned(), ToolPhase::Completed);
        let output = Some(output);
        let mut body =
            EventBody::Tool(ToolUse { id, tool, phase, input: None, output, duration_ms: None, subagent: None });
        body.shorten();
        let EventBody::Tool(ToolUse { output: Some(output), .. }) = body else { panic!("it is a tool's") };
        output
    }

    #[test]
    fn tool_output_is_cut_whatever_its_shape_and_says_how_much_is_missing() {
        let large = 10 << 20;
        for output in [
            json!("é".repeat(large / 2)),
            json!({ "stdout": "x".repeat(large), "stderr": "y" }),
            json!(vec![0; large / 8]),
            json!({ "deep": [[{ "text": vec!["z".repeat(1000); large / 1000] }]] }),
            json!((0..large / 16).map(|number| (number.to_string(), json!(null))).collect::<serde_json::Map<_, _>>()),
        ] {
            let cut = tool(output);
            let text = cut.to_string();
            assert!(text.len() < TOOL_BYTES + 1024, "{}", text.len());
            let (_, note) = text.split_once("[coop left out ").expect("a note");
            let (missing, rest) = note.split_once(' ').expect("a number");
            assert!(missing.parse::<usize>().is_ok_and(|missing| missing > 8 << 20), "{missing}");
            assert!(rest.contains("transcripts/catchup"), "{rest}");
        }
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let output = json!({ "stdout": "x".repeat(TOOL_BYTES - 100), "code": 0 });
        assert_eq!(tool(output.clone()), output);
        let text = "m".repeat(MESSAGE_BYTES);
        let mut body =
            EventBody::Message(Message { role: Role::Assistant, text: text.clone(), id: None, subagent: None });
        body.shorten();
        let EventBody::Message(message) = body else { panic!("it is a message") };
        assert_eq!(message.text, text);
    }
}
