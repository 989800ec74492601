//! What a person sees of an agent that has no terminal interface: its conversation as plain lines.

use coop_api::{AskChange, EventBody, Role, ToolPhase, Turn, visible};

/// Returns an event as text for a terminal, if it is part of the conversation.
pub(crate) fn render(body: &EventBody) -> Option<String> {
    let text = match body {
        EventBody::Message(message) if message.role == Role::User => {
            format!("\x1b[1m❯ {}\x1b[0m", clean(&message.text))
        }
        EventBody::Message(message) => format!("● {}", clean(&message.text)),
        EventBody::Tool(tool) if tool.phase == ToolPhase::Requested => {
            let input = tool.input.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("\x1b[36m● {}({})\x1b[0m", clean(&tool.tool), clean(&input))
        }
        EventBody::Tool(tool) if tool.phase == ToolPhase::Failed => {
            format!("\x1b[31m  ⎿ {} failed\x1b[0m", clean(&tool.tool))
        }
        EventBody::Tool(tool) => format!("\x1b[2m  ⎿ {} done\x1b[0m", clean(&tool.tool)),
        EventBody::Ask(AskChange::Opened { ask }) => {
            format!("\x1b[33m? {}: {}\x1b[0m", ask.kind.as_str(), clean(&ask.preview))
        }
        EventBody::Ask(AskChange::Answered { answer, .. }) => format!("\x1b[33m! {}\x1b[0m", clean(answer)),
        EventBody::Fault(report) => format!("\x1b[31m✗ {}\x1b[0m", clean(&report.fault.message)),
        EventBody::Turn(Turn::Ended { .. }) => String::new(),
        EventBody::Ask(_)
        | EventBody::State(_)
        | EventBody::Turn(_)
        | EventBody::Artifact(_)
        | EventBody::Usage(_)
        | EventBody::Stop(_)
        | EventBody::Delivery(_)
        | EventBody::Lifecycle(_) => return None,
    };
    Some(format!("{text}\r\n"))
}

/// Returns text with nothing that a terminal would obey or that cannot be seen.
fn clean(text: &str) -> String {
    visible(text).replace('\n', "\r\n")
}
