//! What is said and done: messages, tools, files, tokens. Each is told once, whichever source is first.

use coop_api::{Artifact, Message, Role, ToolPhase, ToolUse, Usage};
use serde_json::Value;

use super::told::Use;
use super::{ASKING, Claude, price};
use crate::{Meaning, artifact_kind};

/// Tools that write the file they are given.
const WRITERS: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];
/// What the result of a tool says when the turn ends with it; the line that ends it follows.
const ENDS_TURN: &str = "STOP what you are doing";
/// What the trace of a command begins with, where a message would be.
const TRACES: [&str; 3] = ["<command-", "<local-command-", "<bash-"];
/// The model of what no model said.
const SYNTHETIC: &str = "<synthetic>";
/// What the agent puts where there is no answer.
const NO_CONTENT: &str = "(no content)";
/// What an answered ask has in its input that the ask had not.
const ANSWER_KEYS: [&str; 2] = ["answers", "annotations"];

impl Claude {
    /// Returns the request of a tool's use as a hook tells it, if it is new.
    pub(super) fn tool_requested(&mut self, payload: &Value) -> Option<Meaning> {
        let (id, tool) = (payload["tool_use_id"].as_str()?, payload["tool_name"].as_str()?);
        self.requested(id, tool, &payload["tool_input"], payload["agent_id"].as_str())
    }

    fn requested(&mut self, id: &str, tool: &str, input: &Value, subagent: Option<&str>) -> Option<Meaning> {
        let subagent = subagent.map(str::to_owned);
        let made = Use { tool: tool.to_owned(), path: written(tool, input), subagent: subagent.clone() };
        if !self.told.request(id, made) {
            return None;
        }
        if ASKING.contains(&tool) {
            self.asking.insert(id.to_owned(), (tool.to_owned(), input.clone()));
        }
        Some(Meaning::Tool(ToolUse {
            id: id.to_owned(),
            tool: tool.to_owned(),
            phase: ToolPhase::Requested,
            input: Some(input.clone()),
            output: None,
            duration_ms: None,
            subagent,
        }))
    }

    /// Returns the end of a tool's use as a hook tells it, and the file it wrote.
    pub(super) fn tool_finished(&mut self, payload: &Value, succeeded: bool) -> Vec<Meaning> {
        let Some(id) = payload["tool_use_id"].as_str() else { return Vec::new() };
        self.asking.remove(id);
        let Some(known) = self.told.finish(id) else { return Vec::new() };
        let tool = payload["tool_name"].as_str().map_or(known.tool, str::to_owned);
        // What it was called with at last, which need not be what was asked for.
        let path = written(&tool, &payload["tool_input"]).or(known.path);
        let subagent = known.subagent.or_else(|| payload["agent_id"].as_str().map(str::to_owned));
        let output = if succeeded { &payload["tool_response"] } else { &payload["error"] };
        ended(id, Use { tool, path, subagent }, succeeded, output, payload["duration_ms"].as_u64())
    }

