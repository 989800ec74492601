//! The conversation loop: call the model, run the tools it wants, and again, until it has finished or must stop.

#[cfg(test)]
mod edges;
mod gate;
mod limits;
mod machine;
mod outcome;
#[cfg(test)]
mod tests;
mod tools;

use std::sync::Arc;

use tokio::time::Instant;

use machine::{Machine, Step};

pub use gate::{AllowAll, Decision, Gate};
pub use limits::{Limit, Limits};
pub use outcome::{Exit, Metrics, Outcome};

use crate::{Agent, AgentError, ErrorKind, Event, Message, Prices, Request, RequestConfig, RunCx, Tool};

/// Runs conversations of a model with tools.
///
/// ```
/// # use std::sync::Arc;
/// # use coop_llm::{Agent, AgentError, Executor, Exit, Message, Model, Part, Request, Response, RunCx, StopReason, Usage};
/// /// A model that says what it hears.
/// struct Parrot(Model);
///
/// #[async_trait::async_trait]
/// impl Agent for Parrot {
///     fn model(&self) -> &Model {
///         &self.0
///     }
///
///     async fn run(&self, request: &Request, _cx: &RunCx) -> Result<Response, AgentError> {
///         let heard = request.messages.last().map(Message::text).unwrap_or_default();
///         Ok(Response {
///             parts: vec![Part::text(heard)],
///             usage: Usage::default(),
///             stop: StopReason::Complete,
///             model: self.0.name.clone(),
///             request_id: None,
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let parrot = Parrot(Model { name: "parrot".into(), max_tokens: 100 });
/// let outcome = Executor::new(Arc::new(parrot)).run(vec![Message::user("Hello!")], &RunCx::default()).await;
/// assert_eq!(outcome.text(), "Hello!");
/// assert!(matches!(outcome.exit, Exit::Completed));
/// assert_eq!(outcome.metrics.invocations, 1);
/// # }
/// ```
#[derive(Clone)]
pub struct Executor {
    agent: Arc<dyn Agent>,
    tools: Vec<Arc<dyn Tool>>,
    gate: Arc<dyn Gate>,
    system: Option<String>,
    config: RequestConfig,
    limits: Limits,
    prices: Prices,
    keeper: Option<Keeper>,
}

/// Who keeps a conversation while it goes on.
type Keeper = Arc<dyn Fn(&[Message], &Metrics) + Send + Sync>;

impl Executor {
    /// Returns an executor without tools and with the default limits.
    pub fn new(agent: Arc<dyn Agent>) -> Self {
        Self {
            agent,
            tools: Vec::new(),
            gate: Arc::new(AllowAll),
            system: None,
            config: RequestConfig::default(),
            limits: Limits::default(),
            prices: Prices::default(),
            keeper: None,
        }
    }

    /// Adds a tool.
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.tools([Arc::new(tool) as Arc<dyn Tool>])
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Sets who is asked before each tool.
    pub fn gate(mut self, gate: impl Gate + 'static) -> Self {
        self.gate = Arc::new(gate);
        self
    }

    /// Sets what the model is told before the conversation.
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Sets what is to be different from the agent's defaults.
    pub fn config(mut self, config: RequestConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets how far a run may go.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets what tokens cost.
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = prices;
        self
    }

    /// Sets who is shown the conversation and what it took after every step, to keep it in case this program is killed. The
    /// last calls in it may have no results yet; [`Message::settle`] gives them some.
    pub fn keeper(mut self, keeper: impl Fn(&[Message], &Metrics) + Send + Sync + 'static) -> Self {
        self.keeper = Some(Arc::new(keeper));
        self
    }

    /// Continues a conversation until the model has finished or must stop. Whatever happens, the conversation and what it
    /// took come back.
    pub async fn run(&self, messages: Vec<Message>, cx: &RunCx) -> Outcome {
        let (cx, time_limit) = self.bounded(cx);
        let model = self.agent.model();
        let request = Request {
            system: self.system.clone(),
            messages,
            tools: self.tools.iter().map(|tool| tool.spec().clone()).collect(),
            config: self.config.clone(),
        };
        let mut machine = Machine::new(request, self.limits.clone(), model, self.prices.of(&model.name));
        let mut step = match self.same_name_twice() {
            Some(name) => {
                let message = format!("two tools are called {name:?}; leave one out, or give it another name");
                Step::Done(Exit::Failed(AgentError::new(ErrorKind::Invalid, message)))
            }
            None => machine.begin(),
        };
        loop {
            step = match step {
                Step::Call => self.call(&mut machine, &cx).await,
                Step::Tools(calls) => match self.run_tools(&calls, &cx).await {
                    (results, None) => machine.ran(results),
                    (results, Some(error)) => machine.broken_off(results, error),
                },
                Step::Done(exit) => {
                    let exit = match (exit, time_limit) {
                        (Exit::Failed(error), Some(at)) if error.kind == ErrorKind::Timeout && Instant::now() >= at => {
                            Exit::Limit(Limit::Time)
                        }
                        (exit, _) => exit,
                    };
                    let (response, history, metrics) = machine.finish();
                    cx.events.tell(Event::End { exit: exit.as_str(), metrics });
                    return Outcome { exit, response, history, metrics };
                }
            };
            if let Some(keeper) = &self.keeper {
                keeper(machine.history(), &machine.metrics());
            }
        }
    }

    async fn call(&self, machine: &mut Machine, cx: &RunCx) -> Step {
        let turn = machine.metrics().invocations + 1;
        cx.events.tell(Event::Call { turn });
        match cx.guard(self.agent.run(machine.request(), cx)).await {
            Ok(response) => {
                if cx.events.is_heard() {
                    let (parts, stop, usage) = (response.parts.clone(), response.stop.clone(), response.usage);
                    cx.events.tell(Event::Reply { turn, parts, stop, usage, cost: machine.cost_of(&usage) });
                }
                machine.replied(response)
            }
            Err(error) => machine.failed(error),
        }
    }

    /// Returns the surroundings with the limit on time in them, and when that passes if it is the nearer end.
    fn bounded(&self, cx: &RunCx) -> (RunCx, Option<Instant>) {
        let limit = self.limits.time.and_then(|time| Instant::now().checked_add(time));
        match (limit, cx.deadline) {
            (Some(limit), deadline) if deadline.is_none_or(|deadline| limit < deadline) => {
                (RunCx { deadline: Some(limit), ..cx.clone() }, Some(limit))
            }
            _ => (cx.clone(), None),
        }
    }

    fn same_name_twice(&self) -> Option<&str> {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| *name)
    }
}
