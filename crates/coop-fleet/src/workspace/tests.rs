//! Workspaces of real repositories.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// A state folder, repositories beside it, and something that is none of our business.
struct Lab {
    home: tempfile::TempDir,
    workspaces: Workspaces,
}

/// Nobody works there.
struct Empty;

impl Tenants for Empty {
    async fn keepers(&self, _: &Path) -> Vec<u32> {
        Vec::new()
    }

    async fn leave(&self, _: &Path) -> Result<(), String> {
        Ok(())
    }
}

impl Lab {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        fs::create_dir(home.path().join("others")).expect("made");
        fs::write(home.path().join("others/precious"), "keep me").expect("written");
        let workspaces = Workspaces::new(&home.path().join("state")).expect("a folder");
        Self { home, workspaces }
    }

    /// Makes a repository with two commits.
    fn repository(&self, name: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::create_dir(&path).expect("made");
        git_in(&path, &["init", "--quiet", "--initial-branch", "main"]);
        commit(&path, "a.txt", "one");
        commit(&path, "b/c.txt", "two");
        path.canonicalize().expect("there")
    }

    async fn project(&self, name: &str) -> Project {
        let path = self.repository(name);
        self.workspaces.open(&path).await.expect("a project")
    }

    async fn create(&self, project: &Project, name: &str) -> Workspace {
        self.workspaces.create(project, &named(name)).await.expect("a workspace")
    }

    /// Writes one of coop's own notes down, or removes it, behind coop's back.
    fn note(&self, project: &Project, workspace: &Workspace, key: &str, value: Option<&str>) {
        let file = self.workspaces.folder(&project.id).join("notes.json");
        let mut notes: serde_json::Value = serde_json::from_slice(&fs::read(&file).expect("read")).expect("JSON");
        let own = notes[workspace.name.as_str()].as_object_mut().expect("notes");
        match value {
            Some(value) => drop(own.insert(key.to_owned(), value.into())),
            None => drop(own.remove(key)),
        }
        fs::write(file, notes.to_string()).expect("written");
    }

    async fn delete(&self, workspace: &Workspace) -> Result<Deleted, DeleteError> {
        self.delete_so(workspace, Deletion::default()).await
    }

    async fn delete_so(&self, workspace: &Workspace, deletion: Deletion) -> Result<Deleted, DeleteError> {
        self.workspaces.delete(&workspace.path, deletion, &Empty, &|_| {}).await
    }
}

fn named(name: &str) -> NewWorkspace {
    NewWorkspace { name: WorkspaceName::new(name).expect("a name"), base: None, tracking: None }
}

fn git_in(folder: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").args(identity).args(args).current_dir(folder).output().expect("git");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn commit(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
    git_in(folder, &["add", "."]);
    git_in(folder, &["commit", "--quiet", "-m", text]);
}

/// All files below a folder with what is in them, but for those in git's own folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("readable").flatten() {
            let path = entry.path();
            let kind = entry.file_type().expect("there");
            if kind.is_symlink() {
                all.insert(path.clone(), fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes());
            } else if kind.is_dir() {
                all.insert(path.clone(), Vec::new());
                if entry.file_name() != ".git" {
                    folders.push(path);
                }
            } else {
                all.insert(path.clone(), fs::read(&path).expect("readable"));
            }
        }
    }
    all
}

/// A process that works in a folder.
struct Squatter(Child);

impl Squatter {
    fn new(folder: &Path, script: &str) -> Self {
        let mut child = Command::new("sh");
        child.args(["-c", &format!("{script} echo ready; exec sleep 600")]).current_dir(folder).stdout(Stdio::piped());
        let mut child = child.spawn().expect("it runs");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
        Self(child)
    }
}

