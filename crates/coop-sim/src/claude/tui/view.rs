//! The live part of the screen: pending calls, the spinner, the queue, and the box or the dialog.

use std::path::Path;

use super::Tui;
use super::dialog::rule;
use super::paint::Live;
use super::scroll::said;
use crate::claude::VERSION;
use crate::claude::notice::State;
use crate::claude::permission::PermissionMode;
use crate::claude::usage::plain_model;

/// The columns of a flooded line, its end included.
const FLOOD_LINE: usize = 80;

impl Tui {
    pub(super) fn live(&self) -> Live {
        let width = self.painter.width();
        if let Some(menu) = self.menus.front() {
            return Live { lines: menu.lines(width), cursor: None };
        }
        let mut lines = self.pending();
        if let Some(dialog) = &self.local {
            lines.extend([String::new(), format!("❯ {}", dialog.command()), String::new()]);
            lines.extend(dialog.lines(width));
            return Live { lines, cursor: None };
        }
        if let Some((_, dialog)) = &self.dialog {
            lines.push(String::new());
            lines.extend(dialog.lines(width));
            return Live { lines, cursor: None };
        }
        lines.push(String::new());
        if self.state == State::Busy {
            lines.push(match &self.doing {
                Some(doing) => format!("✻ {doing}"),
                None => "✽ Working… (esc to interrupt)".to_owned(),
            });
            lines.push(String::new());
        }
        lines.extend(self.queued.iter().map(|text| format!("  ❯ {}", first_line(text))));
        lines.push(rule(width));
        lines.extend(self.box_lines());
        let cursor = Some(lines.len() - 1);
        lines.push(rule(width));
        lines.push(format!("  {}", self.footer()));
        Live { lines, cursor }
    }

    fn pending(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for call in self.calls.iter().filter(|call| !call.tool.is_dialogue()) {
            let state = if self.dialog.is_some() { "Waiting…" } else { "Running…" };
            lines.extend([String::new(), format!("● {}", call.title(&self.cwd)), format!("  ⎿  {state}")]);
        }
        if let Some(text) = &self.streaming {
            lines.extend(said("●", text));
        }
        lines
    }

    fn box_lines(&self) -> Vec<String> {
        let shown = self.input.shown();
        if shown.is_empty() && !self.queued.is_empty() {
            return vec!["❯ Press up to edit queued messages".to_owned()];
        }
        let (mark, shown) = match shown.strip_prefix('!') {
            Some(command) => ('!', command),
            None => ('❯', shown.as_str()),
        };
        let line = |(index, line)| if index == 0 { format!("{mark} {line}") } else { format!("  {line}") };
        shown.split('\n').enumerate().map(line).collect()
    }

    /// Whether what is typed is a shell command.
    fn is_shell(&self) -> bool {
        self.input.shown().starts_with('!')
    }

    fn footer(&self) -> &'static str {
        if self.is_exit_armed {
            return "Press Ctrl-C again to exit";
        }
        match (self.mode, self.state) {
            (PermissionMode::AcceptEdits, _) => "⏵⏵ accept edits on (shift+tab to cycle)",
            (PermissionMode::Plan, _) => "⏸ plan mode on (shift+tab to cycle)",
            (PermissionMode::BypassPermissions, _) => "⏵⏵ bypass permissions on (shift+tab to cycle)",
            (PermissionMode::Default, State::Busy) => "esc to interrupt",
            (PermissionMode::Default, State::Idle | State::Waiting | State::Dialog) => match self.is_shell() {
                true => "! for shell mode",
                false => "? for shortcuts",
            },
        }
    }
}

pub(super) fn banner(model: &str, cwd: &Path) -> Vec<String> {
    vec![
        format!(" ▐▛███▜▌   Claude Code v{VERSION}"),
        format!("▝▜█████▛▘  {} · scripted by coop sim", plain_model(model)),
        format!("  ▘▘ ▝▝    {}", cwd.display()),
    ]
}

/// So many bytes of numbered lines.
pub(super) fn flood(bytes: usize) -> impl Iterator<Item = String> {
    // Two bytes of each line are its end.
    let text = FLOOD_LINE - 2;
    (0..bytes.div_ceil(FLOOD_LINE)).map(move |number| format!("{number:0>10} {}", "~".repeat(text - 11)))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}
