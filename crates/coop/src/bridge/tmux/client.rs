//! A tmux client in control mode: lines of commands in, events out.

use std::collections::VecDeque;
use std::process::Stdio;

use coop_fleet::bounded;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::bridge::control::{Decoder, Event};
use crate::bridge::{BridgeError, Multiplexer};

/// Dropping this detaches: tmux sees its client go, and the session lives on.
pub(super) struct Client {
    process: Child,
    commands: ChildStdin,
    output: ChildStdout,
    decoder: Decoder,
    events: VecDeque<Event>,
}

impl Client {
    /// Attaches to the session of exactly this name.
    ///
    /// `-N` keeps tmux from starting a server, and `-E` from changing the session's environment to ours.
    pub(super) async fn attach(name: &str) -> Result<Self, BridgeError> {
        let mut process = bounded::command("tmux")
            .args(["-N", "-u", "-C", "attach-session", "-E", "-t", &target(name)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A signal to our group is for us; the client ends by our ending.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Multiplexer::Tmux.failed(error))?;
        let (Some(commands), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(BridgeError::Protocol("no pipes"));
        };
        let mut client = Self { process, commands, output, decoder: Decoder::default(), events: VecDeque::new() };
        match client.attached().await? {
            Ok(()) => Ok(client),
            Err(reason) => Err(refused(name, reason)),
        }
    }

    /// Waits for the next event. Nothing is lost if the wait is given up.
    pub(super) async fn next(&mut self) -> Result<Event, BridgeError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let mut buffer = [0; 16 * 1024];
            let read = self.output.read(&mut buffer).await.map_err(|error| Multiplexer::Tmux.failed(error))?;
            if read == 0 {
                return Ok(Event::Exit { reason: String::new() });
            }
            let events = self.decoder.push(&buffer[..read]);
            self.events.extend(events.map_err(|_| BridgeError::Protocol("a line without an end"))?);
        }
    }

    /// Sends a line of commands.
    pub(super) async fn send(&mut self, line: &str) -> Result<(), BridgeError> {
        match self.commands.write_all(format!("{line}\n").as_bytes()).await {
            // The client has ended; its last words say why, and are read next.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|error| Multiplexer::Tmux.failed(error)),
        }
    }

    /// Waits until tmux has attached us, or says why not.
    async fn attached(&mut self) -> Result<Result<(), String>, BridgeError> {
        let reason = loop {
            match self.next().await? {
                Event::Foreign(Ok(_)) => return Ok(Ok(())),
                Event::Foreign(Err(lines)) => break String::from_utf8_lossy(&lines.join(&b' ')).into_owned(),
                Event::Exit { reason } if !reason.is_empty() => break reason,
                Event::Exit { .. } => break self.complaint().await?,
                Event::Output { .. }
                | Event::Reply(_)
                | Event::LayoutChanged { .. }
                | Event::Regrouped
                | Event::Subscription { .. } => {}
            }
        };
        Ok(Err(reason))
    }

    async fn complaint(&mut self) -> Result<String, BridgeError> {
        let mut text = String::new();
        if let Some(mut stderr) = self.process.stderr.take() {
            stderr.read_to_string(&mut text).await.map_err(|error| Multiplexer::Tmux.failed(error))?;
        }
        Ok(text.trim().replace('\n', "; "))
    }
}

/// Checks that there is a session of exactly this name.
pub(in crate::bridge) async fn check(name: &str) -> Result<(), BridgeError> {
    let has_session = ["-N", "has-session", "-t", &target(name)?];
    let output = bounded::command("tmux").args(has_session).stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| Multiplexer::Tmux.failed(error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(refused(name, String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")))
}

/// Returns how tmux is told to take a session of exactly this name.
fn target(name: &str) -> Result<String, BridgeError> {
    // To tmux these would name a window or a pane; a session's name never holds them.
    if name.contains([':', '.']) { Err(no_session(name)) } else { Ok(format!("={name}")) }
}

fn no_session(name: &str) -> BridgeError {
    BridgeError::NoSession { program: Multiplexer::Tmux, name: name.to_owned() }
}

fn refused(name: &str, reason: String) -> BridgeError {
    if is_about_a_missing_session(&reason) {
        no_session(name)
    } else {
        BridgeError::Refused { program: Multiplexer::Tmux, reason }
    }
}

/// Without a server there is no session either.
fn is_about_a_missing_session(reason: &str) -> bool {
    ["can't find session", "no server running", "no sessions", "(No such file or directory)"]
        .iter()
        .any(|words| reason.contains(words))
}
