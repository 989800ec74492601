use std::fs;
use std::io::{Seek, SeekFrom, Write};

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
    folder: tempfile::TempDir,
    store: Store,
}

fn agent() -> AgentId {
    AgentId("fixer-1".to_owned())
}

fn fact(seq: u64, input: Input) -> Fact {
    Fact { agent: agent(), told: Some(("s1".to_owned(), Seq(seq))), input: Some(input), event: None }
}

fn defined() -> Defined {
    Defined { text: TEXT.to_owned(), name: "fixer".to_owned(), folder: "/home/dev".to_owned() }
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Store::open(&folder.path().join("fleet.db")).expect("a new file");
        store.define(&agent(), &defined(), NOW).expect("defined");
        Self { folder, store }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("fleet.db")
    }

    /// As after a kill: the file is opened by somebody else.
    fn again(self) -> Self {
        let path = self.path();
        drop(self.store);
        Self { store: Store::open(&path).expect("it is whole"), folder: self.folder }
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

const IDLE: Input = Input::Idle { last_message: None };

#[test]
fn the_same_event_is_kept_once_and_followed_once() {
    let mut lab = Lab::new();
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

#[test]
fn what_follows_from_the_events_can_be_made_anew() {
    let mut lab = Lab::new().spawned();
    for (seq, input) in [Input::Working, IDLE, Input::Working, IDLE, Input::Working, IDLE].into_iter().enumerate() {
        lab.feed(seq as u64 + 2, input);
    }
    lab.store.claim(&IntentId("fixer-1/2".to_owned()), NOW).expect("claimed");
    let before = (lab.store.agents().expect("read"), lab.store.pending().expect("read"));
    lab.store.rebuild().expect("made anew");
    assert_eq!((lab.store.agents().expect("read"), lab.store.pending().expect("read")), before);
    assert_eq!(before.0[0].turn, 3);
    assert!(lab.store.db.execute("UPDATE events SET at = 0", []).is_err(), "events are never changed");
}

#[test]
fn an_intent_is_claimed_by_one_and_done_once() {
    let mut lab = Lab::new().spawned();
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

#[test]
fn what_was_begun_when_we_were_killed_is_done_again_only_if_that_does_no_harm() {
    let mut lab = Lab::new().spawned();
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

#[test]
fn what_fails_calls_a_person_and_is_not_tried_again() {
    let mut lab = Lab::new().spawned();
    let id = lab.store.pending().expect("read")[0].id.clone();
    lab.store.claim(&id, NOW).expect("claimed");
    let calls = lab.store.fail(&id, "the agent is gone", NOW).expect("failed");
    assert!(matches!(&calls[..], [Intent { effect: Effect::Escalate { .. }, .. }]), "{calls:?}");
    assert_eq!(lab.store.fail(&id, "again", NOW).expect("failed"), []);
}

#[test]
fn asks_are_open_until_they_are_closed_and_decisions_say_who_and_why() {
    let mut lab = Lab::new().spawned();
    let ask = serde_json::json!({
        "id": "ask-1", "kind": "permission", "tool": "Bash", "input": { "command": "rm x" }, "preview": "rm x",
        "opened": "", "channel": "structured"
    });
    let ask: Box<coop_api::Ask> = serde_json::from_value(ask).expect("an ask");
    lab.feed(2, Input::Prompt { ask: ask.clone() });
    assert_eq!(lab.store.open_asks().expect("read"), [(agent(), (*ask).clone())]);
    let audit = lab.store.audit().expect("read");
    let [Decided { intent: Intent { effect: Effect::Answer { allow, by, why, .. }, .. }, state, .. }] = &audit[..]
    else {
        panic!("{audit:?}");
    };
    assert_eq!((*allow, by, state.as_str()), (false, &crate::engine::By::Action, "pending"));
    assert_eq!(why, "on_prompt for permission says deny");
    lab.feed(3, Input::AskClosed { ask: ask.id.clone() });
    assert_eq!(lab.store.open_asks().expect("read"), []);
    lab.store.rebuild().expect("made anew");
    assert_eq!(lab.store.open_asks().expect("read"), []);
}

#[test]
fn agents_that_are_over_are_forgotten_whole() {
    let mut lab = Lab::new().spawned();
    for (seq, input) in [Input::Working, IDLE, Input::Working, IDLE, Input::Working, IDLE].into_iter().enumerate() {
        lab.feed(seq as u64 + 2, input);
    }
    let gate = lab.store.pending().expect("read").pop().expect("a gate").id;
    let none = lab.store.forget(Timestamp(u64::MAX)).expect("asked");
    assert_eq!(none, [], "one that is not over stays");
    lab.feed(9, Input::GateEnded { intent: gate, verdict: GateVerdict::Passed });
    assert_eq!(lab.store.agent(&agent()).expect("read").expect("there").outcome, Some(Outcome::Done));
    assert_eq!(lab.store.forget(NOW).expect("asked"), [], "one that something happened to since stays");
    assert_eq!(lab.store.forget(Timestamp(1_001)).expect("asked"), [agent()]);
    for table in ["events", "intents", "agents", "asks"] {
        let left: u32 = lab.store.ask(&format!("SELECT count(*) FROM {table}")).expect("counted");
        assert_eq!(left, 0, "{table}");
    }
}

#[test]
fn a_backup_is_a_whole_store() {
    let lab = Lab::new().spawned();
    let copy = lab.folder.path().join("copy.db");
    lab.store.back_up(&copy).expect("copied");
    let store = Store::open(&copy).expect("it is whole");
    assert_eq!(store.agents().expect("read"), lab.store.agents().expect("read"));
    assert!(lab.store.back_up(&copy).is_err(), "nothing is written over");
}

#[test]
fn a_full_disk_is_told_and_nothing_of_it_is_kept() {
    let mut lab = Lab::new().spawned();
    let pages: u32 = lab.store.ask("PRAGMA page_count").expect("known");
    lab.store.db.pragma_update(None, "max_page_count", pages + 1).expect("set");
    let long = Input::Idle { last_message: Some("x".repeat(20_000)) };
    let before = lab.store.agents().expect("read");
    let facts = [fact(2, Input::Working), fact(3, long)];
    let error = lab.store.record(&facts, NOW).expect_err("there is no room");
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("there is no room for "), "{error}");
    assert_eq!(lab.store.agents().expect("read"), before, "half of it is nothing");
    assert_eq!(lab.store.cursor(&agent(), "s1").expect("known"), Seq(1));
    lab.store.db.pragma_update(None, "max_page_count", 1_000_000).expect("set");
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
        let path = lab.path();
        // The last to close the file moves all of it into one.
        drop(lab.store);
        damage(&mut fs::File::options().write(true).open(&path).expect("there"));
        let before = fs::read(&path).expect("read");
        let error = Store::open(&path).expect_err(how);
        assert!(matches!(error, StoreError::Damaged { .. }), "{how}: {error:?}");
        assert!(error.to_string().contains("is damaged: "), "{error}");
        assert_eq!(fs::read(&path).expect("read"), before, "{how}");
    }
}

#[test]
fn a_file_of_a_later_version_is_left_alone() {
    let lab = Lab::new();
    lab.store.db.pragma_update(None, "user_version", 99).expect("set");
    let path = lab.path();
    drop(lab.store);
    let error = Store::open(&path).expect_err("it is newer");
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
}

#[test]
fn a_definition_that_makes_no_sense_is_refused_before_it_is_kept() {
    let mut lab = Lab::new();
    let wrong = Defined { name: "nobody".to_owned(), ..defined() };
    assert!(matches!(lab.store.define(&agent(), &wrong, NOW), Err(StoreError::Undefined { .. })));
}
