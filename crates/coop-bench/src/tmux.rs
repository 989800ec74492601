//! A private tmux server.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::ensure;

use crate::lab::Lab;
use crate::process::{LIMIT, Process, clean_command};

pub(crate) fn is_installed() -> bool {
    let mut command = clean_command(Path::new("tmux"), &["-V"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A server with one detached session, ended when this is dropped.
pub(crate) struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    pub(crate) fn start(lab: &Lab, command: &[&OsStr]) -> anyhow::Result<Self> {
        let tmux = Self { socket: lab.fresh_path("tmux") };
        let session = ["new-session", "-x", "200", "-y", "50", "-d"];
        let mut arguments: Vec<&OsStr> = session.iter().map(OsStr::new).collect();
        arguments.extend_from_slice(command);
        tmux.run(&arguments)?;
        Ok(tmux)
    }

    fn run(&self, arguments: &[&OsStr]) -> anyhow::Result<()> {
        let mut command = clean_command(Path::new("tmux"), &["-f", "/dev/null", "-S"]);
        command.arg(&self.socket).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = Process::new(command.spawn()?).wait(LIMIT)?;
        ensure!(status.success(), "tmux failed: {status}");
        Ok(())
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // It ends by itself when its only child does.
        let _ = self.run(&[OsStr::new("kill-server")]);
    }
}
