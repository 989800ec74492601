//! What is done: tools, files, tokens. Each is told once, whichever source is first.

use std::path::Path;
use std::time::UNIX_EPOCH;

use coop_api::{Artifact, ToolPhase, ToolUse, Usage};
use serde_json::Value;

use crate::recent::Recent;
use crate::{Meaning, artifact_kind};

/// Tools that write the file they are given.
const WRITERS: [&str; 2] = ["write_file", "replace"];

/// Tells whether a tool's path, which may be relative, names a file whose absolute path is known.
fn is_path_of(path: &Value, absolute: &Value) -> bool {
    let (Some(path), Some(absolute)) = (path.as_str(), absolute.as_str()) else { return false };
    Path::new(absolute).ends_with(path.trim_start_matches("./"))
}

/// The uses of tools. Hooks have no names for them, and the log has one only when they are over.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<Call>,
    /// Those the log has told of, by its names.
    logged: Recent,
    count: u64,
}

#[derive(Debug)]
struct Call {
    id: String,
    tool: String,
    input: Value,
    began: Option<u64>,
}

impl Calls {
    /// Returns the request of a tool's use as a hook tells it.
    pub(super) fn requested(&mut self, payload: &Value) -> Meaning {
        let tool = payload["tool_name"].as_str().unwrap_or("?").to_owned();
        self.count += 1;
        let id = format!("call-{}", self.count);
        let input = payload["tool_input"].clone();
        let requested = used_tool(&id, &tool, ToolPhase::Requested, Some(input.clone()));
        self.open.push(Call { id, tool, input, began: written_at(payload) });
        Meaning::Tool(requested)
    }

    /// Returns the tool that is about to ask, and its input: the newest that was requested with these details.
    pub(super) fn meant(&self, details: &Value) -> Option<(&str, &Value)> {
        let fits = |call: &&Call| match details["type"].as_str() {
            Some("exec") => call.input["command"] == details["command"],
            Some("edit") => is_path_of(&call.input["file_path"], &details["filePath"]),
            Some("mcp") => details["toolName"].as_str().is_some_and(|tool| call.tool.ends_with(tool)),
            Some("ask_user") => call.tool == "ask_user",
            _ => true,
        };
        self.open.iter().rev().find(fits).map(|call| (call.tool.as_str(), &call.input))
    }

    /// Returns the end of a tool's use as a hook tells it, and the file it wrote.
    pub(super) fn finished(&mut self, payload: &Value) -> Vec<Meaning> {
        let tool = payload["tool_name"].as_str().unwrap_or("?");
        let Some(call) = self.take(tool, &payload["tool_input"]) else { return Vec::new() };
        let response = &payload["tool_response"];
        let failed = !response["error"].is_null();
        let phase = if failed { ToolPhase::Failed } else { ToolPhase::Completed };
        let took = written_at(payload).zip(call.began).map(|(end, began)| end.saturating_sub(began));
        let done = ToolUse {
            output: Some(response["llmContent"].clone()),
            duration_ms: took,
            ..used_tool(&call.id, tool, phase, None)
        };
        let path = response["returnDisplay"]["filePath"].as_str().or_else(|| call.input["file_path"].as_str());
        let wrote = path.filter(|_| !failed).and_then(|path| written(tool, path));
        [Some(Meaning::Tool(done)), wrote].into_iter().flatten().collect()
    }

    /// Returns what the log tells of uses that are over. With hooks that is news only if no hook told of the end: it was
    /// cancelled or forbidden.
    pub(super) fn logged(&mut self, line: &Value, hooked: bool) -> Vec<Meaning> {
        let mut meanings = Vec::new();
        for call in line["toolCalls"].as_array().into_iter().flatten() {
            let (Some(id), Some(tool)) = (call["id"].as_str(), call["name"].as_str()) else { continue };
            if !self.logged.insert(id) {
                continue;
            }
            let phase = if call["status"] == "success" { ToolPhase::Completed } else { ToolPhase::Failed };
            let response = &call["result"][0]["functionResponse"]["response"];
            let output = if response["error"].is_null() { &response["output"] } else { &response["error"] };
            let done =
                |id: &str| Meaning::Tool(ToolUse { output: Some(output.clone()), ..used_tool(id, tool, phase, None) });
            match self.take(tool, &call["args"]) {
                Some(open) => meanings.push(done(&open.id)),
                None if hooked => {}
                None => {
                    let input = Some(call["args"].clone());
                    meanings.push(Meaning::Tool(used_tool(id, tool, ToolPhase::Requested, input)));
                    meanings.push(done(id));
                    let path = call["resultDisplay"]["filePath"].as_str();
                    let wrote = path.filter(|_| phase == ToolPhase::Completed).and_then(|path| written(tool, path));
                    meanings.extend(wrote);
                }
            }
        }
        meanings
    }

    fn take(&mut self, tool: &str, input: &Value) -> Option<Call> {
        let at = self.open.iter().position(|call| call.tool == tool && call.input == *input)?;
        Some(self.open.remove(at))
    }
}

/// Returns what a request to the model used. What is only repeated has parts instead of a text.
pub(super) fn used(line: &Value) -> Option<Meaning> {
    let tokens = line["tokens"].as_object().filter(|_| line["content"].is_string())?;
    let count = |name: &str| tokens.get(name).and_then(Value::as_u64).unwrap_or(0);
    let usage = Usage {
        // What it calls input has what was cached in it.
        input_tokens: count("input").saturating_sub(count("cached")) + count("tool"),
        output_tokens: count("output") + count("thoughts"),
        cache_read_tokens: count("cached"),
        cache_write_tokens: 0,
        cost_usd: None,
    };
    Some(Meaning::Used { id: line["id"].as_str()?.to_owned(), usage, at: written_at(line) })
}

/// Returns when the agent wrote something, in milliseconds since 1970.
pub(super) fn written_at(value: &Value) -> Option<u64> {
    let written = humantime::parse_rfc3339(value["timestamp"].as_str()?).ok()?;
    written.duration_since(UNIX_EPOCH).ok()?.as_millis().try_into().ok()
}

fn used_tool(id: &str, tool: &str, phase: ToolPhase, input: Option<Value>) -> ToolUse {
    let (id, tool) = (id.to_owned(), tool.to_owned());
    ToolUse { id, tool, phase, input, output: None, duration_ms: None, subagent: None }
}

fn written(tool: &str, path: &str) -> Option<Meaning> {
    WRITERS.contains(&tool).then(|| {
        Meaning::Wrote(Artifact {
            path: path.to_owned(),
            artifact_kind: artifact_kind(path).to_owned(),
            tool: tool.to_owned(),
        })
    })
}
