//! What a program in a sandbox tries, and does not get.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::daemon::lab::{Lab, is};
use crate::driven::{Agent, Runtime, Which};
use crate::tool::{self, Sidecar, coop, wait_until};

/// Folders that each sandbox has for itself.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Tells whether there can be a sandbox here, or reports that there cannot.
fn is_possible() -> bool {
    if TEMPORARY.iter().any(|folder| Path::new(env!("CARGO_TARGET_TMPDIR")).starts_with(folder)) {
        coop_testkit::skip("the repository is in a folder for temporary files, and a sandbox hides those");
        return false;
    }
    let made = Command::new("bwrap").args(["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "true"]).output();
    let is_possible = made.is_ok_and(|output| output.status.success());
    if !is_possible {
        coop_testkit::skip("bubblewrap makes no sandbox; install it, and the kernel must allow user namespaces");
    }
    is_possible
}

/// Starts a script in a sandbox, in the folder `work` of its own. Beside it are a home with secrets and another file. None of it is
/// in the folder for temporary files, of which the script has another.
fn sandboxed(script: &str, more: &[&str]) -> (Sidecar, tempfile::TempDir) {
    let all = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (work, home) = (all.path().join("work"), all.path().join("home"));
    for folder in [&work, &home.join(".ssh"), &home.join("state/coop")] {
        fs::create_dir_all(folder).expect("made");
    }
    for file in ["home/.ssh/id", "home/state/coop/store", "home/plain", "beside"] {
        fs::write(all.path().join(file), "secret").expect("written");
    }
    fs::write(work.join("script.sh"), script).expect("written");
    fs::create_dir_all(work.join("deep/hidden")).expect("made");
    fs::write(work.join("deep/hidden/f"), "secret").expect("written");
    for words in [&["init", "-q"][..], &["config", "user.name", "a"], &["config", "user.email", "a@b"]] {
        let made = Command::new("git").args(words).current_dir(&work).status().expect("git runs");
        assert!(made.success());
    }
    let words = [&["--sandbox"], more, &["--", "bash", "script.sh"]].concat();
    let sidecar = Sidecar::with(&words, |command| {
        command.current_dir(&work).env("HOME", &home).env("XDG_STATE_HOME", home.join("state"));
        command.env("COOP_API_KEY", "a-secret-token").env("COOP_STORE", "a-secret-token")
    });
    (sidecar, all)
}

fn told(all: &Path) -> String {
    let path = all.join("work/told");
    wait_until("the script ends", || path.exists());
    fs::read_to_string(path).expect("it is there")
}

/// Waits for what it attacks, and writes what worked to `told`.
const ATTACK: &str = r#"
until [ -e target ]; do sleep 0.01; done
. ./target
try() { if "${@:2}" >/dev/null 2>&1; then echo "$1"; fi; }
write() { echo x > "$1"; }
{
    try "(read beside)" cat "$BESIDE"
    try "write beside" write "$BESIDE"
    try "write to home" write "$HOME/.bashrc"
    try "(read in home)" cat "$HOME/plain"
    try "write to etc" write /etc/coop-was-here
    try "read the store" cat "$HOME/state/coop/store"
    try "write to the store" write "$HOME/state/coop/new"
    try "read a key" cat "$HOME/.ssh/id"
    try "see the sidecar" ls "/proc/$SIDECAR"
    try "read its environment" cat "/proc/$SIDECAR/environ"
    try "signal it" kill -0 "$SIDECAR"
    try "signal everything" kill -CONT -1
    try "find its socket" ls "$SOCKET"
    try "connect to it" curl -s --unix-socket "$SOCKET" http://localhost/api/v1/health
    try "write beside its socket" ln -sfn "$HOME" "$(dirname "$COOP_SOCKET")/tmp"
    try "write where git finds programs" write .git/config
    try "mount" mount -t tmpfs none /mnt
    try "unmount" umount "$HOME/.ssh"
    try "mount in namespaces of its own" unshare -Urm umount "$HOME/.ssh"
    try "write the hooks" write .git/hooks/pre-commit
    try "write git's configuration" git config alias.x '!id'
    try "replace the repository" mv .git other
    try "find a token" grep -rqs a-secret-token /proc/[0-9]*/environ /proc/[0-9]*/cmdline
    try "change the kernel" write /proc/sys/kernel/core_pattern
    try "trigger the kernel" write /proc/sysrq-trigger
    try "rename a folder above what is hidden" mv "$PWD/deep" "$PWD/other"
    try "read what is hidden in its folder" cat deep/hidden/f
    try "write git's modules" write .git/modules/x
    try "read files by its own socket" curl -sf --unix-socket "$COOP_SOCKET" http://localhost/api/v1/changes
    try "read files by the port" curl -sf "http://127.0.0.1:$PORT/api/v1/changes"
    try "steer by the port" curl -sf -d '{"keys":["a"]}' "http://127.0.0.1:$PORT/api/v1/input/keys"
    try "find another agent's /tmp" ls /tmp/coop-tmp-*
    try "steer by its own socket" \
        curl -sf --unix-socket "$COOP_SOCKET" -d '{"keys":["a"]}' http://localhost/api/v1/input/keys
    try "(look by its own socket)" curl -sf --unix-socket "$COOP_SOCKET" http://localhost/api/v1/health
    try "(commit)" git commit -q --allow-empty -m x
    try "(write to its folder)" write mine
    try "(write to a temporary file)" write /tmp/mine
} >t
mv t told
sleep 1000
"#;

#[test]
fn a_program_in_a_sandbox_touches_nothing_but_its_folder() {
    if !is_possible() {
        return;
    }
    let (sidecar, all) = sandboxed(ATTACK, &["--port", "0", "--sandbox-hide", "deep/hidden"]);
    let work = all.path().join("work");
    let beside = all.path().join("beside");
    let (id, socket) = (sidecar.child.id(), sidecar.socket());
    let port = sidecar.line("http").rsplit(':').next().expect("a port").to_owned();
    let target = format!("SIDECAR={id} SOCKET={} BESIDE={} PORT={port}", socket.display(), beside.display());
    fs::write(work.join("t"), target).and_then(|()| fs::rename(work.join("t"), work.join("target"))).expect("written");
    let worked = told(all.path());
    let expected = "(read beside)\n(read in home)\n(look by its own socket)\n(commit)\n(write to its folder)\n(write to a temporary file)\n";
    assert_eq!(worked, expected, "what is not in parentheses must not work");
    assert!(!Path::new("/tmp/mine").exists() && work.join("mine").exists());
}

/// Ctrl-C goes to every process of the terminal's foreground group. Bubblewrap must not be one of them.
#[test]
fn interrupts_and_signals_reach_the_program_and_leave_the_sandbox() {
    if !is_possible() {
        return;
    }
    let script = "trap 'echo INT >>signals' INT; trap 'echo TERM >>signals' TERM; touch told\n\
                  while :; do sleep 0.05; done";
    let (sidecar, all) = sandboxed(script, &[]);
    told(all.path());
    let signals = || fs::read_to_string(all.path().join("work/signals")).unwrap_or_default();
    let (status, body) = sidecar.ask("POST", "/api/v1/input/keys", &json!({ "keys": ["Ctrl-C"] }).to_string());
    assert_eq!(status, 200, "{body}");
    wait_until("Ctrl-C arrives", || signals() == "INT\n");
    let (status, body) = sidecar.ask("POST", "/api/v1/signal", &json!({ "signal": "SIGTERM" }).to_string());
    assert_eq!(status, 200, "{body}");
    wait_until("the signal arrives", || signals() == "INT\nTERM\n");
}

#[test]
fn all_that_runs_in_a_sandbox_ends_with_its_sidecar() {
    if !is_possible() {
        return;
    }
    let marker = format!("86{}", std::process::id());
    let script = format!("setsid sleep {marker} & (trap '' HUP TERM; sleep {marker}) & touch told; sleep {marker}");
    let (mut sidecar, all) = sandboxed(&script, &[]);
    told(all.path());
    assert!(processes_with(&marker) > 0, "they run");
    sidecar.child.kill().expect("it is killed");
    wait_until("all have ended", || processes_with(&marker) == 0);
}

/// Counts the processes that have this word on their command line.
pub(crate) fn processes_with(word: &str) -> usize {
    let lines = fs::read_dir("/proc").expect("a folder").flatten();
    let lines = lines.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|found| found == word.as_bytes())).count()
}

