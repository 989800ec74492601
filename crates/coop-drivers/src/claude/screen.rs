//! What the screen says.

use coop_api::{AskKind, EvidenceSource, Screen, TurnOutcome};

use super::keys::{self, Shown};
use super::status::DIALOG_OPEN;
use super::{Claude, input};
use crate::driver::{OnScreen, ScreenKind};
use crate::rules::{Choosing, Hint, filled_rows, is_rule, rows, shows_rows};
use crate::{AskDraft, Meaning, Signal};

/// How many lines of a dialog without options are told.
const SHOWN: usize = 24;

impl Claude {
    pub(super) fn observe_screen(&mut self, screen: &Screen) -> Vec<Signal> {
        let mut signals = Vec::new();
        if !self.ready && screen.modes.bracketed_paste {
            self.ready = true;
            signals.extend(self.begin_idle("the terminal takes pastes"));
            if !self.expects_hooks && !self.has_prompt && self.status == "idle" {
                let detail = "the status file says idle, and the terminal takes pastes";
                signals.push(Signal::new(EvidenceSource::SessionLog, detail, Meaning::Idle(TurnOutcome::Completed)));
            }
        }
        self.rows = rows(screen);
        self.input_open = input::input(screen).is_some();
        signals.extend(self.read_mode());
        signals.extend(self.look());
        if self.on_screen.is_none() {
            if self.rules.shows_work(&self.rows) {
                let meaning = Meaning::Working { tool: None };
                signals.push(Signal::new(EvidenceSource::Screen, "the screen shows work", meaning));
            } else if self.input_open && self.rules.shows_prompt(&self.rows) && screen.modes.bracketed_paste {
                signals.push(Signal::new(EvidenceSource::Screen, "the screen shows the prompt", Meaning::Quiet));
            }
        }
        signals
    }

    /// Reads the permission mode from the rows below the input. The screen shows what holds now; other sources may be late.
    fn read_mode(&mut self) -> Option<Signal> {
        let below = self.rows.iter().rposition(|row| is_rule(row)).filter(|_| self.input_open)?;
        let mode = self.rules.mode(&self.rows[below + 1..])?;
        let meaning = self.record_mode(mode)?;
        Some(Signal::new(EvidenceSource::Screen, format!("the screen shows the mode {}", mode.as_str()), meaning))
    }

    /// Looks for a dialog. One that has become another is only told as that.
    pub(super) fn look(&mut self) -> Vec<Signal> {
        let of_command = self.waiting_for == DIALOG_OPEN;
        if of_command && self.input_open {
            // The screen is ahead of the status, or behind it; both will say the same in a moment.
            return Vec::new();
        }
        let dialog = self.dialog(&self.rows).or_else(|| self.unread());
        // Outside of a turn it is no question but what a command shows: the status file will say so in a moment.
        if self.status == "idle" && dialog.as_ref().is_some_and(|draft| draft.kind == AskKind::Question) {
            return Vec::new();
        }
        if is_same(dialog.as_ref(), self.on_screen.as_ref()) {
            return Vec::new();
        }
        self.on_screen.clone_from(&dialog);
        let source = if of_command { EvidenceSource::SessionLog } else { EvidenceSource::Screen };
        vec![match dialog {
            Some(draft) => Signal::new(source, format!("a dialog: {}", draft.preview), Meaning::Ask(Box::new(draft))),
            None => Signal::new(EvidenceSource::Screen, "the dialog is gone", Meaning::AskGone { about: None }),
        }]
    }

    /// Returns what is asked on a screen right now, for an answer by keys.
    pub(super) fn shown(&self, screen: &Screen) -> Option<Shown> {
        let rows = rows(screen);
        if self.waiting_for == DIALOG_OPEN && input::input(screen).is_some() {
            return None;
        }
        let draft = self.dialog(&rows)?;
        let dialog = self.rules.dialog(&rows, Hint::Needed);
        let choosing = dialog.map_or(Choosing::Number, |dialog| dialog.choosing);
        Some(Shown { draft, rows: self.rules.option_rows(&rows), choosing, amends: keys::amends(&rows) })
    }

    fn dialog(&self, rows: &[String]) -> Option<AskDraft> {
        let hint = if self.status == "waiting" { Hint::Known } else { Hint::Needed };
        let dialog = self.rules.dialog(rows, hint);
        if self.waiting_for != DIALOG_OPEN {
            return dialog.as_ref().map(crate::keys::draft);
        }
        // Before it is drawn, with a line above it, there is nothing to tell.
        let top = rows.iter().rposition(|row| is_rule(row))? + 1;
        let heading = dialog.as_ref().map(|dialog| dialog.heading.clone());
        let heading = heading.unwrap_or_else(|| filled_rows(&rows[top..]).into_iter().take(SHOWN).collect());
        (!heading.is_empty()).then(|| keys::command_draft(heading, dialog.as_ref()))
    }

    /// Returns the ask for what the status file says is waited for, where the screen shows nothing that is known.
    fn unread(&self) -> Option<AskDraft> {
        if self.status != "waiting" || self.input_open {
            return None;
        }
        let top = self.rows.iter().rposition(|row| is_rule(row)).map_or(0, |rule| rule + 1);
        let shown: Vec<_> = filled_rows(&self.rows[top..]).into_iter().take(SHOWN).collect();
        (!shown.is_empty()).then(|| keys::unread_draft(&self.waiting_for, shown))
    }

    pub(super) fn classify(&self, screen: &Screen) -> ScreenKind {
        if self.on_screen.is_some() {
            ScreenKind::Dialog
        } else if input::input(screen).is_some() {
            ScreenKind::Input
        } else {
            ScreenKind::Unknown
        }
    }

    pub(super) fn is_on_screen(&self, what: &OnScreen, screen: &Screen) -> bool {
        let options = || self.rules.option_rows(&rows(screen));
        match what {
            OnScreen::InputEmpty => input::input(screen).is_some_and(|typed| typed.is_empty()),
            OnScreen::InputFilled => input::input(screen).is_some_and(|typed| !typed.is_empty()),
            OnScreen::InputHolds(text) => input::input(screen).is_some_and(|typed| input::holds(&typed, text)),
            OnScreen::Asked(ask) => self.shown(screen).is_some_and(|now| keys::is_asked(ask, &now.draft)),
            OnScreen::Marked { number, label } => {
                let rows = options();
                let marked = rows.iter().rfind(|row| row.is_marked);
                marked.is_some_and(|row| row.number == *number && keys::is_called(&row.label, label))
            }
            OnScreen::Ticked { number, ticked } => {
                let rows = options();
                rows.iter().rfind(|row| row.number == *number).is_some_and(|row| row.ticked == Some(*ticked))
            }
            OnScreen::Rows { rows, below } => shows_rows(screen, rows, below),
        }
    }
}

/// Tells whether two dialogs are the same ask. What a command shows may change while it is open.
fn is_same(one: Option<&AskDraft>, other: Option<&AskDraft>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if one.options.is_empty() && other.options.is_empty() => one.preview == other.preview,
        (Some(one), Some(other)) if keys::is_of_command(&one.options) => {
            (&one.preview, &one.options) == (&other.preview, &other.options)
        }
        (one, other) => one == other,
    }
}
