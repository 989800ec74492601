//! What a prompt tells the model to do, between double square brackets.
//!
//! ```text
//! directive = "[[" name [ ":" argument ] "]]"
//!
//! [[text:WORDS]]            the last answer of the turn
//! [[bash:COMMAND]]          call the shell
//! [[write:PATH|CONTENT]]    [[read:PATH]]   [[edit:PATH|OLD|NEW]]
//! [[ask]] [[ask2]] [[askmulti]]             one question, two, one with several answers
//! [[plan]]                  show a plan and ask for consent
//! [[agent:PROMPT]]          start a sub-agent
//! [[tool NAME JSON]]        call any tool
//! [[slow:SECONDS]]          talk for so long, four words a second
//! [[hang]]                  begin to answer, then say nothing
//! [[err:STATUS]]            fail; [[err:529x2]] twice, [[err:429x1:retry=3]] with `retry-after: 3`
//! [[cut]]                   close the connection in the middle of the answer; [[cutx1]] once
//! [[usage:IN,OUT,CACHE_READ,CACHE_WRITE]]   the tokens to tell
//! ```
//!
//! Brackets nest, so that a sub-agent can be given directives of its own. A name that is not listed is plain text.

use std::time::Duration;

use serde_json::Value;

use super::fault::Fault;
use super::script::Usage;

/// One directive.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Directive {
    Act(Act),
    Text(String),
    Slow(Duration),
    Hang,
    Fail(Fault, Times),
    Cut(Times),
    Usage(Usage),
    /// A known name with an argument that makes no sense.
    Bad(String),
}

