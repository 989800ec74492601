//! The binary's tests, in one binary of their own.
#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod api_doc;
mod attach;
mod bridge;
mod claude;
mod cli;
mod doctor;
mod driven;
mod examples;
mod gemini;
mod hook;
mod repository;
mod sidecar;
mod tool;
mod unknown;
