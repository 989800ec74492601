//! Many small agents under one daemon: what each costs, how long a restart takes, and how fast events are kept.
//!
//! An agent is `cat` in a sidecar, and its events are changes of its terminal's size: so the daemon is what is measured, and
//! not the agents.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::future::try_join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::client::{Http, block_on};
use crate::lab::Lab;
use crate::measure::memory::PRIVATE_MEMORY_LIMIT;
use crate::proc::{cpu_time, memory};
use crate::process::{LIMIT, Lines, Process, clean_command};
use crate::table::{Bound, Row, Table};

/// What starting still does in the background is over by then.
const SETTLE: Duration = Duration::from_secs(1);
/// Requests at a time.
const CROWD: usize = 8;
/// Agents are started one after another, and a machine has few cores.
const PATIENCE: Duration = Duration::from_secs(300);
const DEFINITION: &str = "[agents.a]\ndriver = \"unknown\"\ncommand = [\"cat\"]\non_dead = \"escalate\"\n";

pub(super) struct Daemon {
    process: Process,
    pub(super) http: String,
    _lines: Lines,
}

/// What was seen with a number of agents.
struct Seen {
    agents: usize,
    /// MiB of the daemon for each agent, beyond what it takes without any.
    share: f64,
    /// Private memory of a sidecar, in MiB.
    sidecar: f64,
    /// Seconds of a processor in a second, of all of them together, for each agent.
    idle: f64,
    /// Milliseconds from a start after a kill until every agent was heard again, for each agent.
    adopted: f64,
    /// Events kept in a second.
    events: f64,
}

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let home = lab.fresh_path("fleet");
    fs::create_dir(&home)?;
    let fleet = Fleet { lab, state: home };
    let measured = fleet.measure(table);
    fleet.end();
    measured
}

/// Starts a daemon in a folder.
pub(super) fn up(lab: &Lab, state: &Path) -> anyhow::Result<Daemon> {
    let mut command = clean_command(&lab.coop, &["up", "--port", "0", "--log-level", "off", "--state"]);
    command.arg(state).env("HOME", state).env("XDG_RUNTIME_DIR", state);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start the daemon")?;
    let output = child.stdout.take();
    let (process, lines) = (Process::new(child), Lines::of(output)?);
    let mut http = None;
    loop {
        let line = lines.next(LIMIT).context("the daemon did not get ready")?;
        if let Some(url) = line.strip_prefix("listening http http://") {
            http = Some(url.to_owned());
        } else if line == "ready" {
            break;
        }
    }
    Ok(Daemon { process, http: http.context("the daemon did not say where it listens")?, _lines: lines })
}

struct Fleet<'a> {
    lab: &'a Lab,
    state: PathBuf,
}

impl Fleet<'_> {
    fn measure(&self, table: &mut Table) -> anyhow::Result<()> {
        let mut daemon = up(self.lab, &self.state)?;
        thread::sleep(SETTLE);
        let alone = memory(daemon.process.pid())?.resident;
        let mut first: Option<Seen> = None;
        for agents in self.lab.effort.fleet {
            block_on(PATIENCE, self.grow(&daemon.http, agents))?;
            let (seen, next) = self.look(daemon, agents, alone)?;
            daemon = next;
            print(table, &seen, first.as_ref())?;
            first.get_or_insert(seen);
        }
        Ok(())
    }

    /// Starts agents until there are so many.
    async fn grow(&self, host: &str, agents: usize) -> anyhow::Result<()> {
        let there = stats(host).await?["agents"].as_u64().unwrap_or(0) as usize;
        let folder = self.state.to_str().context("a path that is not UTF-8")?;
        let start = |worker: usize| async move {
            let mut http = Http::connect(host).await?;
            for number in (there..agents).filter(|number| number % CROWD == worker) {
                let id = format!("a{number}");
                http.post(
                    "/api/v1/agents",
                    &json!({ "definition": DEFINITION, "name": "a", "folder": folder, "id": id }),
                )
                .await?;
            }
            anyhow::Ok(())
        };
        try_join_all((0..CROWD).map(start)).await.map(drop)
    }

    fn look(&self, mut daemon: Daemon, agents: usize, alone: f64) -> anyhow::Result<(Seen, Daemon)> {
        thread::sleep(SETTLE);
        let sidecars = self.sidecars()?;
        ensure!(sidecars.len() == agents, "{} sidecars run, not {agents}", sidecars.len());
        let everybody = || sidecars.iter().copied().chain([daemon.process.pid()]);
        let cpu = || everybody().map(cpu_time).sum::<anyhow::Result<Duration>>();
        let before = cpu()?;
        thread::sleep(self.lab.effort.window);
        let idle = (cpu()? - before).as_secs_f64() / self.lab.effort.window.as_secs_f64() / agents as f64;
        let share = (memory(daemon.process.pid())?.resident - alone) / agents as f64;
        let private: f64 =
            sidecars.iter().map(|pid| memory(*pid).map(|memory| memory.private)).sum::<anyhow::Result<f64>>()?;

        let kept = block_on(PATIENCE, events(&daemon.http, agents, self.lab.effort.starts, 2 * agents))?;
        let pid = i32::try_from(daemon.process.pid()).ok().and_then(Pid::from_raw).context("no process")?;
        kill_process(pid, Signal::KILL).context("cannot kill the daemon")?;
        daemon.process.reap()?;
        let begin = Instant::now();
        let next = up(self.lab, &self.state)?;
        block_on(PATIENCE, events(&next.http, agents, 1, 2 * agents + 1))?;
        let adopted = begin.elapsed().as_secs_f64() * 1e3 / agents as f64;
        Ok((Seen { agents, share, sidecar: private / agents as f64, idle, adopted, events: kept }, next))
    }

    fn sidecars(&self) -> anyhow::Result<Vec<u32>> {
        let mut pids = Vec::new();
        for folder in fs::read_dir(self.state.join("agents"))? {
            let kept: Value = serde_json::from_slice(&fs::read(folder?.path().join("sidecar.json"))?)?;
            pids.extend(kept["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()));
        }
        Ok(pids)
    }

    /// Ends the agents, which outlive the daemon.
    fn end(&self) {
        let Ok(Daemon { mut process, http, _lines }) = up(self.lab, &self.state) else { return };
        let down = async { Http::connect(&http).await?.post("/api/v1/down", &json!({ "kill": true })).await };
        if block_on(LIMIT, down).is_ok() {
            let _ = process.wait(PATIENCE);
        }
    }
}

async fn stats(host: &str) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(&Http::connect(host).await?.get("/api/v1/stats").await?)?)
}

