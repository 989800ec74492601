//! Tools of MCP servers: a program, and a server over HTTP.

use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json as Body;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use coop_llm::{ErrorKind, Json, McpConfig, McpServers, RunCx, Tool, ToolCx};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::tools::{Alive, aside};

/// A test that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// A server that knows one tool, and says which variables it sees.
const PROGRAM: &str = include_str!("../data/mcp-server.sh");

async fn connect(config: Value) -> Result<McpServers, coop_llm::AgentError> {
    let config: McpConfig = serde_json::from_value(config).unwrap();
    tokio::time::timeout(LIMIT, McpServers::connect(&config, &RunCx::default())).await.expect("in time")
}

async fn call(tool: &Arc<dyn Tool>, arguments: Value) -> Result<String, String> {
    let cx = ToolCx { call_id: "c".into(), cancel: CancellationToken::new(), deadline: Instant::now() + LIMIT };
    let done = tokio::time::timeout(LIMIT, tool.execute(&Json::from(arguments), &cx)).await.expect("in time");
    done.map(|output| output.text).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_programs_tools_can_be_called() {
    let folder = tempfile::tempdir().unwrap();
    let program = json!({"command": "/bin/sh", "args": ["-c", PROGRAM], "env": {"OPENAI_API_KEY": "given"},
        "cwd": folder.path()});
    let servers = connect(json!({"mcpServers": {"my one": program}})).await.unwrap();
    let tools = servers.tools();
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0].spec().name, "mcp__my_one__echo");
    assert_eq!(tools[0].spec().description, "Says it again.");
    assert_eq!(tools[0].spec().parameters["properties"], json!({"text": {"type": "string"}}));
    // What a configuration gives is given, also if it is a key.
    assert_eq!(call(&tools[0], json!({"text": "hello"})).await, Ok("hello given".into()));
    assert_eq!(call(&tools[0], json!({"text": "fail"})).await, Err("it failed".into()));
    assert_eq!(call(&tools[0], json!({"text": "refuse"})).await, Err("no such thing".into()));

    // The program ends with the connection, and its child with it: nobody holds the FIFO any more.
    let alive = folder.path().join("alive");
    let (fifo, line) = aside(move || {
        let mut fifo = BufReader::new(std::fs::File::open(alive).unwrap());
        let mut line = String::new();
        fifo.read_line(&mut line).unwrap();
        (fifo, line)
    })
    .await;
    assert_eq!(line, "begun\n");
    drop(servers);
    aside(move || std::io::read_to_string(fifo).unwrap()).await;
    // Whoever still has the tool is told.
    assert!(call(&tools[0], json!({"text": "hello"})).await.is_err());
}

#[tokio::test]
async fn a_server_over_http_can_be_called() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&seen);
    let answer = async move |headers: HeaderMap, Body(message): Body<Value>| -> Response {
        heard.lock().unwrap().push(headers.get("x-token").cloned());
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                json!({"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}})
            }
            "tools/list" => json!({"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}),
            "tools/call" => {
                let arguments = &message["params"]["arguments"];
                let sum = arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap();
                json!({"content": [{"type": "text", "text": sum.to_string()},
                    {"type": "image", "data": "AAAA", "mimeType": "image/png"}]})
            }
            _ => return StatusCode::ACCEPTED.into_response(),
        };
        Body(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = tokio::spawn(axum::serve(listener, Router::new().route("/mcp", post(answer))).into_future());
    let config = json!({"mcpServers": {"sums": {"type": "http", "url": url, "headers": {"X-Token": "t"}}}});
    let servers = connect(config).await.unwrap();
    assert_eq!(servers.tools()[0].spec().name, "mcp__sums__add");
    let said = call(&servers.tools()[0], json!({"a": 2, "b": 3})).await;
    assert_eq!(said, Ok("5\n[a picture, image/png, left out]".into()));
    assert!(seen.lock().unwrap().iter().all(|token| token.as_ref().is_some_and(|token| token == "t")));
    server.abort();
}

#[tokio::test]
async fn a_server_that_does_not_start_is_an_error_that_says_why() {
    let none = json!({"mcpServers": {"x": {"command": "/does/not/exist"}}});
    let error = connect(none).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::Tool);
    assert!(error.message.contains("\"x\"") && error.message.contains("No such file"), "{error}");
    let broken =
        json!({"mcpServers": {"x": {"command": "/bin/sh", "args": ["-c", "echo no licence >&2; read x; exit 1"]}}});
    let error = connect(broken).await.err().unwrap();
    assert!(error.message.contains("no licence"), "{error}");
    let nobody = json!({"mcpServers": {"x": {"url": "http://127.0.0.1:1/"}}});
    assert_eq!(connect(nobody).await.err().unwrap().kind, ErrorKind::Tool);
}

#[tokio::test]
async fn connecting_can_be_cancelled_and_the_program_goes() {
    let folder = tempfile::tempdir().unwrap();
    let script = "exec 3>alive; echo begun >&3; read x; sleep 1000";
    let silent = json!({"command": "/bin/sh", "args": ["-c", script], "cwd": folder.path()});
    let config: McpConfig = serde_json::from_value(json!({"mcpServers": {"x": silent}})).unwrap();
    let cx = RunCx::default();
    let alive = Alive::new(&folder.path().join("alive"));
    let cancel = async {
        alive.begun().await;
        cx.cancel.cancel();
    };
    let connect = McpServers::connect(&config, &cx);
    let (connected, ()) = tokio::time::timeout(LIMIT, async { tokio::join!(connect, cancel) }).await.expect("in time");
    assert_eq!(connected.err().unwrap().kind, ErrorKind::Cancelled);
    alive.gone().await;
}
