//! What the agent asks, and who waits for the answer.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use coop_api::{
    AgentState, Answer, Ask, AskChange, AskChannel, AskId, AskKind, AskOption, Error, ErrorCode, EventBody, Evidence,
    EvidenceSource, OptionKind, Reply, Screen, WriterId,
};
use coop_drivers::{AskDraft, Expected, Meaning, Reach, Refusal, Signal, Verdict, View};
use serde_json::Value;

use super::perform::{Performance, Proof, Purpose, Via};
use super::stall::wants_keys;
use super::{Agent, Effect, Now, ReplyTo, withdrawn};

/// A dialog on the screen counts as an ask of its own only if no hook reports it within this time.
const HOOK_LEAD: Duration = Duration::from_secs(5);

/// What the names of asks begin with; their number follows.
const NAME: &str = "ask-";

/// The asks, oldest first.
#[derive(Default)]
pub(super) struct Asks {
    open: Vec<OpenAsk>,
    /// A dialog that was seen on the screen and is not an ask of its own, and since when it could be one.
    seen: Option<(Signal, Instant)>,
    /// What was answered through us in this turn: the tools that were allowed will be used.
    answered: Vec<(String, Value)>,
    count: u64,
}

struct OpenAsk {
    ask: Ask,
    reach: Reach,
    /// The hook that waits for the answer.
    held: Option<ReplyTo>,
}

impl Asks {
    pub(super) fn count_on(&mut self, before: &Self) {
        self.number_after(before.count);
    }

    pub(super) fn number_after(&mut self, count: u64) {
        self.count = count;
    }

    pub(super) fn is_open(&self, id: &AskId) -> bool {
        self.open.iter().any(|open| open.ask.id == *id)
    }

    /// Tells whether nothing is asked and no dialog on the screen is about to be.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.seen.is_none()
    }

    /// Returns the ask that was opened last.
    pub(super) fn newest(&self) -> Option<AskId> {
        self.open.last().map(|open| open.ask.id.clone())
    }

    /// Returns the ask that a state is about.
    pub(super) fn first_of(&self, state: &AgentState) -> Option<Ask> {
        let AgentState::Waiting { ask, .. } = state else { return None };
        self.open.iter().find(|open| open.ask.id == *ask).map(|open| open.ask.clone())
    }

    pub(super) fn close_all(&mut self) -> Vec<AskId> {
        self.seen = None;
        self.answered.clear();
        self.open.drain(..).map(OpenAsk::release).collect()
    }

    /// Tells whether there ever was an ask of this name.
    fn has_been(&self, id: &AskId) -> bool {
        id.0.strip_prefix(NAME)
            .and_then(|number| number.parse().ok())
            .is_some_and(|number| (1..=self.count).contains(&number))
    }

    /// Returns when a dialog on the screen counts.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.seen.as_ref().filter(|_| self.open.is_empty()).map(|(_, since)| *since + HOOK_LEAD)
    }

    /// Notes a dialog that may be an ask of its own if nobody else tells of it.
    fn see(&mut self, signal: &Signal, now: &Now) {
        // What cannot be read may look a little different each time.
        let is_unread = |signal: &Signal| matches!(&signal.meaning, Meaning::Ask(draft) if draft.options.is_empty());
        let since = match &self.seen {
            Some((seen, since)) if is_unread(seen) && is_unread(signal) => *since,
            _ => now.instant,
        };
        self.seen = Some((signal.clone(), since));
    }

    /// Lets the dialog of an ask that is settled leave the screen. If it stays it is an ask.
    fn await_screen(&mut self, now: &Now) {
        if let Some((_, since)) = &mut self.seen {
            *since = now.instant;
        }
    }

    /// Takes those asks out that are about the use of a tool: the oldest that is, unless it was answered through us.
    fn take_about(&mut self, tool: &str, input: &Value) -> Vec<OpenAsk> {
        if let Some(at) = self.answered.iter().position(|(of, with)| of == tool && with == input) {
            self.answered.remove(at);
            return Vec::new();
        }
        let is_meant =
            |open: &OpenAsk| open.ask.tool.as_deref() == Some(tool) && open.ask.input.as_ref() == Some(input);
        let at = self.open.iter().position(is_meant);
        at.map(|at| self.open.remove(at)).into_iter().collect()
    }

    fn has_structured(&self) -> bool {
        self.open.iter().any(|open| open.ask.channel == AskChannel::Structured)
    }
}

