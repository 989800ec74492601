//! The agent's input: what is in it, and how a message gets there. Nothing is pasted where the input is not to be seen.

use std::time::Duration;

use coop_api::Screen;

use crate::driver::{Expected, OnScreen, Refusal, Retry, Step};
use crate::keys::{
    ENTER, SHOWN_WITHIN, begins_shell_command, check_is_no_hidden_command, comparable, is_blank, occupied, paste,
    plain, shown,
};
use crate::rules::rows;

/// Enter is swallowed if it comes sooner after a paste; 100 ms always were enough.
pub(super) const AFTER_PASTE: Duration = Duration::from_millis(200);
/// How long a message may take to show in a hook, and to leave the input before Enter is pressed once more.
const SUBMITTED_WITHIN: Duration = Duration::from_secs(20);
pub(super) const LEFT_WITHIN: Duration = Duration::from_secs(5);
/// What a long one may take beside that, for each 64 KiB: 14 s for 1 MiB in lines, and as long for 64 KiB in one.
const PER_BLOCK: Duration = Duration::from_secs(3);
const BLOCK: usize = 64 * 1024;
/// What stands before the input, and what it shows while it is empty.
const MARKS: [&str; 3] = [" > ", " * ", " ! "];
const PLACEHOLDER: &str = "Type your message";
/// What stands before what was said: its input is below all of that.
const SAID_MARKS: [char; 7] = ['✦', 'ℹ', '✕', '⚠', '╭', '│', '╰'];
/// A paste longer than this, in lines or characters, is shown by a short form.
const LONG_PASTE: (usize, usize) = (5, 500);
const SHORT_FORM: &str = "[Pasted Text: ";
/// Clears a line to its start and joins it to the one above.
const CLEAR_LINE: &[u8] = b"\x15\x7f";

/// Returns how a message is typed. What an interrupt has put back into the input is cleared first; what a person has
/// typed there is left alone, and the message refused.
pub(super) fn deliver(text: &str, screen: &Screen, last_prompt: &str) -> Result<Vec<Step>, Refusal> {
    if is_blank(text) {
        return Err(Refusal::BadRequest("there is nothing to type in this message".into()));
    }
    check_is_no_hidden_command(text)?;
    if !screen.modes.bracketed_paste {
        return Err(Refusal::NotYet("the agent's terminal takes no pastes yet; try again in a moment".into()));
    }
    let Some(typed) = input(&rows(screen)) else {
        return Err(Refusal::NotYet("the agent's input is not on its screen; look at it, and try again".into()));
    };
    let mut steps = Vec::new();
    if !typed.is_empty() {
        if last_prompt.is_empty() || comparable(&typed.concat()) != comparable(last_prompt) {
            return Err(occupied(&typed));
        }
        steps.push(Step::Type(CLEAR_LINE.repeat(typed.len()).into()));
        steps.push(shown(OnScreen::InputEmpty));
    }
    let blocks = (text.len() / BLOCK) as u32;
    let more = PER_BLOCK * blocks;
    // A leading mark would run it as a shell command.
    let message = if begins_shell_command(text) { format!(" {text}") } else { text.to_owned() };
    let retry = Retry { after: LEFT_WITHIN + more, keys: ENTER, only_if: OnScreen::InputHolds(plain(text)) };
    let is_there = Expected::Screen(OnScreen::InputFilled);
    steps.extend([
        Step::Type(paste(&message)),
        Step::Pause(AFTER_PASTE),
        Step::Expect { what: is_there.clone(), within: SHOWN_WITHIN + more, retry: None },
        // It is shown before it is all through.
        Step::Pause(AFTER_PASTE * (1 + blocks)),
        // Something else may have come up in the meantime.
        Step::Expect { what: is_there, within: SHOWN_WITHIN + more, retry: None },
        Step::Type(ENTER),
        Step::Expect { what: Expected::TurnBegan, within: SUBMITTED_WITHIN + more, retry: Some(retry) },
    ]);
    Ok(steps)
}

/// Returns what is in the agent's input, line by line: from the last row with its mark to its lower edge. Nothing if it
/// is not there; what was said before has the same mark.
pub(super) fn input(rows: &[String]) -> Option<Vec<String>> {
    let begins = |row: &String| MARKS.iter().any(|mark| row.starts_with(mark));
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

/// Tells whether the input holds a message, as it was or by its short form.
pub(super) fn holds(typed: &[String], message: &str) -> bool {
    let there = typed.concat();
    let is_short = short_form(message).is_some_and(|short| there.starts_with(&short));
    !typed.is_empty() && (is_short || comparable(&there) == comparable(message))
}

/// Returns how a long text begins to be shown, if it is one.
pub(super) fn short_form(text: &str) -> Option<String> {
    let (lines, chars) = LONG_PASTE;
    let is_long = text.lines().count() > lines || text.len() > chars;
    is_long.then(|| SHORT_FORM.to_owned())
}
