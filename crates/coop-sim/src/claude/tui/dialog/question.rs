//! `AskUserQuestion` (recording B08): one page per question, and a review page unless one plain question was all.

use serde_json::{Value, json};

use super::{Options, Picked, edit, rule};
use crate::claude::hook::{AfterDeny, Decision};
use crate::claude::step::Question;
use crate::claude::tool::ToolCall;
use crate::claude::tui::keys::Key;

/// What the model hears when the user would rather talk.
const CHAT: &str =
    "The user wants to clarify these questions. Ask them what they would like to discuss before you ask again.";

pub(crate) struct QuestionDialog {
    input: Value,
    pages: Vec<Page>,
    /// The page shown; one past the last is the review.
    at: usize,
    review: Options,
}

struct Page {
    question: Question,
    options: Options,
    ticked: Vec<bool>,
    /// The free text, while it is being typed or when it is the answer.
    text: Option<String>,
    answer: Option<String>,
}

impl QuestionDialog {
    pub(crate) fn new(call: &ToolCall) -> Self {
        let page = |question: Question| Page {
            options: Options::new(question.options.len() + 2, 0),
            ticked: vec![false; question.options.len()],
            question,
            text: None,
            answer: None,
        };
        let pages = call.questions().into_iter().map(page).collect();
        Self { input: call.input.clone(), pages, at: 0, review: Options::new(2, 0) }
    }

    pub(crate) fn key(&mut self, key: &Key) -> Option<Decision> {
        if matches!(key, Key::Esc | Key::CtrlC) {
            return Some(Decision::interrupt());
        }
        let count = self.pages.len();
        let Some(page) = self.pages.get_mut(self.at) else { return self.review_key(key) };
        match page.key(key) {
            Pressed::Nothing => None,
            Pressed::Chat => Some(Decision::Deny { message: CHAT.to_owned(), then: AfterDeny::Continue }),
            Pressed::Back => {
                self.at = self.at.saturating_sub(1);
                None
            }
            Pressed::On => {
                self.at += 1;
                None
            }
            Pressed::Answered if count == 1 => Some(self.answered()),
            Pressed::Answered => {
                self.at += 1;
                None
            }
        }
    }

    fn review_key(&mut self, key: &Key) -> Option<Decision> {
        if *key == Key::Left {
            self.at = self.at.saturating_sub(1);
            return None;
        }
        match self.review.key(key) {
            Picked::Nothing => None,
            Picked::Digit(0) | Picked::Enter(0) => Some(self.answered()),
            Picked::Digit(_) | Picked::Enter(_) => Some(Decision::interrupt()),
        }
    }

    fn answered(&self) -> Decision {
        let mut answers = json!({});
        for page in &self.pages {
            if let Some(answer) = page.given() {
                answers[&page.question.question] = json!(answer);
            }
        }
        let mut input = self.input.clone();
        input["answers"] = answers;
        input["annotations"] = json!({});
        Decision::Allow { input: Some(input), updates: Vec::new() }
    }

    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let mut lines = vec![rule(width), self.tabs(), String::new()];
        match self.pages.get(self.at) {
            Some(page) => lines.extend(page.lines(width)),
            None => {
                lines.push("Review your answers".to_owned());
                lines.push(String::new());
                for page in &self.pages {
                    lines.push(format!(" ● {}", page.question.question));
                    lines.push(format!("   → {}", page.given().unwrap_or_else(|| "(no answer)".to_owned())));
                }
                lines.extend([String::new(), "Ready to submit your answers?".to_owned(), String::new()]);
                lines.push(self.review.line(0, "Submit answers"));
                lines.push(self.review.line(1, "Cancel"));
            }
        }
        lines
    }

    fn tabs(&self) -> String {
        let tab = |page: &Page| {
            let mark = if page.given().is_some() { "☒" } else { "☐" };
            format!("{mark} {}", page.question.header)
        };
        let tabs: Vec<String> = self.pages.iter().map(tab).collect();
        match self.is_reviewed() {
            true => format!("←  {}  ✔ Submit  →", tabs.join("  ")),
            false => format!(" {}", tabs.join("  ")),
        }
    }

    fn is_reviewed(&self) -> bool {
        self.pages.len() > 1 || self.pages.iter().any(|page| page.question.multi_select)
    }
}

