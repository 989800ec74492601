//! What keeps the child from reaching into the sidecar: docs/SAFETY.md.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

use coop_api::Token;
use rustix::process::{DumpableBehavior, WaitId, WaitIdOptions};
use tokio::signal::unix::{SignalKind, signal};

/// The kernel's `__WNOTHREAD`: only children of the thread that asks.
const OF_THIS_THREAD: WaitIdOptions = WaitIdOptions::from_bits_retain(0x2000_0000);

/// Where the password of the store's server is kept for the daemon, when it was in a variable that its agents would see.
pub(crate) const STORE_PASSWORD: &str = "COOP_STORE_PASSWORD";

/// Takes the token off the command line, which everybody may read, by starting again without it. Returns if there is
/// none on it.
pub(crate) fn hide_token(token: &Token) {
    if let Some(args) = without(env::args_os().skip(1), "--auth-token") {
        start_again(args, |again| {
            again.env("COOP_AUTH_TOKEN", token.expose());
        });
    }
}

/// The same for where the store is, which may have a password in it, and for a password that agents would inherit.
pub(crate) fn hide_store(url: &str) {
    let password = env::var_os("PGPASSWORD");
    let args = without(env::args_os().skip(1), "--store");
    if args.is_none() && password.is_none() {
        return;
    }
    start_again(args.unwrap_or_else(|| env::args_os().skip(1).collect()), |again| {
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

/// Returns the arguments without a flag and its value, if it is among those for us.
fn without(args: impl Iterator<Item = OsString>, flag: &str) -> Option<Vec<OsString>> {
    let mut args = args.peekable();
    let mut kept = Vec::new();
    let mut found = false;
    while let Some(arg) = args.next_if(|arg| arg != "--") {
        if arg == flag {
            args.next();
            found = true;
        } else if has_value(&arg, flag) {
            found = true;
        } else {
            kept.push(arg);
        }
    }
    kept.extend(args);
    found.then_some(kept)
}

fn has_value(arg: &OsStr, flag: &str) -> bool {
    arg.as_encoded_bytes().strip_prefix(flag.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
}

/// Closes our memory and environment to other processes of this user.
pub(crate) fn close() {
    if let Err(error) = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "other processes of this user can read coop's memory");
    }
}

/// Closes us, and adopts what the child leaves behind, so that it can always be told where a process comes from.
pub(crate) fn raise() {
    close();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_taken_off_the_command_line() {
        let without = |line: &str| {
            let kept = without(line.split(' ').map(OsString::from), "--auth-token");
            kept.map(|kept| kept.iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(without("--port 0 --auth-token hush -- a b"), Some("--port 0 -- a b".to_owned()));
        assert_eq!(without("--auth-token=hush --port 0 -- a"), Some("--port 0 -- a".to_owned()));
        assert_eq!(without("--port 0 -- a --auth-token theirs"), None);
        assert_eq!(without("--auth-tokens=x -- a"), None);
    }
}
