//! Where the agent meets the world: what the session does for it, and what it is asked.

use std::io::{self, Read};
use std::mem;
use std::path::Path;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use coop_api::{AskId, Capability, Configure, Error, ErrorCode, Reply, Request, WriterId};
use coop_drivers::{Observation, Runtime, Say, Serve, Served, StartSource, Watch};
use coop_term::{Exit, SpawnError};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::agent::{Agent, Effect, Now, ReplyTo};
use crate::agent_files::AgentFiles;
use crate::handle::Prepared;
use crate::link::{Linked, News};
use crate::prime;
use crate::render::render;
use crate::serve::Services;
use crate::session::Session;
use crate::watch::{self, Changed, Seen, StatusFolder, Watcher};

/// How much may wait between the watcher of files and the session.
const SEEN: usize = 256;
/// A line of the control protocol longer than this is none.
const MAX_LINE: usize = 64 * 1024 * 1024;
/// How much may wait for an agent that does not read its pipe. What is more is not sent, and so never confirmed.
const MAX_OUTBOX: usize = 64 * 1024 * 1024;
/// How much of a conversation is given at once.
const MAX_TRANSCRIPT: u64 = 256 * 1024 * 1024;

/// What an agent that begins is to be told.
pub(crate) struct Primed {
    source: StartSource,
    context: String,
    hook: ReplyTo,
}

impl Session {
    pub(crate) fn prepare(&self) -> Result<Option<Prepared>, SpawnError> {
        let driven = self.options.driven.as_ref();
        driven.map(|driven| (driven.prepare)().map_err(SpawnError::Terminal)).transpose()
    }

    /// Begins to follow the agent that was just started.
    pub(crate) fn begin_agent(&mut self, prepared: Prepared, since: SystemTime) {
        let Some(driven) = &self.options.driven else { return };
        let transcript = prepared.watch.iter().find_map(|watch| match watch {
            Watch::Log { path } => Some(path.clone()),
            Watch::Status { .. } => None,
        });
        self.status = prepared.watch.iter().find_map(|watch| match watch {
            Watch::Status { folder } => Some(StatusFolder::new(folder.into(), since)),
            Watch::Log { .. } => None,
        });
        let now = self.now();
        let (seen, files) = mpsc::channel(SEEN);
        self.agent_files = AgentFiles::new(prepared.command.sandbox);
        let open = watch::open_inotify;
        self.watcher = Some(Watcher::start(prepared.watch, self.agent_files.clone(), since, open, seen));
        self.files = files;
        self.hook_token = prepared.hook_token;
        let (grace, stop) = (driven.idle_grace, driven.stop.clone());
        let mut agent = Agent::new(prepared.driver, prepared.runtime, grace, stop, transcript, &now);
        match &self.agent {
            Some(before) => agent.count_on(before),
            None => agent.number_asks_after(driven.asks_before),
        }
        let recorded = prepared.permission_mode.map(|mode| agent.record_start_mode(mode));
        self.agent = Some(agent);
        self.carry_out(recorded.into_iter().collect());
        self.link = Linked::start(prepared.link, self.agent_files.clone());
        let guard = self.options.guard.clone();
        self.services = prepared.services.map(|options| Services::start(options, guard));
        for what in prepared.opening {
            self.say(what);
        }
    }

    /// Tells the agent's part that the process has ended. Returns false if there is none.
    pub(crate) fn agent_exited(&mut self, exit: Exit) -> bool {
        self.watcher = None;
        self.link = None;
        self.primes = JoinSet::new();
        let now = self.now();
        let Some(agent) = &mut self.agent else { return false };
        let effects = agent.exited(exit.code, exit.signal, &now);
        self.carry_out(effects);
        self.admit_deferred();
        true
    }

    fn now(&self) -> Now {
        let instant = self.lateness.clock(Instant::now());
        Now { instant, wall: SystemTime::now(), screen: self.screen.seq(), lock: self.lock.held(instant) }
    }

    pub(crate) fn agent_deadline(&mut self, instant: Instant) {
        let now = Now { instant, ..self.now() };
        let Some(agent) = &mut self.agent else { return };
        let due = agent.deadline().is_some_and(|at| at <= instant);
        if !due || self.child.is_none() {
            return;
        }
        let screen = self.screen.snapshot();
        let mut effects = Vec::new();
        if agent.wants_look(instant) {
            effects.extend(agent.look(&screen, &now));
        }
        effects.extend(agent.tick(&screen, &now));
        self.carry_out(effects);
    }

