//! Who agents in workspaces are to the tools that they may call.
//!
//! Each has a token, in `tools.json` in its folder, which only this user can read. It holds as long as the agent lives: who
//! has none, or that of one that has ended, is nobody.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coop_api::{AgentId, Token};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The file's name. A sidecar that finds it gives its agent the tools.
const FILE: &str = "tools.json";

/// What is in the file.
#[derive(Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) token: String,
    /// Where the daemon listens.
    pub(crate) socket: PathBuf,
}

impl Identity {
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }
}

/// All that are known.
#[derive(Clone, Debug)]
pub(super) struct Identities {
    agents: PathBuf,
    socket: PathBuf,
    known: Arc<Mutex<Vec<(Token, AgentId)>>>,
}

impl Identities {
    /// Finds those that an earlier daemon gave.
    pub(super) fn load(agents: &Path, socket: &Path) -> Self {
        let entries = fs::read_dir(agents).into_iter().flatten().flatten();
        let known = entries.filter_map(|entry| {
            let identity = Identity::read(&entry.path().join(FILE)).ok()?;
            let agent = AgentId(entry.file_name().into_string().ok()?);
            Some((Token::new(identity.token).ok()?, agent))
        });
        let known = Arc::new(Mutex::new(known.collect()));
        Self { agents: agents.to_owned(), socket: socket.to_owned(), known }
    }

    /// Gives an agent that is about to be started its token.
    pub(super) fn give(&self, agent: &AgentId) -> io::Result<()> {
        let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let folder = self.agents.join(&agent.0);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let identity = Identity { token: token.clone(), socket: self.socket.clone() };
        // What is there of an agent of the same name that was never started is not to be kept.
        let _ = fs::remove_file(folder.join(FILE));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(FILE))?;
        file.write_all(&serde_json::to_vec(&identity)?)?;
        let token = Token::new(token).map_err(io::Error::other)?;
        let mut known = self.lock();
        known.retain(|(_, other)| other != agent);
        known.push((token, agent.clone()));
        Ok(())
    }

    /// Takes an agent's token away.
    pub(super) fn take(&self, agent: &AgentId) {
        self.lock().retain(|(_, other)| other != agent);
        // It is worth nothing any more.
        let _ = fs::remove_file(self.agents.join(&agent.0).join(FILE));
    }

    /// Returns who has a token.
    pub(super) fn find(&self, token: &str) -> Option<AgentId> {
        // All are compared, so that the time tells nothing.
        let known = self.lock();
        let found: Vec<_> = known.iter().filter(|(known, _)| known.matches(token)).collect();
        found.first().map(|(_, agent)| agent.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Token, AgentId)>> {
        // It is whole between any two statements that hold the lock.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
