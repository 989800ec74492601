//! `-p`: a stream of JSON in both directions (recording A6), or one prompt and its printed answer.

mod lines;
mod parse;
#[cfg(test)]
mod tests;

pub(crate) use lines::{LineOptions, Lines};
use parse::{ControlRequest, Incoming, incoming};

use serde_json::{Value, json};

use super::args::Format;
use super::engine::{Bypass, Command, Millis, Quit, QuitReason};
use super::face::{Face, Touch};
use super::notice::{Notice, TurnEnd, TurnOutcome};
use super::permission::PermissionMode;

pub(crate) struct Stream {
    lines: Lines,
    source: Source,
    format: Format,
    bypass: Bypass,
    /// A line that has not ended yet.
    partial: Vec<u8>,
    out: Vec<u8>,
    last: Option<TurnEnd>,
}

/// Where prompts come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// `--input-format stream-json`, after a first prompt from the command line if there is one.
    Channel(Option<String>),
    /// The command line.
    Once(String),
    /// All of the standard input is the prompt.
    Stdin,
}

impl Stream {
    pub(crate) fn new(lines: Lines, source: Source, format: Format, bypass: Bypass) -> Self {
        Self { lines, source, format, bypass, partial: Vec::new(), out: Vec::new(), last: None }
    }

    fn write(&mut self, line: &Value) {
        self.out.extend_from_slice(line.to_string().as_bytes());
        self.out.push(b'\n');
    }

    fn read(&mut self, bytes: &[u8]) -> Vec<Command> {
        self.partial.extend_from_slice(bytes);
        if self.source == Source::Stdin {
            return Vec::new();
        }
        let mut commands = Vec::new();
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if !line.trim().is_empty() {
                commands.extend(self.read_line(line.trim()));
            }
        }
        commands
    }

    fn read_line(&mut self, line: &str) -> Vec<Command> {
        match incoming(line) {
            Some(Incoming::User(text)) => vec![Command::Submit(text)],
            Some(Incoming::Answer { request, decision }) => vec![Command::Decide { request, decision }],
            Some(Incoming::Request { id, request }) => self.request(&id, request),
            Some(Incoming::Nothing) => Vec::new(),
            None => {
                let failure = self.lines.failure(&format!("Error parsing streaming input line: {line}"));
                self.write(&failure);
                vec![Command::Quit(Quit { code: 1, reason: QuitReason::Other })]
            }
        }
    }

    fn request(&mut self, id: &str, request: ControlRequest) -> Vec<Command> {
        match request {
            ControlRequest::Initialize => self.succeed(id, Some(self.about())),
            ControlRequest::Interrupt => {
                self.succeed(id, None);
                return vec![Command::Interrupt];
            }
            ControlRequest::SetPermissionMode(name) => match PermissionMode::parse(&name) {
                Some(PermissionMode::BypassPermissions) if self.bypass == Bypass::Refused => {
                    self.fail(id, "Cannot set permission mode to bypassPermissions because the session was not launched with --dangerously-skip-permissions");
                }
                mode => {
                    // As seen: the real one calls also a mode that it does not have a success, and nothing changes.
                    self.succeed(id, Some(json!({ "mode": name })));
                    return mode.map(Command::SetMode).into_iter().collect();
                }
            },
            ControlRequest::SetModel(model) => {
                let echo = self.lines.local_output(&format!("Set model to {model}"));
                self.write(&echo);
                self.succeed(id, None);
                return vec![Command::SetModel(model)];
            }
            ControlRequest::EndSession => {
                self.succeed(id, None);
                // As recorded: the real one calls this an error.
                return vec![Command::Quit(Quit { code: 1, reason: QuitReason::Other })];
            }
            ControlRequest::McpStatus => {
                let server = |name: &String| json!({ "name": name, "status": "pending" });
                let servers: Vec<Value> = self.lines.mcp_servers.iter().map(server).collect();
                self.succeed(id, Some(json!({ "mcpServers": servers })));
            }
            ControlRequest::ContextUsage => {
                let usage = json!({ "categories": [], "totalTokens": 6500, "maxTokens": 200_000, "percentage": 3 });
                self.succeed(id, Some(usage));
            }
            ControlRequest::SetMaxThinkingTokens => self.succeed(id, None),
            ControlRequest::Unknown(subtype) => {
                self.fail(id, &format!("Unsupported control request subtype: {subtype}"));
            }
        }
        Vec::new()
    }

    fn about(&self) -> Value {
        json!({
            "commands": [{ "name": "compact", "description": "Compact the conversation", "argumentHint": "" }],
            "agents": [{ "name": "general-purpose", "description": "The scripted agent's helper" }],
            "output_style": "default", "available_output_styles": ["default"],
            "models": [{ "value": "default", "resolvedModel": self.lines.model, "displayName": "Default" }],
            "account": { "tokenSource": "none", "apiKeySource": "none" }, "pid": std::process::id(),
        })
    }

    fn succeed(&mut self, id: &str, response: Option<Value>) {
        let mut body = json!({ "subtype": "success", "request_id": id });
        if let Some(response) = response {
            body["response"] = response;
        }
        self.write(&json!({ "type": "control_response", "response": body }));
    }

    fn fail(&mut self, id: &str, error: &str) {
        let body = json!({ "subtype": "error", "request_id": id, "error": error });
        self.write(&json!({ "type": "control_response", "response": body }));
    }

    fn print_result(&mut self, end: &TurnEnd) {
        match self.format {
            Format::StreamJson => {}
            Format::Json => {
                let result = self.lines.result(end);
                self.write(&result);
            }
            Format::Text => {
                self.out.extend_from_slice(end.text.as_bytes());
                self.out.push(b'\n');
            }
        }
    }
}

