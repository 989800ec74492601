//! An agent that speaks ACP and does nothing but use tools, at an even pace.

use std::io::{self, BufRead, Write};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) fn run(tools: u32, seconds: u64) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let result = match request["method"].as_str() {
            Some("initialize") => json!({ "protocolVersion": 1, "agentCapabilities": {}, "authMethods": [] }),
            Some("session/new") => json!({ "sessionId": "busy" }),
            Some("session/prompt") => {
                work(&mut out, tools, seconds)?;
                json!({ "stopReason": "end_turn" })
            }
            _ => continue,
        };
        writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))?;
        out.flush()?;
    }
    Ok(())
}

fn work(out: &mut impl Write, tools: u32, seconds: u64) -> io::Result<()> {
    let began = Instant::now();
    for number in 0..tools * u32::try_from(seconds).unwrap_or(u32::MAX) {
        let due = began + Duration::from_secs(1) / tools * number;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let id = format!("tool-{number}");
        let mut tell = |update: Value| {
            let params = json!({ "sessionId": "busy", "update": update });
            writeln!(out, "{}", json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }))
        };
        tell(json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": "look", "kind": "read",
                     "status": "in_progress", "rawInput": { "path": id } }))?;
        tell(json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed" }))?;
        out.flush()?;
    }
    Ok(())
}
