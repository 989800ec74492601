//! Gemini CLI told truthfully: the same cases for the scripted agent and, where `COOP_REAL_GEMINI` names it, for the real
//! one on a fake model (`make test-real` does), with hooks and without them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Instant, SystemTime};

use serde_json::json;

use crate::driven::{Agent, Model, Which, check_both};
use crate::tool::{COOP, LIMIT, Sidecar, coop, wait_for};

const KEY: &str = "dummy-key-for-a-model-on-loopback";
/// A variable by which the processes of a test are known.
const MARK: &str = "GEMINI_TEST_MARK";
/// A new conversation, and one that is gone on with.
const SESSION: &str = "6b1f5c1e-0d3a-4c57-9a55-0f3f4e0c8d21";

fn with_both(check: impl Fn(&Which)) {
    check_both("gemini", check);
}

/// Whose configuration it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// One of coop's, with hooks.
    Coops,
    /// The user's, which knows the folder it works in; there are no hooks.
    Users,
    /// The user's, which does not know the folder.
    New,
}

/// A folder to work in and a home, for one agent after another.
struct Place {
    work: PathBuf,
    mark: String,
    home: Home,
}

impl Place {
    fn new(home: Home) -> Self {
        let work = tempfile::Builder::new().prefix("coop-gemini-").tempdir().expect("a folder").keep();
        let work = work.canonicalize().expect("it is there");
        let mark = work.file_name().expect("a name").to_string_lossy().into_owned();
        let settings = json!({
            "security": { "auth": { "selectedType": "gemini-api-key" } },
            "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
            "ide": { "hasSeenNudge": true },
        });
        let folder = work.join("home/.gemini");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("settings.json"), settings.to_string()).expect("written");
        if home == Home::Users {
            let trusted = json!({ work.to_str().expect("UTF-8"): "TRUST_FOLDER" });
            fs::write(folder.join("trustedFolders.json"), trusted.to_string()).expect("written");
        }
        Self { work, mark, home }
    }

    /// Starts an agent here, with more words for coop and for itself.
    fn start(&self, which: &Which, options: &[&str], args: &[&str]) -> Agent {
        self.start_by(which, options, args, |command| command)
    }

    fn start_by(
        &self,
        which: &Which,
        options: &[&str],
        args: &[&str],
        change: impl Fn(&mut Command) -> &mut Command,
    ) -> Agent {
        let model = match which {
            Which::Scripted => None,
            Which::Real(_) => Some(Model::start(&self.work)),
        };
        let program = match which {
            Which::Scripted => vec![COOP, "sim", "gemini"],
            Which::Real(path) => vec![path.to_str().expect("UTF-8")],
        };
        let isolate = if self.home == Home::Coops { &["--isolate", "--trust"][..] } else { &[] };
        let fixed = ["--agent", "gemini", "--log-level", "warn"];
        let all = [&fixed[..], isolate, options, &["--"], &program, &["-m", "gemini-2.5-pro"], args].concat();
        let sidecar = Sidecar::with(&all, |command| {
            command.env("TERM", "xterm-256color").env("COOP_SIM_SCENARIO", "plain").env(MARK, &self.mark);
            command.env("GEMINI_API_KEY", KEY).env("HOME", self.work.join("home")).env("COOP_SIM_DIALOGS", "1");
            command.env("XDG_STATE_HOME", self.work.join("state"));
            if let Some(model) = &model {
                command.env("GOOGLE_GEMINI_BASE_URL", &model.url).env("NO_PROXY", "127.0.0.1");
                command.env("http_proxy", &model.url).env("https_proxy", &model.url);
            }
            change(command.current_dir(&self.work))
        });
        Agent::of(sidecar, self.work.clone(), model)
    }

    /// Counts the processes that were started here and still run.
    fn processes(&self) -> usize {
        let mark = format!("{MARK}={}", self.mark);
        let entries = fs::read_dir("/proc").expect("processes");
        let environ = |entry: fs::DirEntry| fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_ours = |environ: &Vec<u8>| environ.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes());
        entries.flatten().map(environ).filter(is_ours).count()
    }

    fn wait_for_no_process(&self) {
        let deadline = Instant::now() + LIMIT;
        while self.processes() > 0 {
            assert!(Instant::now() < deadline, "{} processes are left", self.processes());
            crate::tool::pause();
        }
    }
}

fn case(which: &Which, name: &str, since: Instant) {
    which.case("gemini", "pty", name, since);
}

