use std::time::Duration;

use coop_api::{AgentId, Ask, AskChannel, AskId, AskKind, Fault, FaultKind};
use coop_policy::Policy;
use proptest::prelude::*;

use super::*;

fn rules(actions: Actions) -> Rules {
    Rules {
        name: "fixer".to_owned(),
        prompt: None,
        actions,
        limits: Limits::default(),
        policy: Policy::default(),
        folder: "/home/dev".to_owned(),
        kind: Some("claude"),
    }
}

fn idle_rules(steps: Vec<Step<IdleAction>>) -> Rules {
    let mut actions = Actions::with_idle(IdleAction::Escalate);
    actions.on_idle = Plan::new(steps).expect("a plan");
    rules(actions)
}

fn gate<A: Act>(action: A, attempts: Attempts) -> Step<A> {
    let gate = Gate { run: "make check".to_owned(), limit: Duration::from_secs(60) };
    Step { attempts, gate: Some(gate), ..Step::new(action) }
}

fn ask(id: &str, kind: AskKind) -> Input {
    Input::Prompt {
        ask: Box::new(Ask {
            id: AskId(id.to_owned()),
            kind,
            tool: Some("Bash".to_owned()),
            input: None,
            preview: "touch x".to_owned(),
            questions: Vec::new(),
            options: Vec::new(),
            opened: String::new(),
            channel: AskChannel::Structured,
            screen_lines: Vec::new(),
        }),
    }
}

fn fault(kind: FaultKind) -> Input {
    Input::Failed { fault: Fault { kind, message: "no".to_owned(), status: None, until: None } }
}

const IDLE: Input = Input::Idle { last_message: None };
const HELD: Input = Input::StopBlocked { reason: None };
const GONE: Input = Input::Gone { code: Some(3), signal: None };
const SPAWNED: Input = Input::Spawned { resumed: false };

/// An agent and its rules, with a clock that is moved by hand.
struct Play {
    rules: Rules,
    agent: Agent,
    now: Timestamp,
}

impl Play {
    fn new(rules: Rules) -> Self {
        let mut play = Self { rules, agent: Agent::new(AgentId("a1".to_owned()), Timestamp(0)), now: Timestamp(0) };
        play.feed(&SPAWNED);
        play
    }

    fn feed(&mut self, input: &Input) -> Vec<Effect> {
        self.now = self.now.plus(Duration::from_millis(1));
        let (agent, intents) = self.agent.step(&self.rules, input, self.now);
        self.agent = agent;
        intents.into_iter().map(|intent| intent.effect).collect()
    }

    /// Feeds several and returns all that is to be done, by name.
    fn names(&mut self, inputs: &[Input]) -> Vec<&'static str> {
        inputs.iter().flat_map(|input| self.feed(input)).map(|effect| name(&effect)).collect()
    }

    fn turn(&mut self) -> Vec<&'static str> {
        self.names(&[Input::Working, IDLE])
    }

    fn wait(&mut self, time: Duration) -> Vec<&'static str> {
        self.now = self.now.plus(time);
        self.names(&[Input::Due])
    }

    fn gate_ends(&mut self, verdict: GateVerdict) -> Vec<Effect> {
        let intent = self.agent.gates[0].intent.clone();
        self.feed(&Input::GateEnded { intent, verdict })
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
        Effect::Finish { outcome: Outcome::Done } => "done",
        Effect::Finish { outcome: Outcome::Failed { .. } } => "fail",
        Effect::Finish { outcome: Outcome::Dismissed { .. } } => "dismiss",
    }
}

/// Seed 000, "Stop Hook Flow": what `on_idle` says, the stop mode of the sidecar, and what is done in which order.
#[test]
fn the_table_of_idle_actions_and_stop_modes() {
    type Row<'a> = (IdleAction, StopMode, bool, &'a [Input], &'a [&'a str]);
    let table: [Row<'_>; 7] = [
        (IdleAction::Done, StopMode::Allow, false, &[Input::StopAllowed, IDLE], &["done"]),
        (IdleAction::Fail, StopMode::Allow, false, &[Input::StopAllowed, IDLE], &["fail"]),
        (IdleAction::Nudge, StopMode::Gate, false, &[HELD, Input::StopAllowed, IDLE], &["resolve", "send"]),
        (IdleAction::Gate, StopMode::Gate, false, &[HELD, Input::StopAllowed, IDLE], &["resolve", "gate"]),
        (IdleAction::Resume, StopMode::Gate, false, &[HELD, Input::StopAllowed, IDLE], &["resolve", "resume"]),
        (IdleAction::Escalate, StopMode::Gate, true, &[HELD, Input::StopAllowed, IDLE], &["resolve", "escalate"]),
        (IdleAction::Auto, StopMode::Auto, false, &[Input::StopAllowed, IDLE], &[]),
    ];
    for (action, mode, asks_user, inputs, expected) in table {
        let step = if action == IdleAction::Gate { gate(action, Attempts::Times(3)) } else { Step::new(action) };
        let mut play = Play::new(idle_rules(vec![step]));
        assert_eq!(play.agent.stop(&play.rules), (mode, asks_user), "{action:?}");
        let done = [play.names(&[Input::Working]), play.names(inputs)].concat();
        assert_eq!(done, expected, "{action:?}");
        assert_eq!(play.names(&[IDLE, Input::StopAllowed, IDLE]), [""; 0], "{action:?}: once for a turn");
    }
}

