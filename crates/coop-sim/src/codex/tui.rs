//! The interface: a client of the server, with a prompt, the dialog of what is asked, and a title.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::args::Args;
use super::hub;
use super::wire::{Connection, connect, connect_here};
use crate::claude::raw_mode;

const CLEAR: &str = "\x1b[2J\x1b[H";
const MODEL: &str =
    "  Meet GPT-6 Sol\r\n\r\n› 1. Try new model\r\n  2. Use existing model\r\n\r\n  enter/esc confirm · ^c quit\r\n";
/// The cursor stands in the input, and is hidden while a dialog is in its place.
const PROMPT: &str = "\x1b[?25h\r\n› Ask Codex to do anything\r\x1b[2C";
const HIDE_CURSOR: &str = "\x1b[?25l";

/// What a person sees and types.
struct Interface {
    to: mpsc::UnboundedSender<Value>,
    thread: Option<String>,
    turn: Option<String>,
    /// What is asked.
    asked: Option<Value>,
    typed: Vec<u8>,
    history: Vec<String>,
    folder: String,
    /// How a conversation begins.
    settings: Value,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<i32> {
    let _raw = raw_mode(io::stdin().as_fd().try_clone_to_owned()?);
    let mut keys = keys();
    write("\x1b[?2004h")?;
    if std::env::var_os("COOP_SIM_DIALOGS").is_some_and(|on| on == "1") {
        write(&format!("{CLEAR}{HIDE_CURSOR}{MODEL}"))?;
        while !matches!(keys.recv().await, Some(b'1' | b'2' | b'\r') | None) {}
    }
    let own = args.remote.is_none().then(|| args.home().map(hub::start)).transpose()?;
    let Connection { to, mut from } = match (&args.remote, &own) {
        (Some(path), _) => connect(path).await?,
        (None, Some(hub)) => connect_here(hub),
        (None, None) => anyhow::bail!("there is no server"),
    };
    let folder = args.settings["cwd"].as_str().and_then(|cwd| cwd.rsplit('/').next()).unwrap_or_default().to_owned();
    let mut interface = Interface {
        to,
        thread: None,
        turn: None,
        asked: None,
        typed: Vec::new(),
        history: Vec::new(),
        folder,
        settings: args.settings.clone(),
    };
    let mut begin = args.settings.clone();
    let method = match &args.resume {
        Some(id) => {
            begin["threadId"] = json!(id);
            "thread/resume"
        }
        None => "thread/start",
    };
    interface.tell("hello", "initialize", json!({}))?;
    interface.tell("thread", method, begin)?;
    loop {
        tokio::select! {
            message = from.recv() => match message {
                Some(message) => interface.heard(&message, args)?,
                None => {
                    write("\r\nError: the app server went away\r\n")?;
                    return Ok(1);
                }
            },
            key = keys.recv() => match key {
                Some(3 | 4) | None => return Ok(0),
                Some(key) => interface.key(key)?,
            },
        }
    }
}

impl Interface {
    fn tell(&self, id: &str, method: &str, params: Value) -> anyhow::Result<()> {
        Ok(self.to.send(json!({ "id": id, "method": method, "params": params }))?)
    }

    fn begin_turn(&self, text: &str) -> anyhow::Result<()> {
        let input = json!([{ "type": "text", "text": text }]);
        self.tell("turn", "turn/start", json!({ "threadId": self.thread, "input": input }))
    }

