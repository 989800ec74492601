//! An agent in memory, and a server for it on a real port.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use coop_api::{
    AgentId, AgentReport, AgentState, Agents, Answered, Ask, AskChannel, AskId, AskKind, Chunk, Cursor, CursorShape,
    Dump, Epoch, Error, Event, EventBody, EventPage, Evidence, EvidenceSource, Explanation, Feed, Health, Heard,
    History, Input, Lifecycle, Line, LockAction, Memo, Modes, Nudge, NudgeId, Offset, PermissionMode, ProcessState,
    Pulse, Read, Receipt, Reply, Request, Run, Screen, Seq, Size, StateChange, Status, Style, Tap, Token, Usage,
    UsageReport, When, WriterId, Written,
};
use coop_server::{Config, Listener, Server, Surface};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Ten times and more what any of these takes on a slow machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Remembers what it was asked and answers as told.
#[derive(Clone)]
pub(crate) struct Fake {
    state: Arc<State>,
    feed: Feed,
}

struct State {
    asked: Mutex<Vec<Request>>,
    failure: Mutex<Option<Error>>,
    events: Mutex<Vec<Event>>,
    output: Arc<Output>,
    pulse: watch::Sender<Pulse>,
    holder: Mutex<Option<WriterId>>,
}

#[derive(Default)]
struct Output(Mutex<(Vec<Arc<Chunk>>, u64)>);

impl Tap for Output {
    fn read(&self, from: Offset) -> Read {
        let kept = self.0.lock().expect("no test panics while it writes");
        let start = kept.0.first().map_or(kept.1, |chunk| chunk.offset.0);
        match kept.0.iter().find(|chunk| chunk.end() > from) {
            _ if from.0 < start => Read::Gap { from, to: Offset(start) },
            Some(chunk) => Read::Chunk { chunk: Arc::clone(chunk), skip: (from.0 - chunk.offset.0) as usize },
            None => Read::UpToDate,
        }
    }

    fn range(&self) -> (Offset, Offset) {
        let kept = self.0.lock().expect("no test panics while it writes");
        (kept.0.first().map_or(Offset(kept.1), |chunk| chunk.offset), Offset(kept.1))
    }
}

impl Fake {
    pub(crate) fn new() -> Self {
        let output = Arc::new(Output::default());
        let pulse = Pulse { written: Offset(0), screen: Seq(42), events: Seq(0), size: Size::DEFAULT, ended: false };
        let (pulse, heard) = watch::channel(pulse);
        let tap: Arc<dyn Tap> = Arc::clone(&output) as _;
        let state = State {
            asked: Mutex::default(),
            failure: Mutex::default(),
            events: Mutex::default(),
            output,
            pulse,
            holder: Mutex::default(),
        };
        Self { state: Arc::new(state), feed: Feed { pulse: heard, tap } }
    }

    /// Lets every request but those of health and feed fail like this.
    pub(crate) fn fail(&self, error: Option<Error>) {
        *self.state.failure.lock().expect("not poisoned") = error;
    }

