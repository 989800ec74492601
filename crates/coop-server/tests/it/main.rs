//! The server's tests in one binary.
#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod auth;
mod fake;
mod fleet;
mod generated;
mod limits;
mod lock;
mod page;
mod parity;
mod streams;
mod transports;
mod ws;
mod ws_protocol;
