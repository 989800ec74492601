//! What a store keeps, in a file and in a server: the same tests on both.

mod lost;
mod server;

use std::fs;
use std::io::{Seek, SeekFrom, Write};

use coop_api::{Answer, AskChange, AskId, Epoch, Event, EventBody, Lifecycle, Message, Offset, Role, Turn};
use serde_json::json;

use super::*;
use crate::Fact;
use crate::engine::{Effect, GateVerdict, Input, Intent, IntentId, Outcome, Phase};

const TEXT: &str = r#"
[agents.fixer]
driver = "claude"
prompt = "Fix it"
on_idle = [{ action = "nudge", attempts = 2 }, { action = "gate", run = "true" }]
on_prompt = { permission = "deny" }
"#;
const NOW: Timestamp = Timestamp(1_000);

struct Lab {
    place: Place,
    store: Store,
    /// A server has its own.
    _folder: Option<tempfile::TempDir>,
}

fn agent() -> AgentId {
    AgentId("fixer-1".to_owned())
}

fn fact(seq: u64, input: Input) -> Fact {
    Fact { agent: agent(), told: Some(("s1".to_owned(), Seq(seq))), input: Some(input), event: None }
}

fn defined() -> Defined {
    Defined {
        text: TEXT.to_owned(),
        name: "fixer".to_owned(),
        folder: "/home/dev".to_owned(),
        prompt: None,
        parent: None,
        run_owner: RunOwner::Fleet,
    }
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let lab = Self::at(Place::File(folder.path().join("fleet.db")));
        Self { _folder: Some(folder), ..lab }
    }

    fn at(place: Place) -> Self {
        let mut store = Store::open(&place).expect("a new one");
        store.define(&agent(), &defined(), NOW).expect("defined");
        Self { place, store, _folder: None }
    }

    fn path(&self) -> &Path {
        match &self.place {
            Place::File(path) => path,
            Place::Server(_) => panic!("it is no file"),
        }
    }

    /// As after a kill: it is opened by somebody else.
    fn again(self) -> Self {
        let Self { place, store, _folder } = self;
        drop(store);
        Self { store: Store::open(&place).expect("it is whole"), place, _folder }
    }

    fn file(&self) -> &rusqlite::Connection {
        match &self.store.db {
            Db::Sqlite(file) => &file.db,
            Db::Postgres(_) => panic!("it is no file"),
        }
    }

    fn count(&self, table: &str) -> u64 {
        self.store.db.number(&format!("SELECT count(*) FROM {table}"), &[]).expect("counted")
    }

    fn feed(&mut self, seq: u64, input: Input) -> Vec<Intent> {
        self.store.record(&[fact(seq, input)], NOW).expect("recorded")
    }

    fn spawned(mut self) -> Self {
        self.feed(0, Input::Spawned { resumed: false });
        self.feed(1, IDLE);
        self
    }
}

/// Makes a test for each kind of store of what is to hold for both.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod sqlite {
            $(#[test] fn $name() { super::$name(super::Lab::new()); })*
        }
        mod postgres {
            $(#[test] fn $name() {
                if let Some(server) = coop_testkit::PostgresServer::shared() {
                    super::$name(super::Lab::at(super::server::place_on(server)));
                }
            })*
        }
    };
}

on_both! {
    the_same_event_is_kept_once_and_followed_once
    what_follows_from_the_events_can_be_made_anew
    an_intent_is_claimed_by_one_and_done_once
    what_was_begun_when_we_were_killed_is_done_again_only_if_that_does_no_harm
    what_fails_calls_a_person_and_is_not_tried_again
    asks_are_open_until_they_are_closed_and_decisions_say_who_and_why
    answers_at_the_sidecar_are_in_the_audit_once
    agents_that_are_over_are_forgotten_whole
    a_definition_that_makes_no_sense_is_refused_before_it_is_kept
    a_store_of_a_later_version_is_left_alone
    whoever_looks_sees_one_moment_and_does_not_wait_for_whoever_writes
    what_sidecars_told_is_found_again
    each_process_of_an_agent_is_found_with_what_happened_in_it
    an_agent_that_tells_too_much_loses_the_oldest_and_that_is_told
    what_an_agent_costs_counts_for_those_above_it
}

