//! A "no" never becomes a "yes", whatever is asked and however it looks.

use coop_api::{Answer, Ask, AskId, QuestionAnswer};
use coop_drivers::{Expected, Label, Meaning, OnScreen, Reach, Refusal, Runtime, Step, View};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::dialogs::{self, Dialog, Truth};
use crate::mimic::{Mimic, SESSION, Seen};
use crate::screens::screen;

/// A key that is pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    Char(char),
    Enter,
    Tab,
    Up,
    Down,
    Right,
    /// Text in brackets; nothing in it acts.
    Paste(String),
}

/// Returns the keys of steps, in order.
fn keys(steps: &[Step]) -> Vec<Key> {
    let mut keys = Vec::new();
    for step in steps {
        let typed = match step {
            Step::Type(bytes) => bytes,
            Step::Expect { retry, .. } => match retry {
                Some(retry) => &retry.keys,
                None => continue,
            },
            Step::Pause(_) => continue,
            Step::Reply(_) | Step::Send(_) | Step::Call(_) => panic!("no keys: {step:?}"),
        };
        let mut rest = std::str::from_utf8(typed).expect("text");
        while let Some(first) = rest.chars().next() {
            if let Some((text, after)) = rest.strip_prefix("\x1b[200~").and_then(|rest| rest.split_once("\x1b[201~")) {
                keys.push(Key::Paste(text.to_owned()));
                rest = after;
                continue;
            }
            let named = [("\r", Key::Enter), ("\t", Key::Tab), ("\x1b[A", Key::Up), ("\x1b[B", Key::Down)];
            let named = named.into_iter().chain([("\x1b[C", Key::Right)]);
            let found = named.into_iter().find_map(|(bytes, key)| Some((key, rest.strip_prefix(bytes)?)));
            let (key, after) = found.unwrap_or((Key::Char(first), &rest[first.len_utf8()..]));
            keys.push(key);
            rest = after;
        }
    }
    keys
}

/// Returns the number of the option that steps choose. Any other keys are wrong: letters, Enter after a digit, more. And
/// Enter is pressed only once the screen shows that the mark stands before that option, with something typed there.
fn chosen(steps: &[Step]) -> Result<char, String> {
    let keys = keys(steps);
    let wrong = || Err(format!("these are not the keys for one option: {steps:?}"));
    let is_text = |text: &str| !text.contains('\x1b') && !text.trim().is_empty();
    let filled = match steps {
        [
            ..,
            Step::Expect { what: Expected::Screen(OnScreen::Marked { number, label: Label::Other(_) }), .. },
            enter,
            _,
        ] if *enter == Step::Type("\r".into()) => Some(*number),
        _ => None,
    };
    match (&keys[..], filled) {
        ([Key::Char(digit)], None) if digit.is_ascii_digit() => Ok(*digit),
        ([Key::Char(digit), Key::Paste(text), Key::Enter], Some(number)) if *digit == number && is_text(text) => {
            Ok(number)
        }
        ([moves @ .., Key::Tab, Key::Paste(text), Key::Enter], Some(number)) if is_text(text) => {
            // Each move is seen before the next key.
            let seen = steps.windows(2).filter(|pair| matches!(pair, [Step::Type(_), Step::Expect { .. }])).count();
            let are_moves = moves.iter().all(|key| matches!(key, Key::Up | Key::Down));
            if are_moves && seen > moves.len() { Ok(number) } else { wrong() }
        }
        _ => wrong(),
    }
}

/// Returns the ask that is seen on a screen.
fn seen(dialog: &Dialog) -> (Mimic, Option<Ask>) {
    let mut mimic = Mimic::new(Runtime::Pty, &["claude"]);
    mimic.see(&Seen::Screen(dialog.rows()), 0);
    let ask = mimic.asks().first().map(|(ask, _)| ask.clone());
    (mimic, ask)
}

/// Returns what an answer to the ask of one dialog types when another one is on the screen.
fn typed(asked: &Dialog, answer: &Answer, now: &Dialog) -> Option<Result<Vec<Step>, Refusal>> {
    let (mimic, ask) = seen(asked);
    let screen = now.screen();
    let view = View { runtime: Runtime::Pty, screen: &screen };
    Some(mimic.driver.answer(&ask?, &Reach::Keys, answer, &view))
}

