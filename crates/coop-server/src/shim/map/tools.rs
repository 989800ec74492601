//! Uses of tools: who may, how far they are, and which of them are whole agents.

use coop_api::{Ask, ToolPhase, ToolUse};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::types::{Body, Delegation, DelegationAction, Phase, ToolCall};
use super::Mapper;

/// A use of a tool that has begun.
#[derive(Debug)]
pub(super) struct Used {
    id: String,
    tool: String,
    input: Option<Value>,
    is_child: bool,
    /// When it began, or was allowed to, in milliseconds.
    since: Option<u64>,
    is_running: bool,
    /// Whether somebody is asked about it.
    is_asked: bool,
    is_denied: bool,
}

impl Mapper {
    /// Takes in that the agent may use a tool that it asked about, or may not.
    pub(crate) fn decided(&mut self, ask: &Ask, allows: bool, ts: &str) -> Option<Body> {
        let used = self.meant(ask)?;
        used.is_asked = false;
        used.is_denied = !allows;
        if !allows {
            return None;
        }
        used.since = millis(ts);
        used.is_running = true;
        Some(running(used))
    }

    /// Takes in that somebody is asked about a tool.
    pub(crate) fn asked(&mut self, ask: &Ask) {
        if let Some(used) = self.meant(ask) {
            used.is_asked = true;
        }
    }

    /// Returns the use of a tool that an ask is about: with the same input, the same command, or else the oldest.
    fn meant(&mut self, ask: &Ask) -> Option<&mut Used> {
        let command = |input: &Option<Value>| input.as_ref().and_then(|input| input.get("command")).cloned();
        let asked = command(&ask.input);
        let unlike = |used: &Used| match () {
            () if used.input == ask.input => 0,
            () if asked.is_some() && command(&used.input) == asked => 1,
            () => 2,
        };
        let open = self.tools.iter_mut().map(|(_, used)| used).filter(|used| !used.is_running && !used.is_denied);
        // An agent may call the leave for a tool otherwise than the tool.
        let asked_for = [ask.tool.clone().unwrap_or_default()];
        open.filter(|used| coop_policy::touches(&used.tool, &asked_for)).min_by_key(|used| unlike(used))
    }

    /// Tells whether a tool is at work: one that has begun, and that nobody is asked about any more.
    pub(crate) fn is_at_work(&self) -> bool {
        self.tools.iter().any(|(_, used)| !used.is_asked && !used.is_denied)
    }

    pub(super) fn tool(&mut self, used: &ToolUse, ts: &str) -> Vec<Body> {
        let mut bodies: Vec<_> = self.child(used.subagent.as_deref()).into_iter().collect();
        let at = millis(ts);
        match used.phase {
            ToolPhase::Requested => {
                let begun = Used {
                    id: Uuid::new_v4().to_string(),
                    tool: used.tool.clone(),
                    input: used.input.clone(),
                    is_child: used.subagent.is_some(),
                    since: at,
                    is_running: false,
                    is_asked: false,
                    is_denied: false,
                };
                let input = used.input.as_ref().map(object);
                bodies.push(Body::ToolCall(ToolCall { input, ..call(&begun, Phase::Requested) }));
                bodies.extend(progress(used));
                self.tools.push((used.id.clone(), begun));
            }
            ToolPhase::Running => {
                let mut known = self.tools.iter_mut().filter(|(id, _)| *id == used.id).map(|(_, begun)| begun);
                if let Some(begun) = known.find(|begun| !begun.is_running) {
                    begun.is_running = true;
                    bodies.push(running(begun));
                }
            }
            ToolPhase::Completed | ToolPhase::Failed => {
                let unknown = || Used {
                    id: Uuid::new_v4().to_string(),
                    tool: used.tool.clone(),
                    input: None,
                    is_child: used.subagent.is_some(),
                    since: None,
                    is_running: true,
                    is_asked: false,
                    is_denied: false,
                };
                let at_work = self.tools.iter().position(|(id, _)| *id == used.id);
                let begun = at_work.map_or_else(unknown, |at| self.tools.remove(at).1);
                // It ran, and nothing told when it began to.
                if !begun.is_running && !begun.is_denied {
                    bodies.push(running(&begun));
                }
                let is_done = used.phase == ToolPhase::Completed;
                let took = used.duration_ms.or_else(|| Some(at?.saturating_sub(begun.since?)));
                bodies.push(Body::ToolCall(ToolCall {
                    output: used.output.as_ref().filter(|output| !output.is_null()).map(bounded),
                    duration_ms: took,
                    ..call(&begun, if is_done { Phase::Completed } else { Phase::Failed })
                }));
                // A sub-agent is done when the tool is that began it. Some are called as that use of it is.
                if !begun.is_child && is_delegating(&begun.tool) {
                    let others = self.tools.iter().any(|(_, used)| is_delegating(&used.tool));
                    let gone: Vec<_> = match self.children.take(&used.id) {
                        Some(child) => vec![child],
                        None if others => vec![],
                        None => self.children.drain().collect(),
                    };
                    bodies.extend(gone.iter().map(|child| self.delegation(DelegationAction::Returned, child)));
                }
            }
        }
        bodies
    }

