//! The beginning of a run.

use std::sync::{Arc, MutexGuard, PoisonError};

use uuid::Uuid;

use super::body::Invalid;
use super::brief::Brief;
use super::briefed;
use super::host::Host;
use super::live::{Live, lifecycle, opening};
use super::map::failure;
use super::mock::Mock;
use super::prompt;
use super::queue::Queue;
use super::ring::RunId;
use super::routes::Failure;
use super::runner::{Runner, What};
use super::saved::Saved;
use super::types::{AgentHandle, Body, LifecycleAction, Outcome, SerializedAgentState, Severity};
use super::{Kind, Shim};

impl<H: Host> Shim<H> {
    pub(super) async fn spawn(&self, brief: Brief) -> Result<AgentHandle, Failure> {
        let _change = self.change.lock().await;
        self.check_free()?;
        briefed::check_kept(&brief, self.config.agent.sdk())?;
        self.waiting().begin(&brief.typed().agent_id);
        let run = self.journal.begin();
        let runner = match self.config.agent {
            Kind::Mock(script) => {
                let typed = brief.typed();
                let journal = Arc::clone(&self.journal);
                let mock = Mock::start(journal, run.clone(), script, &typed.agent_id, &typed.workstream, None);
                self.remember(run, brief, What::Mock(mock))
            }
            Kind::Real { .. } => {
                let message = opening(&brief, None, false);
                self.start(run, brief, message, None, LifecycleAction::Started).await
            }
        };
        Ok(self.handle(&runner))
    }

    pub(super) async fn resume(&self, state: SerializedAgentState, brief: Brief) -> Result<AgentHandle, Failure> {
        let _change = self.change.lock().await;
        self.check_free()?;
        let sdk = &state.checkpoint.sdk;
        let is_ours = *sdk == self.config.agent.sdk() || self.config.agent.is_mock() && sdk.ends_with("mock");
        if !is_ours {
            let message = format!("this shim runs {0}; start one with --agent for this state", self.config.agent.sdk());
            return Err(Invalid::at(&["checkpoint", "sdk"], &message, sdk.clone().into()).into());
        }
        briefed::check_kept(&brief, self.config.agent.sdk())?;
        let saved = Saved::of(&state);
        self.waiting().resume(&brief.typed().agent_id, saved.queue)?;
        let run = self.journal.begin();
        let runner = match self.config.agent {
            Kind::Mock(script) => {
                let at = usize::try_from(state.checkpoint.script_position.unwrap_or(1)).unwrap_or(usize::MAX);
                let from = Some((at, !state.pending_decision_ids.is_empty()));
                let typed = brief.typed();
                let journal = Arc::clone(&self.journal);
                let mock = Mock::start(journal, run.clone(), script, &typed.agent_id, &typed.workstream, from);
                self.remember(run, brief, What::Mock(mock))
            }
            Kind::Real { .. } => {
                let message = opening(&brief, saved.assignment.as_ref(), saved.session_id.is_some());
                self.start(run, brief, message, saved.session_id, LifecycleAction::Resumed).await
            }
        };
        Ok(self.handle(&runner))
    }

    /// Starts an agent and hands it its task. One that cannot be started has a run all the same, which says why.
    async fn start(
        &self,
        run: RunId,
        brief: Brief,
        message: String,
        session_id: Option<String>,
        action: LifecycleAction,
    ) -> Runner<H> {
        let agent_id = brief.typed().agent_id.clone();
        let waiting = self.waiting().take(brief.budget());
        let brief = brief.changed(&waiting.changes).unwrap_or(brief);
        let message = [Some(message), waiting.message()].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        let start = briefed::start(&brief, session_id.clone());
        self.journal.tell(&run, &agent_id, lifecycle(action, None));
        if let Some(lost) = prompt::lost(brief.typed()) {
            let why =
                format!("the brief is too long for a prompt: its last {lost} characters are not told to the agent");
            self.journal.tell(&run, &agent_id, failure(Severity::Warning, &why));
        }
        let live = match self.host.start(start).await {
            Ok(agent) => Live::new(
                Arc::clone(&self.host),
                agent,
                Arc::clone(&self.journal),
                run.clone(),
                brief.clone(),
                Arc::clone(&self.queue),
                session_id,
            ),
            Err(error) => Err(error),
        };
        match live {
            Ok(live) => {
                live.begin(message);
                self.remember(run, brief, What::Live(live))
            }
            Err(error) => {
                self.journal.tell(&run, &agent_id, failure(Severity::Critical, &error.message));
                let done = Body::Completion {
                    summary: "The agent could not be started.".to_owned(),
                    artifacts_produced: vec![],
                    decisions_needed: vec![],
                    outcome: Outcome::Abandoned,
                    reason: Some(error.message),
                };
                self.journal.tell(&run, &agent_id, done);
                self.remember(run, brief, What::Failed)
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_free(&self) -> Result<(), Failure> {
        match self.current() {
            Some(runner) if runner.is_running() => Err(Failure::Running),
            _ => Ok(()),
        }
    }

    fn remember(&self, run: RunId, brief: Brief, what: What<H>) -> Runner<H> {
        let runner = Runner { run, session_id: Uuid::new_v4().to_string(), brief, what };
        *self.lock() = Some(runner.clone());
        runner
    }
}
