//! The one that has the store, and what it goes on from.
//!
//! It waits for the disk with every write, so it has a thread of its own; what it has others do is done on the runtime of
//! whoever started the fleet.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use coop_api::AgentId;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{self, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::clock::Clock;
use super::lane::{Doing, Lane};
use super::outside::Outside;
use super::perform::Performed;
use super::{FleetError, Order};
use crate::Fact;
use crate::adapter::{AgentAdapter, AgentAdapterError, AgentReconnectConfig};
use crate::engine::{Agent, Input, Intent, IntentId, Phase, Timestamp};
use crate::store::{Store, StoreError};

/// Facts that wait to be written down; whoever tells more waits.
const FACTS: usize = 1024;
/// Facts that are written down in one go: a write to the disk costs the same for one as for all.
const BATCH: usize = 256;
/// How long what is being done may take when the fleet ends.
const FAREWELL: Duration = Duration::from_secs(10);

pub(super) struct Owner<A, O> {
    pub(super) store: Store,
    pub(super) adapter: A,
    pub(super) outside: O,
    pub(super) clock: Clock,
    orders: mpsc::Receiver<Order>,
    pub(super) facts: mpsc::Sender<Fact>,
    heard: mpsc::Receiver<Fact>,
    pub(super) known: Known,
    pub(super) lanes: BTreeMap<AgentId, Lane>,
    /// Where things are done, and how they ended.
    pub(super) crew: Handle,
    pub(super) work: JoinSet<(AgentId, Ended)>,
    /// Gates can take long, and are run again if they were cut off.
    pub(super) gates: JoinSet<(AgentId, Ended)>,
    /// What each of these is at, for one that breaks off without a word.
    pub(super) under_way: HashMap<task::Id, UnderWay>,
    pub(super) waiters: BTreeMap<IntentId, oneshot::Sender<Result<(), FleetError>>>,
}

/// What is being done beside the owner.
pub(super) enum UnderWay {
    Adopting(AgentId),
    Intent(Box<Intent>),
}

/// What there is, to be known without asking the store.
pub(super) struct Known {
    /// The number of the newest event.
    pub(super) newest: watch::Sender<u64>,
    pub(super) agents: watch::Sender<BTreeSet<AgentId>>,
    /// Those of them that never ran.
    pub(super) unborn: watch::Sender<BTreeSet<AgentId>>,
    /// Those of them whose sidecars are looked for, and since when.
    pub(super) sought: watch::Sender<BTreeMap<AgentId, Instant>>,
}

/// Something that was done beside the owner has ended.
pub(super) enum Ended {
    Adopted(Result<(), AgentAdapterError>),
    Performed(Intent, Performed),
}

impl<A: AgentAdapter, O: Outside> Owner<A, O> {
    pub(super) fn new(
        clock: Clock,
        store: Store,
        adapter: A,
        outside: O,
        orders: mpsc::Receiver<Order>,
    ) -> Result<Self, StoreError> {
        let (facts, heard) = mpsc::channel(FACTS);
        let known = Known {
            newest: watch::Sender::default(),
            agents: watch::Sender::default(),
            unborn: watch::Sender::default(),
            sought: watch::Sender::default(),
        };
        let mut owner = Self {
            store,
            adapter,
            outside,
            clock,
            orders,
            facts,
            heard,
            known,
            lanes: BTreeMap::new(),
            crew: Handle::current(),
            work: JoinSet::new(),
            gates: JoinSet::new(),
            under_way: HashMap::new(),
            waiters: BTreeMap::new(),
        };
        owner.take_over()?;
        owner.tell()?;
        Ok(owner)
    }

    /// Looks for the agents that were there, and for what was to be done.
    fn take_over(&mut self) -> Result<(), StoreError> {
        self.store.recover(self.clock.now())?;
        for agent in self.store.agents()? {
            self.look_for(agent)?;
        }
        for intent in self.store.pending()? {
            self.add(intent);
        }
        Ok(())
    }

