//! What is seen of files, told by the system and polled.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rustix::io::Errno;
use serde_json::json;
use tokio::time::timeout;

use super::*;

/// In time, on a machine under load.
const LIMIT: Duration = Duration::from_secs(20);

/// An inotify instance where there is none left.
fn none_left() -> rustix::io::Result<OwnedFd> {
    Err(Errno::MFILE)
}

fn start(watch: Watch, open: inotify::Open, seen: mpsc::Sender<Seen>) -> Watcher {
    Watcher::start(vec![watch], AgentFiles::default(), SystemTime::now(), open, seen)
}

async fn next(seen: &mut mpsc::Receiver<Seen>) -> Seen {
    timeout(LIMIT, seen.recv()).await.expect("in time").expect("something")
}

async fn line(seen: &mut mpsc::Receiver<Seen>) -> (u64, bool) {
    loop {
        match next(seen).await {
            Seen::LogLine { line, past } => return (line["n"].as_u64().expect("a number"), past),
            Seen::Polled(Some(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn append(path: &Path, text: &str) {
    let mut file = File::options().append(true).create(true).open(path).expect("a file");
    file.write_all(text.as_bytes()).expect("written");
}

/// Has a new file take the place of another one.
fn replace(path: &Path, text: &str) {
    let draft = path.with_extension("tmp");
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, path)).expect("written");
}

/// Gemini starts itself anew once its folder is trusted, and names its logs by the minute: what it said then was not heard.
#[tokio::test]
async fn a_conversation_that_goes_on_in_another_file_is_followed() {
    for open in [open_inotify, none_left] {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let (sender, mut seen) = mpsc::channel(64);
        let watch = Watch::Log { path: at("session-*-abc.jsonl").to_str().expect("text").to_owned() };
        // File systems read a clock that only ticks: a file may seem to be older than the moment before it was made.
        let since = SystemTime::now() - Duration::from_secs(1);
        let _watcher = Watcher::start(vec![watch], AgentFiles::default(), since, open, sender);
        tokio::task::yield_now().await;
        if File::create(at("made")).and_then(|file| file.metadata()?.created()).is_err() {
            return coop_testkit::skip("this file system does not tell when a file was made");
        }
        append(&at("session-1-abc.jsonl"), "{\"n\":1}\n");
        assert_eq!(line(&mut seen).await, (1, false));
        append(&at("session-2-other.jsonl"), "{\"n\":7}\n");
        append(&at("session-1-abc.jsonl"), "{\"n\":2}\n");
        append(&at("session-2-abc.jsonl"), "{\"n\":3}\n");
        assert_eq!(line(&mut seen).await, (2, false));
        assert_eq!(line(&mut seen).await, (3, false));
        append(&at("session-2-abc.jsonl"), "{\"n\":4}\n");
        assert_eq!(line(&mut seen).await, (4, false));
        fs::remove_file(at("session-2-abc.jsonl")).expect("removed");
        append(&at("session-3-abc.jsonl"), "{\"n\":5}\n");
        assert_eq!(line(&mut seen).await, (5, false));
    }
}

#[tokio::test]
async fn a_log_may_come_late_in_parts_and_anew() {
    for open in [open_inotify, none_left] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/b/log.jsonl");
        let (sender, mut seen) = mpsc::channel(64);
        let watch = Watch::Log { path: path.to_str().expect("text").to_owned() };
        let _watcher = start(watch, open, sender);
        tokio::task::yield_now().await;
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        append(&path, "{\"n\":1}\n{\"n\":");
        assert_eq!(line(&mut seen).await.0, 1);
        append(&path, "2}\nnot json\n{\"n\":3}\n");
        assert_eq!(line(&mut seen).await, (2, false));
        assert_eq!(line(&mut seen).await, (3, false));
        // Cut off and begun again.
        fs::write(&path, "{\"n\":4}\n").expect("written");
        assert_eq!(line(&mut seen).await.0, 4);
        // Replaced.
        let other = folder.path().join("a/b/other");
        append(&other, "{\"n\":5}\n{\"n\":6}\n{\"n\":7}\n");
        fs::rename(&other, &path).expect("renamed");
        for n in 5..=7 {
            assert_eq!(line(&mut seen).await.0, n);
        }
    }
}

/// `/clear`, and then `/resume` of what was before it.
#[tokio::test]
async fn a_conversation_that_is_taken_up_again_is_not_told_again() {
    for open in [open_inotify, none_left] {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, two] = ["one.jsonl", "two.jsonl"].map(|name| folder.path().join(name));
        let (sender, mut seen) = mpsc::channel(64);
        let watch = Watch::Log { path: one.to_str().expect("text").to_owned() };
        let watcher = start(watch, open, sender);
        append(&one, "{\"n\":1}\n");
        assert_eq!(line(&mut seen).await.0, 1);
        // The last of it is written when the next has begun.
        append(&two, "{\"n\":3}\n");
        append(&one, "{\"n\":2}\n");
        watcher.follow_log(two);
        assert_eq!((line(&mut seen).await.0, line(&mut seen).await.0), (2, 3));
        watcher.follow_log(one.clone());
        append(&one, "{\"n\":4}\n");
        assert_eq!(line(&mut seen).await.0, 4);
    }
}

#[tokio::test]
async fn a_name_may_be_known_in_part() {
    for open in [open_inotify, none_left] {
        let folder = tempfile::tempdir().expect("a folder");
        let (sender, mut seen) = mpsc::channel(64);
        let path = folder.path().join("chats/session-*-abc.jsonl");
        let watch = Watch::Log { path: path.to_str().expect("text").to_owned() };
        let _watcher = start(watch, open, sender);
        tokio::task::yield_now().await;
        fs::create_dir(folder.path().join("chats")).expect("made");
        append(&folder.path().join("chats/session-1-abd.jsonl"), "{\"n\":1}\n");
        append(&folder.path().join("chats/session-2-abc.jsonl"), "{\"n\":2}\n");
        assert_eq!(line(&mut seen).await, (2, false));
        append(&folder.path().join("chats/session-1-abc.jsonl"), "{\"n\":3}\n");
        append(&folder.path().join("chats/session-2-abc.jsonl"), "{\"n\":4}\n");
        assert_eq!(line(&mut seen).await, (4, false));
        assert_eq!(resolve(&path), Some(folder.path().join("chats/session-1-abc.jsonl")));
        assert_eq!(resolve(&folder.path().join("chats")), None);
    }
}

#[tokio::test]
async fn what_was_there_before_is_past() {
    for open in [open_inotify, none_left] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl");
        append(&path, "{\"n\":1,\"timestamp\":\"2020-01-01T00:00:00Z\"}\n");
        let (sender, mut seen) = mpsc::channel(64);
        let watch = Watch::Log { path: path.to_str().expect("text").to_owned() };
        let _watcher = start(watch, open, sender);
        assert_eq!(line(&mut seen).await, (1, true));
        append(&path, "{\"n\":2,\"timestamp\":\"2020-01-01T00:00:00Z\"}\n");
        assert_eq!(line(&mut seen).await, (2, false));
    }
}

