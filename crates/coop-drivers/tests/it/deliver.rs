//! How messages are typed.

use coop_api::{Line, Modes, Screen, Style};
use coop_drivers::{Expected, OnScreen, Refusal, Runtime, Step, View};
use proptest::prelude::*;
use serde_json::json;

use crate::mimic::{Mimic, Seen};
use crate::recordings;
use crate::screens::{line, of_lines, screen};

const RULE: &str = "────────────────────────────────────────";
const CLEAR_LINE: &[u8] = b"\x15\x7f";

/// Returns a screen with these rows in the agent's input.
fn with_input(rows: Vec<Line>) -> Screen {
    let plain = |text: &str| line(&[(text, Style::default())]);
    let above = [plain("❯ an older message"), plain(""), plain("● Done."), plain(RULE)];
    let below = [plain(RULE), plain("  ? for shortcuts")];
    let modes = Modes { bracketed_paste: true, ..Modes::default() };
    of_lines(above.into_iter().chain(rows).chain(below).collect(), modes)
}

fn typed(rows: &[&str]) -> Screen {
    with_input(rows.iter().map(|row| line(&[(row, Style::default())])).collect())
}

fn dim() -> Style {
    Style { dim: true, ..Style::default() }
}

fn inverse() -> Style {
    Style { inverse: true, ..Style::default() }
}

/// Returns how a message is handed to an agent whose last message was another one.
fn deliver(text: &str, last: &str, screen: &Screen) -> Result<Vec<Step>, Refusal> {
    let mut mimic = Mimic::ready();
    let payload = json!({ "prompt": last });
    mimic.see(&Seen::Hook { event: "UserPromptSubmit".into(), payload }, 1);
    mimic.driver.deliver(text, &View { runtime: Runtime::Pty, screen })
}

/// Returns all that is typed, in one.
fn keys(steps: &[Step]) -> Vec<u8> {
    let keys = steps.iter().filter_map(|step| match step {
        Step::Type(bytes) => Some(bytes.to_vec()),
        _ => None,
    });
    keys.collect::<Vec<_>>().concat()
}

fn pasted(text: &str) -> Vec<u8> {
    format!("\x1b[200~{text}\x1b[201~\r").into_bytes()
}

