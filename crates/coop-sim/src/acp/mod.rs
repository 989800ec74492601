//! A scripted agent that speaks the Agent Client Protocol, version 1, as Gemini CLI and OpenCode were seen to.
//!
//! It does what the prompt says between `[[` and `]]`, as the scripted Claude Code does, and asks before it changes
//! anything. Files and commands go through its client where that offers it. Its conversations are kept in
//! `~/.local/share/coop-sim/acp`, so that another process can go on with them.

mod agent;
mod peer;
mod store;
mod tools;
mod turn;

use std::env;

use anyhow::Context;

/// How it is to behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// It wants somebody to log in before it begins a conversation: with the method `gemini-api-key`, as which it takes
    /// the variable `GEMINI_API_KEY`.
    pub auth: bool,
    /// It can load an earlier conversation, telling it again, but not just go on with it.
    pub load_only: bool,
}

/// Runs the agent until its input ends; returns its exit code.
pub fn run(options: Options) -> anyhow::Result<i32> {
    let home = env::var_os("HOME").context("HOME is not set")?;
    let prompts = env::var_os("COOP_SIM_STATE").map(|folder| std::path::Path::new(&folder).join("prompts.jsonl"));
    let store = store::Store::new(std::path::Path::new(&home).join(".local/share/coop-sim/acp"), prompts);
    agent::Agent::new(options, store, peer::Peer::of_process()).run()
}
