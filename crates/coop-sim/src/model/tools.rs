//! Which tool of which agent does what a directive asks for.
//!
//! The tables list Claude Code's tools first, then those of Codex, Gemini and OpenCode. The first that is on offer is
//! called.

use serde_json::{Value, json};

use super::asked::{Tool, ToolKind};
use super::directive::{Act, Answers, FileEdit, FileWrite, Question};
use super::reply::Call;

type Table<T> = &'static [(&'static str, fn(&T) -> Value)];

const SHELL: Table<str> = &[
    ("Bash", |command| json!({ "command": command, "description": "run a command" })),
    ("exec_command", |command| json!({ "cmd": command })),
    ("shell_command", |command| json!({ "command": command })),
    ("shell", |command| json!({ "command": ["bash", "-lc", command] })),
    ("local_shell", |command| json!({ "command": ["bash", "-lc", command] })),
    ("run_shell_command", |command| json!({ "command": command, "description": "run a command" })),
    ("bash", |command| json!({ "command": command, "description": "run a command" })),
];

const WRITE: Table<FileWrite> = &[
    ("Write", |file| json!({ "file_path": file.path, "content": file.content })),
    ("apply_patch", |file| json!({ "input": added(file) })),
    ("write_file", |file| json!({ "file_path": file.path, "content": file.content })),
    ("write", |file| json!({ "filePath": file.path, "content": file.content })),
];

const READ: Table<str> = &[
    ("Read", |path| json!({ "file_path": path })),
    ("exec_command", |path| json!({ "cmd": shown(path) })),
    ("shell_command", |path| json!({ "command": shown(path) })),
    ("shell", |path| json!({ "command": ["cat", path] })),
    ("local_shell", |path| json!({ "command": ["cat", path] })),
    ("read_file", |path| json!({ "file_path": path })),
    ("read", |path| json!({ "filePath": path })),
];

const EDIT: Table<FileEdit> = &[
    ("Edit", |edit| json!({ "file_path": edit.path, "old_string": edit.old, "new_string": edit.new })),
    ("apply_patch", |edit| json!({ "input": updated(edit) })),
    ("replace", |edit| {
        json!({
            "file_path": edit.path, "instruction": "edit a file", "old_string": edit.old, "new_string": edit.new,
        })
    }),
    ("edit", |edit| json!({ "filePath": edit.path, "oldString": edit.old, "newString": edit.new })),
];

const ASK: Table<[Question]> = &[
    ("AskUserQuestion", |questions| asked(questions, |_, many| json!({ "multiSelect": many }))),
    ("request_user_input", |questions| asked(questions, |number, _| json!({ "id": format!("q{number}") }))),
    ("ask_user", |questions| asked(questions, |_, many| json!({ "type": "choice", "multiSelect": many }))),
    ("question", |questions| asked(questions, |_, many| json!({ "multiple": many }))),
];

const PLAN: Table<str> = &[("ExitPlanMode", |plan| json!({ "plan": plan }))];

const AGENT: Table<str> = &[
    ("Agent", |prompt| delegated(prompt, "general-purpose")),
    ("Task", |prompt| delegated(prompt, "general-purpose")),
    ("task", |prompt| delegated(prompt, "general")),
];

/// What tells coop's own agent from others. Its tools have names that are also theirs, with other arguments.
const OWN: [&str; 3] = ["shell", "edit", "list"];

/// Returns the call that does an act, if a tool for it is on offer.
pub(crate) fn call(act: &Act, offered: &[Tool]) -> Option<Call> {
    if OWN.iter().all(|name| offered.iter().any(|tool| tool.name == *name))
        && let Some((name, input)) = own(act)
    {
        return Some(call_by_name(name, input, offered));
    }
    match act {
        Act::Shell(command) => pick(SHELL, command.as_str(), offered),
        Act::Write(file) => pick(WRITE, file, offered),
        Act::Read(path) => pick(READ, path.as_str(), offered),
        Act::Edit(edit) => pick(EDIT, edit, offered),
        Act::Ask(questions) => pick(ASK, *questions, offered),
        Act::Plan(plan) => pick(PLAN, *plan, offered),
        Act::Agent(prompt) => pick(AGENT, prompt.as_str(), offered),
        Act::Tool(name, input) => {
            let found = offered.iter().find(|tool| tool.is_called(name)).cloned();
            let Tool { name, kind } = found.or_else(|| searched(name, offered))?;
            Some(Call { name, kind, input: input.clone() })
        }
    }
}

