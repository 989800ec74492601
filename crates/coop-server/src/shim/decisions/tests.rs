use coop_api::{AskChannel, AskOption, OptionKind, Question};
use serde_json::{Value, json};

use super::*;

fn ask(kind: AskKind) -> Ask {
    Ask {
        id: AskId("ask-1".into()),
        kind,
        tool: Some("Bash".into()),
        input: Some(json!({ "command": "make" })),
        preview: "make".into(),
        questions: vec![],
        options: vec![],
        opened: "2026-01-01T00:00:00Z".into(),
        channel: AskChannel::Structured,
        screen_lines: vec![],
    }
}

fn question(text: &str, options: &[&str]) -> Question {
    let option = |label: &&str| AskOption {
        id: label.to_lowercase(),
        label: (*label).to_owned(),
        description: None,
        kind: OptionKind::Choice,
    };
    let options = options.iter().map(option).collect();
    Question { question: text.into(), header: None, options, multi_select: false }
}

fn resolution(body: Value) -> Resolution {
    serde_json::from_value(body).expect("a resolution")
}

fn approval(action: &str) -> Value {
    json!({ "type": "tool_approval", "action": action, "actionKind": "update" })
}

fn given(step: Result<Step, Refused>) -> Given {
    match step {
        Ok(Step::Answer(given)) => *given,
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn the_first_answer_wins_and_one_that_fails_is_asked_for_again() {
    let mut decisions = Decisions::default();
    decisions.open(&ask(AskKind::Permission));
    let id = decisions.pending().remove(0);
    let yes = resolution(approval("approve"));
    let told = given(decisions.resolve(&id, &yes));
    assert_eq!((told.answer.accept, told.allows, told.always), (Some(true), true, None));
    assert_eq!(decisions.resolve(&id, &yes), Err(Refused::NotPending(id.clone())));
    decisions.release(&told.ask);
    assert!(decisions.resolve(&id, &yes).is_ok());
    decisions.close(&told.ask);
    assert_eq!(decisions.resolve(&id, &yes), Err(Refused::NotPending(id)));
    assert!(decisions.pending().is_empty());
}

#[test]
fn a_change_is_made_or_told_with_a_no() {
    let mut decisions = Decisions::default();
    decisions.open(&ask(AskKind::Permission));
    let id = decisions.pending().remove(0);
    let refused = decisions.resolve(&id, &resolution(approval("modify")));
    assert!(matches!(refused, Err(Refused::Invalid(_))), "{refused:?}");
    let mut body = approval("modify");
    body["modifiedArgs"] = json!({ "command": "make -n" });
    body["alwaysApprove"] = json!(true);
    let told = given(decisions.resolve(&id, &resolution(body)));
    assert_eq!((told.answer.accept, told.answer.input), (Some(true), Some(json!({ "command": "make -n" }))));
    let instead = told.instead.expect("another way");
    assert_eq!(instead.accept, Some(false));
    assert!(instead.text.expect("words").contains(r#"{"command":"make -n"}"#));
    assert_eq!(told.always.as_deref(), Some("Bash"));
}

#[test]
fn several_questions_are_several_decisions_and_one_answer() {
    let mut decisions = Decisions::default();
    let mut ask = ask(AskKind::Question);
    ask.questions = vec![question("Which?", &["A", "B"]), question("Why?", &[])];
    decisions.open(&ask);
    let [first, second] = <[String; 2]>::try_from(decisions.pending()).expect("two");
    let pick = |id: &str, why: &str| resolution(json!({ "type": "option", "chosenOptionId": id, "rationale": why }));
    assert!(matches!(decisions.resolve(&first, &pick("c", "")), Err(Refused::Invalid(_))));
    assert_eq!(decisions.resolve(&first, &pick("b", "")), Ok(Step::Noted));
    assert_eq!(decisions.pending(), std::slice::from_ref(&second));
    let told = given(decisions.resolve(&second, &pick(ANSWER, "because")));
    let picked = QuestionAnswer { option: Some(2), ..QuestionAnswer::default() };
    let said = QuestionAnswer { text: Some("because".into()), ..QuestionAnswer::default() };
    assert_eq!(told.answer.answers, [picked, said]);
}

#[test]
fn a_plan_is_approved_or_sent_back() {
    for (chosen, accept, text) in [(APPROVE, true, None), (REJECT, false, Some("too long".to_owned()))] {
        let mut decisions = Decisions::default();
        decisions.open(&ask(AskKind::Plan));
        let id = decisions.pending().remove(0);
        let body = json!({ "type": "option", "chosenOptionId": chosen, "rationale": "too long" });
        let told = given(decisions.resolve(&id, &resolution(body)));
        assert_eq!((told.answer.accept, told.answer.text, told.allows), (Some(accept), text, accept));
    }
}
