//! An agent in a sidecar, driven only through the API: the scripted one, or the real one on a fake model.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use coop_testkit::real_agent;
use serde_json::{Value, json};

use crate::tool::{COOP, LIMIT, Sidecar, coop, home_outside, request, without_inotify};

/// What hooks were told, in the folder the agent works in.
const HOOKS: &str = ".hooks.jsonl";
const EVENTS: [&str; 10] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PermissionRequest",
    "Stop",
    "StopFailure",
    "SubagentStop",
    "Notification",
    "PreCompact",
];
const KEY: &str = "sk-dummy-key-for-a-model-on-loopback";

/// Which agent.
#[derive(Clone, Debug)]
pub(crate) enum Which {
    Scripted,
    /// The real program, at this path.
    Real(PathBuf),
}

impl Which {
    /// Prints how long it took from a cause to the state that it led to.
    pub(crate) fn case(&self, agent: &str, runtime: &str, case: &str, since: Instant) {
        let agent = match self {
            Self::Scripted => format!("sim {agent}"),
            Self::Real(_) => agent.to_owned(),
        };
        record_case(&agent, runtime, case, &since.elapsed().as_millis().to_string());
    }
}

/// Adds a case to the file that COOP_CASES names; `make test-real` makes a table of it.
pub(crate) fn record_case(agent: &str, runtime: &str, case: &str, outcome: &str) {
    let Some(path) = std::env::var_os("COOP_CASES") else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("COOP_CASES names a file");
    // One write: the processes of several tests append at the same time.
    file.write_all(format!("{agent}\t{runtime}\t{case}\t{outcome}\n").as_bytes()).expect("the line is written");
}

/// Runs a check with the scripted agent, and with the real one if there is one.
pub(crate) fn with_both(check: impl Fn(&Which)) {
    check_both("claude", check);
}

/// The same for an agent of another kind.
pub(crate) fn check_both(kind: &str, check: impl Fn(&Which)) {
    check(&Which::Scripted);
    if let Some(program) = real_agent(kind) {
        check(&Which::Real(program));
    }
}

/// How it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    Pty,
    Pipe,
}

/// Whose configuration it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetUp {
    Isolated,
    /// Isolated, without `--trust`.
    Untrusted,
    New,
    /// Isolated, where there is no inotify instance.
    Unwatched,
}

/// A running agent.
pub(crate) struct Agent {
    pub(crate) sidecar: Sidecar,
    pub(crate) work: PathBuf,
    events: Receiver<Value>,
    /// What came and was not asked for, for the message of a failure.
    past: VecDeque<String>,
    model: Option<Model>,
}

/// A model server, killed when dropped.
pub(crate) struct Model {
    child: Child,
    pub(crate) url: String,
}

impl Model {
    pub(crate) fn start(home: &Path) -> Self {
        let mut child = coop(home).args(["sim", "model"]).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut url).expect("it says where it is");
        Self { child, url: url.trim().to_owned() }
    }
}

