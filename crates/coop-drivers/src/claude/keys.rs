//! Typing, where there is no better way.
//!
//! Digits act at once and are never followed by Enter, which would land on whatever comes next. Letters do nothing, and
//! Enter takes what is highlighted, which may be the opposite of what was meant. So an option is chosen only by its
//! digit, and only if the dialog that was seen when the ask was opened is on the screen right now, word for word.

use std::time::Duration;

use bytes::Bytes;
use coop_api::{Answer, Ask, AskKind, AskOption, Line, OptionKind, Screen};

use super::answer::taken;
use crate::driver::{Expected, Refusal, Step};
use crate::rules::{Dialog, Rules, is_rule, rows};
use crate::{AskDraft, Reach};

/// The largest gap after a paste that any agent needed was 100 ms.
const AFTER_PASTE: Duration = Duration::from_millis(150);
/// How long a message may take to show in a hook before Enter is pressed once more.
const SUBMITTED_WITHIN: Duration = Duration::from_secs(3);
/// What a long paste may take beside that, for each 64 KiB.
const PER_BLOCK: Duration = Duration::from_secs(1);
const BLOCK: usize = 64 * 1024;
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(5);
/// What stands before the input.
const INPUT_MARK: &str = "❯";
/// How a long paste is shown, without its blanks.
const SHORT_FORM: &str = "[Pastedtext#";
/// Clears a line to its start and joins it to the one above.
const CLEAR_LINE: &[u8] = b"\x15\x7f";
const ENTER: Bytes = Bytes::from_static(b"\r");
const ESCAPE: Bytes = Bytes::from_static(b"\x1b");
/// The option of a question that takes free text.
const FREE_TEXT: &str = "Type something";

/// Returns the ask for a dialog on the screen.
pub(super) fn draft(dialog: &Dialog) -> AskDraft {
    let question = || dialog.heading.iter().rev().find(|line| line.ends_with('?'));
    let preview = match dialog.kind {
        // What is trusted says more than that it is asked.
        AskKind::Setup => dialog.heading.iter().find(|line| line.starts_with(['/', '~'])).or_else(question),
        AskKind::Permission | AskKind::Plan | AskKind::Question => question(),
    };
    let preview = preview.or(dialog.heading.first());
    AskDraft {
        kind: dialog.kind,
        tool: None,
        input: None,
        preview: preview.cloned().unwrap_or_default(),
        questions: Vec::new(),
        options: dialog.ask_options(),
        screen_lines: dialog.heading.clone(),
        reach: Reach::Keys,
    }
}

/// Returns the keys for an answer, or why none can be sent.
pub(super) fn answer(rules: &Rules, ask: &Ask, answer: &Answer, screen: &Screen) -> Result<Vec<Step>, Refusal> {
    let gone = || Refusal::NoSuchOption("what the agent asked is not on its screen any more".into());
    let dialog = rules.dialog(&rows(screen)).ok_or_else(gone)?;
    let offered = dialog.ask_options();
    if dialog.kind != ask.kind || dialog.heading != ask.screen_lines || offered != ask.options {
        return Err(gone());
    }
    let (option, text) = choose(ask, &offered, answer)?;
    let mut steps = vec![Step::Type(digit(option))];
    if let Some(text) = text {
        steps.extend([Step::Pause(AFTER_PASTE), Step::Type(paste(text)), Step::Pause(AFTER_PASTE), Step::Type(ENTER)]);
    }
    steps.push(taken());
    Ok(steps)
}

/// Returns the option an answer means, and the text that follows it.
fn choose<'a>(
    ask: &Ask,
    offered: &'a [AskOption],
    answer: &'a Answer,
) -> Result<(&'a AskOption, Option<&'a str>), Refusal> {
    if answer.input.is_some() || !answer.answers.is_empty() || !answer.options.is_empty() {
        let why = "this ask can only be answered by keys: give one of \"accept\", \"option\" or \"text\"";
        return Err(Refusal::BadRequest(why.into()));
    }
    let of_kind = |kind: OptionKind| {
        let mut found = offered.iter().filter(|option| option.kind == kind);
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(Refusal::NoSuchOption(format!("the screen does not show one option that means {kind:?}"))),
        }
    };
    match (answer.accept, answer.option, &answer.text) {
        (Some(_), Some(_), _) => Err(Refusal::BadRequest("give either \"accept\" or \"option\"".into())),
        (None, Some(number), None) => {
            let at = (number as usize).checked_sub(1);
            let option = at.and_then(|at| offered.get(at)).ok_or_else(|| {
                Refusal::NoSuchOption(format!("there is no option {number}; the screen shows {}", offered.len()))
            })?;
            Ok((option, None))
        }
        (Some(true), None, None) if answer.always => Ok((of_kind(OptionKind::AllowAlways)?, None)),
        (Some(true), None, None) => Ok((of_kind(OptionKind::AllowOnce)?, None)),
        (Some(false), None, text) => {
            let option = of_kind(OptionKind::Reject)?;
            // Only that one opens a field for it; after any other the text would land in the prompt.
            let takes_text = option.label.starts_with("Tell Claude");
            match text {
                Some(text) if takes_text && !is_blank(text) => Ok((option, Some(text))),
                Some(_) | None if !takes_text => Ok((option, None)),
                Some(_) | None => {
                    Err(Refusal::BadRequest("say in \"text\" what is to be changed: the agent asks for it".into()))
                }
            }
        }
        (None, None, Some(text)) if ask.kind == AskKind::Question => {
            let option = offered.iter().find(|option| option.label.starts_with(FREE_TEXT));
            let none = || Refusal::NoSuchOption("the screen shows no option for free text".into());
            Ok((option.ok_or_else(none)?, Some(text)))
        }
        _ => Err(Refusal::BadRequest("give \"accept\", \"option\" or, for a question, \"text\"".into())),
    }
}

