//! What a repository has as git's hooks runs when workspaces come and go, and learns no secret of the daemon's.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::tool;
use crate::workspaces::{command, git};

const TOKEN: &str = "a-token-that-nobody-else-may-know";
const PASSWORD: &str = "a-password-that-nobody-else-may-know";

fn with_token(home: &Path, args: &[&str]) -> Command {
    let mut command = command(home, args);
    command.env("COOP_AUTH_TOKEN", TOKEN);
    command
}

/// It is ended with the test, however that ends.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn git_hooks_run_without_the_daemons_secrets() {
    let home = tempfile::Builder::new().prefix("coop-w-").tempdir().expect("a folder");
    let mut daemon = with_token(home.path(), &["up"]);
    daemon.env("COOP_STORE_PASSWORD", PASSWORD).env("PLAIN", "seen").stdout(Stdio::piped());
    let mut daemon = Daemon(daemon.spawn().expect("it runs"));
    let mut lines = BufReader::new(daemon.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "ready"));
    let repository = home.path().join("one");
    fs::create_dir(&repository).expect("made");
    fs::write(repository.join("file"), "x").expect("written");
    git(&repository, &["init", "--quiet", "--initial-branch", "main"]);
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "-m", "first"]);
    let seen = home.path().join("seen");
    for name in ["post-checkout", "reference-transaction"] {
        let hook = repository.join(".git/hooks").join(name);
        fs::create_dir_all(hook.parent().expect("a folder")).expect("made");
        tool::write_program(&hook, &format!("#!/bin/sh\n{{ echo HOOK={name}; env; }} >> '{}'\n", seen.display()));
    }
    let run = |args: &[&str]| {
        let (code, _, err) = tool::run(with_token(home.path(), args).current_dir(&repository));
        assert_eq!(code, 0, "{args:?}: {err}");
    };
    run(&["ws", "open"]);
    run(&["ws", "create", "w"]);
    let made = fs::read_to_string(&seen).expect("hooks ran");
    assert!(made.contains("HOOK=post-checkout") && made.contains("HOOK=reference-transaction"), "{made}");
    fs::remove_file(&seen).expect("removed");
    run(&["ws", "rm", "w"]);
    let removed = fs::read_to_string(&seen).expect("hooks ran");
    assert!(removed.contains("HOOK=reference-transaction"), "{removed}");
    for told in [made, removed] {
        assert!(told.contains("PLAIN=seen"), "it is the daemon's environment: {told}");
        assert!(!told.contains(TOKEN) && !told.contains(PASSWORD), "{told}");
    }
    run(&["down"]);
    tool::wait_for(&mut daemon.0);
}
