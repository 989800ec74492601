//! One word for the same tool of every agent kind. The names that each kind gives its tools are in its registry entry.

use std::fmt;

use coop_drivers::{KNOWN, Known, Tool};

use crate::glob::Glob;

/// The words that hold for every agent kind, and what each stands for.
pub const CANONICAL: [(&str, &[Tool]); 8] = [
    ("shell", &[Tool::Shell]),
    ("read", &[Tool::Read]),
    ("write", &[Tool::Write]),
    // Some kinds have one name for every change of a file.
    ("edit", &[Tool::Edit, Tool::Write]),
    ("search", &[Tool::Glob, Tool::Grep]),
    ("fetch", &[Tool::Fetch, Tool::WebSearch]),
    ("mcp", &[Tool::Mcp]),
    ("task", &[Tool::Task]),
];

/// Returns what a tool of an agent kind does; for an unknown kind, of any kind that has a tool of this name.
pub(crate) fn does(kind: Option<&Known>, tool: &str) -> &'static [Tool] {
    let found = match kind {
        Some(known) => known.tool(tool),
        None => KNOWN.iter().find_map(|known| known.tool(tool)),
    };
    found.unwrap_or_default()
}

/// The tools that a rule is for: a pattern for an agent's own names, or a word for every agent kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPattern {
    own: Glob,
    canonical: &'static [Tool],
}

impl ToolPattern {
    /// Makes a pattern; every text is one.
    pub fn new(pattern: &str) -> Self {
        let canonical = CANONICAL.iter().find(|(word, _)| *word == pattern).map(|(_, does)| *does);
        Self { own: Glob::new(pattern), canonical: canonical.unwrap_or_default() }
    }

    /// Tells whether a tool, by its own name and all that it does, is nothing but what this is for.
    pub(crate) fn covers(&self, name: &str, does: &[Tool]) -> bool {
        self.own.is_match(name) || !does.is_empty() && does.iter().all(|done| self.canonical.contains(done))
    }

    /// Tells whether a tool, by its own name and all that it does, is among what this is for.
    pub(crate) fn touches(&self, name: &str, does: &[Tool]) -> bool {
        self.own.is_match(name) || does.iter().any(|done| self.canonical.contains(done))
    }

    /// Returns what the tools of an agent kind do that this is for; nothing if there is no such tool.
    pub(crate) fn fits(&self, kind: &Known) -> Option<Vec<Tool>> {
        let tables = kind.tools.iter().flat_map(|table| table.iter());
        let fitting = tables.filter(|(name, does)| match name.strip_suffix('*') {
            Some(beginning) => self.own.may_begin_with(beginning) || self.touches(name, does),
            None => self.touches(name, does),
        });
        let found: Vec<Tool> = fitting.flat_map(|(_, does)| does.iter().copied()).collect();
        (!found.is_empty()).then_some(found)
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own.fmt(f)
    }
}

/// What a name for a tool means where it may be any agent kind's, in large or small letters.
#[derive(PartialEq)]
enum Meaning {
    Does(Tool),
    /// Tools of MCP servers and others are only themselves.
    Named(String),
}

fn meanings(tool: &str) -> Vec<Meaning> {
    let tables = || KNOWN.iter().flat_map(|known| known.tools).flat_map(|table| table.iter());
    let same = |name: &str| name.eq_ignore_ascii_case(tool);
    let exact = does(None, tool);
    let found = match exact {
        [] => tables().find(|(name, _)| same(name)).map_or(&[][..], |(_, does)| *does),
        found => found,
    };
    match found {
        [] | [Tool::Mcp | Tool::Other] => vec![Meaning::Named(tool.to_ascii_lowercase())],
        found => found.iter().map(|&done| Meaning::Does(done)).collect(),
    }
}

/// Tells whether a tool may do what one of these names says, whichever agent kind each name is of.
pub fn touches(tool: &str, names: &[String]) -> bool {
    let tool = meanings(tool);
    names.iter().flat_map(|name| meanings(name)).any(|meaning| tool.contains(&meaning))
}

/// Tells whether all that a tool may do is among these names, whichever agent kind each name is of.
pub fn is_among(tool: &str, names: &[String]) -> bool {
    let named: Vec<_> = names.iter().flat_map(|name| meanings(name)).collect();
    meanings(tool).iter().all(|meaning| named.contains(meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_name_means_the_same_tool_of_every_agent() {
        for tool in ["Bash", "bash", "command_execution", "exec_command", "execute", "run_shell_command"] {
            assert!(touches(tool, &names(&["Bash"])) && is_among(tool, &names(&["bash"])), "{tool}");
            assert!(!touches(tool, &names(&["Read", "Edit"])), "{tool}");
        }
        assert!(touches("mcp__demo__x", &names(&["MCP__demo__X"])) && !touches("mcp__demo__x", &names(&["mcp__demo"])));
    }

    #[test]
    fn a_tool_that_does_more_is_asked_about_for_each_and_allowed_for_all() {
        assert!(touches("apply_patch", &names(&["Write"])) && touches("edit", &names(&["Write"])));
        assert!(!is_among("apply_patch", &names(&["Write"])));
        assert!(is_among("apply_patch", &names(&["Write", "Edit"])));
        assert!(!touches("Edit", &names(&["Write"])), "Claude Code has one for each");
        assert!(!touches("Glob", &names(&["Grep"])) && touches("search", &names(&["Grep"])));
    }

    #[test]
    fn a_canonical_word_holds_for_every_agent_kind() {
        let kinds = [
            ("claude", "Bash", "Write"),
            ("codex", "command_execution", "file_change"),
            ("gemini", "run_shell_command", "write_file"),
            ("opencode", "bash", "edit"),
            ("acp", "execute", "edit"),
            ("api", "execute", "edit"),
        ];
        for (kind, shell, change) in kinds {
            let kind = Known::by_name(kind);
            let covers = |word: &str, tool: &str| ToolPattern::new(word).covers(tool, does(kind, tool));
            assert!(covers("shell", shell) && covers("edit", change), "{shell}");
            assert!(!covers("shell", change) && !covers("edit", shell) && !covers("read", shell), "{shell}");
            assert!(
                CANONICAL[..4].iter().all(|(word, _)| ToolPattern::new(word).fits(kind.expect("a kind")).is_some())
            );
        }
        // One name for every change is more than writing: denied with it, and not allowed by it.
        let codex = Known::by_name("codex");
        let write = ToolPattern::new("write");
        assert!(write.touches("file_change", does(codex, "file_change")));
        assert!(!write.covers("file_change", does(codex, "file_change")));
        // Another kind's own name is none of this kind's.
        assert!(!ToolPattern::new("Bash").touches("command_execution", does(codex, "command_execution")));
    }
}
