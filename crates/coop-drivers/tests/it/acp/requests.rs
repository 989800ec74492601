//! How it begins, and what the agent asks of us: it always gets an answer, and what it gets done is what was allowed.

use coop_api::FaultKind;
use coop_drivers::{
    Allowed, Driver, Ended, Launch, McpServer, McpWay, Meaning, Observation, Say, Served, Service, Signal, Variables,
};
use serde_json::{Value, json};

use super::{driver, launch};

/// Tells the driver something, and returns what it means and what the driver says.
fn tell(driver: &mut dyn Driver, message: Value) -> (Vec<Signal>, Vec<Say>) {
    let signals = driver.observe(&Observation::Control(&message), 0);
    (signals, driver.say())
}

fn message(said: &[Say]) -> &Value {
    match said {
        [Say::Message(message)] => message,
        other => panic!("{other:?}"),
    }
}

fn greeted(launch: &Launch, capabilities: Value) -> (Box<dyn Driver>, Vec<Signal>, Vec<Say>) {
    let mut driver = driver(launch);
    let methods = json!([{ "id": "oauth", "name": "Browser" }, { "id": "gemini-api-key", "name": "Key" }]);
    let reply = json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": 1,
        "agentCapabilities": capabilities, "authMethods": methods } });
    let (signals, said) = tell(driver.as_mut(), reply);
    (driver, signals, said)
}