/// What hooks of an agent reported, 10 MiB each, filled the disk for all.
fn an_agent_that_tells_too_much_loses_the_oldest_and_that_is_told(lab: Lab) {
    let mut lab = lab.spawned();
    lab.store.quota.most = 64 * 1024;
    let tool = |seq: u64| {
        let event = json!({
            "seq": seq, "id": format!("x-{seq}"), "ts": "2026-01-01T00:00:00Z", "agent": "x", "run": 1, "offset": 0,
            "body": { "kind": "tool", "id": "1", "tool": "Bash", "phase": "completed", "output": "é".repeat(4096) },
        });
        Fact::heard(&agent(), "s1", serde_json::from_value(event).expect("an event"))
    };
    for seq in 2..100 {
        lab.store.record(&[tool(seq)], NOW).expect("recorded");
        let sql = "SELECT CAST(SUM(OCTET_LENGTH(event)) AS BIGINT) FROM events";
        assert!(lab.store.db.number(sql, &[]).expect("counted") <= 64 * 1024, "{seq}");
    }
    let events = lab.store.events(&agent()).expect("read");
    assert_eq!(events.last().map(|event| event.seq), Some(Seq(99)));
    let told = |entry: &Entry| matches!(&entry.input, Some(Input::Trimmed { why }) if why.contains("more than 64 KiB"));
    assert!(lab.store.log(None, 0, 1000).expect("read").iter().any(told));
    assert_eq!(lab.store.cursor(&agent(), "s1").expect("known"), Seq(99));
    let before = lab.store.agent(&agent()).expect("read");
    lab.store.rebuild().expect("made anew");
    assert_eq!(lab.store.agent(&agent()).expect("read"), before);
    // The next open counts it again.
    let mut lab = lab.again();
    lab.store.quota.most = 64 * 1024;
    for seq in 100..120 {
        lab.store.record(&[tool(seq)], NOW).expect("recorded");
    }
    let sql = "SELECT CAST(SUM(OCTET_LENGTH(event)) AS BIGINT) FROM events";
    assert!(lab.store.db.number(sql, &[]).expect("counted") <= 64 * 1024);
}

/// Each agent that an agent started had a budget of its own.
fn what_an_agent_costs_counts_for_those_above_it(lab: Lab) {
    let mut lab = lab.spawned();
    let [child, grandchild] = ["child", "grandchild"].map(|name| AgentId(name.to_owned()));
    for (id, parent) in [(&child, agent()), (&grandchild, child.clone())] {
        lab.store.define(id, &Defined { parent: Some(parent), ..defined() }, NOW).expect("defined");
    }
    let mut seq = 10;
    let mut costs = |lab: &mut Lab, id: &AgentId, usd: f64| {
        seq += 1;
        let told = Some(("s".to_owned(), Seq(seq)));
        let fact = Fact { agent: id.clone(), told, input: Some(Input::Cost { usd }), event: None };
        // The same told twice counts once.
        lab.store.record(&[fact.clone(), fact], NOW).expect("recorded");
    };
    costs(&mut lab, &grandchild, 1.0);
    costs(&mut lab, &child, 0.5);
    costs(&mut lab, &grandchild, 1.25);
    // Another conversation; the one before was paid for all the same.
    costs(&mut lab, &grandchild, 0.25);
    let of = |lab: &Lab, id: &AgentId| {
        let agent = lab.store.agent(id).expect("read").expect("there");
        (agent.cost_usd, agent.descendants_usd)
    };
    let expected = [(0.25, 0.0), (0.5, 1.25), (0.0, 1.75)];
    assert_eq!([&grandchild, &child, &agent()].map(|id| of(&lab, id)), expected);
    lab.store.rebuild().expect("made anew");
    assert_eq!([&grandchild, &child, &agent()].map(|id| of(&lab, id)), expected);
}

const IDLE: Input = Input::Idle { last_message: None };

fn the_same_event_is_kept_once_and_followed_once(lab: Lab) {
    let mut lab = lab;
    assert_eq!(lab.feed(0, Input::Spawned { resumed: false }), []);
    assert_eq!(lab.feed(1, IDLE).len(), 1);
    assert_eq!(lab.feed(1, IDLE), []);
    let mut lab = lab.again();
    assert_eq!(lab.feed(1, IDLE), []);
    assert_eq!(lab.feed(2, Input::Working), []);
    assert_eq!(lab.feed(3, IDLE).len(), 1);
    assert_eq!(lab.feed(3, IDLE), []);
    assert_eq!(lab.store.cursor(&agent(), "s1").expect("known"), Seq(3));
    assert_eq!(lab.store.cursor(&agent(), "s2").expect("known"), Seq(0));
    let kept = lab.store.agent(&agent()).expect("read").expect("there");
    assert_eq!((kept.run, kept.turn, kept.phase), (1, 1, Phase::Idle));
}

