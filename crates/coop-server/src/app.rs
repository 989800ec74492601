use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use coop_api::{
    AgentId, AgentReport, Agents, Answer, Answered, Ask, Dump, Error, ErrorCode, Explanation, Health, History,
    HookCall, Input, LockAction, NudgeRequest, Receipt, Reply, Request, Screen, Status, Token, UsageReport, WriterId,
    Written,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::page::Sessions;
use crate::recording::Recorded;
use crate::wire::{AgentBody, LockedBody};

/// What a server needs to know beside its agents.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The token, if there is one.
    pub token: Option<Token>,
    /// Which requests must carry it.
    pub token_use: TokenUse,
    /// Names by which the server may be addressed, beside IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Who steers the agent, if it is nobody who asks here: then these may look.
    pub steered_by: Option<&'static str>,
    /// Whether a daemon has started this process, a sidecar. It takes no orders from what that daemon runs beside it.
    pub parent_is_daemon: bool,
    /// Where the agent works, if what has changed there is to be shown.
    pub folder: Option<PathBuf>,
    /// The recording of the agent's terminal, if one is made.
    pub recording: Option<Recorded>,
    /// Browsers that have brought the token.
    pub sessions: Sessions,
}

/// Which requests must carry the token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenUse {
    /// Every request.
    #[default]
    Always,
    /// Requests that do not come from a process of this user that coop can see.
    OtherUsers,
}

impl Config {
    /// Tells whether no request does without the token.
    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some() && self.token_use == TokenUse::Always
    }
}

/// Asks and takes the reply apart; one of another kind is the agent's fault, not the caller's.
macro_rules! ask {
    ($app:expr, $request:expr, $kind:path) => {
        match $app.call($request).await? {
            $kind(reply) => Ok(reply),
            _ => Err(Error::internal("the agent gave a reply of the wrong kind")),
        }
    };
}

pub(crate) use ask;

/// What all connections share.
pub(crate) struct App<A> {
    pub(crate) agents: A,
    pub(crate) config: Config,
    pub(crate) ws_clients: AtomicUsize,
    /// Clients that follow the output and share the bandwidth for it.
    pub(crate) followers: Arc<AtomicUsize>,
    writers: AtomicU64,
    pub(crate) shutdown: CancellationToken,
}

impl<A: Agents> App<A> {
    pub(crate) fn new(agents: A, config: Config, shutdown: CancellationToken) -> Self {
        Self {
            agents,
            config,
            ws_clients: AtomicUsize::new(0),
            followers: Arc::default(),
            writers: AtomicU64::new(1),
            shutdown,
        }
    }

    /// Returns a name for one who types: a connection, or a single request.
    pub(crate) fn new_writer(&self) -> WriterId {
        WriterId(self.writers.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the writer that a request names, or a new one.
    pub(crate) fn writer(&self, named: Option<u64>) -> Result<WriterId, Error> {
        match named {
            None => Ok(self.new_writer()),
            // One that has no name yet may be given to somebody else.
            Some(named) if named < self.writers.load(Ordering::Relaxed) => Ok(WriterId(named)),
            Some(named) => Err(Error::bad_request(format!("there is no writer {named}; take the lock first"))),
        }
    }

    pub(crate) fn ws_clients(&self) -> usize {
        self.ws_clients.load(Ordering::Relaxed)
    }

    /// Returns the agent that routes without an id mean.
    pub(crate) fn agent(&self) -> Result<AgentId, Error> {
        let none = || Error::new(ErrorCode::NotReady, "there is no agent yet; start one first");
        self.agents.list().into_iter().next().ok_or_else(none)
    }

    pub(crate) async fn call(&self, request: Request) -> Result<Reply, Error> {
        let agent = self.agent()?;
        self.agents.call(&agent, request).await
    }

    pub(crate) async fn health(&self) -> Result<Health, Error> {
        ask!(self, Request::Health, Reply::Health)
    }

    pub(crate) async fn status(&self) -> Result<Status, Error> {
        ask!(self, Request::Status, Reply::Status)
    }

    pub(crate) async fn screen(&self) -> Result<Arc<Screen>, Error> {
        ask!(self, Request::Screen, Reply::Screen)
    }

    pub(crate) async fn history(&self, count: usize) -> Result<History, Error> {
        ask!(self, Request::History(count), Reply::History)
    }

    pub(crate) async fn dump(&self) -> Result<Dump, Error> {
        ask!(self, Request::Dump, Reply::Dump)
    }

    /// Takes or gives back the lock for somebody without a connection to hold it by.
    pub(crate) async fn lock(&self, action: LockAction, named: Option<u64>) -> Result<LockedBody, Error> {
        if action == LockAction::Release && named.is_none() {
            return Err(Error::bad_request("say which \"writer\" releases the lock"));
        }
        let writer = self.writer(named)?;
        self.call(Request::Lock { writer, action }).await?;
        Ok(LockedBody { held: action == LockAction::Acquire, writer: writer.0 })
    }

    pub(crate) async fn agent_state(&self) -> Result<AgentReport, Error> {
        ask!(self, Request::AgentState, Reply::AgentState).map(|report| *report)
    }

    /// Returns the state, and the number of the newest event. That is read after it: nothing the state rests on is newer.
    pub(crate) async fn agent_body(&self) -> Result<AgentBody, Error> {
        let report = self.agent_state().await?;
        let feed = self.agent().and_then(|agent| self.agents.feed(&agent)).ok();
        Ok(AgentBody::new(report, feed.map(|feed| feed.pulse.borrow().events)))
    }

    pub(crate) async fn nudge(&self, writer: WriterId, nudge: NudgeRequest) -> Result<Receipt, Error> {
        ask!(self, Request::Nudge { writer, nudge }, Reply::Receipt)
    }

    pub(crate) async fn respond(&self, writer: WriterId, answer: Answer) -> Result<Answered, Error> {
        ask!(self, Request::Respond { writer, answer }, Reply::Answered)
    }

    pub(crate) async fn asks(&self) -> Result<Vec<Ask>, Error> {
        ask!(self, Request::Asks, Reply::Asks)
    }

    pub(crate) async fn explain(&self) -> Result<Explanation, Error> {
        let explanation: Result<Box<_>, _> = ask!(self, Request::Explain, Reply::Explanation);
        explanation.map(|explanation| *explanation)
    }

    pub(crate) async fn usage(&self) -> Result<UsageReport, Error> {
        ask!(self, Request::Usage, Reply::Usage)
    }

    pub(crate) async fn transcript(&self) -> Result<Bytes, Error> {
        ask!(self, Request::Transcript, Reply::Transcript)
    }

    pub(crate) async fn hook(&self, call: HookCall) -> Result<Option<Value>, Error> {
        ask!(self, Request::Hook(call), Reply::Hook)
    }

    pub(crate) async fn write(&self, writer: WriterId, input: Input) -> Result<Written, Error> {
        ask!(self, Request::Write { writer, input }, Reply::Written)
    }
}
