//! Who is asked before a tool changes something: the person at this terminal.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use coop_api::visible;
use coop_llm::{Decision, Gate, Tool, ToolUse};
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::Mutex;

use super::ready::Allowed;
use super::show;

/// Asks the person at this terminal, one question at a time.
pub(super) struct Person {
    allowed: Arc<Allowed>,
    folder: PathBuf,
    /// Held while somebody thinks.
    asking: Mutex<()>,
}

impl Person {
    pub(super) fn new(allowed: Arc<Allowed>, folder: &Path) -> Self {
        Self { allowed, folder: folder.to_owned(), asking: Mutex::new(()) }
    }
}

#[async_trait]
impl Gate for Person {
    async fn decide(&self, call: &ToolUse, tool: &dyn Tool) -> Decision {
        if self.allowed.allows(tool) {
            return Decision::Allow;
        }
        let Some(terminal) = terminal() else {
            let (what, name) = (show::call(call), visible(&call.name));
            let _ = writeln!(io::stderr(), "  ! not allowed: {what}: nobody is here to ask; --allow {name} allows it");
            return Decision::Deny("there is nobody to ask for leave".into());
        };
        let _one_at_a_time = self.asking.lock().await;
        // Somebody may have allowed it for good meanwhile.
        if self.allowed.allows(tool) {
            return Decision::Allow;
        }
        let question = show::question(call, &self.folder);
        let name = visible(&call.name);
        // The read cannot be stopped. If the run is, the process ends with it.
        match tokio::task::spawn_blocking(move || ask(terminal, &question, &name)).await {
            Ok(Ok(Answer::Once)) => Decision::Allow,
            Ok(Ok(Answer::Always)) => {
                self.allowed.add(tool);
                Decision::Allow
            }
            Ok(Ok(Answer::No)) => Decision::Deny("the user said no".into()),
            Ok(Err(_)) | Err(_) => Decision::Deny("there is nobody to ask for leave".into()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Once,
    Always,
    No,
}

/// Returns the terminal of somebody who sees the question. Standard input may be a pipe with the prompt.
pub(crate) fn terminal() -> Option<File> {
    if !io::stderr().is_terminal() {
        return None;
    }
    if io::stdin().is_terminal() {
        return Some(io::stdin().as_fd().try_clone_to_owned().ok()?.into());
    }
    File::open("/dev/tty").ok()
}

fn ask(terminal: File, question: &str, name: &str) -> io::Result<Answer> {
    let question = format!("? It wants to {question}  Allow it? [y]es, [n]o, [a]lways {name} in this run: ");
    Ok(answer(&read_answer(terminal, &question)?))
}

/// Reads the line that a person types after a question.
pub(crate) fn read_answer(terminal: File, question: &str) -> io::Result<String> {
    // What was typed before the question was there is no answer to it.
    tcflush(&terminal, QueueSelector::IFlush)?;
    let mut err = io::stderr().lock();
    write!(err, "{question}")?;
    err.flush()?;
    drop(err);
    let mut line = String::new();
    BufReader::new(terminal).read_line(&mut line)?;
    if !line.ends_with('\n') {
        // An end of the input is not shown, and what comes next is another line.
        writeln!(io::stderr())?;
    }
    Ok(line)
}

/// Only a clear yes is one.
fn answer(line: &str) -> Answer {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Once,
        "a" | "always" => Answer::Always,
        _ => Answer::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        assert_eq!([answer("y\n"), answer(" YES "), answer("a\n")], [Answer::Once, Answer::Once, Answer::Always]);
        for line in ["", "\n", "n\n", "no", "yy", "y n", "1", "ok"] {
            assert_eq!(answer(line), Answer::No, "{line:?}");
        }
    }
}