fn what_follows_from_the_events_can_be_made_anew(lab: Lab) {
    let mut lab = lab.spawned();
    for (seq, input) in [Input::Working, IDLE, Input::Working, IDLE, Input::Working, IDLE].into_iter().enumerate() {
        lab.feed(seq as u64 + 2, input);
    }
    lab.store.claim(&IntentId("fixer-1/2".to_owned()), NOW).expect("claimed");
    let before = (lab.store.agents().expect("read"), lab.store.pending().expect("read"));
    lab.store.rebuild().expect("made anew");
    assert_eq!((lab.store.agents().expect("read"), lab.store.pending().expect("read")), before);
    assert_eq!(before.0[0].turn, 3);
    assert!(lab.store.db.change("UPDATE events SET at = 0", &[]).is_err(), "events are never changed");
}

fn an_intent_is_claimed_by_one_and_done_once(lab: Lab) {
    let mut lab = lab.spawned();
    let pending = lab.store.pending().expect("read");
    assert_eq!(pending.len(), 1);
    let id = pending[0].id.clone();
    assert!(lab.store.claim(&id, NOW).expect("asked"));
    assert!(!lab.store.claim(&id, NOW).expect("asked"));
    lab.store.finish(&id, NOW).expect("finished");
    let mut lab = lab.again();
    assert!(!lab.store.claim(&id, NOW).expect("asked"));
    assert_eq!(lab.store.pending().expect("read"), []);
    assert_eq!(lab.store.recover(NOW).expect("recovered"), []);
}

fn what_was_begun_when_we_were_killed_is_done_again_only_if_that_does_no_harm(lab: Lab) {
    let mut lab = lab.spawned();
    // The prompt is a message: told twice, it is told twice.
    let send = lab.store.pending().expect("read")[0].id.clone();
    lab.store.claim(&send, NOW).expect("claimed");
    lab.feed(2, Input::Working);
    let held = lab.feed(3, Input::StopBlocked { reason: None })[0].id.clone();
    lab.store.claim(&held, NOW).expect("claimed");
    let mut lab = lab.again();
    let calls = lab.store.recover(NOW).expect("recovered");
    assert!(matches!(&calls[..], [Intent { effect: Effect::Escalate { .. }, .. }]), "{calls:?}");
    let pending: Vec<_> = lab.store.pending().expect("read").into_iter().map(|intent| intent.id).collect();
    assert_eq!(pending, [held, calls[0].id.clone()]);
    assert_eq!(lab.store.recover(NOW).expect("recovered"), [], "once");
}

fn what_fails_calls_a_person_and_is_not_tried_again(lab: Lab) {
    let mut lab = lab.spawned();
    let id = lab.store.pending().expect("read")[0].id.clone();
    lab.store.claim(&id, NOW).expect("claimed");
    let calls = lab.store.fail(&id, "the agent is gone", NOW).expect("failed");
    assert!(matches!(&calls[..], [Intent { effect: Effect::Escalate { .. }, .. }]), "{calls:?}");
    assert_eq!(lab.store.fail(&id, "again", NOW).expect("failed"), []);
}

fn asks_are_open_until_they_are_closed_and_decisions_say_who_and_why(lab: Lab) {
    let mut lab = lab.spawned();
    let ask = serde_json::json!({
        "id": "ask-1", "kind": "permission", "tool": "Bash", "input": { "command": "rm x" }, "preview": "rm x",
        "opened": "", "channel": "structured"
    });
    let ask: Box<coop_api::Ask> = serde_json::from_value(ask).expect("an ask");
    lab.feed(2, Input::Prompt { ask: ask.clone() });
    assert_eq!(lab.store.open_asks().expect("read"), [(agent(), (*ask).clone())]);
    let audit = lab.store.audit(None).expect("read");
    let [Decided { accept, by, why, state, .. }] = &audit[..] else { panic!("{audit:?}") };
    assert_eq!((*accept, by, state.as_str()), (Some(false), &crate::engine::By::Action, "pending"));
    assert_eq!(why.as_deref(), Some("on_prompt for permission says deny"));
    lab.feed(3, Input::AskClosed { ask: ask.id.clone() });
    assert_eq!(lab.store.open_asks().expect("read"), []);
    assert_eq!(lab.store.count_asks(&agent()).expect("read"), 1);
    lab.store.rebuild().expect("made anew");
    assert_eq!(lab.store.open_asks().expect("read"), []);
}

