//! The sidecar from outside.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::json;

use crate::tool::{LIMIT, Sidecar, coop, request, run};

#[test]
fn a_shell_can_be_watched_and_steered() {
    let mut sidecar = Sidecar::start(&["--port", "0", "--", "sh", "-c", "PS1='$ ' exec sh"]);
    let port = sidecar.line("http").trim_start_matches("http://").to_owned();
    // What is typed before the prompt is echoed before it, too.
    sidecar.see("$");
    assert_eq!(sidecar.ask("POST", "/api/v1/input", r#"{"text":"echo $((6*7))","enter":true}"#).0, 200);
    sidecar.see("\n42\n");
    let (status, health) = request(TcpStream::connect(port).expect("it listens"), "GET", "/api/v1/health", "", "");
    assert_eq!(
        (status, &health["status"], &health["terminal"]),
        (200, &json!("running"), &json!({"cols":200,"rows":50}))
    );
    assert_eq!(sidecar.ask("POST", "/api/v1/resize", r#"{"cols":100,"rows":30}"#).0, 200);
    sidecar.ask("POST", "/api/v1/input", r#"{"text":"stty size","enter":true}"#);
    sidecar.see("30 100");
    sidecar.ask("POST", "/api/v1/input", r#"{"text":"exit 7","enter":true}"#);
    assert_eq!(sidecar.wait().0, 7, "the child's exit code is ours");
    assert!(!sidecar.socket().exists(), "the socket goes with us");
}

#[test]
fn after_the_exit_the_last_screen_lingers_and_input_is_gone() {
    let mut sidecar = Sidecar::start(&["--linger", "forever", "--", "sh", "-c", "echo last words; exit 9"]);
    sidecar.see("last words");
    // Exited is told once all output is in.
    while sidecar.ask("GET", "/api/v1/health", "").1["status"] != "exited" {
        crate::tool::pause();
    }
    let (_, status) = sidecar.ask("GET", "/api/v1/status", "");
    assert_eq!((&status["state"], &status["exit_code"], &status["pid"]), (&json!("exited"), &json!(9), &json!(null)));
    for (path, body) in [
        ("/api/v1/input", r#"{"text":"x"}"#),
        ("/api/v1/input/keys", r#"{"keys":["Enter"]}"#),
        ("/api/v1/resize", r#"{"cols":80,"rows":24}"#),
        ("/api/v1/signal", r#"{"signal":"SIGINT"}"#),
    ] {
        let (status, error) = sidecar.ask("POST", path, body);
        assert_eq!((status, &error["error"]["code"]), (410, &json!("EXITED")), "{path}");
    }
    assert_eq!(sidecar.ask("GET", "/api/v1/agent/state", "").1["state"], "exited");
    assert_eq!(sidecar.ask("POST", "/api/v1/agent/nudge", r#"{"message":"hi"}"#).0, 404);
    assert_eq!(sidecar.ask("POST", "/api/v1/shutdown", "").0, 200);
    assert_eq!(sidecar.wait().0, 9);
}

#[test]
fn the_child_sees_its_terminal_and_no_secret() {
    let sidecar = Sidecar::with(
        &[
            "--linger",
            "forever",
            "--term",
            "xterm-direct",
            "--",
            "sh",
            "-c",
            "env | sort; tty; ps -o pgid=,sid=,pid= -p $$",
        ],
        |command| command.env("TMUX", "/tmp/other,1,0"),
    );
    let screen = sidecar.see("/dev/pts/");
    for line in ["COOP=1", "TERM=xterm-direct", "COLORTERM=truecolor"] {
        assert!(screen.lines().any(|shown| shown == line), "{line} is missing:\n{screen}");
    }
    let socket = screen.lines().find_map(|line| line.strip_prefix("COOP_SOCKET=")).expect("a socket");
    assert_ne!(socket, sidecar.socket().to_str().expect("UTF-8"), "the agent has a socket of its own");
    assert!(!screen.contains("TMUX"), "{screen}");
}

#[test]
fn a_token_is_asked_for_and_not_inherited() {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let args = ["--log-level", "trace", "--", "sh", "-c", "echo token=[$COOP_AUTH_TOKEN]; cat"];
    let sidecar = Sidecar::with(&args, |command| {
        command.env("COOP_AUTH_TOKEN", "s3cret").stderr(log.reopen().expect("it is there"))
    });
    let connect = || std::os::unix::net::UnixStream::connect(sidecar.socket()).expect("it listens");
    assert_eq!(request(connect(), "GET", "/api/v1/screen", "", "").0, 401);
    loop {
        let (status, body) = request(connect(), "GET", "/api/v1/screen/text", "", "authorization: Bearer s3cret\r\n");
        assert_eq!(status, 200);
        if body.as_str().is_some_and(|text| text.contains("token=[]")) {
            break;
        }
    }
    let mode = std::fs::metadata(sidecar.socket()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (code, out, err) = run(coop(sidecar.home.path()).args(["screen"]).env("COOP_AUTH_TOKEN", "s3cret"));
    assert_eq!((code, out.contains("token=[]"), err.as_str()), (0, true, ""));
    let (code, _, err) = run(coop(sidecar.home.path()).args(["screen", "--auth-token", "wrong"]));
    assert_eq!((code, err.contains("the token is wrong")), (1, true), "{err}");
    for command in ["screen", "attach"] {
        let (code, _, err) = run(coop(sidecar.home.path()).arg(command));
        let hint = "asks for a token; give it with --auth-token or COOP_AUTH_TOKEN\n";
        assert_eq!((code, err.ends_with(hint)), (1, true), "{command}: {err}");
    }
    assert_eq!(request(connect(), "GET", "/api/v1/health?token=s3cret", "", "").0, 200);
    assert_eq!(request(connect(), "GET", "/api/v1/health?token=s3cret-and-wrong", "", "").0, 401);
    assert!(!format!("{:?}", sidecar.lines).contains("s3cret"));
    let log = std::fs::read_to_string(log.path()).expect("it is there");
    assert!(log.contains("child started"), "something is logged:\n{log}");
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn one_shot_commands_find_the_only_agent() {
    let sidecar = Sidecar::start(&["--", "sh", "-c", "stty -echo; echo ready; cat"]);
    sidecar.see("ready");
    let tool = |args: &[&str]| run(coop(sidecar.home.path()).args(args));
    assert_eq!(tool(&["type", "hello", "--enter"]), (0, String::new(), String::new()));
    sidecar.see("hello");
    assert_eq!(tool(&["keys", "x", "y", "Enter"]).0, 0);
    sidecar.see("xy");
    let (code, out, _) = tool(&["screen"]);
    assert_eq!((code, out.contains("hello\nxy")), (0, true), "{out}");
    let (code, _, err) = tool(&["keys", "Entre"]);
    assert_eq!((code, err.contains("\"Entre\" is not a key")), (1, true), "{err}");
    let other = Sidecar::with(&["--", "cat"], |command| command.env("XDG_RUNTIME_DIR", sidecar.home.path()));
    let (code, _, err) = tool(&["screen"]);
    assert_eq!((code, err.contains("several agents run here; name one of")), (1, true), "{err}");
    drop(other);
}

#[test]
fn a_signal_ends_it_gracefully_and_a_second_one_at_once() {
    let program = "trap 'sleep 0.1; exit 4' HUP; echo up; while :; do sleep 0.05; done";
    let mut polite = Sidecar::start(&["--", "sh", "-c", program]);
    polite.see("up");
    // Whoever signals a process and its group means one order.
    polite.signal(Signal::TERM);
    polite.signal(Signal::TERM);
    let (code, log) = polite.wait();
    assert_eq!(code, 4, "{log}");

    let mut stubborn = Sidecar::start(&[
        "--grace",
        "1000",
        "--",
        "sh",
        "-c",
        "trap '' HUP TERM; echo up; while :; do sleep 0.05; done",
    ]);
    stubborn.see("up");
    stubborn.signal(Signal::TERM);
    // It has heard us once the child is told to go, which its log says.
    let stderr = stubborn.child.stderr.take().expect("it is piped");
    let heard = std::io::BufRead::lines(std::io::BufReader::new(stderr))
        .map_while(Result::ok)
        .any(|line| line.contains("signalling"));
    assert!(heard);
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = stubborn.child.try_wait().expect("it is ours") {
            break status;
        }
        assert!(Instant::now() < deadline, "it does not end");
        stubborn.signal(Signal::TERM);
        crate::tool::pause();
    };
    assert_eq!(status.code(), Some(128 + 9));
}

#[test]
fn logs_are_json_or_text_and_as_loud_as_told() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (_, _, json) = run(coop(home.path()).args(["--", "true"]));
    for line in json.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("each line is JSON");
    }
    assert!(json.contains("child started"), "{json}");
    let (_, _, text) = run(coop(home.path()).args(["--log-format", "text", "--", "true"]));
    assert!(text.contains("INFO") && !text.starts_with('{'), "{text}");
    assert_eq!(run(coop(home.path()).args(["--log-level", "error", "--", "true"])).2, "");
}

#[test]
fn settings_come_from_the_environment_and_flags_win() {
    let sidecar = Sidecar::with(&["--rows", "33", "--", "cat"], |command| {
        command
            .env("COOP_COLS", "99")
            .env("COOP_ROWS", "44")
            .env("COOP_PORT", "0")
            .env("COOP_HEALTH_PORT", "0")
            .env("COOP_GRPC_PORT", "0")
            // Set to nothing is not set.
            .env("COOP_SOCKET", "")
            .env("COOP_GRACE", "")
            .env("COOP_AUTH_TOKEN", "")
    });
    let (_, health) = sidecar.ask("GET", "/api/v1/health", "");
    assert_eq!(health["terminal"], json!({"cols":99,"rows":33}));
    for kind in ["http", "grpc", "health"] {
        assert!(sidecar.line(kind).starts_with("http://127.0.0.1:"));
    }
    let probe = TcpStream::connect(sidecar.line("health").trim_start_matches("http://")).expect("it listens");
    assert_eq!(request(probe, "GET", "/api/v1/health", "", "").0, 200);
}

#[test]
fn an_idle_sidecar_ends_itself_and_one_inside_another_has_its_own_socket() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (code, _, log) = run(coop(home.path()).args(["--idle-timeout", "0.2", "--", "cat"]));
    assert_eq!(code, 128 + 1, "{log}");
    let outer =
        Sidecar::start(&["--linger", "forever", "--", crate::tool::COOP, "--log-level", "off", "--", "echo", "nested"]);
    let screen = outer.see("ready");
    assert!(!screen.contains(&outer.socket().display().to_string()), "{screen}");
}

/// Nothing can be tidied up by one that is killed: the next one does it.
#[test]
fn what_a_killed_sidecar_leaves_is_removed_by_the_next() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let args = ["--agent", "claude", "--isolate", "--log-level", "warn", "--", crate::tool::COOP, "sim", "claude"];
    let start = || Sidecar::with(&args, |command| command.env("XDG_RUNTIME_DIR", home.path()));
    let left = |pid: u32| {
        let folder = home.path().join("coop");
        [folder.join(pid.to_string()).exists(), folder.join(format!("{pid}.sock")).exists()]
    };
    let mut killed = start();
    let lives = start();
    let pids = [&killed, &lives].map(|sidecar| sidecar.child.id());
    assert_eq!(pids.map(left), [[true; 2]; 2]);
    killed.signal(Signal::KILL);
    killed.wait();
    assert_eq!(pids.map(left), [[true; 2]; 2], "nobody has tidied up yet");
    let mut next = start();
    assert_eq!(pids.map(left), [[false; 2], [true; 2]]);
    assert_eq!(lives.ask("GET", "/api/v1/health", "").0, 200);
    next.signal(Signal::TERM);
    next.wait();
    assert_eq!(left(next.child.id()), [false; 2], "one that ends by itself leaves nothing");
}

/// Nobody was there to see it.
#[test]
fn what_a_program_said_that_fails_at_once_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let says = |script: &str| run(coop(folder.path()).args(["--log-level", "off", "--", "sh", "-c", script]));
    let (code, _, err) = says("echo 'fatal: no config'; exit 4");
    assert_eq!(
        (code, err.as_str()),
        (4, "coop: the program failed at once; this was on its screen:\nfatal: no config\n")
    );
    let (code, _, err) = says("echo fine");
    assert_eq!((code, err.as_str()), (0, ""));
}

/// It did as it was told.
#[test]
fn a_program_that_is_shut_down_at_once_did_not_fail() {
    let mut sidecar = Sidecar::start(&["--log-level", "off", "--", "sh", "-c", "echo up; exec sleep 1000"]);
    sidecar.see("up");
    assert_eq!(sidecar.ask("POST", "/api/v1/shutdown", "").0, 200);
    assert_eq!(sidecar.wait().1, "");
}
