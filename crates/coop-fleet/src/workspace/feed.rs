//! What the agents of a fleet come to, workspace by workspace, as it changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coop_api::{AgentId, AgentState, EventBody};
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::Workspaces;
use super::status::{AgentStatus, StatusChange, Statuses};
use crate::engine::Input;
use crate::fleet::{Fleet, FleetError};
use crate::store::{Entry, Store, StoreError};

/// Changes that wait for a slow reader; one that is slower is told so, and looks everything up.
const CHANGES: usize = 256;
/// How long a store that cannot be read is left alone.
const PAUSE: Duration = Duration::from_secs(2);
/// Entries of the log that are read at a time.
const PAGE: u32 = 512;

/// The status of every workspace, kept up to date as long as this lives.
#[derive(Debug)]
pub struct StatusFeed {
    statuses: Arc<Mutex<Statuses>>,
    changes: broadcast::Sender<StatusChange>,
    task: AbortHandle,
}

impl StatusFeed {
    /// Begins to follow a fleet, and agents that are in workspaces and not of it.
    pub fn start(fleet: Fleet, workspaces: Workspaces, guests: watch::Receiver<Vec<(PathBuf, AgentStatus)>>) -> Self {
        let (changes, _) = broadcast::channel(CHANGES);
        let statuses: Arc<Mutex<Statuses>> = Arc::default();
        let follower = Follower { statuses: Arc::clone(&statuses), changes: changes.clone(), workspaces };
        let task = tokio::spawn(follower.run(fleet, guests)).abort_handle();
        Self { statuses, changes, task }
    }

    /// Returns what will change from now on.
    pub fn changes(&self) -> broadcast::Receiver<StatusChange> {
        self.changes.subscribe()
    }

    /// Returns the status of a workspace.
    pub fn workspace(&self, path: &Path) -> AgentStatus {
        lock(&self.statuses).workspace(path)
    }

    /// Returns the status of a project.
    pub fn project(&self, id: &str) -> AgentStatus {
        lock(&self.statuses).project(id)
    }
}

/// It holds on to the fleet, which ends only when nobody does.
impl Drop for StatusFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(statuses: &Mutex<Statuses>) -> MutexGuard<'_, Statuses> {
    // It is whole between any two statements that hold the lock.
    statuses.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Follower {
    statuses: Arc<Mutex<Statuses>>,
    changes: broadcast::Sender<StatusChange>,
    workspaces: Workspaces,
}

/// What is known of the agents.
#[derive(Clone, Default)]
struct Known {
    /// The number of the last entry that was read.
    cursor: Option<u64>,
    /// What sidecars told of last.
    heard: BTreeMap<AgentId, AgentState>,
    /// Driver and folder.
    defined: BTreeMap<AgentId, (String, PathBuf)>,
}

