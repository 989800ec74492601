//! `coop doctor`, on machines made up of stand-ins.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::tool::coop;

fn program(folder: &Path, name: &str, script: &str) {
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a program");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it can be run");
}

fn doctor(home: &Path, args: &[&str], key: Option<&str>) -> Output {
    let mut command = coop(home);
    command.arg("doctor").args(args).env("PATH", home.join("bin"));
    if let Some(key) = key {
        command.env("ANTHROPIC_API_KEY", key);
    }
    command.output().expect("coop runs")
}

fn claude(home: &Path, key: Option<&str>) -> Value {
    let output = doctor(home, &["--json"], key);
    let findings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = findings.as_array().expect("a list");
    all.iter().find(|finding| finding["agent"] == "claude").expect("a finding").clone()
}

#[test]
fn what_is_installed_is_told_and_what_would_not_work() {
    let home = tempfile::tempdir().expect("a folder");
    fs::create_dir(home.path().join("bin")).expect("a folder");
    let none = claude(home.path(), None);
    assert_eq!(none["program"], Value::Null);
    assert!(none["problems"][0].as_str().expect("a problem").contains("npm install -g @anthropic-ai/claude-code@"));

    program(&home.path().join("bin"), "claude", "echo '2.1.197 (Claude Code)'");
    let tested = claude(home.path(), Some("sk-very-secret"));
    assert_eq!((&tested["version"], &tested["is_tested"]), (&"2.1.197".into(), &true.into()));
    assert_eq!(tested["login"], "$ANTHROPIC_API_KEY");
    assert_eq!(tested["problems"].as_array().map(Vec::len), Some(0));

    program(&home.path().join("bin"), "claude", "echo 9.0.0");
    let newer = claude(home.path(), None);
    assert_eq!((&newer["is_tested"], &newer["login"]), (&false.into(), &Value::Null));
    assert_eq!(newer["problems"].as_array().map(Vec::len), Some(2));

    program(&home.path().join("bin"), "claude", "echo 'no node here' >&2; exit 127");
    let broken = claude(home.path(), None);
    assert!(broken["problems"][0].as_str().expect("a problem").contains("no node here"));
}

#[test]
fn no_secret_is_printed() {
    let home = tempfile::tempdir().expect("a folder");
    fs::create_dir(home.path().join("bin")).expect("a folder");
    program(&home.path().join("bin"), "claude", "echo 2.1.197");
    for args in [&[][..], &["--json"]] {
        let output = doctor(home.path(), args, Some("sk-very-secret"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("2.1.197") && text.contains("$ANTHROPIC_API_KEY"), "{text}");
        assert!(!text.contains("very-secret"), "{text}");
    }
}
