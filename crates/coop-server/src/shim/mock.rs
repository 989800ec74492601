//! A scripted run, for those who try out what is at the other end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::ring::{Journal, RunId, now};
use super::types::{
    AgentStatus, ArtifactEvent, ArtifactKind, ArtifactStatus, BlastRadius, Body, Decision, DecisionOption,
    LifecycleAction, Outcome, Phase, Provenance, Severity, ToolCall,
};

/// Which of the two scripts of the public shims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    Claude,
    OpenAi,
}

impl Script {
    pub(crate) fn plugin(self) -> &'static str {
        match self {
            Self::Claude => "claude-mock",
            Self::OpenAi => "openai-mock",
        }
    }
}

/// A scripted run.
pub(crate) struct Mock {
    journal: Arc<Journal>,
    run: RunId,
    agent_id: String,
    steps: Vec<(u64, Body)>,
    state: Mutex<State>,
    /// Wakes the script when a decision is made, and when it is to end.
    changed: Notify,
}

struct State {
    position: usize,
    status: AgentStatus,
    pending: Option<String>,
    is_stopped: bool,
}

impl Mock {
    /// Begins the script, or goes on with it; what was not decided is asked again.
    pub(crate) fn start(
        journal: Arc<Journal>,
        run: RunId,
        script: Script,
        agent_id: &str,
        workstream: &str,
        from: Option<(usize, bool)>,
    ) -> Arc<Self> {
        let mut steps = match script {
            Script::Claude => claude(agent_id, workstream),
            Script::OpenAi => open_ai(agent_id, workstream),
        };
        let mut position = 0;
        if let Some((at, was_waiting)) = from {
            // The first event is the start; the last one of a run that waited is the decision.
            let done = at.saturating_sub(usize::from(was_waiting)).max(1);
            // One that was at its end begins again, for its next task.
            position = if done < steps.len() { done } else { 1 };
            steps[position - 1] = (0, lifecycle(LifecycleAction::Resumed));
            position -= 1;
        }
        let state = State { position, status: AgentStatus::Running, pending: None, is_stopped: false };
        let mock = Arc::new(Self {
            journal,
            run,
            agent_id: agent_id.to_owned(),
            steps,
            state: Mutex::new(state),
            changed: Notify::new(),
        });
        mock.step();
        tokio::spawn(Arc::clone(&mock).play());
        mock
    }