impl OpenAsk {
    /// Lets a hook go on without an answer.
    fn release(self) -> AskId {
        if let Some(held) = self.held {
            let _ = held.send(Ok(Reply::Hook(None)));
        }
        self.ask.id
    }
}

impl Agent {
    pub(super) fn ask_heard(
        &mut self,
        signal: &Signal,
        draft: &AskDraft,
        now: &Now,
        effects: &mut Vec<Effect>,
    ) -> Verdict {
        if draft.reach != Reach::Keys {
            return self.open_structured(signal, draft, now, effects);
        }
        if self.asks.has_structured() {
            self.asks.see(signal, now);
            return Verdict::Ignored("it is the dialog of what a hook asks");
        }
        if let Some(performance) = self.performance.as_mut().filter(|performance| performance.is_answer()) {
            if performance.is_filling(draft) {
                // What came up before it, while it was drawn, was the same.
                self.asks.seen = None;
                return Verdict::Ignored("it shows what is typed into it");
            }
            // If nothing is left to be typed it shows that the one before took its answer.
            performance.prove(&[Expected::AskGone], Proof::of(signal));
            self.asks.see(signal, now);
            return Verdict::Ignored("an answer is being typed into it");
        }
        let (replaced, open): (Vec<_>, Vec<_>) = self.asks.open.drain(..).partition(|open| open.reach == Reach::Keys);
        self.asks.open = open;
        let is_sight = signal.source == EvidenceSource::Screen;
        if is_sight && self.hooked && draft.kind != AskKind::Setup && replaced.is_empty() {
            self.asks.see(signal, now);
            return Verdict::Ignored("a hook may report it yet");
        }
        if draft.options.is_empty() {
            self.asks.see(signal, now);
            let verdict = self.close_each(replaced, signal, effects);
            return verdict.unwrap_or(Verdict::Ignored("it may not be all on the screen yet"));
        }
        // The new one first: in between it is not working.
        let opened = self.open_ask(signal, draft, now, effects);
        self.close_each(replaced, signal, effects).unwrap_or(opened)
    }

    /// Opens what the agent itself tells of, in place of its dialog if that was seen long before.
    fn open_structured(&mut self, signal: &Signal, draft: &AskDraft, now: &Now, effects: &mut Vec<Effect>) -> Verdict {
        let answered = self.performance.as_ref().is_some_and(Performance::is_answer);
        let is_same = |open: &OpenAsk| open.reach == Reach::Keys && open.ask.kind == draft.kind && !answered;
        let (seen, open): (Vec<_>, Vec<_>) = self.asks.open.drain(..).partition(is_same);
        self.asks.open = open;
        let mut verdict = self.open_ask(signal, draft, now, effects);
        for ask in seen {
            let closed = self.close(ask, "the agent tells more of the same", Self::evidence(signal), effects);
            if matches!(closed, Verdict::Changed(_)) {
                verdict = closed;
            }
        }
        verdict
    }

    /// Closes asks whose dialog another one has replaced, and returns how that changed the state.
    fn close_each(&mut self, asks: Vec<OpenAsk>, signal: &Signal, effects: &mut Vec<Effect>) -> Option<Verdict> {
        let mut changed = None;
        for ask in asks {
            let closed = self.close(ask, "another dialog is on the screen", Self::evidence(signal), effects);
            if matches!(closed, Verdict::Changed(_)) {
                changed = Some(closed);
            }
        }
        changed
    }

