//! Codex told truthfully: the same cases for the scripted agent and, where `COOP_REAL_CODEX` names it, for the real one
//! on a fake model (`make test-real` does), beside its server in the terminal and as its server over pipes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use crate::driven::{Agent, Model, Which, check_both};
use crate::sandbox::processes_with;
use crate::tool::{COOP, LIMIT, Sidecar, coop, run, wait_until};

const RUNTIMES: [&str; 2] = ["pty", "pipe"];
/// A variable by which the processes of a test are known.
const MARK: &str = "CODEX_TEST_MARK";

fn with_both(check: impl Fn(&Which)) {
    check_both("codex", check);
}

fn case(which: &Which, runtime: &str, name: &str, since: Instant) {
    which.case("codex", runtime, name, since);
}

/// Has a command run that needs leave.
fn escalated(command: &str) -> String {
    let input = json!({ "cmd": command, "sandbox_permissions": "require_escalated", "justification": "need it" });
    format!("[[tool exec_command {input}]]")
}

struct Place {
    work: PathBuf,
    home: PathBuf,
    extra: Vec<(&'static str, &'static str)>,
    /// The line of the configuration by which no other model is offered.
    migrated: &'static str,
    /// Whether its server cannot be started.
    broken: bool,
}

impl Place {
    fn new() -> Self {
        let work = tempfile::Builder::new().prefix("coop-codex-").tempdir().expect("a folder").keep();
        let work = work.canonicalize().expect("it is there");
        let migrated = r#"notice.model_migrations = { "gpt-5.5" = "gpt-6-sol" }"#;
        Self { home: work.join("codex-home"), work, extra: Vec::new(), migrated, broken: false }
    }

