//! One run of a real agent: its session is followed, and told what humans decide.

mod end;
mod follow;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coop_api::{AgentId, Agents, Answer, Ask, Error, ErrorCode, Feed, NudgeRequest, Reply, Request, When, WriterId};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::brief::Brief;
use super::decisions::{Decisions, Given, Refused, Step};
use super::host::Host;
use super::map::{Ending, Mapper, failure};
use super::policy::{Policy, Verdict};
use super::prompt;
use super::queue::Queue;
use super::ring::{Journal, RunId};
use super::types::{AgentStatus, Body, LifecycleAction, Outcome, Resolution, Severity};

/// Who types, when the shim does.
const WRITER: WriterId = WriterId(0);
/// How long an agent may take to end before it is killed, if the request does not say.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

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
    /// What will decide from the next turn on. What it would not allow is not allowed before either.
    next_policy: Option<Policy>,
    status: AgentStatus,
    session_id: Option<String>,
    /// Asks that are open, with whether the answer that is on its way allows what is asked.
    answers: Vec<(Ask, Option<bool>)>,
    /// Whether somebody has asked for the end.
    is_stopping: bool,
    has_begun: bool,
    published: u64,
    /// The last file that is on its way to the backend.
    publishing: Option<JoinHandle<()>>,
}

impl State {
    fn judge(&self, tool: &str, input: Option<&Value>) -> Verdict {
        let allows = |policy: &Policy| policy.judge(tool, input) == Verdict::Allowed;
        let all = [Some(&self.policy), self.next_policy.as_ref()].into_iter().flatten().all(allows);
        if all { Verdict::Allowed } else { Verdict::Escalated }
    }

    fn allow_always(&mut self, tool: &str) {
        [Some(&mut self.policy), self.next_policy.as_mut()]
            .into_iter()
            .flatten()
            .for_each(|policy| policy.allow_always(tool));
    }
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
            next_policy: None,
            decisions: Decisions::default(),
            status: AgentStatus::Running,
            session_id,
            answers: Vec::new(),
            is_stopping: false,
            has_begun: false,
            published: 0,
            publishing: None,
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

    /// Takes in what the brief will be. What it forbids is forbidden at once.
    pub(crate) fn expect(&self, next: &Brief) {
        let mut state = self.lock();
        let mut policy = state.policy.clone();
        policy.rebase(next.typed());
        state.next_policy = Some(policy);
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
            Ok(()) => given.always.iter().for_each(|tool| state.allow_always(tool)),
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
            *noted = Some(allows);
        }
        match self.agent.call(&self.id, Request::Respond { writer: WRITER, answer }).await? {
            Reply::Answered(_) => Ok(()),
            _ => Err(Error::internal("the agent gave a reply of the wrong kind")),
        }
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
