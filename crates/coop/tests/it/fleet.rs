//! Agents in sidecars of their own, reached through the fleet's adapter.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use coop_api::{AgentId, AgentState, Answer, ErrorCode, EventBody, Lifecycle, Seq};
use coop_fleet::adapter::{
    AgentAdapter, AgentAdapterError, AgentConfig, AgentReconnectConfig, FakeAgentAdapter, SidecarAdapter, conformance,
};
use coop_fleet::claims::{Claims, Holder};
use coop_fleet::definition::{Prime, Start};
use coop_fleet::engine::{Input, StopMode};
use coop_fleet::launcher::RunOwner;
use coop_fleet::{Fact, ProcessIdentity};
use rustix::process::{Pid, Signal, getsid, kill_process};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::tool::{COOP, LIMIT};

/// A state folder with one agent in it, and what is heard of it. Its sidecar is ended with it.
struct Lab {
    home: tempfile::TempDir,
    adapter: SidecarAdapter,
    sender: mpsc::Sender<Fact>,
    facts: mpsc::Receiver<Fact>,
    past: Vec<Fact>,
}

fn agent() -> AgentId {
    AgentId("fixer".to_owned())
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(LIMIT * 2, test).await.expect("it ends in time");
    });
}

impl Lab {
    fn new() -> Self {
        let home = tempfile::Builder::new().prefix("coop-fleet-").tempdir().expect("a folder");
        fs::create_dir(home.path().join("work")).expect("made");
        let (sender, facts) = mpsc::channel(1024);
        Self { adapter: adapter(home.path()), home, sender, facts, past: Vec::new() }
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("agents/fixer")
    }

    fn config(&self, args: &[&str]) -> AgentConfig {
        let home = self.home.path().to_str().expect("UTF-8").to_owned();
        let variables =
            [("COOP_SIM_SCENARIO", "plain"), ("HOME", &home), ("XDG_RUNTIME_DIR", &home), ("XDG_STATE_HOME", &home)];
        AgentConfig {
            agent: agent(),
            driver: "claude".to_owned(),
            command: [&[COOP, "sim", "claude"], args].concat().into_iter().map(str::to_owned).collect(),
            folder: self.home.path().join("work"),
            env: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
            runtime: None,
            settings: None,
            isolate: true,
            trust: false,
            permission_mode: None,
            ask_first: false,
            stop: StopMode::Allow,
            ask_user: false,
            start: Start::default(),
            resume: None,
            record: None,
            sandbox: None,
            asks_before: 0,
            run_owner: RunOwner::Fleet,
        }
    }

    async fn spawn(&self, config: AgentConfig) -> String {
        self.adapter.spawn(config, self.sender.clone()).await.expect("it starts").sidecar
    }

    async fn next(&mut self, what: &str) -> Fact {
        let next = tokio::time::timeout(LIMIT, self.facts.recv()).await;
        let Ok(Some(fact)) = next else { panic!("{what} never came; before:\n{:#?}", self.past) };
        self.past.push(fact.clone());
        fact
    }

    /// Waits for an input.
    async fn until(&mut self, what: &str, is_it: impl Fn(&Input) -> bool) -> Input {
        loop {
            if let Some(input) = self.next(what).await.input.filter(&is_it) {
                return input;
            }
        }
    }

    async fn idle(&mut self) {
        self.until("idleness", |input| matches!(input, Input::Idle { .. })).await;
    }

    async fn gone(&mut self) -> Input {
        self.until("the end", |input| matches!(input, Input::Gone { .. })).await
    }

    /// Waits for what comes after an end: nothing.
    async fn over(mut self) {
        let (sender, _) = mpsc::channel(1);
        self.sender = sender;
        while let Ok(Some(fact)) = tokio::time::timeout(LIMIT, self.facts.recv()).await {
            self.past.push(fact);
        }
        let ends = self.past.iter().filter(|fact| matches!(fact.input, Some(Input::Gone { .. }))).count();
        assert_eq!(ends, 1, "{:#?}", self.past);
    }

    /// Asks the sidecar for something that no adapter does.
    async fn post(&self, path: &'static str) {
        let stream = UnixStream::connect(self.folder().join("coop.sock")).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let asked = move || crate::tool::request(stream, "POST", path, "", "");
        let (status, body) = tokio::task::spawn_blocking(asked).await.expect("it ends");
        assert_eq!(status, 200, "{body}");
    }