    /// Starts an agent here, with more words on its command line.
    fn start(&self, which: &Which, runtime: &str, options: &[&str], args: &[&str]) -> Agent {
        let model = match which {
            Which::Scripted => None,
            Which::Real(_) => Some(Model::start(&self.work)),
        };
        fs::create_dir_all(self.home.join("tmp")).expect("a folder");
        if let Some(model) = &model {
            fs::write(self.home.join("config.toml"), self.config(&model.url)).expect("written");
        }
        let wrapper = self.work.join("codex-home/codex");
        let program = match which {
            _ if self.broken => vec![wrapper.to_str().expect("UTF-8")],
            Which::Scripted => vec![COOP, "sim", "codex"],
            Which::Real(path) => vec![path.to_str().expect("UTF-8")],
        };
        if self.broken {
            let whole = match which {
                Which::Scripted => format!("{COOP} sim codex"),
                Which::Real(path) => path.display().to_string(),
            };
            let script = format!("#!/bin/sh\ncase \"$*\" in *app-server*) exit 1;; esac\nexec {whole} \"$@\"\n");
            fs::write(&wrapper, script).expect("written");
            fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
        let fixed = ["--agent", "codex", "--runtime", runtime, "--log-level", "warn"];
        let all = [&fixed[..], options, &["--"], &program, args].concat();
        let sidecar = Sidecar::with(&all, |command| {
            command.env("TERM", "xterm-256color").env("MODEL_KEY", "dummy").env("CODEX_HOME", &self.home);
            // Codex does not trust a home in the folder for temporary files.
            command.env("TMPDIR", self.home.join("tmp")).env(MARK, &self.work).envs(self.extra.iter().copied());
            if let Some(model) = &model {
                let url = model.url.as_str();
                command.envs([("http_proxy", url), ("https_proxy", url), ("NO_PROXY", "127.0.0.1")]);
            }
            command.process_group(0).current_dir(&self.work)
        });
        Agent::of(sidecar, self.work.clone(), model)
    }

    fn config(&self, url: &str) -> String {
        format!(
            r#"model = "gpt-5.5"
model_provider = "fixed"
check_for_update_on_startup = false
analytics.enabled = false
features = {{ apps = false, plugins = false }}
tui = {{ screen_reader_detection_done = true, show_tooltips = false }}
{}
projects = {{ "{}" = {{ trust_level = "trusted" }} }}
[model_providers.fixed]
name = "fixed"
base_url = "{url}/v1"
env_key = "MODEL_KEY"
wire_api = "responses"
request_max_retries = 3
stream_max_retries = 3
"#,
            self.migrated,
            self.work.display()
        )
    }
}

/// Counts the processes of a test, its sidecar included.
fn processes(work: &Path) -> Vec<String> {
    let mark = format!("{MARK}={}", work.display());
    let numbers = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let name =
        |path: PathBuf| String::from_utf8_lossy(&fs::read(path.join("cmdline")).unwrap_or_default()).into_owned();
    numbers.filter(is_ours).map(name).filter(|name| !name.is_empty()).collect()
}

/// Returns the files and sockets in a folder and below it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Waits until no process of a test is left.
fn none_left(work: &Path) {
    let deadline = Instant::now() + LIMIT;
    while let Some(left) = processes(work).first() {
        assert!(Instant::now() < deadline, "still there: {left}");
        crate::tool::pause();
    }
}

/// From the start to the exit: every state with its evidence, every answer with its effect.
fn the_list(which: &Which, runtime: &str) {
    let place = Place::new();
    let began = Instant::now();
    let mut agent = place.start(which, runtime, &[], &[]);
    let idle = agent.state("idle");
    assert_eq!(idle["evidence"]["source"], "control");
    case(which, runtime, "idle", began);

    let sent = Instant::now();
    agent.nudge(&format!("one {}", escalated("touch denied.txt")));
    let ask = agent.asked("permission");
    case(which, runtime, "permission", sent);
    assert_eq!((&ask["tool"], &ask["preview"]), (&json!("command_execution"), &json!("touch denied.txt")));
    assert_eq!(ask["channel"], "structured");
    let (status, refused) = agent.post("/api/v1/agent/nudge", &json!({ "message": "not now" }));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("AGENT_BUSY")));
    let (status, refused) = agent.post("/api/v1/agent/respond", &json!({ "input": {}, "accept": true }));
    assert_eq!((status, &refused["error"]["code"]), (501, &json!("UNSUPPORTED")));
    let denied = Instant::now();
    let answered = agent.respond(&json!({ "accept": false, "text": "leave that alone" }));
    assert_eq!(answered["via"], "control");
    agent.state("idle");
    case(which, runtime, "permission denied", denied);
    assert!(!agent.has("denied.txt"), "what was denied was done");
    agent.written_down("leave that alone");
    let (status, late) = agent.post("/api/v1/agent/respond", &json!({ "ask": ask["id"], "accept": true }));
    assert_eq!((status, &late["error"]["code"]), (409, &json!("ALREADY_ANSWERED")));

    agent.nudge(&format!("two {}", escalated("touch allowed.txt")));
    agent.asked("permission");
    let allowed = Instant::now();
    agent.respond(&json!({ "accept": true }));
    agent.state("idle");
    case(which, runtime, "permission allowed", allowed);
    assert!(agent.has("allowed.txt"), "what was allowed was not done");

    // Neither in the folder it works in nor in one for temporary files.
    let outside = PathBuf::from(format!("/var/tmp/coop-codex-{}-{runtime}.txt", std::process::id()));
    agent.nudge(&format!("three [[write:{}|x]]", outside.display()));
    let ask = agent.asked("permission");
    assert_eq!(ask["tool"], "file_change");
    agent.respond(&json!({ "accept": false }));
    agent.state("idle");
    assert!(!outside.exists(), "what was denied was done");
    agent.nudge("four [[write:inside.txt|x]]");
    let wrote = agent.event("the file", |body| body["kind"] == "artifact");
    assert!(wrote["path"].as_str().is_some_and(|path| path.ends_with("inside.txt")), "{wrote}");
    agent.state("idle");

    assert_eq!(agent.post("/api/v1/agent/configure", &json!({ "mode": "plan" })).0, 200);
    let sent = Instant::now();
    agent.nudge("five [[ask]]");
    let ask = agent.asked("question");
    case(which, runtime, "question", sent);
    assert_eq!(ask["options"][1]["label"], "SQLite");
    let (status, refused) = agent.post("/api/v1/agent/respond", &json!({ "option": 9 }));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("NO_SUCH_OPTION")));
    agent.respond(&json!({ "option": 2 }));
    agent.state("idle");
    agent.written_down("SQLite");
    agent.nudge("six [[ask2]]");
    assert_eq!(agent.asked("question")["questions"].as_array().map(Vec::len), Some(2));
    agent.respond(&json!({ "answers": [{ "option": 3 }, { "text": "Zig" }] }));
    agent.state("idle");
    agent.written_down("Zig");
    assert_eq!(agent.post("/api/v1/agent/configure", &json!({ "mode": "default" })).0, 200);

    let sent = Instant::now();
    agent.nudge("seven [[slow:60]]");
    agent.state("working");
    case(which, runtime, "working", sent);
    let stopped = Instant::now();
    let (status, body) = agent.post("/api/v1/agent/interrupt", &json!({}));
    assert_eq!((status, body), (200, json!({ "delivered": true })));
    let ended = agent.event("the turn's end", |body| body["kind"] == "turn" && body["what"] == "ended");
    assert_eq!(ended["outcome"], "interrupted");
    agent.state("idle");
    case(which, runtime, "interrupt", stopped);

    let sent = Instant::now();
    agent.nudge("eight [[err:529x2]]");
    agent.state("idle");
    case(which, runtime, "error and recovery", sent);
    agent.asked_at_least(3, "eight [[err:529x2]]");

    let sent = Instant::now();
    agent.nudge("nine [[err:401]]");
    let blocked = agent.state("blocked");
    case(which, runtime, "error", sent);
    let fault = &blocked["next"]["fault"];
    assert_eq!((&fault["kind"], &fault["status"]), (&json!("auth"), &json!(401)), "{blocked:#}");
    agent.nudge("ten [[text:all is well]]");
    agent.state("idle");
    assert_eq!(agent.get("/api/v1/agent")["last_message"], "all is well");

    let again = Instant::now();
    assert_eq!(agent.post("/api/v1/restart", &json!({})).0, 200);
    agent.state("exited");
    agent.event("a fresh start", |body| body["kind"] == "state" && body["next"]["state"] == "idle");
    case(which, runtime, "restart", again);
    agent.nudge("eleven [[text:as new]]");
    agent.state("idle");

    let ended = Instant::now();
    agent.post("/api/v1/shutdown", &json!({}));
    agent.state("exited");
    case(which, runtime, "exit", ended);
    agent.sidecar.wait();
    none_left(&place.work);
    case(which, runtime, "no process left", ended);
    let is_socket =
        |path: &PathBuf| path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("codex-daemon"));
    let left: Vec<_> = files(&place.home.join("tmp")).into_iter().filter(is_socket).collect();
    assert_eq!(left, Vec::<PathBuf>::new(), "its server's socket was left behind");
}

