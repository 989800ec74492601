//! What the session answers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use coop_api::{
    AgentReport, Dump, Error, ErrorCode, EventBody, Health, History, Input, Lifecycle, LockAction, ProcessState, Reply,
    Request, Signal, Size, Status, WriterId,
};
use coop_drivers::Runtime;
use coop_term::{Target, encode_keys, encode_paste};
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::handle::{Answer, Mail};
use crate::session::{AfterStop, Running, Session, plain_evidence};

/// How many inputs may wait for a message that is being typed.
const MAX_DEFERRED: usize = 1000;

impl Session {
    pub(crate) fn handle(&mut self, mail: Mail) {
        match mail {
            Mail::Request(request, reply) => self.answer_to(request, reply),
            Mail::Unrecorded(why) => self.record(EventBody::Lifecycle(Lifecycle::Unrecorded { why })),
        }
    }

    pub(crate) fn answer_to(&mut self, request: Request, reply: Answer) {
        let answer = match request {
            Request::Write { .. } if self.agent.as_ref().is_some_and(Agent::is_typing) => {
                // It waits until the message that is being typed is through.
                if self.deferred.len() < MAX_DEFERRED {
                    return self.deferred.push((request, reply));
                }
                Err(Error::new(
                    ErrorCode::WriterBusy,
                    "a message is being typed, and much waits for its end; try again",
                ))
            }
            Request::Write { writer, input } => return self.type_input(writer, input, reply),
            Request::Health => Ok(Reply::Health(self.health())),
            Request::Status => Ok(Reply::Status(self.status())),
            Request::Screen => Ok(Reply::Screen(self.screen.snapshot())),
            Request::History(count) => {
                Ok(Reply::History(History { lines: self.screen.history(count), screen: self.screen.snapshot() }))
            }
            Request::Dump => Ok(Reply::Dump(self.dump())),
            Request::Events(cursor) => Ok(Reply::Events(self.log.after(cursor))),
            Request::Lock { writer, action } => self.change_lock(writer, action),
            Request::Resize { writer, size } => self.resize(writer, size),
            Request::Signal(signal) => self.signal(signal),
            Request::Restart => self.restart(),
            Request::Shutdown => {
                self.begin_stop(AfterStop::ShutDown);
                Ok(Reply::Done)
            }
            Request::AgentState => Ok(Reply::AgentState(Box::new(self.report()))),
            Request::Explain
            | Request::Nudge { .. }
            | Request::CancelNudge(_)
            | Request::Asks
            | Request::Respond { .. }
            | Request::Interrupt { .. }
            | Request::ResolveStop(_)
            | Request::Hook(_)
            | Request::Transcript
            | Request::Usage
            | Request::Configure(_) => return self.ask_agent(request, reply),
        };
        // Whoever asked may be gone.
        let _ = reply.send(answer);
    }

    /// Returns the child, or why there is none to talk to.
    fn running(&mut self) -> Result<&mut Running, Error> {
        let exited = self.exit.is_some();
        match &mut self.child {
            Some(running) => Ok(running),
            None if exited => Err(Error::exited()),
            None => Err(Error::new(ErrorCode::NotReady, "the child is not running yet; try again in a moment")),
        }
    }

    fn type_input(&mut self, writer: WriterId, input: Input, reply: oneshot::Sender<Result<Reply, Error>>) {
        let now = Instant::now();
        if self.agent.as_ref().is_some_and(|agent| agent.runtime() != Runtime::Pty) {
            let why = "this agent has no terminal to type into; use /api/v1/agent/nudge and /api/v1/agent/respond";
            return drop(reply.send(Err(Error::bad_request(why))));
        }
        let accepted = self.running().map(|_| ()).and_then(|()| self.lock.check(writer, now)).and_then(|()| {
            let modes = self.screen.modes();
            match input {
                Input::Bytes(bytes) => Ok(bytes),
                Input::Paste { text, enter } => {
                    let mut bytes = encode_paste(&text, &modes);
                    if enter {
                        bytes.push(b'\r');
                    }
                    Ok(bytes.into())
                }
                Input::Keys(keys) => {
                    encode_keys(&keys, &modes).map(Bytes::from).map_err(|error| Error::bad_request(error.to_string()))
                }
            }
        });
        match (accepted, &mut self.child) {
            (Ok(bytes), Some(running)) => {
                running.queue.push(bytes, reply, now);
                self.write();
            }
            (Err(error), _) => drop(reply.send(Err(error))),
            (Ok(_), None) => drop(reply.send(Err(Error::exited()))),
        }
    }

