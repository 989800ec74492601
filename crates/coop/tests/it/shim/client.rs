//! The fleet's client: our own shims, and servers that do what no shim should.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use coop_api::{AgentId, AgentState, Answer, AskId, AskKind, ErrorCode, Seq};
use coop_fleet::Fact;
use coop_fleet::ProcessIdentity;
use coop_fleet::adapter::{AgentAdapter, AgentAdapterError, AgentConfig, AgentReconnectConfig};
use coop_fleet::definition::Start;
use coop_fleet::engine::{Input, StopMode};
use coop_fleet::launcher::RunOwner;
use coop_fleet::shim::{LocalHttp, Ports};
use futures_util::SinkExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use crate::tool::{COOP, LIMIT};

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT * 2, test).await.expect("it ends in time") });
}

fn agent() -> AgentId {
    AgentId("a1".to_owned())
}

/// A state folder with one agent in it, and what is heard of it. Its shim is ended with it.
struct Lab {
    home: tempfile::TempDir,
    adapter: LocalHttp,
    facts: mpsc::Receiver<Fact>,
    sender: Option<mpsc::Sender<Fact>>,
    past: Vec<Fact>,
}

impl Lab {
    fn new(ports: Ports) -> Self {
        let home = tempfile::Builder::new().prefix("coop-client-").tempdir().expect("a folder");
        fs::create_dir(home.path().join("work")).expect("made");
        let (sender, facts) = mpsc::channel(1024);
        let adapter = LocalHttp::new(home.path(), ports, Map::new());
        Self { home, adapter, facts, sender: Some(sender), past: Vec::new() }
    }

