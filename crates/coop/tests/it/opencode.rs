//! OpenCode told truthfully: the same list for the scripted agent and, where `COOP_REAL_OPENCODE` names it, for the real
//! one (`make test-real` does). Each case prints how long it took from its cause to the state that was reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::driven::{Agent, Model, record_case};
use crate::tool::{COOP, LIMIT, Sidecar};

const RUNTIMES: [&str; 2] = ["pty", "server"];

/// Which agent.
#[derive(Clone, Debug)]
pub(crate) enum Which {
    Scripted,
    /// The real program, at this path.
    Real(String),
}

impl Which {
    fn name(&self) -> &'static str {
        match self {
            Self::Scripted => "opencode-sim",
            Self::Real(_) => "opencode",
        }
    }

    pub(crate) fn program(&self) -> Vec<String> {
        match self {
            Self::Scripted => [COOP, "sim", "opencode"].map(str::to_owned).to_vec(),
            Self::Real(path) => vec![path.clone()],
        }
    }

    /// Starts a model for the real one. It has nothing to do with the agent's folder, by which processes are known.
    pub(crate) fn model(&self) -> Option<Model> {
        matches!(self, Self::Real(_)).then(|| Model::start(&std::env::temp_dir()))
    }
}

/// Runs a check with the scripted agent, and with the real one if there is one.
pub(crate) fn with_both(check: impl Fn(&Which)) {
    check(&Which::Scripted);
    if let Some(program) = coop_testkit::real_agent("opencode") {
        check(&Which::Real(program.to_str().expect("a path in UTF-8").to_owned()));
    }
}

/// Makes a folder to work in.
pub(crate) fn folder() -> PathBuf {
    let work = tempfile::Builder::new().prefix("coop-work-").tempdir().expect("a folder").keep();
    work.canonicalize().expect("it is there")
}

/// Gives a command what the agent needs to find its model and nothing else.
pub(crate) fn prepare<'a>(command: &'a mut Command, work: &Path, model: Option<&Model>) -> &'a mut Command {
    command.env("TERM", "xterm-256color").env("SHELL", "/bin/sh").env("XDG_STATE_HOME", work.join("state"));
    if let Some(Model { url, .. }) = model {
        let options = json!({ "baseURL": format!("{url}/v1"), "apiKey": "dummy" });
        let limit = json!({ "context": 2_000_000, "output": 8000 });
        let fixed = json!({ "name": "Fixed", "limit": limit, "cost": { "input": 1, "output": 2 } });
        let provider = json!({ "npm": "@ai-sdk/openai-compatible", "name": "Fixed", "options": options,
            "models": { "fixed": fixed } });
        let config = json!({ "autoupdate": false, "share": "disabled", "model": "fixed/fixed",
            "small_model": "fixed/fixed", "provider": { "fixed": provider },
            "permission": { "bash": "ask", "edit": "ask" } });
        fs::write(work.join("opencode.json"), config.to_string()).expect("written");
        command.env("OPENCODE_DISABLE_MODELS_FETCH", "1").env("NO_PROXY", "127.0.0.1,localhost");
        command.env("HTTP_PROXY", url).env("HTTPS_PROXY", url);
    }
    command.current_dir(work)
}

pub(crate) fn told(which: &Which, runtime: &str, case: &str, since: Instant) {
    record_case(which.name(), runtime, case, &since.elapsed().as_millis().to_string());
}

struct Run<'a> {
    which: &'a Which,
    runtime: &'static str,
    agent: Agent,
}

impl<'a> Run<'a> {
    fn start(which: &'a Which, runtime: &'static str, args: &[&str]) -> Self {
        Self::start_in(&folder(), which, runtime, args)
    }

    fn start_in(work: &Path, which: &'a Which, runtime: &'static str, args: &[&str]) -> Self {
        Self::start_with(work, which, runtime, &[], args)
    }

    /// Starts an agent with more options for coop and for itself.
    fn start_with(work: &Path, which: &'a Which, runtime: &'static str, options: &[&str], args: &[&str]) -> Self {
        let model = which.model();
        let program = which.program();
        let program: Vec<&str> = program.iter().map(String::as_str).collect();
        // The agent is told by its program.
        let fixed = ["--runtime", runtime, "--isolate", "--log-level", "warn", "--"];
        let all = [options, &fixed[..], &program, args].concat();
        let sidecar = Sidecar::with(&all, |command| prepare(command, work, model.as_ref()));
        Self { which, runtime, agent: Agent::of(sidecar, work.to_owned(), model) }
    }

