//! A program on a terminal of its own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use coop_api::Size;
use rustix::fs::{Access as FileAccess, access};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, waitid};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::process::{self, Exit, Target};

/// What the names of variables begin with that a program in a sandbox is given under their own name. The agent may choose some of
/// them, such as `LD_PRELOAD`, and the program that makes the sandbox must not heed those.
pub const SET_IN_SANDBOX: &str = "COOP_SET_";

/// What a program in a sandbox may do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// The program does not see it.
    None,
    /// The program can read it.
    Read,
    /// The program can write to it.
    Write,
}

/// A sandbox, as words to put before a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Bubblewrap and its arguments.
    pub bubblewrap: Vec<OsString>,
    /// The words of coop's first process in the sandbox, which becomes the program on its terminal.
    pub on_terminal: Vec<OsString>,
    /// The same for a program without a terminal.
    pub without_terminal: Vec<OsString>,
    /// Paths with what programs in the sandbox may do there and below. The deepest that fits counts; what fits none is
    /// read-only.
    pub access: Vec<(PathBuf, Access)>,
    /// The folder that is `/tmp` in the sandbox.
    pub tmp: PathBuf,
}

/// Whether a program has a terminal of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Terminal {
    /// A new one, whose foreground process it is.
    Own,
    /// None, and it cannot reach that of the process that starts it.
    None,
}

impl Sandbox {
    /// Returns the words to put before a command line.
    fn words(&self, terminal: Terminal) -> Vec<&OsStr> {
        let (more, first) = match terminal {
            Terminal::Own => (None, &self.on_terminal),
            Terminal::None => (Some(OsStr::new("--new-session")), &self.without_terminal),
        };
        let (program, words) = self.bubblewrap.split_first().map_or((None, &[][..]), |(one, rest)| (Some(one), rest));
        let program = program.map(OsString::as_os_str).into_iter();
        program.chain(more).chain(words.iter().chain(first).map(OsString::as_os_str)).collect()
    }

    /// Returns what programs in the sandbox may do with a file. The path has no links in it.
    pub fn access_to(&self, path: &Path) -> Access {
        let fits = self.access.iter().filter(|(above, _)| path.starts_with(above));
        fits.max_by_key(|(above, _)| above.components().count()).map_or(Access::Read, |(_, access)| *access)
    }
}

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The sandbox that the program runs in, if it runs in one.
    pub sandbox: Option<Sandbox>,
    /// The program; looked up in `PATH` if it has no slash.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables to set; those without a value are taken away from what we inherited.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// Where to run it, if not here.
    pub cwd: Option<PathBuf>,
    /// What it reads and writes.
    pub streams: Streams,
}

impl Command {
    /// Returns the process to start, without a terminal: the program, or the sandbox that runs it. Folder and streams are left out.
    pub fn without_terminal(&self) -> std::process::Command {
        let words = self.words(Terminal::None);
        let (program, args) = split_program(&words);
        let mut command = std::process::Command::new(program);
        command.args(args);
        for (name, value) in self.variables() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    fn words(&self, terminal: Terminal) -> Vec<&OsStr> {
        let sandbox = self.sandbox.iter().flat_map(|sandbox| sandbox.words(terminal));
        let program = [&self.program].into_iter().chain(&self.args).map(OsString::as_os_str);
        sandbox.chain(program).collect()
    }

    /// Looks the program up as the system does. Bubblewrap starts in any case, so its start does not show that the program is missing.
    fn check_program(&self, sandbox: &Sandbox) -> Result<(), SpawnError> {
        let failed = |source| SpawnError::Exec { program: self.program.clone(), source };
        let folder = self.cwd.clone().map_or_else(std::env::current_dir, Ok).map_err(failed)?;
        let named = Path::new(&self.program);
        let search = self.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let search = search.unwrap_or_else(|| std::env::var_os("PATH")).unwrap_or_default();
        let places = match named.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => vec![folder.join(named)],
            _ => std::env::split_paths(&search).map(|place| folder.join(place).join(named)).collect(),
        };
        let path = places
            .iter()
            .filter(|path| path.is_file())
            .find(|path| access(path.as_path(), FileAccess::EXEC_OK).is_ok());
        let Some(path) = path else {
            let is_there = places.iter().any(|path| path.exists());
            let kind = if is_there { io::ErrorKind::PermissionDenied } else { io::ErrorKind::NotFound };
            return Err(failed(kind.into()));
        };
        let path = path.canonicalize().map_err(failed)?;
        match sandbox.access_to(&path) {
            Access::None => Err(SpawnError::Hidden { program: self.program.clone(), path }),
            Access::Read | Access::Write => Ok(()),
        }
    }

    /// Returns the variables of the process to start: to set, or, without a value, to take away from what it inherits. The
    /// program in a sandbox is given its own under other names, by coop's first process there.
    fn variables(&self) -> Vec<(OsString, Option<&OsStr>)> {
        let mut variables = Vec::new();
        for (name, value) in &self.env {
            if self.sandbox.is_some() {
                let mut prefixed = OsString::from(SET_IN_SANDBOX);
                prefixed.push(name);
                variables.push((prefixed, value.as_deref()));
            }
            if self.sandbox.is_none() || value.is_none() {
                variables.push((name.clone(), value.as_deref()));
            }
        }
        variables
    }
}

