//! Recordings of real sessions.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use coop_api::Size;
use coop_term::Screen;
use serde_json::{Value, json};

use crate::driven::{Agent, Runtime, Which};
use crate::tool::{self, LIMIT, Sidecar, coop, request, run};

type Line = (f64, String, String);

fn lines(cast: &str) -> Vec<Line> {
    cast.lines().skip(1).map(|line| serde_json::from_str(line).expect("a line")).collect()
}

fn markers(cast: &str) -> Vec<String> {
    lines(cast).into_iter().filter(|(_, code, _)| code == "m").map(|(.., label)| label).collect()
}

/// Plays a recording, and returns the rows that it shows in the end.
pub(crate) fn replayed(cast: &str) -> Vec<String> {
    let header: Value = serde_json::from_str(cast.lines().next().expect("a header")).expect("JSON");
    assert_eq!(header["version"], 3);
    let number = |name: &str| u32::try_from(header["term"][name].as_u64().expect("a number")).expect("small");
    let size = |cols, rows| Size::new(cols, rows).expect("a size");
    let mut screen = Screen::new(size(number("cols"), number("rows")));
    for (_, code, data) in lines(cast) {
        match code.as_str() {
            "o" => screen.feed(data.as_bytes()),
            "r" => {
                let (cols, rows) = data.split_once('x').expect("a size");
                screen.resize(size(cols.parse().expect("a number"), rows.parse().expect("a number")));
            }
            _ => {}
        }
    }
    screen.snapshot().lines.iter().map(|line| line.plain().to_owned()).collect()
}

#[test]
fn a_session_of_an_agent_is_recorded_and_replays_to_its_screen() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("terminal.cast");
    let record = ["--linger", "forever", "--record", path.to_str().expect("UTF-8")];
    let mut agent = Agent::start(&Which::Scripted, Runtime::Pty, &record, &[]);
    assert_eq!(fs::metadata(&path).expect("it is made at once").permissions().mode() & 0o777, 0o600);
    agent.state("idle");
    agent.post("/api/v1/agent/nudge", &json!({ "message": "[[bash:touch x]] [[text:Made.]]" }));
    agent.asked("permission");
    agent.post("/api/v1/resize", &json!({ "cols": 90, "rows": 30 }));
    agent.post("/api/v1/agent/respond", &json!({ "accept": true }));
    agent.state("idle");
    agent.post("/api/v1/signal", &json!({ "signal": "SIGKILL" }));
    agent.state("exited");
    let screen = agent.get("/api/v1/screen");
    agent.post("/api/v1/shutdown", &json!({}));
    agent.sidecar.wait();
    let cast = fs::read_to_string(&path).expect("it is there");
    let states: Vec<_> = markers(&cast).iter().filter_map(|label| label.split(' ').next().map(str::to_owned)).collect();
    for state in ["idle", "working", "waiting", "exited"] {
        assert!(states.iter().any(|known| known == state), "{state} is not in {states:?}");
    }
    assert!(lines(&cast).iter().any(|(_, code, data)| (code.as_str(), data.as_str()) == ("r", "90x30")));
    assert!(lines(&cast).iter().any(|(_, code, data)| (code.as_str(), data.as_str()) == ("x", "137")));
    let shown: Vec<_> = screen["lines"].as_array().expect("rows").iter().filter_map(Value::as_str).collect();
    assert_eq!(replayed(&cast), shown);
}

/// Waits for an event with this in it.
fn first_event(sidecar: &Sidecar, part: &str) -> String {
    let mut stream = UnixStream::connect(sidecar.socket()).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
    stream.write_all(b"GET /api/v1/events?after=0 HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it is open");
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("it comes in time"));
    lines.find(|line| line.starts_with("data:") && line.contains(part)).expect("it goes on")
}

