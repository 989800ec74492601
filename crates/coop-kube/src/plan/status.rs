//! What is told of an agent.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use kube::ResourceExt;

use super::{Seen, Stopped};
use crate::manifest::child;
use crate::pod::{containers, last_words, waits_for};
use crate::resource::{Agent, AgentStatus, Condition, EvidenceStatus, PromptStatus};

/// How long a pod waits for a node, a volume or an image, and an agent fails at its start, before a person is called.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same where nobody says for what: a large image may be on its way.
const MOUNTED: Duration = Duration::from_secs(300);

/// What an agent looks like from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Its sidecar is heard.
    Heard,
    /// Its pod runs, and its sidecar is not heard, or no longer.
    Unheard,
    /// The same, and this operator has yet to hear it for the first time.
    Remembered,
    /// Its pod does not run yet.
    Pending,
    /// The same, because of what an earlier agent of its name has left.
    Left,
    /// The same, because of something of its name that is nobody's: of which kind.
    Taken(&'static str),
    /// The same, after it has ended by itself.
    Resumed,
    /// Its pod has failed.
    Failed,
    /// Its pod is being ended.
    Leaving,
    /// Its node does not answer.
    Silent,
    /// Its node is down for sure.
    Lost,
    /// It is not to run.
    Stopped(Stopped),
    /// It has ended by itself and is not to go on.
    Over,
    /// Its one pod has ended. What follows is for its fleet to say.
    Ended,
    /// Its resource makes no sense, so it is not begun.
    Invalid,
}

pub(super) fn status(agent: &Agent, told: &AgentStatus, seen: &Seen<'_>, sight: &Sight) -> AgentStatus {
    if *sight == Sight::Remembered {
        return told.clone();
    }
    let now = humantime::format_rfc3339_seconds(seen.now).to_string();
    let mut status = told.clone();
    status.observed_generation = agent.metadata.generation;
    let own = seen.pod.filter(|_| *sight != Sight::Left);
    status.node = own.and_then(|pod| pod.spec.as_ref()?.node_name.clone());
    if let Some(uid) = own.and_then(Pod::uid).filter(|uid| told.pod_uid.as_ref() != Some(uid)) {
        status.pod_uid = Some(uid);
        status.starts += 1;
    }
    if let Some(heard) = seen.heard {
        status.session = heard.session.clone().or(status.session);
        status.usage = heard.usage.or(status.usage);
    }
    if *sight == Sight::Resumed {
        status.deaths += 1;
    }
    let said = said(seen, sight);
    status.ask = None;
    match (sight, seen.heard) {
        (Sight::Heard, Some(heard)) => {
            status.state.clone_from(&heard.state);
            status.since = Some(heard.since.clone());
            status.evidence = Some(heard.evidence.clone());
            status.ask.clone_from(&heard.ask);
        }
        // What was last known of it stays what is known.
        (Sight::Over, _) => {}
        _ => {
            let state = match sight {
                // Its end is still to be counted.
                Sight::Leaving | Sight::Invalid | Sight::Taken(_) if told.state == "exited" => "exited",
                Sight::Pending
                | Sight::Left
                | Sight::Taken(_)
                | Sight::Resumed
                | Sight::Failed
                | Sight::Lost
                | Sight::Invalid => "pending",
                Sight::Unheard if seen.heard.is_none() => "starting",
                Sight::Stopped(_) if seen.pod.is_none() => "suspended",
                Sight::Ended => "exited",
                Sight::Leaving | Sight::Stopped(_) => "stopping",
                Sight::Unheard | Sight::Remembered | Sight::Silent | Sight::Heard | Sight::Over => "unknown",
            };
            if told.state != state {
                status.since = Some(now.clone());
            }
            state.clone_into(&mut status.state);
            status.evidence = Some(EvidenceStatus { source: "operator".to_owned(), detail: said.clone() });
        }
    }
    status.needs = needs(agent, &status, seen, sight);
    let is_ready = *sight == Sight::Heard && status.state != "exited";
    let ready =
        if is_ready { ("True", "Heard", "its sidecar is heard".to_owned()) } else { ("False", word(sight), said) };
    let person = match &status.needs {
        Some(why) => ("True", "Waits", why.clone()),
        None => ("False", "GoesOn", "it goes on by itself".to_owned()),
    };
    status.conditions =
        [("Ready", ready), ("NeedsPerson", person)].map(|(kind, how)| condition(told, kind, how, &now)).to_vec();
    status
}

