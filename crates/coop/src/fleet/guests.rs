//! Agents that people run themselves in workspaces, by `coop wrap`: each has its conversation for itself, and those with hooks
//! count in the workspace's status.
//!
//! ```text
//! STATE/hooks.sock              where the hooks of all of them report; there as long as there is one that has some
//! STATE/guests/ID/guest.json    who one is: its process, its workspace, its conversation, its token
//!                 settings.json its hooks
//! ```
//!
//! The first with hooks starts the server, and the last stops it. One goes when its process ends, which is seen without being
//! told. Which conversation it has is said when it comes, if that is known by then, and by every hook after that. A daemon that
//! is started anew finds those that are still there, and learns by their next hook what they do: until then they do not count.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use coop_api::{Error, ErrorCode, Token};
use coop_drivers::{Doing, Guest, Wrapped};
use coop_fleet::ProcessIdentity;
use coop_fleet::claims::{Claim, Claims, Held};
use coop_fleet::workspace::{AgentStatus, Counts};
use coop_server::Listener;
use coop_server::hooks::{HookServer, Hooks};
use coop_server::workspaces::ArriveBody;
use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::pass::{Pass, write_settings};
use super::tellings::Tellings;
use crate::listen::{SocketFile, socket_file};

/// How long reports that are under way may take when the server stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// What all guests of all workspaces do.
pub(super) type Doings = Vec<(PathBuf, AgentStatus)>;

#[derive(Clone)]
pub(super) struct Guests {
    state: PathBuf,
    known: Known,
    claims: Claims,
    /// Whoever starts or stops the server holds this.
    server: Arc<tokio::sync::Mutex<Option<Serving>>>,
    tellings: Tellings,
}

struct Serving {
    server: HookServer,
    socket: SocketFile,
}

/// Those that are here, by their token.
#[derive(Clone)]
struct Known(Arc<Mutex<BTreeMap<String, Staying>>>, watch::Sender<Doings>);

struct Staying {
    pass: Pass,
    folder: PathBuf,
    claim: Claim,
    guest: Guest,
    /// How many hooks have reported.
    hooks: u64,
}

/// One that has its conversation and is not taken in yet.
pub(super) struct Arriving {
    pass: Pass,
    claim: Claim,
}

impl Guests {
    pub(super) fn new(state: &Path, tellings: Tellings, claims: Claims) -> Self {
        let known = Known(Arc::default(), watch::Sender::new(Vec::new()));
        Self { state: state.to_owned(), known, claims, server: Arc::default(), tellings }
    }

    /// Returns what they do, as it changes.
    pub(super) fn doings(&self) -> watch::Receiver<Doings> {
        self.known.1.subscribe()
    }

    pub(super) fn tellings(&self) -> Tellings {
        self.tellings.clone()
    }

    /// Tells whether no person has a conversation open.
    pub(super) fn check(&self, conversation: &str) -> Result<(), Error> {
        self.claims.check(conversation).map_err(busy)
    }

    /// Finds those that came to an earlier daemon and are still here. Before that no agent may be started: it might go on with
    /// the conversation of one.
    pub(super) async fn find_again(&self) {
        let folders = fs::read_dir(self.state.join("guests")).into_iter().flatten().flatten();
        for folder in folders.map(|entry| entry.path()) {
            match Pass::of(&folder) {
                Ok(pass) if pass.process.is_alive() => {
                    let claim = self.claims.note(pass.conversation.clone(), pass.holder());
                    if let Err(error) = self.admit(Arriving { pass, claim }, folder).await {
                        tracing::warn!(%error, "a person's own agent is not followed any more");
                    }
                }
                Ok(_) => drop(fs::remove_dir_all(folder)),
                Err(error) => tracing::warn!(%error, folder = %folder.display(), "nobody can tell whose this is"),
            }
        }
    }

    /// Gives one that is about to start in a workspace its conversation, unless another person's program has that open.
    pub(super) fn greet(&self, workspace: PathBuf, body: ArriveBody) -> Result<Arriving, Error> {
        let ArriveBody { pid, driver, session_id: conversation, hooks: reports, .. } = body;
        if !Wrapped::ALL.iter().any(|wrapped| wrapped.name() == driver) {
            return Err(Error::bad_request(format!("coop has no wrapper for {driver:?}")));
        }
        let gone = || Error::bad_request(format!("there is no process {pid}"));
        let process = ProcessIdentity::of(pid).ok_or_else(gone)?;
        let (socket, token, since) = (self.socket(), Uuid::new_v4().simple().to_string(), SystemTime::now());
        let pass = Pass { socket, token, driver, workspace, process, since, conversation, reports };
        let claim = match &pass.conversation {
            Some(conversation) => self.claims.take(conversation, pass.holder()),
            None => Ok(self.claims.note(None, pass.holder())),
        };
        let claim = claim.map_err(busy)?;
        Ok(Arriving { pass, claim })
    }

