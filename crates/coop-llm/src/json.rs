//! JSON text as it was written.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// JSON text as it was written, which may not be JSON at all.
///
/// What a model wrote goes back to it unchanged: the order of keys and the spaces too, since a provider's cache compares
/// the text. Text that is no JSON, or no object, can still be kept in a conversation: providers refuse it, so it is sent as
/// `{"INVALID_JSON": "…"}`.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Box<str>);

/// The key under which text that is no JSON is sent back, so that the model sees what it wrote.
const INVALID: &str = "INVALID_JSON";

impl Json {
    /// Takes text that should be JSON. No text at all is an empty object: so do models call tools without arguments.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.trim().is_empty() { Self("{}".into()) } else { Self(text.trim().into()) }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what the text says.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }

    /// Returns whether the text is one JSON object.
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(&self.0).is_ok()
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(value.to_string().into())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_str::<&RawValue>(&self.0) {
            Ok(raw) if self.0.starts_with('{') => raw.serialize(serializer),
            Ok(_) | Err(_) => serializer.collect_map([(INVALID, &self.0)]),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Box::<RawValue>::deserialize(deserializer)?.get().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_as_it_was_written() {
        let json: Json = serde_json::from_str(r#"{"b": 1,   "a": 1.50}"#).unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), r#"{"b": 1,   "a": 1.50}"#);
        assert!(json.is_object());
    }

    #[test]
    fn no_text_is_an_empty_object() {
        assert_eq!(Json::new(" ").as_str(), "{}");
    }

    #[test]
    fn what_is_no_json_is_sent_inside_an_object() {
        let json = Json::new(r#"{"path": "a"#);
        assert!(!json.is_object());
        assert_eq!(serde_json::to_string(&Json::new("[]")).unwrap(), r#"{"INVALID_JSON":"[]"}"#);
        assert_eq!(serde_json::to_string(&json).unwrap(), r#"{"INVALID_JSON":"{\"path\": \"a"}"#);
    }

    #[test]
    fn other_json_is_no_object() {
        for text in ["[1]", "1", "\"{}\"", "null", "{} {}"] {
            assert!(!Json::new(text).is_object(), "{text}");
        }
    }
}
