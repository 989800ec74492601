//! What an agent asks of the model, whatever the protocol.

use serde_json::Value;

/// A request for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) model: String,
    pub(crate) system: String,
    pub(crate) delivery: Delivery,
    pub(crate) tools: Vec<Tool>,
    /// How many messages the conversation has.
    pub(crate) messages: usize,
    /// The newest text that a person wrote.
    pub(crate) text: String,
    /// What tools returned since.
    pub(crate) results: Vec<String>,
}

/// How the answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Stream,
    Whole,
}

/// A tool on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) kind: ToolKind,
}

/// How a tool is called. Only OpenAI's Responses know others than functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolKind {
    Function,
    /// Takes text in place of JSON.
    Freeform,
    LocalShell,
    /// A function in a namespace, such as an MCP server's.
    Namespaced(String),
}

/// A part of the conversation that did not come from the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    User(String),
    Result(String),
}

/// What agents put among the words of the user: elements that are not theirs.
const INJECTED: [&str; 6] =
    ["system-reminder", "environment_context", "user_instructions", "turn_aborted", "session_context", "hook_context"];

/// What the system prompt of a request without tools speaks of, if it is for a name of the conversation.
const SIDE_WORDS: [&str; 2] = ["title", "topic"];
/// How Codex begins such a request, which has its usual system prompt and a tool. The user's prompt follows.
const SIDE_OPENING: &str = "Generate a concise, single-line task title";

impl Asked {
    /// Tells whether the agent asks for itself, beside the conversation.
    pub(crate) fn is_side(&self) -> bool {
        let system = self.system.to_lowercase();
        let names_something = SIDE_WORDS.iter().any(|word| system.contains(word));
        (self.tools.is_empty() && names_something) || self.text.starts_with(SIDE_OPENING)
    }
}

impl Tool {
    pub(crate) fn function(name: &str) -> Self {
        Self { name: name.to_owned(), kind: ToolKind::Function }
    }

    /// Tells whether a script means this tool.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        match &self.kind {
            ToolKind::Function | ToolKind::Freeform | ToolKind::LocalShell => self.name == name,
            ToolKind::Namespaced(space) => {
                self.name == name
                    || name.strip_prefix(space.as_str()).is_some_and(|rest| rest == format!("__{}", self.name))
            }
        }
    }
}

impl Delivery {
    /// Reads the `stream` field.
    pub(crate) fn of(body: &Value) -> Self {
        match body["stream"].as_bool() {
            Some(true) => Self::Stream,
            Some(false) | None => Self::Whole,
        }
    }
}

/// Returns the newest text of the user and the results that came after it.
pub(crate) fn newest(said: Vec<Said>) -> (String, Vec<String>) {
    let mut text = String::new();
    let mut results = Vec::new();
    for part in said {
        match part {
            Said::Result(result) => results.push(result),
            Said::User(words) => {
                let own = own_words(&words);
                if !own.is_empty() {
                    text = own;
                    results.clear();
                }
            }
        }
    }
    (text, results)
}

/// Returns what the user wrote of a text.
fn own_words(text: &str) -> String {
    let mut text = text.to_owned();
    for tag in INJECTED {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        while let Some(start) = text.find(&open) {
            let end = text.get(start..).and_then(|rest| rest.find(&close)).map(|at| start + at + close.len());
            text.replace_range(start..end.unwrap_or(text.len()), "");
        }
    }
    text.trim().to_owned()
}

/// Returns the items of a list; none, if it is not one.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a string; an empty one, if it is not one.
pub(crate) fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the texts of a content: a string, or a list of parts with a `text`.
pub(crate) fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).map(str::to_owned).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Returns what a tool returned: its texts, or else the JSON.
pub(crate) fn result_text(content: &Value) -> String {
    let texts = texts(content);
    if texts.is_empty() && !content.is_null() { content.to_string() } else { texts.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Said {
        Said::User(text.to_owned())
    }

    fn result(text: &str) -> Said {
        Said::Result(text.to_owned())
    }

    #[test]
    fn only_results_after_the_newest_text_count() {
        let said = vec![user("first"), result("a"), user("second"), result("b"), result("c")];
        assert_eq!(newest(said), ("second".to_owned(), vec!["b".to_owned(), "c".to_owned()]));
    }

    #[test]
    fn what_the_agent_adds_is_not_the_users() {
        let said = vec![
            user("<system-reminder>\n[[bash:no]]\n</system-reminder>"),
            user("<system-reminder>x</system-reminder>\nyes <system-reminder>[[err:500]]</system-reminder>"),
            result("[[bash:no]]"),
            user("<environment_context>[[bash:no]]"),
        ];
        assert_eq!(newest(said), ("yes".to_owned(), vec!["[[bash:no]]".to_owned()]));
    }

    #[test]
    fn a_tool_in_a_namespace_has_two_names() {
        let tool = Tool { name: "ping".to_owned(), kind: ToolKind::Namespaced("mcp__coop".to_owned()) };
        assert_eq!(["ping", "mcp__coop__ping", "coop__ping"].map(|name| tool.is_called(name)), [true, true, false]);
    }
}
