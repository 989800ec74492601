//! Dialogs on a screen: options, one of them marked. Most are numbered, and their numbers choose.

use coop_api::{AskKind, AskOption, OptionKind};
use regex::Captures;

use super::{Rules, is_rule};

/// A dialog's last line is at most this many lines with something on them away from the bottom.
const BELOW_DIALOG: usize = 2;
/// How many lines above the options belong to a dialog at most, where neither a frame nor a line across shows its top.
const HEADING: usize = 24;
/// What belongs to an option stands below it, and this many columns in at least.
const INDENT: usize = 4;
/// The same where several can be chosen.
const INDENT_TICKED: usize = 2;
/// What stands before an option where several can be chosen.
const TICKS: [(&str, bool); 3] = [("[ ]", false), ("[✔]", true), ("[x]", true)];

/// What stands at a list of which not all can be seen.
const SCROLL: [&str; 2] = ["▲", "▼"];

/// Whether it is known from elsewhere that there is a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// It is not: the dialog must have its hint below it.
    Needed,
    /// It is, and some have no hint.
    Known,
}

/// How an option is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choosing {
    /// By the number that stands before it.
    Number,
    /// By Enter, once the mark stands before it.
    Mark,
}

/// Options on a screen, one of them marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dialog {
    pub(crate) kind: AskKind,
    pub(crate) choosing: Choosing,
    /// The lines above the options.
    pub(crate) heading: Vec<String>,
    pub(crate) options: Vec<DialogOption>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DialogOption {
    /// Its number; without one, its place from the top.
    pub(crate) number: char,
    pub(crate) label: String,
    /// The rows below it: the rest of a long label, or what it means.
    pub(crate) rest: Option<String>,
    /// What choosing it does, if its label and all that belongs to it tell.
    pub(crate) kind: Option<OptionKind>,
    /// Whether it is chosen, where several can be.
    pub(crate) ticked: Option<bool>,
    pub(crate) is_marked: bool,
}

/// A numbered row, wherever it stands, or a row of options without numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) number: char,
    pub(crate) is_marked: bool,
    pub(crate) ticked: Option<bool>,
    pub(crate) label: String,
}

impl Rules {
    /// Returns the dialog at the bottom of a screen.
    pub(crate) fn dialog(&self, lines: &[String], hint: Hint) -> Option<Dialog> {
        let rule = self.dialog.as_ref()?;
        if rule.framed {
            let inside = frame(lines)?;
            return self.dialog_above(&inside, inside.len());
        }
        let pattern = rule.hint.as_ref()?;
        let hinted = lines
            .iter()
            .rposition(|line| pattern.is_match(line))
            .filter(|hint| lines[hint + 1..].iter().filter(|line| !line.trim().is_empty()).count() <= BELOW_DIALOG);
        let found = hinted.and_then(|end| self.dialog_above(lines, end).or_else(|| self.list_above(lines, end)));
        match hint {
            Hint::Needed => found,
            Hint::Known => found.or_else(|| self.dialog_at_bottom(lines)),
        }
    }

    /// Returns the rows of a screen that are options, from the top.
    pub(crate) fn option_rows(&self, lines: &[String]) -> Vec<Row> {
        match self.dialog(lines, Hint::Needed) {
            Some(dialog) if dialog.choosing == Choosing::Mark => {
                let rows = dialog.options.into_iter().map(|option| Row {
                    number: option.number,
                    is_marked: option.is_marked,
                    ticked: None,
                    label: option.label,
                });
                rows.collect()
            }
            Some(_) | None => self.numbered_rows(lines),
        }
    }

    fn numbered_rows(&self, lines: &[String]) -> Vec<Row> {
        let row = |line: &String| {
            let (_, found) = self.numbered(line, None)?;
            let (ticked, label) = tick(found.name("label").map_or("", |text| text.as_str()));
            let number = found.name("number")?.as_str().chars().next()?;
            Some(Row { number, is_marked: found.name("mark").is_some(), ticked, label: label.to_owned() })
        };
        lines.iter().filter_map(row).collect()
    }

    /// Returns the dialog whose options are the last thing on a screen.
    fn dialog_at_bottom(&self, lines: &[String]) -> Option<Dialog> {
        let last = lines.iter().rposition(|line| !line.trim().is_empty())?;
        let is_option = self.numbered(&lines[last], None).is_some() || indent(&lines[last]) >= INDENT;
        is_option.then(|| self.dialog_above(lines, last + 1)).flatten()
    }

