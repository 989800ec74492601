//! What people see of a run. All of it was written by a model or a tool, so nothing of it may move the cursor or hide.

use std::fs::{self, Metadata};
use std::path::Path;
use std::time::Duration;

use coop_api::visible;
use coop_llm::{Exit, Limit, Metrics, ToolUse};
use serde_json::Value;

/// How much of a text is shown where a glimpse is enough.
const GLIMPSE: usize = 160;
/// Larger files are not read only to say how long they are.
const MAX_FILE: u64 = 16 << 20;

/// Returns one line of what a tool that failed said, and how it ended if that is said last.
pub(super) fn failure(text: &str) -> String {
    let last = text.trim().lines().next_back().unwrap_or_default();
    let first = glimpse(text);
    if last.starts_with('[') && !first.starts_with(last) { format!("{first} {}", glimpse(last)) } else { first }
}

/// Returns one line of a text.
pub(super) fn glimpse(text: &str) -> String {
    let text = visible(text);
    let line = text.trim().lines().next().unwrap_or_default();
    let short: String = line.chars().take(GLIMPSE).collect();
    if short.len() < text.trim().len() { short + " …" } else { short }
}

/// Returns a call of a tool in a line.
pub(super) fn call(call: &ToolUse) -> String {
    let input: Value = call.input.parse().unwrap_or_default();
    let about = ["command", "path", "pattern"].iter().find_map(|name| input[name].as_str());
    let about = about.map_or_else(|| glimpse(call.input.as_str()), glimpse);
    format!("{} {about}", visible(&call.name)).trim_end().to_owned()
}

/// Returns all that somebody has to know who decides about a call in a folder. It is shown whole: what is left out could be
/// what matters.
pub(super) fn question(call: &ToolUse, folder: &Path) -> String {
    let input: Value = call.input.parse().unwrap_or_default();
    let text = |name: &str| input[name].as_str().map(visible);
    // On a line of its own, a path could pass for more of the question.
    let path = text("path").map(|path| path.replace(['\n', '\t'], "␤"));
    match (call.name.as_str(), text("command"), path) {
        ("shell", Some(command), _) => format!("run this command:\n{}", indented(&command, "    ")),
        ("write", _, Some(path)) => {
            let content = text("content").unwrap_or_default();
            let lost = input["path"].as_str().and_then(|path| lines_of(&folder.join(path)));
            let lost = lost.map_or_else(String::new, |lines| format!(", in place of the {lines} it has now"));
            format!("write {path}{lost}:\n{}", indented(&content, "    + "))
        }
        ("edit", _, Some(path)) => {
            let (old, new) = (text("old").unwrap_or_default(), text("new").unwrap_or_default());
            let places = if input["all"] == true { ", everywhere in it" } else { "" };
            format!("edit {path}{places}:\n{}{}", indented(&old, "    - "), indented(&new, "    + "))
        }
        (name, ..) => {
            format!("use {} with:\n{}", visible(name), indented(&visible(call.input.as_str()), "    "))
        }
    }
}

fn indented(text: &str, with: &str) -> String {
    text.lines().map(|line| format!("{with}{line}\n")).collect()
}

/// Returns how many lines a file has, in words.
fn lines_of(path: &Path) -> Option<String> {
    let data = fs::metadata(path).ok().filter(Metadata::is_file)?;
    if data.len() > MAX_FILE {
        return Some(format!("{} MiB", data.len() >> 20));
    }
    let text = fs::read(path).ok()?;
    Some(many(String::from_utf8_lossy(&text).lines().count() as u64, "line"))
}