#[test]
fn without_bubblewrap_a_sandbox_is_refused_and_the_package_named() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let work = home.path().join("work");
    fs::create_dir(&work).expect("made");
    let mut command = coop(home.path());
    command.args(["--sandbox", "--", "true"]).env("PATH", home.path()).stdin(Stdio::null()).current_dir(work);
    let (code, _, err) = tool::run(&mut command);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("apt install bubblewrap"), "{err}");
}

#[test]
fn more_can_be_written_to_and_the_network_taken_away() {
    if !is_possible() {
        return;
    }
    let more = tempfile::tempdir().expect("a folder");
    let path = more.path().to_str().expect("UTF-8");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let script = format!(
        "touch {path}/made; (: >/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo connected >t\nls >>t; mv t told"
    );
    let connected = |more: &[&str]| told(sandboxed(&script, more).1.path()).contains("connected");
    assert!(connected(&["--sandbox-write", path]));
    assert!(more.path().join("made").exists());
    assert!(!connected(&["--sandbox-no-network"]));
}

/// The agent may put a link to what it cannot read in the place of its conversation, and ask its sidecar for that.
#[test]
fn a_transcript_that_became_a_link_to_a_secret_is_not_told() {
    if !is_possible() {
        return;
    }
    let mut agent = Agent::start(&Which::Scripted, Runtime::Pty, &["--sandbox"], &[]);
    agent.state("idle");
    agent.turn("one [[text:words]]", &[]);
    let (status, _) = agent.sidecar.ask("GET", "/api/v1/transcripts/catchup", "");
    assert_eq!(status, 200);
    // In the machine's folder for temporary files, which the sandbox hides.
    let secret = tempfile::NamedTempFile::new().expect("a file");
    fs::write(&secret, "a secret").expect("written");
    let log = log_below(&agent.work.join(".state")).expect("a conversation");
    fs::remove_file(&log).and_then(|()| symlink(secret.path(), &log)).expect("replaced");
    let (status, body) = agent.sidecar.ask("GET", "/api/v1/transcripts/catchup", "");
    assert_eq!(status, 500, "{body}");
    assert!(!body.to_string().contains("a secret"), "{body}");
}

