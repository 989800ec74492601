//! What is known of the agent that runs as the child, and what somebody wants of it.
//!
//! Nothing here touches the world: signals and requests come in, [`Effect`]s go out, and the session carries them out.

mod asks;
mod gate;
mod hook;
mod nudges;
mod perform;
mod stall;
mod usage;

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use coop_api::{
    AgentReport, AgentState, AskChange, AskId, AskKind, Capability, Error, ErrorCode, EventBody, Evidence,
    EvidenceSource, Explanation, FaultReport, Heard, Lifecycle, PermissionMode, Reply, Role, Screen, Seq, StateChange,
    Turn, TurnOutcome, WriterId,
};
use coop_drivers::{
    Arbiter, Change, Driver, Expected, Meaning, Observation, Runtime, Say, Signal, StartSource, TITLE_LEAD, Verdict,
};
use serde_json::Value;
use tokio::sync::oneshot;

use self::asks::Asks;
pub use self::gate::{StopConfig, StopMode};
use self::nudges::Nudges;
use self::perform::{Performance, Proof};
use self::stall::Stall;
use self::usage::UsageBook;
use crate::lock::Held;

/// How many signals an explanation goes back.
const HEARD: usize = 200;
/// How long an interrupted agent may take to show what it put back into its input.
const SETTLING: Duration = Duration::from_millis(500);
/// How long the end of a turn waits for the log to tell the last of what was said and done in it. Agents write their log
/// every tenth of a second or so.
const CATCH_UP: Duration = Duration::from_secs(5);
/// Two looks at a screen that changes are at least this far apart.
const LOOK_PACE: Duration = Duration::from_millis(50);

pub(crate) type ReplyTo = oneshot::Sender<Result<Reply, Error>>;

/// Something to be done in the world.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Puts an event into the log.
    Record(EventBody),
    /// Types into the terminal.
    Type(Bytes),
    /// Tells the agent's protocol something.
    Say(Say),
    /// Watches another log.
    WatchLog(String),
    /// Finds out anew which status file is the agent's: another process may have become the agent.
    ForgetStatus,
    /// Finds out what an agent that begins should know; the hook waits.
    Prime(StartSource, ReplyTo),
}

/// The agent.
pub(crate) struct Agent {
    driver: Box<dyn Driver>,
    arbiter: Arbiter,
    runtime: Runtime,
    asks: Asks,
    nudges: Nudges,
    /// What is being done to the agent right now, step by step.
    performance: Option<Performance>,
    gate: gate::Gate,
    usage: UsageBook,
    heard: VecDeque<Heard>,
    since: (Seq, SystemTime),
    session_id: Option<String>,
    transcript: Option<String>,
    permission_mode: Option<PermissionMode>,
    last_message: Option<String>,
    in_turn: bool,
    /// The end of a turn that waits for the log, and for how long.
    closing: Option<(Signal, Instant)>,
    /// After an interrupt agents put what they were told back into their input: until then nothing is typed.
    settles_at: Option<Instant>,
    /// Whether any hook was heard.
    hooked: bool,
    /// Whether the agent has begun once.
    began: bool,
    /// Since when its files are polled, and why.
    polled: Option<Heard>,
    /// How often the title had been set when it was last looked at.
    title_count: u64,
    look_at: Option<Instant>,
    /// When to look once more, because of a new title.
    look_again_at: Option<Instant>,
    looked: Option<Instant>,
    stall: Stall,
}

/// What time it is, by both clocks, and where the screen is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) wall: SystemTime,
    pub(crate) screen: Seq,
    /// Who alone may type, if somebody has locked the terminal.
    pub(crate) lock: Option<Held>,
}

impl Now {
    /// Lets a writer type, unless another one has locked the terminal.
    pub(crate) fn check_lock(&self, writer: WriterId) -> Result<(), Error> {
        self.lock.map_or(Ok(()), |held| held.check(writer, self.instant))
    }

    pub(crate) fn millis(&self) -> u64 {
        self.wall.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    pub(crate) fn rfc3339(&self) -> String {
        humantime::format_rfc3339_millis(self.wall).to_string()
    }
}

impl Agent {
    pub(crate) fn new(
        driver: Box<dyn Driver>,
        runtime: Runtime,
        grace: Duration,
        stop: StopConfig,
        transcript: Option<String>,
        now: &Now,
    ) -> Self {
        Self {
            driver,
            arbiter: Arbiter::new(grace),
            runtime,
            asks: Asks::default(),
            nudges: Nudges::default(),
            performance: None,
            gate: gate::Gate::new(stop),
            usage: UsageBook::default(),
            heard: VecDeque::new(),
            since: (now.screen, now.wall),
            session_id: None,
            transcript,
            permission_mode: None,
            last_message: None,
            in_turn: false,
            closing: None,
            settles_at: None,
            hooked: false,
            began: false,
            polled: None,
            title_count: 0,
            look_at: None,
            look_again_at: None,
            looked: None,
            stall: Stall::new(now.instant),
        }
    }

