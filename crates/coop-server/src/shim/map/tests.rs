use coop_api::{
    AgentId, Ask, AskChannel, AskId, AskKind, Epoch, Fault, FaultReport, Message, Offset, Retry, Seq, ToolPhase,
    ToolUse, UsageReport,
};
use serde_json::{Value, json};

use super::*;

struct Story {
    mapper: Mapper,
    seq: u64,
}

impl Story {
    fn new() -> Self {
        Self { mapper: Mapper::new("a1", "core"), seq: 0 }
    }

    /// Returns the bodies of what happened a second after what happened before.
    fn tell(&mut self, body: EventBody) -> Vec<Value> {
        self.seq += 1;
        let event = Event {
            seq: Seq(self.seq),
            id: format!("x-{}", self.seq),
            ts: format!("2026-01-01T00:00:{:02}.000Z", self.seq),
            agent: AgentId("x".into()),
            run: Epoch(1),
            offset: Offset(0),
            body,
        };
        self.mapper.map(&event).into_iter().map(|body| json!(body)).collect()
    }

    fn tool(&mut self, id: &str, phase: ToolPhase, subagent: Option<&str>) -> Vec<Value> {
        let is_first = phase == ToolPhase::Requested;
        self.tell(EventBody::Tool(ToolUse {
            id: id.into(),
            tool: "Bash".into(),
            phase,
            input: is_first.then(|| json!({ "command": id })),
            output: (!is_first).then(|| json!("out")),
            duration_ms: None,
            subagent: subagent.map(str::to_owned),
        }))
    }
}

fn phases(bodies: &[Value]) -> Vec<(&str, bool)> {
    let calls = bodies.iter().filter(|body| body["type"] == "tool_call");
    calls.map(|body| (body["phase"].as_str().expect("a phase"), body["approved"] == true)).collect()
}

fn ask(command: &str) -> Ask {
    Ask {
        id: AskId("ask".into()),
        kind: AskKind::Permission,
        tool: Some("Bash".into()),
        input: Some(json!({ "command": command })),
        preview: command.into(),
        questions: vec![],
        options: vec![],
        opened: String::new(),
        channel: AskChannel::Structured,
        screen_lines: vec![],
    }
}

#[test]
fn a_tool_that_nobody_is_asked_about_has_all_its_phases() {
    let mut story = Story::new();
    let requested = story.tool("ls", ToolPhase::Requested, None);
    assert_eq!(phases(&requested), [("requested", true)]);
    assert_eq!(requested[0]["input"], json!({ "command": "ls" }));
    let done = story.tool("ls", ToolPhase::Completed, None);
    assert_eq!(phases(&done), [("running", true), ("completed", true)]);
    assert_eq!((&done[1]["durationMs"], &done[1]["output"]), (&json!(1000), &json!("out")));
    assert_eq!(requested[0]["toolCallId"], done[1]["toolCallId"]);
}

#[test]
fn what_was_asked_about_runs_once_it_is_allowed() {
    let mut story = Story::new();
    story.tool("one", ToolPhase::Requested, None);
    let second = story.tool("two", ToolPhase::Requested, None);
    let body = story.mapper.decided(&ask("two"), true, "2026-01-01T00:00:07.000Z").expect("it runs");
    assert_eq!(json!(body)["toolCallId"], second[0]["toolCallId"]);
    assert!(story.mapper.is_at_work());
    story.seq = 9;
    let done = story.tool("two", ToolPhase::Completed, None);
    assert_eq!(phases(&done), [("completed", true)]);
    assert_eq!(done[0]["durationMs"], 3000, "waiting for a human is not part of it");
}

#[test]
fn what_was_denied_never_runs() {
    let mut story = Story::new();
    story.tool("rm", ToolPhase::Requested, None);
    assert_eq!(story.mapper.decided(&ask("rm"), false, "2026-01-01T00:00:07.000Z"), None);
    assert_eq!(phases(&story.tool("rm", ToolPhase::Failed, None)), [("failed", false)]);
}

#[test]
fn a_sub_agent_comes_and_goes() {
    let mut story = Story::new();
    let first = story.tool("x", ToolPhase::Requested, Some("child"));
    assert_eq!((&first[0]["type"], &first[0]["action"]), (&json!("delegation"), &json!("spawned")));
    let more = story.tool("x", ToolPhase::Completed, Some("child"));
    assert!(more.iter().all(|body| body["type"] == "tool_call"));
    let ended = story.tell(EventBody::Turn(Turn::Ended { outcome: TurnOutcome::Completed }));
    assert_eq!((&ended[0]["action"], &ended[0]["childAgentId"]), (&json!("returned"), &json!("child")));
}