fn log_below(folder: &Path) -> Option<PathBuf> {
    let paths = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_log = |path: &PathBuf| path.extension().is_some_and(|end| end == "jsonl");
    paths.filter_map(|path| if path.is_dir() { log_below(&path) } else { Some(path).filter(is_log) }).next()
}

/// The agent could put a link in the place of a file that coop opens outside of the sandbox.
#[test]
fn files_of_coops_own_that_an_agent_in_a_sandbox_could_replace_are_refused() {
    if !is_possible() {
        return;
    }
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let work = home.path().join("work");
    fs::create_dir(&work).expect("made");
    let start = |words: &[&str]| {
        let mut command = coop(&home.path().join("home"));
        command.args(["--sandbox", "--log-level", "off"]).args(words).stdin(Stdio::null()).current_dir(&work);
        tool::run(command.env("XDG_RUNTIME_DIR", home.path()))
    };
    for option in ["--record", "--session-file"] {
        let (code, _, err) = start(&[option, "f", "--agent", "claude", "--", tool::COOP, "sim", "claude"]);
        assert!(code == 1 && err.contains("the agent can write there"), "{option}: {err}");
    }
    let words = ["--sandbox-no-network", "--agent", "opencode", "--", tool::COOP, "sim", "opencode"];
    let (code, _, err) = start(&words);
    assert!(code == 1 && err.contains("--sandbox-no-network"), "{err}");
    let (code, _, err) = start(&["--", "true"]);
    assert_eq!(code, 0, "{err}");
}

/// A file that coop's own parent had open is open in no program that coop starts.
#[test]
fn open_files_do_not_reach_a_program_in_a_sandbox() {
    if !is_possible() {
        return;
    }
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let work = home.path().join("work");
    fs::create_dir(&work).expect("made");
    let mut shell = Command::new("sh");
    let script = "exec 7</; exec \"$0\" --sandbox --log-level off -- sh -c 'ls /proc/self/fd >fds'";
    shell.args(["-c", script, tool::COOP]).current_dir(&work).env("XDG_RUNTIME_DIR", home.path());
    let (code, _, err) = tool::run(shell.env("HOME", home.path().join("home")).stdin(Stdio::null()));
    assert_eq!(code, 0, "{err}");
    let fds = fs::read_to_string(work.join("fds")).expect("written");
    assert!(!fds.lines().any(|fd| fd == "7"), "{fds}");
}

