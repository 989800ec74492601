//! Agents that speak ACP: the same list for the scripted one, for coop's own, and for Gemini and OpenCode where `COOP_REAL_GEMINI` and
//! `COOP_REAL_OPENCODE` name them (`make test-real` does).

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use std::{fs, thread};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::driven::{Agent, Model, record_case};
use crate::tool::{COOP, LIMIT, Sidecar, request, write_program};

const KEY: &str = "sk-dummy-key-for-a-model-on-loopback";

/// Which agent.
#[derive(Clone, Debug)]
enum Which {
    Scripted,
    /// coop's own, with a model on loopback.
    Api,
    Gemini(String),
    OpenCode(String),
}

impl Which {
    fn name(&self) -> &'static str {
        match self {
            Self::Scripted => "sim-acp",
            Self::Api => "api",
            Self::Gemini(_) => "gemini",
            Self::OpenCode(_) => "opencode",
        }
    }

    fn all() -> Vec<Self> {
        let path = |program: PathBuf| program.to_str().expect("a path in UTF-8").to_owned();
        let real = |kind: &str, of: fn(String) -> Self| coop_testkit::real_agent(kind).map(|program| of(path(program)));
        [Some(Self::Scripted), Some(Self::Api), real("gemini", Self::Gemini), real("opencode", Self::OpenCode)]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// Where agents run, one after another: a home, a folder to work in, and a model for the real ones.
struct World {
    which: Which,
    folder: tempfile::TempDir,
    model: Option<Model>,
}

impl World {
    fn new(which: &Which) -> Self {
        let folder = tempfile::Builder::new().prefix("coop-acp-").tempdir().expect("a folder");
        for name in ["home", "work", "tmp"] {
            fs::create_dir(folder.path().join(name)).expect("made");
        }
        let model = match which {
            Which::Scripted => None,
            Which::Api | Which::Gemini(_) | Which::OpenCode(_) => Some(Model::start(&folder.path().join("tmp"))),
        };
        let world = Self { which: which.clone(), folder, model };
        world.write_config();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there").join(name)
    }

    /// What spares us the agents' dialogs, and how they find the model.
    fn write_config(&self) {
        let write = |path: &str, content: Value| {
            let path = self.path("home").join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, content.to_string()).expect("written");
        };
        let url = self.model.as_ref().map_or("", |model| &model.url);
        match &self.which {
            Which::Scripted | Which::Api => {}
            Which::Gemini(_) => {
                write(".gemini/trustedFolders.json", json!({ self.path("work").to_string_lossy(): "TRUST_FOLDER" }));
                write(
                    ".gemini/settings.json",
                    json!({
                        "security": { "auth": { "selectedType": "gemini-api-key" } },
                        "privacy": { "usageStatisticsEnabled": false },
                        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
                    }),
                );
            }
            Which::OpenCode(_) => {
                let options = json!({ "baseURL": format!("{url}/v1"), "apiKey": KEY });
                let models = json!({ "fixed": { "limit": { "context": 200_000, "output": 8000 } } });
                let provider = json!({ "npm": "@ai-sdk/openai-compatible", "options": options, "models": models });
                write(
                    ".config/opencode/opencode.json",
                    json!({
                        "autoupdate": false, "share": "disabled", "model": "fixed/fixed", "small_model": "fixed/fixed",
                        "permission": { "bash": "ask", "edit": "ask" }, "provider": { "fixed": provider },
                    }),
                );
            }
        }
    }

    /// Starts the agent with more options for coop and for itself.
    fn start(&self, options: &[&str], args: &[&str]) -> Agent {
        let program = match &self.which {
            Which::Scripted => vec![COOP, "sim", "acp"],
            Which::Api => vec!["--model", "claude-opus-4-8"],
            Which::Gemini(path) => vec![path, "-m", "gemini-2.5-pro", "--acp"],
            Which::OpenCode(path) => vec![path, "acp"],
        };
        self.start_program(options, &[&program, args].concat())
    }

    fn start_program(&self, options: &[&str], program: &[&str]) -> Agent {
        let agent = if matches!(self.which, Which::Api) { "api" } else { "acp" };
        let fixed = ["--agent", agent, "--log-level", "warn"];
        let url = self.model.as_ref().map_or("", |model| &model.url);
        let sidecar = Sidecar::with(&[&fixed[..], options, &["--"], program].concat(), |command| {
            command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp")).current_dir(self.path("work"));
            command.env("COOP_SIM_STATE", self.path("tmp")).env("SHELL", "/bin/sh").env("TERM", "xterm-256color");
            if self.model.is_some() {
                command.envs([("http_proxy", url), ("https_proxy", url), ("NO_PROXY", "127.0.0.1")]);
                command.envs([("GEMINI_API_KEY", KEY), ("GOOGLE_GEMINI_BASE_URL", url)]);
                command.env("OPENCODE_DISABLE_MODELS_FETCH", "1");
                command.envs([("COOP_API_KEY", KEY), ("COOP_BASE_URL", url)]);
            }
            command
        });
        Agent::of(sidecar, self.path("work"), None)
    }

    /// Makes the conversations of Gemini older: it names their files by the minute, and begins one anew when it is loaded
    /// in the minute it is from.
    fn make_old(&self) {
        let projects = fs::read_dir(self.path("home/.gemini/tmp")).expect("a folder").flatten();
        let chats = projects.filter_map(|project| fs::read_dir(project.path().join("chats")).ok()).flatten().flatten();
        let mut count = 0;
        for chat in chats {
            let name = chat.file_name().into_string().expect("UTF-8");
            let (_, id) = name.rsplit_once('-').expect("a time and an id");
            fs::rename(chat.path(), chat.path().with_file_name(format!("session-2020-01-01T00-00-{id}")))
                .expect("renamed");
            count += 1;
        }
        assert!(count > 0, "there is no conversation");
    }

    /// Waits until no process is left that has this home.
    fn assert_gone(&self) {
        let deadline = Instant::now() + LIMIT;
        let home = self.path("home");
        while let Some(left) = process_with(&home) {
            assert!(Instant::now() < deadline, "{left} is left");
            crate::tool::pause();
        }
    }

    fn told(&self, case: &str, what: &str) {
        record_case(self.which.name(), "acp", case, what);
    }

    /// Tells how long it took from the cause to what is expected.
    fn case(&self, case: &str, since: Instant) {
        self.told(case, &since.elapsed().as_millis().to_string());
    }
}

