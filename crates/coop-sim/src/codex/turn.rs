//! A turn: what the prompt's directives say, one after another.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::hub::{Heard, Hub};
use super::thread::{Tokens, now_ms};
use super::wire::shell;
use crate::model::directive::{Act, Directive, Question, Times, parse};
use crate::model::script::{Script, Usage};

/// How often the real one tries again.
const RETRIES: u32 = 5;

/// Where a turn is played.
pub(crate) struct Stage {
    pub(crate) cwd: String,
    /// `plan` or `default`.
    pub(crate) mode: String,
    pub(crate) is_wary: bool,
    pub(crate) turn: String,
}

struct Player {
    hub: Hub,
    stage: Stage,
    usage: Usage,
    items: u32,
    results: u32,
}

/// Plays a turn to its end.
pub(crate) async fn play(hub: Hub, stage: Stage, text: String) {
    let directives = parse(&text);
    let told = directives.iter().find_map(|directive| match directive {
        Directive::Usage(usage) => Some(*usage),
        _ => None,
    });
    let mut player = Player { hub, stage, usage: told.unwrap_or_default(), items: 0, results: 0 };
    let user = player.new_item("userMessage", json!({ "content": [{ "type": "text", "text": text }] }));
    player.begin(&user);
    player.end(&user);
    player.write(json!({ "type": "message", "role": "user", "content": text }));
    let mut last = None;
    for directive in directives {
        match directive {
            Directive::Act(act) => {
                player.paid();
                player.act(act).await;
                player.results += 1;
            }
            Directive::Text(text) => last = Some(text),
            Directive::Slow(time) => player.talk(time).await,
            Directive::Hang => std::future::pending::<()>().await,
            Directive::Fail(fault, times) => {
                let tries = match times {
                    Times::Always => RETRIES,
                    Times::Only(times) => times.min(RETRIES),
                };
                for attempt in 1..=tries {
                    let error = error(&format!("Reconnecting... {attempt}/{RETRIES}"), fault.status);
                    player.happened("error", json!({ "error": error, "willRetry": true }));
                }
                if times == Times::Always {
                    let error = error(&format!("unexpected status {}: mock error", fault.status), fault.status);
                    player.happened("error", json!({ "error": error, "willRetry": false }));
                    return player.hub.hear(Heard::Ended("failed", error));
                }
            }
            Directive::Cut(_) | Directive::Usage(_) | Directive::Bad(_) => {}
        }
    }
    let hello = match player.results {
        0 => Script::default().text,
        results => format!("Mock reply after {results} tool result(s)."),
    };
    player.say(&last.unwrap_or(hello));
    player.paid();
    player.hub.hear(Heard::Ended("completed", Value::Null));
}

fn error(message: &str, status: u16) -> Value {
    let info = json!({ "responseTooManyFailedAttempts": { "httpStatusCode": status } });
    json!({ "message": message, "codexErrorInfo": info, "additionalDetails": null })
}

impl Player {
    fn happened(&self, method: &'static str, params: Value) {
        self.hub.hear(Heard::Happened(method, params));
    }

    fn write(&self, payload: Value) {
        self.hub.hear(Heard::Written("response_item", payload));
    }

    fn new_item(&mut self, kind: &str, mut fields: Value) -> Value {
        self.items += 1;
        fields["type"] = json!(kind);
        fields["id"] = json!(format!("{}-{}", self.stage.turn, self.items));
        fields["startedAtMs"] = json!(now_ms());
        fields
    }

    fn begin(&self, item: &Value) {
        self.happened("item/started", json!({ "item": item }));
    }

    fn end(&self, item: &Value) {
        let mut item = item.clone();
        item["completedAtMs"] = json!(now_ms());
        self.happened("item/completed", json!({ "item": item }));
    }

    fn say(&mut self, text: &str) {
        let mut item = self.new_item("agentMessage", json!({ "text": "" }));
        self.begin(&item);
        item["text"] = json!(text);
        self.end(&item);
        self.write(json!({ "type": "message", "role": "assistant", "content": text }));
    }

    /// Tells what a request to the model cost.
    fn paid(&self) {
        let usage = self.usage;
        let tokens = Tokens { input: usage.whole_input(), cached: usage.cache_read, output: usage.output };
        self.hub.hear(Heard::Used(tokens));
    }

    async fn talk(&mut self, time: Duration) {
        let item = self.new_item("agentMessage", json!({ "text": "" }));
        self.begin(&item);
        tokio::time::sleep(time).await;
        self.end(&item);
    }