impl Follower {
    async fn run(self, fleet: Fleet, mut guests: watch::Receiver<Vec<(PathBuf, AgentStatus)>>) {
        let mut newest = fleet.newest();
        let mut own = Vec::new();
        let mut known = Known::default();
        loop {
            newest.borrow_and_update();
            let mut next = std::mem::take(&mut known);
            let looked = fleet.look(move |store| {
                let agents = next.read(store)?;
                Ok((next, agents))
            });
            let agents = match looked.await {
                Ok((next, agents)) => {
                    known = next;
                    agents
                }
                Err(FleetError::Over) => return,
                Err(error) => {
                    // Everything is read anew when the store is back.
                    tracing::warn!(%error, "what agents do is not known");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            if let Some(agents) = agents {
                own = agents;
            }
            let others = guests.borrow_and_update().clone();
            let placed = own.iter().chain(&others).filter_map(|(folder, status)| {
                let path = self.workspaces.workspace_path(folder)?;
                Some((self.workspaces.project_of(&path)?, path, *status))
            });
            for change in lock(&self.statuses).update(placed) {
                // Nobody has to listen.
                let _ = self.changes.send(change);
            }
            tokio::select! {
                changed = newest.changed() => if changed.is_err() {
                    return;
                },
                // Without them the fleet is all there is.
                Ok(()) = guests.changed() => {}
            }
        }
    }
}

impl Known {
    /// Reads what is new. Returns what all agents do, unless nothing new can have changed that.
    fn read(&mut self, store: &Store) -> Result<Option<Vec<(PathBuf, AgentStatus)>>, StoreError> {
        let mut matters = self.cursor.is_none();
        match self.cursor {
            None => {
                let newest = store.newest()?;
                for agent in store.agents()? {
                    if let Some(state) = store.last_state(&agent.id)? {
                        self.heard.insert(agent.id, state);
                    }
                }
                self.cursor = Some(newest);
            }
            Some(mut cursor) => loop {
                let page = store.log(None, cursor, PAGE)?;
                let Some(last) = page.last() else { break };
                cursor = last.id;
                self.cursor = Some(cursor);
                for entry in page {
                    matters |= self.hear(entry);
                }
            },
        }
        if !matters {
            return Ok(None);
        }
        let mut told = Vec::new();
        for agent in store.agents()? {
            if !self.defined.contains_key(&agent.id)
                && let Some(defined) = store.defined(&agent.id)?
            {
                let folder = PathBuf::from(&defined.folder);
                self.defined.insert(agent.id.clone(), (defined.driver().unwrap_or_default(), folder));
            }
            if let Some((driver, folder)) = self.defined.get(&agent.id) {
                told.push((folder.clone(), AgentStatus::of(&agent, driver, self.heard.get(&agent.id))));
            }
        }
        Ok(Some(told))
    }

    /// Takes one entry, and tells whether it can have changed anything.
    fn hear(&mut self, entry: Entry) -> bool {
        if let Some(Input::Spawned { .. }) = entry.input {
            self.heard.remove(&entry.agent);
        }
        if let Some(event) = entry.event
            && let EventBody::State(change) = event.body
        {
            self.heard.insert(entry.agent, change.next);
            return true;
        }
        entry.input.is_some()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::adapter::FakeAgentAdapter;
    use crate::fleet::Machine;
    use crate::sidecar::launcher::RunOwner;
    use crate::store::{Defined, Place};
    use crate::workspace::{Counts, Mood};

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn changes_are_told_once_and_after_a_restart_all_is_known() {
        let home = tempfile::tempdir().expect("a folder");
        let workspaces = Workspaces::new(home.path()).expect("a folder");
        let path = home.path().canonicalize().expect("there").join("projects/p-1/workspaces/w");
        let adapter = FakeAgentAdapter::new();
        let db = Place::File(home.path().join("fleet.db"));
        let start = || {
            let store = Store::open(&db).expect("a store");
            Fleet::start(store, adapter.clone(), Machine::default()).expect("started")
        };
        let guests = watch::Sender::new(Vec::new());
        let (fleet, task) = start();
        let feed = StatusFeed::start(fleet.clone(), workspaces.clone(), guests.subscribe());
        let mut changes = feed.changes();
        let ids = ["a", "b", "else"].map(|id| AgentId(id.to_owned()));
        for id in &ids {
            let folder = if id.0 == "else" { "/".into() } else { path.join("src").to_str().expect("UTF-8").to_owned() };
            let text = "[agents.x]\ndriver = \"claude\"\nkind = \"crew\"".to_owned();
            fleet
                .spawn(
                    id,
                    Defined {
                        text,
                        name: "x".to_owned(),
                        folder,
                        prompt: None,
                        parent: None,
                        run_owner: RunOwner::Fleet,
                    },
                    "me",
                )
                .await
                .expect("it runs");
            adapter.set_state(id, AgentState::Idle).await;
        }
        let mut told = async |idle, busy| {
            let status = AgentStatus(Counts { idle, busy });
            let expected = StatusChange { project_id: "p-1".into(), path: path.clone(), agent: status };
            let change = timeout(LIMIT, changes.recv()).await.expect("in time").expect("a change");
            assert_eq!(change, expected);
        };
        told(1, 0).await;
        told(2, 0).await;
        let works = AgentState::Working { tool: None };
        // What others do is nobody's business here.
        adapter.set_state(&ids[2], works.clone()).await;
        adapter.set_state(&ids[0], works.clone()).await;
        told(1, 1).await;
        assert_eq!((feed.workspace(&path).mood(), feed.project("p-1").mood()), (Mood::Mixed, Mood::Mixed));
        adapter.set_state(&ids[1], works).await;
        told(0, 2).await;
        adapter.set_state(&ids[1], AgentState::Unknown).await;
        told(0, 1).await;
        // Somebody else works there too, and is counted with them.
        guests.send_replace(vec![(path.clone(), AgentStatus(Counts { idle: 1, busy: 0 }))]);
        told(1, 1).await;
        guests.send_replace(Vec::new());
        told(0, 1).await;
        drop(feed);
        drop(fleet);
        timeout(LIMIT, task).await.expect("in time").expect("whole").expect("written down");
        let (fleet, _task) = start();
        let feed = StatusFeed::start(fleet, workspaces, guests.subscribe());
        let mut changes = feed.changes();
        let change = timeout(LIMIT, changes.recv()).await.expect("in time").expect("a change");
        assert_eq!(change.agent, AgentStatus(Counts { idle: 0, busy: 1 }));
    }
}