/// From the start to the exit: every state with its evidence, every answer with its effect.
fn the_list(which: &Which, home: Home) {
    let name = |case: &str| format!("{case}{}", if home == Home::Coops { "" } else { " (no hooks)" });
    let place = Place::new(home);
    let since = Instant::now();
    let mut agent = place.start(which, &[], &[]);
    agent.state("idle");
    case(which, &name("idle"), since);

    let since = Instant::now();
    agent.nudge("one [[bash:touch denied.txt]]");
    let ask = agent.asked("permission");
    case(which, &name("permission"), since);
    assert_eq!(ask["channel"], "keys");
    assert_eq!(ask["options"][0]["label"], "Allow once", "{ask:#}");
    if home == Home::Coops {
        assert_eq!((&ask["tool"], &ask["preview"]), (&json!("run_shell_command"), &json!("touch denied.txt")));
    }
    let (status, refused) = agent.post("/api/v1/agent/nudge", &json!({ "message": "not now" }));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("AGENT_BUSY")));
    let since = Instant::now();
    let answered = agent.respond(&json!({ "accept": false }));
    assert_eq!(answered["via"], "keys");
    agent.state("idle");
    case(which, &name("permission denied"), since);
    assert!(!agent.has("denied.txt"), "what was denied was done");
    let (status, late) = agent.post("/api/v1/agent/respond", &json!({ "ask": ask["id"], "accept": true }));
    assert_eq!((status, &late["error"]["code"]), (409, &json!("ALREADY_ANSWERED")));

    agent.nudge("two [[bash:touch allowed.txt]]");
    agent.asked("permission");
    let since = Instant::now();
    agent.respond(&json!({ "accept": true }));
    agent.state("idle");
    case(which, &name("permission allowed"), since);
    assert!(agent.has("allowed.txt"), "what was allowed was not done");

    let since = Instant::now();
    agent.nudge("three [[ask]]");
    let ask = agent.asked("question");
    assert_eq!(ask["options"][1]["label"], "SQLite");
    let (status, refused) = agent.post("/api/v1/agent/respond", &json!({ "option": 9 }));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("NO_SUCH_OPTION")));
    agent.respond(&json!({ "option": 2 }));
    agent.state("idle");
    case(which, &name("question"), since);
    agent.written_down("SQLite");

    agent.nudge("four [[ask]]");
    agent.asked("question");
    agent.respond(&json!({ "text": "CockroachDB, please" }));
    agent.state("idle");
    agent.written_down("CockroachDB, please");

    if home == Home::Coops {
        agent.nudge("five [[ask2]]");
        let ask = agent.asked("question");
        assert_eq!(ask["questions"].as_array().map(Vec::len), Some(2));
        agent.respond(&json!({ "answers": [{ "option": 3 }, { "text": "Zig" }] }));
        agent.state("idle");
        agent.written_down("MySQL");
        agent.written_down("Zig");
    }

    agent.nudge("six [[askmulti]]");
    agent.asked("question");
    agent.respond(&json!({ "options": [1, 3] }));
    agent.state("idle");
    agent.written_down("Login, Export");

    agent.nudge("seven [[ask]]");
    agent.asked("question");
    agent.respond(&json!({ "accept": false }));
    agent.state("idle");

    let since = Instant::now();
    agent.nudge("eight [[slow:60]]");
    agent.state("working");
    case(which, &name("working"), since);
    let since = Instant::now();
    let (status, body) = agent.post("/api/v1/agent/interrupt", &json!({}));
    assert_eq!((status, body), (200, json!({ "delivered": true })));
    let ended = agent.event("the turn's end", |body| body["kind"] == "turn" && body["what"] == "ended");
    case(which, &name("interrupt"), since);
    assert_eq!(ended["outcome"], "interrupted", "{ended}");
    agent.state("idle");

    let since = Instant::now();
    agent.nudge("nine [[err:401]]");
    let blocked = agent.state("blocked");
    case(which, &name("API error"), since);
    let fault = &blocked["next"]["fault"];
    assert_eq!((&fault["kind"], &fault["status"]), (&json!("auth"), &json!(401)), "{blocked:#}");
    let since = Instant::now();
    agent.nudge("ten [[err:503x1]] [[text:well again]]");
    agent.state("idle");
    case(which, &name("error and recovery"), since);
    agent.asked_at_least(2, "ten [[err:503x1]]");
    assert_eq!(agent.get("/api/v1/agent")["last_message"], "well again");

    let since = Instant::now();
    agent.nudge("eleven [[usage:10,20,30,0]]");
    agent.state("idle");
    let turn = loop {
        let used = agent.get("/api/v1/session/usage");
        if used["turn"]["output_tokens"] == 20 {
            break used["turn"].clone();
        }
        assert!(since.elapsed() < LIMIT, "{used:#}");
        crate::tool::pause();
    };
    case(which, &name("usage"), since);
    assert_eq!((&turn["input_tokens"], &turn["cache_read_tokens"]), (&json!(10), &json!(30)), "{turn:#}");

    assert!(place.processes() > 1);
    let since = Instant::now();
    agent.post("/api/v1/shutdown", &json!({}));
    agent.state("exited");
    place.wait_for_no_process();
    case(which, &name("exit"), since);
}

