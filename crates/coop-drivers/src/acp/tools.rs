//! The tools that the agent uses, put together from what it tells of them bit by bit.

use std::collections::{HashMap, VecDeque};

use agent_client_protocol_schema::{ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind};
use coop_api::{Artifact, ToolPhase, ToolUse};
use serde_json::{Value, json};

use super::updates::text;
use super::wire;
use crate::{Meaning, artifact_kind};

/// How many uses that are over are remembered, so that what is told of them again is not news. A turn may have thousands.
const REMEMBERED: usize = 256;

/// The tools of a conversation, by the agent's names for their uses.
#[derive(Debug, Default)]
pub(super) struct Tools {
    uses: HashMap<String, Use>,
    /// Those that are over, oldest first.
    over: VecDeque<String>,
}

#[derive(Debug)]
struct Use {
    call: ToolCall,
    stage: Stage,
    /// Since when it runs, or may run.
    since: u64,
    /// Whether somebody said no to it.
    denied: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is known; what it will be called with may not be yet.
    Begun,
    /// It was told that the agent wants to use it.
    Told,
    /// It was told how it ended.
    Finished,
}

/// What an update of a tool means.
pub(super) struct Told {
    pub(super) meanings: Vec<Meaning>,
    /// The tool that is in use now.
    pub(super) tool: Option<String>,
    pub(super) is_finished: bool,
}

impl Tools {
    /// Takes in what the agent tells of a tool.
    pub(super) fn told(&mut self, update: ToolCallUpdate, at: u64) -> Told {
        let id = update.tool_call_id.to_string();
        let used = self.note(update, at);
        let (status, tool) = (used.call.status, name(&used.call));
        let is_finished = matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
        let mut meanings = Vec::new();
        if used.stage == Stage::Finished {
            return Told { meanings, tool: None, is_finished };
        }
        // What waits to be used may not be known whole yet.
        if status != ToolCallStatus::Pending {
            meanings.extend(used.request(&id));
        }
        if is_finished {
            meanings.extend(used.finish(&id, status == ToolCallStatus::Completed, Some(at)));
            self.over.push_back(id);
            if self.over.len() > REMEMBERED {
                self.over.pop_front().map(|oldest| self.uses.remove(&oldest));
            }
        }
        Told { meanings, tool: (!is_finished).then_some(tool), is_finished }
    }

    /// Takes in what the agent asks leave for, and returns the tool and what it is to be called with.
    pub(super) fn asked(&mut self, update: ToolCallUpdate, at: u64) -> (String, Value, ToolCall, Vec<Meaning>) {
        let id = update.tool_call_id.to_string();
        let used = self.note(update, at);
        let requested = used.request(&id).into_iter().collect();
        (name(&used.call), input(&used.call), used.call.clone(), requested)
    }

    /// Notes what somebody decided.
    pub(super) fn decided(&mut self, id: &str, allowed: bool, at: u64) {
        if let Some(used) = self.uses.get_mut(id) {
            used.denied = !allowed;
            used.since = at;
        }
    }

    /// Returns the end of what was not allowed and of which the agent told no more. What else is left goes on.
    pub(super) fn turn_ended(&mut self) -> Vec<Meaning> {
        let denied = self.uses.iter_mut().filter(|(_, used)| used.denied && used.stage != Stage::Finished);
        let meanings = denied.flat_map(|(id, used)| used.finish(id, false, None)).collect();
        self.uses.retain(|_, used| used.stage != Stage::Finished);
        self.over.clear();
        meanings
    }

    fn note(&mut self, update: ToolCallUpdate, at: u64) -> &mut Use {
        let id = update.tool_call_id.clone();
        let used = self.uses.entry(id.to_string()).or_insert_with(|| Use {
            call: ToolCall::new(id, ""),
            stage: Stage::Begun,
            since: at,
            denied: false,
        });
        used.call.update(update.fields);
        used
    }
}

impl Use {
    /// Returns that the agent wants to use it, once.
    fn request(&mut self, id: &str) -> Option<Meaning> {
        if self.stage != Stage::Begun {
            return None;
        }
        self.stage = Stage::Told;
        let input = Some(input(&self.call));
        Some(Meaning::Tool(tool_use(id, &self.call, ToolPhase::Requested, input, None, None)))
    }

    fn finish(&mut self, id: &str, succeeded: bool, at: Option<u64>) -> Vec<Meaning> {
        self.stage = Stage::Finished;
        let phase = if succeeded { ToolPhase::Completed } else { ToolPhase::Failed };
        let output = if self.denied && at.is_none() { Some(json!("it was not allowed")) } else { output(&self.call) };
        let duration = at.map(|at| at.saturating_sub(self.since));
        let done = Meaning::Tool(tool_use(id, &self.call, phase, None, output, duration));
        let written = if succeeded { written(&self.call) } else { Vec::new() };
        [done].into_iter().chain(written.into_iter().map(Meaning::Wrote)).collect()
    }
}

fn tool_use(
    id: &str,
    call: &ToolCall,
    phase: ToolPhase,
    input: Option<Value>,
    output: Option<Value>,
    duration_ms: Option<u64>,
) -> ToolUse {
    ToolUse { id: id.to_owned(), tool: name(call), phase, input, output, duration_ms, subagent: None }
}

/// Returns what kind of tool it is: the protocol has no names for tools.
fn name(call: &ToolCall) -> String {
    wire::value(call.kind).as_str().unwrap_or("other").to_owned()
}

/// Returns what it is called with; from those who do not tell, what they tell people.
fn input(call: &ToolCall) -> Value {
    let is_empty = |value: &Value| value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    if let Some(raw) = call.raw_input.as_ref().filter(|raw| !is_empty(raw)) {
        return raw.clone();
    }
    let mut input = json!({ "title": call.title });
    if !call.content.is_empty() {
        input["content"] = wire::value(&call.content);
    }
    if !call.locations.is_empty() {
        input["locations"] = wire::value(&call.locations);
    }
    input
}

fn output(call: &ToolCall) -> Option<Value> {
    if call.raw_output.is_some() {
        return call.raw_output.clone();
    }
    let words = |part: &ToolCallContent| match part {
        ToolCallContent::Content(content) => Some(text(&content.content)),
        _ => None,
    };
    let texts: Option<Vec<_>> = call.content.iter().map(words).collect();
    match texts {
        Some(texts) if texts.is_empty() => None,
        Some(texts) => Some(texts.join("\n").into()),
        None => Some(wire::value(&call.content)),
    }
}

/// Returns the files it wrote: those it shows a change of, else those that an edit was about.
fn written(call: &ToolCall) -> Vec<Artifact> {
    let mut paths: Vec<_> = call
        .content
        .iter()
        .filter_map(|part| match part {
            ToolCallContent::Diff(diff) => Some(diff.path.clone()),
            _ => None,
        })
        .collect();
    if paths.is_empty() && call.kind == ToolKind::Edit {
        paths = call.locations.iter().map(|location| location.path.clone()).collect();
    }
    paths.dedup();
    let artifact = |path: std::path::PathBuf| {
        let path = path.to_string_lossy().into_owned();
        Artifact { artifact_kind: artifact_kind(&path).to_owned(), tool: name(call), path }
    };
    paths.into_iter().map(artifact).collect()
}