    /// Tells of a sub-agent when it is first heard of.
    pub(super) fn child(&mut self, child: Option<&str>) -> Option<Body> {
        let child = child?;
        let is_new = self.children.insert(child.to_owned());
        is_new.then(|| self.delegation(DelegationAction::Spawned, child))
    }

    pub(super) fn delegation(&self, action: DelegationAction, child: &str) -> Body {
        Body::Delegation(Delegation {
            action,
            child_agent_id: child.to_owned(),
            child_role: "subagent".to_owned(),
            reason: "the agent handed a part of its task to a sub-agent".to_owned(),
            delegation_depth: 1,
            root_agent_id: self.agent_id.clone(),
        })
    }
}

fn call(used: &Used, phase: Phase) -> ToolCall {
    ToolCall {
        tool_call_id: used.id.clone(),
        tool_name: used.tool.clone(),
        phase,
        approved: !used.is_denied,
        input: None,
        output: None,
        duration_ms: None,
    }
}

fn running(used: &Used) -> Body {
    Body::ToolCall(call(used, Phase::Running))
}

/// Tells how far a list of things to do is.
fn progress(used: &ToolUse) -> Option<Body> {
    let input = used.input.as_ref()?;
    let items = input["todos"].as_array().or_else(|| input["plan"].as_array())?;
    let done = items.iter().filter(|item| item["status"] == "completed").count();
    Some(Body::Progress {
        operation_id: "todo".to_owned(),
        description: format!("Todo: {done}/{} completed", items.len()),
        progress_pct: (!items.is_empty()).then(|| (done * 100 / items.len()) as f64),
    })
}

fn is_delegating(tool: &str) -> bool {
    matches!(tool, "Task" | "Agent" | "task")
}

/// Returns what a tool gave, if need be only its beginning: a frame has to fit into a message.
fn bounded(output: &Value) -> Value {
    const MOST: usize = 64 * 1024;
    let text = match output {
        Value::String(text) if text.len() <= MOST => return output.clone(),
        Value::String(text) => text.clone(),
        other => match other.to_string() {
            text if text.len() <= MOST => return output.clone(),
            text => text,
        },
    };
    let kept = String::from_utf8_lossy(&text.as_bytes()[..MOST]);
    Value::String(format!("{kept}\n[{} bytes in all]", text.len()))
}

fn object(input: &Value) -> Map<String, Value> {
    match input {
        Value::Object(input) => input.clone(),
        other => Map::from_iter([("input".to_owned(), other.clone())]),
    }
}

fn millis(ts: &str) -> Option<u64> {
    let since = humantime::parse_rfc3339(ts).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}
