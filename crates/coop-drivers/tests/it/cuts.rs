//! Whatever of a recording arrives, and in whatever order: nothing panics, and nobody is said to be idle without a sign.
//! That observing never leads to an answer is what its type says: it returns signals, and only a request makes steps.

use std::sync::LazyLock;

use coop_api::AgentState;
use coop_drivers::Runtime;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Value, json};

use crate::mimic::{Mimic, Seen};
use crate::recordings::{self, Recording};

static ALL: LazyLock<Vec<Recording>> = LazyLock::new(recordings::all);
/// All that was ever seen, and some that was not.
static EVERYTHING: LazyLock<Vec<(u64, Seen)>> = LazyLock::new(|| {
    let recorded = ALL.iter().flat_map(Recording::all_seen);
    let hook = |event: &str, payload: Value| (1_794_722_900_000, Seen::Hook { event: event.into(), payload });
    recorded
        .chain([
            hook("StopFailure", json!({ "error": "unknown" })),
            hook("Notification", json!({ "notification_type": "idle_prompt" })),
            hook("PreCompact", json!({ "trigger": "auto" })),
            hook("PreCompact", json!({ "trigger": "manual" })),
            hook("SessionStart", json!({ "source": "compact" })),
            hook("Stop", json!({ "agent_id": "a1" })),
            hook("Stop", json!({ "background_tasks": [{ "type": "subagent", "status": "running" }] })),
            (0, Seen::Status(json!({ "status": "idle" }))),
            (0, Seen::Control(json!({ "type": "control_cancel_request", "request_id": "r" }))),
            (0, Seen::Control(json!([{ "type": "result" }]))),
        ])
        .collect()
});

/// Whether something ends a turn, or shows that none is under way; nothing if it says neither.
fn ends(seen: &Seen) -> Option<bool> {
    match seen {
        Seen::Hook { event, payload } => match event.as_str() {
            "UserPromptSubmit" | "PreToolUse" | "PostToolUse" | "PreCompact" => Some(false),
            "Stop" | "StopFailure" if payload["agent_id"].is_string() => None,
            "Stop" if payload["background_tasks"][0]["type"] == "subagent" => None,
            "Stop" | "StopFailure" | "SessionStart" => Some(true),
            "Notification" if payload["notification_type"] == "idle_prompt" => Some(true),
            _ => None,
        },
        Seen::Log(line) => match (line["type"].as_str(), line["subtype"].as_str(), &line["message"]["content"]) {
            (Some("system"), Some("turn_duration" | "local_command"), _) => Some(true),
            // What a command printed: it is through. Other traces of commands, and summaries, are no messages.
            (Some("user"), _, Value::String(text)) if text.starts_with("<local-command-stdout>") => Some(true),
            (Some("user"), _, Value::String(text)) if text.starts_with('<') || line["isCompactSummary"] == true => None,
            (Some("user"), _, Value::String(_)) => Some(false),
            (Some("user"), _, Value::Array(blocks)) => {
                let text = blocks[0]["text"].as_str().unwrap_or_default();
                text.starts_with("[Request interrupted by user").then_some(true)
            }
            _ => None,
        },
        Seen::Status(file) => match file["status"].as_str() {
            Some("idle") => Some(true),
            Some("busy") => Some(false),
            _ => None,
        },
        Seen::Control(message) => match (message["type"].as_str(), message["subtype"].as_str()) {
            (Some("system"), Some("init")) => Some(false),
            (Some("system"), Some("session_state_changed")) => match message["state"].as_str() {
                Some("idle") => Some(true),
                Some("running") => Some(false),
                _ => None,
            },
            (Some("result"), _) | (Some("control_response"), _) => Some(true),
            _ => None,
        },
        Seen::Screen(_) | Seen::Title(_) | Seen::Link(_) | Seen::LinkLost | Seen::Sent(_) | Seen::Answered { .. } => {
            None
        }
    }
}

