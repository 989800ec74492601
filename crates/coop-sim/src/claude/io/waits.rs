//! Timers and gates.
//!
//! A gate is a FIFO in `$COOP_SIM_GATES`: opening it for reading blocks until somebody opens it for writing, which is
//! how a test lets the agent go on without either side polling. A plain file of that name is an open gate.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::process::Pid;

use super::Happening;
use crate::claude::engine::{Event, Wait};
use crate::claude::ids::WaitId;

/// What is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Wait(WaitId),
    /// A hook has had its time.
    Kill(Pid),
}

pub(crate) struct Waits {
    due: Vec<(Instant, Due)>,
    gates: Vec<(WaitId, PathBuf)>,
    folder: Option<PathBuf>,
    events: SyncSender<Happening>,
}

impl Waits {
    pub(crate) fn new(folder: Option<PathBuf>, events: SyncSender<Happening>) -> Self {
        Self { due: Vec::new(), gates: Vec::new(), folder, events }
    }

    pub(crate) fn start(&mut self, id: WaitId, wait: &Wait) {
        match wait {
            Wait::Time(time) => self.at(Instant::now() + *time, Due::Wait(id)),
            Wait::Gate(name) => self.gate(id, name),
        }
    }

    pub(crate) fn at(&mut self, when: Instant, due: Due) {
        self.due.push((when, due));
    }

    pub(crate) fn cancel(&mut self, id: WaitId) {
        self.due.retain(|(_, due)| *due != Due::Wait(id));
        if let Some(index) = self.gates.iter().position(|(gate, _)| *gate == id) {
            let (_, path) = self.gates.swap_remove(index);
            // Lets the thread behind the gate go; if it has gone already there is nobody to open it to.
            let _ = OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
        }
    }

    /// How long until something is due.
    pub(crate) fn next(&self) -> Option<Duration> {
        let next = self.due.iter().map(|(when, _)| *when).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Takes what is due.
    pub(crate) fn take_due(&mut self) -> Vec<Due> {
        let now = Instant::now();
        let mut due: Vec<(Instant, Due)> = self.due.extract_if(.., |(when, _)| *when <= now).collect();
        due.sort_by_key(|(when, _)| *when);
        due.into_iter().map(|(_, due)| due).collect()
    }

    fn gate(&mut self, id: WaitId, name: &str) {
        // Without a folder no gate can ever open; the step waits until it is interrupted.
        let Some(path) = self.folder.as_ref().map(|folder| folder.join(name)) else { return };
        self.gates.push((id, path.clone()));
        let events = self.events.clone();
        thread::spawn(move || {
            if pass(&path).is_ok() {
                let _ = events.send(Happening::Engine(Event::WaitDone(id)));
            }
        });
    }
}

fn pass(path: &Path) -> std::io::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if !found.file_type().is_fifo() => return Ok(()),
        Ok(_) => {}
        Err(_) => match mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR) {
            // The test was faster; its FIFO or file is as good.
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        },
    }
    File::open(path).map(drop)
}
