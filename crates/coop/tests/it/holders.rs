//! A conversation is one process's: whoever comes second, a person or an agent, is told who has it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};

use crate::guests::{Guest, guests};
use crate::tool::{self, LIMIT};
use crate::workspaces::{Lab, agent_type};

/// Makes a workspace in which an agent has said something and has ended. Returns its path and the conversation.
fn workspace(lab: &Lab, repository: &Path) -> (PathBuf, String) {
    let made = lab.json(repository, &["ws", "create", "w"]);
    let path = PathBuf::from(made["path"].as_str().expect("a path"));
    lab.json(repository, &["ws", "spawn", "w", "fixer", "--id", "a", "--prompt", "hello"]);
    let (code, _, err) = lab.run(repository, &["wait", "a", "--for", "idle", "--timeout", "170"]);
    assert_eq!(code, 0, "{err}{}", lab.log());
    let id = lab.json(repository, &["ws", "env", "w"])["COOP_CLAUDE_SESSION_ID"].as_str().expect("one").to_owned();
    (path, id)
}

/// Waits until nobody but so many is there.
fn until_left(lab: &Lab, at: &Path, left: usize) {
    let deadline = Instant::now() + LIMIT;
    while guests(lab, at).as_array().map(Vec::len) != Some(left) {
        assert!(Instant::now() < deadline, "{}", guests(lab, at));
    }
}

/// Runs the wrapper, which is expected not to stay, and returns its exit code and what it said.
fn refused(lab: &Lab, at: &Path, words: &[&str]) -> String {
    let (code, out, err) = tool::run(Guest::command(lab, at, words).stdin(Stdio::null()));
    assert!(code == 1 && out.is_empty(), "{words:?}: {code} {out} {err}");
    err
}

#[test]
fn a_second_claude_is_told_who_has_the_conversation_and_gets_another() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let (path, id) = workspace(&lab, &repository);
    // As long as its agent runs nobody else can name it, but for a copy.
    let said = refused(&lab, &path, &["--resume", &id]);
    assert!(said.contains("is open in the agent a"), "{said}");
    lab.json(&repository, &["kill", "a"]);
    let first = Guest::with(&lab, &path, &[]);
    assert_eq!(first.words, format!("--resume={id}"));
    let pid = first.child.id();
    let told = &guests(&lab, &path)[0];
    assert_eq!((&told["pid"], &told["sessionId"]), (&json!(pid), &json!(id)));
    assert!(told["since"].as_u64().is_some_and(|since| since > 1_700_000_000_000), "{told}");
    // The second begins anew, and says why.
    let mut second = Guest::command(&lab, &path, &["do more"]).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stderr = second.stderr.take().expect("piped");
    let second = Guest::told(second);
    assert_eq!(second.words, "do more");
    // With --settings of one's own there are no hooks, and it is the same.
    let (code, out, err) = tool::run(Guest::command(&lab, &path, &["--settings", "{}", "again"]).stdin(Stdio::null()));
    assert_eq!((code, out.as_str()), (0, "--settings {} again\n"));
    assert!(err.contains(&format!("process {pid}")), "{err}");
    second.end();
    let mut said = String::new();
    stderr.read_to_string(&mut said).expect("text");
    assert!(said.contains(&format!("{id} is open in a person's own claude (process {pid}, for ")), "{said}");
    assert!(said.contains("this claude begins a new one"), "{said}");
    // Whoever names it is refused, in every form, also for one question; a copy is nobody else's.
    let joined = format!("-r{id}");
    let equals = format!("--resume={id}");
    for words in [&["--resume", &id][..], &[&equals], &[&joined], &["-p", "why?", "-r", &id]] {
        let said = refused(&lab, &path, words);
        assert!(said.contains(&format!("process {pid}")), "{words:?}: {said}");
    }
    Guest::with(&lab, &path, &["-r", &id, "--fork-session"]).end();
    // An agent of coop's does not go on with it either, and what cannot be done changes nothing.
    let (code, _, err) = lab.run(&repository, &["resume", "a"]);
    assert!(code == 1 && err.contains(&format!("process {pid}")), "{code} {err}");
    assert_eq!(lab.json(&repository, &["show", "a"])["needs"], Value::Null);
    first.end();
    until_left(&lab, &path, 0);
    lab.json(&repository, &["resume", "a"]);
}

