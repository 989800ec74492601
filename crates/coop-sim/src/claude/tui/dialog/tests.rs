use std::path::Path;

use serde_json::{Value, json};

use super::menu::Chosen;
use super::{Dialog, Menu};
use crate::claude::hook::{AfterDeny, Decision};
use crate::claude::ids::{RequestId, ToolUseId};
use crate::claude::notice::Request;
use crate::claude::permission::suggestions;
use crate::claude::step::{Step, directives};
use crate::claude::tool::{Tool, ToolCall};
use crate::claude::tui::keys::{Key, KeyParser};

const CWD: &str = "/home/dev/project";

fn dialog(tool: Tool, input: Value) -> Dialog {
    let call = ToolCall { id: ToolUseId("t".into()), tool, input };
    let suggestions = suggestions(&call, Path::new(CWD));
    Dialog::for_request(&Request { id: RequestId("r".into()), call, suggestions }, Path::new(CWD))
}

fn bash() -> Dialog {
    dialog(Tool::Bash, json!({ "command": "touch perm.txt", "description": "run a command" }))
}

fn ask(directive: &str) -> Dialog {
    let steps = directives(directive);
    let [Step::Ask(questions)] = steps.as_slice() else { panic!("{steps:?}") };
    dialog(Tool::AskUserQuestion, json!({ "questions": questions }))
}

/// Types bytes as one read would bring them; the first answer counts.
fn press(dialog: &mut Dialog, bytes: &[u8]) -> Option<Decision> {
    let mut parser = KeyParser::default();
    let mut keys = parser.feed(bytes);
    keys.extend(parser.flush());
    keys.iter().find_map(|key| dialog.key(key))
}

fn answers(decision: Option<Decision>) -> Value {
    match decision {
        Some(Decision::Allow { input: Some(input), .. }) => input["answers"].clone(),
        other => panic!("no answers: {other:?}"),
    }
}

#[test]
fn the_permission_dialog_looks_like_the_recording() {
    let lines = bash().lines(20).join("\n");
    assert_eq!(
        lines,
        "────────────────────
 Bash command

   touch perm.txt
   run a command

 Do you want to proceed?
 ❯ 1. Yes
   2. Yes, and always allow access to project/ from this project
   3. No

 Esc to cancel · Tab to amend · ctrl+e to explain"
    );
}

#[test]
fn n_and_enter_say_yes() {
    assert_eq!(press(&mut bash(), b"n\r"), Some(Decision::ALLOW));
    assert_eq!(press(&mut bash(), b"y\r"), Some(Decision::ALLOW));
}

#[test]
fn letters_alone_say_nothing() {
    assert_eq!(press(&mut bash(), b"yes no"), None);
    assert_eq!(press(&mut bash(), b"\x1b[200~3\x1b[201~"), None);
}

#[test]
fn a_digit_acts_at_once() {
    assert_eq!(press(&mut bash(), b"1"), Some(Decision::ALLOW));
    assert_eq!(press(&mut bash(), b"3"), Some(Decision::interrupt()));
    let Some(Decision::Allow { updates, .. }) = press(&mut bash(), b"2") else { panic!() };
    assert_eq!(updates.len(), 3);
    assert_eq!(press(&mut bash(), b"4"), None);
}

#[test]
fn esc_denies() {
    assert_eq!(press(&mut bash(), b"\x1b"), Some(Decision::interrupt()));
}

#[test]
fn arrows_move_and_enter_takes_what_is_highlighted() {
    assert_eq!(press(&mut bash(), b"\x1b[B\x1b[B\r"), Some(Decision::interrupt()));
    assert_eq!(press(&mut bash(), b"\x1b[B\x1b[A\r"), Some(Decision::ALLOW));
}

#[test]
fn the_question_dialog_looks_like_the_recording() {
    let lines = ask("[[ask]]").lines(20).join("\n");
    assert_eq!(
        lines,
        "────────────────────
 ☐ Database

Which database should we use?

❯ 1. PostgreSQL
     Robust (Recommended)
  2. SQLite
     Simple file
  3. MySQL
     Popular
  4. Type something.
────────────────────
  5. Chat about this

Enter to select · ↑/↓ to navigate · Esc to cancel"
    );
}

