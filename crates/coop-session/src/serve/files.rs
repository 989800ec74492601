//! Text files of one folder, and of nothing beyond it: the kernel resolves every path beneath the folder, so that neither
//! `..` nor a symbolic link leads out of it, however quickly somebody changes things meanwhile.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use coop_drivers::{Served, Service};
use coop_folder::beneath;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat};

use crate::agent_files::AgentFiles;

/// A text longer than this is not read or written.
const MAX_TEXT: u64 = 64 * 1024 * 1024;
/// Opens without waiting for the other end of a pipe, and takes no terminal for ours.
const UNHINDERED: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);
/// Opens a folder as a place to look up names in.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// What a new file and a new folder may be used for; the user's mask takes from it.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);

/// Does something with a file.
pub(super) fn serve(folder: &Path, files: &AgentFiles, what: Service) -> Served {
    let outcome = Folder::open(folder).and_then(|folder| match what {
        Service::ReadFile { path, from, lines } => folder.read(&path, files, from, lines),
        Service::WriteFile { path, content } => folder.write(&path, files, &content).map(|()| Served::Done),
        other => Err(format!("{other:?} is nothing to do with a file")),
    });
    outcome.unwrap_or_else(Served::Failed)
}

/// A folder that is open.
pub(super) struct Folder {
    path: PathBuf,
    handle: OwnedFd,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = openat(CWD, path, flags, Mode::empty()).map_err(|error| failed(path, error.into()))?;
        Ok(Self { path: path.to_owned(), handle })
    }

    /// Returns where a folder beneath this one really is.
    pub(super) fn folder_at(&self, path: &str) -> Result<PathBuf, String> {
        let within = self.within(path)?;
        let found = self.beneath(&within, FOLDER, Mode::empty());
        found.map_err(|error| failed(&within, error))?;
        Ok(self.path.join(within))
    }

    fn read(&self, path: &str, files: &AgentFiles, from: Option<u32>, lines: Option<u32>) -> Result<Served, String> {
        let within = self.within(path)?;
        let read = || {
            let file = File::from(self.beneath(&within, OFlags::RDONLY | UNHINDERED, Mode::empty())?);
            let found = file.metadata()?;
            if !found.is_file() {
                return Err(io::Error::other("not a file"));
            }
            files.check_read(&file)?;
            if found.len() > MAX_TEXT {
                return Err(io::Error::other(format!("{} bytes are too many", found.len())));
            }
            let mut text = String::new();
            file.take(MAX_TEXT).read_to_string(&mut text)?;
            Ok(text)
        };
        let text = match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Served::Missing(path.to_owned())),
            other => other.map_err(|error| failed(&within, error))?,
        };
        if from.is_none() && lines.is_none() {
            return Ok(Served::Text(text));
        }
        let skipped = from.map_or(0, |from| from.saturating_sub(1) as usize);
        let taken = lines.map_or(usize::MAX, |lines| lines as usize);
        Ok(Served::Text(text.split_inclusive('\n').skip(skipped).take(taken).collect()))
    }

    fn write(&self, path: &str, files: &AgentFiles, content: &str) -> Result<(), String> {
        let within = self.within(path)?;
        let write = || {
            if content.len() as u64 > MAX_TEXT {
                return Err(io::Error::other(format!("{} bytes are too many", content.len())));
            }
            let flags = OFlags::WRONLY | UNHINDERED;
            let mut file = match self.beneath(&within, flags, Mode::empty()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.make_folders(&within, files)?;
                    File::from(self.beneath(&within, flags | OFlags::CREATE, FILE_MODE)?)
                }
                opened => File::from(opened?),
            };
            if !file.metadata()?.is_file() {
                return Err(io::Error::other("not a file"));
            }
            files.check_write(&file)?;
            file.set_len(0)?;
            file.write_all(content.as_bytes())
        };
        write().map_err(|error| failed(&within, error))
    }

    /// Makes the folders that a new file is to be in. The agent may write to the last one, and to each in which one is made.
    fn make_folders(&self, file: &Path, files: &AgentFiles) -> io::Result<()> {
        let mut made = PathBuf::new();
        for part in file.parent().into_iter().flat_map(Path::components) {
            let above = made.clone();
            made.push(part);
            if !matches!(part, Component::Normal(_)) {
                continue;
            }
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above.as_path() };
            let parent = self.beneath(above, FOLDER, Mode::empty())?;
            if self.beneath(&made, FOLDER, Mode::empty()).is_ok() {
                continue;
            }
            files.check_write(&parent)?;
            match mkdirat(&parent, part.as_os_str(), FOLDER_MODE) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let last = if made.as_os_str().is_empty() { Path::new(".") } else { made.as_path() };
        files.check_write(&self.beneath(last, FOLDER, Mode::empty())?)
    }

    /// Opens what is beneath this folder, and nothing else.
    fn beneath(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        beneath(&self.handle, path, flags, mode, ResolveFlags::empty())
    }

    /// Returns a path as seen from this folder.
    fn within(&self, path: &str) -> Result<PathBuf, String> {
        let path = Path::new(path);
        let within = if path.is_absolute() {
            path.strip_prefix(&self.path).map_err(|_| format!("{} is not in the agent's folder", path.display()))?
        } else {
            path
        };
        Ok(if within.as_os_str().is_empty() { PathBuf::from(".") } else { within.to_owned() })
    }
}

