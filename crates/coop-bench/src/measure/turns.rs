//! What a turn of `coop-llm`'s loop takes without a network: time, allocations, instructions.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::instructions::is_installed;
use crate::lab::Lab;
use crate::process::{Process, clean_command};
use crate::stats::Samples;
use crate::table::{Row, Table};
use crate::turns;

/// How many turns a conversation has where it is timed.
const TURNS: usize = 10_000;
/// And where it is counted; what is the same for each of them is all of it but the beginning.
const COUNTED: [usize; 2] = [100, 1100];
/// Fifty times slower than without, for a few milliseconds' worth.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    let mut times = Samples::default();
    for _ in 0..lab.effort.repeats {
        times.push(turns::run(TURNS)?.as_secs_f64() * 1e6 / TURNS as f64);
    }
    table.row(&Row::new("executor, µs of a turn without network").value(times.spread()))?;
    if !is_installed() {
        table.skip("executor, allocations of a turn", "valgrind is not installed")?;
        return Ok(());
    }
    // ==123==   total heap usage: 4,567 allocs, 4,560 frees, 1,234,567 bytes allocated
    let heap = |text: &str| {
        let words = text.split_once("total heap usage: ")?.1;
        Some((number(words.split_once(" allocs")?.0)?, number(words.split_once("frees, ")?.1.split_once(" bytes")?.0)?))
    };
    let [few, many] = COUNTED.map(|turns| count(lab, "memcheck", turns, heap));
    let ((few, few_bytes), (many, many_bytes)) = (few?, many?);
    let turns = (COUNTED[1] - COUNTED[0]) as f64;
    let value = format!("{:.1}, {:.0} B", (many - few) / turns, (many_bytes - few_bytes) / turns);
    table.row(&Row::new("executor, allocations of a turn").value(value))?;
    // ==123== Collected : 456
    let collected = |text: &str| number(text.split_once("Collected : ")?.1.lines().next()?);
    let [few, many] = COUNTED.map(|turns| count(lab, "callgrind", turns, collected));
    table.row(&Row::new("executor, instructions of a turn").value(format!("{:.0}", (many? - few?) / turns)))?;
    Ok(())
}

/// Returns what one of valgrind's tools tells of a conversation.
fn count<T>(lab: &Lab, tool: &str, turns: usize, read: impl Fn(&str) -> Option<T>) -> anyhow::Result<T> {
    let mut command = clean_command(Path::new("valgrind"), &[&format!("--tool={tool}")]);
    if tool == "callgrind" {
        command.arg("--callgrind-out-file=/dev/null");
    }
    command.arg(&lab.bench).args(["turns", &turns.to_string()]);
    let told = lab.fresh_path("valgrind");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&told)?);
    let status = Process::new(command.spawn()?).wait(PATIENCE)?;
    let text = fs::read_to_string(&told)?;
    ensure!(status.success(), "valgrind failed: {status}\n{text}");
    read(&text).context("valgrind told no count")
}

fn number(text: &str) -> Option<f64> {
    text.trim().replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_valgrind_writes_them() {
        assert_eq!(number(" 1,234,567"), Some(1_234_567.0));
        assert_eq!(number("many"), None);
    }
}
