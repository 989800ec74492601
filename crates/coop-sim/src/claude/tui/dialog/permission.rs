//! "Do you want to proceed?" (recording B05).

use std::path::Path;

use super::{Options, Picked, edit, rule};
use crate::claude::hook::{AfterDeny, Decision};
use crate::claude::notice::Request;
use crate::claude::tool::{Tool, ToolOutcome};
use crate::claude::tui::keys::Key;

pub(crate) struct PermissionDialog {
    head: Vec<String>,
    labels: Vec<String>,
    always: Vec<serde_json::Value>,
    options: Options,
    /// What to do instead or next, while it is being typed.
    amended: Option<String>,
}

impl PermissionDialog {
    pub(crate) fn new(request: &Request, cwd: &Path) -> Self {
        let call = &request.call;
        let project = cwd.file_name().map_or_else(|| "/".into(), |name| name.to_string_lossy());
        let file = Path::new(call.field("file_path"));
        let file = file.strip_prefix(cwd).unwrap_or(file).display();
        let (head, always) = match call.tool {
            Tool::Bash => {
                let always = match request.suggestions.len() {
                    0 | 1 => format!("Yes, and always allow `{}` from this project", call.field("command")),
                    _ => format!("Yes, and always allow access to {project}/ from this project"),
                };
                let lines = [" Bash command", "", call.field("command"), call.field("description")];
                let body = lines[2..].iter().flat_map(|text| text.lines()).map(|line| format!("   {line}"));
                let mut head = vec![lines[0].to_owned(), String::new()];
                head.extend(body);
                head.extend([String::new(), " Do you want to proceed?".to_owned()]);
                (head, always)
            }
            Tool::Write => (
                vec![
                    " Create file".into(),
                    format!("   {file}"),
                    String::new(),
                    format!(" Do you want to create {file}?"),
                ],
                "Yes, and always allow edits during this session (shift+tab)".to_owned(),
            ),
            Tool::Edit => (
                vec![
                    " Edit file".into(),
                    format!("   {file}"),
                    String::new(),
                    format!(" Do you want to make this edit to {file}?"),
                ],
                "Yes, and always allow edits during this session (shift+tab)".to_owned(),
            ),
            Tool::Read | Tool::Agent | Tool::AskUserQuestion | Tool::ExitPlanMode => (
                vec![
                    " Tool use".into(),
                    format!("   {}", call.title(cwd)),
                    String::new(),
                    " Do you want to proceed?".into(),
                ],
                format!("Yes, and always allow {} during this session", call.tool.name()),
            ),
        };
        let mut labels = vec!["Yes".to_owned()];
        if !request.suggestions.is_empty() {
            labels.push(always);
        }
        labels.push("No".to_owned());
        let options = Options::new(labels.len(), 0);
        Self { head, labels, always: request.suggestions.clone(), options, amended: None }
    }

    pub(crate) fn key(&mut self, key: &Key) -> Option<Decision> {
        if matches!(key, Key::Esc | Key::CtrlC) {
            return Some(Decision::interrupt());
        }
        let last = self.labels.len() - 1;
        if let Some(text) = &mut self.amended {
            match key {
                Key::Enter if self.options.at == last && !text.is_empty() => {
                    let message = ToolOutcome::refused_with_words(text).content;
                    return Some(Decision::Deny { message, then: AfterDeny::Continue });
                }
                Key::Enter | Key::Up | Key::Down => self.amended = None,
                key => {
                    edit(text, key);
                    return None;
                }
            }
        }
        if *key == Key::Tab && (self.options.at == 0 || self.options.at == last) {
            self.amended = Some(String::new());
            return None;
        }
        match self.options.key(key) {
            Picked::Nothing => None,
            Picked::Digit(0) | Picked::Enter(0) => Some(Decision::ALLOW),
            Picked::Digit(index) | Picked::Enter(index) if index + 1 == self.labels.len() => {
                Some(Decision::interrupt())
            }
            Picked::Digit(_) | Picked::Enter(_) => Some(Decision::Allow { input: None, updates: self.always.clone() }),
        }
    }

    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let mut lines = vec![rule(width)];
        lines.extend(self.head.iter().cloned());
        for (index, label) in self.labels.iter().enumerate() {
            let amended = self.amended.as_deref().filter(|_| index == self.options.at);
            let label = match (amended, index) {
                (None, _) => label.clone(),
                (Some(""), 0) => format!("{label}, and tell Claude what to do next"),
                (Some(""), _) => format!("{label}, and tell Claude what to do differently"),
                (Some(text), _) => format!("{label}, {}", text.replace('\n', "\n      ")),
            };
            lines.extend(format!(" {}", self.options.line(index, &label)).split('\n').map(str::to_owned));
        }
        let hint = match self.amended {
            Some(_) => " Esc to cancel · ctrl+e to explain",
            None => " Esc to cancel · Tab to amend · ctrl+e to explain",
        };
        lines.extend([String::new(), hint.to_owned()]);
        lines
    }
}
