//! Which processes come from ours.
//!
//! A sidecar adopts what its child leaves behind (it is a subreaper), so whatever the child has started, however it was
//! detached, has the sidecar among its ancestors as long as both live. Nothing but the kernel can change that. A daemon has
//! many sidecars, and most of them are not its children any more; so it says which they are.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

/// Whose process is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It does not come from ours.
    Outside,
    /// It comes from ours: it is the child, or something that the child has started.
    Inside,
    /// It cannot be told.
    Unseen,
}

/// Says which processes have agents below them, when that is asked.
#[derive(Clone)]
pub(crate) struct Keepers(Arc<dyn Fn() -> Vec<u32> + Send + Sync>);

impl Keepers {
    /// Returns ours alone.
    pub(crate) fn own() -> Self {
        Self(Arc::new(|| vec![std::process::id()]))
    }

    /// Returns those that are named when it matters.
    pub(crate) fn named(names: impl Fn() -> Vec<u32> + Send + Sync + 'static) -> Self {
        Self(Arc::new(names))
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        (self.0)()
    }
}

impl fmt::Debug for Keepers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keepers")
    }
}

/// What is looked at may change meanwhile; then we look again, this often at most.
const TRIES: usize = 8;
/// More ancestors than any process has.
const MOST_ANCESTORS: usize = 1024;

/// Returns where the process with this number belongs.
pub(crate) fn of_process(pid: u32, ours: &[u32]) -> Standing {
    // It lives in a namespace that is not below ours, while whatever the child starts stays below.
    if pid == 0 {
        return Standing::Outside;
    }
    // One in between may end while we look, and those below it get another parent.
    let mut tries = (0..TRIES).map(|_| ancestry(pid, ours, parent_of));
    tries.find(|standing| *standing != Standing::Unseen).unwrap_or(Standing::Unseen)
}

/// Returns where the process belongs that has the other end of a TCP connection open.
pub(crate) fn of_tcp(client: SocketAddr, server: SocketAddr, ours: &[u32]) -> Standing {
    let inode = match (0..TRIES).find_map(|_| socket_of(client, server)) {
        // Whoever had it open has closed it, and cannot be found any more.
        Some(0) => return Standing::Unseen,
        Some(inode) => inode,
        None if client.ip().to_canonical().is_loopback() => return Standing::Unseen,
        // It is not on this machine.
        None => return Standing::Outside,
    };
    let socket = format!("socket:[{inode}]");
    let mut known = HashSet::new();
    let mut blind = false;
    for _ in 0..TRIES {
        let new: Vec<u32> = descendants(ours).into_iter().filter(|pid| known.insert(*pid)).collect();
        if new.is_empty() {
            let seen = !blind || processes().into_iter().any(|pid| has_open(pid, &socket) == Some(true));
            return if seen { Standing::Outside } else { Standing::Unseen };
        }
        for pid in new {
            match has_open(pid, &socket) {
                Some(true) => return Standing::Inside,
                Some(false) => {}
                None => blind = true,
            }
        }
    }
    // More keep coming, as when many agents are started. Then one that is not of them has to be seen with it.
    let is_outside = |pid: &u32| of_process(*pid, ours) == Standing::Outside;
    let seen = processes().into_iter().filter(is_outside).any(|pid| has_open(pid, &socket) == Some(true));
    if seen { Standing::Outside } else { Standing::Unseen }
}

/// Goes from a process to its parents until it is clear whether one of `ours` is among them.
fn ancestry(pid: u32, ours: &[u32], parent_of: impl Fn(u32) -> Option<u32>) -> Standing {
    if ours.contains(&pid) {
        return Standing::Outside;
    }
    let mut at = pid;
    for _ in 0..MOST_ANCESTORS {
        match parent_of(at) {
            Some(parent) if ours.contains(&parent) => return Standing::Inside,
            // The first process of all, or one whose parent is in another namespace.
            Some(0 | 1) => return Standing::Outside,
            Some(parent) => at = parent,
            None => return Standing::Unseen,
        }
    }
    Standing::Unseen
}

fn parent_of(pid: u32) -> Option<u32> {
    stat(Path::new(&format!("/proc/{pid}/stat"))).map(|(_, parent)| parent)
}