/// Says what is wrong with the agent's resource. A person is needed for it, if nobody is for something else.
pub(super) fn needs_mending(status: &mut AgentStatus, told: &AgentStatus, seen: &Seen<'_>, wrong: &str) {
    let now = humantime::format_rfc3339_seconds(seen.now).to_string();
    let invalid = |kind: &str, is: &str| condition(told, kind, (is, "Invalid", wrong.to_owned()), &now);
    status.conditions.retain(|one| one.kind != "Valid");
    status.conditions.push(invalid("Valid", "False"));
    if status.needs.is_none() {
        status.needs = Some(wrong.to_owned());
        status.conditions.iter_mut().filter(|one| one.kind == "NeedsPerson").for_each(|one| {
            *one = invalid("NeedsPerson", "True");
        });
    }
}

/// Returns in a few words why a person is needed, if one is.
fn needs(agent: &Agent, status: &AgentStatus, seen: &Seen<'_>, sight: &Sight) -> Option<String> {
    if let Some(ask) = &status.ask {
        return Some(format!("answer: {}", ask.kind));
    }
    let why = match sight {
        Sight::Silent => {
            let node = status.node.as_deref().unwrap_or("its node");
            format!("{node} does not answer: bring it back, or confirm that it is down")
        }
        Sight::Taken(kind) => {
            format!("delete the {kind} {} if nobody needs it: it is nobody's", child(&agent.name_any()))
        }
        Sight::Stopped(Stopped::Budget) => "its budget is used up".to_owned(),
        Sight::Over | Sight::Ended => "it has ended".to_owned(),
        Sight::Heard if status.state == "exited" => "it has ended".to_owned(),
        Sight::Heard if status.state == "error" => "it gave up on an error".to_owned(),
        _ if status.prompt == Some(PromptStatus::Unsure)
            && (agent.spec.prompt.is_some() || agent.spec.brief.is_some()) =>
        {
            "nobody knows whether it has its prompt".to_owned()
        }
        Sight::Unheard if seen.heard.is_some() => said(seen, sight),
        // Nodes and volumes may still come; after this long somebody has to look.
        Sight::Pending => {
            let pod = seen.pod.filter(|pod| stuck_in(pod, seen.now).is_some_and(|left| left.is_zero()))?;
            let other = || format!("its pod has not begun; `kubectl describe pod {}` says why", pod.name_any());
            waits_for(pod).unwrap_or_else(other)
        }
        Sight::Failed if unheard_for(status, seen.now) >= PATIENCE => {
            format!("it does not come to run: {}", said(seen, sight))
        }
        _ => return None,
    };
    Some(why)
}

/// Returns the reason of a condition.
fn word(sight: &Sight) -> &'static str {
    match sight {
        Sight::Heard | Sight::Over | Sight::Ended => "Exited",
        Sight::Unheard | Sight::Remembered => "Unheard",
        Sight::Pending | Sight::Left | Sight::Resumed => "Pending",
        Sight::Taken(_) => "Taken",
        Sight::Failed => "PodFailed",
        Sight::Leaving => "Stopping",
        Sight::Silent => "NodeSilent",
        Sight::Lost => "NodeLost",
        Sight::Stopped(_) => "Suspended",
        Sight::Invalid => "Invalid",
    }
}