#[test]
fn the_whole_list_with_hooks() {
    with_both(|which| the_list(which, Home::Coops));
}

#[test]
fn the_whole_list_without_hooks() {
    with_both(|which| the_list(which, Home::Users));
}

#[test]
fn a_set_up_dialog_is_an_ask_and_nothing_is_typed_into_it() {
    with_both(|which| {
        let place = Place::new(Home::New);
        let since = Instant::now();
        let mut agent = place.start(which, &[], &[]);
        let ask = agent.asked("setup");
        case(which, "set-up", since);
        assert_eq!((&ask["channel"], &ask["options"][0]["kind"]), (&json!("keys"), &json!("allow_once")), "{ask:#}");
        let (status, refused) = agent.post("/api/v1/agent/nudge", &json!({ "message": "1" }));
        assert_eq!((status, &refused["error"]["code"]), (409, &json!("AGENT_BUSY")));
        agent.respond(&json!({ "accept": true }));
        agent.state("idle");
        // Right after it was trusted the real one sets itself up anew, and may lose what is typed: the receipt says so.
        let message = json!({ "message": "hello [[text:hello yourself]]" });
        let deliver = |_| agent.post("/api/v1/agent/nudge", &message).1["delivered"] == true;
        assert!((0..5).any(deliver), "{}", agent.sidecar.screen());
        agent.state("idle");
        assert_eq!(agent.get("/api/v1/agent")["last_message"], "hello yourself");
    });
}

#[test]
fn a_conversation_is_gone_on_with() {
    with_both(|which| {
        for home in [Home::Coops, Home::Users] {
            let place = Place::new(home);
            let mut agent = place.start(which, &[], &["--session-id", SESSION]);
            agent.state("idle");
            agent.nudge("one [[text:the first answer]]");
            agent.state("idle");
            agent.written_down("the first answer");
            agent.post("/api/v1/shutdown", &json!({}));
            agent.state("exited");
            place.wait_for_no_process();
            let mut again = place.start(which, &[], &["--resume", SESSION]);
            let since = Instant::now();
            again.state("idle");
            case(which, if home == Home::Coops { "resume" } else { "resume (no hooks)" }, since);
            assert_eq!(again.get("/api/v1/agent")["session_id"], SESSION);
            again.nudge("two [[text:the second answer]]");
            again.state("idle");
            again.written_down("the second answer");
            assert!(again.transcript().contains("the first answer"));
            let since = Instant::now();
            while again.get("/api/v1/session/usage")["requests"] != 2 {
                assert!(since.elapsed() < LIMIT, "{}", again.get("/api/v1/session/usage"));
                crate::tool::pause();
            }
        }
    });
}

/// The bug this keeps away: by its protocol Gemini CLI empties a conversation that it loads in the minute it is from, so it is
/// not started before; and meanwhile signals were not heard, which the first process of a container dies of by none but KILL.
#[test]
fn it_waits_for_the_minute_of_its_conversation_to_be_over_and_hears_signals_meanwhile() {
    let minute = || humantime::format_rfc3339_seconds(SystemTime::now()).to_string()[..16].replace(':', "-");
    // What takes place in two minutes says nothing.
    for _ in 0..20 {
        let home = tempfile::tempdir().expect("a folder");
        let chats = home.path().join(".gemini/tmp/work/chats");
        fs::create_dir_all(&chats).expect("made");
        let began = minute();
        fs::write(chats.join(format!("session-{began}-{}.jsonl", &SESSION[..8])), "").expect("written");
        let words = ["--agent", "gemini", "--runtime", "pipe", "--resume", SESSION, "--", COOP, "sim", "gemini"];
        let mut command = coop(home.path());
        let mut child = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let (tell, told) = mpsc::channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("piped")), Box::new(child.stderr.take().expect("piped"))];
        for stream in streams {
            let tell = tell.clone();
            thread::spawn(move || {
                let lines = BufReader::new(stream).lines().map_while(Result::ok);
                lines.for_each(|line| drop(tell.send(line)));
            });
        }
        let waits = loop {
            let line = told.recv_timeout(LIMIT).expect("it says something");
            if line.contains("in the minute it is from") || line == "ready" {
                break line != "ready";
            }
        };
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
        wait_for(&mut child);
        if minute() == began {
            assert!(waits, "it was started in the minute of its conversation");
            let status = child.wait().expect("it has ended");
            assert_eq!(status.code(), Some(143), "by itself, not by the signal: {status}");
            return;
        }
    }
    panic!("this machine does nothing within a minute");
}

