//! What people see of a run. All of it was written by a model or a tool, so nothing of it may move the cursor or hide.

use std::time::Duration;

use coop_llm::{Exit, Metrics, ToolUse};
use serde_json::Value;

/// How much of a text is shown where a glimpse is enough.
const GLIMPSE: usize = 160;
/// How many lines of a text are shown to somebody who has to decide.
const LINES: usize = 40;

/// Returns text without anything a terminal would obey, and without marks that turn the direction of writing around.
pub(super) fn clean(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|c| (!c.is_control() || matches!(c, '\n' | '\t')) && !turns(*c)).collect()
}

/// Returns one line of a text.
pub(super) fn glimpse(text: &str) -> String {
    let text = clean(text);
    let line = text.trim().lines().next().unwrap_or_default();
    let short: String = line.chars().take(GLIMPSE).collect();
    if short.len() < text.trim().len() { short + " …" } else { short }
}

/// Returns a call of a tool in a line.
pub(super) fn call(call: &ToolUse) -> String {
    let input: Value = call.input.parse().unwrap_or_default();
    let about = ["command", "path", "pattern"].iter().find_map(|name| input[name].as_str());
    let about = about.map_or_else(|| glimpse(call.input.as_str()), glimpse);
    format!("{} {about}", clean(&call.name)).trim_end().to_owned()
}

/// Returns all that somebody has to know who decides about a call. A command is shown whole: what is left out of it could
/// be what matters.
pub(super) fn question(call: &ToolUse) -> String {
    let input: Value = call.input.parse().unwrap_or_default();
    let text = |name: &str| input[name].as_str().map(clean);
    // On a line of its own, a path could pass for more of the question.
    let path = text("path").map(|path| path.replace(['\n', '\t'], "␤"));
    match (call.name.as_str(), text("command"), path) {
        ("shell", Some(command), _) => format!("run this command:\n{}", indented(&command, "    ", usize::MAX)),
        ("write", _, Some(path)) => {
            let content = text("content").unwrap_or_default();
            format!("write {path}:\n{}", indented(&content, "    + ", LINES))
        }
        ("edit", _, Some(path)) => {
            let (old, new) = (text("old").unwrap_or_default(), text("new").unwrap_or_default());
            format!("edit {path}:\n{}{}", indented(&old, "    - ", LINES), indented(&new, "    + ", LINES))
        }
        (name, ..) => {
            format!("use {} with:\n{}", clean(name), indented(&clean(call.input.as_str()), "    ", usize::MAX))
        }
    }
}

fn indented(text: &str, with: &str, most: usize) -> String {
    let count = text.lines().count();
    let mut shown: String = text.lines().take(most).map(|line| format!("{with}{line}\n")).collect();
    if count > most {
        shown += &format!("    … {} more lines\n", count - most);
    }
    shown
}

/// Returns how a run ended and what it took, in a line.
pub(super) fn summary(exit: &Exit, metrics: &Metrics, took: Duration) -> String {
    let usage = &metrics.usage;
    let cost = metrics.cost.map_or_else(|| "price not known".to_owned(), |cost| format!("${cost:.4}"));
    let failed = if metrics.tool_errors > 0 { format!(" ({} failed)", metrics.tool_errors) } else { String::new() };
    format!(
        "{} · {} turns, {} tools{failed} · {} tokens in, {} of them cached, {} out · {cost} · {:.1} s",
        exit.as_str(),
        metrics.invocations,
        metrics.tool_calls,
        usage.total_input(),
        usage.cache_read,
        usage.output,
        took.as_secs_f64(),
    )
}

#[cfg(test)]
mod tests {
    use coop_llm::Json;

    use super::*;

    fn tool(name: &str, input: &str) -> ToolUse {
        ToolUse { id: "t".into(), name: name.into(), input: Json::new(input) }
    }

    #[test]
    fn nothing_in_a_question_moves_the_cursor_or_turns_the_text() {
        let asked = tool("shell", r#"{"command": "rm -rf /\u001b[1A\u001b[2Kls\r \u202ehtap"}"#);
        assert_eq!(question(&asked), "run this command:\n    rm -rf /[1A[2Kls htap\n");
        let asked = tool("write", r#"{"path": "a\n  Allow it?", "content": "x"}"#);
        assert_eq!(question(&asked), "write a␤  Allow it?:\n    + x\n");
    }

    #[test]
    fn a_command_is_shown_whole_and_a_file_from_its_beginning() {
        let lines = (0..100).map(|n| format!("echo {n}")).collect::<Vec<_>>().join("\\n");
        let asked = question(&tool("shell", &format!(r#"{{"command": "{lines}"}}"#)));
        assert!(asked.contains("echo 99"));
        let asked = question(&tool("write", &format!(r#"{{"path": "a", "content": "{lines}"}}"#)));
        assert!(asked.starts_with("write a:\n    + echo 0\n") && asked.ends_with("    … 60 more lines\n"), "{asked}");
    }

    #[test]
    fn a_call_is_a_line() {
        assert_eq!(call(&tool("read", r#"{"path": "a\nb"}"#)), "read a …");
        assert_eq!(call(&tool("mcp__x__y", r#"{"z": 1}"#)), r#"mcp__x__y {"z": 1}"#);
    }
}
