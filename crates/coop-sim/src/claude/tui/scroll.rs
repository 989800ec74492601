//! What a fact looks like once it is over: the lines that go into the scrollback.

use std::path::Path;

use serde_json::Value;

use crate::claude::notice::{Block, During, Notice, PromptSource, TurnOutcome};
use crate::claude::tool::{Success, Tool, ToolCall, ToolOutcome};

/// More lines of a tool's output are summed up.
const SHOWN_OUTPUT: usize = 4;
const INTERRUPTED: &str = "  ⎿  Interrupted · What should Claude do instead?";

/// The lines of a notice; most have none.
pub(crate) fn lines(notice: &Notice, cwd: &Path) -> Vec<String> {
    match notice {
        Notice::Prompt { text, source: PromptSource::Typed | PromptSource::Queued, .. } => said("❯", text),
        Notice::PromptBlocked { text, reason } => {
            let mut lines = said("●", &format!("UserPromptSubmit operation blocked by hook:\n{reason}"));
            lines.extend([String::new(), format!("  Original prompt: {text}")]);
            lines
        }
        Notice::Message(message) if message.agent.is_none() => message.blocks.iter().flat_map(block).collect(),
        Notice::CutShort { text, .. } => said("●", text),
        Notice::ToolResult { call, outcome, agent: None } => result(call, outcome, cwd),
        Notice::ApiError(error) => said("●", &error.text()),
        Notice::Interrupted(During::Streaming) => vec![INTERRUPTED.to_owned()],
        Notice::StopHooks { results, block: Some(reason) } => vec![
            String::new(),
            format!(
                "● Ran {} stop hook{} (ctrl+o to expand)",
                results.len(),
                if results.len() == 1 { "" } else { "s" }
            ),
            format!("  ⎿  Stop hook error: {reason}"),
        ],
        Notice::TurnEnded(end) => match end.outcome {
            TurnOutcome::Completed | TurnOutcome::ApiError(_) => {
                vec![String::new(), format!("✻ Worked for {}s", end.duration.as_secs())]
            }
            TurnOutcome::Aborted(_) => Vec::new(),
        },
        Notice::Shell { command, outcome } => {
            let mut lines = vec![String::new(), format!("! {command}")];
            lines.extend(hanging(&outcome.content));
            lines
        }
        Notice::Compacted { .. } => vec![String::new(), "✻ Conversation compacted (ctrl+o for history)".to_owned()],
        Notice::Remark(text) => vec![String::new(), format!("  ⎿  {text}")],
        Notice::Ran { command, outcome } => vec![String::new(), format!("❯ {command}"), format!("  ⎿  {outcome}")],
        Notice::Prompt { source: PromptSource::StopHook, .. }
        | Notice::Message(_)
        | Notice::ToolResult { agent: Some(_), .. }
        | Notice::Interrupted(During::ToolUse)
        | Notice::StopHooks { block: None, .. }
        | Notice::Session { .. }
        | Notice::Ready { .. }
        | Notice::State(_)
        | Notice::Queued(_)
        | Notice::Dequeued
        | Notice::Unqueued(_)
        | Notice::Streaming(_)
        | Notice::Asked(_)
        | Notice::Settled { .. }
        | Notice::Retry { .. }
        | Notice::Mode(_)
        | Notice::Model(_)
        | Notice::Compacting
        | Notice::DialogOpened(_)
        | Notice::Flood(_)
        | Notice::AltScreen => Vec::new(),
    }
}

fn block(block: &Block) -> Vec<String> {
    match block {
        Block::Thinking(text) => said("✻", &format!("Thinking…\n\n{text}")),
        Block::Text(text) => said("●", text),
        // Shown while it is pending, and over only with its result.
        Block::ToolUse(_) => Vec::new(),
    }
}

/// A paragraph with a mark before its first line.
pub(crate) fn said(mark: &str, text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (index, line) in text.lines().enumerate() {
        lines.push(if index == 0 { format!("{mark} {line}") } else { format!("  {line}") });
    }
    lines
}

fn result(call: &ToolCall, outcome: &ToolOutcome, cwd: &Path) -> Vec<String> {
    let title = match (call.tool, outcome.success) {
        (Tool::AskUserQuestion, Success::Done) => "● User answered Claude's questions:".to_owned(),
        (Tool::AskUserQuestion, _) => "● User declined to answer questions".to_owned(),
        (Tool::ExitPlanMode, Success::Done) => "● User approved Claude's plan".to_owned(),
        (Tool::ExitPlanMode, _) => "● User rejected Claude's plan".to_owned(),
        (Tool::Bash | Tool::Read | Tool::Write | Tool::Edit | Tool::Agent, _) => format!("● {}", call.title(cwd)),
    };
    let mut lines = vec![String::new(), title];
    match outcome.success {
        Success::Rejected => lines.push(INTERRUPTED.to_owned()),
        Success::Failed | Success::Refused => lines.extend(hanging(&format!("Error: {}", outcome.content))),
        Success::Done => lines.extend(done(call, outcome)),
    }
    lines
}

fn done(call: &ToolCall, outcome: &ToolOutcome) -> Vec<String> {
    match call.tool {
        Tool::Bash => match outcome.detail.get("stdout").and_then(Value::as_str) {
            Some("") | None => hanging("Done"),
            Some(output) => hanging(output),
        },
        Tool::Read => hanging(&format!("Read {} lines", outcome.content.lines().count())),
        Tool::Write => hanging(&format!("Wrote {} lines", call.field("content").lines().count())),
        Tool::Edit | Tool::Agent => hanging("Done"),
        Tool::ExitPlanMode => Vec::new(),
        Tool::AskUserQuestion => {
            let answers = call.input.get("answers").and_then(Value::as_object).into_iter().flatten();
            let answers =
                answers.map(|(question, answer)| format!("· {question} → {}", answer.as_str().unwrap_or_default()));
            hanging(&answers.collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Lines under a title.
fn hanging(text: &str) -> Vec<String> {
    let count = text.lines().count();
    let mut lines: Vec<String> = text
        .lines()
        .take(SHOWN_OUTPUT)
        .enumerate()
        .map(|(index, line)| if index == 0 { format!("  ⎿  {line}") } else { format!("     {line}") })
        .collect();
    if count > SHOWN_OUTPUT {
        lines.push(format!("     … +{} lines (ctrl+o to expand)", count - SHOWN_OUTPUT));
    }
    lines
}
