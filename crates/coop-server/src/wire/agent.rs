//! The agent: its state, messages to it, and the end of its turn.

use coop_api::{
    AgentReport, AgentState, Capability, Evidence, Nudge, NudgeRequest, PermissionMode, Seq, StopDecision, When,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PromptBody;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NudgeBody {
    /// What to tell the agent.
    pub(crate) message: String,
    /// `now` (the default) or `idle`, which queues it.
    #[serde(default)]
    pub(crate) when: When,
    /// Whether to wait until a queued message is delivered.
    #[serde(default)]
    pub(crate) wait: bool,
}

impl From<NudgeBody> for NudgeRequest {
    fn from(body: NudgeBody) -> Self {
        Self { message: body.message, when: body.when, wait: body.wait }
    }
}

/// What to do with an agent that wants to end its turn and is held.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StopBody {
    /// `allow` (the default) or `block`.
    pub(crate) decision: StopChoice,
    /// What an agent that is sent back is told.
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StopChoice {
    #[default]
    Allow,
    Block,
}

impl From<StopBody> for StopDecision {
    fn from(body: StopBody) -> Self {
        match body.decision {
            StopChoice::Allow => Self::Allow,
            StopChoice::Block => Self::Block(body.reason.unwrap_or_default()),
        }
    }
}

/// The agent's state in the words of both kinds of clients.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentBody {
    /// The agent's type, as given by `--agent`.
    agent: String,
    /// `starting`, `working`, `waiting_for_input`, `permission_prompt`, `plan_prompt`, `ask_user`, `error`, `unknown` or
    /// `exited`.
    state: &'static str,
    /// The same in one of `starting`, `working`, `idle`, `prompt`, `error`, `unknown`, `exited`.
    name: &'static str,
    /// The state with all that belongs to it.
    detail: AgentState,
    /// The screen's sequence number when the state began.
    since_seq: Seq,
    /// When the state began, RFC 3339.
    since: String,
    screen_seq: Seq,
    /// The number of the newest event, if events can be followed: whoever has it knows all that this state rests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_seq: Option<Seq>,
    /// Which kind of evidence the state rests on.
    detection_tier: &'static str,
    evidence: Evidence,
    idle_grace_remaining_secs: Option<f32>,
    prompt: Option<PromptBody>,
    /// The agent's own session, which it can be resumed with.
    session_id: Option<String>,
    last_message: Option<String>,
    /// Messages that wait to be delivered.
    queue: Vec<Nudge>,
    /// Whether it wants to end its turn and is held until `/stop/resolve` decides.
    stop_held: bool,
    /// How it is run: `pty`, `pipe` or `server`.
    runtime: &'static str,
    /// How it decides which tools to use without asking: `default`, `accept-edits`, `auto`, `plan`, `dont-ask` or `bypass`; null while that is
    /// not known.
    permission_mode: Option<PermissionMode>,
    /// What can be done with it; anything beyond gets `UNSUPPORTED`.
    capabilities: Vec<Capability>,
    /// How long it has written nothing.
    quiet_secs: f32,
}

impl AgentBody {
    pub(crate) fn new(report: AgentReport, event_seq: Option<Seq>) -> Self {
        Self {
            agent: report.agent,
            state: report.state.as_str(),
            name: report.state.short_name(),
            detail: report.state,
            since_seq: report.since_seq,
            since: report.since,
            screen_seq: report.screen_seq,
            event_seq,
            detection_tier: report.evidence.source.as_str(),
            evidence: report.evidence,
            idle_grace_remaining_secs: report.idle_grace_remaining.map(|left| left.as_secs_f32()),
            prompt: report.ask.as_ref().map(PromptBody::from),
            session_id: report.session_id,
            last_message: report.last_message,
            queue: report.queue,
            stop_held: report.stop_held,
            runtime: report.runtime,
            permission_mode: report.permission_mode,
            capabilities: report.capabilities,
            quiet_secs: report.quiet_for.as_secs_f32(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct NudgesBody {
    pub(crate) nudges: Vec<Nudge>,
}
