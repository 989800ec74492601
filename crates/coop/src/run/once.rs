//! One task, in this terminal.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use coop_api::visible;
use coop_llm::{AgentError, Delta, ErrorKind, Event, Events, Exit, Limit, Message, Outcome, Part, RunCx};

use super::gate::Person;
use super::options::Run;
use super::ready::{Allowed, Ready};
use super::{FAILED, Misuse, code, show, steps};

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
        bail!(Misuse("there is nothing to do; say what in the prompt".into()));
    }
    let manner = match (options.json, io::stdout().is_terminal()) {
        (true, _) => Manner::Json,
        (false, true) => Manner::Live,
        (false, false) => Manner::Plain,
    };
    let folder = env::current_dir().context("cannot tell the current folder")?;
    let begun = Instant::now();
    let ready = match Ready::make(options, &folder, cx).await {
        Ok(ready) => ready,
        Err(error) if is_late(&error) => {
            let _ = writeln!(io::stderr(), "coop: {error:#}\ncoop: stopped by --max-time before there was a call");
            return Ok(code(&Exit::Limit(Limit::Time)));
        }
        Err(error) => return Err(error),
    };
    // What has passed by now is of the time that there is.
    let mut limits = ready.limits.clone();
    limits.time = limits.time.map(|time| time.saturating_sub(begun.elapsed()));
    let person = Person::new(Arc::new(Allowed::new(options)), &folder);
    let executor = ready.executor.clone().limits(limits).gate(person);
    // If nobody reads it any more, nobody wants it: what goes on costs money.
    let (lost, stop) = (Arc::new(AtomicBool::new(false)), cx.cancel.clone());
    let is_lost = Arc::clone(&lost);
    let events = Events::to(move |event| {
        if tell(manner, &event).is_err() {
            is_lost.store(true, Ordering::SeqCst);
            stop.cancel();
        }
    });
    // Pieces are for those who watch; for others a call that breaks is better made again.
    let events = if manner == Manner::Live { events.with_deltas() } else { events };
    let outcome = executor.run(vec![Message::user(prompt)], &RunCx { events, ..cx.clone() }).await;
    let finished = finish(manner, &outcome);
    let mut err = io::stderr().lock();
    // Nobody may read this either; what it took is told all the same.
    if let Some(why) = show::why(&outcome.exit) {
        let _ = writeln!(err, "coop: {why}");
    }
    let is_lost = lost.load(Ordering::SeqCst) || finished.is_err();
    if is_lost {
        let _ = writeln!(err, "coop: standard output cannot be written to, so it was stopped");
    }
    let _ = writeln!(err, "{}", show::summary(&outcome.exit, &outcome.metrics, begun.elapsed()));
    Ok(if is_lost { FAILED } else { code(&outcome.exit) })
}

/// Tells whether the time was over before there was anything to do.
fn is_late(error: &anyhow::Error) -> bool {
    error.downcast_ref::<AgentError>().is_some_and(|error| error.kind == ErrorKind::Timeout)
}

/// Tells of a step; fails only if standard output does.
fn tell(manner: Manner, event: &Event) -> io::Result<()> {
    if manner == Manner::Json {
        return steps::step(event).map_or(Ok(()), |step| line(&step.to_string()));
    }
    let mut err = io::stderr().lock();
    match event {
        Event::Delta(Delta::Text(text)) => {
            let mut out = io::stdout().lock();
            write!(out, "{}", visible(text))?;
            out.flush()
        }
        Event::Reply { parts, .. } => {
            let says = parts.iter().any(|part| matches!(part, Part::Text(text) if !text.text.is_empty()));
            match manner {
                Manner::Live if says => line(""),
                // The last answer is told at the end.
                Manner::Plain if calls(parts) => {
                    for part in parts {
                        if let Part::Text(text) = part {
                            let _ = writeln!(err, "{}", visible(&text.text));
                        }
                    }
                    Ok(())
                }
                Manner::Live | Manner::Plain | Manner::Json => Ok(()),
            }
        }
        Event::Retry { attempt, wait, kind, message } => {
            let (kind, message, wait) = (kind.as_str(), show::glimpse(message), wait.as_secs_f64());
            let _ = writeln!(err, "  ! {kind}: {message}; attempt {} in {wait:.1} s", attempt + 1);
            Ok(())
        }
        Event::ToolStart(call) => {
            let _ = writeln!(err, "● {}", show::call(call));
            Ok(())
        }
        Event::ToolEnd { name, result, .. } if result.is_error => {
            let _ = writeln!(err, "  ✗ {}: {}", visible(name), show::failure(&result.content));
            Ok(())
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