#[test]
fn a_message_is_pasted_and_then_sent() {
    let steps = deliver("hello\nthere", "", &typed(&["❯\u{a0}"])).expect("steps");
    insta::assert_debug_snapshot!(steps, @r#"
    [
        Type(
            b"\x1b[200~hello\nthere\x1b[201~",
        ),
        Pause(
            150ms,
        ),
        Expect {
            what: Screen(
                InputFilled,
            ),
            within: 10s,
            retry: None,
        },
        Type(
            b"\r",
        ),
        Expect {
            what: TurnBegan,
            within: 20s,
            retry: Some(
                Retry {
                    after: 5s,
                    keys: b"\r",
                    only_if: InputHolds(
                        "hello\nthere",
                    ),
                },
            ),
        },
    ]
    "#);
}

#[test]
fn what_an_interrupt_put_back_is_cleared() {
    let long = "one two three four five six seven eight";
    let many = vec!["row"; 40].join("\n");
    let cases: [(&str, &[&str]); 5] = [
        ("fix it", &["❯\u{a0}fix it"]),
        // Wrapped, and with lines of its own.
        (long, &["❯\u{a0}one two three four five", "  six seven eight"]),
        ("a\n\nb", &["❯\u{a0}a", "", "  b"]),
        (&many, &["❯\u{a0}[Pasted text #3 +39 lines]"]),
        (long, &["❯\u{a0}[Pasted text #12]"]),
    ];
    for (last, rows) in cases {
        let steps = deliver("next", last, &typed(rows)).expect("steps");
        assert_eq!(steps[0], Step::Type(CLEAR_LINE.repeat(rows.len()).into()), "{rows:?}");
        assert_eq!(keys(&steps[1..]), pasted("next"));
    }
}

#[test]
fn what_a_person_has_typed_is_left_alone() {
    let cases: [(&str, &[&str]); 8] = [
        ("", &["❯\u{a0}x"]),
        ("fix it", &["❯\u{a0}fix it now"]),
        ("fix it", &["❯\u{a0}fix"]),
        ("fix it", &["❯ rm -r"]),
        ("a\nb", &["❯\u{a0}a"]),
        // A paste of their own.
        ("fix it", &["❯\u{a0}[Pasted text #3 +39 lines]"]),
        ("a\nb", &["❯\u{a0}[Pasted text #3 +2 lines]"]),
        ("a\nb", &["❯\u{a0}[Pasted text #3 +1 lines] and more"]),
    ];
    for (last, rows) in cases {
        let refusal = deliver("next", last, &typed(rows)).expect_err("a refusal");
        assert!(matches!(refusal, Refusal::Occupied(_)), "{rows:?}: {refusal:?}");
    }
}

#[test]
fn faint_suggestions_are_not_typed_text() {
    let mark = ("❯\u{a0}", Style::default());
    let cases = [
        vec![line(&[mark.clone(), ("Try \"fix the tests\"", dim())])],
        // The cursor stands on its first character.
        vec![line(&[mark.clone(), ("T", inverse()), ("ry \"fix the tests\"", dim())])],
        vec![line(&[("❯\u{a0}Press up to edit queued messages", dim())])],
        vec![line(&[mark.clone(), (" ", inverse())])],
        vec![line(&[mark.clone(), ("Try this, which is long and", dim())]), line(&[("  goes on", dim())])],
    ];
    for rows in cases {
        let steps = deliver("next", "", &with_input(rows.clone())).expect("steps");
        assert_eq!(keys(&steps), pasted("next"), "{rows:?}");
    }
}

/// Half of a command was typed, and the agent shows faintly how it would end: the message would land behind the half.
#[test]
fn text_with_a_faint_end_is_typed_text() {
    let mark = ("❯\u{a0}", Style::default());
    let cases = [
        vec![line(&[mark.clone(), ("/mo", Style::default()), ("del", dim())])],
        vec![line(&[mark.clone(), ("/mo", Style::default()), ("d", inverse()), ("el", dim())])],
        vec![line(&[mark, ("hi", Style::default())]), line(&[("  (ctrl+g to edit)", dim())])],
    ];
    for rows in cases {
        let refusal = deliver("next", "", &with_input(rows.clone())).expect_err("a refusal");
        assert!(matches!(refusal, Refusal::Occupied(_)), "{rows:?}: {refusal:?}");
    }
}

#[test]
fn nothing_is_typed_before_the_terminal_takes_pastes() {
    let screen = of_lines(vec![line(&[("❯ ", Style::default())])], Modes::default());
    assert!(matches!(deliver("next", "", &screen), Err(Refusal::NotYet(_))));
}

/// In a dialog that coop does not know, or in the list of what was said, a message would do anything but arrive.
#[test]
fn nothing_is_typed_where_the_input_is_not_to_be_seen() {
    for rows in [&["! ls"][..], &["  Help  General   Commands", "  Esc to cancel"], &[]] {
        assert!(matches!(deliver("next", "", &typed(rows)), Err(Refusal::NotYet(_))), "{rows:?}");
    }
}

/// Returns the last step of a message, and the screens on which Enter is pressed once more.
fn retried(text: &str) -> (Expected, OnScreen) {
    let steps = deliver(text, "", &typed(&["❯\u{a0}"])).expect("steps");
    match steps.last() {
        Some(Step::Expect { what, retry: Some(retry), .. }) => (what.clone(), retry.only_if.clone()),
        other => panic!("{other:?}"),
    }
}

/// `/model` opens a dialog in which Enter chooses, and no turn begins: Enter used to be pressed again.
#[test]
fn enter_is_pressed_again_only_where_the_message_still_is() {
    let mimic = Mimic::ready();
    let shows = |text: &str, rows: &[&str]| mimic.driver.shows(&retried(text).1, &typed(rows));
    assert_eq!(retried("/model").0, Expected::Command);
    assert_eq!(retried("a /model").0, Expected::TurnBegan);
    assert!(shows("/model", &["❯\u{a0}/model"]) && shows("fix it", &["❯\u{a0}fix", "  it"]));
    assert!(shows(&"row\n".repeat(40), &["❯\u{a0}[Pasted text #3 +40 lines]"]));
    assert!(!shows("/model", &["❯\u{a0}"]) && !shows("fix it", &["❯\u{a0}fix"]) && !shows("fix it", &["❯\u{a0}x"]));
    assert!(!shows("/model", &["  Select model", "  ❯ 1. Default", "    2. /model"]));
    assert!(!shows("ls", &["! ls"]), "it would run");
}

#[test]
fn a_name_at_the_end_opens_no_list() {
    let empty = typed(&["❯\u{a0}"]);
    for (text, expected) in [("look at @src", "look at @src "), ("@a then @b c", "@a then @b c"), ("#x", "#x")] {
        assert_eq!(deliver(text, "", &empty).map(|steps| keys(&steps)), Ok(pasted(expected)), "{text:?}");
    }
}

#[test]
fn an_exclamation_mark_does_not_run_a_command() {
    let empty = typed(&["❯\u{a0}"]);
    let cases = [
        ("!rm -r x", " !rm -r x"),
        // What goes before it is not typed.
        ("\u{1b}!rm", " !rm"),
        ("\u{7}\u{9b}!rm", " !rm"),
        ("fix it!", "fix it!"),
        ("\n!rm", " \n!rm"),
        ("\u{200b}!rm", " \u{200b}!rm"),
    ];
    for (text, expected) in cases {
        assert_eq!(deliver(text, "", &empty).map(|steps| keys(&steps)), Ok(pasted(expected)), "{text:?}");
    }
}

/// Claude Code 2.1.325 and Gemini CLI trim what is typed: ` /clear` ran as a command, and the conversation was lost.
#[test]
fn a_command_behind_blanks_is_refused() {
    let empty = typed(&["❯\u{a0}"]);
    for text in [" /clear", "\n/clear now", "\t/x", "\u{200b}/clear", "\u{1b}/clear"] {
        let refusal = deliver(text, "", &empty).expect_err("a refusal");
        assert!(matches!(refusal, Refusal::BadRequest(_)), "{text:?}: {refusal:?}");
    }
    for text in ["/clear", " /usr/bin is a path", " / is the root", "a /clear", " hello"] {
        assert!(deliver(text, "", &empty).is_ok(), "{text:?}");
    }
}

#[test]
fn a_message_without_anything_to_see_is_refused() {
    for text in ["", " \n", "\u{1b}\u{0}"] {
        let refusal = deliver(text, "", &typed(&["❯\u{a0}"])).expect_err("a refusal");
        assert!(matches!(refusal, Refusal::BadRequest(_)), "{text:?}: {refusal:?}");
    }
}

#[test]
fn the_inputs_of_the_recordings_are_empty() {
    for recording in recordings::all().into_iter().filter(|recording| recording.name.starts_with('B')) {
        let told = match deliver("next", "", &screen(recording.text.lines())) {
            Ok(_) => "typed",
            Err(Refusal::Occupied(_)) => "occupied",
            Err(_) => "no input",
        };
        let expected = match &recording.name[..3] {
            // Without its styles the suggestion looks typed.
            "B14" => "occupied",
            "B01" | "B02" | "B03" | "B05" | "B08" | "B16" | "B25" | "B26" | "B27" | "B30" => "no input",
            _ => "typed",
        };
        assert_eq!(told, expected, "{}", recording.name);
    }
}

proptest! {
    /// Whatever a message holds, it cannot leave its paste, and all of it that can be seen arrives.
    #[test]
    fn no_message_acts_by_itself(text in any::<String>()) {
        let Ok(steps) = deliver(&text, "", &typed(&["❯\u{a0}"])) else { return Ok(()) };
        let keys = String::from_utf8(keys(&steps)).expect("text");
        let inner = keys.strip_prefix("\x1b[200~").and_then(|rest| rest.strip_suffix("\x1b[201~\r"));
        let inner = inner.expect("one paste and one Enter");
        prop_assert!(!inner.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{inner:?}");
        prop_assert!(!inner.starts_with('!'), "{inner:?}");
        let seen = |text: &str| text.chars().filter(|c| !c.is_control() && !c.is_whitespace()).collect::<String>();
        prop_assert_eq!(seen(inner), seen(&text));
    }
}