    /// Counts on from the agent that ran before: no answer to an ask of that one may hit another.
    pub(crate) fn count_on(&mut self, before: &Self) {
        self.asks.count_on(&before.asks);
        self.nudges.count_on(&before.nudges);
    }

    /// Numbers asks after those of an earlier sidecar.
    pub(crate) fn number_asks_after(&mut self, count: u64) {
        self.asks.number_after(count);
    }

    /// Records the permission mode that the agent was started in. What its sources tell later counts more.
    pub(crate) fn record_start_mode(&mut self, mode: PermissionMode) -> Effect {
        self.permission_mode = Some(mode);
        Effect::Record(EventBody::Lifecycle(Lifecycle::PermissionMode { mode }))
    }

    pub(crate) fn state(&self) -> &AgentState {
        self.arbiter.state()
    }

    pub(crate) fn runtime(&self) -> Runtime {
        self.runtime
    }

    pub(crate) fn transcript(&self) -> Option<&str> {
        self.transcript.as_deref()
    }

    pub(crate) fn usage(&self) -> coop_api::UsageReport {
        self.usage.report()
    }

    /// Notes that the screen changed; it is looked at soon.
    pub(crate) fn screen_changed(&mut self, now: Instant) {
        if self.runtime == Runtime::Pty && self.look_at.is_none() {
            self.look_at = Some(self.looked.map_or(now, |looked| now.max(looked + LOOK_PACE)));
        }
    }

    /// Tells whether it is time to look at the screen.
    pub(crate) fn wants_look(&self, now: Instant) -> bool {
        [self.look_at, self.look_again_at].into_iter().flatten().any(|at| at <= now)
    }

    /// Looks at the screen and the title.
    pub(crate) fn look(&mut self, screen: &Screen, now: &Now) -> Vec<Effect> {
        self.look_at = None;
        self.look_again_at = self.look_again_at.filter(|at| *at > now.instant);
        self.looked = Some(now.instant);
        let mut effects = Vec::new();
        // A title that was set anew is news, also where it is the same: another may have been there between two looks.
        if screen.title_count != self.title_count {
            self.title_count = screen.title_count;
            self.look_again_at = Some(now.instant + TITLE_LEAD);
            effects.extend(self.observe(&Observation::Title(&screen.title), now));
        }
        self.record_screen(screen, now, &mut effects);
        effects.extend(self.observe(&Observation::Screen(screen), now));
        effects
    }

    /// Takes in something that was seen.
    pub(crate) fn observe(&mut self, seen: &Observation<'_>, now: &Now) -> Vec<Effect> {
        if let (Observation::Reply { name, status, .. }, Some(performance)) = (seen, &mut self.performance) {
            performance.replied(name, *status);
        }
        let mut effects = Vec::new();
        if matches!(seen, Observation::Link { .. }) {
            self.link_changed(now, &mut effects);
        }
        let signals = self.driver.observe(seen, now.millis());
        if !signals.is_empty() && !matches!(seen, Observation::Screen(_)) {
            self.record_progress("the agent goes on", now, &mut effects);
        }
        for signal in &signals {
            match (&signal.meaning, seen) {
                // A long conversation that is resumed counts, but it is not told again.
                (Meaning::Used { id, usage, .. }, Observation::LogLine { past: true, .. }) => {
                    self.usage.add_past(id, *usage);
                }
                _ => self.hear(signal, now, &mut effects),
            }
        }
        self.close_turn(now, &mut effects);
        effects.extend(self.driver.say().into_iter().map(Effect::Say));
        effects
    }

    /// Tells whether somebody wants something of the agent.
    pub(crate) fn is_wanted(&self) -> bool {
        self.performance.is_some() || self.nudges.are_waiting()
    }