fn verdict(accept: bool) -> Answer {
    Answer { accept: Some(accept), ..Answer::default() }
}

fn two_screens() -> impl Strategy<Value = (Dialog, Dialog)> {
    dialogs::dialog().prop_flat_map(|dialog| (Just(dialog.clone()), dialogs::successor(dialog)))
}

fn feedback() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        Just(None),
        select(vec!["", " ", "1", "y\r", "\r", "\u{1b}[201~1\r", "\u{1b}", "no\n1", "smaller steps"])
            .prop_map(|text| Some(text.to_owned())),
        any::<Option<String>>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// Labels that begin with a plain "No," are taken for a refusal unless they speak of allowing too: nothing better can
    /// be known of them.
    #[test]
    fn no_key_of_a_denial_selects_an_option_that_allows((asked, now) in two_screens(), text in feedback()) {
        let answer = Answer { text, ..verdict(false) };
        if let Some(Ok(steps)) = typed(&asked, &answer, &now) {
            prop_assert!(asked.is_same_ask(&now), "another dialog was answered: {steps:?}");
            let digit = chosen(&steps).map_err(TestCaseError::fail)?;
            let truth = now.truth_of(digit);
            prop_assert!(matches!(truth, Some(Truth::Reject) | None), "{digit} is {truth:?}");
        }
    }

    #[test]
    fn no_key_of_a_consent_selects_more_than_was_meant((asked, now) in two_screens(), always in any::<bool>()) {
        let answer = Answer { always, ..verdict(true) };
        if let Some(Ok(steps)) = typed(&asked, &answer, &now) {
            prop_assert!(asked.is_same_ask(&now), "another dialog was answered: {steps:?}");
            let digit = chosen(&steps).map_err(TestCaseError::fail)?;
            let is_meant = match now.truth_of(digit) {
                Some(Truth::AllowOnce) | None => true,
                Some(Truth::AllowAlways) => always,
                Some(Truth::Reject | Truth::Choice) => false,
            };
            prop_assert!(is_meant, "{digit} is {:?}", now.truth_of(digit));
        }
    }

    /// A number is the option that was seen under it, or nothing is typed.
    #[test]
    fn an_option_is_chosen_only_where_it_was_seen((asked, now) in two_screens(), option in 0..7u32) {
        let answer = Answer { option: Some(option), ..Answer::default() };
        if let Some(Ok(steps)) = typed(&asked, &answer, &now) {
            prop_assert!(asked.is_same_ask(&now), "another dialog was answered: {steps:?}");
            prop_assert_eq!(keys(&steps), [Key::Char(char::from_digit(option, 10).expect("a digit"))]);
        }
    }

    #[test]
    fn a_denial_is_never_told_as_consent(
        (tool, input, suggestions) in asked_as_data(),
        answer in any_denial(),
        runtime in select(vec![Runtime::Pty, Runtime::Pipe]),
    ) {
        let mut mimic = Mimic::new(runtime, &["claude"]);
        mimic.see(&match runtime {
            Runtime::Pty | Runtime::Server | Runtime::Inproc => {
                let payload = json!({
                    "session_id": SESSION, "tool_name": tool, "tool_input": input,
                    "permission_suggestions": suggestions,
                });
                Seen::Hook { event: "PermissionRequest".into(), payload }
            }
            Runtime::Pipe => {
                let request = json!({
                    "subtype": "can_use_tool", "tool_name": tool, "input": input,
                    "permission_suggestions": suggestions,
                });
                Seen::Control(json!({ "type": "control_request", "request_id": "r", "request": request }))
            }
        }, 0);
        let (ask, reach) = mimic.asks().first().expect("an ask");
        let screen = screen([]);
        let steps = mimic.driver.answer(ask, reach, &answer, &View { runtime, screen: &screen });
        match steps.as_deref() {
            Ok([Step::Reply(value)]) => {
                let decision = &value["hookSpecificOutput"]["decision"];
                prop_assert_eq!(&decision["behavior"], "deny");
                prop_assert!(is_bare(decision), "{}", decision);
            }
            Ok([Step::Send(value)]) => {
                let response = &value["response"]["response"];
                prop_assert_eq!(&response["behavior"], "deny");
                prop_assert!(is_bare(response), "{}", response);
            }
            Err(Refusal::BadRequest(_) | Refusal::NoSuchOption(_)) => {
                prop_assert!(answer.option.is_some() || !answer.options.is_empty() || !answer.answers.is_empty());
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }
}

/// Tells whether a denial is nothing but that, with a message.
fn is_bare(decision: &Value) -> bool {
    let fields = decision.as_object().expect("an object");
    fields.keys().all(|key| key == "behavior" || key == "message") && decision["message"].is_string()
}

fn asked_as_data() -> impl Strategy<Value = (&'static str, Value, Value)> {
    let questions = json!({ "questions": [
        { "question": "Which?", "options": [{ "label": "Yes" }, { "label": "No" }], "multiSelect": true },
    ] });
    let inputs = vec![
        ("Bash", json!({ "command": "rm -r x" })),
        ("Write", json!({ "file_path": "a", "content": "b" })),
        ("AskUserQuestion", questions),
        ("AskUserQuestion", json!({ "questions": "none" })),
        ("ExitPlanMode", json!({ "plan": "# Plan" })),
        ("mcp__x__y", Value::Null),
    ];
    let suggestions = vec![Value::Null, json!([]), json!([{ "type": "setMode", "mode": "acceptEdits" }])];
    (select(inputs), select(suggestions)).prop_map(|((tool, input), suggestions)| (tool, input, suggestions))
}

fn any_denial() -> impl Strategy<Value = Answer> {
    let numbers = || prop::collection::vec(0..4u32, 0..3);
    let option = || prop_oneof![2 => Just(None), 1 => (0..4u32).prop_map(Some)];
    let one = (option(), numbers(), any::<Option<String>>()).prop_map(|(option, options, text)| QuestionAnswer {
        option,
        options,
        text,
    });
    let input = select(vec![None, Some(json!({})), Some(json!({ "behavior": "allow" }))]);
    let answers = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(one, 0..3)];
    let options = prop_oneof![2 => Just(Vec::new()), 1 => numbers()];
    (any::<bool>(), option(), options, any::<Option<String>>(), answers, input).prop_map(
        |(always, option, options, text, answers, input)| Answer {
            ask: Some(AskId("ask-1".into())),
            accept: Some(false),
            always,
            option,
            options,
            text,
            answers,
            input,
            keys: Vec::new(),
            shown: None,
        },
    )
}

