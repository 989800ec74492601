//! A turn: what the prompt says, step by step, until it is done or somebody stops it.

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent::{Agent, error};
use super::peer::Heard;
use crate::claude::step::{Step, directives};

const HELLO: &str = "Hello from the mock model.";
/// What each request to the model is said to use.
const INPUT: u64 = 1200;
const OUTPUT: u64 = 42;
const CACHE_READ: u64 = 5000;
const CACHE_WRITE: u64 = 300;
/// What it is said to cost, in thousandths of a dollar.
const COST: u64 = 10;
/// How long it waits before it tries again what failed.
const RETRY: Duration = Duration::from_millis(20);
const TICK: Duration = Duration::from_millis(500);
/// A piece of a flood.
const PIECE: usize = 8192;

/// Why a turn does not go on.
pub(super) enum Halt {
    /// Somebody stopped it.
    Cancelled,
    /// The model failed.
    Failed(Value),
    /// The process ends.
    Exit(i32),
}

/// What to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Only the time.
    Time,
    /// The reply to this request.
    Reply(i64),
    /// The end of the command of this number.
    Run(u64),
}

/// What was waited for.
pub(super) enum Got {
    Reply(Result<Value, Value>),
    Ran(std::io::Result<Output>),
    TimeUp,
}

impl Agent {
    /// Takes a prompt, and answers it once its turn is over.
    pub(super) fn prompted(&mut self, id: &Value, params: &Value) -> anyhow::Result<Option<i32>> {
        let is_ours = self.session.as_ref().is_some_and(|session| params["sessionId"] == session.id.as_str());
        if !is_ours {
            self.peer.reply(id, Err(error(-32602, "Session not found")));
            return Ok(None);
        }
        let text: String =
            params["prompt"].as_array().into_iter().flatten().filter_map(|p| p["text"].as_str()).collect();
        self.store.note_prompt(&text)?;
        self.keep("user", &text)?;
        let mut requests = 1;
        let outcome = match self.turn(&text, &mut requests) {
            Ok(answer) => {
                self.keep("agent", &answer)?;
                Ok("end_turn")
            }
            Err(Halt::Cancelled) => Ok("cancelled"),
            Err(Halt::Failed(error)) => Err(error),
            Err(Halt::Exit(code)) => return Ok(Some(code)),
        };
        let usage = self.used(requests);
        self.peer.reply(id, outcome.map(|reason| json!({ "stopReason": reason, "usage": usage })));
        Ok(None)
    }

    fn keep(&self, role: &str, text: &str) -> anyhow::Result<()> {
        let id = self.session.as_ref().map_or("", |session| &session.id);
        Ok(self.store.add(id, role, text)?)
    }

    fn used(&mut self, requests: u64) -> Value {
        if let Some(session) = &mut self.session {
            session.cost += COST * requests;
            let cost = json!({ "amount": session.cost as f64 / 1000.0, "currency": "USD" });
            let used = INPUT + CACHE_READ;
            self.update(json!({ "sessionUpdate": "usage_update", "used": used, "size": 200_000, "cost": cost }));
        }
        let total = INPUT + OUTPUT + CACHE_READ + CACHE_WRITE;
        json!({
            "inputTokens": INPUT * requests, "outputTokens": OUTPUT * requests, "totalTokens": total * requests,
            "cachedReadTokens": CACHE_READ * requests, "cachedWriteTokens": CACHE_WRITE * requests,
        })
    }