/// Runs observations, and checks after each that idleness came with a sign of it.
fn check(mimic: &mut Mimic, seen: &[(u64, Seen)]) {
    let mut began = false;
    for (at, seen) in seen {
        let before = mimic.state().clone();
        mimic.see(seen, *at);
        began |= matches!(seen, Seen::Hook { event, .. } if event == "SessionStart");
        if *mimic.state() == AgentState::Idle && before != AgentState::Idle {
            // Once it has begun, the first look at a screen that takes pastes shows that it waits.
            let is_first_look = began && matches!(seen, Seen::Screen(_));
            assert!(ends(seen) == Some(true) || is_first_look, "idle after {seen:?}");
        }
        if *mimic.state() == AgentState::Idle && is_main_source(seen) {
            assert_ne!(ends(seen), Some(false), "idle in a turn, after {seen:?}");
        }
    }
}

/// What contradicts idleness by itself. The log is only read for the turn's beginning where there are no hooks.
fn is_main_source(seen: &Seen) -> bool {
    matches!(seen, Seen::Hook { .. } | Seen::Control(_))
}

/// Returns what is seen of a text that ends anywhere. What is left of its last line may come as any value.
fn cut(recording: &Recording, at: usize) -> Vec<(u64, Seen)> {
    let whole = String::from_utf8_lossy(&recording.text.as_bytes()[..at]).into_owned();
    if recording.name.starts_with('B') {
        return vec![(0, Seen::Screen(whole.lines().map(str::to_owned).collect()))];
    }
    let mut seen: Vec<_> = whole.lines().filter_map(|line| recording.seen(line)).collect();
    let rest = whole.lines().next_back().unwrap_or_default();
    if serde_json::from_str::<Value>(rest).is_err() {
        let rest = Value::String(rest.to_owned());
        seen.push((0, Seen::Log(rest.clone())));
        seen.push((0, Seen::Control(rest.clone())));
        seen.push((0, Seen::Status(rest.clone())));
        seen.push((0, Seen::Hook { event: "PreToolUse".into(), payload: rest }));
    }
    seen
}

fn recording() -> impl Strategy<Value = &'static Recording> {
    (0..ALL.len()).prop_map(|at| &ALL[at])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_recording_may_be_cut_at_any_byte(recording in recording(), at in any::<Index>()) {
        let at = at.index(recording.text.len() + 1);
        check(&mut recording.mimic(), &cut(recording, at));
    }

    #[test]
    fn the_lines_of_a_recording_may_come_in_any_order(
        (recording, order) in recording().prop_flat_map(|recording| {
            let order: Vec<_> = (0..recording.all_seen().len()).collect();
            (Just(recording), Just(order).prop_shuffle())
        }),
    ) {
        let all = recording.all_seen();
        let seen: Vec<_> = order.into_iter().map(|at| all[at].clone()).collect();
        check(&mut recording.mimic(), &seen);
    }

    #[test]
    fn any_of_all_recordings_may_come_in_any_order(
        seen in subsequence((0..EVERYTHING.len()).collect::<Vec<_>>(), 0..120).prop_shuffle(),
        runtime in select(vec![Runtime::Pty, Runtime::Pipe]),
    ) {
        let mut seen: Vec<_> = seen.into_iter().map(|at| EVERYTHING[at].clone()).collect();
        // In a terminal there is no control protocol.
        seen.retain(|(_, seen)| runtime == Runtime::Pipe || !matches!(seen, Seen::Control(_)));
        check(&mut Mimic::new(runtime, &["claude"]), &seen);
    }
}

/// Wherever a recording in its own order is cut, it is idle exactly outside of turns.
#[test]
fn who_is_cut_off_within_a_turn_is_not_idle() {
    let mut in_turns = 0;
    for recording in ALL.iter().filter(|recording| recording.text.starts_with('{') && recording.name.contains(".jsonl"))
    {
        let mut mimic = recording.mimic();
        let mut is_in_turn = true;
        for (at, seen) in recording.all_seen() {
            mimic.see(&seen, at);
            is_in_turn = ends(&seen).map_or(is_in_turn, |ends| !ends);
            // Answers to requests that are no turns, such as for another model, end none.
            is_in_turn |= matches!(mimic.state(), AgentState::Working { .. } | AgentState::Waiting { .. });
            assert!(!is_in_turn || *mimic.state() != AgentState::Idle, "{}: idle after {seen:?}", recording.name);
            in_turns += usize::from(is_in_turn);
        }
    }
    assert!(in_turns > 200, "only {in_turns} cuts were within turns");
}