/// Bubblewrap runs outside of the sandbox. A variable such as `LD_PRELOAD` would make it load what the agent wrote.
#[tokio::test]
async fn variables_of_a_program_in_a_sandbox_are_not_those_of_the_sandbox() {
    let outside = tempfile::NamedTempFile::new().expect("a file");
    let inside = tempfile::NamedTempFile::new().expect("a file");
    let script = format!("env >{}; \"$@\"", outside.path().display());
    let sandbox = coop_term::Sandbox {
        bubblewrap: ["sh", "-c", &script, "sandbox"].map(Into::into).to_vec(),
        on_terminal: [tool::COOP, "enter", "--"].map(Into::into).to_vec(),
        ..coop_term::Sandbox::default()
    };
    let variable = |name: &str, value: Option<&str>| (name.into(), value.map(Into::into));
    let command = coop_term::Command {
        program: "sh".into(),
        args: vec!["-c".into(), format!("env >{}", inside.path().display()).into()],
        env: vec![variable("LD_CHOSEN", Some("by the agent")), variable("PATH_LEFT_OUT", None)],
        sandbox: Some(sandbox),
        ..coop_term::Command::default()
    };
    let child = coop_term::Child::spawn(&command, coop_api::Size::DEFAULT).expect("it starts");
    wait_until("it ends", || child.reap().is_ok_and(|exit| exit.is_some()));
    let lines = |file: &Path| fs::read_to_string(file).expect("written");
    assert!(!lines(outside.path()).lines().any(|line| line.starts_with("LD_CHOSEN")));
    assert!(lines(inside.path()).contains("LD_CHOSEN=by the agent\n"));
    assert!(!lines(inside.path()).contains("COOP_SET_"), "only under its own name");
}

/// The daemon's folder is beside the agent's own here, and the agent sees none of it. Neither does its gate.
#[test]
fn an_agent_of_a_fleet_and_its_gate_share_a_sandbox() {
    if !is_possible() {
        return;
    }
    let gate = "ls ../s/* >seen 2>&1; curl -s --unix-socket ../s/fleet.sock http://localhost/api/v1/health >>seen; \
                touch ../beside; ls /proc | grep -c [0-9] >processes; mv processes gated; test -e passed";
    let lab = Lab::new(&format!(
        "[agents.boxed]\nSIM\nfolder = \"work\"\nkind = \"crew\"\nsandbox = {{ network = false }}\nprompt = \"[[text:done]]\"\n\
         on_idle = {{ action = \"gate\", run = {gate:?} }}\n\
         [agents.attacker]\nfolder = \"work\"\ncommand = [\"bash\", \"attack.sh\"]\nkind = \"crew\"\nsandbox = true\n"
    ));
    let home = lab.home.path().join("work");
    fs::create_dir(&home).expect("made");
    let attack = "{ ls ../s/agents; cat ../s/agents/*/tools.json; cat /proc/DAEMON/environ; kill -0 DAEMON && echo signalled; \
                  curl -s --unix-socket ../s/fleet.sock http://localhost/api/v1/health; } >t 2>/dev/null; mv t told; sleep 1000";
    let daemon = lab.daemon.as_ref().expect("it runs").id().to_string();
    fs::write(home.join("attack.sh"), attack.replace("DAEMON", &daemon)).expect("written");
    lab.ok(&["spawn", "attacker"]);
    lab.wait_until("the attack ends", || home.join("told").exists());
    assert_eq!(fs::read_to_string(home.join("told")).expect("it is there"), "");
    lab.ok(&["spawn", "boxed"]);
    lab.wait_until("the gate has run", || home.join("gated").exists());
    let seen = fs::read_to_string(home.join("seen")).expect("it is there");
    assert!(!seen.contains("agents") && !seen.contains('{'), "{seen}");
    let processes = fs::read_to_string(home.join("gated")).expect("it is there");
    assert!(processes.trim().parse::<u32>().is_ok_and(|count| count < 10), "{processes}");
    lab.ok(&["down", "--kill"]);
}

