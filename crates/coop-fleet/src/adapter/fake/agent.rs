//! One agent in memory.

use coop_api::{
    AgentId, AgentState, Ask, AskChange, AskChannel, AskId, AskKind, Epoch, Event, EventBody, Evidence, EvidenceSource,
    Fault, FaultKind, Offset, Seq, StateChange, StopOutcome, StopVerdict,
};
use tokio::sync::mpsc;

use crate::Fact;
use crate::engine::StopMode;

#[derive(Debug)]
pub(super) struct FakeAgent {
    pub(super) sidecar: String,
    pub(super) facts: mpsc::Sender<Fact>,
    pub(super) log: Vec<Event>,
    pub(super) state: AgentState,
    pub(super) ask: Option<AskId>,
    pub(super) asks: u32,
    pub(super) held: bool,
    /// How it ends its turns, if it tells of that.
    pub(super) stop: Option<StopMode>,
    pub(super) last_message: Option<String>,
    pub(super) said: Vec<String>,
}

impl FakeAgent {
    pub(super) fn record(&mut self, agent: &AgentId, body: EventBody) -> Fact {
        let seq = Seq(self.log.len() as u64 + 1);
        let event = Event {
            seq,
            id: format!("{}-{seq}", self.sidecar),
            ts: "1970-01-01T00:00:00Z".to_owned(),
            agent: AgentId(self.sidecar.clone()),
            run: Epoch(1),
            offset: Offset(0),
            body,
        };
        self.log.push(event.clone());
        Fact::heard(agent, &self.sidecar, event)
    }

    pub(super) fn become_(&mut self, next: AgentState) -> Vec<EventBody> {
        let evidence = Evidence { source: EvidenceSource::Control, detail: "it was told to".to_owned() };
        let last_message = if next == AgentState::Idle { self.last_message.clone() } else { None };
        let prev = std::mem::replace(&mut self.state, next.clone());
        vec![EventBody::State(Box::new(StateChange {
            prev,
            next,
            screen_seq: Seq(0),
            evidence,
            ask: None,
            last_message,
        }))]
    }

    /// Ends the turn, or is held.
    fn stop(&mut self) -> Vec<EventBody> {
        let told = |outcome| EventBody::Stop(StopOutcome { outcome, reason: None });
        let mut bodies = match self.stop {
            None => Vec::new(),
            Some(StopMode::Allow | StopMode::Auto) => vec![told(StopVerdict::Allowed)],
            Some(StopMode::Gate) => {
                self.held = true;
                return vec![told(StopVerdict::Blocked)];
            }
        };
        bodies.extend(self.become_(AgentState::Idle));
        bodies
    }

    pub(super) fn close_ask(&mut self, why: &str) -> Vec<EventBody> {
        let withdrawn = |ask| EventBody::Ask(AskChange::Withdrawn { ask, why: why.to_owned() });
        self.ask.take().map(withdrawn).into_iter().collect()
    }

    /// Says what was said to it, after asking if that is in it.
    pub(super) fn obey(&mut self, message: &str) -> Vec<EventBody> {
        self.said.push(message.to_owned());
        let mut bodies = self.become_(AgentState::Working { tool: None });
        if let Some((_, command)) = message.split_once("[[bash:") {
            let command = command.split("]]").next().unwrap_or_default().to_owned();
            self.asks += 1;
            let id = AskId(format!("ask-{}", self.asks));
            self.ask = Some(id.clone());
            bodies.push(EventBody::Ask(AskChange::Opened { ask: Box::new(permission(id.clone(), command)) }));
            bodies.extend(self.become_(AgentState::Waiting { ask: id, kind: AskKind::Permission }));
        } else if let Some((_, status)) = message.split_once("[[err:") {
            let kind = if status.starts_with("401") { FaultKind::Auth } else { FaultKind::Other };
            let fault = Fault { kind, message: message.to_owned(), status: None, until: None };
            bodies.extend(self.become_(AgentState::Blocked { fault }));
        } else {
            let answer = message.strip_prefix("[[text:").and_then(|rest| rest.strip_suffix("]]")).unwrap_or(message);
            self.last_message = Some(answer.to_owned());
            bodies.extend(self.stop());
        }
        bodies
    }
}

fn permission(id: AskId, command: String) -> Ask {
    Ask {
        id,
        kind: AskKind::Permission,
        tool: Some("Bash".to_owned()),
        input: Some(serde_json::json!({ "command": command })),
        preview: command,
        questions: Vec::new(),
        options: Vec::new(),
        opened: "1970-01-01T00:00:00Z".to_owned(),
        channel: AskChannel::Structured,
        screen_lines: Vec::new(),
    }
}