#[test]
fn the_whole_list_of_codex_in_the_terminal() {
    with_both(|which| the_list(which, "pty"));
}

#[test]
fn the_whole_list_of_codex_over_pipes() {
    with_both(|which| the_list(which, "pipe"));
}

#[test]
fn a_conversation_of_codex_is_resumed_and_its_tokens_are_counted() {
    with_both(|which| {
        for runtime in RUNTIMES {
            let place = Place::new();
            let mut agent = place.start(which, runtime, &[], &[]);
            agent.state("idle");
            agent.nudge("remember the word walrus [[bash:echo hi]] [[usage:100,20,3000,0]]");
            agent.state("idle");
            // Two requests: one for the tool, one for the answer.
            let used = agent.get("/api/v1/session/usage");
            let count = |which: &str, name: &str| used[which][name].as_u64().unwrap_or(0);
            assert_eq!(
                ["input_tokens", "output_tokens", "cache_read_tokens"].map(|name| count("turn", name)),
                [200, 40, 6000],
                "{used}"
            );
            assert_eq!(used["requests"], 2, "{used}");
            let id = agent.get("/api/v1/agent")["session_id"].as_str().expect("a conversation").to_owned();
            agent.post("/api/v1/shutdown", &json!({}));
            agent.state("exited");
            agent.sidecar.wait();
            let folder = agent.work.clone();
            agent.work = PathBuf::from("/nonexistent");
            drop(agent);

            let began = Instant::now();
            let mut agent = place.start(which, runtime, &[], &["resume", &id]);
            agent.work = folder;
            agent.state("idle");
            case(which, runtime, "resume", began);
            assert_eq!(agent.get("/api/v1/agent")["session_id"], id);
            agent.written_down("walrus");
            agent.nudge("and now [[text:as before]]");
            agent.state("idle");
            assert_eq!(agent.get("/api/v1/agent")["session_id"], id);
            assert_eq!(agent.get("/api/v1/agent")["last_message"], "as before");
            let used = agent.get("/api/v1/session/usage");
            assert_eq!(used["turn"]["output_tokens"], 42, "{used}");
        }
    });
}

