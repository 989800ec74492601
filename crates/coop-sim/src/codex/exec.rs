//! `codex exec --json`: one turn, told in lines.

use std::io::Write;

use serde_json::{Value, json};

use super::args::Args;
use super::hub;
use super::wire::{Connection, connect_here};

/// Runs the prompt and returns the exit code.
pub(crate) async fn run(args: &Args) -> anyhow::Result<i32> {
    let hub = hub::start(args.home()?);
    let Connection { to, mut from } = connect_here(&hub);
    let tell = |id: &str, method: &str, params: Value| to.send(json!({ "id": id, "method": method, "params": params }));
    let mut begin = args.settings.clone();
    let method = match &args.resume {
        Some(id) => {
            begin["threadId"] = json!(id);
            "thread/resume"
        }
        None => "thread/start",
    };
    tell("thread", method, begin)?;
    let mut stdout = std::io::stdout();
    let mut line = |value: Value| writeln!(stdout, "{value}").and_then(|()| stdout.flush());
    let mut usage = json!({});
    while let Some(message) = from.recv().await {
        let params = &message["params"];
        match (message["id"].as_str(), message["method"].as_str()) {
            (Some("thread"), _) => {
                if let Some(error) = message["error"]["message"].as_str() {
                    line(json!({ "type": "error", "message": error }))?;
                    return Ok(1);
                }
                let id = &message["result"]["thread"]["id"];
                line(json!({ "type": "thread.started", "thread_id": id }))?;
                let prompt = args.prompt.clone().unwrap_or_default();
                tell("turn", "turn/start", json!({ "threadId": id, "input": [{ "type": "text", "text": prompt }] }))?;
            }
            (_, Some("turn/started")) => line(json!({ "type": "turn.started" }))?,
            (_, Some("item/started" | "item/completed")) if params["item"]["type"] != "userMessage" => {
                let kind = message["method"].as_str().unwrap_or_default().replace('/', ".");
                if params["item"]["type"] != "agentMessage" || kind == "item.completed" {
                    line(json!({ "type": kind, "item": snake(&params["item"]) }))?;
                }
            }
            (_, Some("thread/tokenUsage/updated")) => usage = snake(&params["tokenUsage"]["total"]),
            (_, Some("error")) => line(json!({ "type": "error", "message": params["error"]["message"] }))?,
            (_, Some("turn/completed")) => match params["turn"]["status"].as_str() {
                Some("completed") => {
                    line(json!({ "type": "turn.completed", "usage": usage }))?;
                    return Ok(0);
                }
                _ => {
                    let error = json!({ "message": params["turn"]["error"]["message"] });
                    line(json!({ "type": "turn.failed", "error": error }))?;
                    return Ok(1);
                }
            },
            // It never asks: what would need leave is refused.
            (None, Some(method)) if method.ends_with("requestApproval") => {
                to.send(json!({ "id": message["id"], "result": { "decision": "decline" } }))?;
            }
            _ => {}
        }
    }
    Ok(1)
}

/// Returns a value with its names, and its kind, spelled as these lines have them.
fn snake(value: &Value) -> Value {
    let word = |text: &str| {
        let mut word = String::new();
        for c in text.chars() {
            if c.is_ascii_uppercase() {
                word.push('_');
            }
            word.push(c.to_ascii_lowercase());
        }
        word
    };
    let fields = value.as_object().into_iter().flatten().map(|(name, value)| {
        let value = match (name.as_str(), value) {
            ("type" | "status", Value::String(text)) => json!(word(text)),
            _ => value.clone(),
        };
        (word(name), value)
    });
    Value::Object(fields.collect())
}
