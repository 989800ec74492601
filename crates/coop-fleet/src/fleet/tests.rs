//! With agents and a world that are not there, and a clock that stands still until everybody waits.

mod others;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coop_api::{AgentState, ErrorCode, Fault, FaultKind};

use super::*;
use crate::adapter::{AgentAdapterError, FakeAgentAdapter, Operation};
use crate::engine::{By, Effect, GateVerdict, Input, Outcome, Phase};
use crate::sidecar::launcher::RunOwner;
use crate::store::{Deed, Entry, Place};

/// A world in which gates end as they are told, and calls are remembered.
#[derive(Clone, Default)]
struct FakeOutside(Arc<Mutex<World>>);

#[derive(Default)]
struct World {
    verdicts: VecDeque<GateVerdict>,
    gates: Vec<GateRun>,
    notices: Vec<Notice>,
    nobody_answers: bool,
}

impl Outside for FakeOutside {
    async fn gate(&self, gate: GateRun) -> GateVerdict {
        let verdict = {
            let mut world = self.0.lock().expect("whole");
            world.gates.push(gate);
            world.verdicts.pop_front()
        };
        match verdict {
            Some(verdict) => verdict,
            None => std::future::pending().await,
        }
    }

    async fn notify(&self, notice: Notice) -> Result<(), String> {
        let mut world = self.0.lock().expect("whole");
        world.notices.push(notice);
        if world.nobody_answers { Err("nobody there".to_owned()) } else { Ok(()) }
    }
}

struct Lab {
    folder: tempfile::TempDir,
    adapter: FakeAgentAdapter,
    outside: FakeOutside,
    fleet: Fleet,
    task: JoinHandle<Result<(), StoreError>>,
}

fn place(folder: &tempfile::TempDir) -> Place {
    Place::File(folder.path().join("fleet.db"))
}

fn agent() -> AgentId {
    AgentId("fixer".to_owned())
}

/// A definition of one agent, with these lines in it.
fn defined(lines: &str) -> Defined {
    let text = format!("[agents.fixer]\ndriver = \"claude\"\n{lines}\n");
    Defined {
        text,
        name: "fixer".to_owned(),
        folder: "/".to_owned(),
        prompt: None,
        parent: None,
        run_owner: RunOwner::Fleet,
    }
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (adapter, outside) = (FakeAgentAdapter::new(), FakeOutside::default());
        let store = Store::open(&place(&folder)).expect("a store");
        let (fleet, task) = Fleet::start_here(Clock::new(), store, adapter.clone(), outside.clone()).expect("started");
        Self { folder, adapter, outside, fleet, task }
    }

    async fn spawned(lines: &str) -> Self {
        let lab = Self::new();
        lab.fleet.spawn(&agent(), defined(lines), "ann").await.expect("it runs");
        lab
    }

    /// As after a kill: what was being done is cut off, and somebody else has the store.
    async fn killed(self) -> Self {
        self.task.abort();
        let _ = self.task.await;
        let store = Store::open(&place(&self.folder)).expect("a store");
        let (fleet, task) =
            Fleet::start_here(Clock::new(), store, self.adapter.clone(), self.outside.clone()).expect("started");
        Self { fleet, task, ..self }
    }

    fn verdicts(&self, verdicts: impl IntoIterator<Item = GateVerdict>) {
        self.outside.0.lock().expect("whole").verdicts.extend(verdicts);
    }

    fn reasons(&self) -> Vec<String> {
        self.outside.0.lock().expect("whole").notices.iter().map(|notice| notice.reason.clone()).collect()
    }

    fn sent(&self) -> Vec<String> {
        let calls = self.adapter.calls().into_iter();
        calls.filter(|call| call.operation == Operation::Send).map(|call| call.with).collect()
    }

    fn count(&self, operation: Operation) -> usize {
        self.adapter.calls().iter().filter(|call| call.operation == operation).count()
    }

    async fn deeds(&self) -> Vec<Deed> {
        self.fleet.look(|store| store.deeds(&agent())).await.expect("read")
    }

    /// What was done, and what became of it.
    async fn done(&self) -> Vec<String> {
        let deeds = self.deeds().await.into_iter();
        deeds.map(|deed| format!("{} {}", name(&deed.intent.effect), deed.state)).collect()
    }

    async fn log(&self) -> Vec<Entry> {
        self.fleet.look(|store| store.log(None, 0, 1000)).await.expect("read")
    }

    /// Waits until what is known of the agent is so.
    async fn until(&self, what: &str, is_so: impl Fn(&crate::engine::Agent) -> bool) {
        let mut newest = self.fleet.newest();
        let wait = async {
            loop {
                let found = self.fleet.look(|store| store.agent(&agent())).await.expect("read");
                if found.as_ref().is_some_and(&is_so) {
                    return;
                }
                newest.changed().await.expect("it runs");
            }
        };
        // By the clock that stands still: longer than anything here takes.
        let waited = tokio::time::timeout(Duration::from_secs(86_400), wait).await;
        if waited.is_err() {
            panic!("never {what}: {:#?} {:#?}", self.done().await, self.log().await);
        }
    }

    async fn until_done(&self, expected: &[&str]) {
        // What has been begun ends as soon as nobody has anything else to do.
        let wait = async {
            while self.done().await != expected {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
        assert!(waited.is_ok(), "{:#?}", self.done().await);
    }
}

fn name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Spawn => "spawn",
        Effect::Send { .. } => "send",
        Effect::Answer { allow: true, .. } => "allow",
        Effect::Answer { allow: false, .. } => "deny",
        Effect::ResolveStop => "resolve",
        Effect::Gate { .. } => "gate",
        Effect::Resume => "resume",
        Effect::Restart => "restart",
        Effect::Escalate { .. } => "escalate",
        Effect::Finish { .. } => "finish",
    }
}

