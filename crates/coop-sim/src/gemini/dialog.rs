//! Its dialogs. A digit chooses at once, Enter takes what is marked, Escape declines, and letters do nothing, except in a
//! question, where they begin an answer in own words.

use super::Worker;
use super::keys::Key;
use crate::model::directive::{Answers, Question};

const OTHER: &str = "Enter a custom value";

impl Worker {
    /// Asks whether the folder is trusted; tells whether it is to start again.
    pub(super) fn ask_for_trust(&mut self) -> anyhow::Result<bool> {
        self.screen.title("◇  Ready");
        self.screen.take_pastes();
        let heading = ["", "Do you trust the files in this folder?", "", "Trusting a folder allows more.", ""];
        let name = self.home.cwd.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let options =
            [format!("Trust folder ({name})"), "Trust parent folder (..)".to_owned(), "Don't trust".to_owned()];
        let chosen = self.choose(&heading.map(str::to_owned), &options);
        self.screen.dialog(Vec::new());
        if chosen == Some(0) {
            self.home.trust()?;
            self.screen.say("Gemini CLI is restarting to apply the trust changes...");
            self.screen.draw();
        }
        Ok(chosen == Some(0))
    }

    /// Returns which option is chosen; nothing if that is declined.
    pub(super) fn choose(&mut self, heading: &[String], options: &[String]) -> Option<usize> {
        let mark = |at: usize| if at == 0 { "●" } else { " " };
        let rows = options.iter().enumerate().map(|(at, label)| format!("{} {}. {label}", mark(at), at + 1));
        self.screen.dialog(heading.iter().cloned().chain(rows).collect());
        self.screen.draw();
        let chosen = loop {
            match self.key(None)? {
                Key::Char(c) => {
                    let at = c.to_digit(10).and_then(|digit| (digit as usize).checked_sub(1));
                    if let Some(at) = at.filter(|at| *at < options.len()) {
                        break Some(at);
                    }
                }
                Key::Enter => break Some(0),
                Key::Escape => break None,
                Key::Down | Key::Backspace | Key::Clear | Key::Paste(_) => {}
            }
        };
        self.screen.dialog(Vec::new());
        chosen
    }

    /// Returns the answers; nothing if they are declined.
    pub(super) fn questions(&mut self, questions: &[Question]) -> Option<Vec<String>> {
        let mut answers: Vec<String> = Vec::new();
        for question in questions {
            let answer = self.question(question, questions, answers.len());
            let Some(answer) = answer else {
                self.screen.dialog(Vec::new());
                return None;
            };
            answers.push(answer);
        }
        let is_over = questions.len() == 1 || self.review(questions, &answers);
        self.screen.dialog(Vec::new());
        is_over.then_some(answers)
    }

    fn question(&mut self, question: &Question, all: &[Question], answered: usize) -> Option<String> {
        let many = question.answers == Answers::Many;
        let labels: Vec<_> = question.options.iter().map(|(label, _)| *label).collect();
        let mut page = Page {
            question,
            tabs: tabs(all, answered),
            marked: 0,
            chosen: vec![false; labels.len()],
            words: String::new(),
        };
        loop {
            self.screen.dialog(page.rows());
            self.screen.draw();
            match self.key(None)? {
                Key::Escape => return None,
                Key::Down => page.marked = (page.marked + 1).min(page.last()),
                Key::Char(c) if c.is_ascii_digit() => {
                    let Some(at) = c.to_digit(10).and_then(|digit| (digit as usize).checked_sub(1)) else { continue };
                    page.marked = at.min(page.last());
                    match labels.get(at) {
                        Some(label) if !many => return Some((*label).to_owned()),
                        Some(_) => page.chosen[at] = !page.chosen[at],
                        None => {}
                    }
                }
                Key::Char(c) => page.write(&c.to_string()),
                Key::Paste(text) => page.write(&text),
                Key::Enter if page.marked == page.other() && !page.words.is_empty() => return Some(page.words),
                Key::Enter if many && page.marked == page.last() => {
                    let chosen = labels.iter().zip(&page.chosen).filter(|(_, chosen)| **chosen);
                    return Some(chosen.map(|(label, _)| *label).collect::<Vec<_>>().join(", "));
                }
                Key::Enter => match labels.get(page.marked) {
                    Some(label) if !many => return Some((*label).to_owned()),
                    Some(_) => page.chosen[page.marked] = !page.chosen[page.marked],
                    None => {}
                },
                Key::Backspace | Key::Clear => {}
            }
        }
    }

    fn review(&mut self, questions: &[Question], answers: &[String]) -> bool {
        let mut rows =
            vec!["Answer Questions".to_owned(), String::new(), tabs(questions, questions.len()), String::new()];
        rows.extend(["Review your answers:".to_owned(), String::new()]);
        rows.extend(questions.iter().zip(answers).map(|(question, answer)| format!("{} → {answer}", question.header)));
        rows.extend([String::new(), "Enter to submit · Tab/Shift+Tab to edit answers · Esc to cancel".to_owned()]);
        self.screen.dialog(rows);
        self.screen.draw();
        loop {
            match self.key(None) {
                Some(Key::Enter) => return true,
                Some(Key::Escape) | None => return false,
                Some(_) => {}
            }
        }
    }
}

struct Page<'a> {
    question: &'a Question,
    tabs: String,
    marked: usize,
    chosen: Vec<bool>,
    words: String,
}

impl Page<'_> {
    fn is_many(&self) -> bool {
        self.question.answers == Answers::Many
    }

    /// Where own words stand: below the options, and below all of them.
    fn other(&self) -> usize {
        self.chosen.len() + usize::from(self.is_many())
    }

    fn last(&self) -> usize {
        self.other() + usize::from(self.is_many())
    }

    fn write(&mut self, text: &str) {
        self.words.push_str(text);
        self.marked = self.other();
    }

    fn rows(&self) -> Vec<String> {
        let mut rows = vec!["Answer Questions".to_owned(), String::new()];
        if !self.tabs.is_empty() {
            rows.extend([self.tabs.clone(), String::new()]);
        }
        rows.extend([self.question.question.to_owned(), String::new()]);
        let mark = |at: usize| if at == self.marked { "●" } else { " " };
        let boxed = |chosen: bool| match (self.is_many(), chosen) {
            (false, _) => " ",
            (true, true) => "[x] ",
            (true, false) => "[ ] ",
        };
        for (at, ((label, meaning), chosen)) in self.question.options.iter().zip(&self.chosen).enumerate() {
            rows.push(format!("{} {}. {}{label}", mark(at), at + 1, boxed(*chosen)));
            rows.push(format!("       {meaning}"));
        }
        if self.is_many() {
            let at = self.chosen.len();
            rows.push(format!("{} {}. [ ] All of the above", mark(at), at + 1));
        }
        let words = if self.words.is_empty() { OTHER } else { &self.words };
        let at = self.other();
        rows.push(format!("{} {}. {}{words}", mark(at), at + 1, boxed(false)));
        if self.is_many() {
            rows.push(format!("{}    Done", mark(self.last())));
        }
        rows.extend([String::new(), "Enter to select · ↑/↓ to navigate · Esc to cancel".to_owned()]);
        rows
    }
}

fn tabs(questions: &[Question], answered: usize) -> String {
    if questions.len() < 2 {
        return String::new();
    }
    let tab =
        |(at, question): (usize, &Question)| format!("{} {}", if at < answered { "✓" } else { "□" }, question.header);
    let tabs: Vec<_> = questions.iter().enumerate().map(tab).collect();
    format!("← {} │ ≡ Review →", tabs.join(" │ "))
}
