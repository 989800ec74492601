//! Scripted agents and a fake model server: the demo, and what the tests stand on.

pub mod acp;
pub mod claude;
pub mod cluster;
pub mod codex;
pub mod gemini;
pub mod model;
pub mod opencode;
