//! What keeps the child from reaching into the sidecar: docs/SAFETY.md.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use coop_server::ProcessRole;
use rustix::process::{DumpableBehavior, Pid, WaitId, WaitIdOptions};
use tokio::signal::unix::{SignalKind, signal};

/// The kernel's `__WNOTHREAD`: only children of the thread that asks.
const OF_THIS_THREAD: WaitIdOptions = WaitIdOptions::from_bits_retain(0x2000_0000);

/// Where the password of the store's server is kept for the daemon, when it was in a variable that its agents would see.
pub(crate) const STORE_PASSWORD: &str = "COOP_STORE_PASSWORD";

/// Variables with secrets of coop's, which no agent gets that a person starts by `coop wrap`.
pub(crate) const SECRETS: [&str; 5] =
    ["COOP_AUTH_TOKEN", "COOP_API_KEY", "COBBLER_AGENT_API_KEY", "COOP_STORE", STORE_PASSWORD];

/// Takes the token off the command line, which everybody may read, by starting again without it. Returns if there is
/// none on it.
pub(crate) fn hide_token() {
    if let Some((args, token)) = without(env::args_os().skip(1), "--auth-token") {
        start_again(args, |again| {
            again.env("COOP_AUTH_TOKEN", token);
        });
    }
}

/// Closes us to other processes of this user, if they would find a secret in our environment.
pub(crate) fn close_if_secret() {
    if SECRETS.iter().any(|name| env::var_os(name).is_some()) {
        close();
    }
}

/// The same for where the store is, which may have a password in it, and for a password that agents would inherit.
pub(crate) fn hide_store(url: &str) {
    let password = env::var_os("PGPASSWORD");
    let args = without(env::args_os().skip(1), "--store");
    if args.is_none() && password.is_none() {
        return;
    }
    let args = args.map_or_else(|| env::args_os().skip(1).collect(), |(args, _)| args);
    start_again(args, |again| {
        again.env("COOP_STORE", url).env_remove("PGPASSWORD");
        if let Some(password) = password {
            again.env(STORE_PASSWORD, password);
        }
    });
}

/// Becomes the same program with other arguments. If that cannot be, what was to be hidden works all the same.
fn start_again(args: Vec<OsString>, change: impl FnOnce(&mut Command)) {
    let Ok(program) = env::current_exe() else { return };
    let mut again = Command::new(program);
    again.args(args);
    change(&mut again);
    if let Some(name) = env::args_os().next() {
        again.arg0(name);
    }
    let _ = again.exec();
}

/// Returns the arguments without a flag, and its value, if it is among those for us.
fn without(args: impl Iterator<Item = OsString>, flag: &str) -> Option<(Vec<OsString>, OsString)> {
    let mut args = args.peekable();
    let mut kept = Vec::new();
    let mut found = None;
    while let Some(arg) = args.next_if(|arg| arg != "--") {
        if arg == flag {
            found = args.next();
        } else if let Some(value) = value(&arg, flag) {
            found = Some(value);
        } else {
            kept.push(arg);
        }
    }
    kept.extend(args);
    found.map(|value| (kept, value))
}

fn value(arg: &OsStr, flag: &str) -> Option<OsString> {
    let value = arg.as_bytes().strip_prefix(flag.as_bytes())?.strip_prefix(b"=")?;
    Some(OsStr::from_bytes(value).to_owned())
}

/// Closes our memory and environment to other processes of this user.
pub(crate) fn close() {
    if let Err(error) = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "other processes of this user can read coop's memory");
    }
}

/// Closes us, and adopts what agents leave behind under a name that tells, so that the guard knows an agent's process.
pub(crate) fn raise(role: ProcessRole) {
    close();
    if let Err(error) = rustix::thread::set_name(role.name()) {
        tracing::warn!(%error, "other coop processes take what the agent runs for a person");
    }
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "processes that detach from the agent cannot be told from others");
    }
}

/// Waits for those who were adopted and have ended. Must run on the first thread: the kernel gives orphans to it, while
/// the child and the start scripts belong to the session's thread, which waits for them itself.
pub(crate) async fn reap_adopted() {
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | OF_THIS_THREAD;
    loop {
        while let Ok(Some(_)) = rustix::process::waitid(WaitId::All, options) {}
        if ended.recv().await.is_none() {
            return;
        }
    }
}

/// Waits for adopted processes that have ended, in a process whose own children belong to the same thread. Those are waited
/// for at once, so a child that is dead at two looks in a row is an orphan.
pub(crate) async fn reap_orphans() {
    const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    while ended.recv().await.is_some() {
        let mut dead = dead_children();
        while !dead.is_empty() {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            let (orphans, new): (Vec<_>, _) = dead_children().into_iter().partition(|pid| dead.contains(pid));
            for pid in orphans {
                let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
            dead = new;
        }
    }
}

/// Returns our children that have ended and were not waited for.
fn dead_children() -> Vec<Pid> {
    let children = std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()));
    let children = children.unwrap_or_default();
    let pids = children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    pids.filter(|pid| matches!(rustix::process::waitid(WaitId::Pid(*pid), options), Ok(Some(_)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_taken_off_the_command_line() {
        let without = |line: &str| {
            let kept = without(line.split(' ').map(OsString::from), "--auth-token");
            kept.map(|(kept, token)| {
                let kept: Vec<_> = kept.iter().map(|arg| arg.to_string_lossy()).collect();
                format!("{}: {}", token.display(), kept.join(" "))
            })
        };
        assert_eq!(without("--port 0 --auth-token hush -- a b"), Some("hush: --port 0 -- a b".to_owned()));
        assert_eq!(without("send a --auth-token=hush hello"), Some("hush: send a hello".to_owned()));
        assert_eq!(without("--port 0 -- a --auth-token theirs"), None);
        assert_eq!(without("--auth-tokens=x -- a"), None);
    }
}