    /// Opens the dialog that was on the screen when an answer was through.
    pub(super) fn open_seen(&mut self, now: &Now, effects: &mut Vec<Effect>) -> Option<Verdict> {
        let (signal, _) = self.asks.seen.take_if(|(signal, _)| {
            let is_setup = matches!(&signal.meaning, Meaning::Ask(draft) if draft.kind == AskKind::Setup);
            !self.hooked || is_setup
        })?;
        let Meaning::Ask(draft) = &signal.meaning else { return None };
        let verdict = self.open_ask(&signal, draft, now, effects);
        self.remember(&signal, verdict.as_str(), now);
        Some(verdict)
    }

    /// Takes a dialog on the screen for an ask when no hook has reported it.
    pub(super) fn open_due_dialog(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        if self.asks.deadline().is_none_or(|at| at > now.instant) {
            return;
        }
        if let Some((signal, _)) = self.asks.seen.take()
            && let Meaning::Ask(draft) = &signal.meaning
        {
            let verdict = self.open_ask(&signal, draft, now, effects);
            self.remember(&signal, verdict.as_str(), now);
            self.follow(verdict, now, effects);
        }
    }

    pub(super) fn open_ask(
        &mut self,
        signal: &Signal,
        draft: &AskDraft,
        now: &Now,
        effects: &mut Vec<Effect>,
    ) -> Verdict {
        if draft.reach == Reach::Keys {
            self.asks.seen = None;
        }
        self.asks.count += 1;
        let ask = Ask {
            id: AskId(format!("{NAME}{}", self.asks.count)),
            kind: draft.kind,
            tool: draft.tool.clone(),
            input: draft.input.clone(),
            preview: draft.preview.clone(),
            questions: draft.questions.clone(),
            options: draft.options.clone(),
            opened: now.rfc3339(),
            channel: match draft.reach {
                Reach::Hook { .. } | Reach::Control { .. } => AskChannel::Structured,
                Reach::Keys => AskChannel::Keys,
            },
            screen_lines: draft.screen_lines.clone(),
        };
        effects.push(Effect::Record(EventBody::Ask(AskChange::Opened { ask: Box::new(ask.clone()) })));
        let (id, kind) = (ask.id.clone(), ask.kind);
        self.asks.open.push(OpenAsk { ask, reach: draft.reach.clone(), held: None });
        self.arbiter.open_ask(id, kind, Self::evidence(signal))
    }

    /// Lets the newest ask's hook wait for the answer. Without an ask the hook goes on.
    pub(super) fn hold(&mut self, hook: ReplyTo) {
        match self.asks.open.last_mut().filter(|open| open.held.is_none()) {
            Some(open) => open.held = Some(hook),
            None => drop(hook.send(Ok(Reply::Hook(None)))),
        }
    }

    pub(super) fn ask_gone(
        &mut self,
        signal: &Signal,
        about: Option<&(String, Value)>,
        now: &Now,
        effects: &mut Vec<Effect>,
    ) -> Verdict {
        let gone = match about {
            None => {
                self.asks.seen = None;
                // What the screen no longer shows is settled only if the screen is all there is.
                let is_meant = |open: &OpenAsk| signal.source != EvidenceSource::Screen || open.reach == Reach::Keys;
                let (gone, open) = self.asks.open.drain(..).partition(is_meant);
                self.asks.open = open;
                gone
            }
            Some((tool, input)) => {
                self.asks.await_screen(now);
                self.asks.take_about(tool, input)
            }
        };
        let mut verdict = Verdict::Agrees;
        for ask in gone {
            let next = self.close(ask, &signal.detail, Self::evidence(signal), effects);
            if matches!(next, Verdict::Changed(_)) {
                verdict = next;
            }
        }
        verdict
    }

    pub(super) fn request_gone(&mut self, signal: &Signal, request: &str, effects: &mut Vec<Effect>) -> Verdict {
        let is_meant = |open: &OpenAsk| matches!(&open.reach, Reach::Control { request: of, .. } if of == request);
        match self.asks.open.iter().position(is_meant) {
            Some(at) => {
                let ask = self.asks.open.remove(at);
                self.close(ask, &signal.detail, Self::evidence(signal), effects)
            }
            None => Verdict::Agrees,
        }
    }