#[test]
fn messages_of_any_size_arrive_once_and_whole() {
    with_both(|which| {
        for home in [Home::Coops, Home::Users] {
            let place = Place::new(home);
            let mut agent = place.start(which, &[], &[]);
            agent.state("idle");
            let line = "The quick brown fox, 漢字 and 👍, \"quoted\". ";
            let messages = [
                "x".to_owned(),
                line.repeat(10)[..300].to_owned(),
                line.chars().cycle().take(5 * 1024).collect(),
                (1..=100).map(|n| format!("line {n} of many\n")).collect::<String>() + "the end",
                "begin\u{1b}[201~\r\u{1b}[31mred\u{7} end".to_owned(),
                // What has no blanks in it takes the real one forever to draw.
                "The quick brown fox jumps over the lazy dog, and again.\n".repeat(19000)[..1024 * 1024 - 1].to_owned()
                    + "x",
            ];
            for message in messages {
                let since = Instant::now();
                let receipt = agent.nudge(&message);
                assert!(receipt["confirmed_by"].is_string(), "{receipt}");
                let expected: String =
                    message.replace('\r', "\n").chars().filter(|c| !c.is_control() || *c == '\n').collect();
                let turn = agent.event("a turn", |body| body["kind"] == "turn" && body["what"] == "began");
                let taken = turn["prompt"].as_str().unwrap_or_default();
                assert!(
                    taken.trim() == expected.trim(),
                    "{} bytes became {}: {taken:.200}",
                    message.len(),
                    taken.len()
                );
                agent.state("idle");
                case(which, &format!("message of {} bytes", message.len()), since);
            }
        }
    });
}

#[test]
fn a_person_at_the_keyboard_answers_first() {
    with_both(|which| {
        for (home, key) in [(Home::Coops, "1"), (Home::Coops, "\u{1b}"), (Home::Users, "1"), (Home::Users, "3")] {
            let place = Place::new(home);
            let mut agent = place.start(which, &[], &[]);
            agent.state("idle");
            agent.nudge("one [[bash:touch typed.txt]]");
            let ask = agent.asked("permission");
            agent.post("/api/v1/input", &json!({ "text": key }));
            let gone = agent.event("the ask's end", |body| body["kind"] == "ask" && body["what"] != "opened");
            assert_eq!((&gone["what"], &gone["ask"]), (&json!("withdrawn"), &ask["id"]));
            agent.state("idle");
            assert_eq!(agent.has("typed.txt"), key == "1");
            let (status, late) = agent.post("/api/v1/agent/respond", &json!({ "ask": ask["id"], "accept": false }));
            assert_eq!((status, &late["error"]["code"]), (409, &json!("ALREADY_ANSWERED")));
        }
    });
}

/// The dialog wraps a command, and shows the end of a long one. The ask has all of it.
#[test]
fn a_command_is_asked_whole() {
    with_both(|which| {
        let place = Place::new(Home::Coops);
        let mut agent = place.start(which, &[], &[]);
        agent.state("idle");
        let long = format!("touch {}", "some words and then ".repeat(40).trim_end());
        let many = (0..80).map(|line| format!("touch line {line}")).collect::<Vec<_>>().join("\n");
        let indented = "if true; then\n    touch  two  blanks\nfi".to_owned();
        for command in [long, indented, many] {
            agent.nudge(&format!("one [[bash:{command}]]"));
            let ask = agent.asked("permission");
            assert_eq!(ask["input"]["command"], command, "{ask:#}");
            agent.respond(&json!({ "accept": false }));
            agent.state("idle");
        }
    });
}

