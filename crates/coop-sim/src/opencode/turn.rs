//! A turn: what the prompt's directives say, told as the real one tells it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::world::{Verdict, World, now};
use crate::claude::step::{Question, Step, directives};

/// What each request to the model uses, and what that costs.
const TOKENS: [u64; 4] = [1500, 42, 5000, 0];
const COST: f64 = 0.001_584;
/// How long the model is given before it is tried again. The real one waits for two seconds and more.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// How long a turn that failed goes on after it was said to be over: what comes meanwhile is kept and not run.
const WIND_DOWN: Duration = Duration::from_millis(150);

/// Why a turn ends before its time.
enum Stop {
    /// Somebody refused something without a word.
    Refused,
    Failed {
        status: u16,
    },
}

/// A message of the assistant that is being written.
struct Writing<'a> {
    world: &'a Arc<World>,
    session: &'a str,
    parent: &'a str,
    info: Value,
    results: usize,
}

pub(super) async fn run(world: &Arc<World>, session: &str, message: &str, text: &str, stop: CancellationToken) {
    world.set_status(session, json!({ "type": "busy" }));
    let mut writing = Writing::begin(world, session, message);
    world.set_status(session, json!({ "type": "busy" }));
    let error = tokio::select! {
        outcome = perform(&mut writing, text) => match outcome {
            Ok(()) | Err(Stop::Refused) => None,
            Err(Stop::Failed { status }) => Some(json!({ "name": "APIError", "data": {
                "message": format!("mock HTTP {status}"), "statusCode": status, "isRetryable": false } })),
        },
        () = stop.cancelled() => Some(json!({ "name": "MessageAbortedError", "data": { "message": "Aborted" } })),
    };
    if let Some(error) = error {
        world.stop_children(session);
        world.tell("session.error", json!({ "sessionID": session, "error": error }));
        world.set_status(session, json!({ "type": "idle" }));
        writing.info["error"] = error;
        tokio::time::sleep(WIND_DOWN).await;
    }
    writing.complete();
    world.save();
    world.end(session);
    world.set_status(session, json!({ "type": "idle" }));
}

/// Does what the text says. Boxed, because a sub-agent does the same.
fn perform<'a>(
    writing: &'a mut Writing<'_>,
    text: &'a str,
) -> Pin<Box<dyn Future<Output = Result<(), Stop>> + Send + 'a>> {
    Box::pin(async move {
        let mut last = None;
        for step in directives(text) {
            match step {
                Step::Text(text) => last = Some(text),
                Step::Bash(command) => {
                    let input = json!({ "command": command, "description": "run a command" });
                    let pattern = format!("{} *", command.split(' ').next().unwrap_or_default());
                    let about = json!({ "permission": "bash", "patterns": [command], "metadata": { "command": command },
                        "always": [pattern] });
                    writing.tool("bash", input, Some(about), shell(&command)).await?;
                }
                Step::Write { path, content } => {
                    let about = json!({ "permission": "edit", "patterns": [path], "metadata": { "filepath": path },
                        "always": ["*"] });
                    let write = async { std::fs::write(&path, &content).map(|()| "Wrote file successfully.".into()) };
                    let input = json!({ "filePath": path, "content": content });
                    writing.tool("write", input, Some(about), write).await?;
                }
                Step::Read(path) => {
                    let read = async { std::fs::read_to_string(&path) };
                    writing.tool("read", json!({ "filePath": path }), None, read).await?;
                }
                Step::Ask(questions) => writing.ask(&questions).await?,
                Step::Agent(prompt) => writing.sub_agent(&prompt).await?,
                Step::Slow(seconds) => writing.talk(seconds).await,
                Step::Wait(seconds) => tokio::time::sleep(Duration::from_secs_f64(seconds)).await,
                Step::Hang => std::future::pending().await,
                Step::Err { status, times } => writing.fail(status, times).await?,
                Step::Crash => std::process::exit(1),
                Step::Exit(code) => std::process::exit(code),
                // The real one has nothing like these.
                Step::Think(_)
                | Step::Plan(_)
                | Step::Bg(_)
                | Step::Gate(_)
                | Step::Flood(_)
                | Step::Altscreen
                | Step::Edit { .. } => {}
            }
        }
        let answer = match (last, writing.results) {
            (Some(text), _) => text,
            (None, 0) => "Hello from the mock model.".to_owned(),
            (None, results) => format!("Mock reply after {results} tool result(s)."),
        };
        writing.say(&answer);
        writing.finish("stop");
        Ok(())
    })
}

