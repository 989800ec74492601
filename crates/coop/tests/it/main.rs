//! The binary's tests, in one binary of their own.
#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod acp;
mod api_doc;
mod attach;
mod bridge;
mod claude;
mod cli;
mod codex;
mod doctor;
mod driven;
mod examples;
mod fleet;
mod gemini;
mod guard;
mod hook;
mod keys;
mod lock;
mod opencode;
mod opencode_link;
mod repository;
mod run;
mod runtimes;
mod shim;
mod sidecar;
mod tool;
mod truth;
mod unknown;
