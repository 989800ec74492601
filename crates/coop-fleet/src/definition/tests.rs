use coop_policy::Verdict;

use super::*;
use crate::engine::{Attempts, ErrorAction, IdleAction, PromptAction, StopMode};

const WHOLE: &str = r#"
[agents.fixer]
driver = "claude"
command = ["claude", "--model", "opus"]
prompt = "Make the tests pass."
folder = "project"
env = { RUST_LOG = "debug", COOP_SIM_SCENARIO = "plain" }
runtime = "pty"
isolate = true
trust = true
record = 8
limits = { turns = 20, time = "2h", cost_usd = 5 }
start = { text = "Answer in English.", resume = { shell = ["git log -3"] } }
on_idle = [
  { action = "gate", run = "make check", limit = "90s", attempts = 3, message = "{output}" },
  { action = "nudge", attempts = "forever", cooldown = "1m" },
]
on_dead = "resume"
on_prompt = { permission = "deny", plan = "allow" }
on_error = { rate_limit = { action = "retry", cooldown = "5m" }, auth = "fail" }

[agents.helper]
driver = "claude"
kind = "crew"

[[policy]]
agent = "fix*"
tool = "shell"
command = "cargo test"
decide = "allow"
why = "it may run its own code"

[[policy]]
path = "/etc/**"
decide = "deny"
"#;

#[test]
fn a_whole_file_is_read() {
    let definition = Definition::parse(WHOLE).expect("it makes sense");
    let fixer = &definition.agents["fixer"];
    assert_eq!(fixer.command, ["claude", "--model", "opus"]);
    assert_eq!((fixer.prompt.as_deref(), fixer.folder.as_deref()), (Some("Make the tests pass."), Some("project")));
    assert_eq!((fixer.env.len(), fixer.isolate, fixer.trust), (2, true, true));
    let limits = Limits { turns: Some(20), time: Some(Duration::from_secs(7200)), cost_usd: Some(5.0) };
    assert_eq!(fixer.limits, limits);
    let steps = fixer.actions.on_idle.steps();
    assert_eq!((steps[0].action, steps[0].attempts), (IdleAction::Gate, Attempts::Times(3)));
    assert_eq!(steps[0].gate.as_ref().map(|gate| gate.limit), Some(Duration::from_secs(90)));
    assert_eq!((steps[1].action, steps[1].cooldown), (IdleAction::Nudge, Duration::from_secs(60)));
    assert_eq!(fixer.actions.on_prompt.permission.steps()[0].action, PromptAction::Deny);
    assert_eq!(fixer.actions.on_prompt.setup.steps()[0].action, PromptAction::Escalate);
    assert_eq!(fixer.actions.on_error.rate_limit.steps()[0].cooldown, Duration::from_secs(300));
    assert_eq!(fixer.actions.on_error.auth.steps()[0].action, ErrorAction::Fail);
    let helper = &definition.agents["helper"];
    assert_eq!((fixer.record, helper.record), (Some(8 << 20), Some(32 << 20)));
    let recorded = |value: &str| {
        let text = format!("[agents.a]\ndriver = \"claude\"\nrecord = {value}\n");
        Definition::parse(&text).map(|read| read.agents["a"].record).map_err(|wrong| wrong.line)
    };
    assert_eq!((recorded("false"), recorded("true")), (Ok(None), Ok(Some(32 << 20))));
    assert_eq!((recorded("0"), recorded("\"much\""), recorded("2000")), (Err(3), Err(3), Err(3)));
    assert_eq!(helper.command, ["claude"]);
    assert_eq!(helper.actions.stop(0), (StopMode::Gate, true), "crew waits for somebody");
    let rules: Vec<_> = definition.policy.rules.iter().map(|rule| (rule.verdict, rule.line)).collect();
    assert_eq!(rules, [(Verdict::Allow, 26), (Verdict::Deny, 33)]);
}