/// Lets every agent have so many events, and returns how many were kept in a second. All of them have to be.
async fn events(host: &str, agents: usize, each: usize, round: usize) -> anyhow::Result<f64> {
    let kept = async || anyhow::Ok(stats(host).await?["events"].as_u64().unwrap_or(0));
    let before = kept().await?;
    let begin = Instant::now();
    let resize = |worker: usize| async move {
        let mut http = Http::connect(host).await?;
        for number in (0..agents).filter(|number| number % CROWD == worker) {
            for turn in 0..each {
                // Another size each time, for one that stays is no event.
                let size = json!({ "cols": 80 + turn, "rows": 20 + round % 40 });
                http.post(&format!("/api/v1/agents/a{number}/resize"), &size).await?;
            }
        }
        anyhow::Ok(())
    };
    try_join_all((0..CROWD).map(resize)).await?;
    let expected = before + (agents * each) as u64;
    while kept().await? < expected {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let seconds = begin.elapsed().as_secs_f64();
    // More would be as wrong as less.
    tokio::time::sleep(Duration::from_millis(50)).await;
    ensure!(kept().await? == expected, "{} events were kept, not {expected}", kept().await?);
    Ok((agents * each) as f64 / seconds)
}

/// Everything is for each agent, so that growth is linear where the ratio to the first is one.
fn print(table: &mut Table, seen: &Seen, first: Option<&Seen>) -> anyhow::Result<()> {
    let agents = seen.agents;
    let of = |value: f64, of: fn(&Seen) -> f64| first.map(|first| value / of(first));
    let sidecar = format!("{:.2} MiB", seen.sidecar);
    let sidecars =
        Row::new(format!("fleet of {agents}: private memory of a sidecar")).ours(sidecar.clone()).value(sidecar);
    table.row(&sidecars.goal(seen.sidecar, Bound::AtMost(PRIVATE_MEMORY_LIMIT), " MiB"))?;
    let mut row = |what: &str, ours: String, ratio: Option<f64>, most: f64| {
        let row = Row::new(format!("fleet of {agents}: {what}")).ours(ours.clone());
        let row = match (ratio, first) {
            (Some(ratio), Some(first)) => {
                let row = row.reference(format!("with {}", first.agents)).value(format!("{ratio:.2}"));
                row.goal(ratio, Bound::AtMost(most), "")
            }
            _ => row.value(ours),
        };
        table.row(&row)
    };
    row("daemon, each", format!("{:.2} MiB", seen.share), of(seen.share, |seen| seen.share), 1.5)?;
    row("idle, each", format!("{:.4} % of a core", seen.idle * 100.0), None, 0.0)?;
    row("restart to heard again, each", format!("{:.1} ms", seen.adopted), of(seen.adopted, |seen| seen.adopted), 1.5)?;
    let slower = first.map(|first| first.events / seen.events);
    row("events kept, none lost", format!("{:.0} in a second", seen.events), slower, 1.5)?;
    Ok(())
}
