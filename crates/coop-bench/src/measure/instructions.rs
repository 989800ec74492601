//! Instructions per byte of the hot path, counted by callgrind: the one measurement that noise cannot touch.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ValueEnum;

use crate::feed::Core;
use crate::lab::Lab;
use crate::process::{Process, clean_command};
use crate::streams::Kind;
use crate::table::{Row, Table};

/// Fifty times slower than without, for a few seconds' worth at most.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn run(lab: &Lab, table: &mut Table) -> anyhow::Result<()> {
    if !is_installed() {
        table.skip("instructions per byte", "valgrind is not installed")?;
        return Ok(());
    }
    let empty = lab.fresh_path("recording");
    fs::write(&empty, [])?;
    let mut cores = Vec::new();
    for &core in Core::value_variants() {
        cores.push((core, count(lab, core, &empty)?));
    }
    for kind in Kind::ALL {
        let recording = lab.recording(kind)?;
        let size = recording.metadata()?.len() as f64;
        let mut counts = Vec::new();
        for &(core, start) in &cores {
            counts.push((core, (count(lab, core, &recording)? - start) / size));
        }
        let ours = counts.first().map_or(f64::NAN, |(_, ours)| *ours);
        for (core, theirs) in &counts[1..] {
            table.row(
                &Row::new(format!("instructions per byte, {}", kind.name()))
                    .ours(format!("{ours:.1}"))
                    .reference(format!("{} {theirs:.1}", name(*core)?))
                    .value(format!("{:.2}", ours / theirs)),
            )?;
        }
    }
    Ok(())
}

pub(crate) fn is_installed() -> bool {
    let mut command = clean_command(Path::new("valgrind"), &["--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn name(core: Core) -> anyhow::Result<String> {
    Ok(core.to_possible_value().context("a core without a name")?.get_name().to_owned())
}

/// Returns how many instructions it takes to start a core and feed it a recording.
fn count(lab: &Lab, core: Core, recording: &Path) -> anyhow::Result<f64> {
    let mut command = clean_command(Path::new("valgrind"), &["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.args([lab.bench.as_os_str(), OsStr::new("feed"), OsStr::new(&name(core)?), recording.as_os_str()]);
    let told = lab.fresh_path("valgrind");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&told)?);
    let status = Process::new(command.spawn()?).wait(PATIENCE)?;
    let mut text = String::new();
    fs::File::open(&told)?.read_to_string(&mut text)?;
    ensure!(status.success(), "valgrind failed: {status}\n{text}");
    // ==123== Collected : 456
    let count = text.lines().find_map(|line| line.split_once("Collected : ")).context("valgrind told no count")?;
    Ok(count.1.trim().parse()?)
}
