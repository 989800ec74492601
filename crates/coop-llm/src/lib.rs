//! A typed way to call a model with tools.
//!
//! - An [`Agent`] is a model that can be called with a [`Request`]. It keeps nothing between calls.
//! - A [`Tool`] is something that the model can call: a function with a typed argument ([`typed`]) or anything else.
//! - An [`Executor`] runs the conversation: it calls the agent, runs the tools it wants, and stops at the end or at a
//!   limit. What it did and what that took comes back in an [`Outcome`], also when it failed.
//!
//! `docs/LLM.md` tells how they work.

mod agent;
mod config;
mod cut;
mod error;
mod event;
mod executor;
mod json;
#[cfg(feature = "mcp")]
mod mcp;
mod message;
mod process;
mod provider;
mod request;
mod tool;
mod tools;
mod usage;

pub use agent::{Agent, Model, RunCx};
pub use config::{AgentConfig, ProviderName};
pub use error::{AgentError, ErrorKind};
pub use event::{Delta, Event, Events};
pub use executor::{AllowAll, Decision, Executor, Exit, Gate, Limit, Limits, Metrics, Outcome};
pub use json::Json;
#[cfg(feature = "mcp")]
pub use mcp::{McpAddress, McpConfig, McpProgram, McpServer, McpServers, Secrets};
pub use message::{Message, Part, RedactedThinking, Role, Text, Thinking, ToolResult, ToolUse};
pub use provider::{
    ApiKey, Claude, Http, HttpReply, HttpRequest, KeySources, OpenAi, ProviderConfig, Retry, Transport, TransportError,
};
pub use request::{Budget, Request, RequestConfig, Response, StopReason, ThinkingMode, ToolSpec};
pub use tool::{Effect, Function, Tool, ToolCx, ToolError, ToolOutput, dynamic, schema_of, typed};
pub use tools::{Root, coding_tools, reading_tools};
pub use usage::{Price, Prices, Usage};
