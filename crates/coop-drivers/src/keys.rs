//! What is typed, where there is no better way, and what shows that it took.
//!
//! Digits act at once and are never followed by Enter, which would land on whatever comes next. Letters do nothing, and
//! Enter takes what is highlighted, which may be the opposite of what was meant. So an option is chosen only by its
//! digit, and only if the dialog that was seen when the ask was opened is on the screen right now, word for word.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use coop_api::{AskKind, AskOption, OptionKind, Question, is_hidden, preview};
use regex::Regex;
use serde_json::json;

use crate::driver::{Expected, OnScreen, Refusal, Step};
use crate::rules::Dialog;
use crate::{AskDraft, Reach};

/// How long the screen may take to show what was typed.
pub(crate) const SHOWN_WITHIN: Duration = Duration::from_secs(10);
/// How long an agent may take to show that it took an answer.
pub(crate) const TAKEN_WITHIN: Duration = Duration::from_secs(20);
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(20);
pub(crate) const ENTER: Bytes = Bytes::from_static(b"\r");
pub(crate) const ESCAPE: Bytes = Bytes::from_static(b"\x1b");

/// Returns the ask for a dialog on the screen.
pub(crate) fn draft(dialog: &Dialog) -> AskDraft {
    let question = || dialog.heading.iter().rev().find(|line| line.ends_with('?'));
    let about = match dialog.kind {
        // What is trusted says more than that it is asked.
        AskKind::Setup => dialog.heading.iter().find(|line| line.starts_with(['/', '~'])).or_else(question),
        AskKind::Permission | AskKind::Plan | AskKind::Question => question(),
    };
    let about = about.or(dialog.heading.first()).cloned().unwrap_or_default();
    let options = dialog.ask_options();
    let question = dialog.is_multi_select().then(|| Question {
        question: about.clone(),
        header: None,
        options: options.clone(),
        multi_select: true,
    });
    AskDraft {
        kind: dialog.kind,
        tool: None,
        input: None,
        preview: preview(&about, &json!(dialog.heading)),
        questions: question.into_iter().collect(),
        options,
        screen_lines: dialog.heading.clone(),
        reach: Reach::Keys,
    }
}

/// Returns the only option of a kind.
pub(crate) fn of_kind(offered: &[AskOption], kind: OptionKind) -> Result<&AskOption, Refusal> {
    let mut found = offered.iter().filter(|option| option.kind == kind);
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(Refusal::NoSuchOption(format!("the screen does not show one option that means {kind:?}"))),
    }
}

/// Returns the option with this number on the screen, counted from 1.
pub(crate) fn numbered(offered: &[AskOption], number: u32) -> Result<&AskOption, Refusal> {
    let at = (number as usize).checked_sub(1);
    at.and_then(|at| offered.get(at)).ok_or_else(|| {
        Refusal::NoSuchOption(format!("there is no option {number}; the screen shows {}", offered.len()))
    })
}

pub(crate) fn interrupt() -> Vec<Step> {
    let idle = Step::Expect { what: Expected::Idle, within: INTERRUPTED_WITHIN, retry: None };
    vec![Step::Type(ESCAPE), idle]
}

/// Returns the step that waits for the agent to show that it took an answer.
pub(crate) fn taken() -> Step {
    Step::Expect { what: Expected::AskGone, within: TAKEN_WITHIN, retry: None }
}

/// Returns the step that waits for the screen to show something.
pub(crate) fn shown(what: OnScreen) -> Step {
    Step::Expect { what: Expected::Screen(what), within: SHOWN_WITHIN, retry: None }
}

/// Returns text as a paste, without anything that could end the paste or act by itself.
pub(crate) fn paste(text: &str) -> Bytes {
    let mut bytes = Vec::with_capacity(text.len() + 12);
    bytes.extend_from_slice(b"\x1b[200~");
    bytes.extend_from_slice(plain(text).as_bytes());
    bytes.extend_from_slice(b"\x1b[201~");
    bytes.into()
}

/// Returns text with one kind of line end and no control characters.
pub(crate) fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Tells whether nothing of a text would be seen.
pub(crate) fn is_blank(text: &str) -> bool {
    plain(text).trim().is_empty()
}

/// Returns a text without its blanks: an input wraps what is in it.
pub(crate) fn without_blanks(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Returns the part of a text that every agent keeps. Agents trim messages, replace tabs, and drop backslashes at line ends
/// and characters that cannot be seen. Newer versions of Claude Code put a long paste between tags.
pub fn comparable(text: &str) -> String {
    static PASTE_TAG: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new("</?pasted_content id=\"[0-9a-f]+\">").ok());
    let text = PASTE_TAG.as_ref().map_or(text.into(), |tag| tag.replace_all(text, ""));
    text.chars().filter(|c| !c.is_whitespace() && !is_hidden(*c) && *c != '\\').collect()
}

/// Tells whether an agent would run a message as a shell command: characters that cannot be seen may be dropped before it looks.
pub(crate) fn begins_shell_command(text: &str) -> bool {
    without_lead(text).starts_with('!')
}

fn without_lead(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || c.is_control() || is_hidden(c))
}

/// Refuses a message that an agent would run as a command although blanks stand before it: agents trim what is typed.
pub(crate) fn check_is_no_hidden_command(text: &str) -> Result<(), Refusal> {
    let name = without_lead(text).strip_prefix('/').and_then(|rest| rest.split(char::is_whitespace).next());
    match name.filter(|name| !name.is_empty() && !name.contains('/')) {
        Some(name) if !text.starts_with('/') => Err(Refusal::BadRequest(format!(
            "the agent runs a message that begins with blanks and /{name} as a command; begin it with a word to send it as \
             text, or remove the blanks to run /{name}"
        ))),
        _ => Ok(()),
    }
}

/// Returns the refusal to type over what a person has typed.
pub(crate) fn occupied(typed: &[String]) -> Refusal {
    let typed = typed.join("\n");
    Refusal::Occupied(format!("somebody has typed {typed:?} into the agent's input; send or clear that first"))
}