impl Drop for Squatter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn two_repositories_with_five_workspaces_each_and_deleting_one_touches_no_other() {
    let lab = Lab::new();
    let projects = [lab.project("one").await, lab.project("two").await];
    assert_ne!(projects[0].id, projects[1].id);
    let mut all = Vec::new();
    for project in &projects {
        for number in 0..5 {
            all.push(lab.create(project, &format!("feature/n{number}")).await);
        }
        assert_eq!(lab.workspaces.workspaces(project).await.expect("a list").len(), 5);
    }
    // What leads out of a workspace is not followed when it goes.
    for workspace in &all {
        assert_eq!(workspace.metadata.get("base").map(String::as_str), Some("main"));
        symlink(lab.home.path().join("others"), workspace.path.join("out")).expect("a link");
        fs::write(workspace.path.join(".gitignore"), "out\nbuild\n.gitignore\n").expect("written");
        fs::create_dir_all(workspace.path.join("build/x")).expect("made");
    }
    for workspace in &all {
        let rest = |lab: &Lab| {
            let mut rest = contents(lab.home.path());
            // What coop noted about it goes with it.
            rest.retain(|path, _| !path.starts_with(&workspace.path) && !path.ends_with("notes.json"));
            rest
        };
        let branches = |at: &Path| git_in(at, &["for-each-ref", "--format=%(refname) %(objectname)"]);
        let before = (rest(&lab), projects.clone().map(|project| branches(&project.path)));
        let deleted = lab.delete(workspace).await.expect("deleted");
        assert_eq!(deleted, Deleted { was_there: true, branch_deleted: true });
        assert!(!workspace.path.exists());
        let gone = format!("refs/heads/{} ", workspace.name);
        let (files, refs) = before;
        assert_eq!(rest(&lab), files);
        for (project, before) in projects.iter().zip(refs) {
            let is_its = project.id == workspace.project_id;
            let expected: Vec<_> = before.lines().filter(|line| !is_its || !line.starts_with(&gone)).collect();
            assert_eq!(branches(&project.path).lines().collect::<Vec<_>>(), expected);
        }
    }
    for project in &projects {
        assert_eq!(lab.workspaces.workspaces(project).await.expect("a list"), []);
        assert_eq!(git_in(&project.path, &["worktree", "list"]).lines().count(), 1);
        let config = fs::read_to_string(project.path.join(".git/config")).expect("readable");
        assert!(!config.contains("branch"), "{config}");
        lab.workspaces.close(project).await.expect("closed");
    }
    assert_eq!(fs::read_dir(lab.home.path().join("state/projects")).expect("readable").count(), 0);
}

#[tokio::test]
async fn what_would_be_lost_is_not_deleted() {
    let lab = Lab::new();
    let project = lab.project("one").await;
    let workspace = lab.create(&project, "work").await;
    let untracked = workspace.path.join("new");
    fs::write(&untracked, "x").expect("written");
    // Also if somebody does not want to see it.
    git_in(&project.path, &["config", "status.showUntrackedFiles", "no"]);
    assert!(matches!(lab.delete(&workspace).await, Err(DeleteError::Dirty(_))));
    fs::remove_file(untracked).expect("removed");
    fs::write(workspace.path.join("a.txt"), "changed").expect("written");
    assert!(matches!(lab.delete(&workspace).await, Err(DeleteError::Dirty(_))));
    commit(&workspace.path, "a.txt", "changed");
    let condition = lab.workspaces.at(&workspace.path).await.expect("there").1;
    let condition = lab.workspaces.condition(&condition, Freshness::AsKnown).await.expect("known");
    assert_eq!(condition, Condition { is_dirty: false, unmerged_commits: 1 });
    let refused = lab.delete(&workspace).await.expect_err("unmerged");
    assert!(matches!(&refused, DeleteError::Unmerged { count: 1, base, .. } if base == "main"), "{refused}");
    // The same change in the base is as good.
    git_in(&project.path, &["cherry-pick", "work"]);
    assert!(lab.delete(&workspace).await.expect("merged").branch_deleted);
    assert!(!workspace.path.exists());
}

