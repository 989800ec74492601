//! What the daemon knows stays with it: nothing of it is in the environment of programs that it starts, or in a file or a
//! process that others can read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::lab::Lab;

const TOKEN: &str = "the-daemons-own-token";
const KEY: &str = "the-key-of-a-model";

/// A gate, the command that calls people and git had the token or the key, which every process of this user could read there.
#[test]
fn programs_that_the_daemon_starts_get_none_of_its_secrets() {
    let agents = "[agents.fixer]\nSIM\nkind = \"crew\"\nprompt = \"[[text:done]]\"\n\
                  on_idle = [{ action = \"gate\", run = \"env > $HOME/gate.env; exit 1\", attempts = 1 }, \"escalate\"]\n";
    let env = vec![
        ("COOP_AUTH_TOKEN", PathBuf::from(TOKEN)),
        ("COOP_API_KEY", PathBuf::from(KEY)),
        (
            "COOP_NOTIFY_COMMAND",
            PathBuf::from("env > \"$HOME\"/notify.new && mv \"$HOME\"/notify.new \"$HOME\"/notify.env"),
        ),
    ];
    let lab = Lab::with_env(agents, env);
    lab.ok(&["spawn", "fixer"]);
    for name in ["gate.env", "notify.env"] {
        let file = lab.home.path().join(name);
        lab.wait_until(name, || fs::read_to_string(&file).is_ok_and(|text| text.contains("COOP_AGENT_ID=fixer")));
        let seen = fs::read_to_string(&file).expect("written");
        assert!(!seen.contains(TOKEN) && !seen.contains(KEY) && seen.contains("PATH="), "{name}: {seen}");
    }
    // The daemon itself, and a command with the token, cannot be looked into.
    let daemon = lab.daemon.as_ref().expect("it runs").id();
    let mut waiting = lab.command(&["wait", "fixer", "--for", "exit", "--timeout", "60"]).spawn().expect("it runs");
    let closed = |pid: u32| fs::read(format!("/proc/{pid}/environ")).is_err();
    if !rustix::process::geteuid().is_root() {
        assert!(closed(daemon));
        lab.wait_until("the command is closed", || closed(waiting.id()));
    }
    waiting.kill().and_then(|()| waiting.wait()).expect("it is ours");
}

#[test]
fn what_a_daemon_and_its_sidecars_write_is_for_this_user_only() {
    let lab = Lab::new("[agents.fixer]\nSIM\nkind = \"crew\"\nprompt = \"[[text:done]]\"\n");
    lab.ok(&["spawn", "fixer"]);
    lab.ok(&["wait", "fixer", "--for", "idle", "--timeout", "60"]);
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    look_at(&lab.state(), &mut open, &mut seen);
    assert!(open.is_empty(), "others can read {open:?}");
    for name in
        ["fleet.db", "fleet.db-wal", "fleet.db-shm", "fleet.json", "agent-config.json", "sidecar.json", "coop.log"]
    {
        assert!(seen.iter().any(|path| path.ends_with(name)), "{name} is not there: {seen:?}");
    }
}

/// Collects the files below a folder, and those of them that others can read. Agents' own folders are theirs.
fn look_at(folder: &Path, open: &mut Vec<PathBuf>, seen: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("listed").flatten() {
        let found = entry.metadata().expect("there");
        if found.permissions().mode() & 0o077 != 0 && !found.is_symlink() {
            open.push(entry.path());
        }
        if found.is_dir() {
            look_at(&entry.path(), open, seen);
        } else {
            seen.push(entry.path());
        }
    }
}

#[test]
fn a_state_folder_that_others_can_write_in_is_refused() {
    let home = tempfile::tempdir().expect("a folder");
    let state = home.path().join("shared");
    fs::create_dir(&state).expect("made");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).expect("set");
    let (code, _, err) = crate::tool::run(crate::tool::coop(home.path()).args(["up", "--state"]).arg(&state));
    assert!(code == 1 && err.contains("other users can write") && err.contains("chmod go-w"), "{err}");
    assert_eq!(fs::read_dir(&state).expect("listed").count(), 0);
}