/// The bug this keeps away: the first message of the command line was told again, to a new conversation.
#[test]
fn codex_goes_on_and_is_not_told_its_first_message_again() {
    with_both(|which| {
        for (runtime, by_file) in [("pty", true), ("pty", false), ("pipe", true), ("pipe", false)] {
            let place = Place::new();
            // Where an agent in a sandbox cannot write.
            let kept = tempfile::tempdir().expect("a folder");
            let file = kept.path().join("session");
            let file = file.to_str().expect("UTF-8");
            let mut first = place.start(which, runtime, &["--session-file", file], &[]);
            first.state("idle");
            first.nudge("begin [[text:begun]]");
            first.state("idle");
            let id = first.get("/api/v1/agent")["session_id"].as_str().expect("a conversation").to_owned();
            let deadline = Instant::now() + LIMIT;
            while fs::read_to_string(file).unwrap_or_default().trim() != id {
                assert!(Instant::now() < deadline, "{id} is not kept");
                crate::tool::pause();
            }
            first.post("/api/v1/shutdown", &json!({}));
            first.sidecar.wait();
            // The folder is the next one's.
            first.work = PathBuf::from("/nonexistent");
            drop(first);

            let options = if by_file { ["--session-file", file] } else { ["--resume", &id] };
            let mut second = place.start(which, runtime, &options, &["-m", "gpt-5.5", "begin [[text:begun]]"]);
            // Had it been told anything, it would not be idle before that turn was over.
            let begins = second.event("how it begins", |body| body["kind"] == "state" || body["kind"] == "turn");
            assert_eq!(begins["next"]["state"], "idle", "{begins:#}");
            assert_eq!(second.get("/api/v1/agent")["session_id"], id);
            second.nudge("and now [[text:as before]]");
            second.state("idle");
            let now = second.get("/api/v1/agent");
            assert_eq!((&now["session_id"], &now["last_message"]), (&json!(id), &json!("as before")));
        }
    });
}

#[test]
fn codex_with_a_first_message_is_not_idle_before_it() {
    with_both(|which| {
        for runtime in RUNTIMES {
            let mut agent = Place::new().start(which, runtime, &[], &["begin [[text:begun]]"]);
            agent.state("idle");
            agent.written_down("begun");
        }
    });
}

#[test]
fn messages_of_any_size_reach_codex_once_and_whole() {
    with_both(|which| {
        for runtime in RUNTIMES {
            let mut agent = Place::new().start(which, runtime, &[], &[]);
            agent.state("idle");
            let line = "The quick brown fox, 漢字 and 👍, \"quoted\". ";
            let messages = [
                "x".to_owned(),
                line.repeat(10)[..300].to_owned(),
                line.chars().cycle().take(5 * 1024).collect(),
                (1..=100).map(|n| format!("line {n} of many\n")).collect::<String>() + "the end",
                "0123456789abcdef".repeat(64 * 1024),
            ];
            let sent = Instant::now();
            for message in messages {
                let receipt = agent.nudge(&message);
                assert!(receipt["confirmed_by"].is_string(), "{receipt}");
                let turn = agent.event("a turn", |body| body["kind"] == "turn" && body["what"] == "began");
                assert!(turn["prompt"] == json!(message), "{} bytes arrived changed", message.len());
                agent.state("idle");
            }
            case(which, runtime, "messages of any size", sent);
        }
    });
}

