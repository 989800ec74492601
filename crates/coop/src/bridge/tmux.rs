//! The live bridge to a tmux pane, over one control mode client.
//!
//! The bridge stays with the pane that was active when it attached. A capture and the output around it come in one
//! order, so nothing is lost or doubled between them. That holds for one pane only: tmux may write a second pane's
//! output past a reply that waits for the first one's. So the other panes are paused, for this client alone.
//!
//! While the pane has our size, its output is passed on as it comes. A split window or a smaller second client can
//! give it another size; then the output would wrap and scroll at the wrong places, so the bridge shows captures.

mod client;
mod place;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

use coop_fleet::bounded;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use self::client::Client;
use self::place::Place;
use super::control::{Event, Line, PaneId, WindowId, unescape};
use super::paint::{Capture, PaneState};
use super::raw::{Size, Terminal};
use super::{BridgeError, KeySignals, Multiplexer};

/// How much input one command carries. The next is read only when tmux has taken it.
const INPUT_BATCH: usize = 1024;

/// How long captures wait for more output. They are made by a process of their own, because tmux (3.2 to 3.4 at least)
/// never frees what it captures for a control mode client.
const CAPTURE_PAUSE: Duration = Duration::from_millis(100);

const DEAD_SUBSCRIPTION: &str = "coop-dead";

/// Shows the active pane of a session until its program ends.
pub(super) async fn run(name: &str) -> Result<i32, BridgeError> {
    let terminal = Terminal::open()?;
    let mut resized = signal(SignalKind::window_change()).map_err(BridgeError::Signals)?;
    let mut keys = KeySignals::listen()?;
    let mut client = Client::attach(name).await?;
    let place = Place::find(&mut client).await?;
    let mut bridge = Bridge {
        name: name.to_owned(),
        terminal,
        client,
        pane: place.pane,
        window: place.window,
        asked: VecDeque::new(),
        view: View::Unpainted,
        shown: None,
    };
    bridge.start(&place.others).await?;

    let mut input = [0; INPUT_BATCH];
    loop {
        let next_capture = bridge.view.due();
        let step = tokio::select! {
            event = bridge.client.next() => bridge.on_event(event?).await?,
            read = bridge.terminal.read(&mut input), if !bridge.is_asked(Asked::Input) => match read? {
                0 => ControlFlow::Break(128 + SignalKind::hangup().as_raw_value()),
                read => bridge.send_input(&input[..read]).await.map(|()| GO_ON)?,
            },
            key = keys.next(), if !bridge.is_asked(Asked::Input) => bridge.send_input(key).await.map(|()| GO_ON)?,
            _ = resized.recv() => bridge.resize().await.map(|()| GO_ON)?,
            () = sleep_until(next_capture.unwrap_or_else(Instant::now)), if next_capture.is_some() => {
                bridge.capture_aside().await.map(|()| GO_ON)?
            }
        };
        if let ControlFlow::Break(code) = step {
            return Ok(code);
        }
    }
}

pub(super) use self::client::check;

type Step = ControlFlow<i32>;
const GO_ON: Step = ControlFlow::Continue(());

struct Bridge {
    name: String,
    terminal: Terminal,
    client: Client,
    pane: PaneId,
    window: WindowId,
    /// The commands whose replies are to come, oldest first.
    asked: VecDeque<Pending>,
    view: View,
    /// The pane's size when it was last captured.
    shown: Option<Size>,
}

/// How the pane gets to the terminal.
enum View {
    /// The first capture is to come; it holds all output before it.
    Unpainted,
    /// The output goes straight through.
    Live,
    /// The pane has another size than the terminal: show captures, the next one when it is due.
    Captures { due: Option<Instant> },
}

struct Pending {
    what: Asked,
    /// How many commands of the line are unanswered. A failure ends the line.
    left: usize,
    replies: Vec<Vec<Line>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Nothing we need an answer to.
    Setting,
    Input,
    Capture,
    Panes,
}

impl Bridge {
    async fn start(&mut self, others: &[PaneId]) -> Result<(), BridgeError> {
        for other in others {
            self.pause(*other).await?;
        }
        // A subscription to a pane falls silent when it is dead, so look for it from the session.
        let dead = format!("#{{W:#{{P:#{{?#{{==:#{{pane_id}},{}}},#{{pane_dead}},}}}}}}", self.pane);
        self.ask(Asked::Setting, &[format!("refresh-client -B \"{DEAD_SUBSCRIPTION}::{dead}\"")]).await?;
        self.resize().await
    }

