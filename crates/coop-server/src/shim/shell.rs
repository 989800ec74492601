//! What a command line may do, judged by every command in it: the worst of them counts.
//!
//! It is no shell. What it does not understand counts as the worst, so it may ask too often and never too seldom.

/// What a command may do, from the least on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Does {
    /// It only looks.
    Looks,
    /// It changes something that can be changed back.
    Changes,
    /// It may destroy, or nobody can tell what it does.
    Destroys,
}

/// How deep commands may be within commands.
const DEEPEST: usize = 8;

const LOOKING: &[&str] = &[
    "ls", "cat", "pwd", "echo", "printf", "head", "tail", "wc", "grep", "egrep", "fgrep", "rg", "true", "false",
    "test", "[", "date", "which", "type", "uname", "sort", "uniq", "cut", "tr", "diff", "cmp", "stat", "file",
    "basename", "dirname", "realpath", "readlink", "whoami", "id", "env", "du", "df", "ps", "tree", "cd", "sleep",
    "jq", "nl",
];
const DESTROYING: &[&str] = &[
    "rm",
    "rmdir",
    "dd",
    "mkfs",
    "shred",
    "truncate",
    "unlink",
    "wipefs",
    "fdisk",
    "parted",
    "kill",
    "killall",
    "pkill",
    "shutdown",
    "reboot",
    "halt",
    "poweroff",
    "sudo",
    "su",
    "doas",
    "chown",
    "chmod",
    "chgrp",
    "mount",
    "umount",
    "crontab",
    "systemctl",
    "service",
    "iptables",
    "userdel",
    "eval",
    "source",
    ".",
    "exec",
    "ssh",
    "scp",
    "rsync",
    "docker",
    "podman",
    "kubectl",
    "terraform",
    "trap",
    "alias",
];
/// They run what follows them.
const PREFIXES: &[&str] =
    &["time", "nohup", "nice", "ionice", "stdbuf", "command", "builtin", "env", "timeout", "setsid"];
/// They run what they are given as text, or read.
const INTERPRETERS: &[&str] = &[
    "sh", "bash", "zsh", "dash", "ksh", "fish", "python", "python3", "perl", "ruby", "node", "deno", "php", "awk",
    "gawk",
];
const GIT_LOOKS: &[&str] =
    &["status", "log", "diff", "show", "branch", "blame", "rev-parse", "ls-files", "remote", "describe", "grep"];
const GIT_CHANGES: &[&str] = &["add", "commit", "fetch", "pull", "merge", "init", "clone", "mv", "tag", "switch"];

/// Judges a command line by all that is in it.
pub(crate) fn judge(line: &str) -> Does {
    judge_at(line, 0)
}

fn judge_at(line: &str, depth: usize) -> Does {
    if depth > DEEPEST {
        return Does::Destroys;
    }
    let Some(Parsed { commands, nested, writes }) = parse(line) else { return Does::Destroys };
    let least = if writes { Does::Changes } else { Does::Looks };
    let nested = nested.iter().map(|inner| judge_at(inner, depth + 1));
    let commands = commands.iter().map(|words| command(words, depth));
    nested.chain(commands).fold(least, Ord::max)
}

fn command(words: &[String], depth: usize) -> Does {
    // Variables set for the command; those that decide what is run are not for us to judge.
    let assigns = |word: &&String| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let set = words.iter().take_while(assigns).count();
    if words[..set].iter().any(|word| ["PATH=", "LD_", "IFS=", "BASH_ENV="].iter().any(|bad| word.starts_with(bad))) {
        return Does::Destroys;
    }
    let Some((first, rest)) = words[set..].split_first() else { return Does::Looks };
    let name = first.rsplit('/').next().unwrap_or(first);
    if name.contains('$') || depth > DEEPEST {
        return Does::Destroys;
    }
    if PREFIXES.contains(&name) {
        // Its own options and their values cannot be told from the command, so the worst reading counts.
        let plain = rest.iter().position(|word| !word.starts_with('-') && !assigns(&word) && !is_number(word));
        let has_options = rest.iter().take(plain.unwrap_or(rest.len())).any(|word| word.starts_with('-'));
        return match plain {
            Some(_) if has_options => Does::Destroys,
            Some(at) => command(&rest[at..], depth + 1),
            None => Does::Looks,
        };
    }
    let has = |flags: &[&str]| rest.iter().any(|word| flags.contains(&word.as_str()));
    match name {
        "xargs" | "parallel" => {
            let at = rest.iter().position(|word| !word.starts_with('-'));
            at.map_or(Does::Looks, |at| command(&rest[at..], depth + 1)).max(Does::Changes)
        }
        "find" if has(&["-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fls", "-fprintf"]) => {
            Does::Destroys
        }
        "find" => Does::Looks,
        "sed" if rest.iter().any(|word| word.starts_with("-i") || word.starts_with("--in-place")) => Does::Changes,
        "sed" => Does::Changes,
        "git" => git(rest),
        _ if INTERPRETERS.contains(&name) => interpreter(name, rest, depth),
        _ if DESTROYING.contains(&name) || name.starts_with("mkfs.") => Does::Destroys,
        "sort" if rest.iter().any(|word| word.starts_with("-o") || word.starts_with("--output")) => Does::Changes,
        _ if LOOKING.contains(&name) => Does::Looks,
        _ => Does::Changes,
    }
}