impl Model {
    /// Returns what it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        let address = self.url.strip_prefix("http://").expect("an address");
        let stream = std::net::TcpStream::connect(address).expect("it listens");
        let (_, asked) = request(stream, "GET", "/coop/requests", "", "");
        asked.as_array().expect("a list").clone()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Agent {
    /// Starts an agent with more options for coop and for itself.
    pub(crate) fn start(which: &Which, runtime: Runtime, options: &[&str], args: &[&str]) -> Self {
        Self::set_up(SetUp::Isolated, which, runtime, options, args)
    }

    /// Starts an agent that does not know the folder it works in, with a configuration that is not coop's.
    pub(crate) fn start_new(which: &Which) -> Self {
        Self::set_up(SetUp::New, which, Runtime::Pty, &[], &[])
    }

    /// Starts an agent with a configuration of coop's own, without `--trust`.
    pub(crate) fn start_untrusted(which: &Which) -> Self {
        Self::set_up(SetUp::Untrusted, which, Runtime::Pty, &[], &[])
    }

    /// Starts an agent whose files the system does not watch.
    pub(crate) fn start_unwatched(which: &Which) -> Self {
        Self::set_up(SetUp::Unwatched, which, Runtime::Pty, &[], &[])
    }

    fn set_up(set_up: SetUp, which: &Which, runtime: Runtime, options: &[&str], args: &[&str]) -> Self {
        let work = tempfile::Builder::new().prefix("coop-work-").tempdir().expect("a folder").keep();
        let work = work.canonicalize().expect("it is there");
        let model = match which {
            Which::Scripted => None,
            Which::Real(_) => Some(Model::start(&work)),
        };
        Self::launch(set_up, which, runtime, options, args, work, model)
    }

    /// Ends the agent and starts one that goes on with its conversation, in the same place.
    pub(crate) fn resume(mut self, which: &Which, runtime: Runtime) -> Self {
        let id = self.get("/api/v1/agent")["session_id"].as_str().expect("a conversation").to_owned();
        self.post("/api/v1/shutdown", &json!({}));
        self.sidecar.wait();
        let (work, model) = (std::mem::take(&mut self.work), self.model.take());
        Self::launch(SetUp::Isolated, which, runtime, &[], &["--resume", &id], work, model)
    }

    fn launch(
        set_up: SetUp,
        which: &Which,
        runtime: Runtime,
        options: &[&str],
        args: &[&str],
        work: PathBuf,
        model: Option<Model>,
    ) -> Self {
        let program = match which {
            Which::Scripted => vec![COOP, "sim", "claude"],
            Which::Real(path) => vec![path.to_str().expect("UTF-8")],
        };
        let runtime = match runtime {
            Runtime::Pty => "pty",
            Runtime::Pipe => "pipe",
        };
        let isolate = match set_up {
            SetUp::Isolated | SetUp::Unwatched => &["--isolate", "--trust"][..],
            SetUp::Untrusted => &["--isolate"],
            SetUp::New => &[],
        };
        let fixed = ["--agent", "claude", "--runtime", runtime, "--log-level", "warn"];
        let recording = recording(&work);
        let recorded: Vec<_> = recording.iter().map(String::as_str).collect();
        // Newer ones would start in a mode in which they do not ask.
        let mode: &[&str] = match options.iter().chain(args).any(|word| word.contains("permission")) {
            true => &[],
            false => &["--permission-mode", "default"],
        };
        let all = [&fixed[..], isolate, mode, options, &["--"], &program, &recorded, args].concat();
        let sidecar = Sidecar::with(&all, |command| {
            let url = model.as_ref().map(|model| model.url.as_str());
            if set_up == SetUp::New {
                know(&work, &work.join("another folder"));
                command.env("CLAUDE_CONFIG_DIR", &work);
            }
            if matches!(set_up, SetUp::Untrusted | SetUp::New) {
                command.env("COOP_SIM_DIALOGS", "1");
            }
            prepare(command, url).env("XDG_STATE_HOME", work.join(".state")).current_dir(&work);
            if set_up == SetUp::Unwatched {
                *command = without_inotify(command);
            }
            command
        });
        Self::of(sidecar, work, model)
    }

    /// Follows an agent that runs, in this folder.
    pub(crate) fn of(sidecar: Sidecar, work: PathBuf, model: Option<Model>) -> Self {
        let events = follow(&sidecar.socket());
        Self { sidecar, work, events, past: VecDeque::new(), model }
    }

    /// Waits for the next event that is like this.
    pub(crate) fn event(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let Ok(event) = self.events.recv_timeout(LIMIT) else {
                let past: Vec<_> = self.past.iter().cloned().collect();
                let (_, explained) = self.sidecar.ask("GET", "/api/v1/agent/explain", "");
                panic!(
                    "{what} never came; events:\n{}\nexplained:\n{explained:#}\nscreen:\n{}",
                    past.join("\n"),
                    self.sidecar.screen()
                );
            };
            if is_it(&event["body"]) {
                return event["body"].clone();
            }
            self.past.push_back(event["body"].to_string());
        }
    }

    /// Waits until the agent is in this state, by its name in the API. Nothing but work may come before it.
    pub(crate) fn state(&mut self, name: &str) -> Value {
        let change = self.event(&format!("state {name}"), |body| body["kind"] == "state");
        let found = change["next"]["state"].as_str().expect("a state").to_owned();
        if found == "working" && name != "working" {
            return self.state(name);
        }
        assert_eq!(found, name, "{change:#} after {:#?}", self.past);
        let source = change["evidence"]["source"].as_str().unwrap_or_default();
        // Others than Claude Code have states that nothing better tells.
        let is_claude = self.sidecar.lines.iter().any(|line| line == "agent claude");
        let is_strong = matches!(source, "control" | "hook" | "session_log") || !is_claude && source != "none";
        // Only what has no better way is taken from the screen, and only the system knows of an end.
        let may_be_weak = match found.as_str() {
            "waiting" => source == "screen" && change["ask"]["channel"] == "keys",
            "exited" => source == "process",
            _ => false,
        };
        assert!(is_strong || may_be_weak, "{change:#}");
        change
    }

