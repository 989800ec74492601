//! From the start of coop to its first healthy answer.

use std::ffi::OsStr;
use std::time::Instant;

use crate::bare::Bare;
use crate::client::{Http, block_on};
use crate::lab::Lab;
use crate::process::LIMIT;
use crate::sidecar::Sidecar;
use crate::stats::Samples;
use crate::table::{Row, Table};

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for _ in 0..lab.effort.starts {
        bare.push(run_true()?);
        ours.push(start_to_health(lab)?);
    }
    let milliseconds = |samples: &Samples| format!("{:.1} ms", samples.median());
    table.row(
        &Row::new("start to health, of `true` on a bare PTY")
            .ours(milliseconds(&ours))
            .reference(format!("bare {}", milliseconds(&bare)))
            .value(ours.over(&bare).spread()),
    )?;
    Ok(())
}

fn run_true() -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut bare = Bare::start(&[OsStr::new("true")])?;
    while bare.read(&mut [0; 64])? > 0 {}
    bare.child.reap()?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

fn start_to_health(lab: &Lab) -> anyhow::Result<f64> {
    let began = Instant::now();
    let sidecar = Sidecar::start(lab, &[OsStr::new("sleep"), OsStr::new("120")])?;
    block_on(LIMIT, async {
        Http::connect(&sidecar.http).await?.get("/api/v1/health").await?;
        Ok(began.elapsed().as_secs_f64() * 1e3)
    })
}
