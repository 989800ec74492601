//! An agent that makes no progress while its screen shows something that its driver does not know.
//!
//! What coop reads off a screen follows the layout of known releases. A dialog that a newer release draws otherwise would be
//! silence: no ask, and a state that never changes. So a screen that is not known and does not change becomes an ask, whose
//! body is the screen and whose answer is keys.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use coop_api::{
    AgentState, Answer, Ask, AskId, AskKind, Error, ErrorCode, EvidenceSource, Fault, FaultKind, Screen, TurnOutcome,
    preview,
};
use coop_drivers::{AskDraft, Expected, Meaning, Reach, Runtime, ScreenKind, Signal, Step, Verdict, filled_rows};
use coop_term::encode_keys;
use serde_json::json;

use super::{Agent, Effect, Now};

/// How long a screen that is not known stands still before it becomes an ask.
const UNKNOWN_SCREEN_TIMEOUT: Duration = Duration::from_secs(12);
/// The same for the screen that follows keys of an answer.
const NEXT_SCREEN_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for a screen that shows nothing: some agents draw their first frame only after half a minute.
const EMPTY_SCREEN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long an agent without a terminal may take to say anything over its protocol.
const PROTOCOL_START_TIMEOUT: Duration = Duration::from_secs(120);
/// How long keys may take to change the screen.
const KEYS_TIMEOUT: Duration = Duration::from_secs(10);

/// What is known of the agent's progress.
#[derive(Debug)]
pub(super) struct Stall {
    /// When the agent last made progress: a signal came, or the screen changed.
    progress_at: Instant,
    /// A hash of the rows of the screen; none before the first look.
    rows: Option<u64>,
    is_empty: bool,
    /// Whether the screen as it stands was judged already.
    is_judged: bool,
    /// Whether the screen follows one that was an ask of this module.
    is_next: bool,
    ask: Option<AskId>,
}

impl Stall {
    pub(super) fn new(now: Instant) -> Self {
        Self { progress_at: now, rows: None, is_empty: true, is_judged: false, is_next: false, ask: None }
    }

    /// Records progress, and returns the ask that it makes obsolete.
    fn record_progress(&mut self, now: Instant) -> Option<AskId> {
        self.progress_at = now;
        self.is_judged = false;
        let ask = self.ask.take();
        self.is_next = ask.is_some();
        ask
    }

    fn timeout(&self) -> Duration {
        match (self.is_next, self.is_empty) {
            (_, true) => EMPTY_SCREEN_TIMEOUT,
            (true, false) => NEXT_SCREEN_TIMEOUT,
            (false, false) => UNKNOWN_SCREEN_TIMEOUT,
        }
    }
}

impl Agent {
    /// Records that the screen was looked at. If it changed, an ask about the screen before is withdrawn.
    pub(super) fn record_screen(&mut self, screen: &Screen, now: &Now, effects: &mut Vec<Effect>) {
        let mut hasher = DefaultHasher::new();
        screen.lines.iter().for_each(|line| line.plain().hash(&mut hasher));
        let rows = hasher.finish();
        if self.stall.rows.replace(rows) != Some(rows) {
            self.stall.is_empty = screen_lines(screen).is_empty();
            self.record_progress("the screen changed", now, effects);
        }
    }

    /// Records that the agent makes progress.
    pub(super) fn record_progress(&mut self, detail: &str, now: &Now, effects: &mut Vec<Effect>) {
        if self.stall.record_progress(now.instant).is_some() {
            let signal = Signal::new(EvidenceSource::Screen, detail, Meaning::AskGone { about: None });
            self.hear(&signal, now, effects);
        }
    }

    /// Returns when a screen that does not change becomes an ask, or a protocol that says nothing a fault.
    pub(super) fn stall_deadline(&self) -> Option<Instant> {
        let is_busy = !self.asks.is_empty() || self.performance.is_some() || self.closing.is_some();
        // Quiet becomes idleness by itself.
        if self.stall.is_judged || is_busy || self.arbiter.deadline().is_some() {
            return None;
        }
        let timeout = match (self.state(), self.runtime) {
            (AgentState::Starting | AgentState::Working { .. } | AgentState::Unknown, Runtime::Pty) => {
                self.stall.timeout()
            }
            (AgentState::Starting, Runtime::Pipe | Runtime::Server) => PROTOCOL_START_TIMEOUT,
            _ => return None,
        };
        Some(self.stall.progress_at + timeout)
    }

