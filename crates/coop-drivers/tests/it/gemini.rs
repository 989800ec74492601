//! What the real Gemini CLI was seen to do, and what the driver makes of it. What is expected stands beside each recording
//! in `recordings/gemini`: B are screens, C are hooks, D is a log, E is all of it and the titles, in the order they came.

use std::path::PathBuf;
use std::sync::LazyLock;

use coop_api::{AgentState, Answer};
use coop_drivers::{Expected, Known, Launch, Meaning, OnScreen, Rules, Runtime, Step, View};
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use serde_json::{Value, json};

use crate::mimic::{Mimic, SESSION, Seen, says_no};
use crate::recordings::{Recording, dialog, read, story};
use crate::screens::screen;

/// The bottom of its screen while there is no dialog.
const INPUT: &str = "▄▄▄▄\n >   Type your message or @path/to/file\n▀▀▀▀\n /home/dev/project\n";

static RULES: LazyLock<Rules> = LazyLock::new(|| gemini().rules().expect("the rules"));

fn gemini() -> &'static Known {
    Known::by_name("gemini").expect("a known agent")
}

static ALL: LazyLock<Vec<Recording>> = LazyLock::new(all);
static EVERYTHING: LazyLock<Vec<(u64, Seen)>> = LazyLock::new(|| ALL.iter().flat_map(all_seen).collect());

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/gemini")
}

#[expect(clippy::disallowed_methods, reason = "the recordings are found by looking")]
fn all() -> Vec<Recording> {
    let entries = std::fs::read_dir(folder()).expect("the recordings");
    let mut recordings: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter(|name| !name.ends_with(".snap") && !name.ends_with(".snap.new"))
        .map(|name| Recording { text: read(folder().join(&name)), name })
        .collect();
    recordings.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(recordings.len() >= 18, "only {} recordings", recordings.len());
    recordings
}

/// Returns one that is launched with hooks, or without.
fn mimic(isolated: bool) -> Mimic {
    let launch = Launch {
        runtime: Runtime::Pty,
        command: vec!["gemini".into()],
        session_id: SESSION.into(),
        isolated: isolated.then(|| "/home/dev".to_owned()),
        trusts_folder: isolated,
        cwd: "/w".into(),
        ..Launch::default()
    };
    Mimic::of((gemini().new)(RULES.clone(), &launch))
}

fn rows(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// Returns what a line shows.
fn seen(recording: &Recording, line: &str) -> Option<(u64, Seen)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let at = (value["t"].as_f64().unwrap_or(0.0) * 1000.0).round() as u64;
    let hook = |event: &Value| Some(Seen::Hook { event: event.as_str()?.to_owned(), payload: value["stdin"].clone() });
    match recording.name.as_bytes()[0] {
        b'C' => Some((at, hook(&value["event"])?)),
        b'D' => Some((0, Seen::Log(value))),
        b'E' => {
            let seen = match (&value["log"], &value["title"], &value["screen"]) {
                (Value::Null, Value::String(title), _) => Seen::Title(title.clone()),
                (Value::Null, _, Value::String(name)) => Seen::Screen(rows(&read(folder().join(name)))),
                (Value::Null, _, _) => hook(&value["hook"])?,
                (line, _, _) => Seen::Log(line.clone()),
            };
            Some((at, seen))
        }
        _ => None,
    }
}

fn all_seen(recording: &Recording) -> Vec<(u64, Seen)> {
    match recording.name.as_bytes()[0] {
        b'B' => vec![(0, Seen::Screen(rows(&recording.text)))],
        _ => {
            let seen = recording.text.lines().filter_map(|line| seen(recording, line));
            // Whenever the title changes, the screen is looked at.
            seen.flat_map(|(at, seen)| {
                let look = matches!(seen, Seen::Title(_)).then(|| (at, Seen::Screen(rows(INPUT))));
                [Some((at, seen)), look].into_iter().flatten()
            })
            .collect()
        }
    }
}

fn expect(name: &str, told: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../recordings/gemini");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, told));
}

#[test]
fn every_recording_tells_the_states_the_agent_was_in() {
    for recording in ALL.iter() {
        let mut mimic = mimic(!recording.name.starts_with('D'));
        let mut told = story(&mut mimic, &all_seen(recording));
        told.push_str(&dialog(&mimic, recording));
        expect(&recording.name, &told);
    }
}

