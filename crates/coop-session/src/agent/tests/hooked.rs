//! With hooks: who is told what, and what becomes of asks that more than one source knows.

use super::*;

type Told = oneshot::Receiver<Result<Reply, Error>>;

/// Reports a hook that can wait for what it is told.
fn held(agent: &mut Agent, event: &str, payload: Value, now: &Now) -> (Vec<Effect>, Told) {
    let token = coop_api::Token::new("t").expect("a token");
    let (reply, told) = oneshot::channel();
    let call = coop_api::HookCall { token, event: event.to_owned(), payload };
    (agent.hook(&call, reply, now), told)
}

fn bash() -> Value {
    json!({ "tool_name": "Bash", "tool_input": { "command": "ls" }, "tool_use_id": "t1" })
}

/// Returns one that has hooks and waits at its prompt.
fn idle() -> (Agent, Now) {
    let (mut agent, now) = agent(Runtime::Pty);
    hook(&mut agent, "SessionStart", json!({ "session_id": "S", "source": "startup" }), &now);
    agent.look(&input(""), &now);
    assert_eq!(agent.state().short_name(), "idle");
    (agent, now)
}

/// Returns one in the middle of a turn.
fn working() -> (Agent, Now) {
    let (mut agent, now) = idle();
    hook(&mut agent, "UserPromptSubmit", json!({ "prompt": "go" }), &now);
    (agent, now)
}

