//! What an agent is told when it begins: text, and what scripts print.

use std::process::Stdio;
use std::time::Duration;

use coop_drivers::StartSource;
use rustix::process::{Pid, Signal};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

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

/// Runs a script with the child's folder, sandbox and environment, in which there is none of our secrets.
async fn run(script: &str, like: &coop_term::Command) -> std::io::Result<String> {
    let like = coop_term::Command { program: "bash".into(), args: vec!["-c".into(), script.into()], ..like.clone() };
    let mut command = Command::from(like.without_terminal());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.process_group(0).kill_on_drop(true);
    if let Some(cwd) = &like.cwd {
        command.current_dir(cwd);
    }
    let mut group = Group(command.spawn()?);
    let mut output = Vec::new();
    if let Some(stdout) = group.0.stdout.take() {
        stdout.take(MAX_OUTPUT).read_to_end(&mut output).await?;
    }
    let text = String::from_utf8_lossy(&output).trim_end().to_owned();
    if output.len() as u64 == MAX_OUTPUT {
        // It may print without end; what it printed is enough.
        return Ok(text);
    }
    let status = group.0.wait().await?;
    if status.success() { Ok(text) } else { Err(std::io::Error::other(format!("{status}; it printed {text:?}"))) }
}

/// A script that runs, with all that it started; whatever is left of it ends with this.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // Once it has been waited for it has no number any more, and what it left behind may stay.
        if let Some(pid) = self.0.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
    }
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

    fn prime(script: &str) -> Prime {
        Prime { text: Some("told".into()), shell: vec![script.to_owned(), "echo after".to_owned()] }
    }

    /// The clock is stopped: it goes on at once when there is nothing to do but wait.
    #[tokio::test(start_paused = true)]
    async fn a_script_that_takes_too_long_is_told_of_and_the_next_one_runs() {
        let before = tokio::time::Instant::now();
        let one = Prime { text: Some("told".into()), shell: vec!["sleep 1000".into(), "sleep 1000".into()] };
        let late = "(a start script took more than 60 s)";
        assert_eq!(text(one, &Default::default()).await, format!("told\n{late}\n{late}"));
        assert_eq!(before.elapsed().as_secs(), 2 * LIMIT.as_secs());
    }

    #[tokio::test]
    async fn a_script_that_is_given_up_ends_with_all_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("a FIFO");
        let like = coop_term::Command { cwd: Some(folder.path().to_owned()), ..coop_term::Command::default() };
        let started = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo));
        let number = tokio::select! {
            ended = run("sleep 1000 & echo $! >fifo; wait", &like) => panic!("it ended: {ended:?}"),
            number = started => number.expect("no panic").expect("a number"),
        };
        let pid = Pid::from_raw(number.trim().parse().expect("a number")).expect("not zero");
        // It is ended already, or will be soon.
        if let Ok(fd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
            let limit = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
            let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&limit)));
            assert_eq!(ready.expect("poll works"), 1, "it lives on");
        }
    }

    #[tokio::test]
    async fn what_a_script_prints_is_cut_and_its_failure_told() {
        let cut = text(prime("yes"), &Default::default()).await;
        assert!(cut.len() as u64 <= MAX_OUTPUT + 16 && cut.starts_with("told\ny\ny") && cut.ends_with("\nafter"));
        let failed = text(prime("echo no; exit 3"), &Default::default()).await;
        assert_eq!(failed, "told\n(a start script failed: exit status: 3; it printed \"no\")\nafter");
    }
}
