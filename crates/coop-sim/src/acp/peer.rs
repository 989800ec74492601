//! The other side: lines of JSON-RPC, both ways.

use std::io::{self, BufRead, Write};
use std::process::Output;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

/// Something to react to.
pub(super) enum Heard {
    /// A message of the client's.
    Message(Value),
    /// The command of this number has ended.
    Ran(u64, io::Result<Output>),
    /// The time is up.
    TimeUp,
    /// The client is gone.
    End,
}

pub(super) struct Peer {
    inbox: Receiver<Heard>,
    /// For whoever has something to react to.
    pub(super) inform: Sender<Heard>,
    asked: i64,
}

impl Peer {
    /// Returns the peer at this process's standard input and output.
    pub(super) fn of_process() -> Self {
        let (inform, inbox) = mpsc::channel();
        let reader = inform.clone();
        thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                let heard = match serde_json::from_str(&line) {
                    Ok(message) => Heard::Message(message),
                    Err(_) => continue,
                };
                if reader.send(heard).is_err() {
                    return;
                }
            }
            let _ = reader.send(Heard::End);
        });
        Self { inbox, inform, asked: 0 }
    }

    /// Waits for something to react to.
    pub(super) fn next(&self, until: Option<Instant>) -> Heard {
        let Some(until) = until else { return self.inbox.recv().unwrap_or(Heard::End) };
        match self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) => Heard::TimeUp,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }

    /// Asks the client something, and returns the id that its reply will have.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> i64 {
        let id = self.asked;
        self.asked += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    pub(super) fn tell(&self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub(super) fn reply(&self, id: &Value, outcome: Result<Value, Value>) {
        self.send(&match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        });
    }

    fn send(&self, message: &Value) {
        let mut out = io::stdout().lock();
        // A client that is gone will be noticed by its input's end.
        let _ = writeln!(out, "{message}").and_then(|()| out.flush());
    }
}
