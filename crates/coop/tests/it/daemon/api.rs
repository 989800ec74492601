//! The daemon's own routes: what they answer is what OpenAPI says, and nothing is lost on the way.

use serde_json::{Value, json};

use super::lab::{Lab, is};
use super::launch::{Launch, by_each_launcher};

by_each_launcher! {
    every_route_answers_as_it_is_described,
    the_web_socket_tells_everything_as_it_is_and_then_what_is_new,
}

/// Holds a body against a schema of the committed description.
fn check(name: &str, body: &Value) {
    let document = coop_server::fleet::openapi();
    assert!(document["components"]["schemas"][name].is_object(), "no {name}");
    let reference = format!("#/components/schemas/{name}");
    let schema = json!({ "$ref": reference, "components": document["components"] });
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let wrong: Vec<_> = validator.iter_errors(body).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{name}: {wrong:?} {body:#}");
}

fn every_route_answers_as_it_is_described(launch: Launch) {
    let lab = Lab::by(launch, "[agents.asker]\nSIM\nkind = \"crew\"\nprompt = \"[[bash:touch made]]\"\n");
    lab.ok(&["spawn", "asker"]);
    lab.until(0, "an ask", |entry| is(entry, "prompt"));
    let routes = coop_server::fleet::ROUTES.iter().filter(|route| route.method == "GET");
    for route in routes.filter_map(|route| Some((route.path.replace("{id}", "asker"), route.response?))) {
        let (status, body) = lab.ask("GET", &route.0, "");
        assert_eq!(status, 200, "{route:?}: {body}");
        check(route.1, &body);
    }
    let (_, served) = lab.ask("GET", "/api/v1/openapi.json", "");
    assert_eq!(served, coop_server::fleet::openapi());
    let (_, stats) = lab.ask("GET", "/api/v1/stats", "");
    let counted = (&stats["agents"], &stats["asks"], &stats["phases"], &stats["needing"], &stats["runs"]);
    assert_eq!(counted, (&json!(1), &json!(1), &json!({ "asking": 1 }), &json!(1), &json!(1)), "{stats}");
    assert_eq!(stats["intents"]["done"].as_u64().map(|done| done >= 2), Some(true), "{stats}");
    lab.ok(&["kill", "asker"]);
    let (_, audit) = lab.ask("GET", "/api/v1/audit", "");
    check("AuditBody", &audit);
}

fn the_web_socket_tells_everything_as_it_is_and_then_what_is_new(launch: Launch) {
    let mut lab = Lab::by(launch, "[agents.asker]\nSIM\nkind = \"crew\"\nprompt = \"[[bash:touch made]]\"\n");
    let mut early = lab.watch("/api/v1/ws");
    let first = early.next().expect("a snapshot");
    assert_eq!(first, json!({ "type": "snapshot", "newest": 0, "agents": [], "asks": [] }));
    lab.ok(&["spawn", "asker"]);
    let mut heard = Vec::new();
    let asking = loop {
        let message = early.next().expect("it goes on");
        match message["type"].as_str() {
            Some("entry") => heard.push(message["id"].as_u64().expect("a number")),
            Some("agent") if message["agent"]["phase"] == "asking" => break message,
            Some("agent") => {}
            _ => panic!("{message}"),
        }
    };
    // The agent's card comes with what it asks, and after all that made it so.
    check("AgentCard", &asking["agent"]);
    assert_eq!(asking["asks"][0]["id"], asking["agent"]["asks"][0]);
    assert_eq!(asking["newest"].as_u64(), heard.last().copied(), "{asking}");
    // Who comes late has the same at once, and what it missed if it says what it knows.
    let mut snapshot = lab.watch("/api/v1/ws").next().expect("a snapshot");
    assert_eq!(snapshot["agents"][0]["asks"], asking["agent"]["asks"]);
    assert_eq!(snapshot["asks"][0]["ask"], asking["asks"][0]);
    snapshot.as_object_mut().expect("an object").remove("type");
    check("Snapshot", &snapshot);
    let known = heard[1];
    let missed: Vec<_> = lab
        .watch(&format!("/api/v1/ws?after={known}"))
        .skip(1)
        .map_while(|message| (message["type"] == "entry").then(|| message["id"].as_u64().expect("a number")))
        .collect();
    assert!(missed.starts_with(&heard[2..]), "{missed:?} {heard:?}");
    // Those who follow do not keep the daemon from its end.
    lab.ok(&["down"]);
    assert_eq!(crate::tool::wait_for(lab.daemon.as_mut().expect("it runs")), 0);
    lab.up();
    lab.ok(&["kill", "asker"]);
}

#[test]
fn the_web_socket_takes_no_orders_and_asks_for_the_token() {
    use tokio_tungstenite::tungstenite::{Message, client};
    let mut lab = Lab::new("");
    let (mut socket, _) = client("ws://localhost/api/v1/ws", lab.connect()).expect("it is served");
    socket.read().expect("a snapshot");
    socket.send(Message::Text(r#"{"type":"shutdown"}"#.into())).expect("sent");
    let refused: Value =
        serde_json::from_str(socket.read().expect("an answer").to_text().expect("text")).expect("JSON");
    assert_eq!((&refused["type"], &refused["code"]), (&json!("error"), &json!("BAD_REQUEST")));
    lab.kill();
    lab.up_with(&["--auth-token", "secret"]);
    let (mut socket, _) = client("ws://localhost/api/v1/ws?token=wrong", lab.connect()).expect("it is served");
    let closed = socket.read().expect("a close");
    assert!(matches!(&closed, Message::Close(Some(frame)) if frame.reason.contains("token is wrong")), "{closed:?}");
    let (mut socket, _) = client("ws://localhost/api/v1/ws", lab.connect()).expect("it is served");
    socket.send(Message::Text(r#"{"type":"auth","token":"secret"}"#.into())).expect("sent");
    let first = socket.read().expect("a snapshot");
    assert!(first.to_text().expect("text").contains("snapshot"), "{first:?}");
}