    pub(crate) fn asked(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.asked.lock().expect("not poisoned"))
    }

    pub(crate) fn write(&self, data: &[u8]) {
        let end = {
            let mut kept = self.state.output.0.lock().expect("not poisoned");
            let chunk = Chunk::new(Offset(kept.1), Bytes::copy_from_slice(data));
            kept.1 = chunk.end().0;
            kept.0.push(Arc::new(chunk));
            Offset(kept.1)
        };
        self.state.pulse.send_modify(|pulse| {
            pulse.written = end;
            pulse.screen = pulse.screen.next();
        });
    }

    /// Joins all chunks to one.
    pub(crate) fn join(&self) {
        let mut kept = self.state.output.0.lock().expect("not poisoned");
        let all: Vec<u8> = kept.0.iter().flat_map(|chunk| chunk.data.iter().copied()).collect();
        kept.0 = vec![Arc::new(Chunk::new(Offset(kept.1 - all.len() as u64), all.into()))];
    }

    /// Forgets the oldest chunk.
    pub(crate) fn forget(&self) {
        self.state.output.0.lock().expect("not poisoned").0.remove(0);
    }

    pub(crate) fn happen(&self, body: EventBody) {
        let seq = {
            let mut events = self.state.events.lock().expect("not poisoned");
            let seq = self.state.pulse.borrow().events.next();
            let ts = "2026-01-01T00:00:00.000Z".to_owned();
            let offset = self.state.output.range().1;
            events.push(Event { seq, id: format!("fake-{seq}"), ts, agent: id(), run: Epoch(1), offset, body });
            seq
        };
        self.state.pulse.send_modify(|pulse| pulse.events = seq);
    }

    /// Forgets the oldest event.
    pub(crate) fn forget_event(&self) {
        self.state.events.lock().expect("not poisoned").remove(0);
    }

    pub(crate) fn exit(&self, code: i32) {
        self.happen(EventBody::State(Box::new(StateChange {
            prev: AgentState::Unknown,
            next: AgentState::Exited { code: Some(code), signal: None },
            screen_seq: Seq(42),
            evidence: Evidence { source: EvidenceSource::Process, detail: "exited".into() },
            ask: None,
            last_message: None,
        })));
        self.state.pulse.send_modify(|pulse| pulse.ended = true);
        self.happen(EventBody::Lifecycle(Lifecycle::Exited { code: Some(code), signal: None }));
    }

    /// Starts another child, as after a restart.
    pub(crate) fn start_again(&self, pid: u32) {
        self.state.pulse.send_modify(|pulse| pulse.ended = false);
        self.happen(EventBody::Lifecycle(Lifecycle::Started { pid }));
    }

    fn answer(&self, request: Request) -> Result<Reply, Error> {
        Ok(match request {
            Request::Health => Reply::Health(Health {
                state: ProcessState::Running,
                pid: Some(7),
                uptime: Duration::from_secs(3),
                agent: "unknown".into(),
                size: Size::DEFAULT,
            }),
            Request::Status => Reply::Status(Status {
                state: ProcessState::Running,
                pid: Some(7),
                uptime: Duration::from_secs(3),
                exit_code: None,
                exit_signal: None,
                screen_seq: Seq(42),
                bytes_read: 10,
                bytes_written: 20,
                epoch: Epoch(1),
            }),
            Request::Screen => Reply::Screen(Arc::new(screen())),
            Request::History(count) => {
                Reply::History(History { lines: vec![line("older"); count.min(2)], screen: Arc::new(screen()) })
            }
            Request::Dump => {
                let offset = self.state.output.range().1;
                Reply::Dump(Dump { data: Bytes::from_static(b"\x1bcdump"), offset, size: Size::DEFAULT })
            }
            Request::Events(after) => {
                let events = self.state.events.lock().expect("not poisoned");
                let oldest = events.first().map_or(after.next(), |event| event.seq);
                let lagged = (after.next() < oldest).then(|| (after.next(), Seq(oldest.0 - 1)));
                let events = events.iter().filter(|event| event.seq > after).cloned().collect();
                Reply::Events(EventPage { lagged, events })
            }
            Request::Write { writer, input } => {
                let holder = *self.state.holder.lock().expect("not poisoned");
                if holder.is_some_and(|holder| holder != writer) {
                    return Err(Error::new(coop_api::ErrorCode::WriterBusy, "held"));
                }
                let bytes_written = match input {
                    Input::Bytes(bytes) => bytes.len(),
                    Input::Keys(keys) => keys.len(),
                    Input::Paste { text, enter } => text.len() + usize::from(enter),
                } as u64;
                Reply::Written(Written { bytes_written, queued: 0 })
            }
            Request::Lock { writer, action } => {
                let mut holder = self.state.holder.lock().expect("not poisoned");
                match action {
                    LockAction::Acquire => *holder = Some(writer),
                    LockAction::Release if *holder == Some(writer) => *holder = None,
                    LockAction::Release => {}
                }
                Reply::Done
            }
            Request::AgentState => Reply::AgentState(Box::new(AgentReport {
                agent: "unknown".into(),
                state: AgentState::Unknown,
                since_seq: Seq(1),
                since: "2026-01-01T00:00:00.000Z".into(),
                screen_seq: Seq(42),
                evidence: Evidence { source: EvidenceSource::None, detail: "no driver is active".into() },
                idle_grace_remaining: None,
                ask: None,
                session_id: Some("s-1".into()),
                last_message: None,
                queue: vec![nudge()],
                stop_held: true,
                runtime: "pty",
                permission_mode: Some(PermissionMode::Auto),
                capabilities: Vec::new(),
                quiet_for: std::time::Duration::ZERO,
            })),
            Request::Nudge { nudge, .. } => Reply::Receipt(receipt(nudge.message != UNCONFIRMED)),
            Request::Respond { .. } => Reply::Answered(Answered {
                delivered: true,
                ask: AskId("ask-1".into()),
                prompt_type: AskKind::Permission,
                via: "hook".into(),
                confirmed_by: None,
            }),
            Request::Explain => Reply::Explanation(Box::new(Explanation {
                state: AgentState::Idle,
                permission_mode: Some(PermissionMode::Auto),
                evidence: Evidence { source: EvidenceSource::Hook, detail: "Stop".into() },
                signals: vec![Heard {
                    ts: "2026-01-01T00:00:00.000Z".into(),
                    source: EvidenceSource::Hook,
                    detail: "Stop".into(),
                    meaning: "idle".into(),
                    verdict: "accepted".into(),
                }],
                missing_signals: Vec::new(),
            })),
            Request::Asks => Reply::Asks(vec![ask()]),
            Request::Hook(call) => Reply::Hook(Some(serde_json::json!({ "heard": call.event }))),
            Request::Transcript => Reply::Transcript(Bytes::from_static(b"{\"type\":\"user\"}\n")),
            Request::Usage => Reply::Usage(UsageReport { turn: Usage::none(), total: Usage::none(), requests: 2 }),
            Request::CancelNudge(_) | Request::Interrupt { .. } | Request::ResolveStop(_) | Request::Configure(_) => {
                Reply::Done
            }
            Request::Resize { .. } | Request::Signal(_) | Request::Restart | Request::Shutdown => Reply::Done,
        })
    }
}

