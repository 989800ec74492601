//! The agent's input: what is in it, and how a message gets there.
//!
//! Nothing is pasted where the input is not to be seen, and Enter is pressed only while the message stands in it: in a
//! dialog Enter would choose something. What is pasted is data. A leading `!` would run it as a shell command, and a name
//! after `@` at its end would open a list of which Enter takes the first; a blank before or after keeps both from it.

use std::time::Duration;

use coop_api::{Line, Screen};

use crate::driver::{Expected, OnScreen, Refusal, Retry, Step};
use crate::keys::{
    self, ENTER, SHOWN_WITHIN, begins_shell_command, check_is_no_hidden_command, comparable, is_blank, paste, plain,
    shown, without_blanks,
};
use crate::rules::is_rule;

/// The largest gap after a paste that any agent needed was 100 ms.
pub(super) const AFTER_PASTE: Duration = Duration::from_millis(150);
/// How long a message may take to show in a hook, and to leave the input before Enter is pressed once more.
const SUBMITTED_WITHIN: Duration = Duration::from_secs(20);
const LEFT_WITHIN: Duration = Duration::from_secs(5);
/// What a long paste may take beside that, for each 64 KiB.
const PER_BLOCK: Duration = Duration::from_secs(1);
const BLOCK: usize = 64 * 1024;
/// What stands before the input. Before a shell command it is another.
const INPUT_MARK: &str = "❯";
/// How a long paste is shown, without its blanks.
const SHORT_FORM: &str = "[Pastedtext#";
/// So many letters of a message that goes on above or below what is shown of it are enough to know it again.
const ENOUGH: usize = 200;
/// Commands that are told by a hook when they are not through yet.
const BEGINS_ANEW: [&str; 2] = ["/clear", "/compact"];
/// Clears a line to its start and joins it to the one above.
const CLEAR_LINE: &[u8] = b"\x15\x7f";

/// Returns how a message is typed. What we know to be a message of ours is cleared first, as one that an interrupt has put
/// back into the input; what a person has typed there is left alone, and the message refused.
pub(super) fn deliver(text: &str, screen: &Screen, ours: &[&str]) -> Result<Vec<Step>, Refusal> {
    if is_blank(text) {
        return Err(Refusal::BadRequest("there is nothing to type in this message".into()));
    }
    check_is_no_hidden_command(text)?;
    if !screen.modes.bracketed_paste {
        return Err(Refusal::NotYet("the agent's terminal takes no pastes yet; try again in a moment".into()));
    }
    let Some(typed) = input(screen) else {
        return Err(Refusal::NotYet("the agent's input is not on its screen; look at it, and try again".into()));
    };
    let mut steps = Vec::new();
    // Its hook runs before the command is taken out of the input.
    if BEGINS_ANEW.iter().any(|command| typed.concat().starts_with(command)) {
        return Err(Refusal::NotYet("a command stands in the agent's input; try again in a moment".into()));
    }
    if !typed.is_empty() {
        if !ours.iter().any(|message| is_same(&typed, &plain(message))) {
            return Err(keys::occupied(&typed));
        }
        steps.push(Step::Type(CLEAR_LINE.repeat(typed.len()).into()));
        steps.push(shown(OnScreen::InputEmpty));
    }
    let more = PER_BLOCK * (text.len() / BLOCK) as u32;
    let retry = Retry { after: LEFT_WITHIN + more, keys: ENTER, only_if: OnScreen::InputHolds(plain(text)) };
    let what = if is_command(text) { Expected::Command } else { Expected::TurnBegan };
    let is_there = Expected::Screen(OnScreen::InputFilled);
    steps.extend([
        Step::Type(paste(&message(text))),
        Step::Pause(AFTER_PASTE),
        Step::Expect { what: is_there, within: SHOWN_WITHIN + more, retry: None },
        Step::Type(ENTER),
        Step::Expect { what, within: SUBMITTED_WITHIN + more, retry: Some(retry) },
    ]);
    Ok(steps)
}

/// Returns what is in the agent's input, line by line: between two rules at the bottom, after its mark. Faint text is
/// only a suggestion. Nothing if the input is not on the screen.
pub(super) fn input(screen: &Screen) -> Option<Vec<String>> {
    let lines = &screen.lines;
    let below = lines.iter().rposition(|line| is_rule(line.plain()))?;
    let above = lines[..below].iter().rposition(|line| is_rule(line.plain()))?;
    let rows = &lines[above + 1..below];
    if !rows.first().is_some_and(|row| row.plain().starts_with(INPUT_MARK)) {
        return None;
    }
    let bare = |row: &Line| {
        let typed = typed_part(row);
        typed.strip_prefix(INPUT_MARK).unwrap_or(&typed).trim().to_owned()
    };
    let typed: Vec<_> = rows.iter().map(|row| bare(row)).collect();
    Some(if typed.iter().all(String::is_empty) { Vec::new() } else { typed })
}

/// Tells whether the input holds a message: as it was, or as much of it as can be seen.
pub(super) fn holds(typed: &[String], message: &str) -> bool {
    // Signs may be drawn otherwise than they were sent.
    let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let (there, sent) = (letters(&typed.concat()), letters(message));
    let is_part = there.len() >= ENOUGH && sent.contains(&there);
    !typed.is_empty() && (there == sent || is_part || is_short_form(&without_blanks(&typed.concat()), message))
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
    let typed = typed.concat();
    let is_whole = comparable(&typed) == comparable(last_prompt);
    !last_prompt.is_empty() && (is_whole || is_short_form(&without_blanks(&typed), last_prompt))
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

/// Tells whether the agent takes a message for a command of its own.
fn is_command(text: &str) -> bool {
    plain(text).starts_with('/')
}

/// Returns a message as it is pasted.
fn message(text: &str) -> String {
    let text = plain(text);
    let before = if begins_shell_command(&text) { " " } else { "" };
    let ends_in_name = text.rsplit(char::is_whitespace).next().is_some_and(|word| word.contains('@'));
    let after = if ends_in_name { " " } else { "" };
    format!("{before}{text}{after}")
}
