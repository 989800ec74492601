//! How fast a child can write: its own time for a stream, until its terminal has taken in the last byte.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crate::bare::Bare;
use crate::lab::Lab;
use crate::proc::cpu_time;
use crate::process::LIMIT;
use crate::report::Reports;
use crate::sidecar::Sidecar;
use crate::stats::Samples;
use crate::streams::Kind;
use crate::table::{Bound, Row, Table};
use crate::tmux::Tmux;

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    for kind in Kind::ALL {
        let measured = measure(lab, kind)?;
        let name = kind.name();
        let rate = |samples: &Samples| format!("{:.1} MB/s", samples.median());
        let of_bare = measured.ours.over(&measured.bare);
        let row = Row::new(format!("throughput, {name}, of a bare PTY"))
            .ours(rate(&measured.ours))
            .reference(format!("bare {}", rate(&measured.bare)))
            .value(of_bare.spread());
        table.row(&match kind {
            Kind::Plain => row.goal(of_bare.median(), Bound::AtLeast(0.85), ""),
            Kind::Coloured | Kind::Tui | Kind::Unicode => row,
        })?;
        table.row(
            &Row::new(format!("throughput, {name}, of tmux"))
                .ours(rate(&measured.ours))
                .reference(format!("tmux {}", rate(&measured.tmux)))
                .value(measured.ours.over(&measured.tmux).spread()),
        )?;
        let (ours, bare) = (measured.cpu.median(), measured.bare_cpu.median());
        let row = Row::new(format!("processor time per 100 MB, {name}"))
            .ours(format!("{ours:.2} s"))
            .reference(format!("bare {bare:.2} s"))
            .value(measured.cpu.over(&measured.bare_cpu).spread());
        table.row(&match kind {
            Kind::Plain => row.goal(ours, Bound::AtMost(1.4), " s"),
            Kind::Coloured | Kind::Tui | Kind::Unicode => row,
        })?;
    }
    Ok(())
}

#[derive(Default)]
struct Measured {
    /// Megabytes per second.
    ours: Samples,
    bare: Samples,
    tmux: Samples,
    /// Processor seconds per 100 MB of the one who reads.
    cpu: Samples,
    bare_cpu: Samples,
}

fn measure(lab: &Lab, kind: Kind) -> anyhow::Result<Measured> {
    let stream = lab.stream(kind)?;
    let size = stream.metadata()?.len() as f64;
    let reports = Reports::new(lab)?;
    let command = writer(lab, &stream, &reports);
    let rate = |time: Duration| size / 1e6 / time.as_secs_f64();
    let per_100_mb = |cpu: Duration| cpu.as_secs_f64() * 1e8 / size;
    let mut measured = Measured::default();
    for turn in 0..turns(lab, kind) {
        // Nobody is always the first after the others.
        for place in 0..3 {
            match (turn + place) % 3 {
                0 => {
                    let (time, cpu) = on_bare(&command, &reports)?;
                    measured.bare.push(rate(time));
                    measured.bare_cpu.push(per_100_mb(cpu));
                }
                1 => {
                    let (time, cpu) = in_coop(lab, &command, &reports)?;
                    measured.ours.push(rate(time));
                    measured.cpu.push(per_100_mb(cpu));
                }
                _ => {
                    let _tmux = Tmux::start(lab, &command)?;
                    measured.tmux.push(rate(reports.wait(LIMIT)?));
                }
            }
        }
    }
    Ok(measured)
}

/// More of the stream that has a goal: on a busy machine single turns differ by a third.
fn turns(lab: &Lab, kind: Kind) -> usize {
    match kind {
        Kind::Plain => 3 * lab.effort.repeats,
        Kind::Coloured | Kind::Tui | Kind::Unicode => lab.effort.repeats,
    }
}

fn on_bare(command: &[&OsStr], reports: &Reports) -> anyhow::Result<(Duration, Duration)> {
    let myself = std::process::id();
    let before = cpu_time(myself)?;
    let mut bare = Bare::start(command)?;
    let drain = bare.drain()?;
    let time = reports.wait(LIMIT)?;
    let cpu = cpu_time(myself)?.saturating_sub(before);
    bare.wait(LIMIT)?;
    // It ends with the child.
    let _ = drain.join();
    Ok((time, cpu))
}

fn in_coop(lab: &Lab, command: &[&OsStr], reports: &Reports) -> anyhow::Result<(Duration, Duration)> {
    let sidecar = Sidecar::start(lab, command)?;
    let time = reports.wait(LIMIT)?;
    Ok((time, cpu_time(sidecar.pid())?))
}

/// Returns the command that writes a stream and reports its time.
pub(super) fn writer<'a>(lab: &'a Lab, stream: &'a Path, reports: &'a Reports) -> Vec<&'a OsStr> {
    lab.part(&[OsStr::new("cat"), stream.as_os_str(), reports.path().as_os_str()])
}
