//! Who is asked before a tool changes something: the person at this terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use async_trait::async_trait;
use coop_llm::{Decision, Gate, Tool, ToolUse};
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::Mutex;

use super::ready::Allowed;
use super::show;

/// Asks the person at this terminal, one question at a time.
pub(super) struct Person {
    allowed: Arc<Allowed>,
    /// Held while somebody thinks.
    asking: Mutex<()>,
}

impl Person {
    pub(super) fn new(allowed: Arc<Allowed>) -> Self {
        Self { allowed, asking: Mutex::new(()) }
    }
}

#[async_trait]
impl Gate for Person {
    async fn decide(&self, call: &ToolUse, tool: &dyn Tool) -> Decision {
        if self.allowed.allows(tool) {
            return Decision::Allow;
        }
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            let _ = writeln!(io::stderr(), "  ! not allowed: nobody is here to ask; --allow {} allows it", call.name);
            return Decision::Deny("there is nobody to ask for leave".into());
        }
        let _one_at_a_time = self.asking.lock().await;
        // Somebody may have allowed it for good meanwhile.
        if self.allowed.allows(tool) {
            return Decision::Allow;
        }
        let question = show::question(call);
        // The read cannot be stopped. If the run is, the process ends with it.
        match tokio::task::spawn_blocking(move || ask(&question)).await {
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

fn ask(question: &str) -> io::Result<Answer> {
    // What was typed before the question was there is no answer to it.
    tcflush(io::stdin(), QueueSelector::IFlush)?;
    let mut err = io::stderr().lock();
    write!(err, "? It wants to {question}  Allow it? [y]es, [n]o, [a]lways in this run: ")?;
    err.flush()?;
    drop(err);
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(answer(&line))
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
