//! What it asks, and what it is answered with.

use std::time::Duration;

use coop_api::{Answer, Ask, AskKind, AskOption, OptionKind, Question, preview};
use serde_json::{Value, json};

use super::OpenCode;
use super::deliver::{post, taken};
use super::events::Asking;
use crate::driver::{Expected, Refusal, Step};
use crate::{AskDraft, Reach, questions};

/// How long it may take to show that it took an answer.
const TAKEN_WITHIN: Duration = Duration::from_secs(20);
/// What a denial says if nobody gives a reason. Without any it would end the turn.
const DENIED: &str = "The user does not allow this.";

/// What somebody decided about a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Once,
    Always,
    Reject,
}

/// Returns the ask for a request of the server.
pub(super) fn draft(asking: Asking, request: &str, about: &Value) -> AskDraft {
    let (kind, questions, options, suggestions) = match asking {
        Asking::Question => {
            let questions: Vec<_> = about["questions"].as_array().into_iter().flatten().filter_map(question).collect();
            let options = match &questions[..] {
                [only] => only.options.clone(),
                _ => Vec::new(),
            };
            (AskKind::Question, questions, options, Value::Null)
        }
        Asking::Permission => (AskKind::Permission, Vec::new(), permission_options(&about["always"]), Value::Null),
        // The old way to answer needs the session's name.
        Asking::OldPermission => {
            let always = json!([about["pattern"].as_str().unwrap_or("this")]);
            (AskKind::Permission, Vec::new(), permission_options(&always), about["sessionID"].clone())
        }
    };
    let tool = match asking {
        Asking::Question => "question",
        Asking::Permission => about["permission"].as_str().unwrap_or("tool"),
        Asking::OldPermission => about["type"].as_str().unwrap_or("tool"),
    };
    let input = input(asking, about);
    AskDraft {
        kind,
        tool: Some(tool.to_owned()),
        preview: preview_of(tool, &input),
        input: Some(input),
        questions,
        options,
        screen_lines: Vec::new(),
        reach: Reach::Control { request: request.to_owned(), suggestions },
    }
}

/// Returns what is to be done, as the server tells it of the ask. What the tool is called with comes before or after.
fn input(asking: Asking, about: &Value) -> Value {
    if asking == Asking::Question {
        return json!({ "questions": about["questions"] });
    }
    let patterns = if about["patterns"].is_null() { &about["pattern"] } else { &about["patterns"] };
    match about["metadata"].as_object() {
        Some(metadata) if !metadata.is_empty() => about["metadata"].clone(),
        _ => json!({ "patterns": patterns }),
    }
}

fn permission_options(always: &Value) -> Vec<AskOption> {
    let option = |id: &str, label: String, kind| AskOption { id: id.into(), label, description: None, kind };
    let patterns: Vec<_> = always.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut options = vec![option("once", "Allow once".into(), OptionKind::AllowOnce)];
    if !patterns.is_empty() {
        let label = format!("Allow always: {}", patterns.join(", "));
        options.push(option("always", label, OptionKind::AllowAlways));
    }
    options.push(option("reject", "Reject".into(), OptionKind::Reject));
    options
}

fn question(value: &Value) -> Option<Question> {
    let multi_select = value["multiple"].as_bool().unwrap_or(false);
    Some(Question { multi_select, ..questions::question(value)? })
}

fn preview_of(tool: &str, input: &Value) -> String {
    if input["questions"].is_array() {
        return questions::about_questions(input);
    }
    let telling = ["command", "filepath", "filePath", "url", "query", "pattern", "description"];
    let text = telling.iter().find_map(|key| input[*key].as_str());
    let text = text.or_else(|| input["patterns"][0].as_str().or_else(|| input["patterns"].as_str()));
    match text {
        Some(text) => preview(text, input),
        None => preview(&format!("{tool} {input}"), &Value::Null),
    }
}

