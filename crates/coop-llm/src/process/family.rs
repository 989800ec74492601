//! All that a child has started, wherever it is now.
//!
//! A process group is not enough: `timeout` makes one of its own, and so does every job of a shell with `set -m`. Nor is the
//! tree of parents, which is lost when the shell ends. So each child gets a mark in its environment, which all it starts
//! inherit. Whoever has the mark, or comes from the child, and is in our session, belongs to it. What makes itself a new
//! session wants to stay, and does.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::process::Command;

/// The variable with the marks: that of a child, after those of the children that it came from.
const VARIABLE: &str = "COOP_CHILD_OF";
/// What forks faster than it is looked for is not found; this only ends the search.
const MOST_ROUNDS: usize = 100;

/// The mark of one child and of all it starts.
#[derive(Debug)]
pub(super) struct Mark(String);

/// A process, as the kernel tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    id: i32,
    parent: i32,
    session: i32,
    /// When it was started: an id alone may be used again.
    begun: u64,
}

impl Mark {
    /// Marks a command that is to be started.
    pub(super) fn put(command: &mut Command) -> Self {
        let mark = format!("{:016x}", fastrand::u64(..));
        let mut marks = std::env::var_os(VARIABLE).unwrap_or_default();
        marks.push(",");
        marks.push(&mark);
        command.env(VARIABLE, marks);
        Self(mark)
    }

    /// Kills everybody with the mark, and all that come from a process that still has its id.
    pub(super) fn kill(&self, root: Option<Pid>) {
        let mut killed = HashSet::new();
        // Who was forked while others were killed is found in the next round. Who was told to die forks no more.
        for _ in 0..MOST_ROUNDS {
            let found: Vec<_> = self.family(root).into_iter().filter(|found| killed.insert(*found)).collect();
            if found.is_empty() {
                return;
            }
            found.into_iter().for_each(end);
        }
    }

    /// Tells whether somebody with the mark lives, or comes from a process that still has its id.
    pub(super) fn is_anybody_left(&self, root: Option<Pid>) -> bool {
        !self.family(root).is_empty()
    }

    fn family(&self, root: Option<Pid>) -> Vec<Process> {
        let Some(ours) = own_session() else { return Vec::new() };
        let all: Vec<Process> = processes().into_iter().filter(|process| process.session == ours).collect();
        let mut family: HashSet<i32> = root.iter().map(|root| root.as_raw_nonzero().get()).collect();
        // A parent may come after its child, since ids begin again at the end.
        while all.iter().any(|process| family.contains(&process.parent) && family.insert(process.id)) {}
        all.into_iter().filter(|process| family.contains(&process.id) || self.is_on(process.id)).collect()
    }

    fn is_on(&self, id: i32) -> bool {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| {
            let marks = variable.strip_prefix(VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            marks.is_some_and(|marks| marks.split(|byte| *byte == b',').any(|mark| mark == self.0.as_bytes()))
        })
    }
}

/// The session that this process is in: 0 if whoever leads it is outside of our container, where `getsid` gives what is no id.
fn own_session() -> Option<i32> {
    Some(read(i32::try_from(std::process::id()).ok()?)?.session)
}

/// Ends a process, unless its id is somebody else's by now.
fn end(process: Process) {
    let Some(id) = Pid::from_raw(process.id) else { return };
    let Ok(descriptor) = pidfd_open(id, PidfdFlags::empty()) else { return };
    if read(process.id).is_some_and(|now| now.begun == process.begun) {
        // It fails when nobody is left, which is as well.
        let _ = pidfd_send_signal(descriptor, Signal::KILL);
    }
}

fn processes() -> Vec<Process> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let ids = names.filter_map(|name| std::str::from_utf8(name.as_bytes()).ok()?.parse().ok());
    ids.filter_map(read).collect()
}

/// Reads about a process that has not ended.
fn read(id: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    parse(id, &stat)
}

fn parse(id: i32, stat: &str) -> Option<Process> {
    // The name before it may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let is_over = matches!(*fields.first()?, "Z" | "X");
    let number = |at: usize| fields.get(at)?.parse().ok();
    let process = Process { id, parent: number(1)?, session: number(3)?, begun: fields.get(19)?.parse().ok()? };
    (!is_over).then_some(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let rest = "1 7 9 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 555 0 0";
        let expected = Process { id: 7, parent: 1, session: 9, begun: 555 };
        assert_eq!(parse(7, &format!("7 (a) S 2 (b)) S {rest}")), Some(expected));
        let outside = "0 0 0 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 555 0 0";
        assert_eq!(parse(7, &format!("7 (x) S {outside}")), Some(Process { parent: 0, session: 0, ..expected }));
        assert_eq!(parse(7, &format!("7 (x) Z {rest}")), None);
        assert_eq!(parse(7, "7 (x"), None);
    }

    #[test]
    fn this_process_is_found() {
        let id = i32::try_from(std::process::id()).unwrap();
        let session = own_session();
        assert!(processes().iter().any(|process| process.id == id && Some(process.session) == session));
    }
}