/// Has a command run for which Codex waits for an instant only.
fn unawaited(command: &str) -> String {
    format!("[[tool exec_command {}]]", json!({ "cmd": command, "yield_time_ms": 300 }))
}

/// Such a command left the agent working for ever when it ended, and ran on after an interrupt. The scripted agent waits for all.
#[test]
fn a_command_that_outlives_its_turn_changes_no_state_and_an_interrupt_ends_one() {
    let Some(program) = coop_testkit::real_agent("codex") else { return };
    let which = Which::Real(program);
    for runtime in RUNTIMES {
        let mut agent = Place::new().start(&which, runtime, &[], &[]);
        agent.state("idle");
        let command = unawaited("until [ -e go ]; do sleep 0.1; done; echo gone");
        agent.nudge(&format!("one {command} [[text:I do not wait]]"));
        agent.state("idle");
        let late = Instant::now();
        fs::write(agent.work.join("go"), "").expect("written");
        agent.event("the command's end", |body| body["kind"] == "tool" && body["phase"] == "completed");
        agent.nudge("two [[text:done]]");
        agent.state("idle");
        case(&which, runtime, "command that outlives its turn", late);

        // By then Codex does not wait for it any more.
        let seconds = format!("87{}", std::process::id());
        agent.nudge(&format!("three {} [[hang]]", unawaited(&format!("sleep 1; touch runs; sleep {seconds}"))));
        wait_until("the command runs", || agent.has("runs") && processes_with(&seconds) > 0);
        let stopped = Instant::now();
        let (status, told) = agent.post("/api/v1/agent/interrupt", &json!({}));
        assert_eq!(status, 200, "{told}");
        agent.state("idle");
        wait_until("the command has ended", || processes_with(&seconds) == 0);
        case(&which, runtime, "interrupt ends its commands", stopped);
    }
}

#[test]
fn a_person_at_the_keyboard_of_codex_is_heard_and_answers_first() {
    with_both(|which| {
        let place = Place::new();
        let mut agent = place.start(which, "pty", &[], &[]);
        agent.state("idle");
        agent.sidecar.see("Ask Codex to do anything");
        // The very first turn is theirs: coop joins the conversation by itself.
        agent.post("/api/v1/input", &json!({ "text": escalated("touch typed.txt") }));
        agent.sidecar.see("touch typed.txt");
        let typed = Instant::now();
        // A busy one takes an Enter that follows fast for a part of a paste. In its dialog another one would choose.
        let enter = |agent: &Agent| {
            if agent.get("/api/v1/agent")["detail"]["state"] == "idle" {
                agent.post("/api/v1/input", &json!({ "text": "\r" }));
            }
        };
        agent.until(enter, |body| body["kind"] == "turn");
        let ask = agent.asked("permission");
        case(which, "pty", "permission of a typed message", typed);
        agent.sidecar.see("Press enter to confirm");
        agent.post("/api/v1/input", &json!({ "text": "1" }));
        let gone = agent.event("the ask's end", |body| body["kind"] == "ask" && body["what"] != "opened");
        assert_eq!((&gone["what"], &gone["ask"]), (&json!("withdrawn"), &ask["id"]));
        agent.state("idle");
        assert!(agent.has("typed.txt"));
        let (status, late) = agent.post("/api/v1/agent/respond", &json!({ "ask": ask["id"], "accept": false }));
        assert_eq!((status, &late["error"]["code"]), (409, &json!("ALREADY_ANSWERED")));
    });
}

