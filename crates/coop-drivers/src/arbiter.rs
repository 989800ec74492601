//! One state from many signals.
//!
//! Sources are ranked: control channel, hook, log, stream, title, process, screen. A positive sign of idleness ends a
//! turn at once, whoever gives it. A weak source never contradicts a strong one that says the agent waits: the last
//! frame of a spinner is not work. The mere absence of work ([`Meaning::Quiet`]) makes an agent idle only where there
//! is nothing better to go by, and only after the grace.

use std::time::{Duration, Instant};

use coop_api::{AgentState, AskId, AskKind, Evidence, EvidenceSource};

use crate::{Meaning, Signal};

/// What an agent is doing, as far as its signals say.
#[derive(Clone, Debug)]
pub struct Arbiter {
    state: AgentState,
    evidence: Evidence,
    /// What is asked, oldest first.
    asks: Vec<(AskId, AskKind)>,
    /// The best source heard of since the agent was started.
    best: EvidenceSource,
    /// The source that knows which tool runs. After an answer that is the best one, however the answer was given.
    tool_source: EvidenceSource,
    grace: Duration,
    /// Since when nothing says that it works, and what showed it.
    quiet: Option<(Instant, Evidence)>,
}

/// A new state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The state before.
    pub prev: AgentState,
    /// The state now.
    pub next: AgentState,
}

/// What was made of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It changed the state.
    Changed(Change),
    /// It says what is known.
    Agrees,
    /// It says nothing about the state.
    Noted,
    /// It was not believed, and why.
    Ignored(&'static str),
}

impl Verdict {
    /// Returns a word or two for people.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Changed(_) => "accepted",
            Self::Agrees => "agrees",
            Self::Noted => "noted",
            Self::Ignored(why) => why,
        }
    }
}

impl Arbiter {
    /// Returns one for an agent that was just launched.
    pub fn new(grace: Duration) -> Self {
        Self {
            state: AgentState::Starting,
            evidence: Evidence { source: EvidenceSource::Process, detail: "the process was started".into() },
            asks: Vec::new(),
            best: EvidenceSource::None,
            tool_source: EvidenceSource::None,
            grace,
            quiet: None,
        }
    }

    /// Returns the state.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    /// Returns what the state rests on.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Takes a signal into account. Asks come by [`Self::open_ask`] and [`Self::close_ask`].
    pub fn hear(&mut self, signal: &Signal, now: Instant) -> Verdict {
        if matches!(self.state, AgentState::Exited { .. }) {
            return Verdict::Ignored("the agent has exited");
        }
        self.best = self.best.min(signal.source);
        let evidence = Evidence { source: signal.source, detail: signal.detail.clone() };
        match &signal.meaning {
            Meaning::TurnBegan { .. } => {
                self.asks.clear();
                self.enter(AgentState::Working { tool: None }, evidence)
            }
            Meaning::Working { tool } => self.hear_work(tool.clone(), evidence),
            Meaning::Idle(_) => {
                self.asks.clear();
                self.enter(AgentState::Idle, evidence)
            }
            Meaning::Blocked(fault) => {
                self.asks.clear();
                self.enter(AgentState::Blocked { fault: fault.clone() }, evidence)
            }
            Meaning::Quiet => self.hear_quiet(evidence, now),
            Meaning::Unclear => self.hear_nothing(evidence),
            Meaning::Lost => {
                self.asks.clear();
                self.best = signal.source;
                self.enter(AgentState::Unknown, evidence)
            }
            Meaning::Session { .. }
            | Meaning::PermissionMode(_)
            | Meaning::Started(_)
            | Meaning::Command { .. }
            | Meaning::Ask(_)
            | Meaning::AskGone { .. }
            | Meaning::RequestGone { .. }
            | Meaning::Retrying(_)
            | Meaning::StopWanted { .. }
            | Meaning::Said(_)
            | Meaning::Tool(_)
            | Meaning::Wrote(_)
            | Meaning::Used { .. }
            | Meaning::UsedBefore { .. }
            | Meaning::Replied { .. } => Verdict::Noted,
        }
    }

    fn hear_work(&mut self, tool: Option<String>, evidence: Evidence) -> Verdict {
        if !self.asks.is_empty() {
            // It comes from something that runs beside what is asked, such as a sub-agent.
            return Verdict::Ignored("the agent still asks");
        }
        if is_weak(evidence.source) {
            self.quiet = None;
            if !is_weak(self.evidence.source) {
                return Verdict::Ignored("a stronger source says otherwise, or the same");
            }
        }
        // A weaker source that only says "working" does not know of the tool that runs.
        let is_tool_known = matches!(&self.state, AgentState::Working { tool: Some(_) });
        if tool.is_none() && is_tool_known && evidence.source > self.tool_source {
            return Verdict::Agrees;
        }
        self.tool_source = evidence.source;
        self.enter(AgentState::Working { tool }, evidence)
    }

