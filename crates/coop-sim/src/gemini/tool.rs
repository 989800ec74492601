//! Its tools: what they ask before they do anything, what they do, and what is written down of it.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::Worker;
use crate::model::directive::{Act, Answers, Question};
use crate::model::script::Usage;

/// How the use of a tool ended.
pub(super) enum Used {
    Done,
    /// Somebody declined, and the request with it.
    Cancelled,
}

impl Worker {
    pub(super) fn use_tool(&mut self, act: &Act, usage: &Usage) -> anyhow::Result<Used> {
        let (name, input) = call(act);
        let said = format!("I will call {name}.");
        let line = self.log.model(&said, usage)?;
        self.screen.say(&format!("✦ {said}"));
        self.screen.draw();
        self.calls += 1;
        let id = format!("{name}__fc_{}", self.calls);
        let told = json!({ "tool_name": name, "tool_input": input });
        let before = self.hook("BeforeTool", &told);
        let outcome = if matches!(before["decision"].as_str(), Some("deny" | "block")) {
            Err(format!("Tool execution blocked: {}", before["reason"].as_str().unwrap_or_default()))
        } else {
            match self.confirm(act, name) {
                Some(answers) => self.execute(act, &answers),
                None => {
                    self.log.called(&line, &json!({ "id": id, "name": name, "args": input, "status": "cancelled" }))?;
                    self.screen.say(&format!("-  {name}"));
                    return Ok(Used::Cancelled);
                }
            }
        };
        self.screen.title("✦  Working…");
        let (status, response) = match &outcome {
            Ok(output) => ("success", json!({ "output": output })),
            Err(error) => ("error", json!({ "error": error })),
        };
        if let Ok(output) = &outcome {
            let mut told = told;
            told["tool_response"] = json!({ "llmContent": output, "returnDisplay": output });
            self.hook("AfterTool", &told);
        }
        let result = json!([{ "functionResponse": { "id": id, "name": name, "response": response } }]);
        let call = json!({ "id": id, "name": name, "args": input, "status": status, "result": result });
        self.log.called(&line, &call)?;
        self.log.user(result, None)?;
        self.screen.say(&format!("✓  {name}"));
        self.screen.draw();
        Ok(Used::Done)
    }

    /// Asks for leave, or for answers. Nothing if that is declined.
    fn confirm(&mut self, act: &Act, name: &str) -> Option<Vec<String>> {
        let (details, question, shown) = match act {
            Act::Shell(command) if !self.allowed => {
                let details = json!({ "type": "exec", "title": "Confirm Shell Command", "command": command });
                (details, "Allow execution of [Shell]?", command.clone())
            }
            Act::Write(file) => (edit(&file.path, &self.home.cwd), "Apply this change?", file.path.clone()),
            Act::Edit(file) => (edit(&file.path, &self.home.cwd), "Apply this change?", file.path.clone()),
            Act::Ask(_) => (json!({ "type": "ask_user", "title": "Ask User" }), "", String::new()),
            Act::Plan(_) | Act::Shell(_) | Act::Read(_) | Act::Agent(_) | Act::Tool(..) => return Some(Vec::new()),
        };
        let told = json!({ "notification_type": "ToolPermission", "message": "Tool requires confirmation",
            "details": details });
        self.hook("Notification", &told);
        self.screen.title("✋  Action Required");
        if let Act::Ask(questions) = act {
            return self.questions(questions);
        }
        let mut heading: Vec<_> = format!("? {name}  {shown}").lines().map(str::to_owned).collect();
        heading.extend(self.screen.boxed(&shown));
        heading.extend([question.to_owned(), String::new()]);
        let mut options = vec!["Allow once".to_owned(), "Allow for this session".to_owned()];
        if details["type"] == "edit" {
            options.push("Modify with external editor".to_owned());
        }
        options.push("No, suggest changes (esc)".to_owned());
        let chosen = self.choose(&heading, &options)?;
        self.allowed |= chosen == 1;
        (chosen < 2).then(Vec::new)
    }

    fn execute(&mut self, act: &Act, answers: &[String]) -> Result<String, String> {
        self.screen.title("✦  Working…");
        let at = |path: &str| self.home.cwd.join(path);
        let told = |error: std::io::Error| error.to_string();
        match act {
            Act::Shell(command) => {
                let mut shell = Command::new("bash");
                shell.args(["-c", command]).current_dir(&self.home.cwd).stdin(Stdio::null());
                let output = shell.output().map_err(told)?;
                let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                Ok(format!("Output: {}", if text.is_empty() { "(empty)" } else { &text }))
            }
            Act::Write(file) => {
                fs::write(at(&file.path), &file.content).map_err(told)?;
                Ok(format!("Successfully created and wrote to new file: {}", at(&file.path).display()))
            }
            Act::Edit(edit) => {
                let text = fs::read_to_string(at(&edit.path)).map_err(told)?;
                fs::write(at(&edit.path), text.replacen(&edit.old, &edit.new, 1)).map_err(told)?;
                Ok(format!("Successfully modified file: {}", at(&edit.path).display()))
            }
            Act::Read(path) => fs::read_to_string(at(path)).map_err(told),
            Act::Ask(_) => {
                let numbered = answers.iter().enumerate().map(|(at, answer)| (at.to_string(), json!(answer)));
                Ok(json!({ "answers": numbered.collect::<serde_json::Map<_, _>>() }).to_string())
            }
            Act::Plan(_) | Act::Agent(_) | Act::Tool(..) => Err("this is not simulated".to_owned()),
        }
    }
}

/// Returns the tool for an act, and what it is called with.
fn call(act: &Act) -> (&str, Value) {
    match act {
        Act::Shell(command) => ("run_shell_command", json!({ "command": command, "description": "run a command" })),
        Act::Write(file) => ("write_file", json!({ "file_path": file.path, "content": file.content })),
        Act::Edit(edit) => {
            ("replace", json!({ "file_path": edit.path, "old_string": edit.old, "new_string": edit.new }))
        }
        Act::Read(path) => ("read_file", json!({ "file_path": path })),
        Act::Ask(questions) => ("ask_user", json!({ "questions": questions.iter().map(asked).collect::<Vec<_>>() })),
        Act::Plan(_) => ("exit_plan_mode", json!({ "plan_filename": "plan.md" })),
        Act::Agent(prompt) => ("invoke_agent", json!({ "prompt": prompt })),
        Act::Tool(name, input) => (name, input.clone()),
    }
}

fn asked(question: &Question) -> Value {
    let option = |(label, description): &(&str, &str)| json!({ "label": label, "description": description });
    json!({
        "question": question.question,
        "header": question.header,
        "type": "choice",
        "multiSelect": question.answers == Answers::Many,
        "options": question.options.iter().map(option).collect::<Vec<_>>(),
    })
}

fn edit(path: &str, cwd: &std::path::Path) -> Value {
    let name = path.rsplit('/').next().unwrap_or(path);
    json!({ "type": "edit", "title": format!("Confirm Write: {name}"), "fileName": name, "filePath": cwd.join(path) })
}
