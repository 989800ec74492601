//! Which programs run other commands, and which of these no word of theirs shows: for `sight`.

use crate::judge::{Does, is_abbreviated};
use crate::sed;
use crate::shell::{is_assignment, is_shell, is_stream, runs_text};

/// Programs that run the command that their words hold, and how many words stand before it.
pub(crate) const RUNNERS: &[(&str, usize)] = &[
    ("builtin", 0),
    ("bunx", 0),
    ("busybox", 0),
    ("caffeinate", 0),
    ("choom", 0),
    ("chroot", 1),
    ("chrt", 1),
    ("command", 0),
    ("dbus-run-session", 0),
    ("doas", 0),
    ("docker", 3),
    ("env", 0),
    ("exec", 0),
    ("fakeroot", 0),
    ("flock", 1),
    ("ionice", 0),
    ("ip", 3),
    ("kubectl", 2),
    ("linux32", 0),
    ("linux64", 0),
    ("ltrace", 0),
    ("nice", 0),
    ("nohup", 0),
    ("npm", 1),
    ("npx", 0),
    ("nsenter", 0),
    ("parallel", 0),
    ("pdm", 1),
    ("pipenv", 1),
    ("pipx", 1),
    ("pkexec", 0),
    ("pnpm", 1),
    ("pnpx", 0),
    ("podman", 3),
    ("poetry", 1),
    ("prlimit", 0),
    ("runuser", 0),
    ("script", 0),
    ("setarch", 1),
    ("setpriv", 0),
    ("setsid", 0),
    ("sg", 1),
    ("stdbuf", 0),
    ("strace", 0),
    ("su", 1),
    ("sudo", 0),
    ("systemd-run", 0),
    ("taskset", 1),
    ("time", 0),
    ("timeout", 1),
    ("toybox", 0),
    ("unshare", 0),
    ("uv", 1),
    ("uvx", 0),
    ("watch", 0),
    ("xargs", 0),
    ("xvfb-run", 0),
    ("yarn", 1),
];

/// Programs that can run commands which their command line does not show, and why.
const OPAQUE: &[(&str, &[&str])] = &[
    (
        "may start a shell",
        &[
            "bwrap",
            "chroot",
            "fakeroot",
            "linux32",
            "linux64",
            "login",
            "machinectl",
            "newgrp",
            "nsenter",
            "runuser",
            "script",
            "setarch",
            "sg",
            "su",
            "unshare",
        ],
    ),
    (
        "is a shell with a syntax of its own",
        &["csh", "elvish", "es", "fish", "nu", "powershell", "pwsh", "rc", "tcsh", "xonsh"],
    ),
    (
        "runs commands from its input",
        &[
            "at", "batch", "crontab", "ed", "emacs", "ex", "gdb", "lldb", "m4", "nvim", "parallel", "screen", "ssh",
            "tmux", "vi", "view", "vim", "xargs",
        ],
    ),
    (
        "runs its words later or changes what commands mean",
        &["alias", "bind", "compgen", "complete", "enable", "fc", "hash", "let", "mapfile", "readarray", "trap"],
    ),
];

/// Programs that run a file in another language: the letters of their options with a program in it, and of those with
/// another value. The text of `awk` needs no option.
const INTERPRETERS: &[(&str, &str, &str)] = &[
    ("Rscript", "e", ""),
    ("bun", "ep", "r"),
    ("expect", "c", ""),
    ("ipython", "c", ""),
    ("julia", "eE", ""),
    ("lua", "e", "l"),
    ("node", "ep", "rC"),
    ("nodejs", "ep", "rC"),
    ("osascript", "e", "l"),
    ("perl", "eE", "I"),
    ("php", "rRBE", "dc"),
    ("pypy", "c", "WX"),
    ("python", "c", "WX"),
    ("ruby", "e", "rICE"),
    ("tclsh", "", ""),
];

/// Long options of shells and interpreters whose value is the next word.
const LONG_WITH_VALUE: [&str; 6] = ["--rcfile", "--init-file", "--emulate", "--require", "--import", "--loader"];

const READS: &str = "runs commands from its input";
const HOLDS: &str = "runs a program that its words contain";

/// Returns why a program may run what its words do not show.
pub(crate) fn why_opaque(name: &str, rest: &[String]) -> Option<String> {
    let listed = OPAQUE.iter().find(|(_, names)| names.contains(&name)).map(|(why, _)| *why);
    listed.or_else(|| why_opaque_with(without_version(name), rest)).map(|why| format!("{name} {why}"))
}

