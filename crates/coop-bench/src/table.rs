//! What is printed: a line for each thing measured, as soon as it is.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;

use crate::lab::Lab;

/// One line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    what: String,
    ours: String,
    reference: String,
    value: String,
    goal: String,
    verdict: &'static str,
}

/// What a value is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
            Self::Below(limit) => value < limit,
        }
    }

    fn describe(self, unit: &str) -> String {
        match self {
            Self::AtLeast(limit) => format!("≥ {limit}{unit}"),
            Self::AtMost(limit) => format!("≤ {limit}{unit}"),
            Self::Below(limit) => format!("< {limit}{unit}"),
        }
    }
}

impl Row {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    pub(crate) fn ours(self, ours: impl Into<String>) -> Self {
        Self { ours: ours.into(), ..self }
    }

    pub(crate) fn reference(self, reference: impl Into<String>) -> Self {
        Self { reference: reference.into(), ..self }
    }

    pub(crate) fn value(self, value: impl Into<String>) -> Self {
        Self { value: value.into(), ..self }
    }

    pub(crate) fn goal(self, value: f64, bound: Bound, unit: &str) -> Self {
        Self { goal: bound.describe(unit), verdict: if bound.holds(value) { "ok" } else { "MISS" }, ..self }
    }

    fn line(&self) -> String {
        let Self { what, ours, reference, value, goal, verdict } = self;
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = write!(line, "{what:<46}{ours:<24}{reference:<28}{value:<19}{goal:<10}{verdict}");
        line.truncate(line.trim_end().len());
        line
    }
}

pub(crate) struct Table {
    failures: usize,
}

impl Table {
    /// Prints the head: what the machine is like, and what was measured how.
    pub(crate) fn begin(lab: &Lab) -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(0, usize::from);
        let (load, stream, repeats) = (load(), lab.effort.stream as f64 / 1e6, lab.effort.repeats);
        let table = Self { failures: 0 };
        table.print(&format!(
            "{cores} cores, load {load} before we began. {stream} MB streams, medians of {repeats} turns or more (least–most), 200x50 terminals.\n"
        ))?;
        let head = Row {
            what: "what".into(),
            ours: "ours".into(),
            reference: "reference".into(),
            value: "ratio or value".into(),
            goal: "goal".into(),
            verdict: "",
        };
        table.print(&format!("{}\n{}", head.line(), "─".repeat(134)))?;
        Ok(table)
    }

    pub(crate) fn row(&mut self, row: &Row) -> io::Result<()> {
        self.print(&row.line())
    }

    /// Tells that something could not be measured here, which is nobody's fault.
    pub(crate) fn skip(&mut self, what: &str, why: &str) -> io::Result<()> {
        self.print(&format!("{what:<46}skipped: {why}"))
    }

    pub(crate) fn failed(&mut self, what: &str, error: &anyhow::Error) -> io::Result<()> {
        self.failures += 1;
        self.print(&format!("{what:<46}FAILED: {error:#}"))
    }

    /// A missed goal may be the machine's fault; only what could not be measured fails the run.
    pub(crate) fn end(self) -> io::Result<ExitCode> {
        self.print(&format!("\nload {} at the end, ours included.", load()))?;
        Ok(if self.failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn print(&self, line: &str) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{line}")
    }
}

/// Returns how many processes wanted a processor during the last minute.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_or_missed() {
        let verdict = |value, bound| Row::new("x").goal(value, bound, " ms").verdict;
        assert_eq!(verdict(0.85, Bound::AtLeast(0.85)), "ok");
        assert_eq!(verdict(0.84, Bound::AtLeast(0.85)), "MISS");
        assert_eq!(verdict(2.0, Bound::Below(2.0)), "MISS");
        assert_eq!(verdict(0.0, Bound::AtMost(0.0)), "ok");
        assert_eq!(verdict(f64::NAN, Bound::Below(1.0)), "MISS");
        assert_eq!(Row::new("x").goal(1.0, Bound::Below(2.0), " ms").goal, "< 2 ms");
    }
}
