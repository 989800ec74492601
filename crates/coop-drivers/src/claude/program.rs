//! Where in a command line the agent's own program is: our options have to stand right after it.
//!
//! It may be the first word, or be run by another program that is known to pass the rest on as it is. In anything else, such
//! as a script for a shell, nobody can tell where options belong.

/// The agent's names: of its program, and of its package.
const NAMES: [&str; 2] = ["claude", "claude-code"];
/// Programs that run the words after their own options, with those of the options that have a value.
const RUNNERS: [(&str, &[&str]); 15] = [
    ("env", &["-u", "--unset", "-C", "--chdir"]),
    ("nice", &["-n", "--adjustment"]),
    ("nohup", &[]),
    ("setsid", &[]),
    ("stdbuf", &["-i", "-o", "-e"]),
    ("ionice", &["-c", "-n"]),
    ("chrt", &[]),
    ("timeout", &["-s", "--signal", "-k", "--kill-after"]),
    ("time", &["-f", "-o"]),
    ("sudo", &["-u", "--user", "-g", "--group"]),
    ("doas", &["-u"]),
    ("npx", &["-p", "--package"]),
    ("bunx", &["-p", "--package"]),
    ("node", &["-r", "--require", "--import"]),
    ("bun", &[]),
];
/// Words of a package runner that come before what it runs: `pnpm dlx`, `npm exec --`, `yarn dlx`, `bun x`.
const PACKAGE_RUNNERS: [(&str, &[&str]); 4] =
    [("pnpm", &["dlx", "exec"]), ("npm", &["exec", "x"]), ("yarn", &["dlx", "exec"]), ("bun", &["x", "run"])];
/// Shells, whose `-c` takes a script.
const SHELLS: [&str; 7] = ["sh", "bash", "zsh", "dash", "fish", "ksh", "ash"];

/// Returns where the agent's program is in a command line, or why that cannot be told.
pub(super) fn position(command: &[String]) -> Result<usize, String> {
    let mut at = 0;
    loop {
        let Some(word) = command.get(at) else { return Err(unknown(command)) };
        let name = base(word);
        // coop's own double is run as `coop sim claude`.
        if name == "coop" && command.get(at + 1).is_some_and(|word| word == "sim") {
            let is_named = command.get(at + 2).is_some_and(|word| word == "claude");
            return Ok(if is_named { at + 2 } else { at + 1 });
        }
        if SHELLS.contains(&name) {
            let shown = command.join(" ");
            return Err(format!(
                "coop cannot tell where its options belong in {shown:?}; give the agent's own command line instead of a shell's"
            ));
        }
        if let Some((_, verbs)) = PACKAGE_RUNNERS.iter().find(|(runner, _)| *runner == name)
            && command.get(at + 1).is_some_and(|verb| verbs.contains(&verb.as_str()))
        {
            at = after_options(command, at + 2, &["-p", "--package"], false);
        } else if let Some((runner, with_value)) = RUNNERS.iter().find(|(runner, _)| *runner == name) {
            at = after_options(command, at + 1, with_value, *runner == "env" || *runner == "sudo");
            // A time, a priority.
            at += usize::from(matches!(*runner, "timeout" | "chrt"));
        } else if at == 0 || is_agent(name) {
            // The first word may have any name: somebody said that it is the agent.
            return Ok(at);
        } else {
            return Err(unknown(command));
        }
    }
}

/// Returns where the options of a runner end, and assignments if it takes them.
fn after_options(command: &[String], mut at: usize, with_value: &[&str], takes_variables: bool) -> usize {
    while let Some(word) = command.get(at) {
        if word == "--" {
            return at + 1;
        }
        let is_option = word.starts_with('-') && word.len() > 1;
        let is_variable = takes_variables && word.contains('=') && !word.starts_with('=');
        if !is_option && !is_variable {
            break;
        }
        at += if with_value.contains(&word.as_str()) { 2 } else { 1 };
    }
    at
}

/// Tells whether a word names the agent: `claude`, `claude.js`, `@anthropic-ai/claude-code@latest`.
fn is_agent(name: &str) -> bool {
    let name = name.rsplit_once('@').map_or(name, |(name, _)| name);
    let name = name.strip_suffix(".js").or_else(|| name.strip_suffix(".mjs")).unwrap_or(name);
    NAMES.contains(&name)
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn unknown(command: &[String]) -> String {
    let shown = command.join(" ");
    format!("coop cannot find the agent's program in {shown:?}, so it does not know where its options belong")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Result<String, String> {
        let command: Vec<_> = line.split(' ').map(str::to_owned).collect();
        position(&command).map(|at| command[at].clone())
    }

    #[test]
    fn the_agents_program_is_found_behind_those_that_run_it() {
        for (line, program) in [
            ("claude", "claude"),
            ("/opt/my-agent --model opus", "/opt/my-agent"),
            ("coop sim claude -c", "claude"),
            ("coop sim -c", "sim"),
            ("env A=1 B=claude /bin/claude -c", "/bin/claude"),
            ("env -u A -i B=1 claude", "claude"),
            ("npx claude", "claude"),
            ("npx --yes -p @anthropic-ai/claude-code claude -c", "claude"),
            ("npx -y @anthropic-ai/claude-code@latest -c", "@anthropic-ai/claude-code@latest"),
            ("bunx @anthropic-ai/claude-code", "@anthropic-ai/claude-code"),
            ("pnpm dlx @anthropic-ai/claude-code@2.1.197", "@anthropic-ai/claude-code@2.1.197"),
            ("npm exec -- claude", "claude"),
            ("nice -n 10 claude", "claude"),
            ("timeout -k 5 1h nice claude", "claude"),
            ("sudo -u dev env A=1 claude", "claude"),
            ("node /opt/claude-code/claude.js -c", "/opt/claude-code/claude.js"),
        ] {
            assert_eq!(found(line).as_deref(), Ok(program), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        for line in ["bash -c claude", "/bin/sh run.sh", "env A=1 bash -lc claude", "npx other", "nice", "env A=1"] {
            assert!(found(line).is_err(), "{line}: {:?}", found(line));
        }
    }
}
