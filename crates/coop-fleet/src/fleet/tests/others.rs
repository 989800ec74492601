//! Agents whose processes others start and end.

use super::*;
use crate::adapter::AgentAdapter;

const WAITS: &str = "kind = \"crew\"\nprompt = \"Begin.\"\non_dead = \"wait\"";

impl Lab {
    /// Starts another process of the agent, as somebody else does.
    async fn start_another(&self) {
        let record = self.fleet.look(|store| store.agent(&agent())).await.expect("read").expect("there");
        let config = defined(WAITS).config(&record, None, 0).expect("a definition");
        let (facts, _) = mpsc::channel(64);
        self.adapter.spawn(config, facts).await.expect("it runs");
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_process_is_gone_on_with_and_told_nothing() {
    let lab = Lab::spawned(WAITS).await;
    lab.until("idle again", |agent| agent.phase == Phase::Idle && agent.turn == 1).await;
    lab.adapter.exit(&agent(), 3).await;
    lab.until("dead", |agent| agent.phase == Phase::Dead).await;
    lab.start_another().await;
    lab.fleet.look_again(&agent()).await.expect("it runs");
    lab.until("there again", |agent| agent.run == 2 && agent.phase == Phase::Idle).await;
    assert_eq!(lab.sent(), ["Begin."], "what it is told is for whoever started it to say");
    // It may be said before the end of the one before is heard of.
    lab.adapter.exit(&agent(), 0).await;
    lab.start_another().await;
    lab.fleet.look_again(&agent()).await.expect("it runs");
    lab.until("there once more", |agent| agent.run == 3 && agent.phase == Phase::Idle).await;
    assert_eq!((lab.sent().len(), lab.reasons()), (1, vec!["it is idle".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn one_that_others_have_ended_is_over_and_nobody_is_called() {
    let lab = Lab::spawned(WAITS).await;
    lab.until("idle again", |agent| agent.phase == Phase::Idle && agent.turn == 1).await;
    lab.adapter.exit(&agent(), 0).await;
    lab.until("dead", |agent| agent.phase == Phase::Dead).await;
    lab.fleet.ended(&agent(), "kubernetes").await.expect("noted");
    let by = |agent: &crate::engine::Agent| agent.outcome == Some(Outcome::Dismissed { by: "kubernetes".to_owned() });
    lab.until("over", by).await;
    lab.until_done(&["spawn done", "send done", "escalate done"]).await;
    // And when it is started again it is there again.
    lab.start_another().await;
    lab.fleet.look_again(&agent()).await.expect("it runs");
    lab.until("there again", |agent| agent.run == 2 && agent.outcome.is_none()).await;
}

/// The bug this keeps away: others suspend an agent and take that back, and meanwhile the fleet suspends it by itself.
#[tokio::test(start_paused = true)]
async fn one_that_others_end_is_not_ended_by_us_and_may_run_on() {
    let lab = Lab::spawned(WAITS).await;
    lab.until("idle again", |agent| agent.phase == Phase::Idle && agent.turn == 1).await;
    lab.fleet.ended(&agent(), "kubernetes").await.expect("noted");
    lab.until("over", |agent| agent.outcome.is_some()).await;
    lab.adapter.set_state(&agent(), AgentState::Working { tool: None }).await;
    lab.fleet.runs_on(&agent(), "kubernetes").await.expect("noted");
    lab.until("at work", |agent| agent.outcome.is_none() && agent.phase == Phase::Working).await;
    assert_eq!(lab.count(Operation::Kill), 0);
}

/// The bug this keeps away: whoever leads to a process is away for a moment, and the agent runs on and is dead as far as we know.
#[tokio::test(start_paused = true)]
async fn a_process_that_there_is_no_way_to_is_looked_for_again() {
    let lab = Lab::spawned(WAITS).await;
    lab.until("idle again", |agent| agent.phase == Phase::Idle && agent.turn == 1).await;
    lab.adapter.exit(&agent(), 3).await;
    lab.until("dead", |agent| agent.phase == Phase::Dead).await;
    for _ in 0..3 {
        let away = AgentAdapterError::Unreachable { agent: agent(), why: "it is away".to_owned() };
        lab.adapter.fail_next(Operation::Reconnect, away);
    }
    lab.start_another().await;
    let began = tokio::time::Instant::now();
    lab.fleet.look_again(&agent()).await.expect("it runs");
    lab.until("there again", |agent| agent.run == 2 && agent.phase == Phase::Idle).await;
    assert!(began.elapsed() >= Duration::from_secs(90), "not at once: {:?}", began.elapsed());
    assert_eq!(lab.count(Operation::Reconnect), 4);
    let told = lab.log().await.iter().filter(|one| matches!(one.input, Some(Input::Unreachable { .. }))).count();
    assert_eq!(told, 1, "it is told once");
    // Nobody looks for one that was found.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(lab.count(Operation::Reconnect), 4);
}

/// The bug this keeps away: whoever may apply an agent takes back what it is allowed, and it is allowed as before.
#[tokio::test(start_paused = true)]
async fn what_is_said_anew_holds_for_what_it_asks_next() {
    let allows = format!("{WAITS}\non_prompt = {{ permission = \"allow\" }}");
    let lab = Lab::spawned(&allows).await;
    lab.until("idle again", |agent| agent.phase == Phase::Idle && agent.turn == 1).await;
    lab.adapter.send(&agent(), "[[bash:ls]]").await.expect("told");
    lab.until("allowed", |agent| agent.turn == 2 && agent.phase == Phase::Idle).await;
    lab.fleet.redefine(&agent(), defined(WAITS), "kubernetes").await.expect("written down");
    lab.adapter.send(&agent(), "[[bash:ls]]").await.expect("told");
    lab.until("a person's", |agent| agent.escalated.as_ref().is_some_and(|why| why.contains("asks"))).await;
    assert_eq!(lab.count(Operation::Respond), 1);
    let nobody = lab.fleet.redefine(&AgentId("nobody".to_owned()), defined(WAITS), "kubernetes").await;
    assert!(matches!(nobody, Err(FleetError::NoSuchAgent(_))), "{nobody:?}");
}
