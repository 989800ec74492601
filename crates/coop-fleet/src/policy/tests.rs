use coop_api::{AskChannel, AskId};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn rule(verdict: Verdict, line: usize) -> Rule {
    Rule { agent: None, tool: None, path: None, command: None, verdict, why: None, line }
}

fn command_rule(verdict: Verdict, line: usize, pattern: &str) -> Rule {
    let command = Some(CommandPattern::new(pattern).expect("a pattern"));
    Rule { tool: Some(Glob::new("Bash")), command, ..rule(verdict, line) }
}

fn path_rule(verdict: Verdict, line: usize, pattern: &str) -> Rule {
    Rule { path: Some(PathPattern::new(pattern).expect("a pattern")), ..rule(verdict, line) }
}

fn ask(tool: &str, input: Value) -> Ask {
    Ask {
        id: AskId("ask-1".to_owned()),
        kind: AskKind::Permission,
        tool: Some(tool.to_owned()),
        input: Some(input),
        preview: String::new(),
        questions: Vec::new(),
        options: Vec::new(),
        opened: String::new(),
        channel: AskChannel::Structured,
        screen_lines: Vec::new(),
    }
}

fn decide(rules: &[Rule], ask: &Ask) -> Option<(Verdict, usize)> {
    let policy = Policy { rules: rules.to_vec() };
    let request = Request { agent: "fixer", folder: "/home/dev/project", ask };
    policy.decide(&request).map(|decision| (decision.verdict, decision.line))
}

fn run(rules: &[Rule], command: &str) -> Option<(Verdict, usize)> {
    decide(rules, &ask("Bash", json!({ "command": command })))
}

#[test]
fn every_command_of_a_chain_has_to_be_allowed() {
    let rules = [
        command_rule(Verdict::Allow, 1, "cargo test *"),
        command_rule(Verdict::Allow, 2, "git status"),
        command_rule(Verdict::Deny, 3, "git push *"),
        command_rule(Verdict::Ask, 4, "git commit *"),
    ];
    let allow = |line| Some((Verdict::Allow, line));
    for (command, expected) in [
        ("cargo test", allow(1)),
        ("cargo test --workspace 'a b'", allow(1)),
        ("git status && cargo test", allow(2)),
        ("git status; cargo test | cargo test\ngit status &", allow(2)),
        ("cargo test 2>&1 >/dev/null", allow(1)),
        ("git status && rm -rf /", None),
        ("cargo test | sh", None),
        ("git status --short", None),
        ("git push origin", Some((Verdict::Deny, 3))),
        ("cargo test && git push", Some((Verdict::Deny, 3))),
        ("cargo test && git commit -m x", Some((Verdict::Ask, 4))),
        ("git commit -m x && git push", Some((Verdict::Deny, 3))),
        ("\"git\" 'push' x", Some((Verdict::Deny, 3))),
        // What cannot be told apart is asked, and a denial is found in it all the same.
        ("cargo test $(rm -rf /)", Some((Verdict::Ask, 4))),
        ("cargo test `id`", Some((Verdict::Ask, 4))),
        ("cargo test > out.txt", Some((Verdict::Ask, 4))),
        ("LD_PRELOAD=x cargo test", Some((Verdict::Ask, 4))),
        ("(git push origin)", Some((Verdict::Deny, 3))),
        ("if true; then git push; fi", Some((Verdict::Deny, 3))),
    ] {
        let found = run(&rules, command);
        // For what is opaque only that it is asked counts, not which rule could not judge it.
        match expected {
            Some((Verdict::Ask, 4)) if split(command).is_err() => {
                assert_eq!(found.map(|(verdict, _)| verdict), Some(Verdict::Ask), "{command}");
            }
            expected => assert_eq!(found, expected, "{command}"),
        }
    }
}

