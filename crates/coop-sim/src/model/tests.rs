//! The model over a real socket.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Model, Request, Script};

/// Much longer than anything takes here.
const LIMIT: Duration = Duration::from_secs(20);

/// What came back, and whether it came whole.
struct Got {
    head: String,
    body: String,
    whole: bool,
}

impl Got {
    fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Returns the text of a stream of Anthropic's.
    fn text(&self) -> String {
        let events = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let events = events.map(|data| serde_json::from_str::<Value>(data).unwrap());
        events.filter_map(|event| event["delta"]["text"].as_str().map(str::to_owned)).collect()
    }
}

async fn connect(model: &Model) -> TcpStream {
    TcpStream::connect(model.url().strip_prefix("http://").unwrap()).await.unwrap()
}

/// Sends a request and returns all that comes until the connection closes.
async fn raw(model: &Model, request: String) -> Got {
    let exchange = async {
        let mut stream = connect(model).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(LIMIT, exchange).await.expect("an answer in time");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let head = head.to_owned();
    match head.contains("transfer-encoding: chunked") {
        false => Got { head, body: body.to_owned(), whole: true },
        true => {
            let whole = body.ends_with("0\r\n\r\n");
            Got { head, body: unchunked(body), whole }
        }
    }
}

fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        let Some(chunk) = rest.get(..size).filter(|chunk| !chunk.is_empty()) else { break };
        text.push_str(chunk);
        body = rest.get(size + 2..).unwrap_or_default();
    }
    text
}

