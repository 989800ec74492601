//! Dialogs that commands of its own open: `/help`, `/model` and `/model NAME`, as the real one shows them.

use super::{Options, Picked, rule};
use crate::claude::notice::Local;
use crate::claude::tui::keys::Key;

const MODELS: [(&str, &str); 3] = [
    ("Default (recommended)", "Use the default model"),
    ("Opus", "Best for everyday, complex tasks"),
    ("Haiku", "Fastest for quick answers"),
];
const KEPT: &str = "Kept model as it was";

pub(crate) struct LocalDialog {
    local: Local,
    options: Options,
}

/// How a dialog was closed: what it had to say, and the model that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) outcome: String,
    pub(crate) model: Option<String>,
}

impl LocalDialog {
    pub(crate) fn new(local: Local) -> Self {
        let count = match local {
            Local::Help => 0,
            Local::Models => MODELS.len(),
            Local::Switch(_) => 2,
        };
        Self { local, options: Options::new(count, 0) }
    }

    pub(crate) fn command(&self) -> String {
        self.local.command()
    }

    pub(crate) fn key(&mut self, key: &Key) -> Option<Closed> {
        let is_over = matches!(key, Key::Esc | Key::CtrlC);
        match &self.local {
            Local::Help => is_over.then(|| Closed { outcome: "Help dialog dismissed".to_owned(), model: None }),
            Local::Models | Local::Switch(_) if is_over => Some(kept()),
            Local::Models => picked(self.options.key(key)).map(|index| set(MODELS[index].0)),
            Local::Switch(model) => match picked(self.options.key(key))? {
                0 => Some(set(model)),
                _ => Some(kept()),
            },
        }
    }

    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let mut lines = vec![rule(width)];
        match &self.local {
            Local::Help => {
                let text = "  Help  General   Commands\n\n  ! for shell mode\n  / for commands\n  @ for file paths\n\n  Esc to cancel";
                lines.extend(text.split('\n').map(str::to_owned));
            }
            Local::Models => {
                lines.extend(["  Select model", "  Switch between models.", ""].map(str::to_owned));
                let row = |(index, (name, what)): (usize, &(&str, &str))| {
                    format!("  {}", self.options.line(index, &format!("{name:<24} {what}")))
                };
                lines.extend(MODELS.iter().enumerate().map(row));
                lines.extend([String::new(), "  Enter to set as default · Esc to cancel".to_owned()]);
            }
            // Without a hint, as the real one's.
            Local::Switch(model) => {
                lines.extend(["  Switch model?", "  The whole history is read again.", ""].map(str::to_owned));
                lines.push(format!("  {}", self.options.line(0, &format!("Yes, switch to {model}"))));
                lines.push(format!("  {}", self.options.line(1, "No, go back")));
            }
        }
        lines
    }
}

fn picked(picked: Picked) -> Option<usize> {
    match picked {
        Picked::Nothing => None,
        Picked::Digit(index) | Picked::Enter(index) => Some(index),
    }
}

fn kept() -> Closed {
    Closed { outcome: KEPT.to_owned(), model: None }
}

fn set(model: &str) -> Closed {
    Closed { outcome: format!("Set model to {model}"), model: Some(model.to_owned()) }
}
