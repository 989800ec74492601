//! The command line: what to measure, and the hidden parts that this program plays in its own measurements.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::feed::Core;
use crate::lab::Effort;
use crate::streams::Kind;
use crate::subscribe::Pace;

/// Measures coop side by side with a bare PTY and tmux, and prints ratios.
#[derive(Debug, Parser)]
#[command(name = "coop-bench", args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) part: Option<Part>,
    /// A tenth of the bytes and samples, to try things out
    #[arg(long)]
    quick: bool,
    /// Measure only this; may be given often
    #[arg(long, value_name = "NAME")]
    only: Vec<Measurement>,
    /// Measure this coop, for instance an earlier build [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) coop: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measurement {
    Throughput,
    Memory,
    Start,
    Sandbox,
    Echo,
    Exit,
    Hooks,
    Screen,
    Subscribers,
    Shim,
    Instructions,
    Fleet,
    Turns,
}

/// What this program does when it is a child of its own measurement.
#[derive(Debug, Subcommand)]
pub(crate) enum Part {
    /// Writes a file to the terminal and reports how long that took
    #[command(hide = true)]
    Cat {
        file: PathBuf,
        report: PathBuf,
        /// Begin when something is typed
        #[arg(long)]
        wait: bool,
    },
    /// Writes a file over and over
    #[command(hide = true)]
    Flood { file: PathBuf, seconds: u64 },
    /// Writes what is typed
    #[command(hide = true)]
    Echo,
    /// Exits when something is typed and reports when that was
    #[command(hide = true)]
    Exit { report: PathBuf },
    /// Subscribes to a sidecar's output
    #[command(hide = true)]
    Subscribe { host: String, count: usize, pace: Pace },
    /// Speaks ACP, and uses this many tools in a second
    #[command(hide = true)]
    Busy { tools: u32, seconds: u64 },
    /// Feeds a recording to a terminal core
    #[command(hide = true)]
    Feed { core: Core, file: PathBuf },
    /// Runs a conversation of a model with a tool
    #[command(hide = true)]
    Turns { turns: usize },
    /// Prints one of the streams, for profilers
    #[command(hide = true)]
    Stream { kind: Kind, size: usize },
}

impl Cli {
    pub(crate) fn chosen(&self) -> Vec<Measurement> {
        let all = Measurement::value_variants().iter().copied();
        all.filter(|measurement| self.only.is_empty() || self.only.contains(measurement)).collect()
    }

    pub(crate) fn effort(&self) -> Effort {
        if self.quick { Effort::QUICK } else { Effort::FULL }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