    fn config(&self, args: &[&str]) -> AgentConfig {
        let home = self.home.path().to_str().expect("UTF-8").to_owned();
        let names = ["HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "COOP_SIM_STATE"];
        let mut env: BTreeMap<_, _> = names.map(|name| (name.to_owned(), home.clone())).into();
        env.insert("COOP_SIM_SCENARIO".to_owned(), "plain".to_owned());
        AgentConfig {
            agent: agent(),
            driver: "shim".to_owned(),
            command: [&[COOP, "shim"], args].concat().into_iter().map(str::to_owned).collect(),
            folder: self.home.path().join("work"),
            env,
            runtime: None,
            settings: None,
            isolate: false,
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

    async fn spawn(&mut self, config: AgentConfig) -> String {
        let sender = self.sender.take().expect("once");
        self.adapter.spawn(config, sender).await.expect("it starts").sidecar
    }

    /// Follows the agent anew, by an adapter that knows nothing of it.
    async fn reconnect(&mut self, known: Option<(String, Seq)>) {
        let (sender, facts) = mpsc::channel(1024);
        self.adapter = LocalHttp::new(self.home.path(), Ports::Any, Map::new());
        self.facts = facts;
        let config = AgentReconnectConfig { agent: agent(), known, resumed: false, run_owner: RunOwner::Fleet };
        self.adapter.reconnect(config, sender).await.expect("it runs");
    }

    async fn until(&mut self, what: &str, is_it: impl Fn(&Input) -> bool) -> Input {
        loop {
            let next = tokio::time::timeout(LIMIT, self.facts.recv()).await;
            let Ok(Some(fact)) = next else { panic!("{what} never came; before:\n{:#?}", self.past) };
            self.past.push(fact.clone());
            if let Some(input) = fact.input.filter(&is_it) {
                return input;
            }
        }
    }

    async fn idle(&mut self) -> Option<String> {
        match self.until("idleness", |input| matches!(input, Input::Idle { .. })).await {
            Input::Idle { last_message } => last_message,
            other => panic!("{other:?}"),
        }
    }

    async fn ask(&mut self) -> AskId {
        match self.until("an ask", |input| matches!(input, Input::Prompt { .. })).await {
            Input::Prompt { ask } => ask.id,
            other => panic!("{other:?}"),
        }
    }

    /// The numbers of what was told since the agent was spawned.
    fn numbers(&self) -> Vec<u64> {
        self.past.iter().filter_map(|fact| Some(fact.told.as_ref()?.1.0)).collect()
    }

    fn last_told(&self) -> Option<(String, Seq)> {
        self.past.iter().rev().find_map(|fact| fact.told.clone())
    }

    fn shim(&self) -> Option<Pid> {
        let kept = fs::read_to_string(self.home.path().join("agents/a1/shim.json")).ok()?;
        let kept: Value = serde_json::from_str(&kept).ok()?;
        Pid::from_raw(i32::try_from(kept["identity"]["pid"].as_i64()?).ok()?)
    }

    /// Waits for what comes after an end: nothing.
    async fn over(&mut self) {
        while let Ok(Some(fact)) = tokio::time::timeout(LIMIT, self.facts.recv()).await {
            self.past.push(fact);
        }
        let ends = self.past.iter().filter(|fact| matches!(fact.input, Some(Input::Gone { .. }))).count();
        assert_eq!(ends, 1, "{:#?}", self.past);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let own = Pid::from_raw(i32::try_from(std::process::id()).unwrap_or(0));
        let is_coop = |pid: &Pid| {
            let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("\0shim\0")
        };
        if let Some(pid) = self.shim().filter(|pid| Some(*pid) != own).filter(is_coop) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

fn code(found: Result<impl std::fmt::Debug, AgentAdapterError>) -> ErrorCode {
    match found {
        Err(AgentAdapterError::Refused(error)) => error.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_shim_joins_a_fleet() {
    run(async {
        let mut lab = Lab::new(Ports::Any);
        let config = lab.config(&["--mock"]);
        lab.spawn(config.clone()).await;
        lab.until("that it was spawned", |input| *input == Input::Spawned { resumed: false }).await;
        assert_eq!(lab.idle().await, None);
        assert_eq!(lab.adapter.get_state(&agent()).await, Ok(AgentState::Idle));
        let again = lab.adapter.spawn(config, mpsc::channel(1).0).await;
        assert_eq!(again, Err(AgentAdapterError::Exists(agent())));

        lab.adapter.send(&agent(), "make a pipeline").await.expect("sent");
        lab.until("work", |input| *input == Input::Working).await;
        let ask = lab.ask().await;
        let waiting = AgentState::Waiting { ask: ask.clone(), kind: AskKind::Question };
        assert_eq!(lab.adapter.get_state(&agent()).await, Ok(waiting));
        assert_eq!(code(lab.adapter.send(&agent(), "and more").await), ErrorCode::AgentBusy);
        let third = Answer { ask: Some(ask.clone()), option: Some(3), ..Answer::default() };
        let fourth = Answer { option: Some(4), ..third.clone() };
        assert_eq!(code(lab.adapter.respond(&agent(), &fourth).await), ErrorCode::NoSuchOption);
        lab.adapter.respond(&agent(), &third).await.expect("answered");
        lab.until("the ask's end", |input| *input == Input::AskClosed { ask: ask.clone() }).await;
        assert_eq!(code(lab.adapter.respond(&agent(), &third).await), ErrorCode::NoPrompt);
        assert!(lab.idle().await.is_some());
        assert_eq!(lab.numbers(), (0..=11).collect::<Vec<_>>(), "{:#?}", lab.past);
        assert_eq!(lab.adapter.quarantine(&agent()).map(|bad| bad.count), Some(0), "what we send is right");

        // What the protocol does not carry is said to be missing.
        assert_eq!(code(lab.adapter.capture_output(&agent(), 1).await), ErrorCode::Unsupported);
        assert_eq!(code(lab.adapter.fetch_transcript(&agent()).await), ErrorCode::Unsupported);
        assert!(lab.adapter.fetch_usage(&agent()).await.is_none());

        // Who comes back hears what is new, by numbers that go on.
        let known = lab.last_told();
        lab.past.clear();
        lab.reconnect(known).await;
        lab.adapter.send(&agent(), "make another").await.expect("sent");
        lab.ask().await;
        assert_eq!(lab.numbers(), [&[0], &(12..=20).collect::<Vec<_>>()[..]].concat(), "{:#?}", lab.past);
        lab.adapter.kill(&agent()).await.expect("killed");
        lab.over().await;
        assert!(!lab.adapter.is_alive(&agent()).await);
        assert_eq!(lab.adapter.send(&agent(), "x").await, Err(AgentAdapterError::NotFound(agent())));
    });
}

#[test]
fn who_comes_back_can_answer_what_was_asked_before() {
    run(async {
        let mut lab = Lab::new(Ports::Any);
        let config = lab.config(&["--mock"]);
        lab.spawn(config).await;
        lab.adapter.send(&agent(), "make a pipeline").await.expect("sent");
        let ask = lab.ask().await;
        let known = lab.last_told();
        lab.past.clear();
        lab.reconnect(known).await;
        let third = Answer { ask: Some(ask.clone()), option: Some(3), ..Answer::default() };
        // What was said before it came back is on its way.
        while let Err(error) = lab.adapter.respond(&agent(), &third).await {
            assert_eq!(code(Err::<(), _>(error)), ErrorCode::NoPrompt);
            tokio::task::yield_now().await;
        }
        assert!(lab.idle().await.is_some());
        lab.adapter.kill(&agent()).await.expect("killed");
        lab.over().await;
    });
}

#[test]
fn an_agent_that_crashed_leaves_room_for_the_next() {
    run(async {
        let mut lab = Lab::new(Ports::Any);
        let config = lab.config(&["--agent", "acp", "--", COOP, "sim", "acp"]);
        lab.spawn(config.clone()).await;
        lab.adapter.send(&agent(), "x [[exit:3]]").await.expect("sent");
        lab.until("its end", |input| matches!(input, Input::Gone { .. })).await;
        assert!(!lab.adapter.is_alive(&agent()).await);
        lab.over().await;
        let (sender, facts) = mpsc::channel(1024);
        (lab.sender, lab.facts) = (Some(sender), facts);
        lab.past.clear();
        lab.spawn(config).await;
        lab.adapter.send(&agent(), "x [[text:Fine.]]").await.expect("sent");
        assert_eq!(lab.idle().await, None);
        assert_eq!(lab.idle().await.as_deref(), Some("Fine."));
        assert!(!lab.past.iter().any(|fact| matches!(fact.input, Some(Input::Gone { .. }))), "{:#?}", lab.past);
        lab.adapter.kill(&agent()).await.expect("killed");
        lab.over().await;
    });
}

#[test]
fn a_port_is_taken_from_the_pool() {
    run(async {
        let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = free.local_addr().expect("it has one").port();
        drop(free);
        let mut lab = Lab::new(Ports::Pool(port..=port));
        let config = lab.config(&["--mock"]);
        lab.spawn(config).await;
        let kept = fs::read_to_string(lab.home.path().join("agents/a1/shim.json")).expect("it is there");
        assert_eq!(serde_json::from_str::<Value>(&kept).expect("JSON")["port"], port);
        let second = AgentConfig { agent: AgentId("a2".to_owned()), ..lab.config(&["--mock"]) };
        let full = lab.adapter.spawn(second, mpsc::channel(1).0).await;
        assert!(
            matches!(&full, Err(AgentAdapterError::SpawnFailed { why, .. }) if why.starts_with("no port from 9100")),
            "{full:?}"
        );
        lab.adapter.kill(&agent()).await.expect("killed");
        lab.over().await;
    });
}

#[test]
fn a_shim_that_does_not_start_says_why() {
    run(async {
        let lab = Lab::new(Ports::Any);
        let spawn = async |command: &[&str]| {
            let command = command.iter().map(|word| (*word).to_owned()).collect();
            let config = AgentConfig { command, ..lab.config(&[]) };
            match lab.adapter.spawn(config, mpsc::channel(1).0).await {
                Err(AgentAdapterError::SpawnFailed { why, .. }) => why,
                other => panic!("{other:?}"),
            }
        };
        assert!(spawn(&["/nowhere/shim"]).await.contains("cannot run it"));
        assert!(spawn(&["/bin/sh", "-c", "exit 3"]).await.contains("exit status: 3"));
    });
}

#[test]
fn an_agent_whose_shim_is_killed_goes_on_in_another() {
    run(async {
        let mut lab = Lab::new(Ports::Any);
        let config = lab.config(&["--agent", "claude", "--isolate", "--", COOP, "sim", "claude"]);
        lab.spawn(config.clone()).await;
        lab.adapter.send(&agent(), "[[text:one]] [[bash:touch a.txt]]").await.expect("sent");
        let ask = lab.ask().await;
        let no = Answer { ask: Some(ask), accept: Some(false), ..Answer::default() };
        lab.adapter.respond(&agent(), &no).await.expect("answered");
        lab.idle().await;
        // The same words a second time are a second task.
        for _ in 0..2 {
            lab.adapter.send(&agent(), "[[text:two]]").await.expect("sent");
            assert_eq!(lab.idle().await.as_deref(), Some("two"));
        }
        assert!(!lab.home.path().join("work/a.txt").exists(), "what was denied was done");
        let state = lab.home.path().join("agents/a1/state.json");
        while !fs::read_to_string(&state).is_ok_and(|text| text.contains("text:two")) {
            tokio::task::yield_now().await;
        }
        kill_process(lab.shim().expect("it runs"), Signal::KILL).expect("it is ours");
        lab.over().await;

        let (sender, facts) = mpsc::channel(1024);
        (lab.sender, lab.facts) = (Some(sender), facts);
        lab.spawn(AgentConfig { resume: Some("it".to_owned()), ..config }).await;
        lab.until("that it goes on", |input| *input == Input::Spawned { resumed: true }).await;
        lab.idle().await;
        lab.past.clear();
        lab.adapter.kill(&agent()).await.expect("killed");
        lab.over().await;
    });
}

fn frame(sequence: u64, event: Value) -> Value {
    let mut event = event;
    event["agentId"] = json!("a1");
    json!({ "sourceEventId": format!("e{sequence}"), "sourceSequence": sequence, "runId": "r",
            "sourceOccurredAt": "2026-01-01T00:00:00Z", "event": event })
}

fn status(sequence: u64) -> Value {
    frame(sequence, json!({ "type": "status", "message": sequence.to_string() }))
}

/// Serves what is given for each connection in turn, and closes it; the last stays open.
async fn hostile(listener: TcpListener, connections: Vec<Vec<Message>>) {
    let mut connections = connections.into_iter().peekable();
    while let Some(messages) = connections.next() {
        // Whoever asks for something else is not answered.
        let mut socket = loop {
            let (stream, _): (TcpStream, _) = listener.accept().await.expect("a connection");
            if let Ok(socket) = tokio_tungstenite::accept_async(stream).await {
                break socket;
            }
        };
        for message in messages {
            socket.send(message).await.expect("sent");
        }
        if connections.peek().is_none() {
            std::future::pending::<()>().await;
        }
    }
}

#[test]
fn what_a_shim_does_wrong_is_counted_and_nothing_is_told_twice() {
    run(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let text = |frame: Value| Message::text(frame.to_string());
        let mut stranger = status(2);
        stranger["event"]["agentId"] = json!("somebody");
        let mut doubled = status(2);
        doubled["sourceEventId"] = json!("another name");
        let done = json!({ "type": "completion", "summary": "Done.", "artifactsProduced": [], "decisionsNeeded": [],
                           "outcome": "success" });
        let connections = vec![
            // One that is closed before anything is said.
            vec![],
            vec![
                text(status(1)),
                text(status(1)),
                Message::text("{\"sourceEventId\":"),
                Message::text("[".repeat(100_000)),
                Message::binary(vec![0xff, 0xfe]),
                text(stranger),
                text(json!({ "type": "status" })),
                text(status(2)),
                text(doubled),
            ],
            // Again from the beginning, as shims do, and something is gone.
            vec![text(status(1)), text(status(2)), text(status(5)), text(frame(6, done))],
        ];
        let server = tokio::spawn(hostile(listener, connections));
        let mut lab = Lab::new(Ports::Any);
        let identity = ProcessIdentity::of(std::process::id()).expect("we run");
        let folder: PathBuf = lab.home.path().join("agents/a1");
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join("shim.json"), json!({ "identity": identity, "port": port }).to_string())
            .expect("written");
        lab.reconnect(None).await;
        assert_eq!(lab.idle().await.as_deref(), Some("Done."));
        assert_eq!(lab.numbers(), [0, 1, 2, 5, 6]);
        let missed = Input::Missed { from: Seq(3), to: Seq(4) };
        assert_eq!(lab.past.iter().filter(|fact| fact.input == Some(missed.clone())).count(), 1, "{:#?}", lab.past);
        let bad = lab.adapter.quarantine(&agent()).expect("it is known");
        let reasons: Vec<_> = bad.kept.iter().map(|bad| bad.why.split(':').next().unwrap_or_default()).collect();
        let expected = [
            "it is not JSON",
            "it is not JSON",
            "it is not JSON",
            "it is of the agent \"somebody\"",
            ".sourceEventId is missing",
            "the number 2 of its run was there before",
        ];
        assert_eq!((bad.count, &reasons[..]), (6, &expected[..]));
        server.abort();
    });
}
