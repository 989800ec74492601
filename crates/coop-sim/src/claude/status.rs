//! The live status file `<config>/sessions/<pid>.json`: busy, idle or waiting, for whoever looks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::VERSION;
use super::engine::Millis;
use super::ids::SessionId;
use super::notice::{Notice, State};

pub(crate) struct StatusFile {
    path: PathBuf,
    pid: u32,
    session: SessionId,
    cwd: PathBuf,
    kind: Kind,
    started: Millis,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Interactive,
    Print,
}

impl StatusFile {
    pub(crate) fn new(config: &Path, session: SessionId, cwd: PathBuf, kind: Kind, started: Millis) -> Self {
        let pid = std::process::id();
        let path = config.join("sessions").join(format!("{pid}.json"));
        Self { path, pid, session, cwd, kind, started, state: State::Idle }
    }

    /// Writes the file if the notice changes what it says.
    pub(crate) fn take(&mut self, now: Millis, notice: &Notice) -> io::Result<()> {
        if let Notice::Session { id, .. } = notice {
            self.session = id.clone();
        } else if let Notice::State(state) = notice
            && *state != self.state
        {
            self.state = *state;
        } else {
            return Ok(());
        }
        write_atomically(&self.path, self.content(now).to_string().as_bytes())
    }

    pub(crate) fn remove(&self) {
        // It may never have been written.
        let _ = fs::remove_file(&self.path);
    }

    fn content(&self, now: Millis) -> Value {
        let (kind, entrypoint) = match self.kind {
            Kind::Interactive => ("interactive", "cli"),
            Kind::Print => ("print", "sdk-cli"),
        };
        let mut content = json!({
            "pid": self.pid, "sessionId": self.session.0, "cwd": self.cwd, "startedAt": self.started.0,
            "version": VERSION, "peerProtocol": 1, "kind": kind, "entrypoint": entrypoint,
            "updatedAt": now.0, "statusUpdatedAt": now.0,
        });
        let status = match self.state {
            State::Busy => "busy",
            State::Idle => "idle",
            State::Waiting => {
                content["waitingFor"] = json!("permission prompt");
                "waiting"
            }
            State::Dialog => {
                content["waitingFor"] = json!("dialog open");
                "waiting"
            }
        };
        content["status"] = json!(status);
        content
    }
}

/// Nobody who reads the path ever sees half a file.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let draft = path.with_extension("tmp");
    fs::write(&draft, bytes)?;
    fs::rename(&draft, path)
}