/// Returns a process that has a folder in its environment, other than models.
fn process_with(folder: &Path) -> Option<String> {
    let folder = format!("HOME={}\0", folder.display());
    let processes = fs::read_dir("/proc").expect("there are some").flatten();
    processes.map(|entry| entry.path()).find_map(|path| {
        let environment = fs::read(path.join("environ")).ok()?;
        let has = environment.windows(folder.len()).any(|part| part == folder.as_bytes());
        let command = fs::read_to_string(path.join("cmdline")).unwrap_or_default().replace('\0', " ");
        (has && !command.is_empty()).then(|| format!("{} {command}", path.display()))
    })
}

fn each(check: impl Fn(&World)) {
    for which in Which::all() {
        check(&World::new(&which));
    }
}

#[test]
fn the_whole_list_over_acp() {
    each(|world| {
        let since = Instant::now();
        let mut agent = world.start(&[], &[]);
        let idle = agent.state("idle");
        assert_eq!(idle["evidence"], json!({ "source": "control", "detail": "session/new" }));
        world.case("idle", since);

        let since = Instant::now();
        let sending = nudge_beside(&agent, "zero [[text:hello there]]");
        agent.state("working");
        world.case("working", since);
        let receipt = sending.join().expect("no panic");
        assert!(receipt["delivered"] == true && receipt["confirmed_by"].is_string(), "{receipt}");
        world.case("message confirmed", since);
        agent.state("idle");
        assert_eq!(agent.get("/api/v1/agent")["last_message"], "hello there");
        let usage = agent.get("/api/v1/session/usage");
        let tokens = |name: &str| usage["turn"][format!("{name}_tokens")].as_u64().expect("a number");
        let (input, cached) = (tokens("input") + tokens("cache_write"), tokens("cache_read"));
        assert_eq!((input + cached, tokens("output")), (6500, 42), "{usage}");
        world.case("usage", since);

        agent.nudge("one [[bash:touch denied.txt]]");
        let ask = agent.asked("permission");
        assert_eq!(ask["tool"], "execute");
        // Some agents have more in the input, which the preview counts.
        assert!(ask["preview"].as_str().is_some_and(|preview| preview.starts_with("touch denied.txt")), "{ask}");
        let (status, refused) = agent.post("/api/v1/agent/nudge", &json!({ "message": "not now" }));
        assert_eq!((status, &refused["error"]["code"]), (409, &json!("AGENT_BUSY")));
        let (status, refused) = agent.post("/api/v1/agent/respond", &json!({ "accept": false, "text": "words" }));
        assert_eq!((status, &refused["error"]["code"]), (501, &json!("UNSUPPORTED")), "words would be lost");
        let (status, refused) = agent.post("/api/v1/agent/respond", &json!({ "option": 9 }));
        assert_eq!((status, &refused["error"]["code"]), (409, &json!("NO_SUCH_OPTION")));
        let since = Instant::now();
        assert_eq!(agent.respond(&json!({ "accept": false }))["via"], "control");
        agent.state("idle");
        assert!(!agent.has("denied.txt"), "what was denied was done");
        world.case("permission denied", since);
        let (status, late) = agent.post("/api/v1/agent/respond", &json!({ "ask": ask["id"], "accept": true }));
        assert_eq!((status, &late["error"]["code"]), (409, &json!("ALREADY_ANSWERED")));

        agent.nudge("two [[bash:touch allowed.txt]]");
        agent.asked("permission");
        let since = Instant::now();
        agent.respond(&json!({ "accept": true }));
        let done = agent.event("the tool", |body| body["kind"] == "tool" && body["phase"] == "completed");
        assert!(done["duration_ms"].is_u64(), "{done}");
        agent.state("idle");
        assert!(agent.has("allowed.txt"), "what was allowed was not done");
        world.case("permission allowed", since);

        world.told("question", "none: ACP 1 has no questions");

        agent.nudge("three [[bash:touch stopped.txt]]");
        let ask = agent.asked("permission");
        let since = Instant::now();
        assert_eq!(agent.post("/api/v1/agent/interrupt", &json!({})), (200, json!({ "delivered": true })));
        let gone = agent.event("the ask's end", |body| body["kind"] == "ask" && body["what"] != "opened");
        assert_eq!((&gone["what"], &gone["ask"]), (&json!("withdrawn"), &ask["id"]));
        agent.state("idle");
        assert!(!agent.has("stopped.txt"), "what was stopped was done");
        world.case("interrupt at a permission", since);

        agent.nudge("four [[slow:60]]");
        agent.state("working");
        let since = Instant::now();
        assert_eq!(agent.post("/api/v1/agent/interrupt", &json!({})), (200, json!({ "delivered": true })));
        let ended = agent.event("the turn's end", |body| body["kind"] == "turn" && body["what"] == "ended");
        assert_eq!(ended["outcome"], "interrupted");
        agent.state("idle");
        world.case("interrupt", since);

        let since = Instant::now();
        agent.nudge("five [[err:529x1]]");
        agent.state("idle");
        let is_it = |asked: &&Value| asked["text"].as_str().is_some_and(|text| text.contains("five [[err:529x1]]"));
        let asked = world.model.as_ref().map(|model| model.asked().iter().filter(is_it).count());
        assert!(asked.is_none_or(|times| times >= 2), "the model did not fail: {asked:?}");
        world.case("API error and recovery", since);

        let since = Instant::now();
        agent.post("/api/v1/agent/nudge", &json!({ "message": "six [[err:401]]" }));
        let blocked = agent.state("blocked");
        let fault = &blocked["next"]["fault"];
        assert_eq!((&fault["kind"], &fault["status"]), (&json!("auth"), &json!(401)), "{blocked:#}");
        world.case("API error for good", since);
        agent.nudge("seven [[text:better]]");
        agent.state("idle");

        let since = Instant::now();
        agent.post("/api/v1/shutdown", &json!({}));
        agent.state("exited");
        agent.sidecar.wait();
        world.assert_gone();
        world.case("shutdown leaves no process", since);
    });
}

