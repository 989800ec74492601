//! The resource that is made for an agent of a fleet.

use std::collections::BTreeMap;

use coop_fleet::adapter::AgentConfig;
use kube::api::ObjectMeta;

use crate::manifest::{FLEET, MANAGED};
use crate::names::{LONGEST_AGENT, is_agent_name};
use crate::resource::{
    Agent, AgentSpec, Claim, Destination, Egress, Keep, Manager, Resources, SecretVariable, Workspace,
};

/// Why none can be started.
pub(super) const NO_IMAGE: &str =
    "no image is said that it could run in: begin the daemon with `coop up --image IMAGE`";

/// What all agents of a fleet have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// The image they run in; without one, within the cluster, that of the fleet's own pod. If there is none no agent can be
    /// started, and those that are there are seen all the same.
    pub image: Option<String>,
    /// Whether it has coop; if not, an init container brings it.
    pub image_has_coop: bool,
    /// When it is fetched, as Kubernetes has it.
    pub image_pull_policy: Option<String>,
    /// How large a volume each has. Without one its conversation goes with its pod.
    pub claim: Option<String>,
    /// Of which class the volume is.
    pub storage_class: Option<String>,
    /// What each cannot go beyond, by what it is of.
    pub limits: BTreeMap<String, String>,
    /// Variables whose values are in Secrets.
    pub secrets: Vec<SecretVariable>,
    /// Destinations beside the internet.
    pub egress: Vec<Destination>,
}

/// Returns the resource of an agent, or why there cannot be one.
pub(super) fn agent(
    template: &Template,
    fleet: &str,
    config: &AgentConfig,
    config_secret: &str,
) -> Result<Agent, String> {
    let name = &config.agent.0;
    check_name(name)?;
    if config.ask_first || config.permission_mode.is_some() {
        return Err("ask_first and permission_mode do not reach agents in pods; leave them out".to_owned());
    }
    let image = template.image.clone().ok_or(NO_IMAGE)?;
    if config.resume.is_some() && template.claim.is_none() {
        return Err("its conversation went with its pod: `coop up --claim` gives agents volumes that stay".to_owned());
    }
    let claim = template.claim.as_ref().map(|size| Claim {
        size: size.clone(),
        storage_class: template.storage_class.clone(),
        access_modes: Vec::new(),
        when_deleted: Keep::Retain,
    });
    let limits =
        (!template.limits.is_empty()).then(|| Resources { requests: BTreeMap::new(), limits: template.limits.clone() });
    let spec = AgentSpec {
        driver: config.driver.clone(),
        image,
        image_has_coop: template.image_has_coop,
        image_pull_policy: template.image_pull_policy.clone(),
        command: config.command.clone(),
        runtime: config.runtime.clone(),
        env: config.env.clone(),
        secrets: template.secrets.clone(),
        workspace: Workspace { claim, existing_claim: None, git: None },
        egress: Egress { allow: template.egress.clone(), ..Egress::default() },
        resources: limits,
        managed_by: Manager::Fleet,
        resume: config.resume.clone(),
        config_secret: Some(config_secret.to_owned()),
        ..AgentSpec::default()
    };
    let mut agent = Agent::new(name, spec);
    agent.metadata = ObjectMeta { labels: Some(labels(fleet)), ..std::mem::take(&mut agent.metadata) };
    Ok(agent)
}

/// Refuses a name that a cluster does not take.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    match is_agent_name(name) {
        true => Ok(()),
        false => Err(format!(
            "that cannot be a name in a cluster: use lower-case letters, digits and -, {LONGEST_AGENT} at most"
        )),
    }
}

/// Returns what all has that a fleet makes.
pub(super) fn labels(fleet: &str) -> BTreeMap<String, String> {
    [MANAGED, (FLEET, fleet)].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}