fn failed(path: &Path, error: io::Error) -> String {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::XDEV) => format!("{} is not in the agent's folder", path.display()),
        _ => format!("{}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use coop_term::{Access, Sandbox};

    use super::*;

    fn read(folder: &Path, path: &str) -> Served {
        serve(folder, &AgentFiles::default(), Service::ReadFile { path: path.into(), from: None, lines: None })
    }

    fn write(folder: &Path, path: &str) -> Served {
        serve(folder, &AgentFiles::default(), Service::WriteFile { path: path.into(), content: "written".into() })
    }

    #[test]
    fn files_of_the_folder_are_read_and_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = folder.path().join("a/b/c.txt");
        assert_eq!(write(folder.path(), inside.to_str().expect("UTF-8")), Served::Done);
        assert_eq!(read(folder.path(), "a/b/../b/c.txt"), Served::Text("written".into()));
        fs::write(folder.path().join("lines"), "one\ntwo\nthree").expect("written");
        let some = Service::ReadFile { path: "lines".into(), from: Some(2), lines: Some(1) };
        assert_eq!(serve(folder.path(), &AgentFiles::default(), some), Served::Text("two\n".into()));
        symlink("lines", folder.path().join("link")).expect("a link");
        assert_eq!(read(folder.path(), "link"), Served::Text("one\ntwo\nthree".into()));
        assert_eq!(read(folder.path(), "none"), Served::Missing("none".into()));
        assert!(matches!(read(folder.path(), "a"), Served::Failed(_)));
    }

    #[test]
    fn what_the_sandbox_hides_or_protects_is_neither_read_nor_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        for name in ["hidden", "protected", "own"] {
            fs::write(root.join(name), name).expect("written");
        }
        let access =
            [("", Access::Write), ("hidden", Access::None), ("protected", Access::Read), ("hooks", Access::Read)];
        let access = access.map(|(name, access)| (root.join(name), access)).to_vec();
        let files = AgentFiles::new(Some(Sandbox { access, ..Sandbox::default() }));
        let read = |name: &str| serve(&root, &files, Service::ReadFile { path: name.into(), from: None, lines: None });
        let write = |name: &str| serve(&root, &files, Service::WriteFile { path: name.into(), content: "x".into() });
        assert!(matches!(read("hidden"), Served::Failed(_)) && matches!(write("hidden"), Served::Failed(_)));
        assert_eq!(read("protected"), Served::Text("protected".into()));
        assert!(matches!(write("protected"), Served::Failed(_)));
        assert_eq!((read("own"), write("own")), (Served::Text("own".into()), Served::Done));
        // A refused write made the file, empty, in the hooks of git.
        fs::create_dir(root.join("hooks")).expect("made");
        assert!(
            matches!(write("hooks/new"), Served::Failed(_)) && matches!(write("hooks/deep/new"), Served::Failed(_))
        );
        assert_eq!(fs::read_dir(root.join("hooks")).expect("a folder").count(), 0);
        assert_eq!(write("new/deep/file"), Served::Done);
        assert_eq!(fs::read_to_string(root.join("protected")).expect("there"), "protected");
    }

    /// Neither `..`, nor a link to a file or a folder, nor an absolute path leads out; nothing outside is changed.
    #[test]
    fn nothing_leads_out_of_the_folder() {
        let all = tempfile::tempdir().expect("a folder");
        let folder = all.path().join("work");
        fs::create_dir_all(folder.join("sub")).expect("made");
        fs::write(all.path().join("secret"), "hush").expect("written");
        fs::create_dir(all.path().join("work-not")).expect("made");
        symlink("../secret", folder.join("file-link")).expect("a link");
        symlink(all.path().join("secret"), folder.join("absolute-link")).expect("a link");
        symlink("..", folder.join("folder-link")).expect("a link");
        let outside = all.path().join("secret");
        let sibling = all.path().join("work-not/x");
        let climbs = folder.join("../secret");
        for path in [
            "../secret",
            "sub/../../secret",
            "file-link",
            "absolute-link",
            "folder-link/secret",
            "folder-link/new/file",
            "../new",
            "/etc/passwd",
            "/proc/self/root/etc/passwd",
            outside.to_str().expect("UTF-8"),
            sibling.to_str().expect("UTF-8"),
            climbs.to_str().expect("UTF-8"),
        ] {
            let seen = read(&folder, path);
            assert!(matches!(seen, Served::Failed(_) | Served::Missing(_)), "{path} was read");
            assert!(matches!(write(&folder, path), Served::Failed(_)), "{path} was written");
            let opened = Folder::open(&folder).expect("it is there");
            assert!(opened.folder_at(path).is_err(), "{path} would be run in");
        }
        assert_eq!(fs::read_to_string(all.path().join("secret")).expect("it is there"), "hush");
        let mut left: Vec<_> =
            fs::read_dir(all.path()).expect("it is there").flatten().map(|e| e.file_name()).collect();
        left.sort();
        assert_eq!(left, ["secret", "work", "work-not"]);
        assert_eq!(fs::read_dir(all.path().join("work-not")).expect("it is there").count(), 0);
    }
}
