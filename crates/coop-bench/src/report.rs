//! How a child on some terminal tells us a number, past that terminal.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};

use crate::lab::Lab;

/// Where children send their numbers.
pub(crate) struct Reports {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Reports {
    pub(crate) fn new(lab: &Lab) -> anyhow::Result<Self> {
        let path = lab.fresh_path("report");
        let socket = UnixDatagram::bind(&path).context("cannot make a socket for reports")?;
        Ok(Self { socket, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn wait(&self, limit: Duration) -> anyhow::Result<Duration> {
        self.socket.set_read_timeout(Some(limit))?;
        let mut bytes = [0; 16];
        let length = self.socket.recv(&mut bytes).context("the child did not report in time")?;
        let bytes: [u8; 8] = bytes[..length].try_into().context("a report that is not a number")?;
        Ok(Duration::from_nanos(u64::from_be_bytes(bytes)))
    }
}

/// Sends a number, as the child.
pub(crate) fn send(path: &Path, value: Duration) -> anyhow::Result<()> {
    let nanos = u64::try_from(value.as_nanos())?;
    UnixDatagram::unbound()?.send_to(&nanos.to_be_bytes(), path)?;
    Ok(())
}

/// Returns the time on a clock that all processes share.
pub(crate) fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
