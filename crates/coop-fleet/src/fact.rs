//! What is heard of agents.

use coop_api::{AgentId, AgentState, AskChange, Event, EventBody, Lifecycle, Seq, StopVerdict, Turn, TurnOutcome};

use crate::engine::Input;

/// Something that happened to an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// To which.
    pub agent: AgentId,
    /// Which sidecar told it, and its number there. The same is kept once.
    pub told: Option<(String, Seq)>,
    /// What it means to the engine.
    pub input: Option<Input>,
    /// What the sidecar said.
    pub event: Option<Box<Event>>,
}

impl Fact {
    /// The number of what comes before all that a sidecar tells: that there is one.
    pub const SPAWNED: Seq = Seq(0);
    /// The number of the end of a sidecar that could not tell of it. It fits what a store can count.
    pub const VANISHED: Seq = Seq(i64::MAX as u64);

    /// Returns what an event of a sidecar is to a fleet.
    pub fn heard(agent: &AgentId, sidecar: &str, mut event: Event) -> Self {
        // What sits beside an agent in a container may be the agent itself.
        event.body.shorten();
        let told = Some((sidecar.to_owned(), event.seq));
        Self { agent: agent.clone(), told, input: translate(&event), event: Some(Box::new(event)) }
    }
}

/// Returns what an event means to the engine, if anything: seed 000's table, and what asks, interrupts and costs are beside
/// it.
pub fn translate(event: &Event) -> Option<Input> {
    Some(match &event.body {
        EventBody::State(change) => match &change.next {
            AgentState::Working { .. } => match &change.prev {
                // Only the tool is another.
                AgentState::Working { .. } => return None,
                _ => Input::Working,
            },
            AgentState::Idle => Input::Idle { last_message: change.last_message.clone() },
            AgentState::Blocked { fault } => Input::Failed { fault: fault.clone() },
            // Asks are told of one by one, also a second one beside the first.
            AgentState::Waiting { .. } => return None,
            // What ends a process is told with its exit code.
            AgentState::Exited { .. } | AgentState::Starting | AgentState::Unknown => return None,
        },
        EventBody::Ask(AskChange::Opened { ask }) => Input::Prompt { ask: ask.clone() },
        EventBody::Ask(AskChange::Answered { ask, .. } | AskChange::Withdrawn { ask, .. }) => {
            Input::AskClosed { ask: ask.clone() }
        }
        EventBody::Stop(stop) => match stop.outcome {
            StopVerdict::Blocked => Input::StopBlocked { reason: stop.reason.clone() },
            StopVerdict::Allowed => Input::StopAllowed,
        },
        EventBody::Turn(Turn::Ended { outcome: TurnOutcome::Interrupted }) => Input::Interrupted,
        EventBody::Usage(usage) => Input::Cost { usd: usage.total.cost_usd? },
        EventBody::Lifecycle(Lifecycle::PermissionMode { mode }) => Input::PermissionMode { mode: *mode },
        EventBody::Lifecycle(Lifecycle::Exited { code, signal }) => Input::Gone { code: *code, signal: *signal },
        EventBody::Lifecycle(
            Lifecycle::Started { .. }
            | Lifecycle::Session { .. }
            | Lifecycle::Resized { .. }
            | Lifecycle::Stopping
            | Lifecycle::Unrecorded { .. },
        )
        | EventBody::Turn(_)
        | EventBody::Message(_)
        | EventBody::Tool(_)
        | EventBody::Artifact(_)
        | EventBody::Fault(_)
        | EventBody::Delivery(_) => return None,
    })
}
