//! Agents that are not there: in memory, obedient, and with a record of all that was asked.

mod agent;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coop_api::{
    AgentId, AgentState, Answer, AskChange, Error, ErrorCode, EventBody, Lifecycle, Seq, StopOutcome, StopVerdict,
    Usage, UsageReport,
};
use tokio::sync::mpsc;

use self::agent::FakeAgent;
use super::{AgentAdapter, AgentAdapterError, AgentConfig, AgentHandle, AgentReconnectConfig};
use crate::Fact;
use crate::engine::Input;

/// Which of the twelve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the trait's")]
pub enum Operation {
    Spawn,
    Send,
    Respond,
    Kill,
    Reconnect,
    GetState,
    LastMessage,
    ResolveStop,
    IsAlive,
    CaptureOutput,
    FetchTranscript,
    FetchUsage,
}

/// Something that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What.
    pub operation: Operation,
    /// Of which agent.
    pub agent: AgentId,
    /// The message, the answer as JSON, or how many lines.
    pub with: String,
}

/// Agents in memory. A message is answered with itself; `[[bash:…]]` in it asks first, `[[err:…]]` fails and `[[exit:…]]`
/// ends, as the simulator does.
#[derive(Clone, Debug, Default)]
pub struct FakeAgentAdapter {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    agents: BTreeMap<AgentId, FakeAgent>,
    calls: Vec<Call>,
    spawn_fails: bool,
    tells_stops: bool,
    /// How long after a kill its end is told.
    late_ends: Option<Duration>,
    failures: BTreeMap<Operation, Vec<AgentAdapterError>>,
    delays: BTreeMap<Operation, Duration>,
    breaks: BTreeSet<Operation>,
    gone: BTreeSet<AgentId>,
    sidecars: u32,
}

impl FakeAgentAdapter {
    /// Returns an adapter without agents.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets every spawn fail, or no longer.
    pub fn set_spawn_fails(&self, fails: bool) {
        self.lock().spawn_fails = fails;
    }

    /// Lets the next call of an operation fail, once for each time this is called.
    pub fn fail_next(&self, operation: Operation, error: AgentAdapterError) {
        self.lock().failures.entry(operation).or_default().push(error);
    }

    /// Lets the next call of an operation panic.
    pub fn break_next(&self, operation: Operation) {
        self.lock().breaks.insert(operation);
    }

    /// Lets every call of an operation take so long.
    pub fn delay(&self, operation: Operation, time: Duration) {
        self.lock().delays.insert(operation, time);
    }

    /// Lets agents that are spawned from now on tell how they end their turns, as their configuration says.
    pub fn tell_stops(&self) {
        self.lock().tells_stops = true;
    }

    /// Lets the end of an agent that is killed be told so long after that.
    pub fn tell_ends_late(&self, time: Duration) {
        self.lock().late_ends = Some(time);
    }

    /// Returns all that was asked, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Lets an agent be in a state, and tells of it.
    pub async fn set_state(&self, agent: &AgentId, next: AgentState) {
        self.tell(agent, |fake| fake.become_(next)).await;
    }

    /// Lets an agent want to end its turn and be held.
    pub async fn hold(&self, agent: &AgentId) {
        self.tell(agent, |fake| {
            fake.held = true;
            vec![EventBody::Stop(StopOutcome { outcome: StopVerdict::Blocked, reason: None })]
        })
        .await;
    }

