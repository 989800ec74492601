//! What happens to the agent, in the protocol's words. Pure: events go in, bodies come out.

use std::collections::{BTreeMap, HashMap, HashSet};

use coop_api::{Artifact, Ask, Event, EventBody, FaultKind, FaultReport, Role, ToolUse, Turn, TurnOutcome, Usage};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::prompt::cut;
use super::types::{
    ArtifactEvent, ArtifactKind, ArtifactStatus, Body, Category, Delegation, DelegationAction, Outcome, Phase,
    Provenance, Severity, ToolCall,
};

/// How long a text in an event is, in characters.
const TEXT: usize = 500;
/// Nobody has looked at it yet.
const QUALITY: f64 = 0.5;

/// Turns an agent's events into the protocol's.
#[derive(Debug)]
pub(crate) struct Mapper {
    agent_id: String,
    workstream: String,
    tools: HashMap<String, Used>,
    /// The artifacts by their paths, with when they were first written.
    artifacts: BTreeMap<String, (String, String)>,
    children: HashSet<String>,
    turns: u32,
    usage: Option<Usage>,
    last_words: Option<String>,
    last_fault: Option<String>,
}

/// A use of a tool that has begun.
#[derive(Debug)]
struct Used {
    id: String,
    tool: String,
    input: Option<Value>,
    is_child: bool,
    /// When it began, or was allowed to, in milliseconds.
    since: Option<u64>,
    is_running: bool,
    is_denied: bool,
}

/// How a turn ended, for the end of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<String>,
}

impl Mapper {
    pub(crate) fn new(agent_id: &str, workstream: &str) -> Self {
        Self {
            agent_id: agent_id.to_owned(),
            workstream: workstream.to_owned(),
            tools: HashMap::new(),
            artifacts: BTreeMap::new(),
            children: HashSet::new(),
            turns: 0,
            usage: None,
            last_words: None,
            last_fault: None,
        }
    }

    /// Files written from now on belong to this workstream.
    pub(crate) fn set_workstream(&mut self, workstream: &str) {
        workstream.clone_into(&mut self.workstream);
    }

    /// Returns what an event is in the protocol's words. Asks and the process are not for it.
    pub(crate) fn map(&mut self, event: &Event) -> Vec<Body> {
        match &event.body {
            EventBody::Turn(turn) => self.turn(turn),
            EventBody::Message(message) if message.role == Role::Assistant => {
                let child = self.child(message.subagent.as_deref());
                if message.subagent.is_none() {
                    self.last_words = Some(message.text.clone());
                }
                child.into_iter().chain([status(&message.text)]).collect()
            }
            EventBody::Tool(used) => self.tool(used, &event.ts),
            EventBody::Artifact(artifact) => vec![self.artifact(artifact, &event.ts)],
            EventBody::Usage(report) => {
                self.usage = Some(report.turn);
                vec![]
            }
            EventBody::Fault(report) => {
                if report.retry.is_none() {
                    self.last_fault = Some(report.fault.message.clone());
                }
                vec![fault(report)]
            }
            EventBody::Message(_)
            | EventBody::State(_)
            | EventBody::Ask(_)
            | EventBody::Stop(_)
            | EventBody::Delivery(_)
            | EventBody::Lifecycle(_) => vec![],
        }
    }

    /// Takes in that the agent may use a tool that it asked about, or may not.
    pub(crate) fn decided(&mut self, ask: &Ask, allows: bool, ts: &str) -> Option<Body> {
        let open = self.tools.values_mut().filter(|used| !used.is_running && !used.is_denied);
        let (same, others): (Vec<_>, Vec<_>) =
            open.filter(|used| ask.tool.as_deref() == Some(&used.tool)).partition(|used| used.input == ask.input);
        let used = same.into_iter().chain(others).next()?;
        used.is_denied = !allows;
        if !allows {
            return None;
        }
        used.since = millis(ts);
        used.is_running = true;
        Some(running(used))
    }

    /// Tells whether a tool is at work that nobody is asked about.
    pub(crate) fn is_at_work(&self) -> bool {
        self.tools.values().any(|used| used.is_running)
    }

