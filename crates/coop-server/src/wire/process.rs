//! The child and its counters.

use coop_api::{Health, ProcessState, Seq, Size, Status};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
pub(crate) struct HealthBody {
    status: ProcessState,
    pid: Option<u32>,
    uptime_secs: u64,
    agent: String,
    terminal: Size,
    ws_clients: usize,
    /// coop's own version.
    version: &'static str,
    /// The version of what it says; who knows only an earlier one should not steer it.
    protocol: u32,
}

impl HealthBody {
    pub(crate) fn new(health: Health, ws_clients: usize) -> Self {
        Self {
            status: health.state,
            pid: health.pid,
            uptime_secs: health.uptime.as_secs(),
            agent: health.agent,
            terminal: health.size,
            ws_clients,
            version: env!("CARGO_PKG_VERSION"),
            protocol: coop_api::PROTOCOL,
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct StatusBody {
    state: ProcessState,
    pid: Option<u32>,
    uptime_secs: u64,
    exit_code: Option<i32>,
    /// The signal that ended the child, if one did.
    exit_signal: Option<i32>,
    screen_seq: Seq,
    bytes_read: u64,
    bytes_written: u64,
    ws_clients: usize,
    /// Which child of this session it is; grows with every restart.
    epoch: u64,
}

impl StatusBody {
    pub(crate) fn new(status: Status, ws_clients: usize) -> Self {
        Self {
            state: status.state,
            pid: status.pid,
            uptime_secs: status.uptime.as_secs(),
            exit_code: status.exit_code,
            exit_signal: status.exit_signal,
            screen_seq: status.screen_seq,
            bytes_read: status.bytes_read,
            bytes_written: status.bytes_written,
            ws_clients,
            epoch: status.epoch.0,
        }
    }
}
