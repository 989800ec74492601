//! The terminal interface, as far as a person needs it: a prompt, and the two kinds of dialogs that take its place.
//!
//! As in the real one, letters do nothing at a permission, Enter takes what is chosen, which is "Allow once" at first, and
//! Esc asks for a reason before it rejects.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::world::{Verdict, World, prompt};
use crate::claude::io::terminal::RawMode;

const PASTE: (&str, &str) = ("\x1b[200~", "\x1b[201~");
const BUTTONS: [&str; 3] = ["Allow once", "Allow always", "Reject"];

struct Tui {
    world: Arc<World>,
    session: Option<String>,
    input: String,
    /// Which button is chosen.
    button: usize,
    /// The reason for a rejection, while it is written.
    reason: Option<String>,
    /// Answers to the questions so far.
    answers: Vec<Value>,
}

pub(super) async fn run(world: Arc<World>, session: Option<String>, first: Option<String>) -> anyhow::Result<i32> {
    let _raw = enter()?;
    let mut events = world.events();
    let mut keys = keys();
    let mut tui = Tui { world, session, input: String::new(), button: 0, reason: None, answers: Vec::new() };
    if let Some(text) = first {
        tui.submit(&text);
    }
    loop {
        tui.draw()?;
        tokio::select! {
            event = events.recv() => match event {
                Ok(event) => tui.happened(&event),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Ok(0),
            },
            typed = keys.recv() => match typed {
                Some(typed) => {
                    if tui.typed(&typed) {
                        return Ok(0);
                    }
                }
                None => return Ok(0),
            },
        }
    }
}

/// Shows an interface in which nothing happens.
pub(super) async fn show_nothing() -> anyhow::Result<i32> {
    let _raw = enter()?;
    print("\x1b[2J\x1b[H  Ask anything…\r\n\r\n  tab agents  ctrl+p commands")?;
    let mut keys = keys();
    while let Some(typed) = keys.recv().await {
        if typed.contains('\x03') {
            break;
        }
    }
    Ok(0)
}

fn enter() -> anyhow::Result<RawMode> {
    let raw = RawMode::enter(std::io::stdin().as_fd().try_clone_to_owned()?)?;
    print("\x1b[?1049h\x1b[?2004h\x1b]2;OpenCode\x07")?;
    Ok(raw)
}

fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Returns what is typed, as it comes.
fn keys() -> mpsc::Receiver<String> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = std::io::stdin().read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if sender.blocking_send(text).is_err() {
                return;
            }
        }
    });
    keys
}