async fn shell(command: &str) -> std::io::Result<String> {
    let output = Command::new("sh").arg("-c").arg(command).kill_on_drop(true).output().await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

impl<'a> Writing<'a> {
    fn begin(world: &'a Arc<World>, session: &'a str, parent: &'a str) -> Self {
        let mut writing = Self { world, session, parent, info: Value::Null, results: 0 };
        writing.next();
        writing
    }

    /// Begins the next message: there is one for each request to the model.
    fn next(&mut self) {
        self.info = json!({ "id": self.world.id("msg"), "parentID": self.parent, "role": "assistant", "mode": "build",
            "agent": "build", "cost": 0, "modelID": "sim-model", "providerID": "sim",
            "time": { "created": now() }, "sessionID": self.session });
        self.world.put_message(self.session, &self.info);
    }

    fn part(&self, more: Value) -> Value {
        let mut part = json!({ "id": self.world.id("prt"), "messageID": self.info["id"], "sessionID": self.session });
        part.as_object_mut().into_iter().for_each(|part| part.extend(more.as_object().cloned().unwrap_or_default()));
        part
    }

    fn say(&self, text: &str) {
        let mut part = self.part(json!({ "type": "text", "text": "", "time": { "start": now() } }));
        self.world.put_part(self.session, &part);
        part["text"] = json!(text);
        part["time"]["end"] = json!(now());
        self.world.put_part(self.session, &part);
    }

    async fn talk(&self, seconds: f64) {
        let mut part = self.part(json!({ "type": "text", "text": "", "time": { "start": now() } }));
        for tick in 0..(seconds * 2.0) as u32 {
            let text = format!("{}tick {tick}. ", part["text"].as_str().unwrap_or_default());
            part["text"] = json!(text);
            self.world.put_part(self.session, &part);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        part["time"]["end"] = json!(now());
        self.world.put_part(self.session, &part);
    }

    /// Tells what the request has used.
    fn finish(&mut self, reason: &str) {
        let [input, output, read, write] = TOKENS;
        let tokens = json!({ "total": TOKENS.iter().sum::<u64>(), "input": input, "output": output, "reasoning": 0,
            "cache": { "read": read, "write": write } });
        let part = self.part(json!({ "type": "step-finish", "reason": reason, "tokens": tokens, "cost": COST }));
        self.world.put_part(self.session, &part);
        self.info["cost"] = json!(COST);
        self.info["tokens"] = tokens;
    }

    fn complete(&mut self) {
        self.info["time"]["completed"] = json!(now());
        self.world.put_message(self.session, &self.info);
    }

    async fn fail(&self, status: u16, times: Option<u32>) -> Result<(), Stop> {
        let retries = matches!(status, 429 | 500..);
        loop {
            let before = self.world.count_failure(self.parent);
            if times.is_some_and(|times| before >= times) {
                return Ok(());
            }
            if !retries {
                return Err(Stop::Failed { status });
            }
            let next = now() + RETRY_AFTER.as_millis() as u64;
            let retry = json!({ "type": "retry", "attempt": before + 1, "message": format!("mock HTTP {status}"), "next": next });
            self.world.set_status(self.session, retry);
            tokio::time::sleep(RETRY_AFTER).await;
            self.world.set_status(self.session, json!({ "type": "busy" }));
        }
    }

    /// Uses a tool: with leave, if it needs that.
    async fn tool(
        &mut self,
        name: &str,
        input: Value,
        needs: Option<Value>,
        run: impl Future<Output = std::io::Result<String>>,
    ) -> Result<(), Stop> {
        let (mut part, started) = self.use_tool(name, &input);
        let mut refused = None;
        if let Some(mut about) = needs
            && !about["always"]
                .as_array()
                .is_some_and(|list| list.iter().filter_map(Value::as_str).any(|pattern| self.world.is_allowed(pattern)))
        {
            about["sessionID"] = json!(self.session);
            about["tool"] = json!({ "messageID": self.info["id"], "callID": part["callID"] });
            if let Ok(Verdict::Reject { message }) = self.world.ask("per", about).await {
                refused = Some(message);
            }
        }
        let time = |end| json!({ "start": started, "end": end });
        let outcome = match &refused {
            Some(Some(message)) => Err(format!(
                "The user rejected permission to use this specific tool call with the following feedback: {message}"
            )),
            Some(None) => Err("The user rejected permission to use this specific tool call.".to_owned()),
            None => run.await.map_err(|error| error.to_string()),
        };
        part["state"] = match outcome {
            Ok(output) => {
                json!({ "status": "completed", "input": input, "output": output, "title": name, "metadata": {},
                "time": time(now()) })
            }
            Err(error) => json!({ "status": "error", "input": input, "error": error, "time": time(now()) }),
        };
        self.world.put_part(self.session, &part);
        self.tool_done(refused == Some(None))
    }

    fn use_tool(&self, name: &str, input: &Value) -> (Value, u64) {
        self.say(&format!("I will call {name}."));
        let call = self.world.id("call");
        let mut part = self.part(json!({ "type": "tool", "tool": name, "callID": call,
            "state": { "status": "pending", "input": {}, "raw": "" } }));
        self.world.put_part(self.session, &part);
        let started = now();
        part["state"] = json!({ "status": "running", "input": input, "time": { "start": started } });
        self.world.put_part(self.session, &part);
        (part, started)
    }

    fn tool_done(&mut self, ends_turn: bool) -> Result<(), Stop> {
        self.results += 1;
        self.finish("tool-calls");
        if ends_turn {
            return Err(Stop::Refused);
        }
        self.complete();
        self.world.set_status(self.session, json!({ "type": "busy" }));
        self.next();
        Ok(())
    }

    async fn ask(&mut self, questions: &[Question]) -> Result<(), Stop> {
        let spelled: Vec<_> = questions
            .iter()
            .map(|question| {
                json!({ "question": question.question, "header": question.header, "options": question.options,
                    "multiple": question.multi_select })
            })
            .collect();
        let input = json!({ "questions": spelled });
        let (mut part, started) = self.use_tool("question", &input);
        let about = json!({ "sessionID": self.session, "questions": spelled,
            "tool": { "messageID": self.info["id"], "callID": part["callID"] } });
        let verdict = self.world.ask("que", about).await;
        let time = json!({ "start": started, "end": now() });
        let answers = match &verdict {
            Ok(Verdict::Answers(answers)) => Some(answers.clone()),
            _ => None,
        };
        part["state"] = match &answers {
            Some(answers) => json!({ "status": "completed", "input": input, "title": "Asked", "time": time,
                "output": format!("User has answered your questions: {answers}"), "metadata": { "answers": answers } }),
            None => {
                json!({ "status": "error", "input": input, "error": "The user dismissed this question", "time": time })
            }
        };
        self.world.put_part(self.session, &part);
        self.tool_done(answers.is_none())
    }

    async fn sub_agent(&mut self, prompt: &str) -> Result<(), Stop> {
        let child = self.world.create(None, Some(self.session));
        let child = child["id"].as_str().unwrap_or_default().to_owned();
        let (mut part, started) = self.use_tool("task", &json!({ "description": "Delegated work", "prompt": prompt }));
        let message = self.world.id("msg");
        let info = json!({ "id": message, "role": "user", "sessionID": child, "time": { "created": now() } });
        self.world.put_message(&child, &info);
        let text = json!({ "id": self.world.id("prt"), "type": "text", "text": prompt, "messageID": message, "sessionID": child });
        self.world.put_part(&child, &text);
        self.world.set_status(&child, json!({ "type": "busy" }));
        let mut writing = Writing::begin(self.world, &child, &message);
        let outcome = perform(&mut writing, prompt).await;
        writing.complete();
        self.world.set_status(&child, json!({ "type": "idle" }));
        let time = json!({ "start": started, "end": now() });
        part["state"] = json!({ "status": "completed", "input": {}, "output": "done", "metadata": {}, "time": time });
        self.world.put_part(self.session, &part);
        outcome.and_then(|()| self.tool_done(false))
    }
}
