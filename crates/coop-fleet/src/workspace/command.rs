//! Commands that a definition has a name for, which agents may run by it.

use std::path::Path;
use std::time::Duration;

use coop_sandbox::SandboxError;
use serde::Serialize;
use serde_json::Value;

use crate::bounded::{self, DaemonSandbox};
use crate::definition::Sandbox;

/// How long one may take if nobody says: less than agents allow a tool to take.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(50);

/// A command that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCommand {
    /// The program and its words, as they are: no shell reads them.
    pub run: Vec<String>,
    /// How long it may take.
    pub limit: Duration,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandEnd {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed last, on both of its outputs.
    pub output: String,
    /// Whether it printed more than that.
    pub is_cut: bool,
}

/// Why there is no end.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It could not be run.
    #[error("{0} cannot be run")]
    Start(String, #[source] std::io::Error),
    /// There is no sandbox for it.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// It was ended.
    #[error("{0} took longer than {1:?} and was ended")]
    TimedOut(String, Duration),
}

impl NamedCommand {
    /// Runs it in a folder. What an agent gives it comes as JSON on its standard input, and never as words, which could be
    /// options that nobody has thought of.
    pub async fn run(
        &self,
        folder: &Path,
        sandbox: Option<&Sandbox>,
        daemon: Option<&DaemonSandbox>,
        given: &[Value],
    ) -> Result<CommandEnd, CommandError> {
        let (program, words) = self.run.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let mut command = bounded::command_in(sandbox, folder, daemon, program)?;
        command.args(words);
        let input = serde_json::to_vec(given).unwrap_or_default();
        let failed = |error| CommandError::Start(program.to_owned(), error);
        let ran = bounded::run(command, Some(input), self.limit).await.map_err(failed)?;
        let Some(status) = ran.status else { return Err(CommandError::TimedOut(program.to_owned(), self.limit)) };
        let output = String::from_utf8_lossy(&ran.output).into_owned();
        Ok(CommandEnd { code: status.code(), output, is_cut: ran.is_cut })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn command(words: &[&str], limit: Duration) -> NamedCommand {
        NamedCommand { run: words.iter().map(|&word| word.to_owned()).collect(), limit }
    }

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn its_words_are_words_and_what_it_is_given_is_its_input() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = async |words: &[&str], given: &[Value]| {
            command(words, LIMIT).run(folder.path(), None, None, given).await.expect("run")
        };
        let end = run(&["echo", "$(id)", "; rm -rf x", "`id`"], &[]).await;
        assert_eq!(end, CommandEnd { code: Some(0), output: "$(id) ; rm -rf x `id`\n".into(), is_cut: false });
        let end = run(&["cat"], &[json!("--help"), json!({ "a": 1 })]).await;
        assert_eq!(end.output, r#"["--help",{"a":1}]"#);
        // Whoever does not read it is not in the way of it.
        assert_eq!(run(&["false"], &[json!("x".repeat(1 << 20))]).await.code, Some(1));
        let end = run(&["sh", "-c", "yes | head -c 100000; echo end; pwd; kill -9 $$"], &[]).await;
        assert!(end.code.is_none() && end.is_cut && end.output.len() <= bounded::MOST_OUTPUT, "{end:?}");
        let here = folder.path().canonicalize().expect("there");
        assert!(end.output.ends_with(&format!("end\n{}\n", here.display())), "{end:?}");
    }

    #[tokio::test]
    async fn one_that_takes_too_long_is_ended_and_one_that_is_not_there_is_told() {
        let slow = command(&["sleep", "600"], Duration::from_millis(50)).run(Path::new("/"), None, None, &[]).await;
        assert!(matches!(slow, Err(CommandError::TimedOut(..))), "{slow:?}");
        let missing = command(&["/nowhere/x"], LIMIT).run(Path::new("/"), None, None, &[]).await;
        assert_eq!(missing.expect_err("not there").to_string(), "/nowhere/x cannot be run");
    }
}