async fn get(model: &Model, path: &str) -> Got {
    raw(model, format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await
}

async fn post(model: &Model, path: &str, body: &Value) -> Got {
    raw(model, posted(path, body)).await
}

fn posted(path: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// A request as Claude Code makes it, after so many results.
fn claude(text: &str, results: &[&str]) -> Value {
    let mut messages = vec![json!({ "role": "user", "content": [{ "type": "text", "text": text }] })];
    for result in results {
        let call = json!({ "type": "tool_use", "id": "t", "name": "Bash", "input": {} });
        let block = json!({ "type": "tool_result", "tool_use_id": "t", "content": result });
        messages.push(json!({ "role": "assistant", "content": [call] }));
        messages.push(json!({ "role": "user", "content": [block] }));
    }
    let tools = json!([{ "name": "Bash" }, { "name": "Write" }]);
    json!({ "model": "claude-x", "max_tokens": 9, "stream": true, "messages": messages, "tools": tools })
}

async fn ask(model: &Model, text: &str) -> Got {
    post(model, "/v1/messages?beta=true", &claude(text, &[])).await
}

async fn started() -> Model {
    Model::start(Script::default()).await.unwrap()
}

#[tokio::test]
async fn a_stream_comes_whole() {
    let model = started().await;
    let got = ask(&model, "hi").await;
    assert_eq!((got.status(), got.whole, got.text().as_str()), ("200", true, "Hello from the mock model."));
    assert!(got.head.contains("content-type: text/event-stream"), "{}", got.head);
    model.stop().await;
}

#[tokio::test]
async fn every_protocol_answers_in_both_ways() {
    let model = started().await;
    let user = |text: &str| json!([{ "role": "user", "content": text }]);
    let gemini = json!({ "contents": [{ "role": "user", "parts": [{ "text": "[[text:Yes.]]" }] }] });
    for (path, mut body) in [
        ("/v1/messages", json!({ "max_tokens": 9, "messages": user("[[text:Yes.]]") })),
        ("/v1/responses", json!({ "input": user("[[text:Yes.]]") })),
        ("/v1/chat/completions", json!({ "messages": user("[[text:Yes.]]") })),
    ] {
        assert!(post(&model, path, &body).await.json().to_string().contains(r#""Yes.""#), "{path}");
        body["stream"] = json!(true);
        let streamed = post(&model, path, &body).await;
        assert!(streamed.whole && streamed.body.contains(r#""Yes.""#), "{path}: {}", streamed.body);
    }
    let whole = post(&model, "/v1beta/models/g:generateContent", &gemini).await.json();
    assert_eq!(whole["candidates"][0]["content"]["parts"], json!([{ "text": "Yes." }]));
    let streamed = post(&model, "/v1beta/models/g:streamGenerateContent?alt=sse", &gemini).await;
    assert!(streamed.whole && streamed.body.starts_with("data: {"), "{}", streamed.body);
    model.stop().await;
}

#[tokio::test]
async fn two_tools_take_three_requests() {
    let model = started().await;
    let prompt = "go [[bash:one]] [[write:/f|two]]";
    let mut called = Vec::new();
    for results in [&[][..], &["1"], &["1", "2"]] {
        let got = post(&model, "/v1/messages", &claude(prompt, results)).await;
        called.push((got.text(), got.body.contains(r#""stop_reason":"tool_use""#)));
    }
    let call = |text: &str, tool| (text.to_owned(), tool);
    assert_eq!(
        called,
        [
            call("I will call Bash.", true),
            call("I will call Write.", true),
            call("Mock reply after 2 tool result(s).", false)
        ]
    );
    let last = Request {
        path: "/v1/messages".to_owned(),
        model: "claude-x".to_owned(),
        text: prompt.to_owned(),
        messages: 5,
        tools: vec!["Bash".to_owned(), "Write".to_owned()],
        results: vec!["1".to_owned(), "2".to_owned()],
        side: false,
    };
    assert_eq!(model.requests().last(), Some(&last));
    assert_eq!(get(&model, "/coop/requests").await.json()[2], serde_json::to_value(&last).unwrap());
    model.stop().await;
}

#[tokio::test]
async fn an_error_is_counted_for_its_text() {
    let model = started().await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(ask(&model, "[[err:529x2]]").await.status().to_owned());
    }
    assert_eq!(statuses, ["529", "529", "200"]);
    assert_eq!(post(&model, "/coop/reset", &json!({})).await.status(), "200");
    assert_eq!(model.requests(), []);
    let again = ask(&model, "[[err:529x2]]").await;
    let error = json!({ "type": "overloaded_error", "message": "mock overloaded_error" });
    assert_eq!(again.json(), json!({ "type": "error", "error": error }));
    model.stop().await;
}

#[tokio::test]
async fn an_error_tells_when_to_come_back() {
    let model = started().await;
    let got = ask(&model, "[[err:429x1:retry=7]]").await;
    assert!(got.status() == "429" && got.head.contains("retry-after: 7"), "{}", got.head);
    model.stop().await;
}

#[tokio::test]
async fn a_cut_stream_ends_in_the_middle() {
    let model = started().await;
    let cut = ask(&model, "[[cutx1]]").await;
    assert_eq!((cut.status(), cut.whole, cut.text().as_str()), ("200", false, "Hello from the "));
    assert!(!cut.body.contains("message_stop"), "{}", cut.body);
    assert!(ask(&model, "[[cutx1]]").await.body.contains("message_stop"));
    model.stop().await;
}

#[tokio::test]
async fn an_answer_in_one_piece_is_cut_too() {
    let model = started().await;
    let body = json!({ "max_tokens": 9, "messages": [{ "role": "user", "content": "[[cut]]" }] });
    let got = post(&model, "/v1/messages", &body).await;
    assert!(!got.whole && serde_json::from_str::<Value>(&got.body).is_err(), "{}", got.body);
    model.stop().await;
}

#[tokio::test]
async fn a_hang_lasts_until_the_model_stops() {
    let model = started().await;
    let mut stream = connect(&model).await;
    stream.write_all(posted("/v1/messages", &claude("[[hang]]", &[])).as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("message_start") {
        let read = tokio::time::timeout(LIMIT, stream.read_buf(&mut seen)).await.expect("the beginning in time");
        assert_ne!(read.unwrap(), 0);
    }
    let address = model.url().strip_prefix("http://").unwrap().to_owned();
    tokio::time::timeout(LIMIT, model.stop()).await.expect("a hang does not keep the model");
    stream.read_to_end(&mut seen).await.unwrap();
    let seen = String::from_utf8_lossy(&seen);
    assert!(!seen.contains("content_block_start"), "{seen}");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_script_goes_first() {
    let script = "[[reply]]\nwhen = 'deploy'\ntool = 'Bash'\ninput = { command = 'make' }\n";
    let model = Model::start(script.parse().unwrap()).await.unwrap();
    assert!(ask(&model, "deploy").await.body.contains(r#""name":"Bash""#));
    assert_eq!(ask(&model, "deploy").await.text(), "Hello from the mock model.");
    model.stop().await;
}

#[tokio::test]
async fn other_hosts_are_refused() {
    let model = started().await;
    let connect = raw(&model, "CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n".to_owned()).await;
    let absolute = raw(&model, "GET http://example.org/x HTTP/1.1\r\nhost: example.org\r\n\r\n".to_owned()).await;
    assert_eq!((connect.status(), absolute.status()), ("403", "403"));
    assert_eq!(model.refused(), ["example.com:443", "example.org"]);
    assert_eq!(get(&model, "/coop/refused").await.json(), json!(["example.com:443", "example.org"]));
    model.stop().await;
}

#[tokio::test]
async fn what_is_unknown_is_said_in_json() {
    let model = started().await;
    let unknown = get(&model, "/v1/nope").await;
    let message = "the model does not know GET /v1/nope";
    let error = json!({ "type": "not_found_error", "message": message });
    assert_eq!((unknown.status(), unknown.json()), ("404", json!({ "type": "error", "error": error })));
    let bad =
        raw(&model, "POST /v1/responses HTTP/1.1\r\nconnection: close\r\ncontent-length: 1\r\n\r\n{".to_owned()).await;
    assert_eq!(bad.status(), "400");
    assert!(bad.json()["error"]["message"].as_str().is_some_and(|message| message.starts_with("the body is not JSON")));
    model.stop().await;
}

#[tokio::test]
async fn small_requests_are_answered() {
    let model = started().await;
    assert_eq!(get(&model, "/").await.status(), "200");
    assert_eq!(get(&model, "/v1/models").await.json()["data"][0]["id"], "mock");
    let count = post(&model, "/v1/messages/count_tokens?beta=true", &json!({})).await;
    assert_eq!(count.json(), json!({ "input_tokens": 6500 }));
    model.stop().await;
}
