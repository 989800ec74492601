//! What a daemon does about its agents by what their file says, each time with one whose sidecar is somewhere else.

use serde_json::{Value, json};

use super::lab::{Lab, is};
use super::launch::{Launch, by_each_launcher};
use crate::tool::COOP;

by_each_launcher! {
    an_agent_that_ends_by_itself_is_followed_by_what_on_dead_says,
    an_error_is_followed_by_what_on_error_says,
    rules_and_actions_answer_asks_and_limits_call_a_person,
}

fn show(lab: &Lab, agent: &str) -> Value {
    let (status, shown) = lab.ask("GET", &format!("/api/v1/agents/{agent}"), "");
    assert_eq!(status, 200, "{shown}");
    shown
}

/// Returns how many messages an agent was told with this in them.
fn told(lab: &Lab, agent: &str, part: &str) -> usize {
    let of_it = lab.entries().into_iter().filter(|entry| entry["agent"] == agent);
    let is_it = |entry: &Value| {
        let body = &entry["event"]["body"];
        body["role"] == "user" && body["text"].as_str().is_some_and(|text| text.contains(part))
    };
    of_it.filter(is_it).count()
}

/// What becomes of an agent that ended with a code: its outcome, its processes, and how often it was told its prompt.
const DEAD: [(&str, Option<&str>, u64, usize); 5] = [
    ("done", Some("done"), 1, 1),
    ("fail", Some("failed"), 1, 1),
    ("escalate", None, 1, 1),
    ("resume", None, 2, 1),
    ("restart", None, 2, 2),
];

fn an_agent_that_ends_by_itself_is_followed_by_what_on_dead_says(launch: Launch) {
    let agent = |(action, ..): &(&str, _, _, _)| {
        format!("[agents.{action}]\nSIM\nkind = \"crew\"\nprompt = \"[[text:one]]\"\non_dead = \"{action}\"\n")
    };
    let lab = Lab::by(launch, &DEAD.iter().map(agent).collect::<String>());
    for (id, ..) in DEAD {
        lab.ok(&["spawn", id]);
    }
    for (id, outcome, run, times) in DEAD {
        let of_it = |entry: &Value, what: &str| entry["agent"] == id && is(entry, what);
        let is_idle = |entry: &Value| of_it(entry, "idle") && entry["input"]["last_message"].is_string();
        let idle = lab.until(0, "idleness", is_idle);
        // It may be gone before anything shows that it was told.
        lab.run(&["send", id, "[[exit:3]]"]);
        let gone = lab.until(idle, "its end", |entry| of_it(entry, "gone"));
        if run > 1 {
            let again = lab.until(gone, "another", |entry| of_it(entry, "spawned"));
            lab.until(again, "idleness", is_idle);
        }
        let shown = show(&lab, id);
        assert_eq!((shown["outcome"]["outcome"].as_str(), shown["run"].as_u64()), (outcome, Some(run)), "{shown}");
        if run == 1 {
            assert_eq!(shown["exit"], json!({ "code": 3, "signal": null }), "{shown}");
        }
        assert_eq!(told(&lab, id, "[[text:one]]"), times, "{id}");
    }
    let needs = show(&lab, "escalate")["needs"].to_string();
    assert!(needs.contains("code 3"), "{needs}");
    let ends = lab.entries().iter().filter(|entry| is(entry, "gone")).count();
    assert_eq!(ends, DEAD.len(), "each is gone once");
    for id in ["escalate", "resume", "restart"] {
        lab.ok(&["kill", id]);
    }
    let entries = lab.entries();
    DEAD.iter().for_each(|(id, ..)| lab.check_events(&entries, id));
    lab.nothing_is_left("restart");
}

fn an_error_is_followed_by_what_on_error_says(launch: Launch) {
    let retry = "{ action = \"retry\", cooldown = \"1ms\", message = \"[[text:again]]\" }";
    let lab = Lab::by(
        launch,
        &format!(
            "[agents.again]\nSIM\nprompt = \"[[err:529]]\"\non_error = {{ overload = {retry} }}\n\
             [agents.never]\nSIM\nprompt = \"[[err:529]]\"\non_error = {{ overload = \"fail\" }}\n\
             [agents.stuck]\nSIM\nprompt = \"[[err:401]]\"\n"
        ),
    );
    for id in ["again", "never", "stuck"] {
        lab.ok(&["spawn", id]);
    }
    for id in ["again", "never"] {
        lab.until(0, "its end", |entry| entry["agent"] == id && is(entry, "gone"));
    }
    let shown = show(&lab, "again");
    assert_eq!((&shown["outcome"]["outcome"], &shown["last_message"]), (&json!("done"), &json!("again")), "{shown}");
    let shown = show(&lab, "never");
    assert_eq!(shown["outcome"]["outcome"], "failed", "{shown}");
    assert!(shown["outcome"]["why"].as_str().is_some_and(|why| why.contains("overload")), "{shown}");
    lab.wait_until("a person is called", || show(&lab, "stuck")["needs"].is_string());
    let shown = show(&lab, "stuck");
    assert_eq!((&shown["phase"], &shown["outcome"]), (&json!("blocked"), &Value::Null), "{shown}");
    assert!(shown["needs"].as_str().is_some_and(|needs| needs.contains("(auth)")), "{shown}");
    lab.ok(&["kill", "stuck"]);
}