/// Returns what the operator itself has to say.
fn said(seen: &Seen<'_>, sight: &Sight) -> String {
    let node = seen.pod.and_then(|pod| pod.spec.as_ref()?.node_name.as_deref()).unwrap_or("its node");
    match sight {
        Sight::Heard => "it has ended by itself".to_owned(),
        Sight::Unheard | Sight::Remembered => match seen.heard.and_then(|heard| heard.unreachable.as_ref()) {
            Some(why) => format!("its sidecar cannot be reached: {why}"),
            None => "its sidecar has not been heard yet".to_owned(),
        },
        Sight::Pending => seen.pod.and_then(waits_for).unwrap_or_else(|| "its pod does not run yet".to_owned()),
        Sight::Left => "what is left of an earlier agent of this name has to go first".to_owned(),
        Sight::Taken(kind) => format!("there is a {kind} of its name that is not known to be its"),
        Sight::Resumed => "it has ended by itself, and goes on in another pod".to_owned(),
        Sight::Failed => {
            let Some((container, end)) = seen.pod.and_then(terminated) else {
                return "its pod failed; another follows".to_owned();
            };
            let code = end.exit_code;
            let ended = match (container, code) {
                ("agent", _) => format!("its sidecar ended with {code}"),
                ("clone", 127) => "its repository was not cloned: the image needs git and sh for that".to_owned(),
                (container, _) => format!("its init container {container} ended with {code}"),
            };
            match end.message.as_deref().and_then(last_words) {
                Some(line) => format!("{ended}; another follows: {line}"),
                None => format!("{ended}; another follows"),
            }
        }
        Sight::Leaving => "its pod is being ended".to_owned(),
        Sight::Silent => format!("{node} does not answer; the agent may run there, so it is started nowhere else"),
        Sight::Lost => format!("{node} is down; the agent goes on elsewhere"),
        Sight::Stopped(Stopped::Asked) => "it is suspended".to_owned(),
        Sight::Stopped(Stopped::Budget) => "its budget is used up".to_owned(),
        Sight::Over => "it has ended by itself".to_owned(),
        Sight::Ended => "its pod has ended; its fleet decides what follows".to_owned(),
        Sight::Invalid => "its resource makes no sense".to_owned(),
    }
}

/// Returns how much longer a pod may wait for what it has not got, if it does wait.
pub(super) fn stuck_in(pod: &Pod, now: SystemTime) -> Option<Duration> {
    let patience = match waits_for(pod) {
        Some(_) => PATIENCE,
        None if !has_begun(pod) => MOUNTED,
        None => return None,
    };
    let made = pod.metadata.creation_timestamp.as_ref().and_then(|made| time(&made.0.to_string()));
    let waited = made.and_then(|made| now.duration_since(made).ok()).unwrap_or_default();
    Some(patience.saturating_sub(waited))
}

/// Returns which container has ended with something to say, and how.
fn terminated(pod: &Pod) -> Option<(&str, &ContainerStateTerminated)> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    containers
        .filter_map(|one| Some((one.name.as_str(), one.state.as_ref()?.terminated.as_ref()?)))
        .find(|(_, end)| end.exit_code != 0 || end.message.is_some())
}

/// Tells whether something runs in a pod, or did.
fn has_begun(pod: &Pod) -> bool {
    containers(pod).any(|(_, state)| state.waiting.is_none())
}

/// Returns for how long no sidecar of the agent's was heard, as far as that was told.
fn unheard_for(told: &AgentStatus, now: SystemTime) -> Duration {
    let ready = told.conditions.iter().find(|one| one.kind == "Ready" && one.status == "False");
    let since = ready.and_then(|ready| time(&ready.last_transition_time));
    since.and_then(|since| now.duration_since(since).ok()).unwrap_or_default()
}

/// Returns how long the last container of a pod has been over.
pub(super) fn over_for(pod: &Pod, now: SystemTime) -> Duration {
    let ended = terminated(pod).and_then(|(_, end)| time(&end.finished_at.as_ref()?.0.to_string()));
    ended.and_then(|ended| now.duration_since(ended).ok()).unwrap_or(LONG_AGO)
}

/// Nobody knows when; then it is long enough.
const LONG_AGO: Duration = Duration::from_secs(3600);

/// Returns how long a pod that is over has lived, if that is known.
pub(super) fn lived_for(pod: &Pod) -> Option<Duration> {
    let (_, end) = terminated(pod)?;
    let began = time(&end.started_at.as_ref()?.0.to_string())?;
    time(&end.finished_at.as_ref()?.0.to_string())?.duration_since(began).ok()
}

fn time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339_weak(text).ok()
}

fn condition(told: &AgentStatus, kind: &str, (status, reason, message): (&str, &str, String), now: &str) -> Condition {
    let before = told.conditions.iter().find(|one| one.kind == kind && one.status == status);
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: before.map_or_else(|| now.to_owned(), |before| before.last_transition_time.clone()),
    }
}