/// It is a part of coop: there is no program to name, and what sets it is called like what sets coop.
#[test]
fn coops_own_agent_needs_no_command_and_takes_its_settings() {
    let read = |line: &str| Definition::parse(&format!("[agents.a]\ndriver = \"api\"\n{line}"));
    let agent = |line: &str| read(line).expect("it makes sense").agents["a"].clone();
    assert_eq!(agent("").command, [""; 0]);
    assert_eq!(agent("command = []").command, [""; 0]);
    assert_eq!(agent("command = [\"--max-cost\", \"1\"]").command, ["--max-cost", "1"]);
    assert_eq!(agent("runtime = \"inproc\"").runtime.as_deref(), Some("inproc"));
    assert_eq!(agent("env = { COOP_MODEL = \"m\", COOP_API_KEY = \"k\" }").env.len(), 2);
    assert!(read("env = { COOP_AUTH_TOKEN = \"t\" }").is_err());
    let others = Definition::parse("[agents.a]\ndriver = \"claude\"\nenv = { COOP_MODEL = \"m\" }");
    assert!(others.is_err(), "it is nothing to them");
}

#[test]
fn the_start_is_spelled_as_a_sidecar_reads_it() {
    let definition = Definition::parse(WHOLE).expect("it makes sense");
    let start = serde_json::to_value(&definition.agents["fixer"].start).expect("JSON");
    assert_eq!(start, serde_json::json!({ "text": "Answer in English.", "resume": { "shell": ["git log -3"] } }));
}

