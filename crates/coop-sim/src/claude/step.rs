//! What the agent does, step by step: written in a scenario, or between `[[` and `]]` in the prompt.
//!
//! ```text
//! [[text:T]] [[think:T]] [[bash:CMD]] [[write:PATH|CONTENT]] [[read:PATH]] [[edit:PATH|OLD|NEW]]
//! [[ask]] [[ask2]] [[askmulti]] [[plan]] [[agent:PROMPT]] [[bg:CMD]]
//! [[slow:SECONDS]] [[wait:SECONDS]] [[hang]] [[gate:NAME]]
//! [[err:STATUS]] [[err:STATUSxTIMES]] [[crash]] [[exit:N]] [[flood:BYTES]] [[altscreen]]
//! ```
//!
//! Anything else between double brackets is plain text.

use serde::{Deserialize, Serialize};

/// One step of a turn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Step {
    /// Says something; the last one of a turn is its answer.
    Text(String),
    /// Thinks aloud.
    Think(String),
    Bash(String),
    Write {
        path: String,
        content: String,
    },
    Read(String),
    Edit {
        path: String,
        old: String,
        new: String,
    },
    /// Puts questions to the user.
    Ask(Vec<Question>),
    /// Presents a plan and asks for approval.
    Plan(String),
    /// Hands a prompt to a sub-agent.
    Agent(String),
    /// Starts a command and does not wait for it.
    Bg(String),
    /// Streams `tick N.` twice a second, for so many seconds.
    Slow(f64),
    /// Works silently for so many seconds.
    Wait(f64),
    /// Works until interrupted.
    Hang,
    /// Waits until somebody opens the FIFO of that name for writing.
    Gate(String),
    /// The model refuses: so many times and then no more, or for good.
    Err {
        status: u16,
        times: Option<u32>,
    },
    /// Dies without a word.
    Crash,
    /// Ends the process.
    Exit(i32),
    /// Prints so many bytes.
    Flood(usize),
    /// Shows the alternate screen until the turn ends.
    Altscreen,
}

/// One question of `AskUserQuestion`, spelled as the tool spells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) question: String,
    pub(crate) header: String,
    pub(crate) options: Vec<Choice>,
    #[serde(rename = "multiSelect", default)]
    pub(crate) multi_select: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choice {
    pub(crate) label: String,
    #[serde(default)]
    pub(crate) description: String,
}

/// The directives of a text, in order. Brackets inside one must balance: a sub-agent's prompt may hold its own.
pub(crate) fn directives(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("[[") {
        rest = &rest[start + 2..];
        if let Some(length) = body_length(rest)
            && let Some(step) = directive(&rest[..length])
        {
            steps.push(step);
            rest = &rest[length + 2..];
        }
    }
    steps
}

/// How far it is to the `]]` that closes what was opened just before.
fn body_length(text: &str) -> Option<usize> {
    let mut depth = 1;
    let mut at = 0;
    while let Some(offset) = text[at..].find(['[', ']']) {
        at += offset;
        if text[at..].starts_with("[[") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("]]") {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
            at += 2;
        } else {
            at += 1;
        }
    }
    None
}

fn directive(body: &str) -> Option<Step> {
    let (name, argument) = body.split_once(':').unwrap_or((body, ""));
    let text = || argument.to_owned();
    Some(match name {
        "text" => Step::Text(text()),
        "think" => Step::Think(text()),
        "bash" => Step::Bash(text()),
        "write" => {
            let (path, content) = argument.split_once('|')?;
            Step::Write { path: path.to_owned(), content: content.to_owned() }
        }
        "read" => Step::Read(text()),
        "edit" => {
            let (path, change) = argument.split_once('|')?;
            let (old, new) = change.split_once('|')?;
            Step::Edit { path: path.to_owned(), old: old.to_owned(), new: new.to_owned() }
        }
        "ask" => Step::Ask(vec![database()]),
        "ask2" => Step::Ask(vec![database(), language()]),
        "askmulti" => Step::Ask(vec![features()]),
        "plan" => Step::Plan("# Plan\n\n1. Do the first thing\n2. Do the second thing\n".to_owned()),
        "agent" => Step::Agent(text()),
        "bg" => Step::Bg(text()),
        "slow" => Step::Slow(argument.parse().ok()?),
        "wait" => Step::Wait(argument.parse().ok()?),
        "hang" => Step::Hang,
        "gate" => Step::Gate(text()),
        "err" => match argument.split_once('x') {
            Some((status, times)) => Step::Err { status: status.parse().ok()?, times: Some(times.parse().ok()?) },
            None => Step::Err { status: argument.parse().ok()?, times: None },
        },
        "crash" => Step::Crash,
        "exit" => Step::Exit(argument.parse().ok()?),
        "flood" => Step::Flood(argument.parse().ok()?),
        "altscreen" => Step::Altscreen,
        _ => return None,
    })
}

fn database() -> Question {
    let options = [("PostgreSQL", "Robust (Recommended)"), ("SQLite", "Simple file"), ("MySQL", "Popular")];
    question("Which database should we use?", "Database", &options)
}

fn language() -> Question {
    question("Which language?", "Language", &[("Rust", "Fast"), ("Go", "Simple")])
}

fn features() -> Question {
    let options = [("Login", ""), ("Search", ""), ("Export", "")];
    Question { multi_select: true, ..question("Which features?", "Features", &options) }
}

fn question(question: &str, header: &str, options: &[(&str, &str)]) -> Question {
    let choice =
        |(label, description): &(&str, &str)| Choice { label: (*label).into(), description: (*description).into() };
    Question {
        question: question.into(),
        header: header.into(),
        options: options.iter().map(choice).collect(),
        multi_select: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read_in_order_and_text_is_left_alone() {
        let steps = directives("do [[bash:ls -l]] then [[write:a.txt|x|y]] [[nonsense]] [[err:529x2]] [[hang]] [[open");
        assert_eq!(
            steps,
            vec![
                Step::Bash("ls -l".into()),
                Step::Write { path: "a.txt".into(), content: "x|y".into() },
                Step::Err { status: 529, times: Some(2) },
                Step::Hang,
            ]
        );
    }

    #[test]
    fn a_directive_may_hold_directives() {
        let steps = directives("[[agent:do [[bash:touch x]] now]] [[hang]]");
        assert_eq!(steps, vec![Step::Agent("do [[bash:touch x]] now".into()), Step::Hang]);
    }

    #[test]
    fn ask2_asks_two_questions() {
        let steps = directives("[[ask2]]");
        let [Step::Ask(questions)] = steps.as_slice() else { panic!("{steps:?}") };
        let headers: Vec<&str> = questions.iter().map(|question| question.header.as_str()).collect();
        assert_eq!(headers, ["Database", "Language"]);
    }
}
