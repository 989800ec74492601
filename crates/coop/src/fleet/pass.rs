//! What is written down of a person's own agent: who it is, and its hooks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use coop_drivers::{Existing, FileToWrite, guest_settings};
use coop_fleet::ProcessIdentity;
use coop_fleet::claims::Holder;
use coop_policy::quoted;
use serde::{Deserialize, Serialize};

use crate::driven::write_private;
use crate::paths::text;

const FILE: &str = "guest.json";

/// What is written down of one.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Pass {
    /// Where its hooks report.
    pub(crate) socket: PathBuf,
    pub(crate) token: String,
    pub(super) driver: String,
    pub(super) workspace: PathBuf,
    pub(super) process: ProcessIdentity,
    pub(super) since: SystemTime,
    /// As far as it is known.
    pub(super) conversation: Option<String>,
    /// Whether it has hooks.
    pub(super) reports: bool,
}

impl Pass {
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// Reads that of the guest with this folder.
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        Self::read(&folder.join(FILE))
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        write(&folder.join(FILE), serde_json::to_string(self)?)
    }

    pub(super) fn holder(&self) -> Holder {
        Holder::Person { program: self.driver.clone(), pid: self.process.pid(), since: self.since }
    }
}

/// Writes the settings of one, with hooks that report in its name.
pub(super) fn write_settings(folder: &Path) -> anyhow::Result<PathBuf> {
    let coop = std::env::current_exe().context("cannot find coop's own program file")?;
    let command = format!("{} hook --as {}", quoted(&text(&coop)?), quoted(&text(&folder.join(FILE))?));
    let settings = folder.join("settings.json");
    write(&settings, guest_settings(&command).to_string())?;
    Ok(settings)
}

fn write(path: &Path, content: String) -> io::Result<()> {
    let path = path.to_str().ok_or_else(|| io::Error::other("the state folder is not UTF-8"))?.to_owned();
    write_private(&FileToWrite { path, content, existing: Existing::Replaced })
}
