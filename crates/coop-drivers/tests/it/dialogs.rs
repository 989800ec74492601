//! Dialogs as the agent might show them, with what their options do in truth.

use coop_api::Screen;
use proptest::prelude::*;
use proptest::sample::select;

use crate::screens::screen;

/// What choosing an option does in truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    AllowOnce,
    AllowAlways,
    Reject,
    /// Neither: an answer to a question.
    Choice,
}

/// A dialog on a screen. Two are the same ask if they have the same heading and options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dialog {
    pub(crate) heading: Vec<String>,
    pub(crate) options: Vec<Choice>,
    pub(crate) surroundings: Surroundings,
}

/// An option with what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) truth: Truth,
    /// Its label, and how it goes on in the rows below.
    rows: Vec<String>,
}

/// What does not belong to the ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Surroundings {
    above: Vec<String>,
    below: Vec<String>,
    hint: String,
    marked: Vec<usize>,
    numbering: Numbering,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    /// 1, 2, 3.
    Real,
    /// 1, 3, 5.
    WithGaps,
    /// 2, 3, 4.
    FromTwo,
    /// 3, 2, 1.
    Backwards,
}

impl Numbering {
    fn number(self, at: usize, count: usize) -> usize {
        match self {
            Self::Real => at + 1,
            Self::WithGaps => at * 2 + 1,
            Self::FromTwo => at + 2,
            Self::Backwards => count - at,
        }
    }
}

impl Dialog {
    /// Returns what typing a digit does; nothing if there is no option of that number.
    pub(crate) fn truth_of(&self, digit: char) -> Option<Truth> {
        let count = self.options.len();
        let numbered = |at: usize| char::from_digit(self.surroundings.numbering.number(at, count) as u32, 10);
        (0..count).find(|at| numbered(*at) == Some(digit)).map(|at| self.options[at].truth)
    }

    /// Tells whether both ask the same.
    pub(crate) fn is_same_ask(&self, other: &Self) -> bool {
        let told = |dialog: &Self| {
            let rows = dialog.heading.iter().map(|row| row.trim().to_owned());
            rows.filter(|row| !row.is_empty()).collect::<Vec<_>>()
        };
        let numbering = |dialog: &Self| dialog.surroundings.numbering;
        told(self) == told(other) && self.options == other.options && numbering(self) == numbering(other)
    }

    pub(crate) fn rows(&self) -> Vec<String> {
        let around = &self.surroundings;
        let mut rows = around.above.clone();
        rows.push("─".repeat(60));
        rows.extend(self.heading.iter().map(|row| format!(" {row}")));
        for (at, option) in self.options.iter().enumerate() {
            let mark = if around.marked.contains(&at) { '❯' } else { ' ' };
            let number = around.numbering.number(at, self.options.len());
            let (label, rest) = option.rows.split_first().expect("a label");
            rows.push(format!(" {mark} {number}. {label}"));
            rows.extend(rest.iter().map(|row| format!("      {row}")));
        }
        rows.extend([String::new(), format!(" {}", around.hint)]);
        rows.extend(around.below.iter().cloned());
        rows
    }

    pub(crate) fn screen(&self) -> Screen {
        let rows = self.rows();
        screen(rows.iter().map(String::as_str))
    }
}

/// Labels that the agent has, or had in other versions.
const REAL: [(&str, Truth); 24] = [
    ("Yes", Truth::AllowOnce),
    ("Yes, manually approve edits", Truth::AllowOnce),
    ("Yes, I trust this folder", Truth::AllowOnce),
    ("Yes, I accept", Truth::AllowOnce),
    ("Yes, proceed", Truth::AllowOnce),
    ("Continue without these settings", Truth::AllowOnce),
    ("Yes, and use auto mode", Truth::AllowAlways),
    ("Yes, and auto-accept edits", Truth::AllowAlways),
    ("Yes, and bypass permissions", Truth::AllowAlways),
    ("Yes, clear context and auto-accept edits (shift+tab)", Truth::AllowAlways),
    ("Yes, and always allow access to project/ from this project", Truth::AllowAlways),
    ("Yes, and allow access to tmp/ and build/ from this project", Truth::AllowAlways),
    ("Yes, and don't ask again for git commit commands in /home/dev/project", Truth::AllowAlways),
    ("Yes, and don’t ask again", Truth::AllowAlways),
    ("Yes, allow all edits during this session (shift+tab)", Truth::AllowAlways),
    ("Yes, and allow Claude to edit its own settings for this session", Truth::AllowAlways),
    ("No", Truth::Reject),
    ("No, exit", Truth::Reject),
    ("No (recommended)", Truth::Reject),
    ("No, keep planning", Truth::Reject),
    ("No, and tell Claude what to do differently (esc)", Truth::Reject),
    ("Tell Claude what to change", Truth::Reject),
    ("Exit and fix manually", Truth::Reject),
    ("PostgreSQL", Truth::Choice),
];

