//! What it asks on its screen, and the keys that answer.
//!
//! A digit chooses an option at once. In a list of questions the digit only goes on to the next, and the last page waits for
//! Enter, as own words do; so before each key the screen has to show what it is meant for.

use bytes::Bytes;
use coop_api::{
    Answer, Ask, AskKind, AskOption, EvidenceSource, OptionKind, Question, QuestionAnswer, Screen, preview,
};
use serde_json::Value;

use super::Gemini;
use super::input::{AFTER_PASTE, LEFT_WITHIN, short_form};
use crate::driver::{Expected, OnScreen, Refusal, Retry, Step};
use crate::keys::{self, ENTER, ESCAPE, TAKEN_WITHIN, is_blank, numbered, of_kind, paste, plain, shown};
use crate::questions::{about_questions, given, pick, question};
use crate::rules::{Dialog, Hint, Rules, rows};
use crate::{AskDraft, Meaning, Signal};

/// What stands above its questions, and above a plan.
const QUESTIONS: &str = "Answer Questions";
const PLAN: &str = "Ready to start implementation?";
/// How much of a text has to be seen.
const SEEN: usize = 40;
/// What stands below the options if several can be chosen.
const ALL: &str = "All of the above";
const DOWN: &[u8] = b"\x1b[B";

/// What a hook told that it will ask.
#[derive(Clone, Debug)]
pub(super) struct Notified {
    tool: String,
    input: Value,
    preview: Option<String>,
    shown: Shown,
    detail: String,
}

/// What the dialog will show of it.
#[derive(Clone, Debug)]
enum Shown {
    Command(String),
    /// A text among others.
    Text(String),
    /// Whatever a plan says.
    Plan,
}

impl Shown {
    fn of(tool: &str, input: &Value, details: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().filter(|text| !is_blank(text)).map(str::to_owned);
        match (details["type"].as_str(), tool) {
            (_, "ask_user") => text(&input["questions"][0]["question"]).map(Self::Text),
            (_, "exit_plan_mode") => Some(Self::Plan),
            (Some("exec"), _) => text(&details["command"]).map(Self::Command),
            _ => ["fileName", "prompt", "toolName"].iter().find_map(|key| text(&details[*key])).map(Self::Text),
        }
    }

    fn is_in(&self, dialog: &AskDraft) -> bool {
        let lines = &dialog.screen_lines;
        match self {
            Self::Command(command) => shows_command(lines, command),
            Self::Text(text) => {
                let is_whole =
                    |at: usize| (at..lines.len()).any(|end| before_lines(&lines[at..=end], text) == Some(""));
                lines.iter().any(|line| line.contains(text.trim())) || (0..lines.len()).any(is_whole)
            }
            Self::Plan => dialog.kind == AskKind::Plan,
        }
    }
}

/// Tells whether a dialog shows a command: from the bottom a question, the command, and a line that names the tool, which may
/// have the command once more. Of a long command it shows the end, and that lines are hidden.
fn shows_command(lines: &[String], command: &str) -> bool {
    let Some((_question, above)) = lines.split_last() else { return false };
    if let Some(hidden) = above.iter().position(|line| line.starts_with("... first ") && line.ends_with(" ...")) {
        let shown = &above[hidden + 1..];
        return !shown.is_empty() && before_lines(shown, command).is_some_and(|rest| !rest.is_empty());
    }
    let is_head = |head: &[String]| match head {
        [] => false,
        [_] => true,
        [first, more @ ..] => before_lines(more, command).is_some_and(|rest| !rest.is_empty() && first.ends_with(rest)),
    };
    (1..above.len()).any(|at| is_head(&above[..at]) && before_lines(&above[at..], command) == Some(""))
}

/// Returns what stands before these lines in a text of which they are the end, wrapped. Only where a line ends may the text have
/// other blanks.
fn before_lines<'a>(lines: &[String], text: &'a str) -> Option<&'a str> {
    let mut rest = text.trim();
    for line in lines.iter().rev() {
        rest = rest.strip_suffix(line.trim())?.trim_end();
    }
    Some(rest)
}

impl Notified {
    /// Returns nothing if no dialog could be recognised as this one.
    pub(super) fn new(tool: &str, input: &Value, details: &Value) -> Option<Self> {
        let first = |keys: &[&str]| keys.iter().find_map(|key| details[*key].as_str());
        Some(Self {
            tool: tool.to_owned(),
            input: input.clone(),
            preview: first(&["command", "filePath", "prompt", "toolName"]).map(|text| preview(text, input)),
            shown: Shown::of(tool, input, details)?,
            detail: format!("Notification ToolPermission {}", details["type"].as_str().unwrap_or_default()),
        })
    }

