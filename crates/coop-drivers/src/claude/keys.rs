//! Answering by keys, where there is no better way.
//!
//! Digits act at once and are never followed by Enter, which would land on whatever comes next. Letters do nothing, and
//! Enter takes what is highlighted, which may be the opposite of what was meant. So an option is chosen only by its
//! digit, and only if the dialog that was seen when the ask was opened is on the screen right now, word for word. Where
//! it takes more than one key, the screen has to show what each one did before the next is typed.

use std::time::Duration;

use bytes::Bytes;
use coop_api::{Answer, Ask, AskKind, AskOption, OptionKind, preview};
use serde_json::Value;

use super::input::AFTER_PASTE;
use crate::driver::{Label, OnScreen, Refusal, Step};
use crate::keys::{ENTER, ESCAPE, is_blank, numbered, of_kind, paste, shown, taken};
use crate::rules::{Choosing, Dialog, Row};
use crate::{AskDraft, Reach};

/// How long a dialog may take from being drawn to taking keys.
const DRAWN: Duration = Duration::from_millis(150);
const TAB: Bytes = Bytes::from_static(b"\t");
const UP: Bytes = Bytes::from_static(b"\x1b[A");
const DOWN: Bytes = Bytes::from_static(b"\x1b[B");
const RIGHT: Bytes = Bytes::from_static(b"\x1b[C");
/// The option of a question that takes free text.
const FREE_TEXT: &str = "Type something";
/// The option of a plan that takes it.
const CHANGE: &str = "Tell Claude";
/// What a dialog says that takes a reason with its no, and what that no becomes.
const AMENDS: &str = "Tab to amend";
const AMENDED: &str = "No, and tell Claude";
/// The name of the option that closes a dialog.
const CLOSE: &str = "esc";

/// What the screen shows of an ask.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) draft: AskDraft,
    /// All rows with options, from the top.
    pub(super) rows: Vec<Row>,
    pub(super) choosing: Choosing,
    /// Whether a no may have a reason.
    pub(super) amends: bool,
}