    async fn play(self: Arc<Self>) {
        loop {
            let (delay, waits) = {
                let state = self.lock();
                let Some((delay, _)) = self.steps.get(state.position).filter(|_| !state.is_stopped) else { return };
                (*delay, state.pending.is_some())
            };
            if waits {
                self.changed.notified().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(delay)) => self.step(),
                () = self.changed.notified() => {}
            }
        }
    }

    fn step(&self) {
        let mut state = self.lock();
        let Some((_, body)) = self.steps.get(state.position).filter(|_| !state.is_stopped) else { return };
        state.position += 1;
        match body {
            Body::Decision(decision) => {
                state.pending = Some(id_of(decision).to_owned());
                state.status = AgentStatus::WaitingOnHuman;
            }
            Body::Completion { .. } => state.status = AgentStatus::Completed,
            _ => {}
        }
        self.journal.tell(&self.run, &self.agent_id, body.clone());
    }

    /// Goes on, whatever was decided; tells whether it waited for that.
    pub(crate) fn resolve(&self, id: &str) -> bool {
        let mut state = self.lock();
        if state.is_stopped || state.pending.as_deref() != Some(id) {
            return false;
        }
        state.pending = None;
        state.status = AgentStatus::Running;
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Ends the script, unless it has ended.
    pub(crate) fn stop(&self, status: AgentStatus, body: Body) {
        let mut state = self.lock();
        state.is_stopped = true;
        if !self.journal.is_over(&self.run) {
            state.status = status;
            self.journal.tell(&self.run, &self.agent_id, body);
        }
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn status(&self) -> AgentStatus {
        self.lock().status
    }

    pub(crate) fn position(&self) -> u64 {
        self.lock().position as u64
    }

    pub(crate) fn pending(&self) -> Vec<String> {
        self.lock().pending.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn id_of(decision: &Decision) -> &str {
    match decision {
        Decision::ToolApproval { decision_id, .. } | Decision::Option { decision_id, .. } => decision_id,
    }
}

fn open_ai(agent_id: &str, workstream: &str) -> Vec<(u64, Body)> {
    let search = Uuid::new_v4().to_string();
    let input = || Some(object(json!({ "query": "relevant files" })));
    let found = Some(json!({ "files": ["src/main.ts", "src/utils.ts"] }));
    let decision = Decision::ToolApproval {
        decision_id: Uuid::new_v4().to_string(),
        tool_name: "execute_code".to_owned(),
        tool_args: object(json!({ "code": "print('hello')" })),
        severity: Severity::Medium,
        confidence: Some(0.85),
        blast_radius: BlastRadius::Small,
        affected_artifact_ids: vec![],
    };
    let report = artifact(agent_id, workstream, "report.md", ArtifactKind::Document, 0.9, "text/markdown", 1024);
    let done = completion("The task is done.", &report);
    vec![
        (0, lifecycle(LifecycleAction::Started)),
        (100, status("Starting task...")),
        (100, tool("file_search", &search, Phase::Requested, input(), None, None)),
        (50, tool("file_search", &search, Phase::Running, None, None, None)),
        (100, tool("file_search", &search, Phase::Completed, None, found, Some(150))),
        (50, Body::Decision(Box::new(decision))),
        (0, Body::Artifact(Box::new(report))),
        (50, done),
    ]
}

fn claude(agent_id: &str, workstream: &str) -> Vec<(u64, Body)> {
    let [read, edit] = [(); 2].map(|()| Uuid::new_v4().to_string());
    let file = |path: &str| Some(object(json!({ "file_path": path })));
    let option = |id: &str, label: &str, description: &str| DecisionOption {
        id: id.to_owned(),
        label: label.to_owned(),
        description: description.to_owned(),
        tradeoffs: None,
    };
    let decision = Decision::Option {
        decision_id: Uuid::new_v4().to_string(),
        title: "Choose how the pipeline is built".to_owned(),
        summary: "There are three ways to build it.".to_owned(),
        severity: Severity::Medium,
        confidence: 0.75,
        blast_radius: BlastRadius::Medium,
        options: vec![
            option("option-1", "One after another", "Simple, and slow"),
            option("option-2", "All at once", "Fast, and hard to follow"),
            option("option-3", "In stages", "Fast enough, and easy to follow"),
        ],
        recommended_option_id: Some("option-3".to_owned()),
        affected_artifact_ids: vec![],
        requires_rationale: true,
    };
    let pipeline = artifact(agent_id, workstream, "pipeline.ts", ArtifactKind::Code, 0.85, "text/typescript", 2048);
    let done = completion("The pipeline is built.", &pipeline);
    vec![
        (0, lifecycle(LifecycleAction::Started)),
        (50, status("Analyzing codebase...")),
        (50, tool("Read", &read, Phase::Requested, file("src/index.ts"), None, None)),
        (30, tool("Read", &read, Phase::Running, None, None, None)),
        (60, tool("Read", &read, Phase::Completed, None, Some(json!("export {};")), Some(90))),
        (30, status("Planning implementation...")),
        (50, tool("Edit", &edit, Phase::Requested, file("src/pipeline.ts"), None, None)),
        (30, tool("Edit", &edit, Phase::Completed, None, Some(json!("edited")), Some(45))),
        (30, Body::Decision(Box::new(decision))),
        (0, Body::Artifact(Box::new(pipeline))),
        (30, done),
    ]
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn lifecycle(action: LifecycleAction) -> Body {
    Body::Lifecycle { action, reason: None }
}

fn status(message: &str) -> Body {
    Body::Status { message: message.to_owned() }
}

fn tool(
    name: &str,
    id: &str,
    phase: Phase,
    input: Option<Map<String, Value>>,
    output: Option<Value>,
    duration_ms: Option<u64>,
) -> Body {
    let (tool_call_id, tool_name) = (id.to_owned(), name.to_owned());
    Body::ToolCall(ToolCall { tool_call_id, tool_name, phase, approved: true, input, output, duration_ms })
}

fn artifact(
    agent_id: &str,
    workstream: &str,
    name: &str,
    kind: ArtifactKind,
    quality: f64,
    mime: &str,
    size: u64,
) -> ArtifactEvent {
    ArtifactEvent {
        artifact_id: Uuid::new_v4().to_string(),
        name: name.to_owned(),
        kind,
        workstream: workstream.to_owned(),
        status: ArtifactStatus::Draft,
        quality_score: quality,
        provenance: Provenance {
            created_by: agent_id.to_owned(),
            created_at: now(),
            modified_at: None,
            source_path: None,
        },
        uri: Some(name.to_owned()),
        mime_type: Some(mime.to_owned()),
        size_bytes: Some(size),
    }
}

fn completion(summary: &str, artifact: &ArtifactEvent) -> Body {
    Body::Completion {
        summary: summary.to_owned(),
        artifacts_produced: vec![artifact.artifact_id.clone()],
        decisions_needed: vec![],
        outcome: Outcome::Success,
        reason: None,
    }
}
