//! What is said and done: messages, tools, files, tokens. Each is told once, whichever source is first.

use coop_api::{Artifact, Message, Role, ToolPhase, ToolUse, Usage};
use serde_json::Value;

use super::{ASKING, Claude, price};
use crate::{Meaning, artifact_kind};

/// Tools that write the file they are given.
const WRITERS: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];
/// What the result of a tool says when the turn ends with it; the line that ends it follows.
const ENDS_TURN: &str = "STOP what you are doing";
/// What an answered ask has in its input that the ask had not.
const ANSWER_KEYS: [&str; 2] = ["answers", "annotations"];

impl Claude {
    /// Returns the request of a tool's use, if it is new. The use's id has another name in each source.
    pub(super) fn tool_requested(&mut self, from: &Value, id_key: &str) -> Option<Meaning> {
        let id = from[id_key].as_str()?.to_owned();
        let (name, input) = match from["tool_name"].as_str() {
            Some(name) => (name, &from["tool_input"]),
            None => (from["name"].as_str()?, &from["input"]),
        };
        let is_new = self.requested.insert(id.clone());
        if is_new && ASKING.contains(&name) {
            self.asking.insert(id.clone(), (name.to_owned(), input.clone()));
        }
        is_new.then(|| {
            Meaning::Tool(ToolUse {
                id,
                tool: name.to_owned(),
                phase: ToolPhase::Requested,
                input: Some(input.clone()),
                output: None,
                duration_ms: None,
                subagent: from["agent_id"].as_str().map(str::to_owned),
            })
        })
    }

    /// Returns the end of a tool's use as a hook tells it, and the file it wrote.
    pub(super) fn tool_finished(&mut self, payload: &Value, succeeded: bool) -> Vec<Meaning> {
        let Some(id) = payload["tool_use_id"].as_str() else { return Vec::new() };
        self.asking.remove(id);
        if !self.finished.insert(id.to_owned()) {
            return Vec::new();
        }
        let tool = payload["tool_name"].as_str().unwrap_or("?").to_owned();
        let output = if succeeded { &payload["tool_response"] } else { &payload["error"] };
        let wrote = succeeded.then(|| written(&tool, &payload["tool_input"])).flatten();
        let done = Meaning::Tool(ToolUse {
            id: id.to_owned(),
            tool,
            phase: if succeeded { ToolPhase::Completed } else { ToolPhase::Failed },
            input: None,
            output: Some(output.clone()),
            duration_ms: payload["duration_ms"].as_u64(),
            subagent: payload["agent_id"].as_str().map(str::to_owned),
        });
        [Some(done), wrote.map(Meaning::Wrote)].into_iter().flatten().collect()
    }

    /// Returns what the blocks of a message say.
    pub(super) fn blocks(&mut self, message: &Value, subagent: Option<&str>) -> Vec<Meaning> {
        let role = match message["role"].as_str() {
            Some("assistant") => Role::Assistant,
            _ => Role::User,
        };
        let id = message["id"].as_str().map(str::to_owned);
        let said = |text: &str| {
            let subagent = subagent.map(str::to_owned);
            Meaning::Said(Message { role, text: text.to_owned(), id: id.clone(), subagent })
        };
        if let Some(text) = message["content"].as_str() {
            return vec![said(text)];
        }
        let mut meanings = Vec::new();
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => meanings.extend(block["text"].as_str().map(said)),
                Some("tool_use") => meanings.extend(self.tool_requested(block, "id")),
                Some("tool_result") => {
                    // There is a result also where no hook tells of one, as when a plan is sent back at the keyboard.
                    let asked = block["tool_use_id"].as_str().and_then(|id| self.asking.remove(id));
                    let goes_on = !block["content"].as_str().is_some_and(|text| text.contains(ENDS_TURN));
                    meanings.extend(asked.filter(|_| goes_on).map(|about| Meaning::AskGone { about: Some(about) }));
                    meanings.extend(self.tool_result(block));
                }
                _ => {}
            }
        }
        meanings
    }

    fn tool_result(&mut self, block: &Value) -> Option<Meaning> {
        let id = block["tool_use_id"].as_str()?;
        let failed = block["is_error"].as_bool().unwrap_or(false);
        self.finished.insert(id.to_owned()).then(|| {
            Meaning::Tool(ToolUse {
                id: id.to_owned(),
                tool: String::new(),
                phase: if failed { ToolPhase::Failed } else { ToolPhase::Completed },
                input: None,
                output: Some(block["content"].clone()),
                duration_ms: None,
                subagent: None,
            })
        })
    }
}

/// Returns what a request to the model used.
pub(super) fn used(message: &Value) -> Option<Meaning> {
    let model = message["model"].as_str().filter(|model| *model != "<synthetic>")?;
    let count = |name: &str| message["usage"][name].as_u64().unwrap_or(0);
    let usage = Usage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cache_read_tokens: count("cache_read_input_tokens"),
        cache_write_tokens: count("cache_creation_input_tokens"),
        cost_usd: None,
    };
    let usage = Usage { cost_usd: price::cost(model, &usage, &message["usage"]), ..usage };
    Some(Meaning::Used { id: message["id"].as_str()?.to_owned(), usage })
}

/// Returns the tool and input that an ask was about.
pub(super) fn ask_about(payload: &Value) -> Option<(String, Value)> {
    let mut input = payload["tool_input"].clone();
    if let Some(fields) = input.as_object_mut() {
        ANSWER_KEYS.iter().for_each(|key| drop(fields.remove(*key)));
    }
    Some((payload["tool_name"].as_str()?.to_owned(), input))
}

/// Tells whether sub-agents go on after the turn; they will wake the agent by themselves.
pub(super) fn has_background_agents(payload: &Value) -> bool {
    let tasks = payload["background_tasks"].as_array().map_or(&[][..], Vec::as_slice);
    tasks.iter().any(|task| task["type"] == "subagent" && task["status"] != "completed")
}

fn written(tool: &str, input: &Value) -> Option<Artifact> {
    let path = ["file_path", "notebook_path"].iter().find_map(|key| input[*key].as_str())?;
    WRITERS.contains(&tool).then(|| Artifact {
        path: path.to_owned(),
        artifact_kind: artifact_kind(path).to_owned(),
        tool: tool.to_owned(),
    })
}
