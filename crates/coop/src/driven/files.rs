//! The files of an agent's configuration: where coop's own are, and how they are written.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use coop_api::lasting_hash;
use coop_drivers::{Existing, FileToWrite, Known, merge};
use coop_folder::beneath;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde_json::Value;

use crate::cli::Sandbox as SandboxOptions;
use crate::paths::{private, state_dir, text};

/// Conversations and settings take some MiB. A file of the agent's that is larger would only fill the memory of its sidecar.
const LARGEST_FILE: u64 = 64 * 1024 * 1024;

/// Returns a folder of coop's for the agent's configuration, by which no dialog comes up. Nobody else's is ever written.
///
/// Agents in the same folder share it only if they are in the same sandbox, or in none: an agent writes to its configuration, and
/// what it writes there, such as hooks, is run wherever the configuration is used.
pub(super) fn isolated(home: &str, known: &Known, cwd: &Path, sandbox: &SandboxOptions) -> anyhow::Result<String> {
    let all = state_dir(Path::new(home)).join("isolated");
    text(&private(all.join(known.name).join(folder_name(cwd) + &sandbox_name(sandbox)))?)
}

fn sandbox_name(sandbox: &SandboxOptions) -> String {
    if !sandbox.is_wanted {
        return String::new();
    }
    let sorted = |paths: &[PathBuf]| paths.iter().cloned().collect::<BTreeSet<_>>();
    let what = format!("{:?}", (sorted(&sandbox.write), sorted(&sandbox.hide), sandbox.no_network));
    format!("-sandbox-{:016x}", lasting_hash(what.as_bytes()))
}

/// Returns a name for what belongs to a folder: readable, and another for each.
fn folder_name(folder: &Path) -> String {
    let readable = |c: char| if c.is_alphanumeric() { c } else { '-' };
    let name: String = folder.to_string_lossy().chars().map(readable).collect();
    let hash = lasting_hash(folder.as_os_str().as_encoded_bytes());
    format!("{name}-{hash:016x}")
}

