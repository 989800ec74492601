//! What the tools of agents do. Each agent kind has names of its own for the same few things; its registry entry has them.

use serde_json::Value;

/// Something that a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// Runs a command line.
    Shell,
    /// Reads a file.
    Read,
    /// Writes a whole file.
    Write,
    /// Changes a part of a file.
    Edit,
    /// Finds files by their names, or lists a folder.
    Glob,
    /// Finds text in files.
    Grep,
    /// Loads an address.
    Fetch,
    /// Searches the web.
    WebSearch,
    /// Starts a sub-agent.
    Task,
    /// Writes a list of things to do, or thinks: changes nothing outside the agent.
    Note,
    /// Calls a tool of an MCP server.
    Mcp,
    /// Anything else, such as a question or more rights.
    Other,
}

/// A tool by the name that an agent kind gives it in asks, and all that it may do. A name that ends in `*` stands for all that
/// begin so.
pub type NamedTool = (&'static str, &'static [Tool]);

/// Returns what a tool does by a table of names; names are compared as they are written.
pub(crate) fn find(table: &[NamedTool], name: &str) -> Option<&'static [Tool]> {
    let is_named = |known: &str| match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => known == name,
    };
    table.iter().find(|(known, _)| is_named(known)).map(|(_, does)| *does)
}

/// What makes an agent use every tool without an ask.
#[derive(Clone, Copy, Debug)]
pub enum Unasked {
    /// An argument.
    Flag(&'static str),
    /// An option, by any of its names, with this value.
    Option(&'static [&'static str], &'static str),
    /// A setting, by its JSON pointer, with this value.
    Setting(&'static str, &'static str),
    /// That the settings do not have this: the agent asks only where they say so.
    Without(&'static str),
}

impl Unasked {
    pub(crate) fn found_in(&self, args: &[String], settings: Option<&Value>) -> Option<String> {
        let args = || args.iter().map(String::as_str).take_while(|arg| *arg != "--");
        match self {
            Self::Flag(flag) => args().any(|arg| arg == *flag).then(|| (*flag).to_owned()),
            Self::Option(names, value) => {
                let is_value = |given: &str| given.replace(['"', '\''], "") == *value;
                let apart = args().zip(args().skip(1)).any(|(arg, next)| names.contains(&arg) && is_value(next));
                let joined = args().filter_map(|arg| arg.split_once('='));
                let joined = joined.into_iter().any(|(name, given)| names.contains(&name) && is_value(given));
                let name = names.last().unwrap_or(&"");
                (apart || joined).then(|| format!("{name} {value}"))
            }
            Self::Setting(pointer, value) => {
                let found = settings.and_then(|settings| settings.pointer(pointer)) == Some(&Value::from(*value));
                found.then(|| format!("the setting {} = {value:?}", dotted(pointer)))
            }
            Self::Without(pointer) => {
                let found = settings.is_some_and(|settings| settings.pointer(pointer).is_some());
                (!found).then(|| format!("no setting {} in its definition", dotted(pointer)))
            }
        }
    }
}

fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::registry::{KNOWN, Known};
    use crate::tools::Tool;

    fn unasked(kind: &str, line: &str, settings: serde_json::Value) -> Option<String> {
        let command: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Known::by_name(kind).expect("a kind").never_asks(&command, Some(&settings))
    }

    #[test]
    fn an_agent_that_never_asks_is_known_by_its_arguments_and_settings() {
        let nothing = json!({});
        for (kind, line) in [
            ("claude", "claude --dangerously-skip-permissions"),
            ("claude", "env A=1 claude --permission-mode bypassPermissions"),
            ("claude", "claude --permission-mode=bypassPermissions"),
            ("codex", "codex --yolo"),
            ("codex", "codex -a never"),
            ("codex", "codex --ask-for-approval=never"),
            ("codex", "codex -c model=x -c approval_policy=\"never\""),
            ("codex", "codex --dangerously-bypass-approvals-and-sandbox"),
            ("gemini", "gemini -y"),
            ("gemini", "gemini --approval-mode=yolo"),
            ("opencode", "opencode"),
            ("api", "--allow all"),
        ] {
            assert!(unasked(kind, line, nothing.clone()).is_some(), "{kind}: {line}");
        }
        let claude = json!({ "permissions": { "defaultMode": "bypassPermissions" } });
        assert!(unasked("claude", "claude", claude).is_some());
        assert!(unasked("opencode", "opencode", json!({ "permission": "allow" })).is_some());
        for (kind, line) in [
            ("claude", "claude --permission-mode default"),
            ("claude", "claude -- --dangerously-skip-permissions"),
            ("codex", "codex -a on-request"),
            ("gemini", "gemini --approval-mode default"),
            ("api", "--allow read"),
        ] {
            assert_eq!(unasked(kind, line, nothing.clone()), None, "{kind}: {line}");
        }
        assert_eq!(unasked("opencode", "opencode", json!({ "permission": { "bash": "ask" } })), None);
    }

    #[test]
    fn every_agent_kind_has_a_shell_and_a_way_to_change_files() {
        for known in KNOWN {
            let does = |wanted| known.tools.iter().any(|table| table.iter().any(|(_, does)| does.contains(&wanted)));
            assert!([Tool::Shell, Tool::Read, Tool::Write, Tool::Edit].into_iter().all(does), "{}", known.name);
        }
    }
}