    /// Runs a part of the list and prints how long it took.
    fn case<T>(&mut self, case: &str, run: impl FnOnce(&mut Agent) -> T) -> T {
        let began = Instant::now();
        let outcome = run(&mut self.agent);
        told(self.which, self.runtime, case, began);
        outcome
    }
}

fn tool_over(agent: &mut Agent, phase: &str) -> Value {
    agent.event(&format!("a tool that {phase}"), |body| body["kind"] == "tool" && body["phase"] == phase)
}

/// From the start to the exit: every state with its evidence, every answer with its effect.
fn the_list(which: &Which, runtime: &'static str) {
    let mut run = Run::start(which, runtime, &[]);
    run.case("idle", |agent| agent.state("idle"));
    let told = run.agent.get("/api/v1/agent");
    assert_eq!((&told["agent"], &told["runtime"]), (&json!("opencode"), &json!(runtime)), "{told}");

    run.agent.nudge("one [[bash:touch denied.txt]]");
    let ask = run.case("permission", |agent| agent.asked("permission"));
    assert_eq!((&ask["tool"], &ask["preview"]), (&json!("bash"), &json!("touch denied.txt")));
    assert_eq!((&ask["options"][2]["kind"], &ask["channel"]), (&json!("reject"), &json!("structured")));
    let (status, refused) = run.agent.post("/api/v1/agent/nudge", &json!({ "message": "not now" }));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("AGENT_BUSY")));
    run.case("permission denied", |agent| {
        let answered = agent.respond(&json!({ "accept": false, "text": "leave that alone" }));
        assert_eq!(answered["via"], "control");
        let failed = tool_over(agent, "failed");
        assert!(failed["output"].to_string().contains("leave that alone"), "{failed}");
        agent.state("idle");
        assert!(!agent.has("denied.txt"), "what was denied was done");
        assert!(agent.get("/api/v1/agent")["last_message"].is_string(), "the turn went on after it");
    });
    let (status, late) = run.agent.post("/api/v1/agent/respond", &json!({ "ask": ask["id"], "accept": true }));
    assert_eq!((status, &late["error"]["code"]), (409, &json!("ALREADY_ANSWERED")));

    run.agent.nudge("two [[bash:touch allowed.txt]]");
    run.agent.asked("permission");
    run.case("permission allowed", |agent| {
        agent.respond(&json!({ "accept": true }));
        let done = tool_over(agent, "completed");
        assert!(done["duration_ms"].is_u64(), "{done}");
        agent.state("idle");
        assert!(agent.has("allowed.txt"), "what was allowed was not done");
    });

    run.agent.nudge("three [[bash:touch always.txt]] [[bash:touch again.txt]]");
    run.agent.asked("permission");
    run.case("permission always", |agent| {
        agent.respond(&json!({ "accept": true, "always": true }));
        agent.state("idle");
        assert!(agent.has("always.txt") && agent.has("again.txt"), "it asks again, or does not do it");
    });

    run.agent.nudge("four [[ask]]");
    let ask = run.case("question", |agent| agent.asked("question"));
    assert_eq!(ask["options"][1]["label"], "SQLite");
    let (status, refused) = run.agent.post("/api/v1/agent/respond", &json!({ "option": 9 }));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("NO_SUCH_OPTION")));
    run.agent.respond(&json!({ "option": 2 }));
    assert!(tool_over(&mut run.agent, "completed")["output"].to_string().contains("SQLite"));
    run.agent.state("idle");
    run.agent.nudge("five [[ask2]]");
    assert_eq!(run.agent.asked("question")["questions"].as_array().map(Vec::len), Some(2));
    run.agent.respond(&json!({ "answers": [{ "option": 3 }, { "text": "Zig" }] }));
    let answered = tool_over(&mut run.agent, "completed")["output"].to_string();
    assert!(answered.contains("MySQL") && answered.contains("Zig"), "{answered}");
    run.agent.state("idle");

    run.case("working", |agent| {
        agent.nudge("six [[slow:60]]");
        agent.state("working")
    });
    run.case("interrupt", |agent| {
        let (status, body) = agent.post("/api/v1/agent/interrupt", &json!({}));
        assert_eq!((status, body), (200, json!({ "delivered": true })));
        let ended = agent.event("the turn's end", |body| body["kind"] == "turn" && body["what"] == "ended");
        assert_eq!(ended["outcome"], "interrupted");
        agent.state("idle");
    });

    // A message right after an interrupt or an error may find the turn not quite over. It is run all the same.
    run.case("error and recovery", |agent| {
        agent.nudge("seven [[err:529x2]]");
        let fault = agent.event("a fault", |body| body["kind"] == "fault");
        assert_eq!(fault["retry"]["attempt"], 1, "{fault}");
        agent.state("idle");
    });
    run.case("error for good", |agent| {
        agent.nudge("eight [[err:401]]");
        let blocked = agent.state("blocked");
        let fault = &blocked["next"]["fault"];
        assert_eq!((&fault["kind"], &fault["status"]), (&json!("auth"), &json!(401)), "{blocked:#}");
    });
    run.case("after an error", |agent| {
        agent.nudge("nine [[text:well again]]");
        agent.state("idle");
        assert_eq!(agent.get("/api/v1/agent")["last_message"], "well again");
    });

    run.case("sub-agent's permission", |agent| {
        agent.nudge("ten [[agent:look [[bash:mkdir sub]]]]");
        let ask = agent.asked("permission");
        assert_eq!(ask["preview"], "mkdir sub");
        agent.respond(&json!({ "accept": true }));
        agent.state("idle");
        assert!(agent.has("sub"));
    });

    run.agent.nudge("eleven [[bash:rmdir sub]]");
    run.agent.asked("permission");
    run.case("interrupt at a permission", |agent| {
        assert_eq!(agent.post("/api/v1/agent/interrupt", &json!({})).0, 200);
        agent.state("idle");
        assert_eq!(agent.get("/api/v1/agent/asks")["asks"], json!([]));
        assert!(agent.has("sub"), "what was asked was done");
    });

    run.case("usage", |agent| {
        let before = agent.get("/api/v1/session/usage");
        agent.nudge("twelve [[bash:rmdir sub]]");
        agent.asked("permission");
        agent.respond(&json!({ "accept": true }));
        agent.state("idle");
        let after = agent.get("/api/v1/session/usage");
        // Two requests, and each is told as the model told it: 6500 tokens in, of which 5000 were read before, and 42 out.
        let turn = json!({ "input_tokens": 3000, "output_tokens": 84, "cache_read_tokens": 10000,
            "cache_write_tokens": 0, "cost_usd": after["turn"]["cost_usd"] });
        assert_eq!(after["turn"], turn, "{after}");
        assert!((after["turn"]["cost_usd"].as_f64().unwrap_or(0.0) - 0.003_168).abs() < 1e-9, "{after}");
        let requests = |usage: &Value| usage["requests"].as_u64().unwrap_or(0);
        assert_eq!(requests(&after), requests(&before) + 2, "{before} {after}");
    });

    let work = run.agent.work.clone();
    run.case("exit", |agent| {
        agent.post("/api/v1/shutdown", &json!({}));
        agent.state("exited");
    });
    run.agent.sidecar.wait();
    run.case("no process left", |_| gone(&work));
}