#[test]
fn a_recording_is_served_and_parts_of_it_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.cast");
    let record = path.to_str().expect("UTF-8");
    let sidecar =
        Sidecar::start(&["--record", record, "--linger", "forever", "--", "sh", "-c", "echo recorded; exit 4"]);
    sidecar.see("recorded");
    let whole = loop {
        let (status, whole) = sidecar.ask("GET", "/api/v1/recording", "");
        assert_eq!(status, 200, "{whole}");
        // The recorder comes a moment after the screen.
        match whole.as_str() {
            Some(whole) if whole.contains("\"x\",\"4\"") => break whole.to_owned(),
            _ => crate::tool::pause(),
        }
    };
    assert_eq!(replayed(&whole)[0], "recorded");
    let stream = UnixStream::connect(sidecar.socket()).expect("it listens");
    let (status, part) = request(stream, "GET", "/api/v1/recording", "", "range: bytes=2-8\r\n");
    assert_eq!((status, part), (206, Value::from(&whole[2..9])));
    let plain = Sidecar::start(&["--", "cat"]);
    assert_eq!(plain.ask("GET", "/api/v1/recording", "").0, 501);
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_agent() {
    let mut sidecar = Sidecar::start(&["--record", "/dev/full", "--", "sh", "-c", "read line; echo got $line; exit 5"]);
    sidecar.ask("POST", "/api/v1/input", r#"{"text":"it","enter":true}"#);
    let (code, log) = sidecar.wait();
    assert_eq!(code, 5, "{log}");
    assert!(log.contains("the recording stops here"), "{log}");
}

/// In a namespace of its own, on a disk of 256 kilobytes that fills up while the agent works.
#[test]
fn a_disk_that_fills_up_is_told_of_keeps_what_was_recorded_and_does_not_stop_the_agent() {
    if !coop_testkit::has_user_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = "mount -t tmpfs -o size=256k tmpfs \"$1\" && shift";
    let disk = folder.path().to_str().expect("UTF-8");
    let child = "seq 100000 200000; echo the flood is over; read line; echo got $line; exit 5";
    let mut sidecar = Sidecar::with(&[], |command| {
        command.args(["--linger", "forever", "--record", &format!("{disk}/a.cast"), "--", "sh", "-c", child]);
        *command = tool::unshared(command, &["--mount"], script, &[disk]);
        command
    });
    // Whoever follows the events is told.
    let told = first_event(&sidecar, "\"unrecorded\"");
    assert!(told.contains("No space left"), "{told}");
    sidecar.see("the flood is over");
    sidecar.ask("POST", "/api/v1/input", r#"{"text":"it","enter":true}"#);
    sidecar.see("got it");
    // What was recorded until then is there: whole lines, and every number in its order.
    let (status, cast) = sidecar.ask("GET", "/api/v1/recording", "");
    let cast = cast.as_str().expect("text");
    assert_eq!(status, 200, "{cast}");
    let output: String = lines(cast).into_iter().filter(|(_, code, _)| code == "o").map(|(.., data)| data).collect();
    let numbers: Vec<u32> = output.lines().filter_map(|line| line.trim().parse().ok()).collect();
    assert!(numbers.len() > 5000, "most of the disk has output: {}", numbers.len());
    let whole = &numbers[..numbers.len() - 1];
    assert!(whole.iter().zip(100_000..).all(|(seen, wanted)| *seen == wanted), "nothing is missing before the end");
    assert!(
        markers(cast).iter().any(|label| label.starts_with("coop: the recording stops here")),
        "{:?}",
        markers(cast)
    );
    sidecar.ask("POST", "/api/v1/shutdown", "{}");
    let (code, log) = sidecar.wait();
    assert_eq!(code, 5, "{log}");
}

#[test]
fn what_is_no_recording_is_not_written_into() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine");
    fs::write(&path, "precious\n").expect("written");
    let mut command = coop(folder.path());
    let (code, _, said) = run(command.args(["--record", "mine", "--", "touch", "ran"]));
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("no recording"), "{said}");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "precious\n");
    assert!(!folder.path().join("ran").exists(), "nothing was started");
}