impl OpenCode {
    pub(super) fn answer_steps(
        &self,
        ask: &Ask,
        answer: &Answer,
        request: &str,
        suggestions: &Value,
    ) -> Result<Vec<Step>, Refusal> {
        if answer.input.is_some() {
            let why = "opencode runs a tool as it asked or not at all; deny it and say what you want instead";
            return Err(Refusal::Unsupported(why.into()));
        }
        let (path, body) = match ask.kind {
            AskKind::Question => answer_question(ask, answer, request)?,
            AskKind::Permission | AskKind::Plan | AskKind::Setup => {
                let decision = decide(ask, answer)?;
                match suggestions.as_str() {
                    None => (format!("/permission/{request}/reply"), reply(decision, answer)),
                    Some(session) => {
                        let old = json!({ "response": reply(decision, answer)["reply"] });
                        (format!("/session/{session}/permissions/{request}"), old)
                    }
                }
            }
        };
        let gone = Step::Expect { what: Expected::AskGone, within: TAKEN_WITHIN, retry: None };
        Ok(taken(post(&format!("answer {request}"), self.path(&path), body)).into_iter().chain([gone]).collect())
    }
}

fn reply(decision: Decision, answer: &Answer) -> Value {
    match decision {
        Decision::Once => json!({ "reply": "once" }),
        Decision::Always => json!({ "reply": "always" }),
        Decision::Reject => json!({ "reply": "reject", "message": answer.text.as_deref().unwrap_or(DENIED) }),
    }
}

fn decide(ask: &Ask, answer: &Answer) -> Result<Decision, Refusal> {
    if !answer.answers.is_empty() || !answer.options.is_empty() {
        return Err(Refusal::BadRequest("\"answers\" and \"options\" are for questions; give \"accept\"".into()));
    }
    let chosen =
        answer.option.map(|number| questions::pick(&ask.options, number).map(|option| option.kind)).transpose()?;
    match (answer.accept, chosen) {
        (Some(false), None) | (None, Some(OptionKind::Reject)) => Ok(Decision::Reject),
        (Some(true), None) if !answer.always => Ok(Decision::Once),
        (None, Some(OptionKind::AllowOnce)) => Ok(Decision::Once),
        (Some(true), None) | (None, Some(OptionKind::AllowAlways)) => {
            if ask.options.iter().any(|option| option.kind == OptionKind::AllowAlways) {
                return Ok(Decision::Always);
            }
            let why = "the agent offers no way to allow this always; answer without \"always\"";
            Err(Refusal::NoSuchOption(why.into()))
        }
        (Some(_), Some(_)) | (None, Some(OptionKind::Choice)) => {
            Err(Refusal::BadRequest("give either \"accept\" or \"option\"".into()))
        }
        (None, None) => Err(Refusal::BadRequest("give \"accept\": true or false".into())),
    }
}

fn answer_question(ask: &Ask, answer: &Answer, request: &str) -> Result<(String, Value), Refusal> {
    if answer.accept == Some(false) {
        if answer.text.is_some() {
            let why = "opencode takes no words with a question that is dismissed; answer it with the text instead";
            return Err(Refusal::Unsupported(why.into()));
        }
        return Ok((format!("/question/{request}/reject"), json!({})));
    }
    let given = questions::given(answer, ask.questions.len())?;
    let takes_text = |at: usize| ask.input.as_ref().is_none_or(|input| input["questions"][at]["custom"] != false);
    let mut answers = Vec::new();
    for (at, (question, given)) in ask.questions.iter().zip(&given).enumerate() {
        if given.text.as_ref().is_some_and(|text| !text.is_empty()) && !takes_text(at) {
            return Err(Refusal::NoSuchOption(format!("{:?} takes only what it offers", question.question)));
        }
        answers.push(questions::worded(question, given)?);
    }
    Ok((format!("/question/{request}/reply"), json!({ "answers": answers })))
}
