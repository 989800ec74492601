//! What a command line may do, judged by every command in it: the worst of them counts.
//!
//! It knows few programs, and of these few options. What it does not know counts as the worst, so it may ask too often and
//! never too seldom.

use coop_drivers::Tool;

use crate::sed;
use crate::shell::{is_assignment, is_shell, is_stream, runs_text, split, system_name};
use crate::tools::does;

/// What a command may do, from the least on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Does {
    /// It only looks.
    Looks,
    /// It changes something that can be changed back.
    Changes,
    /// It may destroy, or nobody can tell what it does.
    Destroys,
}

/// How deep commands may be within commands.
const DEEPEST: usize = 8;

/// They write nothing and run nothing, whatever their options. None is a word of the shell's own that sets a variable or
/// evaluates its words, as `printf -v`, `test -v` and `type` do in some shells.
const LOOKING: &[&str] = &[
    "ls", "cat", "pwd", "echo", "head", "tail", "wc", "grep", "egrep", "fgrep", "true", "false", "which", "uname",
    "cut", "tr", "diff", "cmp", "stat", "basename", "dirname", "realpath", "readlink", "whoami", "id", "du", "df",
    "ps", "cd", "sleep", "jq", "nl",
];
const CHANGING: &[&str] = &["touch", "mkdir", "cp", "mv", "ln", "tee", "patch", "make", "ninja", "pytest", "tsc"];
/// They run what follows them.
const PREFIXES: &[&str] = &["nohup", "nice", "ionice", "command", "builtin", "setsid"];
/// Programs with commands of their own, and those that build and test.
const BUILDING: &[(&[&str], &[&str])] = &[
    (&["cargo"], &["build", "b", "check", "test", "t", "run", "r", "fmt", "clippy", "doc", "bench", "add", "tree"]),
    (&["npm", "pnpm", "yarn"], &["ci", "install", "i", "add", "test", "t", "run", "ls"]),
    (&["go"], &["build", "test", "vet", "fmt", "mod", "run", "list", "version"]),
    (&["pip", "pip3"], &["install", "list", "show", "freeze"]),
];
const GIT_LOOKS: &[&str] =
    &["status", "log", "diff", "show", "blame", "rev-parse", "ls-files", "describe", "grep", "shortlog"];
const GIT_CHANGES: &[&str] = &[
    "add", "branch", "clone", "commit", "fetch", "init", "merge", "mv", "pull", "remote", "switch", "tag", "worktree",
];

/// Judges a tool by what it is called.
pub fn judge_tool(tool: &str) -> Does {
    let judged = does(None, tool).iter().map(|done| match done {
        Tool::Read | Tool::Glob | Tool::Grep | Tool::Note => Does::Looks,
        Tool::Write | Tool::Edit | Tool::Fetch | Tool::WebSearch | Tool::Task => Does::Changes,
        // A shell without its command, a wider sandbox, tools of other programs.
        Tool::Shell | Tool::Mcp | Tool::Other => Does::Destroys,
    });
    judged.max().unwrap_or(Does::Destroys)
}

/// Judges a command line by all that is in it.
pub fn judge(line: &str) -> Does {
    judge_at(line, 0)
}

fn judge_at(line: &str, depth: usize) -> Does {
    if line.trim().is_empty() {
        return Does::Looks;
    }
    let Ok(commands) = split(line) else { return Does::Destroys };
    let judged = commands.iter().map(|found| {
        let least = if found.writes { Does::Changes } else { Does::Looks };
        command(&found.words, depth).max(least)
    });
    judged.max().unwrap_or(Does::Destroys)
}

fn command(words: &[String], depth: usize) -> Does {
    let Some((first, rest)) = words.split_first() else { return Does::Destroys };
    if depth > DEEPEST {
        return Does::Destroys;
    }
    // A program in another folder may be anything, whatever it is called.
    let Some(name) = system_name(first) else { return Does::Destroys };
    let long = |flag: &str| rest.iter().any(|word| is_abbreviated(word, flag));
    let short = |letter: char| rest.iter().any(|word| is_short(word) && word.contains(letter));
    match name {
        "timeout" if rest.first().is_some_and(|word| is_time(word)) => prefixed(&rest[1..], depth),
        _ if PREFIXES.contains(&name) => prefixed(rest, depth),
        _ if is_shell(name) => shell(rest, depth),
        "git" => git(rest),
        "sed" => sed::effect(rest),
        "find" if rest.iter().any(|word| FIND_BAD.iter().any(|flag| word.starts_with(flag))) => Does::Destroys,
        "find" => Does::Looks,
        "rg" if long("--pre") || long("--hostname-bin") => Does::Destroys,
        "rg" => Does::Looks,
        "sort" if long("--compress-program") => Does::Destroys,
        "sort" | "tree" if short('o') || long("--output") => Does::Changes,
        "uniq" if rest.iter().filter(|word| !word.starts_with('-')).count() > 1 => Does::Changes,
        "file" if short('C') || long("--compile") => Does::Changes,
        "date" if short('s') || long("--set") => Does::Destroys,
        "sort" | "tree" | "uniq" | "file" | "date" => Does::Looks,
        _ if LOOKING.contains(&name) => Does::Looks,
        _ if CHANGING.contains(&name) => Does::Changes,
        _ => interpreter(name, rest).or_else(|| building(name, rest)).unwrap_or(Does::Destroys),
    }
}

