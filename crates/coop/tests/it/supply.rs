//! What coop is built of, and what SECURITY.md promises.

use std::fs;
use std::path::Path;

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A lock that names other versions than `package.json` would make `npm install` load what no checksum is known of.
#[test]
fn every_npm_package_has_a_checksum() {
    for folder in ["web", "tests/web", "tests/xterm", "tests/real", "tests/mcp"] {
        let json = |name: &str| serde_json::from_str::<Value>(&read(&format!("{folder}/{name}"))).expect("JSON");
        let (manifest, lock) = (json("package.json"), json("package-lock.json"));
        let packages = lock["packages"].as_object().expect("packages");
        for kind in ["dependencies", "devDependencies"] {
            assert_eq!(packages[""][kind], manifest[kind], "{folder}: {kind}");
        }
        for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
            let integrity = package["integrity"].as_str().unwrap_or_default();
            assert!(integrity.starts_with("sha512-") && package["link"].is_null(), "{folder}: {name}");
        }
    }
}

#[test]
fn npm_runs_no_script_of_a_package() {
    let mut calls = 0;
    for file in
        ["Makefile", "Dockerfile", "deploy/kubernetes/examples/claude.Dockerfile", "tools/deps.sh", "tools/k8s/deps.sh"]
    {
        for line in read(file).lines().filter(|line| line.contains("npm ci") || line.contains("npm install")) {
            assert!(line.contains("--ignore-scripts") || line.trim_start().starts_with('#'), "{file}: {line}");
            calls += 1;
        }
    }
    assert!(calls >= 4, "the page, the tests and two images are installed: {calls}");
}

/// A tag may name another image tomorrow; a build can name digests instead.
#[test]
fn base_images_can_be_named_by_digest() {
    for file in ["Dockerfile", "deploy/kubernetes/examples/claude.Dockerfile"] {
        for line in read(file).lines().filter_map(|line| line.strip_prefix("FROM ")) {
            assert!(line.starts_with("${") || line.starts_with("scratch "), "{file}: {line}");
        }
    }
}

#[test]
fn cargo_deny_is_part_of_lint_and_test() {
    let makefile = read("Makefile");
    for target in ["\nlint:", "\ntest: ##"] {
        let (_, rule) = makefile.split_once(target).expect("there");
        let rule = rule.split("\n\n").next().expect("lines");
        assert!(rule.contains("tools/deny.sh"), "{target}: {rule}");
    }
    for check in ["bans", "licenses", "sources", "advisories"] {
        assert!(read("tools/deny.sh").contains(check), "{check}");
    }
}

/// Returns the names in backticks.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Every row of the table of attacks names tests, and each is a test.
#[test]
fn every_test_that_security_names_exists() {
    let text = read("SECURITY.md");
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Attacker"));
    let mut sources = String::new();
    collect(&Path::new(ROOT).join("crates"), &mut sources);
    collect(&Path::new(ROOT).join("tests"), &mut sources);
    collect(&Path::new(ROOT).join("fuzz"), &mut sources);
    let mut rows_seen = 0;
    for row in rows {
        rows_seen += 1;
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, _, stop, tests] = cells.as_slice() else { panic!("not four cells: {row}") };
        assert!(!stop.is_empty() && !names(tests).is_empty(), "{row}");
        for test in names(tests) {
            let is_there = sources.contains(&format!("fn {test}(")) || sources.contains(&format!("test('{test}'"));
            assert!(is_there, "SECURITY.md names a test that is not there: {test}");
        }
    }
    assert!(rows_seen > 20, "the table is there");
}

fn collect(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it can be read").path()) {
        let is_source = entry.extension().is_some_and(|kind| kind == "rs" || kind == "mjs");
        if entry.is_dir() && !entry.ends_with("node_modules") {
            collect(&entry, sources);
        } else if is_source {
            sources.push_str(&fs::read_to_string(&entry).expect("it can be read"));
        }
    }
}
