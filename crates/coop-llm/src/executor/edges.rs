//! The loop where something is at its edge: half an answer, a stop at the wrong moment, a provider that never ends.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use super::tests::{Scripted, answer, calls, result, run, says, sleeper, wants};
use super::*;
use crate::{Events, Part, Response, StopReason, Thinking, ToolError, ToolSpec, dynamic};

#[tokio::test(start_paused = true)]
async fn a_provider_that_only_pauses_is_not_paid_for_ever() {
    let pauses = || answer(vec![Part::text("…")], StopReason::Pause);
    let model = Scripted::new((0..50).map(|_| pauses()).collect());
    let outcome = run(&Executor::new(model.clone())).await;
    assert!(matches!(&outcome.exit, Exit::Failed(error) if error.kind == ErrorKind::Agent), "{:?}", outcome.exit);
    assert_eq!(model.asked().len(), 20);
}

/// More than the model can write is refused by the provider. That is not what the caller asked for.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_more_room_is_the_end_of_the_room() {
    let half = answer(vec![wants(("a", "sleep", r#"{"seco"#))], StopReason::MaxTokens);
    let refused = Err(AgentError::new(ErrorKind::Invalid, "max_tokens: 2000 > 1000"));
    let outcome = run(&Executor::new(Scripted::new(vec![half, refused])).tool(sleeper())).await;
    assert!(matches!(outcome.exit, Exit::OutOfTokens), "{:?}", outcome.exit);
    // Without that, it is an error like any other.
    let refused = Err(AgentError::new(ErrorKind::Invalid, "no"));
    let outcome = run(&Executor::new(Scripted::new(vec![refused]))).await;
    assert!(matches!(&outcome.exit, Exit::Failed(error) if error.kind == ErrorKind::Invalid), "{:?}", outcome.exit);
}

/// A thought that was cut off has no signature yet, and would be refused.
#[tokio::test(start_paused = true)]
async fn half_a_thought_is_told_and_not_kept() {
    let thought = |signature: &str| Part::Thinking(Thinking { thinking: "hm".into(), signature: signature.into() });
    let cut = answer(vec![thought("s"), Part::text("Now"), thought("")], StopReason::MaxTokens);
    let outcome = run(&Executor::new(Scripted::new(vec![cut]))).await;
    assert_eq!(outcome.history[1].content, [thought("s"), Part::text("Now")]);
    assert_eq!(outcome.response.unwrap().parts.len(), 3);
}

/// The answer came, and so did the end: what it wants is not even begun.
#[tokio::test(start_paused = true)]
async fn no_tool_is_begun_after_the_end() {
    let begun = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&begun);
    let spec = ToolSpec { name: "count".into(), description: String::new(), parameters: json!({"type": "object"}) };
    let tool = dynamic(spec, move |_: serde_json::Value, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, ToolError>("counted") }
    });
    let cx = RunCx::default();
    let cancel = cx.cancel.clone();
    // Cancelled by whoever hears of the answer, before its tools.
    let events = Events::to(move |event| {
        if matches!(event, Event::Reply { .. }) {
            cancel.cancel();
        }
    });
    let model = Scripted::new(vec![calls(&[("a", "count", "{}")])]);
    let cx = RunCx { events, ..cx };
    let outcome = Executor::new(model).tool(tool).run(vec![Message::user("Go.")], &cx).await;
    assert!(matches!(outcome.exit, Exit::Cancelled), "{:?}", outcome.exit);
    assert_eq!(begun.load(Ordering::SeqCst), 0);
    assert_eq!(outcome.history[2].content, [result("a", "not finished: the run was stopped", true)]);
}

/// A keeper has at every moment what is needed to go on.
#[tokio::test(start_paused = true)]
async fn whoever_keeps_a_conversation_can_go_on_with_it() {
    let model = Scripted::new(vec![calls(&[("a", "sleep", r#"{"seconds": 1}"#)]), says("Done.")]);
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let executor = Executor::new(model).tool(sleeper()).keeper(move |history, metrics| {
        keep.lock().unwrap().push((history.to_vec(), metrics.usage.total()));
    });
    let outcome = run(&executor).await;
    let mut kept = std::mem::take(&mut *kept.lock().unwrap());
    assert_eq!(
        kept.iter().map(|(history, tokens)| (history.len(), *tokens)).collect::<Vec<_>>(),
        [(2, 110), (3, 110), (4, 220)]
    );
    assert_eq!(kept[2].0, outcome.history);
    // Killed while the tool ran.
    let history = &mut kept[0].0;
    Message::settle(history);
    assert_eq!(history[2].content, [result("a", "not finished: the run was stopped", true)]);
    // One that is whole stays as it is.
    let history = &mut kept[1].0;
    Message::settle(history);
    assert_eq!(history.len(), 3);
}

/// Knows a secret.
struct Discreet(Arc<Scripted>);

#[async_trait::async_trait]
impl Agent for Discreet {
    fn model(&self) -> &crate::Model {
        self.0.model()
    }

    fn hide(&self, text: String) -> String {
        text.replace("sk-secret", "…")
    }

    async fn run(&self, request: &Request, cx: &RunCx) -> Result<Response, AgentError> {
        self.0.run(request, cx).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_a_tool_finds_is_not_told() {
    let spec = ToolSpec { name: "find".into(), description: String::new(), parameters: json!({"type": "object"}) };
    let find = dynamic(spec, |_: serde_json::Value, _| async { Ok::<_, ToolError>("api_key = sk-secret") });
    let model = Scripted::new(vec![calls(&[("a", "find", "{}")]), says("")]);
    let outcome = run(&Executor::new(Arc::new(Discreet(model))).tool(find)).await;
    assert_eq!(outcome.history[2].content, [result("a", "api_key = …", false)]);
}
