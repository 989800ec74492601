//! The measurements, a module each.

mod echo;
mod exit;
mod fleet;
mod guests;
mod hooks;
mod instructions;
mod memory;
mod sandbox;
mod screen;
mod shim;
mod start;
mod subscribers;
mod throughput;
mod turns;

use clap::ValueEnum;

use crate::cli::Measurement;
use crate::lab::Lab;
use crate::table::Table;

/// Measures one thing. If that fails, the table says so, and the others are measured all the same.
pub(crate) fn run(measurement: Measurement, lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let outcome = match measurement {
        Measurement::Throughput => throughput::run(lab, table),
        Measurement::Memory => memory::run(lab, table),
        Measurement::Start => start::run(lab, table),
        Measurement::Sandbox => sandbox::run(lab, table),
        Measurement::Echo => echo::run(lab, table),
        Measurement::Exit => exit::run(lab, table),
        Measurement::Hooks => hooks::run(lab, table),
        Measurement::Screen => screen::run(lab, table),
        Measurement::Subscribers => subscribers::run(lab, table),
        Measurement::Shim => shim::run(lab, table),
        Measurement::Instructions => instructions::run(lab, table),
        Measurement::Fleet => fleet::run(lab, table),
        Measurement::Turns => turns::run(lab, table),
    };
    if let Err(error) = outcome {
        let name = measurement.to_possible_value();
        table.failed(name.as_ref().map_or("?", |name| name.get_name()), &error)?;
    }
    Ok(())
}
