//! What it asks on its screen, and the keys that answer.
//!
//! A digit chooses an option at once. In a list of questions the digit only goes on to the next, and the last page waits for
//! Enter, as own words do; so before each key the screen has to show what it is meant for.

use std::time::Duration;

use coop_api::{Answer, Ask, AskKind, AskOption, EvidenceSource, Question, QuestionAnswer, Screen};
use serde_json::Value;

use super::Gemini;
use crate::driver::{Refusal, Step};
use crate::keys::{self, ENTER, ESCAPE, Manners, paste, plain, taken};
use crate::questions::{given, pick, question};
use crate::rules::{Dialog, Rules, rows};
use crate::{AskDraft, Meaning, Signal};

const MANNERS: Manners = Manners {
    // Enter is swallowed if it comes sooner after a paste; 100 ms always were enough.
    after_paste: Duration::from_millis(200),
    // It took 14 s for 1 MiB in lines, and as long for 64 KiB without a blank.
    per_block: Duration::from_secs(3),
    free_text: None,
    feedback: None,
    escape_rejects: true,
};
/// How long it may take to show the next page of its questions.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);
/// What stands above its questions, and above a plan.
const QUESTIONS: &str = "Answer Questions";
const PLAN: &str = "Ready to start implementation?";
/// How much of a text has to be seen.
const SEEN: usize = 40;
/// A paste longer than this, in lines or characters, is shown by a short form.
const LONG_PASTE: (usize, usize) = (5, 500);
const SHORT_FORM: &str = "[Pasted Text: ";
const DOWN: &[u8] = b"\x1b[B";
/// What stands before the input, and what it shows while it is empty.
const INPUT_MARKS: [&str; 3] = [" > ", " * ", " ! "];
const PLACEHOLDER: &str = "Type your message";
/// What stands before what was said: its input is below all of that.
const SAID_MARKS: [char; 7] = ['✦', 'ℹ', '✕', '⚠', '╭', '│', '╰'];
/// How long a preview is, in characters.
const PREVIEW: usize = 200;

/// What a hook told that it will ask.
#[derive(Clone, Debug)]
pub(super) struct Notified {
    tool: String,
    input: Value,
    preview: Option<String>,
    /// What the dialog will show of it.
    shown: Option<String>,
    detail: String,
}

impl Notified {
    pub(super) fn new(tool: &str, input: &Value, details: &Value) -> Self {
        let first = |keys: &[&str]| {
            let text = keys.iter().find_map(|key| details[*key].as_str())?;
            Some(text.trim().lines().next().unwrap_or_default().chars().take(PREVIEW).collect::<String>())
        };
        Self {
            tool: tool.to_owned(),
            input: input.clone(),
            preview: first(&["command", "filePath", "prompt", "toolName"]),
            shown: first(&["command", "fileName", "prompt", "toolName"]),
            detail: format!("Notification ToolPermission {}", details["type"].as_str().unwrap_or_default()),
        }
    }

    /// Tells whether a dialog is the one that was told of: there may be several, one after another.
    fn fits(&self, dialog: &AskDraft) -> bool {
        let shown = self.shown.as_deref().map(clipped).unwrap_or_default();
        let is_question = (self.tool == "ask_user") == (dialog.kind == AskKind::Question);
        is_question && dialog.screen_lines.iter().any(|line| line.contains(&shown))
    }
}

impl Gemini {
    /// Returns what a dialog on the screen says. What a hook told of it is its own words; the screen has the options.
    pub(super) fn dialog_seen(&mut self, dialog: &Dialog) -> Vec<Signal> {
        let seen = keys::draft(dialog);
        let is_asked = self
            .asked
            .as_ref()
            .is_some_and(|asked| asked.screen_lines == seen.screen_lines && asked.options == seen.options);
        let notified = self.notified.take_if(|notified| !is_asked && notified.fits(&seen));
        // A person may turn the pages of a question: it is the same one.
        let goes_on = self.asked.as_ref().is_some_and(|asked| asked.tool.is_some()) && notified.is_none();
        if is_asked || goes_on {
            return Vec::new();
        }
        let mut signals = self.ask_over(EvidenceSource::Screen, "another dialog is on the screen");
        let (source, detail, draft) = match notified {
            Some(notified) => (EvidenceSource::Hook, notified.detail.clone(), merged(seen, notified)),
            None => (EvidenceSource::Screen, format!("a dialog: {}", seen.preview), seen),
        };
        self.asked = Some(draft.clone());
        signals.push(Signal::new(source, detail, Meaning::Ask(Box::new(draft))));
        signals
    }
}

