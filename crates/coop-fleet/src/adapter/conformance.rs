//! What every adapter has to do. Tests of each run it; nothing here knows which one it is.

use std::time::Duration;

use coop_api::{AgentId, AgentState, Answer, AskId, AskKind, ErrorCode, FaultKind};
use tokio::sync::mpsc;

use super::{AgentAdapter, AgentAdapterError, AgentConfig, AgentReconnectConfig};
use crate::Fact;
use crate::engine::{Input, StopMode};
use crate::sidecar::launcher::RunOwner;

/// How long anything may take: ten times and more what it takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(60);
/// More than what comes while nobody reads.
const ROOM: usize = 1024;

/// What came, in order, and what was read of it.
struct Heard {
    facts: mpsc::Receiver<Fact>,
    past: Vec<Fact>,
}

impl Heard {
    /// Waits for an input.
    async fn until(&mut self, what: &str, is_it: impl Fn(&Input) -> bool) -> Result<Input, String> {
        loop {
            let next = tokio::time::timeout(LIMIT, self.facts.recv()).await;
            let Ok(Some(fact)) = next else { return Err(format!("{what} never came; before: {:#?}", self.inputs())) };
            self.past.push(fact.clone());
            if let Some(input) = fact.input.filter(&is_it) {
                return Ok(input);
            }
        }
    }

    async fn idle(&mut self) -> Result<Option<String>, String> {
        match self.until("idleness", |input| matches!(input, Input::Idle { .. })).await? {
            Input::Idle { last_message } => Ok(last_message),
            other => Err(format!("{other:?}")),
        }
    }

    async fn ask(&mut self) -> Result<AskId, String> {
        match self.until("an ask", |input| matches!(input, Input::Prompt { .. })).await? {
            Input::Prompt { ask } => Ok(ask.id),
            other => Err(format!("{other:?}")),
        }
    }

    fn inputs(&self) -> Vec<&Input> {
        self.past.iter().filter_map(|fact| fact.input.as_ref()).collect()
    }

    /// Everything a sidecar tells has a number, and each comes once and in order.
    fn is_in_order(&self) -> Result<(), String> {
        let numbers: Vec<u64> = self.past.iter().filter_map(|fact| Some(fact.told.as_ref()?.1.0)).collect();
        let expected: Vec<u64> = (0..numbers.len() as u64).collect();
        same("the numbers of what was told", &numbers, &expected)
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}")) }
}

fn refusal(what: &str, found: Result<(), AgentAdapterError>, code: ErrorCode) -> Result<(), String> {
    match found {
        Err(AgentAdapterError::Refused(error)) if error.code == code => Ok(()),
        other => Err(format!("{what}: {other:?}, not {code}")),
    }
}

fn told<T>(what: &str, found: Result<T, AgentAdapterError>) -> Result<T, String> {
    found.map_err(|error| format!("{what}: {error}"))
}

/// Goes through an agent's life. It has to follow `[[text:…]]` and `[[bash:…]]`, begin idle, and know no other agent.
pub async fn life<A: AgentAdapter>(adapter: &A, config: AgentConfig) -> Result<(), String> {
    let agent = config.agent.clone();
    nobody(adapter, &AgentId("nobody".to_owned())).await?;
    let (sender, facts) = mpsc::channel(ROOM);
    let mut heard = Heard { facts, past: Vec::new() };
    let handle = told("spawn", adapter.spawn(config.clone(), sender.clone()).await)?;
    same("the handle's agent", &handle.agent, &agent)?;
    heard.until("that it was spawned", |input| *input == Input::Spawned { resumed: false }).await?;
    same("what comes first", &heard.past.len(), &1)?;
    heard.idle().await?;
    same("is_alive", &adapter.is_alive(&agent).await, &true)?;
    same("get_state", &told("get_state", adapter.get_state(&agent).await)?, &AgentState::Idle)?;
    match adapter.spawn(config, sender).await {
        Err(AgentAdapterError::Exists(id)) if id == agent => {}
        other => return Err(format!("a second spawn: {other:?}")),
    }

    told("send", adapter.send(&agent, "[[text:hello there]]").await)?;
    heard.until("work", |input| *input == Input::Working).await?;
    same("the last message with the idleness", &heard.idle().await?.as_deref(), &Some("hello there"))?;
    same("last_message", &adapter.last_message(&agent).await.as_deref(), &Some("hello there"))?;
    let nothing = Answer { accept: Some(true), ..Answer::default() };
    refusal("an answer to nothing", adapter.respond(&agent, &nothing).await, ErrorCode::NoPrompt)?;
    // An agent that is not held is left alone.
    adapter.resolve_stop(&agent).await;

    told("send", adapter.send(&agent, "[[bash:touch conformance.txt]]").await)?;
    let ask = heard.ask().await?;
    refusal("a message at a prompt", adapter.send(&agent, "yes").await, ErrorCode::AgentBusy)?;
    let no = Answer { ask: Some(ask.clone()), accept: Some(false), ..Answer::default() };
    told("respond", adapter.respond(&agent, &no).await)?;
    heard.until("the ask's end", |input| *input == Input::AskClosed { ask: ask.clone() }).await?;
    heard.idle().await?;
    let late = adapter.respond(&agent, &no).await;
    if !matches!(&late, Err(AgentAdapterError::Refused(_))) {
        return Err(format!("a second answer: {late:?}"));
    }

    let transcript = told("fetch_transcript", adapter.fetch_transcript(&agent).await)?;
    same("the transcript has it", &transcript.contains("hello there"), &true)?;
    let output = told("capture_output", adapter.capture_output(&agent, 200).await)?;
    same("the output has it", &output.contains("hello there"), &true)?;
    same("one line", &told("capture_output", adapter.capture_output(&agent, 1).await)?.lines().count(), &1)?;
    same("there is usage", &adapter.fetch_usage(&agent).await.is_some(), &true)?;
    heard.is_in_order()?;

    let heard = reconnected(adapter, &agent, heard).await?;
    gone(adapter, &agent, heard).await
}