/// What an answer comes to.
enum Choice<'a> {
    /// An option.
    One(&'a AskOption),
    /// Several, by their numbers.
    Several(Vec<u32>),
    /// An option that opens a field for a text.
    Field { option: &'a AskOption, opened: &'static str, text: &'a str },
    /// A no with a reason.
    Amended { option: &'a AskOption, text: &'a str },
}

/// Returns the ask for a dialog that a command has opened: of any form, and Escape closes it.
pub(super) fn command_draft(heading: Vec<String>, dialog: Option<&Dialog>) -> AskDraft {
    let mut options = dialog.map(Dialog::ask_options).unwrap_or_default();
    for option in &mut options {
        option.kind = OptionKind::Choice;
    }
    let label = "Close it (Esc)".to_owned();
    options.push(AskOption { id: CLOSE.to_owned(), label, description: None, kind: OptionKind::Reject });
    AskDraft {
        kind: AskKind::Setup,
        tool: None,
        input: None,
        preview: about(&heading),
        questions: Vec::new(),
        options,
        screen_lines: heading,
        reach: Reach::Keys,
    }
}

/// A dialog's first line. Its others change while it is open, so they are not counted: an ask keeps its preview.
fn about(lines: &[String]) -> String {
    preview(lines.first().map_or("", String::as_str), &Value::Null)
}

/// Returns the ask for a dialog that cannot be read. It has no options, so a person has to answer it.
pub(super) fn unread_draft(waiting_for: &str, shown: Vec<String>) -> AskDraft {
    AskDraft {
        kind: if waiting_for.contains("permission") { AskKind::Permission } else { AskKind::Question },
        tool: None,
        input: None,
        preview: about(&shown),
        questions: Vec::new(),
        options: Vec::new(),
        screen_lines: shown,
        reach: Reach::Keys,
    }
}

/// Returns the keys for an answer, or why none can be sent.
pub(super) fn answer(ask: &Ask, answer: &Answer, shown_now: Option<Shown>) -> Result<Vec<Step>, Refusal> {
    let gone = || Refusal::NoSuchOption("what the agent asked is not on its screen any more".into());
    let now = shown_now.ok_or_else(gone)?;
    if !is_asked(ask, &now.draft) {
        return Err(gone());
    }
    // What was drawn this moment takes no keys yet, and may be another in the next.
    let mut steps = vec![Step::Pause(DRAWN), shown(OnScreen::Asked(Box::new(ask.clone())))];
    steps.extend(match choose(ask, answer, &now)? {
        Choice::One(option) if now.choosing == Choosing::Mark && option.id != CLOSE => {
            let mut steps = go_to(number(option), &now.rows);
            // Enter takes what is marked right then.
            steps.push(shown(OnScreen::Marked { number: number(option), label: Label::Begins(option.label.clone()) }));
            steps.push(Step::Type(ENTER));
            steps
        }
        // These are known only from numbered dialogs.
        _ if now.choosing == Choosing::Mark && ask.options.last().is_none_or(|option| option.id != CLOSE) => {
            let why = "coop cannot give this dialog more than a choice; answer it in the terminal";
            return Err(Refusal::Unsupported(why.into()));
        }
        Choice::One(option) => vec![Step::Type(key(option))],
        Choice::Several(numbers) => several(&numbers, &now.rows),
        Choice::Field { option, opened, text } => {
            let mut steps = vec![Step::Type(key(option))];
            steps.extend(fill(number(option), opened, text));
            steps
        }
        Choice::Amended { option, text } => amend(number(option), text, &now.rows),
    });
    steps.push(taken());
    Ok(steps)
}

/// Tells whether a dialog is what an ask was opened for.
pub(super) fn is_asked(ask: &Ask, draft: &AskDraft) -> bool {
    let is_same_text = match is_of_command(&ask.options) {
        true => draft.preview == ask.preview,
        false => draft.screen_lines == ask.screen_lines,
    };
    draft.kind == ask.kind && is_same_text && draft.options == ask.options
}

/// Returns what an answer means.
fn choose<'a>(ask: &'a Ask, answer: &'a Answer, now: &Shown) -> Result<Choice<'a>, Refusal> {
    let offered = &ask.options[..];
    if answer.input.is_some() || !answer.answers.is_empty() {
        let why = "this ask can only be answered by keys: give one of \"accept\", \"option\", \"options\" or \"text\"";
        return Err(Refusal::BadRequest(why.into()));
    }
    let of_kind = |kind: OptionKind| of_kind(offered, kind);
    let numbered = |number: u32| numbered(offered, number);
    let can_be_ticked = |option: &AskOption| {
        let row = now.rows.iter().rfind(|row| row.number == number(option));
        row.is_some_and(|row| row.ticked.is_some()) && !option.label.starts_with(FREE_TEXT)
    };
    if !answer.options.is_empty() {
        let chosen = answer.options.iter().map(|number| numbered(*number)).collect::<Result<Vec<_>, _>>()?;
        let alone = answer.accept.is_none() && answer.option.is_none() && answer.text.is_none();
        return match alone && chosen.iter().all(|option| can_be_ticked(option)) {
            true => Ok(Choice::Several(answer.options.clone())),
            false => Err(Refusal::BadRequest("\"options\" are for a question that takes several, and alone".into())),
        };
    }
    match (answer.accept, answer.option, &answer.text) {
        (Some(_), Some(_), _) => Err(Refusal::BadRequest("give either \"accept\" or \"option\"".into())),
        (None, Some(number), None) => {
            let option = numbered(number)?;
            Ok(if can_be_ticked(option) { Choice::Several(vec![number]) } else { Choice::One(option) })
        }
        (Some(true), None, None) if answer.always => Ok(Choice::One(of_kind(OptionKind::AllowAlways)?)),
        (Some(true), None, None) => Ok(Choice::One(of_kind(OptionKind::AllowOnce)?)),
        (Some(false), None, text) => {
            let option = of_kind(OptionKind::Reject)?;
            let text = text.as_deref().filter(|text| !is_blank(text));
            match text {
                Some(text) if option.label.starts_with(CHANGE) => Ok(Choice::Field { option, opened: CHANGE, text }),
                None if option.label.starts_with(CHANGE) => {
                    Err(Refusal::BadRequest("say in \"text\" what is to be changed: the agent asks for it".into()))
                }
                Some(text) if now.amends => Ok(Choice::Amended { option, text }),
                Some(_) => {
                    let why = "this dialog takes no reason with a no: answer without \"text\", and say it in a message";
                    Err(Refusal::BadRequest(why.into()))
                }
                None => Ok(Choice::One(option)),
            }
        }
        (None, None, Some(text)) if ask.kind == AskKind::Question && !is_blank(text) => {
            let is_field = |option: &&AskOption| option.label.starts_with(FREE_TEXT);
            // Where several can be chosen that one only gets a tick.
            let option = offered.iter().find(is_field).filter(|_| ask.questions.is_empty());
            let none = || Refusal::NoSuchOption("the screen shows no option for free text".into());
            Ok(Choice::Field { option: option.ok_or_else(none)?, opened: FREE_TEXT, text })
        }
        _ => Err(Refusal::BadRequest("give \"accept\", \"option\" or, for a question, \"text\"".into())),
    }
}

/// Returns the steps that choose these options and no other, and go on to the next page.
fn several(numbers: &[u32], rows: &[Row]) -> Vec<Step> {
    let mut steps = Vec::new();
    for row in rows.iter().filter(|row| !row.label.starts_with(FREE_TEXT)) {
        let wanted = row.number.to_digit(10).is_some_and(|number| numbers.contains(&number));
        if row.ticked == Some(!wanted) {
            let key = Bytes::copy_from_slice(row.number.to_string().as_bytes());
            steps.extend([Step::Type(key), shown(OnScreen::Ticked { number: row.number, ticked: wanted })]);
        }
    }
    steps.push(Step::Type(RIGHT));
    steps
}

/// Returns the steps that fill a field which is about to open, and send it.
fn fill(number: char, opened: &str, text: &str) -> Vec<Step> {
    vec![
        shown(OnScreen::Marked { number, label: Label::Begins(opened.to_owned()) }),
        Step::Type(paste(text)),
        Step::Pause(AFTER_PASTE),
        shown(OnScreen::Marked { number, label: Label::Other(opened.to_owned()) }),
        Step::Type(ENTER),
    ]
}

/// Returns the steps that move the mark to an option.
fn go_to(number: char, rows: &[Row]) -> Vec<Step> {
    let marked = rows.iter().rfind(|row| row.is_marked).map_or('1', |row| row.number);
    let mut steps = Vec::new();
    let mut go = |key: Bytes, to: char| {
        steps.extend([Step::Type(key), shown(OnScreen::Marked { number: to, label: Label::Any })]);
    };
    (marked..=number).skip(1).for_each(|to| go(DOWN, to));
    (number..marked).rev().for_each(|to| go(UP, to));
    steps
}

/// Returns the steps that go to a no, open its field and fill it.
fn amend(number: char, text: &str, rows: &[Row]) -> Vec<Step> {
    let mut steps = go_to(number, rows);
    steps.push(Step::Type(TAB));
    steps.extend(fill(number, AMENDED, text));
    steps
}

/// Returns the key that chooses an option.
fn key(option: &AskOption) -> Bytes {
    match option.id.as_str() {
        CLOSE => ESCAPE,
        digit => Bytes::copy_from_slice(digit.as_bytes()),
    }
}

fn number(option: &AskOption) -> char {
    option.id.chars().next().unwrap_or('0')
}

/// Tells whether these are the options of a dialog that a command has opened. What else it shows may change.
pub(super) fn is_of_command(options: &[AskOption]) -> bool {
    options.last().is_some_and(|option| option.id == CLOSE)
}

/// Tells whether a dialog takes a reason with its no.
pub(super) fn amends(rows: &[String]) -> bool {
    rows.iter().any(|row| row.contains(AMENDS))
}

/// Tells whether an option is called as it is expected to be.
pub(super) fn is_called(label: &str, expected: &Label) -> bool {
    match expected {
        Label::Any => true,
        Label::Begins(start) => label.starts_with(start.as_str()),
        Label::Other(start) => !label.starts_with(start.as_str()),
    }
}
