//! One run of a real agent: its session is followed, and told what humans decide.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coop_api::{
    AgentId, AgentState, Agents, Answer, Ask, AskChange, AskKind, Error, ErrorCode, Event, EventBody, Feed, Lifecycle,
    NudgeRequest, Reply, Request, Seq, Turn, When, WriterId,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::brief::Brief;
use super::decisions::{Decisions, Given, Refused, Step, allowing};
use super::host::{Host, Written};
use super::map::{Ending, Mapper, failure, status};
use super::policy::{Policy, Verdict};
use super::prompt;
use super::queue::Queue;
use super::ring::{Journal, RunId};
use super::types::{AgentStatus, Body, LifecycleAction, Outcome, Resolution, Severity};

/// Who types, when the shim does.
const WRITER: WriterId = WriterId(0);
/// How long a tool that is at work may keep a pause waiting.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an agent may take to end before it is killed, if the request does not say.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// How long a killed process may take to be gone.
const REAPED_WITHIN: Duration = Duration::from_secs(10);

/// A run of an agent.
pub(crate) struct Live<H: Host> {
    host: Arc<H>,
    agent: H::Agent,
    id: AgentId,
    feed: Feed,
    journal: Arc<Journal>,
    run: RunId,
    queue: Arc<Mutex<Queue>>,
    state: Mutex<State>,
    /// Grows with every event that was taken in.
    seen: watch::Sender<u64>,
}

struct State {
    brief: Brief,
    mapper: Mapper,
    decisions: Decisions,
    policy: Policy,
    status: AgentStatus,
    session_id: Option<String>,
    /// Asks under way to be answered, with what the answer allows.
    answers: Vec<(Ask, bool)>,
    /// Whether somebody has asked for the end.
    is_stopping: bool,
    has_begun: bool,
    published: u64,
}

/// Why a decision was not resolved.
pub(crate) enum NotResolved {
    Refused(Refused),
    /// The agent did not take the answer.
    Failed(Error),
}

impl<H: Host> Live<H> {
    pub(crate) fn new(
        host: Arc<H>,
        agent: H::Agent,
        journal: Arc<Journal>,
        run: RunId,
        brief: Brief,
        queue: Arc<Mutex<Queue>>,
        session_id: Option<String>,
    ) -> Result<Arc<Self>, Error> {
        let id = agent.list().into_iter().next().ok_or_else(|| Error::internal("there is no agent"))?;
        let feed = agent.feed(&id)?;
        let typed = brief.typed();
        let state = State {
            mapper: Mapper::new(&typed.agent_id, &typed.workstream),
            policy: Policy::of(typed),
            decisions: Decisions::default(),
            status: AgentStatus::Running,
            session_id,
            answers: Vec::new(),
            is_stopping: false,
            has_begun: false,
            published: 0,
            brief,
        };
        let state = Mutex::new(state);
        Ok(Arc::new(Self { host, agent, id, feed, journal, run, queue, state, seen: watch::Sender::new(0) }))
    }

    /// Hands the agent its task and follows what it does.
    pub(crate) fn begin(self: &Arc<Self>, message: String) {
        tokio::spawn(Arc::clone(self).follow());
        tokio::spawn(Arc::clone(self).say(message));
    }

    pub(crate) fn status(&self) -> AgentStatus {
        let state = self.lock();
        match state.status {
            AgentStatus::Running if !state.decisions.pending().is_empty() => AgentStatus::WaitingOnHuman,
            status => status,
        }
    }

    pub(crate) fn brief(&self) -> Brief {
        self.lock().brief.clone()
    }

    pub(crate) fn session_id(&self) -> Option<String> {
        self.lock().session_id.clone()
    }

    pub(crate) fn pending(&self) -> Vec<String> {
        self.lock().decisions.pending()
    }

    pub(crate) fn published(&self) -> u64 {
        self.lock().published
    }