/// Follows the agent anew from what is known, as after a restart: nothing comes twice, nothing is missing.
async fn reconnected<A: AgentAdapter>(adapter: &A, agent: &AgentId, mut heard: Heard) -> Result<Heard, String> {
    let (sender, facts) = mpsc::channel(ROOM);
    let known = heard.past.iter().rev().find_map(|fact| fact.told.clone());
    let config = AgentReconnectConfig { agent: agent.clone(), known, resumed: false, run_owner: RunOwner::Fleet };
    told("reconnect", adapter.reconnect(config, sender).await)?;
    heard.facts = facts;
    told("send", adapter.send(agent, "[[text:still here]]").await)?;
    while heard.idle().await?.as_deref() != Some("still here") {}
    // That it was spawned may be told again: it has a number, so it is kept once.
    heard.past.dedup_by_key(|fact| fact.told.clone());
    let repeated = |fact: &Fact| fact.told.as_ref().is_some_and(|(_, seq)| *seq == Fact::SPAWNED);
    let first = heard.past.iter().position(repeated);
    let mut at = 0;
    heard.past.retain(|fact| {
        at += 1;
        !repeated(fact) || Some(at - 1) == first
    });
    heard.is_in_order()?;
    Ok(heard)
}

async fn gone<A: AgentAdapter>(adapter: &A, agent: &AgentId, mut heard: Heard) -> Result<(), String> {
    told("kill", adapter.kill(agent).await)?;
    heard.until("the end", |input| matches!(input, Input::Gone { .. })).await?;
    // The end of the channel is the end of what is told.
    while let Ok(Some(fact)) = tokio::time::timeout(LIMIT, heard.facts.recv()).await {
        heard.past.push(fact);
    }
    let ends = heard.inputs().into_iter().filter(|input| matches!(input, Input::Gone { .. })).count();
    same("how often it is told to be gone", &ends, &1)?;
    nobody(adapter, agent).await?;
    // What is gone already can be let go.
    told("kill again", adapter.kill(agent).await)
}

/// Of an agent that does not run nothing can be had.
async fn nobody<A: AgentAdapter>(adapter: &A, agent: &AgentId) -> Result<(), String> {
    same("is_alive", &adapter.is_alive(agent).await, &false)?;
    let missing = Err(AgentAdapterError::NotFound(agent.clone()));
    same("send", &adapter.send(agent, "x").await, &missing)?;
    same("respond", &adapter.respond(agent, &Answer::default()).await, &missing)?;
    same("get_state", &adapter.get_state(agent).await.map(drop), &missing)?;
    same("capture_output", &adapter.capture_output(agent, 1).await.map(drop), &missing)?;
    same("fetch_transcript", &adapter.fetch_transcript(agent).await.map(drop), &missing)?;
    same("last_message", &adapter.last_message(agent).await, &None)?;
    same("fetch_usage", &adapter.fetch_usage(agent).await.is_none(), &true)?;
    adapter.resolve_stop(agent).await;
    Ok(())
}