    /// Takes a signal into account. What was said and done in a turn is told before its end, also if that is known sooner.
    fn hear(&mut self, signal: &Signal, now: &Now, effects: &mut Vec<Effect>) {
        match &signal.meaning {
            Meaning::Idle(_) | Meaning::Blocked(_) if self.in_turn && self.driver.is_behind() => {
                self.remember(signal, "the log has more to tell", now);
                let (closing, _) = self.closing.get_or_insert_with(|| (signal.clone(), now.instant + CATCH_UP));
                // The best source knows best how it ended.
                if signal.source < closing.source {
                    *closing = signal.clone();
                }
                return;
            }
            Meaning::Idle(_) | Meaning::Blocked(_) => {
                let closing = self.closing.take().filter(|(closing, _)| closing.source < signal.source);
                if let Some((closing, _)) = closing {
                    self.hear_now(&closing, now, effects);
                }
            }
            // The next one begins before the log has told all of the last.
            Meaning::TurnBegan { .. } | Meaning::Ask(_) => self.close_turn_at_once(now, effects),
            Meaning::Working { .. } if signal.source <= EvidenceSource::SessionLog => {
                self.close_turn_at_once(now, effects);
            }
            _ => {}
        }
        self.hear_now(signal, now, effects);
    }

    /// Ends the turn that waited for the log, once that has told all of it.
    fn close_turn(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        let is_due = self.closing.as_ref().is_some_and(|(_, until)| *until <= now.instant);
        if is_due || !self.driver.is_behind() {
            self.close_turn_at_once(now, effects);
        }
    }

    fn close_turn_at_once(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        if let Some((signal, _)) = self.closing.take() {
            self.hear_now(&signal, now, effects);
        }
    }

    fn hear_now(&mut self, signal: &Signal, now: &Now, effects: &mut Vec<Effect>) {
        let verdict = match &signal.meaning {
            Meaning::Ask(draft) => self.ask_heard(signal, draft, now, effects),
            Meaning::AskGone { about } => self.ask_gone(signal, about.as_ref(), now, effects),
            Meaning::RequestGone { request } => self.request_gone(signal, request, effects),
            _ => {
                self.note(signal, now, effects);
                self.arbiter.hear(signal, now.instant)
            }
        };
        self.remember(signal, verdict.as_str(), now);
        self.follow(verdict, now, effects);
        self.prove(signal);
    }

    /// Records what a signal tells beside the state.
    fn note(&mut self, signal: &Signal, now: &Now, effects: &mut Vec<Effect>) {
        let mut record = |body| effects.push(Effect::Record(body));
        match &signal.meaning {
            Meaning::Session { id, transcript } => {
                if self.session_id.as_ref() != Some(id) {
                    self.session_id = Some(id.clone());
                    record(EventBody::Lifecycle(Lifecycle::Session { id: id.clone() }));
                }
                if transcript.is_some() && *transcript != self.transcript {
                    self.transcript.clone_from(transcript);
                    effects.extend(transcript.clone().map(Effect::WatchLog));
                }
            }
            Meaning::PermissionMode(mode) => {
                if self.permission_mode.replace(*mode) != Some(*mode) {
                    record(EventBody::Lifecycle(Lifecycle::PermissionMode { mode: *mode }));
                }
            }
            Meaning::TurnBegan { prompt } => {
                self.begin_turn(prompt.clone(), effects);
                self.withdraw_all("a turn began", effects);
            }
            Meaning::Idle(outcome) => {
                if *outcome == TurnOutcome::Interrupted && self.runtime == Runtime::Pty {
                    self.settles_at = Some(now.instant + SETTLING);
                }
                self.end_turn(*outcome, now, effects);
                self.withdraw_all("the agent is idle", effects);
            }
            Meaning::Blocked(fault) => {
                record(EventBody::Fault(FaultReport { fault: fault.clone(), retry: None }));
                self.end_turn(TurnOutcome::Failed, now, effects);
                self.withdraw_all("the agent gave up", effects);
            }
            Meaning::Lost => self.withdraw_all("the agent cannot be reached", effects),
            Meaning::Retrying(report) => record(EventBody::Fault(report.clone())),
            Meaning::Said(message) => {
                if message.role == Role::Assistant && message.subagent.is_none() {
                    self.last_message = Some(message.text.clone());
                }
                record(EventBody::Message(message.clone()));
            }
            Meaning::Tool(tool) => record(EventBody::Tool(tool.clone())),
            Meaning::Wrote(artifact) => record(EventBody::Artifact(artifact.clone())),
            Meaning::Used { id, usage, at } => {
                if self.usage.add(id, *usage, *at) {
                    record(EventBody::Usage(self.usage.report()));
                }
            }
            Meaning::UsedBefore { id, usage } => drop(self.usage.add_past(id, *usage)),
            Meaning::StopWanted { last_message, .. } => {
                if last_message.is_some() {
                    self.last_message.clone_from(last_message);
                }
            }
            Meaning::Started(source) => {
                // What was said in another conversation is not said in this one.
                if *source == StartSource::Clear {
                    self.last_message = None;
                }
                if std::mem::replace(&mut self.began, true) {
                    effects.push(Effect::ForgetStatus);
                }
            }
            Meaning::Command { .. }
            | Meaning::Working { .. }
            | Meaning::Replied { .. }
            | Meaning::Quiet
            | Meaning::Unclear
            | Meaning::Ask(_)
            | Meaning::AskGone { .. }
            | Meaning::RequestGone { .. } => {}
        }
    }

