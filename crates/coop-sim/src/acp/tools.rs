//! Tools: what they are called, who allows them, and what they do. Where the client offers to, it does it.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::agent::Agent;
use super::peer::Heard;
use super::turn::{Got, Halt, Want};
use crate::claude::step::Step;

/// A tool that is about to be used.
struct Call {
    id: String,
    kind: &'static str,
    title: String,
    input: Value,
    /// What the user may look at before.
    content: Vec<Value>,
}

impl Agent {
    /// Uses a tool, if that is allowed.
    pub(super) fn tool(&mut self, step: Step) -> Result<(), Halt> {
        let Some(session) = &mut self.session else { return Ok(()) };
        session.tools += 1;
        let number = session.tools;
        let id = format!("call-{number}");
        let cwd = session.cwd.clone();
        let path = |path: &str| cwd.join(path).to_string_lossy().into_owned();
        let diff =
            |path: &str, old: &str, new: &str| json!({ "type": "diff", "path": path, "oldText": old, "newText": new });
        let call = match &step {
            Step::Bash(command) => {
                let input = json!({ "command": command });
                Call { id, kind: "execute", title: command.clone(), input, content: Vec::new() }
            }
            Step::Write { path: file, content } => {
                let file = path(file);
                let input = json!({ "path": file, "content": content });
                let content = vec![diff(&file, "", content)];
                Call { id, kind: "edit", title: format!("Writing to {file}"), input, content }
            }
            Step::Edit { path: file, old, new } => {
                let file = path(file);
                let input = json!({ "path": file, "old": old, "new": new });
                let content = vec![diff(&file, old, new)];
                Call { id, kind: "edit", title: format!("Editing {file}"), input, content }
            }
            Step::Read(file) => {
                let input = json!({ "path": path(file) });
                Call { id, kind: "read", title: file.clone(), input, content: Vec::new() }
            }
            Step::Plan(plan) => {
                let items = plan.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
                let entry = |line: &str| json!({ "content": line, "priority": "medium", "status": "pending" });
                self.update(json!({ "sessionUpdate": "plan", "entries": items.map(entry).collect::<Vec<_>>() }));
                let input = json!({ "plan": plan });
                Call { id, kind: "switch_mode", title: "Ready to begin?".into(), input, content: Vec::new() }
            }
            _ => return Ok(()),
        };
        self.update(json!({ "sessionUpdate": "tool_call", "toolCallId": call.id, "title": call.title,
            "kind": call.kind, "status": "pending", "rawInput": call.input }));
        if !self.allowed(&call)? {
            self.finished(&call, Err("It was not allowed.".into()));
            return Ok(());
        }
        self.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": "in_progress" }));
        let outcome = match step {
            Step::Bash(command) if self.offered.terminals => self.run_at_client(&command)?,
            Step::Bash(command) => self.run_here(number, &command, &cwd)?,
            Step::Write { content, .. } => self.write(&call, &content)?,
            Step::Read(_) => self.read(&call)?,
            Step::Edit { old, new, .. } => match self.read(&call)? {
                Ok(text) if text.contains(&old) => self.write(&call, &text.replacen(&old, &new, 1))?,
                Ok(_) => Err("the text to replace is not there".into()),
                Err(error) => Err(error),
            },
            _ => Ok("Go on.".into()),
        };
        self.finished(&call, outcome);
        Ok(())
    }

