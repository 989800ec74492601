//! Pause, resume, what is told at the end of a turn, and who decides.

use serde_json::{Value, json};

use super::world::{Agent, World, with_both};
use super::{approval, brief};

/// A pause in the middle of a task, a shim that is killed, and a new one that has nothing but the state.
fn goes_on_in_a_new_process(world: &World) {
    let shim = world.start();
    let mut events = shim.follow();
    shim.done("/spawn", &brief(&format!("remember the word heliotrope {}", world.agent.bash("touch a.txt"))));
    let decision = events.decision();
    let state = shim.done("/pause", &Value::Null);
    assert_eq!(state["pendingDecisionIds"], json!([decision["decisionId"]]), "{state:#}");
    assert!(state["checkpoint"]["sessionId"].is_string(), "{state:#}");
    assert_eq!(events.of("lifecycle")["action"], "paused");
    assert_eq!(shim.health()["agentStatus"], "paused");
    assert!(!world.has("a.txt"), "what nobody allowed was done");
    shim.kill_9();

    let shim = world.start();
    let mut events = shim.follow();
    let handle = shim.done("/resume", &state);
    assert_eq!(handle["sessionId"], state["checkpoint"]["sessionId"]);
    assert_eq!(events.next()["action"], "resumed");
    if events.of_any(&["decision", "completion"])["type"] == "decision" {
        // It asks again for what was not decided.
        let id = events.told().last().expect("it is there")["decisionId"].clone();
        shim.resolve(&id, &approval("reject"));
        events.of("completion");
    }
    let told = world.prompts();
    assert!(told.contains("Go on with your task where you left off."), "{told}");
    if world.is_real() {
        let asked: Value = serde_json::from_str(&told).expect("JSON");
        let messages = |text: &str| {
            let mut of_text = asked.as_array().into_iter().flatten().filter(|asked| asked["side"] == false);
            of_text
                .find(|asked| asked["text"].as_str().is_some_and(|asked| asked.contains(text)))
                .map(|asked| &asked["messages"])
        };
        let [before, after] = ["heliotrope", "Go on with your task"].map(|text| messages(text).and_then(Value::as_u64));
        assert!(
            before.is_some() && after > before,
            "the model does not see what was before: {before:?} {after:?} {asked:#}"
        );
    }
    // Its next task, by the same conversation.
    let state = shim.done("/checkpoint", &json!({ "decisionId": "d" }));
    let mut next = state.clone();
    next["briefSnapshot"]["description"] = json!("the second task [[text:Second done.]]");
    shim.done("/resume", &next);
    let summary = events.of("completion")["summary"].as_str().expect("a summary").to_owned();
    // The real Gemini CLI tells the past of a conversation after it says that it has loaded it, so that may be in front.
    let has_past = world.agent == Agent::Gemini && world.is_real();
    assert!(summary == "Second done." || has_past && summary.ends_with("Second done."), "{summary}");
    assert!(world.prompts().contains("This is the next one"), "{}", world.prompts());
}

#[test]
fn claude_goes_on() {
    with_both(Agent::Claude, goes_on_in_a_new_process);
}

#[test]
fn codex_goes_on() {
    with_both(Agent::Codex, goes_on_in_a_new_process);
}

#[test]
fn opencode_goes_on() {
    with_both(Agent::OpenCode, goes_on_in_a_new_process);
}

#[test]
fn gemini_goes_on() {
    with_both(Agent::Gemini, goes_on_in_a_new_process);
}

#[test]
fn acp_goes_on() {
    with_both(Agent::Acp, goes_on_in_a_new_process);
}

#[test]
fn api_goes_on() {
    with_both(Agent::Api, goes_on_in_a_new_process);
}

#[test]
fn what_is_to_be_known_is_told_when_the_turn_ends_and_what_matters_most_first() {
    with_both(Agent::Claude, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        shim.done("/spawn", &brief("one [[bash:touch a.txt]]"));
        let decision = events.decision();
        let context = |priority: &str, version: u64| {
            json!({ "content": format!("news {version}"), "format": "markdown", "snapshotVersion": version,
                    "estimatedTokens": 1, "priority": priority })
        };
        for context in [context("supplementary", 1), context("required", 2), context("required", 2)] {
            shim.done("/inject-context", &context);
        }
        shim.done("/update-brief", &json!({ "handle": {}, "changes": { "workstream": "docs" } }));
        let pending = shim.done("/checkpoint", &json!({ "decisionId": "d" }));
        assert_eq!(pending["briefSnapshot"]["workstream"], "core", "not before the next turn");
        shim.resolve(&decision["decisionId"], &approval("approve"));
        assert_eq!(events.of("completion")["outcome"], "success");
        let told = world.prompts();
        let at = |text: &str| told.find(text).unwrap_or_else(|| panic!("{text} is not in {told}"));
        assert!(at("workstream: docs") < at("news 2") && at("news 2") < at("news 1"), "{told}");
        if !world.is_real() {
            assert_eq!(told.matches("news 2").count(), 1, "the same version is told once");
        }
        let turns = events.told().iter().filter(|event| event["message"] == "Turn 2 started").count();
        assert_eq!(turns, 1, "{:#?}", events.told());
        let state = shim.done("/checkpoint", &json!({ "decisionId": "d" }));
        assert_eq!(state["briefSnapshot"]["workstream"], "docs");
    });
}

