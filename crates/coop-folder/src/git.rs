//! The `git` program on a repository with a configuration that an agent may have written.
//!
//! A repository's configuration names programs: hooks, filters, a file watcher, an ssh command. Git has no option to leave it
//! unread. So git is given a common folder of our own, whose configuration has only harmless values, with links to the
//! repository's data:
//!
//! ```text
//! GIT_DIR         REPOSITORY/.git, or REPOSITORY/.git/worktrees/NAME: HEAD and index
//! GIT_COMMON_DIR  a temporary folder: config (ours), refs -> REPOSITORY/.git/refs, objects -> …
//! GIT_WORK_TREE   the folder with the files
//! ```
//!
//! The user's own configuration (`~/.gitconfig`) still counts, so that fetching works as the user set it up. Its hooks, file
//! watcher and filters are switched off: they would run in the agent's folder and read what is there.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;

use crate::{git_program, read_regular};

/// More than any configuration has.
const MOST_CONFIG: u64 = 4 * 1024 * 1024;
/// More than a path has.
const MOST_POINTER: u64 = 16 * 1024;
/// What a repository's common folder keeps its data in.
const DATA: [&str; 9] = ["HEAD", "info", "logs", "objects", "packed-refs", "refs", "reftable", "shallow", "worktrees"];
/// Values of a repository's configuration that say how its data is stored and how files are compared.
const HARMLESS: [&str; 14] = [
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.repositoryformatversion",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.symlinks",
    "extensions.compatobjectformat",
    "extensions.objectformat",
    "extensions.partialclone",
    "extensions.refstorage",
    "extensions.relativeworktrees",
];
/// Values that say what is fetched. None of them is a program.
const OF_REMOTES: [&str; 5] = ["url", "fetch", "tagopt", "promisor", "partialclonefilter"];
/// What is switched off, whatever the user's own configuration says.
const OFF: [(&str, &str); 8] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("diff.submodule", "short"),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
];
/// Variables that make git work on another repository, or with another configuration, than it is told.
const ELSEWHERE: [&str; 16] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];
/// The ways to a remote that run no program but git's own and the user's ssh.
const PROTOCOLS: &str = "file:git:http:https:ssh";

/// Where a repository and a folder with its files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// What belongs to this work tree: `HEAD` and the index.
    pub git_dir: PathBuf,
    /// What all work trees share.
    pub common_dir: PathBuf,
    /// The files.
    pub work_tree: PathBuf,
}

/// Whether git knows the repository's remotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remotes {
    /// It can fetch from them.
    Known,
    /// It reaches nothing but this machine.
    Unknown,
}

/// The `git` program for one repository. Clones share the common folder, which goes with the last.
#[derive(Clone, Debug)]
pub struct Git {
    location: Location,
    common: Arc<Common>,
}

#[derive(Debug)]
struct Common {
    folder: TempDir,
    settings: Vec<(String, String)>,
}

