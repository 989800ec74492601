//! Many followers of one sidecar's output, in a process of their own.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use tokio::task::JoinSet;

use crate::client::{News, Output, block_on};
use crate::lab::Lab;
use crate::process::{LIMIT, Lines, Process, clean_command};

/// How a subscriber reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pace {
    Fast,
    /// Never.
    Stalled,
}

/// Longer than any measurement, so that nothing is left behind by one that was cut short.
const LIFE: Duration = Duration::from_secs(180);

/// Subscribes, says `ready`, reads until the sidecar closes, and says how many bytes came.
pub(crate) fn run(host: &str, count: usize, pace: Pace) -> anyhow::Result<()> {
    block_on(LIFE, async {
        let mut outputs = Vec::with_capacity(count);
        for _ in 0..count {
            outputs.push(Output::from_now_on(host).await?);
        }
        say("ready")?;
        let mut readers = JoinSet::new();
        match pace {
            Pace::Fast => outputs.into_iter().for_each(|output| drop(readers.spawn(read(output)))),
            Pace::Stalled => std::future::pending().await,
        }
        let mut received = 0;
        while let Some(bytes) = readers.join_next().await {
            received += bytes?;
        }
        say(&received.to_string())
    })
}

/// Returns how many bytes came before the sidecar closed, or was gone.
async fn read(mut output: Output) -> u64 {
    let mut received = 0;
    while let Ok(Some(news)) = output.next().await {
        if let News::Bytes(bytes) = news {
            received += bytes.len() as u64;
        }
    }
    received
}

fn say(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}

/// Such a process, seen from outside.
pub(crate) struct Subscribers {
    process: Process,
    lines: Lines,
}

impl Subscribers {
    /// Starts it and waits until all have subscribed.
    pub(crate) fn start(lab: &Lab, host: &str, count: usize, pace: Pace) -> anyhow::Result<Self> {
        let pace = pace.to_possible_value().context("a pace without a name")?;
        let mut command = clean_command(&lab.bench, &["subscribe", host, &count.to_string(), pace.get_name()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the subscribers")?;
        let output = child.stdout.take();
        let process = Process::new(child);
        let lines = Lines::of(output)?;
        lines.next(LIMIT).context("the subscribers did not get ready")?;
        Ok(Self { process, lines })
    }

    /// Returns how many bytes came in all, once the sidecar has gone.
    pub(crate) fn received(mut self) -> anyhow::Result<f64> {
        let received = self.lines.next(LIMIT).context("the subscribers did not say what they got")?.parse()?;
        self.process.wait(LIMIT)?;
        Ok(received)
    }
}