#[test]
fn an_agent_that_dies_has_crashed_and_completed_nothing() {
    with_both(Agent::Acp, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        shim.done("/spawn", &brief("x [[exit:3]]"));
        let error = events.of("error");
        assert_eq!((&error["severity"], &error["category"]), (&json!("high"), &json!("internal")), "{error:#}");
        let crashed = events.next();
        assert_eq!((&crashed["action"], &crashed["reason"]), (&json!("crashed"), &json!("Exit code 3")), "{crashed:#}");
        assert_eq!(shim.health()["agentStatus"], "error");
        // And the next one can be spawned.
        shim.done("/spawn", &brief("y [[text:Fine.]]"));
        assert_eq!(events.of("completion")["summary"], "Fine.");
    });
}

#[test]
fn a_program_that_is_not_there_is_told_of() {
    let shim = super::Shim::start(&["--agent", "claude", "--", "/nowhere/claude"]);
    let mut events = shim.follow();
    assert_eq!(shim.done("/spawn", &brief("x"))["status"], "error");
    assert_eq!(events.next()["action"], "started");
    let error = events.next();
    assert_eq!((&error["severity"], &error["category"]), (&json!("critical"), &json!("internal")), "{error:#}");
    assert_eq!(events.next()["outcome"], "abandoned");
}

/// It was waited for in vain: nothing of a turn is ever told of an agent that cannot begin.
#[test]
fn a_conversation_that_is_not_there_is_the_end() {
    with_both(Agent::Acp, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        shim.done("/spawn", &brief("x [[text:Done.]]"));
        events.of("completion");
        let mut state = shim.done("/checkpoint", &json!({ "decisionId": "d" }));
        state["checkpoint"]["sessionId"] = json!("nowhere");
        shim.done("/resume", &state);
        assert_eq!(events.of("completion")["outcome"], "abandoned", "{:#?}", events.told());
        assert_eq!(shim.health()["agentStatus"], "error");
    });
}

#[test]
fn always_is_for_the_rest_of_the_run_and_the_brief_decides_the_rest() {
    with_both(Agent::Claude, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        shim.done("/spawn", &brief("x [[bash:touch a.txt]] [[bash:touch b.txt]] [[write:c.txt|c]]"));
        let first = events.decision();
        let mut always = approval("approve");
        always["alwaysApprove"] = json!(true);
        shim.resolve(&first["decisionId"], &always);
        let second = events.decision();
        assert_eq!(second["toolName"], "Write", "the second command was allowed already");
        assert!(world.has("b.txt"));
        shim.resolve(&second["decisionId"], &approval("approve"));
        assert_eq!(events.of("completion")["outcome"], "success");

        let mut ecosystem = brief("y [[bash:touch d.txt]] [[bash:ls; rm -rf d.txt]]");
        ecosystem["controlMode"] = json!("ecosystem");
        shim.done("/spawn", &ecosystem);
        let asked = events.decision();
        assert_eq!(asked["toolArgs"]["command"], "ls; rm -rf d.txt", "only what destroys is asked about");
        assert_eq!(asked["severity"], "high");
        shim.resolve(&asked["decisionId"], &approval("reject"));
        events.of("completion");
        assert!(world.has("d.txt"));
    });
}

#[test]
fn a_kill_ends_the_agent_at_its_work() {
    with_both(Agent::Claude, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        shim.done("/spawn", &brief("x [[hang]]"));
        events.of("status");
        let killed = shim.done("/kill", &json!({ "grace": true, "graceTimeoutMs": 20000 }));
        assert_eq!(killed["cleanShutdown"], true, "{killed:#}");
        let end = events.of("lifecycle");
        assert_eq!((&end["action"], &end["reason"]), (&json!("killed"), &json!("kill requested (graceful)")));
        shim.done("/spawn", &brief("x [[hang]]"));
        events.of("status");
        assert_eq!(shim.done("/kill", &json!({ "grace": false }))["cleanShutdown"], false);
        assert_eq!(shim.health()["agentStatus"], "completed");
    });
}
