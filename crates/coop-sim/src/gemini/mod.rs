//! A scripted agent with the manners of Gemini CLI 0.61.0 in its terminal: its title, its log, its hooks and its dialogs.
//!
//! Like the real one it is two processes. The outer one ignores every signal that asks it to end and starts the inner one,
//! again if that ends with [`RELAUNCH`], as it does when a folder has come to be trusted. The inner one outlives its terminal.
//! What it does stands in the prompt, in the language of the fake model (`[[bash:ls]]`, see `model::directive`).
//!
//! | Variable | Meaning |
//! |---|---|
//! | `GEMINI_CLI_HOME`, `HOME` | where `.gemini` is, with its settings, trusted folders and logs |
//! | `GEMINI_CLI_SYSTEM_DEFAULTS_PATH` | settings below those of the user |
//! | `COOP_SIM_DIALOGS` | `1`: ask whether the folder is trusted |

mod dialog;
mod home;
mod keys;
mod log;
mod screen;
mod tool;
mod turn;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use self::home::Home;
use self::keys::{Key, Parser};
use self::log::Log;
use self::screen::Screen;
use crate::claude::io::terminal::{RawMode, size};

/// Set for the inner process.
const WORKER: &str = "COOP_SIM_GEMINI_WORKER";
/// The exit code with which the inner process asks to be started again.
const RELAUNCH: i32 = 199;
/// How long a lone ESC may be the beginning of something.
const ESC_WAIT: Duration = Duration::from_millis(30);
/// Enter that comes sooner after a paste is taken for a part of it.
const AFTER_PASTE: Duration = Duration::from_millis(40);
/// The real one begins to read the earlier conversation some two seconds after it takes input.
const RESUMES_AFTER: Duration = Duration::from_millis(300);
const READ: usize = 64 * 1024;

/// Runs the agent with the arguments after `coop sim gemini`; returns its exit code.
pub async fn run(args: Vec<OsString>) -> anyhow::Result<i32> {
    let words: Vec<_> = args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if words.iter().any(|word| matches!(word.as_str(), "-v" | "--version")) {
        std::io::stdout().write_all(b"0.61.0\n")?;
        return Ok(0);
    }
    if words.iter().any(|word| word == "--acp") {
        return crate::acp::run(crate::acp::Options { auth: false, load_only: false });
    }
    if std::env::var_os(WORKER).is_some() { work(&words) } else { wrap(&args).await }
}

/// The outer process.
async fn wrap(args: &[OsString]) -> anyhow::Result<i32> {
    // As long as these are there the signals do nothing.
    let kinds = [SignalKind::hangup(), SignalKind::terminate(), SignalKind::interrupt()];
    let _ignored = kinds.map(signal).into_iter().collect::<std::io::Result<Vec<_>>>()?;
    let program = std::env::current_exe().context("cannot find the program")?;
    loop {
        let mut worker = tokio::process::Command::new(&program);
        let worker = worker.args(["sim", "gemini"]).args(args).env(WORKER, "1").stdin(Stdio::inherit());
        match worker.status().await?.code() {
            Some(RELAUNCH) => {}
            code => return Ok(code.unwrap_or(1)),
        }
    }
}

/// Ends the process when it is told to terminate; a terminal that goes away does not end it.
fn heed_signals() {
    thread::spawn(|| {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        // Without handlers the defaults apply.
        let _ = runtime.block_on(until_terminated());
        std::process::exit(0);
    });
}

async fn until_terminated() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let _hangup = signal(SignalKind::hangup())?;
    let _interrupt = signal(SignalKind::interrupt())?;
    terminate.recv().await;
    Ok(())
}

/// The inner process.
struct Worker {
    home: Home,
    log: Log,
    screen: Screen,
    input: Receiver<Vec<u8>>,
    parser: Parser,
    /// Whether commands need no more leave.
    allowed: bool,
    calls: u64,
}

fn work(args: &[String]) -> anyhow::Result<i32> {
    heed_signals();
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let _raw = RawMode::enter(stdin.as_fd().try_clone_to_owned()?).context("it needs a terminal")?;
    let home = Home::find()?;
    let screen = Screen::new(File::from(stdout.as_fd().try_clone_to_owned()?), size(&stdout), &home.cwd);
    let (log, resumed) = Log::open(&home, args)?;
    let (sender, input) = channel();
    let mut terminal = File::from(stdin.as_fd().try_clone_to_owned()?);
    thread::spawn(move || {
        let mut buffer = vec![0; READ];
        // Like the real one it goes on without a terminal.
        while let Ok(count @ 1..) = terminal.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
        // The other end stays, so that nobody is told.
        std::mem::forget(sender);
    });
    let mut worker = Worker { home, log, screen, input, parser: Parser::default(), allowed: false, calls: 0 };
    if !worker.home.is_trusted && std::env::var_os("COOP_SIM_DIALOGS").is_some() && worker.ask_for_trust()? {
        return Ok(RELAUNCH);
    }
    worker.begin(resumed)?;
    loop {
        let prompt = worker.prompt();
        match prompt.trim() {
            "" => {}
            "/quit" | "/exit" => return Ok(0),
            text => worker.turn(text)?,
        }
    }
}

impl Worker {
    /// Shows its prompt before it takes pastes, and takes pastes before its conversation is there.
    fn begin(&mut self, resumed: bool) -> anyhow::Result<()> {
        self.screen.title("◇  Ready");
        self.screen.draw();
        self.screen.take_pastes();
        if resumed {
            self.hook("SessionStart", &json!({ "source": "resume" }));
            thread::sleep(RESUMES_AFTER);
            return self.log.resume();
        }
        self.log.begin()?;
        self.hook("SessionStart", &json!({ "source": "startup" }));
        Ok(())
    }

    /// Returns the next key; nothing if none comes in time.
    fn key(&mut self, limit: Option<Duration>) -> Option<Key> {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            if let Some(key) = self.parser.next() {
                return Some(key);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let patience = [left, self.parser.is_waiting().then_some(ESC_WAIT)].into_iter().flatten().min();
            let bytes = match patience {
                Some(time) => self.input.recv_timeout(time),
                None => self.input.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match bytes {
                Ok(bytes) => self.parser.feed(&bytes),
                Err(_) if self.parser.is_waiting() => self.parser.pause(),
                Err(_) => return None,
            }
        }
    }

    /// Waits for a message.
    fn prompt(&mut self) -> String {
        let mut text = String::new();
        let mut pasted: Option<Instant> = None;
        loop {
            self.screen.input(&text);
            self.screen.draw();
            match self.key(None) {
                Some(Key::Enter) if pasted.is_some_and(|at| at.elapsed() < AFTER_PASTE) => text.push('\n'),
                Some(Key::Enter) => {
                    self.screen.input("");
                    return text;
                }
                Some(Key::Paste(paste)) => {
                    text.push_str(&paste);
                    pasted = Some(Instant::now());
                }
                Some(Key::Char(c)) => text.push(c),
                Some(Key::Clear) => text.truncate(text.rfind('\n').map_or(0, |at| at + 1)),
                Some(Key::Backspace) => drop(text.pop()),
                Some(Key::Escape | Key::Down) => {}
                None => return "/quit".to_owned(),
            }
        }
    }

    /// Runs the hooks of an event and returns what they say.
    fn hook(&self, event: &str, payload: &serde_json::Value) -> serde_json::Value {
        self.home.hook(event, payload, &self.log)
    }
}