#[test]
fn a_file_keeps_its_name_when_it_is_written_again() {
    let mut story = Story::new();
    let artifact = || {
        EventBody::Artifact(Artifact {
            path: "/w/a.test.ts".into(),
            artifact_kind: "test".into(),
            tool: "Write".into(),
        })
    };
    let first = story.tell(artifact()).remove(0);
    let again = story.tell(artifact()).remove(0);
    assert_eq!(
        (&first["name"], &first["kind"], &first["uri"]),
        (&json!("a.test.ts"), &json!("test"), &json!("/w/a.test.ts"))
    );
    assert_eq!(first["artifactId"], again["artifactId"]);
    assert_eq!(first["provenance"]["createdAt"], again["provenance"]["createdAt"]);
    assert!(first["provenance"]["modifiedAt"].is_null() && again["provenance"]["modifiedAt"].is_string());
    let done = json!(story.mapper.completion(story.mapper.ending(TurnOutcome::Completed)));
    assert_eq!((&done["outcome"], &done["artifactsProduced"]), (&json!("success"), &json!([first["artifactId"]])));
}

#[test]
fn a_run_ends_as_its_last_turn_did() {
    let fault = |text: &str| {
        EventBody::Fault(FaultReport {
            fault: Fault { kind: FaultKind::RateLimit, message: text.into(), status: Some(429), until: None },
            retry: None,
        })
    };
    let mut story = Story::new();
    let told = story.tell(fault("slow down")).remove(0);
    assert_eq!(
        (&told["category"], &told["recoverable"], &told["errorCode"]),
        (&json!("provider"), &json!(true), &json!("429"))
    );
    assert_eq!(story.mapper.ending(TurnOutcome::Failed).outcome, Outcome::Abandoned);
    assert_eq!(story.mapper.ending(TurnOutcome::Interrupted).outcome, Outcome::Abandoned);
    story.tell(EventBody::Artifact(Artifact { path: "a".into(), artifact_kind: "other".into(), tool: "Write".into() }));
    assert_eq!(story.mapper.ending(TurnOutcome::Failed).outcome, Outcome::Partial);
    story.tell(fault("Reached maximum number of turns (3)"));
    assert_eq!(story.mapper.ending(TurnOutcome::Failed).outcome, Outcome::MaxTurns);
}

#[test]
fn a_retry_is_a_warning() {
    let fault = Fault { kind: FaultKind::Overload, message: "busy".into(), status: Some(529), until: None };
    let retry = Some(Retry { attempt: 1, max: None, delay_ms: None });
    let told = Story::new().tell(EventBody::Fault(FaultReport { fault, retry })).remove(0);
    assert_eq!((&told["severity"], &told["recoverable"]), (&json!("warning"), &json!(true)));
}

#[test]
fn words_are_a_status_of_five_hundred_characters() {
    let mut story = Story::new();
    let message = Message { role: Role::Assistant, text: "é".repeat(600), id: None, subagent: None };
    let told = story.tell(EventBody::Message(message)).remove(0);
    assert_eq!(told["message"].as_str().expect("text").chars().count(), 500);
    let mine = Message { role: Role::User, text: "x".into(), id: None, subagent: None };
    assert!(story.tell(EventBody::Message(mine)).is_empty());
}

#[test]
fn a_list_of_things_to_do_is_progress() {
    let input = json!({ "todos": [{ "status": "completed" }, { "status": "pending" }] });
    let used = ToolUse {
        id: "t".into(),
        tool: "TodoWrite".into(),
        phase: ToolPhase::Requested,
        input: Some(input),
        output: None,
        duration_ms: None,
        subagent: None,
    };
    let told = Story::new().tell(EventBody::Tool(used));
    assert_eq!((&told[1]["description"], &told[1]["progressPct"]), (&json!("Todo: 1/2 completed"), &json!(50.0)));
}

#[test]
fn the_tokens_of_a_turn_are_told_at_its_end() {
    let mut story = Story::new();
    let turn = Usage { input_tokens: 3, output_tokens: 4, cache_read_tokens: 5, ..Usage::none() };
    story.tell(EventBody::Usage(UsageReport { turn, total: turn, requests: 1 }));
    let told = story.tell(EventBody::Turn(Turn::Ended { outcome: TurnOutcome::Completed }));
    assert_eq!(told[0]["message"], "Turn completed (in: 8, out: 4 tokens)");
}