#[tokio::test]
async fn a_branch_can_be_kept_and_a_single_commit_is_not_lost() {
    let lab = Lab::new();
    let project = lab.project("one").await;
    let workspace = lab.create(&project, "work").await;
    commit(&workspace.path, "a.txt", "new");
    let keep = Deletion { keep_branch: true, ..Deletion::default() };
    git_in(&workspace.path, &["checkout", "--quiet", "--detach"]);
    commit(&workspace.path, "a.txt", "on no branch");
    assert!(matches!(lab.delete_so(&workspace, keep).await, Err(DeleteError::Unmerged { .. })));
    git_in(&workspace.path, &["checkout", "--quiet", "work"]);
    let deleted = lab.delete_so(&workspace, keep).await.expect("deleted");
    assert_eq!(deleted, Deleted { was_there: true, branch_deleted: false });
    assert!(git_in(&project.path, &["log", "-1", "--format=%s", "work"]).contains("new"));
    // One that was there before belongs to somebody.
    let again = lab.create(&project, "work").await;
    git_in(&project.path, &["merge", "--quiet", "work"]);
    assert!(!lab.delete(&again).await.expect("deleted").branch_deleted);
    git_in(&project.path, &["rev-parse", "--verify", "work"]);
    // What may be lost is lost.
    let lost = lab.create(&project, "lost").await;
    commit(&lost.path, "a.txt", "lost");
    fs::write(lost.path.join("a.txt"), "dirty").expect("written");
    let force = Deletion { gates: Gates::Ignored, ..Deletion::default() };
    assert!(lab.delete_so(&lost, force).await.expect("deleted").branch_deleted);
}