/// Two sub-agents asked for the same: when the first had run, both were taken for answered.
#[test]
fn of_two_asks_for_the_same_each_is_settled_by_itself() {
    let (mut agent, now) = working();
    let (_, _first) = held(&mut agent, "PermissionRequest", bash(), &now);
    let (_, _second) = held(&mut agent, "PermissionRequest", bash(), &now);
    let run = hook(&mut agent, "PostToolUse", bash(), &now);
    assert_eq!(asks_told(&run), ["withdrawn"], "somebody answered the first in the terminal");
    assert_eq!(agent.asks().iter().map(|ask| ask.id.0.clone()).collect::<Vec<_>>(), ["ask-2"]);

    let (mut agent, now) = working();
    let (_, _first) = held(&mut agent, "PermissionRequest", bash(), &now);
    let (_, mut second) = held(&mut agent, "PermissionRequest", bash(), &now);
    let answer: Answer = serde_json::from_str(r#"{"ask":"ask-1","accept":true}"#).expect("an answer");
    let answered = agent.respond(WriterId::default(), &answer, oneshot::channel().0, &input(""), &now);
    assert_eq!(asks_told(&answered), ["answered"]);
    assert_eq!(asks_told(&hook(&mut agent, "PostToolUse", bash(), &now)), [""; 0], "that is the first, answered above");
    assert!(second.try_recv().is_err(), "it still waits");
    assert_eq!(asks_told(&hook(&mut agent, "PostToolUse", bash(), &now)), ["withdrawn"]);
}

/// A hook that died took the ask with it, and the agent was said to work while its dialog was up.
#[test]
fn the_dialog_of_an_ask_whose_hook_died_is_an_ask() {
    for hook_is_first in [true, false] {
        let (mut agent, now) = working();
        let dialog = screen(PERMISSION);
        if !hook_is_first {
            agent.look(&dialog, &now);
        }
        let (_, waits) = held(&mut agent, "PermissionRequest", bash(), &now);
        agent.look(&dialog, &now);
        drop(waits);
        let id = agent.asks()[0].id.clone();
        let much_later = after(&now, Duration::from_secs(3600));
        assert_eq!(asks_told(&agent.hook_gone(&id, &much_later)), ["withdrawn"]);
        assert_eq!(asks_told(&agent.tick(&dialog, &much_later)), [""; 0], "its dialog may be about to go");
        let opened = agent.tick(&dialog, &after(&much_later, Duration::from_secs(6)));
        assert_eq!(asks_told(&opened), ["opened"]);
        assert_eq!(agent.asks()[0].channel, coop_api::AskChannel::Keys);
    }
}

/// The hook's process took long to start: its dialog was an ask by then, and both stayed open.
#[test]
fn an_ask_that_a_late_hook_tells_takes_the_place_of_its_dialog() {
    let (mut agent, now) = working();
    let dialog = screen(PERMISSION);
    agent.look(&dialog, &now);
    let late = after(&now, Duration::from_secs(6));
    assert_eq!(asks_told(&agent.tick(&dialog, &late)), ["opened"]);
    let (effects, _waits) = held(&mut agent, "PermissionRequest", bash(), &late);
    assert_eq!(asks_told(&effects), ["opened", "withdrawn"]);
    let open: Vec<_> = agent.asks().into_iter().map(|ask| (ask.channel, ask.tool)).collect();
    assert_eq!(open, [(coop_api::AskChannel::Structured, Some("Bash".to_owned()))]);
    assert_eq!(agent.state().as_str(), "permission_prompt");
}

#[test]
fn the_dialog_of_an_ask_that_was_answered_goes_and_is_no_ask() {
    let (mut agent, now) = working();
    let (_, mut waits) = held(&mut agent, "PermissionRequest", bash(), &now);
    agent.look(&screen(PERMISSION), &now);
    let answer: Answer = serde_json::from_str(r#"{"accept":true}"#).expect("an answer");
    let late = after(&now, Duration::from_secs(60));
    let mut told = agent.respond(WriterId::default(), &answer, oneshot::channel().0, &screen(PERMISSION), &late);
    assert!(matches!(waits.try_recv(), Ok(Ok(Reply::Hook(Some(_))))));
    told.extend(agent.tick(&screen(PERMISSION), &after(&late, Duration::from_secs(1))));
    told.extend(agent.look(&input(""), &after(&late, Duration::from_secs(1))));
    told.extend(agent.tick(&input(""), &after(&late, Duration::from_secs(60))));
    assert_eq!(asks_told(&told), ["answered"]);
}

#[test]
fn a_tool_is_named_after_it_was_allowed_and_not_after_a_denial() {
    for (answer, tool) in [(r#"{"accept":true}"#, Some("Bash")), (r#"{"accept":false}"#, None)] {
        let (mut agent, now) = working();
        let (_, _waits) = held(&mut agent, "PermissionRequest", bash(), &now);
        let answer: Answer = serde_json::from_str(answer).expect("an answer");
        agent.respond(WriterId::default(), &answer, oneshot::channel().0, &input(""), &now);
        assert_eq!(*agent.state(), AgentState::Working { tool: tool.map(str::to_owned) });
    }
}

#[test]
fn an_answer_to_a_hook_that_is_gone_is_not_sent() {
    let (mut agent, now) = working();
    let (_, waits) = held(&mut agent, "PermissionRequest", bash(), &now);
    drop(waits);
    let answer: Answer = serde_json::from_str(r#"{"accept":true}"#).expect("an answer");
    let (reply, mut answered) = oneshot::channel();
    agent.respond(WriterId::default(), &answer, reply, &input(""), &now);
    let error = answered.try_recv().expect("an answer").expect_err("an error");
    assert_eq!(error.code, ErrorCode::NoPrompt);
}

/// A request for permission that was on its way when the agent ended opened an ask that nobody closed.
#[test]
fn a_hook_of_an_agent_that_has_exited_opens_no_ask() {
    let (mut agent, now) = working();
    agent.exited(Some(0), None, &now);
    let (effects, mut told) = held(&mut agent, "PermissionRequest", bash(), &now);
    assert!(effects.is_empty() && agent.asks().is_empty(), "{effects:?}");
    assert!(matches!(told.try_recv(), Ok(Ok(Reply::Hook(None)))));
}

/// The status file knows that it waits, and the screen shows nothing that is known: it was said to work for good.
#[test]
fn what_cannot_be_read_is_an_ask_without_options() {
    let strange = screen(&format!("{RULE}\n  A new kind of dialog\n\n  [ Allow ]   [ Deny ]"));
    for (mut agent, now) in [working(), (hookless(&now()), now())] {
        agent.look(&input(""), &now);
        status(&mut agent, "busy", None, &now);
        agent.look(&strange, &now);
        assert_eq!(asks_told(&status(&mut agent, "waiting", Some("permission prompt"), &now)), [""; 0]);
        let changed = screen(&format!("{RULE}\n  A new kind of dialog\n\n  [ Allow ]   < Deny >"));
        agent.look(&changed, &after(&now, Duration::from_millis(4900)));
        let opened = agent.tick(&changed, &after(&now, Duration::from_millis(5100)));
        assert_eq!(asks_told(&opened), ["opened"]);
        let ask = agent.asks().remove(0);
        assert_eq!(
            (ask.kind, ask.options.len(), ask.preview.as_str()),
            (AskKind::Permission, 0, "A new kind of dialog")
        );
        let answer: Answer = serde_json::from_str(r#"{"accept":true}"#).expect("an answer");
        let (reply, mut answered) = oneshot::channel();
        assert!(agent.respond(WriterId::default(), &answer, reply, &changed, &now).is_empty());
        let error = answered.try_recv().expect("an answer").expect_err("an error");
        assert_eq!(error.code, ErrorCode::NoSuchOption);
        assert_eq!(asks_told(&agent.look(&input(""), &after(&now, Duration::from_secs(2)))), ["withdrawn"]);
    }
}

/// `!cmd` at the prompt has no other hook than its end.
#[test]
fn a_turn_that_only_ends_is_told_whole() {
    let (mut agent, now) = idle();
    let ended = hook(&mut agent, "Stop", json!({}), &now);
    assert_eq!(told(&ended), ["turn", "working", "stop", "turn", "idle"]);
}

/// What failed is written down, then the status is `idle`, then the hook runs: it was idle in between.
#[test]
fn a_turn_that_failed_is_never_idle() {
    let (mut agent, now) = idle();
    status(&mut agent, "idle", None, &now);
    let began = after(&now, Duration::from_secs(1));
    hook(&mut agent, "UserPromptSubmit", json!({ "prompt": "go" }), &began);
    let written = after(&began, Duration::from_millis(1000));
    let over = after(&began, Duration::from_millis(1040));
    assert_eq!(told(&status(&mut agent, "idle", None, &over)), [""; 0]);
    let mut line = says("API Error: 401 no");
    line["isApiErrorMessage"] = json!(true);
    line["timestamp"] = written.rfc3339().into();
    let mut effects = agent.observe(&Observation::LogLine { line: &line, past: false }, &over);
    let failure = json!({ "error": "auth", "last_assistant_message": "API Error: 401 no" });
    effects.extend(hook(&mut agent, "StopFailure", failure, &after(&over, Duration::from_millis(100))));
    effects.extend(agent.tick(&input(""), &after(&over, Duration::from_secs(5))));
    assert_eq!(told(&effects), ["message", "fault", "turn", "error"]);
}

fn send(agent: &mut Agent, text: &str, when: When, screen: &Screen, now: &Now) -> (Vec<Effect>, Told) {
    let (reply, receipt) = oneshot::channel();
    let request = NudgeRequest { message: text.to_owned(), when, wait: false };
    (agent.nudge(WriterId::default(), request, reply, screen, now), receipt)
}

/// It waited behind one that could wait, without an end.
#[test]
fn what_cannot_wait_does_not_wait_behind_what_can() {
    let (mut agent, now) = idle();
    let (_, _sending) = send(&mut agent, "first", When::Now, &input(""), &now);
    let (_, mut queued) = send(&mut agent, "second", When::Idle, &input(""), &now);
    assert!(matches!(queued.try_recv(), Ok(Ok(Reply::Receipt(receipt))) if receipt.queued));
    let (_, mut impatient) = send(&mut agent, "third", When::Now, &input(""), &now);
    assert!(impatient.try_recv().is_err(), "it may yet be delivered");
    hook(&mut agent, "UserPromptSubmit", json!({ "prompt": "first" }), &now);
    agent.tick(&input("first"), &after(&now, Duration::from_millis(200)));
    let error = impatient.try_recv().expect("an answer").expect_err("an error");
    assert_eq!(error.code, ErrorCode::AgentBusy);
    assert_eq!(agent.nudges.list().len(), 1, "the second waits on");

    let (mut agent, now) = idle();
    let typing = input("what a person types");
    let (_, _queued) = send(&mut agent, "first", When::Idle, &typing, &now);
    let (_, mut impatient) = send(&mut agent, "second", When::Now, &typing, &now);
    assert!(matches!(impatient.try_recv(), Ok(Err(error)) if error.code == ErrorCode::AgentBusy));
}

/// A person sent something of their own at that moment: it was taken for ours.
#[test]
fn the_turn_of_another_message_proves_nothing() {
    for (prompt, delivered) in [("quite another", false), ("hello", true), ("before it\nhello", true)] {
        let (mut agent, now) = idle();
        let (_, mut receipt) = send(&mut agent, "hello", When::Now, &input(""), &now);
        let sent = after(&now, Duration::from_millis(200));
        assert_eq!(typed(&agent.tick(&input("hello"), &sent)), ["\r"]);
        hook(&mut agent, "UserPromptSubmit", json!({ "prompt": prompt }), &sent);
        let (_, _asks) = held(&mut agent, "PermissionRequest", bash(), &sent);
        agent.tick(&input("hello"), &sent);
        assert_eq!(typed(&agent.tick(&input("hello"), &after(&sent, Duration::from_secs(6)))), [""; 0]);
        agent.tick(&input("hello"), &after(&sent, Duration::from_secs(30)));
        let Ok(Ok(Reply::Receipt(receipt))) = receipt.try_recv() else { panic!("no receipt") };
        assert_eq!(receipt.delivered, delivered, "{prompt}: {receipt:?}");
    }
}

/// Nothing showed that it was taken, and then nothing else could be sent: coop took its own words for a person's.
#[test]
fn a_message_that_was_not_taken_is_cleared_for_the_next() {
    let (mut agent, now) = idle();
    let (_, _receipt) = send(&mut agent, "hello\nyou", When::Now, &input(""), &now);
    let there = input("hello\n  you");
    let sent = after(&now, Duration::from_millis(200));
    agent.tick(&there, &sent);
    let retried = after(&sent, Duration::from_secs(6));
    assert_eq!(typed(&agent.tick(&there, &retried)), ["\r"]);
    let given_up = after(&retried, Duration::from_secs(30));
    agent.tick(&there, &given_up);
    let (effects, _receipt) = send(&mut agent, "again", When::Now, &there, &given_up);
    assert_eq!(typed(&effects), ["\x15\x7f\x15\x7f"]);
    let pasted = agent.tick(&input(""), &after(&given_up, Duration::from_millis(100)));
    assert_eq!(typed(&pasted), ["\x1b[200~again\x1b[201~"]);
}