/// Labels that it might have one day.
const OTHER: [(&str, Truth); 25] = [
    ("Allow", Truth::AllowOnce),
    ("Accept", Truth::AllowOnce),
    ("Proceed anyway", Truth::AllowOnce),
    ("Sure, go ahead", Truth::AllowOnce),
    ("OK", Truth::AllowOnce),
    ("y", Truth::AllowOnce),
    ("Not again this long: run it now", Truth::AllowOnce),
    ("Now", Truth::AllowOnce),
    ("Nothing to object", Truth::AllowOnce),
    ("No, continue and approve it this once", Truth::AllowOnce),
    ("Exit plan mode and start coding", Truth::AllowOnce),
    ("Tell Claude to go on", Truth::AllowOnce),
    ("Don't worry, allow it", Truth::AllowOnce),
    ("Yes, for everything", Truth::AllowAlways),
    ("Yes, and remember this", Truth::AllowAlways),
    ("Yes and never bother me again", Truth::AllowAlways),
    ("YES to all", Truth::AllowAlways),
    ("No need to ask again", Truth::AllowAlways),
    ("No limits: allow everything", Truth::AllowAlways),
    ("No, always allow it", Truth::AllowAlways),
    ("Always", Truth::AllowAlways),
    ("Deny", Truth::Reject),
    ("Cancel", Truth::Reject),
    ("Don't allow", Truth::Reject),
    ("Never", Truth::Reject),
];

/// What may stand below an option, or after its label.
const ADDED: [&str; 8] = [
    "Robust (Recommended)",
    "shift+tab to approve with this feedback",
    "2. No",
    "1. Yes",
    "4. No",
    "❯ 3. No",
    "and do not ask again",
    "(esc)",
];

const HEADINGS: [&str; 12] = [
    "Do you want to proceed?",
    "Do you want to make this edit to main.rs?",
    "Do you want to create no.txt?",
    "Would you like to proceed?",
    "Exit plan mode?",
    "Do you want to use this API key?",
    "Quick safety check: Is this a project you created or one you trust?",
    "WARNING: Claude Code running in Bypass Permissions mode",
    "Settings Error",
    "Which database should we use?",
    "1. Do the first thing",
    "❯ 2. No",
];

const AROUND: [&str; 9] = [
    "● Bash(touch perm.txt)",
    "  ⎿  Waiting…",
    "❯ 1. Yes",
    "   2. No",
    " Esc to cancel",
    " Do you want to proceed?",
    "❯ n",
    "",
    "✻ Crunched for 1s",
];

/// The agent shows at most its status there; with a hint it would be a dialog of its own.
const BELOW: [&str; 5] = ["", "  ? for shortcuts", "❯ 1. Yes", "   2. No", "  paste again to expand"];

const HINTS: [&str; 5] = [
    "Esc to cancel · Tab to amend · ctrl+e to explain",
    "Enter to confirm · Esc to cancel",
    "Enter to select · ↑/↓ to navigate · Esc to cancel",
    "ctrl+g to edit in  Vim  · ~/.claude/plans/p.md",
    "",
];

pub(crate) fn dialog() -> impl Strategy<Value = Dialog> {
    (heading(), options(), surroundings()).prop_map(|(heading, options, surroundings)| Dialog {
        heading,
        options,
        surroundings,
    })
}