/// Tries to steer by every socket that it finds and by the daemon's port, and to reach the processes of others.
const ATTACK_FLEET: &str = r#"
until [ -e target ]; do sleep 0.01; done
. ./target
try() { if "${@:2}" >/dev/null 2>&1; then echo "$1"; fi; }
steer() { curl -sf -m 60 "$@"; }
SPAWN='{"definition":"[agents.x]\ncommand=[\"true\"]\nkind=\"crew\"","agent":"x"}'
YES='{"ask":"ask-1","accept":true}'
{
    try "list the agents" ls "$STATE/agents"
    try "read the store" cat "$STATE/fleet.db"
    for pid in $PIDS; do
        try "see process $pid" ls "/proc/$pid"
        try "read the environment of $pid" cat "/proc/$pid/environ"
        try "signal $pid" kill -0 "$pid"
    done
    find "$HOME" -type s 2>/dev/null >sockets
    printf '%s\n' "$STATE/fleet.sock" "$STATE/agents/victim/coop.sock" >>sockets
    while read -r socket; do
        try "answer by $socket" steer --unix-socket "$socket" -d "$YES" http://localhost/api/v1/agent/respond
        try "type by $socket" steer --unix-socket "$socket" -d '{"keys":["1"]}' http://localhost/api/v1/input/keys
        try "answer the victim by $socket" \
            steer --unix-socket "$socket" -d "$YES" http://localhost/api/v1/agents/victim/agent/respond
        try "spawn by $socket" steer --unix-socket "$socket" -d "$SPAWN" http://localhost/api/v1/agents
        [ "$socket" = "$COOP_SOCKET" ] || try "look by $socket" steer --unix-socket "$socket" http://localhost/api/v1/health
    done <sockets
    try "answer the victim by the port" steer -d "$YES" "$PORT/api/v1/agents/victim/agent/respond"
    try "spawn by the port" steer -d "$SPAWN" "$PORT/api/v1/agents"
    try "read the victim's screen by the port" steer "$PORT/api/v1/agents/victim/screen"
    try "list the agents by the port" steer "$PORT/api/v1/agents"
    try "follow all events by the port" steer -N "$PORT/api/v1/events"
    try "(find its own socket)" grep -qxF "$COOP_SOCKET" sockets
} >t
mv t told
sleep 1000
"#;

#[test]
fn an_agent_in_a_sandbox_reaches_no_other_agent_and_not_its_daemon() {
    if !is_possible() {
        return;
    }
    let mut lab = Lab::outside_of_tmp(
        "[agents.victim]\nSIM\nkind = \"crew\"\nprompt = \"[[bash:touch stolen.txt]]\"\n\
         [agents.attacker]\nfolder = \"work\"\ncommand = [\"bash\", \"attack.sh\"]\nkind = \"crew\"\nsandbox = true\n",
    );
    lab.kill();
    let lines = lab.up_with(&["--port", "0"]);
    let port = lines.iter().find_map(|line| line.strip_prefix("listening http ")).expect("a port");
    let work = lab.folder("work");
    fs::write(work.join("attack.sh"), ATTACK_FLEET).expect("written");
    lab.ok(&["spawn", "victim"]);
    lab.until(0, "the victim's ask", |entry| is(entry, "prompt"));
    lab.ok(&["spawn", "attacker"]);
    let processes = processes_in(lab.home.path());
    assert!(processes.len() >= 4, "the daemon, two sidecars and an agent: {processes:?}");
    let target = format!("STATE={} PORT={port} PIDS='{}'", lab.state().display(), processes.join(" "));
    fs::write(work.join("t"), target).and_then(|()| fs::rename(work.join("t"), work.join("target"))).expect("written");
    lab.wait_until("the attack ends", || work.join("told").exists());
    let worked = fs::read_to_string(work.join("told")).expect("it is there");
    assert_eq!(worked, "(find its own socket)\n", "what is not in parentheses must not work");
    assert!(!lab.home.path().join("stolen.txt").exists(), "the victim was answered");
    assert_eq!(lab.json(&["asks"])["asks"].as_array().map(Vec::len), Some(1), "the ask is open");
    assert_eq!(lab.json(&["ls"])["agents"].as_array().map(Vec::len), Some(2), "no agent was started");
    lab.ok(&["down", "--kill"]);
}

