//! What is done for an agent whose protocol asks for it, as far as a person allowed it.
//!
//! Files are done one after another, each terminal is a task of its own, and what came of each is told in the order they
//! are done in.

mod files;
mod terminal;

use std::collections::HashMap;
use std::path::PathBuf;

use coop_drivers::{Allowed, Serve, Served, Service};
use coop_term::Command;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::files::Folder;
use self::terminal::Terminal;

use crate::agent_files::AgentFiles;

/// How much may wait to be done, and to be told.
const WAITING: usize = 256;
/// How many terminals an agent may have at a time.
const MAX_TERMINALS: usize = 32;
/// How much of a terminal's output is kept if the agent does not say, and at the most.
const KEPT: usize = 1024 * 1024;
const MOST_KEPT: usize = 16 * 1024 * 1024;

/// How an agent is served.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// What a person allowed.
    pub allowed: Allowed,
    /// The folder that files and terminals are confined to.
    pub folder: PathBuf,
    /// The environment of its terminals.
    pub env: Command,
}

/// What is done for one agent.
pub(crate) struct Services {
    options: ServiceOptions,
    guard: Option<Command>,
    files: mpsc::Sender<Serve>,
    worker: JoinHandle<()>,
    terminals: HashMap<String, Terminal>,
    /// Terminals that are forgotten and may not have ended yet.
    released: Vec<Terminal>,
    count: u64,
    tell: mpsc::Sender<Outcome>,
    pub(crate) outcomes: mpsc::Receiver<Outcome>,
}

/// What came of something, by its name.
pub(crate) type Outcome = (String, Served);

impl Services {
    /// Begins to serve an agent. The guard ends its terminals should this process be killed.
    pub(crate) fn start(options: ServiceOptions, guard: Option<Command>) -> Self {
        let (files, queue) = mpsc::channel(WAITING);
        let (tell, outcomes) = mpsc::channel(WAITING);
        let worker = tokio::spawn(do_files(
            options.folder.clone(),
            AgentFiles::new(options.env.sandbox.clone()),
            queue,
            tell.clone(),
        ));
        Self {
            options,
            guard,
            files,
            worker,
            terminals: HashMap::new(),
            released: Vec::new(),
            count: 0,
            tell,
            outcomes,
        }
    }

    /// Does something for the agent. What came of it is told, at once or later.
    pub(crate) fn serve(&mut self, Serve { name, what }: Serve) {
        let outcome = match what {
            Service::ReadFile { .. } | Service::WriteFile { .. } if !self.options.allowed.files => {
                Served::Failed("files are not allowed".into())
            }
            Service::ReadFile { .. } | Service::WriteFile { .. } => {
                match self.files.try_send(Serve { name: name.clone(), what }) {
                    Ok(()) => return,
                    Err(_) => Served::Failed("too much waits to be done".into()),
                }
            }
            _ if !self.options.allowed.terminals => Served::Failed("terminals are not allowed".into()),
            Service::StartTerminal { command, env, cwd, keep } => {
                self.start_terminal(command, env, cwd.as_deref(), keep).unwrap_or_else(Served::Failed)
            }
            Service::TerminalOutput { terminal } => self.with(&terminal, |terminal| terminal.output()),
            Service::KillTerminal { terminal } => self.with(&terminal, |terminal| {
                terminal.kill();
                Served::Done
            }),
            Service::KillTerminals => {
                self.terminals.values().for_each(Terminal::kill);
                Served::Done
            }
            Service::ReleaseTerminal { terminal } => match self.terminals.remove(&terminal) {
                Some(terminal) => {
                    terminal.kill();
                    self.released.retain(|terminal| !terminal.has_ended());
                    self.released.push(terminal);
                    Served::Done
                }
                None => unknown(&terminal),
            },
            Service::AwaitTerminal { terminal } => match self.terminals.get(&terminal) {
                Some(terminal) => {
                    let (ended, tell) = (terminal.ended(), self.tell.clone());
                    tokio::spawn(async move {
                        let outcome = Served::Ended(ended.await);
                        let _ = tell.send((name, outcome)).await;
                    });
                    return;
                }
                None => unknown(&terminal),
            },
        };
        self.told(name, outcome);
    }

    fn start_terminal(
        &mut self,
        command: Vec<String>,
        env: Vec<(String, String)>,
        cwd: Option<&str>,
        keep: Option<u64>,
    ) -> Result<Served, String> {
        if self.terminals.len() >= MAX_TERMINALS {
            return Err(format!("there are {MAX_TERMINALS} terminals already; release one"));
        }
        let folder = Folder::open(&self.options.folder)?;
        let cwd = folder.folder_at(cwd.unwrap_or("."))?;
        let mut words = command.into_iter().map(Into::into);
        let mut run = Command {
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            cwd: Some(cwd),
            ..self.options.env.clone()
        };
        // It is read as text, not drawn.
        run.env.push(("TERM".into(), Some("dumb".into())));
        run.env.extend(env.into_iter().map(|(name, value)| (name.into(), Some(value.into()))));
        let keep = keep.and_then(|keep| usize::try_from(keep).ok()).unwrap_or(KEPT).min(MOST_KEPT);
        let terminal = Terminal::start(&run, keep, self.guard.as_ref()).map_err(|error| error.to_string())?;
        self.count += 1;
        let name = format!("terminal-{}", self.count);
        self.terminals.insert(name.clone(), terminal);
        Ok(Served::Terminal(name))
    }

    fn with(&self, name: &str, act: impl FnOnce(&Terminal) -> Served) -> Served {
        self.terminals.get(name).map_or_else(|| unknown(name), act)
    }

    fn told(&self, name: String, outcome: Served) {
        if let Err(mpsc::error::TrySendError::Full(late)) = self.tell.try_send((name, outcome)) {
            let tell = self.tell.clone();
            tokio::spawn(async move { tell.send(late).await });
        }
    }

    /// Ends every terminal and waits until they are gone.
    pub(crate) async fn end(self) {
        self.worker.abort();
        self.terminals.values().for_each(Terminal::kill);
        for terminal in self.terminals.into_values().chain(self.released) {
            terminal.ended().await;
        }
    }
}

fn unknown(terminal: &str) -> Served {
    Served::Failed(format!("there is no terminal {terminal}"))
}

/// Does what is asked for files, one after another: who writes and then reads, reads what was written.
async fn do_files(folder: PathBuf, files: AgentFiles, mut queue: mpsc::Receiver<Serve>, tell: mpsc::Sender<Outcome>) {
    while let Some(Serve { name, what }) = queue.recv().await {
        let (folder, seen) = (folder.clone(), files.clone());
        let done = tokio::task::spawn_blocking(move || files::serve(&folder, &seen, what)).await;
        let outcome = done.unwrap_or_else(|error| Served::Failed(error.to_string()));
        if tell.send((name, outcome)).await.is_err() {
            return;
        }
    }
}
