//! `--session-file`: the agent's conversation outlives the sidecar, and no two sidecars go on with it at once.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use coop_api::{AgentState, Agents, Capability, EventBody, FaultKind, Lifecycle, Reply, Request, Seq, Turn};
use coop_session::Handle;

/// The file, locked as long as this lives. The lock is on a file beside it, because the file itself is replaced.
pub(crate) struct SessionFile {
    path: PathBuf,
    _lock: File,
}

impl SessionFile {
    /// Locks the file, and returns which conversation it names.
    pub(crate) fn open(path: &Path) -> anyhow::Result<(Self, Option<String>)> {
        check_place(path)?;
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
            Ok(text) if text.trim().lines().count() > 1 => {
                bail!("--session-file {}: it has something else than a conversation's id; name another", path.display())
            }
            Ok(text) => Some(text.trim().to_owned()).filter(|session| !session.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Ok((Self { path: path.to_owned(), _lock: lock }, session))
    }

    /// Writes down which conversation the agent is in, for as long as the session lives. One without a turn cannot be gone
    /// on with, so nothing is written before the first begins; and nothing at all of an agent that says that it cannot go on
    /// with any, since its next start would fail. Says what to do if it does not go on with the one that it was started with.
    pub(crate) async fn keep(self, handle: Handle, mut resumed: Option<Resumed>) {
        let Ok(mut feed) = handle.feed(handle.id()) else { return };
        let (mut cursor, mut talk) = (Seq(0), Conversation::default());
        let mut is_told = false;
        loop {
            let Ok(Reply::Events(page)) = handle.call(handle.id(), Request::Events(cursor)).await else { return };
            for event in page.events {
                cursor = event.seq;
                match resumed.as_ref().map(|resumed| resumed.note(&event.body)) {
                    Some(Goes::On) => resumed = None,
                    Some(Goes::Nowhere) => {
                        if let Some(resumed) = resumed.take() {
                            tracing::error!("{}", resumed.what_to_do());
                        }
                    }
                    Some(Goes::WhoKnows) | None => {}
                }
                let Some(id) = talk.note(&event.body) else { continue };
                if !resumes(&handle).await {
                    if !is_told {
                        is_told = true;
                        tracing::warn!("{}", not_kept(&self.path));
                    }
                } else if let Err(error) = self.write(id) {
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

/// Refuses a place where no file can be. A folder is not made: it would be that of a misspelt path, or of a volume that is not
/// mounted, and the conversation would be looked for in another place the next time.
fn check_place(path: &Path) -> anyhow::Result<()> {
    let name = path.display();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match fs::metadata(folder) {
        Ok(found) if !found.is_dir() => bail!("--session-file {name}: {} is not a folder", folder.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("--session-file {name}: there is no folder {}; make it first", folder.display())
        }
        Err(error) => Err(error).with_context(|| format!("--session-file {name}: {}", folder.display())),
        Ok(_) if path.is_dir() => bail!("--session-file {name} is a folder; name a file in it"),
        Ok(_) => Ok(()),
    }
}

/// Returns what is said if the file keeps nothing. It still keeps a second sidecar away.
pub(crate) fn not_kept(path: &Path) -> String {
    let name = path.display();
    format!("--session-file: coop cannot go on with a conversation of this program, so none is kept in {name}")
}

/// Tells whether the agent says that it can go on with an earlier conversation.
async fn resumes(handle: &Handle) -> bool {
    match handle.call(handle.id(), Request::AgentState).await {
        Ok(Reply::AgentState(report)) => report.capabilities.contains(&Capability::Resume),
        _ => true,
    }
}

/// A conversation that an agent is started with because a file names it.
pub(crate) struct Resumed {
    pub(crate) path: PathBuf,
    pub(crate) session: String,
    /// Whether the sidecar stays when the agent has exited. One that does not says itself what became of it.
    pub(crate) lingers: bool,
}

/// Whether an agent goes on with the conversation that it was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    On,
    Nowhere,
    WhoKnows,
}

impl Resumed {
    /// Returns what a person can do if the agent does not go on. Why it does not, no agent says in a way that all share.
    pub(crate) fn what_to_do(&self) -> String {
        let (path, session) = (self.path.display(), &self.session);
        format!(
            "it was to go on with the conversation {session}, which {path} names; if the agent no longer has it, delete {path} to begin a new one"
        )
    }

    fn note(&self, body: &EventBody) -> Goes {
        match body {
            EventBody::Turn(Turn::Began { .. }) | EventBody::Lifecycle(Lifecycle::Stopping) => Goes::On,
            EventBody::Lifecycle(Lifecycle::Exited { code: Some(code), .. }) if *code != 0 && self.lingers => {
                Goes::Nowhere
            }
            EventBody::State(change) => match &change.next {
                AgentState::Blocked { fault } if matches!(fault.kind, FaultKind::Request | FaultKind::Other) => {
                    Goes::Nowhere
                }
                _ => Goes::WhoKnows,
            },
            _ => Goes::WhoKnows,
        }
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
    use coop_api::{Evidence, EvidenceSource, Fault, StateChange, TurnOutcome};

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
        let path = folder.path().join("session");
        let (file, session) = SessionFile::open(&path).expect("it is free");
        assert_eq!(session, None);
        file.write("one").expect("written");
        file.write("two").expect("written");
        let second = SessionFile::open(&path).map(|_| ()).expect_err("it is locked").to_string();
        assert!(second.contains("another sidecar"), "{second}");
        drop(file);
        assert_eq!(SessionFile::open(&path).expect("it is free").1.as_deref(), Some("two"));
    }

    /// The bug this keeps away: a misspelt folder was made, and the conversation was in it.
    #[test]
    fn a_place_where_no_such_file_can_be_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("notes"), "one\ntwo\n").expect("written");
        let refused = |name: &str| SessionFile::open(&at(name)).map(|_| ()).expect_err(name).to_string();
        assert!(refused("nope/session").contains("there is no folder"));
        assert!(!at("nope").exists());
        assert!(refused("notes/session").contains("is not a folder"));
        assert!(refused("").contains("is a folder; name a file in it"));
        assert!(refused("notes").contains("something else than a conversation's id"));
        assert_eq!(fs::read_to_string(at("notes")).expect("it is there"), "one\ntwo\n");
    }

    #[test]
    fn what_to_do_is_said_of_an_agent_that_fails_before_its_first_turn() {
        let resumed = |lingers| Resumed { path: "/s".into(), session: "c-1".to_owned(), lingers };
        let exited = |code| EventBody::Lifecycle(Lifecycle::Exited { code, signal: None });
        let blocked = |kind| {
            let fault = Fault { kind, message: "gone".to_owned(), status: None, until: None };
            EventBody::State(Box::new(StateChange {
                prev: AgentState::Starting,
                next: AgentState::Blocked { fault },
                screen_seq: Seq(0),
                evidence: Evidence { source: EvidenceSource::Process, detail: String::new() },
                ask: None,
                last_message: None,
            }))
        };
        assert_eq!(resumed(true).note(&exited(Some(1))), Goes::Nowhere);
        assert_eq!(resumed(false).note(&exited(Some(1))), Goes::WhoKnows, "the sidecar says it itself");
        assert_eq!(resumed(true).note(&exited(Some(0))), Goes::WhoKnows);
        assert_eq!(resumed(true).note(&blocked(FaultKind::Other)), Goes::Nowhere);
        assert_eq!(resumed(true).note(&blocked(FaultKind::Auth)), Goes::WhoKnows);
        assert_eq!(resumed(true).note(&EventBody::Turn(Turn::Began { prompt: None })), Goes::On);
    }
}
