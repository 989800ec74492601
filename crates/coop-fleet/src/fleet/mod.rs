//! Many agents in one hand: what is heard of them is recorded, what follows from it is done, once.
//!
//! ```text
//! adapters ─ Fact ─►┐
//! people ── Order ─►├─► Owner ─► Store::record ─► pending ─► claim ─► perform ─► finish | fail | overtake
//! clock ─── Due ───►┘   a thread                                       └─ adapter, or what is Outside
//!
//! people ── look ──────► another way to the store, as it was last written
//! ```
//!
//! One owner has the store, on a thread of its own: a slow disk holds up what waits to be written down, and nobody who asks.
//! What takes time is done beside it, and comes back as a fact or as an end of an intent. If
//! something cannot be written down the owner ends with that error: agents go on in their sidecars, and whoever opens the
//! store again finds all of it and hears the rest by cursor.

mod begin;
mod clock;
mod ended;
mod gate;
mod lane;
mod notify;
mod orders;
mod outside;
mod owner;
mod perform;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use coop_api::{AgentId, Answer};
use tokio::runtime::Builder;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::{self, JoinHandle};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;

use self::clock::Clock;
pub use self::notify::{Notice, Notify, NotifyError};
pub use self::outside::{GateRun, Machine, Outside};
use self::owner::Owner;
use crate::adapter::AgentAdapter;
use crate::store::{Condition, Defined, Pulse, Store, StoreError};

/// Orders that wait. They come from people and programs of theirs, a few at a time.
const ORDERS: usize = 64;
/// How long whoever notes something waits until it is written down. It was done already, so they are not held up for good.
const NOTED: Duration = Duration::from_secs(30);

/// The way to a fleet that runs. The fleet ends when the last of these is dropped; its agents stay.
#[derive(Clone, Debug)]
pub struct Fleet {
    orders: mpsc::Sender<Order>,
    newest: watch::Receiver<u64>,
    agents: watch::Receiver<BTreeSet<AgentId>>,
    unborn: watch::Receiver<BTreeSet<AgentId>>,
    sought: watch::Receiver<BTreeMap<AgentId, Instant>>,
    pulse: Pulse,
    /// Looks come one after another, each at all of it as it is at one moment.
    looks: Arc<Mutex<Store>>,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// It cannot be written down, or not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no such agent.
    #[error("there is no agent {0}")]
    NoSuchAgent(AgentId),
    /// There is one already.
    #[error("there is an agent {0} already")]
    Exists(AgentId),
    /// It would not be the name of a folder.
    #[error("{:?} cannot be an agent's id; use letters, digits, - and _", .0.0)]
    BadId(AgentId),
    /// It was tried.
    #[error("{0}")]
    NotDone(String),
    /// The fleet has ended.
    #[error("the fleet has ended")]
    Over,
}

/// What is asked of the owner.
enum Order {
    /// Something is wanted of an agent; the answer comes when it was done.
    Want { agent: AgentId, want: Want, by: String, done: oneshot::Sender<Result<(), FleetError>> },
    /// Somebody else has started another process for an agent.
    LookAgain(AgentId),
    /// Something was done, by another way.
    Note { agent: AgentId, note: Note, by: String, done: oneshot::Sender<()> },
    /// Those that are over for so long are forgotten.
    Forget { age: Duration, done: oneshot::Sender<Vec<AgentId>> },
}

enum Want {
    Spawn(Box<Defined>),
    Adopt(Box<Defined>),
    Define(Box<Defined>),
    Dismiss,
    Revive,
}

enum Note {
    Ended,
    RunsOn,
    Steered { waits: bool },
    Messaged,
    Decided(Box<Answer>),
}

