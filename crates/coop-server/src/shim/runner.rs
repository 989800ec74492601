//! A run, whoever runs it.

use std::sync::Arc;

use super::brief::Brief;
use super::host::Host;
use super::live::Live;
use super::mock::Mock;
use super::ring::RunId;
use super::types::AgentStatus;

/// A run, scripted or real.
pub(super) struct Runner<H: Host> {
    pub(super) run: RunId,
    /// Its name until the agent has said its own.
    pub(super) session_id: String,
    pub(super) brief: Brief,
    pub(super) what: What<H>,
}

pub(super) enum What<H: Host> {
    Mock(Arc<Mock>),
    Live(Arc<Live<H>>),
    /// It could not be started.
    Failed,
}

impl<H: Host> Clone for Runner<H> {
    fn clone(&self) -> Self {
        let what = match &self.what {
            What::Mock(mock) => What::Mock(Arc::clone(mock)),
            What::Live(live) => What::Live(Arc::clone(live)),
            What::Failed => What::Failed,
        };
        Self { run: self.run.clone(), session_id: self.session_id.clone(), brief: self.brief.clone(), what }
    }
}

impl<H: Host> Runner<H> {
    pub(super) fn status(&self) -> AgentStatus {
        match &self.what {
            What::Mock(mock) => mock.status(),
            What::Live(live) => live.status(),
            What::Failed => AgentStatus::Error,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        match self.status() {
            AgentStatus::Running | AgentStatus::WaitingOnHuman | AgentStatus::Idle => true,
            AgentStatus::Paused | AgentStatus::Completed | AgentStatus::Error => false,
        }
    }

    pub(super) fn brief(&self) -> Brief {
        match &self.what {
            What::Live(live) => live.brief(),
            What::Mock(_) | What::Failed => self.brief.clone(),
        }
    }

    pub(super) fn pending(&self) -> Vec<String> {
        match &self.what {
            What::Mock(mock) => mock.pending(),
            What::Live(live) => live.pending(),
            What::Failed => vec![],
        }
    }

    /// Returns the agent's own name for its conversation.
    pub(super) fn conversation(&self) -> Option<String> {
        match &self.what {
            What::Live(live) => live.session_id(),
            What::Mock(_) | What::Failed => None,
        }
    }
}