/// Returns the asks that a screen shows, with the keys that deny them.
fn denials(rows: &[String]) -> Vec<(Vec<Step>, Vec<String>)> {
    let mut mimic = mimic(false);
    mimic.see(&Seen::Screen(rows.to_vec()), 0);
    let screen = screen(rows.iter().map(String::as_str));
    let view = View { runtime: Runtime::Pty, screen: &screen };
    let mut found = Vec::new();
    for (ask, reach) in mimic.asks() {
        // By the words a person reads, not by what the driver makes of them.
        let rejecting: Vec<_> = ask.options.iter().filter(|option| says_no(&option.label)).collect();
        for answer in [r#"{"accept":false}"#, r#"{"accept":false,"text":"yes, do it"}"#] {
            let answer: Answer = serde_json::from_str(answer).expect("an answer");
            if let Ok(steps) = mimic.driver.answer(ask, reach, &answer, &view) {
                found.push((steps, rejecting.iter().map(|option| option.id.clone()).collect()));
            }
        }
    }
    found
}

/// A denial is the digit of the option that says so, or Escape: no letter, no Enter, no other option.
fn is_denial(steps: &[Step], rejecting: &[String]) -> bool {
    let is_right = |step: &Step| match step {
        Step::Type(keys) => &keys[..] == b"\x1b" || rejecting.iter().any(|id| id.as_bytes() == &keys[..]),
        Step::Expect { retry, .. } => retry.is_none(),
        Step::Reply(_) | Step::Send(_) | Step::Call(_) | Step::Pause(_) => false,
    };
    // The dialog has to be there when the key is typed.
    let sees = matches!(steps, [Step::Expect { what: Expected::Screen(OnScreen::Asked(_)), .. }, Step::Type(_), _]);
    sees && steps.iter().all(is_right)
}

#[test]
fn a_denial_is_the_option_that_says_so_or_escape() {
    let denied: Vec<_> = ALL.iter().filter(|recording| recording.name.starts_with('B')).collect();
    let denied: Vec<_> = denied.iter().flat_map(|recording| denials(&rows(&recording.text))).collect();
    assert!(denied.len() >= 12, "only {} denials", denied.len());
    for (steps, rejecting) in denied {
        assert!(is_denial(&steps, &rejecting), "{steps:?}");
    }
}

/// Tells whether something shows that a turn is over, or that none has begun.
fn is_sign_of_idleness(seen: &Seen) -> bool {
    match seen {
        Seen::Hook { event, .. } => event == "AfterAgent" || event == "SessionStart",
        Seen::Log(line) => line["type"].is_string() || line["sessionId"].is_string(),
        Seen::Screen(_) => true,
        Seen::Title(_)
        | Seen::Status(_)
        | Seen::Control(_)
        | Seen::Link(_)
        | Seen::LinkLost
        | Seen::Sent(_)
        | Seen::Answered { .. } => false,
    }
}

