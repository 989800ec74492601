//! Questions with options, and their answers.

use coop_api::{Answer, AskOption, OptionKind, Question, QuestionAnswer, preview};
use serde_json::Value;

use crate::driver::Refusal;

/// Returns a question as an agent's tool is given it.
pub(crate) fn question(value: &Value) -> Option<Question> {
    let options = value["options"].as_array().into_iter().flatten().zip(1..).filter_map(|(option, number)| {
        Some(AskOption {
            id: number.to_string(),
            label: option["label"].as_str()?.to_owned(),
            description: option["description"].as_str().filter(|text| !text.is_empty()).map(str::to_owned),
            kind: OptionKind::Choice,
        })
    });
    Some(Question {
        question: value["question"].as_str()?.to_owned(),
        header: value["header"].as_str().map(str::to_owned),
        options: options.collect(),
        multi_select: value["multiSelect"].as_bool().unwrap_or(false),
    })
}

/// Returns the preview of a tool's `questions`: the first, and how many more there are.
pub(crate) fn about_questions(input: &Value) -> String {
    let mut texts = input["questions"].as_array().into_iter().flatten().map(|one| one["question"].clone());
    let first = texts.next().unwrap_or_default();
    preview(first.as_str().unwrap_or_default(), &texts.collect())
}

/// Returns the answers to so many questions. A single one can be answered without a list.
pub(crate) fn given(answer: &Answer, questions: usize) -> Result<Vec<QuestionAnswer>, Refusal> {
    let single = QuestionAnswer { option: answer.option, options: answer.options.clone(), text: answer.text.clone() };
    let given = if answer.answers.is_empty() { vec![single] } else { answer.answers.clone() };
    if given.len() != questions {
        let why = format!("the agent asks {questions} question(s) and there are {} answer(s)", given.len());
        return Err(Refusal::BadRequest(why));
    }
    Ok(given)
}

/// Returns an answer in the question's own words.
pub(crate) fn worded(question: &Question, given: &QuestionAnswer) -> Result<Vec<String>, Refusal> {
    let numbers: Vec<u32> = given.option.into_iter().chain(given.options.iter().copied()).collect();
    let text = given.text.clone().filter(|text| !text.is_empty());
    if numbers.is_empty() && text.is_none() {
        return Err(Refusal::BadRequest(format!("{:?} needs an \"option\" or a \"text\"", question.question)));
    }
    if numbers.len() + usize::from(text.is_some()) > 1 && !question.multi_select {
        return Err(Refusal::BadRequest(format!("{:?} takes one option or a text", question.question)));
    }
    let labels = numbers.iter().map(|number| pick(&question.options, *number).map(|option| option.label.clone()));
    labels.chain(text.map(Ok)).collect()
}

/// Returns the option with this number, counted from 1.
pub(crate) fn pick(options: &[AskOption], number: u32) -> Result<&AskOption, Refusal> {
    let at = (number as usize).checked_sub(1);
    at.and_then(|at| options.get(at)).ok_or_else(|| {
        Refusal::NoSuchOption(format!("there is no option {number}; the agent offers {}", options.len()))
    })
}