#[test]
fn an_earlier_conversation_goes_on() {
    for which in Which::all() {
        let more: &[&[&str]] = if matches!(which, Which::Scripted) { &[&[], &["--load-only"]] } else { &[&[]] };
        for args in more {
            let world = World::new(&which);
            let mut first = world.start(&[], args);
            first.state("idle");
            first.nudge("remember the fox [[text:I will]]");
            first.state("idle");
            let id = first.get("/api/v1/agent")["session_id"].as_str().expect("an id").to_owned();
            first.post("/api/v1/shutdown", &json!({}));
            first.state("exited");
            first.sidecar.wait();
            if matches!(which, Which::Gemini(_)) {
                world.make_old();
            }

            let since = Instant::now();
            let mut second = world.start(&["--resume", &id], args);
            let begun = second.event("a beginning", |body| body["kind"] == "message" || body["kind"] == "state");
            assert_eq!(begun["next"]["state"], "idle", "the past is not told again: {begun}");
            world.case("resume", since);
            assert_eq!(second.get("/api/v1/agent")["session_id"], id.as_str());
            second.nudge("what was it? [[text:a fox]]");
            let said = second.event("a message", |body| body["kind"] == "message");
            assert_eq!(said["text"], "what was it? [[text:a fox]]", "the past is not told again");
            second.state("idle");
            if let Some(model) = &world.model {
                let asked = model.asked();
                let is_last = |asked: &&Value| asked["text"].as_str().is_some_and(|text| text.contains("what was it?"));
                let last = asked.iter().rfind(is_last).expect("it was asked");
                assert!(last["messages"].as_u64() >= Some(3), "the model was not told of the past: {last}");
            }
        }
    }
}

