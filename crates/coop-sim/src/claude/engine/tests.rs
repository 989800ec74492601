use std::time::Duration;

use serde_json::json;

use super::{Asker, Command, Counter, Effect, Event, Quit, QuitReason, Wait};
use crate::claude::hook::{AfterDeny, Decision, HookEvent};
use crate::claude::notice::{Answerer, During, Notice, State, TurnOutcome};
use crate::claude::rig::{Answer, Rig, decision, notices, says, texts};

fn ended(effects: &[Effect]) -> Option<TurnOutcome> {
    notices(effects).into_iter().rev().find_map(|notice| match notice {
        Notice::TurnEnded(end) => Some(end.outcome),
        _ => None,
    })
}

fn states(effects: &[Effect]) -> Vec<State> {
    let state = |notice: &Notice| if let Notice::State(state) = notice { Some(*state) } else { None };
    notices(effects).into_iter().filter_map(state).collect()
}

fn decide(rig: &mut Rig, decision: Decision) -> Vec<Effect> {
    let request = rig.request();
    rig.command(Command::Decide { request, decision })
}

#[test]
fn a_plain_prompt_is_answered_and_the_hooks_are_called_in_order() {
    let mut rig = Rig::started();
    let effects = rig.submit("hello");
    assert_eq!(texts(&effects), ["Hello from the mock model."]);
    assert_eq!(rig.hook_names(), ["SessionStart", "UserPromptSubmit", "Stop"]);
    assert_eq!(states(&effects), [State::Busy, State::Idle]);
    let stop = rig.last_hook(HookEvent::Stop).payload;
    assert_eq!(stop["last_assistant_message"], "Hello from the mock model.");
    assert_eq!(stop["stop_hook_active"], false);
    assert_eq!(stop["permission_mode"], "default");
    assert!(stop["transcript_path"].as_str().unwrap().ends_with("e5555555-5555-4555-8555-555555555555.jsonl"));
}

#[test]
fn the_permission_hook_starts_before_the_dialog_and_knows_no_tool_use_id() {
    let mut rig = Rig::started();
    rig.hook(HookEvent::PermissionRequest, Answer::Holds);
    let effects = rig.submit("[[bash:touch x]]");
    let hook = effects
        .iter()
        .position(|effect| matches!(effect, Effect::RunHooks(call) if call.event == HookEvent::PermissionRequest));
    let dialog = effects.iter().position(|effect| matches!(effect, Effect::Tell(Notice::Asked(_))));
    assert!(hook.unwrap() < dialog.unwrap());
    let payload = rig.last_hook(HookEvent::PermissionRequest).payload;
    assert_eq!(payload["tool_name"], "Bash");
    assert_eq!(payload.get("tool_use_id"), None);
    let kinds: Vec<_> = payload["permission_suggestions"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert_eq!(kinds, ["addDirectories", "setMode"]);
    assert_eq!(states(&effects), [State::Busy, State::Waiting]);
}

#[test]
fn a_hook_that_answers_first_closes_the_dialog() {
    let mut rig = Rig::started();
    rig.hook(HookEvent::PermissionRequest, Answer::Holds);
    rig.submit("[[bash:touch x]]");
    let (run, request) = (rig.last_hook(HookEvent::PermissionRequest).run, rig.request());
    let effects = rig.event(says(run, &decision(&json!({ "behavior": "allow", "updatedInput": { "command": "ls" } }))));
    assert!(effects.contains(&Effect::Tell(Notice::Settled { request, by: Answerer::Hook })));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::RunTool(call) if call.field("command") == "ls")));
    assert_eq!(texts(&effects), ["Mock reply after 1 tool result(s)."]);
}