    /// Tells whether a dialog is the one that a hook reported. A program that the agent runs can report what it likes, so the
    /// dialog has to show what the hook reported.
    fn fits(&self, dialog: &AskDraft) -> bool {
        let is_question = (self.tool == "ask_user") == (dialog.kind == AskKind::Question);
        is_question && self.shown.is_in(dialog)
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
        if is_asked {
            return Vec::new();
        }
        let notified = self.take_notified(&seen);
        // A person may turn the pages of a question: it is the same one.
        let is_page = seen.kind == AskKind::Question
            && self.asked.as_ref().is_some_and(|asked| asked.kind == AskKind::Question && asked.tool.is_some());
        if is_page && notified.is_none() {
            return Vec::new();
        }
        let mut signals = self.ask_over(EvidenceSource::Screen, "another dialog is on the screen");
        let (source, detail, draft) = match notified {
            Some(notified) => (EvidenceSource::Hook, notified.detail.clone(), merged(seen, notified)),
            None => (EvidenceSource::Screen, format!("a dialog: {}", seen.preview), seen),
        };
        self.asked = Some(draft.clone());
        self.has_gone_on = false;
        signals.push(Signal::new(source, detail, Meaning::Ask(Box::new(draft))));
        signals
    }

    /// Returns what a hook reported of a dialog, unless hooks reported several that it could be.
    fn take_notified(&mut self, seen: &AskDraft) -> Option<Notified> {
        let at = self.notified.iter().position(|notified| notified.fits(seen))?;
        let found = &self.notified[at];
        let is_other =
            |other: &Notified| other.fits(seen) && (&other.tool, &other.input) != (&found.tool, &found.input);
        if self.notified.iter().any(is_other) { None } else { Some(self.notified.remove(at)) }
    }
}

fn merged(seen: AskDraft, notified: Notified) -> AskDraft {
    let asked = notified.input["questions"].as_array().into_iter().flatten();
    let questions: Vec<_> = match seen.kind {
        AskKind::Question => asked.filter_map(question).collect(),
        AskKind::Permission | AskKind::Plan | AskKind::Setup => Vec::new(),
    };
    let first = (!questions.is_empty()).then(|| about_questions(&notified.input));
    AskDraft {
        preview: first.or(notified.preview).unwrap_or(seen.preview),
        tool: Some(notified.tool),
        input: Some(notified.input),
        questions,
        ..seen
    }
}

/// Tells whether what an ask was opened with is on a screen, word for word.
pub(super) fn is_asked(rules: &Rules, ask: &Ask, screen: &Screen) -> bool {
    rules.dialog(&rows(screen), Hint::Needed).is_some_and(|dialog| {
        dialog.kind == ask.kind && dialog.heading == ask.screen_lines && dialog.ask_options() == ask.options
    })
}

/// Returns the keys for an answer, or why none can be sent.
pub(super) fn answer(rules: &Rules, ask: &Ask, answer: &Answer, screen: &Screen) -> Result<Vec<Step>, Refusal> {
    if !is_asked(rules, ask, screen) {
        return Err(Refusal::NoSuchOption("what the agent asked is not on its screen any more".into()));
    }
    if answer.input.is_some() {
        return Err(Refusal::BadRequest("this ask can only be answered by keys; its input cannot be changed".into()));
    }
    let mut steps = match (ask.kind, answer.accept, &answer.text) {
        (AskKind::Question, Some(false), _) => vec![Step::Type(ESCAPE)],
        (AskKind::Question, None, _) => answer_questions(ask, answer)?,
        // A plan is sent back with what is to be changed, or declined.
        (AskKind::Plan, Some(false) | None, Some(text)) if answer.option.is_none() => words(text, PLAN)?,
        _ => vec![Step::Type(choose(&ask.options, answer)?)],
    };
    // What was drawn this moment may be another in the next.
    steps.insert(0, shown(OnScreen::Asked(Box::new(ask.clone()))));
    steps.push(Step::Expect { what: Expected::AskGone, within: TAKEN_WITHIN, retry: lost_enter(&steps) });
    Ok(steps)
}

/// A busy agent may lose the Enter that ends an answer. It is pressed once more if what was there before it still is.
fn lost_enter(steps: &[Step]) -> Option<Retry> {
    match steps {
        [.., Step::Expect { what: Expected::Screen(seen @ OnScreen::Rows { .. }), .. }, Step::Type(keys)]
            if *keys == ENTER =>
        {
            Some(Retry { after: LEFT_WITHIN, keys: ENTER, only_if: seen.clone() })
        }
        _ => None,
    }
}