    fn heard(&mut self, message: &Value, args: &Args) -> anyhow::Result<()> {
        let params = &message["params"];
        match (message["method"].as_str(), message["id"].as_str()) {
            (None, Some("thread")) => {
                self.thread = message["result"]["thread"]["id"].as_str().map(str::to_owned);
                match (&self.thread, &args.prompt) {
                    (None, _) => anyhow::bail!("{}", message["error"]["message"]),
                    (Some(_), Some(prompt)) => self.begin_turn(prompt)?,
                    (Some(_), None) => {}
                }
            }
            (None, Some("new")) => {
                self.thread = message["result"]["thread"]["id"].as_str().map(str::to_owned);
                self.history.clear();
            }
            (Some("turn/started"), _) => self.turn = params["turn"]["id"].as_str().map(str::to_owned),
            (Some("turn/completed"), _) => (self.turn, self.asked) = (None, None),
            (Some("item/completed"), _) => {
                let item = &params["item"];
                let text = item["text"].as_str().or_else(|| item["content"][0]["text"].as_str());
                self.history.extend(text.map(|text| text.chars().take(200).collect()));
            }
            (Some("serverRequest/resolved"), _) => self.asked = None,
            (Some(method), None) if method.starts_with("item/") && !message["id"].is_null() => {
                self.asked = Some(message.clone());
            }
            _ => return Ok(()),
        }
        self.draw()
    }

    fn key(&mut self, key: u8) -> anyhow::Result<()> {
        if let Some(asked) = &self.asked {
            let decision = match key {
                b'1' => json!("accept"),
                b'2' => json!("acceptForSession"),
                b'3' | 0x1b => json!("cancel"),
                _ => return Ok(()),
            };
            self.to.send(json!({ "id": asked["id"], "result": { "decision": decision } }))?;
            return Ok(());
        }
        match (key, &self.turn) {
            (0x1b, Some(turn)) => {
                self.tell("stop", "turn/interrupt", json!({ "threadId": self.thread, "turnId": turn }))?;
            }
            (b'\r', None) if !self.typed.is_empty() => {
                let text = String::from_utf8_lossy(&std::mem::take(&mut self.typed)).into_owned();
                match text.as_str() {
                    "/new" => self.tell("new", "thread/start", self.settings.clone())?,
                    text => self.begin_turn(text)?,
                }
            }
            (b'\r' | 0x1b, _) => {}
            (key, _) => self.typed.push(key),
        }
        self.draw()
    }

    fn draw(&self) -> anyhow::Result<()> {
        let mut screen = format!("{CLEAR}  >_ OpenAI Codex (simulated)\r\n\r\n");
        let newest = self.history.len().saturating_sub(8);
        for line in &self.history[newest..] {
            screen.push_str(&format!("• {}\r\n", line.replace('\n', "\r\n  ")));
        }
        let title = match (&self.asked, &self.turn) {
            (Some(asked), _) => {
                let what = asked["params"]["commandActions"][0]["command"].as_str().unwrap_or("change files");
                screen.push_str(&format!(
                    "{HIDE_CURSOR}\r\n  Would you like to run the following command?\r\n\r\n  $ {what}\r\n\r\n› 1. Yes, proceed (y)\r\n  \
                     2. Yes, and don't ask again for this session (p)\r\n  \
                     3. No, and tell Codex what to do differently (esc)\r\n\r\n  \
                     Press enter to confirm or esc to cancel\r\n"
                ));
                format!("[ . ] Action Required | {}", self.folder)
            }
            (None, Some(_)) => {
                screen.push_str("\r\n• Working (esc to interrupt)\r\n");
                format!("⠹ {}", self.folder)
            }
            (None, None) => self.folder.clone(),
        };
        if self.asked.is_none() {
            screen.push_str(
                match &self.typed[..] {
                    [] => PROMPT.to_owned(),
                    typed => format!("\x1b[?25h\r\n› {}", String::from_utf8_lossy(typed)),
                }
                .as_str(),
            );
        }
        write(&format!("\x1b]0;{title}\x07{screen}"))
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// Reads keys on a thread of its own.
fn keys() -> mpsc::UnboundedReceiver<u8> {
    let (tell, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for key in io::stdin().lock().bytes().map_while(Result::ok) {
            if tell.send(key).is_err() {
                return;
            }
        }
    });
    keys
}
