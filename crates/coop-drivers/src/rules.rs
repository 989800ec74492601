//! What an agent's screen says, as data: a versioned file of patterns for each agent, which users can replace.

use coop_api::{AskKind, AskOption, OptionKind, Screen};
use regex::{Captures, Regex};
use serde::Deserialize;

/// The version of the format.
const VERSION: u32 = 1;
/// A dialog's last line is at most this many lines with something on them away from the bottom.
const BELOW_DIALOG: usize = 2;
/// How many lines above the options belong to a dialog, at most.
const HEADING: usize = 24;
/// What stands at a list of which not all can be seen.
const SCROLL: [&str; 2] = ["▲", "▼"];

/// What belongs to an option stands below it, and this many columns in at least.
const INDENT: usize = 4;

/// Why a file of rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// It is not what it should be.
    #[error("the screen rules cannot be read: {0}")]
    Format(#[from] toml::de::Error),
    /// It is of another version.
    #[error("the screen rules have version {found}; this coop knows version {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// It has a pattern that is none.
    #[error("a pattern of the screen rules is wrong: {0}")]
    Pattern(#[from] regex::Error),
    /// It says nothing of where a dialog ends.
    #[error("the screen rules need a \"hint\" below a dialog that has no \"frame\"")]
    NoEnd,
}

/// What an agent's screen says.
#[derive(Clone, Debug)]
pub struct Rules {
    titles: Vec<(TitleSays, Regex)>,
    prompt: Option<Regex>,
    working: Option<Regex>,
    error: Option<Regex>,
    /// Without it there are no dialogs.
    dialog: Option<DialogRule>,
    asks: Vec<(AskKind, Regex)>,
    options: Vec<(OptionKind, Regex)>,
}

/// What a title says of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TitleSays {
    Working,
    Idle,
    /// It waits for somebody to decide.
    Waiting,
}

/// What a dialog looks like.
#[derive(Clone, Debug)]
struct DialogRule {
    option: Regex,
    /// What stands below the options.
    hint: Option<Regex>,
    /// Whether it is drawn in a frame.
    framed: bool,
}

