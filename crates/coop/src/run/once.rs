//! One task, in this terminal.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use coop_llm::{Delta, Event, Events, Exit, Message, Outcome, Part, RunCx};

use super::gate::Person;
use super::options::Run;
use super::ready::{Allowed, Ready};
use super::{code, show, steps};

/// What is told, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// To a person who reads along.
    Live,
    /// The answer to whoever takes it, the rest to whoever looks.
    Plain,
    Json,
}

pub(super) async fn run(options: &Run, cx: &RunCx) -> anyhow::Result<i32> {
    let prompt = match options.prompt.as_deref() {
        Some("-") => tokio::select! {
            text = tokio::task::spawn_blocking(|| io::read_to_string(io::stdin())) => {
                text?.context("cannot read the prompt from standard input")?
            }
            () = cx.cancel.cancelled() => bail!("stopped"),
        },
        given => given.unwrap_or_default().to_owned(),
    };
    if prompt.trim().is_empty() {
        bail!("there is nothing to do; say what in the prompt");
    }
    let manner = match (options.json, io::stdout().is_terminal()) {
        (true, _) => Manner::Json,
        (false, true) => Manner::Live,
        (false, false) => Manner::Plain,
    };
    let folder = env::current_dir().context("cannot tell the current folder")?;
    let ready = Ready::make(options, &folder, cx).await?;
    let executor = ready.executor.clone().gate(Person::new(Arc::new(Allowed::new(&options.allow))));
    let begun = Instant::now();
    // Nobody may be there to read it, which is no reason to stop: what is asked for is the work.
    let events = Events::to(move |event| drop(tell(manner, &event)));
    // Pieces are for those who watch; for others a call that breaks is better made again.
    let events = if manner == Manner::Live { events.with_deltas() } else { events };
    let outcome = executor.run(vec![Message::user(prompt)], &RunCx { events, ..cx.clone() }).await;
    finish(manner, &outcome)?;
    let mut err = io::stderr().lock();
    if let Exit::Failed(error) = &outcome.exit {
        writeln!(err, "coop: {}", show::clean(&error.to_string()))?;
    }
    writeln!(err, "{}", show::summary(&outcome.exit, &outcome.metrics, begun.elapsed()))?;
    Ok(code(&outcome.exit))
}

fn tell(manner: Manner, event: &Event) -> io::Result<()> {
    if manner == Manner::Json {
        return steps::step(event).map_or(Ok(()), |step| line(&step.to_string()));
    }
    let mut err = io::stderr().lock();
    match event {
        Event::Delta(Delta::Text(text)) => {
            let mut out = io::stdout().lock();
            write!(out, "{}", show::clean(text))?;
            out.flush()
        }
        Event::Reply { parts, .. } => {
            let says = parts.iter().any(|part| matches!(part, Part::Text(text) if !text.text.is_empty()));
            match manner {
                Manner::Live if says => line(""),
                // The last answer is told at the end.
                Manner::Plain if calls(parts) => parts.iter().try_for_each(|part| match part {
                    Part::Text(text) => writeln!(err, "{}", show::clean(&text.text)),
                    _ => Ok(()),
                }),
                Manner::Live | Manner::Plain | Manner::Json => Ok(()),
            }
        }
        Event::Retry { attempt, wait, kind, message } => {
            let (kind, message, wait) = (kind.as_str(), show::glimpse(message), wait.as_secs_f64());
            writeln!(err, "  ! {kind}: {message}; attempt {} in {wait:.1} s", attempt + 1)
        }
        Event::ToolStart(call) => writeln!(err, "● {}", show::call(call)),
        Event::ToolEnd { name, result, .. } if result.is_error => {
            writeln!(err, "  ✗ {}: {}", show::clean(name), show::glimpse(&result.content))
        }
        Event::Delta(Delta::Thinking(_)) | Event::Call { .. } | Event::ToolEnd { .. } | Event::End { .. } => Ok(()),
    }
}

fn finish(manner: Manner, outcome: &Outcome) -> io::Result<()> {
    match manner {
        Manner::Json => line(&steps::end(outcome).to_string()),
        Manner::Plain if !outcome.text().is_empty() => line(&outcome.text()),
        Manner::Plain | Manner::Live => Ok(()),
    }
}

fn calls(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::ToolUse(_)))
}

fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}
