//! The task that owns everything.

use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use coop_api::{
    AgentState, AskId, Epoch, Error, ErrorCode, EventBody, Evidence, EvidenceSource, Lifecycle, Offset, Pulse, Seq,
    StateChange,
};
use coop_term::{Child, ChildEvent, Exit, FrameId, Output, Ring, Screen, SpawnError, Streams, Target, Wants};
use rustix::process::Signal;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;

use crate::agent::Agent;
use crate::drive::Primed;
use crate::handle::{Mail, Options, Published, Queries};
use crate::input::InputQueue;
use crate::lock::WriteLock;
use crate::log::EventLog;
use crate::stop::Stop;
use crate::watch::{LogPaths, Seen};

/// How much output is read before those who follow it are told. Requests get their turn sooner.
const BATCH: usize = 64 * 1024;
/// What the kernel gives at once, at most.
const READ: usize = 4096;
/// How long the output of an ended child is waited for when another process still has its terminal open.
const DRAIN: Duration = Duration::from_millis(50);
/// How much is read then at least, if there is so much: more than the kernel keeps of what a terminal was written.
const LAST_WORDS: usize = 2 * BATCH;

pub(crate) struct Session {
    pub(crate) options: Options,
    pub(crate) child: Option<Running>,
    pub(crate) epoch: Epoch,
    pub(crate) exit: Option<Exit>,
    /// The state of a child that is no agent, and since when.
    pub(crate) state: (AgentState, Seq, SystemTime),
    pub(crate) screen: Screen,
    pub(crate) log: EventLog,
    pub(crate) lock: WriteLock,
    pub(crate) began: Instant,
    pub(crate) bytes_written: u64,
    /// What is known of the child, if it is an agent.
    pub(crate) agent: Option<Agent>,
    /// Inputs that came while a message was being typed.
    pub(crate) deferred: Vec<Mail>,
    pub(crate) files: mpsc::Receiver<Seen>,
    pub(crate) log_paths: Option<LogPaths>,
    pub(crate) primed: (mpsc::Sender<Primed>, mpsc::Receiver<Primed>),
    ring: Arc<Ring>,
    published: Published,
    mail: mpsc::Receiver<Mail>,
    /// What is read into.
    buffer: Vec<u8>,
    frame_deadline: Option<(FrameId, Instant)>,
    last_activity: Instant,
    /// Set while the child is being ended, with what comes then.
    stop: Option<(Stop, AfterStop)>,
}

/// A child with what waits to be typed to it.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) queue: InputQueue,
    /// The line of its pipe that has not ended.
    pub(crate) line: Vec<u8>,
    /// What waits to be written to its pipe.
    pub(crate) outbox: Vec<u8>,
    pipe_at_end: bool,
    /// Set once its terminal has nothing more to read.
    at_end: bool,
    /// Set once it has ended, to when we stop waiting for its last output.
    drain_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterStop {
    Restart,
    ShutDown,
}

enum Wake {
    Mail(Option<Mail>),
    Readable,
    Writable,
    PipeReadable,
    PipeWritable,
    Ended,
    Deadline,
    /// A file of the agent's changed.
    Seen(Seen),
    /// A hook of the agent's went away.
    HookGone(AskId),
    /// What an agent that begins is to be told is known.
    Primed(Primed),
}

impl Session {
    pub(crate) fn start(
        options: Options,
        ring: Arc<Ring>,
        published: Published,
        mail: mpsc::Receiver<Mail>,
    ) -> Result<Self, SpawnError> {
        let now = Instant::now();
        let mut session = Self {
            child: None,
            epoch: Epoch::default(),
            exit: None,
            state: (AgentState::Starting, Seq::default(), SystemTime::now()),
            screen: Screen::new(options.size),
            log: EventLog::new(options.id.clone()),
            lock: WriteLock::default(),
            began: now,
            bytes_written: 0,
            agent: None,
            deferred: Vec::new(),
            files: mpsc::channel(1).1,
            log_paths: None,
            primed: mpsc::channel(8),
            ring,
            published,
            mail,
            buffer: vec![0; BATCH + READ],
            frame_deadline: None,
            last_activity: now,
            stop: None,
            options,
        };
        session.spawn()?;
        Ok(session)
    }

