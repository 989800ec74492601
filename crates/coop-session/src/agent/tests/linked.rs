//! What is done over a link to the agent's own server, and what becomes of it when the link breaks.

use coop_api::ErrorCode;

use super::*;

type Told = oneshot::Receiver<Result<Reply, Error>>;

fn tell(agent: &mut Agent, message: Value, now: &Now) -> Vec<Effect> {
    let mut effects = agent.observe(&Observation::Control(&message), now);
    effects.extend(agent.go_on(&input(""), now));
    effects
}

fn link(agent: &mut Agent, up: bool, now: &Now) -> Vec<Effect> {
    let mut effects = agent.observe(&Observation::Link { up }, now);
    effects.extend(agent.go_on(&input(""), now));
    effects
}

fn asks(agent: &mut Agent, request: u64, command: &str, now: &Now) {
    let params = json!({ "threadId": "T", "turnId": "U", "command": command });
    let asked = json!({ "id": request, "method": "item/commandExecution/requestApproval", "params": params });
    assert_eq!(asks_told(&tell(agent, asked, now)), ["opened"]);
}

fn resolved(agent: &mut Agent, request: u64, now: &Now) -> Vec<Effect> {
    let params = json!({ "threadId": "T", "requestId": request });
    tell(agent, json!({ "method": "serverRequest/resolved", "params": params }), now)
}

/// Returns a Codex whose server was greeted and has one idle conversation.
fn codex() -> (Agent, Now) {
    let now = now();
    let version = Some("codex-cli 0.166.0".to_owned());
    let mut agent = known("codex", &Launch { command: vec!["codex".into()], version, ..Launch::default() }, &now);
    link(&mut agent, true, &now);
    tell(&mut agent, json!({ "id": "coop-hello", "result": {} }), &now);
    let thread = json!({ "id": "T", "status": { "type": "idle" } });
    tell(&mut agent, json!({ "method": "thread/started", "params": { "thread": thread } }), &now);
    assert_eq!(agent.state().short_name(), "idle");
    (agent, now)
}

/// Returns one in the middle of a turn.
fn working() -> (Agent, Now) {
    let (mut agent, now) = codex();
    let began = json!({ "method": "turn/started", "params": { "threadId": "T", "turn": { "id": "U" } } });
    tell(&mut agent, began, &now);
    (agent, now)
}

fn respond(agent: &mut Agent, ask: &str, now: &Now) -> (Vec<Effect>, Told) {
    answer(agent, json!({ "ask": ask, "accept": true }), now)
}

fn answer(agent: &mut Agent, answer: Value, now: &Now) -> (Vec<Effect>, Told) {
    let answer: Answer = serde_json::from_value(answer).expect("an answer");
    let (reply, told) = oneshot::channel();
    (agent.respond(WriterId::default(), &answer, reply, &input(""), now), told)
}

fn failed(told: &mut Told) -> ErrorCode {
    told.try_recv().expect("an answer").expect_err("an error").code
}

/// The caller was told that the answer was delivered, "confirmed by: the link is down".
#[test]
fn a_lost_link_confirms_no_answer() {
    let (mut agent, now) = working();
    asks(&mut agent, 7, "ls", &now);
    let (mut effects, mut told) = respond(&mut agent, "ask-1", &now);
    assert!(told.try_recv().is_err(), "nothing shows yet that it took");
    effects.extend(link(&mut agent, false, &now));
    assert_eq!(failed(&mut told), ErrorCode::Unconfirmed);
    assert_eq!(asks_told(&effects), ["withdrawn"]);
}

/// Answers the calls among these effects as a server does that is busy with one conversation and asks this.
fn serve(agent: &mut Agent, effects: Vec<Effect>, permissions: &Value, now: &Now) -> Vec<Effect> {
    let mut told = Vec::new();
    for effect in effects {
        let Effect::Say(Say::Call(call)) = effect else { continue };
        let body = match call.path.split('?').next() {
            Some("/session/status") => json!({ "ses_1": { "type": "busy" } }),
            Some("/permission") => permissions.clone(),
            _ => json!([]),
        };
        told.extend(agent.observe(&Observation::Reply { name: &call.name, status: Some(200), body: &body }, now));
        told.extend(agent.go_on(&input(""), now));
    }
    told
}

/// Returns an OpenCode that asks for something.
fn opencode() -> (Agent, Now, Value) {
    let now = now();
    let command = ["opencode", "--session", "ses_1"].map(str::to_owned).to_vec();
    let launch = Launch { command, secret: "secret".into(), port: 1, runtime: Runtime::Server, ..Launch::default() };
    let mut agent = known("opencode", &launch, &now);
    let asked = json!([{ "id": "per_1", "sessionID": "ses_1", "permission": "bash", "patterns": ["ls"] }]);
    let reads = link(&mut agent, true, &now);
    assert_eq!(asks_told(&serve(&mut agent, reads, &asked, &now)), ["opened"]);
    (agent, now, asked)
}