/// What is wrong, and what is said about it.
#[test]
fn mistakes_are_told_with_their_line() {
    let agent = |line: &str| format!("[agents.a]\ndriver = \"claude\"\n{line}\n");
    for (text, expected) in [
        ("[agents.a]\ndriver = ", "line 2, column 10: "),
        ("[agent.a]", "line 1, column 2: \"agent\" is not known here; there are agents, policy, commands"),
        ("[agents.a]\nprompt = \"x\"", "line 1, column 9: \"a\" needs a \"command\" or a \"driver\""),
        (
            "[agents.a]\ndriver = \"claude\"\nsandbox = true\nenv = { LD_PRELOAD = \"x.so\" }",
            "line 4, column 7: LD_PRELOAD would make the agent's sidecar load a library outside of the sandbox; leave it out",
        ),
        (
            "[agents.\"a b\"]\ndriver = \"claude\"",
            "line 1, column 9: \"a b\" cannot be a name: letters, digits, - and _, 32 at most",
        ),
        (
            "[agents.a]\ncommand = \"claude -p\"",
            "line 2, column 11: a command is a list of words, such as [\"claude\", \"--model\", \"opus\"]: no shell reads it",
        ),
        (
            &agent("trust = true"),
            "line 3, column 9: this needs isolate = true: coop does not write to the user's own configuration",
        ),
        ("[agents.a]\ncommand = []", "line 2, column 11: a command has at least the name of a program"),
        (
            &agent("on_idle = \"sleep\""),
            "line 3, column 11: \"sleep\" cannot be done here; use one of done, fail, nudge, gate, resume, escalate, auto",
        ),
        (
            &agent("on_dead = \"nudge\""),
            "line 3, column 11: \"nudge\" cannot be done here; use one of done, fail, resume, restart, wait, escalate",
        ),
        (
            &agent("on_idle = { action = \"gate\" }"),
            "line 3, column 11: \"gate\" needs \"run\", the command that decides",
        ),
        (
            &agent("on_idle = [\"done\", \"nudge\"]"),
            "line 3, column 11: \"nudge\" is never reached: \"done\" before it has no end",
        ),
        (
            &agent("on_idle = [\"nudge\", \"auto\"]"),
            "line 3, column 11: \"auto\" cannot follow \"nudge\": the agent decides for itself from its start, or not at all",
        ),
        (
            &agent("on_prompt = { question = \"allow\" }"),
            "line 3, column 13: a question cannot be answered with \"allow\": it wants an answer, not a yes; use \"escalate\" or \"deny\"",
        ),
        (
            &agent("on_prompt = { permision = \"allow\" }"),
            "line 3, column 15: \"permision\" is not known here; there are permission, plan, question, setup",
        ),
        (
            &agent("on_idle = { action = \"nudge\", message = \"{outptu}\" }"),
            "line 3, column 41: a message knows no {outptu}; it may name {agent}, {attempt}, {attempts}, {output}, {last_message}, {error}, {exit}",
        ),
        (
            &agent("on_idle = { action = \"nudge\", cooldown = 5 }"),
            "line 3, column 42: this has to be a time such as \"30s\", \"5m\" or \"2h 30m\"",
        ),
        (
            &agent("on_idle = { action = \"nudge\", limit = \"5s\" }"),
            "line 3, column 11: \"limit\" is for \"run\", which is missing",
        ),
        (
            &agent("on_error = { auth = { action = \"retry\", attempts = -1 } }"),
            "line 3, column 52: \"attempts\" has to be a whole number, or \"forever\"",
        ),
        (
            &agent("env = { COOP_PORT = \"1\" }"),
            "line 3, column 9: \"COOP_PORT\" is for coop itself, and is not passed on to an agent",
        ),
        (&agent("kind = \"boss\""), "line 3, column 8: \"boss\" is no kind of agent; use job or crew"),
        (&agent("limits = { cost_usd = -1.0 }"), "line 3, column 23: this has to be a number that is not negative"),
        (
            &agent("runtime = \"docker\""),
            "line 3, column 11: \"docker\" is no runtime; use pty, pipe, server or inproc",
        ),
        (
            "[agents.a]\ndriver = \"unknown\"\ncommand = [\"x\"]\non_idle = \"done\"",
            "line 4, column 11: \"on_idle\" never comes to pass: without a driver nobody can tell",
        ),
        (
            "[agents.a]\ndriver = \"unknown\"\ncommand = [\"x\"]\nprompt = \"y\"",
            "line 1, column 9: \"a\" has a \"prompt\", and no driver that could deliver it",
        ),
        ("[commands]\nx = []", "line 2, column 5: there is nothing to run"),
        ("[commands]\nx = \"make\"", "line 2, column 5: this has to be a table, such as { action = \"nudge\" }"),
        ("[commands]\nx = { limit = \"1m\" }", "line 2, column 5: \"run\" is missing: the command's words"),
        ("[[policy]]\ntool = \"Bash\"", "line 1, column 1: a rule needs \"decide\": allow, deny or ask"),
        (
            "[[policy]]\ndecide = \"allow\"",
            "line 1, column 1: this rule allows everything; name a \"tool\", a \"path\" or a \"command\", and tool = \"*\" if that is meant",
        ),
        (
            "[[policy]]\ncommand = \"a | b\"\ndecide = \"allow\"",
            "line 2, column 11: \"command\": it is one command; each one of a chain is judged by itself",
        ),
        (
            "[[policy]]\npath = \"~/x\"\ndecide = \"deny\"",
            "line 2, column 8: \"path\": \"~\" is not known here; write the whole path",
        ),
    ] {
        let error = Definition::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}\nsays {error}\nnot  {expected}");
        assert!(error == expected || expected.ends_with(": "), "{error}");
    }
}

#[test]
fn commands_have_names_words_and_a_limit() {
    let text = "[commands]\n\"editor.format\" = [\"cargo\", \"fmt\"]\ntest = { run = [\"make\"], limit = \"10m\" }";
    let named = |words: &[&str], limit| crate::workspace::NamedCommand {
        run: words.iter().map(|&word| word.to_owned()).collect(),
        limit,
    };
    let expected = [
        ("editor.format".to_owned(), named(&["cargo", "fmt"], crate::workspace::COMMAND_LIMIT)),
        ("test".to_owned(), named(&["make"], std::time::Duration::from_secs(600))),
    ];
    assert_eq!(Definition::parse(text).expect("a definition").commands, expected.into());
}

#[test]
fn rules_that_match_nothing_are_told_for_the_agent_they_are_for() {
    let text = "[agents.a]\ndriver = \"codex\"\n[agents.b]\ndriver = \"auto\"\ncommand = [\"claude\"]\n\
                [[policy]]\ntool = \"Bash\"\ndecide = \"deny\"\n";
    let definition = Definition::parse(text).expect("it makes sense");
    let warned = |name: &str| definition.agents[name].warnings(&definition.policy).len();
    assert_eq!((warned("a"), warned("b")), (1, 0));
}
