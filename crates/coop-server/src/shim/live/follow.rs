//! What the agent does, told as it happens.

use std::sync::{Arc, PoisonError};

use coop_api::{
    AgentState, Agents, Ask, AskChange, AskKind, ErrorCode, Event, EventBody, Lifecycle, Reply, Request, Seq, Turn,
    TurnOutcome,
};

use super::super::decisions::allowing;
use super::super::host::{Host, Written};
use super::super::map::{Ending, failure, status};
use super::super::policy::Verdict;
use super::super::ring::now;
use super::super::types::{ArtifactEvent, Body, Outcome, Severity};
use super::Live;

impl<H: Host> Live<H> {
    pub(super) async fn follow(self: Arc<Self>) {
        let mut pulse = self.feed.pulse.clone();
        let mut cursor = Seq::default();
        loop {
            let newest = pulse.borrow_and_update().events;
            if newest > cursor {
                let Ok(Reply::Events(page)) = self.agent.call(&self.id, Request::Events(cursor)).await else { break };
                let has_lagged = page.lagged.is_some();
                if let Some((first, last)) = page.lagged {
                    let gone = format!("events {first} to {last} of the agent came too fast and are gone");
                    self.tell(failure(Severity::Warning, &gone));
                    self.catch_up().await;
                }
                cursor = newest.max(page.events.last().map_or(cursor, |event| event.seq));
                for event in page.events {
                    self.take(&event).await;
                    self.seen.send_modify(|seen| *seen += 1);
                }
                if has_lagged && self.rests().await {
                    self.turn_ended(Ending { outcome: Outcome::Success, reason: None }).await;
                }
            } else if pulse.changed().await.is_err() {
                break;
            }
        }
        self.gone("the session is over").await;
    }

    async fn take(self: &Arc<Self>, event: &Event) {
        let bodies = self.lock().mapper.map(event);
        for body in bodies {
            match body {
                Body::Artifact(artifact) => self.publish(*artifact, &event.ts),
                body => self.tell_at(body, &event.ts),
            }
        }
        match &event.body {
            EventBody::Ask(change) => self.asked(change, &event.ts),
            EventBody::Turn(Turn::Began { .. }) => self.lock().has_begun = true,
            // It is told of when the end of the process is.
            EventBody::Turn(Turn::Ended { outcome }) if *outcome != TurnOutcome::Completed && self.is_dead().await => {}
            EventBody::Turn(Turn::Ended { outcome }) => {
                let ending = {
                    let state = self.lock();
                    (state.has_begun && !state.is_stopping).then(|| state.mapper.ending(*outcome))
                };
                if let Some(ending) = ending {
                    self.turn_ended(ending).await;
                }
            }
            EventBody::State(change) => {
                // One that cannot even begin, such as with a conversation that is not there, takes no message.
                let has_not_begun = {
                    let state = self.lock();
                    !state.has_begun && !state.is_stopping
                };
                if let (true, AgentState::Blocked { fault }) = (has_not_begun, &change.next) {
                    let reason = Some(fault.message.clone());
                    self.complete(Ending { outcome: Outcome::Abandoned, reason }).await;
                }
            }
            EventBody::Lifecycle(Lifecycle::Session { id }) => self.lock().session_id = Some(id.clone()),
            EventBody::Lifecycle(Lifecycle::Exited { code, signal }) => {
                self.gone(&match (code, signal) {
                    (Some(code), _) => format!("Exit code {code}"),
                    (None, Some(signal)) => format!("Signal {signal}"),
                    (None, None) => "It is gone".to_owned(),
                })
                .await;
            }
            EventBody::Lifecycle(
                Lifecycle::Started { .. }
                | Lifecycle::PermissionMode { .. }
                | Lifecycle::Resized { .. }
                | Lifecycle::Stopping
                | Lifecycle::Unrecorded { .. },
            )
            | EventBody::Message(_)
            | EventBody::Tool(_)
            | EventBody::Artifact(_)
            | EventBody::Usage(_)
            | EventBody::Fault(_)
            | EventBody::Stop(_)
            | EventBody::Delivery(_) => {}
        }
    }

    /// Takes in what is asked after events were lost that might have told of it.
    async fn catch_up(self: &Arc<Self>) {
        let Ok(Reply::Asks(asks)) = self.agent.call(&self.id, Request::Asks).await else { return };
        let known: Vec<_> = self.lock().answers.iter().map(|(ask, _)| ask.id.clone()).collect();
        for id in known.iter().filter(|id| asks.iter().all(|ask| ask.id != **id)) {
            self.asked(&AskChange::Withdrawn { ask: id.clone(), why: "it is asked no longer".to_owned() }, &now());
        }
        for ask in asks.into_iter().filter(|ask| !known.contains(&ask.id)) {
            self.asked(&AskChange::Opened { ask: Box::new(ask) }, &now());
        }
    }

