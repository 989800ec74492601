//! A conversation with thoughts and parallel calls goes back to the provider as it came.
//!
//! `data/parallel` has the first answer as the API sends it, and the second request byte for byte.

use coop_llm::{
    ApiKey, Claude, Event, Events, Executor, Exit, Message, ProviderConfig, RunCx, ToolError, ToolSpec, Usage, dynamic,
    typed,
};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::canned::{End, Wire, claude, config, hello, stream_of};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Place {
    city: String,
}

/// The mark by which the provider is asked to keep a conversation, which is the default.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

#[tokio::test(start_paused = true)]
async fn a_conversation_goes_back_byte_for_byte() {
    let wire =
        Wire::new([stream_of(include_str!("../data/parallel/1.sse"), End::Whole), stream_of(hello(), End::Whole)]);
    goes_back(&wire, claude(&wire), 0).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_marked_for_the_cache_is_the_same_but_for_the_mark() {
    let wire =
        Wire::new([stream_of(include_str!("../data/parallel/1.sse"), End::Whole), stream_of(hello(), End::Whole)]);
    let config = ProviderConfig { cache: true, ..config() };
    goes_back(&wire, Claude::over(wire.clone(), ApiKey::new("sk-secret"), config), 1).await;
}

async fn goes_back(wire: &Arc<Wire>, claude: Claude, marks: usize) {
    let weather = typed("weather", "Tells the weather.", |place: Place, _| async move {
        if place.city == "Zürich" {
            // The first call ends last, and its result is still the first.
            tokio::time::sleep(Duration::from_secs(5)).await;
            return Ok(format!("rain in {}", place.city));
        }
        Err(ToolError::Failed(format!("no luck with {}", place.city)))
    });
    let spec =
        ToolSpec { name: "today".into(), description: "Tells the day.".into(), parameters: json!({"type": "object"}) };
    let today = dynamic(spec, |_: serde_json::Value, _| async { Ok::<_, ToolError>("Monday") });
    let ended = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ended);
    let events = Events::to(move |event| {
        if let Event::ToolEnd { result, .. } = event {
            seen.lock().unwrap().push(result.tool_use_id);
        }
    });
    let executor = Executor::new(Arc::new(claude)).tool(weather).tool(today);
    let cx = RunCx { events, ..RunCx::default() };
    let outcome = executor.run(vec![Message::user("Hi")], &cx).await;

    assert!(matches!(outcome.exit, Exit::Completed), "{:?}", outcome.exit);
    let body = &wire.bodies()[1];
    assert_eq!(body.matches(MARK).count(), marks, "{body}");
    assert_eq!(body.replace(MARK, ""), include_str!("../data/parallel/2.request.json"));
    assert_eq!(*ended.lock().unwrap(), ["toolu_02", "toolu_03", "toolu_01"]);
    assert_eq!(outcome.metrics.usage, Usage { input: 325, output: 135, cache_read: 4, cache_write: 3 });
    // 328 tokens at 5 dollars a million, of them 3 at 6.25 and 4 at 0.5, and 135 at 25.
    let cost = (325.0 * 5.0 + 4.0 * 0.5 + 3.0 * 6.25 + 135.0 * 25.0) / 1e6;
    assert!((outcome.metrics.cost.unwrap() - cost).abs() < 1e-12);

    // A history that was saved and read again is the same to the byte.
    let saved = serde_json::to_string(&outcome.history).unwrap();
    let read: Vec<Message> = serde_json::from_str(&saved).unwrap();
    assert_eq!(read, outcome.history);
    assert_eq!(serde_json::to_string(&read).unwrap(), saved);
}