    fn begin_turn(&mut self, prompt: Option<String>, effects: &mut Vec<Effect>) {
        self.in_turn = true;
        self.last_message = None;
        self.usage.begin_turn();
        effects.push(Effect::Record(EventBody::Turn(Turn::Began { prompt })));
    }

    fn end_turn(&mut self, outcome: TurnOutcome, now: &Now, effects: &mut Vec<Effect>) {
        if std::mem::take(&mut self.in_turn) {
            self.usage.end_turn(now.millis());
            effects.push(Effect::Record(EventBody::Turn(Turn::Ended { outcome })));
        }
    }

    fn remember(&mut self, signal: &Signal, verdict: &str, now: &Now) {
        if self.heard.len() == HEARD {
            self.heard.pop_front();
        }
        self.heard.push_back(Heard {
            ts: now.rfc3339(),
            source: signal.source,
            detail: signal.detail.clone(),
            meaning: signal.meaning.name().to_owned(),
            verdict: verdict.to_owned(),
        });
    }

    /// Records a change of state.
    fn follow(&mut self, verdict: Verdict, now: &Now, effects: &mut Vec<Effect>) {
        let Verdict::Changed(Change { prev, next }) = verdict else { return };
        self.since = (now.screen, now.wall);
        let change = StateChange {
            prev,
            screen_seq: now.screen,
            evidence: self.arbiter.evidence().clone(),
            ask: self.asks.first_of(&next),
            last_message: self.last_message.clone().filter(|_| next == AgentState::Idle),
            next,
        };
        effects.push(Effect::Record(EventBody::State(Box::new(change))));
    }

    /// Passes a signal to whoever waits for a proof.
    fn prove(&mut self, signal: &Signal) {
        use Expected::{AskGone, Command, Idle, TurnBegan};
        let Some(performance) = &mut self.performance else { return };
        let is_strong = signal.source <= EvidenceSource::SessionLog;
        let proves = match &signal.meaning {
            Meaning::TurnBegan { .. } => vec![TurnBegan, Command, AskGone],
            // Whoever asks has begun, where no hook tells so. A dialog of its own is what a command opened.
            Meaning::Ask(draft) if draft.kind != AskKind::Setup && !self.hooked => vec![TurnBegan, Command],
            Meaning::Ask(_) if is_strong => vec![Command],
            Meaning::Started(_) | Meaning::Command { .. } => vec![Command],
            Meaning::Working { .. } if is_strong => vec![Command],
            // It asks nothing any more.
            Meaning::Idle(_) | Meaning::Blocked(_) => vec![Idle, AskGone],
            // What settles another ask proves nothing of this one.
            Meaning::AskGone { about } if performance.is_about(about.as_ref(), signal.source) => vec![AskGone],
            Meaning::RequestGone { request } if performance.answers(request) => vec![AskGone],
            Meaning::Replied { request, error: Some(_) } if performance.has_sent(request) => {
                return performance.refuse(Proof::of(signal));
            }
            Meaning::Replied { request, .. } => vec![Expected::Reply(request.clone())],
            _ => return,
        };
        performance.prove(&proves, Proof::of(signal));
    }

    /// Notes the end of the process. Everybody who waits is told.
    pub(crate) fn exited(&mut self, code: Option<i32>, signal: Option<i32>, now: &Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.close_turn_at_once(now, &mut effects);
        self.fail_all(&Error::exited(), now, &mut effects);
        self.withdraw_all("the agent has exited", &mut effects);
        self.end_turn(TurnOutcome::Failed, now, &mut effects);
        let verdict = self.arbiter.exited(code, signal);
        self.follow(verdict, now, &mut effects);
        effects
    }

    /// Returns when something is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let performing = self.performance.as_ref().and_then(Performance::deadline);
        let settled = self.settles_at.filter(|_| self.nudges.are_waiting());
        let patience = self.nudges.patience();
        let closing = self.closing.as_ref().map(|(_, until)| *until);
        let due = [
            settled,
            patience,
            self.look_at,
            self.look_again_at,
            self.arbiter.deadline(),
            performing,
            self.asks.deadline(),
            closing,
            self.stall_deadline(),
        ];
        due.into_iter().flatten().min()
    }

