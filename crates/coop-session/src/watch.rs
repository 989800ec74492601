//! Watching the files an agent keeps: its log, line by line, and its status file.
//!
//! A log may come late, in folders that are not there yet; a line may be written in two parts; a file may be cut off or
//! replaced. The system says when something changes, so that nothing is polled. Where it cannot, as when the user has no
//! inotify instance left, files are polled until it can.

mod inotify;
mod status;
mod tail;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use coop_drivers::Watch;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use self::inotify::Inotify;
pub(crate) use self::inotify::open as open_inotify;
pub(crate) use self::status::{StatusFolder, read as read_status};
use self::tail::Log;
pub(crate) use self::tail::resolve;
use crate::agent_files::AgentFiles;

/// How often files are polled while the agent does something.
const POLL: Duration = Duration::from_millis(250);
/// How often while it rests.
const SLOW_POLL: Duration = Duration::from_secs(2);
/// How often files that come and go meanwhile are looked for before they are polled.
const ATTEMPTS: usize = 8;

/// Something new in a file.
#[derive(Debug)]
pub(crate) enum Seen {
    LogLine {
        line: Value,
        /// Whether it was there before the agent was started.
        past: bool,
    },
    /// There may be something new in the status files.
    Status(Changed),
    /// Files are polled from now on, because of this; without a reason they are not any more.
    Polled(Option<String>),
}

/// Which files changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// Any may have.
    Any,
    Files(HashSet<PathBuf>),
}

impl Default for Changed {
    fn default() -> Self {
        Self::Files(HashSet::new())
    }
}

impl Changed {
    fn add(&mut self, path: PathBuf) {
        if let Self::Files(files) = self {
            files.insert(path);
        }
    }

    /// Tells whether any status file may have changed.
    fn has_status(&self, folder: &Path) -> bool {
        match self {
            Self::Any => true,
            Self::Files(files) => files.iter().any(|path| status::is_status(path, folder)),
        }
    }
}

/// What decides what is watched, and how closely.
#[derive(Debug, Default)]
struct Focus {
    own_status: Option<PathBuf>,
    is_resting: bool,
}

/// Directs the watching, which ends with it.
pub(crate) struct Watcher {
    logs: mpsc::Sender<PathBuf>,
    focus: watch::Sender<Focus>,
}

impl Watcher {
    /// Watches files from now on.
    pub(crate) fn start(
        watches: Vec<Watch>,
        files: AgentFiles,
        since: SystemTime,
        open: inotify::Open,
        seen: mpsc::Sender<Seen>,
    ) -> Self {
        let (logs, next_logs) = mpsc::channel(8);
        let (focus, focused) = watch::channel(Focus::default());
        let watched = Watched::new(watches, files, since);
        let notices = Notices { open, inotify: None, why_polled: None };
        tokio::spawn(run(watched, notices, seen, next_logs, focused));
        Self { logs, focus }
    }

    /// Watches another log.
    pub(crate) fn follow_log(&self, path: PathBuf) {
        // It takes a moment at most to take the ones before.
        let _ = self.logs.try_send(path);
    }

    /// Limits watching to the agent's own status file, and sets how often files are polled: less while the agent rests.
    pub(crate) fn focus(&self, own_status: Option<&Path>, is_resting: bool) {
        self.focus.send_if_modified(|focus| {
            let is_other = focus.own_status.as_deref() != own_status || focus.is_resting != is_resting;
            if is_other {
                *focus = Focus { own_status: own_status.map(Path::to_owned), is_resting };
            }
            is_other
        });
    }
}

/// Watches until nobody listens any more.
async fn run(
    mut watched: Watched,
    mut notices: Notices,
    seen: mpsc::Sender<Seen>,
    mut next_logs: mpsc::Receiver<PathBuf>,
    mut focused: watch::Receiver<Focus>,
) {
    let mut changed = Changed::Any;
    loop {
        let (own_status, pace) = {
            let focus = focused.borrow_and_update();
            (focus.own_status.clone(), if focus.is_resting { SLOW_POLL } else { POLL })
        };
        let why_before = notices.why_polled.clone();
        if notices.watch(&watched.wanted(own_status.as_deref())) {
            changed = Changed::Any;
        }
        if notices.why_polled != why_before && seen.send(Seen::Polled(notices.why_polled.clone())).await.is_err() {
            return;
        }
        if watched.report(changed, &seen).await.is_err() {
            return;
        }
        changed = tokio::select! {
            changed = notices.changed(pace) => changed,
            path = next_logs.recv() => {
                let Some(path) = path else { return };
                if watched.follow_log(path, &seen).await.is_err() {
                    return;
                }
                Changed::default()
            }
            focused = focused.changed() => {
                if focused.is_err() {
                    return;
                }
                Changed::default()
            }
            () = seen.closed() => return,
        }
    }
}

