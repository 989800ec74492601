//! What a person should know about rules before an agent starts: rules that can match nothing, and an agent that never asks.

use coop_drivers::{KNOWN, Known, Tool};
use serde_json::Value;

use crate::rules::{Policy, Rule};
use crate::tools::CANONICAL;

/// Returns the kind of an agent by its driver's name, or by its command where that decides.
pub fn kind_of(driver: &str, command: &[String]) -> Option<&'static Known> {
    match driver {
        "auto" => Known::of_command(command).map(|(known, _)| known),
        driver => Known::by_name(driver),
    }
}

/// An agent that rules are about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its kind, if that is known.
    pub kind: Option<&'a Known>,
    /// Its command line.
    pub command: &'a [String],
    /// Its settings in the definition.
    pub settings: Option<&'a Value>,
}

impl Policy {
    /// Returns what is wrong with the rules for an agent, a sentence each.
    pub fn warnings(&self, agent: Subject<'_>) -> Vec<String> {
        let Some(kind) = agent.kind else { return Vec::new() };
        let is_for = |rule: &&Rule| rule.agent.as_ref().is_none_or(|pattern| pattern.is_match(agent.name));
        let rules: Vec<&Rule> = self.rules.iter().filter(is_for).collect();
        let idle = kind.never_asks(agent.command, agent.settings).filter(|_| !rules.is_empty()).map(|why| {
            format!(
                "{} does not ask before it uses its tools ({why}): rules decide nothing that is not asked",
                agent.name
            )
        });
        rules.iter().filter_map(|rule| mismatch(rule, kind)).chain(idle).collect()
    }
}

/// Returns why a rule can match nothing that an agent of this kind asks.
fn mismatch(rule: &Rule, kind: &Known) -> Option<String> {
    let (line, name) = (rule.line, kind.name);
    let tool = rule.tool.as_ref()?;
    let Some(does) = tool.fits(kind) else {
        let of_other = KNOWN.iter().find_map(|known| Some((known.name, tool.fits(known)?)));
        let word =
            |does: Vec<Tool>| CANONICAL.iter().find(|(_, covered)| does.iter().all(|done| covered.contains(done)));
        let hint = match of_other.map(|(other, does)| (other, word(does))) {
            Some((other, Some((word, _)))) => {
                format!(": that is {other}'s name, and {word:?} holds for every agent kind")
            }
            _ => ", unless it is a tool of an MCP server".to_owned(),
        };
        return Some(format!("the rule in line {line} matches nothing: {name} has no tool \"{tool}\"{hint}"));
    };
    let is_shell = does.contains(&Tool::Shell);
    match (&rule.path, &rule.command) {
        (_, Some(_)) if !is_shell => {
            Some(format!("the rule in line {line} matches nothing: the tool \"{tool}\" runs no commands"))
        }
        (Some(_), None) if does.iter().all(|done| *done == Tool::Shell) => {
            Some(format!("the rule in line {line} matches nothing: a rule about paths is not for commands"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::Verdict;
    use crate::{CommandPattern, Glob, PathPattern, ToolPattern};

    fn rule(line: usize, tool: &str) -> Rule {
        let tool = Some(ToolPattern::new(tool));
        Rule { agent: None, tool, path: None, command: None, verdict: Verdict::Deny, why: None, line }
    }

    fn warned(rules: &[Rule], kind: &str, command: &[&str], settings: Option<Value>) -> Vec<String> {
        let command: Vec<_> = command.iter().map(|&word| word.to_owned()).collect();
        let kind = kind_of(kind, &command);
        let agent = Subject { name: "fixer", kind, command: &command, settings: settings.as_ref() };
        Policy { rules: rules.to_vec() }.warnings(agent)
    }

    #[test]
    fn a_rule_that_can_match_nothing_of_the_kind_is_told() {
        let bash = [Rule { command: CommandPattern::new("git push *").ok(), ..rule(3, "Bash") }];
        for (kind, command) in [("codex", "codex"), ("auto", "codex"), ("gemini", "gemini"), ("acp", "x")] {
            let told = warned(&bash, kind, &[command], None).join("");
            let kind = if kind == "auto" { "codex" } else { kind };
            assert_eq!(
                told,
                format!(
                    "the rule in line 3 matches nothing: {kind} has no tool \"Bash\": that is claude's name, and \"shell\" \
                     holds for every agent kind"
                )
            );
        }
        assert!(warned(&bash, "claude", &["claude"], None).is_empty());
        // An agent of an unknown kind may have any tool.
        assert!(warned(&bash, "shim", &["x"], None).is_empty() && warned(&bash, "auto", &["x"], None).is_empty());
        let of_other = [Rule { agent: Some(Glob::new("rev*")), ..rule(3, "Bash") }];
        assert!(warned(&of_other, "codex", &["codex"], None).is_empty());
        for tool in ["shell", "*", "edit", "mcp__github__*", "mcp__*", "mcp"] {
            assert!(warned(&[rule(1, tool)], "codex", &["codex"], None).is_empty(), "{tool}");
            assert!(warned(&[rule(1, tool)], "claude", &["claude"], None).is_empty(), "{tool}");
        }
        assert_eq!(warned(&[rule(1, "Bahs"), rule(2, "mcq__x")], "claude", &["claude"], None).len(), 2);
        let reads = Rule { command: CommandPattern::new("ls").ok(), ..rule(1, "read") };
        let of_path = Rule { path: PathPattern::new("src/**").ok(), ..rule(2, "shell") };
        assert_eq!(warned(&[reads, of_path], "claude", &["claude"], None).len(), 2);
    }

    #[test]
    fn an_agent_that_never_asks_is_told_beside_its_rules() {
        let rules = [rule(1, "shell")];
        let told = warned(&rules, "claude", &["claude", "--dangerously-skip-permissions"], None);
        let expected = "fixer does not ask before it uses its tools (--dangerously-skip-permissions): rules decide nothing \
                        that is not asked";
        assert_eq!(told, [expected]);
        assert_eq!(warned(&rules, "codex", &["codex", "-a", "never"], None).len(), 1);
        assert_eq!(warned(&rules, "auto", &["npx", "@google/gemini-cli", "--yolo"], None).len(), 1);
        assert_eq!(warned(&rules, "opencode", &["opencode"], None).len(), 1);
        assert!(warned(&rules, "opencode", &["opencode"], Some(json!({ "permission": { "bash": "ask" } }))).is_empty());
        assert!(warned(&rules, "claude", &["claude"], None).is_empty());
        assert!(warned(&[], "codex", &["codex", "--yolo"], None).is_empty(), "it has no rules");
    }
}