fn why_opaque_with(name: &str, rest: &[String]) -> Option<&'static str> {
    let any = |holds: &dyn Fn(&str) -> bool| rest.iter().any(|word| holds(word));
    let own = |holds: &dyn Fn(&str) -> bool| starts(rest, 1).own.iter().any(|word| holds(word));
    let (is_opaque, why) = match name {
        "." | "source" => (any(&is_stream), READS),
        "env" => (own(&|word| has_letter(word, "S") || word.starts_with("--s")), "splits a word into a command"),
        "doas" | "sudo" => {
            let is_login = |word: &str| ["--s", "--l", "--i"].iter().any(|long| word.starts_with(long));
            (own(&|word| has_letter(word, "si") || is_login(word)), "may start a shell")
        }
        "git" if git_runs(rest) => (true, HOLDS),
        "git" => (sets_git(rest), "takes a setting that may be a command"),
        "bsdtar" | "gtar" | "tar" => (any(&tar_runs), HOLDS),
        "rsync" => (any(&|word| has_letter(word, "e") || word.starts_with("--rs")), HOLDS),
        "deno" => (any(&|word| matches!(word, "eval" | "repl") || is_stream(word)), HOLDS),
        "cargo" => (any(&|word| word.starts_with("--config")), "takes a setting that may be a command"),
        "bmake" | "gmake" | "make" => {
            let is_program = |word: &str| is_assignment(word) || word.starts_with("--ev") || word.starts_with("-E");
            (any(&|word| is_program(word) || is_stream(word) || word.ends_with('-')), HOLDS)
        }
        "gsed" | "sed" => (sed::effect(rest) == Does::Destroys, HOLDS),
        // They set variables, and some of these change what commands mean.
        "declare" | "export" | "local" | "readonly" | "typeset" => {
            (any(&|word| word.contains(['=', '['])), "sets a variable")
        }
        // A shell evaluates what stands between brackets.
        "getopts" | "printf" | "read" | "test" | "unset" | "wait" => {
            let sets = name == "printf" && rest.first().is_some_and(|word| word.starts_with("-v"));
            (sets || any(&|word| word.contains(['[', '$', '`'])), "may evaluate its words")
        }
        name if name.ends_with("awk") => (true, HOLDS),
        name if is_shell(name) => (shell_reads(rest), READS),
        name => return interprets(name, rest),
    };
    is_opaque.then_some(why)
}

/// Tells whether a program is a shell by its name, whatever its version.
pub(crate) fn is_any_shell(name: &str) -> bool {
    is_shell(without_version(name))
}

/// Where a command may begin in the words of a program.
pub(crate) struct Starts<'a> {
    /// The words from each place on.
    pub(crate) all: Vec<&'a [String]>,
    /// The words that are surely before the command; all of them if there may be none.
    pub(crate) own: &'a [String],
}

/// Finds the places where the words after a program's own options may begin: after an option, its value may or may not
/// come first. Ends with the word that is surely the last of `sure` ones.
pub(crate) fn starts(words: &[String], sure: usize) -> Starts<'_> {
    let (mut all, mut passed, mut may_be_value) = (Vec::new(), 0, false);
    for (at, word) in words.iter().enumerate() {
        if word.starts_with(['-', '+']) || is_assignment(word) {
            may_be_value = word.starts_with('-') && word != "--";
            continue;
        }
        all.push(&words[at..]);
        passed += usize::from(!may_be_value);
        may_be_value = false;
        if passed == sure {
            return Starts { all, own: &words[..at] };
        }
    }
    Starts { all, own: words }
}

fn without_version(name: &str) -> &str {
    match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-') {
        "" => name,
        program => program,
    }
}

/// Tells whether a word is short options with one of these letters.
fn has_letter(word: &str, letters: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains(|c| letters.contains(c))
}

/// Options of git whose value is a command, and those that run one which a setting names.
const GIT_RUNS: [&str; 6] =
    ["--exec", "--extcmd", "--ext-diff", "--open-files-in-pager", "--receive-pack", "--upload-pack"];
/// Settings of git that neither are commands nor name files with settings; each with its own section, or whole.
const GIT_PLAIN_SETTINGS: [&str; 11] = [
    "advice.",
    "branch.",
    "color.",
    "core.autocrlf",
    "core.filemode",
    "core.quotepath",
    "fetch.",
    "init.defaultbranch",
    "pull.",
    "push.",
    "user.",
];

