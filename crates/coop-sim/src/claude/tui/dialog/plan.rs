//! "Would you like to proceed?" with a plan (recording B16).

use serde_json::json;

use super::{Options, Picked, edit, rule};
use crate::claude::hook::{AfterDeny, Decision};
use crate::claude::tool::{ToolCall, ToolOutcome};
use crate::claude::tui::keys::Key;

const LABELS: [&str; 3] = ["Yes, and use auto mode", "Yes, manually approve edits", "Tell Claude what to change"];
const FEEDBACK: usize = 2;

pub(crate) struct PlanDialog {
    plan: String,
    options: Options,
    /// What to change, while it is being typed.
    feedback: Option<String>,
}

impl PlanDialog {
    pub(crate) fn new(call: &ToolCall) -> Self {
        Self { plan: call.field("plan").to_owned(), options: Options::new(LABELS.len(), 0), feedback: None }
    }

    pub(crate) fn key(&mut self, key: &Key) -> Option<Decision> {
        if matches!(key, Key::Esc | Key::CtrlC) {
            return Some(Decision::interrupt());
        }
        if self.options.at == FEEDBACK
            && let Some(feedback) = &mut self.feedback
        {
            match key {
                Key::Enter if feedback.is_empty() => {}
                Key::Enter => {
                    let message = ToolOutcome::refused_with_words(feedback).content;
                    return Some(Decision::Deny { message, then: AfterDeny::Continue });
                }
                Key::Up | Key::Down => {
                    self.options.key(key);
                }
                key => edit(feedback, key),
            }
            return None;
        }
        match self.options.key(key) {
            Picked::Nothing => None,
            Picked::Digit(FEEDBACK) | Picked::Enter(FEEDBACK) => {
                self.feedback.get_or_insert_default();
                None
            }
            // The scripted agent has no auto mode; accepting edits is the nearest.
            Picked::Digit(0) | Picked::Enter(0) => Some(approve("acceptEdits")),
            Picked::Digit(_) | Picked::Enter(_) => Some(approve("default")),
        }
    }

    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let dashes = "╌".repeat(width);
        let mut lines = vec![rule(width), " Ready to code?".into(), String::new(), " Here is Claude's plan:".into()];
        lines.push(dashes.clone());
        lines.extend(self.plan.lines().map(|line| format!(" {}", line.trim_start_matches("# "))));
        lines.extend([dashes, String::new(), rule(width)]);
        lines.push(" Claude has written up a plan and is ready to execute. Would you like to proceed?".to_owned());
        lines.push(String::new());
        for (index, label) in LABELS.iter().enumerate() {
            let typed = self.feedback.as_deref().filter(|text| index == FEEDBACK && !text.is_empty());
            lines.push(format!(" {}", self.options.line(index, typed.unwrap_or(label))));
        }
        lines.extend(["      shift+tab to approve with this feedback", "", " Esc to cancel"].map(str::to_owned));
        lines
    }
}

fn approve(mode: &str) -> Decision {
    let update = json!({ "type": "setMode", "mode": mode, "destination": "session" });
    Decision::Allow { input: None, updates: vec![update] }
}
