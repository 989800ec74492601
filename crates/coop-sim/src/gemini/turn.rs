//! A turn: from a message to the prompt again.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Worker;
use super::keys::Key;
use super::tool::Used;
use crate::model::directive::{Directive, Times, parse};
use crate::model::script::Usage;

/// What is told of every request, unless the prompt says otherwise.
const USAGE: Usage = Usage { input: 1200, output: 42, cache_read: 5000, cache_write: 300 };
/// How often it says a word while it talks slowly.
const TICK: Duration = Duration::from_millis(250);
/// How long it waits before it tries again.
const RETRY: Duration = Duration::from_millis(50);
/// What a hook is told of a turn without an answer.
const NO_ANSWER: &str = "[no response text]";

/// How what the model does ended.
enum Ended {
    Answered(String),
    /// A dialog was declined.
    Declined,
    /// It was interrupted, after it had said this.
    Interrupted(String),
    Failed(u16),
}

impl Worker {
    pub(super) fn turn(&mut self, prompt: &str) -> anyhow::Result<()> {
        self.screen.title("✦  Working…");
        self.screen.say(&format!(" > {}", prompt.lines().next().unwrap_or_default()));
        self.screen.draw();
        self.hook("BeforeAgent", &json!({ "prompt": prompt }));
        self.log.user(json!([{ "text": prompt }]), None)?;
        let mut told = prompt.to_owned();
        let mut again = false;
        loop {
            let answer = match self.follow(&told)? {
                Ended::Answered(text) => text,
                Ended::Declined => {
                    self.cancelled()?;
                    self.log.repeat()?;
                    break;
                }
                Ended::Interrupted(said) => {
                    self.cancelled()?;
                    said
                }
                Ended::Failed(status) => {
                    let error = json!({ "error": { "code": status, "message": format!("mock HTTP {status}") } });
                    self.log.note("error", &format!("[API Error: {error}]"))?;
                    self.screen.say(&format!("✕ [API Error: {error}]"));
                    NO_ANSWER.to_owned()
                }
            };
            let payload = json!({ "prompt": prompt, "prompt_response": answer, "stop_hook_active": again });
            let said = self.hook("AfterAgent", &payload);
            if !matches!(said["decision"].as_str(), Some("block" | "deny")) {
                break;
            }
            told = said["reason"].as_str().unwrap_or_default().to_owned();
            self.log.note("warning", &format!("Agent execution blocked: {told}"))?;
            self.hook("BeforeAgent", &json!({ "prompt": told }));
            self.log.user(json!([{ "text": told }]), Some(prompt))?;
            again = true;
        }
        self.screen.title("◇  Ready");
        Ok(())
    }

    fn cancelled(&mut self) -> anyhow::Result<()> {
        self.screen.say("ℹ Request cancelled.");
        self.log.note("info", "Request cancelled.")
    }

    /// Does what the prompt says.
    fn follow(&mut self, prompt: &str) -> anyhow::Result<Ended> {
        let directives = parse(prompt);
        let mut usage = USAGE;
        let mut answer = None;
        let mut results = 0;
        for directive in &directives {
            if let Directive::Usage(told) = directive {
                usage = *told;
            }
        }
        for directive in directives {
            match directive {
                Directive::Act(act) => match self.use_tool(&act, &usage)? {
                    Used::Done => results += 1,
                    Used::Cancelled => return Ok(Ended::Declined),
                },
                Directive::Text(text) => answer = Some(text),
                Directive::Slow(time) => {
                    if let Some(said) = self.talk(Some(time)) {
                        return Ok(Ended::Interrupted(said));
                    }
                }
                Directive::Hang => {
                    if let Some(said) = self.talk(None) {
                        return Ok(Ended::Interrupted(said));
                    }
                }
                Directive::Fail(fault, Times::Always) => return Ok(Ended::Failed(fault.status)),
                Directive::Fail(_, Times::Only(times)) | Directive::Cut(Times::Only(times)) => {
                    std::thread::sleep(RETRY * times);
                }
                Directive::Cut(Times::Always) => return Ok(Ended::Failed(500)),
                Directive::Usage(_) | Directive::Bad(_) => {}
            }
        }
        let answer = answer.unwrap_or_else(|| match results {
            0 => "Hello from the mock model.".to_owned(),
            results => format!("Mock reply after {results} tool result(s)."),
        });
        self.log.model(&answer, &usage)?;
        self.screen.say(&format!("✦ {answer}"));
        Ok(Ended::Answered(answer))
    }

    /// Talks for a while, or without an end. Returns what was said if it is interrupted.
    fn talk(&mut self, time: Option<Duration>) -> Option<String> {
        let until = time.map(|time| Instant::now() + time);
        let mut said = String::new();
        while until.is_none_or(|until| Instant::now() < until) {
            if self.key(Some(TICK)) == Some(Key::Escape) {
                return Some(said);
            }
            said.push_str("tick. ");
            self.screen.draw();
        }
        None
    }
}