/// Answers at a sidecar's own socket were in no audit.
fn answers_at_the_sidecar_are_in_the_audit_once(lab: Lab) {
    use crate::engine::By;
    let mut lab = lab.spawned();
    let answered = |seq: u64, ask: &str| {
        let (ask, answer, via) = (AskId(ask.to_owned()), r#"{"accept":true}"#.to_owned(), "hook".to_owned());
        let body = EventBody::Ask(AskChange::Answered { ask: ask.clone(), answer, via });
        let (id, ts) = (String::new(), String::new());
        let event = Event { seq: Seq(seq), id, ts, agent: agent(), run: Epoch(0), offset: Offset(0), body };
        Fact { event: Some(Box::new(event)), ..fact(seq, Input::AskClosed { ask }) }
    };
    let decision = |ask: Option<&str>| {
        let ask = ask.map(|ask| AskId(ask.to_owned()));
        let answer = Box::new(Answer { ask, accept: Some(true), ..Answer::default() });
        let input = Input::Decided { answer, by: "ann".to_owned() };
        Fact { agent: agent(), told: None, input: Some(input), event: None }
    };
    let facts =
        [answered(2, "ask-1"), decision(Some("ask-1")), answered(3, "ask-2"), decision(None), answered(4, "ask-3")];
    lab.store.record(&facts, NOW).expect("recorded");
    let audit = lab.store.audit(None).expect("read");
    let ann = By::Person { name: "ann".to_owned() };
    let told: Vec<_> =
        audit.iter().map(|one| (one.ask.as_ref().map(|ask| ask.0.as_str()), &one.by, one.accept)).collect();
    let expected = [(Some("ask-1"), &ann), (None, &ann), (Some("ask-3"), &By::Sidecar)];
    assert_eq!(told, expected.map(|(ask, by)| (ask, by, Some(true))));
    assert_eq!(lab.store.audit(Some(1)).expect("read"), audit[2..]);
}

fn agents_that_are_over_are_forgotten_whole(lab: Lab) {
    let mut lab = lab.spawned();
    for (seq, input) in [Input::Working, IDLE, Input::Working, IDLE, Input::Working, IDLE].into_iter().enumerate() {
        lab.feed(seq as u64 + 2, input);
    }
    let gate = lab.store.pending().expect("read").pop().expect("a gate").id;
    let none = lab.store.forget(Timestamp(u64::MAX)).expect("asked");
    assert_eq!(none, [], "one that is not over stays");
    lab.feed(9, Input::GateEnded { intent: gate, verdict: GateVerdict::Passed });
    assert_eq!(lab.store.agent(&agent()).expect("read").expect("there").outcome, Some(Outcome::Done));
    assert_eq!(lab.store.forget(NOW).expect("asked"), [], "one that something happened to since stays");
    let newest = lab.store.newest().expect("read");
    assert_eq!(lab.store.forgotten().expect("read"), 0);
    assert_eq!(lab.store.forget(Timestamp(1_001)).expect("asked"), [agent()]);
    assert_eq!(lab.store.forgotten().expect("read"), newest, "whoever comes with an earlier cursor is told");
    for table in ["events", "intents", "agents", "asks"] {
        assert_eq!(lab.count(table), 0, "{table}");
    }
}

#[test]
fn a_backup_is_a_whole_store() {
    let lab = Lab::new().spawned();
    let copy = lab.path().with_extension("copy");
    back_up(lab.path(), &copy).expect("copied while it is open");
    check(&Place::File(copy.clone())).expect("it is whole");
    let store = Store::open(&Place::File(copy.clone())).expect("it can be used");
    assert_eq!(store.agents().expect("read"), lab.store.agents().expect("read"));
    assert!(back_up(lab.path(), &copy).is_err(), "nothing is written over");
    assert!(back_up(&lab.path().with_extension("none"), &lab.path().with_extension("x")).is_err(), "there is none");
}

#[test]
fn a_full_disk_is_told_and_nothing_of_it_is_kept() {
    let mut lab = Lab::new().spawned();
    let most = |lab: &Lab, pages: u32| lab.file().pragma_update(None, "max_page_count", pages).expect("set");
    let pages: u32 = lab.file().query_row("PRAGMA page_count", [], |row| row.get(0)).expect("known");
    most(&lab, pages + 1);
    let long = Input::Idle { last_message: Some("x".repeat(20_000)) };
    let before = lab.store.agents().expect("read");
    let facts = [fact(2, Input::Working), fact(3, long)];
    let error = lab.store.record(&facts, NOW).expect_err("there is no room");
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("there is no room for "), "{error}");
    assert_eq!(lab.store.agents().expect("read"), before, "half of it is nothing");
    assert_eq!(lab.store.cursor(&agent(), "s1").expect("known"), Seq(1));
    most(&lab, 1_000_000);
    lab.store.record(&facts, NOW).expect("there is room again");
    assert_eq!(lab.store.cursor(&agent(), "s1").expect("known"), Seq(3));
}

