//! Where sockets live.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{Access, access};

/// Returns the folder for sockets, private to this user, making it if need be.
pub(crate) fn runtime_dir() -> anyhow::Result<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let folder = match env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("coop"),
        None => env::temp_dir().join(format!("coop-{uid}")),
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("cannot make {}; set XDG_RUNTIME_DIR or give --socket", folder.display()))?;
    let found = fs::symlink_metadata(&folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    // In a shared temporary folder somebody else may have made it first.
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o077 != 0 {
        bail!(
            "{} is not a private folder of this user; remove it, set XDG_RUNTIME_DIR or give --socket",
            folder.display()
        );
    }
    Ok(folder)
}

/// Returns the folder for what outlives a process: the daemon's state, and agents' own configurations.
pub(crate) fn state_dir(home: &Path) -> PathBuf {
    let state = env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty());
    state.map_or_else(|| home.join(".local/state"), PathBuf::from).join("coop")
}

/// Returns where a program is.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))
}

/// Tells whether a file can be run.
pub(crate) fn is_program(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// Returns a path as text.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Makes a folder that only this user can look into. One that is there must be this user's, and writable for no other.
pub(crate) fn private(folder: PathBuf) -> anyhow::Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| format!("cannot make {}", folder.display()))?;
    let found = fs::metadata(&folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        bail!("{} belongs to another user; choose another folder", folder.display());
    }
    // A user's own group is as good as the user; kubelets open a volume to the pod's group.
    let is_own_group = found.gid() == rustix::process::getegid().as_raw();
    if found.mode() & 0o002 != 0 || found.mode() & 0o020 != 0 && !is_own_group {
        bail!("other users can write in {0}; run `chmod go-w {0}` or choose another folder", folder.display());
    }
    Ok(folder)
}

/// Returns the socket of the only agent that runs here, or says what there is instead.
pub(crate) fn only_socket() -> anyhow::Result<PathBuf> {
    let folder = runtime_dir()?;
    let mut live: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| format!("cannot list {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_live(path))
        .collect();
    live.sort();
    match live.as_slice() {
        [] => bail!("no agent runs here; start one with `coop -- COMMAND`, or name its socket or URL"),
        [only] => Ok(only.clone()),
        several => {
            let names: Vec<_> = several.iter().map(|path| path.display().to_string()).collect();
            bail!("several agents run here; name one of {}", names.join(", "))
        }
    }
}

/// The longest path the system takes for a socket.
const MAX_SOCKET_PATH: usize = 107;

/// Checks what the system would refuse in its own words.
pub(crate) fn check_length(path: &Path) -> anyhow::Result<()> {
    let length = path.as_os_str().len();
    if length > MAX_SOCKET_PATH {
        bail!("the path {} has {length} bytes; a socket's may have {MAX_SOCKET_PATH} at most", path.display());
    }
    Ok(())
}

/// Tells whether somebody listens on a socket.
pub(crate) fn is_live(path: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(path).is_ok()
}

/// Makes way for a new socket: a dead one is removed, anything else is left alone.
pub(crate) fn clear_for_socket(path: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", path.display())),
        Ok(found) if !found.file_type().is_socket() => {
            bail!("{} is there and is not a socket; remove it or choose another --socket", path.display())
        }
        Ok(_) if is_live(path) => {
            bail!("another program listens on {}; stop it or choose another --socket", path.display())
        }
        Ok(_) => fs::remove_file(path).with_context(|| format!("cannot remove the dead socket {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_others_can_write_in_is_refused() {
        let state = tempfile::tempdir().expect("a folder");
        for (mode, is_taken) in [(0o700, true), (0o755, true), (0o775, true), (0o702, false), (0o1777, false)] {
            fs::set_permissions(state.path(), fs::Permissions::from_mode(mode)).expect("set");
            let taken = private(state.path().to_owned());
            assert_eq!(taken.is_ok(), is_taken, "{mode:o}: {taken:?}");
        }
        let others = private(PathBuf::from("/proc"));
        assert!(
            rustix::process::geteuid().is_root() || others.is_err_and(|why| why.to_string().contains("another user"))
        );
    }
}
