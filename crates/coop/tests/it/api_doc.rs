//! The examples of `docs/API.md` and `docs/SHIM.md`, run as they stand there: in one shell, one after another.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::tool::COOP;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
/// A page takes six seconds. Then all that it started is ended.
const LIMIT: &str = "180";
/// What stands in the output for anything at all.
const ANYTHING: char = '…';
/// Paths of the API that are about the agent.
const ABOUT_AGENTS: [&str; 6] = ["agent", "stop/", "hooks/", "transcripts/", "session/", "shutdown"];

/// Something to run, and what comes of it.
struct Example {
    /// Where it is on the page.
    line: usize,
    script: String,
    /// What the page shows; nothing if it shows nothing.
    output: Option<String>,
}

/// Returns the blocks of `sh`, each with the block that follows right after it.
fn examples(page: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut lines = page.lines().zip(1..).peekable();
    while let Some((fence, line)) = lines.next() {
        if fence == "```sh" {
            let script = block(&mut lines);
            let has_output = lines.next_if(|(text, _)| text.starts_with("```")).is_some();
            examples.push(Example { line, script, output: has_output.then(|| block(&mut lines)) });
        }
    }
    examples
}

/// Returns the lines up to the end of a block.
fn block<'a>(lines: &mut impl Iterator<Item = (&'a str, usize)>) -> String {
    lines.map(|(text, _)| text).take_while(|text| *text != "```").flat_map(|text| [text, "\n"]).collect()
}

/// Tells whether an output is what the page shows. Blanks and line ends do not count: the page breaks long lines.
fn is_like(shown: &str, output: &str) -> bool {
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    let (shown, output) = (bare(shown), bare(output));
    let mut parts = shown.split(ANYTHING);
    let Some(mut rest) = parts.next().and_then(|first| output.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let found = if is_last { rest.ends_with(part).then(|| rest.len() - part.len()) } else { rest.find(part) };
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

fn read(page: &str) -> String {
    fs::read_to_string(Path::new(DOCS).join(page)).expect("the page is there")
}

/// Runs all scripts in one shell and returns what each of them printed.
fn run(page: &str, examples: &[Example]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [bin, home, work] = ["bin", "home", "work"].map(|name| folder.path().join(name));
    for folder in [&bin, &home, &work] {
        fs::create_dir(folder).expect("it can be made");
    }
    symlink(COOP, bin.join("coop")).expect("it can be linked");
    let mark = |line: usize| format!("=== {page}:{line} ===\n");
    let steps = examples.iter().map(|example| format!("printf '%s' '{}'\n{}", mark(example.line), example.script));
    let script = format!("exec 2>&1\n{}", steps.collect::<String>());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    // It ends its whole process group, and so the sidecars, when the time is up.
    let mut command = Command::new("timeout");
    command.args([LIMIT, "bash", "-c", &script]).env_clear().current_dir(&work).stdin(std::process::Stdio::null());
    command.env("PATH", path).env("HOME", &home).env("XDG_RUNTIME_DIR", &home).env("LANG", "C.UTF-8");
    let ended = command.output().expect("a shell runs");
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    let log = fs::read_to_string(work.join("coop.log")).unwrap_or_default();
    assert!(ended.status.success(), "the page ended with {}:\n{printed}\n{log}", ended.status);
    let mut rest = printed.as_str();
    let mut outputs = Vec::new();
    for example in examples {
        let (before, after) = rest.split_once(&mark(example.line)).expect("every example is reached");
        outputs.push(before.to_owned());
        rest = after;
    }
    outputs.push(rest.to_owned());
    outputs.split_off(1)
}

fn does_what_it_shows(page: &str) {
    let examples = examples(&read(page));
    assert!(!examples.is_empty());
    let outputs = run(page, &examples);
    for (Example { line, script, output }, printed) in examples.iter().zip(outputs) {
        let shown = output.as_deref().unwrap_or_default();
        assert!(is_like(shown, &printed), "docs/{page}:{line}\n{script}\nshows\n{shown}\nand prints\n{printed}");
    }
}

#[test]
fn every_example_of_the_page_does_what_the_page_shows() {
    does_what_it_shows("API.md");
}

#[test]
fn every_example_of_the_shim_does_what_the_page_shows() {
    does_what_it_shows("SHIM.md");
}

#[test]
fn every_route_about_agents_has_an_example() {
    let page = read("API.md");
    let scripts: String = examples(&page).into_iter().map(|example| example.script).collect();
    let document = coop_server::openapi();
    let paths = document["paths"].as_object().expect("there are paths").keys();
    for path in paths.filter_map(|path| path.strip_prefix("/api/v1/")) {
        if !ABOUT_AGENTS.iter().any(|about| path.starts_with(about)) || path == "agent/state" {
            continue;
        }
        assert!(page.contains(&format!("/{path}\n")), "{path} has no section");
        // The last part of a path may be a name.
        let called = path.split('{').next().unwrap_or(path);
        assert!(scripts.contains(&format!("api {called}")), "{path} has no example");
    }
}

#[test]
fn outputs_are_compared_loosely_but_not_too_loosely() {
    assert!(is_like("{\"a\":1,\n \"b\":2}", "{\"a\":1,\"b\":2}\n"));
    assert!(is_like("{\"a\":…,\"b\":…}", "{\"a\":\"x\",\"b\":\"y\"}"));
    assert!(is_like("…\nend", "begin\nmiddle\nend\n") && is_like("…", "") && is_like("", "\n"));
    assert!(!is_like("a", "ab") && !is_like("a…c", "ab") && !is_like("", "error") && !is_like("a…a", "a"));
}
