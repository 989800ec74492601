//! A running coop.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::lab::Lab;
use crate::process::{LIMIT, Lines, Process, clean_command};

/// A sidecar that answers, ended when this is dropped.
pub(crate) struct Sidecar {
    process: Process,
    /// Host and port of HTTP.
    pub(crate) http: String,
    /// The URL of gRPC.
    pub(crate) grpc: String,
    _lines: Lines,
    /// The home of an agent in a sandbox, removed after it.
    _home: Option<tempfile::TempDir>,
}

impl Sidecar {
    /// Starts coop with a child and waits until it says that it is ready. It stays when the child ends.
    pub(crate) fn start(lab: &Lab, command: &[&OsStr]) -> anyhow::Result<Self> {
        Self::run(lab, &[], command, |_| {})
    }

    /// Starts it with more options and a home for what the agent keeps.
    pub(crate) fn start_with(lab: &Lab, more: &[&str], command: &[&OsStr], home: &Path) -> anyhow::Result<Self> {
        Self::run(lab, more, command, |coop| {
            coop.env("HOME", home).env("XDG_RUNTIME_DIR", home);
        })
    }

    /// Starts it with more options in the lab's folder, which is then the agent's.
    pub(crate) fn start_in_lab(lab: &Lab, more: &[&str], command: &[&OsStr]) -> anyhow::Result<Self> {
        // An agent in a sandbox cannot have its home in its folder.
        let home = tempfile::tempdir().context("cannot make a home")?;
        let started = Self::run(lab, more, command, |coop| {
            coop.env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path()).current_dir(lab.folder());
        })?;
        Ok(Self { _home: Some(home), ..started })
    }

    fn run(lab: &Lab, more: &[&str], command: &[&OsStr], change: impl FnOnce(&mut Command)) -> anyhow::Result<Self> {
        let options = ["--port", "0", "--grpc-port", "0", "--log-level", "off", "--linger", "forever", "--socket"];
        let mut coop = clean_command(&lab.coop, &options);
        coop.arg(lab.fresh_path("sock")).args(more).arg("--").args(command);
        change(&mut coop);
        coop.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = coop.spawn().context("cannot start coop")?;
        let output = child.stdout.take();
        let process = Process::new(child);
        let lines = Lines::of(output)?;
        let (mut http, mut grpc) = (None, None);
        loop {
            let line = lines.next(LIMIT).context("coop did not get ready")?;
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["listening", "http", url] => http = url.strip_prefix("http://").map(str::to_owned),
                ["listening", "grpc", url] => grpc = Some(url.to_owned()),
                ["listening" | "agent", ..] => {}
                ["ready"] => break,
                _ => bail!("coop said something unexpected: {line:?}"),
            }
        }
        let (http, grpc) = http.zip(grpc).context("coop did not say where it listens")?;
        Ok(Self { process, http, grpc, _lines: lines, _home: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}
