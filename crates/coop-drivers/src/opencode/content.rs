//! What is said and done: messages, tools, files, tokens. Each part of a message is told again whenever it changes; it
//! counts once.

use coop_api::{Artifact, Message, Role, ToolPhase, ToolUse, Usage};
use serde_json::Value;

use super::{OpenCode, Whose};
use crate::{Meaning, artifact_kind};

/// Tools that write the file they are given.
const WRITERS: [&str; 3] = ["write", "edit", "multiedit"];
/// The tool whose use is an ask and not work.
const ASKING: &str = "question";

impl OpenCode {
    pub(super) fn part_told(&mut self, part: &Value) -> Vec<Meaning> {
        let (Some(id), Some(session)) = (part["id"].as_str(), part["sessionID"].as_str()) else { return Vec::new() };
        let subagent = match self.whose(session) {
            Whose::Own => None,
            Whose::Child => Some(session.to_owned()),
            Whose::Other | Whose::Unknown => return Vec::new(),
        };
        match part["type"].as_str() {
            Some("text") => self.text(id, part, subagent).into_iter().collect(),
            Some("tool") => self.tool(id, part, subagent),
            Some("step-finish") => vec![Meaning::Used { id: id.to_owned(), usage: used(part), at: None }],
            _ => Vec::new(),
        }
    }

    fn text(&mut self, id: &str, part: &Value, subagent: Option<String>) -> Option<Meaning> {
        let (message, text) = (part["messageID"].as_str()?, part["text"].as_str()?);
        let role = *self.roles.get(message)?;
        // The user's is there at once, and with it may come what others add.
        let is_whole = match role {
            Role::User => part["synthetic"] != true && part["ignored"] != true,
            Role::Assistant => part["time"]["end"].is_number(),
        };
        if !is_whole {
            return None;
        }
        if let Some(prompt) = self.prompt.as_mut().filter(|prompt| prompt.message == message) {
            prompt.text.get_or_insert_with(|| (id.to_owned(), text.to_owned()));
        }
        let message = Message { role, text: text.to_owned(), id: Some(message.to_owned()), subagent };
        (self.told.insert(id) && !text.is_empty()).then_some(Meaning::Said(message))
    }

    fn tool(&mut self, id: &str, part: &Value, subagent: Option<String>) -> Vec<Meaning> {
        let state = &part["state"];
        let name = part["tool"].as_str().unwrap_or("?").to_owned();
        let (phase, output) = match state["status"].as_str() {
            Some("running") => (ToolPhase::Requested, None),
            Some("completed") => (ToolPhase::Completed, Some(state["output"].clone())),
            Some("error") => (ToolPhase::Failed, Some(state["error"].clone())),
            _ => return Vec::new(),
        };
        let is_over = phase != ToolPhase::Requested;
        let key = if is_over { format!("{id} over") } else { id.to_owned() };
        if !self.told.insert(&key) {
            return Vec::new();
        }
        let number = |key: &str| state["time"][key].as_u64();
        let took = number("end").zip(number("start")).map(|(end, start)| end.saturating_sub(start));
        let is_own = subagent.is_none();
        let wrote = (phase == ToolPhase::Completed).then(|| written(&name, &state["input"])).flatten();
        let working = match phase {
            ToolPhase::Requested if name == ASKING => None,
            ToolPhase::Requested => Some(Meaning::Working { tool: Some(name.clone()) }),
            ToolPhase::Running | ToolPhase::Completed | ToolPhase::Failed => Some(Meaning::Working { tool: None }),
        };
        let used = Meaning::Tool(ToolUse {
            id: part["callID"].as_str().unwrap_or(id).to_owned(),
            tool: name,
            phase,
            input: (!is_over).then(|| state["input"].clone()),
            output,
            duration_ms: took.filter(|_| is_over),
            subagent,
        });
        // What a turn leaves behind when it has ended is no work.
        let working = working.filter(|_| is_own && self.busy);
        [Some(used), wrote.map(Meaning::Wrote), working].into_iter().flatten().collect()
    }
}

/// Returns what a request to the model used. Its output is told without what it has thought.
fn used(part: &Value) -> Usage {
    let tokens = &part["tokens"];
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    Usage {
        input_tokens: count(&tokens["input"]),
        output_tokens: count(&tokens["output"]) + count(&tokens["reasoning"]),
        cache_read_tokens: count(&tokens["cache"]["read"]),
        cache_write_tokens: count(&tokens["cache"]["write"]),
        // It says zero also of a model whose price it does not know.
        cost_usd: part["cost"].as_f64().filter(|cost| *cost > 0.0),
    }
}

fn written(tool: &str, input: &Value) -> Option<Artifact> {
    let path = input["filePath"].as_str().filter(|_| WRITERS.contains(&tool))?;
    Some(Artifact { path: path.to_owned(), artifact_kind: artifact_kind(path).to_owned(), tool: tool.to_owned() })
}
