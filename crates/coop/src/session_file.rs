//! `--session-file`: the agent's conversation outlives the sidecar, and no two sidecars go on with it at once.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use coop_api::{Agents, EventBody, Lifecycle, Reply, Request, Seq, Turn};
use coop_session::Handle;

/// The file, locked as long as this lives. The lock is on a file beside it, because the file itself is replaced.
pub(crate) struct SessionFile {
    path: PathBuf,
    _lock: File,
}

impl SessionFile {
    /// Locks the file, and returns which conversation it names.
    pub(crate) fn open(path: &Path) -> anyhow::Result<(Self, Option<String>)> {
        if let Some(folder) = path.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let lock_path = beside(path, "lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&lock_path);
        let lock = lock.with_context(|| format!("cannot open {}", lock_path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another sidecar goes on with the conversation in {}; there is never a second", path.display())
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", lock_path.display()));
            }
        }
        let session = match fs::read_to_string(path) {
            Ok(text) => Some(text.trim().to_owned()).filter(|session| !session.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Ok((Self { path: path.to_owned(), _lock: lock }, session))
    }

    /// Writes down which conversation the agent is in, for as long as the session lives. One without a turn cannot be gone
    /// on with, so nothing is written before the first begins.
    pub(crate) async fn keep(self, handle: Handle) {
        let Ok(mut feed) = handle.feed(handle.id()) else { return };
        let (mut cursor, mut talk) = (Seq(0), Conversation::default());
        loop {
            let Ok(Reply::Events(page)) = handle.call(handle.id(), Request::Events(cursor)).await else { return };
            for event in page.events {
                cursor = event.seq;
                if let Some(id) = talk.note(&event.body)
                    && let Err(error) = self.write(id)
                {
                    tracing::error!(%error, "the conversation cannot be written down; it is lost with this sidecar");
                }
            }
            let news = feed.pulse.wait_for(|pulse| pulse.events > cursor).await;
            if news.is_err() {
                return;
            }
        }
    }

    /// Whoever reads it sees all of it or what was there before, also after the power was cut.
    fn write(&self, session: &str) -> io::Result<()> {
        let new = beside(&self.path, "new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        writeln!(file, "{session}")?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// Which conversation the agent is in, and whether it can be gone on with.
#[derive(Default)]
struct Conversation {
    id: Option<String>,
    turn: Turns,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Turns {
    #[default]
    None,
    Open,
    Over,
}

impl Conversation {
    /// Returns the conversation to be written down, if that has become clear. An agent may name it only after its first
    /// turn has begun, or even ended; a name that comes when there was one already is another conversation, without a turn
    /// unless one is under way.
    fn note(&mut self, body: &EventBody) -> Option<&str> {
        let has_turn = match body {
            EventBody::Lifecycle(Lifecycle::Session { id }) => {
                let is_first = self.id.is_none();
                self.id = Some(id.clone());
                self.turn == Turns::Open || (is_first && self.turn == Turns::Over)
            }
            EventBody::Turn(Turn::Began { .. }) => {
                self.turn = Turns::Open;
                true
            }
            EventBody::Turn(Turn::Ended { .. }) => {
                self.turn = Turns::Over;
                false
            }
            _ => false,
        };
        self.id.as_deref().filter(|_| has_turn)
    }
}

/// Returns the path of a file beside another, with more at the end of its name.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(more);
    name.into()
}

#[cfg(test)]
mod tests {
    use coop_api::TurnOutcome;

    use super::*;

    #[test]
    fn a_conversation_is_known_in_whichever_order_it_is_told() {
        let session = |id: &str| EventBody::Lifecycle(Lifecycle::Session { id: id.to_owned() });
        let began = || EventBody::Turn(Turn::Began { prompt: None });
        let ended = || EventBody::Turn(Turn::Ended { outcome: TurnOutcome::Completed });
        let written = |events: &[EventBody]| {
            let mut talk = Conversation::default();
            events.iter().filter_map(|body| talk.note(body).map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(written(&[session("a")]), Vec::<String>::new(), "one without a turn cannot be gone on with");
        assert_eq!(written(&[session("a"), began(), ended()]), ["a"]);
        assert_eq!(written(&[began(), session("a"), ended()]), ["a"]);
        assert_eq!(written(&[began(), ended(), session("a")]), ["a"]);
        assert_eq!(written(&[session("a"), began(), ended(), session("b")]), ["a"]);
        assert_eq!(written(&[session("a"), began(), ended(), session("b"), began()]), ["a", "b"]);
    }

    #[test]
    fn there_is_one_at_a_time_and_what_it_wrote_is_read_by_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("own/session");
        let (file, session) = SessionFile::open(&path).expect("it is free");
        assert_eq!(session, None);
        file.write("one").expect("written");
        file.write("two").expect("written");
        let second = SessionFile::open(&path).map(|_| ()).expect_err("it is locked").to_string();
        assert!(second.contains("another sidecar"), "{second}");
        drop(file);
        assert_eq!(SessionFile::open(&path).expect("it is free").1.as_deref(), Some("two"));
    }
}