/// Returns dialogs that may have come in the place of another one, or that it may have become.
pub(crate) fn successor(of: Dialog) -> impl Strategy<Value = Dialog> {
    let unchanged = of.clone();
    let (elsewhere, reheaded, reordered, relabelled) = (of.clone(), of.clone(), of.clone(), of);
    let count = relabelled.options.len();
    prop_oneof![
        Just(unchanged),
        surroundings().prop_map(move |surroundings| Dialog { surroundings, ..elsewhere.clone() }),
        heading().prop_map(move |heading| Dialog { heading, ..reheaded.clone() }),
        Just(reordered.options.clone()).prop_shuffle().prop_map(move |options| Dialog { options, ..reordered.clone() }),
        (0..count, choice()).prop_map(move |(at, choice)| {
            let mut dialog = relabelled.clone();
            dialog.options[at] = choice;
            dialog
        }),
        dialog(),
    ]
}

fn heading() -> impl Strategy<Value = Vec<String>> {
    let known = || select(HEADINGS.to_vec()).prop_map(str::to_owned);
    let body = prop::collection::vec(prop_oneof![Just(String::new()), known(), "[ -~]{0,60}"], 0..4);
    let last =
        prop_oneof![6 => select(HEADINGS[..5].to_vec()).prop_map(str::to_owned), 2 => known(), 1 => "[ -~]{0,40}"];
    (body, last).prop_map(|(mut rows, last)| {
        rows.push(last);
        // A row of lines would begin another heading, and blank ends are not to be seen.
        rows.iter_mut().for_each(|row| *row = row.replace('-', "+").trim_end().to_owned());
        rows
    })
}

fn options() -> impl Strategy<Value = Vec<Choice>> {
    let usual = select(vec![
        vec![0, 10, 16],
        vec![6, 1, 21],
        vec![0, 16],
        vec![0, 18],
        vec![17, 3],
        vec![22, 5],
        vec![0, 14, 20],
    ])
    .prop_map(|options| options.into_iter().map(|at: usize| Choice::new(REAL[at])).collect());
    prop_oneof![1 => usual, 3 => prop::collection::vec(choice(), 2..=5)]
}

impl Choice {
    fn new((label, truth): (&str, Truth)) -> Self {
        Self { truth, rows: vec![label.to_owned()] }
    }
}

fn choice() -> impl Strategy<Value = Choice> {
    let label = prop_oneof![3 => select(REAL.to_vec()), 1 => select(OTHER.to_vec())];
    let added = prop_oneof![6 => Just(None), 1 => select(ADDED.to_vec()).prop_map(Some)];
    (label, added, worded(), 4..100usize).prop_map(|((label, truth), added, worded, width)| {
        let mut rows = wrap(&worded(label), width);
        rows.extend(added.map(str::to_owned));
        Choice { truth, rows }
    })
}

/// Returns changes of a label that leave what it means.
fn worded() -> impl Strategy<Value = fn(&str) -> String> {
    let changes: [fn(&str) -> String; 7] = [
        |label| label.to_owned(),
        |label| label.to_lowercase(),
        |label| label.to_uppercase(),
        |label| format!("{label} (esc)"),
        |label| format!("{label}."),
        |label| format!("» {label}"),
        |label| label.replace(' ', "  "),
    ];
    prop_oneof![5 => Just(changes[0]), 2 => select(changes.to_vec())]
}

/// Breaks a label into rows at blanks, as a narrow terminal does.
fn wrap(label: &str, width: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for word in label.split(' ') {
        match rows.last_mut() {
            Some(row) if row.chars().count() + word.chars().count() < width => {
                row.push(' ');
                row.push_str(word);
            }
            _ => rows.push(word.to_owned()),
        }
    }
    rows
}

fn surroundings() -> impl Strategy<Value = Surroundings> {
    let rows = |from: &[&'static str], count: usize| {
        prop::collection::vec(select(from.to_vec()).prop_map(str::to_owned), 0..count)
    };
    let hint = prop_oneof![5 => select(HINTS[..4].to_vec()), 1 => select(HINTS.to_vec())];
    let marked = prop_oneof![6 => (0..3usize).prop_map(|at| vec![at]), 1 => prop::collection::vec(0..5usize, 0..3)];
    let numberings = [Numbering::Real, Numbering::WithGaps, Numbering::FromTwo, Numbering::Backwards];
    let numbering = prop_oneof![8 => Just(Numbering::Real), 1 => select(numberings.to_vec())];
    (rows(&AROUND, 6), rows(&BELOW, 4), hint, marked, numbering).prop_map(|(above, below, hint, marked, numbering)| {
        Surroundings { above, below, hint: hint.to_owned(), marked, numbering }
    })
}