/// The sidecar had not seen yet that the link was cut and mended, and said of an answer that was taken that nobody knows.
#[test]
fn an_answer_that_is_called_in_is_found_again_when_the_link_is_another() {
    let (mut agent, now, _) = opencode();
    let (called, mut told) = respond(&mut agent, "ask-1", &now);
    serve(&mut agent, called, &json!([]), &now);
    link(&mut agent, false, &now);
    assert!(told.try_recv().is_err(), "it is not known yet");
    let reads = link(&mut agent, true, &now);
    assert_eq!(asks_told(&serve(&mut agent, reads, &json!([]), &now)), ["answered"]);
    assert!(matches!(told.try_recv(), Ok(Ok(Reply::Answered(answered))) if answered.ask == AskId("ask-1".into())));
}

/// What is still asked afterwards was not answered; what never came to the server neither.
#[test]
fn an_answer_that_the_link_lost_is_not_confirmed() {
    let (mut agent, now, asked) = opencode();
    let (called, mut told) = respond(&mut agent, "ask-1", &now);
    serve(&mut agent, called, &asked, &now);
    link(&mut agent, false, &now);
    let reads = link(&mut agent, true, &now);
    assert!(asks_told(&serve(&mut agent, reads, &asked, &now)).is_empty());
    agent.go_on(&input(""), &after(&now, Duration::from_secs(60)));
    assert_eq!(failed(&mut told), ErrorCode::Unconfirmed);

    let (mut agent, now, _) = opencode();
    let (called, mut told) = respond(&mut agent, "ask-1", &now);
    link(&mut agent, false, &now);
    let Some(Effect::Say(Say::Call(call))) = called.first() else { panic!("{called:?}") };
    agent.observe(&Observation::Reply { name: &call.name, status: None, body: &Value::Null }, &now);
    agent.go_on(&input(""), &now);
    assert_eq!(failed(&mut told), ErrorCode::Unconfirmed);
}

/// Whichever ask was settled first was taken for the one that was being answered.
#[test]
fn the_end_of_another_ask_confirms_no_answer() {
    let (mut agent, now) = working();
    asks(&mut agent, 7, "ls", &now);
    asks(&mut agent, 8, "ls", &now);
    let (_, mut told) = respond(&mut agent, "ask-2", &now);
    assert_eq!(asks_told(&resolved(&mut agent, 7, &now)), ["withdrawn"]);
    assert!(told.try_recv().is_err(), "that was the other one");
    assert_eq!(asks_told(&resolved(&mut agent, 8, &now)), ["answered"]);
    assert!(matches!(told.try_recv(), Ok(Ok(Reply::Answered(answered))) if answered.ask == AskId("ask-2".into())));
}

/// Returns an agent that speaks ACP, and asks twice for the same.
fn acp_asks_twice() -> (Agent, Now) {
    let now = now();
    let mut agent = known("acp", &Launch { runtime: Runtime::Pipe, ..Launch::default() }, &now);
    tell(&mut agent, json!({ "id": 1, "result": { "protocolVersion": 1 } }), &now);
    tell(&mut agent, json!({ "id": 3, "result": { "sessionId": "s" } }), &now);
    for request in ["a", "b"] {
        let call = json!({ "toolCallId": request, "title": "ls", "kind": "execute", "rawInput": { "command": "ls" } });
        let yes = json!({ "optionId": "yes", "name": "Yes", "kind": "allow_once" });
        let params = json!({ "sessionId": "s", "toolCall": call, "options": [yes] });
        let asked = json!({ "id": request, "method": "session/request_permission", "params": params });
        let effects = tell(&mut agent, asked, &now);
        assert!(asks_told(&effects).contains(&"opened"), "{effects:?}");
    }
    (agent, now)
}

fn cancelled(agent: &mut Agent, request: &str, now: &Now) -> Vec<Effect> {
    tell(agent, json!({ "method": "$/cancel_request", "params": { "requestId": request } }), now)
}

/// Asks were known by their tool and input: the wrong one of two was withdrawn, and none after one was answered.
#[test]
fn of_two_requests_for_the_same_the_one_that_is_meant_is_withdrawn() {
    let open = |agent: &Agent| agent.asks().into_iter().map(|ask| ask.id.0).collect::<Vec<_>>();
    let (mut agent, now) = acp_asks_twice();
    assert_eq!(asks_told(&cancelled(&mut agent, "b", &now)), ["withdrawn"]);
    assert_eq!(open(&agent), ["ask-1"]);

    let (mut agent, now) = acp_asks_twice();
    let (effects, mut told) = respond(&mut agent, "ask-1", &now);
    assert_eq!(asks_told(&effects), ["answered"]);
    assert!(matches!(told.try_recv(), Ok(Ok(Reply::Answered(_)))));
    assert_eq!(asks_told(&cancelled(&mut agent, "b", &now)), ["withdrawn"]);
    assert_eq!(open(&agent), [""; 0]);
}

