//! A model server that says what a script tells it to, in the four protocols that agents speak.
//!
//! It is told by the prompt (see `directive`), by a file (see `script`), or it says hello. It is the agents' proxy too:
//! it hears of all they want from the rest of the world and refuses it. Conversations that no provider would take it
//! refuses too (see `shape`).
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /v1/messages`, `/v1/messages/count_tokens` | Anthropic's Messages |
//! | `POST /v1/responses` | OpenAI's Responses |
//! | `POST /v1/chat/completions`, `GET /v1/models` | OpenAI's chat completions |
//! | `POST …:generateContent`, `…:streamGenerateContent`, `…:countTokens` | Google's Gemini |
//! | `GET /coop/requests` | what was asked: a list of [`Request`] |
//! | `GET /coop/refused` | the hosts that were refused |
//! | `POST /coop/reset` | forgets all that |
//!
//! What to do (`decide`) and what that looks like (`protocol`) are pure; only `answer` and `server` wait or send.

mod answer;
mod asked;
mod decide;
pub(crate) mod directive;
mod fault;
mod log;
mod protocol;
mod reply;
mod route;
pub(crate) mod script;
mod server;
mod shape;
#[cfg(test)]
mod tests;
mod tools;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

pub use log::Request;
pub use script::{Script, ScriptError};
pub use server::Model;

/// Where to serve what.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The port on 127.0.0.1; 0 is any.
    pub port: u16,
    /// A file with a script.
    pub script: Option<PathBuf>,
}

/// Serves a model until a signal ends it. Its address is the one line on stdout.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let script = match &options.script {
        Some(path) => Script::load(path).with_context(|| format!("no model without {}", path.display()))?,
        None => Script::default(),
    };
    // Who has read the address may send a signal.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let model = Model::listen(script, options.port)
        .await
        .with_context(|| format!("cannot listen on port {} of the loopback interface", options.port))?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", model.url())?;
    out.flush()?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    model.stop().await;
    Ok(())
}
