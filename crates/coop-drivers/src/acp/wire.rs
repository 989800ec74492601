//! JSON-RPC as both sides speak it: what comes in told apart, what goes out put together.

use agent_client_protocol_schema::{Error, JsonRpcMessage, Notification, Request, RequestId, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the agent said.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    /// It asks something and waits for an answer.
    Request { id: RequestId, method: &'a str, params: &'a Value },
    /// It tells something.
    Notification { method: &'a str, params: &'a Value },
    /// It answers something.
    Reply { id: i64, outcome: Result<&'a Value, Error> },
}

/// Tells what a message is; nothing if it is none of the protocol's, or answers what was never asked.
pub(super) fn incoming(message: &Value) -> Option<Incoming<'_>> {
    let fields = message.as_object()?;
    let id = fields.get("id");
    let params = fields.get("params").unwrap_or(&Value::Null);
    match (fields.get("method").and_then(Value::as_str), id) {
        (Some(method), None) => Some(Incoming::Notification { method, params }),
        (Some(method), Some(id)) => Some(Incoming::Request { id: parse(id)?, method, params }),
        (None, Some(id)) => {
            let id = id.as_i64()?;
            let outcome = match (fields.get("error"), fields.get("result")) {
                (Some(error), _) => Err(parse(error).unwrap_or_else(|| Error::internal_error().data(error.clone()))),
                (None, Some(result)) => Ok(result),
                (None, None) => return None,
            };
            Some(Incoming::Reply { id, outcome })
        }
        (None, None) => None,
    }
}

/// Reads a part of a message.
pub(super) fn parse<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

pub(super) fn request(id: i64, method: &str, params: impl Serialize) -> Value {
    value(JsonRpcMessage::wrap(Request { id: RequestId::Number(id), method: method.into(), params: Some(params) }))
}

pub(super) fn notification(method: &str, params: impl Serialize) -> Value {
    value(JsonRpcMessage::wrap(Notification { method: method.into(), params: Some(params) }))
}

pub(super) fn reply(id: RequestId, result: impl Serialize) -> Value {
    value(JsonRpcMessage::wrap(Response::new(id, Ok(result))))
}

pub(super) fn error(id: RequestId, error: Error) -> Value {
    value(JsonRpcMessage::wrap(Response::<Value>::new(id, Err(error))))
}

/// Returns what stands for something in JSON. None of the protocol's words is one that cannot be.
pub(super) fn value(of: impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}
