//! The log of a conversation, as the real one writes it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::home::Home;
use crate::claude::ids::Ids;
use crate::model::script::Usage;

const CONTEXT: &str = "<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.";

pub(super) struct Log {
    pub(super) session: String,
    path: PathBuf,
    /// The log it names when it begins to resume; it does not go on with that one.
    stub: Option<PathBuf>,
    /// What the model is told: messages of the user and of the model.
    history: Vec<Value>,
    ids: Ids,
}

impl Log {
    /// Opens the log that the command line asks for, and tells whether it is an earlier one.
    pub(super) fn open(home: &Home, args: &[String]) -> anyhow::Result<(Self, bool)> {
        let mut ids = Ids::random();
        let value = |names: [&str; 2]| {
            args.iter().enumerate().find_map(|(at, arg)| match arg.split_once('=') {
                Some((name, value)) if names.contains(&name) => Some(value.to_owned()),
                _ if names.contains(&arg.as_str()) => args.get(at + 1).cloned(),
                _ => None,
            })
        };
        let resumed = value(["--resume", "-r"]);
        let chats = home.chats()?;
        let session = match &resumed {
            Some(id) => id.clone(),
            None => value(["--session-id", "--session-id"]).unwrap_or_else(|| ids.session().to_string()),
        };
        let short: String = session.chars().take(8).collect();
        let minute = timestamp().chars().take(16).collect::<String>().replace(':', "-");
        let new = chats.join(format!("session-{minute}-{short}.jsonl"));
        let (path, stub) = match resumed {
            None => (new, None),
            Some(id) => {
                let entries = fs::read_dir(&chats)?.flatten().map(|entry| entry.path());
                let is_it = |path: &PathBuf| path.to_string_lossy().ends_with(&format!("-{short}.jsonl"));
                let Some(path) = entries.filter(is_it).min() else { bail!("there is no session {id}") };
                (path, Some(new))
            }
        };
        let is_resumed = stub.is_some();
        Ok((Self { session, path, stub, history: Vec::new(), ids }, is_resumed))
    }

    /// Returns the path that hooks are told.
    pub(super) fn told_path(&self) -> String {
        self.stub.as_ref().unwrap_or(&self.path).display().to_string()
    }

    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        let now = timestamp();
        self.write(&json!({ "sessionId": self.session, "projectHash": "0", "startTime": now, "lastUpdated": now,
            "kind": "main" }))?;
        let context = json!({ "id": self.id(), "timestamp": now, "type": "user", "content": [{ "text": CONTEXT }] });
        self.history.push(context);
        self.patch()
    }

    /// Goes on with an earlier conversation.
    pub(super) fn resume(&mut self) -> anyhow::Result<()> {
        self.stub = None;
        let text = fs::read_to_string(&self.path).context("cannot read the earlier conversation")?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        self.history = lines.filter(|line| matches!(line["type"].as_str(), Some("user" | "gemini"))).collect();
        self.write(&json!({ "$set": { "sessionId": self.session } }))?;
        self.patch()
    }

    /// Writes down a message of the user; what it was sent back with shows the prompt of its turn.
    pub(super) fn user(&mut self, content: Value, shown: Option<&str>) -> anyhow::Result<()> {
        let mut line = self.line("user", content);
        if let Some(shown) = shown {
            line["displayContent"] = json!([{ "text": shown }]);
        }
        self.history.push(line.clone());
        self.write(&line)
    }

    /// Writes down what the model said, and returns the line.
    pub(super) fn model(&mut self, text: &str, usage: &Usage) -> anyhow::Result<Value> {
        let mut line = self.line("gemini", text.into());
        let input = usage.input + usage.cache_read + usage.cache_write;
        line["thoughts"] = json!([]);
        line["tokens"] = json!({ "input": input, "output": usage.output, "cached": usage.cache_read, "thoughts": 0,
            "tool": 0, "total": input + usage.output });
        line["model"] = "gemini-2.5-pro".into();
        self.history.push(line.clone());
        self.write(&line)?;
        Ok(line)
    }

    /// Writes a line once more, with the tool that was called.
    pub(super) fn called(&mut self, line: &Value, call: &Value) -> anyhow::Result<()> {
        let mut line = line.clone();
        line["toolCalls"] = json!([call]);
        self.write(&line)
    }

    /// Writes down something that is for people: `info`, `error` or `warning`.
    pub(super) fn note(&mut self, kind: &str, text: &str) -> anyhow::Result<()> {
        let line = self.line(kind, text.into());
        self.write(&line)
    }

    /// Writes the whole conversation once more, under new ids, as the real one does after a dialog was declined.
    pub(super) fn repeat(&mut self) -> anyhow::Result<()> {
        // What was declined is taken out, from the message that led to it on.
        let kept = self.history.iter().rposition(|line| line["type"] == "user").unwrap_or(0);
        self.history.truncate(kept.max(1));
        for mut line in std::mem::take(&mut self.history) {
            line["id"] = self.id().into();
            line["timestamp"] = timestamp().into();
            if let Some(text) = line["content"].as_str() {
                line["content"] = json!([{ "text": text }]);
                line["tokens"] = Value::Null;
            }
            self.write(&line)?;
            self.history.push(line);
        }
        self.patch()
    }

    fn patch(&mut self) -> anyhow::Result<()> {
        self.write(&json!({ "$set": { "messages": self.history, "lastUpdated": timestamp() } }))
    }

    fn line(&mut self, kind: &str, content: Value) -> Value {
        json!({ "id": self.id(), "timestamp": timestamp(), "type": kind, "content": content })
    }

    fn id(&mut self) -> String {
        self.ids.session().to_string()
    }

    fn write(&self, line: &Value) -> anyhow::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).context("cannot open the log")?;
        file.write_all(format!("{line}\n").as_bytes()).context("cannot write the log")
    }
}

pub(super) fn timestamp() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}