    fn close(&mut self, ask: OpenAsk, why: &str, evidence: Evidence, effects: &mut Vec<Effect>) -> Verdict {
        let id = ask.release();
        let verdict = self.arbiter.close_ask(&id, None, evidence);
        if !self.is_being_answered(&id) {
            effects.push(withdrawn(id, why));
        }
        verdict
    }

    /// Looks for hooks that went away: the agent no longer waits for them.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<AskId> {
        for open in &mut self.asks.open {
            if let Some(held) = &mut open.held
                && held.poll_closed(cx).is_ready()
            {
                open.held = None;
                return Poll::Ready(open.ask.id.clone());
            }
        }
        Poll::Pending
    }

    /// Settles an ask whose hook went away: somebody answered at the keyboard, or the turn was interrupted.
    pub(crate) fn hook_gone(&mut self, id: &AskId, now: &Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Some(at) = self.asks.open.iter().position(|open| open.ask.id == *id) else { return effects };
        let ask = self.asks.open.remove(at);
        self.asks.await_screen(now);
        let why = "the agent no longer waits for its hook";
        let evidence = Evidence { source: EvidenceSource::Hook, detail: why.to_owned() };
        let verdict = self.close(ask, why, evidence, &mut effects);
        self.follow(verdict, now, &mut effects);
        effects
    }

    pub(crate) fn asks(&self) -> Vec<Ask> {
        self.asks.open.iter().map(|open| open.ask.clone()).collect()
    }

    /// Answers an ask.
    pub(crate) fn respond(
        &mut self,
        writer: WriterId,
        answer: &Answer,
        reply: ReplyTo,
        screen: &Screen,
        now: &Now,
    ) -> Vec<Effect> {
        let steps = self.find(answer).and_then(|at| {
            let open = &self.asks.open[at];
            answer.check(open.ask.kind).map_err(|why| Error::new(ErrorCode::BadRequest, why))?;
            let steps = if wants_keys(&open.ask, &open.reach) {
                Self::type_answer(&open.ask, answer, screen)?
            } else if answer.keys.is_empty() {
                let view = View { runtime: self.runtime, screen };
                self.driver.answer(&open.ask, &open.reach, answer, &view).map_err(refused)?
            } else {
                let why = format!("{} takes no keys; answer it with one of its options", open.ask.id);
                return Err(Error::bad_request(why));
            };
            Ok((open.ask.clone(), open.reach.clone(), steps))
        });
        match steps {
            Ok((ask, reach, steps)) => {
                let answer = GivenAnswer { told: describe(answer), allows: allows(&ask, answer) };
                let purpose = Purpose::Answer { ask: Box::new(ask), reach, answer, reply };
                self.perform(Performance::new(purpose, writer, steps, self.state()), screen, now)
            }
            Err(error) => {
                let _ = reply.send(Err(error));
                Vec::new()
            }
        }
    }

    fn find(&self, answer: &Answer) -> Result<usize, Error> {
        if self.performance.is_some() {
            return Err(Error::new(ErrorCode::WriterBusy, "another message or answer is on its way; try again"));
        }
        match &answer.ask {
            Some(id) => self.asks.open.iter().position(|open| open.ask.id == *id).ok_or_else(|| {
                if self.asks.has_been(id) {
                    let why = format!("{id} was answered already, or the agent moved on");
                    return Error::new(ErrorCode::AlreadyAnswered, why);
                }
                Error::new(ErrorCode::NoPrompt, format!("there is no {id}; see GET /api/v1/agent/asks"))
            }),
            None if self.asks.open.is_empty() && self.driver.capabilities().is_empty() => {
                let why = "coop does not know this program, so it cannot tell what it asks; use /api/v1/input";
                Err(Error::new(ErrorCode::NoDriver, why))
            }
            None if self.asks.open.is_empty() => {
                Err(Error::new(ErrorCode::NoPrompt, format!("the agent asks nothing; it is {}", self.state().as_str())))
            }
            None => Ok(0),
        }
    }

    /// Gives the hook of an ask its answer. Returns false if the hook is gone.
    pub(super) fn answer_hook(&mut self, id: &AskId, value: Value) -> bool {
        let open = self.asks.open.iter_mut().find(|open| open.ask.id == *id);
        match open.and_then(|open| open.held.take()) {
            Some(held) => held.send(Ok(Reply::Hook(Some(value)))).is_ok(),
            None => false,
        }
    }

    /// Settles an ask that was answered through us.
    pub(super) fn settle(&mut self, id: &AskId, answer: &GivenAnswer, via: Via, now: &Now, effects: &mut Vec<Effect>) {
        let mut allowed = None;
        if let Some(at) = self.asks.open.iter().position(|open| open.ask.id == *id) {
            let Ask { tool, input, .. } = self.asks.open.remove(at).ask;
            allowed = tool.clone().filter(|_| answer.allows);
            self.asks.answered.extend(tool.zip(input));
        }
        self.asks.await_screen(now);
        let change = AskChange::Answered { ask: id.clone(), answer: answer.told.clone(), via: via.as_str().to_owned() };
        effects.push(Effect::Record(EventBody::Ask(change)));
        let evidence = Evidence { source: via.source(), detail: format!("answered by {}", via.as_str()) };
        // A next question is on the screen already: in between it is not working.
        let opened = self.open_seen(now, effects);
        let closed = self.arbiter.close_ask(id, allowed, evidence);
        for verdict in opened.into_iter().chain([closed]) {
            self.follow(verdict, now, effects);
        }
    }

    /// Notes that nothing shows that an ask took its answer. If it is not there any more, nobody answered it.
    pub(super) fn unsettled(&mut self, id: &AskId, why: &str, now: &Now, effects: &mut Vec<Effect>) {
        let is_replaced = self.asks.seen.is_some();
        let at = self.asks.open.iter().position(|open| open.ask.id == *id);
        if at.is_some() && !is_replaced {
            return;
        }
        let opened = self.open_seen(now, effects);
        at.map(|at| self.asks.open.remove(at));
        effects.push(withdrawn(id.clone(), why));
        let evidence = Evidence { source: EvidenceSource::Screen, detail: why.to_owned() };
        let closed = self.arbiter.close_ask(id, None, evidence);
        for verdict in opened.into_iter().chain([closed]) {
            self.follow(verdict, now, effects);
        }
    }
}