#[tokio::test]
async fn the_logs_of_sub_agents_belong_to_it() {
    for open in [open_inotify, none_left] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl");
        let (sender, mut seen) = mpsc::channel(64);
        let watch = Watch::Log { path: path.to_str().expect("text").to_owned() };
        let _watcher = start(watch, open, sender);
        append(&path, "{\"n\":1}\n");
        assert_eq!(line(&mut seen).await.0, 1);
        let inner = folder.path().join("log/subagents");
        fs::create_dir_all(&inner).expect("made");
        append(&inner.join("agent-a.jsonl"), "{\"n\":2,\"timestamp\":\"2999-01-01T00:00:00Z\"}\n");
        assert_eq!(line(&mut seen).await, (2, false));
        append(&inner.join("agent-b.jsonl"), "{\"n\":3,\"timestamp\":\"2999-01-01T00:00:00Z\"}\n");
        assert_eq!(line(&mut seen).await, (3, false));
        append(&path, "{\"n\":4}\n");
        assert_eq!(line(&mut seen).await, (4, false));
    }
}

/// Reads the status files until one says this, and tells the watcher which one is the agent's own: that of the process 1.
async fn status(folder: &mut StatusFolder, watcher: &Watcher, seen: &mut mpsc::Receiver<Seen>, wanted: &str) {
    loop {
        let Seen::Status(changed) = next(seen).await else { continue };
        let news = folder.news(&changed, |path| read_status(path, &AgentFiles::default()));
        let is_there = news.iter().any(|(_, file)| file["status"] == wanted);
        for (path, file) in news {
            folder.identify(path, file["pid"] == 1);
        }
        watcher.focus(folder.own(), false);
        if is_there {
            return;
        }
    }
}