#[test]
fn a_rule_without_a_command_is_for_all_of_a_tool() {
    let rules = [Rule { tool: Some(Glob::new("Bash")), ..rule(Verdict::Allow, 7) }];
    assert_eq!(run(&rules, "for i in $(ls); do rm $i; done"), Some((Verdict::Allow, 7)));
    assert_eq!(decide(&rules, &ask("Write", json!({}))), None);
}

#[test]
fn rules_are_for_agents_tools_and_paths() {
    let of_other = Rule { agent: Some(Glob::new("rev*")), ..rule(Verdict::Deny, 1) };
    let rules = [of_other, path_rule(Verdict::Allow, 2, "src/**"), path_rule(Verdict::Deny, 3, "**/.env")];
    let write = |path: &str| decide(&rules, &ask("Write", json!({ "file_path": path })));
    assert_eq!(write("/home/dev/project/src/a/b.rs"), Some((Verdict::Allow, 2)));
    assert_eq!(write("src/b.rs"), Some((Verdict::Allow, 2)));
    assert_eq!(write("src/.env"), Some((Verdict::Deny, 3)));
    for outside in
        ["/etc/passwd", "src/../Cargo.toml", "/home/dev/project/src/../../x", "src", "~/src/x", "../project2/src/x"]
    {
        assert_eq!(write(outside), None, "{outside}");
    }
    // Without a path there is nothing that a rule about paths could allow.
    assert_eq!(decide(&rules, &ask("Write", json!({}))), None);
    // Every path has to be allowed.
    let two = json!({ "file_path": "src/a", "path": "/etc/passwd" });
    assert_eq!(decide(&rules, &ask("Write", two)), None);
}

#[test]
fn what_is_not_whole_is_not_allowed() {
    let rules = [command_rule(Verdict::Allow, 1, "*")];
    let mut cut = ask("Bash", json!({}));
    cut.preview = "cargo test".to_owned();
    assert_eq!(decide(&rules, &cut), None);
    cut.input = None;
    assert_eq!(decide(&rules, &cut), None);
    let mut plan = ask("Bash", json!({ "command": "ls" }));
    plan.kind = AskKind::Plan;
    assert_eq!(decide(&rules, &plan), None);
}

#[test]
fn words_need_no_shell_unless_they_call_one() {
    let rules = [command_rule(Verdict::Allow, 1, "echo *")];
    let words = |words: Value| decide(&rules, &ask("Bash", json!({ "command": words })));
    assert_eq!(words(json!(["echo", "a; rm x"])), Some((Verdict::Allow, 1)));
    assert_eq!(words(json!(["bash", "-lc", "echo a"])), Some((Verdict::Allow, 1)));
    assert_eq!(words(json!(["bash", "-lc", "echo a; rm x"])), None);
}

#[test]
fn a_decision_says_which_rule_and_why() {
    let why = Some("tests are safe".to_owned());
    let policy = Policy { rules: vec![Rule { why, ..command_rule(Verdict::Allow, 12, "cargo *") }] };
    let ask = ask("Bash", json!({ "command": "cargo test && cargo fmt" }));
    let request = Request { agent: "fixer", folder: "/", ask: &ask };
    let expected = Decision { verdict: Verdict::Allow, line: 12, why: "tests are safe".to_owned() };
    assert_eq!(policy.decide(&request), Some(expected));
}

#[test]
fn patterns_that_can_fit_nothing_are_refused() {
    assert!(CommandPattern::new("  ").is_err());
    assert!(CommandPattern::new("a && b").is_err());
    assert!(PathPattern::new("../x").is_err());
    assert!(PathPattern::new("~/x").is_err());
    assert!(PathPattern::new("").is_err());
}

proptest! {
    #[test]
    fn a_star_fits_whatever_stands_there(before in "[a-c/]{0,6}", between in "[a-c/*]{0,6}", after in "[a-c/]{0,6}") {
        let glob = Glob::new(format!("{before}*{after}"));
        let text = format!("{before}{between}{after}");
        prop_assert!(glob.is_match(&text));
    }
}
