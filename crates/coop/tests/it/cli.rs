//! Errors are for people: one sentence that says what to do, and the right code.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use crate::tool::{coop, run};

fn fails(args: &[&str]) -> (i32, String) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (code, out, err) = run(coop(home.path()).args(args));
    assert_eq!(out, "", "{args:?}");
    (code, err.replace(&home.path().display().to_string(), "HOME"))
}

#[test]
fn mistakes_are_told_in_a_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let cases: &[(&[&str], i32, &str)] = &[
        (&[], 1, "there is nothing to run; give a command after --, such as `coop -- bash`, or --attach"),
        (
            &["--", "/no/such/program"],
            127,
            "cannot run \"/no/such/program\"; check its name and that it is on PATH: No such file or directory (os error 2)",
        ),
        (
            &["--", "/etc/passwd"],
            126,
            "cannot run \"/etc/passwd\"; it is not a program, or this user may not run it: Permission denied (os error 13)",
        ),
        (
            &["--host", "0.0.0.0", "--port", "0", "--", "true"],
            1,
            "anyone who can reach 0.0.0.0 could type into this terminal: give a token with --auth-token or COOP_AUTH_TOKEN, or leave --host at 127.0.0.1",
        ),
        (
            &["--agent", "claude", "--", "bash", "-c", "claude"],
            1,
            "coop cannot tell which word of \"bash -c claude\" is claude, so it does not know where its options belong; run claude itself, not by a shell",
        ),
        (
            &["--cols", "65535", "--", "true"],
            1,
            "--cols and --rows: a terminal of 65535x50 cannot be made: use 2 to 1000 columns, 1 to 1000 rows and at most 250000 cells",
        ),
        (
            &["--agent-config", "missing.json", "--", "true"],
            1,
            "cannot read --agent-config missing.json: No such file or directory (os error 2)",
        ),
        (
            &["--attach", "tmux:no-such-session"],
            1,
            "there is no tmux session named no-such-session; `tmux ls` lists those there are",
        ),
        (&["screen"], 1, "no agent runs here; start one with `coop -- COMMAND`, or name its socket or URL"),
        (
            &["screen", "-t", "127.0.0.1:18080"],
            1,
            "there is no socket 127.0.0.1:18080; if it is an address, write http://127.0.0.1:18080",
        ),
        (
            &["screen", "-t", "http://127.0.0.1:18080/agents/a"],
            1,
            "\"http://127.0.0.1:18080/agents/a\" has a path; coop serves at the root of its port, so give just http://HOST:PORT",
        ),
        (
            &["screen", "-t", "https://127.0.0.1"],
            1,
            "coop speaks plain HTTP; use http:// here, and a tunnel for the rest",
        ),
        (
            &["keys", "-t", "gone.sock", "Enter"],
            1,
            "cannot reach an agent at gone.sock; is it still running?: No such file or directory (os error 2)",
        ),
    ];
    for (args, code, sentence) in cases {
        assert_eq!(fails(args), (*code, format!("coop: {sentence}\n")), "{args:?}");
    }
    let long = "x".repeat(108);
    for args in [&["screen", "-t", &long][..], &["--socket", &format!("/{long}"), "--", "true"]] {
        let (code, err) = fails(args);
        assert_eq!((code, err.ends_with("bytes; a socket's may have 107 at most\n")), (1, true), "{err}");
    }
    let (code, err) = fails(&["--port", &port, "--", "true"]);
    assert_eq!(code, 1);
    assert_eq!(
        err,
        format!(
            "coop: cannot listen on 127.0.0.1:{port}; choose another --port, or 0 for any free port: Address already in use (os error 98)\n"
        )
    );
}

#[test]
fn flags_that_make_no_sense_are_told_by_name() {
    for (args, names) in [
        (&["--port", "many", "--", "true"][..], "--port"),
        (&["--host", "example.org", "--", "true"], "--host"),
        (&["--ring-size", "1", "--", "true"], "--ring-size"),
        (&["--agent", "cursor", "--", "true"], "--agent"),
        (&["--attach", "zellij:x"], "--attach"),
        (&["--attach", "tmux:x", "--", "true"], "--attach"),
        (&["--agent", "api", "--", "a prompt"], "'[PROMPT]' cannot be used with '--acp'"),
        (&["--agent", "api", "--", "--max-turns", "many"], "--max-turns"),
        (&["--log-level", "loud", "--", "true"], "--log-level"),
        (&["--idle-timeout=-3", "--", "true"], "--idle-timeout"),
        (&["--idle-timeout", "-1", "--", "true"], "not a number of seconds"),
        (&["--no-such-flag"], "--no-such-flag"),
        (
            &["up", "--mount", "foo"],
            "'--mount <MOUNT>': not HERE:THERE or HERE:THERE:ro with whole paths; use one such as",
        ),
        (&["up", "--image", ""], "--image <IMAGE>"),
        (&["up", "--image", "a b"], "'--image <IMAGE>': not an image; use one such as registry.example/agent:1"),
        (&["up", "--claim", "big"], "'--claim <SIZE>': not the size of a volume; use one such as 5Gi"),
        (&["up", "--namespace", "Bad_NS"], "'--namespace <NAME>': not a namespace: lower-case letters, digits and -"),
        (&["up", "--storage-class", "Fast"], "'--storage-class <NAME>': \"Fast\" cannot be a name in a cluster"),
        (
            &["up", "--engine", "tcp://build:2375"],
            "'--engine <SOCKET>': not an engine of this machine, whose folders containers see: give the path of its Unix",
        ),
        (&["operator", "--image", "a b"], "'--image <IMAGE>': not an image"),
        (&["operator", "--namespace", "Bad_NS"], "'--namespace <NAME>': not a namespace"),
        (&["true"], "to run a program, write it after --: coop -- true"),
        (&["--port", "0", "true", "-v"], "to run a program, write it after --: coop -- true"),
    ] {
        let (code, err) = fails(args);
        assert_eq!(code, 2, "{args:?}");
        assert!(err.contains(names), "{args:?}: {err}");
    }
}

#[test]
fn a_path_that_is_not_a_dead_socket_is_left_alone() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let file = home.path().join("precious");
    fs::write(&file, "data").expect("it can be written");
    let (code, _, err) = run(coop(home.path()).args(["--socket", "precious", "--", "true"]));
    assert_eq!(code, 1);
    assert!(err.contains("is there and is not a socket; remove it or choose another --socket"), "{err}");
    assert_eq!(fs::read_to_string(&file).expect("it is still there"), "data");

    let listener = UnixListener::bind(home.path().join("live.sock")).expect("it can be bound");
    let (code, _, err) = run(coop(home.path()).args(["--socket", "live.sock", "--", "true"]));
    assert_eq!(code, 1);
    assert!(err.contains("another program listens on"), "{err}");
    drop(listener);
    let (code, _, err) = run(coop(home.path()).args(["--socket", "live.sock", "--log-level", "off", "--", "true"]));
    assert_eq!((code, err.as_str()), (0, ""), "a dead socket is replaced");
    assert!(!home.path().join("live.sock").exists(), "and removed at the end");
}
