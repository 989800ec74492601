//! `coop install`, with a stand-in for npm that does what npm does, or fails as npm fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tool;

/// What npm is called with and leaves behind. `CASE` says how it goes.
const NPM: &str = r#"#!/bin/sh
echo "$@" >> "$HOME/calls"
while [ $# -gt 1 ]; do
    [ "$1" = --prefix ] && prefix="$2"
    shift
done
version="${1##*@}"
case "$CASE" in
    offline) echo 'npm error code ENOTFOUND' >&2; exit 1 ;;
    damaged) echo 'npm error code EINTEGRITY' >&2; exit 1 ;;
    unknown) echo 'npm error code ETARGET' >&2; exit 1 ;;
esac
# What version 2.1.197 has on npm.
sum="sha512-EqrwbRcI7M5y8jQlayIfTMmbZJ2OQaLOc7KwIWKdryQCdKWUEFr+C9rMovZUuj2Asndi7aqLujEzRtr471gncg=="
[ "$CASE" = another ] && sum="sha512-x"
integrity=', "integrity": "'$sum'"'
[ "$CASE" = unchecked ] && integrity=
for platform in linux-x64 linux-arm64 darwin-x64 darwin-arm64; do
    folder="$prefix/node_modules/@anthropic-ai/claude-code-$platform"
    mkdir -p "$folder"
    printf '#!/bin/sh\necho "%s (Claude Code)"\n' "$version" > "$folder/claude"
    chmod 755 "$folder/claude"
done
printf '{ "packages": { "": {}, "node_modules/@anthropic-ai/claude-code": { "version": "%s"%s } } }' \
    "$version" "$integrity" > "$prefix/package-lock.json"
"#;

struct Machine {
    home: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        fs::create_dir(home.path().join("bin")).expect("made");
        tool::write_program(&home.path().join("bin/npm"), NPM);
        Self { home }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = tool::coop(self.home.path());
        // Nothing that is really installed here is found.
        command.args(args).env("PATH", format!("{}:/usr/bin:/bin", self.home.path().join("bin").display()));
        command
    }

    fn install(&self, what: &str, case: &str) -> (i32, String, String) {
        tool::run(self.command(&["install", what]).env("CASE", case))
    }

    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.home.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    fn agents(&self) -> PathBuf {
        self.home.path().join(".local/share/coop/agents")
    }

    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.agents().join("claude")).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

#[test]
fn an_agent_is_installed_found_and_installed_once() {
    let machine = Machine::new();
    let (code, program, err) = machine.install("claude@2.1.197", "");
    assert_eq!((code, err.as_str()), (0, ""));
    let program = program.trim_end();
    assert!(Path::new(program).starts_with(machine.agents().join("claude/2.1.197")), "{program}");
    let calls = machine.calls();
    assert!(
        calls[0].contains("--ignore-scripts") && calls[0].ends_with("@anthropic-ai/claude-code@2.1.197"),
        "{calls:?}"
    );
    // What is there is not loaded again.
    assert_eq!(machine.install("claude", "offline").0, 0);
    assert_eq!(machine.calls().len(), 1);
    let (code, told, err) = tool::run(&mut machine.command(&["doctor", "--json"]));
    assert_eq!(code, 0, "{err}");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let claude =
        told["agents"].as_array().expect("a list").iter().find(|found| found["agent"] == "claude").expect("there");
    assert_eq!((&claude["version"], &claude["is_tested"]), (&"2.1.197".into(), &true.into()), "{claude}");
    assert_eq!(
        fs::canonicalize(claude["program"].as_str().expect("a path")).expect("there"),
        fs::canonicalize(program).expect("there")
    );
    // A wrapper and a sidecar run it, as long as there is no other on PATH.
    let (code, out, err) = tool::run(&mut machine.command(&["wrap", "claude", "--version"]));
    assert_eq!((code, out.as_str(), err.as_str()), (0, "2.1.197 (Claude Code)\n", ""));
    let (code, _, err) = tool::run(&mut machine.command(&["--agent", "unknown", "--", "claude"]));
    assert_eq!(code, 0, "{err}");
    // Another version comes beside it, and is the one that is used then.
    let (code, _, err) = machine.install("claude@9.9.9", "");
    assert!(code == 0 && err.contains("tested with 2.1.197"), "{err}");
    assert_eq!(machine.left(), ["2.1.197", "9.9.9", "current"]);
    assert_eq!(tool::run(&mut machine.command(&["wrap", "claude", "--version"])).1, "9.9.9 (Claude Code)\n");
}

#[test]
fn what_cannot_be_installed_leaves_nothing_and_says_why() {
    let machine = Machine::new();
    for (case, expected) in [
        ("offline", "is this machine offline?"),
        ("damaged", "not what its checksum says"),
        ("unknown", "npm has no @anthropic-ai/claude-code@2.1.197"),
        ("unchecked", "names no checksum"),
        (
            "another",
            "claude-code 2.1.197 is not what coop was tested with: its checksum is sha512-x, and was sha512-Eqrwb",
        ),
    ] {
        let (code, out, err) = machine.install("claude@2.1.197", case);
        assert!(code == 1 && out.is_empty() && err.contains(expected), "{case}: {code} {err}");
        assert_eq!(machine.left(), Vec::<String>::new(), "{case}");
    }
    fs::remove_file(machine.home.path().join("bin/npm")).expect("removed");
    let mut without = machine.command(&["install", "claude"]);
    let (code, _, err) = tool::run(without.env("PATH", machine.home.path().join("bin")));
    assert!(code == 1 && err.contains("npm is not on PATH"), "{err}");
    assert_eq!(machine.install("bash@1", "").0, 1);
}
