//! One event as a shim sends it, held against the protocol's table.

use serde_json::{Map, Value};

use self::Field::{Bool, Name, Number, Object, Objects, OneOf, Percent, Text, Texts, Time, Unit, Whole};

const SEVERITY: Field = OneOf(&["warning", "low", "medium", "high", "critical"]);
const RADIUS: Field = OneOf(&["trivial", "small", "medium", "large", "unknown"]);

/// An event that is as the protocol says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: String,
    pub(crate) sequence: u64,
    pub(crate) at: String,
    pub(crate) run: String,
    pub(crate) agent: String,
    pub(crate) event: Map<String, Value>,
}

/// What a field has to be.
#[derive(Clone, Copy, Debug)]
enum Field {
    Text,
    /// A text that is not empty.
    Name,
    Time,
    Bool,
    Number,
    /// A number that counts something.
    Whole,
    /// From 0 to 1.
    Unit,
    /// From 0 to 100.
    Percent,
    Object,
    Objects,
    Texts,
    OneOf(&'static [&'static str]),
}

/// Whether a field has to be there, and may be there without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Required,
    RequiredOrNull,
    Optional,
    OptionalOrNull,
}

type Rule = (&'static str, Field, Is);

const fn must(key: &'static str, field: Field) -> Rule {
    (key, field, Is::Required)
}

const fn may(key: &'static str, field: Field) -> Rule {
    (key, field, Is::Optional)
}

const ENVELOPE: &[Rule] = &[
    must("sourceEventId", Name),
    must("sourceSequence", Whole),
    must("sourceOccurredAt", Time),
    must("runId", Name),
    must("event", Object),
];

const PROVENANCE: &[Rule] = &[
    must("createdBy", Text),
    must("createdAt", Text),
    may("modifiedBy", Text),
    may("modifiedAt", Text),
    may("sourceArtifactIds", Texts),
    may("sourcePath", Text),
];

const OPTION: &[Rule] = &[must("id", Name), must("label", Text), must("description", Text), may("tradeoffs", Text)];

impl Frame {
    /// Reads an event, or says what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let Value::Object(mut envelope) = value else { return Err("it is not an object".to_owned()) };
        check("", &envelope, ENVELOPE)?;
        let Some(Value::Object(event)) = envelope.remove("event") else { return Err("event is missing".to_owned()) };
        check("event", &event, &[must("type", Name), must("agentId", Name)])?;
        let kind = text_of(&event, "type");
        let rules = rules(kind, text_of(&event, "subtype")).ok_or_else(|| format!("there is no event {kind:?}"))?;
        check(kind, &event, rules)?;
        if let Some(Value::Object(provenance)) = event.get("provenance").filter(|_| kind == "artifact") {
            check("provenance", provenance, PROVENANCE)?;
        }
        if let Some(Value::Array(options)) = event.get("options").filter(|_| kind == "decision") {
            options.iter().filter_map(Value::as_object).try_for_each(|option| check("options", option, OPTION))?;
        }
        Ok(Self {
            id: text_of(&envelope, "sourceEventId").to_owned(),
            sequence: envelope["sourceSequence"].as_u64().unwrap_or_default(),
            at: text_of(&envelope, "sourceOccurredAt").to_owned(),
            run: text_of(&envelope, "runId").to_owned(),
            agent: text_of(&event, "agentId").to_owned(),
            event,
        })
    }

    /// Returns a text of the event; nothing if it is not there.
    pub(crate) fn text(&self, key: &str) -> &str {
        text_of(&self.event, key)
    }
}

fn text_of<'a>(object: &'a Map<String, Value>, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn check(of: &str, object: &Map<String, Value>, rules: &[Rule]) -> Result<(), String> {
    for (key, field, is) in rules {
        let is_good = match (object.get(*key), is) {
            (None, Is::Optional | Is::OptionalOrNull)
            | (Some(Value::Null), Is::RequiredOrNull | Is::OptionalOrNull) => true,
            (None, Is::Required | Is::RequiredOrNull) => return Err(format!("{of}.{key} is missing")),
            (Some(value), _) => fits(value, *field),
        };
        if !is_good {
            return Err(format!("{of}.{key} is not right"));
        }
    }
    Ok(())
}

