//! Files beneath one folder.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

/// Opens without waiting for the other end of a pipe, and takes no terminal for ours.
const UNHINDERED: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a path beneath an open folder. The kernel resolves it, so that neither `..` nor a link leads out of the folder.
pub fn beneath(folder: impl AsFd, path: &Path, flags: OFlags, mode: Mode, more: ResolveFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
    Ok(openat2(folder, path, flags | OFlags::CLOEXEC, mode, resolve)?)
}

/// Opens a regular file beneath a folder for reading. No part of the path may be a link.
pub fn read_beneath(folder: &Path, path: &Path) -> io::Result<File> {
    let folder = openat(CWD, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | UNHINDERED;
    regular(beneath(folder, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?.into())
}

/// Reads a regular file of at most `limit` bytes as text.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<String> {
    let file = regular(openat(CWD, path, OFlags::RDONLY | UNHINDERED, Mode::empty())?.into())?;
    let mut text = String::new();
    file.take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        return Err(io::Error::other(format!("{} is larger than {limit} bytes", path.display())));
    }
    Ok(text)
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_link_or_a_pipe_in_the_folder_is_not_read() {
        let all = tempfile::tempdir().expect("a folder");
        let folder = all.path().join("work");
        fs::create_dir_all(folder.join(".claude")).expect("made");
        fs::write(all.path().join("secret"), "hush").expect("written");
        fs::write(folder.join("plain"), "text").expect("written");
        symlink(all.path().join("secret"), folder.join(".claude/settings.json")).expect("a link");
        symlink("plain", folder.join("inner")).expect("a link");
        symlink("..", folder.join("up")).expect("a link");
        assert!(Command::new("mkfifo").arg(folder.join("pipe")).status().expect("run").success());
        for path in [".claude/settings.json", "inner", "up/secret", "../secret", "pipe", "."] {
            assert!(read_beneath(&folder, Path::new(path)).is_err(), "{path} was opened");
        }
        assert!(read_beneath(&folder, Path::new("plain")).is_ok());
        assert!(read_regular(&folder.join("pipe"), 10).is_err());
        assert_eq!(read_regular(&folder.join("plain"), 4).expect("read"), "text");
        assert!(read_regular(&folder.join("plain"), 3).is_err());
    }
}