#[test]
fn a_keyboard_that_answers_first_kills_the_hook_whose_word_then_means_nothing() {
    let mut rig = Rig::started();
    rig.hook(HookEvent::PermissionRequest, Answer::Holds);
    rig.submit("[[bash:touch x]]");
    let run = rig.last_hook(HookEvent::PermissionRequest).run;
    let effects = decide(&mut rig, Decision::ALLOW);
    assert!(effects.contains(&Effect::KillHooks(run)));
    assert!(effects.contains(&Effect::Count(Counter::Allowed)));
    assert_eq!(rig.event(says(run, &decision(&json!({ "behavior": "deny" })))), []);
}

#[test]
fn a_hook_without_an_answer_leaves_the_dialog_open() {
    let mut rig = Rig::started();
    rig.hook(HookEvent::PermissionRequest, Answer::Says(""));
    rig.submit("[[bash:touch x]]");
    assert_eq!(ended(&decide(&mut rig, Decision::ALLOW)), Some(TurnOutcome::Completed));
}

#[test]
fn a_denial_by_hook_lets_the_turn_go_on() {
    let mut rig = Rig::started();
    rig.hook(HookEvent::PermissionRequest, Answer::Holds);
    rig.submit("[[bash:touch x]] [[text:then {result}]]");
    let run = rig.last_hook(HookEvent::PermissionRequest).run;
    let effects = rig.event(says(run, &decision(&json!({ "behavior": "deny", "message": "not here" }))));
    assert_eq!(texts(&effects), ["then not here"]);
    assert_eq!(rig.hook_names().last(), Some(&"Stop"));
    assert_eq!(ended(&effects), Some(TurnOutcome::Completed));
}

#[test]
fn a_denial_by_keyboard_interrupts_and_no_stop_hook_follows() {
    let mut rig = Rig::started();
    rig.submit("[[bash:touch x]]");
    let effects = decide(&mut rig, Decision::interrupt());
    assert_eq!(ended(&effects), Some(TurnOutcome::Aborted(During::ToolUse)));
    assert!(notices(&effects).contains(&&Notice::Interrupted(During::ToolUse)));
    assert!(!rig.hook_names().contains(&"Stop"));
    assert_eq!(states(&effects), [State::Idle]);
}