/// Returns a process's or thread's state and parent; the name before them may hold blanks and parentheses.
fn stat(path: &Path) -> Option<(char, u32)> {
    let stat = fs::read(path).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the processes that come from ours.
fn descendants(ours: &[u32]) -> Vec<u32> {
    let parents: HashMap<u32, u32> = processes().into_iter().filter_map(|pid| Some((pid, parent_of(pid)?))).collect();
    let is_ours = |pid: &u32| match ancestry(*pid, ours, |pid| parents.get(&pid).copied()) {
        Standing::Inside => true,
        Standing::Outside => false,
        // Its parent came or went while we listed them.
        Standing::Unseen => of_process(*pid, ours) == Standing::Inside,
    };
    parents.keys().copied().filter(is_ours).collect()
}

/// Tells whether a process has a file open, if that can be told. Each thread may have files of its own.
fn has_open(pid: u32, name: &str) -> Option<bool> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Some(false) };
    let mut told = Some(false);
    for thread in threads.flatten() {
        match fs::read_dir(thread.path().join("fd")) {
            Ok(files) => {
                for file in files.flatten() {
                    match fs::read_link(file.path()) {
                        Ok(to) if to.as_os_str() == name => return Some(true),
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        // Root may list the files of a process that is closed to it, and not see what they are.
                        Err(_) => told = None,
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // One that has ended and is not waited for has nothing open.
            Err(_) if matches!(stat(&thread.path().join("stat")), None | Some(('Z' | 'X', _))) => {}
            Err(_) => told = None,
        }
    }
    told
}

/// Returns the inode of the client's socket, 0 if no process has it open any more.
fn socket_of(client: SocketAddr, server: SocketAddr) -> Option<u64> {
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|table| {
        let table = fs::read_to_string(table).ok()?;
        table.lines().skip(1).find_map(|row| inode_in(row, client, server))
    })
}

/// Returns the inode in a row of `/proc/net/tcp` if it is about this connection.
fn inode_in(row: &str, client: SocketAddr, server: SocketAddr) -> Option<u64> {
    let mut fields = row.split_whitespace().skip(1);
    let same = |field: &str, wanted: SocketAddr| {
        let found = address(field)?;
        (found.ip().to_canonical() == wanted.ip().to_canonical() && found.port() == wanted.port()).then_some(())
    };
    same(fields.next()?, client)?;
    same(fields.next()?, server)?;
    // Its state, its queues, its timer, its retransmits, its user and its timeout come between.
    fields.nth(6)?.parse().ok()
}

/// Reads an address as the kernel prints it: words in the machine's own order, in hex, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(8 * at..8 * at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = if ip.len() == 8 {
        IpAddr::from(word(0)?)
    } else {
        let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
        IpAddr::from(<[u8; 16]>::try_from(words).ok()?)
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn ancestors_decide() {
        let parents = HashMap::from([(10, 1), (20, 10), (30, 20), (40, 30), (50, 10), (60, 0), (70, 99)]);
        let of = |pid| ancestry(pid, &[20, 21], |pid| parents.get(&pid).copied());
        assert_eq!([30, 40].map(of), [Standing::Inside; 2]);
        assert_eq!([20, 10, 50, 60].map(of), [Standing::Outside; 4]);
        assert_eq!([70, 80].map(of), [Standing::Unseen; 2]);
        // The first process of a container adopts everything in it.
        assert_eq!(ancestry(40, &[1], |pid| parents.get(&pid).copied()), Standing::Inside);
        assert_eq!(ancestry(30, &[20], |_| Some(30)), Standing::Unseen);
    }

    #[test]
    fn processes_and_connections_are_told_apart() {
        let ours = [std::process::id()];
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
        assert_eq!(of_process(child.id(), &ours), Standing::Inside);
        assert_eq!(of_process(std::process::id(), &ours), Standing::Outside);
        assert_eq!(of_process(0, &ours), Standing::Outside);
        assert!(descendants(&ours).contains(&child.id()));
        drop(child.stdin.take());
        child.wait().expect("it is ours");
        assert_eq!(of_process(child.id(), &ours), Standing::Unseen);

        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (server, _) = listener.accept().expect("it comes");
        let (from, to) = (server.peer_addr().expect("a peer"), server.local_addr().expect("an address"));
        // The child of another test may have a copy of it until it runs its program.
        let becomes = |standing, why| {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while of_tcp(from, to, &ours) != standing {
                assert!(std::time::Instant::now() < deadline, "{why}");
                std::thread::yield_now();
            }
        };
        becomes(Standing::Outside, "it is our own");
        let held = Stdio::from(std::os::fd::OwnedFd::from(client.try_clone().expect("a copy")));
        let mut child = Command::new("cat").stdin(held).stdout(Stdio::null()).spawn().expect("it runs");
        assert_eq!(of_tcp(from, to, &ours), Standing::Inside);
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
        becomes(Standing::Outside, "it is our own again");
        drop(client);
        becomes(Standing::Unseen, "it is closed");
        assert_eq!(
            of_tcp("192.0.2.7:4000".parse().expect("an address"), to, &ours),
            Standing::Outside,
            "another machine"
        );
    }

    #[test]
    fn the_kernels_table_is_read() {
        let client: SocketAddr = "127.0.0.1:40404".parse().expect("an address");
        let server: SocketAddr = "127.0.0.1:8080".parse().expect("an address");
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let tail = "01 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 20 4 30 10 -1";
        let home = word([127, 0, 0, 1]);
        let row = format!("   3: {home}:9DD4 {home}:1F90 {tail}");
        assert_eq!(inode_in(&row, client, server), Some(4242));
        assert_eq!(inode_in(&row, server, client), None);
        let mapped = format!("{}{}{}{home}", word([0; 4]), word([0; 4]), word([0, 0, 255, 255]));
        assert_eq!(inode_in(&format!("   3: {mapped}:9DD4 {mapped}:1F90 {tail}"), client, server), Some(4242));
        assert_eq!(inode_in("   3: nonsense", client, server), None);
    }
}