#[test]
fn an_agent_that_cannot_resume_says_so() {
    let world = World::new(&Which::Scripted);
    let mut agent = world.start(&["--resume", "no-such-conversation"], &[]);
    let blocked = agent.state("blocked");
    assert!(blocked["next"]["fault"]["message"].as_str().is_some_and(|why| why.contains("not found")), "{blocked}");
    let (status, _) = agent.post("/api/v1/agent/nudge", &json!({ "message": "hello" }));
    assert_eq!(status, 409);
}

#[test]
fn messages_of_any_size_arrive_once_and_whole() {
    each(|world| {
        let mut agent = world.start(&[], &[]);
        agent.state("idle");
        let line = "The quick brown fox, 漢字 and 👍, \"quoted\". ";
        let messages = [
            "x".to_owned(),
            line.chars().cycle().take(300).collect(),
            line.chars().cycle().take(5 * 1024).collect(),
            (1..=100).map(|n| format!("line {n} of many\n")).collect::<String>() + "the end",
            "0123456789abcdef".repeat(64 * 1024),
        ];
        for message in &messages {
            let since = Instant::now();
            let receipt = agent.nudge(message);
            assert!(receipt["confirmed_by"].is_string(), "{receipt}");
            world.case(&format!("a message of {} bytes", message.len()), since);
            agent.state("idle");
        }
        let taken: Vec<String> = match world.which {
            Which::Scripted => {
                let lines = fs::read_to_string(world.path("tmp/prompts.jsonl")).expect("it was written");
                lines.lines().map(|line| serde_json::from_str(line).expect("a prompt")).collect()
            }
            // The model was asked with each.
            Which::Api | Which::Gemini(_) | Which::OpenCode(_) => {
                let asked = world.model.as_ref().expect("a model").asked();
                let texts: Vec<_> = asked.iter().filter_map(|asked| asked["text"].as_str()).collect();
                let whole = |message: &&String| texts.iter().any(|text| text.contains(message.as_str()));
                messages.iter().filter(whole).cloned().collect()
            }
        };
        assert!(taken == messages, "{:?}", taken.iter().map(String::len).collect::<Vec<_>>());
    });
}