    /// Turns a screen that is not known and stands still into an ask.
    pub(super) fn judge_stall(&mut self, screen: &Screen, now: &Now, effects: &mut Vec<Effect>) {
        if self.stall_deadline().is_none_or(|at| at > now.instant) {
            return;
        }
        self.stall.is_judged = true;
        let missing = self.driver.missing_signals();
        let missing = if missing.is_empty() { String::new() } else { format!("; not seen: {}", missing.join(", ")) };
        if self.runtime != Runtime::Pty {
            let secs = PROTOCOL_START_TIMEOUT.as_secs();
            let message = format!("the agent has said nothing over its protocol for {secs} s{missing}");
            let fault = Fault { kind: FaultKind::Other, message: message.clone(), status: None, until: None };
            return self.hear(&Signal::new(EvidenceSource::Process, message, Meaning::Blocked(fault)), now, effects);
        }
        let secs = self.stall.timeout().as_secs();
        match self.driver.classify(screen) {
            ScreenKind::Input if *self.state() == AgentState::Starting => {
                let detail = format!("no signal for {secs} s, and the screen shows the agent's input{missing}");
                let signal = Signal::new(EvidenceSource::Screen, detail, Meaning::Idle(TurnOutcome::Completed));
                return self.hear(&signal, now, effects);
            }
            ScreenKind::Input | ScreenKind::Dialog | ScreenKind::NotJudged => return,
            ScreenKind::Unknown => {}
        }
        let draft = unknown_screen(screen);
        let detail = format!("no signal for {secs} s, and the screen shows something that coop does not know{missing}");
        let signal = Signal::new(EvidenceSource::Screen, detail, Meaning::Ask(Box::new(draft.clone())));
        let verdict = self.open_ask(&signal, &draft, now, effects);
        if matches!(verdict, Verdict::Changed(_)) {
            self.stall.ask = self.asks.newest();
        }
        self.remember(&signal, verdict.as_str(), now);
        self.follow(verdict, now, effects);
    }

    /// Returns the steps that answer an ask whose options coop cannot read, by keys.
    pub(super) fn type_answer(ask: &Ask, answer: &Answer, screen: &Screen) -> Result<Vec<Step>, Error> {
        if answer.keys.is_empty() {
            let why = "coop does not know what this screen offers; answer with keys (`--keys Down Enter`, or \"keys\": \
                       [\"Down\", \"Enter\"]), or in the agent's terminal";
            return Err(Error::new(ErrorCode::NoSuchOption, why));
        }
        let shown = screen_lines(screen);
        let is_shown = if ask.kind == AskKind::Setup {
            shown == ask.screen_lines
        } else {
            // Drivers tell a part of the screen.
            let (shown, asked) = (filled_rows(&shown), filled_rows(&ask.screen_lines));
            !asked.is_empty() && shown.windows(asked.len()).any(|rows| rows == asked)
        };
        if !is_shown {
            return Err(Error::new(ErrorCode::NoSuchOption, "what the agent asked is not on its screen any more"));
        }
        let keys = encode_keys(&answer.keys, &screen.modes).map_err(|error| Error::bad_request(error.to_string()))?;
        Ok(vec![Step::Type(keys.into()), Step::Expect { what: Expected::AskGone, within: KEYS_TIMEOUT, retry: None }])
    }
}

/// Tells whether keys are the only answer to an ask.
pub(super) fn wants_keys(ask: &Ask, reach: &Reach) -> bool {
    *reach == Reach::Keys && ask.options.is_empty() && ask.questions.is_empty()
}

/// Returns the rows of a screen from the first to the last that has something on it.
fn screen_lines(screen: &Screen) -> Vec<String> {
    let mut rows: Vec<_> = screen.lines.iter().map(|line| line.plain().trim_end().to_owned()).collect();
    rows.truncate(rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1));
    rows.drain(..rows.iter().take_while(|row| row.is_empty()).count());
    rows
}

fn unknown_screen(screen: &Screen) -> AskDraft {
    let lines = screen_lines(screen);
    let about = lines.first().map_or("an empty screen", |line| line.trim());
    AskDraft {
        kind: AskKind::Setup,
        tool: None,
        input: None,
        preview: preview(about, &json!(lines)),
        questions: Vec::new(),
        options: Vec::new(),
        screen_lines: lines,
        reach: Reach::Keys,
    }
}
