use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use coop_term::Screen;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn size(cols: u32, rows: u32) -> Size {
    Size::new(cols, rows).expect("within bounds")
}

/// What a screen shows, in a form that can be compared.
fn seen(screen: &mut Screen) -> String {
    screen.end_frame();
    let snapshot = screen.snapshot();
    // But for the numbers of its changes, which depend on how the output was cut.
    let lines: Vec<_> = snapshot.lines.iter().map(|line| (line.plain(), &line.runs, line.wrapped)).collect();
    format!("{:?} {:?} {lines:?} {:?}", snapshot.size, snapshot.cursor, snapshot.title)
}

/// Plays a recording as any player would.
fn replay(cast: &str) -> (Screen, f64) {
    let mut lines = cast.lines();
    let header: Value = serde_json::from_str(lines.next().expect("a header")).expect("JSON");
    let number = |value: &Value| u32::try_from(value.as_u64().expect("a number")).expect("small");
    let mut screen = Screen::new(size(number(&header["term"]["cols"]), number(&header["term"]["rows"])));
    let mut at = 0.0;
    for line in lines {
        let (interval, code, data): (f64, String, String) = serde_json::from_str(line).expect("a line");
        at += interval;
        match code.as_str() {
            "o" => screen.feed(data.as_bytes()),
            "r" => {
                let (cols, rows) = data.split_once('x').expect("a size");
                screen.resize(size(cols.parse().expect("a number"), rows.parse().expect("a number")));
            }
            _ => {}
        }
    }
    (screen, at)
}

/// What programs write, well-formed or not, in pieces that are cut anywhere.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[ -~]{0,20}".prop_map(String::into_bytes),
        2 => "\\PC{0,8}".prop_map(String::into_bytes),
        2 => prop::sample::select(vec![
            "\r\n", "\x1b[31m", "\x1b[H", "\x1b[2J", "\x1b[5;5H", "\x1b[K", "\x1b[?1049h", "\x1b[?1049l", "\x1b]0;t\x07",
            "\x1b[?2026h", "\x1b[?2026l", "\x1bc", "\t", "\u{8}", "\u{1f600}", "漢字",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_recording_replays_to_the_same_screen(
        bytes in output(),
        cuts in prop::collection::vec(0_usize..400, 0..8),
        resized in prop::option::of((2_u32..60, 1_u32..20)),
    ) {
        let header = Header { size: size(40, 8), term: "xterm-256color".into(), title: "t \"x\"".into() };
        let mut cast = header.line(SystemTime::now());
        let (mut clock, mut decoder, mut live) = (Clock::default(), Decoder::default(), Screen::new(size(40, 8)));
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        for (at, pair) in cuts.windows(2).enumerate() {
            let piece = &bytes[pair[0]..pair[1]];
            live.feed(piece);
            let mut text = String::new();
            decoder.push(piece, &mut text);
            cast += &clock.line(Duration::from_micros(at as u64 * 1700), Entry::Output(&text));
            cast += &clock.line(Duration::from_micros(at as u64 * 1700), Entry::Marker("idle"));
        }
        let mut text = String::new();
        decoder.end(&mut text);
        let was_cut = !text.is_empty();
        cast += &clock.line(Duration::from_secs(2), Entry::Output(&text));
        if let Some((cols, rows)) = resized {
            live.resize(size(cols, rows));
            cast += &clock.line(Duration::from_secs(3), Entry::Resize(size(cols, rows)));
        }
        let (mut replayed, _) = replay(&cast);
        // A character that never ended is shown by the recording, which cannot hold half of one.
        prop_assume!(!was_cut);
        prop_assert_eq!(seen(&mut replayed), seen(&mut live));
    }

    #[test]
    fn times_add_up(micros in prop::collection::vec(0_u64..5_000_000, 1..100)) {
        let mut clock = Clock::default();
        let header = Header { size: size(40, 8), term: String::new(), title: String::new() };
        let mut cast = header.line(SystemTime::UNIX_EPOCH);
        let mut now = Duration::ZERO;
        for step in micros {
            now += Duration::from_micros(step);
            cast += &clock.line(now, Entry::Marker("idle"));
        }
        let (_, at) = replay(&cast);
        prop_assert!((now.as_secs_f64() - at).abs() < 0.0011, "{at} is not {now:?}");
    }
}

fn written(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}

#[test]
fn a_recording_is_for_its_user_alone_and_goes_on_after_a_torn_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.cast");
    let (mut file, found) = CastFile::open(&path, LEAST_RECORDING).expect("opened");
    assert!(matches!(found, Found::Nothing));
    assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    file.append("{\"version\":3}\n").expect("written");
    file.append("[1,\"o\",\"a\"]\n").expect("written");
    // As a process that is killed while it writes leaves it.
    let torn = format!("{}[2,\"o\",\"b", written(&path));
    fs::write(&path, torn).expect("written");
    let (mut file, found) = CastFile::open(&path, LEAST_RECORDING).expect("opened");
    assert!(matches!(found, Found::Recording(_)));
    file.append("[3,\"o\",\"c\"]\n").expect("written");
    assert_eq!(written(&path), "{\"version\":3}\n[1,\"o\",\"a\"]\n[3,\"o\",\"c\"]\n");
    let other = folder.path().join("notes");
    fs::write(&other, "mine\n").expect("written");
    let refused = CastFile::open(&other, LEAST_RECORDING).expect_err("it is no recording");
    assert_eq!((refused.kind(), written(&other).as_str()), (io::ErrorKind::AlreadyExists, "mine\n"));
}

