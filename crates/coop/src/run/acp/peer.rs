//! JSON-RPC with whoever is at the other end, a line for each message.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;

/// The client.
#[derive(Default)]
pub(super) struct Peer(Mutex<Asked>);

/// What was asked and is not answered yet.
#[derive(Default)]
struct Asked {
    last: u64,
    open: HashMap<u64, oneshot::Sender<Value>>,
}

/// Why something is not done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    /// What else is to be said.
    pub(super) data: Value,
}

impl RpcError {
    pub(super) fn invalid(message: &str) -> Self {
        Self { code: -32602, message: message.to_owned(), data: Value::Null }
    }

    pub(super) fn internal(message: &str) -> Self {
        Self { code: -32603, message: message.to_owned(), data: Value::Null }
    }

    pub(super) fn no_such_method(method: &str) -> Self {
        Self { code: -32601, message: format!("there is no method {method}"), data: Value::Null }
    }
}

impl Peer {
    pub(super) fn reply(&self, id: &Value, outcome: Result<Value, RpcError>) {
        send(&match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(RpcError { code, message, data }) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message, "data": data } })
            }
        });
    }

    pub(super) fn tell(&self, method: &str, params: &Value) {
        send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Asks something and waits for the answer; nothing if there will be none.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Option<Value> {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut asked = self.asked();
            asked.last += 1;
            let id = asked.last;
            asked.open.insert(id, answer);
            id
        };
        send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        answered.await.ok()
    }

    /// Takes in an answer. An error is one that says nothing.
    pub(super) fn answered(&self, message: &Value) {
        let answer = message["id"].as_u64().and_then(|id| self.asked().open.remove(&id));
        if let Some(answer) = answer {
            // Whoever asked may have been stopped.
            let _ = answer.send(message["result"].clone());
        }
    }

    /// Waits for no more answers.
    pub(super) fn forget(&self) {
        self.asked().open.clear();
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn send(message: &Value) {
    let mut out = io::stdout().lock();
    // A client that is gone is noticed by the end of the input.
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}