impl Tui {
    fn happened(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("tui.session.select") => self.session = event["properties"]["sessionID"].as_str().map(str::to_owned),
            Some("permission.asked" | "question.asked") => {
                self.button = 0;
                self.reason = None;
                self.answers.clear();
            }
            _ => {}
        }
    }

    /// Takes what was typed; returns true if that ends it.
    fn typed(&mut self, typed: &str) -> bool {
        if typed.contains('\x03') {
            return true;
        }
        if let Some(ask) = self.world.permissions().first() {
            self.typed_at_permission(ask, typed);
        } else if let Some(ask) = self.world.questions().first() {
            self.typed_at_question(ask, typed);
        } else {
            let typed = typed.replace(PASTE.0, "").replace(PASTE.1, "");
            let (text, enter) = typed.split_once('\r').map_or((&typed[..], false), |(text, _)| (text, true));
            self.input.push_str(text);
            if enter && !self.input.is_empty() {
                let text = std::mem::take(&mut self.input);
                self.submit(&text);
            }
        }
        false
    }

    fn typed_at_permission(&mut self, ask: &Value, typed: &str) {
        let id = ask["id"].as_str().unwrap_or_default();
        match (&mut self.reason, typed) {
            (Some(reason), "\r") => {
                let message = (!reason.is_empty()).then(|| reason.clone());
                self.reason = None;
                self.world.answer(id, Verdict::Reject { message });
            }
            (Some(_), "\x1b") => self.reason = None,
            (Some(reason), text) => reason.push_str(text.trim_end_matches('\r')),
            (None, "\x1b") => self.reason = Some(String::new()),
            (None, "\x1b[C" | "\t") => self.button = (self.button + 1) % BUTTONS.len(),
            (None, "\x1b[D") => self.button = (self.button + BUTTONS.len() - 1) % BUTTONS.len(),
            (None, text) if text.contains('\r') => match self.button {
                0 => drop(self.world.answer(id, Verdict::Once)),
                1 => drop(self.world.answer(id, Verdict::Always)),
                _ => self.reason = Some(String::new()),
            },
            (None, _) => {}
        }
    }

    fn typed_at_question(&mut self, ask: &Value, typed: &str) {
        let id = ask["id"].as_str().unwrap_or_default();
        if typed == "\x1b" {
            self.world.answer(id, Verdict::Dismissed);
            return;
        }
        let question = &ask["questions"][self.answers.len()];
        let number = typed.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(option) = number.and_then(|at| question["options"].get(at)) {
            self.answers.push(json!([option["label"]]));
        }
        if ask["questions"].get(self.answers.len()).is_none() {
            let answers = std::mem::take(&mut self.answers);
            self.world.answer(id, Verdict::Answers(Value::Array(answers)));
        }
    }

    fn submit(&mut self, text: &str) {
        let session = self.session.clone().filter(|id| self.world.has(id));
        let session = session
            .unwrap_or_else(|| self.world.create(None, None)["id"].as_str().map(str::to_owned).unwrap_or_default());
        prompt(&self.world, &session, &json!({ "parts": [{ "type": "text", "text": text }] }));
        self.session = Some(session);
    }

    fn draw(&self) -> std::io::Result<()> {
        let mut rows = Vec::new();
        let messages = self.session.as_deref().and_then(|id| self.world.messages(id)).unwrap_or_default();
        let texts = messages.iter().rev().flat_map(|message| message["parts"].as_array().into_iter().flatten().rev());
        let texts = texts.filter_map(|part| part["text"].as_str()).filter(|text| !text.is_empty());
        rows.extend(texts.take(6).map(|text| format!("  {}", text.chars().take(100).collect::<String>())));
        rows.reverse();
        let is_busy = self.session.as_deref().is_some_and(|id| !self.world.status()[id].is_null());
        if let (Some(_), Some(reason)) = (self.world.permissions().first(), &self.reason) {
            rows.push(format!("  △ Reject permission: Tell OpenCode what to do differently: {reason}"));
            rows.push("  enter confirm  esc cancel".into());
        } else if let Some(ask) = self.world.permissions().first() {
            rows.push("  △ Permission required".into());
            rows.push(format!("  {}", ask["patterns"][0].as_str().unwrap_or_default()));
            let buttons = BUTTONS.iter().enumerate().map(|(at, label)| match at == self.button {
                true => format!("\x1b[7m {label} \x1b[0m"),
                false => format!(" {label} "),
            });
            rows.push(format!("  {}  ⇆ select  enter confirm", buttons.collect::<Vec<_>>().join(" ")));
        } else if let Some(ask) = self.world.questions().first() {
            let question = &ask["questions"][self.answers.len()];
            rows.push(format!("  {}", question["question"].as_str().unwrap_or_default()));
            let options = question["options"].as_array().into_iter().flatten().zip(1..);
            rows.extend(
                options.map(|(option, number)| format!("  {number}. {}", option["label"].as_str().unwrap_or_default())),
            );
            rows.push("  ↑↓ select  enter confirm  esc dismiss".into());
        } else {
            let is_new = self.input.is_empty() && self.session.is_none();
            let shown = if is_new { "Ask anything…" } else { &self.input };
            rows.push(format!("  {}", shown.chars().take(100).collect::<String>()));
            rows.push(if is_busy { "  esc interrupt".into() } else { "  tab agents  ctrl+p commands".into() });
        }
        let text = rows.join("\r\n").replace(|c: char| c.is_control() && !"\r\n\x1b".contains(c), " ");
        print(&format!("\x1b[2J\x1b[H{text}"))
    }
}
