use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use coop_api::{AgentId, Agents, Error, ErrorCode, Feed, PermissionMode, Pulse, Reply, Request, Size, Tap, Token};
use coop_drivers::{Driver, Link, Runtime, Say, Watch};
use coop_term::{Command, Exit, Ring, SpawnError};
use tokio::runtime;
use tokio::sync::{mpsc, oneshot, watch};

use crate::agent::StopConfig;
use crate::prime::StartConfig;
use crate::serve::ServiceOptions;
use crate::session::Session;

/// Requests that may wait for the session; more wait at their sender.
const MAILBOX: usize = 256;

/// What to run and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The agent's id.
    pub id: AgentId,
    /// The agent's type.
    pub agent: String,
    /// What to run.
    pub command: Command,
    /// How to run it as an agent; without it nothing is known of the child.
    pub driven: Option<AgentOptions>,
    /// The terminal's first size.
    pub size: Size,
    /// How much output is kept, in bytes.
    pub ring: usize,
    /// Whether the terminal answers the child's queries; not when another terminal already does.
    pub queries: Queries,
    /// How long a child may take to end before it is killed.
    pub grace: Duration,
    /// Shut down when nothing was written or typed for this long.
    pub idle_timeout: Option<Duration>,
    /// A program that ends the sessions whose leaders it is given when its standard input closes.
    pub guard: Option<Command>,
}

/// How to run a child that is an agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// Makes ready for one more child.
    pub prepare: Prepare,
    /// How long an agent without better signs must be quiet to count as idle.
    pub idle_grace: Duration,
    /// What happens when it wants to end its turn.
    pub stop: StopConfig,
    /// What it is told when it begins.
    pub start: StartConfig,
    /// How many asks were opened before; the first one here gets the next number.
    pub asks_before: u64,
}

impl fmt::Debug for AgentOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentOptions").field("stop", &self.stop).field("start", &self.start).finish_non_exhaustive()
    }
}

/// Makes ready for one more child: writes the files it needs and says how to run it.
pub type Prepare = Arc<dyn Fn() -> io::Result<Prepared> + Send + Sync>;

/// What a child that is an agent needs.
pub struct Prepared {
    /// What to run instead of the plain command.
    pub command: Command,
    /// What is known of the agent.
    pub driver: Box<dyn Driver>,
    /// How it is run.
    pub runtime: Runtime,
    /// The permission mode that it is started in, if that is known.
    pub permission_mode: Option<PermissionMode>,
    /// Files to watch.
    pub watch: Vec<Watch>,
    /// Another process that runs as long as the agent does.
    pub companion: Option<Command>,
    /// How its protocol is reached.
    pub link: Link,
    /// What its protocol is told first.
    pub opening: Vec<Say>,
    /// What its hooks bring along; without it no hook is listened to.
    pub hook_token: Option<Token>,
    /// What is done for it when its protocol asks; nothing without it.
    pub services: Option<ServiceOptions>,
}

/// Who answers the questions a child asks its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queries {
    /// This session.
    Answered,
    /// Somebody else, such as the tmux whose pane we show.
    Left,
}

/// Why a session could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The child could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The session's thread could not be started.
    #[error("cannot start the session")]
    Thread(#[from] io::Error),
}

/// A way to ask a session things and to follow it.
#[derive(Clone)]
pub struct Handle {
    id: AgentId,
    mailbox: mpsc::Sender<Mail>,
    feed: Feed,
    ended: watch::Receiver<bool>,
}

/// What a session tells without being asked.
pub(crate) struct Published {
    pub(crate) pulse: watch::Sender<Pulse>,
    /// Apart from the pulse, so that waiting for the end costs nothing while there is output.
    pub(crate) ended: watch::Sender<bool>,
}

pub(crate) enum Mail {
    Request(Request, Answer),
    /// The terminal is not recorded any more, and why.
    Unrecorded(String),
}

/// Where an answer goes.
pub(crate) type Answer = oneshot::Sender<Result<Reply, Error>>;

/// Starts the child and the session that owns it. The receiver tells, once the session is over, how the last child
/// ended.
pub async fn start(options: Options) -> Result<(Handle, oneshot::Receiver<Option<Exit>>), StartError> {
    let ring = Arc::new(Ring::new(options.ring));
    let (mailbox, mail) = mpsc::channel(MAILBOX);
    let (pulse, heard) = watch::channel(Pulse {
        written: Default::default(),
        screen: Default::default(),
        events: Default::default(),
        size: options.size,
        ended: false,
    });
    let tap: Arc<dyn Tap> = Arc::clone(&ring) as _;
    let (told_ended, ended) = watch::channel(false);
    let handle = Handle { id: options.id.clone(), mailbox, feed: Feed { pulse: heard, tap }, ended };
    let published = Published { pulse, ended: told_ended };
    let (started, outcome) = oneshot::channel();
    let (finished, done) = oneshot::channel();
    // A thread of its own: a busy server never delays the child, and a flood of output never delays the server.
    thread::Builder::new().name("session".into()).spawn(move || {
        let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(started.send(Err(StartError::Thread(error)))),
        };
        runtime.block_on(async {
            match Session::start(options, ring, published, mail) {
                Ok(session) => {
                    let _ = started.send(Ok(()));
                    session.run(finished).await;
                }
                Err(error) => drop(started.send(Err(error.into()))),
            }
        });
    })?;
    outcome.await.map_err(|_| io::Error::other("its thread ended before it began"))??;
    Ok((handle, done))
}

impl Handle {
    /// Returns the agent's id.
    pub fn id(&self) -> &AgentId {
        &self.id
    }

    /// Returns whether the child has exited, to look at and to wait for.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.clone()
    }

    /// Lets everybody who follows know that the terminal is not recorded. Nothing is told of a session that is over.
    pub async fn tell_unrecorded(&self, why: String) {
        let _ = self.mailbox.send(Mail::Unrecorded(why)).await;
    }

    fn check(&self, id: &AgentId) -> Result<(), Error> {
        if *id == self.id {
            return Ok(());
        }
        Err(Error::new(ErrorCode::NotFound, format!("there is no agent {id} here; the only one is {}", self.id)))
    }
}

impl Agents for Handle {
    fn list(&self) -> Vec<AgentId> {
        vec![self.id.clone()]
    }

    async fn call(&self, id: &AgentId, request: Request) -> Result<Reply, Error> {
        self.check(id)?;
        let over = || Error::new(ErrorCode::Exited, "the session is over");
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(Mail::Request(request, reply)).await.map_err(|_| over())?;
        answer.await.map_err(|_| over())?
    }

    fn feed(&self, id: &AgentId) -> Result<Feed, Error> {
        self.check(id)?;
        Ok(self.feed.clone())
    }
}
