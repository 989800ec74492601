//! Real sessions: the same list for every agent.

use serde_json::{Value, json};

use super::world::{Agent, World, with_both};
use super::{Events, Shim, approval, brief};

/// Spawns an agent with this task, and returns it when it asks.
fn asking(shim: &Shim, events: &mut Events, task: &str) -> Value {
    shim.done("/spawn", &brief(task));
    let decision = events.decision();
    assert_eq!(shim.health()["agentStatus"], "waiting_on_human");
    decision
}

fn completed(events: &mut Events) -> Value {
    events.of("completion")
}

fn phases(events: &Events, tool: &Value) -> Vec<(String, bool)> {
    let of_run = events.past.iter().rev().take_while(|event| event["event"]["action"] != "started").collect::<Vec<_>>();
    let calls = of_run.into_iter().rev().map(|event| &event["event"]);
    let calls = calls.filter(|event| event["type"] == "tool_call" && event["toolName"] == *tool);
    calls.map(|call| (call["phase"].as_str().expect("a phase").to_owned(), call["approved"] == true)).collect()
}

fn the_list(world: &World) {
    let agent = world.agent;
    let shim = world.start();
    let mut events = shim.follow();

    // Approved: it runs, with all its phases and its time.
    let task = format!("one {} [[text:First done.]]", agent.bash("touch approved.txt"));
    let decision = asking(&shim, &mut events, &task);
    assert_eq!(decision["subtype"], "tool_approval", "{decision:#}");
    assert!(decision["toolArgs"].to_string().contains("touch approved.txt"), "{decision:#}");
    assert!(!world.has("approved.txt"));
    assert_eq!(shim.resolve(&decision["decisionId"], &approval("approve"))["status"], "resolved");
    let late = shim.resolve(&decision["decisionId"], &approval("reject"));
    assert_eq!(late["status"], "not_found", "the first answer wins");
    let done = completed(&mut events);
    assert_eq!((&done["outcome"], &done["summary"]), (&json!("success"), &json!("First done.")), "{done:#}");
    assert!(world.has("approved.txt"), "what was approved was not done");
    let expected = ["requested", "running", "completed"].map(|phase| (phase.to_owned(), true));
    assert_eq!(phases(&events, &decision["toolName"]), expected, "{:#?}", events.told());
    let last = events.told().into_iter().rfind(|event| event["phase"] == "completed").expect("it is there");
    assert!(last["durationMs"].is_u64(), "{last:#}");
    assert_eq!(shim.health()["agentStatus"], "completed");

    // Rejected: it does not run, and the agent is told why.
    let task = format!("two {}", agent.bash("touch rejected.txt"));
    let decision = asking(&shim, &mut events, &task);
    let mut no = approval("reject");
    no["rationale"] = json!("leave that alone");
    shim.resolve(&decision["decisionId"], &no);
    assert_eq!(completed(&mut events)["outcome"], "success", "{:#?}", events.told());
    assert!(!world.has("rejected.txt"), "what was rejected was done");
    let phases_of = phases(&events, &decision["toolName"]);
    assert_eq!(phases_of.last(), Some(&("failed".to_owned(), false)), "{:#?}", events.told());
    assert!(!phases_of.iter().any(|(phase, _)| phase == "running"), "{phases_of:?}");

    // Changed: the change is made, or the agent is told of it.
    let task = format!("three {}", agent.bash("touch first.txt"));
    let decision = asking(&shim, &mut events, &task);
    let mut edit = approval("modify");
    let mut args = decision["toolArgs"].clone();
    let key = ["command", "cmd"].into_iter().find(|key| args[*key].is_string()).unwrap_or("command");
    args[key] = json!("touch second.txt");
    edit["modifiedArgs"] = args;
    shim.resolve(&decision["decisionId"], &edit);
    completed(&mut events);
    assert!(!world.has("first.txt"), "it was done unchanged");
    assert_eq!(world.has("second.txt"), agent.takes_edits(), "{:#?}", events.told());

    // A file that is written is an artifact.
    let mut free = brief("four [[write:notes.md|hello]]");
    free["controlMode"] = json!("ecosystem");
    shim.done("/spawn", &free);
    let artifact = events.of("artifact");
    assert_eq!((&artifact["name"], &artifact["kind"]), (&json!("notes.md"), &json!("document")), "{artifact:#}");
    // Codex ends every file with a line's end.
    let size = std::fs::metadata(world.work.join("notes.md")).expect("it is there").len();
    assert_eq!((&artifact["sizeBytes"], &artifact["workstream"]), (&json!(size), &json!("core")), "{artifact:#}");
    let done = completed(&mut events);
    assert_eq!(done["artifactsProduced"], json!([artifact["artifactId"]]));
    let asked = events.told().iter().filter(|event| event["type"] == "decision").count();
    assert_eq!(asked, 3, "the brief allowed it");

    if agent.asks_questions() {
        let decision = asking(&shim, &mut events, "five [[ask]]");
        assert_eq!(decision["subtype"], "option", "{decision:#}");
        let options = decision["options"].as_array().expect("options");
        assert_eq!(options[1]["label"], "SQLite");
        let wrong = json!({ "type": "option", "chosenOptionId": "no such", "rationale": "", "actionKind": "update" });
        let body = json!({ "decisionId": decision["decisionId"], "resolution": wrong });
        assert_eq!(shim.post("/resolve", &body).0, 422);
        let chosen = json!({ "type": "option", "chosenOptionId": options[1]["id"], "rationale": "small" });
        assert_eq!(shim.resolve(&decision["decisionId"], &chosen)["status"], "resolved");
        assert_eq!(completed(&mut events)["outcome"], "success");
    }

    // An error of the model's is the end, and said to be one.
    shim.done("/spawn", &brief("six [[err:401]]"));
    let mut error = events.of("error");
    // Some try again first.
    while error["severity"] == "warning" {
        error = events.of("error");
    }
    assert_eq!((&error["category"], &error["recoverable"]), (&json!("provider"), &json!(false)), "{error:#}");
    assert_eq!(completed(&mut events)["outcome"], "abandoned");
    assert_eq!(shim.health()["agentStatus"], "error");
}

#[test]
fn claude() {
    with_both(Agent::Claude, the_list);
}

#[test]
fn codex() {
    with_both(Agent::Codex, the_list);
}

#[test]
fn opencode() {
    with_both(Agent::OpenCode, the_list);
}

#[test]
fn gemini() {
    with_both(Agent::Gemini, the_list);
}

#[test]
fn acp() {
    with_both(Agent::Acp, the_list);
}

#[test]
fn api() {
    with_both(Agent::Api, the_list);
}

/// What only looks is not asked about, unless the brief says that it always is.
#[test]
fn coops_own_agent_asks_about_what_it_reads_if_it_is_told_to() {
    with_both(Agent::Api, |world| {
        std::fs::write(world.work.join("notes.txt"), "the fox").expect("written");
        let shim = world.start();
        let mut events = shim.follow();
        let mut careful = brief("one [[read:notes.txt]] [[text:Done.]]");
        careful["escalationProtocol"]["alwaysEscalate"] = json!(["Read"]);
        careful["delegationPolicy"] = json!({ "canSpawnSubagents": false, "allowedHandoffs": [], "maxDepth": 0 });
        shim.done("/spawn", &careful);
        let decision = events.decision();
        assert_eq!(decision["toolName"], "read", "{decision:#}");
        shim.resolve(&decision["decisionId"], &approval("approve"));
        assert_eq!(completed(&mut events)["summary"], "Done.");
    });
}
