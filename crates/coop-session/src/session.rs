//! The task that owns everything.

mod child;
mod io;

use std::sync::Arc;
use std::task::Poll;
use std::time::{Instant, SystemTime};

use coop_api::{
    AgentState, AskId, Epoch, EventBody, Evidence, EvidenceSource, Offset, Pulse, Request, Seq, StateChange, Token,
};
use coop_term::{ChildEvent, Exit, FrameId, Ring, Screen, SpawnError, Target, Wants};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

pub(crate) use self::child::{AfterStop, Running};
use crate::agent::Agent;
use crate::agent_files::AgentFiles;
use crate::companion::Companion;
use crate::drive::Primed;
use crate::guard::Guard;
use crate::handle::{Answer, Mail, Options, Published};
use crate::lateness::Lateness;
use crate::link::{Linked, News};
use crate::lock::WriteLock;
use crate::log::EventLog;
use crate::serve::{Outcome, Services};
use crate::stop::Stop;
use crate::watch::{Seen, StatusFolder, Watcher};

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
    pub(crate) deferred: Vec<(Request, Answer)>,
    pub(crate) files: mpsc::Receiver<Seen>,
    /// Which of the files that the agent names are opened for it.
    pub(crate) agent_files: AgentFiles,
    pub(crate) watcher: Option<Watcher>,
    /// The status files that the agent keeps.
    pub(crate) status: Option<StatusFolder>,
    /// What the hooks of this child bring along.
    pub(crate) hook_token: Option<Token>,
    /// The agent's protocol, where that is not its standard input and output.
    pub(crate) link: Option<Linked>,
    /// What is done for the agent.
    pub(crate) services: Option<Services>,
    companion: Option<Companion>,
    guard: Option<Guard>,
    /// What was started for a child that is gone, as it ends.
    tidying: JoinSet<()>,
    /// The start scripts that run; they end with their child.
    pub(crate) primes: JoinSet<Primed>,
    ring: Arc<Ring>,
    published: Published,
    mail: mpsc::Receiver<Mail>,
    /// What is read into.
    buffer: Vec<u8>,
    frame_deadline: Option<(FrameId, Instant)>,
    pub(crate) lateness: Lateness,
    last_activity: Instant,
    pub(crate) last_output: Instant,
    /// Set while the child is being ended, with what comes then.
    stop: Option<(Stop, AfterStop)>,
}

enum Wake {
    Mail(Option<Mail>),
    Readable,
    Writable,
    PipeReadable,
    PipeWritable,
    Ended,
    Deadline,
    /// What was started for the child that is gone has ended.
    Tidied,
    /// A file of the agent's changed.
    Seen(Seen),
    /// The agent's protocol said something.
    Link(News),
    /// Something was done for the agent.
    Served(Outcome),
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
            agent_files: AgentFiles::default(),
            watcher: None,
            status: None,
            hook_token: None,
            link: None,
            services: None,
            companion: None,
            guard: None,
            tidying: JoinSet::new(),
            primes: JoinSet::new(),
            ring,
            published,
            mail,
            buffer: vec![0; io::BUFFER],
            frame_deadline: None,
            lateness: Lateness::default(),
            last_activity: now,
            last_output: now,
            stop: None,
            options,
        };
        session.spawn()?;
        Ok(session)
    }

    /// Runs until a shutdown is through, tells how the last child ended, and answers until nobody can ask any more.
    pub(crate) async fn run(mut self, finished: oneshot::Sender<Option<Exit>>) {
        while !self.is_over() {
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
                Wake::PipeWritable => self.flush_pipe(),
                Wake::Seen(seen) => self.file_changed(seen),
                Wake::Link(news) => self.link_told(news),
                Wake::Served((name, outcome)) => self.served(&name, &outcome),
                Wake::HookGone(ask) => self.hook_gone(&ask),
                Wake::Primed(primed) => self.prime(primed),
                Wake::Ended => self.child_ended(),
                Wake::Deadline => self.deadline_passed(),
                Wake::Tidied => {}
            }
            self.focus_watcher();
            if self.child.is_none() {
                self.tidy_up();
            }
            if self.is_tidy() && matches!(self.stop, Some((_, AfterStop::Restart))) {
                self.stop = None;
                self.respawn();
            }
        }
        let _ = finished.send(self.exit);
        while let Some(mail) = self.mail.recv().await {
            self.handle(mail);
        }
    }

    fn is_over(&self) -> bool {
        self.is_tidy() && matches!(self.stop, Some((_, AfterStop::ShutDown)))
    }

    /// Tells whether the child is gone, and all that was started for it.
    fn is_tidy(&self) -> bool {
        self.child.is_none() && self.tidying.is_empty()
    }

    /// Ends what was started for the child. That can take seconds, in which questions are answered.
    fn tidy_up(&mut self) {
        let (services, companion, guard) = (self.services.take(), self.companion.take(), self.guard.take());
        if services.is_none() && companion.is_none() {
            return;
        }
        self.tidying.spawn(async move {
            if let Some(services) = services {
                services.end().await;
            }
            if let Some(companion) = companion {
                companion.end().await;
            }
            drop(guard);
        });
    }

    /// Waits for what comes next.
    async fn wake(&mut self) -> Wake {
        loop {
            let due = self.next_deadline();
            match self.wake_by(due.map(|due| self.lateness.wake_at(due))).await {
                Wake::Deadline if due.is_some_and(|due| self.lateness.puts_off(due, Instant::now())) => {}
                wake => return wake,
            }
        }
    }

    async fn wake_by(&mut self, deadline: Option<Instant>) -> Wake {
        let mail_closed = self.mail.is_closed() && self.mail.is_empty();
        let Some(Running { child, queue, at_end, drain_until, outbox, pipe_at_end, .. }) = &self.child else {
            return tokio::select! {
                mail = self.mail.recv(), if !mail_closed || self.stop.is_none() => Wake::Mail(mail),
                Some(_) = self.tidying.join_next() => Wake::Tidied,
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
        let watched = self.watcher.is_some();
        let link = self.link.as_mut().map(|link| link.news.recv());
        let served = self.services.as_mut().map(|services| services.outcomes.recv());
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
            Some(news) = on(link) => Wake::Link(news),
            Some(outcome) = on(served) => Wake::Served(outcome),
            ask = gone => Wake::HookGone(ask),
            Some(Ok(primed)) = self.primes.join_next() => Wake::Primed(primed),
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
            self.agent.as_ref().filter(|agent| agent.is_wanted()).and(self.lock.deadline()),
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
        if self.lock.expire(now) {
            self.agent_goes_on();
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
