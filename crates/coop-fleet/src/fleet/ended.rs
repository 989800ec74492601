//! What was begun has ended, one way or another.

use std::time::Duration;

use coop_api::AgentId;
use tokio::task::{self, JoinError};

use super::FleetError;
use super::lane::{Doing, Lost, OTHERWISE, is_in_line};
use super::outside::Outside;
use super::owner::{Ended, Owner, UnderWay, fact, gone};
use super::perform::{Job, Performed};
use crate::adapter::{AgentAdapter, AgentAdapterError};
use crate::engine::{Effect, Input, Intent, IntentId, Phase};
use crate::store::StoreError;

/// How long it may take until the end of a process that has ended is heard of: it is told with all that came before it.
const TOLD: Duration = Duration::from_secs(20);
/// How long a message waits that was refused by an agent which is idle as far as we know.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a sidecar to which there is no way is left alone: whoever leads to it may be away for minutes.
const AGAIN: Duration = Duration::from_secs(30);

impl<A: AgentAdapter, O: Outside> Owner<A, O> {
    pub(super) fn ended(&mut self, ended: Result<(task::Id, (AgentId, Ended)), JoinError>) -> Result<(), StoreError> {
        let task = ended.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
        let under_way = self.under_way.remove(&task);
        self.catch_up()?;
        match ended {
            Ok((_, (agent, Ended::Adopted(adopted)))) => self.adopted(&agent, adopted),
            Ok((_, (_, Ended::Performed(intent, performed)))) => self.performed(intent, performed),
            Err(error) => {
                tracing::error!(%error, "something that was being done broke off");
                self.broke_off(under_way)
            }
        }
    }

    /// A mistake of ours ended what was being done. The agent must not wait for it, and a person has to know.
    fn broke_off(&mut self, under_way: Option<UnderWay>) -> Result<(), StoreError> {
        const WHY: &str = "coop broke off while it was being done; it may have been done or not";
        match under_way {
            Some(UnderWay::Intent(intent)) => self.fail(&intent, WHY),
            Some(UnderWay::Adopting(agent)) => {
                self.unreachable(&agent, "coop broke off while it looked for its sidecar".to_owned())
            }
            None => Ok(()),
        }
    }

    fn adopted(&mut self, agent: &AgentId, adopted: Result<(), AgentAdapterError>) -> Result<(), StoreError> {
        let Some(lane) = self.lanes.get_mut(agent) else { return Ok(()) };
        lane.doing = Doing::Nothing;
        if let Ok(()) | Err(AgentAdapterError::NotFound(_)) = adopted {
            lane.lost = None;
        }
        let has_run = lane.agent.run > 0 && lane.agent.phase != Phase::Dead;
        match adopted {
            Ok(()) => Ok(()),
            Err(AgentAdapterError::NotFound(_)) if !has_run => Ok(()),
            Err(AgentAdapterError::NotFound(_)) => self.record(vec![gone(agent)]),
            Err(error) => self.unreachable(agent, error.to_string()),
        }
    }

    /// There is no way to a sidecar that runs: it is looked for again after a while. That is told once.
    fn unreachable(&mut self, agent: &AgentId, why: String) -> Result<(), StoreError> {
        let again = Some(self.clock.now().plus(AGAIN));
        let Some(lane) = self.lanes.get_mut(agent) else { return Ok(()) };
        lane.doing = Doing::Nothing;
        let before = lane.lost.replace(Lost { why: why.clone(), again });
        if before.is_some_and(|before| before.why == why) {
            return Ok(());
        }
        self.record(vec![fact(agent, Input::Unreachable { why })])
    }

    fn performed(&mut self, intent: Intent, performed: Performed) -> Result<(), StoreError> {
        let now = self.clock.now();
        match performed {
            Performed::Done => self.finish(&intent),
            Performed::Gate(verdict) => {
                // If we are killed in between, the gate runs once more and nobody waits for it.
                let ended = Input::GateEnded { intent: intent.id.clone(), verdict };
                self.record(vec![fact(&intent.agent, ended)])?;
                self.finish(&intent)
            }
            Performed::Overtaken(why) => {
                self.free(&intent);
                self.store.overtake(&intent.id, &why, now)
            }
            Performed::Failed(why) => self.fail(&intent, &why),
            Performed::Busy => self.wait(intent),
            Performed::Ended { was_there } => {
                let is_finish = matches!(intent.effect, Effect::Finish { .. });
                if is_finish && !was_there {
                    return self.finish(&intent);
                }
                // Whoever is told that it was done finds it written down, so that is waited for.
                let agent = intent.agent.clone();
                let Some(lane) = self.lanes.get_mut(&agent) else { return Ok(()) };
                let is_dead = lane.agent.phase == Phase::Dead;
                lane.doing = Doing::Ending { intent, until: now.plus(TOLD) };
                // What nobody knows of cannot tell of its end either.
                if was_there || is_dead { Ok(()) } else { self.record(vec![gone(&agent)]) }
            }
        }
    }

    /// Keeps a message that was refused until the agent is idle. It is written down as not begun, for it was not.
    fn wait(&mut self, intent: Intent) -> Result<(), StoreError> {
        let now = self.clock.now();
        let Some(lane) = self.lanes.get_mut(&intent.agent) else { return Ok(()) };
        // Of an agent that is over nothing is followed any more, so it would be idle for ever as far as we know.
        if lane.is_for_nothing() {
            lane.doing = Doing::Nothing;
            return self.store.overtake(&intent.id, OTHERWISE, now);
        }
        if lane.agent.phase == Phase::Idle
            && let Effect::Send { message } = &intent.effect
        {
            // What it is busy with has not been heard of yet, or is over already.
            let job = Job::Send(message.clone());
            self.start(intent, job, PAUSE);
            return Ok(());
        }
        self.store.release(&intent.id, now)?;
        lane.doing = Doing::Waiting(intent);
        Ok(())
    }

    pub(super) fn finish(&mut self, intent: &Intent) -> Result<(), StoreError> {
        self.store.finish(&intent.id, self.clock.now())?;
        self.free(intent);
        self.answer(&intent.id, Ok(()));
        Ok(())
    }

    pub(super) fn fail(&mut self, intent: &Intent, why: &str) -> Result<(), StoreError> {
        let intents = self.store.fail(&intent.id, why, self.clock.now())?;
        self.refresh(&intent.agent)?;
        self.free(intent);
        intents.into_iter().for_each(|intent| self.add(intent));
        // Whoever is told may try again at once, with the same name.
        self.tell()?;
        self.answer(&intent.id, Err(FleetError::NotDone(why.to_owned())));
        Ok(())
    }

    fn free(&mut self, intent: &Intent) {
        if let Some(lane) = self.lanes.get_mut(&intent.agent).filter(|_| is_in_line(&intent.effect)) {
            lane.doing = Doing::Nothing;
        }
    }

    pub(super) fn answer(&mut self, intent: &IntentId, answer: Result<(), FleetError>) {
        if let Some(waiter) = self.waiters.remove(intent) {
            // Whoever asked may have gone.
            let _ = waiter.send(answer);
        }
    }
}