fn split_program<'a, 'b>(words: &'a [&'b OsStr]) -> (&'b OsStr, &'a [&'b OsStr]) {
    words.split_first().map_or((OsStr::new(""), &[]), |(program, args)| (*program, args))
}

/// What a child reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// Its terminal.
    #[default]
    Terminal,
    /// Pipes; only what it complains of goes to the terminal.
    Pipes,
}

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program could not be executed.
    #[error("cannot run {program:?}; {}", advice(.source))]
    Exec {
        /// What was to be run.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// The program is not there in its sandbox.
    #[error("cannot run {program:?}: its sandbox hides {}; put the program elsewhere", .path.display())]
    Hidden {
        /// What was to be run.
        program: OsString,
        /// Where it is.
        path: PathBuf,
    },
    /// There was no terminal to be had.
    #[error("cannot make a terminal for the child")]
    Terminal(#[source] io::Error),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check its name and that it is on PATH",
        io::ErrorKind::PermissionDenied => "it is not a program, or this user may not run it",
        _ => "check that it is a program for this machine",
    }
}

/// A running child with the master side of its terminal.
///
/// The child leads its own session and process group. Dropping this closes the terminal, which hangs the child up.
#[derive(Debug)]
pub struct Child {
    master: AsyncFd<OwnedFd>,
    exit: AsyncFd<OwnedFd>,
    pid: Pid,
    pipes: Option<Pipes>,
    /// Whether it is the sandbox that the program runs in.
    is_sandbox: bool,
}

#[derive(Debug)]
struct Pipes {
    input: AsyncFd<OwnedFd>,
    output: AsyncFd<OwnedFd>,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// Output.
    pub output: bool,
    /// Room for input.
    pub writable: bool,
    /// The child's end.
    pub end: bool,
    /// Output of its pipe.
    pub pipe_output: bool,
    /// Room for input in its pipe.
    pub pipe_writable: bool,
}

/// Something that happened to a child.
#[derive(Debug)]
pub enum ChildEvent {
    /// Its terminal may have output to read.
    Readable,
    /// Its terminal may take more input.
    Writable,
    /// Its pipe may have output to read.
    PipeReadable,
    /// Its pipe may take more input.
    PipeWritable,
    /// It has ended. It is not reaped yet: see [`Child::reap`].
    Ended,
}

/// What reading a child's terminal brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// This many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// Nothing ever more: nobody has the terminal open.
    End,
}

impl Child {
    /// Starts a program on a new terminal. Must be called within a tokio runtime with I/O enabled.
    pub fn spawn(command: &Command, size: Size) -> Result<Self, SpawnError> {
        if let Some(sandbox) = &command.sandbox {
            command.check_program(sandbox)?;
        }
        let terminal = |error: pty_process::Error| SpawnError::Terminal(to_io(error));
        let (pty, pts) = pty_process::blocking::open().map_err(terminal)?;
        let size_of = pty_process::Size::new(size.rows(), size.cols());
        pty.resize(size_of).map_err(terminal)?;
        set_utf8(&pts).map_err(|error| SpawnError::Terminal(error.into()))?;

        let words = command.words(Terminal::Own);
        let (program, args) = split_program(&words);
        let mut builder = pty_process::blocking::Command::new(program).args(args);
        for (name, value) in command.variables() {
            builder = match value {
                Some(value) => builder.env(name, value),
                None => builder.env_remove(name),
            };
        }
        if let Some(cwd) = &command.cwd {
            builder = builder.current_dir(cwd);
        }
        if command.streams == Streams::Pipes {
            builder = builder.stdin(Stdio::piped()).stdout(Stdio::piped());
        }
        let mut child = builder
            .spawn(pts)
            .map_err(|error| SpawnError::Exec { program: command.program.clone(), source: to_io(error) })?;
        let pid = Pid::from_child(&child);
        // Nobody but us reaps it, so its number cannot be another's yet.
        let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(|error| SpawnError::Terminal(error.into()))?;
        let master: OwnedFd = pty.into();
        rustix::io::ioctl_fionbio(&master, true).map_err(|error| SpawnError::Terminal(error.into()))?;
        let pipes = match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Some(Pipes::new(input.into(), output.into()).map_err(SpawnError::Terminal)?),
            _ => None,
        };
        Ok(Self {
            pipes,
            master: watch(master, Interest::READABLE | Interest::WRITABLE).map_err(SpawnError::Terminal)?,
            exit: watch(pidfd, Interest::READABLE).map_err(SpawnError::Terminal)?,
            pid,
            is_sandbox: command.sandbox.is_some(),
        })
    }

    /// Returns the child's process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits for the next of what is asked for. Cancel safe.
    pub async fn event(&self, wants: Wants) -> ChildEvent {
        tokio::select! {
            // An error shows again, and with its reason, in the read or write.
            _ = self.master.readable(), if wants.output => ChildEvent::Readable,
            _ = self.master.writable(), if wants.writable => ChildEvent::Writable,
            _ = self.exit.readable(), if wants.end => ChildEvent::Ended,
            () = readable(self.pipes.as_ref()), if wants.pipe_output => ChildEvent::PipeReadable,
            () = writable(self.pipes.as_ref()), if wants.pipe_writable => ChildEvent::PipeWritable,
            else => std::future::pending().await,
        }
    }

    /// Reads what there is, as far as the buffer goes; the kernel gives about 4 KiB at once.
    pub fn read(&self, buffer: &mut [u8]) -> Output {
        read(&self.master, buffer)
    }

    /// Reads as [`Self::read`] does, and also output that the runtime has had no turn to report.
    pub fn read_unreported(&self, buffer: &mut [u8]) -> Output {
        read_unreported(&self.master, buffer)
    }

    /// Reads what there is in the child's pipe, as far as the buffer goes, also what the runtime has had no turn to report.
    pub fn read_pipe(&self, buffer: &mut [u8]) -> Output {
        let Some(pipes) = &self.pipes else { return Output::End };
        read_unreported(&pipes.output, buffer)
    }

    /// Writes as much as the child's pipe takes now, which may be nothing.
    pub fn write_pipe(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.pipes {
            Some(pipes) => write(&pipes.input, bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Writes as much as the terminal takes now, which may be nothing.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        write(&self.master, bytes)
    }

    /// Gives the terminal another size; the child is told by SIGWINCH.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        let size = Winsize { ws_row: size.rows(), ws_col: size.cols(), ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.master.get_ref(), size)?)
    }

    /// Signals the child and those with it.
    pub fn signal(&self, signal: Signal, target: Target) -> io::Result<()> {
        let sent = if self.is_sandbox {
            process::signal_in_sandbox(self.pid, signal, target)
        } else {
            process::signal(self.pid, signal, target)
        };
        Ok(sent?)
    }

    /// Returns how the child ended, if it has, and frees its process id.
    pub fn reap(&self) -> io::Result<Option<Exit>> {
        let status = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
        Ok(status.map(|status| Exit { code: status.exit_status(), signal: status.terminating_signal() }))
    }
}