    async fn ask(&self, method: &'static str, params: Value) -> Value {
        let (tell, told) = oneshot::channel();
        self.hub.hear(Heard::Asks(method, params, tell));
        told.await.unwrap_or(Value::Null)
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::Shell(command) => self.run(&command, None).await,
            Act::Tool(name, input) if name == "exec_command" => {
                let command = input["cmd"].as_str().unwrap_or_default().to_owned();
                let escalated = self.stage.is_wary || input["sandbox_permissions"] == "require_escalated";
                let reason = input["justification"].as_str().unwrap_or_default().to_owned();
                self.run(&command, escalated.then_some(reason)).await;
            }
            Act::Write(file) => self.change(&file.path, &file.content).await,
            Act::Ask(questions) => self.question(questions).await,
            Act::Read(_) | Act::Edit(_) | Act::Plan(_) | Act::Agent(_) | Act::Tool(..) => {
                self.say("This is not simulated.");
            }
        }
    }

    async fn run(&mut self, command: &str, reason: Option<String>) {
        let fields = json!({
            "command": format!("/bin/bash -lc '{command}'"), "cwd": self.stage.cwd, "status": "inProgress",
            "commandActions": [{ "type": "unknown", "command": command }], "aggregatedOutput": null,
            "exitCode": null, "durationMs": null,
        });
        let mut item = self.new_item("commandExecution", fields);
        self.begin(&item);
        if let Some(reason) = reason {
            let rule: Vec<_> = command.split_whitespace().collect();
            let params = json!({
                "kind": "command", "itemId": item["id"], "startedAtMs": now_ms(), "reason": reason,
                "command": item["command"], "cwd": self.stage.cwd, "commandActions": item["commandActions"],
                "availableDecisions": ["accept",
                    { "acceptWithExecpolicyAmendment": { "execpolicy_amendment": rule } }, "cancel"],
            });
            let answer = self.ask("item/commandExecution/requestApproval", params).await;
            if !self.goes_on(&answer, &mut item).await {
                return;
            }
        }
        let began = now_ms();
        let (output, code) = shell(command, &self.stage.cwd).await;
        item["status"] = json!(if code == 0 { "completed" } else { "failed" });
        item["durationMs"] = json!(now_ms() - began);
        item["exitCode"] = json!(code);
        item["aggregatedOutput"] = json!(output);
        self.end(&item);
        self.write(json!({ "type": "function_call_output", "output": output }));
    }

    async fn change(&mut self, path: &str, content: &str) {
        let full = Path::new(&self.stage.cwd).join(path);
        let change = json!([{ "path": full, "kind": { "type": "add" }, "diff": content }]);
        let mut item = self.new_item("fileChange", json!({ "changes": change, "status": "inProgress" }));
        self.begin(&item);
        if !full.starts_with(&self.stage.cwd) || path.contains("..") {
            let params = json!({ "itemId": item["id"], "startedAtMs": now_ms(), "reason": null, "grantRoot": null });
            let answer = self.ask("item/fileChange/requestApproval", params).await;
            if !self.goes_on(&answer, &mut item).await {
                return;
            }
        }
        let written = std::fs::write(&full, content);
        item["status"] = json!(if written.is_ok() { "completed" } else { "failed" });
        self.end(&item);
    }

    /// Tells whether something that was asked for may be done. If the turn is to end, it does, and this never returns.
    async fn goes_on(&mut self, answer: &Value, item: &mut Value) -> bool {
        let decision = &answer["decision"];
        let allows = decision == "accept" || decision == "acceptForSession" || decision.is_object();
        if !allows {
            item["status"] = json!("declined");
            self.end(item);
            self.write(json!({ "type": "function_call_output", "output": "rejected by user" }));
            if decision != "decline" {
                self.hub.hear(Heard::Ended("interrupted", Value::Null));
                std::future::pending::<()>().await;
            }
        }
        allows
    }

    async fn question(&mut self, questions: &[Question]) {
        if self.stage.mode != "plan" {
            let output = "request_user_input is unavailable in Default mode";
            return self.write(json!({ "type": "function_call_output", "output": output }));
        }
        let shown = questions.iter().enumerate().map(|(at, question)| {
            let option = |(label, description): &(&str, &str)| json!({ "label": label, "description": description });
            json!({
                "id": format!("q{at}"), "header": question.header, "question": question.question, "isOther": true,
                "isSecret": false, "options": question.options.iter().map(option).collect::<Vec<_>>(),
            })
        });
        let params = json!({ "itemId": "ask", "questions": shown.collect::<Vec<_>>(), "isBlocking": true });
        let answer = self.ask("item/tool/requestUserInput", params).await;
        self.write(json!({ "type": "function_call_output", "output": answer.to_string() }));
    }
}
