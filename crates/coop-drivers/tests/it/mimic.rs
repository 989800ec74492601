//! Does with a driver's signals what the session does with them, and no more.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use coop_api::{AgentState, Ask, AskChannel, AskId, AskKind, Evidence, EvidenceSource, Screen, TurnOutcome};
use coop_drivers::{
    Arbiter, AskDraft, Driver, Known, Launch, Meaning, Observation, Reach, Rules, Runtime, Signal, StopReply,
};
use serde_json::Value;

use crate::screens::screen;

/// The conversation of the recordings.
pub(crate) const SESSION: &str = "e5555555-5555-4555-8555-555555555555";

static RULES: LazyLock<Rules> = LazyLock::new(|| claude().rules().expect("the rules"));

fn claude() -> &'static Known {
    Known::by_name("claude").expect("a known agent")
}

/// Something that was seen of the agent, or done to it.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Hook {
        event: String,
        payload: Value,
    },
    Log(Value),
    Status(Value),
    Control(Value),
    /// The link to its server came up, or is down.
    Link(bool),
    /// It has been down for long.
    LinkLost,
    Screen(Vec<String>),
    Title(String),
    /// A message of ours is out.
    Sent(Value),
    /// Somebody answered the control protocol's request.
    Answered {
        request: String,
    },
}

/// An agent's state as the session would have it.
pub(crate) struct Mimic {
    pub(crate) driver: Box<dyn Driver>,
    arbiter: Arbiter,
    open: Vec<(Ask, Reach)>,
    count: u64,
    is_hooked: bool,
    /// Whether it is held back from ending its turn.
    pub(crate) holds: bool,
    now: Instant,
}

impl Mimic {
    pub(crate) fn new(runtime: Runtime, command: &[&str]) -> Self {
        let command = command.iter().map(|&word| word.to_owned()).collect();
        let launch = Launch { runtime, command, session_id: SESSION.into(), ..Launch::default() };
        Self::of((claude().new)(RULES.clone(), &launch))
    }

    /// Returns one for any driver.
    pub(crate) fn of(driver: Box<dyn Driver>) -> Self {
        Self {
            driver,
            arbiter: Arbiter::new(Duration::from_secs(60)),
            open: Vec::new(),
            count: 0,
            is_hooked: false,
            holds: false,
            now: any_time(),
        }
    }

    /// Returns one whose terminal takes pastes already.
    pub(crate) fn ready() -> Self {
        let mut mimic = Self::new(Runtime::Pty, &["claude"]);
        mimic.see(&Seen::Screen(Vec::new()), 0);
        mimic
    }

    pub(crate) fn state(&self) -> &AgentState {
        self.arbiter.state()
    }

    /// Returns the open asks, oldest first.
    pub(crate) fn asks(&self) -> &[(Ask, Reach)] {
        &self.open
    }

    /// Takes in what was seen, and returns what it was said to mean.
    pub(crate) fn see(&mut self, seen: &Seen, at: u64) -> Vec<Signal> {
        let signals = match seen {
            Seen::Hook { event, payload } => {
                self.is_hooked = true;
                self.driver.observe(&Observation::Hook { event, payload }, at)
            }
            Seen::Log(line) => self.driver.observe(&Observation::LogLine { line, past: false }, at),
            Seen::Status(file) => self.driver.observe(&Observation::StatusFile(file), at),
            Seen::Control(message) => self.driver.observe(&Observation::Control(message), at),
            Seen::Sent(message) => self.driver.observe(&Observation::Sent(message), at),
            Seen::LinkLost => self.driver.observe(&Observation::LinkLost, at),
            Seen::Link(up) => self.driver.observe(&Observation::Link { up: *up }, at),
            Seen::Screen(rows) => {
                let screen: Screen = screen(rows.iter().map(String::as_str));
                self.driver.observe(&Observation::Screen(&screen), at)
            }
            Seen::Title(title) => self.driver.observe(&Observation::Title(title), at),
            Seen::Answered { request } => {
                self.settle(request);
                Vec::new()
            }
        };
        for signal in &signals {
            self.hear(signal);
        }
        signals
    }

    /// Takes in an observation, and returns what it was said to mean.
    pub(crate) fn observe(&mut self, seen: &Observation<'_>, at: u64) -> Vec<Signal> {
        let signals = self.driver.observe(seen, at);
        signals.iter().for_each(|signal| self.hear(signal));
        signals
    }