    async fn on_event(&mut self, event: Event) -> Result<Step, BridgeError> {
        match event {
            Event::Output { pane, data } if pane == self.pane => match &mut self.view {
                View::Unpainted => {}
                View::Live => self.terminal.write_all(&data).await?,
                View::Captures { due } => *due = due.or_else(|| Some(Instant::now() + CAPTURE_PAUSE)),
            },
            Event::Output { pane, .. } => self.pause(pane).await?,
            Event::Reply(reply) => return self.on_reply(reply).await,
            Event::Foreign(_) => {}
            Event::LayoutChanged { window, visible } if window == self.window => match visible.size_of(self.pane) {
                // What is asked now is answered later, and shows the change.
                Some(size) if Some(size) == self.shown || self.is_asked(Asked::Capture) => {}
                Some(_) => self.ask_for_capture().await?,
                None => self.ask_for_panes().await?,
            },
            Event::LayoutChanged { .. } => {}
            Event::Regrouped => self.ask_for_panes().await?,
            Event::Subscription { name, value } => {
                if name == DEAD_SUBSCRIPTION.as_bytes() && value == b"1" {
                    return Ok(ControlFlow::Break(0));
                }
            }
            Event::Exit { reason } => return self.on_exit(reason).await,
        }
        Ok(GO_ON)
    }

    async fn on_reply(&mut self, reply: Result<Vec<Line>, Vec<Line>>) -> Result<Step, BridgeError> {
        let Some(pending) = self.asked.front_mut() else {
            return Err(BridgeError::Protocol("a reply to a command that was not sent"));
        };
        let complaint = reply.as_ref().err().map(|lines| String::from_utf8_lossy(&lines.join(&b' ')).into_owned());
        let failed = complaint.is_some();
        pending.left = if failed { 0 } else { pending.left - 1 };
        pending.replies.push(reply.unwrap_or_default());
        if pending.left > 0 {
            return Ok(GO_ON);
        }
        let Some(Pending { what, replies, .. }) = self.asked.pop_front() else { return Ok(GO_ON) };
        match what {
            Asked::Setting => Ok(GO_ON),
            Asked::Input => match complaint {
                // If the pane has gone, an event says so.
                Some(reason) if !reason.contains("can't find pane") => {
                    Err(BridgeError::Refused { program: Multiplexer::Tmux, reason })
                }
                Some(_) | None => Ok(GO_ON),
            },
            Asked::Capture if failed => self.ask_for_panes().await.map(|()| GO_ON),
            Asked::Capture => self.paint(replies).await.map(|()| GO_ON),
            Asked::Panes => match &replies[..] {
                [ours, all] => self.count_panes(ours, all),
                // We are attached to nothing, so this is about to end.
                _ => Ok(GO_ON),
            },
        }
    }

    /// Paints an ordered capture and decides how to go on.
    async fn paint(&mut self, replies: Vec<Vec<Line>>) -> Result<(), BridgeError> {
        let Ok([state, rows, covered, pending]) = <[Vec<Line>; 4]>::try_from(replies) else {
            return Err(BridgeError::Protocol("a capture that lacks parts"));
        };
        let state = state.first().and_then(|line| PaneState::parse(line));
        let state = state.ok_or(BridgeError::Protocol("an unreadable state of a pane"))?;
        let pending = unescape(&pending.concat());
        let capture = Capture { state, rows, covered, pending };

        let terminal = self.terminal.size()?;
        let moved = capture.state.window != self.window;
        self.window = capture.state.window;
        self.shown = Some(capture.state.size);
        if capture.state.size == terminal {
            self.terminal.write_all(&capture.replace_all()).await?;
            self.view = View::Live;
        } else {
            self.terminal.write_all(&capture.fit(terminal)).await?;
            self.view = View::Captures { due: None };
        }
        if moved {
            self.resize().await?;
        }
        Ok(())
    }