    fn change_lock(&mut self, writer: WriterId, action: LockAction) -> Result<Reply, Error> {
        match action {
            LockAction::Acquire => self.lock.acquire(writer, Instant::now())?,
            LockAction::Release => {
                self.lock.release(writer);
                self.agent_goes_on();
            }
        }
        Ok(Reply::Done)
    }

    fn resize(&mut self, writer: WriterId, size: Size) -> Result<Reply, Error> {
        self.running()?;
        self.lock.check(writer, Instant::now())?;
        let running = self.running()?;
        running.child.resize(size).map_err(|error| Error::internal(format!("cannot resize the terminal: {error}")))?;
        if size != self.screen.size() {
            self.screen.resize(size);
            self.answer_queries();
            self.record(EventBody::Lifecycle(Lifecycle::Resized { size }));
            self.screen_changed();
        }
        Ok(Reply::Done)
    }

    fn signal(&mut self, signal: Signal) -> Result<Reply, Error> {
        let running = self.running()?;
        running
            .child
            .signal(to_posix(signal), Target::Group)
            .map_err(|error| Error::internal(format!("cannot signal the child: {error}")))?;
        Ok(Reply::Done)
    }

    fn restart(&mut self) -> Result<Reply, Error> {
        if self.is_stopping() {
            return Err(Error::new(ErrorCode::NotReady, "the child is being stopped already; try again in a moment"));
        }
        self.begin_stop(AfterStop::Restart);
        Ok(Reply::Done)
    }

    fn health(&self) -> Health {
        Health {
            state: self.process_state(),
            pid: self.pid(),
            uptime: self.began.elapsed(),
            agent: self.options.agent.clone(),
            size: self.screen.size(),
        }
    }

    fn status(&self) -> Status {
        Status {
            state: self.process_state(),
            pid: self.pid(),
            uptime: self.began.elapsed(),
            exit_code: self.exit.and_then(|exit| exit.code),
            exit_signal: self.exit.and_then(|exit| exit.signal),
            screen_seq: self.screen.seq(),
            bytes_read: self.written().0,
            bytes_written: self.bytes_written,
            epoch: self.epoch,
        }
    }

    fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(|running| running.child.pid())
    }

    fn process_state(&self) -> ProcessState {
        match (&self.child, self.exit) {
            (Some(_), _) => ProcessState::Running,
            (None, Some(_)) => ProcessState::Exited,
            (None, None) => ProcessState::Starting,
        }
    }

    fn dump(&mut self) -> Dump {
        // With an open frame's bytes, which may be more than the ring keeps.
        Dump { data: self.screen.dump().into(), offset: self.written(), size: self.screen.size() }
    }

    fn quiet_for(&self) -> Duration {
        self.last_output.elapsed()
    }

    fn report(&self) -> AgentReport {
        if let Some(agent) = &self.agent {
            let report = agent.report(&self.options.agent, self.screen.seq(), Instant::now());
            return AgentReport { quiet_for: self.quiet_for(), ..report };
        }
        let (state, since_seq, since) = self.state.clone();
        AgentReport {
            agent: self.options.agent.clone(),
            evidence: plain_evidence(&state),
            state,
            since_seq,
            since: humantime::format_rfc3339_millis(since).to_string(),
            screen_seq: self.screen.seq(),
            idle_grace_remaining: None,
            ask: None,
            session_id: None,
            last_message: None,
            queue: Vec::new(),
            stop_held: false,
            permission_mode: None,
            runtime: Runtime::Pty.as_str(),
            capabilities: Vec::new(),
            quiet_for: self.quiet_for(),
        }
    }

    pub(crate) fn no_driver(&self) -> Error {
        let message = format!(
            "coop has no driver for {:?}, so it cannot tell when to type; use /api/v1/input",
            self.options.agent
        );
        Error::new(ErrorCode::NoDriver, message)
    }
}

fn to_posix(signal: Signal) -> rustix::process::Signal {
    use rustix::process::Signal as Posix;
    match signal {
        Signal::Hup => Posix::HUP,
        Signal::Int => Posix::INT,
        Signal::Quit => Posix::QUIT,
        Signal::Kill => Posix::KILL,
        Signal::Usr1 => Posix::USR1,
        Signal::Usr2 => Posix::USR2,
        Signal::Term => Posix::TERM,
        Signal::Cont => Posix::CONT,
        Signal::Stop => Posix::STOP,
        Signal::Tstp => Posix::TSTP,
        Signal::Winch => Posix::WINCH,
    }
}