fn process(pid: u64, status: &str) -> String {
    json!({ "pid": pid, "status": status }).to_string()
}

#[tokio::test]
async fn a_status_file_is_followed_when_it_is_written_replaced_and_removed() {
    for open in [open_inotify, none_left] {
        let all = tempfile::tempdir().expect("a folder");
        let path = all.path().join("sessions");
        let own = path.join("1.json");
        let (sender, mut seen) = mpsc::channel(64);
        let mut folder = StatusFolder::new(path.clone(), SystemTime::now());
        let watcher = start(Watch::Status { folder: path.to_str().expect("text").to_owned() }, open, sender);
        tokio::task::yield_now().await;
        fs::create_dir(&path).expect("made");
        fs::write(path.join("2.json"), process(2, "of another")).expect("written");
        fs::write(&own, process(1, "a")).expect("written");
        status(&mut folder, &watcher, &mut seen, "a").await;
        // The same time of writing and the same length may be those of another content.
        for name in ["b", "c", "d"] {
            fs::write(&own, process(1, name)).expect("written");
            status(&mut folder, &watcher, &mut seen, name).await;
            assert_eq!(folder.own(), Some(&*own));
        }
        for name in ["e", "f"] {
            replace(&own, &process(1, name));
            status(&mut folder, &watcher, &mut seen, name).await;
            assert_eq!(folder.own(), Some(&*own));
        }
        fs::remove_file(&own).expect("removed");
        fs::write(path.join("3.json"), process(1, "elsewhere")).expect("written");
        status(&mut folder, &watcher, &mut seen, "elsewhere").await;
        assert_eq!(folder.own(), Some(&*path.join("3.json")));
        fs::write(path.join("3.json"), process(1, "g")).expect("written");
        status(&mut folder, &watcher, &mut seen, "g").await;
    }
}

#[tokio::test]
async fn files_are_polled_for_a_reason_and_until_there_is_an_instance_again() {
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    fn third_time() -> rustix::io::Result<OwnedFd> {
        if OPENED.fetch_add(1, Ordering::Relaxed) < 2 { Err(Errno::MFILE) } else { open_inotify() }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log.jsonl");
    let (sender, mut seen) = mpsc::channel(64);
    let began = Instant::now();
    let _watcher = start(Watch::Log { path: path.to_str().expect("text").to_owned() }, third_time, sender);
    let Seen::Polled(Some(why)) = next(&mut seen).await else { panic!("nothing was said") };
    assert!(why.contains("fs.inotify.max_user_instances"), "{why}");
    assert!(matches!(next(&mut seen).await, Seen::Polled(None)));
    assert!(began.elapsed() >= 2 * POLL, "each try is a poll");
    append(&path, "{\"n\":1}\n");
    assert_eq!(line(&mut seen).await.0, 1);
    assert_eq!(OPENED.load(Ordering::Relaxed), 3, "where the system tells, nothing is polled");
}

#[tokio::test]
async fn an_agent_without_files_needs_no_instance() {
    let (sender, mut seen) = mpsc::channel(64);
    let watcher = Watcher::start(Vec::new(), AgentFiles::default(), SystemTime::now(), none_left, sender);
    watcher.focus(None, true);
    tokio::time::pause();
    assert!(timeout(2 * SLOW_POLL, seen.recv()).await.is_err(), "there is nothing to say");
}

#[tokio::test]
async fn files_are_polled_more_seldom_while_the_agent_rests() {
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    fn count() -> rustix::io::Result<OwnedFd> {
        OPENED.fetch_add(1, Ordering::Relaxed);
        Err(Errno::MFILE)
    }
    let (sender, mut seen) = mpsc::channel(64);
    let watcher = start(Watch::Log { path: "/nowhere/log.jsonl".into() }, count, sender);
    assert!(matches!(next(&mut seen).await, Seen::Polled(Some(_))));
    tokio::time::pause();
    for (is_resting, pace) in [(false, POLL), (true, SLOW_POLL)] {
        watcher.focus(None, is_resting);
        tokio::time::sleep(SLOW_POLL).await;
        let before = OPENED.load(Ordering::Relaxed);
        tokio::time::sleep(10 * SLOW_POLL).await;
        let polls = (OPENED.load(Ordering::Relaxed) - before) as u32;
        let expected = 10 * SLOW_POLL.as_millis() as u32 / pace.as_millis() as u32;
        assert!(polls.abs_diff(expected) <= 1, "{polls} instead of {expected}");
    }
}

#[tokio::test]
async fn what_other_agents_write_in_the_same_folders_wakes_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let [status, log] = ["1.json", "log.jsonl"].map(|name| folder.path().join(name));
    for path in [&status, &log] {
        fs::write(path, "").expect("written");
    }
    let others: Vec<_> = (2..50).map(|n| folder.path().join(format!("{n}.json"))).collect();
    for other in &others {
        fs::write(other, "").expect("written");
    }
    let mut inotify = Inotify::new(open_inotify).expect("an instance");
    let subagents = folder.path().join("log/subagents");
    let wanted = [&*status, &*log, &*subagents];
    assert_eq!(inotify.watch(&wanted), Ok(true));
    assert_eq!(inotify.watch(&wanted), Ok(false));
    for changed in [&status, &log] {
        for other in &others {
            append(other, "{}");
            read_status(other, &AgentFiles::default()).expect("read");
        }
        append(changed, "{}\n");
        let told = timeout(LIMIT, inotify.changed()).await.expect("in time");
        assert_eq!(told, Changed::Files([changed.clone()].into()));
    }
    fs::create_dir_all(&subagents).expect("made");
    assert_eq!(timeout(LIMIT, inotify.changed()).await, Ok(Changed::Files([folder.path().join("log")].into())));
}

