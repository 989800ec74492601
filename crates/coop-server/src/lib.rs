//! HTTP, WebSocket, SSE and gRPC over the one port.
//!
//! Every transport is a codec: it turns a message into a [`coop_api::Request`], and a reply, an event or output into a
//! message. [`routes`] lists what is served; OpenAPI and the tests are made from that table.

mod ancestry;
mod app;
mod body;
mod error;
pub mod fleet;
mod follow;
mod grpc;
mod guard;
pub mod hooks;
mod http;
mod intake;
pub mod mcp;
mod meter;
mod openapi;
mod page;
mod peer;
mod recording;
mod routes;
mod serve;
pub mod shim;
mod sock_diag;
mod sse;
mod wire;
pub mod workspaces;
mod ws;

pub use ancestry::ProcessRole;
pub use app::{Config, TokenUse};
pub use openapi::document as openapi;
pub use page::Sessions;
pub use recording::{Links, Recorded};
pub use routes::{ROUTES, Route};
pub use serve::{Listener, Server, Surface};

/// Tells whether a text is a message a WebSocket's client may send; for the fuzzer.
#[doc(hidden)]
pub fn parse_client_message(text: &str) -> bool {
    serde_json::from_str::<wire::ClientMessage>(text).is_ok()
}