/// A message that the agent never shows to have taken.
pub(crate) const UNCONFIRMED: &str = "/clear";

fn receipt(delivered: bool) -> Receipt {
    Receipt {
        id: NudgeId("nudge-1".into()),
        delivered,
        queued: false,
        confirmed_by: delivered.then(|| "a hook".into()),
        attempts: 1,
        ms: 5,
        state_before: "waiting_for_input".into(),
        reason: (!delivered).then(|| "unconfirmed".into()),
    }
}

pub(crate) fn ask() -> Ask {
    Ask {
        id: AskId("ask-1".into()),
        kind: AskKind::Permission,
        tool: Some("Bash".into()),
        input: Some(serde_json::json!({ "command": "ls" })),
        preview: "ls".into(),
        questions: Vec::new(),
        options: Vec::new(),
        opened: "2026-01-01T00:00:00.000Z".into(),
        channel: AskChannel::Structured,
        screen_lines: Vec::new(),
    }
}

fn nudge() -> Nudge {
    Nudge {
        id: NudgeId("nudge-2".into()),
        preview: "later".into(),
        bytes: 5,
        when: When::Idle,
        since: "2026-01-01T00:00:00.000Z".into(),
        under_way: false,
    }
}

fn id() -> AgentId {
    AgentId("fake".into())
}

pub(crate) fn line(text: &str) -> Line {
    let run = Run { bytes: text.len() as u32, cells: text.len() as u16, style: Style::default() };
    Line { text: text.into(), runs: vec![run], wrapped: false, seq: Seq(42) }
}

fn screen() -> Screen {
    Screen {
        seq: Seq(42),
        offset: Offset(10),
        size: Size::new(20, 2).expect("within bounds"),
        lines: vec![Arc::new(line("$ secret")), Arc::new(Line::default())],
        cursor: Cursor {
            row: 0,
            col: 8,
            visible: true,
            shape: CursorShape::Block,
            blinking: false,
            pending_wrap: false,
        },
        modes: Modes::default(),
        title: Arc::from("title"),
        title_count: 1,
        cwd: None,
        scrollback: 0,
        plain: Memo::default(),
        ansi: Memo::default(),
        styled: Memo::default(),
        message: Memo::default(),
    }
}

impl Agents for Fake {
    fn list(&self) -> Vec<AgentId> {
        vec![id()]
    }

    async fn call(&self, _: &AgentId, request: Request) -> Result<Reply, Error> {
        let keeps_going = matches!(request, Request::Lock { action: LockAction::Release, .. } | Request::Events(_));
        let failure = self.state.failure.lock().expect("not poisoned").clone();
        self.state.asked.lock().expect("not poisoned").push(request.clone());
        match failure {
            Some(error) if !keeps_going => Err(error),
            _ => self.answer(request),
        }
    }

    fn feed(&self, _: &AgentId) -> Result<Feed, Error> {
        Ok(self.feed.clone())
    }
}

/// A server on a port of its own.
pub(crate) struct Live {
    pub(crate) fake: Fake,
    pub(crate) address: String,
    pub(crate) server: Server<Fake>,
}

impl Live {
    pub(crate) async fn start(token: Option<&str>) -> Self {
        let token = token.map(|token| Token::new(token).expect("a token"));
        Self::with(Config { token, ..Config::default() }).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let fake = Fake::new();
        let server = Server::new(fake.clone(), config);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        server.listen(Listener::Tcp(listener), Surface::Api);
        Self { fake, address, server }
    }
}
