//! `coop doctor`, on machines made up of stand-ins.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::tool::{coop, without_inotify, write_program};

fn program(folder: &Path, name: &str, script: &str) {
    write_program(&folder.join(name), &format!("#!/bin/sh\n{script}\n"));
}

fn doctor(home: &Path, args: &[&str], key: Option<&str>) -> Output {
    let mut command = coop(home);
    command.arg("doctor").args(args).env("PATH", home.join("bin"));
    if let Some(key) = key {
        command.env("ANTHROPIC_API_KEY", key);
    }
    command.output().expect("coop runs")
}

fn finding(output: &Output, agent: &str) -> Value {
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = report["agents"].as_array().expect("a list");
    all.iter().find(|finding| finding["agent"] == agent).expect("a finding").clone()
}

fn claude(home: &Path, key: Option<&str>) -> Value {
    finding(&doctor(home, &["--json"], key), "claude")
}

#[test]
fn what_is_installed_is_told_and_what_would_not_work() {
    let home = tempfile::tempdir().expect("a folder");
    fs::create_dir(home.path().join("bin")).expect("a folder");
    let report: Value = serde_json::from_slice(&doctor(home.path(), &["--json"], None).stdout).expect("JSON");
    assert!(report["no_sandbox"].as_str().is_some_and(|why| why.contains("apt install bubblewrap")), "{report:#}");
    let text = String::from_utf8(doctor(home.path(), &[], None).stdout).expect("text");
    assert!(text.contains("Agents cannot run in a sandbox") && text.contains("apt install bubblewrap"), "{text}");
    let none = claude(home.path(), None);
    assert_eq!(none["program"], Value::Null);
    assert!(none["problems"][0].as_str().expect("a problem").contains("`coop install claude@"));

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
fn too_few_inotify_instances_are_told_with_what_to_do() {
    if !coop_testkit::has_user_namespaces() {
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    let mut command = coop(home.path());
    command.arg("doctor");
    let report = |command: &mut Command| {
        let output = command.output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && text.contains(" inotify instances."), "{text}");
        text
    };
    assert!(report(&mut command).contains("`sudo sysctl "));
    let none = report(&mut without_inotify(&command));
    assert!(none.contains(" of 0 inotify instances."), "{none}");
    assert!(none.contains("`sudo sysctl user.max_inotify_instances=1024`"), "{none}");
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

#[test]
fn a_login_is_sought_where_each_agent_keeps_it() {
    let home = tempfile::tempdir().expect("a folder");
    let bin = home.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    for (agent, version) in [("codex", "codex-cli 0.166.0"), ("gemini", "0.61.0"), ("opencode", "1.18.33")] {
        program(&bin, agent, &format!("echo '{version}'"));
    }
    program(&bin, "codex-acp", "echo 0.9.0");
    let look = |agent: &str, variable: Option<&str>| {
        let mut command = coop(home.path());
        command.args(["doctor", "--json"]).env("PATH", &bin);
        command.envs(variable.map(|name| (name, home.path().join("elsewhere"))));
        finding(&command.output().expect("coop runs"), agent)
    };
    let advice =
        ["set OPENAI_API_KEY or CODEX_API_KEY or log in with codex", "log in with gemini", "log in with opencode"];
    let places = [
        ("codex", "CODEX_HOME", ".codex", "auth.json"),
        ("gemini", "GEMINI_CLI_HOME", "", ".gemini/oauth_creds.json"),
        ("opencode", "XDG_DATA_HOME", ".local/share", "opencode/auth.json"),
    ];
    for ((agent, variable, folder, file), advice) in places.into_iter().zip(advice) {
        let none = look(agent, None);
        let problem = none["problems"][0].as_str().expect("a problem");
        assert!(none["login"].is_null() && none["is_tested"] == true && problem.ends_with(advice), "{none:#}");
        for (folder, variable) in [(home.path().join(folder), None), (home.path().join("elsewhere"), Some(variable))] {
            assert!(look(agent, variable)["login"].is_null());
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, "secret").expect("written");
            assert!(look(agent, variable)["login"].as_str().is_some_and(|login| login.ends_with(file)));
        }
    }
    let acp = look("acp", None);
    assert_eq!(
        (&acp["version"], &acp["is_tested"], &acp["problems"]),
        (&"0.9.0".into(), &Value::Null, &Value::Array(vec![]))
    );
}

#[test]
fn coops_own_agent_is_always_here() {
    let home = tempfile::tempdir().expect("a folder");
    let output = doctor(home.path(), &["--json"], Some("sk-very-secret"));
    let findings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let own =
        findings["agents"].as_array().into_iter().flatten().find(|found| found["agent"] == "api").expect("a finding");
    assert_eq!((&own["version"], &own["is_tested"]), (&env!("CARGO_PKG_VERSION").into(), &true.into()), "{own}");
    assert_eq!((&own["login"], &own["problems"]), (&"$ANTHROPIC_API_KEY".into(), &Value::Array(Vec::new())), "{own}");
}
