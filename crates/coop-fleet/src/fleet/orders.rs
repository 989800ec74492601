//! What people want.

use coop_api::AgentId;

use super::lane::{Doing, Lane, is_in_line};
use super::outside::Outside;
use super::owner::{Owner, fact};
use super::{FleetError, Note, Order, Want};
use crate::adapter::{AgentAdapter, can_be_id};
use crate::engine::{Input, Intent, IntentId};
use crate::store::StoreError;

impl<A: AgentAdapter, O: Outside> Owner<A, O> {
    pub(super) fn take(&mut self, order: Order) -> Result<(), StoreError> {
        match order {
            Order::Forget { age, done } => {
                let before = self.clock.now().minus(age);
                let forgotten = self.store.forget(before)?;
                forgotten.iter().for_each(|agent| drop(self.lanes.remove(agent)));
                self.tell()?;
                // Whoever asked may have gone.
                let _ = done.send(forgotten);
            }
            Order::LookAgain(agent) => {
                self.lanes.get_mut(&agent).into_iter().for_each(|lane| lane.has_next = true);
            }
            Order::Note { agent, note, by, done } => {
                let input = match note {
                    Note::Ended => Input::Dismissed { by, others: true },
                    Note::RunsOn => Input::RunsOn { by },
                    Note::Steered { waits } => Input::Steered { by, waits },
                    Note::Messaged => Input::Messaged { by },
                    Note::Decided(answer) => Input::Decided { answer, by },
                };
                self.record(vec![fact(&agent, input)])?;
                let _ = done.send(());
            }
            Order::Want { agent, want, by, done } => match self.want(&agent, want, by) {
                Ok(Some(intent)) => drop(self.waiters.insert(intent, done)),
                Ok(None) => {
                    self.tell()?;
                    let _ = done.send(Ok(()));
                }
                // Those of the store end the fleet, unless it is only that this agent makes no sense.
                Err(FleetError::Store(error)) if !matches!(error, StoreError::Undefined { .. }) => return Err(error),
                Err(error) => drop(done.send(Err(error))),
            },
        }
        Ok(())
    }

    /// Writes down what a person wants. Returns the intent that it comes to, if there is anything to do.
    fn want(&mut self, agent: &AgentId, want: Want, by: String) -> Result<Option<IntentId>, FleetError> {
        let now = self.clock.now();
        let intents = match want {
            Want::Spawn(defined) => {
                if !can_be_id(agent) {
                    return Err(FleetError::BadId(agent.clone()));
                }
                if self.lanes.get(agent).is_some_and(|lane| !lane.agent.never_ran()) {
                    return Err(FleetError::Exists(agent.clone()));
                }
                let intents = self.store.order(&defined, &fact(agent, Input::Ordered { by }), now)?;
                let record = self.store.agent(agent)?.ok_or_else(|| FleetError::NoSuchAgent(agent.clone()))?;
                self.lanes.entry(agent.clone()).or_insert_with(|| Lane::new(record, Doing::Nothing));
                intents
            }
            Want::Adopt(defined) => {
                if self.lanes.contains_key(agent) {
                    return Err(FleetError::Exists(agent.clone()));
                }
                let intents = self.store.order(&defined, &fact(agent, Input::Adopted { by }), now)?;
                let record = self.store.agent(agent)?.ok_or_else(|| FleetError::NoSuchAgent(agent.clone()))?;
                self.look_for(record)?;
                intents
            }
            Want::Dismiss => {
                let intents = self.note(agent, Input::Dismissed { by, others: false })?;
                self.adapter.give_up(agent);
                intents
            }
            Want::Define(defined) => {
                if !self.lanes.contains_key(agent) {
                    return Err(FleetError::NoSuchAgent(agent.clone()));
                }
                self.store.define(agent, &defined, now)?;
                Vec::new()
            }
            Want::Revive => self.note(agent, Input::Revived { by })?,
        };
        self.refresh(agent)?;
        let wanted = intents.iter().find(|intent| is_in_line(&intent.effect)).map(|intent| intent.id.clone());
        intents.into_iter().for_each(|intent| self.add(intent));
        Ok(wanted)
    }

    /// Writes down what a person wants of an agent that is there.
    fn note(&mut self, agent: &AgentId, input: Input) -> Result<Vec<Intent>, FleetError> {
        if !self.lanes.contains_key(agent) {
            return Err(FleetError::NoSuchAgent(agent.clone()));
        }
        Ok(self.store.record(&[fact(agent, input)], self.clock.now())?)
    }
}