#[test]
fn the_stop_mode_follows_the_effective_action_and_no_other() {
    let nudge = Step { attempts: Attempts::Times(1), ..Step::new(IdleAction::Nudge) };
    let mut play = Play::new(idle_rules(vec![nudge, Step::new(IdleAction::Done)]));
    assert_eq!(play.agent.stop(&play.rules), (StopMode::Gate, false));
    assert_eq!(play.turn(), ["send"]);
    assert_eq!(play.agent.stop(&play.rules), (StopMode::Allow, false), "a sidecar that is started now");
    // One that was started before still holds the agent; it is let go all the same.
    assert_eq!(play.names(&[Input::Working, HELD, Input::StopAllowed, IDLE]), ["resolve", "done"]);
}

#[test]
fn the_table_of_dead_actions() {
    for (action, expected) in [
        (DeadAction::Done, "done"),
        (DeadAction::Fail, "fail"),
        (DeadAction::Resume, "resume"),
        (DeadAction::Restart, "restart"),
        (DeadAction::Escalate, "escalate"),
    ] {
        let mut actions = Actions::with_idle(IdleAction::Escalate);
        actions.on_dead = Plan::only(action);
        let mut play = Play::new(rules(actions));
        assert_eq!(play.names(&[Input::Working, GONE]), [expected]);
        assert_eq!(play.names(&[GONE]), [""; 0], "{action:?}: once for a death");
        assert_eq!(play.agent.exit, Some((Some(3), None)));
    }
}

#[test]
fn the_table_of_prompt_actions() {
    for (action, expected) in [
        (PromptAction::Escalate, "escalate"),
        (PromptAction::Allow, "allow"),
        (PromptAction::Deny, "deny"),
        (PromptAction::Gate, "gate"),
    ] {
        let step = if action == PromptAction::Gate { gate(action, Attempts::Forever) } else { Step::new(action) };
        let mut actions = Actions::with_idle(IdleAction::Escalate);
        actions.on_prompt.permission = Plan::new(vec![step]).expect("a plan");
        let mut play = Play::new(rules(actions));
        play.feed(&Input::Working);
        assert_eq!(play.names(&[ask("1", AskKind::Permission)]), [expected]);
        assert_eq!(play.names(&[ask("1", AskKind::Permission)]), [""; 0], "{action:?}: once for an ask");
        assert_eq!(play.names(&[ask("2", AskKind::Plan)]), ["escalate"], "other kinds have plans of their own");
    }
}

#[test]
fn the_table_of_error_actions() {
    let minute = Duration::from_secs(60);
    for kind in [FaultKind::RateLimit, FaultKind::Auth, FaultKind::Network, FaultKind::Overload, FaultKind::Other] {
        for (action, at_once, later) in [
            (ErrorAction::Retry, &[][..], &["send"][..]),
            (ErrorAction::Resume, &["resume"], &[]),
            (ErrorAction::Escalate, &["escalate"], &[]),
            (ErrorAction::Fail, &["fail"], &[]),
        ] {
            let mut actions = Actions::with_idle(IdleAction::Escalate);
            let plans = &mut actions.on_error;
            *match kind {
                FaultKind::RateLimit => &mut plans.rate_limit,
                FaultKind::Auth => &mut plans.auth,
                FaultKind::Network => &mut plans.network,
                FaultKind::Overload => &mut plans.overload,
                FaultKind::Request | FaultKind::Other => &mut plans.other,
            } = Plan::only(action);
            let mut play = Play::new(rules(actions));
            assert_eq!(play.names(&[Input::Working, fault(kind), fault(kind)]), at_once, "{kind:?} {action:?}");
            assert_eq!(play.wait(minute), later, "{kind:?} {action:?}");
            assert_eq!(play.names(&[IDLE]), [""; 0], "an error has had the turn's dispatch");
        }
    }
}

