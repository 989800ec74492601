//! What the title and the screen show, where its server does not say it, and the keys for that.
//!
//! Digits act at once. A denial is the digit of the option that says no, never a letter and never Enter.

use std::time::Duration;

use bytes::Bytes;
use coop_api::{Answer, Ask, AskKind, EvidenceSource, OptionKind, Screen, TurnOutcome};

use super::Codex;
use super::setup::Way;
use crate::driver::{Refusal, ScreenKind, Step, TITLE_LEAD};
use crate::rules::{Dialog, Hint, Rules, rows};
use crate::{Meaning, Signal, keys};

/// What stands before its input.
const INPUT_MARK: &str = "›";

impl Codex {
    /// The title has a spinner while it works, and loses it when it waits: for a message, or for the answer to a dialog that
    /// the screen shows a moment later.
    pub(super) fn observe_title(&mut self, title: &str, at: u64) -> Vec<Signal> {
        let Some(works) = self.rules.title_works(title) else { return Vec::new() };
        let before = std::mem::replace(&mut self.title_works, works);
        if self.way != Way::Screen || self.on_screen.is_some() || before == works {
            return Vec::new();
        }
        self.rest = (!works && !title.contains("Action Required")).then(|| (at, title.to_owned()));
        if !works {
            return Vec::new();
        }
        let detail = format!("the title is {title:?}");
        vec![Signal::new(EvidenceSource::Title, detail, Meaning::TurnBegan { prompt: None })]
    }

    /// Dialogs that come before there is a conversation; and all of them where there is no server.
    pub(super) fn observe_screen(&mut self, screen: &Screen, at: u64) -> Vec<Signal> {
        if self.way == Way::Lines {
            return Vec::new();
        }
        if self.busy {
            self.join();
        }
        let lines = rows(screen);
        let told_by_server = |dialog: &Dialog| self.linked && dialog.kind != AskKind::Setup;
        let found = self.rules.dialog(&lines, Hint::Needed).or_else(|| spaced(&self.rules, &lines));
        let dialog = found.filter(|dialog| !told_by_server(dialog)).map(|dialog| keys::draft(&dialog));
        let mut signals = Vec::new();
        if dialog != self.on_screen {
            if self.on_screen.take().is_some() {
                let meaning = Meaning::AskGone { about: None };
                signals.push(Signal::new(EvidenceSource::Screen, "the dialog is gone", meaning));
            }
            if let Some(draft) = dialog {
                self.rest = None;
                let detail = format!("a dialog: {}", draft.preview);
                signals.push(Signal::new(EvidenceSource::Screen, detail, Meaning::Ask(Box::new(draft.clone()))));
                self.on_screen = Some(draft);
            }
        }
        if self.way == Way::Screen && self.on_screen.is_none() {
            if self.rules.shows_work(&lines) {
                let meaning = Meaning::Working { tool: None };
                signals.push(Signal::new(EvidenceSource::Screen, "the screen shows work", meaning));
            } else if self.title_works {
                // Its prompt is there also while it works.
                let meaning = Meaning::Working { tool: None };
                signals.push(Signal::new(EvidenceSource::Title, "the title shows work", meaning));
            } else if shows_input(screen, &lines) && self.rules.shows_prompt(&lines) {
                signals.push(self.observe_prompt(at));
            }
        }
        signals
    }

    pub(super) fn classify(&self, screen: &Screen) -> ScreenKind {
        if self.on_screen.is_some() {
            ScreenKind::Dialog
        } else if shows_input(screen, &rows(screen)) {
            ScreenKind::Input
        } else {
            ScreenKind::Unknown
        }
    }

    fn observe_prompt(&mut self, at: u64) -> Signal {
        let is_due = |(since, _): &mut (u64, String)| Duration::from_millis(at.saturating_sub(*since)) >= TITLE_LEAD;
        match self.rest.take_if(is_due) {
            Some((_, title)) => {
                let detail = format!("the title is {title:?}, and the screen shows the prompt");
                Signal::new(EvidenceSource::Title, detail, Meaning::Idle(TurnOutcome::Completed))
            }
            None => Signal::new(EvidenceSource::Screen, "the screen shows the prompt", Meaning::Quiet),
        }
    }
}

/// Tells whether the input is on the screen. The options of a dialog have the same mark, but only the input has the cursor.
fn shows_input(screen: &Screen, lines: &[String]) -> bool {
    let cursor = usize::from(screen.cursor.row);
    let is_within = |from: usize| lines.get(from..=cursor).is_some_and(|rows| rows.iter().all(|row| !row.is_empty()));
    let from = lines.iter().rposition(|line| line.starts_with(INPUT_MARK));
    screen.cursor.visible && screen.modes.bracketed_paste && from.is_some_and(is_within)
}

/// Returns a dialog of the set-up whose options stand apart. Nothing is typed into those, so they need not be as certain.
fn spaced(rules: &Rules, lines: &[String]) -> Option<Dialog> {
    let dense: Vec<_> = lines.iter().filter(|line| !line.trim().is_empty()).cloned().collect();
    rules.dialog(&dense, Hint::Needed).filter(|dialog| dialog.kind == AskKind::Setup)
}

/// Returns the key for an answer, or why none can be sent.
pub(super) fn answer(rules: &Rules, ask: &Ask, answer: &Answer, screen: &Screen) -> Result<Vec<Step>, Refusal> {
    if ask.kind == AskKind::Setup {
        let why = "Codex writes the answer to this into its configuration; give it in its own terminal (coop attach)";
        return Err(Refusal::Unsupported(why.into()));
    }
    let gone = || Refusal::NoSuchOption("what the agent asked is not on its screen any more".into());
    let dialog = rules.dialog(&rows(screen), Hint::Needed).ok_or_else(gone)?;
    let offered = dialog.ask_options();
    if dialog.kind != ask.kind || dialog.heading != ask.screen_lines || offered != ask.options {
        return Err(gone());
    }
    let others = answer.text.is_some() || answer.input.is_some() || !answer.answers.is_empty();
    if others || !answer.options.is_empty() {
        return Err(Refusal::BadRequest("this ask can only be answered by \"accept\" or \"option\"".into()));
    }
    let option = match (answer.accept, answer.option) {
        (Some(true), None) if answer.always => keys::of_kind(&offered, OptionKind::AllowAlways)?,
        (Some(true), None) => keys::of_kind(&offered, OptionKind::AllowOnce)?,
        (Some(false), None) => keys::of_kind(&offered, OptionKind::Reject)?,
        (None, Some(number)) => keys::numbered(&offered, number)?,
        _ => return Err(Refusal::BadRequest("give either \"accept\" or \"option\"".into())),
    };
    let digit = Bytes::copy_from_slice(option.id.as_bytes());
    Ok(vec![Step::Type(digit), keys::taken()])
}