/// Returns the call of Claude Code's tool that does an act, for one that it lists only once it was looked up.
pub(crate) fn unlisted(act: &Act) -> Option<Call> {
    let (name, input) = match act {
        Act::Plan(plan) => PLAN.first().map(|(name, input)| (*name, input(plan)))?,
        Act::Tool(name, input) => (name.as_str(), input.clone()),
        Act::Shell(_) | Act::Write(_) | Act::Read(_) | Act::Edit(_) | Act::Ask(_) | Act::Agent(_) => return None,
    };
    Some(Call { name: name.to_owned(), kind: ToolKind::Function, input })
}

/// Returns a tool of an MCP server that is not listed, where such tools can be searched for; as if it had been.
fn searched(name: &str, offered: &[Tool]) -> Option<Tool> {
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    let can_search = offered.iter().any(|tool| tool.name == "tool_search");
    can_search.then(|| Tool { name: tool.to_owned(), kind: ToolKind::Namespaced(format!("mcp__{server}")) })
}

/// Returns the tool of coop's own agent that does an act, and what to call it with.
fn own(act: &Act) -> Option<(&'static str, Value)> {
    Some(match act {
        Act::Shell(command) => ("shell", json!({ "command": command })),
        Act::Write(file) => ("write", json!({ "path": file.path, "content": file.content })),
        Act::Read(path) => ("read", json!({ "path": path })),
        Act::Edit(edit) => ("edit", json!({ "path": edit.path, "old": edit.old, "new": edit.new })),
        Act::Ask(_) | Act::Plan(_) | Act::Agent(_) | Act::Tool(..) => return None,
    })
}

/// Returns the call of a tool by its name, also of one that is not on offer.
pub(crate) fn call_by_name(name: &str, input: Value, offered: &[Tool]) -> Call {
    match offered.iter().find(|tool| tool.is_called(name)) {
        Some(tool) => Call { name: tool.name.clone(), kind: tool.kind.clone(), input },
        None => Call { name: name.to_owned(), kind: ToolKind::Function, input },
    }
}

/// Returns the name of a directive that asks for an act.
pub(crate) fn directive_name(act: &Act) -> &str {
    match act {
        Act::Shell(_) => "bash",
        Act::Write(_) => "write",
        Act::Read(_) => "read",
        Act::Edit(_) => "edit",
        Act::Ask(_) => "ask",
        Act::Plan(_) => "plan",
        Act::Agent(_) => "agent",
        Act::Tool(name, _) => name,
    }
}

fn pick<T: ?Sized>(table: Table<T>, what: &T, offered: &[Tool]) -> Option<Call> {
    table.iter().find_map(|(name, input)| {
        let tool = offered.iter().find(|tool| tool.name == *name)?;
        Some(Call { name: tool.name.clone(), kind: tool.kind.clone(), input: input(what) })
    })
}

fn asked(questions: &[Question], more: fn(usize, bool) -> Value) -> Value {
    let question = |(number, question): (usize, &Question)| {
        let options: Vec<Value> = question
            .options
            .iter()
            .map(|(label, description)| json!({ "label": label, "description": description }))
            .collect();
        let mut asked = json!({ "question": question.question, "header": question.header, "options": options });
        let more = more(number, question.answers == Answers::Many);
        if let (Some(asked), Value::Object(more)) = (asked.as_object_mut(), more) {
            asked.extend(more);
        }
        asked
    };
    json!({ "questions": questions.iter().enumerate().map(question).collect::<Vec<_>>() })
}

fn delegated(prompt: &str, kind: &str) -> Value {
    json!({ "description": "Delegated work", "prompt": prompt, "subagent_type": kind })
}

fn shown(path: &str) -> String {
    format!("cat '{}'", path.replace('\'', r"'\''"))
}

/// Codex's patch that adds a file.
fn added(file: &FileWrite) -> String {
    format!("*** Begin Patch\n*** Add File: {}\n{}*** End Patch\n", file.path, marked('+', &file.content))
}

/// Codex's patch that changes a file.
fn updated(edit: &FileEdit) -> String {
    let (old, new) = (marked('-', &edit.old), marked('+', &edit.new));
    format!("*** Begin Patch\n*** Update File: {}\n@@\n{old}{new}*** End Patch\n", edit.path)
}

