//! What tools really do to files and processes.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::json;

use crate::claude::permission::target;
use crate::claude::tool::{Tool, ToolCall, ToolOutcome};

/// Runs a file tool; `None` for what is not one.
pub(crate) fn run_file_tool(call: &ToolCall, cwd: &Path) -> Option<ToolOutcome> {
    let path = target(call, cwd);
    match call.tool {
        Tool::Read => Some(read(&path)),
        Tool::Write => Some(write(&path, call.field("content"))),
        Tool::Edit => Some(edit(&path, call.field("old_string"), call.field("new_string"))),
        Tool::Bash | Tool::AskUserQuestion | Tool::ExitPlanMode | Tool::Agent => None,
    }
}

/// What a shell command came to.
pub(crate) fn shell_outcome(output: std::io::Result<Output>) -> ToolOutcome {
    let output = match output {
        Ok(output) => output,
        Err(error) => return ToolOutcome::failed(error.to_string()),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let both: Vec<&str> = [stdout.as_str(), stderr.as_str()].into_iter().filter(|text| !text.is_empty()).collect();
    let both = both.join("\n");
    if !output.status.success() {
        let code = output.status.code().map_or_else(|| "killed".to_owned(), |code| code.to_string());
        return ToolOutcome::failed(format!("Exit code {code}\n{both}").trim_end());
    }
    let content = if both.is_empty() { "(Bash completed with no output)".to_owned() } else { both };
    let detail = json!({ "stdout": stdout, "stderr": stderr, "interrupted": false, "isImage": false,
        "noOutputExpected": stdout.is_empty() });
    ToolOutcome::done(content, detail)
}

fn read(path: &Path) -> ToolOutcome {
    match fs::read_to_string(path) {
        Ok(content) => {
            let lines = content.lines().count();
            let file = json!({ "filePath": path, "content": content, "numLines": lines, "startLine": 1,
                "totalLines": lines });
            let numbered: Vec<String> =
                content.lines().enumerate().map(|(index, line)| format!("{}\t{line}", index + 1)).collect();
            ToolOutcome::done(numbered.join("\n"), json!({ "type": "text", "file": file }))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => ToolOutcome::failed("File does not exist."),
        Err(error) => ToolOutcome::failed(error.to_string()),
    }
}

fn write(path: &Path, content: &str) -> ToolOutcome {
    let old = fs::read_to_string(path).ok();
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, content));
    if let Err(error) = written {
        return ToolOutcome::failed(error.to_string());
    }
    let (kind, said) = match &old {
        None => ("create", format!("File created successfully at: {}", path.display())),
        Some(_) => ("update", format!("The file {} has been updated successfully.", path.display())),
    };
    let detail = json!({ "type": kind, "filePath": path, "content": content, "structuredPatch": [],
        "originalFile": old, "userModified": false });
    ToolOutcome::done(said, detail)
}

fn edit(path: &Path, old: &str, new: &str) -> ToolOutcome {
    let content = match fs::read_to_string(path) {
        Ok(content) => content,
        Err(_) => return ToolOutcome::failed("File does not exist."),
    };
    if old.is_empty() || !content.contains(old) {
        return ToolOutcome::failed(format!("String to replace not found in file.\nString: {old}"));
    }
    if let Err(error) = fs::write(path, content.replacen(old, new, 1)) {
        return ToolOutcome::failed(error.to_string());
    }
    let detail = json!({ "filePath": path, "oldString": old, "newString": new, "originalFile": content,
        "structuredPatch": [], "userModified": false, "replaceAll": false });
    ToolOutcome::done(format!("The file {} has been updated successfully.", path.display()), detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::ids::ToolUseId;
    use crate::claude::tool::Success;

    fn run(tool: Tool, input: serde_json::Value, cwd: &Path) -> ToolOutcome {
        run_file_tool(&ToolCall { id: ToolUseId("t".into()), tool, input }, cwd).unwrap()
    }

    #[test]
    fn files_are_written_read_and_edited() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path();
        let wrote = run(Tool::Write, json!({ "file_path": "d/a.txt", "content": "one\ntwo" }), cwd);
        assert_eq!(wrote.detail["type"], "create");
        let edited = run(Tool::Edit, json!({ "file_path": "d/a.txt", "old_string": "one", "new_string": "1" }), cwd);
        assert_eq!(edited.success, Success::Done);
        assert_eq!(run(Tool::Read, json!({ "file_path": "d/a.txt" }), cwd).content, "1\t1\n2\ttwo");
    }

    #[test]
    fn what_is_not_there_is_an_error_and_not_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let missing = run(Tool::Read, json!({ "file_path": "none" }), folder.path());
        assert_eq!((missing.success, missing.content.as_str()), (Success::Failed, "File does not exist."));
    }
}