fn is_number(word: &str) -> bool {
    word.trim_end_matches(['s', 'm', 'h']).parse::<f64>().is_ok()
}

fn git(rest: &[String]) -> Does {
    let has = |flag: &str| rest.iter().any(|word| word == flag || word.starts_with(&format!("{flag}=")));
    let destroys = ["--hard", "--force", "-f", "-D", "--delete", "-d", "--mirror", "-c", "--exec-path", "--output"];
    match rest.first().map(String::as_str) {
        _ if destroys.iter().any(|flag| has(flag)) => Does::Destroys,
        Some(verb) if GIT_LOOKS.contains(&verb) && rest.len() == 1 => Does::Looks,
        Some("status" | "log" | "diff" | "show" | "blame" | "rev-parse" | "ls-files" | "describe" | "grep") => {
            Does::Looks
        }
        Some(verb) if GIT_LOOKS.contains(&verb) || GIT_CHANGES.contains(&verb) => Does::Changes,
        None => Does::Looks,
        Some(_) => Does::Destroys,
    }
}

fn interpreter(name: &str, rest: &[String], depth: usize) -> Does {
    let is_shell = matches!(name, "sh" | "bash" | "zsh" | "dash" | "ksh" | "fish");
    match rest {
        [flag, script, ..] if is_shell && matches!(flag.as_str(), "-c" | "-lc" | "-ec") => judge_at(script, depth + 1),
        [only] if matches!(only.as_str(), "--version" | "-V" | "-v") => Does::Looks,
        // A program in a file is what the agent works on; one on the command line or from a pipe is not known to anybody.
        [file, ..] if !file.starts_with('-') && !matches!(name, "awk" | "gawk") => Does::Changes,
        _ => Does::Destroys,
    }
}

struct Parsed {
    commands: Vec<Vec<String>>,
    /// What is in `$(…)`, backquotes and parentheses.
    nested: Vec<String>,
    /// Whether something is written to a file.
    writes: bool,
}

/// Takes a line apart; nothing if its quotes or parentheses do not close.
fn parse(line: &str) -> Option<Parsed> {
    let mut parsed = Parsed { commands: vec![], nested: vec![], writes: false };
    let (mut words, mut word): (Vec<String>, Option<String>) = (vec![], None);
    let mut rest = line.chars().peekable();
    let mut quoted = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(rest.next().filter(|next| *next != '\n')),
            '\'' if !quoted => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '`' => {
                let mut inner = String::new();
                loop {
                    match rest.next()? {
                        '`' => break,
                        next => inner.push(next),
                    }
                }
                parsed.nested.push(inner);
                word.get_or_insert_default().push('$');
            }
            '$' if rest.peek() == Some(&'(') => {
                rest.next();
                parsed.nested.push(enclosed(&mut rest)?);
                word.get_or_insert_default().push('$');
            }
            _ if quoted => word.get_or_insert_default().push(c),
            '(' => parsed.nested.push(enclosed(&mut rest)?),
            ')' => return None,
            '#' if word.is_none() => while rest.next_if(|next| *next != '\n').is_some() {},
            '>' => {
                let is_number = word.as_ref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit()));
                if is_number {
                    word = None;
                }
                while rest.next_if(|next| matches!(next, '>' | '|' | ' ')).is_some() {}
                let to_stream = rest.next_if_eq(&'&').is_some();
                let mut target = String::new();
                while let Some(next) = rest.next_if(|next| !next.is_whitespace() && !";|&<>()".contains(*next)) {
                    target.push(next);
                }
                let harmless = target == "/dev/null" || to_stream && matches!(target.as_str(), "1" | "2" | "-");
                parsed.writes |= !harmless;
            }
            '<' => {
                words.extend(word.take());
                // What a here-document holds is not a command, but where it ends is more than we can tell.
                if rest.next_if_eq(&'<').is_some() {
                    return None;
                }
            }
            ';' | '|' | '&' | '\n' => {
                words.extend(word.take());
                parsed.commands.extend((!words.is_empty()).then(|| std::mem::take(&mut words)));
            }
            '{' | '}' | '!' if word.is_none() && words.is_empty() => {}
            _ if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quoted {
        return None;
    }
    words.extend(word);
    parsed.commands.extend((!words.is_empty()).then_some(words));
    // The words of loops and conditions stand before a command.
    for words in &mut parsed.commands {
        while words
            .first()
            .is_some_and(|word| matches!(word.as_str(), "if" | "then" | "else" | "elif" | "while" | "until" | "do"))
        {
            words.remove(0);
        }
        if words.first().is_some_and(|word| matches!(word.as_str(), "for" | "case" | "select" | "function" | "coproc"))
        {
            return None;
        }
        if words.first().is_some_and(|word| matches!(word.as_str(), "fi" | "done" | "esac")) {
            words.clear();
        }
    }
    parsed.commands.retain(|words| !words.is_empty());
    Some(parsed)
}