    pub(crate) fn file_changed(&mut self, seen: Seen) {
        match seen {
            Seen::LogLine { line, past } => self.observe(&Observation::LogLine { line: &line, past }),
            Seen::Status(changed) => self.read_status(&changed),
            Seen::Polled(why) => {
                let now = self.now();
                if let Some(agent) = &mut self.agent {
                    agent.files_polled(why.as_deref(), &now);
                }
            }
        }
    }

    fn read_status(&mut self, changed: &Changed) {
        let files = &self.agent_files;
        let read = |path: &Path| watch::read_status(path, files);
        for (path, file) in self.status.as_mut().map(|folder| folder.news(changed, read)).unwrap_or_default() {
            self.observe(&Observation::StatusFile(&file));
            let Some(agent) = &mut self.agent else { return };
            // It may change what the screen means, which may not change any more.
            agent.screen_changed(Instant::now());
            if let Some(folder) = &mut self.status {
                folder.identify(path, agent.owns_status(&file));
            }
        }
    }

    /// Passes the agent's status file, and whether the agent rests, to the file watcher.
    pub(crate) fn focus_watcher(&self) {
        let (Some(watcher), Some(agent)) = (&self.watcher, &self.agent) else { return };
        watcher.focus(self.status.as_ref().and_then(StatusFolder::own), agent.is_resting());
    }

    pub(crate) fn link_told(&mut self, news: News) {
        match news {
            News::Up => self.observe(&Observation::Link { up: true }),
            News::Down => self.observe(&Observation::Link { up: false }),
            News::Lost => self.observe(&Observation::LinkLost),
            News::Message(message) => self.observe(&Observation::Control(&message)),
            News::Reply { name, status, body } => {
                self.observe(&Observation::Reply { name: &name, status, body: &body });
            }
        }
    }

    pub(crate) fn served(&mut self, name: &str, outcome: &Served) {
        self.observe(&Observation::Served { name, outcome });
    }

    /// Writes what waits for the agent's standard input, as far as it is taken.
    pub(crate) fn flush_pipe(&mut self) {
        self.write_pipe();
        while let Some(message) = self.next_sent() {
            self.observe(&Observation::Sent(&message));
        }
    }

    fn observe(&mut self, seen: &Observation<'_>) {
        let now = self.now();
        let Some(agent) = &mut self.agent else { return };
        let effects = agent.observe(seen, &now);
        self.carry_out(effects);
        self.agent_goes_on();
    }

    /// Lets the agent's part do what has become possible.
    pub(crate) fn agent_goes_on(&mut self) {
        // A snapshot for every line of a log or pipe would cost more than the line.
        if self.agent.as_ref().is_some_and(Agent::is_wanted) {
            let now = self.now();
            let screen = self.screen.snapshot();
            let Some(agent) = &mut self.agent else { return };
            let effects = agent.go_on(&screen, &now);
            self.carry_out(effects);
        }
        self.admit_deferred();
    }

    pub(crate) fn hook_gone(&mut self, ask: &AskId) {
        let now = self.now();
        let Some(agent) = &mut self.agent else { return };
        let effects = agent.hook_gone(ask, &now);
        self.carry_out(effects);
        self.agent_goes_on();
    }

