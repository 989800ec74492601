//! Dialogs: what stands in place of the input box while the agent wants something from the user.
//!
//! The keys are the real one's: a digit acts at once, letters do nothing, Enter takes what is highlighted
//! (so `n` and Enter say yes), Esc says no.

mod local;
mod menu;
mod permission;
mod plan;
mod question;
#[cfg(test)]
mod tests;

pub(crate) use local::{Closed, LocalDialog};
pub(crate) use menu::{Chosen, Menu};
pub(crate) use permission::PermissionDialog;
pub(crate) use plan::PlanDialog;
pub(crate) use question::QuestionDialog;

use std::path::Path;

use super::keys::Key;
use crate::claude::hook::Decision;
use crate::claude::notice::Request;
use crate::claude::tool::Tool;

pub(crate) enum Dialog {
    Permission(PermissionDialog),
    Question(QuestionDialog),
    Plan(PlanDialog),
}

impl Dialog {
    pub(crate) fn for_request(request: &Request, cwd: &Path) -> Self {
        match request.call.tool {
            Tool::AskUserQuestion => Self::Question(QuestionDialog::new(&request.call)),
            Tool::ExitPlanMode => Self::Plan(PlanDialog::new(&request.call)),
            Tool::Bash | Tool::Read | Tool::Write | Tool::Edit | Tool::Agent => {
                Self::Permission(PermissionDialog::new(request, cwd))
            }
        }
    }

    /// Takes a key; an answer closes the dialog.
    pub(crate) fn key(&mut self, key: &Key) -> Option<Decision> {
        match self {
            Self::Permission(dialog) => dialog.key(key),
            Self::Question(dialog) => dialog.key(key),
            Self::Plan(dialog) => dialog.key(key),
        }
    }

    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        match self {
            Self::Permission(dialog) => dialog.lines(width),
            Self::Question(dialog) => dialog.lines(width),
            Self::Plan(dialog) => dialog.lines(width),
        }
    }
}

/// A line across the screen.
pub(crate) fn rule(width: usize) -> String {
    "─".repeat(width)
}

/// A numbered list with one line highlighted.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    count: usize,
    pub(crate) at: usize,
}

/// What a key does to a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Picked {
    /// The highlight moved, or nothing happened.
    Nothing,
    Digit(usize),
    Enter(usize),
}

impl Options {
    pub(crate) const fn new(count: usize, at: usize) -> Self {
        Self { count, at }
    }

    pub(crate) fn key(&mut self, key: &Key) -> Picked {
        match key {
            Key::Up => self.at = self.at.saturating_sub(1),
            Key::Down => self.at = (self.at + 1).min(self.count.saturating_sub(1)),
            Key::Enter => return Picked::Enter(self.at),
            Key::Char(c) => {
                let digit = c.to_digit(10).and_then(|digit| (digit as usize).checked_sub(1));
                if let Some(index) = digit.filter(|index| *index < self.count) {
                    self.at = index;
                    return Picked::Digit(index);
                }
            }
            Key::Newline
            | Key::Esc
            | Key::Left
            | Key::Right
            | Key::Tab
            | Key::BackTab
            | Key::Backspace
            | Key::CtrlC
            | Key::CtrlD
            | Key::CtrlU
            | Key::Paste(_) => {}
        }
        Picked::Nothing
    }

    /// `❯ 1. label`, or the same without the mark.
    pub(crate) fn line(&self, index: usize, label: &str) -> String {
        let mark = if index == self.at { "❯" } else { " " };
        format!("{mark} {}. {label}", index + 1)
    }
}

/// A text field inside a dialog takes a key.
pub(crate) fn edit(text: &mut String, key: &Key) {
    match key {
        Key::Char(c) => text.push(*c),
        Key::Newline => text.push('\n'),
        Key::Paste(pasted) => text.push_str(pasted),
        Key::Backspace => {
            text.pop();
        }
        Key::CtrlU => text.clear(),
        Key::Enter
        | Key::Esc
        | Key::Up
        | Key::Down
        | Key::Left
        | Key::Right
        | Key::Tab
        | Key::BackTab
        | Key::CtrlC
        | Key::CtrlD => {}
    }
}