impl Location {
    /// Returns the repository that a folder is in, by what the folders say: the nearest `.git`.
    pub fn discover(folder: &Path) -> io::Result<Option<Self>> {
        for folder in folder.ancestors() {
            if let Some(found) = Self::at(folder)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the repository whose `.git` is in this folder.
    pub fn at(folder: &Path) -> io::Result<Option<Self>> {
        let entry = folder.join(".git");
        let git_dir = match entry.metadata() {
            Ok(kind) if kind.is_dir() => entry,
            Ok(_) => {
                let text = read_regular(&entry, MOST_POINTER)?;
                let Some(path) = text.strip_prefix("gitdir: ") else { return Ok(None) };
                folder.join(path.trim_end_matches(['\n', '\r']))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(git_dir) = git_dir.canonicalize() else { return Ok(None) };
        let common_dir = match read_regular(&git_dir.join("commondir"), MOST_POINTER) {
            Ok(path) => git_dir.join(path.trim_end_matches(['\n', '\r'])).canonicalize()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => git_dir.clone(),
            Err(error) => return Err(error),
        };
        let is_one = git_dir.join("HEAD").is_file() && common_dir.join("objects").is_dir();
        Ok(is_one.then(|| Self { git_dir, common_dir, work_tree: folder.to_owned() }))
    }
}

impl Git {
    /// Makes the common folder that git reads instead of the repository's. Blocks while git reads the configuration.
    pub fn open(location: Location, remotes: Remotes) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("coop-git-").tempdir()?;
        for name in DATA {
            let data = location.common_dir.join(name);
            // A missing folder is not linked: git could not make it through the link.
            if data.symlink_metadata().is_ok() || matches!(name, "packed-refs" | "shallow") {
                symlink(data, folder.path().join(name))?;
            }
        }
        let path = location.common_dir.join("config");
        let unread = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let theirs = read_regular(&path, MOST_CONFIG).map_err(unread)?;
        fs::write(folder.path().join("config"), harmless(&theirs, remotes)?)?;
        let settings = OFF.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let mut git = Self { location, common: Arc::new(Common { folder, settings }) };
        let programs = git.programs_of_the_user()?;
        if let Some(common) = Arc::get_mut(&mut git.common) {
            common.settings.extend(programs);
        }
        Ok(git)
    }

    /// Returns git for another work tree of the same repository, by the repository's own records.
    pub fn work_tree(&self, path: &Path) -> io::Result<Self> {
        for entry in fs::read_dir(self.location.common_dir.join("worktrees"))? {
            let git_dir = entry?.path();
            let Ok(pointer) = read_regular(&git_dir.join("gitdir"), MOST_POINTER) else { continue };
            let pointer = git_dir.join(pointer.trim_end_matches(['\n', '\r']));
            let Some(found) = pointer.parent() else { continue };
            if found == path || found.canonicalize().is_ok_and(|found| found == path) {
                let common_dir = self.location.common_dir.clone();
                let location = Location { git_dir, common_dir, work_tree: path.to_owned() };
                return Ok(Self { location, common: Arc::clone(&self.common) });
            }
        }
        Err(io::Error::other(format!("the repository knows no work tree at {}", path.display())))
    }

    /// Returns where the repository and the files are.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Returns git with these words, to be run in the work tree. It takes no lock only to look, and asks no person.
    pub fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = program();
        command.args(args).current_dir(&self.location.work_tree).stdin(Stdio::null());
        command.env("GIT_DIR", &self.location.git_dir).env("GIT_COMMON_DIR", self.common.folder.path());
        command.env("GIT_WORK_TREE", &self.location.work_tree).env("GIT_ALLOW_PROTOCOL", PROTOCOLS);
        command.envs([("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_OPTIONAL_LOCKS", "0")]);
        command.env("GIT_CONFIG_COUNT", self.common.settings.len().to_string());
        for (number, (name, value)) in self.common.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{number}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        command
    }

    /// Returns settings that switch off the filters and hooks which the configuration of the user and the system names.
    fn programs_of_the_user(&self) -> io::Result<Vec<(String, String)>> {
        let listed = self.command(["config", "--null", "--name-only", "--get-regexp", r"^(filter|hook)\."]).output()?;
        // Exit code 1 means that there are none.
        if !matches!(listed.status.code(), Some(0 | 1)) {
            return Err(failed(&listed.stderr));
        }
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let mut names: Vec<_> =
            listed.split_terminator('\0').filter_map(|name| Some(name.rsplit_once('.')?.0)).collect();
        names.dedup();
        let off = |name: &str| match name.split_once('.') {
            Some(("filter", _)) => {
                let values = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];
                values.map(|(key, value)| (format!("{name}.{key}"), value.to_owned())).to_vec()
            }
            _ => vec![(format!("{name}.enabled"), "false".to_owned())],
        };
        Ok(names.into_iter().flat_map(off).collect())
    }
}

/// Returns git, with neither coop's variables nor those that lead it elsewhere.
fn program() -> Command {
    // A bare name would be looked up in relative folders of `PATH` too, where an agent may write.
    let mut command = Command::new(git_program().unwrap_or_else(|| "/usr/bin/git".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("COOP_") || ELSEWHERE.contains(&text.as_ref()) {
            command.env_remove(&name);
        }
    }
    command
}

/// Returns the configuration of a repository without what could name a program.
fn harmless(theirs: &str, remotes: Remotes) -> io::Result<String> {
    let mut command = program();
    command.args(["config", "--file", "-", "--no-includes", "--null", "--list"]).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let theirs = theirs.to_owned();
    // On a thread of its own: git may answer before it has read all.
    let writer = std::thread::spawn(move || stdin.write_all(theirs.as_bytes()));
    let listed = child.wait_with_output()?;
    // Git says itself why it stopped reading.
    let _ = writer.join();
    if !listed.status.success() {
        return Err(failed(&listed.stderr));
    }
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut ours = String::from("[core]\n\tbare = false\n");
    for entry in listed.split_terminator('\0') {
        // A name without a value says yes.
        let (name, value) = entry.split_once('\n').unwrap_or((entry, "true"));
        if is_harmless(name, remotes) {
            ours += &written(name, value);
        }
    }
    Ok(ours)
}

/// Git tells section and key in lower case, and what is between them as it is.
fn is_harmless(name: &str, remotes: Remotes) -> bool {
    let last = name.rsplit_once('.').map_or("", |(_, key)| key);
    let is_in = |section: &str| name.strip_prefix(section).is_some_and(|rest| rest.contains('.'));
    HARMLESS.contains(&name)
        || (is_in("branch.") && matches!(last, "remote" | "merge"))
        || (remotes == Remotes::Known && is_in("remote.") && OF_REMOTES.contains(&last))
}

/// Returns a value as a configuration file has it.
fn written(name: &str, value: &str) -> String {
    let (section, rest) = name.split_once('.').unwrap_or((name, ""));
    let (within, key) = rest.rsplit_once('.').unwrap_or(("", rest));
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let within = if rest.contains('.') { format!(" \"{}\"", escaped(within)) } else { String::new() };
    let value = escaped(value).replace('\n', "\\n");
    format!("[{section}{within}]\n\t{key} = \"{value}\"\n")
}

fn failed(stderr: &[u8]) -> io::Error {
    io::Error::other(format!("git cannot read the configuration: {}", String::from_utf8_lossy(stderr).trim()))
}

#[cfg(test)]
mod tests;