/// Something that needs a tool of the agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    Shell(String),
    Write(FileWrite),
    Read(String),
    Edit(FileEdit),
    Ask(&'static [Question]),
    Plan(&'static str),
    Agent(String),
    Tool(String, Value),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileWrite {
    pub(crate) path: String,
    pub(crate) content: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileEdit {
    pub(crate) path: String,
    pub(crate) old: String,
    pub(crate) new: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) header: &'static str,
    pub(crate) question: &'static str,
    /// Labels and what they mean.
    pub(crate) options: &'static [(&'static str, &'static str)],
    pub(crate) answers: Answers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    One,
    Many,
}

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    Always,
    Only(u32),
}

/// Longer talk is a mistake in a test.
const MAX_SLOW: f64 = 3600.0;

const DATABASE: Question = Question {
    header: "Database",
    question: "Which database should we use?",
    options: &[("PostgreSQL", "Robust (Recommended)"), ("SQLite", "Simple file"), ("MySQL", "Popular")],
    answers: Answers::One,
};
const LANGUAGE: Question = Question {
    header: "Language",
    question: "Which language?",
    options: &[("Rust", "Fast"), ("Go", "Simple")],
    answers: Answers::One,
};
const FEATURES: Question = Question {
    header: "Features",
    question: "Which features?",
    options: &[("Login", "Sign in"), ("Search", "Find things"), ("Export", "Save to a file")],
    answers: Answers::Many,
};
const PLAN: &str = "# Plan\n\n1. Do the first thing\n2. Do the second thing\n";

/// Returns the directives of a text in their order.
pub(crate) fn parse(text: &str) -> Vec<Directive> {
    bracketed(text).into_iter().filter_map(directive).collect()
}

/// Returns what stands between outer double brackets.
fn bracketed(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut starts = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let closing = rest.bytes().take_while(|byte| *byte == b']').count();
        if rest.starts_with("[[") {
            starts.push(at + 2);
            at += 2;
        } else if closing >= 2 && closing % 2 == 0 {
            if let Some(start) = starts.pop().filter(|_| starts.is_empty()) {
                found.extend(text.get(start..at));
            }
            at += 2;
        } else {
            // The first of an odd row of brackets belongs to what they enclose: `[[bash:echo $a[0]]]`.
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

fn directive(inside: &str) -> Option<Directive> {
    let (name, argument) = match inside.strip_prefix("tool ") {
        Some(call) => ("tool", call),
        None => inside.split_once(':').unwrap_or((inside, "")),
    };
    let (name, suffix) = match name.strip_prefix("cut") {
        Some(suffix) => ("cut", suffix),
        None => (name, ""),
    };
    let understood = match name {
        "text" => Some(Directive::Text(argument.to_owned())),
        "bash" => Some(Directive::Act(Act::Shell(argument.to_owned()))),
        "write" => write(argument),
        "read" => Some(Directive::Act(Act::Read(argument.to_owned()))),
        "edit" => edit(argument),
        "ask" => Some(Directive::Act(Act::Ask(&[DATABASE]))),
        "ask2" => Some(Directive::Act(Act::Ask(&[DATABASE, LANGUAGE]))),
        "askmulti" => Some(Directive::Act(Act::Ask(&[FEATURES]))),
        "plan" => Some(Directive::Act(Act::Plan(PLAN))),
        "agent" => Some(Directive::Act(Act::Agent(argument.to_owned()))),
        "tool" => tool(argument),
        "slow" => slow(argument),
        "hang" => Some(Directive::Hang),
        "err" => fail(argument),
        "cut" => times(suffix).map(Directive::Cut),
        "usage" => usage(argument),
        _ => return None,
    };
    Some(understood.unwrap_or_else(|| Directive::Bad(inside.to_owned())))
}

fn write(argument: &str) -> Option<Directive> {
    let (path, content) = argument.split_once('|')?;
    Some(Directive::Act(Act::Write(FileWrite { path: path.to_owned(), content: content.to_owned() })))
}

fn edit(argument: &str) -> Option<Directive> {
    let mut parts = argument.splitn(3, '|').map(str::to_owned);
    let (path, old, new) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Directive::Act(Act::Edit(FileEdit { path, old, new })))
}

fn tool(argument: &str) -> Option<Directive> {
    let (name, input) = argument.split_once(' ')?;
    Some(Directive::Act(Act::Tool(name.to_owned(), serde_json::from_str(input).ok()?)))
}

fn slow(argument: &str) -> Option<Directive> {
    let seconds: f64 = argument.parse().ok()?;
    (0.0..=MAX_SLOW).contains(&seconds).then(|| Directive::Slow(Duration::from_secs_f64(seconds)))
}

fn fail(argument: &str) -> Option<Directive> {
    let (what, retry) = argument.split_once(':').unwrap_or((argument, ""));
    let status = what.get(..3)?.parse().ok().filter(|status| (400..600).contains(status))?;
    let retry_after = match retry {
        "" => None,
        retry => Some(retry.strip_prefix("retry=")?.parse().ok()?),
    };
    Some(Directive::Fail(Fault { status, kind: None, message: None, retry_after }, times(what.get(3..)?)?))
}

/// Reads `x2`; nothing means always.
fn times(suffix: &str) -> Option<Times> {
    match suffix {
        "" => Some(Times::Always),
        suffix => suffix.strip_prefix('x')?.parse().ok().map(Times::Only),
    }
}

fn usage(argument: &str) -> Option<Directive> {
    let numbers: Vec<u64> = argument.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
    let [input, output, cache_read, cache_write] = numbers[..] else { return None };
    Some(Directive::Usage(Usage { input, output, cache_read, cache_write }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(command: &str) -> Directive {
        Directive::Act(Act::Shell(command.to_owned()))
    }

    fn failing(status: u16, retry_after: Option<u64>) -> Fault {
        Fault { status, kind: None, message: None, retry_after }
    }

    #[test]
    fn directives_stand_anywhere_in_a_text() {
        let write = FileWrite { path: "/a b".to_owned(), content: "x|y\nz".to_owned() };
        let edit = FileEdit { path: "/f".to_owned(), old: "a".to_owned(), new: "b|c".to_owned() };
        assert_eq!(
            parse("é [[bash:echo 1: 2]] then [[write:/a b|x|y\nz]][[edit:/f|a|b|c]] [[read:/f]] [[text:Done.]]"),
            vec![
                shell("echo 1: 2"),
                Directive::Act(Act::Write(write)),
                Directive::Act(Act::Edit(edit)),
                Directive::Act(Act::Read("/f".to_owned())),
                Directive::Text("Done.".to_owned()),
            ]
        );
    }

    #[test]
    fn faults_say_how_often_they_happen() {
        assert_eq!(
            parse("[[err:529]] [[err:529x2]] [[err:429x1:retry=3]] [[cut]] [[cutx1]] [[slow:0.5]] [[hang]]"),
            vec![
                Directive::Fail(failing(529, None), Times::Always),
                Directive::Fail(failing(529, None), Times::Only(2)),
                Directive::Fail(failing(429, Some(3)), Times::Only(1)),
                Directive::Cut(Times::Always),
                Directive::Cut(Times::Only(1)),
                Directive::Slow(Duration::from_millis(500)),
                Directive::Hang,
            ]
        );
    }

    #[test]
    fn brackets_nest_and_belong_to_what_they_enclose() {
        assert_eq!(
            parse("[[agent:look [[bash:ls]]]] [[bash:[[ -f x ]] && echo $a[0]]]"),
            vec![Directive::Act(Act::Agent("look [[bash:ls]]".to_owned())), shell("[[ -f x ]] && echo $a[0]"),]
        );
    }

    #[test]
    fn a_tool_is_called_with_json() {
        let input = serde_json::json!({ "list": [[1]], "text": "a b" });
        assert_eq!(
            parse(r#"[[tool mcp__coop__ping {"list":[[1]],"text":"a b"}]]"#),
            vec![Directive::Act(Act::Tool("mcp__coop__ping".to_owned(), input))]
        );
    }

    #[test]
    fn what_is_no_directive_is_left_alone() {
        assert_eq!(parse("a [b] [[ -f x ]] [[note]] [[bash:open ]] ]] [["), vec![shell("open ")]);
    }

    #[test]
    fn a_directive_that_makes_no_sense_is_told() {
        let bad = |text: &str| Directive::Bad(text.to_owned());
        assert_eq!(
            parse("[[err:soon]] [[err:200]] [[slow:-1]] [[write:x]] [[usage:1,2]] [[cutter]]"),
            vec![bad("err:soon"), bad("err:200"), bad("slow:-1"), bad("write:x"), bad("usage:1,2"), bad("cutter")]
        );
    }
}