#[test]
fn a_plan_is_an_ask_and_told_as_it_is_made() {
    let world = World::new(&Which::Scripted);
    let mut agent = world.start(&[], &[]);
    agent.state("idle");
    agent.nudge("make one [[plan]]");
    let told = agent.event("the plan", |body| body["kind"] == "tool" && body["tool"] == "plan");
    assert_eq!(told["input"]["entries"][1]["content"], "2. Do the second thing");
    let ask = agent.asked("plan");
    assert!(ask["input"]["plan"].as_str().is_some_and(|plan| plan.contains("Do the first thing")), "{ask}");
    agent.respond(&json!({ "accept": false }));
    agent.state("idle");
}

#[test]
fn its_mode_is_changed_and_always_is_always() {
    let world = World::new(&Which::Scripted);
    let mut agent = world.start(&[], &[]);
    agent.state("idle");
    agent.nudge("one [[bash:touch one.txt]]");
    agent.asked("permission");
    agent.respond(&json!({ "accept": true, "always": true }));
    agent.state("idle");
    agent.nudge("two [[bash:touch two.txt]]");
    agent.state("idle");
    assert!(agent.has("two.txt"), "what is always allowed was not done");
    let (status, refused) = agent.post("/api/v1/agent/configure", &json!({ "mode": "reckless" }));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("NO_SUCH_OPTION")), "{refused}");
    let (status, refused) = agent.post("/api/v1/agent/configure", &json!({ "model": "another" }));
    assert_eq!((status, &refused["error"]["code"]), (501, &json!("UNSUPPORTED")), "{refused}");
    assert_eq!(agent.post("/api/v1/agent/configure", &json!({ "mode": "yolo" })).0, 200);
    agent.nudge("three [[write:three.txt|3]]");
    agent.state("idle");
    assert!(agent.has("three.txt"));
}

#[test]
fn who_has_to_log_in_does_so_with_the_key_of_the_environment() {
    let world = World::new(&Which::Scripted);
    let mut agent = world.start(&[], &["--auth"]);
    let blocked = agent.state("blocked");
    let fault = &blocked["next"]["fault"];
    assert_eq!(fault["kind"], "auth");
    let why = fault["message"].as_str().expect("a text");
    assert!(why.contains("gemini-api-key (API key; set GEMINI_API_KEY)") && why.contains("oauth"), "{why}");
    let program = ["env", "GEMINI_API_KEY=k", COOP, "sim", "acp", "--auth"];
    let sidecar = Sidecar::with(&[&["--log-level", "warn", "--"][..], &program].concat(), |command| {
        command.env("GEMINI_API_KEY", "k")
    });
    Agent::of(sidecar, world.path("work"), None).state("idle");
}

#[test]
fn files_and_terminals_are_served_where_they_are_allowed_and_nowhere_else() {
    let world = World::new(&Which::Scripted);
    fs::write(world.path("secret.txt"), "hush").expect("written");
    let mut agent = world.start(&["--acp-allow", "fs,terminal"], &[]);
    agent.state("idle");
    assert_eq!(agent.post("/api/v1/agent/configure", &json!({ "mode": "yolo" })).0, 200);
    agent.nudge("one [[write:new/a.txt|one two]] [[edit:new/a.txt|one|three]] [[read:new/a.txt]]");
    let artifact = |body: &Value| body["kind"] == "artifact" && body["tool"] == "fs/write_text_file";
    let wrote = agent.event("the file", artifact);
    assert!(wrote["path"].as_str().is_some_and(|path| path.ends_with("new/a.txt")), "{wrote}");
    let read = agent.event("the reading", |body| body["output"]["output"] == "three two");
    assert_eq!(read["phase"], "completed");
    agent.state("idle");

    agent.nudge("two [[read:../secret.txt]] [[write:../made.txt|x]]");
    for _ in 0..2 {
        let failed = agent.event("a refusal", |body| body["kind"] == "tool" && body["output"].is_object());
        assert_eq!(failed["phase"], "failed");
        let why = failed["output"]["output"].as_str().expect("a text");
        assert!(why.contains("not in the agent's folder"), "{why}");
    }
    agent.state("idle");
    assert!(!world.path("made.txt").exists(), "it wrote outside of its folder");

    agent.nudge("three [[bash:echo from $PWD; test -t 1 && echo a terminal]]");
    let ran = agent.event("the command", |body| body["kind"] == "tool" && body["phase"] == "completed");
    let said = format!("from {}\na terminal\n", world.path("work").display());
    assert_eq!(ran["output"]["output"], said.as_str());
    agent.state("idle");

    // The terminal's command goes with the turn, and with the agent.
    let command = long_sleep();
    agent.nudge(&format!("four [[bash:{command}]]"));
    let sleeping = || process_running(&command);
    wait_until("the command runs", || sleeping().is_some());
    agent.post("/api/v1/agent/interrupt", &json!({}));
    agent.state("idle");
    wait_until("the command is ended", || sleeping().is_none());
    agent.nudge(&format!("five [[bash:{command}]]"));
    wait_until("the command runs", || sleeping().is_some());
    agent.post("/api/v1/shutdown", &json!({}));
    agent.sidecar.wait();
    wait_until("no terminal outlives the agent", || sleeping().is_none());
}