fn marked(mark: char, text: &str) -> String {
    text.lines().map(|line| format!("{mark}{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::directive::{Directive, parse};

    fn called(directive: &str, offered: &[&str]) -> Option<String> {
        let offered: Vec<Tool> = offered.iter().map(|name| Tool::function(name)).collect();
        let [Directive::Act(act)] = &parse(directive)[..] else { panic!("{directive} asks for no tool") };
        call(act, &offered).map(|call| format!("{} {}", call.name, call.input))
    }

    #[test]
    fn every_agent_has_its_own_shell() {
        let shells = ["Bash", "exec_command", "shell", "run_shell_command", "bash"];
        let calls = shells.map(|shell| called("[[bash:ls]]", &["x", shell]).unwrap());
        insta::assert_snapshot!(calls.join("\n"), @r#"
        Bash {"command":"ls","description":"run a command"}
        exec_command {"cmd":"ls"}
        shell {"command":["bash","-lc","ls"]}
        run_shell_command {"command":"ls","description":"run a command"}
        bash {"command":"ls","description":"run a command"}
        "#);
    }

    #[test]
    fn files_are_written_and_changed_with_what_there_is() {
        let calls = [
            called("[[write:/f|a\nb]]", &["Write"]),
            called("[[write:/f|a\nb]]", &["exec_command", "apply_patch"]),
            called("[[edit:/f|a|b]]", &["apply_patch"]),
            called("[[edit:/f|a|b]]", &["replace"]),
            called("[[edit:/f|a|b]]", &["edit"]),
            called("[[read:/it's]]", &["exec_command"]),
            called("[[read:/f]]", &["read"]),
        ];
        insta::assert_snapshot!(calls.map(Option::unwrap).join("\n"), @r#"
        Write {"content":"a\nb","file_path":"/f"}
        apply_patch {"input":"*** Begin Patch\n*** Add File: /f\n+a\n+b\n*** End Patch\n"}
        apply_patch {"input":"*** Begin Patch\n*** Update File: /f\n@@\n-a\n+b\n*** End Patch\n"}
        replace {"file_path":"/f","instruction":"edit a file","new_string":"b","old_string":"a"}
        edit {"filePath":"/f","newString":"b","oldString":"a"}
        exec_command {"cmd":"cat '/it'\\''s'"}
        read {"filePath":"/f"}
        "#);
    }

    #[test]
    fn our_own_agent_is_known_by_its_tools() {
        let own = ["read", "list", "search", "write", "edit", "shell"];
        let calls =
            ["[[bash:ls]]", "[[write:f|a]]", "[[read:f]]", "[[edit:f|a|b]]"].map(|act| called(act, &own).unwrap());
        insta::assert_snapshot!(calls.join("\n"), @r#"
        shell {"command":"ls"}
        write {"content":"a","path":"f"}
        read {"path":"f"}
        edit {"new":"b","old":"a","path":"f"}
        "#);
    }

    #[test]
    fn questions_take_the_form_each_agent_wants() {
        let tools = ["AskUserQuestion", "request_user_input", "ask_user", "question"];
        let calls = tools.map(|tool| called("[[askmulti]]", &[tool]).unwrap());
        insta::assert_snapshot!(calls.join("\n"), @r#"
        AskUserQuestion {"questions":[{"header":"Features","multiSelect":true,"options":[{"description":"Sign in","label":"Login"},{"description":"Find things","label":"Search"},{"description":"Save to a file","label":"Export"}],"question":"Which features?"}]}
        request_user_input {"questions":[{"header":"Features","id":"q0","options":[{"description":"Sign in","label":"Login"},{"description":"Find things","label":"Search"},{"description":"Save to a file","label":"Export"}],"question":"Which features?"}]}
        ask_user {"questions":[{"header":"Features","multiSelect":true,"options":[{"description":"Sign in","label":"Login"},{"description":"Find things","label":"Search"},{"description":"Save to a file","label":"Export"}],"question":"Which features?","type":"choice"}]}
        question {"questions":[{"header":"Features","multiple":true,"options":[{"description":"Sign in","label":"Login"},{"description":"Find things","label":"Search"},{"description":"Save to a file","label":"Export"}],"question":"Which features?"}]}
        "#);
    }

    #[test]
    fn a_sub_agent_is_an_agent_before_it_is_a_task() {
        let agent = called("[[agent:look]]", &["Task", "Agent"]).unwrap();
        let input = r#"{"description":"Delegated work","prompt":"look","subagent_type":"general-purpose"}"#;
        assert_eq!(agent, format!("Agent {input}"));
        assert_eq!(called("[[agent:look]]", &["Task"]).unwrap(), format!("Task {input}"));
    }

    #[test]
    fn without_a_tool_there_is_no_call() {
        assert_eq!(called("[[plan]]", &["Bash", "Write"]), None);
        assert_eq!(called("[[tool Nope {}]]", &["Bash"]), None);
    }
}