    /// Runs until a shutdown is through, tells how the last child ended, and answers until nobody can ask any more.
    pub(crate) async fn run(mut self, finished: oneshot::Sender<Option<Exit>>) {
        while !matches!((&self.child, &self.stop), (None, Some((_, AfterStop::ShutDown)))) {
            match self.wake().await {
                Wake::Mail(Some(mail)) => self.handle(mail),
                // Every handle is gone: nobody can watch or steer the child any more.
                Wake::Mail(None) => self.begin_stop(AfterStop::ShutDown),
                Wake::Readable => {
                    self.read();
                }
                Wake::Writable => self.write(),
                Wake::PipeReadable => {
                    self.read_pipe();
                }
                Wake::PipeWritable => self.write_pipe(),
                Wake::Seen(seen) => self.file_changed(seen),
                Wake::HookGone(ask) => self.hook_gone(&ask),
                Wake::Primed(primed) => self.prime(primed),
                Wake::Ended => self.child_ended(),
                Wake::Deadline => self.deadline_passed(),
            }
            if self.child.is_none() && matches!(self.stop, Some((_, AfterStop::Restart))) {
                self.stop = None;
                self.respawn();
            }
        }
        let _ = finished.send(self.exit);
        while let Some(mail) = self.mail.recv().await {
            self.handle(mail);
        }
    }