    /// Looks for the sidecar of an agent. Until it is found, or not, nothing is done for it.
    pub(super) fn look_for(&mut self, agent: Agent) -> Result<(), StoreError> {
        let known = self.store.last_told(&agent.id)?;
        // Of one that is over and gone there is nothing to hear; it is only reached again if it is to be revived.
        let run_owner = self.store.run_owner(&agent.id)?;
        let config = AgentReconnectConfig { agent: agent.id.clone(), known, resumed: agent.run > 1, run_owner };
        self.reconnect(agent, config);
        Ok(())
    }

    /// Looks for the process that somebody else has started for an agent, whose conversation goes on there.
    pub(super) fn look_again(&mut self, agent: &AgentId) -> Result<(), StoreError> {
        let (known, run_owner) = (self.store.last_told(agent)?, self.store.run_owner(agent)?);
        if let Some(lane) = self.lanes.get(agent) {
            let config = AgentReconnectConfig { agent: agent.clone(), known, resumed: true, run_owner };
            self.reconnect(lane.agent.clone(), config);
        }
        Ok(())
    }

    /// Looks once more for a process that there was no way to. Who waits for it waits no longer for that.
    pub(super) fn try_again(&mut self, agent: &AgentId) -> Result<(), StoreError> {
        let (known, run_owner) = (self.store.last_told(agent)?, self.store.run_owner(agent)?);
        let Some(lane) = self.lanes.get_mut(agent) else { return Ok(()) };
        let (record, lost) = (lane.agent.clone(), lane.lost.take());
        let resumed = record.run > 1 || (record.run == 1 && record.phase == Phase::Dead);
        self.reconnect(record, AgentReconnectConfig { agent: agent.clone(), known, resumed, run_owner });
        if let Some(lane) = self.lanes.get_mut(agent) {
            lane.lost = lost;
        }
        Ok(())
    }

    fn reconnect(&mut self, agent: Agent, config: AgentReconnectConfig) {
        let id = agent.id.clone();
        let (adapter, facts) = (self.adapter.clone(), self.facts.clone());
        self.lanes.insert(id.clone(), Lane::new(agent, Doing::Adopting { since: Instant::now() }));
        let looked_for = UnderWay::Adopting(id.clone());
        let adopting = async move {
            let adopted = adapter.reconnect(config, facts).await.map(drop);
            (id, Ended::Adopted(adopted))
        };
        let task = self.work.spawn_on(adopting, &self.crew).id();
        self.under_way.insert(task, looked_for);
    }

    pub(super) async fn run(mut self) -> Result<(), StoreError> {
        loop {
            self.go_on()?;
            self.tell()?;
            let mut batch = Vec::new();
            tokio::select! {
                _ = self.heard.recv_many(&mut batch, BATCH) => self.record(batch)?,
                order = self.orders.recv() => match order {
                    Some(order) => self.take(order)?,
                    None => return self.wind_down().await,
                },
                Some(ended) = self.work.join_next_with_id() => self.ended(ended)?,
                Some(ended) = self.gates.join_next_with_id() => self.ended(ended)?,
                () = Self::due(self.clock, &self.lanes) => self.record_due()?,
            }
        }
    }

    /// Tells whoever follows what there is now.
    pub(super) fn tell(&mut self) -> Result<(), StoreError> {
        let newest = self.store.newest()?;
        self.known.agents.send_if_modified(|agents| {
            let is_same = agents.iter().eq(self.lanes.keys());
            if !is_same {
                *agents = self.lanes.keys().cloned().collect();
            }
            !is_same
        });
        let unborn = self.lanes.iter().filter(|(_, lane)| lane.agent.never_ran());
        let sought = self.lanes.iter().filter_map(|(agent, lane)| match lane.doing {
            Doing::Adopting { since } if lane.lost.is_none() => Some((agent.clone(), since)),
            Doing::Adopting { .. } | Doing::Nothing | Doing::Something | Doing::Waiting(_) | Doing::Ending { .. } => {
                None
            }
        });
        send(&self.known.unborn, unborn.map(|(agent, _)| agent.clone()).collect());
        send(&self.known.sought, sought.collect());
        self.known.newest.send_if_modified(|known| std::mem::replace(known, newest) != newest);
        Ok(())
    }

