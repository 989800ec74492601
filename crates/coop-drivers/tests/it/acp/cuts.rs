//! Whatever of a recording arrives, and in whatever order: nothing panics, nobody is idle while a prompt is open, and the
//! driver by itself never answers an ask.

use std::sync::LazyLock;

use coop_api::AgentState;
use coop_drivers::Say;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use super::{PROMPTS, Recording, all};
use crate::mimic::{Mimic, Seen};

static ALL: LazyLock<Vec<Recording>> = LazyLock::new(all);

/// Runs observations, and checks after each that idleness came with a reply, and that nothing was allowed.
fn check(mimic: &mut Mimic, seen: &[(u64, Seen)]) {
    let mut open: Option<i64> = None;
    for (at, seen) in seen {
        mimic.see(seen, *at);
        match seen {
            Seen::Sent(message) if message["method"] == "session/prompt" => open = message["id"].as_i64(),
            Seen::Control(message) if is_reply_to(message, open) => open = None,
            _ => {}
        }
        assert!(open.is_none() || *mimic.state() != AgentState::Idle, "idle in a turn, after {seen:?}");
        for said in mimic.driver.say() {
            if let Say::Message(message) = said {
                assert!(message.get("result").is_none(), "the driver answered {seen:?} with {message}");
            }
        }
    }
}

fn is_reply_to(message: &Value, open: Option<i64>) -> bool {
    open.is_some()
        && message["method"].is_null()
        && message["id"].as_i64() == open
        && message["id"].as_i64() > Some(PROMPTS)
}

fn recording() -> impl Strategy<Value = &'static Recording> {
    (0..ALL.len()).prop_map(|at| &ALL[at])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// What is left of a message that is cut anywhere is not JSON, which the session shows; but it may come as any value.
    #[test]
    fn a_recording_may_be_cut_at_any_byte(recording in recording(), line in any::<Index>(), byte in any::<Index>()) {
        let at = line.index(recording.lines.len());
        let mut seen: Vec<_> = recording.lines[..at].iter().flat_map(|line| line.seen()).map(|seen| (0, seen)).collect();
        let text = recording.lines[at].message.to_string();
        let rest = String::from_utf8_lossy(&text.as_bytes()[..byte.index(text.len())]).into_owned();
        seen.push((0, Seen::Control(serde_json::from_str(&rest).unwrap_or(Value::String(rest)))));
        check(&mut recording.mimic(), &seen);
    }

    #[test]
    fn its_messages_may_come_in_any_order((recording, order) in recording().prop_flat_map(|recording| {
        let order: Vec<_> = (0..recording.seen().len()).collect();
        (Just(recording), Just(order).prop_shuffle())
    })) {
        let all = recording.seen();
        let seen: Vec<_> = order.into_iter().map(|at| all[at].clone()).collect();
        check(&mut recording.mimic(), &seen);
    }

    /// A part of a message may be missing or of another kind.
    #[test]
    fn any_part_of_a_message_may_be_wrong(recording in recording(), line in any::<Index>(), part in any::<Index>()) {
        let at = line.index(recording.lines.len());
        let mut seen: Vec<_> = recording.lines[..at].iter().flat_map(|line| line.seen()).map(|seen| (0, seen)).collect();
        let mut message = recording.lines[at].message.clone();
        let mut left = part.index(count(&message));
        spoil(&mut message, &mut left);
        seen.push((0, Seen::Control(message)));
        check(&mut recording.mimic(), &seen);
    }
}

fn count(value: &Value) -> usize {
    let inner: usize = match value {
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Array(parts) => parts.iter().map(count).sum(),
        _ => 0,
    };
    inner + 1
}

/// Puts something else in the place of one part.
fn spoil(value: &mut Value, left: &mut usize) {
    if *left == 0 {
        *value = match value {
            Value::String(_) => Value::Array(Vec::new()),
            _ => Value::String("spoilt".into()),
        };
        *left = usize::MAX;
        return;
    }
    *left -= 1;
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| {
            if *left != usize::MAX {
                spoil(field, left)
            }
        }),
        Value::Array(parts) => parts.iter_mut().for_each(|part| {
            if *left != usize::MAX {
                spoil(part, left)
            }
        }),
        _ => {}
    }
}
