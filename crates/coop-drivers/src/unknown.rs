//! A program nobody knows, with rules of what its screen looks like: its state is read off the screen, and nothing is
//! ever typed for it.

use coop_api::{Answer, Ask, Capability, Configure, EvidenceSource, Fault, FaultKind, Screen, TurnOutcome};
use serde_json::Value;

use crate::driver::{Driver, Launch, Link, Observation, Refusal, Runtime, Setup, SetupError, Step, StopReply, View};
use crate::registry::Known;
use crate::rules::{Hint, Rules, TitleSays, rows};
use crate::{AskDraft, Meaning, Reach, Signal, StartSource, keys};

/// What is known of a program nobody knows.
pub const UNKNOWN: Known = Known {
    name: "unknown",
    programs: &[],
    package: "",
    binaries: &[],
    tested: None,
    runtimes: &[Runtime::Pty],
    variables: &[],
    logins: &[],
    folders: &[],
    files: &[],
    state_variable: None,
    asks_version: false,
    keys: &[],
    rules: "version = 1\nagent = \"unknown\"",
    reads: |_| Vec::new(),
    new: |rules, _| Box::new(Unknown { rules, asked: None }),
    tools: &[],
    never_asks: &[],
    modes: &[],
};

struct Unknown {
    rules: Rules,
    /// The dialog on the screen, as last seen.
    asked: Option<AskDraft>,
}

impl Unknown {
    fn observe_screen(&mut self, screen: &Screen) -> Vec<Signal> {
        let lines = rows(screen);
        let signal = |detail: &str, meaning| Signal::new(EvidenceSource::Screen, detail, meaning);
        let dialog = self.rules.dialog(&lines, Hint::Needed).map(|dialog| keys::draft(&dialog));
        let mut signals = Vec::new();
        if dialog != self.asked {
            let gone = self.asked.take().map(|_| signal("the dialog is gone", Meaning::AskGone { about: None }));
            signals.extend(gone);
            if let Some(draft) = &dialog {
                signals.push(signal(&format!("a dialog: {}", draft.preview), Meaning::Ask(Box::new(draft.clone()))));
            }
            self.asked = dialog;
        }
        // Whatever stands above a dialog, the program waits in it.
        if self.asked.is_none() {
            signals.push(self.shows(&lines));
        }
        signals
    }

    fn shows(&self, lines: &[String]) -> Signal {
        let signal = |detail: &str, meaning| Signal::new(EvidenceSource::Screen, detail, meaning);
        if self.rules.shows_work(lines) {
            return signal("the screen shows work", Meaning::Working { tool: None });
        }
        if let Some(line) = self.rules.error_line(lines) {
            let fault = Fault { kind: FaultKind::Other, message: line.to_owned(), status: None, until: None };
            return signal("the screen shows an error", Meaning::Blocked(fault));
        }
        if self.rules.shows_prompt(lines) {
            return signal("the screen shows the prompt", Meaning::Quiet);
        }
        signal("the screen shows nothing that is known", Meaning::Unclear)
    }
}

fn no_driver() -> Refusal {
    Refusal::NoDriver("coop does not know this program, so it cannot tell when to type; use /api/v1/input".to_owned())
}

impl Driver for Unknown {
    fn capabilities(&self) -> &'static [Capability] {
        &[]
    }

    fn setup(&self, launch: &Launch) -> Result<Setup, SetupError> {
        Ok(Setup { command: launch.command.clone(), link: Link::None, ..Setup::default() })
    }

    fn observe(&mut self, seen: &Observation<'_>, _: u64) -> Vec<Signal> {
        match seen {
            Observation::Screen(screen) => self.observe_screen(screen),
            Observation::Title(title) => {
                let meaning = match self.rules.title(title) {
                    Some(TitleSays::Working) => Meaning::Working { tool: None },
                    Some(TitleSays::Idle) => Meaning::Idle(TurnOutcome::Completed),
                    Some(TitleSays::Waiting) | None => return Vec::new(),
                };
                vec![Signal::new(EvidenceSource::Title, format!("the title is {title:?}"), meaning)]
            }
            _ => Vec::new(),
        }
    }

    fn deliver(&mut self, _: &str, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        Err(no_driver())
    }

    fn answer(&self, _: &Ask, _: &Reach, _: &Answer, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        Err(no_driver())
    }

    fn interrupt(&self, _: &View<'_>) -> Vec<Step> {
        Vec::new()
    }

    fn stop_reply(&mut self, _: &StopReply) -> Option<Value> {
        None
    }

    fn start_reply(&self, _: StartSource, _: &str) -> Option<Value> {
        None
    }

    fn configure(&mut self, _: &Configure, _: &View<'_>) -> Result<Vec<Step>, Refusal> {
        Err(no_driver())
    }
}
