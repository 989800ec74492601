//! The screen: keys in, commands out; notices in, bytes out.

mod dialog;
mod history;
mod input_box;
pub(crate) mod keys;
pub(crate) mod paint;
mod scroll;
#[cfg(test)]
mod tests;
mod view;

use std::collections::VecDeque;
use std::path::PathBuf;

use dialog::{Chosen, Dialog, LocalDialog};
pub(crate) use dialog::{Closed, Menu};
pub(crate) use history::history;
use input_box::InputBox;
use keys::{Key, KeyParser};
use paint::Painter;

use super::engine::{Command, Millis, Quit, QuitReason};
use super::face::{Face, Touch};
use super::ids::RequestId;
use super::notice::{Block, Notice, State};
use super::permission::PermissionMode;
use super::tool::ToolCall;

const TITLE_IDLE: &str = "\x1b]0;✳ Claude Code\x07";
const TITLE_BUSY: &str = "\x1b]0;⠐ Claude Code\x07";
const PASTE_ON: &str = "\x1b[?2004h";
const PASTE_OFF: &str = "\x1b[?2004l";
const ALT_ON: &str = "\x1b[?1049h\x1b[2J\x1b[H";
const ALT_OFF: &str = "\x1b[?1049l";

pub(crate) struct Tui {
    cwd: PathBuf,
    mode: PermissionMode,
    menus: VecDeque<Menu>,
    keys: KeyParser,
    input: InputBox,
    painter: Painter,
    /// What is over but not yet drawn.
    over: Vec<String>,
    /// Bytes that go out as they are, before anything else.
    raw: String,
    dialog: Option<(RequestId, Dialog)>,
    /// The dialog that a command has opened.
    local: Option<LocalDialog>,
    /// Calls without a result.
    calls: Vec<ToolCall>,
    streaming: Option<String>,
    /// What the spinner says instead of "Working".
    doing: Option<String>,
    queued: Vec<String>,
    state: State,
    title: &'static str,
    prompt: Option<String>,
    is_ready: bool,
    is_exit_armed: bool,
    is_alternate: bool,
}

pub(crate) struct TuiSetup {
    pub(crate) cwd: PathBuf,
    pub(crate) model: String,
    pub(crate) mode: PermissionMode,
    pub(crate) menus: Vec<Menu>,
    /// A prompt from the command line.
    pub(crate) prompt: Option<String>,
    /// The earlier conversation, when one is resumed.
    pub(crate) history: Vec<String>,
}

impl Tui {
    pub(crate) fn new(setup: TuiSetup) -> Self {
        let TuiSetup { cwd, model, mode, menus, prompt, history } = setup;
        let mut over = view::banner(&model, &cwd);
        over.extend(history);
        Self {
            cwd,
            mode,
            menus: VecDeque::from(menus),
            keys: KeyParser::default(),
            input: InputBox::default(),
            painter: Painter::default(),
            over,
            raw: String::new(),
            dialog: None,
            local: None,
            calls: Vec::new(),
            streaming: None,
            doing: None,
            queued: Vec::new(),
            state: State::Idle,
            title: "",
            prompt,
            is_ready: false,
            is_exit_armed: false,
            is_alternate: false,
        }
    }

    fn pressed(&mut self, keys: Vec<Key>) -> Vec<Command> {
        let mut commands = Vec::new();
        for key in keys {
            let was_armed = std::mem::take(&mut self.is_exit_armed);
            if let Some(menu) = self.menus.front_mut() {
                let chosen = menu.key(&key);
                commands.extend(chosen.into_iter().flat_map(|chosen| self.chosen(chosen)));
            } else if let Some(dialog) = &mut self.local {
                let closed = dialog.key(&key);
                commands.extend(closed.map(|closed| {
                    self.local = None;
                    Command::CloseDialog(closed)
                }));
            } else if let Some((request, dialog)) = &mut self.dialog {
                let decision = dialog.key(&key);
                let request = request.clone();
                commands.extend(decision.map(|decision| {
                    // The engine settles it before it reads on; until then further keys must not decide twice.
                    self.dialog = None;
                    Command::Decide { request, decision }
                }));
            } else {
                commands.extend(self.box_key(key, was_armed));
            }
        }
        commands
    }

    fn chosen(&mut self, chosen: Chosen) -> Vec<Command> {
        let mut commands = match chosen {
            Chosen::Exit => return vec![Command::Quit(Quit { code: 1, reason: QuitReason::Other })],
            Chosen::Trust => vec![Command::Trust],
            Chosen::GoOn => Vec::new(),
        };
        self.menus.pop_front();
        commands.extend(self.begin());
        commands
    }

    /// Starts the agent once nothing stands before it.
    fn begin(&mut self) -> Vec<Command> {
        if !self.menus.is_empty() {
            return Vec::new();
        }
        let prompt = self.prompt.take().map(Command::Submit);
        std::iter::once(Command::Start).chain(prompt).collect()
    }