/// Waits until no process is left that was started with the folder in its environment.
fn gone(work: &Path) {
    let work = work.to_str().expect("UTF-8").as_bytes();
    let has = |pid: &fs::DirEntry| {
        let environment = fs::read(pid.path().join("environ")).unwrap_or_default();
        environment.windows(work.len()).any(|part| part == work)
    };
    let deadline = Instant::now() + LIMIT;
    loop {
        let left = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok).filter(has).count();
        if left == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{left} processes are left");
        crate::tool::pause();
    }
}

#[test]
fn the_whole_list_in_the_terminal() {
    with_both(|which| the_list(which, "pty"));
}

#[test]
fn the_whole_list_by_the_server() {
    with_both(|which| the_list(which, "server"));
}

#[test]
fn an_earlier_conversation_goes_on() {
    with_both(|which| {
        for runtime in RUNTIMES {
            let work = folder();
            let mut first = Run::start_in(&work, which, runtime, &[]);
            first.agent.state("idle");
            first.agent.nudge("remember [[text:noted]]");
            first.agent.state("idle");
            let id = first.agent.get("/api/v1/agent")["session_id"].as_str().expect("a session").to_owned();
            first.agent.post("/api/v1/shutdown", &json!({}));
            first.agent.sidecar.wait();
            // Their folder goes with the first of them.
            let mut ended = vec![first];
            for args in [&["-s", &id][..], &["-c"]] {
                let mut second = Run::start_in(&work, which, runtime, args);
                second.case("resume", |agent| agent.state("idle"));
                assert_eq!(second.agent.get("/api/v1/agent")["session_id"], id, "{args:?}");
                second.agent.nudge("go on [[text:still here]]");
                second.agent.state("idle");
                assert_eq!(second.agent.get("/api/v1/agent")["session_id"], id, "{args:?}");
                assert_eq!(second.agent.get("/api/v1/session/usage")["requests"], 1, "the past was told again");
                second.agent.post("/api/v1/shutdown", &json!({}));
                second.agent.sidecar.wait();
                ended.push(second);
            }
        }
    });
}

