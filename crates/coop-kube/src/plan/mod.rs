//! What follows from an agent and from what is there. Nothing here sees a cluster or a clock.
//!
//! **Never twice.** A pod's name is the agent's, so the API server keeps a second one out as long as the first is known to
//! it. A pod is struck from its books without its node's word in one case only: the node's own entry is gone, or somebody
//! has set the taint `node.kubernetes.io/out-of-service` on a node that is not ready, which is Kubernetes' way to say that
//! it is down for sure. A node that is merely silent may still run the agent, so nothing is done but to call a person.

mod status;
#[cfg(test)]
mod tests;
mod valid;

use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::Value;

use self::status::Sight;
use crate::manifest::{self, FINALIZER, HASH, Images};
use crate::network;
use crate::resource::{Agent, AgentStatus, Dead, Manager, PromptStatus};
use crate::sidecar::Heard;
use crate::world::is_owned;

/// How often an agent that ends by itself is resumed until a person is called.
const MOST_DEATHS: u32 = 3;
/// A pod that lived for so long did not fail at its start.
const LIVED: Duration = Duration::from_secs(600);
/// The longest pause before a pod that fails at its start is followed by another.
const LONGEST: Duration = Duration::from_secs(300);

/// What is there for one agent.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its pod.
    pub pod: Option<&'a Pod>,
    /// What has become of the pod's node.
    pub node: NodeFate,
    /// What its sidecar says; nothing of an earlier pod's.
    pub heard: Option<&'a Heard>,
    /// What its brief says that it is told first, or why it cannot be used; nothing if it has none.
    pub brief: Option<&'a Result<String, String>>,
    /// Whether its Secret is there.
    pub secret: Part,
    /// Whether its policy of the network is there.
    pub policy: Part,
    /// Whether the claim of its own volume is there.
    pub claim: Part,
    /// What is known of the claim that it names as `existingClaim`.
    pub existing_claim: ExistingClaim,
    /// The time.
    pub now: SystemTime,
}

/// Whether something is there that is called after an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is not.
    Missing,
    /// It is, and is the agent's.
    Its,
    /// The same, but it is not as it would be made now.
    Outdated,
    /// It is what an earlier agent of the same name has left, and will be gone: the cluster deletes what has no owner.
    Left,
    /// It is nobody's. Others may have made it, and nobody deletes it by itself.
    Taken,
}

/// What is known of a claim that an agent names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingClaim {
    /// The agent names none.
    Unnamed,
    /// It is not there.
    Missing,
    /// It lacks the label that lets agents have it.
    Unlabelled,
    /// Agents may have it.
    Allowed,
}

/// What has become of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFate {
    /// There is none yet.
    Unassigned,
    /// It is ready.
    Fine,
    /// It is not ready, or was not heard of yet. What runs there may still run.
    Silent,
    /// It is not ready, and somebody has confirmed that nothing runs there.
    Down,
    /// The cluster had it and has it no more.
    Gone,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Hold the agent's deletion until it has ended.
    Hold,
    /// Let its deletion go on.
    Release,
    /// Make its Secret, with a new token.
    MakeSecret,
    /// Make its policy.
    MakePolicy(Value),
    /// Replace what its policy says.
    UpdatePolicy(Value),
    /// Make its claim.
    MakeClaim(Value),
    /// Make its pod.
    MakePod(Box<Value>),
    /// End this pod, and let the agent end in order.
    EndPod {
        /// Which.
        uid: String,
    },
    /// Strike this pod from the books: nothing runs where it was.
    ForgetPod {
        /// Which.
        uid: String,
    },
    /// Give it its first message.
    Prompt(String),
}

/// What is to be done about an agent, and what is to be told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What is to be done, in this order.
    pub steps: Vec<Step>,
    /// What is to be told.
    pub status: AgentStatus,
    /// When to look again though nothing changes.
    pub again: Option<Duration>,
}

