//! How the model fails.

use serde::Deserialize;

/// An HTTP error in place of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    pub(crate) status: u16,
    /// The error's type; each protocol has one for every status.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) message: Option<String>,
    /// Seconds for the `retry-after` header.
    pub(crate) retry_after: Option<u64>,
}

impl Fault {
    /// Returns the fault of a request that is not understood.
    pub(crate) fn bad_request(message: String) -> Self {
        Self { status: 400, kind: None, message: Some(message), retry_after: None }
    }

    /// Returns the fault of a path that is not served.
    pub(crate) fn not_found(message: String) -> Self {
        Self { status: 404, kind: None, message: Some(message), retry_after: None }
    }
}
