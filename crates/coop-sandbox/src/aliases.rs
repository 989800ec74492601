//! Other names of hidden paths. A file system can be mounted at more than one place, and a sandbox shows all of them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::SandboxError;

const MOUNTS: &str = "/proc/self/mountinfo";

/// Where a folder of a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountPoint {
    device: String,
    /// The folder, from the root of its file system.
    root: PathBuf,
    path: PathBuf,
}

/// Returns where else each path, or a folder below it, is mounted.
pub(crate) fn other_names(paths: &[PathBuf]) -> Result<Vec<PathBuf>, SandboxError> {
    let text = fs::read(MOUNTS).map_err(|source| SandboxError::Path { path: MOUNTS.into(), source })?;
    let mounts: Vec<_> = text.split(|byte| *byte == b'\n').filter_map(parse).collect();
    let is_there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
    let names = paths.iter().flat_map(|path| {
        let names = names_of(path, &mounts).into_iter();
        names.filter(|(name, is_whole)| if *is_whole { is_same(path, name) } else { is_there(name) })
    });
    Ok(names.map(|(name, _)| name).collect())
}

/// Returns the places where a path would be seen beside its own, each with whether it is the path itself or a folder below it. What
/// is mounted there later may cover it.
fn names_of(path: &Path, mounts: &[MountPoint]) -> Vec<(PathBuf, bool)> {
    let above = mounts.iter().enumerate().filter(|(_, mount)| path.starts_with(&mount.path));
    // Of mounts at one place the last is seen.
    let own = above.max_by_key(|(at, mount)| (mount.path.components().count(), *at));
    let Some((own_at, own)) = own else { return Vec::new() };
    let Ok(below) = path.strip_prefix(&own.path) else { return Vec::new() };
    let inner = own.root.join(below);
    let others = mounts.iter().enumerate().filter(|(at, mount)| *at != own_at && mount.device == own.device);
    let name = |(_, mount): (usize, &MountPoint)| match inner.strip_prefix(&mount.root) {
        Ok(below) => Some((joined(&mount.path, below), true)),
        Err(_) => mount.root.starts_with(&inner).then(|| (mount.path.clone(), false)),
    };
    others.filter_map(name).filter(|(name, _)| !name.starts_with(path)).collect()
}

/// Joins paths without a slash at the end.
fn joined(folder: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { folder.to_owned() } else { folder.join(below) }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let found = |path: &Path| fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()));
    found(one).is_some_and(|one| found(other) == Some(one))
}

/// Reads a line of `mountinfo`: two numbers, the device, the folder, the place, and more.
fn parse(line: &[u8]) -> Option<MountPoint> {
    let mut fields = line.split(|byte| *byte == b' ').skip(2);
    let device = String::from_utf8(fields.next()?.to_vec()).ok()?;
    Some(MountPoint { device, root: unescaped(fields.next()?)?, path: unescaped(fields.next()?)? })
}

/// Reads a path in which blanks and the like are a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, more)) = rest.split_first() {
        let (byte, more) = match (first, more.split_at_checked(3)) {
            (b'\\', Some((digits, more))) => (u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?, more),
            (byte, _) => (byte, more),
        };
        bytes.push(byte);
        rest = more;
    }
    Some(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_wherever_its_file_system_is_mounted() {
        let lines = "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
                     30 27 254:0 / /mnt/all rw - ext4 /dev/vda rw\n\
                     31 27 254:0 /home/ann /mnt/the\\040home rw - ext4 /dev/vda rw\n\
                     32 27 254:0 /home/ann/.ssh/keys /keys rw - ext4 /dev/vda rw\n\
                     33 27 254:0 /home/bob /bob rw - ext4 /dev/vda rw\n\
                     34 27 8:1 / /other rw - ext4 /dev/sda rw\n\
                     35 27 8:1 /home/ann/.ssh /elsewhere rw - ext4 /dev/sda rw\n";
        let mounts: Vec<_> = lines.as_bytes().split(|byte| *byte == b'\n').filter_map(parse).collect();
        assert_eq!(mounts.len(), 7);
        let names = |path: &str| names_of(Path::new(path), &mounts);
        let whole = |path: &str| (PathBuf::from(path), true);
        let expected = [whole("/mnt/all/home/ann/.ssh"), whole("/mnt/the home/.ssh"), (PathBuf::from("/keys"), false)];
        assert_eq!(names("/home/ann/.ssh"), expected);
        assert_eq!(names("/mnt/all/home/bob/x"), [whole("/home/bob/x"), whole("/bob/x")]);
        assert_eq!(names("/other/x"), []);
    }
}