/// Numbered options on a screen, one of them marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dialog {
    pub(crate) kind: AskKind,
    /// The lines above the options.
    pub(crate) heading: Vec<String>,
    pub(crate) options: Vec<DialogOption>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DialogOption {
    pub(crate) number: char,
    pub(crate) label: String,
    /// The rows below it: the rest of a long label, or what it means.
    pub(crate) rest: Option<String>,
    /// What choosing it does, if its label and all that belongs to it tell.
    pub(crate) kind: Option<OptionKind>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(rename = "agent")]
    _agent: String,
    #[serde(default)]
    title: Title,
    #[serde(default)]
    screen: Marks,
    dialog: Option<DialogMarks>,
    #[serde(default)]
    ask: Vec<AskRule>,
    #[serde(default)]
    option: Vec<OptionRule>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Title {
    working: Option<String>,
    idle: Option<String>,
    waiting: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Marks {
    prompt: Option<String>,
    working: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DialogMarks {
    option: String,
    hint: Option<String>,
    #[serde(default)]
    frame: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskRule {
    kind: AskKind,
    #[serde(rename = "name")]
    _name: String,
    pattern: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionRule {
    kind: OptionKind,
    pattern: String,
}

impl Rules {
    /// Reads a file of rules.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let file: File = toml::from_str(text)?;
        if file.version != VERSION {
            return Err(RuleError::Version { found: file.version });
        }
        let pattern = |text: Option<String>| text.map(|text| Regex::new(&text)).transpose();
        let titles = [
            (TitleSays::Working, file.title.working),
            (TitleSays::Idle, file.title.idle),
            (TitleSays::Waiting, file.title.waiting),
        ];
        Ok(Self {
            titles: titles
                .into_iter()
                .filter_map(|(says, text)| Some(Regex::new(&text?).map(|pattern| (says, pattern))))
                .collect::<Result<_, _>>()?,
            prompt: pattern(file.screen.prompt)?,
            working: pattern(file.screen.working)?,
            error: pattern(file.screen.error)?,
            dialog: file.dialog.map(DialogRule::new).transpose()?,
            asks: file
                .ask
                .into_iter()
                .map(|rule| Ok((rule.kind, Regex::new(&rule.pattern)?)))
                .collect::<Result<_, RuleError>>()?,
            options: file
                .option
                .into_iter()
                .map(|rule| Ok((rule.kind, Regex::new(&rule.pattern)?)))
                .collect::<Result<_, RuleError>>()?,
        })
    }

    /// Returns what a title says; nothing if it says nothing.
    pub(crate) fn title(&self, title: &str) -> Option<TitleSays> {
        self.titles.iter().find(|(_, pattern)| pattern.is_match(title)).map(|(says, _)| *says)
    }

    /// Tells whether a screen shows that the agent works.
    pub(crate) fn shows_work(&self, lines: &[String]) -> bool {
        self.working.as_ref().is_some_and(|pattern| lines.iter().any(|line| pattern.is_match(line)))
    }

    /// Tells whether a screen shows the agent's prompt.
    pub(crate) fn shows_prompt(&self, lines: &[String]) -> bool {
        self.prompt.as_ref().is_some_and(|pattern| lines.iter().any(|line| pattern.is_match(line)))
    }

    /// Returns the line of a screen that shows an error.
    pub(crate) fn error_line<'a>(&self, lines: &'a [String]) -> Option<&'a str> {
        let pattern = self.error.as_ref()?;
        lines.iter().rfind(|line| pattern.is_match(line)).map(|line| line.trim())
    }

    /// Returns the dialog at the bottom of a screen.
    pub(crate) fn dialog(&self, lines: &[String]) -> Option<Dialog> {
        let rule = self.dialog.as_ref()?;
        if rule.framed {
            let inside = frame(lines)?;
            let end = match &rule.hint {
                Some(hint) => inside.iter().rposition(|line| hint.is_match(line))?,
                None => inside.len(),
            };
            return self.dialog_above(rule, &inside, end);
        }
        let hint = rule.hint.as_ref()?;
        let end = lines.iter().rposition(|line| hint.is_match(line))?;
        if lines[end + 1..].iter().filter(|line| !line.trim().is_empty()).count() > BELOW_DIALOG {
            return None;
        }
        self.dialog_above(rule, lines, end)
    }

    /// Returns the dialog whose last row is above this one.
    fn dialog_above(&self, rule: &DialogRule, lines: &[String], end: usize) -> Option<Dialog> {
        let mut options = Vec::new();
        let mut marked = 0;
        let mut first = end;
        // The numbers stand below each other; what looks like an option further in is text of one.
        let mut column = None;
        for at in (end.saturating_sub(HEADING)..end).rev() {
            let Some((numbered_at, found)) = rule.numbered(&lines[at], column) else {
                // Between two options stands only what belongs to one, or a line across.
                if options.is_empty() || is_rule(&lines[at]) || indent(&lines[at]) >= INDENT {
                    continue;
                }
                break;
            };
            column = Some(numbered_at);
            let number = found.name("number").and_then(|text| text.as_str().chars().next())?;
            let label = found.name("label").map_or("", |text| text.as_str()).to_owned();
            let rest = rule.rest(&lines[at + 1..end], column);
            // A label that goes on in the next row may mean something else than its beginning.
            let whole = rest.as_ref().map_or_else(|| label.clone(), |rest| format!("{label} {rest}"));
            let kind = self.options.iter().find(|(_, pattern)| pattern.is_match(&whole)).map(|(kind, _)| *kind);
            marked += usize::from(found.name("mark").is_some());
            options.push(DialogOption { number, label, rest, kind });
            first = at;
            if number == '1' {
                break;
            }
        }
        options.reverse();
        let in_order = options.iter().zip('1'..='9').all(|(option, number)| option.number == number);
        if options.is_empty() || !in_order || marked != 1 {
            return None;
        }
        let top = lines[..first].iter().rposition(|line| is_rule(line)).map_or(0, |rule| rule + 1);
        let heading: Vec<_> = lines[top.max(first.saturating_sub(HEADING))..first]
            .iter()
            .map(|line| if rule.framed { unboxed(line) } else { line.trim() }.to_owned())
            .filter(|line| !line.is_empty())
            .collect();
        let text = heading.join("\n");
        let kind = self.asks.iter().find(|(_, pattern)| pattern.is_match(&text)).map(|(kind, _)| *kind)?;
        Some(Dialog { kind, heading, options })
    }
}

impl DialogRule {
    fn new(marks: DialogMarks) -> Result<Self, RuleError> {
        if marks.hint.is_none() && !marks.frame {
            return Err(RuleError::NoEnd);
        }
        let hint = marks.hint.map(|hint| Regex::new(&hint)).transpose()?;
        Ok(Self { option: Regex::new(&marks.option)?, hint, framed: marks.frame })
    }

    /// Returns a row's option and the column of its number, which is that of the others.
    fn numbered<'a>(&self, line: &'a str, others: Option<usize>) -> Option<(usize, Captures<'a>)> {
        let found = self.option.captures(line)?;
        let column = line[..found.name("number")?.start()].chars().count();
        others.is_none_or(|others| others == column).then_some((column, found))
    }

    /// Returns the text of the rows that belong to an option, of those below it.
    fn rest(&self, below: &[String], column: Option<usize>) -> Option<String> {
        let is_other = |line: &str| {
            let text = line.trim();
            text.is_empty() || SCROLL.contains(&text) || is_rule(line) || self.numbered(line, column).is_some()
        };
        let rows: Vec<_> = below.iter().take_while(|line| !is_other(line)).map(|line| line.trim()).collect();
        (!rows.is_empty()).then(|| rows.join(" "))
    }
}

