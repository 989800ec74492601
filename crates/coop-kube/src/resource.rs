//! The resource `Agent`, `coop.dev/v1alpha1`. Its schema in `deploy/kubernetes/crd.yaml` is made of these types.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::actions::FleetActions;

/// An agent: what is run, where it works, and what is done when it ends.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "coop.dev",
    version = "v1alpha1",
    kind = "Agent",
    namespaced,
    status = "AgentStatus",
    derive = "PartialEq",
    shortname = "ag",
    category = "all",
    printcolumn = r#"{"name":"Driver","type":"string","jsonPath":".spec.driver"}"#,
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.state"}"#,
    printcolumn = r#"{"name":"Since","type":"date","jsonPath":".status.since"}"#,
    printcolumn = r#"{"name":"Needs","type":"string","jsonPath":".status.needs"}"#,
    printcolumn = r#"{"name":"Cost","type":"number","jsonPath":".status.usage.costUsd"}"#,
    printcolumn = r#"{"name":"Node","type":"string","jsonPath":".status.node"}"#,
    printcolumn = r#"{"name":"Starts","type":"integer","jsonPath":".status.starts","priority":1}"#,
    printcolumn = r#"{"name":"Session","type":"string","jsonPath":".status.session","priority":1}"#,
    printcolumn = r#"{"name":"Evidence","type":"string","jsonPath":".status.evidence.detail","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AgentSpec {
    /// What kind of agent it is, as `coop --agent` takes it: claude, codex, gemini, opencode, acp, api.
    pub driver: String,
    /// The image it runs in.
    pub image: String,
    /// Whether the image has coop at /usr/local/bin/coop. If not, an init container brings it.
    #[serde(default)]
    pub image_has_coop: bool,
    /// When the image is fetched: Always, IfNotPresent or Never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// The Secrets with which its images are fetched, as a pod's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<PullSecret>,
    /// What is run; without it the driver's own program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// How it is run: pty, pipe, server or inproc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The first message of its conversation. It is given once, whatever restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// A brief in place of a prompt, as `coop shim` takes it: what it says is the first message, and the agent is run and set up as a
    /// shim would. What it would allow without a human is asked all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub brief: Option<Map<String, Value>>,
    /// Variables of its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables whose values are in Secrets of this namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretVariable>,
    /// Where it works and keeps its conversation.
    #[serde(default)]
    pub workspace: Workspace,
    /// Where it may connect to, beside DNS. Addresses at which clouds hand out credentials of nodes are never allowed.
    #[serde(default)]
    pub egress: Egress,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The user and group it runs as; never root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub user: Option<i64>,
    /// What is done when the agent ends by itself. A sidecar, pod or node that is lost is always followed by another.
    #[serde(default)]
    pub on_dead: Dead,
    /// What a fleet over this cluster does about it (`coop up --launcher kubernetes`), which takes them in with the agent. The
    /// operator alone does only what `onDead` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<FleetActions>,
    /// What it may cost before it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Stops it, and keeps its conversation for when this is false again.
    #[serde(default)]
    pub suspend: bool,
    /// Who decides what is done about it. A fleet's agent has one pod: what follows that is the fleet's to say.
    #[serde(default)]
    pub managed_by: Manager,
    /// The conversation it goes on with. For a fleet's agents; others go on by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// The Secret with its `agent-config.json`, as `coop --agent-config` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_secret: Option<String>,
}

/// Who decides what is done about an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Manager {
    /// The operator gives it its prompt, and follows its pods by others.
    #[default]
    Operator,
    /// A fleet tells it everything, and the operator only makes its pod and ends it.
    Fleet,
}

/// A Secret with which images are fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullSecret {
    /// Its name, in this namespace.
    pub name: String,
}

/// A variable with a secret value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretVariable {
    /// The variable.
    pub env: String,
    /// The Secret.
    pub secret: String,
    /// Which of its values.
    pub key: String,
}

/// Where an agent works. Without a claim everything goes with the pod, also the conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// A volume of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// The name of a claim that is there already, in place of one of its own. It needs the label `coop.dev/agents: "true"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing_claim: Option<String>,
    /// What is cloned into it first, if it is empty. The image needs git and sh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<Git>,
}

/// A volume to be claimed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// How much, such as 5Gi.
    pub size: String,
    /// Of which class; without it the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// How it may be mounted; ReadWriteOnce if nothing is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<String>,
    /// What becomes of it with the agent.
    #[serde(default)]
    pub when_deleted: Keep,
}

/// What becomes of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Keep {
    /// It stays.
    #[default]
    Retain,
    /// It goes with the agent.
    Delete,
}

/// A repository to clone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Git {
    /// Where it is.
    pub url: String,
    /// A branch or tag; without it the repository's default.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// Where an agent may connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Egress {
    /// Whether it may reach public addresses. Private ones, the cluster's own among them, have to be named in `allow`.
    #[serde(default = "yes")]
    pub internet: bool,
    /// Further destinations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Destination>,
}

impl Default for Egress {
    fn default() -> Self {
        Self { internet: true, allow: Vec::new() }
    }
}

fn yes() -> bool {
    true
}

/// A destination: a block of addresses, or pods of the cluster. A Service is named by the pods behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Destination {
    /// A block of addresses outside of the cluster, such as 10.1.0.0/16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// A namespace of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The labels of pods in that namespace, or in the agent's own if none is named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pods: BTreeMap<String, String>,
    /// Ports, for TCP and UDP; all of them if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
}

/// What an agent may use, as a container's `resources`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// What is set aside for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
    /// What it cannot go beyond.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
}

/// What is done when an agent has ended by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Dead {
    /// A person is called.
    #[default]
    Escalate,
    /// Its conversation goes on in a new process; three times, then a person is called.
    Resume,
}

/// What an agent may cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// US dollars. Only agents whose models have a known price are held to it.
    pub cost_usd: f64,
}

/// What is known of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// What it is doing: pending, starting, working, idle, prompt, error, exited, stopping, suspended or
    /// unknown.
    pub state: String,
    /// Since when, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What that rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceStatus>,
    /// What it asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskStatus>,
    /// Why a person is needed, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// What it has used since its conversation began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageStatus>,
    /// The node it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its conversation, which it goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How far its first message is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptStatus>,
    /// The pod that is or was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// How many pods there were.
    #[serde(default)]
    pub starts: u32,
    /// How often the agent has ended by itself and was resumed.
    #[serde(default)]
    pub deaths: u32,
    /// The generation of the spec that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready: it runs and is heard. NeedsPerson: it does not go on without somebody. Valid, if it is not: what of the resource makes
    /// no sense.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// What a state rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceStatus {
    /// Who said so: a source of the sidecar's, or operator.
    pub source: String,
    /// What was said.
    pub detail: String,
}

/// What an agent asks, in short. Its sidecar has the whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskStatus {
    /// Its id, to answer it with.
    pub id: String,
    /// permission, plan, question or setup.
    pub kind: String,
    /// The tool that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The heart of it in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}

/// What an agent has used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageStatus {
    /// Tokens read, without those from the cache.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// What all of it cost, if the prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// How far an agent's first message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PromptStatus {
    /// It is being given. Whoever finds this does not know more.
    Sending,
    /// The agent has it.
    Delivered,
    /// Nobody knows whether the agent has it; it is not given again.
    Unsure,
}

/// A condition, as Kubernetes has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Since when.
    pub last_transition_time: String,
}

/// An object whose keys the API server keeps as they are.
fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}

/// Returns the definition of the resource.
pub fn definition() -> CustomResourceDefinition {
    Agent::crd()
}