    /// Lets what is being done come to its end, so that nobody has to wonder whether it was done. Nothing new is begun.
    async fn wind_down(mut self) -> Result<(), StoreError> {
        self.gates.abort_all();
        let last = sleep(FAREWELL);
        tokio::pin!(last);
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                ended = self.work.join_next_with_id() => match ended {
                    Some(ended) => self.ended(ended)?,
                    None => break,
                },
                _ = self.heard.recv_many(&mut batch, BATCH) => self.record(batch)?,
                () = &mut last => break,
            }
        }
        Ok(())
    }

    async fn due(clock: Clock, lanes: &BTreeMap<AgentId, Lane>) {
        match lanes.values().filter_map(Lane::next_due).min() {
            Some(next) => sleep_until(clock.instant(next)).await,
            None => std::future::pending().await,
        }
    }

    fn record_due(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let is_past = |moment: Option<Timestamp>| moment.is_some_and(|moment| moment <= now);
        let mut due = Vec::new();
        for (agent, lane) in &mut self.lanes {
            if let Some(lost) = &mut lane.lost {
                lost.again = lost.again.filter(|again| *again > now);
            }
            if is_past(lane.agent.next_due()) {
                due.push(fact(agent, Input::Due));
            }
            if is_past(lane.given_up_at()) {
                tracing::warn!(%agent, "its process has ended, and nobody tells of it");
                due.push(gone(agent));
            }
        }
        self.record(due)
    }

    /// Writes facts down, and takes in what follows from them.
    pub(super) fn record(&mut self, mut facts: Vec<Fact>) -> Result<(), StoreError> {
        let (mut dead, mut begun) = (BTreeMap::<AgentId, bool>::new(), BTreeSet::new());
        facts.retain(|fact| {
            let Some(lane) = self.lanes.get(&fact.agent) else { return false };
            let is_dead = dead.entry(fact.agent.clone()).or_insert(lane.agent.phase == Phase::Dead);
            match &fact.input {
                // An agent is gone once; who looks for it after a restart finds that again.
                Some(Input::Gone { .. }) => !std::mem::replace(is_dead, true),
                Some(Input::Spawned { .. }) => {
                    *is_dead = false;
                    begun.insert(fact.agent.clone());
                    true
                }
                _ => true,
            }
        });
        for agent in &begun {
            // It is found.
            self.lanes.get_mut(agent).into_iter().for_each(|lane| (lane.has_next, lane.lost) = (false, None));
        }
        let intents = self.store.record(&facts, self.clock.now())?;
        let has_cost = facts.iter().any(|fact| matches!(fact.input, Some(Input::Cost { .. })));
        if has_cost {
            // It counts for those above, too.
            for agent in self.lanes.keys().cloned().collect::<Vec<_>>() {
                self.refresh(&agent)?;
            }
        }
        for fact in &facts {
            self.refresh(&fact.agent)?;
        }
        intents.into_iter().for_each(|intent| self.add(intent));
        Ok(())
    }

    /// Writes down what was told by now. An agent that was just started has told that it runs, and whoever hears that it was
    /// done must not find it dead.
    pub(super) fn catch_up(&mut self) -> Result<(), StoreError> {
        let mut told = Vec::new();
        while told.len() < FACTS
            && let Ok(fact) = self.heard.try_recv()
        {
            told.push(fact);
        }
        if told.is_empty() { Ok(()) } else { self.record(told) }
    }

    pub(super) fn refresh(&mut self, agent: &AgentId) -> Result<(), StoreError> {
        if let (Some(lane), Some(record)) = (self.lanes.get_mut(agent), self.store.agent(agent)?) {
            lane.agent = record;
        }
        Ok(())
    }

    pub(super) fn add(&mut self, intent: Intent) {
        if let Some(lane) = self.lanes.get_mut(&intent.agent) {
            lane.add(intent);
        }
    }
}

/// Tells whoever follows, if it is another than before.
fn send<T: PartialEq>(known: &watch::Sender<T>, now: T) {
    known.send_if_modified(|known| {
        let is_same = *known == now;
        *known = now;
        !is_same
    });
}

pub(super) fn fact(agent: &AgentId, input: Input) -> Fact {
    Fact { agent: agent.clone(), told: None, input: Some(input), event: None }
}

pub(super) fn gone(agent: &AgentId) -> Fact {
    fact(agent, Input::Gone { code: None, signal: None })
}