/// Returns what follows.
pub fn plan(agent: &Agent, images: &Images, seen: &Seen<'_>) -> Plan {
    let told = agent.status.clone().unwrap_or_default();
    if agent.metadata.deletion_timestamp.is_some() {
        return Plan {
            steps: farewell(agent, seen),
            status: status::status(agent, &told, seen, &Sight::Leaving),
            again: None,
        };
    }
    if !agent.finalizers().iter().any(|one| one == FINALIZER) {
        return Plan { steps: vec![Step::Hold], status: told, again: None };
    }
    let first = valid::first_message(agent, seen);
    let told = AgentStatus { prompt: prompt(&told, seen, first.as_ref().ok().copied().flatten()), ..told };
    let mut steps = Vec::new();
    let mut again = None;
    let sight = match seen.pod {
        Some(pod) if !is_owned(pod, agent) => {
            steps.extend(end(pod, seen));
            Sight::Left
        }
        Some(pod) => with_pod(agent, images, &told, seen, pod, &mut steps, &mut again),
        None => without_pod(agent, images, &told, seen, &mut steps),
    };
    // What makes no sense is not begun. What runs already runs on as it was meant before.
    let is_begun = |step: &Step| matches!(step, Step::MakePod(_));
    let sight = match &first {
        Err(_) if steps.iter().any(is_begun) => {
            steps.clear();
            Sight::Invalid
        }
        // Also one that has ended is left as it is: there would be no next pod.
        Err(_) if matches!(sight, Sight::Heard | Sight::Pending) => {
            steps.clear();
            sight
        }
        _ => sight,
    };
    if let Some(step) = mend_policy(agent, seen) {
        steps.insert(0, step);
    }
    let mut status = status::status(agent, &told, seen, &sight);
    match first {
        Err(wrong) => status::needs_mending(&mut status, &told, seen, &wrong),
        Ok(Some(message)) if sight == Sight::Heard && steps.is_empty() && wants_prompt(agent, &status, seen) => {
            steps.push(Step::Prompt(message.to_owned()));
        }
        Ok(_) => {}
    }
    Plan { steps, status, again }
}

/// Tells why the agent is not to run, if it is not.
fn stopped(agent: &Agent, told: &AgentStatus, seen: &Seen<'_>) -> Option<Stopped> {
    if agent.spec.suspend {
        return Some(Stopped::Asked);
    }
    let heard = seen.heard.and_then(|heard| heard.usage);
    let cost = heard.or(told.usage).and_then(|usage| usage.cost_usd);
    match (agent.spec.budget, cost) {
        (Some(budget), Some(cost)) if cost >= budget.cost_usd => Some(Stopped::Budget),
        _ => None,
    }
}

/// Why an agent does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    Asked,
    Budget,
}

/// Ends the pod first, whatever node it is on, then lets the agent go.
fn farewell(agent: &Agent, seen: &Seen<'_>) -> Vec<Step> {
    let is_held = agent.finalizers().iter().any(|one| one == FINALIZER);
    match seen.pod {
        Some(pod) => end(pod, seen).into_iter().collect(),
        None if is_held => vec![Step::Release],
        None => Vec::new(),
    }
}

/// Returns how this pod is ended; nothing if that is under way.
fn end(pod: &Pod, seen: &Seen<'_>) -> Option<Step> {
    let uid = pod.uid().unwrap_or_default();
    match seen.node {
        NodeFate::Down | NodeFate::Gone => Some(Step::ForgetPod { uid }),
        NodeFate::Unassigned | NodeFate::Fine | NodeFate::Silent if pod.metadata.deletion_timestamp.is_some() => None,
        NodeFate::Unassigned | NodeFate::Fine | NodeFate::Silent => Some(Step::EndPod { uid }),
    }
}

