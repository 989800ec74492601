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
/// What stands below what it wants to do.
const ALLOW_COMMAND: &str = "Allow execution of";
const ALLOW_SERVER_TOOL: &str = "Allow execution of MCP tool";
const ALLOW_CHANGE: &str = "Apply this change?";
const PROCEED: &str = "Do you want to proceed?";
/// So many reports wait for their dialogs at most; Gemini shows one dialog at a time.
const MAX_NOTIFIED: usize = 64;
/// How much of a text has to be seen.
const SEEN: usize = 40;
/// What stands below the options if several can be chosen.
const ALL: &str = "All of the above";
const DOWN: &[u8] = b"\x1b[B";

/// A permission that a hook reported before its dialog.
#[derive(Clone, Debug)]
pub(super) struct Notified {
    tool: String,
    input: Value,
    preview: Option<String>,
    shown: Shown,
    detail: String,
}

/// What the dialog will show of it. The dialog of each kind ends with a question of its own, so that a report of one kind fits
/// no dialog of another.
#[derive(Clone, Debug)]
enum Shown {
    Command(String),
    /// The file that is changed, as the model named it.
    File(String),
    /// A tool of a server, which the question names.
    ServerTool(String),
    /// A text that stands above the question.
    Text(String),
    /// The first of its questions.
    Question(String),
    /// Whatever a plan says.
    Plan,
}

impl Shown {
    fn of(tool: &str, input: &Value, details: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().filter(|text| !is_blank(text)).map(str::to_owned);
        match (details["type"].as_str(), tool) {
            (_, "ask_user") => text(&input["questions"][0]["question"]).map(Self::Question),
            (_, "exit_plan_mode") => Some(Self::Plan),
            (Some("exec"), _) => text(&details["command"]).map(Self::Command),
            (Some("edit"), _) => text(&input["file_path"]).map(Self::File),
            (Some("mcp"), _) => text(&details["toolName"]).map(Self::ServerTool),
            _ => text(&details["prompt"]).map(Self::Text),
        }
    }

    fn is_in(&self, dialog: &AskDraft, folder: &str, is_only: bool) -> bool {
        let lines = &dialog.screen_lines;
        let Some((question, above)) = lines.split_last() else { return false };
        let shows = |text: &str| {
            (0..above.len()).any(|from| (from..above.len()).any(|to| before_lines(&above[from..=to], text) == Some("")))
        };
        match self {
            Self::Command(command) => {
                let is_command = question.starts_with(ALLOW_COMMAND) && !question.starts_with(ALLOW_SERVER_TOOL);
                is_command && shows_command(above, command, is_only)
            }
            Self::File(path) => {
                question == ALLOW_CHANGE && above.first().is_some_and(|head| names_file(head, path, folder))
            }
            Self::ServerTool(tool) => {
                question.starts_with(ALLOW_SERVER_TOOL) && question.contains(&format!("\"{tool}\""))
            }
            Self::Text(text) => question == PROCEED && shows(text),
            Self::Question(text) => {
                let is_whole =
                    |at: usize| (at..lines.len()).any(|end| before_lines(&lines[at..=end], text) == Some(""));
                (0..lines.len()).any(is_whole)
            }
            Self::Plan => dialog.kind == AskKind::Plan,
        }
    }
}

/// Tells whether the first line of a dialog ends with a file's name, or has it before a colon: from the folder where Gemini works,
/// or whole. It shortens long names, which are then not recognised.
fn names_file(head: &str, path: &str, folder: &str) -> bool {
    let path = path.strip_prefix(folder).and_then(|path| path.strip_prefix('/')).unwrap_or(path);
    let path = path.strip_prefix("./").unwrap_or(path);
    let is_whole = |(at, _): (usize, &str)| {
        let (before, after) = (&head[..at], &head[at + path.len()..]);
        before.ends_with(' ') && (after.is_empty() || after.starts_with(": "))
    };
    head.match_indices(path).any(is_whole)
}

/// Tells whether a dialog shows a command, in the lines above its question: the command below a line that names the tool, which
/// may have the command once more. Of a long command it shows the end, below a line that says how many lines are hidden; a command
/// can hold such a line itself, so what stands above the line counts too.
fn shows_command(above: &[String], command: &str, is_only: bool) -> bool {
    let is_note = |line: &String| line.starts_with("... first ") && line.ends_with(" ...");
    let is_head = |head: &[String]| match head {
        [] => false,
        [_] => true,
        [first, more @ ..] => before_lines(more, command).is_some_and(|rest| !rest.is_empty() && first.ends_with(rest)),
    };
    if let Some(note) = above.iter().position(is_note) {
        let (head, shown) = (&above[..note], &above[note + 1..]);
        // Of a dialog that is higher than the screen the first lines are off it.
        let is_end = is_only && before_lines(head, command).is_some_and(|rest| !rest.is_empty());
        let is_below_head = is_head(head) || is_end;
        return is_below_head && !shown.is_empty() && before_lines(shown, command).is_some_and(|rest| !rest.is_empty());
    }
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
    fn fits(&self, dialog: &AskDraft, folder: &str, is_only: bool) -> bool {
        let is_question = (self.tool == "ask_user") == (dialog.kind == AskKind::Question);
        is_question && self.shown.is_in(dialog, folder, is_only)
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
        let is_only = self.notified.len() == 1;
        let fits = |notified: &Notified| notified.fits(seen, &self.folder, is_only);
        let at = self.notified.iter().position(fits)?;
        let found = &self.notified[at];
        let is_other = |other: &Notified| fits(other) && (&other.tool, &other.input) != (&found.tool, &found.input);
        if self.notified.iter().any(is_other) { None } else { self.notified.remove(at) }
    }

    /// Remembers what a hook reported until its dialog is on the screen.
    pub(super) fn remember_notified(&mut self, notified: Notified) {
        if self.notified.len() == MAX_NOTIFIED {
            self.notified.pop_front();
        }
        self.notified.push_back(notified);
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
