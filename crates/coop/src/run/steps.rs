//! A run as lines of JSON. docs/LLM.md has their fields.

use coop_llm::{Event, Exit, Outcome};
use serde_json::{Value, json};

/// Returns a step as JSON; the end is told by [`end`], which knows more of it.
pub(super) fn step(event: &Event) -> Option<Value> {
    Some(match event {
        Event::Call { turn } => json!({ "type": "call", "turn": turn }),
        Event::Retry { attempt, wait, kind, message } => json!({
            "type": "retry", "attempt": attempt, "wait_ms": wait.as_millis() as u64, "kind": kind, "message": message,
        }),
        Event::Reply { turn, parts, stop, usage, cost } => json!({
            "type": "reply", "turn": turn, "content": parts, "stop": stop, "usage": usage, "cost_usd": cost,
        }),
        Event::ToolStart(call) => json!({
            "type": "tool_start", "id": call.id, "tool": call.name, "input": call.input,
        }),
        Event::ToolEnd { name, result, took } => json!({
            "type": "tool_end", "id": result.tool_use_id, "tool": name, "output": result.content,
            "is_error": result.is_error, "duration_ms": took.as_millis() as u64,
        }),
        // Nobody asked for pieces.
        Event::Delta(_) | Event::End { .. } => return None,
    })
}

/// Returns the last line.
pub(super) fn end(outcome: &Outcome) -> Value {
    let metrics = &outcome.metrics;
    let error = match &outcome.exit {
        Exit::Failed(error) => json!({
            "kind": error.kind, "message": error.message, "request_id": error.request_id,
            "retry_after_ms": error.retry_after.map(|wait| wait.as_millis() as u64),
        }),
        Exit::Completed | Exit::OutOfTokens | Exit::ContextFull | Exit::Refused | Exit::Limit(_) | Exit::Cancelled => {
            Value::Null
        }
    };
    json!({
        "type": "end", "exit": outcome.exit.as_str(), "error": error, "text": outcome.text(),
        "turns": metrics.invocations, "tool_calls": metrics.tool_calls, "tool_errors": metrics.tool_errors,
        "usage": metrics.usage, "cost_usd": metrics.cost,
    })
}
