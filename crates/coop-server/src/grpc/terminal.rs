//! What is known of the child and its terminal, as messages.

use coop_api::{Dump, Error, Health, History, LockAction, Screen, Size, Status, Written};

use super::proto::*;
use crate::wire::{LockedBody, ansi_lines, text_lines};

pub(super) fn health(health: Health, ws_clients: usize) -> GetHealthResponse {
    GetHealthResponse {
        status: health.state.as_str().into(),
        pid: health.pid.map(|pid| pid as i32),
        uptime_secs: health.uptime.as_secs() as i64,
        agent: health.agent,
        ws_clients: ws_clients as i32,
    }
}

pub(super) fn status(known: Status, ws_clients: usize) -> GetStatusResponse {
    GetStatusResponse {
        state: known.state.as_str().into(),
        pid: known.pid.map(|pid| pid as i32),
        uptime_secs: known.uptime.as_secs() as i64,
        exit_code: known.exit_code,
        screen_seq: known.screen_seq.0,
        bytes_read: known.bytes_read,
        bytes_written: known.bytes_written,
        ws_clients: ws_clients as i32,
        exit_signal: known.exit_signal,
    }
}

pub(super) fn screen(request: &GetScreenRequest, History { lines, screen }: &History) -> GetScreenResponse {
    let (rows, scrollback) = match request.format() {
        get_screen_request::Format::Text => {
            (text_lines(screen), lines.iter().map(|line| line.plain().to_owned()).collect())
        }
        get_screen_request::Format::Ansi => (ansi_lines(screen), lines.iter().map(|line| line.ansi()).collect()),
    };
    GetScreenResponse {
        lines: rows,
        cols: screen.size.cols().into(),
        rows: screen.size.rows().into(),
        alt_screen: screen.modes.alt_screen,
        cursor: request.include_cursor.then(|| cursor(screen)),
        sequence: screen.seq.0,
        scrollback,
    }
}

pub(super) fn snapshot(screen: &Screen) -> ScreenSnapshot {
    ScreenSnapshot {
        lines: text_lines(screen),
        cols: screen.size.cols().into(),
        rows: screen.size.rows().into(),
        alt_screen: screen.modes.alt_screen,
        cursor: Some(cursor(screen)),
        sequence: screen.seq.0,
    }
}

fn cursor(screen: &Screen) -> CursorPosition {
    CursorPosition { row: screen.cursor.row.into(), col: screen.cursor.col.into() }
}

impl From<Dump> for GetDumpResponse {
    fn from(dump: Dump) -> Self {
        let (cols, rows) = (dump.size.cols().into(), dump.size.rows().into());
        Self { data: dump.data, offset: dump.offset.0, cols, rows }
    }
}

impl From<Written> for SendInputResponse {
    fn from(written: Written) -> Self {
        Self { bytes_written: written.bytes_written as i32, queued: written.queued as i32 }
    }
}

impl From<Written> for SendKeysResponse {
    fn from(written: Written) -> Self {
        Self { bytes_written: written.bytes_written as i32, queued: written.queued as i32 }
    }
}

pub(super) fn lock_action(request: &LockRequest) -> LockAction {
    match request.action() {
        lock_request::Action::Acquire => LockAction::Acquire,
        lock_request::Action::Release => LockAction::Release,
    }
}

impl From<LockedBody> for LockResponse {
    fn from(locked: LockedBody) -> Self {
        Self { held: locked.held, writer: locked.writer }
    }
}

pub(super) fn size(request: &ResizeRequest) -> Result<Size, Error> {
    Size::new(request.cols.max(0) as u32, request.rows.max(0) as u32)
        .map_err(|error| Error::bad_request(error.to_string()))
}