#[test]
fn a_digit_answers_a_single_question() {
    let given = answers(press(&mut ask("[[ask]]"), b"2"));
    assert_eq!(given, json!({ "Which database should we use?": "SQLite" }));
}

#[test]
fn enter_answers_with_what_is_highlighted() {
    let given = answers(press(&mut ask("[[ask]]"), b"\x1b[B\x1b[B\r"));
    assert_eq!(given, json!({ "Which database should we use?": "MySQL" }));
}

#[test]
fn type_something_takes_text_digits_included() {
    let given = answers(press(&mut ask("[[ask]]"), b"4Redis 7\r"));
    assert_eq!(given, json!({ "Which database should we use?": "Redis 7" }));
}

#[test]
fn chatting_declines_but_does_not_interrupt() {
    let decision = press(&mut ask("[[ask]]"), b"5");
    assert!(matches!(decision, Some(Decision::Deny { then: AfterDeny::Continue, .. })), "{decision:?}");
    assert_eq!(press(&mut ask("[[ask]]"), b"\x1b"), Some(Decision::interrupt()));
}

#[test]
fn several_questions_end_in_a_review() {
    let mut dialog = ask("[[ask2]]");
    assert_eq!(press(&mut dialog, b"21"), None);
    let review = dialog.lines(20).join("\n");
    assert!(review.contains("→ SQLite") && review.contains("→ Rust") && review.contains("❯ 1. Submit answers"));
    let given = answers(press(&mut dialog, b"1"));
    assert_eq!(given, json!({ "Which database should we use?": "SQLite", "Which language?": "Rust" }));
}

#[test]
fn a_trailing_enter_confirms_the_next_question_as_with_the_real_one() {
    let mut dialog = ask("[[ask2]]");
    assert_eq!(press(&mut dialog, b"2\r"), None);
    let given = answers(press(&mut dialog, b"\r"));
    assert_eq!(given, json!({ "Which database should we use?": "SQLite", "Which language?": "Rust" }));
}

#[test]
fn several_choices_are_ticked_and_reviewed() {
    let mut dialog = ask("[[askmulti]]");
    assert_eq!(press(&mut dialog, b"123"), None);
    assert_eq!(press(&mut dialog, b"2\x1b[C"), None);
    assert!(dialog.lines(20).join("\n").contains("→ Login, Export"));
    assert_eq!(answers(press(&mut dialog, b"1")), json!({ "Which features?": "Login, Export" }));
}

#[test]
fn a_plan_is_approved_or_sent_back_with_words() {
    let plan = || dialog(Tool::ExitPlanMode, json!({ "plan": "# Plan\n\n1. Do it\n" }));
    let mode = |decision| match decision {
        Some(Decision::Allow { updates, .. }) => updates[0]["mode"].clone(),
        other => panic!("not approved: {other:?}"),
    };
    assert_eq!(mode(press(&mut plan(), b"1")), "acceptEdits");
    assert_eq!(mode(press(&mut plan(), b"2")), "default");
    let Some(Decision::Deny { message, then }) = press(&mut plan(), b"3no 1 db\r") else { panic!() };
    assert!(message.ends_with("the user said:\nno 1 db"), "{message}");
    assert_eq!(then, AfterDeny::Continue);
    assert_eq!(press(&mut plan(), b"3\r"), None);
    assert_eq!(press(&mut plan(), b"\x1b"), Some(Decision::interrupt()));
    assert!(plan().lines(20).contains(&" ❯ 1. Yes, and use auto mode".to_owned()));
}

#[test]
fn set_up_dialogs_have_the_defaults_of_the_recordings() {
    assert_eq!(Menu::trust(Path::new(CWD)).key(&Key::Enter), Some(Chosen::Trust));
    assert_eq!(Menu::trust(Path::new(CWD)).key(&Key::Char('2')), Some(Chosen::Exit));
    assert!(Menu::api_key("sk-ant-key").lines(9).contains(&" ❯ 2. No (recommended)".to_owned()));
    assert_eq!(Menu::bypass().key(&Key::Enter), Some(Chosen::Exit));
    assert_eq!(Menu::settings(&[]).key(&Key::Char('2')), Some(Chosen::GoOn));
}