    /// Gives the agent what a human decided.
    pub(crate) async fn resolve(&self, id: &str, resolution: &Resolution) -> Result<(), NotResolved> {
        let step = self.lock().decisions.resolve(id, resolution).map_err(NotResolved::Refused)?;
        match step {
            Step::Noted => Ok(()),
            Step::Answer(given) => self.answer(*given).await.map_err(|error| match error.code {
                // Somebody was faster, or the agent has moved on.
                ErrorCode::AlreadyAnswered | ErrorCode::NoPrompt => {
                    NotResolved::Refused(Refused::NotPending(id.to_owned()))
                }
                _ => NotResolved::Failed(error),
            }),
        }
    }

    async fn answer(&self, given: Given) -> Result<(), Error> {
        let told = self.answer_somehow(&given).await;
        let mut state = self.lock();
        match &told {
            Ok(()) => given.always.iter().for_each(|tool| state.policy.allow_always(tool)),
            Err(_) => state.decisions.release(&given.ask),
        }
        told
    }

    /// Gives an answer as it is meant, or the nearest to it that the agent can take and that allows no more.
    async fn answer_somehow(&self, given: &Given) -> Result<(), Error> {
        let mut last = given.answer.clone();
        let mut told = self.respond(&given.ask, last.clone(), given.allows).await;
        if is_unsupported(&told)
            && let Some(instead) = &given.instead
        {
            last = instead.clone();
            told = self.respond(&given.ask, last.clone(), false).await;
        }
        // A no that takes no words comes without them; they are told when the turn ends.
        if is_unsupported(&told)
            && last.accept == Some(false)
            && let Some(words) = last.text.take()
        {
            told = self.respond(&given.ask, last, false).await;
            if told.is_ok() {
                self.queue.lock().unwrap_or_else(PoisonError::into_inner).words.push(words);
            }
        }
        told
    }

    async fn respond(&self, ask: &coop_api::AskId, answer: Answer, allows: bool) -> Result<(), Error> {
        // Noted before, because what follows from it may be told before the reply is here.
        if let Some((_, noted)) = self.lock().answers.iter_mut().find(|(known, _)| known.id == *ask) {
            *noted = allows;
        }
        match self.agent.call(&self.id, Request::Respond { writer: WRITER, answer }).await? {
            Reply::Answered(_) => Ok(()),
            _ => Err(Error::internal("the agent gave a reply of the wrong kind")),
        }
    }

    /// Stops the agent where it can go on later.
    pub(crate) async fn pause(&self) -> Vec<String> {
        if self.journal.is_over(&self.run) {
            return self.pending();
        }
        self.safe_point().await;
        let pending = {
            let mut state = self.lock();
            state.is_stopping = true;
            state.decisions.pending()
        };
        // Its own way of stopping keeps the conversation whole. One that is idle has nothing to stop.
        let _ = self.agent.call(&self.id, Request::Interrupt { writer: WRITER }).await;
        self.end(GRACE).await;
        self.finish(AgentStatus::Paused, lifecycle(LifecycleAction::Paused, None));
        pending
    }

