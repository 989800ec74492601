//! What happened to one agent, for people to read.

use std::io::{self, Write};
use std::ops::ControlFlow;

use coop_api::{visible_json, visible_line};
use serde_json::Value;

use super::ask::Daemon;
use super::cli::Length;
use super::table::text;
use super::wait::{follow, patiently};
use super::ws::encoded;

/// How much is read at a time.
const PAGE: u32 = 1000;

pub(super) async fn logs(daemon: &Daemon, agent: &str, length: Length) -> anyhow::Result<i32> {
    let id = text(&patiently(daemon, async || daemon.agent(agent).await).await?["id"]);
    let mut after = 0;
    loop {
        let path = format!("log?agent={}&after={after}&limit={PAGE}", encoded(&id));
        let page = patiently(daemon, async || daemon.get(&path).await).await?;
        let Some(last) = page.as_array().and_then(|page| page.last()) else { break };
        after = last["id"].as_u64().unwrap_or(after);
        for entry in page.as_array().into_iter().flatten() {
            tell(daemon, entry)?;
        }
    }
    if length == Length::SoFar {
        return Ok(0);
    }
    follow(daemon, Some(after), async |entry| {
        if let Some(entry) = entry.filter(|entry| entry["agent"] == id.as_str()) {
            tell(daemon, entry)?;
        }
        Ok(ControlFlow::Continue(()))
    })
    .await
}

fn tell(daemon: &Daemon, entry: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if daemon.json {
        writeln!(out, "{}", visible_json(entry))?;
    } else if let Some(line) = line(entry) {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// Returns what an entry says to people, on one line; nothing if it says nothing that another does not.
fn line(entry: &Value) -> Option<String> {
    let body = &entry["event"]["body"];
    let said = match body["kind"].as_str() {
        Some("message") if body["role"] == "user" => format!("> {}", text(&body["text"])),
        Some("message") => text(&body["text"]),
        Some("tool") if body["phase"] == "requested" || body["phase"] == "running" => {
            format!("{} {}", text(&body["tool"]), text(&body["input"]))
        }
        Some("tool") if body["phase"] == "failed" => format!("{} failed", text(&body["tool"])),
        Some("ask") => match body["what"].as_str() {
            Some("opened") => format!("asks: {} {}", text(&body["ask"]["tool"]), text(&body["ask"]["preview"])),
            Some("answered") => format!("{} was answered: {}", text(&body["ask"]), text(&body["answer"])),
            _ => format!("{} is no longer asked: {}", text(&body["ask"]), text(&body["why"])),
        },
        // What was delivered is told by the agent itself.
        Some("delivery") if body["delivered"] == false && body["queued"] == false => {
            let why = match body["reason"].as_str() {
                Some("exited") => "the agent ended before it could be told",
                Some("cancelled") => "it was taken back",
                Some("agent_busy") => "the agent was busy",
                Some("writer_busy") => "somebody else was typing",
                Some(other) => other,
                None => "nothing shows that the agent took it",
            };
            format!("{} was not delivered: {why}", text(&body["id"]))
        }
        Some("fault") => format!("error: {}", text(&body["fault"]["message"])),
        Some("lifecycle") if body["what"] == "exited" => {
            format!("exited, code {}, signal {}", body["code"], body["signal"])
        }
        Some(_) => return None,
        None => {
            let input = &entry["input"];
            let by = input["by"].as_str().map(|by| format!(" by {by}")).unwrap_or_default();
            let why = input["why"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{}{by}{why}", text(&input["what"]).replace('_', " "))
        }
    };
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(entry["at"].as_u64()?);
    Some(format!("{}  {}", humantime::format_rfc3339_seconds(at), visible_line(&said)))
}