#[tokio::test]
async fn when_git_cannot_tell_nothing_is_deleted() {
    let lab = Lab::new();
    let project = lab.project("one").await;
    type Breakage = (&'static str, fn(&Lab, &Project, &Workspace));
    let breakages: [Breakage; 4] = [
        ("the index is damaged", |_, project, workspace| {
            let folder = format!(".git/worktrees/{}/index", workspace.name);
            fs::write(project.path.join(folder), "not an index").expect("written");
        }),
        ("the base is gone", |lab, project, workspace| {
            lab.note(project, workspace, "base", Some("no-such-branch"));
        }),
        ("the base is not known", |lab, project, workspace| lab.note(project, workspace, "base", None)),
        ("the repository's folder is closed", |_, project, _| {
            fs::rename(project.path.join(".git/HEAD"), project.path.join(".git/HEAD.away")).expect("moved");
        }),
    ];
    for (number, (what, break_it)) in breakages.into_iter().enumerate() {
        let workspace = lab.create(&project, &format!("w{number}")).await;
        let before = contents(&workspace.path);
        break_it(&lab, &project, &workspace);
        assert!(lab.delete(&workspace).await.is_err(), "{what}");
        assert_eq!(contents(&workspace.path), before, "{what}");
    }
    assert!(lab.workspaces.sweep(&project).await.is_err(), "nobody can tell whose folders they are");
}

#[tokio::test]
async fn processes_that_work_there_are_named_and_ended_only_if_that_was_asked() {
    let lab = Lab::new();
    let project = lab.project("one").await;
    let workspace = lab.create(&project, "work").await;
    let other = lab.create(&project, "work2").await;
    let mut inside = Squatter::new(&workspace.path.join("b"), "trap '' TERM;");
    let mut beside = Squatter::new(&other.path, "");
    match lab.delete(&workspace).await {
        Err(DeleteError::Blocked { blockers, .. }) => assert_eq!(blockers[0].pid, inside.0.id()),
        other => panic!("{other:?}"),
    }
    assert!(inside.0.try_wait().expect("ours").is_none() && workspace.path.join("a.txt").exists());
    let end = Deletion { intruders: Intruders::End, ..Deletion::default() };
    // Whoever is told and has not waited yet has ended all the same.
    lab.delete_so(&workspace, end).await.expect("deleted");
    assert!(inside.0.try_wait().expect("ours").is_some());
    assert!(beside.0.try_wait().expect("ours").is_none(), "another's process was ended");
}

/// An agent that ends, and leaves a process for a moment.
struct Slow;

impl Tenants for Slow {
    async fn keepers(&self, _: &Path) -> Vec<u32> {
        Vec::new()
    }

    async fn leave(&self, workspace: &Path) -> Result<(), String> {
        let left = Command::new("sleep").arg("0.3").current_dir(workspace).spawn().expect("it runs");
        drop(left);
        Ok(())
    }
}

#[tokio::test]
async fn what_an_agent_leaves_for_a_moment_is_waited_for() {
    let lab = Lab::new();
    let project = lab.project("one").await;
    let workspace = lab.create(&project, "work").await;
    let deleted = lab.workspaces.delete(&workspace.path, Deletion::default(), &Slow, &|_| {}).await;
    assert!(deleted.expect("deleted").was_there);
}

#[tokio::test]
async fn deleting_again_and_at_the_same_time_is_fine_and_every_step_is_told() {
    let lab = Lab::new();
    let project = lab.project("one").await;
    let workspace = lab.create(&project, "work").await;
    let told = Mutex::new(Vec::new());
    let tell = |progress: &Progress| told.lock().expect("ours").push(progress.clone());
    let one = lab.workspaces.delete(&workspace.path, Deletion::default(), &Empty, &tell);
    let (one, other) = tokio::join!(one, lab.delete(&workspace));
    let mut there = [one.expect("deleted").was_there, other.expect("deleted").was_there];
    there.sort_unstable();
    assert_eq!(there, [false, true]);
    assert!(!lab.delete(&workspace).await.expect("it is gone").was_there);
    let told = told.into_inner().expect("ours");
    assert_eq!(told.len(), 10, "each of five steps begins and ends");
    assert!(told.last().expect("told").0.iter().all(|(_, state)| *state == StepState::Done));
    let json = serde_json::to_value(&told[0]).expect("JSON");
    assert_eq!(json[0], serde_json::json!(["check-gates", "in-progress"]));
}

#[tokio::test]
async fn a_deletion_that_was_cut_off_is_finished_and_one_that_never_began_is_undone() {
    let lab = Lab::new();
    let project = lab.project("one").await;
    let (moved, whole) = (lab.create(&project, "a/moved").await, lab.create(&project, "whole").await);
    for workspace in [&moved, &whole] {
        lab.note(&project, workspace, "closing", Some(&workspace.head));
    }
    let trash = lab.home.path().join("state/projects").join(&project.id).join("trash/0");
    fs::rename(&moved.path, &trash).expect("moved");
    lab.workspaces.open(&project.path).await.expect("opened");
    assert!(!trash.exists());
    let left = lab.workspaces.workspaces(&project).await.expect("a list");
    assert_eq!(left.iter().map(|left| left.name.as_str()).collect::<Vec<_>>(), ["whole"]);
    assert!(!left[0].metadata.contains_key("closing"));
    assert!(!git_in(&project.path, &["branch", "--list", "a/moved"]).contains("moved"));
}

#[tokio::test]
async fn a_branch_that_moved_on_meanwhile_stays() {
    let lab = Lab::new();
    let project = lab.project("one").await;
    let workspace = lab.create(&project, "work").await;
    lab.note(&project, &workspace, "closing", Some(&workspace.head));
    commit(&workspace.path, "a.txt", "a moment later");
    let trash = lab.home.path().join("state/projects").join(&project.id).join("trash/0");
    fs::rename(&workspace.path, trash).expect("moved");
    lab.workspaces.open(&project.path).await.expect("opened");
    assert!(git_in(&project.path, &["log", "-1", "--format=%s", "work"]).contains("a moment later"));
}

#[tokio::test]
async fn a_sweep_removes_folders_of_nobody_and_follows_nothing() {
    let lab = Lab::new();
    let project = lab.project("one").await;
    let workspace = lab.create(&project, "work").await;
    let root = workspace.path.parent().expect("a folder").to_owned();
    fs::create_dir_all(root.join("orphan/deep")).expect("made");
    symlink(lab.home.path().join("others"), root.join("orphan/deep/out")).expect("a link");
    symlink(lab.home.path().join("others"), root.join("link")).expect("a link");
    fs::write(root.join("file"), "x").expect("written");
    // A worktree of somebody else's that is not there right now is not ours to forget.
    let away = lab.home.path().join("away");
    git_in(&project.path, &["worktree", "add", "--quiet", away.to_str().expect("UTF-8")]);
    fs::rename(&away, lab.home.path().join("unplugged")).expect("moved");
    let swept = lab.workspaces.sweep(&project).await.expect("swept");
    assert_eq!(swept.removed, [root.join("orphan")]);
    let mut left: Vec<_> = swept.left.into_iter().map(|(path, _)| path).collect();
    left.sort();
    assert_eq!(left, [root.join("file"), root.join("link")]);
    assert_eq!(fs::read_to_string(lab.home.path().join("others/precious")).expect("there"), "keep me");
    assert!(workspace.path.join("a.txt").exists());
    lab.delete(&workspace).await.expect("deleted");
    assert!(git_in(&project.path, &["worktree", "list"]).contains("away"));
}

#[tokio::test]
async fn kept_files_are_copied_over_nothing_and_through_no_link() {
    let lab = Lab::new();
    let path = lab.repository("one");
    commit(&path, ".keepfiles", "# secrets\n.env\nlocal/\nshared/\n");
    commit(&path, ".gitignore", ".env\nlocal\n");
    for (name, text) in [(".env", "KEY=1"), ("local/deep/x", "x"), ("other", "no")] {
        fs::create_dir_all(path.join(name).parent().expect("a folder")).expect("made");
        fs::write(path.join(name), text).expect("written");
    }
    fs::set_permissions(path.join(".env"), fs::Permissions::from_mode(0o600)).expect("set");
    // On this branch a link stands where a folder is to be made.
    git_in(&path, &["checkout", "--quiet", "-b", "trap"]);
    symlink(lab.home.path().join("others"), path.join("shared")).expect("a link");
    git_in(&path, &["add", "shared"]);
    git_in(&path, &["commit", "--quiet", "-m", "trap"]);
    git_in(&path, &["checkout", "--quiet", "main"]);
    fs::create_dir(path.join("shared")).expect("made");
    fs::write(path.join("shared/precious"), "overwritten").expect("written");
    let project = lab.workspaces.open(&path).await.expect("a project");
    let new = NewWorkspace { base: Some("trap".into()), ..named("work") };
    let workspace = lab.workspaces.create(&project, &new).await.expect("a workspace");
    let read = |name: &str| fs::read_to_string(workspace.path.join(name)).ok();
    assert_eq!(read(".env").as_deref(), Some("KEY=1"));
    assert_eq!(fs::metadata(workspace.path.join(".env")).expect("there").permissions().mode() & 0o777, 0o600);
    assert_eq!((read("local/deep/x").as_deref(), read("other")), (Some("x"), None));
    assert_eq!(fs::read_to_string(lab.home.path().join("others/precious")).expect("there"), "keep me");
}

#[tokio::test]
async fn branches_are_used_followed_or_refused_and_a_failure_leaves_nothing() {
    let lab = Lab::new();
    let upstream = lab.repository("upstream");
    git_in(&upstream, &["branch", "theirs"]);
    git_in(lab.home.path(), &["clone", "--quiet", "upstream", "mine"]);
    let project = lab.workspaces.open(&lab.home.path().join("mine")).await.expect("a project");
    assert_eq!(lab.workspaces.default_base(&project).await.expect("one"), "origin/main");
    let theirs = NewWorkspace { tracking: Some("origin/theirs".into()), ..named("theirs") };
    let theirs = lab.workspaces.create(&project, &theirs).await.expect("a workspace");
    assert_eq!(git_in(&theirs.path, &["rev-parse", "--abbrev-ref", "@{upstream}"]).trim(), "origin/theirs");
    let before = (contents(lab.home.path()), git_in(&project.path, &["for-each-ref"]));
    let wrong = [
        named("main"),
        named("theirs"),
        NewWorkspace { base: Some("nothing".into()), ..named("w") },
        NewWorkspace { base: Some("--upload-pack=x".into()), ..named("w") },
        NewWorkspace { tracking: Some("origin/nothing".into()), ..named("w") },
        NewWorkspace { tracking: Some("theirs".into()), ..named("w") },
        named("w.lock"),
        named("main/below"),
    ];
    for new in wrong {
        assert!(lab.workspaces.create(&project, &new).await.is_err(), "{new:?}");
    }
    // Something fails after all was made.
    let state = lab.workspaces.folder(&project.id).join("notes.json.new");
    fs::create_dir(&state).expect("made");
    assert!(lab.workspaces.create(&project, &named("w")).await.is_err());
    fs::remove_dir(&state).expect("removed");
    assert_eq!((contents(lab.home.path()), git_in(&project.path, &["for-each-ref"])), before);
    assert!(lab.workspaces.open(&lab.home.path().join("others")).await.is_err());
    // From within a workspace it is the same project.
    assert_eq!(lab.workspaces.open(&theirs.path).await.expect("a project"), project);
}

#[test]
fn notes_are_kept_as_they_are_told() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (lab, project, workspaces) = runtime.block_on(async {
        let lab = Lab::new();
        let project = lab.project("one").await;
        let workspaces = [lab.create(&project, "one").await, lab.create(&project, "one.2").await];
        (lab, project, workspaces)
    });
    let key = "[a-zA-Z]([a-zA-Z0-9-]{0,5}[a-zA-Z0-9])?(\\.[a-z][a-zA-Z0-9]{0,4}){0,2}";
    let note = (0..2_usize, key, prop::option::of("[^\\x00]{0,40}"));
    let config = ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(script in prop::collection::vec(note, 1..6))| {
        runtime.block_on(async {
            let mut expected = lab.workspaces.workspaces(&project).await.expect("a list");
            for (which, key, value) in script {
                let Ok(key) = Key::of_others(key) else { continue };
                lab.workspaces.note(&workspaces[which], &key, value.as_deref()).await.expect("noted");
                let at = expected.iter_mut().find(|known| known.name == workspaces[which].name).expect("there");
                match value {
                    Some(value) => drop(at.metadata.insert(key.as_str().to_owned(), value)),
                    None => drop(at.metadata.remove(key.as_str())),
                }
            }
            assert_eq!(lab.workspaces.workspaces(&project).await.expect("a list"), expected);
        });
    });
}

