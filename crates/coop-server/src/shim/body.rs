//! Bodies of requests, and what is said of those that make no sense.

use std::fmt;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::plain;

/// The largest body: briefs carry snapshots of whole projects.
pub(crate) const MAX_BODY: usize = 8 * 1024 * 1024;

/// A JSON object, whatever content type it claims; an empty body is an empty object.
pub(crate) struct Body(pub(crate) Map<String, Value>);

/// What is wrong with a body, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Invalid {
    kind: &'static str,
    at: Vec<Value>,
    message: String,
    input: Value,
}

impl Invalid {
    pub(crate) fn at(path: &[&str], message: &str, input: Value) -> Self {
        Self::there(path.iter().map(|part| Value::from(*part)).collect(), message, input)
    }

    /// The same, with numbers for places in lists.
    pub(crate) fn there(at: Vec<Value>, message: &str, input: Value) -> Self {
        Self { kind: "value_error", at, message: message.to_owned(), input }
    }

    /// Reads a value, and says which part of it cannot be read.
    pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Self> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let at: Vec<Value> = error.path().iter().filter_map(part).collect();
            let said = error.inner().to_string();
            let missing = said.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
            match missing {
                Some((field, _)) => {
                    let at = at.into_iter().chain([field.into()]).collect();
                    Self { kind: "missing", at, message: "Field required".to_owned(), input: Value::Null }
                }
                None => {
                    let found = found(value, &at);
                    let message = plain::must_be(&said, &found);
                    // What is large is not told again.
                    let input = if found.is_array() || found.is_object() { Value::Null } else { found };
                    Self::there(at, &message, input)
                }
            }
        })
    }

    /// Returns what is wrong and where in something of this name, in one sentence.
    pub(crate) fn sentence(&self, name: &str) -> String {
        let part = |part: &Value| part.as_str().map_or_else(|| format!("[{part}]"), |key| format!(".{key}"));
        let place = format!("{name}{}", self.at.iter().map(part).collect::<String>());
        if self.kind == "missing" { format!("{place} is missing") } else { format!("{place}: {}", self.message) }
    }

    /// Returns the place of something that has to be there and is not.
    pub(crate) fn missing(&self) -> Option<&[Value]> {
        (self.kind == "missing").then_some(self.at.as_slice())
    }

    fn unread(error: &BytesRejection) -> Response {
        if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return too_large();
        }
        let detail = format!("cannot read the body: {}", error.body_text());
        (error.status(), Json(json!({ "detail": detail }))).into_response()
    }
}

fn too_large() -> Response {
    let detail = format!("the body is larger than {} MiB", MAX_BODY >> 20);
    (StatusCode::PAYLOAD_TOO_LARGE, Json(json!({ "detail": detail }))).into_response()
}

fn part(segment: &serde_path_to_error::Segment) -> Option<Value> {
    match segment {
        serde_path_to_error::Segment::Seq { index } => Some(Value::from(*index)),
        serde_path_to_error::Segment::Map { key } => Some(Value::from(key.as_str())),
        serde_path_to_error::Segment::Enum { .. } | serde_path_to_error::Segment::Unknown => None,
    }
}

/// Returns what is at a place.
pub(crate) fn found(value: &Value, at: &[Value]) -> Value {
    let step = |value: &Value, part: &Value| match part {
        Value::String(key) => value.get(key).cloned(),
        other => value.get(usize::try_from(other.as_u64()?).ok()?).cloned(),
    };
    at.iter().try_fold(value.clone(), |value, part| step(&value, part)).unwrap_or(Value::Null)
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl IntoResponse for Invalid {
    fn into_response(self) -> Response {
        let loc: Vec<Value> = [Value::from("body")].into_iter().chain(self.at).collect();
        let detail = json!([{ "type": self.kind, "loc": loc, "msg": self.message, "input": self.input }]);
        (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "detail": detail }))).into_response()
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let length =
            request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        // Before any of it has come.
        if length.is_some_and(|length: u64| length > MAX_BODY as u64) {
            return Err(too_large());
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|error| Invalid::unread(&error))?;
        if bytes.trim_ascii().is_empty() {
            return Ok(Self(Map::new()));
        }
        let invalid = |kind, message: String| Invalid { kind, at: vec![], message, input: Value::Null };
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(body)) => Ok(Self(body)),
            // Some clients say that there is no body with this.
            Ok(Value::Null) => Ok(Self(Map::new())),
            Ok(_) => Err(invalid("model_type", "the body must be a JSON object".to_owned()).into_response()),
            Err(error) => Err(invalid("json_invalid", format!("the body is not JSON: {error}")).into_response()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::types::AgentBrief;

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let wrong = |change: fn(&mut Value)| {
            let mut brief = crate::shim::tests::brief();
            change(&mut brief);
            let invalid = Invalid::read::<AgentBrief>(&brief).expect_err("it is wrong");
            (invalid.kind, Value::from(invalid.at), invalid.input)
        };
        let missing = wrong(|brief| drop(brief["projectBrief"].as_object_mut().expect("an object").remove("goals")));
        assert_eq!(missing, ("missing", json!(["projectBrief", "goals"]), Value::Null));
        let typed = wrong(|brief| brief["projectBrief"]["goals"] = json!(["a", 7]));
        assert_eq!(typed, ("value_error", json!(["projectBrief", "goals", 1]), json!(7)));
        let named = wrong(|brief| brief["controlMode"] = json!("anarchy"));
        assert_eq!((named.0, named.1), ("value_error", json!(["controlMode"])));
    }
}