fn merged(seen: AskDraft, notified: Notified) -> AskDraft {
    let asked = notified.input["questions"].as_array().into_iter().flatten();
    let questions: Vec<_> = match seen.kind {
        AskKind::Question => asked.filter_map(question).collect(),
        AskKind::Permission | AskKind::Plan | AskKind::Setup => Vec::new(),
    };
    let first = questions.first().map(|question| question.question.clone());
    AskDraft {
        preview: first.or(notified.preview).unwrap_or(seen.preview),
        tool: Some(notified.tool),
        input: Some(notified.input),
        questions,
        ..seen
    }
}

/// Returns the keys for an answer, or why none can be sent.
pub(super) fn answer(rules: &Rules, ask: &Ask, answer: &Answer, screen: &Screen) -> Result<Vec<Step>, Refusal> {
    if answer.input.is_some() {
        return Err(Refusal::BadRequest("this ask can only be answered by keys; its input cannot be changed".into()));
    }
    let offered = keys::offered(rules, ask, screen)?;
    match (ask.kind, answer.accept, &answer.text) {
        (AskKind::Question, Some(false), _) => Ok(vec![Step::Type(ESCAPE), taken()]),
        (AskKind::Question, None, _) => answer_questions(ask, &offered, answer),
        // A plan is sent back with what is to be changed, or declined.
        (AskKind::Plan, Some(false) | None, Some(text)) if answer.option.is_none() => {
            let mut steps = words(text, PLAN)?;
            steps.push(taken());
            Ok(steps)
        }
        _ => MANNERS.answer(rules, ask, answer, screen),
    }
}

fn answer_questions(ask: &Ask, offered: &[AskOption], answer: &Answer) -> Result<Vec<Step>, Refusal> {
    // Without hooks all that is known is the page on the screen.
    let on_screen = [Question {
        question: ask.preview.clone(),
        header: None,
        multi_select: offered.iter().any(|option| option.label.starts_with('[')),
        options: offered.to_vec(),
    }];
    let questions = if ask.questions.is_empty() { &on_screen[..] } else { &ask.questions };
    let given = given(answer, questions.len())?;
    let mut steps = Vec::new();
    for (number, (question, given)) in questions.iter().zip(&given).enumerate() {
        let offered = (number == 0).then_some(offered);
        steps.extend(answer_one(question, given, offered)?);
    }
    if questions.len() > 1 {
        let answered = questions.iter().zip(&given).map(|(question, given)| {
            let label = given.option.and_then(|number| pick(&question.options, number).ok());
            let header = question.header.as_deref().unwrap_or_default();
            format!("{header} → {}", label.map_or("", |option| option.label.as_str())).trim_end().to_owned()
        });
        let rows = std::iter::once("Review your answers:".to_owned()).chain(answered).collect();
        steps.extend([see(rows, QUESTIONS), Step::Type(ENTER)]);
    }
    steps.push(taken());
    Ok(steps)
}

/// Returns the keys for one question. The first is on the screen with these options; the others have to be waited for.
fn answer_one(
    question: &Question,
    given: &QuestionAnswer,
    offered: Option<&[AskOption]>,
) -> Result<Vec<Step>, Refusal> {
    let numbers: Vec<_> = given.option.into_iter().chain(given.options.iter().copied()).collect();
    let mut steps = Vec::new();
    if offered.is_none() {
        steps.push(see(vec![clipped(&question.question)], QUESTIONS));
    }
    match (&numbers[..], &given.text) {
        ([], Some(text)) if !question.multi_select => steps.extend(words(text, QUESTIONS)?),
        ([number], None) if !question.multi_select => {
            steps.extend([see(vec![shown(question, *number, "", offered)?], QUESTIONS), press(*number)]);
        }
        ([_, ..], None) if question.multi_select => {
            for number in &numbers {
                let unchosen = shown(question, *number, "[ ] ", offered)?;
                let chosen = unchosen.replacen("[ ]", "[x]", 1);
                steps.extend([see(vec![unchosen], QUESTIONS), press(*number), see(vec![chosen], QUESTIONS)]);
            }
            // Below the options are all of them, own words, and what ends the choice, which has no number.
            let below = 1 + usize::from(question.options.len() > 1);
            let last = numbers.last().map_or(0, |number| *number as usize - 1);
            let down = DOWN.repeat(question.options.len() + below - last);
            steps.extend([Step::Type(down.into()), see(vec!["● Done".to_owned()], QUESTIONS), Step::Type(ENTER)]);
        }
        ([], None) => {
            return Err(Refusal::BadRequest(format!("{:?} needs an \"option\" or a \"text\"", question.question)));
        }
        ([_, _, ..], _) if !question.multi_select => {
            return Err(Refusal::BadRequest(format!("{:?} takes one option", question.question)));
        }
        _ => return Err(Refusal::BadRequest("give either options or a \"text\"".into())),
    }
    Ok(steps)
}

