//! Watching the files an agent keeps: its log, line by line, and its status files.
//!
//! A log may come late, in folders that are not there yet; a line may be written in two parts; a file may be cut off or
//! replaced. The system says when something changes, so that nothing is polled.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use coop_drivers::Watch;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::agent_files::AgentFiles;

/// How much of a log is read at once.
const BLOCK: usize = 256 * 1024;
/// A line longer than this is none of ours.
const MAX_LINE: usize = 64 * 1024 * 1024;
/// A status file is a few hundred bytes.
const MAX_STATUS: u64 = 64 * 1024;

/// Something new in a file.
#[derive(Debug)]
pub(crate) enum Seen {
    LogLine {
        line: Value,
        /// Whether it was there before the agent was started.
        past: bool,
    },
    /// There may be something new in the status files.
    Status,
}

/// Tells the watcher of another log.
pub(crate) type LogPaths = mpsc::Sender<PathBuf>;

/// Watches files until nobody listens any more.
pub(crate) fn start(watches: Vec<Watch>, files: AgentFiles, since: SystemTime, seen: mpsc::Sender<Seen>) -> LogPaths {
    let (paths, more) = mpsc::channel(8);
    tokio::spawn(async move {
        if let Err(error) = run(watches, files, since, &seen, more).await {
            tracing::warn!(%error, "cannot watch the agent's files; its interrupts may be seen late");
        }
    });
    paths
}

async fn run(
    watches: Vec<Watch>,
    files: AgentFiles,
    since: SystemTime,
    seen: &mpsc::Sender<Seen>,
    mut more: mpsc::Receiver<PathBuf>,
) -> notify::Result<()> {
    let (changed, mut changes) = mpsc::channel(1);
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // That somebody looks into a file is no news; we do it ourselves.
        let is_news = event.is_ok_and(|event| !event.kind.is_access());
        if is_news {
            // One that waits already says the same.
            let _ = changed.try_send(());
        }
    })?;
    let mut folders = Folders { watcher, watched: Vec::new() };
    let mut log: Option<Log> = None;
    // Those of other conversations: one that is taken up again goes on where it was left.
    let mut others: Vec<Log> = Vec::new();
    let mut status: Option<PathBuf> = None;
    for watch in watches {
        match watch {
            Watch::Log { path } => log = Some(Log::new(path.into(), files.clone(), since)),
            Watch::Status { folder } => status = Some(folder.into()),
        }
    }
    loop {
        let log_folders = log.iter().flat_map(Log::folders);
        let wanted: Vec<_> = log_folders.chain(status.as_deref()).collect();
        // A folder may have come into being between the look for it and the watch above it: so look again.
        while folders.watch(&wanted) {}
        if status.is_some() && seen.send(Seen::Status).await.is_err() {
            return Ok(());
        }
        if let Some(log) = &mut log
            && tell(log, seen).await.is_err()
        {
            return Ok(());
        }
        tokio::select! {
            change = changes.recv() => if change.is_none() { return Ok(()) },
            path = more.recv() => match path {
                Some(path) => {
                    if let Some(mut last) = log.take() {
                        // What was said in it until now is not lost.
                        if tell(&mut last, seen).await.is_err() {
                            return Ok(());
                        }
                        others.push(last);
                    }
                    let known = others.iter().position(|other| other.main.path == path);
                    log = Some(known.map_or_else(|| Log::new(path, files.clone(), since), |at| others.remove(at)));
                }
                None => return Ok(()),
            },
            () = seen.closed() => return Ok(()),
        }
    }
}

/// Tells what is new in a log.
async fn tell(log: &mut Log, seen: &mpsc::Sender<Seen>) -> Result<(), mpsc::error::SendError<Seen>> {
    for tail in log.tails() {
        while let Some(lines) = tail.read() {
            for (line, past) in lines {
                seen.send(Seen::LogLine { line, past }).await?;
            }
        }
    }
    Ok(())
}

/// The folders that are watched.
struct Folders {
    watcher: RecommendedWatcher,
    watched: Vec<PathBuf>,
}

