//! An agent cannot steer itself, whatever it runs and however that is detached.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use rustix::fs::Mode;
use serde_json::{Value, json};

use crate::driven::{Agent, Runtime, Which};
use crate::tool::{LIMIT, Sidecar, request};

/// What the agent's shell runs: it waits for an ask, tries to answer it in every way there is, and says how that went.
/// A line each: the way, then the status, or what gRPC says.
const ATTACK: &str = r#"
api=http://localhost/api/v1
ask() { curl -s -o answer.json -w '%{http_code}' -d "$3" "$1" $2; }
until curl -s --unix-socket "$COOP_SOCKET" $api/agent/asks | grep -q '"touch stolen'; do :; done
yes='{"accept":true}'
unix="--unix-socket $MAIN"
own="--unix-socket $COOP_SOCKET"
rpc() {
    # curl may lose the answer that comes before it has sent everything.
    for _ in 1 2 3 4 5 6 7 8 9; do
        status=$(rpc_once "$@")
        [ -z "$status" ] || break
    done
    echo "$status"
}
rpc_once() {
    printf '\0\0\0\0\2\10\1' | curl -s -D - -o /dev/null --http2-prior-knowledge -H 'content-type: application/grpc' \
        -H 'te: trailers' --data-binary @- "$1/coop.v1.Coop/Respond" $2 | tr -d '\r' | sed -n 's/^grpc-status: //p'
}
ws() {
    address=${TCP#http://}
    exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
    printf 'GET /ws?mode=state HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n' >&3
    printf 'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n' >&3
    # A text frame of 32 bytes, masked with nothing.
    printf '\201\240\0\0\0\0{"type":"respond","accept":true} ' | head -c 38 >&3
    timeout 30 cat <&3 | grep -ao 'what an agent runs'
}
{
    echo "unix $(ask $api/agent/respond "$unix" "$yes") $(cat answer.json)"
    echo "own $(ask $api/agent/respond "$own" "$yes") $(cat answer.json)"
    echo "tcp $(ask $TCP/api/v1/agent/respond '' "$yes") $(cat answer.json)"
    echo "keys $(ask $api/input/keys "$unix" '{"keys":["1"]}') $(ask $api/input/keys "$own" '{"keys":["1"]}')"
    echo "input-tcp $(ask $TCP/api/v1/input '' '{"text":"1"}')"
    echo "shutdown $(ask $api/shutdown "$unix" '')"
    echo "grpc-unix $(rpc http://localhost "$unix") $(rpc http://localhost "$own")"
    echo "grpc-tcp $(rpc $TCP '')"
    echo "ws $(ws)"
    echo "look $(curl -s -o /dev/null -w '%{http_code}' $unix $api/agent/asks)"
    echo "look-own $(curl -s -o /dev/null -w '%{http_code}' $own $api/agent/asks)"
    echo "look-tcp $(curl -s -o /dev/null -w '%{http_code}' $TCP/api/v1/screen)"
    echo "end"
} >told
"#;

/// Ends at once, and leaves the attack behind, which begins when it has another parent.
const DETACH: &str = r#"
sh -c 'until [ "$(cut -d " " -f 4 /proc/$$/stat)" != '$$' ]; do :; done; exec bash attack.sh' &
"#;

/// Starts an agent that may run the attack, and has another ask open then. Returns what the attack says.
fn attack(detach: &str) -> (Agent, Value, Vec<String>) {
    let mut agent = Agent::start(&Which::Scripted, Runtime::Pty, &["--port", "0"], &[]);
    agent.state("idle");
    let told = agent.work.join("told");
    rustix::fs::mkfifoat(rustix::fs::CWD, &told, Mode::from_raw_mode(0o600)).expect("a pipe");
    fs::write(agent.work.join("attack.sh"), ATTACK).expect("written");
    fs::write(agent.work.join("detach.sh"), DETACH).expect("written");
    let tcp = agent.sidecar.line("http").to_owned();
    let main = agent.sidecar.socket();
    let main = main.display();
    agent.nudge(&format!("go [[bash:MAIN={main} TCP={tcp} {detach} >/dev/null 2>&1 &]] [[bash:touch stolen.txt]]"));
    agent.asked("permission");
    agent.respond(&json!({ "accept": true }));
    let ask = loop {
        let ask = agent.asked("permission");
        if ask["preview"] == "touch stolen.txt" {
            break ask;
        }
    };
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let pipe = fs::File::open(told).expect("it is there");
        BufReader::new(pipe).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    let mut said = Vec::new();
    while said.last().is_none_or(|line| line != "end") {
        said.push(lines.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("the attack did not end: {said:?}")));
    }
    (agent, ask, said)
}

