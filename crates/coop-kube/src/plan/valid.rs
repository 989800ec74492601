//! What an agent is told first, and what of its resource makes no sense.

use super::{ExistingClaim, Seen};
use crate::manifest::FOR_AGENTS;
use crate::names::{is_object_name, is_quantity};
use crate::network;
use crate::resource::{Agent, Manager};

/// What a sidecar takes for `--agent`.
const DRIVERS: [&str; 8] = ["auto", "claude", "codex", "gemini", "opencode", "acp", "api", "unknown"];

/// What Kubernetes takes for `imagePullPolicy`.
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

/// The annotations of a pod have 256 KiB in all, and a brief is one of them.
const LARGEST_BRIEF: usize = 240 * 1024;

/// Returns the agent's first message, if it has one, or in one sentence why it cannot be run as its resource says.
pub(super) fn first_message<'a>(agent: &'a Agent, seen: &Seen<'a>) -> Result<Option<&'a str>, String> {
    let spec = &agent.spec;
    if !DRIVERS.contains(&spec.driver.as_str()) {
        return Err(format!("driver: there is no {:?}, only {}", spec.driver, DRIVERS.join(", ")));
    }
    if spec.driver == "unknown" && spec.prompt.is_some() {
        return Err("prompt: nobody knows when a program that coop does not know can be told something; leave it out, or say its driver".to_owned());
    }
    if let Some(claim) = spec.workspace.claim.as_ref().filter(|claim| !is_quantity(&claim.size)) {
        return Err(format!("workspace.claim.size: {:?} is not the size of a volume; use one such as 5Gi", claim.size));
    }
    existing_claim(agent, seen.existing_claim)?;
    network::check(&spec.egress)?;
    if let Some(policy) = spec.image_pull_policy.as_ref().filter(|policy| !PULL_POLICIES.contains(&policy.as_str())) {
        return Err(format!("imagePullPolicy: there is no {policy:?}, only {}", PULL_POLICIES.join(", ")));
    }
    if spec.actions.is_some() && spec.managed_by == Manager::Fleet {
        return Err("its fleet has its own actions for it: leave out the actions".to_owned());
    }
    if let Some(actions) = &spec.actions {
        actions.check(&spec.driver).map_err(|wrong| format!("actions: {wrong}"))?;
    }
    if let Some(wrong) = spec.image_pull_secrets.iter().find(|secret| !is_object_name(&secret.name)) {
        let name = &wrong.name;
        return Err(format!(
            "imagePullSecrets: {name:?} cannot be the name of a Secret: lower-case letters, digits, - and ."
        ));
    }
    let (Some(brief), Some(read)) = (&spec.brief, seen.brief) else { return Ok(spec.prompt.as_deref()) };
    if spec.prompt.is_some() {
        return Err("it has a prompt and a brief, and only one of them can be what it is told first".to_owned());
    }
    if spec.runtime.is_some() {
        return Err("with a brief it is run as a shim would: leave out the runtime".to_owned());
    }
    if spec.managed_by == Manager::Fleet {
        return Err("its fleet tells it everything: leave out the brief".to_owned());
    }
    let size = serde_json::to_string(brief).map_or(usize::MAX, |text| text.len());
    if size > LARGEST_BRIEF {
        return Err(format!("brief: it has {} KiB, and {} are the most", size >> 10, LARGEST_BRIEF >> 10));
    }
    match read {
        Ok(message) => Ok(Some(message)),
        Err(wrong) => Err(wrong.clone()),
    }
}

/// Refuses a claim that is not meant for agents, such as the fleet's own or another agent's.
fn existing_claim(agent: &Agent, found: ExistingClaim) -> Result<(), String> {
    let Some(name) = &agent.spec.workspace.existing_claim else { return Ok(()) };
    let (label, value) = FOR_AGENTS;
    match found {
        ExistingClaim::Allowed => Ok(()),
        ExistingClaim::Unnamed | ExistingClaim::Missing => Err(format!(
            "workspace.existingClaim: there is no claim {name:?} in this namespace; make it, with the label {label}: {value:?}"
        )),
        ExistingClaim::Unlabelled => Err(format!(
            "workspace.existingClaim: the claim {name:?} lacks the label {label}: {value:?}, without which no agent may have it; if \
             agents may: kubectl label pvc {name} {label}={value}"
        )),
    }
}