/// Returns the key for an answer to anything but a question.
fn choose(offered: &[AskOption], answer: &Answer) -> Result<Bytes, Refusal> {
    if !answer.answers.is_empty() || !answer.options.is_empty() {
        return Err(Refusal::BadRequest("\"answers\" and \"options\" are for questions; give \"accept\"".into()));
    }
    let has_words = answer.text.as_deref().is_some_and(|text| !is_blank(text));
    let option = match (answer.accept, answer.option) {
        _ if has_words => {
            let why = "this dialog takes no words: answer without \"text\", and say it in a message";
            return Err(Refusal::BadRequest(why.into()));
        }
        (Some(_), Some(_)) => return Err(Refusal::BadRequest("give either \"accept\" or \"option\"".into())),
        (None, Some(number)) => numbered(offered, number)?,
        (Some(true), None) if answer.always => of_kind(offered, OptionKind::AllowAlways)?,
        (Some(true), None) => of_kind(offered, OptionKind::AllowOnce)?,
        (Some(false), None) if offered.iter().all(|option| option.kind != OptionKind::Reject) => return Ok(ESCAPE),
        (Some(false), None) => of_kind(offered, OptionKind::Reject)?,
        (None, None) => return Err(Refusal::BadRequest("give \"accept\" or \"option\"".into())),
    };
    Ok(Bytes::copy_from_slice(option.id.as_bytes()))
}

fn answer_questions(ask: &Ask, answer: &Answer) -> Result<Vec<Step>, Refusal> {
    // Without hooks all that is known is the page on the screen.
    let on_screen =
        [Question { question: ask.preview.clone(), header: None, multi_select: false, options: ask.options.clone() }];
    let questions = if ask.questions.is_empty() { &on_screen[..] } else { &ask.questions };
    let given = given(answer, questions.len())?;
    let mut steps = Vec::new();
    for (number, (question, given)) in questions.iter().zip(&given).enumerate() {
        let offered = (number == 0).then_some(&ask.options[..]);
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
            steps.extend([see(vec![row(question, *number, "", offered)?], QUESTIONS), press(*number)]);
        }
        ([_, ..], None) if question.multi_select => {
            for number in &numbers {
                let unchosen = row(question, *number, "[ ] ", offered)?;
                let chosen = unchosen.replacen("[ ]", "[x]", 1);
                steps.extend([see(vec![unchosen], QUESTIONS), press(*number), see(vec![chosen], QUESTIONS)]);
            }
            // Below the options are all of them, own words, and what ends the choice, which has no number.
            let options = question.options.iter().take_while(|option| option.label != ALL).count();
            let below = 1 + usize::from(options > 1);
            let last = numbers.last().map_or(0, |number| *number as usize - 1);
            let down = DOWN.repeat((options + below).saturating_sub(last));
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
fn row(question: &Question, number: u32, mark: &str, offered: Option<&[AskOption]>) -> Result<String, Refusal> {
    let label = &pick(&question.options, number)?.label;
    let is_it = |option: &AskOption| {
        option.id == number.to_string() && option.label.split_whitespace().eq(label.split_whitespace())
    };
    if offered.is_some_and(|offered| !offered.iter().any(is_it)) {
        return Err(Refusal::NoSuchOption(format!("the screen does not show option {number}, {label:?}")));
    }
    Ok(format!("{number}. {mark}{label}"))
}

/// Returns the keys for own words. They open the field for them by themselves, but a single digit would choose.
fn words(text: &str, below: &str) -> Result<Vec<Step>, Refusal> {
    let typed = plain(text).trim().to_owned();
    let last = typed.lines().last().unwrap_or_default();
    if typed.is_empty() || typed.chars().all(|c| c.is_ascii_digit()) {
        return Err(Refusal::BadRequest("the text needs a word in it: a number would choose an option".into()));
    }
    let seen = short_form(&typed).unwrap_or_else(|| clipped(last));
    Ok(vec![Step::Type(paste(&typed)), Step::Pause(AFTER_PASTE), see(vec![seen], below), Step::Type(ENTER)])
}

fn see(rows: Vec<String>, below: &str) -> Step {
    shown(OnScreen::Rows { rows, below: below.to_owned() })
}

fn press(number: u32) -> Step {
    Step::Type(number.to_string().into())
}

fn clipped(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().chars().take(SEEN).collect::<String>().trim().to_owned()
}