    /// Types a key until that has an effect: a program that is still drawing its first screen may lose one. Returns the
    /// change of state it led to.
    pub(crate) fn press(&mut self, key: &str) -> Value {
        self.until(|agent| drop(agent.post("/api/v1/input", &json!({ "text": key }))), |body| body["kind"] == "state")
    }

    /// Does something again and again, with time between, until there is an event like this.
    pub(crate) fn until(&mut self, act: impl Fn(&Self), is_it: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..10 {
            act(self);
            while let Ok(event) = self.events.recv_timeout(Duration::from_secs(30)) {
                if is_it(&event["body"]) {
                    return event["body"].clone();
                }
                self.past.push_back(event["body"].to_string());
            }
        }
        panic!("it has no effect; screen:\n{}", self.sidecar.screen());
    }

    /// Waits until it asks, and returns what.
    pub(crate) fn asked(&mut self, kind: &str) -> Value {
        let change = self.state("waiting");
        assert_eq!(change["next"]["kind"], kind, "{change:#}");
        change["ask"].clone()
    }

    /// Hands over a message, gives these answers to what is asked, and returns what happened until the agent rests.
    pub(crate) fn turn(&mut self, message: &str, answers: &[Value]) -> Vec<Value> {
        self.nudge(message);
        let mut answers = answers.iter();
        let mut happened = Vec::new();
        loop {
            let body = self.event("the end of the turn", |_| true);
            let state = body["next"]["state"].as_str().unwrap_or_default().to_owned();
            happened.push(body);
            match state.as_str() {
                "waiting" => drop(self.respond(answers.next().expect("an answer"))),
                "idle" | "blocked" => return happened,
                _ => {}
            }
        }
    }