    /// Returns what the run came to, given how its last turn ended.
    pub(crate) fn ending(&self, outcome: TurnOutcome) -> Ending {
        let unfinished = if self.artifacts.is_empty() { Outcome::Abandoned } else { Outcome::Partial };
        match outcome {
            TurnOutcome::Completed => Ending { outcome: Outcome::Success, reason: None },
            TurnOutcome::Interrupted => Ending { outcome: unfinished, reason: Some("interrupted".to_owned()) },
            TurnOutcome::Failed => {
                let reason = self.last_fault.clone();
                // Claude Code has a fault for it like for everything else, and says so only in words.
                let is_limit = reason.as_deref().is_some_and(|reason| reason.contains("maximum number of turns"));
                Ending { outcome: if is_limit { Outcome::MaxTurns } else { unfinished }, reason }
            }
        }
    }

    /// Returns the last event of a run that came to its end.
    pub(crate) fn completion(&self, ending: Ending) -> Body {
        let words = self.last_words.clone().or_else(|| ending.reason.clone());
        Body::Completion {
            summary: cut(&words.unwrap_or_else(|| "The agent said nothing.".to_owned()), TEXT),
            artifacts_produced: self.artifacts.values().map(|(id, _)| id.clone()).collect(),
            decisions_needed: vec![],
            outcome: ending.outcome,
            reason: ending.reason.map(|reason| cut(&reason, TEXT)),
        }
    }

    fn turn(&mut self, turn: &Turn) -> Vec<Body> {
        match turn {
            Turn::Began { .. } => {
                self.turns += 1;
                self.last_fault = None;
                vec![status(&format!("Turn {} started", self.turns))]
            }
            Turn::Ended { .. } => {
                // What a sub-agent has not finished it will not finish.
                let returned: Vec<_> = self.children.drain().collect();
                let returned = returned.iter().map(|child| self.delegation(DelegationAction::Returned, child));
                let mut bodies: Vec<_> = returned.collect();
                self.tools.clear();
                bodies.extend(self.usage.take().map(|used| {
                    let read = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens;
                    status(&format!("Turn completed (in: {read}, out: {} tokens)", used.output_tokens))
                }));
                bodies
            }
        }
    }

    fn tool(&mut self, used: &ToolUse, ts: &str) -> Vec<Body> {
        let mut bodies: Vec<_> = self.child(used.subagent.as_deref()).into_iter().collect();
        let at = millis(ts);
        match used.phase {
            coop_api::ToolPhase::Requested => {
                let begun = Used {
                    id: Uuid::new_v4().to_string(),
                    tool: used.tool.clone(),
                    input: used.input.clone(),
                    is_child: used.subagent.is_some(),
                    since: at,
                    is_running: false,
                    is_denied: false,
                };
                let input = used.input.as_ref().map(object);
                bodies.push(Body::ToolCall(ToolCall { input, ..call(&begun, Phase::Requested) }));
                bodies.extend(progress(used));
                self.tools.insert(used.id.clone(), begun);
            }
            coop_api::ToolPhase::Running => {
                if let Some(begun) = self.tools.get_mut(&used.id).filter(|begun| !begun.is_running) {
                    begun.is_running = true;
                    bodies.push(running(begun));
                }
            }
            coop_api::ToolPhase::Completed | coop_api::ToolPhase::Failed => {
                let unknown = || Used {
                    id: Uuid::new_v4().to_string(),
                    tool: used.tool.clone(),
                    input: None,
                    is_child: used.subagent.is_some(),
                    since: None,
                    is_running: true,
                    is_denied: false,
                };
                let begun = self.tools.remove(&used.id).unwrap_or_else(unknown);
                // It ran, and nothing told when it began to.
                if !begun.is_running && !begun.is_denied {
                    bodies.push(running(&begun));
                }
                let is_done = used.phase == coop_api::ToolPhase::Completed;
                let took = used.duration_ms.or_else(|| Some(at?.saturating_sub(begun.since?)));
                bodies.push(Body::ToolCall(ToolCall {
                    output: used.output.clone().filter(|output| !output.is_null()),
                    duration_ms: took,
                    ..call(&begun, if is_done { Phase::Completed } else { Phase::Failed })
                }));
                // A sub-agent is done when the tool is that began it.
                if !begun.is_child && is_delegating(&begun.tool) {
                    let gone: Vec<_> = self.children.drain().collect();
                    bodies.extend(gone.iter().map(|child| self.delegation(DelegationAction::Returned, child)));
                }
            }
        }
        bodies
    }

