//! What agents may do without anybody being asked.
//!
//! A rule says for which agent, tool, path and command it is, and `allow`, `deny` or `ask`. All that is named has to fit.
//! The order of rules does not matter: a denial that fits wins, then a rule that says to ask, then a permission. Nothing is
//! decided by time: an ask that no rule is for stays open.
//!
//! A command is allowed if every command in it is. What the splitter does not fully understand may do anything, so rules
//! about commands never allow it: it is asked.

mod glob;
mod path;
mod shell;

use coop_api::{Ask, AskKind};
use serde_json::Value;

pub use self::glob::Glob;
pub use self::path::PathPattern;
pub use self::shell::{CommandPattern, Opaque, split};

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Allow,
    /// No.
    Deny,
    /// A person decides.
    Ask,
}

/// Which requests get which answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Of which agents, by name; of all without it.
    pub agent: Option<Glob>,
    /// For which tools; for all without it.
    pub tool: Option<Glob>,
    /// On which files.
    pub path: Option<PathPattern>,
    /// Which commands.
    pub command: Option<CommandPattern>,
    /// The answer.
    pub verdict: Verdict,
    /// Why, in the words of whoever wrote it.
    pub why: Option<String>,
    /// Where it stands in its file.
    pub line: usize,
}

/// All rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// In no order that matters.
    pub rules: Vec<Rule>,
}

/// What is asked, by whom.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The agent's name.
    pub agent: &'a str,
    /// Where it works.
    pub folder: &'a str,
    /// What it asks.
    pub ask: &'a Ask,
}

/// What was decided, by which rule and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// Where the rule stands.
    pub line: usize,
    /// Why, in words.
    pub why: String,
}

impl Policy {
    /// Decides, if a rule is for it. Only permissions are: plans, questions and dialogs are not about a tool.
    pub fn decide(&self, request: &Request<'_>) -> Option<Decision> {
        if request.ask.kind != AskKind::Permission {
            return None;
        }
        let rules: Vec<&Rule> = self.rules.iter().filter(|rule| rule.is_for(request)).collect();
        let paths = paths(request.ask);
        let command = command(request.ask);
        let about = Subject { folder: request.folder, paths: &paths, command: command.as_ref() };
        let first = |verdict| rules.iter().filter(move |rule| rule.verdict == verdict);
        if let Some(rule) = first(Verdict::Deny).find(|rule| about.is_touched_by(rule)) {
            return Some(rule.decision(None));
        }
        if let Some(rule) = first(Verdict::Ask).find(|rule| about.is_touched_by(rule)) {
            return Some(rule.decision(None));
        }
        about.allowed_by(&first(Verdict::Allow).copied().collect::<Vec<_>>())
    }
}

impl Rule {
    fn is_for(&self, request: &Request<'_>) -> bool {
        let tool = request.ask.tool.as_deref();
        self.agent.as_ref().is_none_or(|agent| agent.is_match(request.agent))
            && self.tool.as_ref().is_none_or(|pattern| tool.is_some_and(|tool| pattern.is_match(tool)))
    }

    fn decision(&self, note: Option<String>) -> Decision {
        let why = self.why.clone().or(note).unwrap_or_else(|| format!("the rule in line {} says so", self.line));
        Decision { verdict: self.verdict, line: self.line, why }
    }
}

/// A command line: what is in it, or why that cannot be told.
type Command = (String, Result<Vec<Vec<String>>, Opaque>);

/// What a request is about.
struct Subject<'a> {
    folder: &'a str,
    paths: &'a [String],
    command: Option<&'a Command>,
}

impl Subject<'_> {
    /// Tells whether any part of it is what a rule is about.
    fn is_touched_by(&self, rule: &Rule) -> bool {
        let path =
            rule.path.as_ref().is_none_or(|pattern| self.paths.iter().any(|path| pattern.is_match(self.folder, path)));
        let command = rule.command.as_ref().is_none_or(|pattern| match self.command {
            Some((_, Ok(segments))) => segments.iter().any(|words| pattern.is_match(words)),
            // As much as can be seen of it.
            Some((text, Err(_))) => shell::rough_segments(text).any(|words| pattern.is_match(&words)),
            None => false,
        });
        path && command
    }

    /// Finds rules that allow all of it: each path, and each command of a chain, by one of them.
    fn allowed_by(&self, rules: &[&Rule]) -> Option<Decision> {
        let whole = rules.iter().find(|rule| self.is_allowed_whole(rule));
        if let Some(rule) = whole {
            return Some(rule.decision(None));
        }
        let by_command: Vec<&&Rule> =
            rules.iter().filter(|rule| rule.command.is_some() && rule.path.is_none()).collect();
        let (last, (_, parsed)) = (by_command.last()?, self.command?);
        let segments = match parsed {
            Ok(segments) => segments,
            Err(opaque) => {
                let why = format!("rules about commands cannot judge it: {opaque}");
                return Some(Decision { verdict: Verdict::Ask, line: last.line, why });
            }
        };
        let allowing = |words: &Vec<String>| {
            by_command.iter().find(|rule| rule.command.as_ref().is_some_and(|pattern| pattern.is_match(words)))
        };
        let lines: Vec<usize> =
            segments.iter().map(|words| allowing(words).map(|rule| rule.line)).collect::<Option<_>>()?;
        let line = *lines.first()?;
        let why = match by_command.iter().find(|rule| rule.line == line).and_then(|rule| rule.why.clone()) {
            Some(why) if lines.iter().all(|other| *other == line) => why,
            _ => format!("each command in it is allowed, by the rules in lines {lines:?}"),
        };
        Some(Decision { verdict: Verdict::Allow, line, why })
    }

    fn is_allowed_whole(&self, rule: &Rule) -> bool {
        let path = rule.path.as_ref().is_none_or(|pattern| {
            !self.paths.is_empty() && self.paths.iter().all(|path| pattern.is_match(self.folder, path))
        });
        let command = rule.command.as_ref().is_none_or(|pattern| {
            matches!(self.command, Some((_, Ok(segments))) if segments.iter().all(|words| pattern.is_match(words)))
        });
        path && command
    }
}

/// The names that agents give to a file in what they call a tool with.
const PATHS: [&str; 8] =
    ["file_path", "filePath", "path", "notebook_path", "notebookPath", "absolute_path", "dir_path", "abs_path"];

/// Returns the files a request is about.
fn paths(ask: &Ask) -> Vec<String> {
    let named = |key: &&str| ask.input.as_ref()?.get(*key)?.as_str().map(str::to_owned);
    PATHS.iter().filter_map(named).collect()
}

/// Returns the command a request is about, from what the tool is called with; a preview may be cut.
fn command(ask: &Ask) -> Option<Command> {
    match ask.input.as_ref()?.get("command").or_else(|| ask.input.as_ref()?.get("cmd"))? {
        Value::String(text) => Some((text.clone(), split(text))),
        // Given as words, there is no shell that could make more of them.
        Value::Array(words) => {
            let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            let words = words?;
            match words.as_slice() {
                [shell, flag, text] if coop_shell::is_shell(shell) && coop_shell::runs_text(flag) => {
                    Some((text.clone(), split(text)))
                }
                _ => Some((words.join(" "), Ok(vec![words]))),
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