fn rules_and_actions_answer_asks_and_limits_call_a_person(launch: Launch) {
    let on_idle = "{ action = \"nudge\", attempts = \"forever\", message = \"[[text:more]]\" }";
    let lab = Lab::by(
        launch,
        &format!(
            "[agents.ruled]\nSIM\nprompt = \"[[bash:touch made]] [[text:ok]]\"\n\
             [agents.denied]\nSIM\nprompt = \"[[bash:touch never]] [[text:ok]]\"\non_prompt = {{ permission = \"deny\" }}\n\
             [agents.bounded]\nSIM\nprompt = \"[[text:begin]]\"\nlimits = {{ turns = 2 }}\non_idle = {on_idle}\n\
             [[policy]]\nagent = \"ruled\"\ntool = \"shell\"\ncommand = \"touch made\"\ndecide = \"allow\"\nwhy = \"ours\"\n"
        ),
    );
    for id in ["ruled", "denied", "bounded"] {
        lab.ok(&["spawn", id]);
    }
    for id in ["ruled", "denied"] {
        lab.until(0, "its end", |entry| entry["agent"] == id && is(entry, "gone"));
        assert_eq!(show(&lab, id)["outcome"]["outcome"], "done");
    }
    assert!(lab.workspace("ruled").join("made").exists(), "what was allowed was done");
    assert!(!lab.workspace("denied").join("never").exists(), "what was denied was not");
    let (_, audit) = lab.ask("GET", "/api/v1/audit", "");
    let mut decided: Vec<_> = audit["decisions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|decision| {
            [&decision["agent"], &decision["by"]["by"], &decision["accept"]].map(Value::to_string).join(" ")
        })
        .collect();
    decided.sort();
    assert_eq!(decided, ["\"denied\" \"action\" false", "\"ruled\" \"rule\" true"], "{audit}");
    lab.wait_until("a person is called", || show(&lab, "bounded")["needs"].is_string());
    let shown = show(&lab, "bounded");
    assert_eq!((&shown["needs"], &shown["turn"]), (&json!("it has had 2 turns, of 2 at most"), &json!(2)), "{shown}");
    lab.ok(&["kill", "bounded"]);
    lab.nothing_is_left("bounded");
}

/// Each kind has a name of its own for its shell, and Codex asks for `/bin/bash -lc '…'`. What is denied is denied however it
/// is started.
#[test]
fn rules_on_shell_answer_agents_of_several_kinds() {
    let home = tempfile::Builder::new().prefix("coop-h-").tempdir().expect("a folder");
    let other = |kind: &str, options: &str, bash: &str| {
        let names = ["HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "CODEX_HOME"];
        let env = names.map(|name| format!("{name} = {:?}", home.path())).join(", ");
        format!(
            "[agents.{kind}]\ndriver = \"{kind}\"\nisolate = true\ncommand = [{COOP:?}, \"sim\", \"{kind}\"{options}]\n\
             env = {{ {env} }}\nprompt = '{bash} [[text:ok]]'\n"
        )
    };
    let run = |command: &str| format!("[[tool exec_command {{\"cmd\":\"{command}\"}}]]");
    let agents = [
        "[agents.claude]\nSIM\nprompt = \"[[bash:touch made-claude]] [[bash:env rm -f kept]] [[text:ok]]\"\n"
            .to_owned(),
        other("codex", ", \"-a\", \"untrusted\"", &(run("touch made-codex") + " " + &run("env rm -f kept"))),
        other("opencode", "", "[[bash:touch made-opencode]] [[bash:env rm -f kept]]"),
    ];
    let rules = "[[policy]]\ntool = \"shell\"\ncommand = \"touch made-*\"\ndecide = \"allow\"\n\
                 [[policy]]\ntool = \"shell\"\ncommand = \"rm *\"\ndecide = \"deny\"\nwhy = \"it is kept\"\n\
                 [[policy]]\nagent = \"codex\"\ntool = \"Bash\"\ndecide = \"deny\"\n";
    let lab = Lab::new(&(agents.concat() + rules));
    let kept = lab.home.path().join("kept");
    std::fs::write(&kept, "").expect("written");
    for kind in ["claude", "codex", "opencode"] {
        let (code, id, warned) = lab.run(&["spawn", kind]);
        assert_eq!((code, id.trim()), (0, kind), "{warned}");
        let expected = match kind {
            "codex" => "codex has no tool \"Bash\": that is claude's name, and \"shell\" holds for every agent kind",
            "opencode" => "opencode does not ask before it uses its tools (no setting permission in its definition)",
            _ => "",
        };
        assert!(warned.contains(expected) && warned.is_empty() == expected.is_empty(), "{kind}: {warned}");
        lab.until(0, "its end", |entry| entry["agent"] == kind && is(entry, "gone"));
        assert!(lab.workspace(kind).join(format!("made-{kind}")).exists(), "{kind}: what was allowed was done");
        assert!(kept.exists(), "{kind}: what was denied was not");
        let shown = show(&lab, kind)["warnings"][0].as_str().unwrap_or_default().to_owned();
        assert!(shown.contains(expected), "{kind}: {shown}");
    }
    let (_, audit) = lab.ask("GET", "/api/v1/audit", "");
    let decided = audit["decisions"].as_array().expect("a list");
    for kind in ["claude", "codex", "opencode"] {
        let its = decided.iter().filter(|decision| decision["agent"] == kind && decision["by"]["by"] == "rule");
        let mut accepted: Vec<_> = its.map(|decision| decision["accept"] == true).collect();
        accepted.sort_unstable();
        assert_eq!(accepted, [false, true], "{audit:#}");
    }
}