    /// Lets an agent's process end by itself.
    pub async fn exit(&self, agent: &AgentId, code: i32) {
        self.end(agent, Some(code), None).await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A test that panicked has failed already.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what is asked, and says how it goes.
    async fn begin(&self, operation: Operation, agent: &AgentId, with: String) -> Result<(), AgentAdapterError> {
        let (delay, failure) = {
            let mut inner = self.lock();
            inner.calls.push(Call { operation, agent: agent.clone(), with });
            let failure = inner.failures.get_mut(&operation).filter(|left| !left.is_empty()).map(|left| left.remove(0));
            if inner.breaks.remove(&operation) {
                drop(inner);
                std::panic::resume_unwind(Box::new("it was told to break off"));
            }
            (inner.delays.get(&operation).copied(), failure)
        };
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        failure.map_or(Ok(()), Err)
    }

    fn with<T>(&self, agent: &AgentId, act: impl FnOnce(&mut FakeAgent) -> T) -> Result<T, AgentAdapterError> {
        let mut inner = self.lock();
        inner.agents.get_mut(agent).map(act).ok_or_else(|| AgentAdapterError::NotFound(agent.clone()))
    }

    async fn tell(&self, agent: &AgentId, act: impl FnOnce(&mut FakeAgent) -> Vec<EventBody>) {
        let told = self.with(agent, |fake| {
            let bodies = act(fake);
            let facts: Vec<_> = bodies.into_iter().map(|body| fake.record(agent, body)).collect();
            (fake.facts.clone(), facts)
        });
        let Ok((sender, facts)) = told else { return };
        for fact in facts {
            // Nobody has to listen.
            let _ = sender.send(fact).await;
        }
    }

    async fn end(&self, agent: &AgentId, code: Option<i32>, signal: Option<i32>) {
        self.tell(agent, |fake| {
            let mut bodies = fake.close_ask("it exited");
            bodies.extend(fake.become_(AgentState::Exited { code, signal }));
            bodies.push(EventBody::Lifecycle(Lifecycle::Exited { code, signal }));
            bodies
        })
        .await;
        let mut inner = self.lock();
        inner.agents.remove(agent);
        inner.gone.insert(agent.clone());
    }
}

fn refused(code: ErrorCode, message: &str) -> AgentAdapterError {
    AgentAdapterError::Refused(Error::new(code, message))
}

impl AgentAdapter for FakeAgentAdapter {
    async fn spawn(&self, config: AgentConfig, facts: mpsc::Sender<Fact>) -> Result<AgentHandle, AgentAdapterError> {
        let agent = config.agent.clone();
        self.begin(Operation::Spawn, &agent, config.command.join(" ")).await?;
        let sidecar = {
            let mut inner = self.lock();
            if inner.spawn_fails {
                return Err(AgentAdapterError::SpawnFailed { agent, why: "it was told to fail".to_owned() });
            }
            if inner.agents.contains_key(&agent) {
                return Err(AgentAdapterError::Exists(agent));
            }
            inner.sidecars += 1;
            inner.gone.remove(&agent);
            let sidecar = format!("fake-{}", inner.sidecars);
            let fake = FakeAgent {
                sidecar: sidecar.clone(),
                facts: facts.clone(),
                log: Vec::new(),
                state: AgentState::Starting,
                ask: None,
                asks: 0,
                held: false,
                stop: inner.tells_stops.then_some(config.stop),
                last_message: None,
                said: Vec::new(),
            };
            inner.agents.insert(agent.clone(), fake);
            sidecar
        };
        let resumed = config.resume.is_some();
        let told = Some((sidecar.clone(), Fact::SPAWNED));
        let spawned = Fact { agent: agent.clone(), told, input: Some(Input::Spawned { resumed }), event: None };
        let _ = facts.send(spawned).await;
        self.set_state(&agent, AgentState::Idle).await;
        Ok(AgentHandle { agent, sidecar })
    }

    async fn send(&self, agent: &AgentId, input: &str) -> Result<(), AgentAdapterError> {
        self.begin(Operation::Send, agent, input.to_owned()).await?;
        match self.with(agent, |fake| fake.state.clone())? {
            AgentState::Idle | AgentState::Blocked { .. } => {}
            state => return Err(refused(ErrorCode::AgentBusy, &format!("the agent is {}", state.short_name()))),
        }
        let exit = input.split_once("[[exit:").and_then(|(_, code)| code.split("]]").next()?.parse().ok());
        match exit {
            Some(code) => self.exit(agent, code).await,
            None => self.tell(agent, |fake| fake.obey(input)).await,
        }
        Ok(())
    }

    async fn respond(&self, agent: &AgentId, answer: &Answer) -> Result<(), AgentAdapterError> {
        self.begin(Operation::Respond, agent, serde_json::to_string(answer).unwrap_or_default()).await?;
        let open = self.with(agent, |fake| fake.ask.clone())?;
        let open = open.ok_or_else(|| refused(ErrorCode::NoPrompt, "the agent asks nothing"))?;
        if answer.ask.as_ref().is_some_and(|ask| *ask != open) {
            return Err(refused(ErrorCode::AlreadyAnswered, "that is answered already"));
        }
        let words = if answer.accept == Some(true) { "yes" } else { "no" };
        self.tell(agent, |fake| {
            fake.ask = None;
            fake.last_message = Some(words.to_owned());
            let answered = AskChange::Answered { ask: open, answer: words.to_owned(), via: "control".to_owned() };
            let mut bodies = vec![EventBody::Ask(answered)];
            bodies.extend(fake.become_(AgentState::Working { tool: None }));
            bodies.extend(fake.become_(AgentState::Idle));
            bodies
        })
        .await;
        Ok(())
    }

