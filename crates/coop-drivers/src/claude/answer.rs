//! Asks that wait for data, and what they are answered with.

use coop_api::{Answer, Ask, AskKind, AskOption, OptionKind, Question, QuestionAnswer, preview};
use serde_json::{Map, Value, json};

use crate::driver::{Refusal, Step};
use crate::questions::{about_questions, given, pick, question};
use crate::{AskDraft, Reach};

/// Titles of plans that say nothing of what is planned.
const PLAN_TITLES: [&str; 4] = ["plan", "the plan", "my plan", "implementation plan"];

/// What somebody decided.
#[derive(Clone, Debug, PartialEq)]
enum Decision {
    Allow { input: Option<Value>, always: bool },
    Deny { message: String },
}

/// Returns the ask for the use of a tool.
pub(super) fn draft(tool: &str, input: &Value, reach: Reach) -> AskDraft {
    let suggests = match &reach {
        Reach::Hook { suggestions } | Reach::Control { suggestions, .. } => {
            suggestions.as_array().is_some_and(|list| !list.is_empty())
        }
        Reach::Keys => false,
    };
    let option =
        |id: &str, label: &str, kind| AskOption { id: id.into(), label: label.into(), description: None, kind };
    let (kind, questions, options) = match tool {
        "AskUserQuestion" => {
            let questions: Vec<_> = input["questions"].as_array().into_iter().flatten().filter_map(question).collect();
            let options = match &questions[..] {
                [only] => only.options.clone(),
                _ => Vec::new(),
            };
            (AskKind::Question, questions, options)
        }
        "ExitPlanMode" => {
            let options = vec![
                option("allow", "Yes, approve the plan", OptionKind::AllowOnce),
                option("allow_always", "Yes, and accept edits from now on", OptionKind::AllowAlways),
                option("reject", "No, keep planning", OptionKind::Reject),
            ];
            (AskKind::Plan, Vec::new(), options)
        }
        _ => {
            let mut options = vec![option("allow", "Yes", OptionKind::AllowOnce)];
            if suggests {
                options.push(option("allow_always", "Yes, and don't ask again", OptionKind::AllowAlways));
            }
            options.push(option("reject", "No", OptionKind::Reject));
            (AskKind::Permission, Vec::new(), options)
        }
    };
    AskDraft {
        kind,
        tool: Some(tool.to_owned()),
        input: Some(input.clone()),
        preview: about(tool, input),
        questions,
        options,
        screen_lines: Vec::new(),
        reach,
    }
}

fn about(tool: &str, input: &Value) -> String {
    let telling = ["command", "file_path", "notebook_path", "url", "query", "pattern", "description", "prompt"];
    let text = telling.iter().find_map(|key| input[*key].as_str());
    match (input["plan"].as_str(), text) {
        _ if input["questions"].is_array() => about_questions(input),
        (Some(plan), _) => {
            let shown = plan_line(plan);
            // The other lines of the plan, and what else it asks for.
            let is_shown = |line: &&str| line.trim().trim_start_matches('#').trim_start() == shown;
            let mut rest: Vec<_> = plan.lines().filter(|line| line.contains(char::is_alphanumeric)).collect();
            rest.iter().position(is_shown).map(|at| rest.remove(at));
            let mut beside = input.clone();
            beside["plan"] = json!(rest.join("\n"));
            preview(shown, &beside)
        }
        (None, Some(text)) => preview(text, input),
        (None, None) => preview(&format!("{tool} {input}"), &Value::Null),
    }
}

/// Returns the first line of a plan that says something of it, without the marks of a heading.
fn plan_line(plan: &str) -> &str {
    let lines = || plan.lines().map(str::trim).filter(|line| line.contains(char::is_alphanumeric));
    let says_something = |line: &&str| {
        let title = line.trim_matches(|c: char| c.is_whitespace() || matches!(c, '#' | '*' | ':'));
        let is_section = line.starts_with('#') && !title.contains(char::is_whitespace);
        !is_section && !PLAN_TITLES.iter().any(|known| title.eq_ignore_ascii_case(known))
    };
    let line = lines().find(says_something).or_else(|| lines().next()).unwrap_or_default();
    line.trim_start_matches('#').trim_start()
}

/// Returns the steps that answer the hook which waits.
pub(super) fn by_hook(ask: &Ask, answer: &Answer, suggestions: &Value) -> Result<Vec<Step>, Refusal> {
    let decision = match decide(ask, answer)? {
        Decision::Allow { input, always } => {
            let mut decision = json!({ "behavior": "allow" });
            if let Some(input) = input {
                decision["updatedInput"] = input;
            }
            if always {
                decision["updatedPermissions"] = permissions(ask, suggestions)?;
            }
            decision
        }
        Decision::Deny { message } => json!({ "behavior": "deny", "message": message }),
    };
    let output = json!({ "hookEventName": "PermissionRequest", "decision": decision });
    Ok(vec![Step::Reply(json!({ "hookSpecificOutput": output }))])
}

