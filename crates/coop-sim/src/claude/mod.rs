//! A scripted agent with the manners of Claude Code: for tests, and for a demo that needs no network and no key.
//!
//! It takes the flags of the real CLI, draws a screen like its, runs the hooks, writes the log and the status file,
//! and speaks its stream of JSON. What it does is written in a scenario, or in the prompt (`[[bash:ls]]`, see `step`).
//! It is not a copy: where the real one is known from recordings it follows them, and elsewhere it is simple.
//!
//! | Variable | Meaning |
//! |---|---|
//! | `CLAUDE_CONFIG_DIR`, `HOME` | where logs, status file and settings are |
//! | `COOP_SIM_SCENARIO` | a TOML file (see `scenario`), `plain` for none, unset for the built-in demo |
//! | `COOP_SIM_GATES` | the folder of the FIFOs that `[[gate:NAME]]` waits for |
//! | `COOP_SIM_STATE` | a folder for `counters.toml`, `trace.bin` and `prompts.jsonl` |
//! | `COOP_SIM_DIALOGS` | `1`: ask for trust, the API key and bypass mode as the real one does |
//! | `COOP_SIM_NOTIFY_MS` | how late the permission notification comes; 6000 unless set |
//! | `CLAUDE_CODE_MAX_RETRIES` | how often a final `[[err:N]]` is retried; not at all unless set |
//! | `CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS` | `1`: `session_state_changed` lines in the stream |
//!
//! ```text
//! bytes → face (tui, stream) → Command → engine → Effect → io → hooks, tools, timers
//!                  ↑                        └→ Notice → log, status file ┐
//!                  └─────────────────────────────────────────────────────┘
//! ```

mod args;
mod config;
mod engine;
pub(crate) mod face;
mod hook;
pub(crate) mod ids;
pub(crate) mod io;
mod launch;
mod log;
mod message;
mod notice;
mod permission;
#[cfg(test)]
mod rig;
mod scenario;
mod settings;
mod status;
pub(crate) mod step;
mod stream;
#[cfg(test)]
mod tests;
mod tool;
pub(crate) mod tui;
mod usage;

use std::ffi::OsString;

/// The version whose manners these are.
const VERSION: &str = "2.1.197";

/// Runs the agent with the arguments after `coop sim claude`; returns its exit code.
pub fn run(args: impl Iterator<Item = OsString>) -> anyhow::Result<i32> {
    launch::launch(launch::World::of_process(args)?)
}

/// Puts the terminal into raw mode until what this returns is dropped.
pub(crate) fn raw_mode(terminal: std::os::fd::OwnedFd) -> rustix::io::Result<impl Drop> {
    io::terminal::RawMode::enter(terminal)
}
