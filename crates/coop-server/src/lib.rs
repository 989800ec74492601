//! HTTP, WebSocket, SSE and gRPC over the one port.
//!
//! Every transport is a codec: it turns a message into a [`coop_api::Request`], and a reply, an event or output into a
//! message. [`routes`] lists what is served; OpenAPI and the tests are made from that table.

mod app;
mod body;
mod error;
mod follow;
mod grpc;
mod guard;
mod http;
mod kin;
mod meter;
mod openapi;
mod peer;
mod routes;
mod serve;
pub mod shim;
mod sse;
mod wire;
mod ws;

pub use app::Config;
pub use openapi::document as openapi;
pub use routes::{ROUTES, Route};
pub use serve::{Listener, Server, Surface};

/// Tells whether a text is a message a WebSocket's client may send; for the fuzzer.
#[doc(hidden)]
pub fn parse_client_message(text: &str) -> bool {
    serde_json::from_str::<wire::ClientMessage>(text).is_ok()
}