    /// Waits until no tool is at work, but not for long.
    async fn safe_point(&self) {
        let mut seen = self.seen.subscribe();
        let until = Instant::now() + PATIENCE;
        loop {
            seen.borrow_and_update();
            if !self.lock().mapper.is_at_work() || !matches!(timeout_at(until, seen.changed()).await, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Ends the agent; tells whether it ended by itself within its time.
    pub(crate) async fn kill(&self, grace: Option<Duration>) -> bool {
        self.lock().is_stopping = true;
        let was_over = self.journal.is_over(&self.run);
        let is_clean = self.end(grace.unwrap_or(Duration::ZERO)).await && grace.is_some();
        let how = if grace.is_some() { "graceful" } else { "force" };
        let reason = Some(format!("kill requested ({how})"));
        self.finish(AgentStatus::Completed, lifecycle(LifecycleAction::Killed, reason));
        was_over || is_clean
    }

    /// Ends the process; tells whether that was within the time.
    async fn end(&self, grace: Duration) -> bool {
        let shut_down = || self.agent.call(&self.id, Request::Shutdown);
        let mut pulse = self.feed.pulse.clone();
        // If nobody tells any more, the session is over.
        let mut ended = async |within| timeout(within, pulse.wait_for(|pulse| pulse.ended)).await.is_ok();
        // A session that is over cannot be asked to end.
        let _ = shut_down().await;
        if !grace.is_zero() && ended(grace).await {
            return true;
        }
        // Asked a second time it no longer waits.
        let _ = shut_down().await;
        if !ended(REAPED_WITHIN).await {
            tracing::warn!("the agent's process does not end");
        }
        false
    }

    fn finish(&self, status: AgentStatus, body: Body) {
        let agent_id = self.agent_id();
        if !self.journal.is_over(&self.run) {
            self.lock().status = status;
        }
        self.journal.tell(&self.run, &agent_id, body);
    }

    /// Hands the agent a message once it takes one.
    async fn say(self: Arc<Self>, message: String) {
        let nudge = NudgeRequest { message, when: When::Idle, wait: true };
        let why = match self.agent.call(&self.id, Request::Nudge { writer: WRITER, nudge }).await {
            Ok(Reply::Receipt(receipt)) if receipt.delivered => return,
            Ok(Reply::Receipt(receipt)) => receipt.reason.unwrap_or_else(|| "it does not say why".to_owned()),
            Ok(_) => "it gave a reply of the wrong kind".to_owned(),
            // Its end is told by whoever follows it.
            Err(error) if error.code == ErrorCode::Exited => return,
            Err(error) => error.message,
        };
        if self.lock().is_stopping {
            return;
        }
        self.tell(failure(Severity::Critical, &format!("the agent did not take its message: {why}")));
        self.complete(Ending { outcome: Outcome::Abandoned, reason: Some(why) }).await;
    }

    async fn follow(self: Arc<Self>) {
        let mut pulse = self.feed.pulse.clone();
        let mut cursor = Seq::default();
        loop {
            let newest = pulse.borrow_and_update().events;
            if newest > cursor {
                let Ok(Reply::Events(page)) = self.agent.call(&self.id, Request::Events(cursor)).await else { break };
                if let Some((first, last)) = page.lagged {
                    let gone = format!("events {first} to {last} of the agent came too fast and are gone");
                    self.tell(failure(Severity::Warning, &gone));
                }
                cursor = newest.max(page.events.last().map_or(cursor, |event| event.seq));
                for event in page.events {
                    self.take(&event).await;
                    self.seen.send_modify(|seen| *seen += 1);
                }
            } else if pulse.changed().await.is_err() {
                break;
            }
        }
        self.gone("the session is over").await;
    }

    async fn take(self: &Arc<Self>, event: &Event) {
        let bodies = self.lock().mapper.map(event);
        for mut body in bodies {
            if let Body::Artifact(artifact) = &mut body {
                let file = Written {
                    agent_id: self.agent_id(),
                    artifact_id: artifact.artifact_id.clone(),
                    path: artifact.provenance.source_path.clone().unwrap_or_default(),
                    mime_type: artifact.mime_type.clone().unwrap_or_default(),
                };
                let published = self.host.publish(file).await;
                artifact.size_bytes = published.size;
                if published.uri.is_some() {
                    artifact.uri = published.uri;
                    self.lock().published += 1;
                }
            }
            self.tell_at(body, &event.ts);
        }
        match &event.body {
            EventBody::Ask(change) => self.asked(change, &event.ts),
            EventBody::Turn(Turn::Began { .. }) => self.lock().has_begun = true,
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
            EventBody::Lifecycle(Lifecycle::Started { .. } | Lifecycle::Resized { .. } | Lifecycle::Stopping)
            | EventBody::Message(_)
            | EventBody::Tool(_)
            | EventBody::Artifact(_)
            | EventBody::Usage(_)
            | EventBody::Fault(_)
            | EventBody::Stop(_)
            | EventBody::Delivery(_) => {}
        }
    }

    fn asked(self: &Arc<Self>, change: &AskChange, ts: &str) {
        let bodies: Vec<Body> = match change {
            AskChange::Opened { ask } => {
                let mut state = self.lock();
                let tool = ask.tool.as_deref().unwrap_or_default();
                state.answers.push(((**ask).clone(), true));
                match (ask.kind, state.policy.judge(tool, ask.input.as_ref())) {
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
                answered.and_then(|(ask, allows)| state.mapper.decided(&ask, allows, ts)).into_iter().collect()
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
        let mut state = self.lock();
        let waiting = self.queue.lock().unwrap_or_else(PoisonError::into_inner).take(state.brief.budget());
        if !waiting.changes.is_empty()
            && let Ok(brief) = state.brief.changed(&waiting.changes)
        {
            state.policy.rebase(brief.typed());
            state.mapper.set_workstream(&brief.typed().workstream);
            state.brief = brief;
        }
        waiting.message()
    }

    /// Tells that the run is done, and lets its process go.
    async fn complete(self: &Arc<Self>, ending: Ending) {
        let (body, status) = {
            let mut state = self.lock();
            state.is_stopping = true;
            let status = match ending.outcome {
                Outcome::Success | Outcome::Partial | Outcome::MaxTurns => AgentStatus::Completed,
                Outcome::Abandoned => AgentStatus::Error,
            };
            (state.mapper.completion(ending), status)
        };
        self.finish(status, body);
        let run = Arc::clone(self);
        tokio::spawn(async move { run.end(GRACE).await });
    }

    /// The process is gone. If nobody wanted that, it has crashed.
    async fn gone(self: &Arc<Self>, how: &str) {
        if self.lock().is_stopping || self.journal.is_over(&self.run) {
            return;
        }
        let said = self.last_words().await;
        self.tell(failure(Severity::High, &format!("the agent ended before its task was done ({how}): {said}")));
        self.finish(AgentStatus::Error, lifecycle(LifecycleAction::Crashed, Some(how.to_owned())));
        let run = Arc::clone(self);
        tokio::spawn(async move { run.end(GRACE).await });
    }

    /// Returns what the agent's terminal shows, where a program that fails says why.
    async fn last_words(&self) -> String {
        let Ok(Reply::Screen(screen)) = self.agent.call(&self.id, Request::Screen).await else {
            return "it said nothing".to_owned();
        };
        let lines: Vec<_> =
            screen.lines.iter().map(|line| line.plain()).filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() { "it said nothing".to_owned() } else { lines.join("\n") }
    }

    fn tell(&self, body: Body) {
        self.journal.tell(&self.run, &self.agent_id(), body);
    }

    fn tell_at(&self, body: Body, ts: &str) {
        self.journal.tell_at(&self.run, &self.agent_id(), body, ts.to_owned());
    }

    fn agent_id(&self) -> String {
        self.lock().brief.typed().agent_id.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is in it is whole after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_unsupported(told: &Result<(), Error>) -> bool {
    told.as_ref().is_err_and(|error| error.code == ErrorCode::Unsupported)
}

pub(crate) fn lifecycle(action: LifecycleAction, reason: Option<String>) -> Body {
    Body::Lifecycle { action, reason }
}

/// Returns what an agent is told first.
pub(crate) fn opening(brief: &Brief, last: Option<&(String, String)>, resumed: bool) -> String {
    let typed = brief.typed();
    match (resumed, last) {
        (false, _) => prompt::of_brief(typed),
        (true, Some((workstream, description)))
            if *workstream != typed.workstream || *description != typed.description =>
        {
            prompt::of_next_brief(typed)
        }
        (true, _) => prompt::GO_ON.to_owned(),
    }
}