/// Changes the mode, and returns the request that does, and who waits for it.
fn configure(agent: &mut Agent, mode: &str, now: &Now) -> (Value, Told) {
    let settings = coop_api::Configure { mode: Some(mode.to_owned()), model: None };
    let (reply, mut told) = oneshot::channel();
    let effects = agent.configure(&settings, reply, &input(""), now);
    let [Effect::Say(Say::Message(message))] = &effects[..] else { panic!("{effects:?}") };
    assert!(told.try_recv().is_err(), "it is not done yet");
    (message["id"].clone(), told)
}

/// Settings were sent and said to be done, whatever the agent made of them.
#[test]
fn a_setting_that_is_refused_is_not_done() {
    let (codex, now) = codex();
    let mut acp = known("acp", &Launch { runtime: Runtime::Pipe, ..Launch::default() }, &now);
    tell(&mut acp, json!({ "id": 1, "result": { "protocolVersion": 1 } }), &now);
    let modes = json!({ "currentModeId": "default", "availableModes": [{ "id": "plan", "name": "Plan" }] });
    tell(&mut acp, json!({ "id": 3, "result": { "sessionId": "s", "modes": modes } }), &now);
    for mut agent in [codex, acp] {
        let (late, mut told) = configure(&mut agent, "plan", &now);
        agent.tick(&input(""), &after(&now, Duration::from_secs(60)));
        assert_eq!(failed(&mut told), ErrorCode::Unconfirmed);

        let (id, mut told) = configure(&mut agent, "plan", &now);
        tell(&mut agent, json!({ "id": late, "result": {} }), &now);
        assert!(told.try_recv().is_err(), "that was the one before");
        tell(&mut agent, json!({ "id": id, "error": { "code": -32600, "message": "not now" } }), &now);
        let error = told.try_recv().expect("an answer").expect_err("refused");
        assert_eq!(error.message, "the agent refuses: not now");

        let (id, mut told) = configure(&mut agent, "plan", &now);
        tell(&mut agent, json!({ "id": id, "result": {} }), &now);
        assert!(matches!(told.try_recv(), Ok(Ok(Reply::Done))));
    }
}

#[test]
fn a_lost_link_confirms_no_setting() {
    let (mut agent, now) = codex();
    let (_, mut told) = configure(&mut agent, "plan", &now);
    link(&mut agent, false, &now);
    assert_eq!(failed(&mut told), ErrorCode::Unconfirmed);
}

/// The receipt said "unconfirmed" after twenty seconds, although the server had refused the message at once.
#[test]
fn a_message_that_is_refused_is_told_so_at_once() {
    let (mut agent, now) = codex();
    let (reply, mut receipt) = oneshot::channel();
    let request = NudgeRequest { message: "go".into(), when: When::Now, wait: true };
    agent.nudge(WriterId::default(), request, reply, &input(""), &now);
    let error = json!({ "code": -32600, "message": "thread not found: T" });
    tell(&mut agent, json!({ "id": "coop-turn", "error": error }), &now);
    let Ok(Ok(Reply::Receipt(receipt))) = receipt.try_recv() else { panic!("no receipt") };
    assert_eq!((receipt.delivered, receipt.reason.as_deref(), receipt.confirmed_by), (false, Some("refused"), None));
    assert_eq!(agent.state().short_name(), "idle");
}

/// The denial went out beside the words that were to go with it, whatever became of those.
#[test]
fn a_denial_is_not_sent_without_its_words() {
    let denied = |effects: &[Effect]| {
        let is_denial = |effect: &Effect| matches!(effect, Effect::Say(Say::Message(message)) if message["result"]["decision"] == "decline");
        effects.iter().any(is_denial)
    };
    let words = json!({ "accept": false, "text": "leave that alone" });
    let (mut agent, now) = working();
    asks(&mut agent, 7, "ls", &now);
    let (effects, mut told) = answer(&mut agent, words.clone(), &now);
    assert!(!denied(&effects), "{effects:?}");
    assert!(denied(&tell(&mut agent, json!({ "id": "coop-steer", "result": { "turnId": "U" } }), &now)));
    assert_eq!(asks_told(&resolved(&mut agent, 7, &now)), ["answered"]);
    assert!(matches!(told.try_recv(), Ok(Ok(Reply::Answered(_)))));

    let (mut agent, now) = working();
    asks(&mut agent, 7, "ls", &now);
    let (_, mut told) = answer(&mut agent, words, &now);
    let refused = json!({ "id": "coop-steer", "error": { "message": "no turn is under way" } });
    assert!(!denied(&tell(&mut agent, refused, &now)), "nothing was sent that decides");
    assert_eq!(failed(&mut told), ErrorCode::Unconfirmed);
    assert_eq!(agent.asks().len(), 1);
}
