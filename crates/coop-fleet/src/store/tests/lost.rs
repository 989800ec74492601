//! A server that goes away and comes back, and a second daemon.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use coop_testkit::PostgresServer;

use super::server::{Cut, Proxy, place_on};
use super::*;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_write_whose_answer_is_lost_is_done_once() {
    let Some(server) = PostgresServer::shared() else { return };
    for cut in [Cut::Before, Cut::After] {
        let proxy = Proxy::to(server, &place_on(server));
        let mut lab = Lab::at(proxy.place.clone()).spawned();
        let before = lab.count("events");
        proxy.cut(cut);
        assert_eq!(lab.feed(2, Input::Working), []);
        assert_eq!(lab.count("events"), before + 1, "nothing lost, nothing doubled");
        proxy.cut(cut);
        // What has no number of a sidecar's would be there twice if it were written twice.
        let person = Fact {
            agent: agent(),
            told: None,
            input: Some(Input::Steered { by: "ann".to_owned(), waits: false }),
            event: None,
        };
        lab.store.record(&[person], NOW).expect("recorded");
        assert_eq!(lab.count("events"), before + 2);
        let id = lab.store.pending().expect("read")[0].id.clone();
        proxy.cut(cut);
        assert!(lab.store.claim(&id, NOW).expect("asked"), "whoever claimed it is told so");
        assert!(!lab.store.claim(&id, NOW).expect("asked"));
        assert_eq!(lab.store.pulse().condition(), Condition::Fine);
    }
}

/// A server that took everything and answered nothing held the daemon up for ever, and `health` said that all was well.
#[test]
fn a_server_that_does_not_answer_is_as_good_as_gone() {
    let Some(server) = PostgresServer::shared() else { return };
    let proxy = Proxy::to(server, &place_on(server));
    let mut lab = Lab::at(proxy.place.clone()).spawned();
    let before = lab.count("events");
    proxy.cut(Cut::Silence);
    let begin = Instant::now();
    assert_eq!(lab.feed(2, Input::Working), []);
    assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
    assert_eq!(lab.count("events"), before + 1, "nothing lost, nothing doubled");
    assert_eq!(lab.store.pulse().condition(), Condition::Fine);
}

/// Errors that pass ended the daemon.
#[test]
fn what_a_server_refuses_for_the_moment_is_tried_again() {
    let Some(server) = PostgresServer::shared() else { return };
    // Rolled back for another's sake, a deadlock, no memory, a statement that somebody cancels.
    for (number, code) in ["40001", "40P01", "53200", "57014"].into_iter().enumerate() {
        let mut lab = Lab::at(place_on(server)).spawned();
        let refuse = format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF nextval('tries') < 3 THEN RAISE EXCEPTION 'not now' USING ERRCODE = '{code}'; END IF; RETURN NEW; END $$"
        );
        let trigger = "CREATE TRIGGER refuse BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse()";
        for sql in ["CREATE SEQUENCE tries", &refuse, trigger] {
            lab.store.db.change(sql, &[]).expect("made");
        }
        let before = lab.count("events");
        assert_eq!(lab.feed(number as u64 + 2, Input::Working), [], "{code}");
        assert_eq!(lab.count("events"), before + 1, "{code}");
        assert_eq!(lab.store.pulse().condition(), Condition::Fine, "{code}");
    }
}

#[test]
fn a_server_that_goes_away_is_waited_for_and_that_can_be_seen() {
    let Some(server) = PostgresServer::start() else { return };
    let mut lab = Lab::at(place_on(&server)).spawned();
    let looker = Store::look(&lab.place).expect("another way to it");
    assert_eq!(looker.at_once(Store::agents).expect("read").len(), 1);
    let pulse = lab.store.pulse();
    server.crash();
    let error = looker.at_once(Store::agents).expect_err("nobody is there");
    assert!(matches!(error, StoreError::Lost { .. }), "{error}");
    let (sender, done) = mpsc::channel();
    thread::spawn(move || {
        let intents = lab.feed(2, Input::Working);
        drop(sender.send((lab, intents)));
    });
    let begin = Instant::now();
    while !matches!(pulse.condition(), Condition::Lost(..)) {
        assert!(begin.elapsed() < LIMIT, "it is not told");
        assert!(done.try_recv().is_err(), "it cannot be written down");
        thread::yield_now();
    }
    server.recover();
    let (mut lab, intents) = done.recv_timeout(LIMIT).expect("in time");
    assert_eq!((intents, lab.store.pulse().condition()), (vec![], Condition::Fine));
    assert_eq!(looker.at_once(Store::agents).expect("read")[0].phase, Phase::Working);
    // It can be given up, too.
    server.crash();
    pulse.give_up();
    let error = lab.store.record(&[fact(3, IDLE)], NOW).expect_err("nobody is there");
    assert!(matches!(error, StoreError::Lost { .. }), "{error}");
    server.recover();
    assert_eq!(lab.again().store.agents().expect("read")[0].phase, Phase::Working, "nothing of it was written");
}

#[test]
fn a_second_daemon_is_told_who_has_the_store() {
    let Some(server) = PostgresServer::shared() else { return };
    let lab = Lab::at(place_on(server));
    let error = Store::open(&lab.place).expect_err("it is taken");
    let expected = format!("{} is used by the coop of process {} on ", lab.place, std::process::id());
    assert!(error.to_string().starts_with(&expected), "{error}");
    lab.again().store.agents().expect("it is free again");
}

/// A network parts the first daemon from the server, a second one takes the store over, and the network is mended: the first
/// must not go on as if nothing had been.
#[test]
fn who_was_replaced_meanwhile_does_not_go_on() {
    let Some(server) = PostgresServer::shared() else { return };
    let place = place_on(server);
    let proxy = Proxy::to(server, &place);
    let mut lab = Lab::at(proxy.place.clone()).spawned();
    let session = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let looker = Store::look(&place).expect("another way to it");
    looker.at_once(|store| store.read(|db| db.number(session, &[]))).expect("it is cut off");
    let second = Store::open(&place).expect("it is free");
    drop(second);
    let error = lab.store.record(&[fact(2, Input::Working)], NOW).expect_err("it is another's");
    assert!(matches!(error, StoreError::Taken { .. }), "{error}");
    assert_eq!(looker.at_once(Store::agents).expect("read")[0].phase, Phase::Idle, "nothing of it was written");
}
