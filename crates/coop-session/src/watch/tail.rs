//! The end of a log that grows.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use crate::agent_files::AgentFiles;

/// How much of a log is read at once.
const BLOCK: usize = 256 * 1024;
/// A line longer than this is none of ours.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// The log of a conversation: a file of its own, and one for each sub-agent in the folder `NAME/subagents` beside it.
pub(super) struct Log {
    main: Tail,
    /// The name as far as it was known at the start, with a `*`.
    pattern: Option<PathBuf>,
    folder: PathBuf,
    /// Those of sub-agents, and files in which the conversation was before.
    others: Vec<Tail>,
}

impl Log {
    pub(super) fn new(path: PathBuf, files: AgentFiles, since: SystemTime) -> Self {
        let folder = path.with_extension("").join("subagents");
        Self { main: Tail::new(path, files, since), pattern: None, folder, others: Vec::new() }
    }

    /// Returns where its own file is, or will be.
    pub(super) fn path(&self) -> &Path {
        &self.main.path
    }

    /// Returns what it consists of: its own file and the folder of the others.
    pub(super) fn paths(&self) -> [&Path; 2] {
        [&self.main.path, &self.folder]
    }

    /// Finds out what its file is called, if that is known in part only and the file is there. An agent that starts itself anew
    /// begins another file; one that goes on with an earlier conversation stays with the first.
    pub(super) fn resolve(&mut self) {
        if let Some(found) = matches(&self.main.path).into_iter().min() {
            self.pattern = Some(std::mem::replace(&mut self.main.path, found));
            return;
        }
        let Some(pattern) = self.pattern.as_deref().filter(|_| self.main.is_new()) else { return };
        let newest = matches(pattern).into_iter().max().filter(|newest| *newest > self.main.path);
        if let Some(newest) = newest {
            let next = Tail::new(newest, self.main.files.clone(), self.main.since);
            self.others.push(std::mem::replace(&mut self.main, next));
        }
    }

    /// Returns the files. What sub-agents did comes first: the agent ends its turn after them.
    pub(super) fn tails(&mut self) -> impl Iterator<Item = &mut Tail> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
        for path in files {
            if !self.others.iter().any(|known| known.path == path) {
                self.others.push(Tail::new(path, self.main.files.clone(), self.main.since));
            }
        }
        self.others.iter_mut().chain([&mut self.main])
    }
}

/// The end of a file that grows.
pub(super) struct Tail {
    path: PathBuf,
    files: AgentFiles,
    since: SystemTime,
    file: Option<(File, u64)>,
    offset: u64,
    partial: Vec<u8>,
    /// What was there at the first look may be from before.
    first: bool,
}

impl Tail {
    fn new(path: PathBuf, files: AgentFiles, since: SystemTime) -> Self {
        Self { path, files, since, file: None, offset: 0, partial: Vec::new(), first: true }
    }

    /// Tells whether the file was made after the start. It may be gone by now.
    fn is_new(&self) -> bool {
        let found = self.file.as_ref().map_or_else(|| fs::metadata(&self.path), |(file, _)| file.metadata());
        found.and_then(|found| found.created()).is_ok_and(|born| born >= self.since)
    }

    /// Returns the next lines, or nothing if there is no more for now.
    pub(super) fn read(&mut self) -> Option<Vec<(Value, bool)>> {
        match self.read_block() {
            Ok(0) => {
                self.first = false;
                None
            }
            Ok(_) => Some(self.take_lines()),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(%error, path = %self.path.display(), "cannot read the agent's log");
                }
                self.first &= error.kind() != io::ErrorKind::NotFound;
                None
            }
        }
    }

    fn read_block(&mut self) -> io::Result<usize> {
        let found = fs::metadata(&self.path)?;
        // What was made after the start has nothing from before, whether its lines say when they were written or not.
        self.first &= found.created().map_or(true, |born| born < self.since);
        let same = self.file.as_ref().is_some_and(|(_, inode)| *inode == found.ino()) && found.len() >= self.offset;
        if !same {
            self.file = Some((self.files.open(&self.path)?, found.ino()));
            self.offset = 0;
            self.partial.clear();
        }
        let Some((file, _)) = &mut self.file else { return Ok(0) };
        file.seek(SeekFrom::Start(self.offset))?;
        let before = self.partial.len();
        let read = file.take(BLOCK as u64).read_to_end(&mut self.partial)?;
        self.offset += read as u64;
        debug_assert_eq!(self.partial.len(), before + read);
        Ok(read)
    }

    fn take_lines(&mut self) -> Vec<(Value, bool)> {
        let end = self.partial.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.partial.split_off(end);
        let whole = std::mem::replace(&mut self.partial, rest);
        if self.partial.len() > MAX_LINE {
            self.partial.clear();
        }
        let lines = whole.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let values = lines.filter_map(|line| serde_json::from_slice(line).ok());
        values
            .map(|line: Value| {
                let past = self.is_past(&line);
                (line, past)
            })
            .collect()
    }

    fn is_past(&self, line: &Value) -> bool {
        let written = line["timestamp"].as_str().and_then(|time| humantime::parse_rfc3339(time).ok());
        self.first && written.is_none_or(|written| written < self.since)
    }
}

/// Returns the file that a path with a `*` in its name means, once it is there: the first by name.
pub(crate) fn resolve(path: &Path) -> Option<PathBuf> {
    matches(path).into_iter().min()
}

/// Returns the files that a path with a `*` in its name fits; none if it has no `*`.
fn matches(path: &Path) -> Vec<PathBuf> {
    let parts = path.file_name().and_then(|name| name.to_str()?.split_once('*'));
    let (Some((start, end)), Some(folder)) = (parts, path.parent()) else { return Vec::new() };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let fits = |name: &String| name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end);
    names.filter(fits).map(|name| path.with_file_name(name)).collect()
}
