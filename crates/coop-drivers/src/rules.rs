//! What an agent's screen says, as data: a versioned file of patterns for each agent, which users can replace.

mod dialog;

use coop_api::{AskKind, OptionKind, PermissionMode, Screen};
use regex::Regex;
use serde::Deserialize;

pub use dialog::filled_rows;
pub(crate) use dialog::{Choosing, Dialog, Hint, Row};

/// The version of the format.
const VERSION: u32 = 1;

/// Why a file of rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// It is not what it should be.
    #[error("the screen rules cannot be read")]
    Format(#[from] toml::de::Error),
    /// It is of another version.
    #[error("the screen rules have version {found}; this coop knows version {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// It has a pattern that is none.
    #[error("the pattern {pattern:?} of the screen rules is wrong")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        source: regex::Error,
    },
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
    /// How dialogs look; without it there are none.
    dialog: Option<DialogRule>,
    asks: Vec<(AskKind, Regex)>,
    options: Vec<(OptionKind, Regex)>,
    modes: Vec<(PermissionMode, Regex)>,
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
    /// What stands before the option that Enter chooses, where options have no numbers.
    mark: Option<char>,
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
    #[serde(default)]
    dialog: DialogMarks,
    #[serde(default)]
    ask: Vec<AskRule>,
    #[serde(default)]
    option: Vec<OptionRule>,
    #[serde(default)]
    mode: Vec<ModeRule>,
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

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DialogMarks {
    option: Option<String>,
    hint: Option<String>,
    frame: bool,
    mark: Option<char>,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeRule {
    mode: PermissionMode,
    pattern: String,
}

fn regex(pattern: &str) -> Result<Regex, RuleError> {
    Regex::new(pattern).map_err(|source| RuleError::Pattern { pattern: pattern.to_owned(), source })
}

impl Rules {
    /// Reads a file of rules.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let file: File = toml::from_str(text)?;
        if file.version != VERSION {
            return Err(RuleError::Version { found: file.version });
        }
        let pattern = |text: Option<String>| text.map(|text| regex(&text)).transpose();
        let titles = [
            (TitleSays::Working, file.title.working),
            (TitleSays::Idle, file.title.idle),
            (TitleSays::Waiting, file.title.waiting),
        ];
        let DialogMarks { option, hint, frame, mark } = file.dialog;
        if option.is_some() && hint.is_none() && !frame {
            return Err(RuleError::NoEnd);
        }
        let hint = pattern(hint)?;
        Ok(Self {
            titles: titles
                .into_iter()
                .filter_map(|(says, text)| Some(regex(&text?).map(|pattern| (says, pattern))))
                .collect::<Result<_, _>>()?,
            prompt: pattern(file.screen.prompt)?,
            working: pattern(file.screen.working)?,
            error: pattern(file.screen.error)?,
            dialog: pattern(option)?.map(|option| DialogRule { option, hint, framed: frame, mark }),
            asks: file
                .ask
                .into_iter()
                .map(|rule| Ok((rule.kind, regex(&rule.pattern)?)))
                .collect::<Result<_, RuleError>>()?,
            options: file
                .option
                .into_iter()
                .map(|rule| Ok((rule.kind, regex(&rule.pattern)?)))
                .collect::<Result<_, RuleError>>()?,
            modes: file
                .mode
                .into_iter()
                .map(|rule| Ok((rule.mode, regex(&rule.pattern)?)))
                .collect::<Result<_, RuleError>>()?,
        })
    }

    /// Returns the permission mode that rows of a screen show: those below the input, where no agent's words stand.
    pub(crate) fn mode(&self, footer: &[String]) -> Option<PermissionMode> {
        let shown = |pattern: &Regex| footer.iter().any(|row| pattern.is_match(row));
        self.modes.iter().find(|(_, pattern)| shown(pattern)).map(|(mode, _)| *mode)
    }

    /// Tells whether a title shows that the agent works; nothing if titles say nothing.
    pub(crate) fn title_works(&self, title: &str) -> Option<bool> {
        let working = self.titles.iter().find(|(says, _)| *says == TitleSays::Working);
        working.map(|(_, pattern)| pattern.is_match(title))
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
}

/// Returns the rows of a screen.
pub(crate) fn rows(screen: &Screen) -> Vec<String> {
    screen.lines.iter().map(|line| line.plain().to_owned()).collect()
}

/// Tells whether each of these stands in a row, with single blanks, at or below the last row that has something.
pub(crate) fn shows_rows(screen: &Screen, wanted: &[String], below: &str) -> bool {
    let single_blanks = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = screen.lines.iter().map(|line| single_blanks(line.plain())).collect();
    let Some(from) = lines.iter().rposition(|line| line.contains(below)) else { return false };
    wanted.iter().all(|wanted| lines[from..].iter().any(|line| line.contains(&single_blanks(wanted))))
}

/// Tells whether a row is a line across the screen.
pub(crate) fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.chars().count() > 8 && line.chars().all(|c| matches!(c, '─' | '╌' | '━' | '▔' | '-'))
}