#[test]
fn the_last_conversation_is_refused_to_a_second_too() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let made = lab.json(&repository, &["ws", "create", "w"]);
    let path = PathBuf::from(made["path"].as_str().expect("a path"));
    let named = "5bd9d1a2-0000-4000-8000-000000000001";
    let first = Guest::with(&lab, &path, &["--session-id", named]);
    let slug: String =
        path.to_str().expect("UTF-8").chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    let logs = lab.home.path().join(".claude/projects").join(slug);
    fs::create_dir_all(&logs).expect("made");
    fs::write(logs.join(format!("{named}.jsonl")), "{}\n").expect("written");
    for words in [&["-c"][..], &["--continue", "go on"], &["-cp", "why?"]] {
        let said = refused(&lab, &path, words);
        assert!(said.contains(&format!("process {}", first.child.id())), "{words:?}: {said}");
    }
    // It has gone to another one since: that is the one it has.
    first.hook_with("SessionStart", r#"{"session_id": "another"}"#);
    assert_eq!(guests(&lab, &path)[0]["sessionId"], "another");
    let third = Guest::with(&lab, &path, &["-c"]);
    refused(&lab, &path, &["-r", "another"]);
    third.end();
    first.end();
}

#[test]
fn of_many_that_come_at_once_one_has_the_conversation() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let (path, id) = workspace(&lab, &repository);
    lab.json(&repository, &["kill", "a"]);
    let started: Vec<_> =
        (0..12).map(|_| Guest::command(&lab, &path, &[]).stderr(Stdio::null()).spawn().expect("it runs")).collect();
    let all: Vec<_> = started.into_iter().map(Guest::told).collect();
    let mut words: Vec<_> = all.iter().map(|guest| guest.words.as_str()).collect();
    words.sort_unstable();
    assert_eq!((words[10], words[11]), ("", format!("--resume={id}").as_str()), "{words:?}");
    all.into_iter().for_each(Guest::end);
}

#[test]
fn who_sleeps_is_not_woken_into_a_conversation_that_a_person_has_open() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let (path, id) = workspace(&lab, &repository);
    lab.json(&repository, &["ws", "hibernate", "w"]);
    let guest = Guest::with(&lab, &path, &[]);
    assert_eq!(guest.words, format!("--resume={id}"));
    let (code, out, err) = lab.run(&repository, &["ws", "wake", "w", "--json"]);
    let woken: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &woken["agents"]), (1, &json!([])), "{out}{err}");
    let why = woken["failed"][0]["why"].as_str().expect("a reason");
    assert!(why.contains(&format!("process {}", guest.child.id())), "{why}");
    // It sleeps on, and wakes when the person is done.
    guest.end();
    until_left(&lab, &path, 0);
    assert_eq!(lab.json(&repository, &["ws", "wake", "w"]), json!({ "agents": ["a"], "failed": [] }));
}

/// The daemon is restarted while people work: their conversations are still theirs, and they count again with their next hook.
#[test]
fn guests_are_found_again_with_their_conversations() {
    let mut lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let (path, id) = workspace(&lab, &repository);
    lab.json(&repository, &["kill", "a"]);
    let guest = Guest::with(&lab, &path, &[]);
    let other = Guest::with(&lab, &path, &["--session-id", "first"]);
    other.hook_with("SessionStart", r#"{"session_id": "second"}"#);
    let gone = Guest::with(&lab, &path, &[]);
    lab.restart();
    gone.end();
    until_left(&lab, &path, 2);
    let mut held: Vec<_> =
        guests(&lab, &path).as_array().expect("a list").iter().map(|one| one["sessionId"].clone()).collect();
    held.sort_by_key(Value::to_string);
    assert_eq!(held, [json!(id), json!("second")]);
    let said = refused(&lab, &path, &["-r", &id]);
    assert!(said.contains(&format!("process {}", guest.child.id())), "{said}");
    refused(&lab, &path, &["-r", "second"]);
    assert_eq!(lab.run(&repository, &["resume", "a"]).0, 1);
    // They report where they always did.
    let mut told = lab.follow();
    guest.hook_with("UserPromptSubmit", "{}");
    assert_eq!(agent_type(&mut told, "busy")["agent"]["counts"], json!({ "idle": 0, "busy": 1, "total": 1 }));
    guest.end();
    other.end();
    until_left(&lab, &path, 0);
    lab.json(&repository, &["resume", "a"]);
}