/// Returns the processes that were started for a lab, but for those in its agent's sandbox.
fn processes_in(home: &Path) -> Vec<String> {
    let home = home.to_str().expect("UTF-8");
    let own = fs::read_link("/proc/self/ns/pid").expect("a namespace");
    let is_one = |pid: &String| {
        let folder = Path::new("/proc").join(pid);
        let line = fs::read(folder.join("cmdline")).unwrap_or_default();
        let cwd = fs::read_link(folder.join("cwd")).unwrap_or_default();
        let is_ours = String::from_utf8_lossy(&line).contains(home) || cwd.starts_with(home);
        // That of a process which shows nothing of itself is coop's own.
        is_ours && fs::read_link(folder.join("ns/pid")).ok().is_none_or(|namespace| namespace == own)
    };
    let entries = fs::read_dir("/proc").expect("a folder").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(is_one).collect()
}

/// An agent that may write to `~/.config` writes the alias of git that its user runs next.
#[test]
fn a_folder_with_what_programs_outside_obey_is_refused() {
    if !is_possible() {
        return;
    }
    let all = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let home = all.path().join("home");
    for folder in [".config/app", ".config/git", ".local/state/app", "work"] {
        fs::create_dir_all(home.join(folder)).expect("made");
    }
    let start = |folder: &str, words: &[&str]| {
        let mut command = coop(&home);
        command.args(["--sandbox", "--log-level", "off"]).args(words).args(["--", "true"]).stdin(Stdio::null());
        command.current_dir(home.join(folder)).env("XDG_RUNTIME_DIR", all.path());
        let (code, _, err) = tool::run(&mut command);
        (code, err)
    };
    for (folder, words) in
        [(".config", &[][..]), (".config/git", &[]), ("work", &["--sandbox-write", "../.config"]), (".local", &[])]
    {
        let (code, err) = start(folder, words);
        assert!(code == 1 && err.contains("run or obey"), "{folder} {words:?}: {err}");
    }
    assert_eq!(start(".config/app", &[]).0, 0);
    assert_eq!(start("work", &["--sandbox-write", "../.local/state/app"]).0, 0);
}

/// A home can be mounted at a second place, as on WSL or by a file system's pool.
#[test]
fn what_is_hidden_is_hidden_under_every_name() {
    if !is_possible() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        coop_testkit::skip("only root can mount a folder at a second place and still own bubblewrap there");
        return;
    }
    let all = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (work, home, second) = (all.path().join("work"), all.path().join("home"), all.path().join("second"));
    for folder in [&work, &home.join(".ssh"), &second] {
        fs::create_dir_all(folder).expect("made");
    }
    fs::write(home.join(".ssh/id"), "a secret").expect("written");
    fs::write(home.join("plain"), "plain").expect("written");
    let mut command = coop(&home);
    let script = "cat \"$1/plain\" \"$1/.ssh/id\"";
    command.args(["--sandbox", "--log-level", "off", "--", "sh", "-c", script, "sh"]).arg(&second);
    let places = [&home, &second].map(|path| path.to_str().expect("UTF-8"));
    let mut inside = tool::unshared(&command, &["--mount"], "mount --bind \"$1\" \"$2\" && shift 2", &places);
    let (code, out, err) = tool::run(inside.current_dir(&work));
    let told = out + &err;
    assert!(code == 1 && told.contains("plain") && !told.contains("a secret"), "{code} {told}");
}

/// Bubblewrap starts whether or not the program is there, and a spawn that failed passed for one that did not.
#[test]
fn a_program_that_is_not_in_its_sandbox_is_refused_at_once() {
    if !is_possible() {
        return;
    }
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let work = home.path().join("work");
    fs::create_dir(&work).expect("made");
    let hidden = tempfile::NamedTempFile::new_in("/tmp").expect("a file");
    fs::write(hidden.path(), "#!/bin/sh\n").expect("written");
    fs::set_permissions(hidden.path(), fs::Permissions::from_mode(0o755)).expect("changed");
    let hidden = hidden.into_temp_path();
    fs::write(work.join("text"), "").expect("written");
    for (program, why) in [
        ("./nothere", "check its name"),
        ("no-such-program-anywhere", "check its name"),
        ("./text", "it is not a program"),
        (hidden.to_str().expect("UTF-8"), "its sandbox hides"),
    ] {
        let mut command = coop(&home.path().join("home"));
        command.args(["--sandbox", "--log-level", "off", "--", program]).current_dir(&work);
        let (code, out, err) = tool::run(command.env("XDG_RUNTIME_DIR", home.path()).stdin(Stdio::null()));
        assert!(code != 0 && err.contains(why) && !out.contains("ready"), "{program}: {code} {out}{err}");
    }
}