#[test]
fn the_older_half_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.cast");
    let (mut file, _) = CastFile::open(&path, 40).expect("opened");
    for (line, is_full) in [("1234567890\n", false), ("1234567890\n", true)] {
        file.append(line).expect("written");
        assert_eq!(file.is_full(), is_full);
    }
    file.turn("second\n").expect("turned");
    file.append("x\n").expect("written");
    let older = coop_api::older_part(&path);
    assert_eq!((written(&older).as_str(), written(&path).as_str()), ("1234567890\n1234567890\n", "second\nx\n"));
    file.turn("third\n").expect("turned");
    assert_eq!((written(&older).as_str(), written(&path).as_str()), ("second\nx\n", "third\n"));
    assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
}

/// Where no other file could be begun, the recording had moved already and could no longer be read.
#[test]
fn a_file_that_cannot_be_begun_leaves_the_recording_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.cast");
    let in_the_way = folder.path().join("a.cast.new");
    let (mut file, _) = CastFile::open(&path, 40).expect("opened");
    file.append("first\n").expect("written");
    fs::create_dir(&in_the_way).expect("made");
    file.turn("second\n").expect_err("there is something in the way");
    assert!(!coop_api::older_part(&path).exists());
    file.append("more\n").expect("it goes on where it was");
    assert_eq!(written(&path), "first\nmore\n");
    fs::remove_dir(&in_the_way).expect("removed");
    // What a process left that was killed meanwhile is no hindrance.
    fs::write(&in_the_way, "half").expect("written");
    file.turn("second\n").expect("turned");
    assert_eq!(
        (written(&coop_api::older_part(&path)).as_str(), written(&path).as_str()),
        ("first\nmore\n", "second\n")
    );
    assert!(!in_the_way.exists());
}

#[test]
fn a_full_disk_is_an_error_and_no_panic() {
    let (mut file, found) = CastFile::open(Path::new("/dev/full"), LEAST_RECORDING).expect("opened");
    assert!(matches!(found, Found::Nothing));
    assert_eq!(file.append("x\n").expect_err("it is full").kind(), io::ErrorKind::StorageFull);
}

