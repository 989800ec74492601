//! The drivers' tests in one binary.
#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod acp;
mod answers;
mod codex;
mod cuts;
mod deliver;
mod dialogs;
mod gemini;
mod hooks;
mod mimic;
mod opencode;
mod recordings;
mod screens;
mod status;