    fn hear_quiet(&mut self, evidence: Evidence, now: Instant) -> Verdict {
        if !is_weak(self.best) {
            return Verdict::Ignored("there are stronger sources to go by");
        }
        if !self.asks.is_empty() || matches!(self.state, AgentState::Idle) {
            return Verdict::Agrees;
        }
        if self.quiet.is_none() {
            self.quiet = Some((now, evidence));
        }
        Verdict::Noted
    }

    fn hear_nothing(&mut self, evidence: Evidence) -> Verdict {
        if !is_weak(self.best) {
            return Verdict::Ignored("there are stronger sources to go by");
        }
        self.enter(AgentState::Unknown, evidence)
    }

    /// Notes that the agent asks something.
    pub fn open_ask(&mut self, id: AskId, kind: AskKind, evidence: Evidence) -> Verdict {
        if matches!(self.state, AgentState::Exited { .. }) {
            return Verdict::Ignored("the agent has exited");
        }
        self.asks.push((id, kind));
        self.follow_asks(None, evidence)
    }

    /// Removes an ask. `allowed` is the tool that runs because of the answer.
    pub fn close_ask(&mut self, id: &AskId, allowed: Option<String>, evidence: Evidence) -> Verdict {
        self.asks.retain(|(open, _)| open != id);
        self.follow_asks(allowed, evidence)
    }

    fn follow_asks(&mut self, allowed: Option<String>, evidence: Evidence) -> Verdict {
        match self.asks.first().cloned() {
            Some((ask, kind)) => self.enter(AgentState::Waiting { ask, kind }, evidence),
            None if !matches!(self.state, AgentState::Waiting { .. }) => Verdict::Agrees,
            None => {
                self.tool_source = self.best;
                self.enter(AgentState::Working { tool: allowed }, evidence)
            }
        }
    }

    /// Notes the end of the process.
    pub fn exited(&mut self, code: Option<i32>, signal: Option<i32>) -> Verdict {
        let detail = match (code, signal) {
            (Some(code), _) => format!("the process exited with code {code}"),
            (None, Some(signal)) => format!("the process was killed by signal {signal}"),
            (None, None) => "the process is gone".to_owned(),
        };
        self.asks.clear();
        self.enter(AgentState::Exited { code, signal }, Evidence { source: EvidenceSource::Process, detail })
    }

    /// Returns when quiet becomes idleness.
    pub fn deadline(&self) -> Option<Instant> {
        self.quiet.as_ref().map(|(since, _)| *since + self.grace)
    }

    /// Looks at the clock.
    pub fn tick(&mut self, now: Instant) -> Verdict {
        match self.quiet.clone() {
            Some((since, evidence)) if since + self.grace <= now => {
                let detail = format!("{}, for {} s", evidence.detail, self.grace.as_secs_f32());
                self.enter(AgentState::Idle, Evidence { detail, ..evidence })
            }
            Some(_) | None => Verdict::Agrees,
        }
    }

    fn enter(&mut self, next: AgentState, evidence: Evidence) -> Verdict {
        self.quiet = None;
        if self.state == next {
            // The better of two that say the same is kept.
            if evidence.source <= self.evidence.source {
                self.evidence = evidence;
            }
            return Verdict::Agrees;
        }
        let prev = std::mem::replace(&mut self.state, next.clone());
        self.evidence = evidence;
        Verdict::Changed(Change { prev, next })
    }
}

fn is_weak(source: EvidenceSource) -> bool {
    source >= EvidenceSource::Title
}

#[cfg(test)]
mod tests {
    use coop_api::TurnOutcome;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test has to begin somewhere")]
    fn now() -> Instant {
        Instant::now()
    }

    fn arbiter() -> Arbiter {
        Arbiter::new(Duration::from_secs(60))
    }

    fn heard(arbiter: &mut Arbiter, source: EvidenceSource, meaning: Meaning, now: Instant) -> Verdict {
        arbiter.hear(&Signal::new(source, "test", meaning), now)
    }

    const WORK: Meaning = Meaning::Working { tool: None };
    const IDLE: Meaning = Meaning::Idle(TurnOutcome::Completed);

    #[test]
    fn positive_idleness_ends_a_turn_at_once_whoever_says_so() {
        let now = now();
        for source in [EvidenceSource::Hook, EvidenceSource::SessionLog, EvidenceSource::Title] {
            let mut arbiter = arbiter();
            heard(&mut arbiter, EvidenceSource::Hook, Meaning::TurnBegan { prompt: None }, now);
            heard(&mut arbiter, source, IDLE, now);
            assert_eq!(*arbiter.state(), AgentState::Idle, "{source:?}");
        }
    }

