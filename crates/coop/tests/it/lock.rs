//! A client that has locked the terminal is typing: nothing else is typed meanwhile, whoever wants it.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::driven::{Agent, Runtime, Which};
use crate::tool::LIMIT;

/// A connection that can hold the lock.
struct Holder {
    runtime: tokio::runtime::Runtime,
    socket: WebSocketStream<UnixStream>,
}

impl Holder {
    fn connect(agent: &Agent) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let socket = runtime.block_on(async {
            let stream = UnixStream::connect(agent.sidecar.socket()).await.expect("it listens");
            tokio_tungstenite::client_async("ws://localhost/ws?mode=state", stream).await.expect("it upgrades").0
        });
        Self { runtime, socket }
    }

    /// Sends something and waits for the answer of this type.
    fn ask(&mut self, message: &Value, answer: &str) -> Value {
        self.runtime.block_on(async {
            self.socket.send(Message::text(message.to_string())).await.expect("it is open");
            loop {
                let next = timeout(LIMIT, self.socket.next()).await.unwrap_or_else(|_| panic!("no {answer} came"));
                let Message::Text(text) = next.expect("it is open").expect("no error") else { continue };
                let told: Value = serde_json::from_str(&text).expect("JSON");
                assert!(told["type"] != "error", "{told}");
                if told["type"] == answer {
                    return told;
                }
            }
        })
    }

    fn lock(&mut self, action: &str) {
        self.ask(&json!({ "type": "lock", "action": action }), "lock");
    }
}

#[test]
fn nothing_is_typed_to_an_agent_over_the_holder_of_the_lock() {
    let mut agent = Agent::start(&Which::Scripted, Runtime::Pty, &[], &[]);
    agent.state("idle");
    let mut holder = Holder::connect(&agent);
    holder.lock("acquire");
    let busy = |agent: &Agent, path: &str, body: &Value| {
        let (status, refused) = agent.post(path, body);
        assert_eq!((status, &refused["error"]["code"]), (409, &json!("WRITER_BUSY")), "{path}: {refused}");
    };

    // A message is typed: at once is not now, and what can wait does.
    busy(&agent, "/api/v1/agent/nudge", &json!({ "message": "now" }));
    let (status, queued) = agent.post("/api/v1/agent/nudge", &json!({ "message": "later", "when": "idle" }));
    assert_eq!((status, &queued["queued"]), (200, &json!(true)), "{queued}");
    let undelivered = agent.event("the refusal", |body| body["kind"] == "delivery");
    assert_eq!((&undelivered["delivered"], &undelivered["reason"]), (&json!(false), &json!("writer_busy")));
    assert_eq!(agent.get("/api/v1/agent/nudges")["nudges"][0]["id"], queued["id"], "it does not wait");
    holder.lock("release");
    let began = agent.event("the turn", |body| body["kind"] == "turn");
    assert_eq!(began["prompt"], "later");
    agent.state("idle");

    // The holder's own messages are no interruption. An answer that is not typed comes through; an interrupt is typed.
    holder.lock("acquire");
    let receipt = holder.ask(&json!({ "type": "nudge", "message": "one [[bash:touch allowed.txt]]" }), "receipt");
    assert_eq!(receipt["delivered"], true, "{receipt}");
    agent.asked("permission");
    busy(&agent, "/api/v1/agent/interrupt", &json!({}));
    assert_eq!(agent.respond(&json!({ "accept": true }))["via"], "hook");
    agent.state("idle");
    assert!(agent.has("allowed.txt"));

    // Whoever is gone holds nothing.
    let (status, queued) = agent.post("/api/v1/agent/nudge", &json!({ "message": "last", "when": "idle" }));
    assert_eq!((status, &queued["queued"]), (200, &json!(true)), "{queued}");
    drop(holder);
    let began = agent.event("the last turn", |body| body["kind"] == "turn" && body["what"] == "began");
    assert_eq!(began["prompt"], "last");
}

/// Over every transport that can name a writer.
#[test]
fn the_size_is_the_holders() {
    let agent = Agent::start(&Which::Scripted, Runtime::Pty, &[], &[]);
    let size = |cols: u32| json!({ "cols": cols, "rows": 30 });
    let mut holder = Holder::connect(&agent);
    holder.lock("acquire");
    let (status, refused) = agent.post("/api/v1/resize", &size(70));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("WRITER_BUSY")), "{refused}");
    let resized = holder.ask(&json!({ "type": "resize", "cols": 80, "rows": 30 }), "resize");
    assert_eq!(resized["cols"], 80);
    holder.lock("release");
    let (_, locked) = agent.post("/api/v1/lock", &json!({ "action": "acquire" }));
    assert_eq!(agent.post("/api/v1/resize", &size(90)).0, 409);
    let named = json!({ "cols": 90, "rows": 30, "writer": locked["writer"] });
    assert_eq!(agent.post("/api/v1/resize", &named), (200, size(90)));
    assert_eq!(agent.get("/api/v1/health")["terminal"], size(90));
}

#[test]
fn a_dialog_is_not_answered_by_keys_over_the_holder_of_the_lock() {
    let mut agent = Agent::start_new(&Which::Scripted);
    let ask = agent.asked("setup");
    let mut holder = Holder::connect(&agent);
    holder.lock("acquire");
    let (status, refused) = agent.post("/api/v1/agent/respond", &json!({ "ask": ask["id"], "accept": true }));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("WRITER_BUSY")), "{refused}");
    assert_eq!(agent.get("/api/v1/agent/asks")["asks"][0]["id"], ask["id"]);
    holder.lock("release");
    assert_eq!(agent.respond(&json!({ "ask": ask["id"], "accept": true }))["via"], "keys");
}

#[test]
fn an_agent_over_pipes_is_not_typed_to() {
    let mut agent = Agent::start(&Which::Scripted, Runtime::Pipe, &[], &[]);
    agent.state("idle");
    let mut holder = Holder::connect(&agent);
    holder.lock("acquire");
    agent.nudge("hello");
    agent.state("idle");
}