impl Face for Stream {
    fn touch(&mut self, touch: Touch<'_>) -> Vec<Command> {
        match (touch, &self.source) {
            (Touch::Begin, Source::Channel(prompt)) => {
                std::iter::once(Command::Start).chain(prompt.clone().map(Command::Submit)).collect()
            }
            (Touch::Begin, Source::Once(prompt)) => {
                vec![Command::Start, Command::Submit(prompt.clone()), Command::Close]
            }
            (Touch::Begin, Source::Stdin) => vec![Command::Start],
            (Touch::Input(bytes), Source::Channel(_) | Source::Stdin) => self.read(bytes),
            (Touch::InputEnded, Source::Channel(_)) => {
                // A last line without its end counts.
                let mut commands = self.read(b"\n");
                commands.push(Command::Close);
                commands
            }
            (Touch::InputEnded, Source::Stdin) => {
                let prompt = String::from_utf8_lossy(&std::mem::take(&mut self.partial)).trim().to_owned();
                vec![Command::Submit(prompt), Command::Close]
            }
            (Touch::Input(_) | Touch::InputEnded, Source::Once(_)) | (Touch::Pause | Touch::Resized(_), _) => {
                Vec::new()
            }
        }
    }

    fn tell(&mut self, now: Millis, notice: &Notice) {
        let lines = self.lines.of(now, notice);
        if self.format == Format::StreamJson {
            lines.iter().for_each(|line| self.write(line));
        }
        if let Notice::TurnEnded(end) = notice {
            self.print_result(end);
            self.last = Some(end.clone());
        }
    }

    fn draw(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn is_waiting(&self) -> bool {
        false
    }

    fn leave(&mut self, code: i32) -> (Vec<u8>, i32) {
        let failed = self.last.as_ref().is_some_and(|end| end.outcome != TurnOutcome::Completed);
        let code = match self.source {
            Source::Channel(_) => code,
            Source::Once(_) | Source::Stdin => code.max(i32::from(failed)),
        };
        (self.draw(), code)
    }
}