impl Pipes {
    fn new(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&input, true)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        Ok(Self { input: watch(input, Interest::WRITABLE)?, output: watch(output, Interest::READABLE)? })
    }
}

async fn readable(pipes: Option<&Pipes>) {
    match pipes {
        Some(pipes) => drop(pipes.output.readable().await),
        None => std::future::pending().await,
    }
}

async fn writable(pipes: Option<&Pipes>) {
    match pipes {
        Some(pipes) => drop(pipes.input.writable().await),
        None => std::future::pending().await,
    }
}

fn read(fd: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> Output {
    outcome(fd.try_io(Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut *buffer)?)))
}

fn read_unreported(fd: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> Output {
    match read(fd, buffer) {
        Output::Nothing => outcome(rustix::io::read(fd.get_ref(), buffer).map_err(io::Error::from)),
        reported => reported,
    }
}

fn outcome(read: io::Result<usize>) -> Output {
    match read {
        Ok(0) => Output::End,
        Ok(length) => Output::Bytes(length),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Output::Nothing,
        // EIO is what Linux says once the last process has closed the other side; other errors end it too.
        Err(_) => Output::End,
    }
}

fn write(fd: &AsyncFd<OwnedFd>, bytes: &[u8]) -> io::Result<usize> {
    match fd.try_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, bytes)?)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        outcome => outcome,
    }
}

#[expect(deprecated, reason = "its successor is unsafe for descriptors that may change; an OwnedFd cannot")]
fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}

/// Lets the line editor of a cooked terminal erase whole characters.
fn set_utf8(pts: &impl std::os::fd::AsFd) -> rustix::io::Result<()> {
    let mut attributes = tcgetattr(pts)?;
    attributes.input_modes |= InputModes::IUTF8;
    tcsetattr(pts, OptionalActions::Now, &attributes)
}

fn to_io(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program's last output was lost when coop got no processor time while the program ended: the runtime had not yet
    /// reported the output as readable, and the sidecar took that for "nothing was written".
    #[tokio::test]
    async fn output_is_read_before_the_runtime_reports_it() {
        let command = Command { program: "echo".into(), args: vec!["the end".into()], ..Command::default() };
        let child = Child::spawn(&command, Size::new(80, 24).expect("a size")).expect("a child");
        // Blocks the thread, so that the runtime has no turn.
        waitid(WaitId::Pid(child.pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("the child ends");
        let mut buffer = [0; 64];
        assert_eq!(child.read(&mut buffer), Output::Nothing);
        assert_eq!(child.read_unreported(&mut buffer), Output::Bytes(9));
        assert_eq!(&buffer[..9], b"the end\r\n");
        assert_eq!(child.read_unreported(&mut buffer), Output::End);
    }
}
