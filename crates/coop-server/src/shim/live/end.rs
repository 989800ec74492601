//! The end of a run: wanted, come to by itself, or not wanted at all.

use std::sync::Arc;
use std::time::Duration;

use coop_api::{Agents, Reply, Request};
use tokio::time::{Instant, timeout, timeout_at};

use super::super::host::Host;
use super::super::map::{Ending, failure};
use super::super::types::{AgentStatus, Body, LifecycleAction, Outcome, Severity};
use super::{GRACE, Live, WRITER, lifecycle};

/// How long a tool that is at work may keep a pause waiting.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a killed process may take to be gone.
const REAPED_WITHIN: Duration = Duration::from_secs(10);

impl<H: Host> Live<H> {
    /// Stops the agent where it can go on later.
    pub(crate) async fn pause(&self) -> Vec<String> {
        if self.journal.is_over(&self.run) {
            return self.pending();
        }
        self.safe_point().await;
        let pending = {
            let mut state = self.lock();
            state.is_stopping = true;
            state.decisions.pending()
        };
        // Its own way of stopping keeps the conversation whole. One that is idle has nothing to stop.
        let _ = self.agent.call(&self.id, Request::Interrupt { writer: WRITER }).await;
        self.end(GRACE).await;
        self.all_published().await;
        self.finish(AgentStatus::Paused, lifecycle(LifecycleAction::Paused, None));
        pending
    }

    /// Waits until no tool is at work, but not for long.
    async fn safe_point(&self) {
        let mut seen = self.seen.subscribe();
        let until = Instant::now() + PATIENCE;
        loop {
            seen.borrow_and_update();
            if !self.lock().mapper.is_at_work() || !matches!(timeout_at(until, seen.changed()).await, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Ends the agent; tells whether it ended by itself within its time.
    pub(crate) async fn kill(&self, grace: Option<Duration>) -> bool {
        self.lock().is_stopping = true;
        let was_over = self.journal.is_over(&self.run);
        let is_clean = self.end(grace.unwrap_or(Duration::ZERO)).await && grace.is_some();
        if let Some(grace) = grace {
            // What is not there by then is not told of.
            let _ = timeout(grace, self.all_published()).await;
        }
        let how = if grace.is_some() { "graceful" } else { "force" };
        let reason = Some(format!("kill requested ({how})"));
        self.finish(AgentStatus::Completed, lifecycle(LifecycleAction::Killed, reason));
        was_over || is_clean
    }

    /// Ends the process; tells whether that was within the time.
    async fn end(&self, grace: Duration) -> bool {
        let shut_down = || self.agent.call(&self.id, Request::Shutdown);
        let mut pulse = self.feed.pulse.clone();
        // If nobody tells any more, the session is over.
        let mut ended = async |within| timeout(within, pulse.wait_for(|pulse| pulse.ended)).await.is_ok();
        // A session that is over cannot be asked to end.
        let _ = shut_down().await;
        if !grace.is_zero() && ended(grace).await {
            return true;
        }
        // Asked a second time it no longer waits.
        let _ = shut_down().await;
        if !ended(REAPED_WITHIN).await {
            tracing::warn!("the agent's process does not end");
        }
        false
    }

    fn finish(&self, status: AgentStatus, body: Body) {
        let agent_id = self.agent_id();
        if !self.journal.is_over(&self.run) {
            self.lock().status = status;
        }
        self.journal.tell(&self.run, &agent_id, body);
    }

    /// Tells that the run is done, and lets its process go.
    pub(super) async fn complete(self: &Arc<Self>, ending: Ending) {
        self.all_published().await;
        let (body, status) = {
            let mut state = self.lock();
            state.is_stopping = true;
            let status = match ending.outcome {
                Outcome::Success | Outcome::Partial | Outcome::MaxTurns => AgentStatus::Completed,
                Outcome::Abandoned => AgentStatus::Error,
            };
            (state.mapper.completion(ending), status)
        };
        self.finish(status, body);
        let run = Arc::clone(self);
        tokio::spawn(async move { run.end(GRACE).await });
    }

    /// The process is gone. If nobody wanted that, it has crashed.
    pub(super) async fn gone(self: &Arc<Self>, how: &str) {
        if self.lock().is_stopping || self.journal.is_over(&self.run) {
            return;
        }
        let said = self.last_words().await;
        self.all_published().await;
        self.tell(failure(Severity::High, &format!("the agent ended before its task was done ({how}): {said}")));
        self.finish(AgentStatus::Error, lifecycle(LifecycleAction::Crashed, Some(how.to_owned())));
        let run = Arc::clone(self);
        tokio::spawn(async move { run.end(GRACE).await });
    }

    /// Returns what the agent's terminal shows, where a program that fails says why.
    async fn last_words(&self) -> String {
        let Ok(Reply::Screen(screen)) = self.agent.call(&self.id, Request::Screen).await else {
            return "it said nothing".to_owned();
        };
        let lines: Vec<_> =
            screen.lines.iter().map(|line| line.plain()).filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() { "it said nothing".to_owned() } else { lines.join("\n") }
    }
}
