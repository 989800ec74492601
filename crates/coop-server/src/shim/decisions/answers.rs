//! What humans decide, as answers to what the agent asks.

use coop_api::{Answer, Ask, OptionKind, Question, QuestionAnswer};
use serde_json::{Map, Value};

use super::super::types::Action;
use super::{ANSWER, APPROVE, Given, REJECT, Refused};

pub(super) fn plain(ask: &Ask, allows: bool) -> Given {
    Given { ask: ask.id.clone(), answer: Answer::default(), instead: None, allows, always: None }
}

/// Returns the answer that allows what is asked, once.
pub(crate) fn allowing(ask: &Ask) -> Answer {
    Answer { ask: Some(ask.id.clone()), accept: Some(true), ..Answer::default() }
}

fn denial(text: Option<&str>) -> Answer {
    let text = text.filter(|text| !text.trim().is_empty()).map(str::to_owned);
    Answer { accept: Some(false), text, ..Answer::default() }
}

pub(super) fn permission(
    ask: &Ask,
    action: Action,
    modified: Option<&Map<String, Value>>,
    always: bool,
    rationale: Option<&str>,
) -> Result<Given, Refused> {
    let accept = Answer { accept: Some(true), ..Answer::default() };
    let always = ask.tool.clone().filter(|_| always && action != Action::Reject);
    Ok(match (action, modified) {
        (Action::Approve, _) => Given { answer: accept, always, ..plain(ask, true) },
        (Action::Reject, _) => Given { answer: denial(rationale), ..plain(ask, false) },
        (Action::Modify, Some(input)) => {
            let input = Value::Object(input.clone());
            let why = rationale.filter(|why| !why.trim().is_empty()).map(|why| format!(" {why}")).unwrap_or_default();
            let words = format!("Do not do it like this. Do it with this input instead: {input}.{why}");
            let answer = Answer { input: Some(input), ..accept };
            Given { answer, instead: Some(denial(Some(&words))), always, ..plain(ask, true) }
        }
        (Action::Modify, None) => {
            return Err(Refused::Invalid("modify needs modifiedArgs: what the tool is to be called with".to_owned()));
        }
    })
}

pub(super) fn choice(ask: &Ask, chosen: &str, rationale: &str) -> Result<Given, Refused> {
    if ask.options.is_empty() {
        return match chosen {
            APPROVE => Ok(Given { answer: Answer { accept: Some(true), ..Answer::default() }, ..plain(ask, true) }),
            REJECT => Ok(Given { answer: denial(Some(rationale)), ..plain(ask, false) }),
            _ => Err(no_such(chosen, &[APPROVE, REJECT])),
        };
    }
    let known = || ask.options.iter().map(|option| option.id.as_str()).collect::<Vec<_>>();
    let at = ask.options.iter().position(|option| option.id == chosen).ok_or_else(|| no_such(chosen, &known()))?;
    match ask.options[at].kind {
        OptionKind::Reject => Ok(Given { answer: denial(Some(rationale)), ..plain(ask, false) }),
        OptionKind::AllowOnce | OptionKind::AllowAlways | OptionKind::Choice => {
            Ok(Given { answer: Answer { option: Some(at as u32 + 1), ..Answer::default() }, ..plain(ask, true) })
        }
    }
}

pub(super) fn answered(question: &Question, chosen: &str, rationale: &str) -> Result<QuestionAnswer, Refused> {
    if question.options.is_empty() {
        if chosen != ANSWER || rationale.trim().is_empty() {
            return Err(Refused::Invalid("this question is answered by the rationale".to_owned()));
        }
        return Ok(QuestionAnswer { text: Some(rationale.to_owned()), ..QuestionAnswer::default() });
    }
    let known = || question.options.iter().map(|option| option.id.as_str()).collect::<Vec<_>>();
    let number = |chosen: &str| {
        let at = question.options.iter().position(|option| option.id == chosen);
        at.map(|at| at as u32 + 1).ok_or_else(|| no_such(chosen, &known()))
    };
    Ok(match question.multi_select {
        true => {
            let options = chosen.split(',').map(|chosen| number(chosen.trim())).collect::<Result<_, _>>()?;
            QuestionAnswer { options, ..QuestionAnswer::default() }
        }
        false => QuestionAnswer { option: Some(number(chosen)?), ..QuestionAnswer::default() },
    })
}

fn no_such(chosen: &str, known: &[&str]) -> Refused {
    Refused::Invalid(format!("there is no option {chosen}; there are {}", known.join(", ")))
}
