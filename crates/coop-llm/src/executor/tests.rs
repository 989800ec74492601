//! The loop against models that say what a list tells them to, with the clock paused.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::{
    Events, Json, Model, Part, Price, Response, Role, StopReason, ToolError, ToolResult, ToolSpec, ToolUse, Usage,
    dynamic, typed,
};

/// A model that gives the answers of a list, and remembers what it was asked.
pub(super) struct Scripted {
    model: Model,
    answers: Mutex<VecDeque<Result<Response, AgentError>>>,
    asked: Mutex<Vec<Request>>,
}

impl Scripted {
    pub(super) fn new(answers: Vec<Result<Response, AgentError>>) -> Arc<Self> {
        Arc::new(Self {
            model: Model { name: "house".into(), max_tokens: 1000 },
            answers: Mutex::new(answers.into()),
            asked: Mutex::default(),
        })
    }

    pub(super) fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Agent for Scripted {
    fn model(&self) -> &Model {
        &self.model
    }

    async fn run(&self, request: &Request, _cx: &RunCx) -> Result<Response, AgentError> {
        self.asked.lock().unwrap().push(request.clone());
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(answer) => answer,
            // A model that does not listen to cancellations.
            None => std::future::pending().await,
        }
    }
}

pub(super) fn answer(parts: Vec<Part>, stop: StopReason) -> Result<Response, AgentError> {
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    Ok(Response { parts, usage, stop, model: "house".into(), request_id: None })
}

pub(super) fn says(text: &str) -> Result<Response, AgentError> {
    answer(vec![Part::text(text)], StopReason::Complete)
}

pub(super) fn calls(calls: &[(&str, &str, &str)]) -> Result<Response, AgentError> {
    answer(calls.iter().map(|call| wants(*call)).collect(), StopReason::ToolUse)
}

pub(super) fn wants((id, name, input): (&str, &str, &str)) -> Part {
    Part::ToolUse(ToolUse { id: id.into(), name: name.into(), input: Json::new(input) })
}