impl Dialog {
    /// Returns the options as an ask has them. Those of a question are choices, whatever they are called.
    pub(crate) fn ask_options(&self) -> Vec<AskOption> {
        let kind = |option: &DialogOption| match (self.kind, option.kind) {
            (AskKind::Question, _) | (_, None) => OptionKind::Choice,
            (AskKind::Permission | AskKind::Plan | AskKind::Setup, Some(kind)) => kind,
        };
        self.options
            .iter()
            .map(|option| AskOption {
                id: option.number.to_string(),
                label: option.label.clone(),
                description: option.rest.clone(),
                kind: kind(option),
            })
            .collect()
    }
}

/// Returns the rows of a screen.
pub(crate) fn rows(screen: &Screen) -> Vec<String> {
    screen.lines.iter().map(|line| line.plain().to_owned()).collect()
}

/// Returns the rows inside the frame that ends a screen. Its top may be off the screen.
pub(crate) fn frame(lines: &[String]) -> Option<Vec<String>> {
    let bottom = lines.iter().rposition(|line| !line.trim().is_empty())?;
    let edge = lines[bottom].trim();
    if !edge.starts_with('╰') || !edge.ends_with('╯') {
        return None;
    }
    let column = indent(&lines[bottom]);
    let inside = |line: &String| {
        let mut cells = line.chars().skip(column);
        (cells.next() == Some('│')).then(|| cells.collect::<String>())
    };
    let mut rows: Vec<_> = lines[..bottom].iter().rev().map_while(inside).collect();
    rows.reverse();
    for row in &mut rows {
        let kept = row.trim_end().trim_end_matches('│').trim_end().len();
        row.truncate(kept);
    }
    Some(rows)
}