fn fault(signals: &[Signal]) -> &coop_api::Fault {
    match signals {
        [Signal { meaning: Meaning::Blocked(fault), .. }] => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_what_is_allowed_is_offered() {
    for (files, terminals) in [(false, false), (true, false), (true, true)] {
        let launch = Launch { allowed: Allowed { files, terminals }, ..launch() };
        let opening = driver(&launch).setup(&launch).expect("a set-up").opening;
        let greeting = message(&opening);
        let offered = &greeting["params"]["clientCapabilities"];
        assert_eq!(greeting["params"]["protocolVersion"], 1);
        assert_eq!(offered["fs"], json!({ "readTextFile": files, "writeTextFile": files }));
        assert_eq!(offered["terminal"], terminals);
    }
}

#[test]
fn another_version_is_not_spoken() {
    let mut driver = driver(&launch());
    let (signals, said) = tell(driver.as_mut(), json!({ "id": 1, "result": { "protocolVersion": 2 } }));
    assert!(fault(&signals).message.contains("version 2"), "{signals:?}");
    assert_eq!(said, []);
}

#[test]
fn an_earlier_conversation_is_opened_in_the_way_the_agent_has() {
    let resumed = Launch { resume: Some("earlier".into()), ..launch() };
    for (launch, capabilities, method) in [
        (&launch(), json!({ "loadSession": true }), "session/new"),
        (&resumed, json!({ "loadSession": true }), "session/load"),
        (&resumed, json!({ "loadSession": true, "sessionCapabilities": { "resume": {} } }), "session/resume"),
    ] {
        let (_, _, said) = greeted(launch, capabilities);
        assert_eq!(message(&said)["method"], method);
        assert_eq!(message(&said)["params"]["cwd"], "/home/dev/project");
    }
    let (_, signals, said) = greeted(&resumed, json!({}));
    assert!(fault(&signals).message.contains("cannot go on"), "never a new one instead: {said:?}");
    assert_eq!(said, []);
}

#[test]
fn servers_of_tools_are_named_and_one_that_cannot_be_reached_is_not_left_out() {
    let env = [("KEY".to_owned(), "v".to_owned())].into();
    let way = McpWay::Program { command: "srv".into(), args: vec!["-x".into()], env };
    let program = McpServer { name: "a".into(), way };
    let way = McpWay::Url { url: "http://h".into(), headers: Default::default(), is_sse: false };
    let url = McpServer { name: "b".into(), way };
    let (_, _, said) = greeted(&Launch { mcp: vec![program.clone()], ..launch() }, json!({}));
    let stdio = json!({ "name": "a", "command": "srv", "args": ["-x"], "env": [{ "name": "KEY", "value": "v" }] });
    assert_eq!(message(&said)["params"]["mcpServers"], json!([stdio]));
    let both = Launch { mcp: vec![program, url], ..launch() };
    let (_, _, said) = greeted(&both, json!({ "mcpCapabilities": { "http": true } }));
    let http = json!({ "type": "http", "name": "b", "url": "http://h", "headers": [] });
    assert_eq!(message(&said)["params"]["mcpServers"], json!([stdio, http]));
    let (_, signals, said) = greeted(&both, json!({}));
    assert!(fault(&signals).message.contains("the MCP server b"), "{signals:?}");
    assert_eq!(said, []);
}

#[test]
fn it_logs_in_once_and_only_with_what_the_environment_has() {
    let refused = |id: i64| json!({ "id": id, "error": { "code": -32000, "message": "Authentication required" } });
    let (mut driver, _, _) = greeted(&launch(), json!({}));
    let (signals, said) = tell(driver.as_mut(), refused(3));
    assert_eq!((fault(&signals).kind, said.len()), (FaultKind::Auth, 0));
    let why = &fault(&signals).message;
    assert!(why.contains("oauth (Browser)") && why.contains("set GEMINI_API_KEY"), "{why}");

    let variables = Variables([("GEMINI_API_KEY".to_owned(), "k".to_owned())].into());
    let (mut driver, _, _) = greeted(&Launch { variables, ..launch() }, json!({}));
    let (signals, said) = tell(driver.as_mut(), refused(3));
    assert_eq!((signals.len(), &message(&said)["params"]), (0, &json!({ "methodId": "gemini-api-key" })));
    let (_, said) = tell(driver.as_mut(), json!({ "id": 2, "result": {} }));
    assert_eq!(message(&said)["method"], "session/new");
    let (signals, said) = tell(driver.as_mut(), refused(3));
    assert_eq!((fault(&signals).kind, said.len()), (FaultKind::Auth, 0), "it does not try for ever");
}

#[test]
fn what_is_not_offered_is_no_method() {
    let (mut driver, _, _) = greeted(&launch(), json!({}));
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/output", "nonsense", "_x/y"]
    {
        let asked = json!({ "jsonrpc": "2.0", "id": "a", "method": method, "params": { "path": "/x", "content": "" } });
        let (signals, said) = tell(driver.as_mut(), asked);
        assert_eq!(signals, []);
        assert_eq!((&message(&said)["id"], &message(&said)["error"]["code"]), (&json!("a"), &json!(-32601)));
    }
    let (_, said) = tell(driver.as_mut(), json!({ "id": 4, "method": "session/request_permission", "params": {} }));
    assert_eq!(message(&said)["error"]["code"], -32602, "whoever is not understood is told so");
}

#[test]
fn what_is_allowed_is_done_and_the_agent_is_told() {
    let launch = Launch { allowed: Allowed { files: true, terminals: true }, ..launch() };
    let (mut driver, _, _) = greeted(&launch, json!({}));
    let mut ask = |method: &str, params: Value, outcome: Served| -> (Service, Value, Vec<Signal>) {
        let mut params = params;
        params["sessionId"] = "s".into();
        let (_, said) = tell(driver.as_mut(), json!({ "id": 9, "method": method, "params": params }));
        let [Say::Serve(serve)] = &said[..] else { panic!("{said:?}") };
        let signals = driver.observe(&Observation::Served { name: &serve.name, outcome: &outcome }, 0);
        let reply = message(&driver.say()).clone();
        assert_eq!(reply["id"], 9);
        (serve.what.clone(), reply, signals)
    };
    let (what, reply, _) = ask(
        "fs/read_text_file",
        json!({ "path": "/home/dev/project/a", "line": 2, "limit": 3 }),
        Served::Text("x".into()),
    );
    assert_eq!(what, Service::ReadFile { path: "/home/dev/project/a".into(), from: Some(2), lines: Some(3) });
    assert_eq!(reply["result"], json!({ "content": "x" }));
    let (_, reply, signals) =
        ask("fs/write_text_file", json!({ "path": "/home/dev/project/a.rs", "content": "y" }), Served::Done);
    assert_eq!(reply["result"], json!({}));
    assert!(matches!(&signals[..], [Signal { meaning: Meaning::Wrote(wrote), .. }] if wrote.artifact_kind == "code"));
    let (_, reply, signals) = ask(
        "fs/write_text_file",
        json!({ "path": "/etc/x", "content": "y" }),
        Served::Failed("not in the folder".into()),
    );
    assert_eq!((&reply["error"]["message"], signals.len()), (&json!("Internal error: not in the folder"), 0));
    let (_, reply, _) =
        ask("fs/read_text_file", json!({ "path": "/home/dev/project/no" }), Served::Missing("no".into()));
    assert_eq!(reply["error"]["code"], -32002);
    let (what, reply, _) = ask("terminal/create", json!({ "command": "ls -l" }), Served::Terminal("t1".into()));
    let command: Vec<_> = ["sh", "-c", "ls -l"].map(str::to_owned).into();
    assert_eq!(what, Service::StartTerminal { command, env: Vec::new(), cwd: None, keep: None });
    assert_eq!(reply["result"], json!({ "terminalId": "t1" }));
    let killed = Ended { code: None, signal: Some(9) };
    let (_, reply, _) = ask("terminal/wait_for_exit", json!({ "terminalId": "t1" }), Served::Ended(killed));
    assert_eq!(reply["result"]["signal"], "SIGKILL");
    let output =
        Served::Output { text: "z".into(), truncated: true, ended: Some(Ended { code: Some(0), signal: None }) };
    let (_, reply, _) = ask("terminal/output", json!({ "terminalId": "t1" }), output);
    assert_eq!(reply["result"], json!({ "output": "z", "truncated": true, "exitStatus": { "exitCode": 0 } }));
}

#[test]
fn what_an_interrupted_turn_left_in_terminals_is_ended() {
    let ended = |terminals, reason: &str| {
        let launch = Launch { allowed: Allowed { files: true, terminals }, ..launch() };
        let (mut driver, _, _) = greeted(&launch, json!({}));
        let prompt = json!({ "id": 1001, "method": "session/prompt", "params": { "prompt": [{ "text": "hello" }] } });
        driver.observe(&Observation::Sent(&prompt), 0);
        let (_, said) = tell(driver.as_mut(), json!({ "id": 1001, "result": { "stopReason": reason } }));
        let done = |say: &Say| matches!(say, Say::Serve(serve) if serve.what == Service::KillTerminals);
        let (count, ends) = (said.len(), said.iter().any(done));
        driver.observe(&Observation::Served { name: "interrupted", outcome: &Served::Done }, 0);
        assert!(driver.say().is_empty(), "nobody asked for it, so nobody is told");
        (count, ends)
    };
    assert_eq!(ended(true, "cancelled"), (1, true));
    assert_eq!(ended(true, "end_turn"), (0, false), "what was left running on purpose goes on");
    assert_eq!(ended(false, "cancelled"), (0, false));
}