#[test]
fn a_retry_waits_until_the_limit_is_over() {
    let mut play = Play::new(rules(Actions::with_idle(IdleAction::Done)));
    let until = Some("1970-01-01T01:00:00Z".to_owned());
    let fault = Fault { kind: FaultKind::RateLimit, message: "no".to_owned(), status: None, until };
    play.names(&[Input::Working, Input::Failed { fault }]);
    assert_eq!(play.agent.next_due(), Some(Timestamp(3_600_000)));
    assert_eq!(play.wait(Duration::from_secs(120)), [""; 0]);
    assert_eq!(play.wait(Duration::from_secs(3600)), ["send"]);
}

#[test]
fn attempts_are_used_up_in_order_and_then_a_person_is_called() {
    let nudge = Step { attempts: Attempts::Times(2), ..Step::new(IdleAction::Nudge) };
    let mut play = Play::new(idle_rules(vec![nudge, Step::new(IdleAction::Resume)]));
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.extend(play.turn());
        if play.agent.replacing {
            seen.extend(play.names(&[GONE, Input::Spawned { resumed: true }, IDLE]));
        }
    }
    assert_eq!(seen, ["send", "send", "resume", "send", "escalate", "escalate"]);
    assert_eq!(play.agent.escalated.as_deref(), Some("it is idle"));
    play.feed(&Input::Steered { by: "ann".to_owned(), waits: false });
    assert_eq!(play.agent.escalated, None);
    assert_eq!(play.turn(), ["send"], "after a person came it begins anew");
}

/// Its time was counted from the first try, so that a second one days later was over at once.
#[test]
fn a_name_whose_start_failed_begins_anew() {
    let rules = idle_rules(vec![Step::new(IdleAction::Done)]);
    let new = Agent::new(AgentId("a1".to_owned()), Timestamp(0));
    let ordered = Input::Ordered { by: "ann".to_owned() };
    let (tried, intents) = new.step(&rules, &ordered, Timestamp(1));
    assert!(!tried.never_ran(), "it is being started");
    let failed = Input::IntentFailed { intent: intents[0].id.clone(), why: "no such program".to_owned() };
    let (failed, _) = tried.step(&rules, &failed, Timestamp(2));
    assert!(failed.never_ran());
    let (again, intents) = failed.step(&rules, &ordered, Timestamp(9000));
    assert_eq!((intents.len(), again.since, again.never_ran()), (1, Timestamp(9000), false));
    assert_eq!((again.outcome, again.escalated), (None, None));
}

/// A job was done, and ended, while what a person had told it to do next waited for just that.
#[test]
fn a_job_is_not_done_while_a_message_waits_for_it() {
    let mut play = Play::new(idle_rules(vec![Step::new(IdleAction::Done)]));
    let waits = Input::Steered { by: "ann".to_owned(), waits: true };
    play.names(&[Input::Working, waits.clone()]);
    assert_eq!(play.names(&[IDLE]), [""; 0], "the message is on its way");
    assert_eq!(play.turn(), ["done"], "that turn was the message's");

    let mut play = Play::new(idle_rules(vec![Step::new(IdleAction::Done)]));
    play.names(&[Input::Working, waits]);
    assert_eq!(play.names(&[IDLE]), [""; 0]);
    assert_eq!(play.wait(Duration::from_secs(30)), ["done"], "it was taken back, or could not be handed over");
}

#[test]
fn nobody_is_needed_for_an_ask_that_is_closed_or_an_agent_that_was_dismissed() {
    let mut play = Play::new(idle_rules(vec![Step::new(IdleAction::Escalate)]));
    play.names(&[Input::Working, ask("1", AskKind::Permission), ask("2", AskKind::Permission)]);
    assert!(play.agent.escalated.is_some());
    play.feed(&Input::AskClosed { ask: AskId("1".to_owned()) });
    assert!(play.agent.escalated.is_some(), "the other is still asked");
    play.feed(&Input::AskClosed { ask: AskId("2".to_owned()) });
    assert_eq!(play.agent.escalated, None);
    play.names(&[ask("3", AskKind::Permission), Input::Dismissed { by: "ann".to_owned(), others: false }]);
    assert_eq!(play.agent.escalated, None);
}

