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

/// Takes the token off the command line, which everybody may read, by starting again without it. Returns if there is
/// none on it.
pub(crate) fn hide_token(token: &Token) {
    let mut args = env::args_os();
    let name = args.next();
    let Some(args) = without_token(args) else { return };
    let Ok(program) = env::current_exe() else { return };
    let mut again = Command::new(program);
    again.args(args).env("COOP_AUTH_TOKEN", token.expose());
    if let Some(name) = name {
        again.arg0(name);
    }
    // If that cannot be, the token works all the same.
    let _ = again.exec();
}

/// Returns the arguments without the token, if it is among those for us.
fn without_token(args: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    const FLAG: &str = "--auth-token";
    let mut args = args.peekable();
    let mut kept = Vec::new();
    let mut found = false;
    while let Some(arg) = args.next_if(|arg| arg != "--") {
        if arg == FLAG {
            args.next();
            found = true;
        } else if has_value(&arg, FLAG) {
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
            let kept = without_token(line.split(' ').map(OsString::from));
            kept.map(|kept| kept.iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(without("--port 0 --auth-token hush -- a b"), Some("--port 0 -- a b".to_owned()));
        assert_eq!(without("--auth-token=hush --port 0 -- a"), Some("--port 0 -- a".to_owned()));
        assert_eq!(without("--port 0 -- a --auth-token theirs"), None);
        assert_eq!(without("--auth-tokens=x -- a"), None);
    }
}
