//! What every measurement needs: the programs, a folder, and how much to do.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;

use crate::streams::{self, Kind};

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Bytes of each stream.
    pub(crate) stream: usize,
    /// Bytes of each recording for callgrind, which is fifty times slower.
    pub(crate) recording: usize,
    /// How often long things are done.
    pub(crate) repeats: usize,
    /// How often processes are started.
    pub(crate) starts: usize,
    /// Keystrokes per transport.
    pub(crate) keystrokes: usize,
    /// How long something is watched or asked for.
    pub(crate) window: Duration,
    /// How long events go through a shim.
    pub(crate) shim: Duration,
    /// How many agents a daemon has.
    pub(crate) fleet: [usize; 3],
}

impl Effort {
    pub(crate) const FULL: Self = Self {
        stream: 100_000_000,
        recording: 8_000_000,
        repeats: 5,
        starts: 40,
        keystrokes: 2000,
        window: Duration::from_secs(5),
        shim: Duration::from_secs(60),
        fleet: [10, 100, 300],
    };
    pub(crate) const QUICK: Self = Self {
        stream: 10_000_000,
        recording: 1_000_000,
        repeats: 3,
        starts: 10,
        keystrokes: 200,
        window: Duration::from_secs(1),
        shim: Duration::from_secs(6),
        fleet: [3, 10, 30],
    };
}

pub(crate) struct Lab {
    pub(crate) coop: PathBuf,
    /// This program, for the parts it plays itself.
    pub(crate) bench: PathBuf,
    pub(crate) effort: Effort,
    folder: TempDir,
    names: Cell<usize>,
}

impl Lab {
    /// Takes the given coop, or the one beside this program. Both programs are copied, so that a build meanwhile does not
    /// change what is measured.
    pub(crate) fn new(effort: Effort, coop: Option<&Path>) -> anyhow::Result<Self> {
        let myself = std::env::current_exe().context("cannot tell where this program is")?;
        let coop = coop.map_or_else(|| myself.with_file_name("coop"), Path::to_owned);
        let folder = tempfile::Builder::new().prefix("coop-bench-").tempdir().context("cannot make a folder")?;
        let copy = |from: &Path, name: &str| {
            let to = folder.path().join(name);
            fs::copy(from, &to).map(|_| to)
        };
        let missing = "build coop with `make dist`, or name another with --coop";
        Ok(Self {
            coop: copy(&coop, "coop").with_context(|| format!("cannot read {}; {missing}", coop.display()))?,
            bench: copy(&myself, "coop-bench").context("cannot copy this program")?,
            effort,
            folder,
            names: Cell::new(0),
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a path that nothing uses yet.
    pub(crate) fn fresh_path(&self, extension: &str) -> PathBuf {
        let number = self.names.get();
        self.names.set(number + 1);
        self.folder.path().join(format!("{number}.{extension}"))
    }

    /// Returns a long stream as a program would write it.
    pub(crate) fn stream(&self, kind: Kind) -> anyhow::Result<PathBuf> {
        let path = self.folder.path().join(format!("{}.stream", kind.name()));
        if !path.exists() {
            fs::write(&path, streams::generate(kind, self.effort.stream)).context("cannot write a stream")?;
        }
        Ok(path)
    }

    /// Returns a shorter stream as a terminal would get it: the kernel has put a carriage return before every line feed.
    pub(crate) fn recording(&self, kind: Kind) -> anyhow::Result<PathBuf> {
        let path = self.fresh_path("recording");
        let mut bytes = Vec::with_capacity(self.effort.recording * 2);
        for byte in streams::generate(kind, self.effort.recording) {
            if byte == b'\n' {
                bytes.push(b'\r');
            }
            bytes.push(byte);
        }
        fs::write(&path, bytes).context("cannot write a recording")?;
        Ok(path)
    }

    /// Returns the command line of one of this program's own parts.
    pub(crate) fn part<'a>(&'a self, arguments: &[&'a OsStr]) -> Vec<&'a OsStr> {
        [&[self.bench.as_os_str()], arguments].concat()
    }
}