    #[test]
    fn the_last_frame_of_a_spinner_is_not_work() {
        let now = now();
        let mut arbiter = arbiter();
        heard(&mut arbiter, EvidenceSource::Hook, IDLE, now);
        assert!(matches!(heard(&mut arbiter, EvidenceSource::Title, WORK, now), Verdict::Ignored(_)));
        assert_eq!(*arbiter.state(), AgentState::Idle);
    }

    #[test]
    fn quiet_counts_only_without_better_sources_and_after_the_grace() {
        let now = now();
        let mut weak = arbiter();
        heard(&mut weak, EvidenceSource::Screen, WORK, now);
        heard(&mut weak, EvidenceSource::Screen, Meaning::Quiet, now);
        assert_eq!(weak.tick(now + Duration::from_secs(59)), Verdict::Agrees);
        assert!(matches!(weak.tick(now + Duration::from_secs(60)), Verdict::Changed(_)));
        assert_eq!(*weak.state(), AgentState::Idle);

        let mut strong = arbiter();
        heard(&mut strong, EvidenceSource::Hook, WORK, now);
        assert!(matches!(heard(&mut strong, EvidenceSource::Screen, Meaning::Quiet, now), Verdict::Ignored(_)));
        assert_eq!(strong.deadline(), None);
    }

    /// An agent whose server had died worked for ever: what its screen showed was not believed.
    #[test]
    fn without_its_best_source_the_others_count() {
        let now = now();
        let mut arbiter = arbiter();
        heard(&mut arbiter, EvidenceSource::Control, WORK, now);
        heard(&mut arbiter, EvidenceSource::Process, Meaning::Lost, now);
        assert_eq!(*arbiter.state(), AgentState::Unknown);
        heard(&mut arbiter, EvidenceSource::Screen, WORK, now);
        assert_eq!(arbiter.state().as_str(), "working");
        heard(&mut arbiter, EvidenceSource::Screen, Meaning::Quiet, now);
        arbiter.tick(now + Duration::from_secs(60));
        assert_eq!(*arbiter.state(), AgentState::Idle);
        // It is back.
        heard(&mut arbiter, EvidenceSource::Control, WORK, now);
        assert!(matches!(heard(&mut arbiter, EvidenceSource::Screen, Meaning::Quiet, now), Verdict::Ignored(_)));
    }

    #[test]
    fn work_beside_an_ask_does_not_hide_it() {
        let now = now();
        let mut arbiter = arbiter();
        let evidence = Evidence { source: EvidenceSource::Hook, detail: "PermissionRequest".into() };
        heard(&mut arbiter, EvidenceSource::Hook, WORK, now);
        arbiter.open_ask(AskId("1".into()), AskKind::Permission, evidence.clone());
        arbiter.open_ask(AskId("2".into()), AskKind::Question, evidence.clone());
        assert!(matches!(heard(&mut arbiter, EvidenceSource::Hook, WORK, now), Verdict::Ignored(_)));
        assert_eq!(arbiter.state().as_str(), "permission_prompt");
        arbiter.close_ask(&AskId("1".into()), None, evidence.clone());
        assert_eq!(arbiter.state().as_str(), "ask_user");
        arbiter.close_ask(&AskId("2".into()), None, evidence);
        assert_eq!(arbiter.state().as_str(), "working");
    }

    #[test]
    fn a_tool_that_was_allowed_is_named_until_a_source_as_good_says_otherwise() {
        let now = now();
        let mut arbiter = arbiter();
        let evidence = Evidence { source: EvidenceSource::Hook, detail: "PermissionRequest".into() };
        heard(&mut arbiter, EvidenceSource::Hook, WORK, now);
        arbiter.open_ask(AskId("1".into()), AskKind::Permission, evidence.clone());
        arbiter.close_ask(&AskId("1".into()), Some("Bash".into()), evidence);
        let runs = AgentState::Working { tool: Some("Bash".into()) };
        assert_eq!(*arbiter.state(), runs);
        heard(&mut arbiter, EvidenceSource::SessionLog, WORK, now);
        assert_eq!(*arbiter.state(), runs, "the status file says only that it works");
        heard(&mut arbiter, EvidenceSource::Hook, WORK, now);
        assert_eq!(*arbiter.state(), AgentState::Working { tool: None });
    }

    #[test]
    fn an_agent_that_has_exited_asks_nothing() {
        let mut arbiter = arbiter();
        arbiter.exited(Some(0), None);
        let evidence = Evidence { source: EvidenceSource::Hook, detail: "PermissionRequest".into() };
        let verdict = arbiter.open_ask(AskId("1".into()), AskKind::Permission, evidence);
        assert_eq!(verdict, Verdict::Ignored("the agent has exited"));
        assert_eq!(*arbiter.state(), AgentState::Exited { code: Some(0), signal: None });
    }
}