fn is_short(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--")
}

fn is_time(word: &str) -> bool {
    let digits = word.trim_end_matches(['s', 'm', 'h', 'd']);
    digits.starts_with(|c: char| c.is_ascii_digit()) && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// What a prefix's own options take cannot be told from the command, so there must be none.
fn prefixed(rest: &[String], depth: usize) -> Does {
    match rest.first() {
        Some(word) if !word.starts_with('-') && !is_assignment(word) => command(rest, depth + 1),
        _ => Does::Destroys,
    }
}

fn shell(rest: &[String], depth: usize) -> Does {
    match rest {
        [flag, script] if runs_text(flag) => judge_at(script, depth + 1),
        rest => of_file(rest),
    }
}

/// A program in a file is what the agent works on; one on the command line or from a pipe is not known to anybody.
fn of_file(rest: &[String]) -> Does {
    match rest {
        [only] if matches!(only.as_str(), "--version" | "-V") => Does::Looks,
        [file, ..] if !file.starts_with('-') && !is_stream(file) => Does::Changes,
        _ => Does::Destroys,
    }
}

fn interpreter(name: &str, rest: &[String]) -> Option<Does> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match rest {
        [flag, module, ..] if plain == "python" && flag == "-m" => {
            Some(if matches!(module.as_str(), "pytest" | "unittest") { Does::Changes } else { Does::Destroys })
        }
        rest => matches!(plain, "python" | "perl" | "ruby" | "node" | "php").then(|| of_file(rest)),
    }
}

/// The beginnings of actions of `find` that write or run something.
const FIND_BAD: &[&str] = &["-delete", "-exec", "-ok", "-fprint", "-fls", "-files0-from"];

fn building(name: &str, rest: &[String]) -> Option<Does> {
    let (_, verbs) = BUILDING.iter().find(|(programs, _)| programs.contains(&name))?;
    let is_known = matches!(rest.first().map(String::as_str), Some("--version") | None)
        || rest.first().is_some_and(|verb| verbs.contains(&verb.as_str()));
    // Its settings can name programs.
    let is_plain = !rest.iter().any(|word| word.starts_with("--config") || is_short(word) && word.contains("exec"));
    Some(if is_known && is_plain { Does::Changes } else { Does::Destroys })
}

/// Options that throw something away, or name a program to be run.
const GIT_BAD: &[&str] = &[
    "--hard",
    "--force",
    "--delete",
    "--mirror",
    "--prune",
    "--discard-changes",
    "--exec",
    "--output",
    "--ext-diff",
    "--textconv",
    "--open-files-in-pager",
    "--upload-pack",
    "--config",
    "--template",
];

fn git(rest: &[String]) -> Does {
    let Some((verb, rest)) = rest.split_first() else { return Does::Looks };
    let throws = |word: &String| {
        GIT_BAD.iter().any(|bad| is_abbreviated(word, bad))
            || is_short(word) && word.contains(['f', 'D', 'd', 'c', 'O', 'u', 'M'])
            || word.contains("ext::")
    };
    let removes = |word: &String| matches!(word.as_str(), "remove" | "rm" | "prune" | "set-url");
    match verb.as_str() {
        _ if rest.iter().any(throws) => Does::Destroys,
        verb if GIT_LOOKS.contains(&verb) => Does::Looks,
        "branch" | "remote" | "tag" if rest.is_empty() => Does::Looks,
        "remote" | "worktree" if rest.first().is_some_and(removes) => Does::Destroys,
        verb if GIT_CHANGES.contains(&verb) => Does::Changes,
        _ => Does::Destroys,
    }
}

/// Git and GNU's programs take the beginning of a long option for the whole.
pub(crate) fn is_abbreviated(word: &str, option: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    name.len() > 2 && option.starts_with(name) || word.starts_with(option)
}

#[cfg(test)]
mod tests;