    /// Tells of a sub-agent when it is first heard of.
    fn child(&mut self, child: Option<&str>) -> Option<Body> {
        let child = child?;
        let is_new = self.children.insert(child.to_owned());
        is_new.then(|| self.delegation(DelegationAction::Spawned, child))
    }

    fn delegation(&self, action: DelegationAction, child: &str) -> Body {
        Body::Delegation(Delegation {
            action,
            child_agent_id: child.to_owned(),
            child_role: "subagent".to_owned(),
            reason: "the agent handed a part of its task to a sub-agent".to_owned(),
            delegation_depth: 1,
            root_agent_id: self.agent_id.clone(),
        })
    }

    fn artifact(&mut self, artifact: &Artifact, ts: &str) -> Body {
        let is_known = self.artifacts.contains_key(&artifact.path);
        let new = || (Uuid::new_v4().to_string(), ts.to_owned());
        let (id, created_at) = self.artifacts.entry(artifact.path.clone()).or_insert_with(new).clone();
        Body::Artifact(Box::new(ArtifactEvent {
            artifact_id: id,
            name: artifact.path.rsplit('/').next().unwrap_or(&artifact.path).to_owned(),
            kind: kind(&artifact.artifact_kind),
            workstream: self.workstream.clone(),
            status: ArtifactStatus::Draft,
            quality_score: QUALITY,
            provenance: Provenance {
                created_by: self.agent_id.clone(),
                created_at,
                modified_at: is_known.then(|| ts.to_owned()),
                source_path: Some(artifact.path.clone()),
            },
            uri: Some(artifact.path.clone()),
            mime_type: Some(mime(&artifact.path).to_owned()),
            size_bytes: None,
        }))
    }
}

pub(crate) fn status(text: &str) -> Body {
    Body::Status { message: cut(text, TEXT) }
}

/// Returns an error that nothing can be done about.
pub(crate) fn failure(severity: Severity, message: &str) -> Body {
    Body::Error {
        severity,
        message: cut(message, TEXT),
        recoverable: false,
        category: Category::Internal,
        error_code: None,
    }
}

fn fault(report: &FaultReport) -> Body {
    let category = match report.fault.kind {
        FaultKind::RateLimit | FaultKind::Auth | FaultKind::Overload | FaultKind::Network => Category::Provider,
        FaultKind::Request => Category::Model,
        FaultKind::Other => Category::Internal,
    };
    let is_retried = report.retry.is_some();
    let passes = matches!(report.fault.kind, FaultKind::RateLimit | FaultKind::Overload | FaultKind::Network);
    Body::Error {
        severity: if is_retried { Severity::Warning } else { Severity::High },
        message: cut(&report.fault.message, TEXT),
        recoverable: is_retried || passes,
        category,
        error_code: report.fault.status.map(|status| status.to_string()),
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

fn object(input: &Value) -> Map<String, Value> {
    match input {
        Value::Object(input) => input.clone(),
        other => Map::from_iter([("input".to_owned(), other.clone())]),
    }
}

fn kind(name: &str) -> ArtifactKind {
    match name {
        "code" => ArtifactKind::Code,
        "document" => ArtifactKind::Document,
        "design" => ArtifactKind::Design,
        "config" => ArtifactKind::Config,
        "test" => ArtifactKind::Test,
        _ => ArtifactKind::Other,
    }
}

fn mime(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "md" => "text/markdown",
        "json" => "application/json",
        "html" => "text/html",
        "png" => "image/png",
        "pdf" => "application/pdf",
        "ts" | "js" | "py" | "rs" | "go" | "java" | "tsx" | "jsx" | "txt" | "rst" | "yaml" | "yml" | "toml" | "ini"
        | "cfg" | "sh" | "css" => "text/plain",
        _ => "application/octet-stream",
    }
}

fn millis(ts: &str) -> Option<u64> {
    let since = humantime::parse_rfc3339(ts).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

#[cfg(test)]
mod tests;
