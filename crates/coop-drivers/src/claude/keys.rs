//! How a message is typed into Claude Code's input, and how its dialogs take keys.

use std::time::Duration;

use coop_api::{Line, Screen};

use crate::driver::{Refusal, Step};
use crate::keys::{self, Manners};
use crate::rules::is_rule;

pub(super) const MANNERS: Manners = Manners {
    // The largest gap after a paste that any agent needed was 100 ms.
    after_paste: Duration::from_millis(150),
    per_block: Duration::from_secs(1),
    free_text: Some("Type something"),
    feedback: Some("Tell Claude"),
    escape_rejects: false,
};
/// What stands before the input.
const INPUT_MARK: &str = "❯";
/// How a long paste is shown, without its blanks.
const SHORT_FORM: &str = "[Pastedtext#";

/// Returns how a message is typed. What an interrupt has put back into the input is cleared first; what a person has
/// typed there is left alone, and the message refused.
pub(super) fn deliver(text: &str, screen: &Screen, last_prompt: &str) -> Result<Vec<Step>, Refusal> {
    if let Some(refusal) = keys::untypable(text, screen) {
        return Err(refusal);
    }
    let typed = input(screen);
    if !typed.is_empty() && !is_last(&typed, last_prompt) {
        return Err(keys::occupied(&typed.join("\n")));
    }
    Ok(MANNERS.submit(text, typed.len()))
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
fn is_last(typed: &[String], last_prompt: &str) -> bool {
    let typed = typed.join("");
    !last_prompt.is_empty() && (keys::is_same(&typed, last_prompt) || is_short_form(&typed, last_prompt))
}

/// Tells whether a text stands for a message: `[Pasted text #2 +39 lines]` for one with 39 line ends.
fn is_short_form(typed: &str, message: &str) -> bool {
    let typed: String = typed.chars().filter(|c| !c.is_whitespace()).collect();
    let Some(rest) = typed.strip_prefix(SHORT_FORM) else { return false };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    match message.matches('\n').count() {
        0 => rest == "]",
        ends => rest == format!("+{ends}lines]"),
    }
}
