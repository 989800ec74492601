//! Whether bubblewrap has mounted what it was told to.
//!
//! Bubblewrap mounts by paths. An agent that runs already in the same folder could put a link in the place of `.git` just
//! before, and another one just after. So the first program in the sandbox looks, before any of the agent's runs.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::mount::{Kind, Mount};

/// The option of `coop enter` for a path that must be a mount of what its folder has under that name.
const SAME: &str = "--mounted";
/// The option for a path that must be covered by another mount.
const HIDDEN: &str = "--covered";

/// Returns the arguments by which the first program in the sandbox checks the mounts that an agent could have redirected. The
/// mounts are sorted.
pub(crate) fn enter_words(mounts: &[Mount]) -> Vec<OsString> {
    let is_exposed = |mount: &&Mount| {
        let above = |above: &&Mount| above.path != mount.path && mount.path.starts_with(&above.path);
        let is_writable = mounts.iter().filter(above).any(|above| above.kind == Kind::Write);
        // The agent reaches nothing in a hidden folder.
        is_writable && mounts.iter().rfind(above).is_some_and(|nearest| nearest.kind != Kind::Hidden)
    };
    let words = |mount: &Mount| {
        let option = if mount.kind == Kind::Hidden { HIDDEN } else { SAME };
        [option.into(), mount.path.clone().into_os_string()]
    };
    mounts.iter().filter(is_exposed).flat_map(words).collect()
}

/// Fails unless each path of `same` is a mount of the file that the mount above has there, and each path of `covered` is a
/// mount. Reads the mounts of this process.
pub fn check_mounted(same: &[PathBuf], covered: &[PathBuf]) -> io::Result<()> {
    if same.is_empty() && covered.is_empty() {
        return Ok(());
    }
    check(&fs::read("/proc/self/mountinfo")?, same, covered)
}

fn check(table: &[u8], same: &[PathBuf], covered: &[PathBuf]) -> io::Result<()> {
    let mounts: Vec<MountEntry> = table.split(|byte| *byte == b'\n').filter_map(MountEntry::read).collect();
    // What is mounted later covers what was there.
    let at = |path: &Path| mounts.iter().rfind(|mount| mount.path == path);
    let is_same = |path: &Path| {
        let (Some(mount), Some(above)) = (at(path), path.ancestors().skip(1).find_map(at)) else { return false };
        let within = path.strip_prefix(&above.path).unwrap_or(path);
        mount.device == above.device && mount.root == above.root.join(within)
    };
    let changed = same.iter().find(|path| !is_same(path)).or(covered.iter().find(|path| at(path).is_none()));
    match changed {
        Some(path) => Err(io::Error::other(format!(
            "{} was replaced while the sandbox was made; look at what runs in its folder, and try again",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct MountEntry {
    device: Vec<u8>,
    /// The path of what is mounted, in its file system.
    root: PathBuf,
    path: PathBuf,
}

impl MountEntry {
    fn read(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let device = fields.next()?.to_vec();
        Some(Self { device, root: unescaped(fields.next()?), path: unescaped(fields.next()?) })
    }
}

/// Returns a path whose blanks, tabs, line ends and backslashes are written as `\040`.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let code = (*byte == b'\\').then(|| after.get(..3)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    const TABLE: &[u8] = b"1 0 254:0 / / ro - ext4 /dev/vda ro\n\
        2 1 254:0 /home/u/my\\040work /home/u/my\\040work rw - ext4 /dev/vda rw\n\
        3 2 254:0 /home/u/my\\040work/.git /home/u/my\\040work/.git rw - ext4 /dev/vda rw\n\
        4 3 254:0 /home/u/my\\040work/.git/config /home/u/my\\040work/.git/config ro - ext4 /dev/vda rw\n\
        5 2 254:0 /home/u/.ssh /home/u/my\\040work/stolen rw - ext4 /dev/vda rw\n\
        6 2 0:40 / /home/u/my\\040work/hidden rw - tmpfs tmpfs rw\n";

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(|name| Path::new("/home/u/my work").join(name)).collect()
    }

    /// An agent swapped its `.git` for a link to `~/.ssh` while its gate's sandbox was made, and the gate could read the keys.
    #[test]
    fn a_mount_of_another_file_than_its_folder_has_is_refused() {
        check(TABLE, &paths(&[".git", ".git/config"]), &paths(&["hidden"])).expect("all is as it was told");
        let refused = check(TABLE, &paths(&["stolen"]), &[]).expect_err("another folder").to_string();
        assert!(refused.contains("/home/u/my work/stolen was replaced"), "{refused}");
        check(TABLE, &paths(&["hooks"]), &[]).expect_err("no mount");
        check(TABLE, &[], &paths(&["nowhere"])).expect_err("not hidden");
    }

    #[test]
    fn only_what_lies_in_a_writable_folder_is_checked() {
        let mounts = [
            Mount::new(Kind::Write, Path::new("/w")),
            Mount::new(Kind::Write, Path::new("/w/.git")),
            Mount::new(Kind::Read, Path::new("/w/.git/config")),
            Mount::new(Kind::Hidden, Path::new("/w/h")),
            Mount::new(Kind::Write, Path::new("/w/h/own")),
            Mount::new(Kind::Hidden, Path::new("/home/u/.ssh")),
        ];
        let words = ["--mounted", "/w/.git", "--mounted", "/w/.git/config", "--covered", "/w/h"];
        assert_eq!(enter_words(&mounts), words.map(OsStr::new));
    }
}