    fn box_key(&mut self, key: Key, was_armed: bool) -> Option<Command> {
        match key {
            Key::Char(c) => self.input.push(c),
            Key::Newline => self.input.push('\n'),
            Key::Paste(text) => self.input.paste(text),
            Key::Backspace => self.input.backspace(),
            Key::CtrlU => self.input.clear(),
            Key::Enter => {
                let text = self.input.take();
                return (!text.trim().is_empty()).then_some(Command::Submit(text));
            }
            Key::Esc => return Some(Command::Interrupt),
            Key::Up if self.input.is_empty() && !self.queued.is_empty() => return Some(Command::Unqueue),
            Key::BackTab => return Some(Command::SetMode(self.mode.cycled())),
            Key::CtrlC | Key::CtrlD if was_armed => {
                return Some(Command::Quit(Quit { code: 0, reason: QuitReason::PromptInputExit }));
            }
            Key::CtrlC => {
                self.is_exit_armed = true;
                self.input.clear();
                return (self.state == State::Busy).then_some(Command::Interrupt);
            }
            Key::CtrlD => self.is_exit_armed = self.input.is_empty(),
            Key::Up | Key::Down | Key::Left | Key::Right | Key::Tab => {}
        }
        None
    }

    fn remember(&mut self, notice: &Notice) {
        match notice {
            Notice::State(state) => {
                self.state = *state;
                self.doing = None;
            }
            Notice::Mode(mode) => self.mode = *mode,
            Notice::Queued(text) => self.queued.push(text.clone()),
            Notice::Dequeued => {
                self.queued.drain(..1.min(self.queued.len()));
            }
            Notice::Unqueued(texts) => {
                self.queued.clear();
                self.input.paste(texts.join("\n"));
            }
            Notice::Message(message) => {
                self.streaming = None;
                self.doing = None;
                for block in &message.blocks {
                    if let Block::ToolUse(call) = block {
                        self.calls.push(call.clone());
                    }
                }
            }
            Notice::Streaming(text) => self.streaming = Some(text.clone()),
            Notice::CutShort { .. } => self.streaming = None,
            Notice::ToolResult { call, .. } => self.calls.retain(|pending| pending.id != call.id),
            Notice::Asked(request) => {
                self.dialog = Some((request.id.clone(), Dialog::for_request(request, &self.cwd)));
            }
            Notice::DialogOpened(local) => self.local = Some(LocalDialog::new(local.clone())),
            Notice::Settled { request, .. } => {
                self.dialog.take_if(|(asked, _)| asked == request);
            }
            Notice::Retry { attempt, max, delay, .. } => {
                let seconds = delay.as_secs_f64().ceil().max(1.0);
                self.doing = Some(format!("API error · Retrying in {seconds}s · attempt {attempt}/{max}"));
            }
            Notice::Compacting => self.doing = Some("Compacting conversation… (esc to interrupt)".to_owned()),
            Notice::TurnEnded(_) => {
                self.streaming = None;
                self.calls.clear();
                self.leave_alternate();
            }
            Notice::Flood(bytes) => self.over.extend(view::flood(*bytes)),
            Notice::AltScreen => {
                self.is_alternate = true;
                self.raw.push_str(ALT_ON);
                self.raw.push_str("The alternate screen of the scripted agent.\r\n");
            }
            Notice::Session { .. }
            | Notice::Ready { .. }
            | Notice::Prompt { .. }
            | Notice::PromptBlocked { .. }
            | Notice::ApiError(_)
            | Notice::Interrupted(_)
            | Notice::StopHooks { .. }
            | Notice::Model(_)
            | Notice::Shell { .. }
            | Notice::Compacted { .. }
            | Notice::Ran { .. }
            | Notice::Remark(_) => {}
        }
    }

    fn leave_alternate(&mut self) {
        if std::mem::take(&mut self.is_alternate) {
            self.raw.push_str(ALT_OFF);
            // The terminal has put back screen and cursor as they were.
        }
    }
}

impl Face for Tui {
    fn touch(&mut self, touch: Touch<'_>) -> Vec<Command> {
        match touch {
            Touch::Begin => self.begin(),
            Touch::Input(bytes) => {
                let keys = self.keys.feed(bytes);
                self.pressed(keys)
            }
            Touch::Pause => {
                let keys = self.keys.flush();
                self.pressed(keys)
            }
            // The terminal is gone.
            Touch::InputEnded => vec![Command::Quit(Quit { code: 129, reason: QuitReason::Other })],
            Touch::Resized(size) => {
                self.painter.resize(size);
                Vec::new()
            }
        }
    }

    fn tell(&mut self, _now: Millis, notice: &Notice) {
        self.over.extend(scroll::lines(notice, &self.cwd));
        self.remember(notice);
    }

    fn draw(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.raw).into_bytes();
        if self.is_alternate {
            return out;
        }
        let title = if self.state == State::Busy { TITLE_BUSY } else { TITLE_IDLE };
        if self.menus.is_empty() && title != self.title {
            self.title = title;
            out.extend_from_slice(title.as_bytes());
        }
        // Before the first prompt there is only the dialog; the banner waits.
        let over = if self.menus.is_empty() { std::mem::take(&mut self.over) } else { Vec::new() };
        let live = self.live();
        out.extend(self.painter.paint(&over, live));
        if self.menus.is_empty() && !self.is_ready {
            self.is_ready = true;
            out.extend_from_slice(PASTE_ON.as_bytes());
        }
        out
    }

    fn is_waiting(&self) -> bool {
        self.keys.is_waiting()
    }

    fn leave(&mut self, code: i32) -> (Vec<u8>, i32) {
        self.leave_alternate();
        let mut out = self.draw();
        if self.is_ready {
            out.extend_from_slice(PASTE_OFF.as_bytes());
        }
        out.extend_from_slice(b"\r\n\x1b[J");
        (out, code)
    }
}
