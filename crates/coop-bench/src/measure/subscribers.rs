//! Whether those who watch slow the child down, and what one who does not read costs.

use std::ffi::OsStr;

use crate::client::{Http, block_on};
use crate::lab::Lab;
use crate::proc::memory;
use crate::process::LIMIT;
use crate::report::Reports;
use crate::sidecar::Sidecar;
use crate::stats::Samples;
use crate::streams::Kind;
use crate::subscribe::{Pace, Subscribers};
use crate::table::{Bound, Row, Table};

/// Who watches.
#[derive(Clone, Copy)]
struct Audience {
    count: usize,
    pace: Pace,
}

const NOBODY: Audience = Audience { count: 0, pace: Pace::Fast };
const AUDIENCES: [Audience; 4] = [
    Audience { count: 1, pace: Pace::Fast },
    Audience { count: 50, pace: Pace::Fast },
    Audience { count: 500, pace: Pace::Fast },
    Audience { count: 1, pace: Pace::Stalled },
];

#[derive(Default)]
struct Measured {
    /// The child's seconds.
    times: Samples,
    /// MiB of coop, right after.
    resident: Samples,
    /// The share of the output that each subscriber got.
    delivered: Samples,
}

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let mut alone = Measured::default();
    let mut watched = AUDIENCES.map(|audience| (audience, Measured::default()));
    for _ in 0..lab.effort.repeats {
        measure(lab, NOBODY, &mut alone)?;
        for (audience, measured) in &mut watched {
            measure(lab, *audience, measured)?;
        }
    }
    for (audience, measured) in &watched {
        tell(*audience, measured, &alone, table)?;
    }
    Ok(())
}

fn measure(lab: &Lab, audience: Audience, measured: &mut Measured) -> anyhow::Result<()> {
    let stream = lab.stream(Kind::Plain)?;
    let reports = Reports::new(lab)?;
    let part = [OsStr::new("cat"), OsStr::new("--wait"), stream.as_os_str(), reports.path().as_os_str()];
    let sidecar = Sidecar::start(lab, &lab.part(&part))?;
    let subscribers = Subscribers::start(lab, &sidecar.http, audience.count, audience.pace)?;
    block_on(LIMIT, async { Http::connect(&sidecar.http).await?.type_text("x").await })?;
    measured.times.push(reports.wait(LIMIT)?.as_secs_f64());
    measured.resident.push(memory(sidecar.pid())?.resident);
    drop(sidecar);
    if let Audience { count: 1.., pace: Pace::Fast } = audience {
        let share = subscribers.received()? / audience.count as f64 / written(&stream)?;
        measured.delivered.push(share);
    }
    Ok(())
}

/// Returns what comes out of the terminal: the kernel puts a carriage return before every line feed.
fn written(stream: &std::path::Path) -> anyhow::Result<f64> {
    let bytes = std::fs::read(stream)?;
    Ok((bytes.len() + bytes.iter().filter(|&&byte| byte == b'\n').count()) as f64)
}

fn tell(audience: Audience, measured: &Measured, alone: &Measured, table: &mut Table) -> anyhow::Result<()> {
    let Audience { count, pace } = audience;
    let seconds = |measured: &Measured| format!("{:.2} s", measured.times.median());
    let ratios = measured.times.over(&alone.times);
    let ratio = ratios.median();
    let readers = if count == 1 { "reader" } else { "readers" };
    let who = match pace {
        Pace::Fast => format!("{count} fast {readers}"),
        Pace::Stalled => format!("{count} stalled {readers}"),
    };
    let row = Row::new(format!("writing with {who}, of none"))
        .ours(seconds(measured))
        .reference(format!("none {}", seconds(alone)))
        .value(ratios.spread());
    table.row(&match (count, pace) {
        (50, Pace::Fast) => row.goal(ratio, Bound::Below(1.3), ""),
        // About the same, that is.
        (_, Pace::Stalled) => row.goal(ratio, Bound::Below(1.1), ""),
        _ => row,
    })?;
    let mebibytes = |measured: &Measured| format!("{:.1} MiB", measured.resident.median());
    let growth = measured.resident.minus(&alone.resident).median();
    let row = Row::new(format!("memory with {who}"))
        .ours(mebibytes(measured))
        .reference(format!("none {}", mebibytes(alone)))
        .value(format!("{growth:+.1} MiB"));
    table.row(&match pace {
        Pace::Fast => row,
        Pace::Stalled => row.goal(growth, Bound::Below(2.0), " MiB"),
    })?;
    if pace == Pace::Fast {
        let share = measured.delivered.median() * 100.0;
        table.row(&Row::new(format!("output that reached {who}, each")).value(format!("{share:.0} %")))?;
    }
    Ok(())
}