    /// Takes in the lines that are whole.
    pub(crate) fn take_pipe_lines(&mut self) {
        let Some(running) = &mut self.child else { return };
        let Some(end) = running.line.iter().rposition(|&byte| byte == b'\n') else {
            if running.line.len() > MAX_LINE {
                running.line.clear();
            }
            return;
        };
        let rest = running.line.split_off(end + 1);
        let whole = mem::replace(&mut running.line, rest);
        for line in whole.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Value>(line) {
                Ok(message) => self.observe(&Observation::Control(&message)),
                Err(_) => {
                    // Not the protocol's: a person may want to see it.
                    let text = String::from_utf8_lossy(line).into_owned();
                    self.show(&text);
                }
            }
        }
    }

    pub(crate) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Record(body) => {
                    let is_piped = self.child.as_ref().is_some_and(|running| running.piped);
                    let is_pty = self.agent.as_ref().is_none_or(|agent| agent.runtime() == Runtime::Pty);
                    let has_screen = is_pty && !is_piped;
                    if !has_screen && let Some(text) = render(&body) {
                        self.output(text.as_bytes());
                    }
                    self.record(body);
                }
                Effect::Type(keys) => self.type_keys(keys),
                Effect::Say(what) => self.say(what),
                Effect::WatchLog(path) => {
                    if let Some(watcher) = &self.watcher {
                        watcher.follow_log(path.into());
                    }
                }
                Effect::ForgetStatus => {
                    if let Some(folder) = &mut self.status {
                        folder.forget_own(SystemTime::now());
                    }
                }
                Effect::Prime(source, hook) => self.begin_prime(source, hook),
            }
        }
    }

    fn type_keys(&mut self, keys: Bytes) {
        if let Some(running) = &mut self.child {
            running.queue.push(keys, oneshot::channel().0, Instant::now());
            self.write();
        }
    }

    fn say(&mut self, what: Say) {
        match (what, &self.link) {
            (Say::Serve(what), _) => self.serve(what),
            (Say::Show(text), _) => self.show(&text),
            (what, Some(link)) => link.say(what),
            (Say::Call(call), None) => tracing::error!(path = call.path, "there is nobody to call"),
            (Say::Message(message), None) => {
                if let Some(running) = &mut self.child {
                    if running.outbox.len() > MAX_OUTBOX {
                        return tracing::warn!("the agent does not read what it is told");
                    }
                    running.outbox.extend_from_slice(message.to_string().as_bytes());
                    running.outbox.push(b'\n');
                    running.unsent.push_back((running.outbox.len(), message));
                    self.flush_pipe();
                }
            }
        }
    }

    fn show(&mut self, line: &str) {
        self.output(format!("{line}\r\n").as_bytes());
    }

    fn serve(&mut self, what: Serve) {
        match &mut self.services {
            Some(services) => services.serve(what),
            // It waits for an answer all the same.
            None => self.served(&what.name, &Served::Failed("nothing is allowed".into())),
        }
    }

    fn begin_prime(&mut self, source: StartSource, hook: ReplyTo) {
        let prime = self.options.driven.as_ref().and_then(|driven| driven.start.prime(source)).cloned();
        let Some(prime) = prime else { return drop(hook.send(Ok(Reply::Hook(None)))) };
        let command = self.options.command.clone();
        self.primes.spawn(async move { Primed { source, context: prime::text(prime, &command).await, hook } });
    }

    pub(crate) fn prime(&mut self, Primed { source, context, hook }: Primed) {
        let told = self.agent.as_ref().and_then(|agent| agent.primed(source, &context));
        let _ = hook.send(Ok(Reply::Hook(told)));
    }

    /// Types what waited for a message to be through.
    fn admit_deferred(&mut self) {
        if !self.agent.as_ref().is_some_and(Agent::is_typing) {
            for (request, reply) in mem::take(&mut self.deferred) {
                self.answer_to(request, reply);
            }
        }
    }

    /// Answers what is asked of an agent.
    pub(crate) fn ask_agent(&mut self, request: Request, reply: ReplyTo) {
        if let Some(writer) = writer(&request) {
            // Whoever holds the lock and asks this has not forgotten it.
            let _ = self.lock.check(writer, Instant::now());
        }
        if let Request::Hook(call) = &request
            && !self.hook_token.as_ref().is_some_and(|token| token.matches(call.token.expose()))
        {
            let why = "only the hooks of the agent that runs now may report here";
            return drop(reply.send(Err(Error::new(ErrorCode::Unauthorized, why))));
        }
        if matches!(request, Request::Hook(_)) {
            // What the agent said before it ran its hook comes first, and what it has written.
            self.drain_pipe();
            self.read_status(&Changed::Any);
        }
        let now = self.now();
        let exited = self.child.is_none();
        let no_driver = self.no_driver();
        let Some(agent) = &mut self.agent else { return drop(reply.send(Err(no_driver))) };
        if exited && changes(&request) {
            return drop(reply.send(Err(Error::exited())));
        }
        if let Some(needed) = needed(&request)
            && !agent.can(needed)
        {
            return drop(reply.send(Err(agent.cannot(needed, no_driver))));
        }
        let screen = self.screen.snapshot();
        let effects = match request {
            Request::Explain => return drop(reply.send(Ok(Reply::Explanation(Box::new(agent.explain()))))),
            Request::Asks => return drop(reply.send(Ok(Reply::Asks(agent.asks())))),
            Request::Usage => return drop(reply.send(Ok(Reply::Usage(agent.usage())))),
            Request::Transcript => {
                return read_transcript(agent.transcript().map(str::to_owned), self.agent_files.clone(), reply);
            }
            Request::CancelNudge(id) => match agent.cancel_nudge(&id, &now) {
                Ok(effects) => {
                    let _ = reply.send(Ok(Reply::Done));
                    effects
                }
                Err(error) => return drop(reply.send(Err(error))),
            },
            Request::ResolveStop(decision) => match agent.resolve_stop(decision, &now) {
                Ok(effects) => {
                    let _ = reply.send(Ok(Reply::Done));
                    effects
                }
                Err(error) => return drop(reply.send(Err(error))),
            },
            Request::Nudge { writer, nudge } => agent.nudge(writer, nudge, reply, &screen, &now),
            Request::Respond { writer, answer } => agent.respond(writer, &answer, reply, &screen, &now),
            Request::Interrupt { writer } => agent.interrupt(writer, reply, &screen, &now),
            Request::Configure(settings) if settings == Configure::default() => {
                let why = "there is nothing to set; give \"mode\" or \"model\"";
                return drop(reply.send(Err(Error::new(ErrorCode::BadRequest, why))));
            }
            Request::Configure(settings) => agent.configure(&settings, reply, &screen, &now),
            Request::Hook(call) => agent.hook(&call, reply, &now),
            Request::Health
            | Request::Status
            | Request::Screen
            | Request::History(_)
            | Request::Dump
            | Request::Events(_)
            | Request::Write { .. }
            | Request::Lock { .. }
            | Request::Resize { .. }
            | Request::Signal(_)
            | Request::Restart
            | Request::Shutdown
            | Request::AgentState => {
                return drop(reply.send(Err(Error::internal("this request is not for an agent".to_owned()))));
            }
        };
        self.carry_out(effects);
        self.agent_goes_on();
    }
}