fn fits(value: &Value, field: Field) -> bool {
    let within = |most: f64| value.as_f64().is_some_and(|number| (0.0..=most).contains(&number));
    let all = |is_it: fn(&Value) -> bool| value.as_array().is_some_and(|items| items.iter().all(is_it));
    match field {
        Text => value.is_string(),
        Name => value.as_str().is_some_and(|text| !text.is_empty()),
        // Other readers take other forms too; the protocol has a literal `T` and `Z`.
        Time => value.as_str().is_some_and(|text| {
            text.get(10..11) == Some("T") && text.ends_with('Z') && humantime::parse_rfc3339(text).is_ok()
        }),
        Bool => value.is_boolean(),
        Number => value.is_number(),
        Whole => value.is_u64(),
        Unit => within(1.0),
        Percent => within(100.0),
        Object => value.is_object(),
        Objects => all(Value::is_object),
        Texts => all(Value::is_string),
        OneOf(words) => value.as_str().is_some_and(|text| words.contains(&text)),
    }
}

/// What an event of a type has, beside its type and whose it is: type, subtype if that counts, fields. What it has more is
/// let through.
const EVENTS: &[(&str, &str, &[Rule])] = &[
    ("status", "", &[must("message", Text), may("tick", Number)]),
    (
        "tool_call",
        "",
        &[
            must("toolCallId", Name),
            must("toolName", Text),
            must("phase", OneOf(&["requested", "running", "completed", "failed"])),
            must("approved", Bool),
            may("input", Object),
            may("durationMs", Whole),
        ],
    ),
    (
        "decision",
        "tool_approval",
        &[
            must("decisionId", Name),
            must("toolName", Text),
            must("toolArgs", Object),
            may("severity", SEVERITY),
            may("confidence", Unit),
            may("blastRadius", RADIUS),
            may("affectedArtifactIds", Texts),
            ("dueByTick", Number, Is::OptionalOrNull),
        ],
    ),
    (
        "decision",
        "option",
        &[
            must("decisionId", Name),
            must("title", Text),
            must("summary", Text),
            must("severity", SEVERITY),
            must("confidence", Unit),
            must("blastRadius", RADIUS),
            must("options", Objects),
            must("affectedArtifactIds", Texts),
            must("requiresRationale", Bool),
            may("recommendedOptionId", Text),
            ("dueByTick", Number, Is::OptionalOrNull),
        ],
    ),
    (
        "artifact",
        "",
        &[
            must("artifactId", Name),
            must("name", Text),
            must("kind", OneOf(&["code", "document", "design", "config", "test", "other"])),
            must("workstream", Text),
            must("status", OneOf(&["draft", "in_review", "approved", "rejected"])),
            must("qualityScore", Number),
            must("provenance", Object),
            may("uri", Text),
            may("mimeType", Text),
            may("sizeBytes", Whole),
            may("contentHash", Text),
        ],
    ),
    (
        "completion",
        "",
        &[
            must("summary", Text),
            must("artifactsProduced", Texts),
            must("decisionsNeeded", Texts),
            must("outcome", OneOf(&["success", "partial", "abandoned", "max_turns"])),
            may("reason", Text),
        ],
    ),
    (
        "error",
        "",
        &[
            must("severity", SEVERITY),
            must("message", Text),
            must("recoverable", Bool),
            must("category", OneOf(&["provider", "tool", "model", "timeout", "internal"])),
            may("errorCode", Text),
            may("context", Object),
        ],
    ),
    (
        "lifecycle",
        "",
        &[
            must(
                "action",
                OneOf(&["started", "paused", "resumed", "killed", "crashed", "idle", "session_start", "session_end"]),
            ),
            may("reason", Text),
        ],
    ),
    (
        "progress",
        "",
        &[must("operationId", Text), must("description", Text), ("progressPct", Percent, Is::RequiredOrNull)],
    ),
    (
        "coherence",
        "",
        &[
            must("issueId", Text),
            must("title", Text),
            must("description", Text),
            must("category", OneOf(&["contradiction", "duplication", "gap", "dependency_violation"])),
            must("severity", SEVERITY),
            must("affectedWorkstreams", Texts),
            must("affectedArtifactIds", Texts),
        ],
    ),
    (
        "delegation",
        "",
        &[
            must("action", OneOf(&["spawned", "handoff", "returned"])),
            must("childAgentId", Text),
            must("childRole", Text),
            must("reason", Text),
            must("delegationDepth", Whole),
            must("rootAgentId", Text),
        ],
    ),
    (
        "guardrail",
        "",
        &[
            must("guardrailName", Text),
            must("level", OneOf(&["input", "output", "tool"])),
            must("tripped", Bool),
            must("message", Text),
        ],
    ),
    ("raw_provider", "", &[must("providerName", Text), must("eventType", Text), must("payload", Object)]),
];