#[test]
fn a_damaged_file_is_told_and_left_alone() {
    type Damage = fn(&mut fs::File);
    let damage: [(&str, Damage); 3] = [
        ("cut", |file| file.set_len(5_000).expect("cut")),
        ("overwritten", |file| {
            file.seek(SeekFrom::Start(4096)).expect("there");
            file.write_all(&[0xAA; 9000]).expect("written");
        }),
        ("no database", |file| {
            file.set_len(0).expect("cut");
            file.write_all(b"Dear diary, this is not a database at all.").expect("written");
        }),
    ];
    for (how, damage) in damage {
        let mut lab = Lab::new().spawned();
        for seq in 2..60 {
            let words = format!("{seq}").repeat(200);
            lab.feed(seq, Input::Idle { last_message: Some(words) });
        }
        let path = lab.path().to_owned();
        // The last to close the file moves all of it into one.
        drop(lab.store);
        damage(&mut fs::File::options().write(true).open(&path).expect("there"));
        let before = fs::read(&path).expect("read");
        let error = Store::open(&Place::File(path.clone())).expect_err(how);
        assert!(matches!(error, StoreError::Damaged { .. }), "{how}: {error:?}");
        assert!(error.to_string().contains("is damaged: "), "{error}");
        assert_eq!(fs::read(&path).expect("read"), before, "{how}");
    }
}

fn a_store_of_a_later_version_is_left_alone(lab: Lab) {
    match &lab.store.db {
        Db::Sqlite(_) => lab.file().pragma_update(None, "user_version", 99).expect("set"),
        Db::Postgres(_) => drop(lab.store.db.change("UPDATE writer SET format = 99", &[]).expect("set")),
    }
    let Lab { place, store, _folder } = lab;
    drop(store);
    let error = Store::open(&place).expect_err("it is newer");
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
}

fn whoever_looks_sees_one_moment_and_does_not_wait_for_whoever_writes(lab: Lab) {
    let mut lab = lab.spawned();
    let looker = Store::look(&lab.place).expect("another way to it");
    let before = lab.store.newest().expect("read");
    let seen = looker.at_once(|store| {
        let first = store.newest()?;
        lab.feed(2, Input::Working);
        Ok((first, store.newest()?, store.agents()?[0].phase))
    });
    assert_eq!(seen.expect("read"), (before, before, Phase::Idle), "one moment");
    let phase = looker.at_once(|store| Ok(store.agents()?[0].phase)).expect("read");
    assert_eq!(phase, Phase::Working, "the next look sees it");
    // While somebody is in the middle of writing.
    let seen = lab.store.db.within(|db| {
        db.change("DELETE FROM agents", &[])?;
        Ok(looker.at_once(Store::agents).map(|agents| agents.len()))
    });
    assert_eq!(seen.expect("written").expect("read"), 1);
    assert_eq!(looker.at_once(Store::agents).expect("read"), []);
    check(&lab.place).expect("it is whole");
}