    fn hear(&mut self, signal: &Signal) {
        match &signal.meaning {
            Meaning::Ask(draft) => self.ask_heard(signal, draft),
            Meaning::AskGone { about } => {
                let is_meant = |(ask, reach): &(Ask, Reach)| match about {
                    None => signal.source != EvidenceSource::Screen || *reach == Reach::Keys,
                    Some((tool, input)) => ask.tool.as_ref() == Some(tool) && ask.input.as_ref() == Some(input),
                };
                self.close(is_meant, evidence(signal));
            }
            Meaning::RequestGone { request } => {
                let is_meant =
                    |(_, reach): &(Ask, Reach)| matches!(reach, Reach::Control { request: of, .. } if of == request);
                self.close(is_meant, evidence(signal));
            }
            Meaning::StopWanted { .. } if self.holds => {}
            Meaning::StopWanted { unfinished, .. } => {
                self.driver.stop_reply(&StopReply::Allow);
                if !unfinished && self.driver.ends_on_stop() {
                    let idle = Meaning::Idle(TurnOutcome::Completed);
                    self.hear(&Signal::new(EvidenceSource::Hook, "Stop, and it may", idle));
                }
            }
            Meaning::TurnBegan { .. } | Meaning::Idle(_) | Meaning::Blocked(_) | Meaning::Lost => {
                self.open.clear();
                self.arbiter.hear(signal, self.now);
            }
            _ => {
                self.arbiter.hear(signal, self.now);
            }
        }
    }

    fn ask_heard(&mut self, signal: &Signal, draft: &AskDraft) {
        let is_known = self.open.iter().any(|(ask, _)| ask.channel == AskChannel::Structured);
        // The session waits a while for the hook that may report the same.
        let is_sight = signal.source == EvidenceSource::Screen;
        let may_be_reported = is_sight && self.is_hooked && draft.kind != AskKind::Setup;
        if draft.reach == Reach::Keys && (is_known || may_be_reported) {
            return;
        }
        self.count += 1;
        let ask = ask(&format!("ask-{}", self.count), draft);
        self.arbiter.open_ask(ask.id.clone(), ask.kind, evidence(signal));
        if draft.reach == Reach::Keys {
            // There is one dialog on the screen.
            self.close(|(_, reach)| *reach == Reach::Keys, evidence(signal));
        }
        self.open.push((ask, draft.reach.clone()));
    }

    fn settle(&mut self, request: &str) {
        let is_meant = |(_, reach): &(Ask, Reach)| matches!(reach, Reach::Control { request: of, .. } if of == request);
        self.close(is_meant, Evidence { source: EvidenceSource::Hook, detail: "answered".into() });
    }

    fn close(&mut self, is_meant: impl Fn(&(Ask, Reach)) -> bool, evidence: Evidence) {
        let (gone, open) = std::mem::take(&mut self.open).into_iter().partition(is_meant);
        self.open = open;
        let gone: Vec<_> = gone;
        for (ask, _) in gone {
            self.arbiter.close_ask(&ask.id, None, evidence.clone());
        }
    }

    /// Says in one line what the agent is doing.
    pub(crate) fn describe(&self) -> String {
        match self.state() {
            AgentState::Starting => "starting".into(),
            AgentState::Working { tool: None } => "working".into(),
            AgentState::Working { tool: Some(tool) } => format!("working: {tool}"),
            AgentState::Idle => "idle".into(),
            AgentState::Waiting { ask, kind } => {
                let preview = self.open.iter().find(|(open, _)| open.id == *ask).map(|(ask, _)| ask.preview.as_str());
                format!("{} {ask}: {}", kind.as_str(), preview.unwrap_or("?"))
            }
            AgentState::Blocked { fault } => {
                format!("blocked: {} {:?} {}", fault.kind.as_str(), fault.status, fault.message)
            }
            AgentState::Unknown => "unknown".into(),
            AgentState::Exited { .. } => "exited".into(),
        }
    }
}

/// Returns an ask as the session makes it of a draft.
pub(crate) fn ask(id: &str, draft: &AskDraft) -> Ask {
    Ask {
        id: AskId(id.to_owned()),
        kind: draft.kind,
        tool: draft.tool.clone(),
        input: draft.input.clone(),
        preview: draft.preview.clone(),
        questions: draft.questions.clone(),
        options: draft.options.clone(),
        opened: String::new(),
        channel: match draft.reach {
            Reach::Hook { .. } | Reach::Control { .. } => AskChannel::Structured,
            Reach::Keys => AskChannel::Keys,
        },
        screen_lines: draft.screen_lines.clone(),
    }
}

fn evidence(signal: &Signal) -> Evidence {
    Evidence { source: signal.source, detail: signal.detail.clone() }
}

#[expect(clippy::disallowed_methods, reason = "an instant cannot be made any other way")]
fn any_time() -> Instant {
    Instant::now()
}

/// Tells whether the words of an option refuse.
pub(crate) fn says_no(label: &str) -> bool {
    let first = label.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    matches!(first, "No" | "Don" | "Cancel" | "Reject" | "Decline" | "Deny")
}