#[test]
fn no_other_status_file_is_read_once_the_agents_own_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |pid: u64| folder.path().join(format!("{pid}.json"));
    let mut status = StatusFolder::new(folder.path().to_owned(), SystemTime::now());
    for pid in 1..=501 {
        fs::write(path(pid), process(pid, "a")).expect("written");
    }
    let mut reads = 0;
    let mut count = |path: &Path| {
        reads += 1;
        read_status(path, &AgentFiles::default())
    };
    // One that is told of is read, and no other.
    let changed = Changed::Files([path(7)].into());
    assert_eq!(status.news(&changed, &mut count).len(), 1);
    let all = status.news(&Changed::Any, &mut count);
    assert_eq!(all.len(), 500);
    for (path, file) in all {
        status.identify(path, file["pid"] == 1);
    }
    assert_eq!((status.own(), reads), (Some(&*path(1)), 502));

    let mut reads = Vec::new();
    for changed in [Changed::Any, Changed::Files((1..=501).map(path).collect())] {
        for pid in 2..=501 {
            append(&path(pid), " ");
        }
        let news = status.news(&changed, |path| {
            reads.push(path.to_owned());
            read_status(path, &AgentFiles::default())
        });
        assert_eq!(news, []);
    }
    assert_eq!(reads, [path(1), path(1)]);
}

#[test]
fn a_status_file_that_did_not_change_is_not_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("2.json");
    let mut status = StatusFolder::new(folder.path().to_owned(), SystemTime::now());
    let mut reads = |age: u64, content: &str| {
        fs::write(&path, content).expect("written");
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(age);
        File::options().append(true).open(&path).and_then(|file| file.set_modified(written)).expect("set");
        let mut reads = 0;
        for _ in 0..3 {
            let _ = status.news(&Changed::Any, |path| {
                reads += 1;
                read_status(path, &AgentFiles::default())
            });
        }
        reads
    };
    assert_eq!(reads(1, &process(2, "a")), 1);
    assert_eq!(reads(1, &process(2, "longer")), 1);
    assert_eq!(reads(2, &process(2, "l0nger")), 1);
    assert_eq!(reads(3, "half"), 3, "it is not known yet");
    // A clock that goes after, or a file that was just written.
    assert_eq!(reads(u32::MAX.into(), &process(2, "a")), 3);
}

#[test]
fn a_status_file_that_a_killed_process_left_is_not_the_agents_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("1.json");
    fs::write(&path, process(1, "a")).expect("written");
    let started = SystemTime::now() + Duration::from_secs(1);
    let mut status = StatusFolder::new(folder.path().to_owned(), started);
    status.identify(path.clone(), true);
    assert_eq!(status.own(), None);
    File::options().append(true).open(&path).and_then(|file| file.set_modified(started)).expect("set");
    status.identify(path.clone(), true);
    assert_eq!(status.own(), Some(&*path));
    // It goes on in another process.
    status.forget_own(started + Duration::from_secs(1));
    status.identify(path.clone(), true);
    assert_eq!(status.own(), None);
}