/// Ten times and more what any of these takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a script while it is recorded, and returns how its screen looked in the end.
async fn recorded(script: &str, ring: usize, recording: Recording) -> String {
    let options = crate::Options {
        id: coop_api::AgentId("test".into()),
        agent: "unknown".into(),
        command: coop_term::Command {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: vec![("TERM".into(), Some("xterm-256color".into()))],
            ..coop_term::Command::default()
        },
        driven: None,
        size: size(80, 24),
        ring,
        queries: crate::Queries::Answered,
        grace: Duration::from_secs(10),
        idle_timeout: None,
        guard: None,
    };
    let open = recording.open().expect("it can be recorded");
    let run = async {
        let (handle, _done) = crate::start(options).await.expect("it starts");
        let recorder = open.start(&handle).expect("it records");
        handle
            .call(handle.id(), Request::Resize { writer: coop_api::WriterId(0), size: size(100, 30) })
            .await
            .expect("it is resized");
        handle.ended().wait_for(|ended| *ended).await.expect("it ends");
        recorder.finish().await;
        let Ok(Reply::Dump(dump)) = handle.call(handle.id(), Request::Dump).await else { panic!("no dump") };
        let mut screen = Screen::new(dump.size);
        screen.feed(&dump.data);
        seen(&mut screen)
    };
    tokio::time::timeout(LIMIT, run).await.expect("in time")
}

fn made(path: &Path, limit: u64) -> Recording {
    Recording { path: path.to_owned(), limit, term: "xterm-256color".into(), title: "test".into() }
}

/// Returns what a player shows in the end, as a dump of it does.
fn shown(cast: &str) -> String {
    let (mut screen, _) = replay(cast);
    let mut again = Screen::new(screen.size());
    again.feed(&screen.dump());
    seen(&mut again)
}

fn entries(cast: &str, wanted: &str) -> Vec<String> {
    let read = |line: &str| serde_json::from_str::<(f64, String, String)>(line).expect("a line");
    cast.lines().skip(1).map(read).filter(|(_, code, _)| code == wanted).map(|(.., data)| data).collect()
}

#[tokio::test]
async fn a_session_is_recorded_with_its_states_sizes_and_exit() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.cast");
    // It waits for the other size, which comes when it has begun.
    let script = "stty -echo; while [ \"$(stty size)\" != '30 100' ]; do :; done; printf 'h\\303\\251 \\033[31mred\\033[m\\n'; exit 3";
    let end = recorded(script, 1 << 20, made(&path, LEAST_RECORDING)).await;
    let cast = written(&path);
    assert_eq!(shown(&cast), end);
    assert!(entries(&cast, "o").concat().contains("hé \u{1b}[31mred"), "{cast}");
    assert_eq!((entries(&cast, "r"), entries(&cast, "x")), (vec!["100x30".to_owned()], vec!["3".to_owned()]));
    assert_eq!(entries(&cast, "m"), ["unknown", "exited"]);
    // Another process goes on in the same file, on a screen of its own.
    let end = recorded(
        "while [ \"$(stty size)\" != '30 100' ]; do :; done; echo again",
        1 << 20,
        made(&path, LEAST_RECORDING),
    )
    .await;
    let cast = written(&path);
    assert_eq!(shown(&cast), end);
    assert_eq!(entries(&cast, "m"), ["unknown", "exited", "coop: another process", "unknown", "exited"]);
    assert_eq!(cast.lines().filter(|line| line.contains("version")).count(), 1);
}

#[tokio::test]
async fn a_flood_is_not_waited_for_and_what_is_missing_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.cast");
    let end = recorded("seq 1 2000000; echo the end", 4096, made(&path, 64 << 20)).await;
    let cast = written(&path);
    assert_eq!(shown(&cast), end);
    let missing: Vec<_> = entries(&cast, "m").into_iter().filter(|label| label.ends_with("are missing here")).collect();
    assert!(!missing.is_empty(), "{:?}", entries(&cast, "m"));
}

#[tokio::test]
async fn a_long_recording_stays_bounded_and_each_part_can_be_played() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.cast");
    let end = recorded("seq 1 300000; echo the end", 16 << 20, made(&path, LEAST_RECORDING)).await;
    let (older, newer) = (written(&coop_api::older_part(&path)), written(&path));
    assert_eq!(shown(&newer), end);
    let joined = format!("{older}{}", newer.split_once('\n').expect("a header").1);
    assert_eq!(shown(&joined), end);
    // What one batch has beyond the half is at most the ring, and here much less.
    assert!((older.len() as u64) < 4 * LEAST_RECORDING && (newer.len() as u64) < 4 * LEAST_RECORDING);
    let told = entries(&newer, "m").first().cloned();
    assert!(matches!(told.as_deref(), Some("unknown" | "exited")), "the state is told again: {told:?}");
}