/// The bug this keeps away: while one workspace was made, its worktree was found half made, git gave up on that, and nothing could be
/// started in another.
#[tokio::test]
async fn a_worktree_that_is_being_made_is_waited_for() {
    let lab = Lab::new();
    let project = lab.project("one").await;
    let half = project.path.join(".git/worktrees/half");
    fs::create_dir_all(&half).expect("made");
    for (name, text) in [("gitdir", "/nowhere/.git\n"), ("HEAD", "ref: refs/heads/half\n"), ("commondir", "")] {
        fs::write(half.join(name), text).expect("written");
    }
    let made = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        fs::write(half.join("commondir"), "../..\n").expect("written");
    };
    let (found, ()) = tokio::join!(lab.workspaces.workspaces(&project), made);
    assert!(found.is_ok(), "{found:?}");
}

/// A program that leaves a trace in a file when it runs.
fn trap(lab: &Lab) -> (String, PathBuf) {
    let (program, trace) = (lab.home.path().join("trap.sh"), lab.home.path().join("sprung"));
    fs::write(&program, format!("#!/bin/sh\ntouch '{}'\nexit 1\n", trace.display())).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
    (program.to_str().expect("UTF-8").to_owned(), trace)
}

/// What an agent did in the review: it replaced the `.git` file of its workspace by a repository of its own, whose filter ran when
/// somebody looked. The same with the repository's own configuration, its hooks, and a submodule of the agent's.
#[tokio::test]
async fn no_program_that_an_agent_left_is_run_by_looking_fetching_or_deleting() {
    let lab = Lab::new();
    let upstream = lab.repository("upstream");
    git_in(lab.home.path(), &["clone", "--quiet", upstream.to_str().expect("UTF-8"), "mine"]);
    let project = lab.workspaces.open(&lab.home.path().join("mine")).await.expect("a project");
    let workspace = lab.create(&project, "work").await;
    let (program, trace) = trap(&lab);
    let hooks = lab.home.path().join("hooks");
    fs::create_dir(&hooks).expect("made");
    for name in ["post-checkout", "reference-transaction", "post-index-change"] {
        fs::copy(&program, hooks.join(name)).expect("copied");
    }
    let spoil = |folder: &Path| {
        let programs = ["core.fsmonitor", "core.sshCommand", "credential.helper", "remote.origin.uploadpack"];
        for key in programs.into_iter().chain(["filter.x.clean", "filter.x.smudge", "diff.external"]) {
            git_in(folder, &["config", key, &program]);
        }
        git_in(folder, &["config", "core.hooksPath", hooks.to_str().expect("UTF-8")]);
    };
    // A submodule that the agent made, with a configuration of its own.
    let sub = workspace.path.join("sub");
    fs::create_dir(&sub).expect("made");
    git_in(&sub, &["init", "--quiet"]);
    commit(&sub, ".gitattributes", "* filter=x\n");
    git_in(&workspace.path, &["add", "sub"]);
    commit(&workspace.path, ".gitattributes", "* filter=x\n");
    fs::remove_file(workspace.path.join(".git")).expect("removed");
    git_in(&workspace.path, &["init", "--quiet"]);
    for folder in [&sub, &workspace.path, &project.path] {
        spoil(folder);
    }
    let _ = fs::remove_file(&trace);
    // Git looks into files whose time is another than it knows.
    for name in ["a.txt", "sub/.gitattributes"] {
        let file = fs::File::options().append(true).open(workspace.path.join(name)).expect("open");
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("set");
    }
    let (_, known) = lab.workspaces.at(&workspace.path).await.expect("there");
    let condition = lab.workspaces.condition(&known, Freshness::Fetched).await.expect("known");
    assert_eq!(condition, Condition { is_dirty: false, unmerged_commits: 1 });
    fs::write(sub.join(".gitattributes"), "changed").expect("written");
    let condition = lab.workspaces.condition(&known, Freshness::AsKnown).await.expect("known");
    assert!(condition.is_dirty, "what a submodule has is seen");
    assert_eq!(lab.workspaces.open(&workspace.path).await.expect("opened"), project);
    lab.create(&project, "another").await;
    assert!(lab.delete(&workspace).await.is_err());
    let force = Deletion { gates: Gates::Ignored, ..Deletion::default() };
    lab.delete_so(&workspace, force).await.expect("deleted");
    assert!(!trace.exists());
}

