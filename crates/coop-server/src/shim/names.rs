//! The names of tools. Backends have Claude Code's, each agent has its own, and they mean the same.

/// Returns what a tool does, by Claude Code's names in small letters; some tools are several of those.
pub(crate) fn means(tool: &str) -> Vec<String> {
    let name = tool.to_ascii_lowercase();
    let known: &[&str] = match name.as_str() {
        "bash" | "shell" | "execute" | "exec_command" | "command_execution" | "local_shell" | "run_shell_command" => {
            &["bash"]
        }
        "write" | "write_file" => &["write"],
        // With a small letter it is what ACP and OpenCode call whatever changes files.
        "edit" if tool == "edit" => &["edit", "write"],
        "apply_patch" | "file_change" | "patch" => &["edit", "write"],
        "edit" | "multiedit" | "replace" => &["edit"],
        "read" | "read_file" | "read_many_files" => &["read"],
        "search" => &["glob", "grep"],
        "grep" | "search_file_content" => &["grep"],
        "fetch" | "webfetch" | "web_fetch" => &["webfetch"],
        "task" | "agent" => &["task"],
        _ => return vec![name],
    };
    known.iter().map(|&name| name.to_owned()).collect()
}

/// Tells whether a tool may do what one of these names says.
pub(crate) fn touches(tool: &str, names: &[String]) -> bool {
    let means = means(tool);
    names.iter().flat_map(|name| self::means(name)).any(|name| means.contains(&name))
}

/// Tells whether all that a tool may do is among these names.
pub(crate) fn is_among(tool: &str, names: &[String]) -> bool {
    let named: Vec<String> = names.iter().flat_map(|name| means(name)).collect();
    means(tool).iter().all(|name| named.contains(name))
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
    }
}
