//! The dialogs before the first prompt: trust, API key, bypass warning, wrong settings (recordings B02, B03, B25).

use std::path::Path;

use super::{Options, Picked, rule};
use crate::claude::settings::SettingsError;
use crate::claude::tui::keys::Key;

pub(crate) struct Menu {
    lines: Vec<String>,
    labels: Vec<&'static str>,
    options: Options,
    outcomes: Vec<Chosen>,
}

/// What a choice means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    Exit,
    GoOn,
    Trust,
}

impl Menu {
    pub(crate) fn trust(cwd: &Path) -> Self {
        let text = format!(
            " Accessing workspace:\n\n {}\n\n Quick safety check: Is this a project you created or one you trust? (Like your own code, a well-known open source\n project, or work from your team). If not, take a moment to review what's in this folder first.\n\n Claude Code'll be able to read, edit, and execute files here.\n\n Security guide\n",
            cwd.display()
        );
        Self::new(&text, &[("Yes, I trust this folder", Chosen::Trust), ("No, exit", Chosen::Exit)], 0)
    }

    pub(crate) fn api_key(key: &str) -> Self {
        let tail: String = key.chars().skip(key.chars().count().saturating_sub(20)).collect();
        let text = format!(
            "  Detected a custom API key in your environment\n\n  ANTHROPIC_API_KEY: sk-ant-...{tail}\n\n  Do you want to use this API key?\n"
        );
        Self::new(&text, &[("Yes", Chosen::GoOn), ("No (recommended)", Chosen::GoOn)], 1)
    }

    pub(crate) fn bypass() -> Self {
        let text = "  WARNING: Claude Code running in Bypass Permissions mode\n\n  In Bypass Permissions mode, Claude Code will not ask for your approval before running potentially dangerous\n  commands.\n\n  By proceeding, you accept all responsibility for actions taken while running in Bypass Permissions mode.\n";
        Self::new(text, &[("No, exit", Chosen::Exit), ("Yes, I accept", Chosen::GoOn)], 0)
    }

    pub(crate) fn settings(errors: &[SettingsError]) -> Self {
        let mut text = String::from(" Settings Error\n\n");
        for error in errors {
            text.push_str(&format!(" {}\n  └ {}\n\n", error.source, error.problem));
        }
        text.push_str(" Files with errors are skipped entirely, not just the invalid settings.\n");
        let choices = [("Exit and fix manually", Chosen::Exit), ("Continue without these settings", Chosen::GoOn)];
        Self::new(&text, &choices, 0)
    }

    fn new(text: &str, choices: &[(&'static str, Chosen)], at: usize) -> Self {
        let (labels, outcomes) = choices.iter().copied().unzip();
        let lines = text.split('\n').map(str::to_owned).collect();
        Self { lines, labels, options: Options::new(choices.len(), at), outcomes }
    }

    pub(crate) fn key(&mut self, key: &Key) -> Option<Chosen> {
        if matches!(key, Key::Esc | Key::CtrlC) {
            return Some(Chosen::Exit);
        }
        match self.options.key(key) {
            Picked::Nothing => None,
            Picked::Digit(index) | Picked::Enter(index) => self.outcomes.get(index).copied(),
        }
    }

    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let mut lines = vec![rule(width)];
        lines.extend(self.lines.iter().cloned());
        let options = self.labels.iter().enumerate();
        lines.extend(options.map(|(index, label)| format!(" {}", self.options.line(index, label))));
        lines.extend([String::new(), " Enter to confirm · Esc to cancel".to_owned()]);
        lines
    }
}
