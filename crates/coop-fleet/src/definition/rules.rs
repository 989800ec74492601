use coop_policy::{CommandPattern, Glob, PathPattern, Rule, ToolPattern, Verdict};

use super::DefinitionError;
use super::read::Node;

pub(super) fn read(node: &Node<'_>) -> Result<Rule, DefinitionError> {
    let table = node.table(&["agent", "tool", "path", "command", "decide", "why"])?;
    let decide = table.get("decide").ok_or_else(|| node.error("a rule needs \"decide\": allow, deny or ask"))?;
    let verdict = match decide.text()? {
        "allow" => Verdict::Allow,
        "deny" => Verdict::Deny,
        "ask" => Verdict::Ask,
        other => return Err(decide.error(format!("{other:?} is no decision; use allow, deny or ask"))),
    };
    let command = match table.get("command") {
        Some(node) => Some(CommandPattern::new(node.text()?).map_err(|why| node.error(format!("\"command\": {why}")))?),
        None => None,
    };
    let path = match table.get("path") {
        Some(node) => Some(PathPattern::new(node.text()?).map_err(|why| node.error(format!("\"path\": {why}")))?),
        None => None,
    };
    let agent = table.text("agent")?.map(Glob::new);
    let tool = table.text("tool")?.map(|pattern| ToolPattern::new(&pattern));
    if verdict == Verdict::Allow && tool.is_none() && path.is_none() && command.is_none() {
        return Err(node.error(
            "this rule allows everything; name a \"tool\", a \"path\" or a \"command\", and tool = \"*\" if that is meant",
        ));
    }
    Ok(Rule { agent, tool, path, command, verdict, why: table.text("why")?, line: node.line() })
}
