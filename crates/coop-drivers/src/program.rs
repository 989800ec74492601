//! Which word of a command line is the agent's program: our options have to stand right after it.
//!
//! It may be run by another program that is known to pass the rest on as it is. In anything else, such as a script for a
//! shell, nobody can tell where options belong.

/// A program that runs another one.
struct Wrapper {
    name: &'static str,
    /// What stands before the other program beside options.
    takes: Takes,
    /// Options that are followed by a value.
    with_value: &'static [&'static str],
}

enum Takes {
    Nothing,
    /// Variables that are set.
    Variables,
    /// A word of any kind, such as a time limit.
    Word,
    /// One of these words. With another one it does not run a program, or not as it is.
    Verb(&'static [&'static str]),
}

const PACKAGE: &[&str] = &["-p", "--package"];
const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "env", takes: Takes::Variables, with_value: &["-u", "--unset", "-C", "--chdir"] },
    Wrapper { name: "sudo", takes: Takes::Variables, with_value: &["-u", "--user", "-g", "--group"] },
    Wrapper { name: "doas", takes: Takes::Nothing, with_value: &["-u"] },
    Wrapper { name: "npx", takes: Takes::Nothing, with_value: PACKAGE },
    Wrapper { name: "bunx", takes: Takes::Nothing, with_value: PACKAGE },
    Wrapper { name: "pnpm", takes: Takes::Verb(&["dlx", "exec"]), with_value: PACKAGE },
    Wrapper { name: "yarn", takes: Takes::Verb(&["dlx", "exec"]), with_value: PACKAGE },
    Wrapper { name: "npm", takes: Takes::Verb(&["exec", "x"]), with_value: PACKAGE },
    Wrapper { name: "bun", takes: Takes::Verb(&["x", "run"]), with_value: PACKAGE },
    Wrapper { name: "nice", takes: Takes::Nothing, with_value: &["-n", "--adjustment"] },
    Wrapper { name: "ionice", takes: Takes::Nothing, with_value: &["-c", "-n", "--class", "--classdata"] },
    Wrapper { name: "chrt", takes: Takes::Word, with_value: &[] },
    Wrapper { name: "timeout", takes: Takes::Word, with_value: &["-s", "--signal", "-k", "--kill-after"] },
    Wrapper { name: "stdbuf", takes: Takes::Nothing, with_value: &["-i", "-o", "-e"] },
    Wrapper { name: "nohup", takes: Takes::Nothing, with_value: &[] },
    Wrapper { name: "setsid", takes: Takes::Nothing, with_value: &[] },
    Wrapper { name: "time", takes: Takes::Nothing, with_value: &["-f", "-o"] },
    Wrapper { name: "node", takes: Takes::Nothing, with_value: &["-r", "--require", "--import"] },
    // Our own agents.
    Wrapper { name: "coop", takes: Takes::Verb(&["sim"]), with_value: &[] },
];

/// Programs that run what their words say in a way of their own.
const OPAQUE: &[&str] = &["sh", "bash", "zsh", "dash", "fish", "ksh", "ash", "ssh", "docker", "podman"];

/// Tells whether a command line runs a program that is not its first word.
pub(crate) fn runs_another(command: &[String]) -> bool {
    let name = command.first().map_or("", |word| base_name(word));
    // Our own agent runs by itself.
    if name == "coop" && command.get(1).is_some_and(|verb| verb == "run") {
        return false;
    }
    OPAQUE.contains(&name) || WRAPPERS.iter().any(|wrapper| wrapper.name == name)
}

/// Returns which word runs one of these programs, looking through programs that run another one.
pub(crate) fn find(command: &[String], programs: &[&str], package: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let word = command.get(at)?;
        if programs.contains(&script_name(word)) || is_package(word, package) {
            return Some(at);
        }
        let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == base_name(word))?;
        at = after(command, at + 1, wrapper)?;
    }
}

/// Returns where the program stands that a wrapper runs.
fn after(command: &[String], at: usize, wrapper: &Wrapper) -> Option<usize> {
    let at = after_options(command, at, wrapper);
    let word = command.get(at)?;
    match wrapper.takes {
        Takes::Nothing | Takes::Variables => Some(at),
        Takes::Word => Some(at + 1),
        Takes::Verb(verbs) => verbs.contains(&word.as_str()).then(|| after_options(command, at + 1, wrapper)),
    }
}

/// Returns where a wrapper's options end, and the variables it sets.
fn after_options(command: &[String], mut at: usize, wrapper: &Wrapper) -> usize {
    while let Some(word) = command.get(at) {
        let is_variable = matches!(wrapper.takes, Takes::Variables) && word.contains('=');
        match word.as_str() {
            "--" => return at + 1,
            _ if wrapper.with_value.contains(&word.as_str()) => at += 2,
            _ if word.starts_with('-') || is_variable => at += 1,
            _ => break,
        }
    }
    at
}

/// Tells whether a word names a package, with or without a version.
fn is_package(word: &str, package: &str) -> bool {
    !package.is_empty() && word.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns a program's name, also if it is a file for `node`.
fn script_name(word: &str) -> &str {
    let name = base_name(word);
    [".js", ".mjs", ".cjs"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str) -> Option<usize> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        find(&words, &["claude"], "@anthropic-ai/claude-code")
    }

    #[test]
    fn our_own_agent_runs_by_itself() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(!runs_another(&words("/usr/bin/coop run --acp")));
        assert!(runs_another(&words("coop sim acp")) && runs_another(&words("npx x")));
    }

    #[test]
    fn programs_that_run_another_are_looked_through() {
        for (line, expected) in [
            ("claude --model claude", 0),
            ("/usr/bin/claude", 0),
            ("env -u A B=1 /bin/claude x", 4),
            ("env A=1 B=claude -- claude -c", 4),
            ("npx -y @anthropic-ai/claude-code@2.1.197 hi", 2),
            ("npx --yes -p @anthropic-ai/claude-code claude -c", 4),
            ("bunx @anthropic-ai/claude-code", 1),
            ("bun x claude", 2),
            ("pnpm dlx claude", 2),
            ("npm exec -- claude", 3),
            ("timeout -k 5 60 nice -n 5 claude", 7),
            ("sudo -u dev A=1 claude", 4),
            ("node /opt/claude-code/claude.js -c", 1),
            ("target/debug/coop sim claude -c", 2),
        ] {
            assert_eq!(at(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_told_is_not_guessed() {
        for line in [
            "bash -c claude",
            "env A=1 bash -lc claude",
            "vim claude",
            "coop sim model",
            "npm run claude",
            "env",
            "nice",
            "timeout 5",
            "npx claude-code-lookalike",
        ] {
            assert_eq!(at(line), None, "{line}");
        }
        let runs_another = |line: &str| runs_another(&[line.to_owned()]);
        assert!(runs_another("/bin/bash") && runs_another("env") && !runs_another("/opt/my-agent"));
    }
}
