//! How often the screen can be asked for over one connection, at rest and while the child floods it.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::client::{Http, block_on};
use crate::lab::Lab;
use crate::process::LIMIT;
use crate::sidecar::Sidecar;
use crate::stats::Samples;
use crate::streams::Kind;
use crate::table::{Bound, Row, Table};

const SCREEN: &str = "/api/v1/screen";
/// A small answer that still goes through the session: what a request costs by itself.
const HEALTH: &str = "/api/v1/health";
/// Enough lines to fill the screen.
const SCREENFUL: u64 = 20_000;

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let stream = lab.stream(Kind::Plain)?;
    let show = format!("head -c {SCREENFUL} '{}'; exec sleep 120", stream.display());
    let calm = Sidecar::start(lab, &[OsStr::new("sh"), OsStr::new("-c"), OsStr::new(&show)])?;
    // In slices, taken in turns, and the flood only while it is measured.
    let slice = lab.effort.window / lab.effort.repeats as u32;
    let (mut unchanged, mut health, mut flooded) = (Asked::default(), Asked::default(), Asked::default());
    for _ in 0..lab.effort.repeats {
        block_on(LIMIT, async {
            let mut http = Http::connect(&calm.http).await?;
            until_written(&mut http, SCREENFUL).await?;
            health.ask(&mut http, HEALTH, slice).await?;
            unchanged.ask(&mut http, SCREEN, slice).await
        })?;
        let part = [OsStr::new("flood"), stream.as_os_str(), OsStr::new("60")];
        let flooding = Sidecar::start(lab, &lab.part(&part))?;
        block_on(LIMIT, async {
            let mut http = Http::connect(&flooding.http).await?;
            until_written(&mut http, 1_000_000).await?;
            flooded.ask(&mut http, SCREEN, slice).await
        })?;
    }
    let rate = |asked: &Asked| format!("{:.0}/s", asked.rate.median());
    table.row(
        &Row::new("/screen, unchanged, of /health")
            .ours(rate(&unchanged))
            .reference(format!("/health {}", rate(&health)))
            .value(unchanged.rate.over(&health.rate).spread()),
    )?;
    table.row(
        &Row::new("/screen during a flood, of unchanged")
            .ours(rate(&flooded))
            .reference(format!("unchanged {}", rate(&unchanged)))
            .value(flooded.rate.over(&unchanged.rate).spread()),
    )?;
    let times = |asked: &Asked| format!("p50 {:.2}, p99 {:.2} ms", asked.times.median(), asked.times.percentile(99.0));
    let worst = flooded.times.percentile(99.0);
    table.row(
        &Row::new(format!("/screen p99 during a flood, of {}", flooded.times.len()))
            .ours(times(&flooded))
            .reference(times(&unchanged))
            .value(format!("{worst:.2} ms"))
            .goal(worst, Bound::Below(2.0), " ms"),
    )?;
    Ok(())
}

#[derive(Default)]
struct Asked {
    /// Requests per second, for each slice.
    rate: Samples,
    /// Milliseconds of each request.
    times: Samples,
}

impl Asked {
    /// Asks again and again, one request at a time.
    async fn ask(&mut self, http: &mut Http, path: &str, slice: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut count = 0.0;
        while began.elapsed() < slice {
            let asked = Instant::now();
            http.get(path).await?;
            self.times.push(asked.elapsed().as_secs_f64() * 1e3);
            count += 1.0;
        }
        self.rate.push(count / began.elapsed().as_secs_f64());
        Ok(())
    }
}

async fn until_written(http: &mut Http, bytes: u64) -> anyhow::Result<()> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        let status: serde_json::Value = serde_json::from_slice(&http.get("/api/v1/status").await?)?;
        if status["bytes_read"].as_u64() >= Some(bytes) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("the child did not write in time")
}
