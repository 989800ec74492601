//! What sidecars leave in the folder for sockets when they are killed, and how the next one tells it from what is in use.
//!
//! `.lock` is held while a sidecar makes something there or tidies up, so that nobody sees anything half made.
//! `PID/` has the files of one sidecar, which holds `PID/lock` as long as it lives. `PID.sock` is its socket.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::paths;

/// How often, and after which time, a lock is tried again.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// How a folder is opened that its own user may not look into; a link is none.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The right to make something in the folder for sockets, for a moment.
pub(crate) struct Claim {
    folder: PathBuf,
    _lock: File,
}

impl Claim {
    /// Waits for others who make something there, and removes what dead sidecars have left.
    pub(crate) fn take() -> anyhow::Result<Self> {
        let folder = paths::runtime_dir()?;
        let path = folder.join(".lock");
        let lock = open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        if wait_for(&lock) {
            sweep(&folder);
        } else {
            tracing::warn!("somebody keeps {} locked; what dead sidecars have left stays there", path.display());
        }
        Ok(Self { folder, _lock: lock })
    }

    /// Returns the path of this sidecar's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(format!("{}.sock", std::process::id()))
    }
}

/// The link in a sidecar's folder to the `/tmp` of its agent, which cannot write there.
const TMP: &str = "tmp";
/// What the name of such a folder begins with.
const TMP_PREFIX: &str = "coop-tmp-";

/// A folder for one sidecar's files, removed with it.
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    pub(crate) fn make() -> anyhow::Result<Self> {
        let claim = Claim::take()?;
        let path = paths::private(claim.folder.join(std::process::id().to_string()))?;
        let lock = open(&path.join("lock")).with_context(|| format!("cannot write to {}", path.display()))?;
        lock.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Makes the folder that is `/tmp` for a sidecar's agent. It goes with the sidecar's folder, which is too small for it: a
/// runtime folder is in memory. It is in a folder that the sandbox hides, whatever `TMPDIR` says: Codex, which makes a sandbox
/// inside, protects its files by each path that leads to them, also by one that is read-only and where it can make nothing.
pub(crate) fn make_tmp(sidecar: &Path) -> anyhow::Result<PathBuf> {
    let folder = Path::new("/tmp").join(format!("{TMP_PREFIX}{}", uuid::Uuid::new_v4().simple()));
    let made = DirBuilder::new().mode(0o700).create(&folder).and_then(|()| folder.canonicalize());
    let folder = made.with_context(|| format!("cannot make {}", folder.display()))?;
    symlink(&folder, sidecar.join(TMP)).with_context(|| format!("cannot write to {}", sidecar.display()))?;
    Ok(folder)
}

/// Removes a sidecar's folder, and the `/tmp` of its agent.
fn remove(folder: &Path) {
    let is_ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(TMP_PREFIX));
    if let Some(tmp) = fs::read_link(folder.join(TMP)).ok().filter(is_ours)
        && remove_tmp(&tmp).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
    {
        // The link stays, so that the next sidecar tries again.
        return;
    }
    let _ = fs::remove_dir_all(folder);
}

/// Removes a folder in which an agent may have closed folders to its own user.
fn remove_tmp(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_folders(openat(CWD, folder, FOLDER, Mode::empty())?)?;
            fs::remove_dir_all(folder)
        }
        done => done,
    }
}

/// Opens a folder and those below it to their user. Each is reached by its descriptor: something of the agent may still live, and
/// put a link in a folder's place.
fn open_folders(folder: OwnedFd) -> io::Result<()> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    fs::set_permissions(&path, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(&path)?.flatten() {
        match openat(&folder, entry.file_name(), FOLDER, Mode::empty()) {
            Ok(below) => open_folders(below)?,
            // It is no folder.
            Err(Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits for a lock that is held for moments only. Whoever keeps it for longer must not hinder us.
fn wait_for(lock: &File) -> bool {
    (0..TRIES).any(|n| {
        if n > 0 {
            thread::sleep(PAUSE);
        }
        lock.try_lock().is_ok()
    })
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// Removes what nobody uses any more. What cannot be removed is left, and hinders nobody.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(pid) = number(name) {
            if is_dead(&path, pid) {
                remove(&path);
            }
        } else if let Some(pid) = name.strip_suffix(".sock").and_then(number)
            && !lives(pid)
            && !paths::is_live(&path)
        {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Reads a process's number, which begins with no zero and no sign.
fn number(text: &str) -> Option<Pid> {
    let digits = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).and_then(Pid::from_raw)
}

/// Tells whether the owner of a folder is gone. A lock says so surely, also of one in another container, whose processes
/// have numbers of their own; without it only the number is left to go by.
fn is_dead(folder: &Path, pid: Pid) -> bool {
    match File::open(folder.join("lock")) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
        },
        Err(_) => folder.is_dir() && !lives(pid),
    }
}

fn lives(pid: Pid) -> bool {
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// As root, every folder is open anyway.
    #[test]
    fn a_folder_that_an_agent_closed_is_removed() {
        let all = tempfile::tempdir().expect("a folder");
        let tmp = all.path().join("tmp");
        fs::create_dir_all(tmp.join("closed/deep")).expect("made");
        fs::write(tmp.join("closed/deep/file"), "x").expect("written");
        fs::set_permissions(tmp.join("closed"), Permissions::from_mode(0o000)).expect("ours");
        remove_tmp(&tmp).expect("removed");
        assert!(!tmp.exists());
    }

    #[test]
    fn only_what_nobody_uses_is_removed() {
        let home = tempfile::tempdir().expect("a folder");
        let at = |name: &str| home.path().join(name);
        let dead = {
            let mut child = std::process::Command::new("true").spawn().expect("it runs");
            child.wait().expect("it is ours");
            child.id()
        };
        let folder = |name: &str, lock: bool| {
            fs::create_dir(at(name)).expect("made");
            lock.then(|| open(&at(name).join("lock")).expect("made"))
        };
        let ours = std::process::id();
        // Of one in another container: its number means nothing here, its lock does.
        let in_use = folder(&dead.to_string(), true).expect("it has a lock");
        in_use.lock().expect("it is ours");
        folder(&ours.to_string(), false);
        folder("1234x", false);
        folder("012", false);
        let live = UnixListener::bind(at(&format!("{dead}.sock"))).expect("bound");
        drop(UnixListener::bind(at(&format!("{ours}.sock"))).expect("bound"));
        drop(UnixListener::bind(at("mine.sock")).expect("bound"));
        let list = || {
            let mut names: Vec<_> = fs::read_dir(home.path())
                .expect("it is there")
                .map(|entry| entry.expect("an entry").file_name())
                .collect();
            names.sort();
            names
        };
        let before = list();
        sweep(home.path());
        assert_eq!(list(), before);

        drop((in_use, live));
        sweep(home.path());
        let gone = [dead.to_string(), format!("{dead}.sock")];
        let expected: Vec<_> =
            before.into_iter().filter(|name| gone.iter().all(|gone| name != gone.as_str())).collect();
        assert_eq!(list(), expected);

        folder(&dead.to_string(), false);
        sweep(home.path());
        assert!(!at(&dead.to_string()).exists(), "one without a lock, of a process that is gone");
    }
}
