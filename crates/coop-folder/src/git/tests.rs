//! Repositories that try to have their programs run.

use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;

/// A repository, a work tree of it, and a program that leaves a trace when it runs.
struct Lab {
    home: TempDir,
    repository: PathBuf,
    work_tree: PathBuf,
    trap: String,
}

impl Lab {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let at = home.path().canonicalize().expect("there");
        let (repository, work_tree) = (at.join("repository"), at.join("work"));
        fs::create_dir(&repository).expect("made");
        git_in(&repository, &["init", "--quiet", "--initial-branch", "main"]);
        fs::write(repository.join("a.txt"), "one\n").expect("written");
        git_in(&repository, &["add", "."]);
        git_in(&repository, &["commit", "--quiet", "-m", "first"]);
        git_in(&repository, &["worktree", "add", "--quiet", work_tree.to_str().expect("UTF-8")]);
        let trap = at.join("trap.sh");
        fs::write(&trap, format!("#!/bin/sh\ntouch '{}'\nexit 1\n", at.join("sprung").display())).expect("written");
        fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).expect("set");
        let trap = trap.to_str().expect("UTF-8").to_owned();
        Self { home, repository, work_tree, trap }
    }

    fn git(&self) -> Git {
        let location = Location::at(&self.repository).expect("readable").expect("a repository");
        Git::open(location, Remotes::Known).expect("opened")
    }

    fn sprung(&self) -> bool {
        self.home.path().join("sprung").exists()
    }

    /// Makes every program that a configuration can name a trap.
    fn set_traps(&self, folder: &Path) {
        for key in [
            "core.fsmonitor",
            "core.sshCommand",
            "core.gitProxy",
            "core.askPass",
            "core.editor",
            "core.pager",
            "pager.status",
            "credential.helper",
            "diff.external",
            "diff.trap.command",
            "diff.trap.textconv",
            "filter.trap.clean",
            "filter.trap.smudge",
            "gpg.program",
            "hook.trap.command",
            "remote.origin.uploadpack",
            "alias.status",
        ] {
            git_in(folder, &["config", key, &self.trap]);
        }
        git_in(folder, &["config", "hook.trap.event", "post-checkout"]);
        git_in(folder, &["config", "commit.gpgSign", "true"]);
        git_in(folder, &["config", "protocol.allow", "always"]);
        let hooks = self.home.path().join("hooks");
        fs::create_dir_all(&hooks).expect("made");
        for hook in ["post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"] {
            fs::copy(&self.trap, hooks.join(hook)).expect("copied");
        }
        git_in(folder, &["config", "core.hooksPath", hooks.to_str().expect("UTF-8")]);
    }
}