pub(super) fn result(id: &str, content: &str, is_error: bool) -> Part {
    Part::ToolResult(ToolResult { tool_use_id: id.into(), content: content.into(), is_error })
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Nap {
    seconds: u64,
}

pub(super) fn sleeper() -> impl Tool {
    typed("sleep", "Sleeps.", |nap: Nap, _| async move {
        tokio::time::sleep(Duration::from_secs(nap.seconds)).await;
        Ok::<_, ToolError>(format!("slept {}", nap.seconds))
    })
}

fn breaker() -> impl Tool {
    let spec = ToolSpec { name: "break".into(), description: String::new(), parameters: json!({"type": "object"}) };
    dynamic(spec, |value: serde_json::Value, _| async move {
        if value["how"] == "panic" {
            panic!("all is lost");
        }
        Err::<String, _>(ToolError::Failed("no luck".into()))
    })
}

pub(super) async fn run(executor: &Executor) -> Outcome {
    executor.run(vec![Message::user("Go.")], &RunCx::default()).await
}

#[tokio::test(start_paused = true)]
async fn tools_of_a_turn_run_together_and_answer_in_order() {
    let model = Scripted::new(vec![
        calls(&[("a", "sleep", r#"{"seconds": 30}"#), ("b", "sleep", r#"{"seconds": 10}"#)]),
        says("Done."),
    ]);
    let begun = Instant::now();
    let executor = Executor::new(model.clone()).tool(sleeper());
    // A run can be a task of its own.
    let outcome = tokio::spawn(async move { run(&executor).await }).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(30));
    assert!(matches!(outcome.exit, Exit::Completed));
    assert_eq!(outcome.text(), "Done.");
    assert_eq!(outcome.metrics.usage, Usage { input: 200, output: 20, ..Usage::default() });
    assert_eq!((outcome.metrics.invocations, outcome.metrics.tool_calls, outcome.metrics.tool_errors), (2, 2, 0));
    // All results of a turn are in one message of the user.
    let results = vec![result("a", "slept 30", false), result("b", "slept 10", false)];
    assert_eq!(outcome.history[2], Message { role: Role::User, content: results });
    assert_eq!(model.asked()[1].messages, outcome.history[..3]);
    assert_eq!(outcome.history.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_with_a_tool_is_told_to_the_model() {
    let model = Scripted::new(vec![
        calls(&[
            ("1", "fly", "{}"),
            ("2", "sleep", r#"{"seconds": "#),
            ("3", "sleep", r#"{"seconds": "long"}"#),
            ("4", "sleep", r#"{"seconds": 700}"#),
            ("5", "break", "{}"),
            ("6", "break", r#"{"how": "panic"}"#),
            ("7", "sleep", "[]"),
            ("8", "sleep", r#"{"seconds": 1}"#),
        ]),
        says("Well."),
    ]);
    let outcome = run(&Executor::new(model).tool(sleeper()).tool(breaker())).await;
    assert!(matches!(outcome.exit, Exit::Completed));
    let wrong = "the arguments do not fit: invalid type: string \"long\", expected u64 at line 1 column 18";
    assert_eq!(
        outcome.history[2].content,
        [
            result("1", "there is no tool \"fly\"; there are: sleep, break", true),
            result("2", "the arguments are not a JSON object", true),
            result("3", wrong, true),
            result("4", "stopped after 600s, which is the time limit", true),
            result("5", "no luck", true),
            result("6", "the tool broke: all is lost", true),
            result("7", "the arguments are not a JSON object", true),
            result("8", "slept 1", false),
        ]
    );
    assert_eq!(outcome.metrics.tool_errors, 7);
}

#[tokio::test(start_paused = true)]
async fn long_outputs_are_cut() {
    let model = Scripted::new(vec![calls(&[("1", "sleep", r#"{"seconds": 1}"#)]), says("")]);
    let limits = Limits { tool_output: 4, ..Limits::default() };
    let outcome = run(&Executor::new(model).tool(sleeper()).limits(limits)).await;
    assert_eq!(outcome.history[2].content, [result("1", "sl\n[… 3 bytes left out …]\n 1", false)]);
}

/// Denies what the test names.
struct No(&'static str);

#[async_trait]
impl Gate for No {
    async fn decide(&self, call: &ToolUse, _tool: &dyn Tool) -> Decision {
        if call.id == self.0 { Decision::Deny("says Bob".into()) } else { Decision::Allow }
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_does_not_run() {
    let nap = r#"{"seconds": 1}"#;
    let model = Scripted::new(vec![calls(&[("1", "sleep", nap), ("2", "sleep", nap)]), says("")]);
    let started = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&started);
    let events = Events::to(move |event| {
        if let Event::ToolStart(call) = event {
            seen.lock().unwrap().push(call.id);
        }
    });
    let cx = RunCx { events, ..RunCx::default() };
    let outcome = Executor::new(model).tool(sleeper()).gate(No("1")).run(vec![Message::user("Go.")], &cx).await;
    assert_eq!(outcome.history[2].content, [result("1", "not allowed: says Bob", true), result("2", "slept 1", false)]);
    assert_eq!(*started.lock().unwrap(), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_a_tool_and_keeps_what_there_is() {
    struct Gone(Arc<AtomicBool>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let gone = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&gone);
    let spec = ToolSpec { name: "hang".into(), description: String::new(), parameters: json!({"type": "object"}) };
    let hang = dynamic(spec, move |_: serde_json::Value, _| {
        let guard = Gone(Arc::clone(&held));
        async move {
            let _guard = guard;
            std::future::pending::<Result<String, ToolError>>().await
        }
    });
    let model = Scripted::new(vec![calls(&[("a", "sleep", r#"{"seconds": 1}"#), ("b", "hang", "{}")])]);
    let cx = RunCx::default();
    let cancel = cx.cancel.clone();
    let begun = Instant::now();
    let executor = Executor::new(model).tool(sleeper()).tool(hang);
    let (outcome, ()) = tokio::join!(executor.run(vec![Message::user("Go.")], &cx), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        cancel.cancel();
    });
    assert!(begun.elapsed() <= Duration::from_millis(5050));
    assert!(matches!(outcome.exit, Exit::Cancelled));
    assert!(gone.load(Ordering::SeqCst));
    assert_eq!(outcome.metrics.usage.total(), 110);
    let stopped = result("b", "not finished: the run was stopped", true);
    assert_eq!(outcome.history[2].content, [result("a", "slept 1", false), stopped]);
}

#[tokio::test(start_paused = true)]
async fn time_is_told_from_a_deadline_and_from_a_cancellation() {
    let limits = Limits { time: Some(Duration::from_secs(60)), ..Limits::default() };
    let begun = Instant::now();
    let outcome = run(&Executor::new(Scripted::new(vec![])).limits(limits.clone())).await;
    assert!(matches!(outcome.exit, Exit::Limit(Limit::Time)), "{:?}", outcome.exit);
    assert!(begun.elapsed() < Duration::from_millis(60_050));

    let cx = RunCx { deadline: Some(Instant::now() + Duration::from_secs(30)), ..RunCx::default() };
    let outcome = Executor::new(Scripted::new(vec![])).limits(limits).run(vec![Message::user("Go.")], &cx).await;
    assert!(matches!(&outcome.exit, Exit::Failed(error) if error.kind == ErrorKind::Timeout), "{:?}", outcome.exit);

    let cx = RunCx::default();
    cx.cancel.cancel();
    let outcome = Executor::new(Scripted::new(vec![])).run(vec![Message::user("Go.")], &cx).await;
    assert!(matches!(outcome.exit, Exit::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn the_run_ends_before_the_call_that_would_pass_a_limit() {
    let nap = r#"{"seconds": 1}"#;
    let many = || (0..9).map(|_| calls(&[("a", "sleep", nap)])).collect::<Vec<_>>();
    let executor = |model: &Arc<Scripted>, limits| {
        Executor::new(model.clone())
            .tool(sleeper())
            .limits(limits)
            .prices(Prices::none().with("house", Price::new(1.0, 10.0)))
    };

    let model = Scripted::new(many());
    let outcome = run(&executor(&model, Limits { turns: Some(3), ..Limits::default() })).await;
    assert!(matches!(outcome.exit, Exit::Limit(Limit::Turns)));
    assert_eq!((outcome.metrics.invocations, model.asked().len()), (3, 3));
    // The results of the last turn are kept, so the conversation can go on.
    assert_eq!(outcome.history.len(), 7);

    let model = Scripted::new(many());
    let outcome = run(&executor(&model, Limits { tokens: Some(1000), ..Limits::default() })).await;
    assert!(matches!(outcome.exit, Exit::Limit(Limit::Tokens)));
    assert!(outcome.metrics.usage.total() <= 1000, "{:?}", outcome.metrics);
    // What is left is what an answer may hold.
    let wanted: Vec<_> = model.asked().iter().map(|request| request.config.max_tokens.unwrap()).collect();
    assert!(wanted.is_sorted_by(|a, b| a > b) && wanted[0] < 1000, "{wanted:?}");

    let model = Scripted::new(many());
    let outcome = run(&executor(&model, Limits { cost: Some(0.004), ..Limits::default() })).await;
    assert!(matches!(outcome.exit, Exit::Limit(Limit::Cost)));
    assert!(outcome.metrics.cost.unwrap() <= 0.004);
    assert!(!model.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_limit_on_cost_without_a_price_is_refused_before_any_call() {
    let model = Scripted::new(vec![says("Hi.")]);
    let limits = Limits { cost: Some(1.0), ..Limits::default() };
    let outcome = run(&Executor::new(model.clone()).limits(limits)).await;
    assert!(matches!(&outcome.exit, Exit::Failed(error) if error.kind == ErrorKind::Invalid));
    assert!(model.asked().is_empty());
    assert_eq!(outcome.metrics.cost, None);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_cannot_be_kept_is_not_pretended() {
    let silent =
        || calls(&[("a", "sleep", r#"{"seconds": 1}"#)]).map(|answer| Response { usage: Usage::default(), ..answer });
    let limits = Limits { tokens: Some(5000), ..Limits::default() };
    let outcome = run(&Executor::new(Scripted::new(vec![silent()])).tool(sleeper()).limits(limits)).await;
    assert!(matches!(&outcome.exit, Exit::Failed(error) if error.kind == ErrorKind::Invalid), "{:?}", outcome.exit);
    assert_eq!(outcome.history[2].content, [result("a", "not run: the run was stopped", true)]);
    // Without a limit on them it does not matter.
    let outcome = run(&Executor::new(Scripted::new(vec![silent(), says("Done.")])).tool(sleeper())).await;
    assert_eq!(outcome.exit.as_str(), "completed");
}

#[tokio::test(start_paused = true)]
async fn half_a_call_is_asked_for_again_with_more_room_once() {
    for begun in [r#"{"seco"#, ""] {
        half_a_call(begun).await;
    }
}

async fn half_a_call(begun: &str) {
    let half = || answer(vec![Part::text("Now"), wants(("a", "sleep", begun))], StopReason::MaxTokens);
    let model = Scripted::new(vec![half(), says("Done.")]);
    let outcome = run(&Executor::new(model.clone()).tool(sleeper())).await;
    assert!(matches!(outcome.exit, Exit::Completed));
    let wanted: Vec<_> = model.asked().iter().map(|request| request.config.max_tokens.unwrap()).collect();
    assert_eq!(wanted, [1000, 2000]);
    assert_eq!(outcome.history.len(), 2);

    let model = Scripted::new(vec![half(), half()]);
    let outcome = run(&Executor::new(model).tool(sleeper())).await;
    assert!(matches!(outcome.exit, Exit::OutOfTokens));
    assert_eq!(outcome.history[1].content, [Part::text("Now")]);
    assert_eq!(outcome.metrics.usage.output, 20);
}

#[tokio::test(start_paused = true)]
async fn each_reason_to_stop_has_its_end() {
    for (stop, exit) in [
        (StopReason::Complete, "completed"),
        (StopReason::StopSequence, "completed"),
        (StopReason::ToolUse, "completed"),
        (StopReason::Other("new".into()), "completed"),
        (StopReason::MaxTokens, "out_of_tokens"),
        (StopReason::ContextExceeded, "context_full"),
        (StopReason::Refusal, "refused"),
    ] {
        let outcome = run(&Executor::new(Scripted::new(vec![answer(vec![Part::text("x")], stop.clone())]))).await;
        assert_eq!(outcome.exit.as_str(), exit, "{stop:?}");
        assert_eq!(outcome.response.unwrap().stop, stop);
    }
    // A refusal runs nothing, and leaves no call without a result behind.
    for stop in [StopReason::Refusal, StopReason::ContextExceeded] {
        let parts = vec![Part::text("x"), wants(("a", "sleep", r#"{"seconds": 1}"#))];
        let outcome = run(&Executor::new(Scripted::new(vec![answer(parts, stop)])).tool(sleeper())).await;
        assert_eq!((outcome.metrics.tool_calls, &outcome.history[1].content[..]), (0, &[Part::text("x")][..]));
    }
    // A pause is continued with what was said so far.
    let model = Scripted::new(vec![answer(vec![Part::text("x")], StopReason::Pause), says("y")]);
    let outcome = run(&Executor::new(model.clone())).await;
    assert_eq!(outcome.exit.as_str(), "completed");
    assert_eq!(model.asked()[1].messages.last().unwrap().role, Role::Assistant);
}

#[tokio::test(start_paused = true)]
async fn failures_keep_the_metrics_and_the_history() {
    let mut error = AgentError::new(ErrorKind::Network, "cut");
    error.usage = Usage { input: 7, ..Usage::default() };
    let model = Scripted::new(vec![calls(&[("a", "sleep", r#"{"seconds": 1}"#)]), Err(error)]);
    let outcome = run(&Executor::new(model).tool(sleeper())).await;
    assert!(matches!(&outcome.exit, Exit::Failed(error) if error.kind == ErrorKind::Network));
    assert_eq!(outcome.metrics.usage, Usage { input: 107, output: 10, ..Usage::default() });
    assert_eq!((outcome.metrics.invocations, outcome.history.len()), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn tools_that_only_fail_end_the_run() {
    let model = Scripted::new((0..20).map(|_| calls(&[("a", "break", "{}")])).collect());
    let outcome = run(&Executor::new(model).tool(breaker())).await;
    assert!(matches!(&outcome.exit, Exit::Failed(error) if error.kind == ErrorKind::Tool));
    assert_eq!(outcome.metrics.tool_errors, 10);
}

#[tokio::test(start_paused = true)]
async fn two_tools_of_one_name_are_refused() {
    let outcome = run(&Executor::new(Scripted::new(vec![])).tool(sleeper()).tool(sleeper())).await;
    assert!(matches!(&outcome.exit, Exit::Failed(error) if error.kind == ErrorKind::Invalid));
}

#[tokio::test(start_paused = true)]
async fn every_step_is_told_in_order() {
    let model = Scripted::new(vec![calls(&[("a", "sleep", r#"{"seconds": 2}"#)]), says("Done.")]);
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    let events = Events::to(move |event| {
        let line = match event {
            Event::Call { turn } => format!("call {turn}"),
            Event::Delta(_) | Event::Retry { .. } => "?".into(),
            Event::Reply { turn, stop, .. } => format!("reply {turn} {stop:?}"),
            Event::ToolStart(call) => format!("start {}", call.id),
            Event::ToolEnd { name, result, took } => format!("end {name} {} {took:?}", result.content),
            Event::End { exit, metrics } => format!("{exit} {}", metrics.usage.total()),
        };
        seen.lock().unwrap().push(line);
    });
    let cx = RunCx { events, ..RunCx::default() };
    Executor::new(model).tool(sleeper()).run(vec![Message::user("Go.")], &cx).await;
    assert_eq!(
        *told.lock().unwrap(),
        ["call 1", "reply 1 ToolUse", "start a", "end sleep slept 2 2s", "call 2", "reply 2 Complete", "completed 220"]
    );
}
