//! From a hook's report to the state on a WebSocket, and what a hook costs the agent.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::client::{Http, News, Output, block_on};
use crate::lab::Lab;
use crate::process::{LIMIT, Process, clean_command};
use crate::sidecar::Sidecar;
use crate::stats::Samples;
use crate::table::{Bound, Row, Table};

/// Shows the hooks' token and waits.
const CHILD: &str = "#!/bin/sh\nprintf 'token=%s.\\n' \"$COOP_HOOK_TOKEN\"; exec cat\n";

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let known = reports(lab)?;
    table.row(
        &Row::new("hook to state over WebSocket")
            .ours(format!("p50 {:.0}, p99 {:.0} µs", known.median(), known.percentile(99.0)))
            .value(format!("{:.2} ms", known.percentile(99.0) / 1e3))
            .goal(known.percentile(99.0) / 1e3, Bound::Below(5.0), " ms"),
    )?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    let nowhere = lab.fresh_path("sock");
    for _ in 0..lab.effort.starts {
        ours.push(time(&lab.coop, &["hook", "PreToolUse"], &nowhere)?);
        bare.push(time(Path::new("true"), &[], &nowhere)?);
    }
    let describe = |samples: &Samples| format!("{:.1} ms, at most {:.1}", samples.median(), samples.percentile(100.0));
    table.row(
        &Row::new("hook without its sidecar, of `true`")
            .ours(describe(&ours))
            .reference(format!("true {}", describe(&bare)))
            .value(ours.over(&bare).spread())
            .goal(ours.percentile(100.0), Bound::Below(200.0), " ms"),
    )?;
    super::guests::run(lab, table)
}

/// Returns the microseconds from sending each report to the frame that tells of it.
fn reports(lab: &Lab) -> anyhow::Result<Samples> {
    let home = lab.fresh_path("home");
    fs::create_dir(&home)?;
    // By its name the driver knows it.
    let child = home.join("claude");
    fs::write(&child, CHILD)?;
    fs::set_permissions(&child, fs::Permissions::from_mode(0o700))?;
    let sidecar = Sidecar::start_with(lab, &["--agent", "claude"], &[child.as_os_str()], &home)?;
    block_on(LIMIT, async {
        let mut http = Http::connect(&sidecar.http).await?;
        let token = loop {
            let screen = String::from_utf8(http.get("/api/v1/screen/text").await?.to_vec())?;
            let shown: String = screen.split_whitespace().collect();
            if let Some((_, rest)) = shown.split_once("token=")
                && let Some((token, _)) = rest.split_once('.')
            {
                break token.to_owned();
            }
        };
        let mut events = Output::states(&sidecar.http).await?;
        let mut samples = Samples::default();
        for turn in 0..lab.effort.keystrokes {
            let (event, payload, next) = match turn % 2 {
                0 => ("UserPromptSubmit", json!({ "prompt": "go" }), "working"),
                _ => ("Stop", json!({ "stop_hook_active": false }), "waiting_for_input"),
            };
            let began = Instant::now();
            http.hook(event, &token, &payload).await?;
            until(&mut events, next).await?;
            samples.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok(samples)
    })
}

async fn until(events: &mut Output, state: &str) -> anyhow::Result<()> {
    loop {
        match events.next().await?.context("the sidecar closed")? {
            News::Told(Value::Object(message)) if message.get("next").is_some_and(|next| next == state) => {
                return Ok(());
            }
            News::Told(_) | News::Bytes(_) => {}
        }
    }
}

/// Returns the milliseconds that a hook takes.
fn time(program: &Path, arguments: &[&str], socket: &Path) -> anyhow::Result<f64> {
    let mut command = clean_command(program, arguments);
    command.env("COOP_SOCKET", socket).env("COOP_HOOK_TOKEN", "t");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn()?;
    let input = child.stdin.take();
    // It may end without reading.
    let _ = input.map(|mut input| input.write_all(b"{}"));
    let status = Process::new(child).wait(LIMIT)?;
    ensure!(status.success(), "the hook failed: {status}");
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
