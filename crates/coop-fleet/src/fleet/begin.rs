//! What is to be done is begun.

use std::time::Duration;

use coop_api::AgentId;
use tokio::time::sleep;

use super::FleetError;
use super::lane::{Lane, Next};
use super::notify::Notice;
use super::outside::{GateRun, Outside};
use super::owner::{Ended, Owner, UnderWay};
use super::perform::{Job, perform};
use crate::adapter::AgentAdapter;
use crate::engine::{Effect, Intent};
use crate::store::{Defined, StoreError};

const NO_CONVERSATION: &str = "it has no conversation that could be resumed";

impl<A: AgentAdapter, O: Outside> Owner<A, O> {
    /// Begins everything that can be begun.
    pub(super) fn go_on(&mut self) -> Result<(), StoreError> {
        let agents: Vec<AgentId> = self.lanes.keys().cloned().collect();
        for agent in agents {
            while let Some(next) = self.lanes.get_mut(&agent).and_then(Lane::next) {
                let now = self.clock.now();
                match next {
                    Next::Begin(intent) => {
                        if self.store.claim(&intent.id, now)? {
                            self.begin(intent)?;
                        }
                    }
                    Next::GoOn(intent) => self.start_again(intent)?,
                    Next::LookAgain => self.look_again(&agent)?,
                    Next::TryAgain => self.try_again(&agent)?,
                    Next::Drop(intent, why) => {
                        self.store.overtake(&intent.id, why, now)?;
                        self.answer(&intent.id, Err(FleetError::NotDone(why.to_owned())));
                    }
                    Next::Fail(intent, why) => {
                        self.store.claim(&intent.id, now)?;
                        self.fail(&intent, why)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Does an intent that is claimed.
    fn begin(&mut self, intent: Intent) -> Result<(), StoreError> {
        let job = match intent.effect.clone() {
            Effect::Spawn => match self.config(&intent.agent, None)? {
                Some(config) => config,
                None => return self.fail(&intent, "its definition is not there any more"),
            },
            Effect::Send { message } => Job::Send(message),
            Effect::Answer { ask, allow, text, .. } => Job::Answer { ask, allow, text },
            Effect::ResolveStop => Job::ResolveStop,
            Effect::Gate { run, limit, .. } => {
                let defined = self.store.defined(&intent.agent)?;
                let sandbox = defined.as_ref().and_then(Defined::sandbox);
                let folder = defined.map(|defined| defined.folder).unwrap_or_default().into();
                Job::Gate(GateRun { agent: intent.agent.clone(), run, limit, folder, sandbox })
            }
            // What could not go on is not ended for that.
            Effect::Resume if self.store.conversation(&intent.agent)?.is_none() => {
                return self.fail(&intent, NO_CONVERSATION);
            }
            Effect::Resume | Effect::Restart | Effect::Finish { .. } => Job::End,
            Effect::Escalate { reason, ask } => {
                let name = self.store.defined(&intent.agent)?.map(|defined| defined.name);
                let name = name.unwrap_or_else(|| intent.agent.0.clone());
                Job::Notify(Notice { agent: intent.agent.clone(), name, reason, ask })
            }
        };
        self.start(intent, job, Duration::ZERO);
        Ok(())
    }

    fn config(&self, agent: &AgentId, resume: Option<String>) -> Result<Option<Job>, StoreError> {
        let record = self.lanes.get(agent).map(|lane| &lane.agent);
        let defined = self.store.defined(agent)?;
        let asks_before = self.store.count_asks(agent)?;
        let config = defined.zip(record).and_then(|(defined, record)| defined.config(record, resume, asks_before));
        Ok(config.map(|config| Job::Spawn(Box::new(config))))
    }

    /// The process before is gone, and that is written down; now there can be another, if there is to be one.
    fn start_again(&mut self, intent: Intent) -> Result<(), StoreError> {
        let resume = match intent.effect {
            Effect::Resume => match self.store.conversation(&intent.agent)? {
                Some(conversation) => Some(conversation),
                None => return self.fail(&intent, NO_CONVERSATION),
            },
            Effect::Finish { .. } => return self.finish(&intent),
            Effect::Spawn
            | Effect::Send { .. }
            | Effect::Answer { .. }
            | Effect::ResolveStop
            | Effect::Gate { .. }
            | Effect::Restart
            | Effect::Escalate { .. } => None,
        };
        match self.config(&intent.agent, resume)? {
            Some(job) => self.start(intent, job, Duration::ZERO),
            None => self.fail(&intent, "its definition is not there any more")?,
        }
        Ok(())
    }

    pub(super) fn start(&mut self, intent: Intent, job: Job, pause: Duration) {
        let (adapter, outside, facts) = (self.adapter.clone(), self.outside.clone(), self.facts.clone());
        let set = if let Job::Gate(_) = job { &mut self.gates } else { &mut self.work };
        let begun = UnderWay::Intent(Box::new(intent.clone()));
        let doing = async move {
            sleep(pause).await;
            let agent = intent.agent.clone();
            let performed = perform(adapter, outside, agent.clone(), job, facts).await;
            (agent, Ended::Performed(intent, performed))
        };
        let task = set.spawn_on(doing, &self.crew).id();
        self.under_way.insert(task, begun);
    }
}