#[test]
fn a_cooldown_puts_the_next_attempt_off() {
    let cooldown = Duration::from_secs(30);
    let mut play = Play::new(idle_rules(vec![Step { cooldown, ..Step::new(IdleAction::Nudge) }]));
    assert_eq!(play.turn(), ["send"]);
    assert_eq!(play.turn(), [""; 0]);
    assert_eq!(play.agent.next_due(), play.agent.counts.idle.last.map(|last| last.plus(cooldown)));
    assert_eq!(play.wait(Duration::from_secs(10)), [""; 0], "too early");
    assert_eq!(play.wait(Duration::from_secs(20)), ["send"]);
    assert_eq!(play.wait(Duration::from_secs(90)), [""; 0], "once");
    // Somebody else sends it on meanwhile: then it need not be.
    assert_eq!(play.turn(), ["send"]);
    assert_eq!(play.turn(), ["escalate"], "attempts are counted, not time");
}

#[test]
fn a_cooldown_ends_when_the_agent_works_again() {
    let cooldown = Duration::from_secs(30);
    let mut play = Play::new(idle_rules(vec![Step { cooldown, ..Step::new(IdleAction::Nudge) }]));
    assert_eq!([play.turn(), play.turn(), play.names(&[Input::Working])].concat(), ["send"]);
    assert_eq!(play.wait(Duration::from_secs(60)), [""; 0]);
}

#[test]
fn the_output_of_a_gate_goes_to_the_agent_while_attempts_remain() {
    let message = Some(Template::parse("{attempt} of {attempts}: {output}").expect("known places"));
    let step = Step { message, ..gate(IdleAction::Gate, Attempts::Times(2)) };
    let mut play = Play::new(idle_rules(vec![step]));
    assert_eq!(play.turn(), ["gate"]);
    let failed = || GateVerdict::Failed { output: "2 tests fail".to_owned() };
    assert_eq!(play.gate_ends(failed()), [Effect::Send { message: "1 of 2: 2 tests fail".to_owned() }]);
    assert_eq!(play.turn(), ["gate"]);
    let reason = "it is idle".to_owned();
    assert_eq!(play.gate_ends(failed()), [Effect::Escalate { reason, ask: None }]);
}

