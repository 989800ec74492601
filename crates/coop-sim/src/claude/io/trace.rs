//! What a test wants to know afterwards, in the folder `$COOP_SIM_STATE`:
//! - `counters.toml`: how often this and that happened, over all processes that shared the folder;
//! - `trace.bin`: every byte of the standard input;
//! - `prompts.jsonl`: every prompt that reached the agent, whole, one JSON string per line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::claude::engine::Counter;
use crate::claude::status::write_atomically;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Counters {
    starts: u64,
    turns: u64,
    tools: u64,
    allowed: u64,
    denied: u64,
    stop_blocks: u64,
}

/// Keeps the record, or none if nobody asked for one.
pub(crate) struct Trace {
    record: Option<Record>,
}

struct Record {
    counters_path: PathBuf,
    counters: Counters,
    bytes: File,
    prompts: File,
}

impl Trace {
    pub(crate) fn open(folder: Option<&Path>) -> io::Result<Self> {
        let Some(folder) = folder else { return Ok(Self { record: None }) };
        fs::create_dir_all(folder)?;
        let append = |name: &str| OpenOptions::new().create(true).append(true).open(folder.join(name));
        let counters_path = folder.join("counters.toml");
        let text = fs::read_to_string(&counters_path).unwrap_or_default();
        let counters = toml::from_str(&text).map_err(io::Error::other)?;
        let record = Record { counters_path, counters, bytes: append("trace.bin")?, prompts: append("prompts.jsonl")? };
        Ok(Self { record: Some(record) })
    }

    pub(crate) fn input(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.record.as_mut().map_or(Ok(()), |record| record.bytes.write_all(bytes))
    }

    pub(crate) fn prompt(&mut self, text: &str) -> io::Result<()> {
        let Some(record) = &mut self.record else { return Ok(()) };
        let line = format!("{}\n", serde_json::Value::from(text));
        record.prompts.write_all(line.as_bytes())
    }

    pub(crate) fn count(&mut self, counter: Counter) -> io::Result<()> {
        let Some(record) = &mut self.record else { return Ok(()) };
        let counters = &mut record.counters;
        *match counter {
            Counter::Starts => &mut counters.starts,
            Counter::Turns => &mut counters.turns,
            Counter::Tools => &mut counters.tools,
            Counter::Allowed => &mut counters.allowed,
            Counter::Denied => &mut counters.denied,
            Counter::StopBlocks => &mut counters.stop_blocks,
        } += 1;
        let Counters { starts, turns, tools, allowed, denied, stop_blocks } = record.counters;
        let text = format!(
            "starts = {starts}\nturns = {turns}\ntools = {tools}\nallowed = {allowed}\ndenied = {denied}\nstop_blocks = {stop_blocks}\n"
        );
        write_atomically(&record.counters_path, text.as_bytes())
    }
}