/// Whichever conversation was read last was taken for the person's.
#[test]
fn a_conversation_of_codex_that_is_begun_anew_is_followed() {
    with_both(|which| {
        let mut agent = Place::new().start(which, "pty", &[], &[]);
        agent.state("idle");
        agent.sidecar.see("Ask Codex to do anything");
        agent.nudge("one [[text:the first]]");
        agent.state("idle");
        let first = agent.get("/api/v1/agent")["session_id"].clone();
        // The interface may not know yet that the turn is over, and refuse.
        let begin_anew = |agent: &Agent| {
            agent.post("/api/v1/input", &json!({ "text": "/new" }));
            agent.sidecar.see("› /new");
            agent.post("/api/v1/input", &json!({ "text": "\r" }));
        };
        let is_other = |body: &serde_json::Value| body["what"] == "session" && body["id"] != first;
        agent.until(begin_anew, is_other);
        agent.nudge("two [[text:the second]]");
        agent.state("idle");
        let told = agent.get("/api/v1/agent");
        // One that was slow to begin anew was told to twice.
        assert_ne!(told["session_id"], first);
        assert_eq!(told["last_message"], "the second");
    });
}

#[test]
fn a_dialog_that_would_change_the_configuration_is_told_and_left_alone() {
    with_both(|which| {
        let mut place = Place::new();
        place.extra.push(("COOP_SIM_DIALOGS", "1"));
        place.migrated = "";
        let mut agent = place.start(which, "pty", &[], &[]);
        let ask = agent.asked("setup");
        assert_eq!(ask["channel"], "keys");
        let (status, refused) = agent.post("/api/v1/agent/nudge", &json!({ "message": "1" }));
        assert_eq!((status, &refused["error"]["code"]), (409, &json!("AGENT_BUSY")));
        let (status, refused) = agent.post("/api/v1/agent/respond", &json!({ "option": 1 }));
        assert_eq!((status, &refused["error"]["code"]), (501, &json!("UNSUPPORTED")));
        // Now and then the real one loses a key that is typed as it draws its first dialog.
        if agent.press("2")["next"]["state"] != "idle" {
            agent.state("idle");
        }
    });
}

#[test]
fn no_process_of_codex_outlives_a_sidecar_that_is_killed() {
    with_both(|which| {
        for runtime in RUNTIMES {
            let place = Place::new();
            let mut agent = place.start(which, runtime, &[], &[]);
            agent.state("idle");
            agent.nudge("work [[slow:60]]");
            agent.state("working");
            assert!(processes(&place.work).len() >= 2, "{:?}", processes(&place.work));
            let killed = Instant::now();
            let group = rustix::process::Pid::from_child(&agent.sidecar.child);
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).expect("it lives");
            agent.sidecar.wait();
            none_left(&place.work);
            case(which, runtime, "killed: no process left", killed);
        }
    });
}

#[test]
fn the_lines_of_codex_exec_are_read() {
    with_both(|which| {
        for runtime in RUNTIMES {
            let place = Place::new();
            let args = ["exec", "--json", "--skip-git-repo-check", "[[bash:echo hi]] [[text:all done]]"];
            let began = Instant::now();
            let mut agent = place.start(which, runtime, &["--linger", "60"], &args);
            let session = agent.event("its name", |body| body["kind"] == "lifecycle" && body["what"] == "session");
            let tool = agent.event("the tool", |body| body["kind"] == "tool" && body["phase"] == "completed");
            assert_eq!(tool["tool"], "command_execution", "{tool}");
            let said = agent.event("the answer", |body| body["kind"] == "message");
            assert!(said["text"].as_str().is_some_and(|text| !text.is_empty()), "{said}");
            let used = agent.event("the tokens", |body| body["kind"] == "usage");
            assert_eq!(used["total"]["output_tokens"], 84, "{used}");
            let ended = agent.event("the end of the turn", |body| body["kind"] == "turn" && body["what"] == "ended");
            assert_eq!(ended["outcome"], "completed");
            let idle = agent.state("idle");
            assert_eq!(idle["evidence"]["source"], "stdout");
            assert_eq!(idle["last_message"], "all done");
            agent.state("exited");
            case(which, runtime, "exec --json", began);
            assert!(session["id"].as_str().is_some_and(|id| !id.is_empty()), "{session}");
        }
    });
}

