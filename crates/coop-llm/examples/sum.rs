//! A model with one tool: `ANTHROPIC_API_KEY=… cargo run -p coop-llm --example sum`.

use std::sync::Arc;

use coop_llm::{Agent, AgentConfig, AgentError, Executor, Limits, Message, Outcome, RunCx, ToolError, typed};

/// Numbers to add.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    /// As many as you like.
    numbers: Vec<f64>,
}

pub async fn ask(agent: Arc<dyn Agent>, question: &str) -> Outcome {
    let sum = typed("sum", "Adds numbers exactly.", |given: Numbers, _| async move {
        Ok::<_, ToolError>(given.numbers.iter().sum::<f64>().to_string())
    });
    let limits = Limits { turns: Some(5), cost: Some(0.10), ..Limits::default() };
    Executor::new(agent).tool(sum).limits(limits).run(vec![Message::user(question)], &RunCx::default()).await
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "it is a program for people")]
async fn main() -> Result<(), AgentError> {
    let config = AgentConfig { model: Some("claude-sonnet-4-5".into()), ..AgentConfig::default() };
    let agent = config.agent(|name| std::env::var(name).ok())?;
    let outcome = ask(agent, "How much is 17.5 + 4.25 + 100?").await;
    println!("{}\n{} · {:?}", outcome.text(), outcome.exit.as_str(), outcome.metrics);
    Ok(())
}