impl Fleet {
    /// Takes over a store and the agents in it, those that run and those that do not any more. What this returns ends when
    /// the last way to the fleet is dropped, or with what cannot be written down.
    pub fn start<A: AgentAdapter, O: Outside>(
        store: Store,
        adapter: A,
        outside: O,
    ) -> Result<(Self, JoinHandle<Result<(), StoreError>>), StoreError> {
        let place = store.place().clone();
        let broken = |error: std::io::Error| StoreError::Sql { place: place.clone(), said: error.to_string() };
        let (fleet, owner) = Self::prepare(Clock::new(), store, adapter, outside)?;
        let runtime = Builder::new_current_thread().enable_time().build().map_err(broken)?;
        let (sender, ended) = oneshot::channel();
        let run = move || drop(sender.send(runtime.block_on(owner.run())));
        thread::Builder::new().name("fleet".to_owned()).spawn(run).map_err(broken)?;
        let broke_off = StoreError::Sql { place, said: "its owner broke off".to_owned() };
        Ok((fleet, tokio::spawn(async { ended.await.unwrap_or(Err(broke_off)) })))
    }

    /// The same on the runtime of the caller, whose clock may stand still.
    #[cfg(test)]
    fn start_here<A: AgentAdapter, O: Outside>(
        clock: Clock,
        store: Store,
        adapter: A,
        outside: O,
    ) -> Result<(Self, JoinHandle<Result<(), StoreError>>), StoreError> {
        let (fleet, owner) = Self::prepare(clock, store, adapter, outside)?;
        Ok((fleet, tokio::spawn(owner.run())))
    }

    fn prepare<A: AgentAdapter, O: Outside>(
        clock: Clock,
        store: Store,
        adapter: A,
        outside: O,
    ) -> Result<(Self, Owner<A, O>), StoreError> {
        let (orders, receiver) = mpsc::channel(ORDERS);
        let clock = clock.not_before(store.last_moment()?);
        let (pulse, looks) = (store.pulse(), Arc::new(Mutex::new(Store::look(store.place())?)));
        let owner = Owner::new(clock, store, adapter, outside, receiver)?;
        let (newest, agents) = (owner.known.newest.subscribe(), owner.known.agents.subscribe());
        let (unborn, sought) = (owner.known.unborn.subscribe(), owner.known.sought.subscribe());
        Ok((Self { orders, newest, agents, unborn, sought, pulse, looks }, owner))
    }

    /// Starts an agent, and waits until it runs.
    /// Returns what a person should know about its rules.
    pub async fn spawn(&self, agent: &AgentId, defined: Defined, by: &str) -> Result<Vec<String>, FleetError> {
        let warnings = defined.warnings();
        self.want(agent, Want::Spawn(Box::new(defined)), by).await?;
        warnings.iter().for_each(|warning| warn!(%agent, "{warning}"));
        Ok(warnings)
    }

    /// Takes over an agent whose sidecar runs and that nothing is known of, and hears what has happened to it.
    pub async fn adopt(&self, agent: &AgentId, defined: Defined, by: &str) -> Result<(), FleetError> {
        self.want(agent, Want::Adopt(Box::new(defined)), by).await
    }

    /// Forgets agents that are over and that nothing happened to for so long. Returns which.
    pub async fn forget(&self, age: Duration) -> Result<Vec<AgentId>, FleetError> {
        let (done, receiver) = oneshot::channel();
        self.orders.send(Order::Forget { age, done }).await.map_err(|_| FleetError::Over)?;
        receiver.await.map_err(|_| FleetError::Over)
    }

    /// Ends an agent for good, and waits until that is done and its end is known.
    pub async fn dismiss(&self, agent: &AgentId, by: &str) -> Result<(), FleetError> {
        self.want(agent, Want::Dismiss, by).await
    }

    /// Lets an agent's conversation go on in a new process, and waits until that runs.
    pub async fn revive(&self, agent: &AgentId, by: &str) -> Result<(), FleetError> {
        self.want(agent, Want::Revive, by).await
    }

    /// Looks for another sidecar of an agent, which somebody else has started, once the one that it had is gone. It is gone on
    /// with as it is: it is told nothing.
    pub async fn look_again(&self, agent: &AgentId) -> Result<(), FleetError> {
        self.orders.send(Order::LookAgain(agent.clone())).await.map_err(|_| FleetError::Over)
    }

    /// Says what holds for an agent from here on: what is done about it follows from that.
    pub async fn redefine(&self, agent: &AgentId, defined: Defined, by: &str) -> Result<(), FleetError> {
        self.want(agent, Want::Define(Box::new(defined)), by).await
    }

