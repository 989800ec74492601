//! How much memory coop takes, and whether it sleeps when there is nothing to do.

use std::ffi::OsStr;
use std::thread;
use std::time::Duration;

use crate::lab::Lab;
use crate::measure::throughput::writer;
use crate::proc::{context_switches, memory};
use crate::process::LIMIT;
use crate::report::Reports;
use crate::sidecar::Sidecar;
use crate::stats::Samples;
use crate::streams::Kind;
use crate::subscribe::{Pace, Subscribers};
use crate::table::{Bound, Row, Table};

/// What starting still does in the background is over by then.
const SETTLE: Duration = Duration::from_secs(1);

/// Private memory that one idle sidecar may have, in MiB: 2 MB.
pub(super) const PRIVATE_MEMORY_LIMIT: f64 = 1.907;

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    idle(lab, table)?;
    after_flood(lab, table)
}

fn idle(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let sidecar = Sidecar::start(lab, &[OsStr::new("sleep"), OsStr::new("120")])?;
    thread::sleep(SETTLE);
    let private = memory(sidecar.pid())?.private;
    let row = Row::new("private memory, idle").ours(format!("{private:.2} MiB")).value(format!("{private:.2} MiB"));
    table.row(&row.goal(private, Bound::AtMost(PRIVATE_MEMORY_LIMIT), " MiB"))?;
    wakeups(lab, &sidecar, "idle", table)?;
    let _reader = Subscribers::start(lab, &sidecar.http, 1, Pace::Fast)?;
    thread::sleep(SETTLE);
    wakeups(lab, &sidecar, "idle with a reader", table)
}

fn wakeups(lab: &Lab, sidecar: &Sidecar, when: &str, table: &mut Table) -> anyhow::Result<()> {
    let before = context_switches(sidecar.pid())?;
    thread::sleep(lab.effort.window);
    let count = context_switches(sidecar.pid())?.saturating_sub(before);
    let window = lab.effort.window.as_secs();
    let row = Row::new(format!("wakeups in {window} s, {when}")).ours(count.to_string()).value(count.to_string());
    table.row(&row.goal(count as f64, Bound::AtMost(0.0), ""))?;
    Ok(())
}

fn after_flood(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let (mut resident, mut peak) = (Samples::default(), Samples::default());
    let stream = lab.stream(Kind::Plain)?;
    let reports = Reports::new(lab)?;
    let command = writer(lab, &stream, &reports);
    for _ in 0..lab.effort.repeats {
        let sidecar = Sidecar::start(lab, &command)?;
        reports.wait(LIMIT)?;
        let memory = memory(sidecar.pid())?;
        resident.push(memory.resident);
        peak.push(memory.peak);
    }
    for (what, samples) in [("memory, after the plain stream", resident), ("memory, at the most", peak)] {
        let median = samples.median();
        let row = Row::new(what).ours(format!("{median:.1} MiB")).value(format!("{median:.1} MiB"));
        table.row(&row.goal(median, Bound::Below(30.0), " MiB"))?;
    }
    Ok(())
}