/// Returns the steps that answer the control protocol's request.
pub(super) fn by_control(ask: &Ask, answer: &Answer, request: &str, suggestions: &Value) -> Result<Vec<Step>, Refusal> {
    let response = match decide(ask, answer)? {
        Decision::Allow { input, always } => {
            // Over pipes the input must always be there.
            let input = input.or_else(|| ask.input.clone()).unwrap_or_else(|| json!({}));
            let mut response = json!({ "behavior": "allow", "updatedInput": input });
            if always {
                response["updatedPermissions"] = permissions(ask, suggestions)?;
            }
            response
        }
        Decision::Deny { message } => json!({ "behavior": "deny", "message": message }),
    };
    let response = json!({ "subtype": "success", "request_id": request, "response": response });
    Ok(vec![Step::Send(json!({ "type": "control_response", "response": response }))])
}

/// Returns what `always` changes.
fn permissions(ask: &Ask, suggestions: &Value) -> Result<Value, Refusal> {
    match (ask.kind, suggestions.as_array()) {
        (AskKind::Plan, _) => Ok(json!([{ "type": "setMode", "mode": "acceptEdits", "destination": "session" }])),
        (_, Some(list)) if !list.is_empty() => Ok(suggestions.clone()),
        _ => {
            let why = "the agent offers no way to allow this always; answer without \"always\"";
            Err(Refusal::NoSuchOption(why.into()))
        }
    }
}

fn decide(ask: &Ask, answer: &Answer) -> Result<Decision, Refusal> {
    match ask.kind {
        AskKind::Question => decide_question(ask, answer),
        AskKind::Permission | AskKind::Plan | AskKind::Setup => decide_permission(ask, answer),
    }
}

fn decide_permission(ask: &Ask, answer: &Answer) -> Result<Decision, Refusal> {
    if !answer.answers.is_empty() || !answer.options.is_empty() {
        return Err(Refusal::BadRequest("\"answers\" and \"options\" are for questions; give \"accept\"".into()));
    }
    let chosen = answer.option.map(|number| pick(&ask.options, number).map(|option| option.kind)).transpose()?;
    let accept = match (answer.accept, chosen) {
        (Some(accept), None) => (accept, answer.always),
        (None, Some(OptionKind::AllowOnce)) => (true, false),
        (None, Some(OptionKind::AllowAlways)) => (true, true),
        (None, Some(OptionKind::Reject)) => (false, false),
        (None, Some(OptionKind::Choice)) | (Some(_), Some(_)) => {
            return Err(Refusal::BadRequest("give either \"accept\" or \"option\"".into()));
        }
        // Feedback alone is no yes.
        (None, None) if answer.text.is_some() && ask.kind == AskKind::Plan => (false, false),
        (None, None) => return Err(Refusal::BadRequest("give \"accept\": true or false".into())),
    };
    Ok(match accept {
        (true, always) => Decision::Allow { input: answer.input.clone(), always },
        (false, _) => Decision::Deny {
            message: answer.text.clone().unwrap_or_else(|| match ask.kind {
                AskKind::Plan => "The plan was not accepted. Revise it.".to_owned(),
                _ => "The user does not allow this.".to_owned(),
            }),
        },
    })
}

fn decide_question(ask: &Ask, answer: &Answer) -> Result<Decision, Refusal> {
    if answer.accept == Some(false) {
        let message = answer.text.clone().unwrap_or_else(|| "The user declined to answer.".to_owned());
        return Ok(Decision::Deny { message });
    }
    let mut answers = Map::new();
    for (question, given) in ask.questions.iter().zip(&given(answer, ask.questions.len())?) {
        answers.insert(question.question.clone(), Value::String(worded(question, given)?));
    }
    let mut input = ask.input.clone().unwrap_or_else(|| json!({}));
    input["answers"] = Value::Object(answers);
    Ok(Decision::Allow { input: Some(input), always: false })
}