fn what_sidecars_told_is_found_again(lab: Lab) {
    let mut lab = lab.spawned();
    let event = |seq: u64, body: EventBody| -> Fact {
        let (id, ts) = (format!("e{seq}"), "2026-01-01T00:00:00Z".to_owned());
        let event = Event { seq: Seq(seq), id, ts, agent: agent(), run: Epoch(0), offset: Offset(0), body };
        Fact { agent: agent(), told: Some(("s2".to_owned(), Seq(seq))), input: None, event: Some(Box::new(event)) }
    };
    let session = |id: &str| EventBody::Lifecycle(Lifecycle::Session { id: id.to_owned() });
    let mut facts = vec![event(1, session("first")), event(2, session("second"))];
    // More than are looked at in one go, and none of them is what is looked for.
    let text = "a \"session\" and a \"state\", and \0".to_owned();
    let said = EventBody::Message(Message { role: Role::Assistant, text, id: None, subagent: None });
    facts.extend((3..200).map(|seq| event(seq, said.clone())));
    lab.store.record(&facts, NOW).expect("recorded");
    assert_eq!(lab.store.conversation(&agent()).expect("read").as_deref(), Some("second"));
    assert_eq!(lab.store.last_state(&agent()).expect("read"), None);
    assert_eq!(lab.store.last_told(&agent()).expect("read"), Some(("s2".to_owned(), Seq(199))));
    assert_eq!(lab.store.events(&agent()).expect("read").len(), 199);
    assert_eq!(lab.store.log(Some(&agent()), 0, 10).expect("read").len(), 10);
    assert_eq!(lab.store.log(None, lab.store.newest().expect("read") - 1, 10).expect("read").len(), 1);
    assert_eq!(lab.store.count().expect("read"), 201);
    assert_eq!(lab.store.intent_counts().expect("read"), [("pending".to_owned(), 1)].into());
    assert!(lab.store.size().expect("read") > 4096);
    assert_eq!(lab.store.last_moment().expect("read"), NOW);
}

fn each_process_of_an_agent_is_found_with_what_happened_in_it(lab: Lab) {
    let mut lab = lab.spawned();
    let mut number = 100;
    let mut told = |input: Option<Input>, body: EventBody| -> Fact {
        number += 1;
        let (id, ts) = (format!("e{number}"), "2026-01-01T00:00:00Z".to_owned());
        let event = Event { seq: Seq(number), id, ts, agent: agent(), run: Epoch(0), offset: Offset(0), body };
        Fact { agent: agent(), told: Some(("s2".to_owned(), Seq(number))), input, event: Some(Box::new(event)) }
    };
    let began = |prompt: &str| EventBody::Turn(Turn::Began { prompt: Some(prompt.to_owned()) });
    let stopping = EventBody::Lifecycle(Lifecycle::Stopping);
    let plain = |input: Input| Fact { agent: agent(), told: None, input: Some(input), event: None };
    let gone = |code| plain(Input::Gone { code, signal: None });
    let batches = [
        (10, vec![told(None, began("build a bridge")), told(None, began("and a road"))]),
        (
            20,
            vec![
                told(Some(Input::Cost { usd: 0.5 }), stopping),
                plain(Input::Dismissed { by: "ann".to_owned(), others: false }),
                gone(Some(0)),
            ],
        ),
        // Told twice, as after a restart of the daemon: the first counts.
        (25, vec![gone(None)]),
        (30, vec![plain(Input::Spawned { resumed: true }), told(None, began("now a \"gone\" tunnel"))]),
        // Its end is not told.
        (40, vec![plain(Input::Spawned { resumed: false })]),
    ];
    for (at, facts) in batches {
        lab.store.record(&facts, Timestamp(at)).expect("recorded");
    }
    let runs = lab.store.runs(&agent()).expect("read");
    let seen: Vec<_> = runs
        .iter()
        .map(|run| (run.number, run.resumed, run.ended.map(|at| at.0), run.turns, run.prompt.as_deref(), run.cost_usd))
        .collect();
    let first = Some("build a bridge");
    assert_eq!(
        seen,
        [
            (1, false, Some(20), 2, first, Some(0.5)),
            (2, true, Some(40), 1, Some("now a \"gone\" tunnel"), Some(0.5)),
            (3, false, None, 0, None, None),
        ]
    );
    assert_eq!((runs[0].exit, runs[1].exit), (Some((Some(0), None)), None));
    assert_eq!((runs[0].dismissed.as_deref(), &runs[1].dismissed), (Some("ann"), &None));
    // Each quote is in the run that it was said in.
    let quotes = lab.store.search("A ").expect("read").remove(&agent()).expect("it was said");
    let within = |run: &Run, id: u64| run.events.0 <= id && run.events.1.is_none_or(|end| id < end);
    let of: Vec<_> = quotes.iter().map(|(id, _)| runs.iter().position(|run| within(run, *id))).collect();
    assert_eq!(of, [Some(1), Some(0), Some(0)], "{quotes:?}");
}

fn a_definition_that_makes_no_sense_is_refused_before_it_is_kept(lab: Lab) {
    let mut lab = lab;
    let wrong = Defined { name: "nobody".to_owned(), ..defined() };
    assert!(matches!(lab.store.define(&agent(), &wrong, NOW), Err(StoreError::Undefined { .. })));
}