impl Folders {
    /// Watches these, or as long as they are not there what is nearest above them. Returns whether anything new is
    /// watched.
    fn watch(&mut self, wanted: &[&Path]) -> bool {
        let wanted: Vec<_> = wanted.iter().filter_map(|path| path.ancestors().find(|path| path.is_dir())).collect();
        let mut is_new = false;
        for old in std::mem::take(&mut self.watched) {
            if wanted.contains(&old.as_path()) {
                self.watched.push(old);
            } else {
                // It may be gone already.
                let _ = self.watcher.unwatch(&old);
            }
        }
        for path in wanted {
            if !self.watched.iter().any(|known| known == path) {
                match self.watcher.watch(path, RecursiveMode::NonRecursive) {
                    Ok(()) => {
                        self.watched.push(path.to_owned());
                        is_new = true;
                    }
                    Err(error) => tracing::warn!(%error, path = %path.display(), "cannot watch a folder"),
                }
            }
        }
        is_new
    }
}

/// The log of a conversation: a file of its own, and one for each sub-agent in the folder `NAME/subagents` beside it.
struct Log {
    main: Tail,
    folder: PathBuf,
    of_subagents: Vec<Tail>,
}

impl Log {
    fn new(path: PathBuf, files: AgentFiles, since: SystemTime) -> Self {
        let folder = path.with_extension("").join("subagents");
        Self { main: Tail::new(path, files, since), folder, of_subagents: Vec::new() }
    }

    fn folders(&self) -> impl Iterator<Item = &Path> {
        self.main.path.parent().into_iter().chain([self.folder.as_path()])
    }

    /// Returns the files. What sub-agents did comes first: the agent ends its turn after them.
    fn tails(&mut self) -> impl Iterator<Item = &mut Tail> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
        for path in files {
            if !self.of_subagents.iter().any(|known| known.path == path) {
                self.of_subagents.push(Tail::new(path, self.main.files.clone(), self.main.since));
            }
        }
        self.of_subagents.iter_mut().chain([&mut self.main])
    }
}

/// The end of a file that grows.
struct Tail {
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

    /// Returns the next lines, or nothing if there is no more for now.
    fn read(&mut self) -> Option<Vec<(Value, bool)>> {
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
        if let Some(found) = resolve(&self.path) {
            self.path = found;
        }
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
    let (start, end) = path.file_name()?.to_str()?.split_once('*')?;
    let entries = fs::read_dir(path.parent()?).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let fits = |name: &String| name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end);
    names.filter(fits).min().map(|name| path.with_file_name(name))
}

/// A folder with a small file for each process.
pub(crate) struct StatusFolder {
    folder: PathBuf,
    known: HashMap<PathBuf, Vec<u8>>,
}

impl StatusFolder {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, known: HashMap::new() }
    }

    /// Returns the files that changed.
    pub(crate) fn news(&mut self, agent_files: &AgentFiles) -> Vec<Value> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
        let mut news = Vec::new();
        for path in files {
            let Ok(content) = read_small(&path, agent_files) else { continue };
            if self.known.get(&path) == Some(&content) {
                continue;
            }
            // Half a file is not news yet.
            if let Ok(value) = serde_json::from_slice(&content) {
                self.known.insert(path, content);
                news.push(value);
            }
        }
        news
    }
}

