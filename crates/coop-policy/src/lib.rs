//! What a command line does, and what rules say of it.
//!
//! | Module | |
//! |---|---|
//! | `shell` | the commands of a line, or why they cannot be told apart |
//! | `sight` | the commands behind `env`, `sudo`, `sh -c` and their like, for rules that deny or ask |
//! | `programs` | programs that run others, and those of which no word shows what they run |
//! | `sed` | whether a script of sed only edits |
//! | `judge` | whether a line only looks, changes something or may destroy, for the shim |
//! | `rules` | a fleet's rules for asks, with `pattern`, `path` and `glob` |
//! | `subject` | what the input of a tool is about: paths, a command, a way out of the agent's sandbox |
//! | `tools` | one word for the same tool of every agent kind |
//! | `warnings` | rules that can match nothing, agents that never ask |
//!
//! Everything here is pure. What cannot be judged is never allowed.

mod glob;
mod judge;
mod path;
mod pattern;
mod programs;
mod rules;
mod sed;
mod shell;
mod sight;
mod subject;
mod tools;
mod warnings;

pub use self::glob::Glob;
pub use self::judge::{Does, judge, judge_tool};
pub use self::path::PathPattern;
pub use self::pattern::CommandPattern;
pub use self::rules::{Decision, Policy, Request, Rule, Verdict};
pub use self::shell::{Command, Opaque, is_assignment, is_shell, quoted, split};
pub use self::subject::{command_line, leaves_sandbox};
pub use self::tools::{CANONICAL, ToolPattern, is_among, touches};
pub use self::warnings::{Subject as Warned, kind_of};