/// Who is allowed files has them written by coop, after a person has allowed the tool.
#[test]
fn a_file_is_written_for_the_agent() {
    each(|world| {
        // It writes its files itself.
        if matches!(world.which, Which::Api) {
            return;
        }
        // Gemini does not understand that there is none.
        let content = || fs::read_to_string(world.path("work/made.txt")).expect("it is there");
        fs::write(world.path("work/made.txt"), "zero").expect("written");
        let mut agent = world.start(&["--acp-allow", "fs"], &[]);
        agent.state("idle");
        agent.nudge("one [[write:made.txt|one two]]");
        agent.asked("permission");
        assert_eq!(content(), "zero", "it was not allowed yet");
        let since = Instant::now();
        agent.respond(&json!({ "accept": true }));
        let by_coop = |body: &Value| body["kind"] == "artifact" && body["tool"] == "fs/write_text_file";
        agent.event("the file", by_coop);
        world.case("a file written by coop", since);
        agent.state("idle");
        assert_eq!(content().trim_end(), "one two");
    });
}

#[test]
fn terminals_end_with_a_sidecar_that_is_killed() {
    let world = World::new(&Which::Scripted);
    let mut agent = world.start(&["--acp-allow", "terminal"], &[]);
    agent.state("idle");
    assert_eq!(agent.post("/api/v1/agent/configure", &json!({ "mode": "yolo" })).0, 200);
    let command = long_sleep();
    agent.nudge(&format!("one [[bash:{command}]]"));
    let sleeping = || process_running(&command);
    wait_until("the command runs", || sleeping().is_some());
    agent.sidecar.signal(Signal::KILL);
    wait_until("the command is ended", || sleeping().is_none());
    world.assert_gone();
}