    fn finished(&self, call: &Call, outcome: Result<String, String>) {
        let (status, text) = match outcome {
            Ok(text) => ("completed", text),
            Err(text) => ("failed", text),
        };
        let mut content = vec![json!({ "type": "content", "content": { "type": "text", "text": text } })];
        if status == "completed" {
            content.extend(call.content.iter().cloned());
        }
        self.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": status,
            "content": content, "rawOutput": { "output": text } }));
    }

    /// Asks the user, unless that is not needed. Reading is free.
    fn allowed(&mut self, call: &Call) -> Result<bool, Halt> {
        let Some(session) = &self.session else { return Ok(false) };
        let is_free = call.kind == "read" || session.mode == "yolo" || session.allowed.contains(&call.kind);
        if is_free {
            return Ok(true);
        }
        let options = json!([
            { "optionId": "once", "name": "Allow once", "kind": "allow_once" },
            { "optionId": "always", "name": "Always allow", "kind": "allow_always" },
            { "optionId": "reject", "name": "Reject", "kind": "reject_once" },
        ]);
        let tool = json!({ "toolCallId": call.id, "title": call.title, "kind": call.kind, "status": "pending",
            "rawInput": call.input, "content": call.content });
        let asked = json!({ "sessionId": session.id, "toolCall": tool, "options": options });
        let reply = self.call("session/request_permission", asked)?.unwrap_or_default();
        match (reply["outcome"]["outcome"].as_str(), reply["outcome"]["optionId"].as_str()) {
            (Some("selected"), Some("once")) => Ok(true),
            (Some("selected"), Some("always")) => {
                if let Some(session) = &mut self.session {
                    session.allowed.push(call.kind);
                }
                Ok(true)
            }
            (Some("cancelled"), _) => Err(Halt::Cancelled),
            _ => Ok(false),
        }
    }

    fn read(&mut self, call: &Call) -> Result<Result<String, String>, Halt> {
        let path = call.input["path"].as_str().unwrap_or_default().to_owned();
        if !self.offered.files {
            return Ok(fs::read_to_string(path).map_err(|error| error.to_string()));
        }
        let session = self.session.as_ref().map(|session| session.id.clone());
        let reply = self.call("fs/read_text_file", json!({ "sessionId": session, "path": path }))?;
        Ok(reply
            .map(|reply| reply["content"].as_str().unwrap_or_default().to_owned())
            .map_err(|error| error.to_string()))
    }

    fn write(&mut self, call: &Call, content: &str) -> Result<Result<String, String>, Halt> {
        let path = call.input["path"].as_str().unwrap_or_default().to_owned();
        let done = || format!("{path} was written.");
        if !self.offered.files {
            return Ok(fs::write(&path, content).map(|()| done()).map_err(|error| error.to_string()));
        }
        let session = self.session.as_ref().map(|session| session.id.clone());
        let params = json!({ "sessionId": session, "path": path, "content": content });
        let reply = self.call("fs/write_text_file", params)?;
        Ok(reply.map(|_| done()).map_err(|error| error.to_string()))
    }

    /// Runs a command in a terminal of the client's.
    fn run_at_client(&mut self, command: &str) -> Result<Result<String, String>, Halt> {
        let session = self.session.as_ref().map(|session| session.id.clone());
        let params = json!({ "sessionId": session, "command": "sh", "args": ["-c", command] });
        let created = match self.call("terminal/create", params)? {
            Ok(created) => created,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let terminal = json!({ "sessionId": session, "terminalId": created["terminalId"] });
        let ended = self.call("terminal/wait_for_exit", terminal.clone());
        if let Err(Halt::Cancelled) = ended {
            // What was begun is ended before the turn is.
            self.peer.ask("terminal/release", terminal);
            return Err(Halt::Cancelled);
        }
        let ended = ended?.unwrap_or_default();
        let output = self.call("terminal/output", terminal.clone())?.unwrap_or_default();
        let _ = self.call("terminal/release", terminal)?;
        let text = output["output"].as_str().unwrap_or_default().to_owned();
        Ok(if ended["exitCode"] == 0 { Ok(text) } else { Err(format!("{ended} {text}")) })
    }

    /// Runs a command itself, in a process group that goes with the turn.
    fn run_here(&mut self, number: u64, command: &str, cwd: &Path) -> Result<Result<String, String>, Halt> {
        let mut run = Command::new("sh");
        run.arg("-c").arg(command).current_dir(cwd).process_group(0);
        run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = match run.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let inform = self.peer.inform.clone();
        thread::spawn(move || inform.send(Heard::Ran(number, child.wait_with_output())));
        match self.wait(None, Want::Run(number)) {
            Ok(Got::Ran(Ok(output))) => {
                let text = [output.stdout, output.stderr].concat();
                let text = String::from_utf8_lossy(&text).into_owned();
                Ok(if output.status.success() { Ok(text) } else { Err(format!("{}\n{text}", output.status)) })
            }
            Ok(Got::Ran(Err(error))) => Ok(Err(error.to_string())),
            Ok(Got::Reply(_) | Got::TimeUp) => Ok(Err("it was not waited for".into())),
            Err(halt) => {
                group.map(|group| kill_process_group(group, Signal::KILL));
                Err(halt)
            }
        }
    }
}
