//! What has changed in the agent's folder since its last commit, by git.
//!
//! git is only asked to look: it takes no lock, and runs no program that the repository names (see [`coop_folder`]).

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use coop_api::{Error, ErrorCode};
use coop_folder::{Git, Location, Remotes};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use schemars::JsonSchema;
use serde::Serialize;

/// How long git may take for each thing it is asked.
const LIMIT: Duration = Duration::from_secs(10);
/// How much of a difference is shown.
const MOST_BYTES: usize = 2 * 1024 * 1024;
/// How many new files are named.
const MOST_FILES: usize = 1000;
/// What an empty repository is compared with.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// What has changed in a folder.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ChangesBody {
    /// Whether the folder belongs to a git repository. Without one nothing is known.
    repository: bool,
    /// The branch, if one is checked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// The difference to the last commit, as git shows it.
    diff: String,
    /// Whether the difference was cut off.
    cut: bool,
    /// Files that git does not know yet.
    untracked: Vec<String>,
}

/// Looks at a folder.
pub(crate) async fn changes(folder: &Path) -> Result<ChangesBody, Error> {
    let Some(git) = opened(folder).await? else {
        return Ok(ChangesBody { repository: false, branch: None, diff: String::new(), cut: false, untracked: vec![] });
    };
    let (has_commit, ..) = ask(&git, folder, &["rev-parse", "--verify", "--quiet", "HEAD"]).await?;
    let base = if has_commit { "HEAD" } else { EMPTY_TREE };
    let mut diff = vec!["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"];
    diff.extend(["--relative", base, "--", "."]);
    let (shown, diff, cut) = ask(&git, folder, &diff).await?;
    if !shown {
        return Err(Error::internal("git could not show what has changed"));
    }
    let (_, named, _) = ask(&git, folder, &["ls-files", "--others", "--exclude-standard", "-z"]).await?;
    let (_, branch, _) = ask(&git, folder, &["symbolic-ref", "--short", "--quiet", "HEAD"]).await?;
    Ok(ChangesBody {
        repository: true,
        branch: Some(branch.trim().to_owned()).filter(|branch| !branch.is_empty()),
        diff,
        cut,
        untracked: named.split_terminator('\0').take(MOST_FILES).map(str::to_owned).collect(),
    })
}

/// Returns git for the repository that a folder is in.
async fn opened(folder: &Path) -> Result<Option<Git>, Error> {
    let folder = folder.to_owned();
    let open = move || {
        let found = Location::discover(&folder.canonicalize()?)?;
        found.map(|found| Git::open(found, Remotes::Unknown)).transpose()
    };
    let opened = tokio::task::spawn_blocking(open).await.map_err(|error| Error::internal(error.to_string()))?;
    opened.map_err(|error| Error::new(ErrorCode::Unsupported, format!("git cannot read the repository: {error}")))
}

/// Runs git, and returns whether it went well, what it said, and whether that was cut off.
async fn ask(git: &Git, folder: &Path, args: &[&str]) -> Result<(bool, String, bool), Error> {
    let mut command = git.command([&["-c", "core.quotePath=false"][..], args].concat());
    command.current_dir(folder).process_group(0).stdout(Stdio::piped()).stderr(Stdio::null());
    // On a thread of its own: the sidecar's first thread waits for whatever ends there, also for what is not its own.
    let told =
        tokio::task::spawn_blocking(move || run(command)).await.map_err(|error| Error::internal(error.to_string()))?;
    told.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => Error::internal("git took longer than 10 seconds to tell what has changed"),
        _ => Error::new(ErrorCode::Unsupported, format!("git cannot be run: {error}")),
    })
}

fn run(mut command: Command) -> io::Result<(bool, String, bool)> {
    let until = Instant::now() + LIMIT;
    let mut group = Group(command.spawn()?);
    let mut stdout = group.0.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut said = Vec::new();
    let mut piece = [0; 64 * 1024];
    loop {
        wait_for(&stdout, until)?;
        match stdout.read(&mut piece)? {
            0 => break,
            count => said.extend_from_slice(&piece[..count]),
        }
        if said.len() > MOST_BYTES {
            said.truncate(MOST_BYTES);
            return Ok((true, String::from_utf8_lossy(&said).into_owned(), true));
        }
    }
    wait_for(pidfd_open(Pid::from_child(&group.0), PidfdFlags::empty())?, until)?;
    Ok((group.0.wait()?.success(), String::from_utf8_lossy(&said).into_owned(), false))
}

/// Waits until there is something to read, or the process has ended.
fn wait_for(fd: impl AsFd, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    let ready = retry_on_intr(|| poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)))?;
    if ready == 0 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

/// git with all that it has started; whatever is left of it ends with this.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // Nobody but us waits for it, so until then its number is its own.
        if let Ok(None) = self.0.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn git_in(folder: &Path, args: &[&str]) {
        let who = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
        let done = Command::new("git").args(who).args(args).current_dir(folder).output().expect("git runs");
        assert!(done.status.success(), "{done:?}");
    }

    #[tokio::test]
    async fn what_has_changed_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let none = changes(folder.path()).await.expect("it looks");
        assert!(!none.repository, "{none:?}");
        git_in(folder.path(), &["init", "-q", "-b", "main"]);
        fs::write(folder.path().join("a.txt"), "one\n").expect("written");
        let fresh = changes(folder.path()).await.expect("it looks");
        assert_eq!((fresh.diff.as_str(), &fresh.untracked[..]), ("", &["a.txt".to_owned()][..]));
        git_in(folder.path(), &["add", "a.txt"]);
        git_in(folder.path(), &["commit", "-qm", "first"]);
        fs::write(folder.path().join("a.txt"), "two\n").expect("written");
        fs::write(folder.path().join("b.txt"), "new\n").expect("written");
        let told = changes(folder.path()).await.expect("it looks");
        assert_eq!((told.branch.as_deref(), told.cut), (Some("main"), false));
        assert!(told.diff.contains("-one\n+two\n"), "{}", told.diff);
        assert_eq!(told.untracked, ["b.txt"]);
    }

    /// A repository can name programs that git runs to show differences; looking at it must not run them.
    #[tokio::test]
    async fn a_repository_cannot_have_its_programs_run() {
        let folder = tempfile::tempdir().expect("a folder");
        git_in(folder.path(), &["init", "-q"]);
        fs::write(folder.path().join("a.txt"), "one\n").expect("written");
        git_in(folder.path(), &["add", "a.txt"]);
        git_in(folder.path(), &["commit", "-qm", "first"]);
        fs::write(folder.path().join("a.txt"), "two\n").expect("written");
        let trap = format!("touch {}", folder.path().join("sprung").display());
        fs::write(folder.path().join(".gitattributes"), "* diff=trap filter=trap\n").expect("written");
        let programs = ["diff.trap.command", "diff.trap.textconv", "diff.external", "core.fsmonitor"];
        for key in programs.into_iter().chain(["filter.trap.clean", "filter.trap.process", "core.hooksPath"]) {
            git_in(folder.path(), &["config", key, &trap]);
        }
        assert!(changes(folder.path()).await.expect("it looks").diff.contains("+two"));
        assert!(!folder.path().join("sprung").exists());
    }
}
