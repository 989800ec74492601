//! The repository of an agent's folder. Its agent commits to it, and does not choose what its user's git runs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use coop_folder::Location;

use crate::SandboxError;
use crate::reach::SHARED;

/// Files and folders that name programs which git runs, or that hold them.
const FILES: [&str; 2] = ["config", "config.worktree"];
const FOLDERS: [&str; 2] = ["hooks", "modules"];
/// What an agent in a work tree writes to of its repository: commits, branches and their history.
const SHARED_BY_WORKTREES: [&str; 4] = ["objects", "refs", "logs", "reftable"];
/// What says which repository and which folder a work tree belongs to.
const POINTERS: [&str; 3] = ["commondir", "gitdir", "config.worktree"];

/// What of a repository is mounted.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    pub(crate) write: Vec<PathBuf>,
    pub(crate) read: Vec<PathBuf>,
}

/// Returns what is mounted of the repository whose work tree the folder is.
///
/// The agent may have written the folder's `.git`. What that names outside of the folder counts only if the repository knows
/// the folder as a work tree of its own.
pub(crate) fn protect(folder: &Path) -> Result<Repository, SandboxError> {
    let entry = folder.join(".git");
    match entry.symlink_metadata() {
        Ok(found) if found.is_dir() => return protect_own(entry),
        Ok(found) if found.is_symlink() => return Err(SandboxError::Linked(entry)),
        Ok(found) if found.is_file() => {}
        Ok(_) | Err(_) => return Ok(above_folder(folder)),
    }
    let unusable = |source| SandboxError::Path { path: entry.clone(), source };
    let Some(Location { git_dir, .. }) = Location::at(folder).map_err(unusable)? else {
        return Ok(Repository { write: Vec::new(), read: vec![entry] });
    };
    match common_of_worktree(folder, &git_dir) {
        Some(common) => protect_shared(folder, git_dir, &common),
        None => Ok(Repository { write: Vec::new(), read: vec![entry] }),
    }
}

/// The repository that a folder is a part of. Where the sandbox has other folders than the machine, it is mounted to be seen.
fn above_folder(folder: &Path) -> Repository {
    let above = folder.ancestors().skip(1).find(|above| above.join(".git").symlink_metadata().is_ok());
    let read =
        above.filter(|above| SHARED.iter().any(|shared| above.starts_with(shared) && *above != Path::new(shared)));
    Repository { write: Vec::new(), read: read.map(Path::to_owned).into_iter().collect() }
}

/// A repository in the agent's folder. It is a mount of its own, so that the agent cannot put another in its place.
fn protect_own(git_dir: PathBuf) -> Result<Repository, SandboxError> {
    // The agent could create what is missing, or put a link in its place.
    let read = make_missing(&git_dir, &FILES, &FOLDERS)?;
    Ok(Repository { write: vec![git_dir], read })
}

/// A repository that people and other agents use too. The agent in one of its work trees makes no file beside those of git's.
fn protect_shared(folder: &Path, git_dir: PathBuf, common: &Path) -> Result<Repository, SandboxError> {
    let shared = SHARED_BY_WORKTREES.map(|name| common.join(name)).into_iter().filter(|path| is_no_link(path));
    let mut read = make_missing(&git_dir, &POINTERS, &[])?;
    // The rest of it may be where the sandbox has another folder, such as `/tmp`. Without it git would begin a branch anew.
    read.extend([folder.join(".git"), common.to_owned()]);
    Ok(Repository { read, write: shared.chain([git_dir]).collect() })
}

