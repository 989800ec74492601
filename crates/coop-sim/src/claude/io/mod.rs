//! The outside: one loop that owns the engine, the face and the files, and threads that only send it what happened.

mod children;
mod hooks;
mod signals;
pub(crate) mod terminal;
mod tools;
mod trace;
mod waits;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;

use super::config::Config;
use super::engine::{Command, Effect, Engine, Event, Millis, Quit, QuitReason};
use super::face::{Face, Touch};
use super::hook::HookCall;
use super::log::LogBook;
use super::notice::Notice;
use super::settings::Settings;
use super::status::StatusFile;
use super::tool::{ToolCall, ToolOutcome};
use children::{Children, Purpose, Shell};
use hooks::HookRunner;
use signals::Caught;
use terminal::RawMode;
use trace::Trace;
use waits::{Due, Waits};

/// How long a lone ESC byte may be the beginning of something.
const ESC_WAIT: Duration = Duration::from_millis(30);
/// So many happenings may wait for the loop before their senders do.
const HAPPENINGS: usize = 64;
const READ: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) enum Happening {
    Input(Vec<u8>),
    InputEnded,
    Signal(Caught),
    Engine(Event),
}

/// What the loop is made of.
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) face: Box<dyn Face>,
    pub(crate) log: LogBook,
    pub(crate) status: StatusFile,
    pub(crate) settings: Settings,
    pub(crate) config: Config,
    pub(crate) cwd: PathBuf,
    pub(crate) gates: Option<PathBuf>,
    pub(crate) state: Option<PathBuf>,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) manner: Manner,
    pub(crate) signals: Signals,
}

/// How the standard input and output are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Screen,
    Pipe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signals {
    Caught,
    /// For tests that share their process.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests run the agent inside another program"))]
    Ignored,
}

struct Runtime {
    engine: Engine,
    face: Box<dyn Face>,
    log: LogBook,
    status: StatusFile,
    config: Config,
    cwd: PathBuf,
    hooks: HookRunner,
    children: Children,
    waits: Waits,
    trace: Trace,
    events: SyncSender<Happening>,
    /// What came of our own doings, without a detour over the channel.
    ready: VecDeque<Event>,
    exit: Option<i32>,
}

/// Runs to the end; returns the exit code.
pub(crate) fn run(parts: Parts) -> anyhow::Result<i32> {
    let Parts { engine, face, log, status, settings, config, cwd, gates, state, stdin, stdout, manner, signals } =
        parts;
    let (events, happenings) = sync_channel(HAPPENINGS);
    let raw = match manner {
        Manner::Screen => Some(RawMode::enter(stdin.try_clone()?).context("cannot set the terminal to raw mode")?),
        Manner::Pipe => None,
    };
    match signals {
        Signals::Caught => signals::listen(events.clone()),
        Signals::Ignored => {}
    }
    let children = Children::default();
    let trace = Trace::open(state.as_deref()).context("cannot open the state folder")?;
    let hooks = HookRunner { settings, cwd: cwd.clone(), children: children.clone(), events: events.clone() };
    let waits = Waits::new(gates, events.clone());
    let mut runtime = Runtime {
        engine,
        face,
        log,
        status,
        config,
        cwd,
        hooks,
        children,
        waits,
        trace,
        events: events.clone(),
        ready: VecDeque::new(),
        exit: None,
    };
    let mut out = Output { size_of: stdout.try_clone()?, file: File::from(stdout), manner };
    let outcome = runtime.run(&mut out, stdin, &happenings);
    runtime.children.kill_all();
    runtime.status.remove();
    let code = outcome?;
    let (bytes, code) = runtime.face.leave(code);
    // Nobody may be left to read it.
    let _ = out.file.write_all(&bytes);
    drop(raw);
    Ok(code)
}

struct Output {
    file: File,
    size_of: OwnedFd,
    manner: Manner,
}

impl Runtime {
    fn run(&mut self, out: &mut Output, stdin: OwnedFd, happenings: &Receiver<Happening>) -> anyhow::Result<i32> {
        self.resize(out)?;
        self.touch(Touch::Begin)?;
        self.draw(out)?;
        read_input(File::from(stdin), self.events.clone());
        loop {
            if let Some(code) = self.exit {
                return Ok(code);
            }
            match self.next(happenings) {
                Ok(Happening::Input(bytes)) => {
                    self.trace.input(&bytes).context("cannot write the trace")?;
                    self.touch(Touch::Input(&bytes))?;
                }
                Ok(Happening::InputEnded) => self.touch(Touch::InputEnded)?,
                Ok(Happening::Signal(Caught::Resize)) => self.resize(out)?,
                Ok(Happening::Signal(caught)) => {
                    if let Some(code) = caught.exit_code() {
                        let quit = Quit { code, reason: QuitReason::Other };
                        self.handle(Event::Command(Command::Quit(quit)))?;
                    }
                }
                Ok(Happening::Engine(event)) => self.handle(event)?,
                Err(RecvTimeoutError::Timeout) => self.time_passed()?,
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("nothing can happen any more"),
            }
            if self.draw(out).is_err() {
                // Nobody sees us any more: the terminal or the reader is gone.
                self.handle(Event::Command(Command::Quit(Quit { code: 129, reason: QuitReason::Other })))?;
            }
        }
    }