enum Pressed {
    Nothing,
    Answered,
    On,
    Back,
    Chat,
}

impl Page {
    fn key(&mut self, key: &Key) -> Pressed {
        let typing = self.options.at == self.question.options.len();
        if typing && matches!(key, Key::Char(c) if !c.is_ascii_digit()) {
            self.text.get_or_insert_default();
        }
        if typing && let Some(text) = &mut self.text {
            match key {
                Key::Enter if text.is_empty() => {}
                Key::Enter => {
                    self.answer = Some(text.clone());
                    return self.chosen();
                }
                Key::Up | Key::Down => {
                    self.options.key(key);
                }
                key => edit(text, key),
            }
            return Pressed::Nothing;
        }
        match key {
            Key::Right | Key::Tab if self.question.multi_select || self.answer.is_some() => return Pressed::On,
            Key::Left => return Pressed::Back,
            _ => {}
        }
        match self.options.key(key) {
            Picked::Nothing => Pressed::Nothing,
            Picked::Digit(index) | Picked::Enter(index) => self.pick(index),
        }
    }

    fn pick(&mut self, index: usize) -> Pressed {
        let count = self.question.options.len();
        if index == count {
            self.text = Some(String::new());
            Pressed::Nothing
        } else if index > count {
            Pressed::Chat
        } else if self.question.multi_select {
            self.ticked[index] = !self.ticked[index];
            Pressed::Nothing
        } else {
            self.answer = Some(self.question.options[index].label.clone());
            self.text = None;
            Pressed::Answered
        }
    }

    /// The free text is in: for several choices the user still has to move on.
    fn chosen(&self) -> Pressed {
        if self.question.multi_select { Pressed::On } else { Pressed::Answered }
    }

    fn given(&self) -> Option<String> {
        if !self.question.multi_select {
            return self.answer.clone();
        }
        let labels = self.question.options.iter().zip(&self.ticked).filter(|(_, ticked)| **ticked);
        let mut given: Vec<String> = labels.map(|(option, _)| option.label.clone()).collect();
        given.extend(self.answer.clone());
        (!given.is_empty()).then(|| given.join(", "))
    }

    fn lines(&self, width: usize) -> Vec<String> {
        let count = self.question.options.len();
        let mut lines = vec![self.question.question.clone(), String::new()];
        for (index, option) in self.question.options.iter().enumerate() {
            let label = match (self.question.multi_select, self.ticked[index]) {
                (false, _) => option.label.clone(),
                (true, true) => format!("[✔] {}", option.label),
                (true, false) => format!("[ ] {}", option.label),
            };
            lines.push(self.options.line(index, &label));
            if !option.description.is_empty() {
                let indent = if self.question.multi_select { "  " } else { "     " };
                lines.push(format!("{indent}{}", option.description));
            }
        }
        let text = self.text.as_deref().filter(|text| !text.is_empty());
        match self.question.multi_select {
            true => {
                let tick = if text.is_some() { '✔' } else { ' ' };
                lines.push(self.options.line(count, &format!("[{tick}] {}", text.unwrap_or("Type something"))));
                lines.push("     Submit".to_owned());
            }
            false => {
                let text = self.options.line(count, text.unwrap_or("Type something."));
                lines.extend(text.replace('\n', "\n     ").split('\n').map(str::to_owned));
            }
        }
        lines.push(rule(width));
        lines.push(self.options.line(count + 1, "Chat about this"));
        lines.extend([String::new(), "Enter to select · ↑/↓ to navigate · Esc to cancel".to_owned()]);
        lines
    }
}