    /// Notes that somebody else ends an agent, or has. Its process is theirs to end.
    pub async fn ended(&self, agent: &AgentId, by: &str) -> Result<(), FleetError> {
        self.note(agent, Note::Ended, by).await
    }

    /// Notes that others, who were to end an agent, let its process run on.
    pub async fn runs_on(&self, agent: &AgentId, by: &str) -> Result<(), FleetError> {
        self.note(agent, Note::RunsOn, by).await
    }

    /// Notes that a person has told an agent something.
    pub async fn steered(&self, agent: &AgentId, by: &str) -> Result<(), FleetError> {
        self.note(agent, Note::Steered { waits: false }, by).await
    }

    /// Notes that a person has a message for an agent, which waits until that is idle.
    pub async fn queued(&self, agent: &AgentId, by: &str) -> Result<(), FleetError> {
        self.note(agent, Note::Steered { waits: true }, by).await
    }

    /// Records that an agent has sent another a message.
    pub async fn messaged(&self, agent: &AgentId, by: &str) -> Result<(), FleetError> {
        self.note(agent, Note::Messaged, by).await
    }

    /// Notes that a person has answered what an agent asked.
    pub async fn decided(&self, agent: &AgentId, answer: Answer, by: &str) -> Result<(), FleetError> {
        self.note(agent, Note::Decided(Box::new(answer)), by).await
    }

    /// Looks something up, in all of it as it is at one moment. It does not wait for what is being written.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, FleetError> {
        if self.orders.is_closed() {
            return Err(FleetError::Over);
        }
        let store = Arc::clone(&self.looks).lock_owned().await;
        let looked = task::spawn_blocking(move || store.at_once(look)).await;
        Ok(looked.map_err(|_| FleetError::Over)??)
    }

    /// Returns the number of the newest event, which wakes whoever follows.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.clone()
    }

    /// Returns all agents, without asking the store.
    pub fn agents(&self) -> BTreeSet<AgentId> {
        self.agents.borrow().clone()
    }

    /// Tells whether another agent cannot have this id. Of one that never ran only the id is there, and that can be tried
    /// again.
    pub fn is_taken(&self, agent: &AgentId) -> bool {
        self.agents.borrow().contains(agent) && !self.unborn.borrow().contains(agent)
    }

    /// Waits while an agent's sidecar is looked for: until then nobody knows a way to it. One that is not found within so long
    /// is not waited for, by anybody.
    pub async fn looked_for(&self, agent: &AgentId, within: Duration) {
        let mut sought = self.sought.clone();
        let since = sought.borrow().get(agent).copied();
        if let Some(since) = since {
            // A fleet that has ended looks for nobody.
            let _ = timeout_at(since + within, sought.wait_for(|sought| !sought.contains_key(agent))).await;
        }
    }

    /// Returns how the store is.
    pub fn condition(&self) -> Condition {
        self.pulse.condition()
    }

    /// Returns what tells how the store is, also when the fleet has ended.
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    async fn want(&self, agent: &AgentId, want: Want, by: &str) -> Result<(), FleetError> {
        let (done, receiver) = oneshot::channel();
        let order = Order::Want { agent: agent.clone(), want, by: by.to_owned(), done };
        self.orders.send(order).await.map_err(|_| FleetError::Over)?;
        receiver.await.map_err(|_| FleetError::Over)?
    }

    /// It was done; that it is written down is waited for, so that whoever looks next sees it.
    async fn note(&self, agent: &AgentId, note: Note, by: &str) -> Result<(), FleetError> {
        let (done, receiver) = oneshot::channel();
        let order = Order::Note { agent: agent.clone(), note, by: by.to_owned(), done };
        let noted = async {
            self.orders.send(order).await.map_err(|_| FleetError::Over)?;
            receiver.await.map_err(|_| FleetError::Over)
        };
        let late = || FleetError::NotDone("the store takes too long".to_owned());
        timeout(NOTED, noted).await.unwrap_or_else(|_| Err(late()))
    }
}
