//! A command that decides: 0 is a yes, anything else is not.

use super::outside::GateRun;
use crate::bounded::{self, DaemonSandbox, Ran};
use crate::engine::GateVerdict;

pub(super) async fn run(gate: &GateRun, daemon: Option<&DaemonSandbox>) -> GateVerdict {
    let command = bounded::command_in(gate.sandbox.as_ref(), &gate.folder, daemon, "/bin/sh");
    let mut command = match command {
        Ok(command) => command,
        Err(why) => return GateVerdict::Broken { why: why.to_string() },
    };
    command.arg("-c").arg(&gate.run).env("COOP_AGENT_ID", &gate.agent.0);
    match bounded::run(command, None, gate.limit).await {
        Ok(Ran { status: None, .. }) => GateVerdict::TimedOut,
        Ok(Ran { status: Some(status), .. }) if status.success() => GateVerdict::Passed,
        Ok(Ran { status: Some(status), output, .. }) => match status.code() {
            Some(_) => GateVerdict::Failed { output: words(&output) },
            None => GateVerdict::Broken { why: format!("it was ended by somebody: {status}") },
        },
        Err(error) => GateVerdict::Broken { why: error.to_string() },
    }
}

fn words(kept: &[u8]) -> String {
    let text = String::from_utf8_lossy(kept);
    let text = text.trim();
    if text.is_empty() { "the check did not pass, and printed nothing".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use coop_api::AgentId;
    use tokio::io::AsyncReadExt;
    use tokio::net::unix::pipe;
    use tokio::time::timeout;

    use super::super::outside::{Machine, Outside};
    use super::*;

    async fn verdict(command: &str, limit: Duration) -> GateVerdict {
        let agent = AgentId("fixer".to_owned());
        let folder = PathBuf::from("/");
        run(&GateRun { agent, run: command.to_owned(), limit, folder, sandbox: None }, None).await
    }

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn only_a_zero_is_a_yes_and_the_output_is_in_order() {
        assert_eq!(verdict("true", LIMIT).await, GateVerdict::Passed);
        let output = "one\ntwo\nfixer".to_owned();
        let script = "echo one; echo two >&2; echo $COOP_AGENT_ID; exit 3";
        assert_eq!(verdict(script, LIMIT).await, GateVerdict::Failed { output });
        assert!(matches!(verdict("kill -9 $$", LIMIT).await, GateVerdict::Broken { .. }));
        let GateVerdict::Failed { output } = verdict("yes | head -c 100000; echo end; exit 1", LIMIT).await else {
            panic!("it fails")
        };
        assert!(output.len() <= bounded::MOST_OUTPUT && output.ends_with("end"), "{}", output.len());
    }

    #[tokio::test]
    async fn what_it_leaves_running_is_not_waited_for_but_a_gate_that_takes_too_long_is_ended_whole() {
        assert_eq!(verdict("sleep 60 & exit 0", LIMIT).await, GateVerdict::Passed);
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("run");
        assert!(made.success());
        // As long as anybody has it open for writing there is no end to read.
        let mut held = pipe::OpenOptions::new().open_receiver(&fifo).expect("open");
        let script = format!("exec 3>{}; sleep 600 & echo here >&3; wait", fifo.display());
        let gate = tokio::spawn(async move { verdict(&script, LIMIT * 2).await });
        let mut here = [0; 5];
        timeout(LIMIT, held.read_exact(&mut here)).await.expect("it begins").expect("read");
        // Its time is up now that all of it runs, however long that took.
        tokio::time::pause();
        tokio::time::advance(LIMIT * 2).await;
        assert_eq!(gate.await.expect("no panic"), GateVerdict::TimedOut);
        tokio::time::resume();
        let mut rest = String::new();
        let read = timeout(LIMIT, held.read_to_string(&mut rest)).await;
        read.expect("nobody holds it any more").expect("read");
        assert_eq!((&here, rest.as_str()), (b"here\n", ""));
        assert_eq!(verdict("yes", Duration::from_millis(500)).await, GateVerdict::TimedOut, "it never stops printing");
    }

    /// An agent in a container writes the files that a gate on this machine would run. Also one whose definition was stored
    /// before that was refused runs none.
    #[tokio::test]
    async fn a_gate_that_is_refused_does_not_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Machine { refuses_gates: Some("not here"), ..Machine::default() };
        let agent = AgentId("fixer".to_owned());
        let run = "touch ran".to_owned();
        let gate = GateRun { agent, run, limit: LIMIT, folder: folder.path().to_owned(), sandbox: None };
        assert_eq!(machine.gate(gate.clone()).await, GateVerdict::Broken { why: "not here".to_owned() });
        assert!(!folder.path().join("ran").exists());
        assert_eq!(Machine::default().gate(gate).await, GateVerdict::Passed);
        assert!(folder.path().join("ran").exists());
    }

    #[tokio::test]
    async fn a_gate_in_a_folder_that_is_not_there_is_broken() {
        let agent = AgentId("fixer".to_owned());
        let gate =
            GateRun { agent, run: "true".to_owned(), limit: LIMIT, folder: PathBuf::from("/nowhere"), sandbox: None };
        assert!(matches!(run(&gate, None).await, GateVerdict::Broken { .. }));
    }
}