/// Seed 000's table of events, row by row: what an agent does, and what is told of it. The agent's stop mode says how it
/// ends its turns.
pub async fn table<A: AgentAdapter>(adapter: &A, config: AgentConfig) -> Result<(), String> {
    let (agent, stop) = (config.agent.clone(), config.stop);
    let (sender, facts) = mpsc::channel(ROOM);
    let mut heard = Heard { facts, past: Vec::new() };
    told("spawn", adapter.spawn(config, sender).await)?;
    heard.idle().await?;
    let is_held = |input: &Input| *input == Input::StopBlocked { reason: None };
    let ends = |input: &Input| is_held(input) || *input == Input::StopAllowed;

    // transition: working, then the end of the turn, then transition: idle.
    told("send", adapter.send(&agent, "[[text:one]]").await)?;
    heard.until("AgentWorking", |input| *input == Input::Working).await?;
    let end = heard.until("the turn's end", ends).await?;
    match stop {
        StopMode::Gate => {
            same("AgentStopBlocked", &is_held(&end), &true)?;
            adapter.resolve_stop(&agent).await;
            heard.until("AgentStopAllowed", |input| *input == Input::StopAllowed).await?;
        }
        StopMode::Allow | StopMode::Auto => same("AgentStopAllowed", &end, &Input::StopAllowed)?,
    }
    let last = heard.idle().await?;
    if stop != StopMode::Auto {
        // One that decides by itself has said something since.
        same("AgentIdle", &last.as_deref(), &Some("one"))?;
    }

    // transition: error.
    told("send", adapter.send(&agent, "[[err:401]]").await)?;
    match heard.until("AgentFailed", |input| matches!(input, Input::Failed { .. })).await? {
        Input::Failed { fault } => same("its kind", &fault.kind, &FaultKind::Auth)?,
        other => return Err(format!("{other:?}")),
    }

    // transition: prompt.
    told("send", adapter.send(&agent, "[[bash:touch table.txt]]").await)?;
    match heard.until("AgentPrompt", |input| matches!(input, Input::Prompt { .. })).await? {
        Input::Prompt { ask } => same("its kind", &ask.kind, &AskKind::Permission)?,
        other => return Err(format!("{other:?}")),
    }
    let no = Answer { accept: Some(false), ..Answer::default() };
    told("respond", adapter.respond(&agent, &no).await)?;
    if stop == StopMode::Gate && !matches!(adapter.get_state(&agent).await, Ok(AgentState::Idle)) {
        heard.until("AgentStopBlocked", is_held).await?;
        adapter.resolve_stop(&agent).await;
    }
    heard.idle().await?;

    // exit.
    adapter.send(&agent, "[[exit:3]]").await.ok();
    let gone = heard.until("AgentGone", |input| matches!(input, Input::Gone { .. })).await?;
    same("AgentGone", &gone, &Input::Gone { code: Some(3), signal: None })?;
    adapter.kill(&agent).await.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::adapter::{FakeAgentAdapter, Operation};
    use crate::definition::Start;
    use crate::engine::StopMode;

    fn config() -> AgentConfig {
        AgentConfig {
            agent: AgentId("a1".to_owned()),
            driver: "claude".to_owned(),
            command: vec!["claude".to_owned()],
            folder: PathBuf::from("/"),
            env: BTreeMap::new(),
            runtime: None,
            settings: None,
            isolate: true,
            trust: false,
            permission_mode: None,
            ask_first: false,
            stop: StopMode::Allow,
            ask_user: false,
            start: Start::default(),
            resume: None,
            record: None,
            sandbox: None,
            asks_before: 0,
            run_owner: RunOwner::Fleet,
        }
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn the_fake_conforms() {
        run(async {
            let adapter = FakeAgentAdapter::new();
            life(&adapter, config()).await.expect("it conforms");
            let sent: Vec<_> = adapter.calls().into_iter().filter(|call| call.operation == Operation::Send).collect();
            assert_eq!(sent[1].with, "[[text:hello there]]");
        });
    }

    #[test]
    fn the_fake_fails_and_waits_as_it_is_told() {
        run(async {
            let adapter = FakeAgentAdapter::new();
            let (sender, _facts) = mpsc::channel(ROOM);
            adapter.set_spawn_fails(true);
            let failed = adapter.spawn(config(), sender.clone()).await;
            assert!(matches!(failed, Err(AgentAdapterError::SpawnFailed { .. })), "{failed:?}");
            adapter.set_spawn_fails(false);
            adapter.spawn(config(), sender).await.expect("it starts");
            let agent = config().agent;
            adapter.fail_next(Operation::Send, AgentAdapterError::NotFound(agent.clone()));
            adapter.delay(Operation::Send, Duration::from_secs(30));
            let before = tokio::time::Instant::now();
            assert!(adapter.send(&agent, "a").await.is_err());
            assert!(adapter.send(&agent, "b").await.is_ok());
            assert_eq!(before.elapsed(), Duration::from_secs(60));
        });
    }
}
