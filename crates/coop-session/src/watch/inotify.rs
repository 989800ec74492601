//! What the system says of changed files.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Changed;

/// Opens an instance: [`open`], or what a test has in its place.
pub(crate) type Open = fn() -> rustix::io::Result<OwnedFd>;

/// How much is read at once: a hundred events or so.
const BUFFER: usize = 4096;
/// That a file has come into a folder, or that the folder is gone. What is written to the files in it is no news.
const ARRIVALS: WatchFlags =
    WatchFlags::CREATE.union(WatchFlags::MOVED_TO).union(WatchFlags::DELETE_SELF).union(WatchFlags::MOVE_SELF);
/// That, and what is written to a file or to one in a folder. A file that another one replaces loses its last name, which
/// is a change of its attributes.
const EVERYTHING: WatchFlags = ARRIVALS.union(WatchFlags::MODIFY).union(WatchFlags::ATTRIB);

/// Opens an inotify instance, of which a user may have 128 by default.
pub(crate) fn open() -> rustix::io::Result<OwnedFd> {
    inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
}

/// An instance, with the files and folders that it watches.
pub(super) struct Inotify {
    instance: AsyncFd<OwnedFd>,
    watched: HashMap<i32, (PathBuf, WatchFlags)>,
}

impl Inotify {
    /// Returns an instance that watches nothing yet, or why there is none.
    pub(super) fn new(open: Open) -> Result<Self, String> {
        let instance = open().map_err(|error| match error {
            Errno::MFILE => "no inotify instance is left (fs.inotify.max_user_instances)".to_owned(),
            error => format!("the system refuses an inotify instance: {error}"),
        })?;
        match readable(instance) {
            Ok(instance) => Ok(Self { instance, watched: HashMap::new() }),
            Err(error) => Err(format!("the inotify instance cannot be read: {error}")),
        }
    }

    /// Watches each path, or its nearest folder that exists. Returns whether the set of watches changed, so that the caller looks
    /// once more, or why it cannot watch all.
    ///
    /// A watch is one of an inode, which another file may have replaced. So each is asked for anew: for the same inode the
    /// system gives the same number again.
    pub(super) fn watch(&mut self, wanted: &[&Path]) -> Result<bool, String> {
        let mut flags: BTreeMap<&Path, WatchFlags> = BTreeMap::new();
        for path in wanted {
            let Some(there) = path.ancestors().find(|path| path.exists()) else { continue };
            *flags.entry(there).or_insert(ARRIVALS) |= if there == *path { EVERYTHING } else { ARRIVALS };
        }
        let mut watched = HashMap::new();
        let mut refused = None;
        let mut is_gone = false;
        for (path, flags) in flags {
            match inotify::add_watch(self.instance.get_ref(), path, flags) {
                Ok(number) => drop(watched.insert(number, (path.to_owned(), flags))),
                Err(Errno::NOENT | Errno::NOTDIR) => is_gone = true,
                Err(error) => refused = Some(refusal(path, error)),
            }
        }
        let is_other = is_gone || watched != self.watched;
        let before = std::mem::replace(&mut self.watched, watched);
        for number in before.keys().filter(|number| !self.watched.contains_key(number)) {
            // The file may be gone, and its watch with it.
            let _ = inotify::remove_watch(self.instance.get_ref(), *number);
        }
        refused.map_or(Ok(is_other), Err)
    }

    /// Waits until something changes.
    pub(super) async fn changed(&self) -> Changed {
        let Ok(mut ready) = self.instance.readable().await else { return std::future::pending().await };
        let changed = self.read();
        ready.clear_ready();
        changed
    }

    /// Reads all that there is to read.
    fn read(&self) -> Changed {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(self.instance.get_ref(), &mut buffer);
        let mut changed = Changed::default();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return changed,
                Err(error) => {
                    tracing::warn!(error = %io::Error::from(error), "cannot read inotify events");
                    return Changed::Any;
                }
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                changed = Changed::Any;
            }
            // One that is not watched any more may still have had news.
            let Some((path, _)) = self.watched.get(&event.wd()) else { continue };
            let file = event.file_name().map(|name| path.join(OsStr::from_bytes(name.to_bytes())));
            changed.add(file.unwrap_or_else(|| path.clone()));
        }
    }
}

#[expect(deprecated, reason = "its successor is unsafe for descriptors that may change; an OwnedFd cannot")]
fn readable(instance: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(instance, Interest::READABLE)
}

fn refusal(path: &Path, error: Errno) -> String {
    match error {
        Errno::NOSPC => "no inotify watch is left (fs.inotify.max_user_watches)".to_owned(),
        error => format!("{} cannot be watched: {error}", path.display()),
    }
}
