//! What the sandbox costs: coop with it against coop without it, in turns.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;

use super::throughput::writer;
use crate::lab::Lab;
use crate::process::LIMIT;
use crate::report::Reports;
use crate::sidecar::Sidecar;
use crate::stats::Samples;
use crate::streams::Kind;
use crate::table::{Bound, Row, Table};

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let can_run = Command::new("bwrap").args(["--unshare-user", "--ro-bind", "/", "/", "true"]).output();
    if !can_run.is_ok_and(|output| output.status.success()) {
        return Ok(table.skip("sandbox", "bubblewrap cannot make one here")?);
    }
    let empty = lab.fresh_path("empty");
    fs::write(&empty, "").context("cannot write to the lab's folder")?;
    let (mut with, mut without) = (Samples::default(), Samples::default());
    for _ in 0..lab.effort.starts {
        without.push(start(lab, &empty, &[])?.0);
        with.push(start(lab, &empty, &["--sandbox"])?.0);
    }
    let more = with.minus(&without);
    let milliseconds = |samples: &Samples| format!("{:.1} ms", samples.median());
    table.row(
        &Row::new("start to the program's own work, in a sandbox")
            .ours(milliseconds(&with))
            .reference(format!("without {}", milliseconds(&without)))
            .value(format!("+{} ms", more.spread()))
            .goal(more.median(), Bound::AtMost(30.0), " ms"),
    )?;
    let stream = lab.stream(Kind::Plain)?;
    let size = stream.metadata()?.len() as f64;
    let (mut with, mut without) = (Samples::default(), Samples::default());
    for _ in 0..3 * lab.effort.repeats {
        without.push(size / 1e6 / start(lab, &stream, &[])?.1);
        with.push(size / 1e6 / start(lab, &stream, &["--sandbox"])?.1);
    }
    let rate = |samples: &Samples| format!("{:.1} MB/s", samples.median());
    table.row(
        &Row::new("throughput, plain, in a sandbox")
            .ours(rate(&with))
            .reference(format!("without {}", rate(&without)))
            .value(with.over(&without).spread())
            .goal(with.over(&without).median(), Bound::AtLeast(0.9), ""),
    )?;
    Ok(())
}

/// Returns the milliseconds from the start of coop until its child has written a file, and the seconds that the child took.
fn start(lab: &Lab, file: &Path, options: &[&str]) -> anyhow::Result<(f64, f64)> {
    let reports = Reports::new(lab)?;
    let command: Vec<&OsStr> = writer(lab, file, &reports);
    let began = Instant::now();
    let _sidecar = Sidecar::start_in_lab(lab, options, &command)?;
    let took = reports.wait(LIMIT)?;
    Ok((began.elapsed().as_secs_f64() * 1e3, took.as_secs_f64()))
}