    /// Tells whether the agent is done with what it was told, and nobody has heard of that.
    async fn rests(&self) -> bool {
        let state = self.agent.call(&self.id, Request::AgentState).await;
        let is_idle = matches!(state, Ok(Reply::AgentState(report)) if report.state == AgentState::Idle);
        let state = self.lock();
        is_idle && state.has_begun && !state.is_stopping
    }

    /// Brings a file that was written to the backend, and tells of it: one after another, and beside all else that
    /// happens.
    fn publish(self: &Arc<Self>, mut artifact: ArtifactEvent, ts: &str) {
        let (run, ts) = (Arc::clone(self), ts.to_owned());
        let mut state = self.lock();
        let before = state.publishing.take();
        state.publishing = Some(tokio::spawn(async move {
            if let Some(before) = before {
                // One that fails says so itself.
                let _ = before.await;
            }
            let file = Written {
                agent_id: run.agent_id(),
                artifact_id: artifact.artifact_id.clone(),
                path: artifact.provenance.source_path.clone().unwrap_or_default(),
                mime_type: artifact.mime_type.clone().unwrap_or_default(),
            };
            let published = run.host.publish(file).await;
            artifact.size_bytes = published.size;
            if published.uri.is_some() {
                artifact.uri = published.uri;
                run.lock().published += 1;
            }
            run.tell_at(Body::Artifact(Box::new(artifact)), &ts);
        }));
    }

    /// Waits until all files that were written are told of.
    pub(super) async fn all_published(&self) {
        let publishing = self.lock().publishing.take();
        if let Some(publishing) = publishing {
            let _ = publishing.await;
        }
    }

    /// Tells whether a turn ended because the agent's process did.
    async fn is_dead(&self) -> bool {
        match self.agent.call(&self.id, Request::AgentState).await {
            Ok(Reply::AgentState(state)) => matches!(state.state, AgentState::Exited { .. }),
            Ok(_) => false,
            Err(_) => true,
        }
    }

    fn asked(self: &Arc<Self>, change: &AskChange, ts: &str) {
        let bodies: Vec<Body> = match change {
            AskChange::Opened { ask } => {
                let mut state = self.lock();
                let tool = ask.tool.as_deref().unwrap_or_default();
                state.answers.push(((**ask).clone(), None));
                state.mapper.asked(ask);
                match (ask.kind, state.judge(tool, ask.input.as_ref())) {
                    (AskKind::Permission, Verdict::Allowed) => {
                        drop(state);
                        tokio::spawn(Arc::clone(self).allow((**ask).clone()));
                        vec![]
                    }
                    _ => state
                        .decisions
                        .open(ask)
                        .into_iter()
                        .map(|decision| Body::Decision(Box::new(decision)))
                        .collect(),
                }
            }
            AskChange::Answered { ask, .. } => {
                let mut state = self.lock();
                state.decisions.close(ask);
                let at = state.answers.iter().position(|(known, _)| known.id == *ask);
                let answered = at.map(|at| state.answers.remove(at));
                // If somebody else answered, how it went is seen when the tool is done.
                let decided = answered.and_then(|(ask, allows)| state.mapper.decided(&ask, allows?, ts));
                decided.into_iter().collect()
            }
            AskChange::Withdrawn { ask, why } => {
                let mut state = self.lock();
                state.answers.retain(|(known, _)| known.id != *ask);
                let closed = state.decisions.close(ask);
                closed.map(|ask| status(&format!("No longer asked: {} ({why})", ask.preview))).into_iter().collect()
            }
        };
        bodies.into_iter().for_each(|body| self.tell_at(body, ts));
    }

    /// Allows what the brief lets the agent do. If that fails, a human is asked.
    async fn allow(self: Arc<Self>, ask: Ask) {
        if let Err(error) = self.respond(&ask.id, allowing(&ask), true).await {
            if matches!(error.code, ErrorCode::AlreadyAnswered | ErrorCode::NoPrompt | ErrorCode::Exited) {
                return;
            }
            let opened = self.lock().decisions.open(&ask);
            opened.into_iter().for_each(|decision| self.tell(Body::Decision(Box::new(decision))));
        }
    }

    /// The agent rests: it is told what has waited for that, or is done.
    async fn turn_ended(self: &Arc<Self>, ending: Ending) {
        let message = (ending.outcome == Outcome::Success).then(|| self.next_message()).flatten();
        match message {
            Some(message) => drop(tokio::spawn(Arc::clone(self).say(message))),
            None => self.complete(ending).await,
        }
    }

    /// Takes what waits for the next turn, and applies it.
    fn next_message(&self) -> Option<String> {
        // One lock at a time: others take them in the other order.
        let budget = self.lock().brief.budget();
        let waiting = self.queue.lock().unwrap_or_else(PoisonError::into_inner).take(budget);
        let mut state = self.lock();
        if !waiting.changes.is_empty()
            && let Ok(brief) = state.brief.changed(&waiting.changes)
        {
            state.policy.rebase(brief.typed());
            state.next_policy = None;
            state.mapper.set_workstream(&brief.typed().workstream);
            state.brief = brief;
        }
        waiting.message()
    }
}