/// Reports changed files, by inotify or by polling.
struct Notices {
    open: inotify::Open,
    inotify: Option<Inotify>,
    why_polled: Option<String>,
}

impl Notices {
    /// Registers inotify watches, and tries again before each poll. Returns whether there may have been changes that inotify did
    /// not report.
    fn watch(&mut self, wanted: &[&Path]) -> bool {
        let result = self.try_watch(wanted);
        let why = result.as_ref().err();
        if why != self.why_polled.as_ref() {
            match why {
                Some(why) => tracing::warn!(%why, "polling the agent's files: inotify failed"),
                None => tracing::info!("the agent's files are not polled any more"),
            }
            self.why_polled = why.cloned();
        }
        result.unwrap_or(true)
    }

    fn try_watch(&mut self, wanted: &[&Path]) -> Result<bool, String> {
        if wanted.is_empty() {
            return Ok(false);
        }
        let inotify = match &mut self.inotify {
            Some(inotify) => inotify,
            none => none.insert(Inotify::new(self.open)?),
        };
        // A file may come into being between the look for it and the watch above it, or be gone: so look again.
        for attempt in 0..ATTEMPTS {
            if !inotify.watch(wanted)? {
                return Ok(attempt > 0);
            }
        }
        Err("the agent's files change faster than coop can add inotify watches".to_owned())
    }

    /// Waits for a change, or until it is time to look for one.
    async fn changed(&self, pace: Duration) -> Changed {
        let told = async {
            match &self.inotify {
                Some(inotify) => inotify.changed().await,
                None => std::future::pending().await,
            }
        };
        if self.why_polled.is_none() {
            return told.await;
        }
        tokio::select! {
            _ = told => {}
            () = sleep(pace) => {}
        }
        Changed::Any
    }
}

/// The files of an agent.
struct Watched {
    files: AgentFiles,
    since: SystemTime,
    log: Option<Log>,
    /// Those of other conversations: one that is taken up again goes on where it was left.
    other_logs: Vec<Log>,
    status: Option<PathBuf>,
}

impl Watched {
    fn new(watches: Vec<Watch>, files: AgentFiles, since: SystemTime) -> Self {
        let mut watched = Self { files, since, log: None, other_logs: Vec::new(), status: None };
        for watch in watches {
            match watch {
                Watch::Log { path } => watched.log = Some(watched.new_log(path.into())),
                Watch::Status { folder } => watched.status = Some(folder.into()),
            }
        }
        watched
    }

    fn new_log(&self, path: PathBuf) -> Log {
        Log::new(path, self.files.clone(), self.since)
    }

    /// Returns what to watch. Other agents keep their files in the same folders, so that is the agent's own files if they
    /// are there: what others write wakes nobody here.
    fn wanted<'a>(&'a mut self, own_status: Option<&'a Path>) -> Vec<&'a Path> {
        if let Some(log) = &mut self.log {
            log.resolve();
        }
        let status = own_status.filter(|own| own.exists()).or(self.status.as_deref());
        self.log.iter().flat_map(Log::paths).chain(status).collect()
    }

    /// Reports what is new.
    async fn report(
        &mut self,
        changed: Changed,
        seen: &mpsc::Sender<Seen>,
    ) -> Result<(), mpsc::error::SendError<Seen>> {
        if self.status.as_ref().is_some_and(|folder| changed.has_status(folder)) {
            seen.send(Seen::Status(changed)).await?;
        }
        match &mut self.log {
            Some(log) => report_log(log, seen).await,
            None => Ok(()),
        }
    }

    /// Watches another log. What was said in the last one until now is not lost.
    async fn follow_log(
        &mut self,
        path: PathBuf,
        seen: &mpsc::Sender<Seen>,
    ) -> Result<(), mpsc::error::SendError<Seen>> {
        if let Some(mut last) = self.log.take() {
            report_log(&mut last, seen).await?;
            self.other_logs.push(last);
        }
        let known = self.other_logs.iter().position(|other| other.path() == path);
        let log = known.map(|at| self.other_logs.remove(at));
        self.log = Some(log.unwrap_or_else(|| self.new_log(path)));
        Ok(())
    }
}

/// Reports the new lines of a log.
async fn report_log(log: &mut Log, seen: &mpsc::Sender<Seen>) -> Result<(), mpsc::error::SendError<Seen>> {
    for tail in log.tails() {
        while let Some(lines) = tail.read() {
            for (line, past) in lines {
                seen.send(Seen::LogLine { line, past }).await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