    /// Does what is due, except looking.
    pub(crate) fn tick(&mut self, screen: &Screen, now: &Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.close_turn(now, &mut effects);
        let verdict = self.arbiter.tick(now.instant);
        self.follow(verdict, now, &mut effects);
        self.open_due_dialog(now, &mut effects);
        self.judge_stall(screen, now, &mut effects);
        effects.extend(self.go_on(screen, now));
        effects
    }

    pub(crate) fn report(&self, agent: &str, screen_seq: Seq, now: Instant) -> AgentReport {
        let state = self.arbiter.state().clone();
        AgentReport {
            agent: agent.to_owned(),
            ask: self.asks.first_of(&state),
            state,
            since_seq: self.since.0,
            since: humantime::format_rfc3339_millis(self.since.1).to_string(),
            screen_seq,
            evidence: self.arbiter.evidence().clone(),
            idle_grace_remaining: self.arbiter.deadline().map(|at| at.saturating_duration_since(now)),
            session_id: self.session_id.clone(),
            last_message: self.last_message.clone(),
            queue: self.nudges.list(),
            stop_held: self.gate.is_holding(),
            runtime: self.runtime.as_str(),
            permission_mode: self.permission_mode,
            capabilities: self.driver.capabilities().to_vec(),
            quiet_for: Duration::ZERO,
        }
    }

    /// Tells whether something can be done with the agent.
    pub(crate) fn can(&self, what: Capability) -> bool {
        self.driver.capabilities().contains(&what)
    }

    /// Returns why something cannot be done with the agent.
    pub(crate) fn cannot(&self, what: Capability, no_driver: Error) -> Error {
        if self.driver.capabilities().is_empty() {
            return no_driver;
        }
        let why = format!("this agent has no {} in its {} runtime", what.as_str(), self.runtime.as_str());
        Error::new(ErrorCode::Unsupported, why)
    }

    /// Tells whether a status file is the agent's own.
    pub(crate) fn owns_status(&self, file: &Value) -> bool {
        self.driver.owns_status(file)
    }

    /// Tells whether the agent stays as it is until a message or an answer comes.
    pub(crate) fn is_resting(&self) -> bool {
        let rests = match self.arbiter.state() {
            AgentState::Idle | AgentState::Waiting { .. } | AgentState::Blocked { .. } | AgentState::Exited { .. } => {
                true
            }
            AgentState::Starting | AgentState::Working { .. } | AgentState::Unknown => false,
        };
        rests && !self.is_wanted()
    }

    /// Records why the agent's files are polled; `None` ends it.
    pub(crate) fn files_polled(&mut self, why: Option<&str>, now: &Now) {
        self.polled = why.map(|why| Heard {
            ts: now.rfc3339(),
            source: EvidenceSource::SessionLog,
            detail: format!("the agent's files are polled, because {why}"),
            meaning: "polled".to_owned(),
            verdict: "what they say is known up to 2 s late".to_owned(),
        });
    }

    pub(crate) fn explain(&self) -> Explanation {
        let mut signals: Vec<_> = self.heard.iter().cloned().collect();
        if let Some(polled) = &self.polled {
            let at = signals.partition_point(|heard| heard.ts <= polled.ts);
            signals.insert(at, polled.clone());
        }
        let (state, evidence) = (self.arbiter.state().clone(), self.arbiter.evidence().clone());
        let missing_signals = self.driver.missing_signals().into_iter().map(str::to_owned).collect();
        Explanation { state, evidence, permission_mode: self.permission_mode, signals, missing_signals }
    }

    fn withdraw_all(&mut self, why: &str, effects: &mut Vec<Effect>) {
        for ask in self.asks.close_all() {
            // Whether one is answered that is being answered shows when that is through.
            if !self.is_being_answered(&ask) {
                effects.push(withdrawn(ask, why));
            }
        }
    }

    fn is_being_answered(&self, ask: &AskId) -> bool {
        self.performance.as_ref().is_some_and(|performance| performance.is_answer_to(ask))
    }

    fn evidence(signal: &Signal) -> Evidence {
        Evidence { source: signal.source, detail: signal.detail.clone() }
    }
}

fn withdrawn(ask: AskId, why: &str) -> Effect {
    Effect::Record(EventBody::Ask(AskChange::Withdrawn { ask, why: why.to_owned() }))
}

#[cfg(test)]
mod tests;