#[tokio::test(start_paused = true)]
async fn gate_output_goes_back_until_attempts_are_used_up_then_a_person_is_called() {
    let lines = r#"
        prompt = "Make it pass."
        on_idle = [{ action = "gate", run = "make check", limit = "90s", attempts = 3, cooldown = "10m",
                     message = "{attempt} of {attempts}: {output}" }, "escalate"]
    "#;
    let lab = Lab::new();
    let failed = |output: &str| GateVerdict::Failed { output: output.to_owned() };
    lab.verdicts([failed("two errors"), GateVerdict::TimedOut, failed("one error")]);
    let begin = tokio::time::Instant::now();
    lab.fleet.spawn(&agent(), defined(lines), "ann").await.expect("it runs");
    lab.until("escalated", |agent| agent.escalated.is_some()).await;
    lab.until_done(&[
        "spawn done",
        "send done",
        "gate done",
        "send done",
        "gate done",
        "send done",
        "gate done",
        "escalate done",
    ])
    .await;
    let sent = ["Make it pass.", "1 of 3: two errors", "2 of 3: the check took too long and was ended"];
    assert_eq!(lab.sent(), sent);
    assert_eq!(lab.reasons(), ["it is idle"]);
    assert!(begin.elapsed() >= Duration::from_secs(1200), "two cooldowns: {:?}", begin.elapsed());
    // In the log everything stands in its order, and the cooldowns between.
    let log = lab.log().await;
    let told: Vec<_> = log.iter().filter_map(|entry| Some((entry.at, entry.input.as_ref()?))).collect();
    let of = |wanted: fn(&Input) -> bool| -> Vec<_> {
        told.iter().filter(|(_, input)| wanted(input)).map(|(at, _)| at.0).collect()
    };
    let gates = of(|input| matches!(input, Input::GateEnded { .. }));
    assert_eq!(gates.len(), 3);
    assert!(gates.windows(2).all(|pair| pair[1] - pair[0] >= 600_000), "{gates:?}");
    assert_eq!(of(|input| *input == Input::Due).len(), 2, "a cooldown ends once");
    let gate = lab.outside.0.lock().expect("whole").gates[0].clone();
    let limit = Duration::from_secs(90);
    assert_eq!(
        gate,
        GateRun { agent: agent(), run: "make check".to_owned(), limit, folder: "/".into(), sandbox: None }
    );
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_passes_ends_the_job_and_its_process() {
    let lab = Lab::new();
    lab.verdicts([GateVerdict::Passed]);
    let lines = "prompt = \"Go.\"\non_idle = { action = \"gate\", run = \"true\" }";
    lab.fleet.spawn(&agent(), defined(lines), "ann").await.expect("it runs");
    lab.until("dead", |agent| agent.phase == Phase::Dead).await;
    lab.until_done(&["spawn done", "send done", "gate done", "finish done"]).await;
    let record = lab.fleet.look(|store| store.agent(&agent())).await.expect("read").expect("there");
    assert_eq!(record.outcome, Some(Outcome::Done));
    assert_eq!((lab.count(Operation::Kill), lab.reasons()), (1, Vec::<String>::new()));
}

#[tokio::test(start_paused = true)]
async fn an_error_is_given_time_to_pass_before_the_agent_is_told_to_go_on() {
    let retry = r#"on_error = { overload = { action = "retry", cooldown = "5m", message = "Again: {error}" } }"#;
    let lab = Lab::spawned(&format!("kind = \"crew\"\n{retry}")).await;
    lab.adapter.set_state(&agent(), AgentState::Working { tool: None }).await;
    let fault = Fault { kind: FaultKind::Overload, message: "full".to_owned(), status: None, until: None };
    lab.adapter.set_state(&agent(), AgentState::Blocked { fault }).await;
    lab.until("blocked", |agent| agent.phase == Phase::Blocked).await;
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(lab.sent(), [] as [&str; 0]);
    lab.until("at it again", |agent| agent.turn == 2).await;
    assert_eq!(lab.sent(), ["Again: full"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_is_answered_by_rule_by_gate_or_by_a_person() {
    let lines = r#"
        kind = "crew"
        on_prompt = { permission = { action = "gate", run = "may" } }
        [[policy]]
        tool = "Bash"
        command = "cargo test"
        decide = "allow"
        why = "tests are fine"
    "#;
    let lab = Lab::spawned(lines).await;
    lab.adapter.send(&agent(), "[[bash:cargo test]]").await.expect("sent");
    lab.until("answered", |agent| agent.turn == 1 && agent.phase == Phase::Idle).await;
    lab.verdicts([GateVerdict::Failed { output: "not today".to_owned() }]);
    lab.adapter.send(&agent(), "[[bash:rm x]]").await.expect("sent");
    lab.until("answered", |agent| agent.turn == 2 && agent.phase == Phase::Idle).await;
    lab.verdicts([GateVerdict::TimedOut]);
    lab.adapter.send(&agent(), "[[bash:rm y]]").await.expect("sent");
    lab.until("escalated", |agent| agent.escalated.is_some() && agent.turn == 3).await;
    let answers: Vec<_> = lab.adapter.calls().into_iter().filter(|call| call.operation == Operation::Respond).collect();
    assert_eq!(answers.len(), 2, "a gate that takes too long says nothing");
    assert!(answers[0].with.contains(r#""accept":true"#), "{}", answers[0].with);
    assert!(answers[1].with.contains(r#""accept":false"#) && answers[1].with.contains("not today"));
    let asks = lab.fleet.look(|store| store.open_asks()).await.expect("read");
    assert_eq!(asks.len(), 1);
    // A person's answer stands in the log with their name.
    let answer = Answer { ask: Some(asks[0].1.id.clone()), accept: Some(false), ..Answer::default() };
    lab.adapter.respond(&agent(), &answer).await.expect("answered");
    lab.fleet.decided(&agent(), answer, "ann").await.expect("noted");
    lab.until("answered", |agent| agent.asks.is_empty()).await;
    let by_ann = |entry: &Entry| matches!(&entry.input, Some(Input::Decided { by, .. }) if by == "ann");
    assert!(lab.log().await.iter().any(by_ann));
    let audit = lab.fleet.look(|store| store.audit(None)).await.expect("read");
    let who: Vec<_> = audit.iter().map(|decided| (decided.accept, decided.by.clone())).collect();
    let gate = By::Gate { run: "may".to_owned() };
    let ann = By::Person { name: "ann".to_owned() };
    assert_eq!(who, [(Some(true), By::Rule { line: 6 }), (Some(false), gate), (Some(false), ann)]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_refused_waits_until_the_agent_is_idle_and_is_told_once() {
    let lab = Lab::new();
    let busy = AgentAdapterError::Refused(coop_api::Error::new(ErrorCode::AgentBusy, "the agent is working"));
    lab.adapter.fail_next(Operation::Send, busy);
    lab.adapter.delay(Operation::Send, Duration::from_secs(1));
    lab.fleet.spawn(&agent(), defined("kind = \"crew\"\nprompt = \"Go.\""), "ann").await.expect("it runs");
    // Somebody types while the message is on its way.
    lab.adapter.set_state(&agent(), AgentState::Working { tool: None }).await;
    lab.until("at work", |agent| agent.phase == Phase::Working).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lab.sent(), ["Go."]);
    let waiting = lab.done().await;
    assert_eq!(waiting, ["spawn done", "send pending"], "it was refused, so it is not begun");
    lab.adapter.set_state(&agent(), AgentState::Idle).await;
    lab.until("told", |agent| agent.turn == 2 && agent.phase == Phase::Idle).await;
    assert_eq!(lab.sent(), ["Go.", "Go."]);
}

/// An agent that was dismissed was sent a message again and again: it was held at the end of a turn, which nobody followed any
/// more, and its end waited for the message.
#[tokio::test(start_paused = true)]
async fn the_end_of_an_agent_does_not_wait_for_a_message_that_is_refused() {
    let lab = Lab::new();
    for _ in 0..100 {
        let busy = AgentAdapterError::Refused(coop_api::Error::new(ErrorCode::AgentBusy, "the agent is working"));
        lab.adapter.fail_next(Operation::Send, busy);
    }
    lab.fleet.spawn(&agent(), defined("kind = \"crew\"\nprompt = \"Go.\""), "ann").await.expect("it runs");
    lab.until_done(&["spawn done", "send claimed"]).await;
    let ended = tokio::time::timeout(Duration::from_secs(10), lab.fleet.dismiss(&agent(), "ann")).await;
    ended.expect("soon").expect("ended");
    lab.until_done(&["spawn done", "send overtaken", "finish done"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_agent_is_resumed_when_its_end_is_written_down_and_never_without_a_conversation() {
    let lab = Lab::spawned("on_dead = [{ action = \"restart\", attempts = 1 }, \"resume\"]\nkind = \"crew\"").await;
    lab.adapter.exit(&agent(), 7).await;
    lab.until("started again", |agent| agent.run == 2 && agent.phase == Phase::Idle).await;
    lab.until_done(&["spawn done", "restart done"]).await;
    lab.adapter.exit(&agent(), 7).await;
    lab.until("escalated", |agent| agent.escalated.is_some()).await;
    lab.until_done(&["spawn done", "restart done", "resume failed", "escalate done"]).await;
    assert_eq!(lab.reasons(), ["something could not be done: it has no conversation that could be resumed"]);
    let log = lab.log().await;
    let order: Vec<_> = log
        .iter()
        .filter_map(|entry| match entry.input.as_ref()? {
            Input::Spawned { .. } => Some("spawned"),
            Input::Gone { .. } => Some("gone"),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["spawned", "gone", "spawned", "gone"]);
}

#[tokio::test(start_paused = true)]
async fn a_spawn_that_fails_says_why_and_is_a_persons() {
    let lab = Lab::new();
    lab.adapter.set_spawn_fails(true);
    let failed = lab.fleet.spawn(&agent(), defined(""), "ann").await.expect_err("it fails");
    assert_eq!(failed.to_string(), "fixer did not start: it was told to fail");
    lab.until_done(&["spawn failed", "escalate done"]).await;
    let again = lab.fleet.spawn(&agent(), defined(""), "ann").await.expect_err("it fails again");
    assert!(matches!(again, FleetError::NotDone(_)), "{again}");
    let broken = lab.fleet.spawn(&AgentId("b".to_owned()), defined("colour = 1"), "ann").await;
    assert!(matches!(broken, Err(FleetError::Store(StoreError::Undefined { .. }))), "{broken:?}");
    let nobody = lab.fleet.dismiss(&AgentId("c".to_owned()), "ann").await;
    assert!(matches!(nobody, Err(FleetError::NoSuchAgent(_))));
    // It is not one that starts for ever, and can be started once the reason is mended.
    let phase = async || lab.fleet.look(|store| store.agent(&agent())).await.expect("read").expect("there").phase;
    assert_eq!(phase().await, Phase::Dead);
    lab.adapter.set_spawn_fails(false);
    lab.fleet.revive(&agent(), "ann").await.expect("started");
    assert_ne!(phase().await, Phase::Dead);
}

#[tokio::test(start_paused = true)]
async fn a_person_who_cannot_be_called_is_not_called_again_for_that() {
    let lab = Lab::new();
    lab.outside.0.lock().expect("whole").nobody_answers = true;
    lab.fleet.spawn(&agent(), defined("kind = \"crew\"\nprompt = \"Go.\""), "ann").await.expect("it runs");
    lab.until("escalated", |agent| agent.escalated.is_some()).await;
    lab.until_done(&["spawn done", "send done", "escalate failed"]).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(lab.reasons().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_a_kill_what_is_harmless_is_done_and_the_rest_is_a_persons() {
    // Killed while a message was on its way: nobody knows whether it was told.
    let lab = Lab::new();
    lab.adapter.delay(Operation::Send, Duration::from_secs(60));
    lab.fleet.spawn(&agent(), defined("kind = \"crew\"\nprompt = \"Go.\""), "ann").await.expect("it runs");
    lab.until("idle", |agent| agent.phase == Phase::Idle).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(lab.done().await, ["spawn done", "send claimed"]);
    let lab = lab.killed().await;
    lab.until_done(&["spawn done", "send unsure", "escalate done"]).await;
    assert_eq!(lab.sent(), ["Go."], "it is not told again");
    assert_eq!((lab.count(Operation::Spawn), lab.count(Operation::Reconnect)), (1, 1));
    // Killed while a gate ran: it is run again.
    let lab = Lab::spawned("prompt = \"Go.\"\non_idle = { action = \"gate\", run = \"true\" }").await;
    lab.until("idle after its turn", |agent| agent.turn == 1 && agent.phase == Phase::Idle).await;
    lab.until_done(&["spawn done", "send done", "gate claimed"]).await;
    lab.verdicts([GateVerdict::Passed]);
    let lab = lab.killed().await;
    lab.until_done(&["spawn done", "send done", "gate done", "finish done"]).await;
    assert_eq!(lab.outside.0.lock().expect("whole").gates.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_died_unseen_is_gone_once_and_one_that_lives_is_followed_on() {
    let lab = Lab::spawned("kind = \"crew\"\non_dead = \"escalate\"").await;
    lab.until("idle", |agent| agent.phase == Phase::Idle).await;
    let lab = lab.killed().await;
    lab.adapter.set_state(&agent(), AgentState::Working { tool: None }).await;
    lab.until("at work", |agent| agent.phase == Phase::Working && agent.turn == 1).await;
    // It ends while nobody listens.
    lab.task.abort();
    while !lab.task.is_finished() {
        tokio::task::yield_now().await;
    }
    let listening = lab.fleet.look(|store| store.newest()).await;
    assert!(matches!(listening, Err(FleetError::Over)), "{listening:?}");
    lab.adapter.exit(&agent(), 1).await;
    let lab = lab.killed().await;
    lab.until("dead", |agent| agent.phase == Phase::Dead).await;
    lab.until_done(&["spawn done", "escalate done"]).await;
    let lab = lab.killed().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    lab.until_done(&["spawn done", "escalate done"]).await;
    let gone = lab.log().await.iter().filter(|entry| matches!(entry.input, Some(Input::Gone { .. }))).count();
    assert_eq!(gone, 1);
}

/// A mistake in what is done beside the owner left its agent busy for ever, and nobody was called.
#[tokio::test(start_paused = true)]
async fn what_breaks_off_is_a_persons_and_the_agent_does_not_wait_for_it() {
    let lab = Lab::new();
    lab.adapter.break_next(Operation::Send);
    lab.fleet.spawn(&agent(), defined("kind = \"crew\"\nprompt = \"Go.\""), "ann").await.expect("it runs");
    lab.until_done(&["spawn done", "send failed", "escalate done"]).await;
    assert!(lab.reasons()[0].contains("coop broke off while it was being done"), "{:?}", lab.reasons());
    lab.fleet.dismiss(&agent(), "ann").await.expect("its lane is free");
}

#[tokio::test(start_paused = true)]
async fn a_name_whose_start_failed_is_free_for_another_try() {
    let lab = Lab::new();
    lab.adapter.set_spawn_fails(true);
    lab.fleet.spawn(&agent(), defined("kind = \"crew\""), "ann").await.expect_err("it was told to fail");
    assert!(!lab.fleet.is_taken(&agent()), "as soon as that is told");
    lab.adapter.set_spawn_fails(false);
    lab.fleet.spawn(&agent(), defined("kind = \"crew\"\nprompt = \"Go.\""), "ann").await.expect("it runs");
    assert!(lab.fleet.is_taken(&agent()));
    lab.until("told", |agent| agent.run == 1 && agent.turn == 1).await;
    assert_eq!(lab.sent(), ["Go."], "by its new definition");
    let again = lab.fleet.spawn(&agent(), defined(""), "ann").await;
    assert!(matches!(again, Err(FleetError::Exists(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_ends_the_fleet_lets_what_is_being_done_come_to_its_end() {
    let lab = Lab::new();
    lab.adapter.delay(Operation::Send, Duration::from_secs(3));
    lab.fleet.spawn(&agent(), defined("kind = \"crew\"\nprompt = \"Go.\""), "ann").await.expect("it runs");
    lab.until_done(&["spawn done", "send claimed"]).await;
    let Lab { folder, fleet, task, .. } = lab;
    drop(fleet);
    task.await.expect("it ends").expect("well");
    let store = Store::open(&place(&folder)).expect("a store");
    let deeds = store.deeds(&agent()).expect("read");
    assert_eq!(deeds[1].state, "done");
}

/// Whoever had ended an agent and looked at once was told that it was idle: its process had ended, and that was not written down.
#[tokio::test(start_paused = true)]
async fn who_ends_an_agent_is_told_so_when_its_end_is_written_down_and_does_not_wait_for_ever() {
    let dead = async |lab: &Lab| {
        let record = lab.fleet.look(|store| store.agent(&agent())).await.expect("read").expect("there");
        (record.phase, record.exit)
    };
    let lab = Lab::spawned("kind = \"crew\"").await;
    lab.adapter.tell_ends_late(Duration::from_secs(5));
    lab.fleet.dismiss(&agent(), "ann").await.expect("ended");
    assert_eq!(dead(&lab).await, (Phase::Dead, Some((None, Some(1)))));
    lab.until_done(&["spawn done", "finish done"]).await;
    // Its process was seen to end, so it is gone even if nobody ever tells how.
    let lab = Lab::spawned("kind = \"crew\"").await;
    lab.adapter.tell_ends_late(Duration::from_secs(3600));
    lab.fleet.dismiss(&agent(), "ann").await.expect("ended");
    assert_eq!(dead(&lab).await, (Phase::Dead, Some((None, None))));
    tokio::time::sleep(Duration::from_secs(7200)).await;
    let gone = lab.log().await.iter().filter(|entry| matches!(entry.input, Some(Input::Gone { .. }))).count();
    assert_eq!(gone, 1, "what is told after that changes nothing");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_over_for_long_is_forgotten_and_its_id_is_free() {
    let lab = Lab::spawned("kind = \"crew\"").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lab.fleet.forget(Duration::from_secs(30)).await.expect("asked"), [], "it is not over");
    lab.fleet.dismiss(&agent(), "ann").await.expect("ended");
    assert_eq!(lab.fleet.forget(Duration::from_secs(30)).await.expect("asked"), [], "it is over since now");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lab.fleet.forget(Duration::from_secs(30)).await.expect("asked"), [agent()]);
    assert!(lab.log().await.is_empty());
    lab.fleet.spawn(&agent(), defined(""), "ann").await.expect("there can be another");
}

/// Somebody sets the machine's clock back by an hour, and the daemon is restarted after that: what was due in five minutes
/// must not be due in an hour and five.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_puts_nothing_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let (adapter, outside) = (FakeAgentAdapter::new(), FakeOutside::default());
    let store = Store::open(&place(&folder)).expect("a store");
    let ahead = Clock::ahead(Duration::from_secs(3600));
    let (fleet, task) = Fleet::start_here(ahead, store, adapter.clone(), outside.clone()).expect("started");
    let lab = Lab { folder, adapter, outside, fleet, task };
    let retry = "kind = \"crew\"\non_error = { rate_limit = { action = \"retry\", cooldown = \"5m\" } }";
    lab.fleet.spawn(&agent(), defined(retry), "ann").await.expect("it runs");
    let fault = Fault { kind: FaultKind::RateLimit, message: "slow down".to_owned(), status: None, until: None };
    lab.adapter.set_state(&agent(), AgentState::Working { tool: None }).await;
    lab.adapter.set_state(&agent(), AgentState::Blocked { fault }).await;
    lab.until("that it waits", |agent| !agent.due.is_empty()).await;
    let lab = lab.killed().await;
    let begin = tokio::time::Instant::now();
    lab.until("that it is told to go on", |agent| agent.due.is_empty()).await;
    assert!(begin.elapsed() <= Duration::from_secs(301), "after {:?}", begin.elapsed());
    let times: Vec<_> = lab.log().await.iter().map(|entry| entry.at).collect();
    assert!(times.is_sorted(), "time does not go back");
}

/// The bug this keeps away: a daemon that had just begun told whoever asked for an agent elsewhere that it cannot be reached.
#[tokio::test(start_paused = true)]
async fn an_agent_is_looked_for_until_it_is_found() {
    let lab = Lab::spawned("kind = \"crew\"").await;
    lab.adapter.delay(Operation::Reconnect, Duration::from_secs(60));
    let began = tokio::time::Instant::now();
    let lab = lab.killed().await;
    // Who is not found soon is not waited for again and again.
    for _ in 0..2 {
        lab.fleet.looked_for(&agent(), Duration::from_secs(10)).await;
        assert_eq!(began.elapsed().as_secs(), 10);
    }
    lab.fleet.looked_for(&agent(), Duration::from_secs(3600)).await;
    assert_eq!(began.elapsed().as_secs(), 60);
    // Of others nobody has to wait for anything.
    lab.fleet.looked_for(&AgentId("nobody".to_owned()), Duration::from_secs(3600)).await;
    assert_eq!(began.elapsed().as_secs(), 60);
}

/// The bug this keeps away: an agent is ended so that its conversation can go on, which it never had.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_gone_on_with_is_not_ended() {
    let lab = Lab::spawned("kind = \"crew\"\nprompt = \"Go.\"").await;
    lab.until("idle after its turn", |agent| agent.turn == 1 && agent.phase == Phase::Idle).await;
    let refused = lab.fleet.revive(&agent(), "ann").await.expect_err("there is none");
    assert_eq!(refused.to_string(), "it has no conversation that could be resumed");
    assert_eq!(lab.count(Operation::Kill), 0);
}
