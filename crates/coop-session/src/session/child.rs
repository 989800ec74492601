//! A child's beginning and end.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use coop_api::{AgentState, Error, EventBody, Lifecycle};
use coop_term::{Child, Exit, SpawnError, Streams, Target};
use rustix::process::Signal;
use serde_json::Value;

use super::Session;
use crate::companion::Companion;
use crate::guard::Guard;
use crate::input::InputQueue;
use crate::stop::Stop;

/// How long the output of an ended child is waited for when another process still has its terminal open.
const DRAIN: Duration = Duration::from_millis(50);

/// A child with what waits to be typed to it.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) queue: InputQueue,
    /// The line of its pipe that has not ended.
    pub(crate) line: Vec<u8>,
    /// What waits to be written to its pipe.
    pub(crate) outbox: Vec<u8>,
    /// The messages in that, each with how much of the outbox is to be written until it is out.
    pub(crate) unsent: VecDeque<(usize, Value)>,
    pub(super) pipe_at_end: bool,
    /// Whether it speaks over pipes, and its terminal shows nothing by itself.
    pub(crate) piped: bool,
    /// Set once its terminal has nothing more to read.
    pub(super) at_end: bool,
    /// Set once it has ended, to when we stop waiting for its last output.
    pub(super) drain_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterStop {
    Restart,
    ShutDown,
}

impl Session {
    pub(super) fn spawn(&mut self) -> Result<(), SpawnError> {
        let since = SystemTime::now();
        let prepared = self.prepare()?;
        let companion = prepared.as_ref().and_then(|prepared| prepared.companion.as_ref());
        let companion = companion.map(Companion::spawn).transpose()?;
        let command = prepared.as_ref().map_or(&self.options.command, |prepared| &prepared.command);
        let child = Child::spawn(command, self.screen.size())?;
        self.companion = companion;
        let pid = child.pid();
        self.epoch = self.epoch.next();
        self.last_activity = Instant::now();
        let piped = command.streams == Streams::Pipes;
        let running = Running {
            child,
            queue: InputQueue::default(),
            line: Vec::new(),
            outbox: Vec::new(),
            unsent: VecDeque::new(),
            pipe_at_end: !piped,
            piped,
            at_end: false,
            drain_until: None,
        };
        self.child = Some(running);
        self.set_guard(pid);
        tracing::info!(pid, epoch = self.epoch.0, "child started");
        self.record(EventBody::Lifecycle(Lifecycle::Started { pid }));
        match prepared {
            Some(prepared) => self.begin_agent(prepared, since),
            None => self.set_state(AgentState::Unknown),
        }
        Ok(())
    }

    fn set_guard(&mut self, pid: u32) {
        let Some(guard) = &self.options.guard else { return };
        let leaders: Vec<_> = [pid].into_iter().chain(self.companion.as_ref().map(Companion::pid)).collect();
        self.guard = Guard::over(&leaders, guard)
            .inspect_err(|error| tracing::warn!(%error, "nobody will end the agent if coop is killed"))
            .ok();
    }

    pub(super) fn respawn(&mut self) {
        self.exit = None;
        // A fresh terminal for the new child, also for those who follow the bytes.
        self.output(b"\x1bc");
        if let Err(error) = self.spawn() {
            tracing::error!(?error, "cannot start the child again");
            // What a shell says of a command it cannot run.
            self.told_exit(Exit { code: Some(127), signal: None });
        }
        self.publish();
    }

    pub(super) fn child_ended(&mut self) {
        if let Some(running) = &mut self.child {
            // Typed to nobody, it would come back as echo.
            std::mem::take(&mut running.queue).fail(&Error::exited());
            running.drain_until = Some(Instant::now() + DRAIN);
            if running.at_end {
                self.finish_child();
            }
        }
    }

    pub(super) fn finish_child(&mut self) {
        self.drain_pipe();
        let Some(running) = self.child.take() else { return };
        if self.stop.is_some() {
            // The others of its session had their chance; the leader is not reaped yet, so the number is still its own.
            let _ = running.child.signal(Signal::KILL, Target::Session);
        }
        let exit = running.child.reap().ok().flatten().unwrap_or(Exit { code: None, signal: None });
        running.queue.fail(&Error::exited());
        self.screen.end_frame();
        self.answer_queries();
        self.frame_deadline = None;
        tracing::info!(code = exit.code, signal = exit.signal, "child exited");
        self.told_exit(exit);
    }

    fn told_exit(&mut self, exit: Exit) {
        self.exit = Some(exit);
        self.hook_token = None;
        if !self.agent_exited(exit) {
            self.set_state(AgentState::Exited { code: exit.code, signal: exit.signal });
        }
        self.record(EventBody::Lifecycle(Lifecycle::Exited { code: exit.code, signal: exit.signal }));
    }

    /// Begins to end the child, or changes what comes after. Asked twice to shut down, it kills at once.
    pub(crate) fn begin_stop(&mut self, after: AfterStop) {
        match &mut self.stop {
            Some((stop, AfterStop::ShutDown)) => stop.force(),
            Some((_, planned)) => *planned = after,
            None => {
                self.record(EventBody::Lifecycle(Lifecycle::Stopping));
                self.stop = Some((Stop::new(Instant::now(), self.options.grace), after));
            }
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }
}