/// The properties above say nothing if nothing is ever answered.
#[test]
fn most_usual_dialogs_can_be_answered() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut asked, mut denied, mut allowed, mut refused_others) = (0, 0, 0, 0);
    for _ in 0..2000 {
        let (dialog, other) = two_screens().new_tree(&mut runner).expect("a tree").current();
        let is_denied = |now: &Dialog| typed(&dialog, &verdict(false), now).is_some_and(|steps| steps.is_ok());
        asked += usize::from(seen(&dialog).1.is_some());
        denied += usize::from(is_denied(&dialog));
        allowed += usize::from(typed(&dialog, &verdict(true), &dialog).is_some_and(|keys| keys.is_ok()));
        refused_others += usize::from(is_denied(&dialog) && !is_denied(&other));
    }
    let counts = [asked, denied, allowed, refused_others];
    assert!(counts.iter().zip([600, 150, 100, 50]).all(|(count, least)| *count >= least), "{counts:?}");
}

/// After a look at the screen it was another dialog with the same options: only the person knows which one was meant.
#[test]
fn another_question_with_the_same_options_is_not_answered() {
    let rows = |command: &str| {
        format!(" Bash command\n   {command}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel")
    };
    let mut mimic = Mimic::new(Runtime::Pty, &["claude"]);
    let signals = mimic.see(&Seen::Screen(rows("ls").lines().map(str::to_owned).collect()), 0);
    assert!(signals.iter().any(|signal| matches!(signal.meaning, Meaning::Ask(_))));
    let (ask, reach) = mimic.asks().first().expect("an ask");
    let answered = |command: &str| {
        let rows = rows(command);
        let screen = screen(rows.lines());
        mimic.driver.answer(ask, reach, &verdict(true), &View { runtime: Runtime::Pty, screen: &screen })
    };
    assert_eq!(answered("ls").map(|steps| keys(&steps)), Ok(vec![Key::Char('1')]));
    assert!(matches!(answered("rm -r /"), Err(Refusal::NoSuchOption(_))));
}