    /// Captures with a process of its own. Its place in the stream does not matter, because the stream is not shown.
    async fn capture_aside(&mut self) -> Result<(), BridgeError> {
        self.view = View::Captures { due: None };
        let pane = self.pane.to_string();
        let format = PaneState::format();
        let state = ["display-message", "-p", "-t", &pane, &format, ";"];
        let rows = ["capture-pane", "-p", "-e", "-N", "-t", &pane];
        let output = bounded::command("tmux").args(["-N", "-u"]).args(state).args(rows).output().await;
        let output = output.map_err(|error| Multiplexer::Tmux.failed(error))?.stdout;
        let mut lines = output.strip_suffix(b"\n").unwrap_or(&output).split(|&byte| byte == b'\n');
        // Without a state the pane has just gone, which the stream will tell.
        if let Some(state) = lines.next().and_then(PaneState::parse) {
            let rows = lines.map(<[u8]>::to_vec).collect();
            let capture = Capture { state, rows, covered: Vec::new(), pending: Vec::new() };
            self.terminal.write_all(&capture.fit(self.terminal.size()?)).await?;
        }
        Ok(())
    }

    /// Ends the bridge if the pane is not among those of the session we are attached to.
    fn count_panes(&self, ours: &[Line], all: &[Line]) -> Result<Step, BridgeError> {
        let pane = self.pane.to_string().into_bytes();
        if ours.contains(&pane) {
            Ok(GO_ON)
        } else if all.contains(&pane) {
            Err(BridgeError::Moved(self.name.clone()))
        } else {
            Ok(ControlFlow::Break(0))
        }
    }

    /// tmux says the same for many reasons, so look whether the program still runs.
    async fn on_exit(&self, reason: String) -> Result<Step, BridgeError> {
        let list = ["-N", "list-panes", "-a", "-F", "#{pane_id} #{pane_dead}"];
        let output = bounded::command("tmux").args(list).output().await;
        let output = output.map_err(|error| Multiplexer::Tmux.failed(error))?.stdout;
        let alive = format!("{} 0", self.pane);
        if output.split(|&byte| byte == b'\n').any(|line| line == alive.as_bytes()) {
            let reason = if reason.is_empty() { "it gave no reason".to_owned() } else { reason };
            return Err(BridgeError::Detached { program: Multiplexer::Tmux, name: self.name.clone(), reason });
        }
        Ok(ControlFlow::Break(0))
    }

    async fn send_input(&mut self, bytes: &[u8]) -> Result<(), BridgeError> {
        let pane = self.pane;
        // In copy mode keys would move somebody's selection instead.
        let leave_copy_mode = format!("copy-mode -q -t {pane}");
        let hex: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
        self.ask(Asked::Input, &[leave_copy_mode, format!("send-keys -H -t {pane}{hex}")]).await
    }

    /// Asks for our size, and for a look at what became of it. The second form keeps a larger client from making the
    /// window larger than ours; tmux 3.2 does not know it.
    async fn resize(&mut self) -> Result<(), BridgeError> {
        let Size { cols, rows } = self.terminal.size()?;
        self.ask(Asked::Setting, &[format!("refresh-client -C {cols}x{rows}")]).await?;
        self.ask(Asked::Setting, &[format!("refresh-client -C {}:{cols}x{rows}", self.window)]).await?;
        self.ask_for_capture().await
    }

    async fn pause(&mut self, pane: PaneId) -> Result<(), BridgeError> {
        self.ask(Asked::Setting, &[format!("refresh-client -A \"{pane}:pause\"")]).await
    }

    async fn ask_for_capture(&mut self) -> Result<(), BridgeError> {
        let pane = self.pane;
        let commands = [
            format!("display-message -p -t {pane} \"{}\"", PaneState::format()),
            format!("capture-pane -p -e -N -t {pane}"),
            format!("capture-pane -p -e -N -a -q -t {pane}"),
            format!("capture-pane -p -P -C -t {pane}"),
        ];
        self.ask(Asked::Capture, &commands).await
    }

    async fn ask_for_panes(&mut self) -> Result<(), BridgeError> {
        let list = |which: &str| format!("list-panes {which} -F \"#{{pane_id}}\"");
        self.ask(Asked::Panes, &[list("-s"), list("-a")]).await
    }

    /// Sends commands as one line, which tmux runs without doing anything in between.
    async fn ask(&mut self, what: Asked, commands: &[String]) -> Result<(), BridgeError> {
        self.asked.push_back(Pending { what, left: commands.len(), replies: Vec::new() });
        self.client.send(&commands.join(" ; ")).await
    }

    fn is_asked(&self, what: Asked) -> bool {
        self.asked.iter().any(|pending| pending.what == what)
    }
}

impl View {
    fn due(&self) -> Option<Instant> {
        match self {
            Self::Unpainted | Self::Live => None,
            Self::Captures { due } => *due,
        }
    }
}
