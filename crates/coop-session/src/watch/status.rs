//! A folder with a small file for each process of an agent kind: among those of others, the agent's own.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::Changed;
use crate::agent_files::AgentFiles;

/// A status file is a few hundred bytes.
const MAX_STATUS: u64 = 64 * 1024;
/// A file that was written so short a time ago may be written again without another time of writing.
const UNSETTLED: Duration = Duration::from_secs(1);
/// How far the times of files are behind the clock at most.
const TICK: Duration = Duration::from_millis(10);

/// The status files of a folder. Until the agent's own one is known, all are read when they change; from then on no other.
pub(crate) struct StatusFolder {
    folder: PathBuf,
    /// When the agent's process was started: a file from before is that of another one.
    since: SystemTime,
    own: Option<PathBuf>,
    known: HashMap<PathBuf, Known>,
}

/// A file as it was read last.
struct Known {
    content: Vec<u8>,
    /// None if it may have changed since without a trace.
    stamp: Option<Stamp>,
}

/// Which file it was, and when it was written: seconds and nanoseconds.
type Stamp = (u64, u64, i64, i64);

impl StatusFolder {
    pub(crate) fn new(folder: PathBuf, since: SystemTime) -> Self {
        Self { folder, since: since - TICK, own: None, known: HashMap::new() }
    }

    /// Returns the agent's own file, once that is known.
    pub(crate) fn own(&self) -> Option<&Path> {
        self.own.as_deref()
    }

    /// Forgets which file is the agent's own: another process may be the agent since then.
    pub(crate) fn forget_own(&mut self, since: SystemTime) {
        (self.own, self.since) = (None, since - TICK);
    }

    /// Records whether a file that was read is the agent's own.
    pub(crate) fn identify(&mut self, path: PathBuf, is_own: bool) {
        if !is_own {
            self.own.take_if(|own| *own == path);
            return;
        }
        // A process that was killed leaves its file, with the same conversation in it.
        let is_fresh = fs::metadata(&path).and_then(|found| found.modified()).is_ok_and(|at| at >= self.since);
        if is_fresh && self.own.is_none() {
            self.known.retain(|known, _| *known == path);
            self.own = Some(path);
        }
    }

    /// Returns the files that have other content than before, as far as they can concern the agent.
    pub(crate) fn news(
        &mut self,
        changed: &Changed,
        mut read: impl FnMut(&Path) -> io::Result<Vec<u8>>,
    ) -> Vec<(PathBuf, Value)> {
        let mut lost_own = false;
        if let Some(own) = self.own.clone() {
            match read(&own) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => lost_own = true,
                content => return self.news_of(own, None, content).into_iter().collect(),
            }
            self.own = None;
        }
        let files = match changed {
            Changed::Files(files) if !lost_own => files.iter().filter(|path| self.has(path)).cloned().collect(),
            Changed::Files(_) | Changed::Any => self.files(),
        };
        let mut news = Vec::new();
        for path in files {
            let stamp = fs::metadata(&path).ok().and_then(|found| stamp(&found));
            let is_same = stamp.is_some() && self.known.get(&path).is_some_and(|known| known.stamp == stamp);
            if !is_same {
                let content = read(&path);
                news.extend(self.news_of(path, stamp, content));
            }
        }
        news
    }

    fn news_of(
        &mut self,
        path: PathBuf,
        stamp: Option<Stamp>,
        content: io::Result<Vec<u8>>,
    ) -> Option<(PathBuf, Value)> {
        let content = content.ok()?;
        // Half a file is not news yet.
        let value = serde_json::from_slice(&content).ok()?;
        let known = self.known.insert(path.clone(), Known { content: content.clone(), stamp });
        known.is_none_or(|known| known.content != content).then_some((path, value))
    }

    fn has(&self, path: &Path) -> bool {
        is_status(path, &self.folder)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| self.has(path)).collect()
    }
}

/// Tells whether a path is that of a status file.
pub(super) fn is_status(path: &Path, folder: &Path) -> bool {
    path.parent() == Some(folder) && path.extension().is_some_and(|end| end == "json")
}

/// Returns inode, length and time of a file; none if a later write might leave them the same.
fn stamp(found: &Metadata) -> Option<Stamp> {
    let age = SystemTime::now().duration_since(found.modified().ok()?).ok()?;
    (age > UNSETTLED).then(|| (found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

/// Reads a status file.
pub(crate) fn read(path: &Path, files: &AgentFiles) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    files.open(path)?.take(MAX_STATUS).read_to_end(&mut content)?;
    Ok(content)
}
