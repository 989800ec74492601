//! The command line, flag for flag as the real one takes it.
//!
//! Variadic flags swallow what follows them up to the next flag, a prompt included, because the real ones do:
//! `--allowedTools=Bash -- "prompt"` is the way to write it.

use std::collections::VecDeque;

use super::ids::is_uuid;
use super::permission::PermissionMode;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Args {
    pub(crate) print: bool,
    pub(crate) version: bool,
    pub(crate) session_id: Option<String>,
    pub(crate) resume: Resume,
    pub(crate) fork: bool,
    pub(crate) settings: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<PermissionMode>,
    pub(crate) skip_permissions: bool,
    pub(crate) mcp_config: Vec<String>,
    pub(crate) allowed_tools: Vec<String>,
    pub(crate) disallowed_tools: Vec<String>,
    pub(crate) output: Format,
    pub(crate) input: Format,
    pub(crate) prompts_on_stdio: bool,
    pub(crate) partial_messages: bool,
    pub(crate) prompt: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Resume {
    #[default]
    No,
    Latest,
    Session(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
    StreamJson,
}

/// Why the command line is refused, in the real one's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

/// What a flag takes.
enum Arity {
    None(fn(&mut Args)),
    One(fn(&mut Args, &str) -> Result<(), Refused>),
    /// A value that may be left out.
    Maybe(fn(&mut Args, Option<&str>)),
    Many(fn(&mut Args, &str)),
}

impl Args {
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, Refused> {
        let mut words: VecDeque<String> = words.into_iter().collect();
        let mut args = Self::default();
        let mut prompt: Vec<String> = Vec::new();
        while let Some(word) = words.pop_front() {
            if word == "--" {
                prompt.extend(words.drain(..));
            } else if word.starts_with('-') && word.len() > 1 {
                args.flag(&word, &mut words)?;
            } else {
                prompt.push(word);
            }
        }
        args.prompt = prompt.into_iter().next();
        args.check()
    }

    fn flag(&mut self, word: &str, words: &mut VecDeque<String>) -> Result<(), Refused> {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if word.starts_with("--") => (name, Some(value.to_owned())),
            Some(_) | None => (word, None),
        };
        let is_value = |next: &String| !next.starts_with('-') || next.len() == 1;
        let mut next = || inline.clone().or_else(|| words.front().is_some_and(is_value).then(|| words.pop_front())?);
        match arity(name).ok_or_else(|| Refused(format!("error: unknown option '{name}'")))? {
            Arity::None(set) => set(self),
            Arity::One(set) => {
                let value =
                    next().ok_or_else(|| Refused(format!("error: option '{name} <value>' argument missing")))?;
                set(self, &value)?;
            }
            Arity::Maybe(set) => set(self, next().as_deref()),
            Arity::Many(add) => {
                let mut value = next();
                while let Some(word) = value {
                    add(self, &word);
                    value = if inline.is_some() { None } else { next() };
                }
            }
        }
        Ok(())
    }

    fn check(self) -> Result<Self, Refused> {
        if let Some(id) = self.session_id.as_deref().filter(|id| !is_uuid(id)) {
            return Err(Refused(format!("Error: Invalid session ID. Must be a valid UUID: {id}")));
        }
        if self.session_id.is_some() && self.resume != Resume::No && !self.fork {
            let message =
                "Error: --session-id can only be used with --continue or --resume if --fork-session is also specified.";
            return Err(Refused(message.to_owned()));
        }
        if self.input == Format::StreamJson && self.output != Format::StreamJson {
            let message = "Error: --input-format=stream-json requires output-format=stream-json.";
            return Err(Refused(message.to_owned()));
        }
        Ok(self)
    }
}

fn arity(name: &str) -> Option<Arity> {
    Some(match name {
        "-p" | "--print" => Arity::None(|args| args.print = true),
        "-v" | "--version" => Arity::None(|args| args.version = true),
        "-c" | "--continue" => Arity::None(|args| args.resume = Resume::Latest),
        "--fork-session" => Arity::None(|args| args.fork = true),
        "--dangerously-skip-permissions" => Arity::None(|args| args.skip_permissions = true),
        "--include-partial-messages" => Arity::None(|args| args.partial_messages = true),
        "--strict-mcp-config"
        | "--verbose"
        | "--allow-dangerously-skip-permissions"
        | "--include-hook-events"
        | "--replay-user-messages"
        | "--ide" => Arity::None(|_| {}),
        "-r" | "--resume" => Arity::Maybe(|args, id| {
            args.resume = id.map_or(Resume::Latest, |id| Resume::Session(id.to_owned()));
        }),
        "-d" | "--debug" => Arity::Maybe(|_, _| {}),
        "--session-id" => Arity::One(|args, id| {
            args.session_id = Some(id.to_owned());
            Ok(())
        }),
        "--settings" => Arity::One(|args, value| {
            args.settings = Some(value.to_owned());
            Ok(())
        }),
        "--model" => Arity::One(|args, value| {
            args.model = Some(value.to_owned());
            Ok(())
        }),
        "--permission-mode" => Arity::One(|args, value| {
            let choices = "acceptEdits, bypassPermissions, default, plan";
            let refused = || {
                let problem = format!("argument '{value}' is invalid. Allowed choices are {choices}.");
                Refused(format!("error: option '--permission-mode <mode>' {problem}"))
            };
            args.mode = Some(PermissionMode::parse(value).ok_or_else(refused)?);
            Ok(())
        }),
        "--output-format" => Arity::One(|args, value| {
            args.output = format("--output-format", value)?;
            Ok(())
        }),
        "--input-format" => Arity::One(|args, value| {
            args.input = format("--input-format", value)?;
            Ok(())
        }),
        "--permission-prompt-tool" => Arity::One(|args, value| {
            args.prompts_on_stdio = value == "stdio";
            Ok(())
        }),
        "--append-system-prompt"
        | "--system-prompt"
        | "--effort"
        | "--agent"
        | "--agents"
        | "--max-turns"
        | "--fallback-model"
        | "--setting-sources"
        | "-n"
        | "--name" => Arity::One(|_, _| Ok(())),
        "--mcp-config" => Arity::Many(|args, value| args.mcp_config.push(value.to_owned())),
        "--allowedTools" | "--allowed-tools" => Arity::Many(|args, value| args.allowed_tools.extend(rules(value))),
        "--disallowedTools" | "--disallowed-tools" => {
            Arity::Many(|args, value| args.disallowed_tools.extend(rules(value)))
        }
        "--add-dir" | "--tools" | "--betas" => Arity::Many(|_, _| {}),
        _ => return None,
    })
}

fn format(flag: &str, value: &str) -> Result<Format, Refused> {
    match value {
        "text" => Ok(Format::Text),
        "json" if flag == "--output-format" => Ok(Format::Json),
        "stream-json" => Ok(Format::StreamJson),
        _ => Err(Refused(format!("error: option '{flag} <format>' argument '{value}' is invalid."))),
    }
}

/// Splits `Bash(git:*),Write Edit` at commas and blanks that stand outside brackets.
fn rules(value: &str) -> Vec<String> {
    let mut rules = vec![String::new()];
    let mut depth = 0_u32;
    for c in value.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match rules.last_mut() {
            Some(rule) if depth > 0 || !matches!(c, ',' | ' ') => rule.push(c),
            Some(_) | None => rules.push(String::new()),
        }
    }
    rules.retain(|rule| !rule.is_empty());
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Args, Refused> {
        Args::parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn flags_take_their_value_after_a_blank_or_an_equals_sign() {
        let args = parse(&["--model=opus", "--permission-mode", "plan", "-r", "abc", "--", "do it"]).unwrap();
        assert_eq!(args.model.as_deref(), Some("opus"));
        assert_eq!(args.mode, Some(PermissionMode::Plan));
        assert_eq!(args.resume, Resume::Session("abc".into()));
        assert_eq!(args.prompt.as_deref(), Some("do it"));
    }

    #[test]
    fn variadic_flags_swallow_the_prompt() {
        let args = parse(&["--allowedTools", "Bash(git log:*),Write", "do it"]).unwrap();
        assert_eq!(args.allowed_tools, ["Bash(git log:*)", "Write", "do", "it"]);
        assert_eq!(args.prompt, None);
    }

    #[test]
    fn an_unknown_flag_is_refused_in_the_words_of_the_real_one() {
        assert_eq!(parse(&["--nonsense"]), Err(Refused("error: unknown option '--nonsense'".into())));
    }

    #[test]
    fn a_session_id_must_be_a_uuid() {
        assert!(parse(&["--session-id", "nope"]).is_err());
        assert!(parse(&["--session-id", "e5555555-5555-4555-8555-555555555555"]).is_ok());
    }
}
