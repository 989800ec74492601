//! The resource that is made for an agent of a fleet.

use std::collections::BTreeMap;

use coop_fleet::adapter::AgentConfig;
use kube::api::ObjectMeta;

use crate::manifest::{FLEET, MANAGED};
use crate::resource::{Agent, AgentSpec, Claim, Keep, Manager, Resources, SecretVariable, Workspace};

/// What longer names leave no room for: all that belongs to an agent is called after it, and a name has 63 letters.
const LONGEST_NAME: usize = 48;

/// What all agents of a fleet have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// The image they run in. Without one no agent can be started, and those that are there are seen all the same.
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
}

/// Returns the resource of an agent, or why there cannot be one.
pub(super) fn agent(
    template: &Template,
    fleet: &str,
    config: &AgentConfig,
    config_secret: &str,
) -> Result<Agent, String> {
    let name = &config.agent.0;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = name.bytes().all(is_plain) && !name.starts_with('-') && !name.ends_with('-') && !name.is_empty();
    if !is_name || name.len() > LONGEST_NAME {
        return Err(format!(
            "{name:?} cannot be a name in a cluster: lower-case letters, digits and -, {LONGEST_NAME} at most"
        ));
    }
    let image = template.image.clone().ok_or("no image is said that it could run in: `coop up --image`")?;
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

/// Returns what all has that a fleet makes.
pub(super) fn labels(fleet: &str) -> BTreeMap<String, String> {
    [MANAGED, (FLEET, fleet)].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}