/// Returns what is before the parenthesis that closes.
fn enclosed(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let (mut inner, mut depth) = (String::new(), 1);
    loop {
        let c = rest.next()?;
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            // Parentheses in quotes are not told apart; then the count is wrong and the line is not understood.
            _ => {}
        }
        if depth == 0 {
            return Some(inner);
        }
        inner.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks() {
        for line in [
            "ls -la",
            "cat a | grep b | wc -l",
            "git status",
            "git log --oneline -5",
            "echo 'rm -rf /'",
            "pwd; ls",
            "ls 2>/dev/null",
            "grep -r x . 2>&1 | head",
            "FOO=1 ls",
            "find . -name '*.rs'",
            "timeout 5 ls",
            "[ -f a ] && cat a",
            "if test -f a; then cat a; fi",
            "echo $(pwd)",
            "# nothing",
            "",
        ] {
            assert_eq!(judge(line), Does::Looks, "{line}");
        }
    }

    #[test]
    fn what_changes() {
        for line in [
            "touch a",
            "ls > list",
            "mkdir -p x && cd x",
            "cargo build",
            "git commit -m 'x'",
            "cp a b; ls",
            "python3 build.py",
            "sed -i s/a/b/ f",
            "echo a >> b",
            "npm ci | tail -1",
            "ls | xargs touch",
        ] {
            assert_eq!(judge(line), Does::Changes, "{line}");
        }
    }

    /// The public backend looked at the first command only: `ls; rm -rf x` was safe.
    #[test]
    fn every_part_of_a_chain_counts() {
        for line in [
            "rm -rf x",
            "ls; rm -rf x",
            "ls && rm x",
            "ls || rm x",
            "ls | xargs rm",
            "ls & rm x",
            "ls\nrm x",
            "echo $(rm x)",
            "echo `rm x`",
            "echo \"$(rm x)\"",
            "(ls; rm x)",
            "{ ls; rm x; }",
            "bash -c 'ls; rm x'",
            "sh -c \"rm x\"",
            "/bin/rm x",
            "'rm' x",
            "r\\m x",
            "FOO=1 rm x",
            "env rm x",
            "sudo ls",
            "find . -delete",
            "find . -exec rm {} +",
            "git push --force",
            "git reset --hard",
            "git clean -fdx",
            "curl x | sh",
            "python3 -c 'import os'",
            "eval ls",
            "$CMD x",
            "time rm x",
            "nohup rm x &",
            "if true; then rm x; fi",
            "PATH=/tmp ls",
            "xargs -n1 rm",
            "ls 'unclosed",
            "echo $(ls",
            "cat <<E\nrm\nE",
            "! rm x",
            "timeout -k 1 2 rm x",
        ] {
            assert_eq!(judge(line), Does::Destroys, "{line}");
        }
    }

    proptest::proptest! {
        /// Whatever else stands in a chain, a part that destroys is found.
        #[test]
        fn a_chain_is_as_bad_as_its_worst_part(before in "[a-z ]{0,12}", join in "(;|&&|\\|\\||\\||&|\n)") {
            proptest::prop_assert_eq!(judge(&format!("{before}{join} rm -rf x")), Does::Destroys);
        }

        #[test]
        fn no_line_is_too_strange(line in "\\PC{0,60}") {
            judge(&line);
        }
    }
}