    /// Takes one in, and returns its settings if it is to have any.
    pub(super) async fn arrive(&self, arriving: Arriving) -> Result<Value, Error> {
        let internal = |error: anyhow::Error| Error::internal(format!("{error:#}"));
        let folder = self.state.join("guests").join(Uuid::new_v4().simple().to_string());
        arriving.pass.write(&folder).map_err(|error| internal(error.into()))?;
        let settings = match arriving.pass.reports {
            true => Some(write_settings(&folder).map_err(internal)?),
            false => None,
        };
        self.admit(arriving, folder).await.map_err(internal)?;
        Ok(json!({ "settings": settings }))
    }

    /// Returns those in a workspace.
    pub(super) fn of(&self, workspace: &Path) -> Value {
        let known = self.known.lock();
        let here = known.values().filter(|staying| staying.pass.workspace == workspace);
        let told = |Staying { pass, guest, hooks, .. }: &Staying| {
            let doing = match guest.doing() {
                Doing::Nothing => "none",
                Doing::Waiting => "idle",
                Doing::Working => "busy",
            };
            let since = pass.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            json!({
                "driver": pass.driver,
                "pid": pass.process.pid(),
                "since": u64::try_from(since.as_millis()).unwrap_or_default(),
                "sessionId": pass.conversation,
                "status": doing,
                "hooks": hooks,
            })
        };
        here.map(told).collect()
    }

    fn socket(&self) -> PathBuf {
        self.state.join("hooks.sock")
    }

    async fn admit(&self, Arriving { pass, claim }: Arriving, folder: PathBuf) -> anyhow::Result<()> {
        let (token, process) = (pass.token.clone(), pass.process.clone());
        self.open(Staying { pass, folder, claim, guest: Guest::default(), hooks: 0 }).await?;
        let guests = self.clone();
        tokio::spawn(async move {
            process.gone().await;
            guests.leave(&token).await;
        });
        Ok(())
    }

    /// Takes one in, and starts the server if it is the first with hooks.
    async fn open(&self, staying: Staying) -> anyhow::Result<()> {
        let mut server = self.server.lock().await;
        if server.is_none() && staying.pass.reports {
            let (listener, socket) = socket_file(&self.socket())?;
            let started = HookServer::start(Listener::Unix(listener), self.known.clone());
            *server = Some(Serving { server: started, socket });
            self.tellings.tell("agent-server:started", json!({ "driver": "claude", "socket": self.socket() }));
        }
        self.known.lock().insert(staying.pass.token.clone(), staying);
        Ok(())
    }

    /// Lets one go. Whoever is told of it finds nothing of it any more.
    async fn leave(&self, token: &str) {
        let mut server = self.server.lock().await;
        let folder = self.known.lock().remove(token).map(|left| left.folder);
        let is_last = !self.known.lock().values().any(|staying| staying.pass.reports);
        let stopped = server.take_if(|_| is_last);
        let was_stopped = stopped.is_some();
        if let Some(Serving { server, socket }) = stopped {
            server.stop(FAREWELL).await;
            drop(socket);
        }
        if let Some(folder) = folder {
            let _ = fs::remove_dir_all(folder);
        }
        self.known.publish();
        if was_stopped {
            self.tellings.tell("agent-server:stopped", json!({ "driver": "claude", "socket": self.socket() }));
        }
    }
}

fn busy(held: Held) -> Error {
    Error::new(ErrorCode::AgentBusy, held.to_string())
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Staying>> {
        // It is whole between any two statements that hold the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self) {
        let doings = |known: &BTreeMap<String, Staying>| {
            let counts = |staying: &Staying| match staying.guest.doing() {
                Doing::Nothing => Counts::default(),
                Doing::Waiting => Counts { idle: 1, busy: 0 },
                Doing::Working => Counts { idle: 0, busy: 1 },
            };
            known.values().map(|staying| (staying.pass.workspace.clone(), AgentStatus(counts(staying)))).collect()
        };
        let known = self.lock();
        self.1.send_replace(doings(&known));
    }
}

impl Hooks for Known {
    fn hook(&self, token: &Token, event: &str, payload: &Value) -> Result<(), Error> {
        let mut known = self.lock();
        let stranger = || Error::new(ErrorCode::Unauthorized, "only the hooks of agents that are here may report");
        let staying = known.iter_mut().find(|(known, _)| token.matches(known)).map(|(_, staying)| staying);
        let staying = staying.ok_or_else(stranger)?;
        let before = staying.guest.doing();
        let now = staying.guest.hear(event, payload);
        staying.hooks += 1;
        staying.follow(payload);
        drop(known);
        if now != before {
            self.publish();
        }
        Ok(())
    }
}

impl Staying {
    /// Goes by what a hook says of the conversation: a person can choose another at any time.
    fn follow(&mut self, payload: &Value) {
        let Some(conversation) = payload["session_id"].as_str() else { return };
        if self.pass.conversation.as_deref() == Some(conversation) {
            return;
        }
        self.claim.moved(conversation);
        self.pass.conversation = Some(conversation.to_owned());
        if let Err(error) = self.pass.write(&self.folder) {
            tracing::warn!(%error, "a daemon after this one will not know which conversation a person has open");
        }
    }
}
