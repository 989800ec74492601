//! The server's tests in one binary.
mod auth;
mod fake;
mod generated;
mod limits;
mod transports;
mod ws;