#[test]
fn a_gated_stop_holds_the_turn_until_it_is_decided() {
    with_both(|which| {
        let place = Place::new(Home::Coops);
        let config = place.work.join("config.json");
        fs::write(&config, r#"{"stop":{"mode":"gate"},"start":{"shell":["echo the sky is green"]}}"#).expect("written");
        let mut agent = place.start(which, &["--agent-config", config.to_str().expect("UTF-8")], &[]);
        agent.state("idle");
        agent.nudge("work [[text:first try]]");
        agent.state("working");
        let held = agent.event("the stop", |body| body["kind"] == "stop");
        assert_eq!(held["outcome"], "blocked");
        assert_eq!(agent.get("/api/v1/agent")["name"], "working", "an agent that is held is not idle");
        let more = json!({ "decision": "block", "reason": "also say [[text:second try]]" });
        assert_eq!(agent.post("/api/v1/stop/resolve", &more).0, 200);
        let sent_back = agent.event("being sent back", |body| body["kind"] == "stop");
        assert!(sent_back["reason"].as_str().is_some_and(|why| why.contains("second try")), "{sent_back}");
        let held =
            agent.event("the second stop", |body| matches!(body["kind"].as_str(), Some("stop" | "state" | "turn")));
        assert_eq!((&held["kind"], &held["outcome"]), (&json!("stop"), &json!("blocked")), "a false turn: {held}");
        assert_eq!(agent.post("/api/v1/stop/resolve", &json!({})).0, 200);
        agent.state("idle");
        assert_eq!(agent.get("/api/v1/agent")["last_message"], "second try");
    });
}

/// The protocol has tests of its own; this is the way to it.
#[test]
fn over_pipes_it_speaks_acp() {
    with_both(|which| {
        let place = Place::new(Home::Users);
        let mut agent = place.start(which, &["--runtime", "pipe"], &[]);
        agent.state("idle");
        agent.nudge("one [[bash:touch denied.txt]]");
        let ask = agent.asked("permission");
        assert_eq!(ask["channel"], "structured");
        let answered = agent.respond(&json!({ "accept": false }));
        assert_eq!(answered["via"], "control");
        agent.state("idle");
        assert!(!agent.has("denied.txt"), "what was denied was done");
        agent.nudge("two [[bash:touch allowed.txt]]");
        agent.asked("permission");
        agent.respond(&json!({ "accept": true }));
        agent.state("idle");
        assert!(agent.has("allowed.txt"), "what was allowed was not done");
        agent.post("/api/v1/shutdown", &json!({}));
        agent.state("exited");
        place.wait_for_no_process();
    });
}

/// Gemini is two processes that outlive their terminal.
#[test]
fn nothing_is_left_when_the_sidecar_or_its_group_is_killed() {
    with_both(|which| {
        for group in [false, true] {
            let place = Place::new(Home::Coops);
            let mut agent = place.start_by(which, &[], &[], |command| command.process_group(0));
            agent.state("idle");
            agent.nudge("work [[slow:60]]");
            let since = Instant::now();
            let pid = agent.sidecar.child.id();
            assert!(place.processes() >= 3, "{}", place.processes());
            let whom = if group { format!("-{pid}") } else { pid.to_string() };
            let killed = Command::new("kill").args(["-KILL", "--", &whom]).status().expect("kill runs");
            assert!(killed.success());
            agent.sidecar.child.wait().expect("it was killed");
            place.wait_for_no_process();
            case(which, if group { "group killed" } else { "sidecar killed" }, since);
        }
    });
}

/// Whatever its permission mode; the simulator has none.
#[test]
fn with_ask_first_a_denied_command_does_not_run() {
    let Some(program) = coop_testkit::real_agent("gemini") else { return };
    for home in [Home::Coops, Home::Users] {
        let place = Place::new(home);
        let options = ["--permission-mode", "bypass", "--ask-first"];
        let mut agent = place.start(&Which::Real(program.clone()), &options, &[]);
        agent.state("idle");
        assert_eq!(agent.get("/api/v1/agent")["permission_mode"], "bypass");
        agent.turn("one [[bash:touch denied.txt]] [[text:well]]", &[json!({ "accept": false })]);
        agent.turn("two [[bash:touch allowed.txt]] [[text:well]]", &[json!({ "accept": true })]);
        let is_there = ["denied.txt", "allowed.txt"].map(|name| place.work.join(name).exists());
        assert_eq!(is_there, [false, true], "{home:?}");
    }
}