/// Runs observations, and checks after each that idleness came with a sign of it, and the title said so if it is the sign.
fn check(mimic: &mut Mimic, seen: &[(u64, Seen)]) {
    let mut title = String::new();
    for (at, seen) in seen {
        let before = mimic.state().clone();
        if let Seen::Title(text) = seen {
            text.clone_into(&mut title);
        }
        mimic.see(seen, *at);
        if *mimic.state() == AgentState::Idle && before != AgentState::Idle {
            assert!(is_sign_of_idleness(seen), "idle after {seen:?}");
            let is_cancelled = matches!(seen, Seen::Log(line) if line["type"] == "info");
            let by_title = matches!(seen, Seen::Screen(_) | Seen::Log(_)) && !is_cancelled && !title.is_empty();
            assert!(!by_title || title.starts_with('◇'), "idle under the title {title:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_recording_may_be_cut_at_any_byte(number in any::<Index>(), at in any::<Index>()) {
        let recording = &ALL[number.index(ALL.len())];
        let at = at.index(recording.text.len() + 1);
        let text = String::from_utf8_lossy(&recording.text.as_bytes()[..at]).into_owned();
        let cut = Recording { name: recording.name.clone(), text };
        check(&mut mimic(true), &all_seen(&cut));
        for (steps, rejecting) in denials(&rows(&cut.text)) {
            prop_assert!(is_denial(&steps, &rejecting), "{steps:?}");
        }
    }

    #[test]
    fn anything_may_come_after_anything(
        seen in subsequence((0..EVERYTHING.len()).collect::<Vec<_>>(), 0..60).prop_shuffle(),
        isolated in any::<bool>(),
    ) {
        let seen: Vec<_> = seen.into_iter().map(|at| EVERYTHING[at].clone()).collect();
        check(&mut mimic(isolated), &seen);
    }
}

fn log_line(kind: &str, text: &str, second: u32) -> Seen {
    let content = if kind == "user" { json!([{ "text": text }]) } else { json!(text) };
    let timestamp = format!("1970-01-01T00:00:{second:02}Z");
    Seen::Log(json!({ "id": format!("{kind}{text}"), "type": kind, "content": content, "timestamp": timestamp }))
}

/// On a busy machine the title said "ready" until after the agent's first words, and coop told that it was idle.
#[test]
fn a_turn_is_not_over_while_the_title_is_that_of_the_turn_before() {
    let mut mimic = mimic(false);
    mimic.see(&Seen::Log(json!({ "sessionId": SESSION })), 500);
    mimic.see(&Seen::Title("◇  Ready (x)".into()), 1_000);
    mimic.see(&Seen::Screen(rows(INPUT)), 1_000);
    assert_eq!(mimic.describe(), "idle");
    mimic.see(&log_line("user", "go", 5), 5_000);
    mimic.see(&Seen::Screen(rows(INPUT)), 7_000);
    mimic.see(&log_line("gemini", "I will.", 6), 8_000);
    mimic.see(&Seen::Screen(rows(INPUT)), 9_000);
    assert_eq!(mimic.describe(), "working");
    mimic.see(&Seen::Title("✦  Working… (x)".into()), 9_500);
    mimic.see(&Seen::Title("◇  Ready (x)".into()), 10_000);
    mimic.see(&Seen::Screen(rows(INPUT)), 10_000);
    assert_eq!(mimic.describe(), "idle");
}

/// On a busy machine the titles of a turn were seen before the log told of the turn.
#[test]
fn a_turn_is_over_by_a_title_that_was_seen_before_the_log() {
    let mut mimic = mimic(false);
    mimic.see(&Seen::Log(json!({ "sessionId": SESSION })), 500);
    mimic.see(&Seen::Title("◇  Ready (x)".into()), 1_000);
    mimic.see(&Seen::Screen(rows(INPUT)), 1_000);
    mimic.see(&Seen::Title("✦  Working… (x)".into()), 4_900);
    mimic.see(&Seen::Title("◇  Ready (x)".into()), 6_000);
    mimic.see(&Seen::Screen(rows(INPUT)), 6_000);
    mimic.see(&log_line("user", "go", 5), 6_500);
    mimic.see(&log_line("gemini", "Done.", 7), 7_000);
    assert_eq!(mimic.describe(), "idle");
}

/// On a busy machine the title says that it is ready before the log says that the request failed.
#[test]
fn a_turn_is_not_over_before_the_log_has_told_how_it_went() {
    let line = |kind: &str, text: &str| log_line(kind, text, 10);
    let asked = || {
        let mut mimic = mimic(true);
        mimic.see(
            &Seen::Hook {
                event: "SessionStart".into(),
                payload: json!({ "source": "startup", "session_id": SESSION }),
            },
            1_000,
        );
        mimic.see(&Seen::Hook { event: "BeforeAgent".into(), payload: json!({ "prompt": "go" }) }, 5_000);
        mimic.see(&Seen::Title("✦  Working… (x)".into()), 6_000);
        mimic.see(&Seen::Title("◇  Ready (x)".into()), 7_000);
        mimic.see(&Seen::Screen(rows(INPUT)), 7_000);
        mimic
    };
    assert!(asked().driver.is_behind(), "nothing was told of the turn yet");
    let mut failed = asked();
    failed.see(&line("error", "[API Error: {\"error\":{\"code\":401}}]"), 8_000);
    assert!(!failed.driver.is_behind());
    assert!(matches!(failed.state(), AgentState::Blocked { .. }), "{:?}", failed.state());
    let mut answered = asked();
    answered.see(&line("gemini", "hello"), 8_000);
    assert!(!answered.driver.is_behind());
    assert_eq!(answered.describe(), "idle");
}

/// Gemini logs what it shows beside what it sends where the two differ: the content of a file that a message names, blanks at
/// the end of a long paste. Such a line began no turn, so its dialog was held back and coop said that the agent was idle.
#[test]
fn a_message_that_is_sent_otherwise_than_it_was_typed_begins_a_turn() {
    let line = |second: u32, sent: &str, shown: &str| {
        let timestamp = format!("1970-01-01T00:00:{second:02}Z");
        Seen::Log(json!({ "id": format!("{second}"), "type": "user", "timestamp": timestamp,
            "content": [{ "text": sent }], "displayContent": [{ "text": shown }] }))
    };
    let mut mimic = mimic(false);
    mimic.see(&Seen::Log(json!({ "sessionId": SESSION })), 500);
    mimic.see(&Seen::Title("◇  Ready (x)".into()), 1_000);
    mimic.see(&Seen::Screen(rows(INPUT)), 1_000);
    mimic.see(&Seen::Title("✋  Action Required (x)".into()), 5_500);
    mimic.see(&Seen::Screen(rows(&read(folder().join("B03_permission.txt")))), 5_500);
    assert_eq!(mimic.describe(), "idle", "whose dialog it is was not told yet");
    mimic.see(&line(5, "see @a.txt here\n--- Content of a.txt\nhello", "see @a.txt here"), 6_000);
    assert_eq!(mimic.asks().len(), 1);
    // A hook of the user's sends it back: no other turn, which would close the ask.
    mimic.see(&line(6, "not yet", "see @a.txt here"), 7_000);
    assert_eq!(mimic.asks().len(), 1);
}

/// Two tools asked in one step. The second dialog was taken for a page of the first, and its ask was never told.
#[test]
fn tools_that_ask_at_once_are_asks_one_after_another() {
    let hook = |event: &str, payload: Value| Seen::Hook { event: event.into(), payload };
    let mut mimic = mimic(true);
    mimic.see(&hook("SessionStart", json!({ "source": "startup", "session_id": SESSION })), 1_000);
    mimic.see(&hook("BeforeAgent", json!({ "prompt": "go" })), 2_000);
    let commands = ["touch one.txt", "touch two.txt"];
    for command in commands {
        let told = json!({ "tool_name": "run_shell_command", "tool_input": { "command": command } });
        mimic.see(&hook("BeforeTool", told), 3_000);
    }
    for command in commands {
        let details = json!({ "type": "exec", "command": command });
        mimic.see(&hook("Notification", json!({ "notification_type": "ToolPermission", "details": details })), 4_000);
    }
    mimic.see(&Seen::Title("✋  Action Required (x)".into()), 5_000);
    let dialog = read(folder().join("B03_permission.txt"));
    for (number, command) in (1..).zip(commands) {
        mimic.see(&Seen::Screen(rows(&dialog.replace("touch gperm.txt", command))), 5_000 + number);
        let asks = mimic.asks();
        assert_eq!(asks.len(), 1, "{asks:#?}");
        assert_eq!(asks[0].0.input, Some(json!({ "command": command })));
    }
}

/// What an agent runs can send a hook's report. The ask has the words of a report only if the dialog shows them, and no other
/// report fits the dialog.
#[test]
fn an_ask_has_no_words_that_its_dialog_does_not_show() {
    let lines = (0..80).map(|line| format!("touch line {line}")).collect::<Vec<_>>();
    let hidden = ["... first 44 lines hidden (Ctrl+O to show) ..."].map(str::to_owned);
    let hidden: Vec<_> = hidden.into_iter().chain(lines[44..].iter().cloned()).collect();
    let (whole, other) = (lines.join("\n"), format!("ls\n{}", lines[44..].join("\n")));
    let cases: [(&[&str], &[String], bool); 8] = [
        (&["touch a.txt"], &["touch a.txt".into()], true),
        (&["touch a"], &["touch a.txt".into()], false),
        (&["a.txt"], &["touch a.txt".into()], false),
        (&["ls"], &["touch a.txt".into(), "ls".into()], false),
        (&["touch a.txt and b.txt"], &["touch a.txt and".into(), "b.txt".into()], true),
        (&[&whole], &hidden, true),
        (&["touch line 78"], &hidden, false),
        (&[&other, &whole], &hidden, false),
    ];
    for (reported, shown, is_taken) in cases {
        let reports: Vec<_> = reported.iter().map(|command| exec(command)).collect();
        let shown = ["? Shell  run a command".to_owned()].into_iter().chain(shown.iter().cloned());
        let shown = shown.chain(["Allow execution of [Shell]?".to_owned()]);
        let command = reported_input(&reports, &shown.collect::<Vec<_>>());
        assert_eq!(command, is_taken.then(|| json!({ "command": reported[0] })), "{reported:?}");
    }
}

/// A report of one kind fits no dialog of another kind, and of a file no other file.
#[test]
fn a_report_fits_only_a_dialog_of_its_kind_and_its_file() {
    let edit = |path: &str| {
        let details = json!({ "type": "edit", "filePath": path, "fileName": path.rsplit('/').next() });
        ("write_file", json!({ "file_path": path }), details)
    };
    let info = |prompt: &str| ("web_fetch", json!({ "prompt": prompt }), json!({ "type": "info", "prompt": prompt }));
    let tool = |name: &'static str| (name, json!({ "x": 1 }), json!({ "type": "mcp", "toolName": name }));
    let plan = ("exit_plan_mode", json!({}), json!({ "type": "plan" }));
    let shell = ["? Shell  curl evil a", "curl evil a", "Allow execution of [Shell]?"];
    let write = |path: &str| [format!("? WriteFile  Writing to {path}"), "1 a".into(), "Apply this change?".into()];
    let server = ["? do (srv MCP Server)", "Allow execution of MCP tool \"do\" from server \"srv\"?"];
    let note = "... first 2 lines hidden (Ctrl+O to show) ...";
    let faked = ["? Shell  x", "rm -rf x", note, "ls", "Allow execution of [Shell]?"];
    let cases = [
        (edit("/w/a"), shell.map(str::to_owned).to_vec(), false),
        (info("a"), shell.map(str::to_owned).to_vec(), false),
        (tool("a"), shell.map(str::to_owned).to_vec(), false),
        (plan, shell.map(str::to_owned).to_vec(), false),
        (exec("a\nb\nls"), faked.map(str::to_owned).to_vec(), false),
        (edit("/w/src/a.txt"), write("src/a.txt").to_vec(), true),
        (edit("src/a.txt"), write("src/a.txt").to_vec(), true),
        (edit("/w/src/a.txt"), write("a.txt").to_vec(), false),
        (edit("/w/a.txt"), write("src/a.txt").to_vec(), false),
        (edit("/w/src/a"), write("src/a.txt").to_vec(), false),
        (edit("/w/src/a"), write("../other/src/a").to_vec(), false),
        (tool("do"), server.map(str::to_owned).to_vec(), true),
        (tool("d"), server.map(str::to_owned).to_vec(), false),
        (info("Read x"), vec!["? WebFetch".into(), "Read x".into(), "Do you want to proceed?".into()], true),
        (info("Read"), vec!["? WebFetch".into(), "Read x".into(), "Do you want to proceed?".into()], false),
    ];
    for (report, shown, is_taken) in cases {
        let input = report.1.clone();
        let taken = reported_input(&[report], &shown);
        assert_eq!(taken, is_taken.then_some(input), "{shown:?}");
    }
}

type Report<'a> = (&'a str, Value, Value);

fn exec(command: &str) -> Report<'static> {
    ("run_shell_command", json!({ "command": command }), json!({ "type": "exec", "command": command }))
}