/// Makes the files and folders of a repository that are missing, empty, and returns all of them.
fn make_missing(git_dir: &Path, files: &[&str], folders: &[&str]) -> Result<Vec<PathBuf>, SandboxError> {
    let mut paths = Vec::new();
    for (names, is_folder) in [(files, false), (folders, true)] {
        for path in names.iter().map(|name| git_dir.join(name)) {
            let made = match path.symlink_metadata() {
                Ok(found) if found.is_symlink() => Err(io::Error::other(
                    "it is a link, which the agent may have made; put what it leads to in its place",
                )),
                Ok(_) => Ok(()),
                Err(_) if is_folder => fs::create_dir(&path),
                Err(_) => File::create_new(&path).map(drop),
            };
            made.map_err(|source| SandboxError::Path { path: path.clone(), source })?;
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Tells whether there is something that is no link.
fn is_no_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| !found.is_symlink())
}

/// Returns the repository that a work tree's folder for git belongs to, if that names the work tree.
fn common_of_worktree(folder: &Path, git_dir: &Path) -> Option<PathBuf> {
    let worktrees = git_dir.parent().filter(|parent| parent.ends_with("worktrees"))?;
    let pointer = coop_folder::read_regular(&git_dir.join("gitdir"), 16 * 1024).ok()?;
    let named = git_dir.join(pointer.trim_end()).canonicalize().ok()?;
    let common = worktrees.parent()?;
    (named == folder.join(".git") && common.join("objects").is_dir()).then(|| common.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(folder: &Path, words: &[&str]) {
        let settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
        let mut command = Command::new("git");
        command.args(settings).args(words).current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = command.output().expect("git runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    /// Of a repository below `/tmp` only what is written to was there, and a commit began the branch anew.
    #[test]
    fn a_work_tree_in_tmp_has_the_whole_history() {
        if let Err(why) = crate::check() {
            return coop_testkit::skip(&why.to_string());
        }
        let all = tempfile::tempdir_in("/tmp").expect("a folder");
        let all = all.path().canonicalize().expect("it is there");
        let (main, tree) = (all.join("main"), all.join("tree"));
        fs::create_dir_all(main.join("part")).expect("made");
        git(&main, &["init", "-q"]);
        git(&main, &["config", "user.email", "a@b"]);
        git(&main, &["config", "user.name", "a"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "first"]);
        git(&main, &["worktree", "add", "-q", "../tree"]);
        git(&main, &["pack-refs", "--all"]);
        let log = |folder: &Path, script: &str| {
            let reach = crate::Reach { folder: folder.to_owned(), ..crate::Reach::default() };
            let words = reach.prepare().expect("a sandbox").bubblewrap;
            let mut command = Command::new(&words[0]);
            let output =
                command.args(&words[1..]).args(["sh", "-c", script]).current_dir(folder).output().expect("run");
            String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let told = log(&tree, "git commit -q --allow-empty -m second; git log --format=%s");
        assert_eq!(told, ["second", "first"]);
        assert_eq!(log(&main.join("part"), "git log --format=%s"), ["first"]);
    }

    #[test]
    fn a_repository_is_writable_but_for_what_git_runs() {
        let all = tempfile::tempdir().expect("a folder");
        let all = all.path().canonicalize().expect("it is there");
        let (main, tree, plain) = (all.join("main"), all.join("tree"), all.join("plain"));
        fs::create_dir(&main).expect("made");
        fs::create_dir(&plain).expect("made");
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&main, &["worktree", "add", "-q", "../tree"]);
        let found = protect(&main).expect("found");
        assert_eq!(found.write, [main.join(".git")]);
        let names = ["config", "config.worktree", "hooks", "modules"];
        assert_eq!(found.read, names.map(|name| main.join(".git").join(name)));
        let found = protect(&tree).expect("found");
        let own = main.join(".git/worktrees/tree");
        let at = |name: &str| main.join(".git").join(name);
        assert_eq!(found.write, [at("objects"), at("refs"), at("logs"), own.clone()]);
        let pointers = ["commondir", "gitdir", "config.worktree"].map(|name| own.join(name));
        assert_eq!(found.read, [&pointers[..], &[tree.join(".git"), main.join(".git")]].concat());
        fs::create_dir(main.join("part")).expect("made");
        let found = protect(&main.join("part")).expect("found");
        assert_eq!((found.write.len(), found.read), (0, vec![main.clone()]), "it is below /tmp");
        // One that names a repository which does not know it.
        fs::copy(tree.join(".git"), plain.join(".git")).expect("copied");
        let found = protect(&plain).expect("found");
        assert_eq!((found.write.len(), found.read), (0, vec![plain.join(".git")]));
    }

    /// An agent spoilt its repository, and the sandbox of its next gate or run protected nothing.
    #[test]
    fn a_spoilt_repository_is_protected_or_refused() {
        let all = tempfile::tempdir().expect("a folder");
        let all = all.path().canonicalize().expect("it is there");
        git(&all, &["init", "-q"]);
        fs::rename(all.join(".git/HEAD"), all.join(".git/H")).expect("renamed");
        fs::create_dir(all.join(".git/commondir")).expect("made");
        let found = protect(&all).expect("found");
        assert!(found.read.contains(&all.join(".git/config")) && found.read.contains(&all.join(".git/hooks")));
        fs::remove_dir(all.join(".git/modules")).expect("removed");
        std::os::unix::fs::symlink("/etc", all.join(".git/modules")).expect("made");
        assert!(protect(&all).is_err_and(|why| why.to_string().contains("it is a link")));
        fs::rename(all.join(".git"), all.join("elsewhere")).expect("renamed");
        std::os::unix::fs::symlink("elsewhere", all.join(".git")).expect("made");
        assert!(matches!(protect(&all), Err(SandboxError::Linked(_))));
    }
}