#[test]
fn what_is_not_the_protocols_is_shown_and_does_no_harm() {
    let world = World::new(&Which::Scripted);
    let script = world.path("work/agent");
    let lines = ["not JSON at all", r#"{"hello":"there"}"#, "null", r#"[[1],2]"#, r#"{"jsonrpc":"2.0","method":7}"#];
    let noise: String = lines.iter().map(|line| format!("echo '{line}'\n")).collect();
    write_program(&script, &format!("#!/bin/sh\n{noise}exec {COOP} sim acp\n"));
    let mut agent = world.start_program(&[], &[script.to_str().expect("UTF-8")]);
    agent.state("idle");
    let screen = agent.sidecar.see("not JSON at all");
    assert!(screen.contains(r#"{"hello":"there"}"#), "{screen}");
    agent.nudge("one [[text:all is well]]");
    agent.state("idle");
}

#[test]
fn options_that_an_agent_would_not_heed_are_refused() {
    let home = tempfile::tempdir().expect("a folder");
    let config = |name: &str, content: Value| {
        let path = home.path().join(name);
        fs::write(&path, content.to_string()).expect("written");
        path.into_os_string().into_string().expect("UTF-8")
    };
    let gate = config("gate.json", json!({ "stop": { "mode": "gate" } }));
    let start = config("start.json", json!({ "start": { "text": "hello" } }));
    let settings = config("settings.json", json!({ "settings": { "model": "x" } }));
    for (args, why) in [
        (&["--resume", "x", "--", "cat"][..], "--resume and --acp-allow are for agents that coop knows"),
        (&["--acp-allow", "fs", "--", COOP, "sim", "claude"], "claude run as pty does not speak ACP"),
        (&["--isolate", "--", "cat"], "--isolate is for agents that coop knows"),
        (&["--agent-config", &gate, "--", "cat"], "is for agents that coop knows"),
        (
            &["--isolate", "--runtime", "pipe", "--", COOP, "sim", "gemini"],
            "--isolate: coop cannot give gemini run as pipe",
        ),
        (&["--agent-config", &settings, "--agent", "acp", "--", COOP, "sim", "acp"], "no way to hand settings to acp"),
        (&["--agent-config", &gate, "--", COOP, "sim", "codex"], "cannot be held for codex run as pty"),
        (&["--agent-config", &start, "--", COOP, "sim", "opencode"], "cannot be told anything at its start"),
    ] {
        let (code, _, errors) = crate::tool::run(crate::tool::coop(home.path()).args(args));
        assert!(code == 1 && errors.contains(why), "{args:?}: {code} {errors}");
    }
}

/// The bug this keeps away: a pod whose agent is `auto` is told to isolate whatever that turns out to be, and never starts.
/// One that is not isolated says so, once.
#[test]
fn an_agent_is_isolated_if_that_is_possible() {
    for (words, not_isolated) in [
        (&["--", "cat"][..], Some("a program that coop does not know")),
        (&["--log-level", "off", "--", "cat"], Some("coop: --isolate=if-possible: not isolated: a program")),
        (&["--", COOP, "sim", "acp"], Some("acp run as pipe")),
        (&["--runtime", "pipe", "--", COOP, "sim", "gemini"], Some("gemini run as pipe")),
        (&["--", COOP, "sim", "claude"], None),
    ] {
        let mut sidecar = Sidecar::start(&[&["--isolate=if-possible"], words].concat());
        let own = sidecar.home.path().join(".local/state/coop/isolated");
        assert_eq!(own.exists(), not_isolated.is_none(), "{words:?}");
        sidecar.ask("POST", "/api/v1/shutdown", "");
        let (_, log) = sidecar.wait();
        let said: Vec<_> = log.lines().filter(|line| line.contains("not isolated")).collect();
        assert_eq!(said.len(), usize::from(not_isolated.is_some()), "{words:?} {log}");
        let who = not_isolated.unwrap_or_default();
        assert!(said.iter().all(|line| line.contains(who) && line.contains("has the user's")), "{words:?} {log}");
    }
}

/// Returns a command that nobody else on this machine runs.
fn long_sleep() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("sleep {}.{}", 1_000_000 + std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns a process whose command line has these words.
fn process_running(words: &str) -> Option<PathBuf> {
    let processes = fs::read_dir("/proc").expect("there are some").flatten();
    processes.map(|entry| entry.path()).find(|path| {
        let command = fs::read(path.join("cmdline")).unwrap_or_default();
        command.strip_suffix(b"\0").is_some_and(|command| String::from_utf8_lossy(command).replace('\0', " ") == words)
    })
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within the limit: {what}");
        crate::tool::pause();
    }
}

/// A model may take long for its first word. Until then nothing proves that the agent has the message, but it is not idle,
/// and it can be stopped.
#[test]
fn an_agent_that_says_nothing_yet_works_and_can_be_interrupted() {
    let world = World::new(&Which::Scripted);
    let mut agent = world.start(&[], &[]);
    agent.state("idle");
    let sending = nudge_beside(&agent, "x [[wait:600]]");
    agent.state("working");
    assert_eq!(agent.post("/api/v1/agent/interrupt", &json!({})), (200, json!({ "delivered": true })));
    let receipt = sending.join().expect("no panic");
    assert_eq!((&receipt["delivered"], &receipt["reason"]), (&json!(false), &json!("unconfirmed")));
    agent.state("idle");
}

/// Hands over a message on a thread of its own, which returns the receipt.
fn nudge_beside(agent: &Agent, message: &str) -> thread::JoinHandle<Value> {
    let socket = agent.sidecar.socket();
    let body = json!({ "message": message }).to_string();
    thread::spawn(move || {
        let stream = UnixStream::connect(socket).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
        request(stream, "POST", "/api/v1/agent/nudge", &body, "").1
    })
}
