//! A terminal multiplexer's session as a program on our own terminal.
//!
//! `coop --attach tmux:NAME` runs `coop bridge tmux NAME` as its child. The bridge writes what the session's program
//! writes, and passes on what it is sent, byte by byte. So nothing else in coop knows that multiplexers exist.
//!
//! Which server is meant is the multiplexers' own business: `TMUX`, `TMUX_TMPDIR` and `SCREENDIR` count as they do
//! for `tmux ls` and `screen -ls`.

mod control;
mod paint;
mod raw;
mod screen;
mod tmux;

use std::fmt;
use std::io;
use std::str::FromStr;

use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) use self::raw::watch;

/// The session to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The pane that is active in this tmux session.
    Tmux(String),
    /// The window that is current in this GNU screen session, given as `NAME` or `PID.NAME`.
    Screen(String),
}

/// Why a text names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetError {
    /// It starts with neither of the two names.
    #[error("cannot attach to {0:?}; give tmux:NAME or screen:NAME")]
    UnknownKind(String),
    /// There is nothing after the colon.
    #[error("the name of the session is missing in {0:?}; give tmux:NAME or screen:NAME")]
    NoName(String),
}

/// Why a bridge could not be built, or broke.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BridgeError {
    /// Standard input is a file or a pipe.
    #[error("the bridge must run on a terminal")]
    NotATerminal,
    /// The terminal failed.
    #[error("cannot use the terminal")]
    Terminal(#[source] io::Error),
    /// The operating system refused a signal handler.
    #[error("cannot watch for signals")]
    Signals(#[source] io::Error),
    /// There is no such program.
    #[error("{0} is not installed, or not on PATH; install the package {0}")]
    NotInstalled(Multiplexer),
    /// The program could not be run or spoken to.
    #[error("cannot talk to {program}")]
    Talk {
        /// Which program.
        program: Multiplexer,
        /// What the system said.
        source: io::Error,
    },
    /// No session has this name.
    #[error("there is no {program} session named {name}; `{}` lists those there are", .program.list_command())]
    NoSession {
        /// Who was asked.
        program: Multiplexer,
        /// The name.
        name: String,
    },
    /// More than one session has this name.
    #[error("there are several screen sessions named {name}: {}; give one of these names", .ids.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// The sessions by their full names.
        ids: Vec<String>,
    },
    /// This tmux lacks what the bridge rests on.
    #[error("tmux {0} is too old to attach to; tmux 3.2 or newer is needed")]
    TooOld(String),
    /// The program said no.
    #[error("{program} refused: {reason}")]
    Refused {
        /// Who refused.
        program: Multiplexer,
        /// In its own words.
        reason: String,
    },
    /// Somebody detached the bridge; the program in the session runs on.
    #[error("{program} detached the bridge from session {name}, which still runs: {reason}")]
    Detached {
        /// Who did.
        program: Multiplexer,
        /// From what.
        name: String,
        /// In its own words.
        reason: String,
    },
    /// The pane runs on where the bridge cannot see it.
    #[error("the pane was moved out of tmux session {0}, or the bridge was switched to another session")]
    Moved(String),
    /// tmux wrote something that its manual does not describe.
    #[error("tmux sent what the bridge does not understand: {0}")]
    Protocol(&'static str),
}

/// The programs we can attach to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Multiplexer {
    /// tmux.
    Tmux,
    /// GNU screen.
    Screen,
}

/// Shows a session on this process's terminal until its program ends, and returns the exit code.
///
/// The code is 0 when the program or the session ended, and 128 plus its number for a signal. A signal that ends the
/// bridge only detaches: the session lives on. One that a key stands for is passed on as that key. The terminal is as it was when this returns, so an error can be printed as usual.
pub(crate) async fn run(target: Target) -> Result<i32, BridgeError> {
    let mut signals = EndSignals::listen().map_err(BridgeError::Signals)?;
    let shown = async {
        match &target {
            Target::Tmux(name) => tmux::run(name).await,
            Target::Screen(name) => screen::run(name).await,
        }
    };
    tokio::select! {
        code = shown => code,
        number = signals.next() => Ok(128 + number),
    }
}

