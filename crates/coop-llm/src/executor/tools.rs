//! The tools of one turn.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, timeout_at};

use super::{Decision, Executor};
use crate::cut::cut_middle;
use crate::{AgentError, Event, RunCx, Tool, ToolCx, ToolError, ToolOutput, ToolResult, ToolUse};

/// How far away "never" is; the clock cannot be asked for more.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);

impl Executor {
    /// Runs calls at the same time. The results are in the order of the calls, one for each; an error says that the run was
    /// cut off, and the results then say of which calls.
    pub(super) async fn run_tools(&self, calls: &[ToolUse], cx: &RunCx) -> (Vec<ToolResult>, Option<AgentError>) {
        let mut results: Vec<Option<ToolResult>> = vec![None; calls.len()];
        // Nothing is begun that is to be stopped at once.
        let calls_to_run = if cx.is_over() { &[] } else { calls };
        // When each began to run, which is after somebody allowed it.
        let begun: Vec<OnceLock<Instant>> = calls.iter().map(|_| OnceLock::new()).collect();
        let begun = &begun;
        // In one task rather than several: when this is dropped, all tools are gone at once.
        let mut running: FuturesUnordered<_> = calls_to_run
            .iter()
            .enumerate()
            .map(|(at, call)| async move { (at, self.run_tool(call, cx, &begun[at]).await) })
            .collect();
        let broken = loop {
            tokio::select! {
                biased;
                ended = running.next() => match ended {
                    Some((at, result)) => results[at] = Some(result),
                    None if cx.is_over() && results.iter().any(Option::is_none) => break Some(cx.over().await),
                    None => break None,
                },
                error = cx.over() => break Some(error),
            }
        };
        drop(running);
        let end = |(at, (call, result)): (usize, (&ToolUse, Option<ToolResult>))| {
            result.unwrap_or_else(|| {
                let content = "not finished: the run was stopped".to_owned();
                let result = ToolResult { tool_use_id: call.id.clone(), content, is_error: true };
                let (name, took) = (call.name.clone(), since(&begun[at]));
                cx.events.tell(Event::ToolEnd { name, result: result.clone(), took });
                result
            })
        };
        (calls.iter().zip(results).enumerate().map(end).collect(), broken)
    }

    async fn run_tool(&self, call: &ToolUse, cx: &RunCx, begun: &OnceLock<Instant>) -> ToolResult {
        let (content, is_error) = match self.try_tool(call, cx, begun).await {
            Ok(output) => (output.text, false),
            Err(why) => (why, true),
        };
        let content = cut_middle(self.agent.hide(content), self.limits.tool_output);
        let result = ToolResult { tool_use_id: call.id.clone(), content, is_error };
        cx.events.tell(Event::ToolEnd { name: call.name.clone(), result: result.clone(), took: since(begun) });
        result
    }

    async fn try_tool(&self, call: &ToolUse, cx: &RunCx, begun: &OnceLock<Instant>) -> Result<ToolOutput, String> {
        let tool = self.named(&call.name)?;
        if !call.input.is_object() {
            return Err("the arguments are not a JSON object".into());
        }
        let judged = AssertUnwindSafe(self.gate.decide(call, &*tool)).catch_unwind().await;
        match judged.map_err(|panic| format!("not allowed: {}", said(&*panic)))? {
            Decision::Allow => {}
            Decision::Deny(why) => return Err(format!("not allowed: {why}")),
        }
        if cx.is_over() {
            return Err("not run: the run was stopped".into());
        }
        cx.events.tell(Event::ToolStart(call.clone()));
        let now = *begun.get_or_init(Instant::now);
        let deadline = now.checked_add(self.limits.tool_time).unwrap_or(now + LONG);
        let tool_cx = ToolCx { call_id: call.id.clone(), cancel: cx.cancel.child_token(), deadline };
        let execution = AssertUnwindSafe(tool.execute(&call.input, &tool_cx)).catch_unwind();
        match timeout_at(deadline, execution).await {
            Ok(Ok(Ok(output))) => Ok(output),
            Ok(Ok(Err(error @ (ToolError::Arguments(_) | ToolError::Failed(_))))) => Err(error.to_string()),
            Ok(Err(panic)) => Err(format!("the tool broke: {}", said(&*panic))),
            Err(_) => Err(format!("stopped after {:?}, which is the time limit", self.limits.tool_time)),
        }
    }

    fn named(&self, name: &str) -> Result<Arc<dyn Tool>, String> {
        let found = self.tools.iter().find(|tool| tool.spec().name == name);
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = self.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
            format!("there is no tool {name:?}; there are: {}", names.join(", "))
        })
    }
}

/// Returns how long it is since something began; nothing if it never did.
fn since(begun: &OnceLock<Instant>) -> Duration {
    begun.get().map_or(Duration::ZERO, Instant::elapsed)
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked")
}