fn with_pod(
    agent: &Agent,
    images: &Images,
    told: &AgentStatus,
    seen: &Seen<'_>,
    pod: &Pod,
    steps: &mut Vec<Step>,
    again: &mut Option<Duration>,
) -> Sight {
    if matches!(seen.node, NodeFate::Down | NodeFate::Gone) {
        steps.extend(end(pod, seen));
        return Sight::Lost;
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return if seen.node == NodeFate::Silent { Sight::Silent } else { Sight::Leaving };
    }
    if let Some(why) = stopped(agent, told, seen) {
        steps.extend(end(pod, seen));
        return Sight::Stopped(why);
    }
    if seen.node == NodeFate::Silent {
        return Sight::Silent;
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    if matches!(phase, "Failed" | "Succeeded") {
        if agent.spec.managed_by == Manager::Fleet {
            return Sight::Ended;
        }
        let left = pause(told, pod).saturating_sub(status::over_for(pod, seen.now));
        if left.is_zero() {
            steps.extend(end(pod, seen));
        } else {
            *again = Some(left);
        }
        return Sight::Failed;
    }
    let Some(heard) = seen.heard else {
        let is_known = told.pod_uid == pod.uid() && told.conditions.iter().any(|one| one.reason == "Heard");
        return match phase {
            // An operator that has just begun has not heard it yet; what was told of this pod holds until it has.
            "Running" if is_known => Sight::Remembered,
            "Running" => Sight::Unheard,
            _ => {
                // It may wait for what was wrong and is mended: an image, a Secret to fetch it with. One that fetches its
                // repository goes on.
                let is_stuck = status::stuck_in(pod, seen.now);
                *again = is_stuck.filter(|left| !left.is_zero());
                let is_stuck = is_stuck.is_some();
                if is_stuck && agent.spec.managed_by == Manager::Operator && is_other(pod, agent, images) {
                    steps.extend(end(pod, seen));
                }
                Sight::Pending
            }
        };
    };
    if heard.unreachable.is_some() {
        return Sight::Unheard;
    }
    if agent.spec.managed_by == Manager::Fleet {
        return Sight::Heard;
    }
    let is_over = heard.state == "exited";
    if is_over && agent.spec.on_dead == Dead::Resume && told.deaths < MOST_DEATHS {
        steps.extend(end(pod, seen));
    }
    // An agent is never taken from its work for a newer image or setting: they wait until it is idle.
    if is_other(pod, agent, images) && heard.state == "idle" {
        steps.extend(end(pod, seen));
    }
    Sight::Heard
}

/// Tells whether another pod would be made of the agent now.
fn is_other(pod: &Pod, agent: &Agent, images: &Images) -> bool {
    let now = manifest::pod(agent, images);
    pod.annotations().get(HASH).map(String::as_str) != now["metadata"]["annotations"][HASH].as_str()
}

fn without_pod(agent: &Agent, images: &Images, told: &AgentStatus, seen: &Seen<'_>, steps: &mut Vec<Step>) -> Sight {
    if let Some(why) = stopped(agent, told, seen) {
        return Sight::Stopped(why);
    }
    if agent.spec.managed_by == Manager::Fleet && told.pod_uid.is_some() {
        return Sight::Ended;
    }
    let has_ended = told.state == "exited";
    if has_ended && (agent.spec.on_dead == Dead::Escalate || told.deaths >= MOST_DEATHS) {
        return Sight::Over;
    }
    let wanted = manifest::claim(agent);
    let claim = if wanted.is_some() { seen.claim } else { Part::Missing };
    if [seen.secret, seen.policy, claim].contains(&Part::Left) {
        // A pod with these would lose them, and its Secret has a token that others may know.
        return Sight::Left;
    }
    // Whoever made them may know the token, or have left the agent open to others.
    if seen.secret == Part::Taken {
        return Sight::Taken("Secret");
    }
    if seen.policy == Part::Taken {
        return Sight::Taken("NetworkPolicy");
    }
    if seen.secret == Part::Missing {
        steps.push(Step::MakeSecret);
    }
    if seen.policy == Part::Missing {
        steps.push(Step::MakePolicy(network::policy(agent)));
    }
    if let Some(claim) = wanted.filter(|_| claim == Part::Missing) {
        steps.push(Step::MakeClaim(claim));
    }
    steps.push(Step::MakePod(Box::new(manifest::pod(agent, images))));
    if has_ended { Sight::Resumed } else { Sight::Pending }
}

/// Returns how the policy of a pod that is there becomes what the resource says. It holds at once: an agent that may no longer reach
/// something is not waited for.
fn mend_policy(agent: &Agent, seen: &Seen<'_>) -> Option<Step> {
    network::check(&agent.spec.egress).ok()?;
    match seen.policy {
        Part::Outdated => Some(Step::UpdatePolicy(network::policy(agent))),
        Part::Missing if seen.pod.is_some_and(|pod| is_owned(pod, agent)) => {
            Some(Step::MakePolicy(network::policy(agent)))
        }
        Part::Missing | Part::Its | Part::Left | Part::Taken => None,
    }
}

/// Returns how long a pod that has failed is left alone: the longer, the more there were, unless it had lived.
fn pause(told: &AgentStatus, pod: &Pod) -> Duration {
    let lived = status::lived_for(pod);
    if lived.is_none_or(|lived| lived >= LIVED) {
        return Duration::ZERO;
    }
    Duration::from_secs(1 << told.starts.min(9)).min(LONGEST)
}

/// Returns how far the first message is. One that somebody began to give, and who is gone, is never given again: the
/// sidecar's log says whether it came, or nobody knows.
fn prompt(told: &AgentStatus, seen: &Seen<'_>, message: Option<&str>) -> Option<PromptStatus> {
    let Some(heard) = seen.heard.filter(|heard| heard.unreachable.is_none()) else { return told.prompt };
    let first = heard.first_turn.as_deref();
    match told.prompt {
        Some(PromptStatus::Sending) if first.is_some() => Some(PromptStatus::Delivered),
        Some(PromptStatus::Sending) => Some(PromptStatus::Unsure),
        // It came after all, only late. A turn about something else says nothing of it.
        Some(PromptStatus::Unsure) if first.is_some() && first.map(str::trim) == message.map(str::trim) => {
            Some(PromptStatus::Delivered)
        }
        prompt => prompt,
    }
}

fn wants_prompt(agent: &Agent, status: &AgentStatus, seen: &Seen<'_>) -> bool {
    let is_ours = agent.spec.managed_by == Manager::Operator;
    is_ours && status.prompt.is_none() && seen.heard.is_some_and(|heard| heard.state == "idle")
}
