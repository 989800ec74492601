//! Measures coop against what the system could do without it, side by side in one run.
//!
//! Machines are noisy, so absolute times lie; what is printed and judged are ratios to a reference measured in turns
//! with ours: a bare PTY, tmux, or coop itself without the thing in question.

mod bare;
mod busy;
mod child;
mod cli;
mod client;
mod feed;
mod grpc;
mod lab;
mod measure;
mod proc;
mod process;
mod report;
mod sidecar;
mod stats;
mod streams;
mod subscribe;
mod table;
mod tmux;
mod turns;

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use clap::Parser;

use crate::cli::{Cli, Part};
use crate::lab::Lab;
use crate::table::Table;

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    match cli.part {
        None => return bench(&cli),
        Some(Part::Cat { file, report, wait: false }) => child::cat(&file, &report)?,
        Some(Part::Cat { file, report, wait: true }) => child::cat_when_told(&file, &report)?,
        Some(Part::Flood { file, seconds }) => child::flood(&file, seconds)?,
        Some(Part::Echo) => child::echo()?,
        Some(Part::Exit { report }) => child::exit(&report)?,
        Some(Part::Subscribe { host, count, pace }) => subscribe::run(&host, count, pace)?,
        Some(Part::Busy { tools, seconds }) => busy::run(tools, seconds)?,
        Some(Part::Feed { core, file }) => feed::feed(core, &file)?,
        Some(Part::Turns { turns }) => drop(turns::run(turns)?),
        Some(Part::Stream { kind, size }) => std::io::stdout().write_all(&streams::generate(kind, size))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn bench(cli: &Cli) -> anyhow::Result<ExitCode> {
    let chosen = cli.chosen();
    if chosen.contains(&cli::Measurement::Throughput) && !tmux::is_installed() {
        bail!("tmux is not installed; it is what the throughput is compared with");
    }
    let lab = Lab::new(cli.effort(), cli.coop.as_deref())?;
    let mut table = Table::begin(&lab)?;
    for measurement in chosen {
        measure::run(measurement, &lab, &mut table)?;
    }
    Ok(table.end()?)
}