/// Writes a file that only this user can read. Whoever reads it meanwhile sees all of it or what was there before.
pub(crate) fn write_private(file: &FileToWrite) -> io::Result<()> {
    let path = Path::new(&file.path);
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let content = match file.existing {
        Existing::Replaced => file.content.clone(),
        Existing::Merged => merged(fs::read(path).ok(), &file.content)?,
    };
    let new = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let write = |mut file: File| file.write_all(content.as_bytes());
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).and_then(write);
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Writes such a file in a folder that the agent writes to. Neither the file nor a folder on the way to it may be a link, through
/// which another file would be read or written. The kernel checks that with each step, so the agent cannot change it between two.
pub(super) fn write_private_beneath(folder: &str, file: &FileToWrite) -> io::Result<()> {
    let path = Path::new(&file.path);
    let Ok(within) = path.strip_prefix(folder) else { return write_private(file) };
    let refused = |error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => io::Error::other(format!(
            "{} or a folder above it is a link, which the agent may have made; remove it, and start the agent again",
            path.display()
        )),
        _ => error,
    };
    let (Some(name), Some(parent)) = (within.file_name(), within.parent()) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    let is_folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, folder, is_folder, Mode::empty())?;
    for part in parent {
        match mkdirat(&at, part, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        at = open_beneath(&at, part.as_ref(), is_folder).map_err(refused)?;
    }
    let there = match open_beneath(&at, name.as_ref(), OFlags::RDONLY | OFlags::NONBLOCK) {
        Ok(found) => Some(File::from(found)).filter(|file| file.metadata().is_ok_and(|found| found.is_file())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(refused(error)),
    };
    let content = match file.existing {
        Existing::Replaced => file.content.clone(),
        Existing::Merged => {
            let there = there.map(|file| read_bounded(file, path)).transpose()?;
            merged(there.map(String::into_bytes), &file.content)?
        }
    };
    let new = format!("{}.{}.new", name.to_string_lossy(), uuid::Uuid::new_v4().simple());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let written = openat(&at, &new, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from);
    let written = written.and_then(|file| File::from(file).write_all(content.as_bytes()));
    let renamed = written.and_then(|()| Ok(renameat(&at, &new, &at, name)?));
    renamed.inspect_err(|_| {
        let _ = unlinkat(&at, &new, AtFlags::empty());
    })
}

/// Reads a file that the agent may have written.
pub(super) fn read_bounded(file: File, path: &Path) -> io::Result<String> {
    if file.metadata()?.len() > LARGEST_FILE {
        return Err(io::Error::other(format!("{} is larger than {LARGEST_FILE} bytes", path.display())));
    }
    io::read_to_string(file.take(LARGEST_FILE))
}

fn open_beneath(folder: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    beneath(folder, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Returns JSON with the fields of both; what is there and is not JSON goes.
fn merged(there: Option<Vec<u8>>, more: &str) -> io::Result<String> {
    let mut all = there.and_then(|there| serde_json::from_slice(&there).ok()).unwrap_or(Value::Null);
    merge(&mut all, &serde_json::from_str(more)?);
    Ok(all.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_link_that_an_agent_left_in_its_configuration_is_not_followed() {
        let all = tempfile::tempdir().expect("a folder");
        let own = all.path().join("own");
        fs::create_dir(&own).expect("made");
        fs::create_dir(all.path().join("other")).expect("made");
        fs::write(all.path().join("secret"), r#"{"key":1}"#).expect("written");
        std::os::unix::fs::symlink(all.path().join("secret"), own.join("f.json")).expect("made");
        std::os::unix::fs::symlink(all.path().join("other"), own.join("deep")).expect("made");
        for name in ["f.json", "deep/f.json"] {
            let path = text(&own.join(name)).expect("text");
            let file = FileToWrite { path, content: "{}".to_owned(), existing: Existing::Merged };
            let refused = write_private_beneath(&text(&own).expect("text"), &file).expect_err("a link");
            assert!(refused.to_string().contains("is a link"), "{refused}");
        }
        let file = |existing, content: &str| FileToWrite {
            path: text(&own.join("new/f.json")).expect("text"),
            content: content.to_owned(),
            existing,
        };
        for (existing, content) in [(Existing::Replaced, r#"{"a":1}"#), (Existing::Merged, r#"{"b":2}"#)] {
            write_private_beneath(&text(&own).expect("text"), &file(existing, content)).expect("written");
        }
        assert_eq!(fs::read_to_string(own.join("new/f.json")).expect("read"), r#"{"a":1,"b":2}"#);
        assert_eq!(fs::metadata(own.join("new/f.json")).expect("it is there").mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(own.join("new")).expect("a folder").count(), 1, "nothing else is left");
        assert_eq!(fs::read_dir(all.path().join("other")).expect("a folder").count(), 0);
        assert_eq!(fs::read_to_string(all.path().join("secret")).expect("read"), r#"{"key":1}"#);
    }

    /// Two agents in one folder share it, and the second start lost what the first agent had written.
    #[test]
    fn what_an_agent_has_written_into_its_configuration_stays() {
        let there =
            json!({ "theme": "light", "own": 1, "approved": ["a"], "projects": { "/x": { "trusted": false } } });
        let more =
            json!({ "theme": "dark", "approved": ["a", "b"], "projects": { "/x": { "trusted": true }, "/y": {} } });
        let all = merged(Some(there.to_string().into()), &more.to_string()).expect("JSON");
        let expected = json!({ "theme": "dark", "own": 1, "approved": ["a", "b"],
                               "projects": { "/x": { "trusted": true }, "/y": {} } });
        assert_eq!(serde_json::from_str::<Value>(&all).expect("JSON"), expected);
        assert_eq!(merged(Some("half a fi".into()), "{}").expect("JSON"), "{}");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f.json");
        let write = |content: &str, existing| {
            write_private(&FileToWrite { path: text(&path).expect("text"), content: content.to_owned(), existing })
        };
        write(r#"{"a":1}"#, Existing::Replaced).expect("written");
        write(r#"{"b":2}"#, Existing::Merged).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), r#"{"a":1,"b":2}"#);
        let mode = fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left");
    }

    #[test]
    fn each_sandbox_has_a_configuration_of_its_own() {
        let sandbox = |write: &[&str], no_network| SandboxOptions {
            is_wanted: true,
            write: write.iter().map(PathBuf::from).collect(),
            hide: Vec::new(),
            no_network,
        };
        let none = SandboxOptions { is_wanted: false, ..sandbox(&[], false) };
        let all =
            [none, sandbox(&[], false), sandbox(&["/a"], false), sandbox(&["/a", "/b"], false), sandbox(&[], true)];
        let names: BTreeSet<_> = all.iter().map(sandbox_name).collect();
        assert_eq!(names.len(), all.len(), "{names:?}");
        assert_eq!(sandbox_name(&sandbox(&["/b", "/a"], false)), sandbox_name(&all[3]), "whatever their order");
    }

    #[test]
    fn each_folder_has_a_name_of_its_own() {
        let names = ["/a/b.c", "/a/b-c", "/a/b/c"].map(|folder| folder_name(Path::new(folder)));
        assert!(names.iter().all(|name| name.starts_with("-a-b-c-")), "{names:?}");
        assert!(names[0] != names[1] && names[1] != names[2]);
        assert_eq!(names[0], folder_name(Path::new("/a/b.c")));
    }
}