/// Returns the text of a row in a frame, without the frame that may be around it in turn.
fn unboxed(line: &str) -> &str {
    let text = line.trim();
    let bare = text.strip_prefix('│').and_then(|rest| rest.strip_suffix('│')).unwrap_or(text).trim();
    let is_edge = bare.starts_with(['╭', '╰']) && bare.ends_with(['╮', '╯']);
    if is_edge || SCROLL.contains(&bare) { "" } else { bare }
}

/// Returns how far in a row's text begins; a row without text has none.
fn indent(line: &str) -> usize {
    let text = line.trim_start();
    if text.is_empty() { 0 } else { line.chars().count() - text.chars().count() }
}

/// Tells whether a row is a line across the screen.
pub(crate) fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.chars().count() > 8 && line.chars().all(|c| matches!(c, '─' | '╌' | '━' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claude() -> Rules {
        Rules::parse(include_str!("../rules/claude.toml")).expect("rules")
    }

    fn seen(screen: &str) -> Option<String> {
        let lines: Vec<_> = screen.lines().map(str::to_owned).collect();
        let dialog = claude().dialog(&lines)?;
        let options: Vec<_> = dialog
            .ask_options()
            .iter()
            .map(|option| format!("{} {:?} {}", option.id, option.kind, option.label))
            .collect();
        Some(format!("{:?}\n{}", dialog.kind, options.join("\n")))
    }

    #[test]
    fn a_permission_is_read_off_the_screen() {
        let screen = "\
────────────────────
 Bash command

   touch perm.txt
   run a command

 Do you want to proceed?
 ❯ 1. Yes
   2. Yes, and always allow access to project/ from this project
   3. No

 Esc to cancel · Tab to amend · ctrl+e to explain
";
        insta::assert_snapshot!(seen(screen).unwrap_or_default(), @r"
        Permission
        1 AllowOnce Yes
        2 AllowAlways Yes, and always allow access to project/ from this project
        3 Reject No
        ");
    }

    #[test]
    fn a_framed_dialog_ends_the_screen_and_may_begin_above_it() {
        let rules = Rules::parse(include_str!("../rules/gemini.toml")).expect("rules");
        let seen = |screen: &str| {
            let lines: Vec<_> = screen.lines().map(str::to_owned).collect();
            rules.dialog(&lines).map(|dialog| (dialog.kind, dialog.heading, dialog.options.len()))
        };
        let framed = "\
╭──────────────────────╮
│ ? Shell  touch x     │
│ ╭──────────────────╮ │
│ │ touch x          │ │
│ ╰──────────────────╯ │
│ Allow execution?     │
│ ● 1. Allow once      │
│   2. No, not now     │
╰──────────────────────╯
";
        let heading = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            seen(framed),
            Some((AskKind::Permission, heading(&["? Shell  touch x", "touch x", "Allow execution?"]), 2))
        );
        assert_eq!(seen(&format!("{framed}\n > \n")), None, "something stands below it");
        let cut_off = framed.replace("Allow execution?", "Apply this change?  ");
        let cut_off: Vec<_> = cut_off.lines().skip(4).collect();
        assert_eq!(seen(&cut_off.join("\n")), Some((AskKind::Permission, heading(&["Apply this change?"]), 2)));
        assert!(matches!(Rules::parse("version = 1\nagent = \"x\"\n[dialog]\noption = '.'"), Err(RuleError::NoEnd)));
    }

    #[test]
    fn text_that_looks_like_a_dialog_is_none_without_its_mark_and_hint() {
        assert_eq!(seen("Do you want to proceed?\n 1. Yes\n 2. No\n"), None);
        assert_eq!(seen("Do you want to proceed?\n 1. Yes\n 2. No\n Esc to cancel\n"), None);
        assert_eq!(seen("Do you want to proceed?\n ❯ 1. Yes\n 3. No\n Esc to cancel\n"), None);
        assert_eq!(seen("Do you want to proceed?\n ❯ 1. Yes\n 2. No\n Esc to cancel\na\nb\nc\n"), None);
    }
}