fn rules(kind: &str, subtype: &str) -> Option<&'static [Rule]> {
    let is_it = |name: &str, part: &str| name == kind && (part.is_empty() || part == subtype);
    EVENTS.iter().find(|(name, part, _)| is_it(name, part)).map(|(_, _, rules)| *rules)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn frame(run: &str, sequence: u64, event: Value) -> Value {
        let mut event = event;
        event["agentId"] = json!("a1");
        json!({ "sourceEventId": format!("{run}-{sequence}"), "sourceSequence": sequence,
                "sourceOccurredAt": "2026-01-01T00:00:00.123Z", "runId": run, "event": event })
    }

    fn why(change: impl FnOnce(&mut Value)) -> String {
        let mut good = frame(
            "r",
            1,
            json!({ "type": "progress", "operationId": "o", "description": "d",
                                             "progressPct": null }),
        );
        change(&mut good);
        Frame::read(&good.to_string()).err().unwrap_or_default()
    }

    #[test]
    fn what_the_protocol_says_is_read_and_keys_that_are_not_known_are_let_through() {
        assert_eq!(why(|_| {}), "");
        assert_eq!(why(|frame| frame["event"]["new"] = json!(1)), "");
        let decision = json!({ "type": "decision", "subtype": "option", "decisionId": "d", "title": "t", "summary": "s",
            "severity": "low", "confidence": 0.5, "blastRadius": "small", "affectedArtifactIds": [], "dueByTick": null,
            "requiresRationale": true, "options": [{ "id": "1", "label": "l", "description": "" }] });
        Frame::read(&frame("r", 0, decision).to_string()).expect("an event");
    }

    #[test]
    fn what_is_not_an_event_is_said_to_be_none_and_why() {
        assert!(Frame::read("{").is_err_and(|why| why.contains("not JSON")));
        assert_eq!(Frame::read("[]").expect_err("it is none"), "it is not an object");
        let cases: [(&str, Value, &str); 9] = [
            ("/sourceSequence", json!(-1), ".sourceSequence is not right"),
            ("/sourceSequence", json!(1.5), ".sourceSequence is not right"),
            ("/sourceOccurredAt", json!("2026-01-01T00:00:00+00:00"), ".sourceOccurredAt is not right"),
            ("/sourceOccurredAt", json!("2026-01-01 00:00:00Z"), ".sourceOccurredAt is not right"),
            ("/sourceEventId", json!(""), ".sourceEventId is not right"),
            ("/event/type", json!("completed"), "there is no event \"completed\""),
            ("/event/agentId", json!(null), "event.agentId is not right"),
            ("/event/progressPct", json!(101), "progress.progressPct is not right"),
            ("/event/description", json!(null), "progress.description is not right"),
        ];
        for (at, value, expected) in cases {
            assert_eq!(why(|frame| *frame.pointer_mut(at).expect("it is there") = value.clone()), expected, "{at}");
        }
        let without =
            |frame: &mut Value| drop(frame["event"].as_object_mut().expect("an object").remove("progressPct"));
        assert_eq!(why(without), "progress.progressPct is missing");
    }

    /// The stop hook of the protocol's own project sends an action that there is not.
    #[test]
    fn optional_fields_are_absent_and_not_null() {
        let read = |event: Value| Frame::read(&frame("r", 1, event).to_string()).err().unwrap_or_default();
        assert_eq!(read(json!({ "type": "status", "message": "m", "tick": null })), "status.tick is not right");
        assert_eq!(read(json!({ "type": "lifecycle", "action": "completed" })), "lifecycle.action is not right");
        let option = json!({ "type": "decision", "subtype": "option", "decisionId": "d", "title": "t", "summary": "s",
            "severity": "low", "confidence": 0.5, "blastRadius": "small", "requiresRationale": true, "options": [] });
        assert_eq!(read(option), "decision.affectedArtifactIds is missing");
    }
}