    fn next(&self, happenings: &Receiver<Happening>) -> Result<Happening, RecvTimeoutError> {
        let esc = self.face.is_waiting().then_some(ESC_WAIT);
        match [esc, self.waits.next()].into_iter().flatten().min() {
            Some(time) => happenings.recv_timeout(time),
            None => happenings.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn time_passed(&mut self) -> anyhow::Result<()> {
        let due = self.waits.take_due();
        if due.is_empty() {
            return self.touch(Touch::Pause);
        }
        for due in due {
            match due {
                Due::Wait(id) => self.handle(Event::WaitDone(id))?,
                Due::Kill(pid) => self.children.kill_pid(pid),
            }
        }
        Ok(())
    }

    fn resize(&mut self, out: &Output) -> anyhow::Result<()> {
        match out.manner {
            Manner::Screen => self.touch(Touch::Resized(terminal::size(&out.size_of))),
            Manner::Pipe => Ok(()),
        }
    }

    fn touch(&mut self, touch: Touch<'_>) -> anyhow::Result<()> {
        for command in self.face.touch(touch) {
            self.handle(Event::Command(command))?;
        }
        Ok(())
    }

    fn draw(&mut self, out: &mut Output) -> io::Result<()> {
        let bytes = self.face.draw();
        out.file.write_all(&bytes)
    }

    fn handle(&mut self, event: Event) -> anyhow::Result<()> {
        self.ready.push_back(event);
        while let Some(event) = self.ready.pop_front() {
            for effect in self.engine.handle(now(), event) {
                self.perform(effect)?;
            }
        }
        Ok(())
    }

    fn perform(&mut self, effect: Effect) -> anyhow::Result<()> {
        match effect {
            Effect::RunHooks(call) => self.run_hooks(&call),
            Effect::KillHooks(run) => self.children.kill(&Purpose::Hook(run)),
            Effect::RunTool(call) => self.run_tool(call),
            Effect::KillTool(id) => self.children.kill(&Purpose::Tool(id)),
            Effect::StartTask { id, command } => {
                let events = self.events.clone();
                let shell = Shell { command: &command, cwd: &self.cwd, input: b"" };
                self.children.start(Purpose::Task(id.clone()), &shell, move |_| {
                    let _ = events.send(Happening::Engine(Event::TaskEnded(id)));
                });
            }
            Effect::Wait { id, wait } => self.waits.start(id, &wait),
            Effect::CancelWait(id) => self.waits.cancel(id),
            Effect::Tell(notice) => self.tell(&notice)?,
            Effect::Count(counter) => self.trace.count(counter).context("cannot write the counters")?,
            Effect::Trust => self.config.trust(&self.cwd).context("cannot remember that the folder is trusted")?,
            Effect::Record(prompt) => self.trace.prompt(&prompt).context("cannot record the prompt")?,
            Effect::Exit(code) => self.exit = Some(code),
            Effect::Crash => std::process::abort(),
        }
        Ok(())
    }

    fn run_hooks(&mut self, call: &HookCall) {
        match self.hooks.start(call) {
            None => self.ready.push_back(Event::HooksDone(call.run)),
            Some(deadlines) => {
                deadlines.into_iter().for_each(|(when, pid)| self.waits.at(when, Due::Kill(pid)));
            }
        }
    }

    fn run_tool(&mut self, call: ToolCall) {
        if let Some(outcome) = tools::run_file_tool(&call, &self.cwd) {
            return self.ready.push_back(Event::ToolDone { id: call.id, outcome });
        }
        let events = self.events.clone();
        let shell = Shell { command: call.field("command"), cwd: &self.cwd, input: b"" };
        let id = call.id.clone();
        self.children.start(Purpose::Tool(call.id.clone()), &shell, move |output| {
            let outcome: ToolOutcome = tools::shell_outcome(output);
            let _ = events.send(Happening::Engine(Event::ToolDone { id, outcome }));
        });
    }

    /// The files come before the face: whoever sees something finds it written down.
    fn tell(&mut self, notice: &Notice) -> anyhow::Result<()> {
        let now = now();
        for line in self.log.write(now, notice) {
            if let Some(folder) = line.path.parent() {
                fs::create_dir_all(folder).context("cannot create the log's folder")?;
            }
            let mut file =
                OpenOptions::new().create(true).append(true).open(&line.path).context("cannot open the log")?;
            // One write, so that whoever follows the file sees whole lines.
            file.write_all(format!("{}\n", line.value).as_bytes()).context("cannot write the log")?;
        }
        self.status.take(now, notice).context("cannot write the status file")?;
        self.face.tell(now, notice);
        Ok(())
    }
}

/// Reads on a thread of its own: a read cannot be waited for together with a channel.
fn read_input(mut stdin: File, events: SyncSender<Happening>) {
    thread::spawn(move || {
        let mut buffer = vec![0; READ];
        loop {
            let happening = match stdin.read(&mut buffer) {
                Ok(0) | Err(_) => Happening::InputEnded,
                Ok(count) => Happening::Input(buffer[..count].to_vec()),
            };
            let is_over = matches!(happening, Happening::InputEnded);
            if events.send(happening).is_err() || is_over {
                return;
            }
        }
    });
}

pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
