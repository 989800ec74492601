//! What happens to the agent, in the protocol's words. Pure: events go in, bodies come out.

mod tools;

use std::collections::{BTreeMap, HashSet};

use coop_api::{Artifact, Event, EventBody, FaultKind, FaultReport, Role, Turn, TurnOutcome, Usage};
use uuid::Uuid;

use self::tools::Used;
use super::prompt::cut;
use super::types::{
    ArtifactEvent, ArtifactKind, ArtifactStatus, Body, Category, DelegationAction, Outcome, Provenance, Severity,
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
    /// The uses of tools that have begun, the oldest first, by the agent's names for them.
    tools: Vec<(String, Used)>,
    /// The artifacts by their paths, with when they were first written.
    artifacts: BTreeMap<String, (String, String)>,
    children: HashSet<String>,
    turns: u32,
    usage: Option<Usage>,
    last_words: Option<String>,
    last_fault: Option<String>,
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
            tools: Vec::new(),
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

#[cfg(test)]
mod tests;