    async fn kill(&self, agent: &AgentId) -> Result<(), AgentAdapterError> {
        self.begin(Operation::Kill, agent, String::new()).await?;
        if self.lock().gone.contains(agent) {
            return Ok(());
        }
        self.with(agent, |_| ())?;
        let late = self.lock().late_ends;
        let (fake, agent) = (self.clone(), agent.clone());
        let ending = async move { fake.end(&agent, None, Some(1)).await };
        match late {
            None => ending.await,
            Some(time) => drop(tokio::spawn(async move {
                tokio::time::sleep(time).await;
                ending.await;
            })),
        }
        Ok(())
    }

    async fn reconnect(
        &self,
        config: AgentReconnectConfig,
        facts: mpsc::Sender<Fact>,
    ) -> Result<AgentHandle, AgentAdapterError> {
        let agent = config.agent;
        self.begin(Operation::Reconnect, &agent, String::new()).await?;
        let (sidecar, log) = self.with(&agent, |fake| {
            fake.facts = facts.clone();
            (fake.sidecar.clone(), fake.log.clone())
        })?;
        let known = config.known.filter(|(known, _)| *known == sidecar).map_or(Seq(0), |(_, seq)| seq);
        let (told, input) = (Some((sidecar.clone(), Fact::SPAWNED)), Input::Spawned { resumed: config.resumed });
        let _ = facts.send(Fact { agent: agent.clone(), told, input: Some(input), event: None }).await;
        for event in log.into_iter().filter(|event| event.seq > known) {
            let _ = facts.send(Fact::heard(&agent, &sidecar, event)).await;
        }
        Ok(AgentHandle { agent, sidecar })
    }

    async fn get_state(&self, agent: &AgentId) -> Result<AgentState, AgentAdapterError> {
        self.begin(Operation::GetState, agent, String::new()).await?;
        self.with(agent, |fake| fake.state.clone())
    }

    async fn last_message(&self, agent: &AgentId) -> Option<String> {
        self.begin(Operation::LastMessage, agent, String::new()).await.ok()?;
        self.with(agent, |fake| fake.last_message.clone()).ok()?
    }

    async fn resolve_stop(&self, agent: &AgentId) {
        if self.begin(Operation::ResolveStop, agent, String::new()).await.is_err() {
            return;
        }
        self.tell(agent, |fake| {
            if !std::mem::take(&mut fake.held) {
                return Vec::new();
            }
            let mut bodies = vec![EventBody::Stop(StopOutcome { outcome: StopVerdict::Allowed, reason: None })];
            bodies.extend(fake.become_(AgentState::Idle));
            bodies
        })
        .await;
    }

    async fn is_alive(&self, agent: &AgentId) -> bool {
        let begun = self.begin(Operation::IsAlive, agent, String::new()).await;
        begun.is_ok() && self.lock().agents.contains_key(agent)
    }

    async fn capture_output(&self, agent: &AgentId, lines: u32) -> Result<String, AgentAdapterError> {
        self.begin(Operation::CaptureOutput, agent, lines.to_string()).await?;
        self.with(agent, |fake| {
            let skip = fake.said.len().saturating_sub(lines as usize);
            fake.said[skip..].join("\n")
        })
    }

    async fn fetch_transcript(&self, agent: &AgentId) -> Result<String, AgentAdapterError> {
        self.begin(Operation::FetchTranscript, agent, String::new()).await?;
        self.with(agent, |fake| fake.said.join("\n"))
    }

    async fn fetch_usage(&self, agent: &AgentId) -> Option<UsageReport> {
        self.begin(Operation::FetchUsage, agent, String::new()).await.ok()?;
        let report = UsageReport { turn: Usage::none(), total: Usage::none(), requests: 0 };
        self.with(agent, |fake| UsageReport { requests: fake.said.len() as u64, ..report }).ok()
    }
}