fn git_in(folder: &Path, args: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
    let plain = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"];
    let done = Command::new("git").args(identity).args(plain).args(args).current_dir(folder).output().expect("git");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn run(git: &Git, args: &[&str]) -> String {
    let done = git.command(args).output().expect("git");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("UTF-8")
}

#[test]
fn no_program_of_a_repository_runs() {
    let lab = Lab::new();
    lab.set_traps(&lab.repository);
    fs::write(lab.work_tree.join(".gitattributes"), "* filter=trap diff=trap\n").expect("written");
    fs::write(lab.work_tree.join("a.txt"), "two\n").expect("written");
    let git = lab.git();
    let work = git.work_tree(&lab.work_tree).expect("known");
    assert_eq!(run(&work, &["status", "--porcelain"]), " M a.txt\n?? .gitattributes\n");
    assert!(run(&work, &["diff", "HEAD"]).contains("+two"));
    let more = lab.home.path().join("more");
    run(&git, &["worktree", "add", "--quiet", "-b", "more", more.to_str().expect("UTF-8"), "main"]);
    assert!(more.join("a.txt").exists());
    run(&git, &["update-ref", "refs/heads/extra", "main"]);
    for url in ["ext::touch sprung", &format!("ext::{}", lab.trap), "ssh://127.0.0.1:1/x"] {
        git_in(&lab.repository, &["config", "remote.origin.url", url]);
        assert!(!lab.git().command(["fetch", "origin"]).output().expect("git").status.success(), "{url}");
    }
    assert!(!lab.sprung());
    // The same commands without the care spring them: the traps are good.
    let plain = ["status", "diff", "fetch"].map(|word| {
        let _ = fs::remove_file(lab.home.path().join("sprung"));
        Command::new("git").args([word]).current_dir(&lab.work_tree).output().expect("git");
        lab.sprung()
    });
    assert_eq!(plain, [true; 3]);
}

/// The report's p13: the agent replaces the `.git` file of its work tree by a repository of its own.
#[test]
fn a_repository_that_an_agent_puts_into_its_work_tree_is_not_asked() {
    let lab = Lab::new();
    fs::remove_file(lab.work_tree.join(".git")).expect("removed");
    git_in(&lab.work_tree, &["init", "--quiet"]);
    lab.set_traps(&lab.work_tree);
    fs::write(lab.work_tree.join(".gitattributes"), "* filter=trap\n").expect("written");
    fs::write(lab.work_tree.join("a.txt"), "two\n").expect("written");
    let work = lab.git().work_tree(&lab.work_tree).expect("known");
    assert_eq!(work.location().git_dir, lab.repository.join(".git/worktrees/work"));
    assert_eq!(run(&work, &["status", "--porcelain"]), " M a.txt\n?? .gitattributes\n");
    // The page has nothing but the folder to go by; that runs nothing either.
    let found = Location::discover(&lab.work_tree).expect("readable").expect("a repository");
    let own = Git::open(found, Remotes::Unknown).expect("opened");
    run(&own, &["status", "--porcelain"]);
    assert!(!lab.sprung());
}

/// Filters of the user's own would run in the agent's folder, where `python -m` finds the agent's modules.
#[test]
fn filters_of_the_users_own_configuration_are_off() {
    let lab = Lab::new();
    // The user's own file is named by the environment, which all tests share. An included file counts the same.
    let config = format!("[filter \"t.x\"]\n\tclean = {0}\n\tsmudge = {0}\n\trequired = true\n", lab.trap);
    fs::write(lab.home.path().join("gitconfig"), config).expect("written");
    let mut git = lab.git();
    let common = Arc::get_mut(&mut git.common).expect("ours");
    common.settings.push(("include.path".to_owned(), lab.home.path().join("gitconfig").display().to_string()));
    let off = git.programs_of_the_user().expect("listed");
    assert!(off.contains(&("filter.t.x.clean".to_owned(), String::new())), "{off:?}");
    Arc::get_mut(&mut git.common).expect("ours").settings.extend(off);
    fs::write(lab.work_tree.join(".gitattributes"), "* filter=t.x\n").expect("written");
    fs::write(lab.work_tree.join("a.txt"), "two\n").expect("written");
    let work = git.work_tree(&lab.work_tree).expect("known");
    assert_eq!(run(&work, &["config", "filter.t.x.required"]), "false\n");
    assert!(run(&work, &["status", "--porcelain"]).contains("a.txt"));
    assert!(!lab.sprung());
}

#[test]
fn coops_variables_do_not_reach_git() {
    let lab = Lab::new();
    let command = lab.git().command(["status"]);
    let kept: Vec<_> = command.get_envs().filter(|(name, value)| value.is_some() && is_coops(name)).collect();
    assert_eq!(kept, []);
}

fn is_coops(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with("COOP_")
}

#[test]
fn remotes_are_known_by_their_address_alone() {
    assert!(is_harmless("remote.a.b.url", Remotes::Known) && !is_harmless("remote.a.b.url", Remotes::Unknown));
    for name in [
        "remote.a.uploadpack",
        "remote.a.receivepack",
        "remote.a.vcs",
        "remote.a.proxy",
        "core.sshcommand",
        "core.hookspath",
        "core.worktree",
        "core.attributesfile",
        "include.path",
        "includeif.x.path",
        "extensions.worktreeconfig",
        "url.ext::x.insteadof",
        "remote.url",
        "branch.x.coop.made.value",
    ] {
        assert!(!is_harmless(name, Remotes::Known), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_value_is_written_as_git_reads_it(name in "[^\\x00\\n]{1,12}", value in "[^\\x00\\r]{0,20}") {
        let key = format!("remote.{name}.url");
        let again = harmless(&written(&key, &value), Remotes::Known).expect("git reads it");
        prop_assert_eq!(again, format!("[core]\n\tbare = false\n{}", written(&key, &value)));
    }
}
