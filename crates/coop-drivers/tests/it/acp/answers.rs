//! Answers: those the real agents took, and that a no is never a yes.

use coop_api::{Answer, Ask, AskId};
use coop_drivers::{Launch, Meaning, Observation, Reach, Refusal, Runtime, Step, View};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{all, driver, launch};
use crate::mimic;
use crate::screens::screen;

const KINDS: [&str; 4] = ["allow_once", "allow_always", "reject_once", "reject_always"];

fn answer(text: &str) -> Answer {
    serde_json::from_str(text).expect("an answer")
}

/// What was said to the real agents, the driver says too.
#[test]
fn answers_are_those_that_the_real_agents_took() {
    let mut compared = 0;
    for recording in all() {
        let mut mimic = recording.mimic();
        for line in &recording.lines {
            if line.is_ours && line.message["result"]["outcome"].is_object() {
                let (ask, reach) = mimic.asks().first().expect("an ask");
                let chosen = line.message["result"]["outcome"]["optionId"].as_str().expect("an option");
                let yes = matches!(chosen, "once" | "proceed_once");
                let given = answer(&json!({ "accept": yes }).to_string());
                let screen = screen([]);
                let steps = mimic.driver.answer(ask, reach, &given, &View { runtime: Runtime::Pipe, screen: &screen });
                assert_eq!(steps, Ok(vec![Step::Send(line.message.clone())]), "{}", recording.name);
                compared += 1;
            }
            for seen in line.seen() {
                mimic.see(&seen, line.at);
            }
        }
    }
    assert!(compared >= 9, "only {compared} answers were compared");
}

/// Returns what an answer to an ask with these options, by kind and name, leads to.
fn outcome(options: &[(&str, String)], given: &Answer) -> Result<Value, Refusal> {
    let mut driver = driver(&Launch { resume: None, ..launch() });
    let options: Vec<_> =
        options.iter().map(|(kind, name)| json!({ "optionId": name, "name": name, "kind": kind })).collect();
    let asked = json!({ "jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": {
        "sessionId": "s", "toolCall": { "toolCallId": "t", "title": "do it" }, "options": options } });
    let signals = driver.observe(&Observation::Control(&asked), 0);
    let draft = signals.iter().find_map(|signal| match &signal.meaning {
        Meaning::Ask(draft) => Some((mimic::ask("ask-1", draft), draft.reach.clone())),
        _ => None,
    });
    let (ask, reach): (Ask, Reach) = draft.expect("an ask");
    assert_eq!(ask.id, AskId("ask-1".into()));
    let screen = screen([]);
    let steps = driver.answer(&ask, &reach, given, &View { runtime: Runtime::Pipe, screen: &screen })?;
    let [Step::Send(message)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(message["id"], 7);
    Ok(message["result"]["outcome"].clone())
}

proptest! {
    /// Whatever an agent offers, and however it calls that: a no is an option that says no, or none at all.
    #[test]
    fn a_no_is_never_a_yes(
        kinds in prop::collection::vec(0..KINDS.len(), 0..6),
        names in prop::collection::vec("(yes|no|allow|reject|[a-z]{1,4})", 6),
        always in any::<bool>(),
    ) {
        let options: Vec<_> =
            kinds.iter().zip(&names).zip(0..).map(|((kind, name), n)| (KINDS[*kind], format!("{name}{n}"))).collect();
        let no = Answer { accept: Some(false), always, ..Answer::default() };
        let outcome = outcome(&options, &no).expect("a no is always possible");
        let chosen = outcome["optionId"].as_str();
        let offers_no = options.iter().any(|(kind, _)| kind.starts_with("reject"));
        match chosen {
            Some(chosen) => {
                let (kind, _) = options.iter().find(|(_, name)| name == chosen).expect("it was offered");
                prop_assert!(kind.starts_with("reject"), "{chosen} is {kind}");
                prop_assert_eq!(&outcome["outcome"], "selected");
            }
            None => {
                prop_assert!(!offers_no);
                prop_assert_eq!(outcome, json!({ "outcome": "cancelled" }));
            }
        }
    }

    /// A yes is the one option that says yes, for once or for good as was said, or refused.
    #[test]
    fn a_yes_is_no_more_than_what_was_said(kinds in prop::collection::vec(0..KINDS.len(), 0..6), always in any::<bool>()) {
        let options: Vec<_> = kinds.iter().zip(0..).map(|(kind, n)| (KINDS[*kind], format!("o{n}"))).collect();
        let wanted = if always { "allow_always" } else { "allow_once" };
        let fitting: Vec<_> = options.iter().filter(|(kind, _)| *kind == wanted).collect();
        let yes = Answer { accept: Some(true), always, ..Answer::default() };
        match (outcome(&options, &yes), &fitting[..]) {
            (Ok(outcome), [only]) => prop_assert_eq!(&outcome["optionId"], only.1.as_str()),
            (Err(Refusal::NoSuchOption(_)), [] | [_, _, ..]) => {}
            (other, _) => prop_assert!(false, "{:?}", other),
        }
    }
}

#[test]
fn what_the_protocol_cannot_carry_is_refused_and_nothing_is_sent() {
    let options = [("allow_once", "y".to_owned()), ("reject_once", "n".to_owned())];
    for unsupported in [
        r#"{"accept":false,"text":"because"}"#,
        r#"{"text":"because"}"#,
        r#"{"accept":true,"input":{"command":"ls"}}"#,
        r#"{"options":[1]}"#,
    ] {
        assert!(matches!(outcome(&options, &answer(unsupported)), Err(Refusal::Unsupported(_))), "{unsupported}");
    }
    for refused in [r#"{}"#, r#"{"accept":true,"option":2}"#, r#"{"accept":false,"option":1}"#] {
        assert!(matches!(outcome(&options, &answer(refused)), Err(Refusal::BadRequest(_))), "{refused}");
    }
    for missing in [r#"{"option":0}"#, r#"{"option":3}"#, r#"{"accept":true,"always":true}"#] {
        assert!(matches!(outcome(&options, &answer(missing)), Err(Refusal::NoSuchOption(_))), "{missing}");
    }
    assert_eq!(outcome(&options, &answer(r#"{"option":2}"#)).expect("offered")["optionId"], "n");
}