/// Returns the input of the ask that a dialog opens after hooks reported these tools.
fn reported_input(reports: &[Report<'_>], shown: &[String]) -> Option<Value> {
    let hook = |event: &str, payload: Value| Seen::Hook { event: event.into(), payload };
    let mut mimic = mimic(true);
    mimic.see(&hook("SessionStart", json!({ "source": "startup", "session_id": SESSION })), 1_000);
    mimic.see(&hook("BeforeAgent", json!({ "prompt": "go" })), 2_000);
    for (tool, input, details) in reports {
        mimic.see(&hook("BeforeTool", json!({ "tool_name": tool, "tool_input": input })), 3_000);
        mimic.see(&hook("Notification", json!({ "notification_type": "ToolPermission", "details": details })), 3_000);
    }
    mimic.see(&Seen::Title("✋  Action Required (x)".into()), 5_000);
    let edge = "─".repeat(98);
    let row = |text: &str| format!("│ {text:<96} │");
    let rows = shown.iter().map(String::as_str).chain(["", "● 1. Allow once", "  2. No, suggest changes (esc)"]);
    let screen = [format!("╭{edge}╮")].into_iter().chain(rows.map(row)).chain([format!("╰{edge}╯")]);
    let signals = mimic.see(&Seen::Screen(screen.collect()), 5_001);
    let asked = signals.iter().find_map(|signal| match &signal.meaning {
        Meaning::Ask(draft) => Some(draft),
        _ => None,
    });
    asked.unwrap_or_else(|| panic!("no ask: {shown:?}")).input.clone()
}
