//! What a pod says of its containers, for whoever has to tell people.

use k8s_openapi::api::core::v1::{ContainerState, Pod};

/// Returns how all containers of a pod are, those first that come first.
pub(crate) fn containers(pod: &Pod) -> impl Iterator<Item = (&str, &ContainerState)> {
    let status = pod.status.iter();
    let statuses = status.flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses));
    statuses.flatten().filter_map(|status| Some((status.name.as_str(), status.state.as_ref()?)))
}

/// Returns what a pod that does not run yet waits for, in Kubernetes' words.
pub(crate) fn waits_for(pod: &Pod) -> Option<String> {
    let waiting = containers(pod).filter_map(|(_, state)| state.waiting.as_ref()).find_map(|waiting| {
        let reason = waiting.reason.as_deref().filter(|one| !["PodInitializing", "ContainerCreating"].contains(one))?;
        let message = waiting.message.as_ref();
        Some(message.map_or_else(|| reason.to_owned(), |message| format!("{reason}: {message}")))
    });
    let unscheduled = || {
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        let one = conditions.iter().find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
        one.message.clone()
    };
    waiting.or_else(unscheduled)
}

/// Returns the line that says most: what coop says at its end, else what it says of a wrong option, else the last.
pub(crate) fn last_words(message: &str) -> Option<&str> {
    let begins = |with: &'static str| message.lines().rev().find(move |line| line.starts_with(with));
    begins("coop: ").or_else(|| begins("error: ")).or_else(|| message.lines().last())
}