fn many(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Says why a run ended early, and what can be done about it.
pub(super) fn why(exit: &Exit) -> Option<String> {
    let limit = |flag: &str, more: &str| Some(format!("stopped by {flag}{more}"));
    match exit {
        Exit::Completed | Exit::Cancelled | Exit::Refused => None,
        Exit::Limit(Limit::Turns) => limit("--max-turns", ""),
        Exit::Limit(Limit::Tokens) => limit("--max-total-tokens", ": the next call could take more than what is left"),
        Exit::Limit(Limit::Cost) => limit("--max-cost", ": the next call could cost more than what is left"),
        Exit::Limit(Limit::Time) => limit("--max-time", ""),
        Exit::OutOfTokens => Some("its answer was longer than one may be; --max-tokens allows more".into()),
        Exit::ContextFull => Some("the conversation is too long for the model".into()),
        Exit::Failed(error) => {
            let wait = error.retry_after.map(|wait| format!("; it asks to wait {} s", wait.as_secs_f64().ceil()));
            Some(visible(&format!("{error}{}", wait.unwrap_or_default())))
        }
    }
}

/// Returns how a run ended and what it took, in a line.
pub(super) fn summary(exit: &Exit, metrics: &Metrics, took: Duration) -> String {
    let usage = &metrics.usage;
    let cost = metrics.cost.map_or_else(|| "price not known".to_owned(), |cost| format!("${cost:.4}"));
    let failed = if metrics.tool_errors > 0 { format!(" ({} failed)", metrics.tool_errors) } else { String::new() };
    format!(
        "{} · {}, {}{failed} · {} tokens in, {} of them cached, {} out · {cost} · {:.1} s",
        exit.as_str(),
        many(metrics.invocations.into(), "turn"),
        many(metrics.tool_calls.into(), "tool"),
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

    fn asked(name: &str, input: &str) -> String {
        question(&tool(name, input), Path::new("/nowhere"))
    }

    #[test]
    fn nothing_in_a_question_moves_the_cursor_or_turns_the_text_or_hides() {
        let asked_of = asked("shell", r#"{"command": "rm -rf /\u001b[1A\u001b[2Kls\r \u202ehtap"}"#);
        assert_eq!(asked_of, "run this command:\n    rm -rf /<U+001B>[1A<U+001B>[2Kls<U+000D> <U+202E>htap\n");
        let asked_of = asked("write", r#"{"path": "a\n  Allow it?", "content": "x"}"#);
        assert_eq!(asked_of, "write a␤  Allow it?:\n    + x\n");
    }

    #[test]
    fn all_of_it_is_shown_to_who_decides() {
        let lines = (0..100).map(|n| format!("echo {n}")).collect::<Vec<_>>().join("\\n");
        for input in [
            ("shell", format!(r#"{{"command": "{lines}"}}"#)),
            ("write", format!(r#"{{"path": "a", "content": "{lines}"}}"#)),
            ("edit", format!(r#"{{"path": "a", "old": "x", "new": "{lines}"}}"#)),
        ] {
            assert!(asked(input.0, &input.1).contains("echo 99\n"), "{input:?}");
        }
        assert!(
            asked("edit", r#"{"path": "a", "old": "x", "new": "y", "all": true}"#).starts_with("edit a, everywhere")
        );
        assert!(asked("edit", r#"{"path": "a", "old": "x", "new": "y"}"#).starts_with("edit a:"));
    }

    #[test]
    fn what_would_be_lost_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a"), "1\n2\n3\n").expect("written");
        let asked =
            |path: &str| question(&tool("write", &format!(r#"{{"path": "{path}", "content": "x"}}"#)), folder.path());
        assert_eq!(asked("a"), "write a, in place of the 3 lines it has now:\n    + x\n");
        assert_eq!(asked("b"), "write b:\n    + x\n");
    }

    #[test]
    fn a_failure_is_told_with_its_exit_code() {
        assert_eq!(failure("out\nmore\n[exit code 3]"), "out … [exit code 3]");
        assert_eq!(failure("[exit code 3]"), "[exit code 3]");
        assert_eq!(failure("no such file"), "no such file");
    }

    #[test]
    fn a_call_is_a_line() {
        assert_eq!(call(&tool("read", r#"{"path": "a\nb"}"#)), "read a …");
        assert_eq!(call(&tool("mcp__x__y", r#"{"z": 1}"#)), r#"mcp__x__y {"z": 1}"#);
    }
}
