//! From the child's last act to the news of its end.

use std::ffi::OsStr;
use std::time::Duration;

use anyhow::bail;

use crate::bare::Bare;
use crate::client::{News, Output, block_on};
use crate::lab::Lab;
use crate::process::LIMIT;
use crate::report::{self, Reports};
use crate::sidecar::Sidecar;
use crate::stats::Samples;
use crate::table::{Bound, Row, Table};

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let reports = Reports::new(lab)?;
    let part = [OsStr::new("exit"), reports.path().as_os_str()];
    let command = lab.part(&part);
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for _ in 0..lab.effort.starts {
        bare.push(since(on_bare(&command)?, &reports)?);
        ours.push(since(in_coop(lab, &command)?, &reports)?);
    }
    let describe = |samples: &Samples| format!("{:.2} ms, at most {:.2}", samples.median(), samples.percentile(100.0));
    table.row(
        &Row::new("exit notice over WebSocket")
            .ours(describe(&ours))
            .reference(format!("bare {}", describe(&bare)))
            .value(format!("{:.2} ms", ours.median()))
            .goal(ours.percentile(100.0), Bound::Below(10.0), " ms"),
    )?;
    Ok(())
}

/// Returns the milliseconds between what the child reported and when we knew.
fn since(known: Duration, reports: &Reports) -> anyhow::Result<f64> {
    let ended = reports.wait(LIMIT)?;
    Ok(known.saturating_sub(ended).as_secs_f64() * 1e3)
}

fn on_bare(command: &[&OsStr]) -> anyhow::Result<Duration> {
    let mut bare = Bare::start(command)?;
    bare.read(&mut [0; 64])?;
    bare.write(b"x")?;
    while bare.read(&mut [0; 64])? > 0 {}
    bare.child.reap()?;
    Ok(report::now())
}

fn in_coop(lab: &Lab, command: &[&OsStr]) -> anyhow::Result<Duration> {
    let sidecar = Sidecar::start(lab, command)?;
    block_on(LIMIT, async {
        let mut output = Output::from_the_beginning(&sidecar.http).await?;
        output.next_bytes().await?;
        output.type_bytes(b"x").await?;
        while let Some(news) = output.next().await? {
            if let News::Told(message) = news
                && message["type"] == "exit"
            {
                return Ok(report::now());
            }
        }
        bail!("the sidecar closed without telling of the exit")
    })
}