    /// Sees that the model was asked so many times with a message that begins like this. The scripted agent has none.
    pub(crate) fn asked_at_least(&self, times: usize, message: &str) {
        let Some(model) = &self.model else { return };
        let asked = model.asked();
        let is_it = |asked: &&Value| asked["text"].as_str().is_some_and(|text| text.contains(message));
        assert!(asked.iter().filter(is_it).count() >= times, "not {times} times {message:?}: {asked:#?}");
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.sidecar.ask("POST", path, &body.to_string())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.sidecar.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Hands over a message and sees it taken.
    pub(crate) fn nudge(&mut self, message: &str) -> Value {
        let (status, receipt) = self.post("/api/v1/agent/nudge", &json!({ "message": message }));
        assert_eq!((status, &receipt["delivered"], &receipt["reason"]), (200, &json!(true), &Value::Null), "{receipt}");
        receipt
    }

    pub(crate) fn respond(&self, answer: &Value) -> Value {
        let (status, answered) = self.post("/api/v1/agent/respond", answer);
        assert_eq!((status, &answered["delivered"]), (200, &json!(true)), "{answered}");
        answered
    }

    /// Returns the conversation as the agent keeps it.
    pub(crate) fn transcript(&self) -> String {
        match self.sidecar.ask("GET", "/api/v1/transcripts/catchup", "") {
            (200, Value::String(lines)) => lines,
            (200, only) => only.to_string(),
            (503, _) => String::new(),
            other => panic!("no transcript: {other:?}"),
        }
    }

    /// Waits until the conversation has a text: the agent writes it down when it has time.
    pub(crate) fn written_down(&self, text: &str) {
        let deadline = Instant::now() + LIMIT;
        while !self.transcript().contains(text) {
            assert!(Instant::now() < deadline, "{text:?} is not in the conversation:\n{}", self.transcript());
            crate::tool::pause();
        }
    }

    /// Returns what has become of an ask so far, in order.
    pub(crate) fn told_of(&self, ask: &Value) -> Vec<String> {
        let past = self.past.iter().filter_map(|event| serde_json::from_str::<Value>(event).ok());
        let of_it = past.filter(|body| body["kind"] == "ask" && body["ask"] == *ask);
        of_it.map(|body| body["what"].as_str().unwrap_or_default().to_owned()).collect()
    }

    pub(crate) fn has(&self, file: &str) -> bool {
        self.work.join(file).exists()
    }
}

impl Agent {
    /// Keeps what was seen of a run that failed, so that it can become a recording.
    fn keep_observations(&self) {
        let name = thread::current().name().unwrap_or("test").replace("::", "-");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed").join(name);
        let keep = |file: &str, content: String| {
            let _ = std::fs::create_dir_all(&folder);
            let _ = std::fs::write(folder.join(file), content);
        };
        let events: Vec<_> =
            self.past.iter().cloned().chain(self.events.try_iter().map(|event| event.to_string())).collect();
        keep("events.jsonl", events.join("\n"));
        for (file, path) in [
            ("explain.json", "/api/v1/agent/explain"),
            ("log.jsonl", "/api/v1/transcripts/catchup"),
            ("screen.txt", "/api/v1/screen/text"),
        ] {
            if let Some((_, body)) = self.sidecar.try_ask("GET", path) {
                keep(file, body.as_str().map_or_else(|| body.to_string(), str::to_owned));
            }
        }
        let sessions =
            walk(&self.work).into_iter().filter(|path| path.parent().is_some_and(|dir| dir.ends_with("sessions")));
        for (at, path) in sessions.enumerate() {
            keep(&format!("status-{at}.json"), std::fs::read_to_string(path).unwrap_or_default());
        }
        if let Ok(hooks) = std::fs::read_to_string(self.work.join(HOOKS)) {
            keep("hooks.jsonl", hooks);
        }
        let _ = writeln!(std::io::stderr(), "what was seen is in {}", folder.display());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if thread::panicking() {
            self.keep_observations();
        }
        // Whoever still runs there might write again.
        self.sidecar.end();
        let _ = std::fs::remove_dir_all(&self.work);
        let _ = home_outside(&self.work).map(std::fs::remove_dir_all);
    }
}

/// Returns all files in a folder and those in it.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = |path: PathBuf| if path.is_dir() { walk(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.path())).collect()
}

/// Returns settings by which all that hooks are told is kept, if `COOP_RECORD` is set: it takes time, so a test that fails
/// is run again with it.
fn recording(work: &Path) -> Option<String> {
    std::env::var_os("COOP_RECORD")?;
    let command = format!("{{ cat; echo; }} >>'{}'", work.join(HOOKS).display());
    let hook = json!([{ "hooks": [{ "type": "command", "command": command }] }]);
    let hooks: serde_json::Map<_, _> = EVENTS.iter().map(|event| ((*event).to_owned(), hook.clone())).collect();
    Some(format!("--settings={}", json!({ "hooks": hooks })))
}

/// Writes down in a configuration of Claude Code what it asks at its first start, and that it trusts a folder.
pub(crate) fn know(config: &Path, trusted: &Path) {
    let known = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "customApiKeyResponses": { "approved": [&KEY[KEY.len() - 20..]], "rejected": [] },
        "projects": { trusted.to_string_lossy(): { "hasTrustDialogAccepted": true } },
    });
    std::fs::write(config.join(".claude.json"), known.to_string()).expect("written");
}

pub(crate) fn prepare<'a>(command: &'a mut Command, model: Option<&str>) -> &'a mut Command {
    command.env("TERM", "xterm-256color").env("COOP_SIM_SCENARIO", "plain");
    if let Some(url) = model {
        command.envs([
            ("ANTHROPIC_API_KEY", KEY),
            ("ANTHROPIC_BASE_URL", url),
            // A model with a known price: newer versions would take newer models.
            ("ANTHROPIC_MODEL", "claude-opus-4-8"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "3"),
            ("http_proxy", url),
            ("https_proxy", url),
            ("NO_PROXY", "127.0.0.1"),
        ]);
    }
    command
}

/// Follows the events from the first on.
pub(crate) fn follow(socket: &Path) -> Receiver<Value> {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.write_all(b"GET /api/v1/events?after=0 HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it is open");
    let (sender, events) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if let Some(event) = line.strip_prefix("data: ").and_then(|data| serde_json::from_str(data).ok())
                && sender.send(event).is_err()
            {
                return;
            }
        }
    });
    events
}
