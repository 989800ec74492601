//! What an agent is told when it begins: text, and what scripts print.

use std::process::Stdio;
use std::time::Duration;

use coop_drivers::StartSource;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// How long a script may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How much of what it prints is passed on.
const MAX_OUTPUT: u64 = 256 * 1024;

/// What an agent is told when it begins, by why it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartConfig {
    /// For every beginning that has none of its own.
    pub always: Option<Prime>,
    /// For some of them.
    pub by_source: Vec<(StartSource, Prime)>,
}

/// Text, and scripts whose output is text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prime {
    /// What is told as it is.
    pub text: Option<String>,
    /// What a shell runs.
    pub shell: Vec<String>,
}

impl StartConfig {
    /// Returns what is to be told.
    pub(crate) fn prime(&self, source: StartSource) -> Option<&Prime> {
        self.by_source.iter().find(|(known, _)| *known == source).map(|(_, prime)| prime).or(self.always.as_ref())
    }
}

/// Returns the text of a prime; a script that fails or takes too long adds a line that says so.
pub(crate) async fn text(prime: Prime, like: &coop_term::Command) -> String {
    let mut parts: Vec<String> = prime.text.into_iter().collect();
    for script in &prime.shell {
        match tokio::time::timeout(LIMIT, run(script, like)).await {
            Ok(Ok(output)) => parts.push(output),
            Ok(Err(error)) => parts.push(format!("(a start script failed: {error})")),
            Err(_) => parts.push(format!("(a start script took more than {} s)", LIMIT.as_secs())),
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts.join("\n")
}

/// Runs a script with the child's folder and environment, in which there is none of our secrets.
async fn run(script: &str, like: &coop_term::Command) -> std::io::Result<String> {
    let mut command = Command::new("bash");
    command.arg("-c").arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    for (name, value) in &like.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(cwd) = &like.cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn()?;
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_OUTPUT).read_to_end(&mut output).await?;
    }
    let status = child.wait().await?;
    let text = String::from_utf8_lossy(&output).trim_end().to_owned();
    if status.success() { Ok(text) } else { Err(std::io::Error::other(format!("{status}; it printed {text:?}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_script_has_the_environment_of_the_child() {
        let env = vec![("HOME".into(), None), ("COOP".into(), Some("1".into()))];
        let like = coop_term::Command { env, ..coop_term::Command::default() };
        let prime = Prime { text: None, shell: vec!["echo ${HOME-none} $COOP".into()] };
        assert_eq!(text(prime, &like).await, "none 1");
    }
}
