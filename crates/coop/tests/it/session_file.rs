//! `--session-file` where it cannot do what it is for. That agents go on is shown where each is tested.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use crate::driven::Agent;
use crate::tool::{COOP, LIMIT, Sidecar, coop, run, write_program};

/// No agent has it.
const GONE: &str = "3f0c2f6e-8f5c-4a8e-9a51-1f0d1c2b3a49";

/// Speaks as much of ACP as a turn needs, and cannot load a conversation.
const FORGETFUL: &str = r#"#!/bin/sh
while read -r line; do
    id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case "$line" in
        *'"initialize"'*) result='{"protocolVersion":1,"agentCapabilities":{}}' ;;
        *'"session/new"'*) result='{"sessionId":"one"}' ;;
        *'"session/prompt"'*) result='{"stopReason":"end_turn"}' ;;
        *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn what_it_cannot_do_is_refused_before_anything_runs() {
    let home = tempfile::tempdir().expect("a folder");
    let (named, nowhere) = (home.path().join("named"), home.path().join("nope/session"));
    fs::write(&named, GONE).expect("written");
    let (file, nowhere) = (text(&named), text(&nowhere));
    let unheeded = format!("{file} names the conversation {GONE}, and coop cannot go on with one for codex run as pty");
    let unknown =
        format!("{file} names the conversation {GONE}, and coop does not know whose: give --agent, or delete");
    let twice = format!("--session-file {file} names the conversation {GONE}: the command names a conversation itself");
    let claude = ["--", COOP, "sim", "claude"];
    for (words, code, why) in [
        (&["--session-file", nowhere, "--", "cat"][..], 1, "there is no folder"),
        (&[&["--session-file", file, "--resume", "x"], &claude[..]].concat(), 2, "cannot be used with"),
        (&["--session-file", file, "--", "cat"], 1, &unknown),
        (&["--session-file", file, "--agent", "unknown", "--", "cat"], 1, &unknown),
        (&["--session-file", file, "--", COOP, "sim", "codex", "exec", "--json", "hello"], 1, &unheeded),
        (&["--session-file", file, "--", COOP, "sim", "claude", "--resume", "x"], 1, &twice),
    ] {
        let (ended, out, said) = run(coop(home.path()).args(words));
        assert!(ended == code && said.contains(why) && out.is_empty(), "{words:?}: {ended} {out} {said}");
    }
    assert!(!home.path().join("nope").exists(), "nothing is made");
    assert_eq!(fs::read_to_string(&named).expect("it is there"), GONE);
}

/// The bug this keeps away: every start failed, and nobody said by which file.
#[test]
fn a_conversation_that_is_gone_says_which_file_to_delete() {
    for words in [
        &["--agent", "claude", "--", COOP, "sim", "claude"][..],
        &["--agent", "claude", "--runtime", "pipe", "--", COOP, "sim", "claude"],
        &["--agent", "opencode", "--", COOP, "sim", "opencode"],
    ] {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("session");
        fs::write(&path, GONE).expect("written");
        let file = text(&path);
        let (code, _, said) = run(coop(home.path()).args(["--session-file", file]).args(words));
        let hint = format!(
            "\ncoop: it was to go on with the conversation {GONE}, which {file} names; if the agent no longer has it, delete {file} to begin a new one\n"
        );
        assert!(code != 0 && said.contains(&hint), "{words:?}: {code} {said}");
    }
}

/// A sidecar that stays says it in its log.
#[test]
fn a_sidecar_that_goes_on_says_it_in_its_log() {
    for words in [
        &["--linger", "forever", "--agent", "claude", "--", COOP, "sim", "claude"][..],
        &["--agent", "acp", "--", COOP, "sim", "acp"],
        &["--agent", "codex", "--runtime", "pipe", "--", COOP, "sim", "codex"],
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("session");
        fs::write(&path, GONE).expect("written");
        let mut sidecar = Sidecar::start(&[&["--session-file", text(&path)], words].concat());
        let log = BufReader::new(sidecar.child.stderr.take().expect("it is piped"));
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let hint = format!("delete {} to begin a new one", path.display());
        let mut seen = String::new();
        while !seen.contains(&hint) {
            let line = receiver.recv_timeout(LIMIT);
            seen += &line.unwrap_or_else(|_| panic!("{words:?} does not say it: {seen}"));
        }
        assert!(seen.contains("ERROR"), "{seen}");
    }
}

/// An operator gives one to all of its agents: it says that nothing is kept, and still keeps a second sidecar away.
#[test]
fn a_program_without_conversations_runs_and_says_that_none_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("session");
    let words = ["--session-file", text(&path), "--", "cat"];
    let mut first = Sidecar::start(&words);
    let (code, _, said) = run(coop(folder.path()).args(words));
    assert!(code == 1 && said.contains("another sidecar"), "{code} {said}");
    first.ask("POST", "/api/v1/shutdown", "");
    let (_, log) = first.wait();
    assert_eq!(log.matches("so none is kept in").count(), 1, "{log}");
    assert!(!path.exists());
}

/// The bug this keeps away: the second start of an ACP agent that cannot load a conversation failed, and every further one.
#[test]
fn a_conversation_that_cannot_be_gone_on_with_is_not_kept() {
    let work = tempfile::Builder::new().prefix("coop-work-").tempdir().expect("a folder").keep();
    let (program, path) = (work.join("forgetful"), work.join("session"));
    write_program(&program, FORGETFUL);
    let words = ["--agent", "acp", "--session-file", text(&path), "--", text(&program)];
    for _ in 0..2 {
        let sidecar = Sidecar::with(&words, |command| command.current_dir(&work));
        let mut agent = Agent::of(sidecar, work.clone(), None);
        agent.state("idle");
        agent.turn("hello", &[]);
        agent.post("/api/v1/shutdown", &serde_json::json!({}));
        let (_, log) = agent.sidecar.wait();
        assert_eq!(log.matches("so none is kept in").count(), 1, "{log}");
        assert!(!path.exists());
        // The folder is the next one's.
        agent.work = "/nonexistent".into();
    }
    fs::remove_dir_all(work).expect("it is there");
}
