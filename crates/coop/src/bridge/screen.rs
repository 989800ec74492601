//! The live bridge to a GNU screen window.
//!
//! screen has no control mode, but it serves any number of displays. The bridge is one more: `screen -x` on a terminal
//! of the bridge's own, whose output is passed on. (`hardcopy` is no way: it keeps the low byte of each character and
//! no colours, no cursor; and without a display no command resizes a window.) Keys typed at a display go through
//! screen's command key, so input takes another way: `stuff`, which hands every byte to the window as it is.
//!
//! The bridge stays with the window that was current when it attached.

mod stuff;
mod window;

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

use self::window::Window;
use super::raw::{Terminal, Tty};
use super::{BridgeError, KeySignals, Multiplexer};

/// What screen sends to switch a terminal of type `TERM` to its alternate screen. The bridge's terminal stays on the
/// main one: being displayed by screen says nothing about the program.
const ALTERNATE: &[u8] = b"\x1b[?1049h";
const TERM: &str = "xterm-256color";
/// What a display says when its session ends. The session may be listed a little longer.
const TERMINATING: &str = "[screen is terminating]";

/// How long screen may take to answer a question. It answers within milliseconds, or is stuck for good.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the last output may take to be displayed once the program has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Displays that end this soon, this often in a row, are not detached by somebody who takes over but refused.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);
const REFUSED_TIMES: u32 = 3;

/// Shows the current window of a session until its program ends.
pub(super) async fn run(name: &str) -> Result<i32, BridgeError> {
    let terminal = Terminal::open()?;
    let session = Session::find(name).await?;
    let number = session.current_window().await?;
    let window = Window::find(session.server, &number).await;
    let bridge = Bridge { terminal, session, number, window };
    tokio::select! {
        shown = bridge.show() => shown.map(|()| 0),
        typed = bridge.pass_input() => typed,
        () = bridge.window.ended() => Ok(0),
    }
}

/// Checks that there is just one session of this name.
pub(super) async fn check(name: &str) -> Result<(), BridgeError> {
    Session::find(name).await.map(drop)
}

struct Bridge {
    terminal: Terminal,
    session: Session,
    number: String,
    window: Window,
}

impl Bridge {
    /// Displays the window until the session has ended. Comes back when somebody detaches all displays, as
    /// `screen -dr` does to take a session over.
    async fn show(&self) -> Result<(), BridgeError> {
        let mut short_lived = 0;
        loop {
            let since = Instant::now();
            let last_words = self.display().await?;
            if last_words == TERMINATING || !self.session.exists().await? {
                return Ok(());
            }
            short_lived = if since.elapsed() < REFUSED_WITHIN { short_lived + 1 } else { 0 };
            if short_lived == REFUSED_TIMES {
                let name = self.session.id.clone();
                return Err(BridgeError::Detached { program: Multiplexer::Screen, name, reason: last_words });
            }
        }
    }

    /// Displays the window until the display ends, and returns the last line it wrote.
    async fn display(&self) -> Result<String, BridgeError> {
        let mut resized = signal(SignalKind::window_change()).map_err(BridgeError::Signals)?;
        let display = self.spawn_display()?;
        let mut strip = stuff::Strip::new(ALTERNATE);
        let mut last = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            tokio::select! {
                read = display.read(&mut buffer) => match read.map_err(|error| Multiplexer::Screen.failed(error))? {
                    0 => return Ok(stuff::last_line(&last)),
                    read => {
                        last = strip.push(&buffer[..read]);
                        self.terminal.write_all(&last).await?;
                    }
                },
                _ = resized.recv() => display.resize(self.terminal.size()?).map_err(BridgeError::Terminal)?,
            }
        }
    }

    /// Starts `screen -x`. It ends when the terminal it is on is dropped.
    fn spawn_display(&self) -> Result<Tty, BridgeError> {
        let (pty, pts) = pty_process::blocking::open().map_err(|error| BridgeError::Terminal(to_io(error)))?;
        let display = Tty::new(pty.into()).map_err(BridgeError::Terminal)?;
        display.resize(self.terminal.size()?).map_err(BridgeError::Terminal)?;
        pty_process::blocking::Command::new("screen")
            .args(["-U", "-x", &self.session.id, "-p", &self.number])
            .env("TERM", TERM)
            .env_remove("STY")
            .spawn(pts)
            .map_err(|error| Multiplexer::Screen.failed(to_io(error)))?;
        Ok(display)
    }

    /// Passes input on until there is none, or nobody to take it. Returns the exit code that it means.
    async fn pass_input(&self) -> Result<i32, BridgeError> {
        let mut keys = KeySignals::listen()?;
        let mut buffer = [0; 1024];
        loop {
            let input = tokio::select! {
                read = self.terminal.read(&mut buffer) => match read? {
                    0 => return Ok(128 + SignalKind::hangup().as_raw_value()),
                    read => &buffer[..read],
                },
                key = keys.next() => key,
            };
            for text in stuff::quoted(input) {
                self.window.ready_for_input().await;
                if self.session.run(&["-p", &self.number, "-X", "stuff", &text]).await?.is_err() {
                    // The session has gone; let its last output through.
                    sleep(LAST_WORDS).await;
                    return Ok(0);
                }
            }
        }
    }
}

/// A session by its full name, `PID.NAME`. Anything shorter means whatever starts like it.
struct Session {
    id: String,
    server: i32,
}

impl Session {
    async fn find(name: &str) -> Result<Self, BridgeError> {
        let mut ids = stuff::matching(&list().await?, name);
        let found =
            ids.pop().ok_or_else(|| BridgeError::NoSession { program: Multiplexer::Screen, name: name.to_owned() })?;
        if !ids.is_empty() {
            ids.push(found);
            return Err(BridgeError::Ambiguous { name: name.to_owned(), ids });
        }
        let server = found.split('.').next().and_then(|pid| pid.parse().ok()).unwrap_or_default();
        Ok(Self { id: found, server })
    }

    async fn exists(&self) -> Result<bool, BridgeError> {
        Ok(stuff::matching(&list().await?, &self.id).contains(&self.id))
    }

    /// Asks which window is current. Asked once only, since whoever is attached sees the answer flash by.
    async fn current_window(&self) -> Result<String, BridgeError> {
        let refused = |reason: &str| BridgeError::Refused { program: Multiplexer::Screen, reason: reason.to_owned() };
        let asked = timeout(ANSWER, self.run(&["-Q", "number"])).await;
        let answer = asked.map_err(|_| refused("the session does not answer"))??;
        let text = answer.map_err(|complaint| refused(&complaint))?;
        let number = text.split(' ').next().filter(|number| number.parse::<u32>().is_ok());
        number.map(str::to_owned).ok_or_else(|| refused(&text))
    }

    /// Runs a screen command, and returns what it printed, by whether it succeeded.
    async fn run(&self, args: &[&str]) -> Result<Result<String, String>, BridgeError> {
        let output = screen().args(["-S", &self.id]).args(args).output().await;
        let output = output.map_err(|error| Multiplexer::Screen.failed(error))?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(if output.status.success() { Ok(text) } else { Err(text) })
    }
}

async fn list() -> Result<String, BridgeError> {
    // Its exit status says nothing of use.
    let output = screen().arg("-ls").output().await.map_err(|error| Multiplexer::Screen.failed(error))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// If coop itself runs in a screen session, that is not the one meant.
fn screen() -> Command {
    let mut command = coop_fleet::bounded::command("screen");
    command.env_remove("STY").stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn to_io(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
    }
}
