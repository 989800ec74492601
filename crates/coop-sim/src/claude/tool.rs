//! Tool calls and what came of them. Running them is `io::tools`' business.

use std::path::Path;

use serde_json::{Value, json};

use super::ids::ToolUseId;
use super::step::Question;

/// What the real one tells the model after Esc or a keyboard "No".
pub(crate) const REJECTED: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed.";
const REJECTED_WITH_WORDS: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Bash,
    Read,
    Write,
    Edit,
    AskUserQuestion,
    ExitPlanMode,
    Agent,
}

impl Tool {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bash => "Bash",
            Self::Read => "Read",
            Self::Write => "Write",
            Self::Edit => "Edit",
            Self::AskUserQuestion => "AskUserQuestion",
            Self::ExitPlanMode => "ExitPlanMode",
            Self::Agent => "Agent",
        }
    }

    /// Whether the tool is nothing but a talk with the user, so that no mode can answer it.
    pub(crate) const fn is_dialogue(self) -> bool {
        matches!(self, Self::AskUserQuestion | Self::ExitPlanMode)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) id: ToolUseId,
    pub(crate) tool: Tool,
    pub(crate) input: Value,
}

impl ToolCall {
    /// A text field of the input, or nothing.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.input.get(name).and_then(Value::as_str).unwrap_or("")
    }

    pub(crate) fn questions(&self) -> Vec<Question> {
        self.input.get("questions").and_then(|list| serde_json::from_value(list.clone()).ok()).unwrap_or_default()
    }

    pub(crate) fn is_background(&self) -> bool {
        self.input.get("run_in_background").and_then(Value::as_bool).unwrap_or(false)
    }

    /// The call as the screen names it: `Bash(touch x)`.
    pub(crate) fn title(&self, cwd: &Path) -> String {
        let file = || {
            let path = Path::new(self.field("file_path"));
            path.strip_prefix(cwd).unwrap_or(path).display().to_string()
        };
        match self.tool {
            Tool::Bash => format!("Bash({})", self.field("command")),
            Tool::Read => format!("Read({})", file()),
            Tool::Write => format!("Write({})", file()),
            Tool::Edit => format!("Update({})", file()),
            Tool::Agent => format!("Task({})", self.field("description")),
            Tool::AskUserQuestion => "AskUserQuestion".to_owned(),
            Tool::ExitPlanMode => "ExitPlanMode".to_owned(),
        }
    }
}

/// What a tool call came to, for the model and for the log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolOutcome {
    pub(crate) content: String,
    pub(crate) success: Success,
    /// The log's `toolUseResult`, the hooks' `tool_response`.
    pub(crate) detail: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Success {
    Done,
    /// It ran and failed.
    Failed,
    /// Somebody said no, and the model hears why.
    Refused,
    /// The user stopped it, and the turn with it.
    Rejected,
}

impl ToolOutcome {
    pub(crate) fn done(content: impl Into<String>, detail: Value) -> Self {
        Self { content: content.into(), success: Success::Done, detail }
    }

    pub(crate) fn failed(content: impl Into<String>) -> Self {
        Self::error(content.into(), Success::Failed)
    }

    pub(crate) fn refused(content: impl Into<String>) -> Self {
        Self::error(content.into(), Success::Refused)
    }

    pub(crate) fn refused_with_words(words: &str) -> Self {
        Self::refused(format!("{REJECTED_WITH_WORDS}{words}"))
    }

    pub(crate) fn rejected() -> Self {
        Self { content: REJECTED.into(), success: Success::Rejected, detail: json!("User rejected tool use") }
    }

    fn error(content: String, success: Success) -> Self {
        let detail = json!(format!("Error: {content}"));
        Self { content, success, detail }
    }
}

/// The outcome of an answered `AskUserQuestion`: the answers stand in its input.
pub(crate) fn answered(call: &ToolCall) -> ToolOutcome {
    let answers = call.input.get("answers").cloned().unwrap_or_else(|| json!({}));
    let said: Vec<String> = call
        .questions()
        .iter()
        .filter_map(|question| {
            let answer = answers.get(&question.question)?;
            let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
            Some(format!("\"{}\"=\"{answer}\"", question.question))
        })
        .collect();
    let content = format!(
        "Your questions have been answered: {}. You can now continue with these answers in mind.",
        said.join(", ")
    );
    let detail = json!({ "questions": call.input.get("questions"), "answers": answers, "annotations": {} });
    ToolOutcome::done(content, detail)
}

/// The outcome of an approved plan.
pub(crate) fn approved(call: &ToolCall) -> ToolOutcome {
    let plan = call.field("plan");
    ToolOutcome::done(
        format!(
            "User has approved your plan. You can now start coding. Start with updating your todo list if applicable\n\n## Approved Plan:\n{plan}"
        ),
        json!({ "plan": plan, "isAgent": false }),
    )
}
