//! The repository keeps its own rules.

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Files that may be longer than the rest, with the reason.
const LONG: &[(&str, &str)] = &[
    ("crates/coop-server/src/grpc/coop.v1.rs", "generated"),
    ("crates/coop-server/src/grpc/coop.fleet.v1.rs", "generated"),
];
const MOST_LINES: usize = 800;

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it can be read").path()) {
        if entry.is_dir() {
            rust_files(&entry, found);
        } else if entry.extension().is_some_and(|kind| kind == "rs") {
            found.push(entry);
        }
    }
}

fn all_rust_files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    rust_files(&Path::new(ROOT).join("crates"), &mut found);
    let root = Path::new(ROOT);
    found
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("it can be read");
            (path.strip_prefix(root).expect("it is below").display().to_string(), text)
        })
        .collect()
}

#[test]
fn no_file_is_too_long() {
    for (name, text) in all_rust_files() {
        let lines = text.lines().count();
        let excused = LONG.iter().any(|(long, _)| *long == name);
        assert!(excused || lines <= MOST_LINES, "{name} has {lines} lines; look for the second idea in it");
    }
}

#[test]
fn no_test_file_is_forgotten() {
    let files = all_rust_files();
    for (name, _) in &files {
        let Some((krate, file)) = name.split_once("/tests/it/") else { continue };
        if file == "main.rs" {
            continue;
        }
        // A folder's own file is `mod.rs`, and stands for the folder in the one above.
        let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let (parent, module) = match path.rsplit_once('/') {
            Some((folder, module)) => (format!("{krate}/tests/it/{folder}/mod.rs"), module),
            None => (format!("{krate}/tests/it/main.rs"), path),
        };
        let module = format!("mod {module};");
        let listed = files.iter().any(|(name, text)| *name == parent && text.contains(&module));
        assert!(listed, "{name} is not part of {parent}");
    }
}

/// Files that start programs by themselves, with the reason. All others use `coop_fleet::bounded`, which takes coop's variables
/// out of the environment: an agent can read that of every process of its user.
const STARTERS: &[(&str, &str)] = &[
    ("crates/coop-fleet/src/bounded.rs", "the one way"),
    ("crates/coop-folder/src/git.rs", "takes the variables out itself; the server needs git and not the fleet"),
    ("crates/coop-session/src/guard.rs", "clears the environment"),
    ("crates/coop-term/src/pty.rs", "has the environment of the agent"),
    ("crates/coop/src/await_socket.rs", "becomes the agent, inside its terminal"),
    ("crates/coop/src/enter.rs", "becomes the agent, inside its sandbox"),
    ("crates/coop/src/bridge/screen.rs", "a display on a terminal, inside the agent's"),
    ("crates/coop/src/shield.rs", "becomes coop itself"),
    ("crates/coop/src/fleet/up.rs", "starts coop itself"),
    ("crates/coop/src/fleet/wrap.rs", "becomes a person's own agent, or coop; removes the secrets"),
];

#[test]
fn programs_are_started_without_coops_variables() {
    let crates = ["coop-fleet", "coop-folder", "coop-server", "coop-session", "coop-term", "coop-kube", "coop"]
        .map(|name| format!("crates/{name}/src/"));
    let mut starters = Vec::new();
    for (name, text) in all_rust_files() {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_tested = crates.iter().any(|folder| name.starts_with(folder.as_str())) && !name.ends_with("tests.rs");
        if is_tested && code.contains("Command::new(") {
            assert!(STARTERS.iter().any(|(known, _)| *known == name), "{name}: use coop_fleet::bounded::command");
            starters.push(name);
        }
    }
    for (known, _) in STARTERS {
        assert!(starters.iter().any(|name| name == known), "{known} starts nothing: take it off the list");
    }
}

#[test]
fn the_closed_sets_stay_small() {
    for (file, name, most) in
        [("crates/coop-api/src/port.rs", "Request", 25), ("crates/coop-api/src/event.rs", "EventBody", 15)]
    {
        let text = fs::read_to_string(Path::new(ROOT).join(file)).expect("it is there");
        let body = text.split_once(&format!("pub enum {name} {{")).expect("it is declared").1;
        let body = body.split_once("\n}\n").expect("it ends").0;
        let variants =
            body.lines().filter(|line| line.starts_with("    ") && line.as_bytes()[4].is_ascii_uppercase()).count();
        assert!((1..=most).contains(&variants), "{name} has {variants} variants, {most} is the ceiling");
    }
}

