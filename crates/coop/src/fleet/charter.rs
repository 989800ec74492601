//! `STATE/fleet.json`: what a fleet is, from its first start on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use coop_api::AgentId;
use coop_fleet::private;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How long an id is: two fleets of one cluster or machine will not have the same.
const LETTERS: usize = 12;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Charter {
    /// What no other fleet is called. It stands on all that the fleet makes.
    pub(super) id: String,
    /// Where its agents run, as `--launcher` says it, once there was a daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    launcher: Option<String>,
    #[serde(skip)]
    path: PathBuf,
}

impl Charter {
    /// Reads that of the fleet with this folder; the first time it is made.
    pub(super) fn of(state: &Path) -> anyhow::Result<Self> {
        let path = state.join("fleet.json");
        let read = || format!("cannot read {}", path.display());
        match fs::read(&path) {
            Ok(text) => Ok(Self { path: path.clone(), ..serde_json::from_slice(&text).with_context(read)? }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let id = Uuid::new_v4().simple().to_string()[..LETTERS].to_owned();
                let charter = Self { id, launcher: None, path };
                charter.write()?;
                Ok(charter)
            }
            Err(error) => Err(error).with_context(read),
        }
    }

    /// Says where agents run from now on. While some run elsewhere it is refused: nobody would find them there, and others would
    /// be started in their place.
    pub(super) fn settle(&mut self, launcher: &str, living: &[AgentId]) -> anyhow::Result<()> {
        if self.launcher.as_deref() == Some(launcher) {
            return Ok(());
        }
        if let (Some(before), [first, others @ ..]) = (&self.launcher, living) {
            let run = if others.is_empty() { "runs".to_owned() } else { format!("and {} more run", others.len()) };
            bail!(
                "{first} {run} with --launcher {before}, not {launcher}: start the daemon as before, end them first \
                 (`coop down --kill`), or choose another --state"
            );
        }
        self.launcher = Some(launcher.to_owned());
        self.write()
    }

    fn write(&self) -> anyhow::Result<()> {
        let written = private::write(&self.path, serde_json::to_string(self)?);
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_stays_what_it_is() {
        let state = tempfile::tempdir().expect("a folder");
        let mut first = Charter::of(state.path()).expect("made");
        let agents = ["a", "b"].map(|name| AgentId(name.to_owned()));
        first.settle("local", &agents).expect("nothing was said before");
        let mut later = Charter::of(state.path()).expect("read");
        assert_eq!((first.id.len(), &first.id), (LETTERS, &later.id));
        later.settle("local", &agents).expect("it is the same");
        let refused = later.settle("container", &agents).expect_err("they run elsewhere").to_string();
        assert!(refused.starts_with("a and 1 more run with --launcher local, not container: "), "{refused}");
        later.settle("container", &[]).expect("nobody runs");
        let mut last = Charter::of(state.path()).expect("read");
        assert!(last.settle("local", &agents[..1]).is_err_and(|why| why.to_string().contains("--launcher container")));
    }
}