#[test]
fn messages_of_any_size_arrive_once_and_whole() {
    with_both(|which| {
        for runtime in RUNTIMES {
            let mut run = Run::start(which, runtime, &[]);
            run.agent.state("idle");
            let line = "The quick brown fox, 漢字 and 👍, \"quoted\". ";
            let messages = [
                "x".to_owned(),
                line.repeat(10)[..300].to_owned(),
                line.chars().cycle().take(5 * 1024).collect(),
                (1..=100).map(|n| format!("line {n} of many\n")).collect::<String>() + "the end",
                "0123456789abcdef".repeat(64 * 1024),
            ];
            for message in messages {
                let size = message.len();
                run.case(&format!("a message of {size} bytes"), |agent| {
                    let receipt = agent.nudge(&message);
                    assert!(receipt["confirmed_by"].is_string(), "{receipt}");
                    let began = agent.event("a turn", |body| body["kind"] == "turn" && body["what"] == "began");
                    assert!(began["prompt"] == message, "{size} bytes became {:.200}", began["prompt"].to_string());
                    agent.state("idle");
                });
            }
        }
    });
}

#[test]
fn a_person_at_the_keyboard_answers_first() {
    with_both(|which| {
        let mut run = Run::start(which, "pty", &[]);
        run.agent.state("idle");
        run.agent.nudge("one [[bash:touch typed.txt]]");
        let ask = run.agent.asked("permission");
        run.agent.sidecar.see("Permission required");
        run.case("a person answers", |agent| {
            agent.post("/api/v1/input/keys", &json!({ "keys": ["Enter"] }));
            let gone = agent.event("the ask's end", |body| body["kind"] == "ask" && body["what"] != "opened");
            assert_eq!((&gone["what"], &gone["ask"]), (&json!("withdrawn"), &ask["id"]));
            agent.state("idle");
            assert!(agent.has("typed.txt"));
        });
        let answer = json!({ "ask": ask["id"], "accept": false });
        let (status, late) = run.agent.post("/api/v1/agent/respond", &answer);
        assert_eq!((status, &late["error"]["code"]), (409, &json!("ALREADY_ANSWERED")));
        // What a person types is a turn like any other.
        run.agent.post("/api/v1/input", &json!({ "text": "hello [[text:hello yourself]]" }));
        run.agent.sidecar.see("hello [[text");
        run.agent.post("/api/v1/input/keys", &json!({ "keys": ["Enter"] }));
        let began = run.agent.event("a turn", |body| body["kind"] == "turn" && body["what"] == "began");
        assert_eq!(began["prompt"], "hello [[text:hello yourself]]");
        run.agent.state("idle");
        assert_eq!(run.agent.get("/api/v1/agent")["last_message"], "hello yourself");
    });
}

#[test]
fn an_agent_whose_sidecar_is_killed_ends() {
    with_both(|which| {
        for runtime in RUNTIMES {
            let mut run = Run::start(which, runtime, &[]);
            run.agent.state("idle");
            let work = run.agent.work.clone();
            run.agent.sidecar.signal(rustix::process::Signal::KILL);
            run.agent.sidecar.wait();
            run.case("sidecar killed, no process left", |_| gone(&work));
        }
    });
}

/// Whatever its own settings allow; the simulator asks about commands anyway.
#[test]
fn with_ask_first_a_denied_tool_does_not_run() {
    let Some(program) = coop_testkit::real_agent("opencode") else { return };
    for runtime in RUNTIMES {
        let which = Which::Real(program.to_str().expect("UTF-8").to_owned());
        let mut run = Run::start_with(&folder(), &which, runtime, &["--ask-first"], &[]);
        run.agent.state("idle");
        let work = run.agent.work.clone();
        fs::write(work.join("read.txt"), "read").expect("written");
        let read = |name: &str| format!("[[read:{}]]", work.join(name).display());
        let denied = run.agent.turn(&format!("one {} [[text:well]]", read("read.txt")), &[json!({ "accept": false })]);
        assert!(denied.iter().all(|body| body["phase"] != "completed"), "{runtime}: {denied:#?}");
        run.agent.turn("two [[bash:touch allowed.txt]] [[text:well]]", &[json!({ "accept": true })]);
        assert!(work.join("allowed.txt").exists(), "{runtime}");
    }
}