    fn sidecar(&self) -> Option<Pid> {
        let kept: Value = serde_json::from_str(&fs::read_to_string(self.folder().join("sidecar.json")).ok()?).ok()?;
        Pid::from_raw(i32::try_from(kept["pid"].as_i64()?).ok()?)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A sidecar outlives who started it; here nobody will ever look for it again.
        let lives = |pid: &Pid| {
            fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
                .is_ok_and(|line| contains(&line, self.home.path()))
        };
        if let Some(pid) = self.sidecar().filter(lives) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn contains(line: &[u8], path: &Path) -> bool {
    String::from_utf8_lossy(line).contains(path.to_str().expect("UTF-8"))
}

/// What the daemon finds the agent again by, with what its store has of its sidecar.
fn found(known: Option<(String, Seq)>) -> AgentReconnectConfig {
    AgentReconnectConfig { agent: agent(), known, resumed: false, run_owner: RunOwner::Fleet }
}

fn adapter(state: &Path) -> SidecarAdapter {
    SidecarAdapter::local(Path::new(COOP), state)
}

/// Whatever decides that an agent goes on, a plan for its death among them, comes to this.
#[test]
fn an_agent_does_not_go_on_with_a_conversation_that_a_person_has_open() {
    run(async {
        let lab = Lab::new();
        let claims = Claims::default();
        let adapter = lab.adapter.clone().heeding(claims.clone());
        let since = std::time::SystemTime::now();
        let person = Holder::Person { program: "claude".to_owned(), pid: 7, since };
        let _claim = claims.take("x", person).expect("nobody has it");
        let config = AgentConfig { resume: Some("x".to_owned()), ..lab.config(&[]) };
        let failed = adapter.spawn(config, lab.sender.clone()).await.expect_err("it is open");
        assert!(failed.to_string().contains("is open in a person's own claude (process 7"), "{failed}");
        assert!(!lab.folder().exists(), "nothing was begun");
    });
}

#[test]
fn the_local_adapter_conforms() {
    run(async {
        let lab = Lab::new();
        conformance::life(&lab.adapter, lab.config(&[])).await.expect("it conforms");
    });
}

#[test]
fn the_table_of_events_holds_for_both_adapters() {
    for stop in [StopMode::Allow, StopMode::Gate, StopMode::Auto] {
        run(async move {
            let lab = Lab::new();
            let config = AgentConfig { stop, ..lab.config(&[]) };
            let fake = FakeAgentAdapter::new();
            fake.tell_stops();
            conformance::table(&fake, config.clone()).await.unwrap_or_else(|wrong| panic!("{stop:?}, fake: {wrong}"));
            conformance::table(&lab.adapter, config).await.unwrap_or_else(|wrong| panic!("{stop:?}: {wrong}"));
        });
    }
}

#[test]
fn a_spawn_makes_the_folder_the_file_and_a_session_of_its_own() {
    run(async {
        let mut lab = Lab::new();
        fs::create_dir(lab.home.path().join("work/.claude")).expect("made");
        fs::write(lab.home.path().join("work/.claude/settings.json"), r#"{"model":"opus"}"#).expect("written");
        let resume = Some(Prime { text: Some("again".to_owned()), shell: Vec::new() });
        let always = Prime { text: Some("first".to_owned()), shell: Vec::new() };
        let start = Start { always, resume, ..Start::default() };
        let settings = Some(serde_json::json!({ "theme": "dark" }));
        let config = AgentConfig { start, settings, stop: StopMode::Gate, ask_user: true, ..lab.config(&[]) };
        lab.spawn(config).await;
        lab.idle().await;
        let text = fs::read_to_string(lab.folder().join("agent-config.json")).expect("it is there");
        let expected = serde_json::json!({
            "settings": { "theme": "dark" },
            "stop": { "mode": "gate", "if_possible": true, "escalate": true },
            "start": { "text": "first", "resume": { "text": "again" } },
            "session": lab.folder().join("session.json")
        });
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), expected);
        let pid = lab.sidecar().expect("it is known");
        assert_eq!(getsid(Some(pid)).expect("it lives"), pid, "it leads a session of its own");
        assert!(lab.folder().join("coop.log").exists());
        // The gate that was asked for holds the agent, and is let go through the adapter.
        lab.adapter.send(&agent(), "[[text:one]]").await.expect("sent");
        lab.until("that it is held", |input| *input == Input::StopBlocked { reason: None }).await;
        lab.adapter.resolve_stop(&agent()).await;
        lab.until("that it may", |input| *input == Input::StopAllowed).await;
        lab.idle().await;
        lab.adapter.kill(&agent()).await.expect("killed");
        lab.gone().await;
        lab.over().await;
    });
}

#[test]
fn a_spawn_that_fails_says_why_in_the_sidecars_words() {
    run(async {
        let lab = Lab::new();
        let spawn = async |config: AgentConfig| match lab.adapter.spawn(config, lab.sender.clone()).await {
            Err(AgentAdapterError::SpawnFailed { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        let why = spawn(AgentConfig { command: vec!["/no/such/claude".to_owned()], ..lab.config(&[]) }).await;
        assert!(why.contains("/no/such/claude"), "{why}");
        let why = spawn(AgentConfig { driver: "nonsense".to_owned(), ..lab.config(&[]) }).await;
        assert!(!why.is_empty() && !why.contains("/no/such/claude"), "the reason is of this run: {why}");
        let why = spawn(AgentConfig { agent: AgentId("../x".to_owned()), ..lab.config(&[]) }).await;
        assert!(why.contains("cannot be the name of a folder"), "{why}");
        assert!(!lab.adapter.is_alive(&agent()).await);
        // After all that it can still be started.
        lab.spawn(lab.config(&[])).await;
        lab.adapter.kill(&agent()).await.expect("killed");
    });
}

#[test]
fn an_agents_own_end_is_told_once_with_its_exit_code_also_to_who_comes_late() {
    run(async {
        let mut lab = Lab::new();
        let sidecar = lab.spawn(lab.config(&[])).await;
        lab.idle().await;
        let known = lab.past.last().and_then(|fact| fact.told.clone());
        // As after a restart: an adapter that has never seen the agent.
        let (sender, mut facts) = mpsc::channel(1024);
        lab.adapter.send(&agent(), "[[exit:3]]").await.ok();
        assert_eq!(lab.gone().await, Input::Gone { code: Some(3), signal: None });
        assert!(!lab.adapter.is_alive(&agent()).await);
        let later = adapter(lab.home.path());
        let handle = later.reconnect(found(known), sender).await.expect("its sidecar has stayed");
        assert_eq!(handle.sidecar, sidecar);
        let mut heard = Vec::new();
        while let Ok(Some(fact)) = tokio::time::timeout(LIMIT, facts.recv()).await {
            heard.push(fact);
        }
        let ends: Vec<_> = heard
            .iter()
            .filter_map(|fact| fact.input.clone())
            .filter(|input| matches!(input, Input::Gone { .. }))
            .collect();
        assert_eq!(ends, [Input::Gone { code: Some(3), signal: None }], "{heard:#?}");
        // Then it is let go, and with it its sidecar.
        later.kill(&agent()).await.expect("let go");
        assert!(UnixStream::connect(lab.folder().join("coop.sock")).is_err());
        lab.over().await;
    });
}

#[test]
fn a_sidecar_outlives_its_adapter_and_is_followed_from_the_last_number() {
    run(async {
        let mut lab = Lab::new();
        lab.spawn(lab.config(&[])).await;
        lab.idle().await;
        lab.adapter.send(&agent(), "[[text:one]]").await.expect("sent");
        lab.idle().await;
        let known = lab.past.iter().rev().find_map(|fact| fact.told.clone());
        let count = lab.past.len() as u64;
        assert_eq!(known.as_ref().map(|(_, seq)| seq.0 + 1), Some(count), "no number is missing");
        // The first adapter hears no more; what happens meanwhile is told to the next.
        let (sender, facts) = mpsc::channel(1024);
        lab.facts = facts;
        lab.adapter.send(&agent(), "[[bash:touch x]]").await.expect("sent");
        let next = adapter(lab.home.path());
        next.reconnect(found(known.clone()), sender).await.expect("it runs");
        let ask = match lab.until("the ask", |input| matches!(input, Input::Prompt { .. })).await {
            Input::Prompt { ask } => ask,
            other => panic!("{other:?}"),
        };
        let refused = next.send(&agent(), "hello").await;
        assert!(
            matches!(&refused, Err(AgentAdapterError::Refused(error)) if error.code == ErrorCode::AgentBusy),
            "{refused:?}"
        );
        let no = Answer { ask: Some(ask.id), accept: Some(false), ..Answer::default() };
        next.respond(&agent(), &no).await.expect("answered");
        lab.idle().await;
        assert!(!lab.home.path().join("work/x").exists());
        let numbers: Vec<_> = lab.past.iter().filter_map(|fact| Some(fact.told.as_ref()?.1.0)).collect();
        let mut once: Vec<_> = numbers.iter().copied().filter(|number| *number > 0).collect();
        once.sort_unstable();
        assert_eq!(once, (1..=once.len() as u64).collect::<Vec<_>>());
        // A second sidecar for the same agent cannot be, whoever asks.
        let (sender, _facts) = mpsc::channel(1024);
        let second = adapter(lab.home.path()).spawn(lab.config(&[]), sender).await;
        assert_eq!(second, Err(AgentAdapterError::Exists(agent())));
        next.kill(&agent()).await.expect("killed");
        lab.gone().await;
    });
}

#[test]
fn a_sidecar_that_is_killed_is_gone_once_and_nobody_invents_a_code() {
    run(async {
        let mut lab = Lab::new();
        lab.spawn(lab.config(&[])).await;
        lab.idle().await;
        let known = lab.past.last().and_then(|fact| fact.told.clone());
        kill_process(lab.sidecar().expect("known"), Signal::KILL).expect("killed");
        assert_eq!(lab.gone().await, Input::Gone { code: None, signal: None });
        let state = lab.adapter.get_state(&agent()).await;
        assert_eq!(state, Err(AgentAdapterError::NotFound(agent())));
        // Who looks for it later is told the same, under the same number.
        let (sender, mut facts) = mpsc::channel(1024);
        let later = adapter(lab.home.path()).reconnect(found(known), sender).await;
        assert_eq!(later, Err(AgentAdapterError::NotFound(agent())));
        let told = facts.recv().await.expect("it is told");
        assert_eq!(Some(&told), lab.past.last());
        lab.over().await;
    });
}

#[test]
fn a_socket_that_is_deleted_is_not_a_death() {
    run(async {
        let mut lab = Lab::new();
        lab.spawn(lab.config(&[])).await;
        lab.idle().await;
        fs::remove_file(lab.folder().join("coop.sock")).expect("removed");
        // The connection that is there goes on; only a new one cannot be made.
        let known = lab.past.iter().rev().find_map(|fact| fact.told.clone());
        let (sender, facts) = mpsc::channel(1024);
        lab.facts = facts;
        let next = adapter(lab.home.path());
        next.reconnect(found(known), sender).await.expect("its process lives");
        lab.until("that it cannot be reached", |input| matches!(input, Input::Unreachable { .. })).await;
        assert!(next.is_alive(&agent()).await);
        let unreachable = next.get_state(&agent()).await;
        assert!(matches!(unreachable, Err(AgentAdapterError::Unreachable { .. })), "{unreachable:?}");
        next.kill(&agent()).await.expect("killed all the same");
        lab.gone().await;
    });
}

/// An agent can write to its folder: `sidecar.json` and a socket there make no process its sidecar.
#[test]
fn what_an_agent_writes_to_its_folder_names_no_sidecar() {
    run(async {
        let mut lab = Lab::new();
        lab.spawn(lab.config(&[])).await;
        lab.idle().await;
        let known = lab.past.last().and_then(|fact| fact.told.clone());
        kill_process(lab.sidecar().expect("known"), Signal::KILL).expect("killed");
        lab.gone().await;
        let own = ProcessIdentity::of(std::process::id()).expect("it runs");
        fs::write(lab.folder().join("sidecar.json"), serde_json::to_string(&own).expect("JSON")).expect("written");
        fs::remove_file(lab.folder().join("coop.sock")).ok();
        let _listener = tokio::net::UnixListener::bind(lab.folder().join("coop.sock")).expect("bound");
        for known in [known, None] {
            let (sender, _facts) = mpsc::channel(16);
            let later = adapter(lab.home.path());
            let gone = later.reconnect(found(known.clone()), sender).await;
            assert_eq!(gone, Err(AgentAdapterError::NotFound(agent())), "{known:?}");
            assert!(!later.is_alive(&agent()).await);
            assert_eq!(later.process(&agent()), None);
        }
    });
}

/// An agent can put a socket of its own in the place of its sidecar's, and speak for it.
#[test]
fn another_process_on_a_sidecars_socket_is_not_heard() {
    run(async {
        let mut lab = Lab::new();
        lab.spawn(lab.config(&[])).await;
        lab.idle().await;
        let known = lab.past.last().and_then(|fact| fact.told.clone());
        fs::remove_file(lab.folder().join("coop.sock")).expect("removed");
        let listener = tokio::net::UnixListener::bind(lab.folder().join("coop.sock")).expect("bound");
        for known in [known, None] {
            let (sender, _facts) = mpsc::channel(16);
            let later = adapter(lab.home.path());
            later.reconnect(found(known.clone()), sender).await.expect("its sidecar lives");
            let refused = later.send(&agent(), "hello").await;
            let Err(AgentAdapterError::Unreachable { why, .. }) = refused else { panic!("{known:?}: {refused:?}") };
            assert!(why.contains("another process"), "{why}");
        }
        let (mut stream, _) = listener.accept().await.expect("it was tried");
        let mut heard = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut heard).await.expect("it is closed");
        assert_eq!(heard, b"", "nothing is said to it");
        lab.adapter.kill(&agent()).await.expect("killed");
        lab.gone().await;
    });
}

#[test]
fn a_child_that_is_restarted_in_its_sidecar_is_not_gone() {
    run(async {
        let mut lab = Lab::new();
        lab.spawn(lab.config(&[])).await;
        lab.idle().await;
        lab.post("/api/v1/restart").await;
        loop {
            let fact = lab.next("the second child").await;
            assert!(!matches!(fact.input, Some(Input::Gone { .. })), "{fact:?}");
            let body = fact.event.map(|event| event.body);
            if matches!(body, Some(EventBody::Lifecycle(Lifecycle::Started { .. }))) && has_exited(&lab.past) {
                break;
            }
        }
        lab.idle().await;
        assert_eq!(lab.adapter.get_state(&agent()).await, Ok(AgentState::Idle));
        lab.adapter.kill(&agent()).await.expect("killed");
        lab.gone().await;
        lab.over().await;
    });
}

/// The engine leaves an agent to whoever interrupted it; so it has to hear of that before it hears that it is idle.
#[test]
fn an_interrupt_is_told_before_the_idleness_that_follows() {
    run(async {
        let mut lab = Lab::new();
        lab.spawn(lab.config(&[])).await;
        lab.idle().await;
        lab.adapter.send(&agent(), "[[hang]]").await.expect("sent");
        lab.until("work", |input| *input == Input::Working).await;
        lab.post("/api/v1/agent/interrupt").await;
        let is_told = |input: &Input| matches!(input, Input::Interrupted | Input::Idle { .. });
        assert_eq!(lab.until("the interrupt", is_told).await, Input::Interrupted);
        lab.idle().await;
        lab.adapter.kill(&agent()).await.expect("killed");
    });
}

fn has_exited(past: &[Fact]) -> bool {
    let is_exit = |fact: &Fact| {
        let body = fact.event.as_ref().map(|event| &event.body);
        matches!(body, Some(EventBody::Lifecycle(Lifecycle::Exited { .. })))
    };
    past.iter().any(is_exit)
}

/// A daemon that was put back to an earlier version finds sidecars that say what it does not know.
#[test]
fn a_sidecar_of_a_later_protocol_is_left_alone() {
    run(async {
        let lab = Lab::new();
        fs::create_dir_all(lab.folder()).expect("made");
        let listener = tokio::net::UnixListener::bind(lab.folder().join("coop.sock")).expect("bound");
        let later = coop_api::PROTOCOL + 1;
        tokio::spawn(async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            while let Ok((mut stream, _)) = listener.accept().await {
                let body = format!("{{\"protocol\":{later},\"version\":\"9.1\",\"status\":\"running\"}}");
                let length = body.len();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let (sender, mut facts) = mpsc::channel(16);
        let sidecar = ProcessIdentity::of(std::process::id()).expect("it runs").name();
        let refused = lab.adapter.reconnect(found(Some((sidecar, Seq(0)))), sender).await;
        let Err(AgentAdapterError::Unreachable { why, .. }) = refused else { panic!("{refused:?}") };
        assert!(why.contains("coop 9.1") && why.contains(&format!("protocol {later}")), "{why}");
        let sent = lab.adapter.send(&agent(), "hello").await;
        assert!(matches!(sent, Err(AgentAdapterError::Unreachable { .. })), "{sent:?}");
        assert!(lab.adapter.is_alive(&agent()).await, "it is there all the same");
        assert!(facts.recv().await.is_none(), "nothing is made of what it says");
    });
}