/// Tells whether git runs a command that its words hold: with every commit of a rebase, in every submodule, and the like.
fn git_runs(rest: &[String]) -> bool {
    let verb = |name: &str| rest.iter().any(|word| word == name);
    let is_run = |word: &String| GIT_RUNS.iter().any(|option| is_abbreviated(word, option)) || word.contains("ext::");
    rest.iter().any(is_run)
        || verb("submodule") && verb("foreach")
        || verb("bisect") && verb("run")
        || verb("filter-branch")
        || (verb("rebase") || verb("difftool")) && rest.iter().any(|word| has_letter(word, "x"))
        || verb("grep") && rest.iter().any(|word| has_letter(word, "O"))
}

/// Tells whether git is given a setting that may be a command, or may name a file with some.
fn sets_git(rest: &[String]) -> bool {
    let is_setting = |word: &String| ["-c", "--config-env", "--exec-path"].iter().any(|flag| word.starts_with(flag));
    let is_plain = |word: &str| GIT_PLAIN_SETTINGS.iter().any(|plain| word.to_ascii_lowercase().starts_with(plain));
    let config = rest.iter().position(|word| word == "config").map(|at| &rest[at + 1..]);
    let sets = config.is_some_and(|words| {
        let names: Vec<_> = words.iter().filter(|word| !word.starts_with('-') && *word != "set").collect();
        let edits = words.iter().any(|word| matches!(word.as_str(), "-e" | "--edit" | "edit"));
        edits || names.len() > 1 && !is_plain(names[0])
    });
    starts(rest, 1).own.iter().any(is_setting) || sets
}

/// Tells whether a word has tar run a program.
fn tar_runs(word: &str) -> bool {
    let long = ["--to-c", "--checkpoint-a", "--use", "--rsh", "--rmt", "--info-s", "--new-v"];
    has_letter(word, "IF") || long.iter().any(|option| word.starts_with(option))
}

/// Tells whether a shell runs what it reads.
fn shell_reads(rest: &[String]) -> bool {
    let Invocation { flags, script } = Invocation::of(rest, |letters| letters.matches(['o', 'O']).count());
    let is_input = !flags.iter().any(|flag| runs_text(flag)) && script.is_none_or(is_stream);
    !matches!(rest, [only] if only == "--version") && (is_input || flags.iter().any(|flag| has_letter(flag, "s")))
}

/// Returns why an interpreter may run what its words do not show.
fn interprets(name: &str, rest: &[String]) -> Option<&'static str> {
    let (_, programs, values) = INTERPRETERS.iter().find(|(interpreter, ..)| *interpreter == name)?;
    let is_program = |word: &String| match word.strip_prefix("--") {
        Some(long) => ["eval", "print"].iter().any(|flag| long.starts_with(flag)),
        None => has_letter(word, programs),
    };
    if rest.iter().any(is_program) {
        return Some(HOLDS);
    }
    // Python alone goes on with its input after `-v`.
    let is_version = |word: &str| matches!(word, "--version" | "--help" | "-V") || word == "-v" && name != "python";
    let Invocation { script, .. } =
        Invocation::of(rest, |letters| usize::from(letters.ends_with(|c| values.contains(c))));
    let reads = script.is_none_or(is_stream) && !matches!(rest, [only] if is_version(only));
    reads.then_some(READS)
}

/// How a program is called that runs a file.
struct Invocation<'a> {
    /// The options before the file, without their values.
    flags: Vec<&'a str>,
    script: Option<&'a str>,
}

impl<'a> Invocation<'a> {
    /// `values` counts the words that belong to short options, by their letters.
    fn of(rest: &'a [String], values: impl Fn(&str) -> usize) -> Self {
        let (mut flags, mut at) = (Vec::new(), 0);
        while let Some(word) = rest.get(at) {
            at += match word.strip_prefix(['-', '+']) {
                None | Some("") => break,
                Some("-") => {
                    at += 1;
                    break;
                }
                Some(_) if LONG_WITH_VALUE.contains(&word.as_str()) => 2,
                Some(long) if long.starts_with('-') => 1,
                Some(letters) => 1 + values(letters),
            };
            flags.push(word.as_str());
        }
        Self { flags, script: rest.get(at).map(String::as_str) }
    }
}