/// An answer that is on its way.
pub(super) struct GivenAnswer {
    /// The answer in a few words.
    told: String,
    /// Whether a tool runs because of it.
    allows: bool,
}

/// Tells whether an answer allows the tool that an ask is about.
fn allows(ask: &Ask, answer: &Answer) -> bool {
    let option = || ask.options.get((answer.option? as usize).checked_sub(1)?);
    let is_allowed = |option: &AskOption| matches!(option.kind, OptionKind::AllowOnce | OptionKind::AllowAlways);
    ask.kind == AskKind::Permission && answer.accept.unwrap_or_else(|| option().is_some_and(is_allowed))
}

/// Says in a few words what an answer is.
fn describe(answer: &Answer) -> String {
    serde_json::to_value(answer)
        .ok()
        .and_then(|value| {
            let fields = value.as_object()?.clone();
            let told =
                |value: &Value| !matches!(value, Value::Null | Value::Bool(false)) && *value != Value::Array(vec![]);
            let kept = fields.into_iter().filter(|(key, value)| key == "accept" && !value.is_null() || told(value));
            Some(Value::Object(kept.filter(|(key, _)| key != "ask" && key != "shown").collect()).to_string())
        })
        .unwrap_or_default()
}

pub(super) fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::NoSuchOption(why) => Error::new(ErrorCode::NoSuchOption, why),
        Refusal::Occupied(why) | Refusal::NotYet(why) => Error::new(ErrorCode::AgentBusy, why),
        Refusal::BadRequest(why) => Error::bad_request(why),
        Refusal::NoDriver(why) => Error::new(ErrorCode::NoDriver, why),
        Refusal::Unsupported(why) => Error::new(ErrorCode::Unsupported, why),
    }
}
