//! Hooks of agents that people run themselves, all at one server of the daemon.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::fleet::up;
use crate::client::{Http, block_on};
use crate::lab::Lab;
use crate::process::LIMIT;
use crate::stats::Samples;
use crate::table::{Bound, Row, Table};

/// Workspaces, with an agent in each.
const GUESTS: usize = 50;
/// Hooks a second, of each.
const RATE: u32 = 100;
const EVENTS: [&str; 4] = ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"];

pub(super) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let state = lab.fresh_path("guests");
    fs::create_dir(&state)?;
    let daemon = up(lab, &state)?;
    let passes = block_on(LIMIT, arrive(&daemon.http, &state))?;
    let began = Instant::now();
    let taken: anyhow::Result<Vec<Vec<f64>>> = thread::scope(|scope| {
        let window = lab.effort.window;
        let threads: Vec<_> =
            passes.iter().map(|(socket, token)| scope.spawn(move || report(socket, token, began, window))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("a thread broke off")))
            .collect()
    });
    let mut samples = Samples::default();
    taken?.into_iter().flatten().for_each(|one| samples.push(one));
    table.row(
        &Row::new("hooks of 50 workspaces, 100/s each")
            .ours(format!(
                "p50 {:.0}, p99 {:.0} µs, {} taken",
                samples.median(),
                samples.percentile(99.0),
                samples.len()
            ))
            .value(format!("{:.2} ms", samples.percentile(99.0) / 1e3))
            .goal(samples.percentile(99.0) / 1e3, Bound::Below(50.0), " ms"),
    )?;
    Ok(())
}

/// Registers agents, all with our process, and returns where their hooks report.
async fn arrive(host: &str, state: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut http = Http::connect(host).await?;
    for number in 0..GUESTS {
        let folder = state.join("projects/bench-0/workspaces").join(format!("w{number}"));
        fs::create_dir_all(&folder)?;
        let guest = json!({ "folder": folder, "pid": std::process::id(), "driver": "claude", "hooks": true });
        http.post("/api/v1/guests", &guest).await?;
    }
    let pass = |entry: fs::DirEntry| {
        let pass: Value = serde_json::from_slice(&fs::read(entry.path().join("guest.json"))?)?;
        let text = |name: &str| pass[name].as_str().map(str::to_owned).context("a pass");
        anyhow::Ok((PathBuf::from(text("socket")?), text("token")?))
    };
    fs::read_dir(state.join("guests"))?.flatten().map(pass).collect()
}

/// Reports hooks for a while and returns how many microseconds each took; none may be lost.
fn report(socket: &Path, token: &str, began: Instant, window: Duration) -> anyhow::Result<Vec<f64>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut taken = Vec::new();
    for tick in 0.. {
        let due = Duration::from_secs(1) * tick / RATE;
        if due >= window {
            break;
        }
        thread::sleep((began + due).saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        let event = EVENTS[tick as usize % EVENTS.len()];
        let head = format!("POST /api/v1/hooks/{event} HTTP/1.1\r\nhost: localhost\r\nx-coop-hook-token: {token}\r\n");
        write!(stream, "{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}")?;
        let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
        while !answer.ends_with(b"{}") {
            let read = stream.read(&mut piece)?;
            ensure!(read > 0, "the server hung up");
            answer.extend_from_slice(&piece[..read]);
        }
        ensure!(answer.starts_with(b"HTTP/1.1 200"), "a hook was not taken in");
        taken.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    Ok(taken)
}
