//! Runs the loop of `coop-llm` with a model that answers at once, so that all that is left is the loop's own work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use async_trait::async_trait;
use coop_llm::{
    Agent, AgentError, Executor, Exit, Json, Limits, Message, Model, Part, Request, Response, RunCx, StopReason,
    ToolError, ToolUse, Usage, typed,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A model that calls a tool each time it is asked, as often as it is told to.
struct Ready {
    model: Model,
    turns: usize,
}

#[async_trait]
impl Agent for Ready {
    fn model(&self) -> &Model {
        &self.model
    }

    async fn run(&self, request: &Request, _: &RunCx) -> Result<Response, AgentError> {
        // A question, and two messages for each turn so far.
        let turn = request.messages.len() / 2;
        let (part, stop) = if turn + 1 < self.turns {
            let input = Json::new(r#"{"numbers": [17.5, 4.25, 100]}"#);
            (Part::ToolUse(ToolUse { id: "toolu_01".into(), name: "sum".into(), input }), StopReason::ToolUse)
        } else {
            (Part::text("It is done."), StopReason::Complete)
        };
        let usage = Usage { input: 100, output: 10, ..Usage::default() };
        Ok(Response { parts: vec![part], usage, stop, model: String::new(), request_id: None })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Numbers {
    numbers: Vec<f64>,
}

/// Makes a conversation of so many calls, all but the last of which use a tool. Returns how long it took.
pub(crate) fn run(turns: usize) -> anyhow::Result<Duration> {
    let sum = typed("sum", "Adds numbers.", |given: Numbers, _| async move {
        Ok::<_, ToolError>(given.numbers.iter().sum::<f64>().to_string())
    });
    let model = Model { name: "claude-sonnet-4-5".into(), max_tokens: 4096 };
    let limits = Limits { turns: Some(u32::MAX), tokens: Some(u64::MAX), cost: Some(1e9), ..Limits::default() };
    let executor = Executor::new(Arc::new(Ready { model, turns })).tool(sum).limits(limits);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let begun = Instant::now();
    let outcome = runtime.block_on(executor.run(vec![Message::user("Add them.")], &RunCx::default()));
    let took = begun.elapsed();
    let done = matches!(outcome.exit, Exit::Completed) && outcome.metrics.invocations as usize == turns;
    ensure!(done && outcome.metrics.tool_errors == 0, "the conversation went wrong: {:?}", outcome.exit);
    Ok(took)
}