#[test]
fn a_pre_tool_hook_can_wave_through_or_refuse() {
    let mut rig = Rig::started();
    rig.hook(HookEvent::PreToolUse, Answer::Says(r#"{"hookSpecificOutput":{"permissionDecision":"allow"}}"#));
    assert_eq!(ended(&rig.submit("[[bash:touch x]]")), Some(TurnOutcome::Completed));
    rig.hook(
        HookEvent::PreToolUse,
        Answer::Says(r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"no"}}"#),
    );
    assert_eq!(texts(&rig.submit("[[bash:ls]] [[text:{result}]]")).last().unwrap(), "no");
    rig.hook(HookEvent::PreToolUse, Answer::Says(r#"{"hookSpecificOutput":{"permissionDecision":"ask"}}"#));
    assert_eq!(states(&rig.submit("[[bash:ls]]")).last(), Some(&State::Waiting));
}

#[test]
fn the_notification_comes_late_and_only_if_nobody_answered() {
    let mut rig = Rig::started();
    rig.submit("[[bash:touch x]]");
    let (id, wait) = rig.last_wait();
    assert_eq!(wait, Wait::Time(Duration::from_secs(6)));
    rig.pass();
    let payload = rig.last_hook(HookEvent::Notification).payload;
    assert_eq!(payload["notification_type"], "permission_prompt");
    assert_eq!(payload["message"], "Claude needs your permission");
    let effects = decide(&mut rig, Decision::ALLOW);
    assert!(effects.contains(&Effect::CancelWait(id)));
}

#[test]
fn a_stop_hook_holds_the_turn_and_can_send_it_back_to_work() {
    let mut rig = Rig::started();
    rig.hook(HookEvent::Stop, Answer::Holds);
    assert_eq!(states(&rig.submit("hello")), [State::Busy]);
    let run = rig.last_hook(HookEvent::Stop).run;
    rig.event(says(run, r#"{"decision":"block","reason":"also do [[text:extra work]]"}"#));
    rig.hook(HookEvent::Stop, Answer::None);
    let effects = rig.event(Event::HooksDone(run));
    assert_eq!(texts(&effects), ["extra work"]);
    assert!(effects.contains(&Effect::Count(Counter::StopBlocks)));
    assert_eq!(rig.last_hook(HookEvent::Stop).payload["stop_hook_active"], true);
    assert_eq!(states(&effects), [State::Idle]);
}

#[test]
fn a_prompt_hook_can_block_or_add_context() {
    let mut rig = Rig::started();
    rig.hook(HookEvent::UserPromptSubmit, Answer::Says(r#"{"decision":"block","reason":"not today"}"#));
    let effects = rig.submit("hello");
    assert!(notices(&effects).contains(&&Notice::PromptBlocked { text: "hello".into(), reason: "not today".into() }));
    assert_eq!(texts(&effects), Vec::<String>::new());
    rig.hook(HookEvent::UserPromptSubmit, Answer::Says("it is Monday"));
    assert_eq!(texts(&rig.submit("[[text:{context}]]")), ["it is Monday"]);
}

#[test]
fn the_context_of_the_session_start_reaches_the_script() {
    let mut rig = Rig::new();
    rig.hook(
        HookEvent::SessionStart,
        Answer::Says(r#"{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"be brief"}}"#),
    );
    rig.command(Command::Start);
    assert_eq!(texts(&rig.submit("[[text:told to {context}]]")), ["told to be brief"]);
}

#[test]
fn a_prompt_before_the_session_start_hooks_are_done_waits_for_them() {
    let mut rig = Rig::new();
    rig.hook(HookEvent::SessionStart, Answer::Holds);
    rig.command(Command::Start);
    assert_eq!(texts(&rig.submit("hello")), Vec::<String>::new());
    let run = rig.last_hook(HookEvent::SessionStart).run;
    assert_eq!(texts(&rig.event(Event::HooksDone(run))), ["Hello from the mock model."]);
}

#[test]
fn esc_cuts_a_streaming_answer_short_and_the_queue_runs_at_once() {
    let mut rig = Rig::started();
    rig.submit("w [[slow:12]]");
    rig.pass();
    rig.submit("next");
    let effects = rig.command(Command::Interrupt);
    let told = notices(&effects);
    assert!(matches!(told[0], Notice::CutShort { text, .. } if text == "tick 0. "), "{told:?}");
    assert_eq!(told[1], &Notice::Interrupted(During::Streaming));
    assert_eq!(texts(&effects), ["Hello from the mock model."]);
    assert_eq!(rig.hook_names().iter().filter(|name| **name == "Stop").count(), 1);
}

#[test]
fn a_slow_answer_is_its_ticks() {
    let mut rig = Rig::started();
    rig.submit("[[slow:1]]");
    rig.pass();
    assert_eq!(texts(&rig.pass()), ["tick 0. tick 1."]);
}

#[test]
fn esc_while_a_tool_runs_kills_it() {
    let mut rig = Rig::started();
    rig.hook(HookEvent::PreToolUse, Answer::Says(r#"{"hookSpecificOutput":{"permissionDecision":"allow"}}"#));
    rig.submit("[[bash:hold]]");
    let effects = rig.command(Command::Interrupt);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::KillTool(_))));
    assert_eq!(ended(&effects), Some(TurnOutcome::Aborted(During::ToolUse)));
}

#[test]
fn an_overloaded_model_is_retried_and_then_answers() {
    let mut rig = Rig::started();
    rig.submit("[[err:529x2]]");
    rig.pass();
    let effects = rig.pass();
    assert_eq!(texts(&effects), ["Hello from the mock model."]);
    let attempts = notices(&rig.effects).into_iter().filter_map(|notice| match notice {
        Notice::Retry { attempt, error, .. } => Some((*attempt, error.status)),
        _ => None,
    });
    assert_eq!(attempts.collect::<Vec<_>>(), [(1, 529), (2, 529)]);
}

#[test]
fn an_error_for_good_fires_stop_failure_and_no_stop() {
    let mut rig = Rig::started();
    let effects = rig.submit("[[err:529]] [[bash:ls]]");
    assert!(matches!(ended(&effects), Some(TurnOutcome::ApiError(error)) if error.status == 529));
    assert_eq!(rig.last_hook(HookEvent::StopFailure).payload["error"], "server_error");
    assert!(!rig.hook_names().contains(&"Stop"));
    assert!(!rig.hook_names().contains(&"PreToolUse"));
}

#[test]
fn a_sub_agents_hooks_carry_its_id() {
    let mut rig = Rig::started();
    rig.submit("[[agent:look around]]");
    let named = ["SubagentStart", "PreToolUse", "PostToolUse", "SubagentStop"];
    let calls = rig.hook_calls();
    let inner: Vec<_> = calls.iter().filter(|call| call.payload.get("agent_id").is_some()).collect();
    assert_eq!(inner.iter().map(|call| call.event.name()).collect::<Vec<_>>(), named);
    let transcript = inner[3].payload["agent_transcript_path"].as_str().unwrap();
    assert!(transcript.contains("/subagents/agent-"), "{transcript}");
    assert_eq!(calls.last().unwrap().event, HookEvent::Stop);
    assert_eq!(calls.last().unwrap().payload.get("agent_id"), None);
    assert!(inner.iter().all(|call| call.payload["agent_id"] == inner[0].payload["agent_id"]));
}

#[test]
fn esc_in_a_sub_agent_leaves_no_call_without_a_result() {
    let mut rig = Rig::started();
    rig.submit("[[agent:do]]");
    rig.hook(HookEvent::PreToolUse, Answer::Holds);
    rig.submit("[[agent:do]]");
    let run = rig.last_hook(HookEvent::PreToolUse).run;
    // The outer call may go on; the inner one is held.
    rig.event(Event::HooksDone(run));
    let effects = rig.command(Command::Interrupt);
    let results = notices(&effects).into_iter().filter(|notice| matches!(notice, Notice::ToolResult { .. })).count();
    assert_eq!(results, 2);
}

#[test]
fn a_background_task_is_named_in_the_stop_hook_until_it_ends() {
    let mut rig = Rig::started();
    rig.hook(HookEvent::PreToolUse, Answer::Says(r#"{"hookSpecificOutput":{"permissionDecision":"allow"}}"#));
    rig.submit("[[bg:sleep 100]]");
    let tasks = rig.last_hook(HookEvent::Stop).payload["background_tasks"].clone();
    assert_eq!((&tasks[0]["command"], &tasks[0]["status"]), (&json!("sleep 100"), &json!("running")));
    rig.event(Event::TaskEnded(tasks[0]["id"].as_str().unwrap().to_owned()));
    rig.submit("hello");
    assert_eq!(rig.last_hook(HookEvent::Stop).payload["background_tasks"], json!([]));
}

#[test]
fn of_a_shell_command_only_the_stop_hook_hears() {
    let mut rig = Rig::started();
    let effects = rig.submit("!ls");
    assert_eq!(rig.hook_names(), ["SessionStart", "Stop"]);
    assert_eq!(states(&effects), [State::Idle]);
}

#[test]
fn compact_runs_its_hooks_in_order() {
    let mut rig = Rig::started();
    rig.submit("/compact keep the names");
    assert_eq!(rig.hook_names(), ["SessionStart", "PreCompact", "PostCompact", "SessionStart"]);
    assert_eq!(rig.last_hook(HookEvent::PreCompact).payload["custom_instructions"], "keep the names");
    assert_eq!(rig.last_hook(HookEvent::SessionStart).payload["source"], "compact");
}

#[test]
fn clear_begins_a_new_session() {
    let mut rig = Rig::started();
    let old = rig.last_hook(HookEvent::SessionStart).payload["session_id"].clone();
    rig.submit("/clear");
    assert_eq!(rig.last_hook(HookEvent::SessionEnd).payload["reason"], "clear");
    let start = rig.last_hook(HookEvent::SessionStart).payload;
    assert_eq!(start["source"], "clear");
    assert_ne!(start["session_id"], old);
}

#[test]
fn exit_ends_with_the_session_end_hook() {
    let mut rig = Rig::started();
    assert_eq!(rig.submit("/exit").last(), Some(&Effect::Exit(0)));
    assert_eq!(rig.last_hook(HookEvent::SessionEnd).payload["reason"], "prompt_input_exit");
    let mut rig = Rig::started();
    rig.submit("[[hang]]");
    let effects = rig.command(Command::Quit(Quit { code: 143, reason: QuitReason::Other }));
    assert_eq!(effects.last(), Some(&Effect::Exit(143)));
    assert_eq!(rig.last_hook(HookEvent::SessionEnd).payload["reason"], "other");
}

#[test]
fn always_changes_what_is_asked_next() {
    let mut rig = Rig::started();
    rig.submit("[[bash:touch x]]");
    let updates = vec![json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" })];
    decide(&mut rig, Decision::Allow { input: None, updates });
    assert_eq!(states(&rig.submit("[[bash:touch y]]")), [State::Busy, State::Idle]);
    assert_eq!(rig.last_hook(HookEvent::Stop).payload["permission_mode"], "acceptEdits");
}

#[test]
fn a_denial_with_words_reaches_the_script() {
    let mut rig = Rig::started();
    rig.submit("[[plan]] [[text:{result}]]");
    let decision = Decision::Deny { message: "revise".into(), then: AfterDeny::Continue };
    assert_eq!(texts(&decide(&mut rig, decision)), ["revise"]);
}

#[test]
fn without_anybody_to_ask_what_needs_leave_is_refused_inline() {
    let mut rig = Rig::with(Asker::Nobody, "");
    rig.command(Command::Start);
    let effects = rig.submit("[[bash:touch x]] [[ask]]");
    assert_eq!(ended(&effects), Some(TurnOutcome::Completed));
    assert_eq!(texts(&effects).last().unwrap(), "Mock reply after 2 tool result(s).");
    assert!(!rig.hook_names().contains(&"PermissionRequest"));
}

#[test]
fn closing_the_input_ends_after_the_queue_is_done() {
    let mut rig = Rig::started();
    rig.submit("[[slow:0.5]]");
    rig.submit("hello");
    assert_eq!(rig.command(Command::Close), []);
    let effects = rig.pass();
    assert_eq!(texts(&effects), ["tick 0.", "Hello from the mock model."]);
    assert_eq!(effects.last(), Some(&Effect::Exit(0)));
}

#[test]
fn a_scenario_answers_with_its_pace() {
    let scenario = "pace = 0.5\n[[turn]]\nsteps = [{ text = 'look' }, { bash = 'ls' }, { text = 'ok: {prompt}' }]\n";
    let mut rig = Rig::with(Asker::Nobody, scenario);
    rig.command(Command::Start);
    rig.submit("go");
    let mut said = Vec::new();
    for _ in 0..3 {
        assert_eq!(rig.last_wait().1, Wait::Time(Duration::from_millis(500)));
        said.extend(texts(&rig.pass()));
    }
    assert_eq!(said, ["look", "ok: go"]);
}

#[test]
fn the_last_resorts_are_effects() {
    let mut rig = Rig::started();
    assert_eq!(rig.submit("[[crash]]").last(), Some(&Effect::Crash));
    let mut rig = Rig::started();
    assert_eq!(rig.submit("[[exit:7]]").last(), Some(&Effect::Exit(7)));
    let mut rig = Rig::started();
    rig.submit("[[gate:go]]");
    assert_eq!(rig.last_wait().1, Wait::Gate("go".into()));
}