/// Checks that there is such a session, before anything is started for it.
pub(crate) async fn check(target: &Target) -> Result<(), BridgeError> {
    match target {
        Target::Tmux(name) => tmux::check(name).await,
        Target::Screen(name) => screen::check(name).await,
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (target, name): (fn(String) -> Self, _) = match text.split_once(':') {
            Some(("tmux", name)) => (Self::Tmux, name),
            Some(("screen", name)) => (Self::Screen, name),
            Some(_) | None => return Err(TargetError::UnknownKind(text.to_owned())),
        };
        if name.is_empty() {
            return Err(TargetError::NoName(text.to_owned()));
        }
        Ok(target(name.to_owned()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tmux(name) => write!(f, "tmux:{name}"),
            Self::Screen(name) => write!(f, "screen:{name}"),
        }
    }
}

impl Multiplexer {
    fn program(self) -> &'static str {
        match self {
            Self::Tmux => "tmux",
            Self::Screen => "screen",
        }
    }

    fn list_command(self) -> &'static str {
        match self {
            Self::Tmux => "tmux ls",
            Self::Screen => "screen -ls",
        }
    }

    /// Says what a failure to run or reach the program means.
    fn failed(self, error: io::Error) -> BridgeError {
        match error.kind() {
            io::ErrorKind::NotFound => BridgeError::NotInstalled(self),
            _ => BridgeError::Talk { program: self, source: error },
        }
    }
}

impl fmt::Display for Multiplexer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}

/// The signals that a terminal sends for a key. They are meant for the program in the session.
struct KeySignals {
    interrupt: Signal,
    quit: Signal,
    suspend: Signal,
}

impl KeySignals {
    fn listen() -> Result<Self, BridgeError> {
        // Tokio has no name for the last.
        let suspend = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
        let listen = |kind| signal(kind).map_err(BridgeError::Signals);
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            quit: listen(SignalKind::quit())?,
            suspend: listen(suspend)?,
        })
    }

    /// Waits for the next, and returns what its key types.
    async fn next(&mut self) -> &'static [u8] {
        tokio::select! {
            _ = self.interrupt.recv() => b"\x03",
            _ = self.quit.recv() => b"\x1c",
            _ = self.suspend.recv() => b"\x1a",
        }
    }
}

/// The signals that end a bridge.
struct EndSignals {
    hangup: Signal,
    terminate: Signal,
}

impl EndSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self { hangup: signal(SignalKind::hangup())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        kind.as_raw_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_kind_and_a_name() {
        assert_eq!("tmux:gt-alpha".parse(), Ok(Target::Tmux("gt-alpha".to_owned())));
        assert_eq!("screen:1234.pts-0.host".parse(), Ok(Target::Screen("1234.pts-0.host".to_owned())));
        assert_eq!(Target::Tmux("a".to_owned()).to_string(), "tmux:a");
    }

    #[test]
    fn anything_else_is_explained() {
        let explain = |text: &str| text.parse::<Target>().map_err(|error| error.to_string());
        let unknown = "cannot attach to \"zellij:a\"; give tmux:NAME or screen:NAME";
        assert_eq!(explain("zellij:a"), Err(unknown.to_owned()));
        assert_eq!(explain("tmux"), Err("cannot attach to \"tmux\"; give tmux:NAME or screen:NAME".to_owned()));
        let nameless = "the name of the session is missing in \"tmux:\"; give tmux:NAME or screen:NAME";
        assert_eq!(explain("tmux:"), Err(nameless.to_owned()));
    }

    #[test]
    fn errors_say_what_to_do() {
        let missing = BridgeError::NoSession { program: Multiplexer::Tmux, name: "foo".to_owned() };
        assert_eq!(missing.to_string(), "there is no tmux session named foo; `tmux ls` lists those there are");
    }
}
