//! The reader of command lines against bash: a line that the reader can tell apart is one that bash accepts, and bash runs those
//! commands with those words and no others.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Where bash writes down what it would run. No line may name it.
const RECORD_FD: &str = "137";
/// Nothing can run: there are no programs, no words of the shell's own but one, and no `/` in the name of any command. Each
/// command that bash looks for in vain is written down with the number of its words, and is done with the status that is asked for.
const PRELUDE: &str = r#"exec 137>&1 1>/dev/null 2>/dev/null
command_not_found_handle() { printf '%s\0' "$#" "$@" >&137; return "$STATUS"; }
mapfile -t all < <(compgen -b)
for at in "${!all[@]}"; do case ${all[at]} in printf | return | enable) unset 'all[at]' ;; esac; done
enable -n "${all[@]}" enable
"#;

static BASH: LazyLock<Option<String>> = LazyLock::new(|| {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join("bash")).find(|path| path.is_file());
    found.and_then(|path| path.to_str().map(str::to_owned))
});

/// Tells whether there is a bash to compare with.
pub fn has_bash() -> bool {
    BASH.is_some()
}

/// Compares what a line runs with what the reader says of it.
pub fn fuzz_shell(data: &[u8]) {
    let line = String::from_utf8_lossy(data).replace('\0', "");
    let line = line.replace("/dev/null", "\u{1}").replace('/', "_").replace('\u{1}', "/dev/null");
    let (Some(bash), Ok(commands)) = (BASH.as_ref(), coop_policy::split(&line)) else { return };
    let mut expected: Vec<Vec<String>> = commands.into_iter().map(|command| command.words).collect();
    let is_own = |words: &Vec<String>| words[0].contains('/') || matches!(words[0].as_str(), "printf" | "return" | "");
    if line.contains(RECORD_FD) || expected.iter().any(is_own) {
        return;
    }
    let parsed = command(bash, "0").args(["-n", "-c", "--", &line]).output().expect("bash starts");
    assert!(parsed.status.success(), "bash does not accept {line:?}: {}", String::from_utf8_lossy(&parsed.stderr));
    // What comes after `&&` runs if all succeed, what comes after `||` if all fail.
    let [succeeding, failing] = ["0", "1"].map(|status| run(bash, status, &line));
    for found in [&succeeding, &failing] {
        assert!(is_within(found, &expected), "{line:?} runs {found:?}, and not only {expected:?}");
    }
    expected.retain(|words| !succeeding.contains(words) && !failing.contains(words));
    assert!(expected.is_empty(), "{line:?} does not run {expected:?}");
}

/// Tells whether each of these is among the others, as often as it is here.
fn is_within(found: &[Vec<String>], all: &[Vec<String>]) -> bool {
    let count = |list: &[Vec<String>], words| list.iter().filter(|other| *other == words).count();
    found.iter().all(|words| count(found, words) <= count(all, words))
}

fn run(bash: &str, status: &str, line: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = format!("{PRELUDE}{line}");
    let mut command = command(bash, status);
    // Its output ends with the last of the processes that it leaves behind.
    let output = command.current_dir(folder.path()).args(["-c", &script]).output().expect("bash starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = text.split_terminator('\0').map(str::to_owned);
    let mut found = Vec::new();
    while let Some(count) = words.next() {
        let count = count.parse().expect("the number of words");
        found.push(words.by_ref().take(count).collect());
    }
    found
}

fn command(bash: &str, status: &str) -> Command {
    let mut command = Command::new(bash);
    command.arg0("bash").args(["--noprofile", "--norc"]).stdin(Stdio::null()).env_clear();
    command.envs([("PATH", "/nonexistent"), ("LC_ALL", "C.UTF-8"), ("STATUS", status)]);
    command
}