    fn dialog_above(&self, lines: &[String], end: usize) -> Option<Dialog> {
        let mut options = Vec::new();
        let mut marked = 0;
        let mut first = end;
        let mut least = INDENT;
        // The numbers stand below each other; what looks like an option further in is text of one.
        let mut column = None;
        for at in (end.saturating_sub(HEADING)..end).rev() {
            let Some((numbered_at, found)) = self.numbered(&lines[at], column) else {
                // Between two options stands only what belongs to one, or a line across.
                if options.is_empty() || is_rule(&lines[at]) || indent(&lines[at]) >= least {
                    continue;
                }
                break;
            };
            column = Some(numbered_at);
            let number = found.name("number").and_then(|text| text.as_str().chars().next())?;
            let (ticked, label) = tick(found.name("label").map_or("", |text| text.as_str()));
            let label = label.to_owned();
            if ticked.is_some() {
                least = INDENT_TICKED;
            }
            let rest = self.rest(&lines[at + 1..end], column);
            // A label that goes on in the next row may mean something else than its beginning.
            let whole = rest.as_ref().map_or_else(|| label.clone(), |rest| format!("{label} {rest}"));
            let kind = self.option_kind(&whole);
            let is_marked = found.name("mark").is_some();
            marked += usize::from(is_marked);
            options.push(DialogOption { number, label, rest, kind, ticked, is_marked });
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
        let (kind, heading) = self.heading(&lines[..first])?;
        Some(Dialog { kind, choosing: Choosing::Number, heading, options })
    }

    /// Returns the options without numbers that end above a row. They stand below each other, the marked one behind its mark.
    fn list_above(&self, lines: &[String], end: usize) -> Option<Dialog> {
        let mark = self.dialog.as_ref()?.mark?;
        let last = lines[..end].iter().rposition(|line| !line.trim().is_empty())?;
        let is_marked = |line: &str| line.trim_start().starts_with(mark);
        let label = |line: &str| line.trim_start().trim_start_matches(mark).trim().to_owned();
        let column = |line: &str| {
            let bare = line.trim_start().trim_start_matches(mark).trim_start();
            line.chars().count() - bare.chars().count()
        };
        let block =
            lines[..=last].iter().rposition(|line| line.trim().is_empty() || is_rule(line)).map_or(0, |at| at + 1);
        if lines[block..=last].iter().any(|line| self.numbered(line, None).is_some()) {
            return None;
        }
        let marked_at = (block..=last).find(|at| is_marked(&lines[*at]))?;
        let labels = column(&lines[marked_at]);
        // What stands further out than the labels belongs to the heading.
        let first = (block..=last).rev().take_while(|at| column(&lines[*at]) >= labels).last()?;
        let mut options: Vec<DialogOption> = Vec::new();
        for line in &lines[first..=last] {
            match options.last_mut() {
                Some(option) if column(line) > labels => {
                    let rest = option.rest.get_or_insert_default();
                    rest.push_str(if rest.is_empty() { "" } else { " " });
                    rest.push_str(line.trim());
                }
                _ => {
                    let number = char::from_digit(options.len() as u32 + 1, 10).filter(|number| *number != '0')?;
                    let (label, is_marked) = (label(line), is_marked(line));
                    options.push(DialogOption { number, label, rest: None, kind: None, ticked: None, is_marked });
                }
            }
        }
        for option in &mut options {
            let whole =
                option.rest.as_ref().map_or_else(|| option.label.clone(), |rest| format!("{} {rest}", option.label));
            option.kind = self.option_kind(&whole);
        }
        if options.len() < 2 || options.iter().filter(|option| option.is_marked).count() != 1 {
            return None;
        }
        let (kind, heading) = self.heading(&lines[..first])?;
        Some(Dialog { kind, choosing: Choosing::Mark, heading, options })
    }

    fn option_kind(&self, label: &str) -> Option<OptionKind> {
        self.options.iter().find(|(_, pattern)| pattern.is_match(label)).map(|(kind, _)| *kind)
    }

    /// Returns which ask the rows above the options are, and what they say.
    fn heading(&self, above: &[String]) -> Option<(AskKind, Vec<String>)> {
        let top = above.iter().rposition(|line| is_rule(line)).map(|rule| rule + 1);
        let is_framed = self.dialog.as_ref().is_some_and(|rule| rule.framed);
        let first = top.unwrap_or(if is_framed { 0 } else { above.len().saturating_sub(HEADING) });
        let mut heading = filled_rows(&above[first..]);
        if is_framed {
            heading = filled_rows(&heading.iter().map(|line| unboxed(line).to_owned()).collect::<Vec<_>>());
        }
        let text = heading.join("\n");
        let kind = self.asks.iter().find(|(_, pattern)| pattern.is_match(&text)).map(|(kind, _)| *kind)?;
        Some((kind, heading))
    }

    /// Returns a row's option and the column of its number, which is that of the others.
    fn numbered<'a>(&self, line: &'a str, others: Option<usize>) -> Option<(usize, Captures<'a>)> {
        let found = self.dialog.as_ref()?.option.captures(line)?;
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

    /// Tells whether several options can be chosen.
    pub(crate) fn is_multi_select(&self) -> bool {
        self.options.iter().any(|option| option.ticked.is_some())
    }
}

/// Returns the rows that have something on them, trimmed. A box counts as the same whether it is ticked or not: what a person
/// has filled in is not part of what is asked.
pub fn filled_rows(rows: &[String]) -> Vec<String> {
    let rows = rows.iter().map(|line| line.trim().replace('☒', "☐"));
    rows.filter(|line| !line.is_empty()).collect()
}

/// Takes what shows whether an option is chosen off its label.
fn tick(label: &str) -> (Option<bool>, &str) {
    let found = TICKS.iter().find_map(|(mark, ticked)| Some((*ticked, label.strip_prefix(mark)?)));
    found.map_or((None, label), |(ticked, rest)| (Some(ticked), rest.trim_start()))
}

/// Returns the rows inside the frame that ends a screen. Its top may be off the screen.
fn frame(lines: &[String]) -> Option<Vec<String>> {
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
    let bare = line.strip_prefix('│').and_then(|rest| rest.strip_suffix('│')).unwrap_or(line).trim();
    let is_edge = bare.starts_with(['╭', '╰']) && bare.ends_with(['╮', '╯']);
    if is_edge || SCROLL.contains(&bare) { "" } else { bare }
}

/// Returns how far in a row's text begins; a row without text has none.
fn indent(line: &str) -> usize {
    let text = line.trim_start();
    if text.is_empty() { 0 } else { line.chars().count() - text.chars().count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claude() -> Rules {
        Rules::parse(include_str!("../../rules/claude.toml")).expect("rules")
    }

    fn seen(screen: &str) -> Option<String> {
        let lines: Vec<_> = screen.lines().map(str::to_owned).collect();
        let dialog = claude().dialog(&lines, Hint::Needed)?;
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
        let rules = Rules::parse(include_str!("../../rules/gemini.toml")).expect("rules");
        let seen = |screen: &str| {
            let lines: Vec<_> = screen.lines().map(str::to_owned).collect();
            let dialog = rules.dialog(&lines, Hint::Needed);
            dialog.map(|dialog| (dialog.kind, dialog.heading, dialog.options.len()))
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
        let endless = Rules::parse("version = 1\nagent = \"x\"\n[dialog]\noption = '.'");
        assert!(matches!(endless, Err(super::super::RuleError::NoEnd)));
    }

    #[test]
    fn text_that_looks_like_a_dialog_is_none_without_its_mark_and_hint() {
        assert_eq!(seen("Do you want to proceed?\n 1. Yes\n 2. No\n"), None);
        assert_eq!(seen("Do you want to proceed?\n 1. Yes\n 2. No\n Esc to cancel\n"), None);
        assert_eq!(seen("Do you want to proceed?\n ❯ 1. Yes\n 3. No\n Esc to cancel\n"), None);
        assert_eq!(seen("Do you want to proceed?\n ❯ 1. Yes\n 2. No\n Esc to cancel\na\nb\nc\n"), None);
    }

    /// Nothing below the options says that they are some; the agent's status file does.
    #[test]
    fn a_dialog_without_a_hint_counts_only_if_it_is_known_to_be_there() {
        let lines: Vec<_> = "text\n────────────────────\n  Switch model?\n\n  ❯ 1. Yes, switch\n    2. No, go back\n"
            .lines()
            .map(str::to_owned)
            .collect();
        assert_eq!(claude().dialog(&lines, Hint::Needed), None);
        assert_eq!(claude().dialog(&lines, Hint::Known).map(|dialog| dialog.options.len()), Some(2));
        let more: Vec<_> = lines.iter().cloned().chain(["● and on it goes".to_owned()]).collect();
        assert_eq!(claude().dialog(&more, Hint::Known), None);
    }
}