    /// Does what a prompt says, and returns the answer.
    fn turn(&mut self, text: &str, requests: &mut u64) -> Result<String, Halt> {
        let mut answer = None;
        let mut results = 0;
        for step in directives(text) {
            match step {
                Step::Text(text) => {
                    self.say(&text);
                    answer = Some(text);
                }
                Step::Think(text) => self.piece("agent_thought_chunk", &text),
                Step::Slow(seconds) => {
                    for tick in 0..(seconds * 2.0) as u64 {
                        self.say(&format!("tick {tick}. "));
                        self.pause(TICK)?;
                    }
                }
                Step::Wait(seconds) => self.pause(Duration::from_secs_f64(seconds))?,
                Step::Hang => {
                    self.say("Let me see. ");
                    self.wait(None, Want::Time)?;
                }
                Step::Flood(bytes) => {
                    for at in (0..bytes).step_by(PIECE) {
                        self.say(&"x".repeat(PIECE.min(bytes - at)));
                    }
                }
                // It says nothing of what it tries again.
                Step::Err { times: Some(times), .. } => self.pause(RETRY * times)?,
                Step::Err { status, times: None } => {
                    let model = json!({ "error": { "code": status, "message": format!("mock HTTP {status}") } });
                    return Err(Halt::Failed(error(status.into(), model.to_string())));
                }
                Step::Exit(code) => return Err(Halt::Exit(code)),
                Step::Crash => std::process::abort(),
                Step::Ask(_) | Step::Agent(_) | Step::Bg(_) | Step::Gate(_) | Step::Altscreen => {
                    self.say("There is nothing for that in this protocol. ");
                }
                tool @ (Step::Bash(_) | Step::Write { .. } | Step::Read(_) | Step::Edit { .. } | Step::Plan(_)) => {
                    self.tool(tool)?;
                    results += 1;
                    *requests += 1;
                }
            }
        }
        let answer = answer.unwrap_or_else(|| {
            let answer = if results > 0 { format!("Mock reply after {results} tool result(s).") } else { HELLO.into() };
            self.say(&answer);
            answer
        });
        Ok(answer)
    }

    /// Says something, word by word.
    fn say(&self, text: &str) {
        text.split_inclusive(' ').for_each(|word| self.piece("agent_message_chunk", word));
    }

    fn piece(&self, kind: &str, text: &str) {
        self.update(json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } }));
    }

    fn pause(&mut self, time: Duration) -> Result<(), Halt> {
        self.wait(Some(Instant::now() + time), Want::Time).map(drop)
    }

    /// Asks the client something and waits for its reply.
    pub(super) fn call(&mut self, method: &str, params: Value) -> Result<Result<Value, Value>, Halt> {
        let id = self.peer.ask(method, params);
        match self.wait(None, Want::Reply(id))? {
            Got::Reply(reply) => Ok(reply),
            Got::Ran(_) | Got::TimeUp => Ok(Err(Value::Null)),
        }
    }

    /// Waits for a reply, the end of a command or a time, and does meanwhile what else is asked.
    pub(super) fn wait(&mut self, until: Option<Instant>, want: Want) -> Result<Got, Halt> {
        loop {
            match self.peer.next(until) {
                Heard::TimeUp => return Ok(Got::TimeUp),
                Heard::Ran(number, output) if want == Want::Run(number) => return Ok(Got::Ran(output)),
                // Of a turn that was stopped.
                Heard::Ran(..) => {}
                Heard::End => return Err(Halt::Exit(0)),
                Heard::Message(message) => {
                    let (method, id) = (message["method"].as_str(), &message["id"]);
                    match method {
                        Some("session/cancel") => return Err(Halt::Cancelled),
                        Some("session/prompt") => self.peer.reply(id, Err(error(-32600, "a prompt is under way"))),
                        Some(method) if !id.is_null() => {
                            let outcome = self.asked(method, &message["params"]);
                            let outcome = outcome.unwrap_or_else(|failed| Err(error(-32603, failed.to_string())));
                            self.peer.reply(id, outcome);
                        }
                        Some(_) => {}
                        None if id.as_i64().is_some_and(|id| want == Want::Reply(id)) => {
                            let refused = message.get("error").cloned();
                            return Ok(Got::Reply(refused.map_or_else(|| Ok(message["result"].clone()), Err)));
                        }
                        None => {}
                    }
                }
            }
        }
    }
}