#[test]
fn an_agent_is_started_once_its_server_listens_or_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (there, missing) = (folder.path().join("there"), folder.path().join("missing"));
    let _listener = std::os::unix::net::UnixListener::bind(&there).expect("it listens");
    for (socket, expected) in [(there, "with"), (missing, "without")] {
        let mut command = coop(folder.path());
        let told = folder.path().join("status/server.json");
        command.args(["await", "--within", "0.2"]).args([&socket, &told]);
        command.args(["2", "--", "echo", "with", "echo", "without"]);
        let (code, out, err) = run(&mut command);
        assert_eq!((code, out.lines().last()), (0, Some(expected)), "{out} {err}");
        assert_eq!(told.exists(), expected == "without");
    }
}

/// A server that does not start leaves the interface, its title and its dialogs: coop watches, and types only digits.
#[test]
fn without_its_server_codex_is_watched_and_its_dialogs_are_answered_by_digits() {
    with_both(|which| {
        let mut place = Place::new();
        place.broken = true;
        let mut agent = place.start(which, "pty", &["--idle-grace", "1"], &[]);
        let idle = agent.state("idle");
        assert!(matches!(idle["evidence"]["source"].as_str(), Some("screen" | "title")), "{idle}");
        let (status, refused) = agent.post("/api/v1/agent/nudge", &json!({ "message": "hello" }));
        assert_eq!((status, &refused["error"]["code"]), (501, &json!("UNSUPPORTED")));
        agent.sidecar.see("Ask Codex to do anything");
        for (file, allowed) in [("denied.txt", false), ("allowed.txt", true)] {
            agent.post("/api/v1/input", &json!({ "text": escalated(&format!("touch {file}")) }));
            agent.sidecar.see(&format!("touch {file}"));
            // Right behind a text the real one takes it for a part of that.
            let began = agent.press("\r");
            let change = if began["next"]["state"] == "working" { agent.state("waiting") } else { began };
            assert_eq!(
                (&change["next"]["kind"], &change["ask"]["channel"]),
                (&json!("permission"), &json!("keys")),
                "{change}"
            );
            let answered = agent.respond(&json!({ "accept": allowed }));
            assert_eq!(answered["via"], "keys");
            agent.state("idle");
            assert_eq!(agent.has(file), allowed);
        }
    });
}

/// Whatever its permission mode; the simulator has none.
#[test]
fn with_ask_first_a_denied_command_does_not_run() {
    let Some(program) = coop_testkit::real_agent("codex") else { return };
    for runtime in RUNTIMES {
        let place = Place::new();
        let options = ["--permission-mode", "bypass", "--ask-first"];
        let mut agent = place.start(&Which::Real(program.clone()), runtime, &options, &[]);
        agent.state("idle");
        let touch = |name: &str| format!("[[tool exec_command {}]]", json!({ "cmd": format!("touch {name}") }));
        agent.turn(&format!("one {} [[text:well]]", touch("denied.txt")), &[json!({ "accept": false })]);
        agent.turn(&format!("two {} [[text:well]]", touch("allowed.txt")), &[json!({ "accept": true })]);
        let is_there = ["denied.txt", "allowed.txt"].map(|name| place.work.join(name).exists());
        assert_eq!(is_there, [false, true], "{runtime}");
    }
}

#[test]
fn the_permission_mode_is_that_of_its_server() {
    let Some(program) = coop_testkit::real_agent("codex") else { return };
    for runtime in RUNTIMES {
        let place = Place::new();
        let mut agent = place.start(&Which::Real(program.clone()), runtime, &["--permission-mode", "dont-ask"], &[]);
        agent.state("idle");
        agent.turn("one [[text:hello]]", &[]);
        assert_eq!(agent.get("/api/v1/agent")["permission_mode"], "dont-ask", "{runtime}");
    }
}
