//! An answer in the protocol's words. What it has no words for is refused, and nothing of it is done.

use coop_api::{Answer, Ask, AskKind, Error, ErrorCode, OptionKind};
use serde_json::{Value, json};

/// Returns the resolution that an answer is.
pub(crate) fn resolution(ask: &Ask, answer: &Answer) -> Result<Value, Error> {
    answer.check(ask.kind).map_err(|why| Error::new(ErrorCode::BadRequest, why))?;
    let text = answer.text.clone().unwrap_or_default();
    match ask.kind {
        AskKind::Permission => permission(ask, answer, &text),
        AskKind::Question | AskKind::Plan | AskKind::Setup => choice(ask, answer, &text),
    }
}

fn permission(ask: &Ask, answer: &Answer, text: &str) -> Result<Value, Error> {
    if !answer.options.is_empty() || !answer.answers.is_empty() {
        return Err(Error::new(ErrorCode::BadRequest, "a permission is given or not; there is nothing to choose"));
    }
    let picked = match answer.option {
        Some(number) => Some(nth(ask, number)?.kind),
        None => None,
    };
    let (accept, always) = match (answer.accept, picked) {
        (Some(accept), None) => (accept, answer.always),
        (None, Some(OptionKind::AllowOnce)) => (true, false),
        (None, Some(OptionKind::AllowAlways)) => (true, true),
        (None, Some(OptionKind::Reject | OptionKind::Choice)) => (false, false),
        (None, None) => return Err(Error::new(ErrorCode::BadRequest, "give \"accept\": true or false")),
        (Some(_), Some(_)) => return Err(Error::new(ErrorCode::BadRequest, "give \"accept\" or \"option\"")),
    };
    let action = match (accept, &answer.input) {
        (false, _) => "reject",
        (true, None) => "approve",
        (true, Some(_)) => "modify",
    };
    let mut told = json!({ "type": "tool_approval", "action": action, "actionKind": "update" });
    if let Some(input) = &answer.input {
        told["modifiedArgs"] = input.clone();
    }
    if always {
        told["alwaysApprove"] = json!(true);
    }
    if !text.is_empty() {
        told["rationale"] = json!(text);
    }
    Ok(told)
}

fn choice(ask: &Ask, answer: &Answer, text: &str) -> Result<Value, Error> {
    let unsupported = |why: &str| Err(Error::new(ErrorCode::Unsupported, why));
    if answer.accept.is_some() || answer.input.is_some() {
        return unsupported("a shim's question is answered by one of its options");
    }
    let (option, words) = match answer.answers.as_slice() {
        [] => (answer.option, text),
        [one] if one.options.is_empty() && answer.option.is_none() => {
            (one.option, one.text.as_deref().unwrap_or_default())
        }
        _ => return unsupported("a shim's decision is one question with one answer"),
    };
    if !answer.options.is_empty() {
        return unsupported("one option can be chosen");
    }
    let Some(number) = option else { return unsupported("a shim's question is answered by one of its options") };
    let chosen = &nth(ask, number)?.id;
    Ok(json!({ "type": "option", "chosenOptionId": chosen, "rationale": words, "actionKind": "update" }))
}

fn nth(ask: &Ask, number: u32) -> Result<&coop_api::AskOption, Error> {
    let at = (number as usize).checked_sub(1);
    let missing = || Error::new(ErrorCode::NoSuchOption, format!("there is no option {number}"));
    at.and_then(|at| ask.options.get(at)).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use coop_api::{AskChannel, AskId, AskOption};

    use super::*;

    fn ask(kind: AskKind, options: &[(&str, OptionKind)]) -> Ask {
        let option = |(id, kind): &(&str, OptionKind)| AskOption {
            id: (*id).to_owned(),
            label: String::new(),
            description: None,
            kind: *kind,
        };
        Ask {
            id: AskId("d".to_owned()),
            kind,
            tool: None,
            input: None,
            preview: String::new(),
            questions: vec![],
            options: options.iter().map(option).collect(),
            opened: String::new(),
            channel: AskChannel::Structured,
            screen_lines: vec![],
        }
    }

    #[test]
    fn an_answer_becomes_what_it_says_or_an_error() {
        let tool = ask(AskKind::Permission, &[("approve", OptionKind::AllowOnce), ("reject", OptionKind::Reject)]);
        let question = ask(AskKind::Question, &[("one", OptionKind::Choice), ("two", OptionKind::Choice)]);
        let cases = [
            (&tool, r#"{"accept":true}"#, r#"{"action":"approve"}"#),
            (&tool, r#"{"accept":true,"always":true}"#, r#"{"action":"approve","alwaysApprove":true}"#),
            (&tool, r#"{"accept":false,"text":"no"}"#, r#"{"action":"reject","rationale":"no"}"#),
            (&tool, r#"{"option":2}"#, r#"{"action":"reject"}"#),
            (&tool, r#"{"accept":true,"input":{"a":1}}"#, r#"{"action":"modify","modifiedArgs":{"a":1}}"#),
            (&question, r#"{"option":2,"text":"why"}"#, r#"{"chosenOptionId":"two","rationale":"why"}"#),
            (&question, r#"{"answers":[{"option":1}]}"#, r#"{"chosenOptionId":"one","rationale":""}"#),
        ];
        for (ask, answer, expected) in cases {
            let mut expected: Value = serde_json::from_str(expected).expect("JSON");
            expected["actionKind"] = json!("update");
            expected["type"] = json!(if ask.kind == AskKind::Permission { "tool_approval" } else { "option" });
            let told = resolution(ask, &serde_json::from_str(answer).expect("an answer")).expect("it has words");
            assert_eq!(told, expected, "{answer}");
        }
        let refused = [
            (&tool, "{}", ErrorCode::BadRequest),
            (&tool, r#"{"accept":true,"text":"but"}"#, ErrorCode::BadRequest),
            (&tool, r#"{"accept":true,"option":1}"#, ErrorCode::BadRequest),
            (&tool, r#"{"option":9}"#, ErrorCode::NoSuchOption),
            (&tool, r#"{"option":0}"#, ErrorCode::NoSuchOption),
            (&question, r#"{"text":"in my words"}"#, ErrorCode::Unsupported),
            (&question, r#"{"options":[1,2]}"#, ErrorCode::Unsupported),
            (&question, r#"{"accept":false}"#, ErrorCode::Unsupported),
            (&question, r#"{"answers":[{"option":1},{"option":2}]}"#, ErrorCode::Unsupported),
        ];
        for (ask, answer, code) in refused {
            let told = resolution(ask, &serde_json::from_str(answer).expect("an answer"));
            assert_eq!(told.map_err(|error| error.code), Err(code), "{answer}");
        }
    }
}
