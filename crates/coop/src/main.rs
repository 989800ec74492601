//! `coop`: parse, wire, exit code.

mod attach;
mod bridge;
mod cli;
mod client;
mod command;
mod listen;
mod oneshot;
mod paths;
mod serve;
mod sim;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Sub};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let outcome = runtime.block_on(async {
        match cli.sub {
            None => serve::run(cli.serve).await,
            Some(Sub::Attach(options)) => attach::run(options).await,
            Some(Sub::Screen(options)) => oneshot::screen(options).await,
            Some(Sub::Type(options)) => oneshot::type_text(options).await,
            Some(Sub::Keys(options)) => oneshot::keys(options).await,
            Some(Sub::Sim) => sim::run(),
            Some(Sub::Bridge(options)) => Ok(bridge::run(options.target()?).await?),
        }
    });
    // A read of the terminal may still be under way; it must not keep us.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => ExitCode::from(code.rem_euclid(256) as u8),
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    // There may be nobody to tell.
    let _ = writeln!(io::stderr(), "coop: {error:#}");
    ExitCode::from(error.downcast_ref::<serve::CannotRun>().map_or(1, |error| error.code()))
}