/// Agents write to the repository's configuration. What stands there does not decide what is deleted or resumed.
#[tokio::test]
async fn coops_own_notes_in_a_repository_count_for_nothing() {
    let lab = Lab::new();
    let project = lab.project("one").await;
    let workspace = lab.create(&project, "work").await;
    git_in(&project.path, &["branch", "precious"]);
    let precious = git_in(&project.path, &["rev-parse", "precious"]);
    for (name, key, value) in [
        ("precious", "closing", precious.trim()),
        ("precious", "made", "branch"),
        ("work", "hibernated", r#"["secretproject"]"#),
        ("work", "base", "work"),
        ("work", "tag", "seen"),
    ] {
        git_in(&project.path, &["config", &format!("branch.{name}.coop.{key}.value"), value]);
    }
    lab.workspaces.open(&project.path).await.expect("opened");
    git_in(&project.path, &["rev-parse", "--verify", "precious"]);
    let (_, known) = lab.workspaces.at(&workspace.path).await.expect("there");
    assert!(!known.is_hibernated());
    let expected = [("base", "main"), ("made", "branch"), ("tag", "seen")];
    assert_eq!(known.metadata, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
}

#[tokio::test]
async fn a_kept_file_that_became_a_link_or_a_pipe_is_not_copied() {
    let lab = Lab::new();
    let path = lab.repository("one");
    commit(&path, ".gitignore", "kept\n");
    fs::create_dir(path.join("kept")).expect("made");
    fs::write(path.join("kept/x"), "x").expect("written");
    // The list of what is kept is itself a link.
    fs::write(lab.home.path().join("patterns"), "kept/\n").expect("written");
    symlink(lab.home.path().join("patterns"), path.join(".keepfiles")).expect("a link");
    let project = lab.workspaces.open(&path).await.expect("a project");
    let workspace = lab.create(&project, "one").await;
    assert!(!workspace.path.join("kept").exists());
    fs::remove_file(path.join(".keepfiles")).expect("removed");
    fs::write(path.join(".keepfiles"), "kept/\n").expect("written");
    assert!(lab.create(&project, "two").await.path.join("kept/x").exists());
}