fn digit(option: &AskOption) -> Bytes {
    Bytes::copy_from_slice(option.id.as_bytes())
}

/// Returns how a message is typed. What an interrupt has put back into the input is cleared first; what a person has
/// typed there is left alone, and the message refused.
pub(super) fn deliver(text: &str, screen: &Screen, last_prompt: &str) -> Result<Vec<Step>, Refusal> {
    if !screen.modes.bracketed_paste {
        return Err(Refusal::Occupied("the agent's terminal takes no pastes yet; try again in a moment".into()));
    }
    if is_blank(text) {
        return Err(Refusal::BadRequest("there is nothing to type in this message".into()));
    }
    let mut steps = Vec::new();
    let typed = input(screen);
    if !typed.is_empty() {
        if !is_same(&typed, last_prompt) {
            let why =
                format!("somebody has typed {:?} into the agent's input; send or clear that first", typed.join("\n"));
            return Err(Refusal::Occupied(why));
        }
        steps.extend([Step::Type(CLEAR_LINE.repeat(typed.len()).into()), Step::Pause(AFTER_PASTE)]);
    }
    let within = SUBMITTED_WITHIN + PER_BLOCK * (text.len() / BLOCK) as u32;
    steps.extend([
        Step::Type(paste(text)),
        Step::Pause(AFTER_PASTE),
        Step::Type(ENTER),
        Step::Expect { what: Expected::TurnBegan, within, retry: Some(ENTER) },
    ]);
    Ok(steps)
}

/// Returns what is in the agent's input, line by line: between two rules at the bottom, after its mark. Faint text is
/// only a suggestion.
fn input(screen: &Screen) -> Vec<String> {
    let lines = &screen.lines;
    let Some(below) = lines.iter().rposition(|line| is_rule(line.plain())) else { return Vec::new() };
    let Some(above) = lines[..below].iter().rposition(|line| is_rule(line.plain())) else { return Vec::new() };
    let rows = &lines[above + 1..below];
    if !rows.first().is_some_and(|row| row.plain().starts_with(INPUT_MARK)) {
        return Vec::new();
    }
    let bare = |row: &Line| {
        let typed = typed_part(row);
        typed.strip_prefix(INPUT_MARK).unwrap_or(&typed).trim().to_owned()
    };
    let typed: Vec<_> = rows.iter().map(|row| bare(row)).collect();
    if typed.iter().all(String::is_empty) { Vec::new() } else { typed }
}

/// Returns what is typed of a row: all but what is faint, and the cursor that stands on the first faint character.
fn typed_part(row: &Line) -> String {
    let mut typed = String::new();
    let mut rest = row.text.as_str();
    let mut runs = row.runs.iter().peekable();
    while let Some(run) = runs.next() {
        let Some((part, after)) = rest.split_at_checked(run.bytes as usize) else { break };
        rest = after;
        let is_cursor_on_faint = run.style.inverse && runs.peek().is_some_and(|next| next.style.dim);
        if !run.style.dim && !is_cursor_on_faint {
            typed.push_str(part);
        }
    }
    typed + rest
}

/// Tells whether the input holds the last message: as it was, wrapped, or as the short form of a long paste.
fn is_same(typed: &[String], last_prompt: &str) -> bool {
    let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let typed = bare(&typed.join(""));
    !last_prompt.is_empty() && (typed == bare(last_prompt) || is_short_form(&typed, last_prompt))
}

/// Tells whether text without blanks stands for a message: `[Pasted text #2 +39 lines]` for one with 39 line ends.
fn is_short_form(typed: &str, message: &str) -> bool {
    let Some(rest) = typed.strip_prefix(SHORT_FORM) else { return false };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    match message.matches('\n').count() {
        0 => rest == "]",
        ends => rest == format!("+{ends}lines]"),
    }
}

pub(super) fn interrupt() -> Vec<Step> {
    let idle = Step::Expect { what: Expected::Idle, within: INTERRUPTED_WITHIN, retry: None };
    vec![Step::Type(ESCAPE), idle]
}

/// Returns text as a paste, without anything that could end the paste or act by itself.
fn paste(text: &str) -> Bytes {
    let mut bytes = Vec::with_capacity(text.len() + 12);
    bytes.extend_from_slice(b"\x1b[200~");
    bytes.extend_from_slice(plain(text).as_bytes());
    bytes.extend_from_slice(b"\x1b[201~");
    bytes.into()
}

/// Returns text with one kind of line end and no control characters. A leading `!` would run it as a command.
pub(super) fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let kept: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    if kept.starts_with('!') { format!(" {kept}") } else { kept }
}

/// Tells whether nothing of a text would be seen.
fn is_blank(text: &str) -> bool {
    plain(text).trim().is_empty()
}
