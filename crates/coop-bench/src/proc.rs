//! What the kernel knows of a process.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// Memory in MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Resident and of this process alone. Pages of files are shared by all processes of one program.
    pub(crate) private: f64,
    /// Resident now.
    pub(crate) resident: f64,
    /// The most that was ever resident.
    pub(crate) peak: f64,
}

pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("cannot read a process's memory")?;
    let mebibytes = |name| field(&status, name).map(|kibibytes| kibibytes as f64 / 1024.0);
    Ok(Memory { private: mebibytes("RssAnon:")?, resident: mebibytes("VmRSS:")?, peak: mebibytes("VmHWM:")? })
}

/// Returns how often the process's threads were put on a processor, more or less.
pub(crate) fn context_switches(pid: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).context("cannot read a process's threads")? {
        // A thread may end while we look.
        let Ok(status) = fs::read_to_string(task?.path().join("status")) else { continue };
        sum += field(&status, "voluntary_ctxt_switches:")? + field(&status, "nonvoluntary_ctxt_switches:")?;
    }
    Ok(sum)
}

/// Returns the processor time the process has used, threads that have ended included.
pub(crate) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("cannot read a process's times")?;
    let after_name = stat.rfind(')').map_or("", |at| &stat[at + 1..]);
    // Fields 14 and 15 of the whole: user and system time.
    let mut fields = after_name.split_whitespace().skip(11);
    let mut next = || -> anyhow::Result<u64> { Ok(fields.next().context("a short line in /proc")?.parse()?) };
    let ticks = next()? + next()?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

fn field(status: &str, name: &str) -> anyhow::Result<u64> {
    let line =
        status.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name} in /proc"))?;
    let number = line.split_whitespace().next().with_context(|| format!("nothing after {name} in /proc"))?;
    Ok(number.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_be_looked_at() {
        let me = std::process::id();
        let memory = memory(me).expect("memory");
        assert!(memory.private > 0.1 && memory.resident >= memory.private && memory.peak >= memory.resident);
        assert!(context_switches(me).expect("switches") > 0);
        assert!(cpu_time(me).is_ok());
    }
}
