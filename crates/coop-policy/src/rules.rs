//! What agents may do without anybody being asked.
//!
//! A rule says for which agent, tool, path and command it is, and `allow`, `deny` or `ask`. All that is named has to fit.
//! The order of rules does not matter: a denial that fits wins, then a rule that says to ask, then a permission. Nothing is
//! decided by time: an ask that no rule is for stays open.
//!
//! A command is allowed if every command in it is, as it is written. What cannot be judged is never allowed by a rule about
//! commands or paths; and while a rule to deny or to ask is about commands or paths of the tool, it is asked, whatever else
//! allows the tool. Rules to deny and to ask see through what starts a program (`sight`). They are a help and no wall: a
//! program can run others that no line shows.

use coop_api::{Ask, AskKind};
use coop_drivers::{Known, Tool};

use crate::glob::Glob;
use crate::path::PathPattern;
use crate::pattern::CommandPattern;
use crate::subject::Subject;
use crate::tools::ToolPattern;

/// Tools whose paths say what they are about.
const OF_FILES: [Tool; 5] = [Tool::Read, Tool::Write, Tool::Edit, Tool::Glob, Tool::Grep];

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
    pub tool: Option<ToolPattern>,
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
    /// Its kind, by the name of its driver; nothing if that is not known.
    pub kind: Option<&'a str>,
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
        let about = About { request, subject: Subject::of(request.kind.and_then(Known::by_name), request.ask) };
        let rules =
            || self.rules.iter().filter(|rule| rule.agent.as_ref().is_none_or(|agent| agent.is_match(request.agent)));
        let of = |verdict| rules().filter(move |rule| rule.verdict == verdict);
        let wary = || of(Verdict::Deny).chain(of(Verdict::Ask));
        if let Some(rule) = wary().find(|rule| about.is_touched_by(rule)) {
            return Some(rule.decision());
        }
        if let Some((rule, why)) = wary().find_map(|rule| Some((rule, about.is_hidden_from(rule)?))) {
            return Some(Decision { verdict: Verdict::Ask, line: rule.line, why });
        }
        about.allowed_by(&of(Verdict::Allow).filter(|rule| about.is_covered_by(rule)).collect::<Vec<_>>())
    }
}

impl Rule {
    fn decision(&self) -> Decision {
        let why = self.why.clone().unwrap_or_else(|| format!("the rule in line {} says so", self.line));
        Decision { verdict: self.verdict, line: self.line, why }
    }
}

/// A request, and what it is about.
struct About<'a> {
    request: &'a Request<'a>,
    subject: Subject,
}

impl About<'_> {
    /// Tells whether the tool, as far as it is known, is one that a rule to deny or to ask is for.
    fn is_tool_of(&self, rule: &Rule) -> bool {
        let shell = [Tool::Shell];
        // Whatever it is called, it takes a command.
        let does =
            if self.subject.command.is_some() && self.subject.does.is_empty() { &shell } else { self.subject.does };
        let tool = self.request.ask.tool.as_deref();
        rule.tool.as_ref().is_none_or(|pattern| tool.is_some_and(|tool| pattern.touches(tool, does)))
    }

    /// Tells whether any part of it is what a rule to deny or to ask is about.
    fn is_touched_by(&self, rule: &Rule) -> bool {
        let fits = |pattern: &PathPattern| self.subject.paths.iter().any(|path| self.is_at(pattern, path));
        let sight = self.subject.command.as_ref().map(|line| &line.sight);
        let runs = |pattern: &CommandPattern| {
            sight.is_some_and(|sight| sight.commands.iter().any(|words| pattern.is_match(words)))
        };
        self.is_tool_of(rule) && rule.path.as_ref().is_none_or(fits) && rule.command.as_ref().is_none_or(runs)
    }

    /// Returns why a rule to deny or to ask may be about it all the same.
    fn is_hidden_from(&self, rule: &Rule) -> Option<String> {
        if !self.is_tool_of(rule) {
            return None;
        }
        let line = rule.line;
        let opaque = self.subject.command.as_ref().and_then(|command| command.sight.opaque.as_ref());
        if let (Some(_), Some(opaque)) = (&rule.command, opaque) {
            return Some(format!("the rule in line {line} cannot judge it: {opaque}"));
        }
        let hides_paths = self.subject.hides_paths || self.subject.paths.is_empty();
        let is_of_files = self.subject.does.iter().any(|done| OF_FILES.contains(done));
        (rule.path.is_some() && rule.command.is_none() && is_of_files && hides_paths)
            .then(|| format!("the rule in line {line} cannot judge it: not all of its paths are told"))
    }

    /// Tells whether a rule to allow is for the tool, and for all that the tool does.
    fn is_covered_by(&self, rule: &Rule) -> bool {
        let does = self.subject.does;
        let tool = self.request.ask.tool.as_deref();
        match &rule.tool {
            // A command says nothing of what another tool does with it.
            _ if rule.command.is_some() && !does.is_empty() && does != [Tool::Shell] => false,
            Some(pattern) => tool.is_some_and(|tool| pattern.covers(tool, does)),
            // Without a tool it is for the tools that paths and commands are all of.
            None if rule.command.is_some() => does == [Tool::Shell],
            None if rule.path.is_some() => !does.is_empty() && does.iter().all(|done| OF_FILES.contains(done)),
            None => true,
        }
    }

    /// Finds rules that allow all of it: each path, and each command of a chain, by one of them.
    fn allowed_by(&self, rules: &[&Rule]) -> Option<Decision> {
        if let Some(rule) = rules.iter().find(|rule| self.is_allowed_whole(rule)) {
            return Some(rule.decision());
        }
        let by_command: Vec<&&Rule> =
            rules.iter().filter(|rule| rule.command.is_some() && rule.path.is_none()).collect();
        let (last, command) = (by_command.last()?, self.subject.command.as_ref()?);
        let segments = match &command.plain {
            Ok(_) if self.subject.leaves_sandbox => Err("it would leave the agent's sandbox"),
            Ok(segments) => Ok(segments),
            Err(opaque) => Err(opaque.as_str()),
        };
        let segments = match segments {
            Ok(segments) => segments,
            Err(why) => {
                let why = format!("rules about commands cannot judge it: {why}");
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

    /// Tells whether a rule allows it without others. A path says nothing of a command.
    fn is_allowed_whole(&self, rule: &Rule) -> bool {
        let subject = &self.subject;
        let path = |pattern: &PathPattern| {
            !subject.hides_paths
                && !subject.paths.is_empty()
                && (subject.command.is_none() || rule.command.is_some())
                && subject.paths.iter().all(|path| self.is_at(pattern, path))
        };
        let command = |pattern: &CommandPattern| {
            let plain = subject.command.as_ref().and_then(|line| line.plain.as_ref().ok());
            plain.is_some_and(|segments| segments.iter().all(|words| pattern.is_match(words)))
        };
        let is_whole_tool = rule.path.is_none() && rule.command.is_none();
        (is_whole_tool || !subject.leaves_sandbox)
            && rule.path.as_ref().is_none_or(path)
            && rule.command.as_ref().is_none_or(command)
    }

    fn is_at(&self, pattern: &PathPattern, path: &str) -> bool {
        pattern.is_match(self.request.folder, path)
    }
}

#[cfg(test)]
mod tests;