/// Returns how an option stands on the screen. One of the page that is there has to be there.
fn shown(question: &Question, number: u32, mark: &str, offered: Option<&[AskOption]>) -> Result<String, Refusal> {
    let label = &pick(&question.options, number)?.label;
    let label = label.strip_prefix("[ ] ").unwrap_or(label);
    let wanted = format!("{mark}{label}");
    if let Some(offered) = offered
        && !offered.iter().any(|option| option.id == number.to_string() && same(&option.label, &wanted))
    {
        return Err(Refusal::NoSuchOption(format!("the screen does not show option {number}, {label:?}")));
    }
    Ok(format!("{number}. {wanted}"))
}

fn same(label: &str, wanted: &str) -> bool {
    label.split_whitespace().eq(wanted.split_whitespace())
}

/// Returns the keys for own words. They open the field for them by themselves, but a single digit would choose.
fn words(text: &str, below: &str) -> Result<Vec<Step>, Refusal> {
    let typed = plain(text).trim().to_owned();
    let last = typed.lines().last().unwrap_or_default();
    if typed.is_empty() || typed.chars().all(|c| c.is_ascii_digit()) {
        return Err(Refusal::BadRequest("the text needs a word in it: a number would choose an option".into()));
    }
    let (lines, chars) = LONG_PASTE;
    let is_long = typed.lines().count() > lines || typed.len() > chars;
    let seen = if is_long { SHORT_FORM.to_owned() } else { clipped(last) };
    Ok(vec![Step::Type(paste(&typed)), see(vec![seen], below), Step::Pause(MANNERS.after_paste), Step::Type(ENTER)])
}

fn see(rows: Vec<String>, below: &str) -> Step {
    Step::See { rows, below: below.to_owned(), within: SHOWN_WITHIN }
}

fn press(number: u32) -> Step {
    Step::Type(number.to_string().into())
}

fn clipped(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().chars().take(SEEN).collect::<String>().trim().to_owned()
}

/// Returns how a message is typed. What an interrupt has put back into the input is cleared first; what a person has
/// typed there is left alone, and the message refused.
pub(super) fn deliver(text: &str, screen: &Screen, last_prompt: &str) -> Result<Vec<Step>, Refusal> {
    if let Some(refusal) = keys::untypable(text, screen) {
        return Err(refusal);
    }
    let Some(typed) = input(&rows(screen)) else {
        return Err(Refusal::Occupied("the agent's input is not on its screen; try again in a moment".into()));
    };
    let whole = typed.join("");
    if !typed.is_empty() && (last_prompt.is_empty() || !keys::is_same(&whole, last_prompt)) {
        return Err(keys::occupied(&typed.join("\n")));
    }
    Ok(MANNERS.submit(text, typed.len()))
}

/// Returns what is in the agent's input, line by line: from the last row with its mark to its lower edge. Nothing if it
/// is not there; what was said before has the same mark.
pub(super) fn input(rows: &[String]) -> Option<Vec<String>> {
    let begins = |row: &String| INPUT_MARKS.iter().any(|mark| row.starts_with(mark));
    let from = rows.iter().rposition(begins)?;
    let is_edge = |row: &str| row.trim().is_empty() || row.trim().starts_with('▀');
    let length = 1 + rows[from + 1..].iter().take_while(|row| !is_edge(row)).count();
    if rows[from + length..].iter().any(|row| row.trim_start().starts_with(SAID_MARKS)) {
        return None;
    }
    let inside = rows[from..from + length].iter();
    let typed: Vec<_> = inside.map(|row| row.get(3..).unwrap_or_default().trim().to_owned()).collect();
    let is_empty = typed.iter().all(String::is_empty) || typed.first().is_some_and(|row| row.starts_with(PLACEHOLDER));
    Some(if is_empty { Vec::new() } else { typed })
}
