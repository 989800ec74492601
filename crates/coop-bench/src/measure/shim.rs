//! A thousand events a second through one shim: none is lost, and its memory stays what it is.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::client::{Http, News, Output, block_on};
use crate::lab::Lab;
use crate::proc::memory;
use crate::process::{LIMIT, Lines, Process, clean_command};
use crate::table::{Bound, Row, Table};

/// Each is three events: it is wanted, it runs, it is done.
const TOOLS: u32 = 334;
/// Before this much of the time its memory still grows: a thousand events are kept, and the session keeps its own.
const SETTLED: f64 = 0.3;

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let home = lab.fresh_path("home");
    std::fs::create_dir(&home)?;
    let bench = lab.bench.to_str().context("a path that is not UTF-8")?;
    let (tools, seconds) = (TOOLS.to_string(), lab.effort.shim.as_secs().to_string());
    let arguments =
        ["shim", "--agent", "acp", "--port", "0", "--log-level", "warn", "--", bench, "busy", &tools, &seconds];
    let mut command = clean_command(&lab.coop, &arguments);
    command.env("HOME", &home).env("XDG_RUNTIME_DIR", &home).current_dir(&home);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let lines = Lines::of(child.stdout.take())?;
    let shim = Process::new(child);
    let told: Value = serde_json::from_str(&lines.next(LIMIT)?)?;
    let host = format!("127.0.0.1:{}", told["port"]);
    let seen = block_on(lab.effort.shim + LIMIT, follow(&host, shim.pid(), lab.effort.shim))?;
    let rate = seen.events as f64 / seen.took.as_secs_f64();
    table.row(
        &Row::new("events through a shim, lost")
            .ours(format!("{} in {:.0} s, {rate:.0}/s", seen.events, seen.took.as_secs_f64()))
            .value(seen.lost.to_string())
            .goal(seen.lost as f64, Bound::AtMost(0.0), ""),
    )?;
    let grown = seen.memory.1 - seen.memory.0;
    table.row(
        &Row::new("memory of a shim meanwhile, more")
            .ours(format!("{:.1} to {:.1} MiB", seen.memory.0, seen.memory.1))
            .value(format!("{grown:.1} MiB"))
            .goal(grown, Bound::Below(4.0), " MiB"),
    )?;
    Ok(())
}

struct Seen {
    events: u64,
    lost: u64,
    took: Duration,
    /// Once it has settled, and at the end.
    memory: (f64, f64),
}

async fn follow(host: &str, pid: u32, time: Duration) -> anyhow::Result<Seen> {
    let mut stream = Output::shim(host).await?;
    let mut http = Http::connect(host).await?;
    http.post("/spawn", &brief()).await?;
    let began = Instant::now();
    let (mut events, mut settled) = (0, None);
    let last = loop {
        let News::Told(event) = stream.next().await?.context("the shim closed")? else { continue };
        events += 1;
        let number = event["sourceSequence"].as_u64().context("no number")?;
        if settled.is_none() && began.elapsed() > time.mul_f64(SETTLED) {
            settled = Some(memory(pid)?.resident);
        }
        if event["event"]["type"] == "completion" {
            ensure!(event["event"]["outcome"] == "success", "it failed: {event}");
            break number;
        }
    };
    let expected = u64::from(TOOLS) * 3 * time.as_secs();
    ensure!(last >= expected, "there were {last} events, and not {expected}");
    let settled = settled.context("it was over too soon")?;
    Ok(Seen { events, lost: last - events, took: began.elapsed(), memory: (settled, memory(pid)?.resident) })
}

fn brief() -> Value {
    json!({
        "agentId": "a", "role": "r", "description": "d", "workstream": "w", "controlMode": "orchestrator",
        "escalationProtocol": { "alwaysEscalate": [], "escalateWhen": [], "neverEscalate": [] },
        "projectBrief": { "title": "t", "description": "d", "goals": [], "checkpoints": [] },
        "knowledgeSnapshot": { "version": 0, "generatedAt": "2026-01-01T00:00:00Z", "workstreams": [],
            "pendingDecisions": [], "recentCoherenceIssues": [], "artifactIndex": [], "activeAgents": [],
            "estimatedTokens": 0 },
    })
}