/// `COOP_UPDATE=1` writes what is generated anew.
fn check(path: &str, expected: &str) {
    let file = Path::new(ROOT).join(path);
    if std::env::var_os("COOP_UPDATE").is_some() {
        fs::write(&file, expected).expect("the file can be written");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == expected, "{path} is out of date; run `make generate` and commit it");
}

#[test]
fn the_openapi_description_is_current() {
    let document = serde_json::to_string_pretty(&coop_server::openapi()).expect("it is JSON");
    check("docs/openapi.json", &(document + "\n"));
    let document = serde_json::to_string_pretty(&coop_server::fleet::openapi()).expect("it is JSON");
    check("docs/openapi-fleet.json", &(document + "\n"));
}

#[test]
fn the_schemas_of_the_shim_are_current() {
    for (name, schema) in coop_server::shim::types::schemas() {
        let text = serde_json::to_string_pretty(&schema).expect("it is JSON");
        check(&format!("docs/shim-schemas/{name}.json"), &(text + "\n"));
    }
    let files = fs::read_dir(Path::new(ROOT).join("docs/shim-schemas")).expect("they are there").count();
    assert_eq!(files, coop_server::shim::types::schemas().len(), "there is a schema of nothing");
}

#[test]
fn the_definition_of_the_agent_resource_is_current() {
    let yaml = serde_saphyr::to_string(&coop_kube::definition()).expect("it is YAML");
    check(
        "deploy/kubernetes/crd.yaml",
        &format!("# Generated by `make generate` from the types in crates/coop-kube.\n{yaml}"),
    );
}

#[test]
fn the_command_line_reference_is_current() {
    let mut text = String::from("# Command line\n\nGenerated by `make generate` from the program itself.\n");
    for command in [
        &["--help"][..],
        &["attach", "--help"],
        &["screen", "--help"],
        &["type", "--help"],
        &["keys", "--help"],
        &["shim", "--help"],
        &["up", "--help"],
        &["down", "--help"],
        &["status", "--help"],
        &["ls", "--help"],
        &["adopt", "--help"],
        &["show", "--help"],
        &["spawn", "--help"],
        &["send", "--help"],
        &["wait", "--help"],
        &["logs", "--help"],
        &["events", "--help"],
        &["asks", "--help"],
        &["respond", "--help"],
        &["interrupt", "--help"],
        &["kill", "--help"],
        &["resume", "--help"],
        &["explain", "--help"],
        &["usage", "--help"],
        &["db", "--help"],
        &["db", "backup", "--help"],
        &["db", "check", "--help"],
        &["completions", "--help"],
        &["doctor", "--help"],
        &["operator", "--help"],
        &["unpack", "--help"],
        &["run", "--help"],
        &["sim", "--help"],
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let (code, out, _) = crate::tool::run(crate::tool::coop(home.path()).args(command));
        assert_eq!(code, 0);
        let name = command.iter().filter(|arg| **arg != "--help").fold("coop".to_owned(), |name, arg| name + " " + arg);
        text += &format!("\n## {name}\n\n```\n{}\n```\n", out.trim_end());
    }
    check("docs/CLI.md", &text);
}

/// Where systemd is, it has nothing to say about the unit.
#[test]
fn the_systemd_unit_is_fine() {
    let unit = fs::read_to_string(Path::new(ROOT).join("deploy/coop.service")).expect("it is there");
    assert!(unit.contains("KillMode=process"), "agents outlive the daemon");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("coop.service");
    fs::write(&copy, unit.replace("%h/.local/bin/coop", crate::tool::COOP)).expect("written");
    let mut command = std::process::Command::new("systemd-analyze");
    command.args(["verify", "--user"]).arg(&copy).env("XDG_RUNTIME_DIR", folder.path());
    if command.output().is_err() {
        return coop_testkit::skip("systemd-analyze is not installed");
    }
    let (code, out, err) = crate::tool::run(&mut command);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
}