fn is_refused(detach: &str) {
    let (mut agent, ask, said) = attack(detach);
    let why = "what an agent runs may look but not steer; ask from outside of it";
    let refused = json!({ "error": { "code": "FORBIDDEN", "message": why } });
    assert_eq!(
        said,
        [
            format!("unix 403 {refused}"),
            format!("own 403 {refused}"),
            format!("tcp 403 {refused}"),
            "keys 403 403".to_owned(),
            "input-tcp 403".to_owned(),
            "shutdown 403".to_owned(),
            // PERMISSION_DENIED
            "grpc-unix 7 7".to_owned(),
            "grpc-tcp 7".to_owned(),
            "ws what an agent runs".to_owned(),
            "look 200".to_owned(),
            "look-own 200".to_owned(),
            "look-tcp 200".to_owned(),
            "end".to_owned(),
        ]
    );
    assert_eq!(agent.get("/api/v1/agent/asks")["asks"][0]["id"], ask["id"], "the ask is no longer open");
    assert!(!agent.has("stolen.txt"));
    // From outside it works, also over TCP.
    let stream = TcpStream::connect(agent.sidecar.line("http").trim_start_matches("http://")).expect("it listens");
    let (status, answered) = request(stream, "POST", "/api/v1/agent/respond", r#"{"accept":true}"#, "");
    assert_eq!((status, &answered["delivered"]), (200, &json!(true)), "{answered}");
    agent.state("idle");
    assert!(agent.has("stolen.txt"));
}

#[test]
fn what_an_agent_runs_cannot_answer_for_its_user() {
    is_refused("bash attack.sh");
}

/// The one that asks is in a session of its own and has lost its parents: it is nobody's child but the sidecar's.
#[test]
fn what_has_detached_itself_from_the_agent_cannot_either() {
    is_refused("setsid sh detach.sh");
}

/// It runs beside the agent for as long as that does, and its environment is open to every process of this user.
#[test]
fn the_guard_knows_no_secret() {
    let mut agent = Agent::start(&Which::Scripted, Runtime::Pty, &[], &[]);
    agent.state("idle");
    let sidecar = agent.sidecar.child.id();
    let threads = fs::read_dir(format!("/proc/{sidecar}/task")).expect("it lives");
    let children = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let children: String = threads.map(|thread| children(thread.expect("a thread"))).collect();
    let line = |pid: &str| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let guard = children.split_whitespace().find(|pid| line(pid).split('\0').nth(1) == Some("guard")).expect("a guard");
    assert_eq!(fs::read_to_string(format!("/proc/{guard}/environ")).expect("it lives"), "");
}

/// A user without rights, so that nothing is readable only because the tests run as root.
const NOBODY: u32 = 65534;

/// Everybody may read a command line, and this user every environment, unless it is closed to them.
#[test]
fn the_token_cannot_be_read_off_the_sidecar() {
    let script = "tr '\\0' '\\n' </proc/$PPID/environ; tr '\\0' ' ' </proc/$PPID/cmdline; ls /proc/$PPID/fd; echo; \
                  echo [$COOP_AUTH_TOKEN] done";
    for by_flag in [true, false] {
        let token: &[&str] = if by_flag { &["--auth-token", "s3cret"] } else { &[] };
        let args = [token, &["--log-level", "warn", "--linger", "forever", "--", "sh", "-c", script]].concat();
        let home = tempfile::tempdir().expect("a folder");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        let sidecar = Sidecar::with(&args, |command| {
            if !by_flag {
                command.env("COOP_AUTH_TOKEN", "s3cret");
            }
            if rustix::process::geteuid().is_root() {
                command.uid(NOBODY).gid(NOBODY);
            }
            command.env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path()).current_dir(home.path())
        });
        let screen = || {
            let stream = std::os::unix::net::UnixStream::connect(sidecar.socket()).expect("it listens");
            request(stream, "GET", "/api/v1/screen/text", "", "authorization: Bearer s3cret\r\n")
        };
        let shown = loop {
            let (status, shown) = screen();
            assert_eq!(status, 200, "the token no longer works");
            let shown = shown.as_str().unwrap_or_default().to_owned();
            if shown.contains("[] done") {
                break shown;
            }
        };
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("environ: Permission denied") || shown.contains("cannot open"), "{shown}");
        assert!(shown.contains("--linger forever"), "the command line is read:\n{shown}");
    }
}

/// What is left of one run must not speak for the next.
#[test]
fn each_run_has_a_token_of_its_own_for_its_hooks() {
    let mut agent = Agent::start(&Which::Scripted, Runtime::Pty, &[], &["--dangerously-skip-permissions"]);
    let token = |agent: &mut Agent| {
        agent.state("idle");
        agent.nudge("tell [[bash:printf %s $COOP_HOOK_TOKEN >token.txt]]");
        agent.state("idle");
        fs::read_to_string(agent.work.join("token.txt")).expect("it was written")
    };
    let hook = |agent: &Agent, token: &str| {
        let stream = std::os::unix::net::UnixStream::connect(agent.sidecar.socket()).expect("it listens");
        request(stream, "POST", "/api/v1/hooks/Notification", "{}", &format!("x-coop-hook-token: {token}\r\n")).0
    };
    let first = token(&mut agent);
    assert_eq!(hook(&agent, &first), 200);
    assert_eq!(agent.post("/api/v1/restart", &json!({})).0, 200);
    agent.state("exited");
    let second = token(&mut agent);
    assert_ne!(first, second);
    assert_eq!((hook(&agent, &first), hook(&agent, &second)), (401, 200));
}

/// A sidecar adopts what its child leaves behind, and must wait for it in the child's stead.
#[test]
fn who_was_adopted_does_not_stay_as_a_zombie() {
    let orphan = r#"until [ "$(cut -d " " -f 4 /proc/$$/stat)" != "$1" ]; do :; done; echo "orphan=$$="; read go <go"#;
    let script = "mkfifo go; sh -c 'sh -c \"$1\" sh $$ &' sh \"$1\"; cat";
    let sidecar = Sidecar::start(&["--", "sh", "-c", script, "sh", orphan]);
    let screen = sidecar.see("=\n");
    let pid = screen.split('=').nth(1).and_then(|pid| pid.parse::<i32>().ok()).expect("a process's number");
    let pid = rustix::process::Pid::from_raw(pid).expect("a process's number");
    fs::write(sidecar.home.path().join("go"), "\n").expect("it waits for this");
    let deadline = Instant::now() + LIMIT;
    while rustix::process::test_kill_process(pid).is_ok() {
        assert!(Instant::now() < deadline, "it is still there");
        crate::tool::pause();
    }
}