/// Returns an answer in the question's own words.
fn worded(question: &Question, given: &QuestionAnswer) -> Result<String, Refusal> {
    let numbers: Vec<u32> = given.option.into_iter().chain(given.options.iter().copied()).collect();
    match (&numbers[..], &given.text) {
        ([], Some(text)) if !text.is_empty() => Ok(text.clone()),
        ([], _) => Err(Refusal::BadRequest(format!("{:?} needs an \"option\" or a \"text\"", question.question))),
        ([_, _, ..], _) if !question.multi_select => {
            Err(Refusal::BadRequest(format!("{:?} takes one option", question.question)))
        }
        (numbers, text) => {
            let mut labels = numbers
                .iter()
                .map(|number| pick(&question.options, *number).map(|option| option.label.clone()))
                .collect::<Result<Vec<_>, _>>()?;
            labels.extend(text.clone().filter(|text| !text.is_empty()));
            Ok(labels.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use coop_api::{AskChannel, AskId};

    use super::*;

    pub(crate) fn ask(tool: &str, input: Value) -> Ask {
        let draft = draft(tool, &input, Reach::Hook { suggestions: json!([{ "type": "x" }]) });
        Ask {
            id: AskId("1".into()),
            kind: draft.kind,
            tool: draft.tool,
            input: draft.input,
            preview: draft.preview,
            questions: draft.questions,
            options: draft.options,
            opened: String::new(),
            channel: AskChannel::Structured,
            screen_lines: Vec::new(),
        }
    }

    fn reply(ask: &Ask, answer: &str) -> Result<Value, Refusal> {
        let answer: Answer = serde_json::from_str(answer).expect("an answer");
        match by_hook(ask, &answer, &json!([{ "type": "x" }]))?.as_slice() {
            [Step::Reply(value)] => Ok(value["hookSpecificOutput"]["decision"].clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_permission_is_allowed_denied_or_allowed_always() {
        let ask = ask("Bash", json!({ "command": "rm -r x" }));
        assert_eq!(reply(&ask, r#"{"accept":true}"#), Ok(json!({ "behavior": "allow" })));
        assert_eq!(reply(&ask, r#"{"option":3}"#).map(|reply| reply["behavior"].clone()), Ok(json!("deny")));
        assert_eq!(reply(&ask, r#"{"accept":false,"text":"no"}"#), Ok(json!({ "behavior": "deny", "message": "no" })));
        assert_eq!(
            reply(&ask, r#"{"accept":true,"always":true}"#),
            Ok(json!({ "behavior": "allow", "updatedPermissions": [{ "type": "x" }] }))
        );
        assert!(matches!(reply(&ask, "{}"), Err(Refusal::BadRequest(_))));
        assert!(matches!(reply(&ask, r#"{"text":"yes"}"#), Err(Refusal::BadRequest(_))));
        assert!(matches!(reply(&ask, r#"{"option":4}"#), Err(Refusal::NoSuchOption(_))));
        assert!(matches!(reply(&ask, r#"{"option":0}"#), Err(Refusal::NoSuchOption(_))));
    }

    #[test]
    fn questions_are_answered_in_their_own_words() {
        let input = json!({ "questions": [
            { "question": "Which?", "options": [{ "label": "A" }, { "label": "B" }], "multiSelect": false },
            { "question": "What?", "options": [{ "label": "C" }, { "label": "D" }], "multiSelect": true },
        ] });
        let ask = ask("AskUserQuestion", input);
        let answers = |answer| reply(&ask, answer).map(|reply| reply["updatedInput"]["answers"].clone());
        assert_eq!(
            answers(r#"{"answers":[{"option":2},{"options":[1,2]}]}"#),
            Ok(json!({ "Which?": "B", "What?": "C, D" }))
        );
        assert_eq!(
            answers(r#"{"answers":[{"text":"neither"},{"option":1}]}"#),
            Ok(json!({ "Which?": "neither", "What?": "C" }))
        );
        assert!(matches!(answers(r#"{"option":1}"#), Err(Refusal::BadRequest(_))));
        assert!(matches!(answers(r#"{"answers":[{"options":[1,2]},{"option":1}]}"#), Err(Refusal::BadRequest(_))));
    }

    #[test]
    fn feedback_alone_rejects_a_plan() {
        let ask = ask("ExitPlanMode", json!({ "plan": "# Plan" }));
        let denied = Ok(json!({ "behavior": "deny", "message": "smaller steps" }));
        assert_eq!(reply(&ask, r#"{"text":"smaller steps"}"#), denied);
        assert_eq!(reply(&ask, r#"{"accept":false,"text":"smaller steps"}"#), denied);
    }
    #[test]
    fn a_plan_is_shown_by_what_it_plans() {
        for (plan, shown) in [
            ("# Plan\n\n1. Do the first thing\n2. Do the second thing\n", "1. Do the first thing … (+2 lines)"),
            ("\n# Implementation plan\n---\n## Context\nLogins time out.\n", "Logins time out. … (+2 lines)"),
            ("## Add a login page\n\n1. A form\n", "Add a login page … (+1 line)"),
            ("**Plan:**\n- move the file", "- move the file … (+1 line)"),
            ("# Plan: move the file\n", "Plan: move the file"),
            // Better little than nothing.
            ("# Plan\n", "Plan"),
            ("", ""),
        ] {
            assert_eq!(about("ExitPlanMode", &json!({ "plan": plan })), shown);
        }
    }
}