/// Returns what a denial types at a dialog that is drawn here.
fn denied(text: Option<&str>, options: &str) -> Option<Result<Vec<Key>, Refusal>> {
    let drawn = format!(" Bash command\n\n Do you want to proceed?\n{options}\n\n Esc to cancel");
    let mut mimic = Mimic::new(Runtime::Pty, &["claude"]);
    mimic.see(&Seen::Screen(drawn.lines().map(str::to_owned).collect()), 0);
    let (ask, reach) = mimic.asks().first()?;
    let answer = Answer { text: text.map(str::to_owned), ..verdict(false) };
    let screen = screen(drawn.lines());
    let view = View { runtime: Runtime::Pty, screen: &screen };
    Some(mimic.driver.answer(ask, reach, &answer, &view).map(|steps| keys(&steps)))
}

#[test]
fn a_denial_is_refused_where_it_is_not_clear_which_option_it_is() {
    let is_refused = |options| matches!(denied(None, options), Some(Err(Refusal::NoSuchOption(_))));
    assert_eq!(denied(None, " ❯ 1. Yes\n   2. No"), Some(Ok(vec![Key::Char('2')])));
    assert!(is_refused(" ❯ 1. Yes\n   2. No\n   3. No, exit"), "two of them");
    assert!(is_refused(" ❯ 1. Yes\n   2. Cancel"), "none that is known");
    assert!(is_refused(" ❯ 1. Yes\n   2. No\n      need to ask again"), "it goes on otherwise");
}

/// The first option had scrolled away, and a list further up took its place.
#[test]
fn options_from_elsewhere_do_not_complete_a_dialog() {
    assert_eq!(denied(None, " ❯ 1. Yes\n Some text of no option\n   2. Yes, always\n   3. No"), None);
    assert_eq!(denied(None, " ❯ 1. Yes\n\n   2. Yes, always\n   3. No"), None);
}

/// It used to be dropped silently, and the ask was told as answered with it.
#[test]
fn a_reason_goes_along_with_a_no_or_nothing_is_typed() {
    let options = " ❯ 1. Yes\n   2. Yes, and don't ask again\n   3. No";
    let refused = denied(Some("not here"), options);
    assert!(matches!(refused, Some(Err(Refusal::BadRequest(_)))), "{refused:?}");
    let keys = vec![Key::Down, Key::Down, Key::Tab, Key::Paste("not here".into()), Key::Enter];
    assert_eq!(denied(Some("not here"), &format!("{options}\n\n Tab to amend")), Some(Ok(keys)));
    let marked = options.replace("❯ 1", "  1").replace("  2", "❯ 2");
    let keys = vec![Key::Down, Key::Tab, Key::Paste("not here".into()), Key::Enter];
    assert_eq!(denied(Some("not here"), &format!("{marked}\n\n Tab to amend")), Some(Ok(keys)));
}