#[test]
fn only_a_gate_that_passes_is_a_yes() {
    let verdicts = || {
        let broken = GateVerdict::Broken { why: "no such command".to_owned() };
        [GateVerdict::Passed, GateVerdict::Failed { output: "no".to_owned() }, GateVerdict::TimedOut, broken]
    };
    for (verdict, expected) in verdicts().into_iter().zip(["done", "send", "send", "escalate"]) {
        let mut play = Play::new(idle_rules(vec![gate(IdleAction::Gate, Attempts::Times(3))]));
        play.turn();
        assert_eq!(play.gate_ends(verdict).iter().map(name).collect::<Vec<_>>(), [expected]);
    }
    for (verdict, expected) in verdicts().into_iter().zip(["allow", "deny", "escalate", "escalate"]) {
        let mut actions = Actions::with_idle(IdleAction::Escalate);
        actions.on_prompt.permission = Plan::new(vec![gate(PromptAction::Gate, Attempts::Forever)]).expect("a plan");
        let mut play = Play::new(rules(actions));
        play.names(&[Input::Working, ask("1", AskKind::Permission)]);
        assert_eq!(play.gate_ends(verdict).iter().map(name).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn a_gate_that_nobody_waits_for_any_more_decides_nothing() {
    let mut actions = Actions::with_idle(IdleAction::Escalate);
    actions.on_prompt.permission = Plan::new(vec![gate(PromptAction::Gate, Attempts::Forever)]).expect("a plan");
    actions.on_idle = Plan::new(vec![gate(IdleAction::Gate, Attempts::Times(3))]).expect("a plan");
    let mut play = Play::new(rules(actions));
    play.names(&[Input::Working, ask("1", AskKind::Permission)]);
    let first = play.agent.gates[0].intent.clone();
    play.names(&[Input::AskClosed { ask: AskId("1".to_owned()) }, Input::Working, IDLE]);
    let second = play.agent.gates[0].intent.clone();
    play.feed(&Input::Working);
    for intent in [first, second] {
        assert_eq!(play.feed(&Input::GateEnded { intent, verdict: GateVerdict::Passed }), []);
    }
    assert_eq!(play.agent.outcome, None);
}

#[test]
fn a_process_that_is_replaced_is_not_dead_and_is_told_to_go_on() {
    let mut actions = Actions::with_idle(IdleAction::Escalate);
    actions.on_dead = Plan::only(DeadAction::Resume);
    let mut play = Play::new(Rules { prompt: Some("Fix it".to_owned()), ..rules(actions) });
    assert_eq!(play.names(&[Input::Working, GONE]), ["resume"]);
    assert_eq!(play.feed(&Input::Spawned { resumed: true }), [], "it takes no message yet");
    let told = play.feed(&IDLE);
    let message = "Your process was started again. Continue where you left off.".to_owned();
    assert_eq!(told, [Effect::Send { message }]);
    assert_eq!(play.names(&[IDLE]), [""; 0], "it has not had a turn yet");
    assert_eq!(play.names(&[Input::Working, GONE]), ["escalate"], "it dies again at once: that was its one attempt");
}

#[test]
fn the_prompt_is_told_once_for_each_fresh_conversation() {
    let rules = Rules { prompt: Some("Fix it".to_owned()), ..rules(Actions::with_idle(IdleAction::Done)) };
    let mut play = Play::new(rules);
    let (_, intents) = play.agent.step(&play.rules, &IDLE, Timestamp(1));
    let effect = Effect::Send { message: "Fix it".to_owned() };
    assert_eq!(intents, [Intent { id: IntentId("a1/1".to_owned()), agent: AgentId("a1".to_owned()), effect }]);
    assert_eq!(play.names(&[IDLE, IDLE, Input::Working, IDLE]), ["send", "done"]);
}

#[test]
fn an_agent_that_somebody_interrupted_is_left_to_them() {
    let mut play = Play::new(idle_rules(vec![Step::new(IdleAction::Nudge)]));
    assert_eq!(play.names(&[Input::Working, Input::Interrupted, IDLE]), [""; 0]);
    assert_eq!(play.turn(), ["send"]);
}

#[test]
fn an_agent_at_its_limit_is_not_sent_on() {
    let limits = Limits { turns: Some(2), ..Limits::default() };
    let mut play = Play::new(Rules { limits, ..idle_rules(vec![Step::new(IdleAction::Nudge)]) });
    assert_eq!([play.turn(), play.turn()].concat(), ["send", "escalate"]);
    assert_eq!(play.agent.escalated.as_deref(), Some("it has had 2 turns, of 2 at most"));
    let limits = Limits { cost_usd: Some(1.0), ..Limits::default() };
    let mut play = Play::new(Rules { limits, ..idle_rules(vec![Step::new(IdleAction::Nudge)]) });
    play.feed(&Input::Cost { usd: 1.5 });
    assert_eq!(play.turn(), ["escalate"]);
    // What agents below it cost counts too, and messages of agents change nothing about it.
    let limits = Limits { cost_usd: Some(1.0), ..Limits::default() };
    let mut play = Play::new(Rules { limits, ..idle_rules(vec![Step::new(IdleAction::Nudge)]) });
    play.feed(&Input::Cost { usd: 0.5 });
    play.feed(&Input::DescendantCost { usd: 0.25 });
    assert_eq!(play.turn(), ["send"]);
    play.feed(&Input::DescendantCost { usd: 0.25 });
    play.feed(&Input::Messaged { by: "agent b".to_owned() });
    assert_eq!(play.turn(), ["escalate"]);
}

#[test]
fn what_could_not_be_done_is_a_persons_and_is_called_for_once() {
    let mut play = Play::new(idle_rules(vec![Step::new(IdleAction::Nudge)]));
    play.turn();
    let failed = |id: &str| Input::IntentFailed { intent: IntentId(id.to_owned()), why: "busy".to_owned() };
    assert_eq!(play.names(&[failed("a1/1")]), ["escalate"]);
    let call = play.agent.call.clone().expect("a call").0;
    assert_eq!(play.names(&[failed(&call)]), [""; 0]);
}

#[test]
fn plans_that_make_no_sense_are_refused_with_a_reason() {
    let steps = |steps: Vec<Step<IdleAction>>| Plan::new(steps).expect_err("no plan").to_string();
    let nudge = || Step::new(IdleAction::Nudge);
    assert_eq!(steps(vec![]), "there is nothing to do; name at least one action");
    assert_eq!(
        steps(vec![Step::new(IdleAction::Done), nudge()]),
        "\"nudge\" is never reached: \"done\" before it has no end"
    );
    assert_eq!(
        steps(vec![Step { attempts: Attempts::Times(2), ..Step::new(IdleAction::Done) }]),
        "\"done\" takes no \"attempts\": nothing comes after it"
    );
    assert_eq!(
        steps(vec![Step { attempts: Attempts::Times(0), ..nudge() }]),
        "\"attempts\" is 0; leave \"nudge\" out instead"
    );
    assert_eq!(steps(vec![Step::new(IdleAction::Gate)]), "\"gate\" needs \"run\", the command that decides");
    let message = Some(Template::parse("x").expect("plain"));
    assert_eq!(steps(vec![Step { message, ..Step::new(IdleAction::Done) }]), "\"done\" takes no \"message\"");
    let run = Step { action: IdleAction::Nudge, ..gate(IdleAction::Gate, Attempts::Times(1)) };
    assert_eq!(steps(vec![run]), "\"nudge\" takes no \"run\" and no \"limit\"; only \"gate\" does");

    let base = Actions::with_idle(IdleAction::Done);
    let late = Plan::new(vec![nudge(), Step::new(IdleAction::Auto)]).expect("a plan by itself");
    let error = Actions::new(late, base.on_dead.clone(), base.on_prompt.clone(), base.on_error.clone());
    assert_eq!(
        error.expect_err("too late").to_string(),
        "\"auto\" cannot follow \"nudge\": the agent decides for itself from its start, or not at all"
    );
    let prompts = PromptPlans { question: Plan::only(PromptAction::Allow), ..base.on_prompt.clone() };
    assert_eq!(
        Actions::new(base.on_idle, base.on_dead, prompts, base.on_error),
        Err(PlanError::Question { action: "allow" })
    );
}

fn any_input() -> impl Strategy<Value = Input> {
    let kinds = prop::sample::select(vec![FaultKind::RateLimit, FaultKind::Auth, FaultKind::Other]);
    let asks = prop::sample::select(vec![AskKind::Permission, AskKind::Plan, AskKind::Question, AskKind::Setup]);
    let verdict = prop::sample::select(vec![
        GateVerdict::Passed,
        GateVerdict::Failed { output: "no".to_owned() },
        GateVerdict::TimedOut,
    ]);
    prop_oneof![
        1 => any::<bool>().prop_map(|resumed| Input::Spawned { resumed }),
        4 => Just(Input::Working),
        4 => Just(IDLE),
        1 => (0..4_u8, asks).prop_map(|(id, kind)| ask(&id.to_string(), kind)),
        1 => (0..4_u8).prop_map(|id| Input::AskClosed { ask: AskId(id.to_string()) }),
        1 => kinds.prop_map(fault),
        1 => Just(GONE),
        1 => Just(HELD),
        1 => Just(Input::StopAllowed),
        1 => Just(Input::Interrupted),
        3 => Just(Input::Due),
        1 => (1..40_u8, verdict).prop_map(|(id, verdict)| Input::GateEnded { intent: IntentId(format!("a1/{id}")), verdict }),
        1 => any::<bool>().prop_map(|waits| Input::Steered { by: "ann".to_owned(), waits }),
    ]
}

fn busy_rules() -> Rules {
    let cooldown = Duration::from_secs(5);
    let mut rules = idle_rules(vec![
        Step { cooldown, ..Step::new(IdleAction::Nudge) },
        gate(IdleAction::Gate, Attempts::Times(2)),
        Step::new(IdleAction::Resume),
    ]);
    rules.actions.on_dead = Plan::only(DeadAction::Resume);
    rules.actions.on_error.other = Plan::only(ErrorAction::Resume);
    rules.actions.on_prompt.permission = Plan::new(vec![gate(PromptAction::Gate, Attempts::Forever)]).expect("a plan");
    rules
}

type Story = Vec<(Input, u64)>;

fn any_story() -> impl Strategy<Value = Story> {
    prop::collection::vec((any_input(), 0..20_000_u64), 0..120)
}

/// Plays a story; returns what was intended at each step, with the turn and run before and after it.
fn play(rules: &Rules, story: &Story) -> (Agent, Vec<(Agent, Vec<Intent>)>) {
    let mut agent = Agent::new(AgentId("a1".to_owned()), Timestamp(0));
    let mut steps = Vec::new();
    let mut now = Timestamp(0);
    for (input, later) in story {
        now = now.plus(Duration::from_millis(*later));
        let (next, intents) = agent.step(rules, input, now);
        agent = next;
        steps.push((agent.clone(), intents));
    }
    (agent, steps)
}

proptest! {
    #[test]
    fn the_same_inputs_give_the_same_record_and_the_same_intents(story in any_story(), cut in 0..120_usize) {
        let rules = busy_rules();
        let (agent, steps) = play(&rules, &story);
        // A record that was written down half-way and read again goes on as if nothing had happened.
        let half = story.iter().take(cut).cloned().collect::<Vec<_>>();
        let (kept, _) = play(&rules, &half);
        let kept: Agent = serde_json::from_str(&serde_json::to_string(&kept).expect("JSON")).expect("the same");
        let mut again = kept;
        let mut now = half.iter().fold(0, |sum, (_, later)| sum + later);
        for (at, (input, later)) in story.iter().enumerate().skip(half.len()) {
            now += later;
            let (next, intents) = again.step(&rules, input, Timestamp(now));
            prop_assert_eq!(&intents, &steps[at].1);
            again = next;
        }
        prop_assert_eq!(again, agent);
    }

    #[test]
    fn intents_have_names_of_their_own(story in any_story()) {
        let (_, steps) = play(&busy_rules(), &story);
        let ids: Vec<_> = steps.iter().flat_map(|(_, intents)| intents.iter().map(|intent| &intent.id.0)).collect();
        let expected: Vec<_> = (1..=ids.len()).map(|n| format!("a1/{n}")).collect();
        prop_assert_eq!(ids, expected.iter().collect::<Vec<_>>());
    }

    /// Of all that moves an agent on (a message, a new process, its end) there is one for each turn of each process, but
    /// for the first words of a process.
    #[test]
    fn a_turn_is_dispatched_once(story in any_story()) {
        let (_, steps) = play(&busy_rules(), &story);
        let mut last = None;
        for (agent, intents) in &steps {
            let moves = intents.iter().filter(|intent| {
                matches!(intent.effect, Effect::Send { .. } | Effect::Resume | Effect::Restart | Effect::Finish { .. })
            });
            for _ in moves {
                // A death is no part of a turn: it has a dispatch of its own.
                let turn = (agent.run, agent.turn, agent.phase == Phase::Dead);
                prop_assert_ne!(last, Some(turn), "{:?}", intents);
                last = Some(turn);
            }
        }
    }

    #[test]
    fn nothing_is_answered_but_what_is_asked_and_nothing_twice(story in any_story()) {
        let mut open = std::collections::BTreeMap::new();
        let (_, steps) = play(&busy_rules(), &story);
        for ((agent, intents), (input, _)) in steps.iter().zip(&story) {
            for intent in intents {
                if let Effect::Answer { ask, allow, .. } = &intent.effect {
                    prop_assert!(agent.asks.contains(ask));
                    prop_assert!(open.insert(ask.clone(), ()).is_none(), "{} was answered before", ask);
                    let passed = matches!(input, Input::GateEnded { verdict: GateVerdict::Passed, .. });
                    prop_assert!(!allow || passed, "only a gate that passed says yes here");
                }
            }
            open.retain(|ask, ()| agent.asks.contains(ask));
        }
    }
}

#[test]
fn what_a_person_orders_is_done_whatever_was_decided_before() {
    let by = || "ann".to_owned();
    let mut play = Play::new(rules(Actions::with_idle(IdleAction::Done)));
    play.rules.limits.turns = Some(1);
    assert_eq!(play.names(&[Input::Ordered { by: by() }]), [] as [&str; 0], "it runs already");
    assert_eq!(play.turn(), ["done"]);
    assert_eq!(
        play.names(&[GONE, Input::Dismissed { by: by(), others: false }]),
        [] as [&str; 0],
        "it is over already"
    );
    assert_eq!(play.names(&[Input::Revived { by: by() }]), ["resume"], "also at a limit");
    assert_eq!(play.names(&[GONE, Input::Spawned { resumed: true }, IDLE]), [] as [&str; 0]);
    assert_eq!((play.agent.run, play.agent.outcome.clone()), (2, None));
    assert_eq!(play.names(&[Input::Dismissed { by: by(), others: false }]), ["dismiss"]);
    assert_eq!(play.agent.outcome, Some(Outcome::Dismissed { by: by() }));
    let fresh = Agent::new(AgentId("a2".to_owned()), Timestamp(0));
    let (_, intents) = fresh.step(&play.rules, &Input::Ordered { by: by() }, Timestamp(1));
    assert_eq!(intents.iter().map(|intent| name(&intent.effect)).collect::<Vec<_>>(), ["spawn"]);
}

/// Somebody ended it while it was being started. It came, was taken for wanted, and was started again when its process was ended.
#[test]
fn who_is_ended_while_it_is_started_stays_ended() {
    let by = || "ann".to_owned();
    let mut actions = Actions::with_idle(IdleAction::Escalate);
    actions.on_dead = Plan::only(DeadAction::Restart);
    for comes in [true, false] {
        let mut play = Play::new(rules(actions.clone()));
        play.agent = Agent::new(AgentId("a2".to_owned()), Timestamp(0));
        let ended = Input::Dismissed { by: by(), others: false };
        assert_eq!(play.names(&[Input::Ordered { by: by() }, ended]), ["spawn", "dismiss"]);
        let failed = Input::IntentFailed { intent: IntentId("a2-1".to_owned()), why: "it was ended".to_owned() };
        let after = if comes { vec![SPAWNED, GONE] } else { vec![failed] };
        assert_eq!(play.names(&after), [] as [&str; 0], "nobody is called, and nothing is begun");
        assert_eq!(play.agent.outcome, Some(Outcome::Dismissed { by: by() }));
        assert_eq!((play.agent.phase, play.agent.escalated), (Phase::Dead, None));
    }
}

/// Somebody else starts the next process: nothing is done and nothing is said, unless none comes.
#[test]
fn a_process_that_others_start_is_waited_for() {
    let mut actions = Actions::with_idle(IdleAction::Escalate);
    actions.on_dead = Plan::only(DeadAction::Wait);
    let mut play = Play::new(rules(actions));
    for _ in 0..5 {
        play.turn();
        assert_eq!(play.names(&[GONE]), [] as [&str; 0]);
        assert!(play.agent.comes_back());
        assert_eq!(play.wait(Duration::from_secs(200)), [] as [&str; 0]);
        assert_eq!(play.names(&[Input::Spawned { resumed: true }, IDLE]), [] as [&str; 0], "it is told nothing");
        assert_eq!(play.wait(Duration::from_secs(900)), [] as [&str; 0]);
    }
    assert_eq!(play.names(&[GONE]), [] as [&str; 0]);
    assert_eq!(play.wait(Duration::from_secs(300)), ["escalate"]);
    let why = "its process ended with code 3, and nobody has started another";
    assert_eq!(play.agent.escalated.as_deref(), Some(why));
    play.feed(&Input::Spawned { resumed: true });
    assert_eq!(play.agent.escalated, None, "one has come");
}

/// The bug this keeps away: somebody suspends an agent and takes that back at once, and whatever it asks from then on calls nobody.
#[test]
fn who_was_to_be_ended_by_others_and_runs_on_is_heeded_again() {
    let ended = || Input::Dismissed { by: "kubernetes".to_owned(), others: true };
    let runs_on = || Input::RunsOn { by: "kubernetes".to_owned() };
    let closed = |id: &str| Input::AskClosed { ask: AskId(id.to_owned()) };
    let nothing = [] as [&str; 0];
    let mut play = Play::new(idle_rules(vec![Step::new(IdleAction::Escalate)]));
    assert_eq!(play.names(&[runs_on()]), nothing);
    assert_eq!(play.names(&[Input::Working, ask("1", AskKind::Permission)]), ["escalate"]);
    assert_eq!(play.names(&[ended(), ended()]), nothing, "its process is theirs to end");
    assert_eq!(play.agent.escalated, None);
    assert_eq!(play.names(&[closed("1"), Input::Working, ask("2", AskKind::Permission)]), nothing);
    assert!(play.agent.outcome.is_some());
    assert_eq!(play.names(&[runs_on()]), ["escalate"], "what it asks now, and not what it asked");
    assert_eq!((&play.agent.outcome, play.agent.phase, play.agent.asks.len()), (&None, Phase::Asking, 1));
    assert_eq!(play.names(&[ended(), runs_on()]), ["escalate"], "whoever was called is called again");
    assert_eq!(play.names(&[closed("2"), Input::Working, ended(), IDLE]), nothing);
    assert_eq!(play.names(&[runs_on()]), ["escalate"], "it is idle");
    assert_eq!((&play.agent.outcome, play.agent.phase), (&None, Phase::Idle));
    // What a person has ended is not taken back by others, and what is gone does not run on.
    assert_eq!(play.names(&[ended(), Input::Dismissed { by: "ann".to_owned(), others: false }]), ["dismiss"]);
    assert_eq!(play.names(&[runs_on()]), nothing);
    assert_eq!(play.agent.outcome, Some(Outcome::Dismissed { by: "ann".to_owned() }));
    assert_eq!(play.names(&[Input::Spawned { resumed: true }, ended(), GONE, runs_on()]), nothing);
    assert!(play.agent.outcome.is_some());
}

/// The bug this keeps away: an agent ends by what it is told, that it was told is written down after its end, and nobody is
/// called any more, or what waits to be done is not done.
#[test]
fn what_was_told_to_a_process_that_is_gone_changes_nothing() {
    let told = Input::Steered { by: "ann".to_owned(), waits: false };
    let mut play = Play::new(rules(Actions::with_idle(IdleAction::Escalate)));
    play.turn();
    assert_eq!(play.names(&[GONE, told.clone()]), ["escalate"]);
    assert!(play.agent.escalated.is_some(), "somebody has to see to it");
    let mut actions = Actions::with_idle(IdleAction::Escalate);
    actions.on_dead = Plan::only(DeadAction::Wait);
    let mut play = Play::new(rules(actions));
    play.turn();
    play.names(&[GONE, told]);
    assert_eq!(play.wait(Duration::from_secs(300)), ["escalate"]);
}