fn read_small(path: &Path, files: &AgentFiles) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    files.open(path)?.take(MAX_STATUS).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn line(seen: &mut mpsc::Receiver<Seen>) -> (u64, bool) {
        let next = timeout(Duration::from_secs(20), seen.recv()).await.expect("in time").expect("something");
        match next {
            Seen::LogLine { line, past } => (line["n"].as_u64().expect("a number"), past),
            Seen::Status => panic!("a status"),
        }
    }

    fn append(path: &Path, text: &str) {
        let mut file = File::options().append(true).create(true).open(path).expect("a file");
        file.write_all(text.as_bytes()).expect("written");
    }

    #[tokio::test]
    async fn a_log_may_come_late_in_parts_and_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/b/log.jsonl");
        let (sender, mut seen) = mpsc::channel(64);
        let watch = Watch::Log { path: path.to_str().expect("text").to_owned() };
        let _paths = start(vec![watch], AgentFiles::default(), SystemTime::now(), sender);
        tokio::task::yield_now().await;
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        append(&path, "{\"n\":1}\n{\"n\":");
        assert_eq!(line(&mut seen).await.0, 1);
        append(&path, "2}\nnot json\n{\"n\":3}\n");
        assert_eq!(line(&mut seen).await, (2, false));
        assert_eq!(line(&mut seen).await, (3, false));
        // Cut off and begun again.
        fs::write(&path, "{\"n\":4}\n").expect("written");
        assert_eq!(line(&mut seen).await.0, 4);
        // Replaced.
        let other = folder.path().join("a/b/other");
        append(&other, "{\"n\":5}\n{\"n\":6}\n{\"n\":7}\n");
        fs::rename(&other, &path).expect("renamed");
        for n in 5..=7 {
            assert_eq!(line(&mut seen).await.0, n);
        }
    }

    /// `/clear`, and then `/resume` of what was before it.
    #[tokio::test]
    async fn a_conversation_that_is_taken_up_again_is_not_told_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, two] = ["one.jsonl", "two.jsonl"].map(|name| folder.path().join(name));
        let (sender, mut seen) = mpsc::channel(64);
        let watch = Watch::Log { path: one.to_str().expect("text").to_owned() };
        let paths = start(vec![watch], AgentFiles::default(), SystemTime::now(), sender);
        append(&one, "{\"n\":1}\n");
        assert_eq!(line(&mut seen).await.0, 1);
        // The last of it is written when the next has begun.
        append(&two, "{\"n\":3}\n");
        append(&one, "{\"n\":2}\n");
        paths.send(two).await.expect("it watches");
        assert_eq!((line(&mut seen).await.0, line(&mut seen).await.0), (2, 3));
        paths.send(one.clone()).await.expect("it watches");
        append(&one, "{\"n\":4}\n");
        assert_eq!(line(&mut seen).await.0, 4);
    }

    #[tokio::test]
    async fn a_name_may_be_known_in_part() {
        let folder = tempfile::tempdir().expect("a folder");
        let (sender, mut seen) = mpsc::channel(64);
        let path = folder.path().join("chats/session-*-abc.jsonl");
        let watch = Watch::Log { path: path.to_str().expect("text").to_owned() };
        let _paths = start(vec![watch], AgentFiles::default(), SystemTime::now(), sender);
        tokio::task::yield_now().await;
        fs::create_dir(folder.path().join("chats")).expect("made");
        append(&folder.path().join("chats/session-1-abd.jsonl"), "{\"n\":1}\n");
        append(&folder.path().join("chats/session-2-abc.jsonl"), "{\"n\":2}\n");
        assert_eq!(line(&mut seen).await, (2, false));
        append(&folder.path().join("chats/session-1-abc.jsonl"), "{\"n\":3}\n");
        append(&folder.path().join("chats/session-2-abc.jsonl"), "{\"n\":4}\n");
        assert_eq!(line(&mut seen).await, (4, false));
        assert_eq!(resolve(&path), Some(folder.path().join("chats/session-1-abc.jsonl")));
        assert_eq!(resolve(&folder.path().join("chats")), None);
    }

    #[tokio::test]
    async fn what_was_there_before_is_past() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl");
        append(&path, "{\"n\":1,\"timestamp\":\"2020-01-01T00:00:00Z\"}\n");
        let (sender, mut seen) = mpsc::channel(64);
        let watch = Watch::Log { path: path.to_str().expect("text").to_owned() };
        let _paths = start(vec![watch], AgentFiles::default(), SystemTime::now(), sender);
        assert_eq!(line(&mut seen).await, (1, true));
        append(&path, "{\"n\":2,\"timestamp\":\"2020-01-01T00:00:00Z\"}\n");
        assert_eq!(line(&mut seen).await, (2, false));
    }

    #[tokio::test]
    async fn the_logs_of_sub_agents_belong_to_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl");
        let (sender, mut seen) = mpsc::channel(64);
        let watch = Watch::Log { path: path.to_str().expect("text").to_owned() };
        let _paths = start(vec![watch], AgentFiles::default(), SystemTime::now(), sender);
        append(&path, "{\"n\":1}\n");
        assert_eq!(line(&mut seen).await.0, 1);
        let inner = folder.path().join("log/subagents");
        fs::create_dir_all(&inner).expect("made");
        append(&inner.join("agent-a.jsonl"), "{\"n\":2,\"timestamp\":\"2999-01-01T00:00:00Z\"}\n");
        assert_eq!(line(&mut seen).await, (2, false));
        append(&inner.join("agent-b.jsonl"), "{\"n\":3,\"timestamp\":\"2999-01-01T00:00:00Z\"}\n");
        assert_eq!(line(&mut seen).await, (3, false));
        append(&path, "{\"n\":4}\n");
        assert_eq!(line(&mut seen).await, (4, false));
    }
}