/// What is typed into a field of a plan or a question is sent only while the field is on the screen.
#[test]
fn no_text_is_typed_before_its_field_is_open() {
    let mut mimic = Mimic::new(Runtime::Pty, &["claude"]);
    let rows = " Would you like to proceed?\n ❯ 1. Yes\n   2. Tell Claude what to change\n\n Esc to cancel";
    mimic.see(&Seen::Screen(rows.lines().map(str::to_owned).collect()), 0);
    let (ask, reach) = mimic.asks().first().expect("an ask");
    let before = screen(rows.lines());
    let answer = Answer { text: Some("smaller steps".into()), ..verdict(false) };
    let steps = mimic.driver.answer(ask, reach, &answer, &View { runtime: Runtime::Pty, screen: &before });
    let steps = steps.expect("steps");
    assert_eq!(chosen(&steps), Ok('2'));
    let [_, _, Step::Type(_), Step::Expect { what: Expected::Screen(open), .. }, Step::Type(_), ..] = &steps[..] else {
        panic!("{steps:?}");
    };
    let opened = rows.replace("❯ 1", "  1").replace("  2", "❯ 2");
    let filled = opened.replace("Tell Claude what to change", "smaller steps");
    let shows = |what: &OnScreen, rows: &str| mimic.driver.shows(what, &screen(rows.lines()));
    assert!(!shows(open, rows) && shows(open, &opened));
    let OnScreen::Marked { number, .. } = open else { panic!("{open:?}") };
    let is_filled = OnScreen::Marked { number: *number, label: Label::Other("Tell Claude".into()) };
    assert!(!shows(&is_filled, &opened) && shows(&is_filled, &filled) && !shows(&is_filled, "❯ next"));
}

const SEVERAL: &str = "\
────────────────────
←  ☐ Features  ✔ Submit  →

Which features?

❯ 1. [ ] Login
  Sign in
  2. [ ] Search
  Find things
  3. [ ] Export
  4. [ ] Type something
     Submit
────────────────────
  5. Chat about this

Enter to select · ↑/↓ to navigate · Esc to cancel";

#[test]
fn several_options_are_ticked_one_by_one_and_a_tick_is_no_other_question() {
    let mut mimic = Mimic::new(Runtime::Pty, &["claude"]);
    let ticked = SEVERAL.replace("☐", "☒").replace("2. [ ]", "2. [✔]");
    for rows in [SEVERAL, &ticked] {
        mimic.see(&Seen::Screen(rows.lines().map(str::to_owned).collect()), 0);
    }
    let [(ask, reach)] = mimic.asks() else { panic!("{:?}", mimic.asks()) };
    assert!(ask.questions[0].multi_select && ask.options[2].label == "Export", "{ask:?}");
    let typed = |answer: &str, rows: &str| {
        let answer: Answer = serde_json::from_str(answer).expect("an answer");
        let screen = screen(rows.lines());
        let steps = mimic.driver.answer(ask, reach, &answer, &View { runtime: Runtime::Pty, screen: &screen });
        steps.map(|steps| keys(&steps))
    };
    let one_and_three = Ok(vec![Key::Char('1'), Key::Char('3'), Key::Right]);
    assert_eq!(typed(r#"{"options":[1,3]}"#, SEVERAL), one_and_three);
    let with_two_off = Ok(vec![Key::Char('1'), Key::Char('2'), Key::Char('3'), Key::Right]);
    assert_eq!(typed(r#"{"options":[3,1]}"#, &ticked), with_two_off);
    assert_eq!(typed(r#"{"option":2}"#, &ticked), Ok(vec![Key::Right]));
    assert_eq!(typed(r#"{"option":5}"#, SEVERAL), Ok(vec![Key::Char('5')]));
    for wrong in [r#"{"options":[4]}"#, r#"{"options":[1,5]}"#, r#"{"options":[1],"text":"x"}"#] {
        assert!(matches!(typed(wrong, SEVERAL), Err(Refusal::BadRequest(_))), "{wrong}");
    }
    assert!(matches!(typed(r#"{"text":"Redis"}"#, SEVERAL), Err(Refusal::NoSuchOption(_))));
}

/// Enter in the empty field may do anything.
#[test]
fn feedback_is_not_sent_without_words() {
    let options = " ❯ 1. Yes\n   2. Tell Claude what to change";
    let keys = vec![Key::Char('2'), Key::Paste("smaller steps".into()), Key::Enter];
    assert_eq!(denied(Some("smaller steps"), options), Some(Ok(keys)));
    for text in [None, Some(""), Some(" \n"), Some("\u{1b}\r")] {
        assert!(matches!(denied(text, options), Some(Err(Refusal::BadRequest(_)))), "{text:?}");
    }
}
