//! Which word of a command line is the agent's program.

/// A program that runs another one.
struct Wrapper {
    name: &'static str,
    /// Words before the other program that are no options, such as a time limit or a sub-command.
    words: usize,
    /// Options that are followed by a value.
    with_value: &'static [&'static str],
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "env", words: 0, with_value: &["-u", "--unset", "-C", "--chdir"] },
    Wrapper { name: "npx", words: 0, with_value: &["-p", "--package"] },
    Wrapper { name: "bunx", words: 0, with_value: &["-p", "--package"] },
    Wrapper { name: "pnpm", words: 1, with_value: &["--package"] },
    Wrapper { name: "yarn", words: 1, with_value: &["-p", "--package"] },
    Wrapper { name: "npm", words: 1, with_value: &["-p", "--package"] },
    Wrapper { name: "nice", words: 0, with_value: &["-n", "--adjustment"] },
    Wrapper { name: "ionice", words: 0, with_value: &["-c", "-n", "--class", "--classdata"] },
    Wrapper { name: "timeout", words: 1, with_value: &["-s", "--signal", "-k", "--kill-after"] },
    Wrapper { name: "stdbuf", words: 0, with_value: &["-i", "-o", "-e"] },
    Wrapper { name: "nohup", words: 0, with_value: &[] },
    Wrapper { name: "setsid", words: 0, with_value: &[] },
    Wrapper { name: "time", words: 0, with_value: &[] },
    Wrapper { name: "node", words: 0, with_value: &["-r", "--require", "--import"] },
    // Our own agents.
    Wrapper { name: "coop", words: 1, with_value: &[] },
];

/// Returns which word runs one of these programs, looking through programs that run another one.
pub(crate) fn find(command: &[String], programs: &[&str], package: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let word = command.get(at)?;
        if programs.contains(&base_name(word)) || is_package(word, package) {
            return Some(at);
        }
        let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == base_name(word))?;
        at = after(command, at + 1, wrapper);
    }
}

/// Returns where the program stands that a wrapper runs.
fn after(command: &[String], mut at: usize, wrapper: &Wrapper) -> usize {
    let mut words = wrapper.words;
    while let Some(word) = command.get(at) {
        let is_assignment = wrapper.name == "env" && word.contains('=');
        match word.as_str() {
            "--" => {}
            _ if wrapper.with_value.contains(&word.as_str()) => at += 1,
            _ if word.starts_with('-') || is_assignment => {}
            _ if words > 0 => words -= 1,
            _ => break,
        }
        at += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_run_another_are_looked_through() {
        let at = |line: &str| {
            let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            find(&words, &["claude"], "@anthropic-ai/claude-code")
        };
        assert_eq!(at("claude --model claude"), Some(0));
        assert_eq!(at("/usr/bin/claude"), Some(0));
        assert_eq!(at("env -u A B=1 /bin/claude x"), Some(4));
        assert_eq!(at("npx -y @anthropic-ai/claude-code@2.1.197 hi"), Some(2));
        assert_eq!(at("pnpm dlx claude"), Some(2));
        assert_eq!(at("timeout -k 5 60 nice -n 5 claude"), Some(7));
        assert_eq!(at("target/debug/coop sim claude -c"), Some(2));
        for other in ["bash -c claude", "vim claude", "coop sim model", "env", "npx claude-code-lookalike"] {
            assert_eq!(at(other), None, "{other}");
        }
    }
}