    /// Returns what the blocks of a message say. The line it stands in may have more about a tool's result.
    pub(super) fn blocks(&mut self, line: &Value, subagent: Option<&str>) -> Vec<Meaning> {
        let message = &line["message"];
        // The protocol has only some of a sub-agent's messages; its log has them all.
        let is_part = line["parent_tool_use_id"].is_string();
        let mut meanings = Vec::new();
        if let Some(text) = message["content"].as_str().filter(|_| !is_part) {
            return self.said(message, text, subagent).into_iter().collect();
        }
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") if !is_part => {
                    let text = block["text"].as_str().unwrap_or_default();
                    meanings.extend(self.said(message, text, subagent));
                }
                Some("tool_use") => meanings.extend(self.used_tool(block, subagent)),
                Some("tool_result") => {
                    // There is a result also where no hook tells of one, as when a plan is sent back at the keyboard.
                    let asked = block["tool_use_id"].as_str().and_then(|id| self.asking.remove(id));
                    let goes_on = !block["content"].as_str().is_some_and(|text| text.contains(ENDS_TURN));
                    meanings.extend(asked.filter(|_| goes_on).map(|about| Meaning::AskGone { about: Some(about) }));
                    meanings.extend(self.tool_result(line, block));
                }
                _ => {}
            }
        }
        meanings
    }

    /// Returns what somebody said. The trace of a command is no message, nor is an answer without content.
    fn said(&mut self, message: &Value, text: &str, subagent: Option<&str>) -> Option<Meaning> {
        let role = match message["role"].as_str() {
            Some("assistant") => Role::Assistant,
            _ => Role::User,
        };
        let is_none = match role {
            Role::User => TRACES.iter().any(|tag| text.starts_with(tag)),
            Role::Assistant => message["model"] == SYNTHETIC && text == NO_CONTENT,
        };
        if is_none {
            return None;
        }
        match role {
            Role::Assistant => self.behind.said(subagent, text),
            Role::User if subagent.is_none() => {
                self.has_logged_prompt = true;
                self.behind.record_prompt();
            }
            Role::User => {}
        }
        let id = message["id"].as_str().map(str::to_owned);
        Some(Meaning::Said(Message { role, text: text.to_owned(), id, subagent: subagent.map(str::to_owned) }))
    }

    fn used_tool(&mut self, block: &Value, subagent: Option<&str>) -> Option<Meaning> {
        self.requested(block["id"].as_str()?, block["name"].as_str()?, &block["input"], subagent)
    }

    /// Returns the end of a tool's use, where no hook told it.
    fn tool_result(&mut self, line: &Value, block: &Value) -> Vec<Meaning> {
        let Some((id, known)) = block["tool_use_id"].as_str().and_then(|id| Some((id, self.told.finish(id)?))) else {
            return Vec::new();
        };
        let succeeded = !block["is_error"].as_bool().unwrap_or(false);
        // What a hook would be told, where the line has it.
        let whole = ["tool_use_result", "toolUseResult"].iter().map(|key| &line[*key]).find(|value| value.is_object());
        ended(id, known, succeeded, whole.filter(|_| succeeded).unwrap_or(&block["content"]), None)
    }
}

/// Returns the end of a tool's use, and the file it wrote.
fn ended(id: &str, made: Use, succeeded: bool, output: &Value, duration_ms: Option<u64>) -> Vec<Meaning> {
    let wrote = made.path.filter(|_| succeeded).map(|path| {
        Meaning::Wrote(Artifact { artifact_kind: artifact_kind(&path).to_owned(), path, tool: made.tool.clone() })
    });
    let done = Meaning::Tool(ToolUse {
        id: id.to_owned(),
        tool: made.tool,
        phase: if succeeded { ToolPhase::Completed } else { ToolPhase::Failed },
        input: None,
        output: Some(output.clone()),
        duration_ms,
        subagent: made.subagent,
    });
    [Some(done), wrote].into_iter().flatten().collect()
}

/// Returns a message that somebody sent the agent.
pub(super) fn prompted(text: String) -> Meaning {
    Meaning::Said(Message { role: Role::User, text, id: None, subagent: None })
}

/// Returns what a request to the model used, which was made at this time.
pub(super) fn used(message: &Value, at: Option<u64>) -> Option<Meaning> {
    let model = message["model"].as_str().filter(|model| *model != SYNTHETIC)?;
    let count = |name: &str| message["usage"][name].as_u64().unwrap_or(0);
    let usage = Usage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cache_read_tokens: count("cache_read_input_tokens"),
        cache_write_tokens: count("cache_creation_input_tokens"),
        cost_usd: None,
    };
    let usage = Usage { cost_usd: price::cost(model, &usage, &message["usage"]), ..usage };
    Some(Meaning::Used { id: message["id"].as_str()?.to_owned(), usage, at })
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
    tasks.iter().any(|task| task["type"] == "subagent" && task["status"] == "running")
}

/// Returns the file that a tool writes.
fn written(tool: &str, input: &Value) -> Option<String> {
    let path = ["file_path", "notebook_path"].iter().find_map(|key| input[*key].as_str())?;
    WRITERS.contains(&tool).then(|| path.to_owned())
}