/// Tells whether a request needs an agent that runs.
fn changes(request: &Request) -> bool {
    writer(request).is_some() || matches!(request, Request::Configure(_) | Request::ResolveStop(_))
}

/// Returns who asks for something that may have to be typed.
fn writer(request: &Request) -> Option<WriterId> {
    match request {
        Request::Nudge { writer, .. } | Request::Respond { writer, .. } | Request::Interrupt { writer } => {
            Some(*writer)
        }
        _ => None,
    }
}

/// Returns what an agent must be able to do for a request.
fn needed(request: &Request) -> Option<Capability> {
    match request {
        Request::Nudge { .. } => Some(Capability::Nudge),
        Request::Interrupt { .. } => Some(Capability::Interrupt),
        Request::ResolveStop(_) => Some(Capability::StopGate),
        Request::Usage => Some(Capability::Usage),
        Request::Transcript => Some(Capability::Transcript),
        // An agent is asked only about what it asked, and says itself which settings it has.
        _ => None,
    }
}

/// Reads the conversation, which may be long, beside everything else.
fn read_transcript(path: Option<String>, files: AgentFiles, reply: ReplyTo) {
    tokio::task::spawn_blocking(move || {
        let none = || Error::new(ErrorCode::NotReady, "there is no conversation yet");
        let whole = |path: String| match watch::resolve(path.as_ref()) {
            Some(found) => found.to_string_lossy().into_owned(),
            None => path,
        };
        let read = |path: String| {
            let mut content = Vec::new();
            let read =
                files.open(path.as_ref()).and_then(|file| file.take(MAX_TRANSCRIPT + 1).read_to_end(&mut content));
            match read {
                Ok(length) if length as u64 > MAX_TRANSCRIPT => Err(Error::internal(format!(
                    "the conversation has more than {MAX_TRANSCRIPT} bytes; read it at {path}"
                ))),
                Ok(_) => Ok(Reply::Transcript(content.into())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err(none()),
                Err(error) => Err(Error::internal(format!("cannot read the conversation at {path}: {error}"))),
            }
        };
        let _ = reply.send(path.map(whole).ok_or_else(none).and_then(read));
    });
}