    async fn wake(&mut self) -> Wake {
        let deadline = self.next_deadline();
        let mail_closed = self.mail.is_closed() && self.mail.is_empty();
        let Some(Running { child, queue, at_end, drain_until, outbox, pipe_at_end, .. }) = &self.child else {
            return tokio::select! {
                mail = self.mail.recv(), if !mail_closed || self.stop.is_none() => Wake::Mail(mail),
                () = on(deadline.map(|deadline| sleep_until(deadline.into()))) => Wake::Deadline,
            };
        };
        // A hung-up terminal claims to be writable for ever and takes nothing: writing to it, this loop would spin and
        // never let the runtime see that the child has ended.
        let wants = Wants {
            output: !*at_end,
            writable: !queue.is_empty() && !*at_end,
            end: drain_until.is_none(),
            pipe_output: !*pipe_at_end,
            pipe_writable: !outbox.is_empty() && !*pipe_at_end,
        };
        let agent = &mut self.agent;
        let gone = std::future::poll_fn(|cx| agent.as_mut().map_or(Poll::Pending, |agent| agent.poll_gone(cx)));
        let watched = self.log_paths.is_some();
        tokio::select! {
            mail = self.mail.recv(), if !mail_closed || self.stop.is_none() => Wake::Mail(mail),
            event = child.event(wants) => match event {
                ChildEvent::Readable => Wake::Readable,
                ChildEvent::Writable => Wake::Writable,
                ChildEvent::PipeReadable => Wake::PipeReadable,
                ChildEvent::PipeWritable => Wake::PipeWritable,
                ChildEvent::Ended => Wake::Ended,
            },
            Some(seen) = self.files.recv(), if watched => Wake::Seen(seen),
            ask = gone => Wake::HookGone(ask),
            Some(primed) = self.primed.1.recv() => Wake::Primed(primed),
            () = on(deadline.map(|deadline| sleep_until(deadline.into()))) => Wake::Deadline,
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let running = self.child.as_ref();
        let idle = self.options.idle_timeout.filter(|_| self.stop.is_none()).map(|after| self.last_activity + after);
        [
            self.frame_deadline.map(|(_, deadline)| deadline),
            running.and_then(|running| running.queue.deadline()),
            running.and_then(|running| running.drain_until),
            self.stop.as_ref().and_then(|(stop, _)| stop.deadline()),
            self.agent.as_ref().filter(|_| running.is_some()).and_then(Agent::deadline),
            idle,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn deadline_passed(&mut self) {
        let now = Instant::now();
        if self.frame_deadline.is_some_and(|(_, deadline)| deadline <= now) {
            self.screen.end_frame();
            self.answer_queries();
            self.screen_changed();
        }
        self.agent_deadline(now);
        if let Some(running) = &mut self.child {
            running.queue.tell_impatient(now);
            if running.drain_until.is_some_and(|deadline| deadline <= now) {
                self.read_last_words();
                self.finish_child();
            }
        }
        if let Some((stop, _)) = &mut self.stop
            && let Some(signal) = stop.due(now)
            && let Some(running) = &self.child
        {
            tracing::info!(signal = signal.as_raw(), "signalling the child's session");
            // It may have ended meanwhile, which the loop will see.
            let _ = running.child.signal(signal, Target::Session);
        }
        if self.stop.is_none() && self.options.idle_timeout.is_some_and(|after| self.last_activity + after <= now) {
            tracing::info!("nothing happened for the idle timeout; shutting down");
            self.begin_stop(AfterStop::ShutDown);
        }
    }

    fn spawn(&mut self) -> Result<(), SpawnError> {
        let prepared = self.prepare()?;
        let command = prepared.as_ref().map_or(&self.options.command, |prepared| &prepared.command);
        let child = Child::spawn(command, self.screen.size())?;
        let pid = child.pid();
        self.epoch = self.epoch.next();
        self.last_activity = Instant::now();
        let pipe_at_end = command.streams == Streams::Terminal;
        let running = Running {
            child,
            queue: InputQueue::default(),
            line: Vec::new(),
            outbox: Vec::new(),
            pipe_at_end,
            at_end: false,
            drain_until: None,
        };
        self.child = Some(running);
        tracing::info!(pid, epoch = self.epoch.0, "child started");
        self.record(EventBody::Lifecycle(Lifecycle::Started { pid }));
        match prepared {
            Some(prepared) => self.begin_agent(prepared),
            None => self.set_state(AgentState::Unknown),
        }
        Ok(())
    }

    fn respawn(&mut self) {
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

    /// Reads what the child wrote before it ended, however late we come to it. Who still has the terminal open may write
    /// without end, and is not listened to any longer.
    fn read_last_words(&mut self) {
        let mut read = 0;
        while read < LAST_WORDS {
            match self.read() {
                0 => return,
                more => read += more,
            }
        }
    }

    /// Reads what there is, but not for long, and returns how much that was.
    fn read(&mut self) -> usize {
        let Some(running) = &mut self.child else { return 0 };
        let mut filled = 0;
        while filled < BATCH && !running.at_end && (filled == 0 || self.mail.is_empty()) {
            match running.child.read(&mut self.buffer[filled..]) {
                Output::Bytes(length) => {
                    // At once: while these bytes are looked at, the kernel brings the next.
                    self.screen.feed(&self.buffer[filled..filled + length]);
                    filled += length;
                }
                Output::Nothing => break,
                Output::End => running.at_end = true,
            }
        }
        if running.at_end {
            std::mem::take(&mut running.queue).fail(&Error::exited());
        }
        let finished = running.at_end && running.drain_until.is_some();
        if filled > 0 {
            self.last_activity = Instant::now();
            self.ring.push(&self.buffer[..filled]);
            self.answer_queries();
            self.screen_changed();
        }
        if finished {
            self.finish_child();
        }
        filled
    }

    /// Takes in bytes that no child wrote.
    pub(crate) fn output(&mut self, bytes: &[u8]) {
        self.screen.end_frame();
        self.screen.feed(bytes);
        self.ring.push(bytes);
        self.answer_queries();
        self.screen_changed();
    }

    /// Passes the terminal's answers on. To be called whenever the screen may have obeyed something; without a child
    /// there is nobody to answer any more.
    pub(crate) fn answer_queries(&mut self) {
        let answers = self.screen.take_replies();
        if answers.is_empty() || self.options.queries == Queries::Left {
            return;
        }
        if let Some(running) = &mut self.child {
            running.queue.push_answer(&answers);
            self.write();
        }
    }

    /// Reads the lines an agent writes to its pipe, but not for long, and returns how much that was.
    fn read_pipe(&mut self) -> usize {
        let Some(running) = &mut self.child else { return 0 };
        let mut taken = 0;
        while taken < BATCH && !running.pipe_at_end {
            match running.child.read_pipe(&mut self.buffer) {
                Output::Bytes(length) => {
                    running.line.extend_from_slice(&self.buffer[..length]);
                    taken += length;
                }
                Output::Nothing => break,
                Output::End => running.pipe_at_end = true,
            }
        }
        if taken > 0 {
            self.last_activity = Instant::now();
            self.take_pipe_lines();
        }
        taken
    }

    /// Takes in what an agent has written to its pipe before something else that is heard of it now.
    pub(crate) fn drain_pipe(&mut self) {
        let mut taken = 0;
        while taken < LAST_WORDS {
            match self.read_pipe() {
                0 => return,
                more => taken += more,
            }
        }
    }

    pub(crate) fn write_pipe(&mut self) {
        let Some(running) = &mut self.child else { return };
        while !running.outbox.is_empty() {
            match running.child.write_pipe(&running.outbox) {
                Ok(0) => return,
                Ok(written) => {
                    running.outbox.drain(..written);
                    self.bytes_written += written as u64;
                }
                // It has closed its input; its end will follow.
                Err(_) => running.outbox.clear(),
            }
        }
    }

    pub(crate) fn screen_changed(&mut self) {
        if let Some(agent) = &mut self.agent {
            agent.screen_changed(Instant::now());
        }
        self.frame_deadline = self.screen.open_frame().map(|frame| match self.frame_deadline {
            Some((known, deadline)) if known == frame => (known, deadline),
            _ => (frame, Instant::now() + Screen::FRAME_PATIENCE),
        });
        self.publish();
    }

    pub(crate) fn write(&mut self) {
        let Some(running) = &mut self.child else { return };
        let child = &running.child;
        match running.queue.flush(|bytes| child.write(bytes)) {
            Ok(0) => {}
            Ok(written) => {
                self.bytes_written += written as u64;
                self.last_activity = Instant::now();
            }
            // The terminal is closed; the child's end will follow.
            Err(error) => self.drop_input(&error),
        }
    }

    fn drop_input(&mut self, error: &io::Error) {
        if let Some(running) = &mut self.child {
            let queue = std::mem::take(&mut running.queue);
            queue.fail(&Error::new(ErrorCode::Exited, format!("the child's terminal is closed: {error}")));
        }
    }

    fn child_ended(&mut self) {
        if let Some(running) = &mut self.child {
            // Typed to nobody, it would come back as echo.
            std::mem::take(&mut running.queue).fail(&Error::exited());
            running.drain_until = Some(Instant::now() + DRAIN);
            if running.at_end {
                self.finish_child();
            }
        }
    }

    fn finish_child(&mut self) {
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

    pub(crate) fn record(&mut self, body: EventBody) {
        self.log.push(self.epoch, self.written(), body, SystemTime::now());
        self.publish();
    }

    /// Changes the state of a child that is no agent.
    fn set_state(&mut self, next: AgentState) {
        if self.state.0 != next {
            let (prev, ..) = std::mem::replace(&mut self.state, (next.clone(), self.screen.seq(), SystemTime::now()));
            let screen_seq = self.screen.seq();
            let evidence = plain_evidence(&next);
            let change = StateChange { prev, next, screen_seq, evidence, ask: None, last_message: None };
            self.record(EventBody::State(Box::new(change)));
        }
    }

    pub(crate) fn written(&self) -> Offset {
        coop_api::Tap::range(&*self.ring).1
    }

    /// Wakes the readers.
    fn publish(&self) {
        let restarting = matches!(self.stop, Some((_, AfterStop::Restart)));
        let pulse = Pulse {
            written: self.written(),
            screen: self.screen.seq(),
            events: self.log.last(),
            size: self.screen.size(),
            ended: self.exit.is_some() && self.child.is_none() && !restarting,
        };
        self.published.pulse.send_if_modified(|known| std::mem::replace(known, pulse) != pulse);
        self.published.ended.send_if_modified(|known| std::mem::replace(known, pulse.ended) != pulse.ended);
    }
}

/// Awaits a future if there is one, and else for ever.
async fn on<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Returns what the state of a child rests on that is no agent.
pub(crate) fn plain_evidence(state: &AgentState) -> Evidence {
    match state {
        AgentState::Exited { code, signal } => Evidence {
            source: EvidenceSource::Process,
            detail: match (code, signal) {
                (Some(code), _) => format!("the process exited with code {code}"),
                (None, Some(signal)) => format!("the process was killed by signal {signal}"),
                (None, None) => "the process is gone".to_owned(),
            },
        },
        _ => Evidence { source: EvidenceSource::None, detail: "no driver is active".to_owned() },
    }
}