/// Every file the README and the docs point to is there.
#[test]
fn links_in_the_docs_lead_somewhere() {
    let mut pages = vec![PathBuf::from("README.md")];
    for entry in fs::read_dir(Path::new(ROOT).join("docs")).expect("docs are there") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_some_and(|kind| kind == "md") {
            pages.push(Path::new("docs").join(path.file_name().expect("it has a name")));
        }
    }
    for page in pages {
        let text = fs::read_to_string(Path::new(ROOT).join(&page)).expect("it can be read");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let folder = page.parent().unwrap_or(Path::new(""));
            assert!(Path::new(ROOT).join(folder).join(target).exists(), "{} points to {target}", page.display());
        }
    }
}

/// Folders that git ignores.
const IGNORED: [&str; 5] = ["target", "node_modules", ".tools", ".git", "dist"];

/// Calls `check` with every text file of the repository: its path below the root, and what it says.
fn each_text(folder: &Path, check: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it can be read")) {
        let path = entry.path();
        let kind = entry.file_type().expect("it has a type");
        if kind.is_dir() {
            if !IGNORED.iter().any(|name| entry.file_name() == *name) {
                each_text(&path, check);
            }
        } else if let (true, Ok(text)) = (kind.is_file(), fs::read_to_string(&path)) {
            check(path.strip_prefix(ROOT).expect("it is below the root"), &text);
        }
    }
}

/// Returns the relative paths in a text that lead out of the repository. They count from the folder of the file, and those that
/// begin with `/..` in Rust from its crate, as in `concat!(env!("CARGO_MANIFEST_DIR"), "/../x")`.
fn paths_leading_out(file: &Path, text: &str) -> Vec<String> {
    let is_of_a_path = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let depth = file.components().count() - 1;
    let crate_depth = if file.starts_with("crates") || file.starts_with("tools") { 2 } else { 1 };
    let is_rust = file.extension().is_some_and(|kind| kind == "rs");
    let leads_out = |word: &&str| match word.find("../") {
        Some(at) if is_rust && word.starts_with("/../") => leads_up_from(&word[at..], depth.min(crate_depth)),
        Some(at) => leads_up_from(&word[at..], depth),
        None => false,
    };
    text.split(|letter: char| !is_of_a_path(letter)).filter(leads_out).map(str::to_owned).collect()
}

/// Tells whether a path leads above the root from a folder that is so many levels below it.
fn leads_up_from(path: &str, depth: usize) -> bool {
    let mut depth = depth;
    for part in path.split('/') {
        match part {
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            "." | "" => {}
            _ => depth += 1,
        }
    }
    false
}

/// A clone has nothing beside it. Once the tests read recordings from a folder that only the authors had.
#[test]
fn no_path_leads_out_of_the_repository() {
    each_text(Path::new(ROOT), &mut |file, text| {
        if file.ends_with("tests/it/repository.rs") {
            return;
        }
        let found = paths_leading_out(file, text);
        assert!(found.is_empty(), "{} names what is not in the repository: {found:?}", file.display());
    });
}

#[test]
fn a_path_out_of_the_repository_is_found() {
    for (file, text, expected) in [
        ("Makefile", "X ?= ../shared/recordings", 1),
        ("Makefile", "ls ../shared/", 1),
        ("tools/deps.sh", "cd $here/../../shared", 1),
        ("tools/deps.sh", "cd $here/../fuzz", 0),
        ("crates/a/src/b.rs", r#"concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/x")"#, 1),
        ("crates/a/src/b.rs", r#"concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/x")"#, 0),
        ("crates/a/src/b.rs", r#"include_str!("../../../docs/X.md")"#, 0),
        ("docs/a.md", "[x](../README.md) and [y](../../y)", 1),
    ] {
        assert_eq!(paths_leading_out(Path::new(file), text).len(), expected, "{file}: {text}");
    }
}

/// Crates without examples in their docs say so, because looking for them takes seconds each. A new example must not go unnoticed.
#[test]
fn crates_without_documentation_tests_have_no_examples() {
    for (name, text) in all_rust_files() {
        let krate = name.split('/').take(2).collect::<Vec<_>>().join("/");
        let manifest = fs::read_to_string(Path::new(ROOT).join(krate).join("Cargo.toml")).expect("a manifest");
        if !manifest.contains("doctest = false") {
            continue;
        }
        let fences = text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("//")?.get(1..)?.trim_start().strip_prefix("```"));
        // Every other fence ends what the one before has begun.
        for opening in fences.step_by(2) {
            assert!(!opening.is_empty() && opening != "rust", "{name} has an example that no test runs");
        }
    }
}
