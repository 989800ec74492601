//! Which processes belong to an agent.
//!
//! Whatever an agent starts has a coop process among its ancestors that runs agents: its sidecar, or the daemon or shim above
//! that. Those processes are subreapers, so a process that detaches stays below them as long as they live. They carry the
//! names of [`ProcessRole`], which only a process itself can change.
//!
//! This is a courtesy and no wall: an agent can have a program outside of coop act for it. The wall is the sandbox.

use std::ffi::CStr;
use std::fs;
use std::net::{IpAddr, SocketAddr};

use crate::sock_diag::find_tcp;

/// A coop process that has agents below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessRole {
    /// The process of one agent.
    Sidecar,
    /// The process of a fleet.
    Daemon,
    /// A sidecar that speaks the adapter-shim protocol.
    Shim,
    /// coop's own agent.
    Agent,
}

impl ProcessRole {
    const ALL: [Self; 4] = [Self::Sidecar, Self::Daemon, Self::Shim, Self::Agent];

    /// Returns the name that such a process gives itself. The kernel keeps 15 characters.
    pub fn name(self) -> &'static CStr {
        match self {
            Self::Sidecar => c"coop-sidecar",
            Self::Daemon => c"coop-daemon",
            Self::Shim => c"coop-shim",
            Self::Agent => c"coop-agent",
        }
    }
}

/// A process may end, and its children get another parent, while `/proc` is read. Then it is read again, this often at most.
const TRIES: usize = 8;
/// More ancestors than any process has.
const MOST_ANCESTORS: usize = 1024;

/// Where a process comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// No agent started it.
    Outside,
    /// An agent started it.
    Agent,
    /// An agent started it in a PID namespace below that of this process: in its sandbox.
    Sandbox,
    /// `/proc` does not tell.
    Unknown,
}

/// The client's end of a TCP connection, as the kernel's table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpClient {
    /// A socket of this machine, open in some process.
    Local {
        /// The socket's inode.
        inode: u64,
        /// The user that made it.
        uid: u32,
    },
    /// A socket of this machine that no process has open any more.
    Closed,
    /// A socket of another machine.
    Remote,
}

/// A process, as `/proc/PID/stat` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    name: String,
    parent: u32,
    /// When it started, in the kernel's ticks. A number that another process takes over has another one.
    started: u64,
}

/// Tells agents' processes from others, as seen from this process.
#[derive(Clone, Debug)]
pub(crate) struct Ancestry {
    own: u32,
    /// Processes that this one comes from. To a coop that an agent starts, that agent is the person who steers.
    trusted: Vec<(u32, u64)>,
}

impl Ancestry {
    /// Looks at where this process comes from.
    pub(crate) fn of_this_process() -> Self {
        Self::above(std::process::id())
    }

    /// The same for a sidecar that a daemon has started: what the daemon runs beside it is not to be trusted.
    pub(crate) fn of_daemons_child() -> Self {
        let parent = std::os::unix::process::parent_id();
        Self { own: std::process::id(), ..Self::above(parent) }
    }

    fn above(own: u32) -> Self {
        let mut trusted = Vec::new();
        let mut at = Process::read(own);
        while let Some(parent) = at.map(|process| process.parent).filter(|_| trusted.len() < MOST_ANCESTORS) {
            at = Process::read(parent);
            trusted.extend(at.as_ref().map(|process| (parent, process.started)));
        }
        Self { own, trusted }
    }

    /// Returns where a process comes from.
    pub(crate) fn origin(&self, pid: u32) -> Origin {
        // It is in a PID namespace that is not below ours, while whatever an agent starts stays below.
        if pid == 0 {
            return Origin::Outside;
        }
        let mut tries = (0..TRIES).map(|_| self.walk(pid, Process::read));
        match tries.find(|origin| *origin != Origin::Unknown).unwrap_or(Origin::Unknown) {
            Origin::Agent => match namespace_depth(pid) {
                // It ended meanwhile.
                0 => Origin::Unknown,
                depth if depth > namespace_depth(self.own) => Origin::Sandbox,
                _ => Origin::Agent,
            },
            origin => origin,
        }
    }

    /// Returns where the processes come from that have a socket open. It is outside only if a process outside was seen with
    /// it, and no agent's: a socket that is on its way between processes is in none.
    pub(crate) fn origin_of_socket(&self, inode: u64) -> Origin {
        let socket = format!("socket:[{inode}]");
        for _ in 0..TRIES {
            let holders: Vec<u32> = processes().into_iter().filter(|pid| has_open(*pid, &socket)).collect();
            let origins: Vec<Origin> = holders.into_iter().map(|pid| self.origin(pid)).collect();
            if let Some(origin) = [Origin::Sandbox, Origin::Agent].into_iter().find(|origin| origins.contains(origin)) {
                return origin;
            }
            if !origins.is_empty() && origins.iter().all(|origin| *origin == Origin::Outside) {
                return Origin::Outside;
            }
        }
        Origin::Unknown
    }

    fn walk(&self, pid: u32, read: impl Fn(u32) -> Option<Process>) -> Origin {
        if pid == self.own {
            return Origin::Outside;
        }
        let Some(mut at) = read(pid) else { return Origin::Unknown };
        for _ in 0..MOST_ANCESTORS {
            let number = at.parent;
            if number == self.own {
                return Origin::Agent;
            }
            // The first process of all, or one whose parent is in another namespace.
            if number == 0 {
                return Origin::Outside;
            }
            let Some(parent) = read(number) else { return Origin::Unknown };
            let runs_agents = ProcessRole::ALL.iter().any(|role| role.name().to_bytes() == parent.name.as_bytes());
            if runs_agents && !self.trusted.contains(&(number, parent.started)) {
                return Origin::Agent;
            }
            at = parent;
        }
        Origin::Unknown
    }
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name may hold blanks and parentheses; the fields after it are numbers but for the state.
    fn parse(stat: &[u8]) -> Option<Self> {
        let stat = String::from_utf8_lossy(stat);
        let (head, tail) = stat.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let mut fields = tail.split_whitespace();
        Some(Self {
            name: name.to_owned(),
            // The state comes before it.
            parent: fields.nth(1)?.parse().ok()?,
            started: fields.nth(17)?.parse().ok()?,
        })
    }
}

/// Returns in how many PID namespaces a process has a number, as seen from this process; 0 if it has ended.
fn namespace_depth(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.map_or(0, |numbers| numbers.split_whitespace().count())
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Tells whether a process is seen to have a file open. Each thread may have files of its own.
fn has_open(pid: u32, name: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut files = threads.flat_map(|thread| fs::read_dir(thread.path().join("fd")).into_iter().flatten().flatten());
    files.any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == name))
}

/// Looks up the client's end of a connection to us.
pub(crate) fn tcp_client(client: SocketAddr, server: SocketAddr) -> TcpClient {
    match (0..TRIES).find_map(|_| row_of(client, server)) {
        Some((0, _)) => TcpClient::Closed,
        Some((inode, uid)) => TcpClient::Local { inode, uid },
        None if client.ip().to_canonical().is_loopback() => TcpClient::Closed,
        None => TcpClient::Remote,
    }
}

/// Returns the inode and the user of the client's socket; the inode is 0 if no process has it open any more.
fn row_of(client: SocketAddr, server: SocketAddr) -> Option<(u64, u32)> {
    // Some containers allow no netlink, and it finds no socket that is bound to an interface, as link-local ones are.
    if let Ok(Some(socket)) = find_tcp(client, server) {
        return Some((socket.inode.into(), socket.uid));
    }
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|table| {
        let table = fs::read_to_string(table).ok()?;
        table.lines().skip(1).find_map(|row| parse_row(row, client, server))
    })
}

/// Reads a row of `/proc/net/tcp` if it is about this connection.
fn parse_row(row: &str, client: SocketAddr, server: SocketAddr) -> Option<(u64, u32)> {
    let mut fields = row.split_whitespace().skip(1);
    let same = |field: &str, wanted: SocketAddr| {
        let found = address(field)?;
        (found.ip().to_canonical() == wanted.ip().to_canonical() && found.port() == wanted.port()).then_some(())
    };
    same(fields.next()?, client)?;
    same(fields.next()?, server)?;
    // The state, the queues, the timer and the retransmits come before the user, a timeout after it.
    let uid = fields.nth(4)?.parse().ok()?;
    Some((fields.nth(1)?.parse().ok()?, uid))
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
    use std::collections::HashMap;
    use std::io::{IoSlice, IoSliceMut, Read, Write};
    use std::mem::MaybeUninit;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    use rustix::net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    };

    use super::*;

    fn process(name: &str, parent: u32) -> Process {
        Process { name: name.to_owned(), parent, started: 7 }
    }

    #[test]
    fn a_process_below_any_coop_that_runs_agents_is_an_agents() {
        let table = HashMap::from([
            (1, process("init", 0)),
            (10, process("bash", 1)),
            (20, process("coop-daemon", 10)),
            (30, process("coop-sidecar", 20)),
            (31, process("claude", 30)),
            (32, process("sh", 31)),
            (40, process("coop-sidecar", 1)),
            (41, process("sh", 40)),
            (50, process("make", 20)),
            (60, process("coop", 10)),
            (61, process("curl", 60)),
            (70, process("lost", 99)),
            (80, process("nsenter", 0)),
        ]);
        let ancestry = |own, trusted: &[u32]| Ancestry { own, trusted: trusted.iter().map(|pid| (*pid, 7)).collect() };
        let of = |ancestry: &Ancestry, pid| ancestry.walk(pid, |pid| table.get(&pid).cloned());
        // The daemon 20, the sidecar 30 that it has started, and a sidecar 40 that stands alone.
        let (daemon, sidecar, alone) = (ancestry(20, &[10, 1]), ancestry(30, &[10, 1]), ancestry(40, &[1]));
        for seen_from in [&daemon, &sidecar, &alone] {
            for pid in [32, 41, 50] {
                assert_eq!(of(seen_from, pid), Origin::Agent, "{pid}");
            }
            for pid in [10, 20, 40, 60, 61, 80] {
                assert_eq!(of(seen_from, pid), Origin::Outside, "{pid}");
            }
            assert_eq!([70, 71].map(|pid| of(seen_from, pid)), [Origin::Unknown; 2]);
        }
    }

    /// To a coop that an agent starts, that agent is the person.
    #[test]
    fn a_coop_that_this_process_comes_from_is_trusted_unless_its_number_was_taken_over() {
        let table = HashMap::from([(1, process("init", 0)), (30, process("coop-sidecar", 1)), (31, process("sh", 30))]);
        let of = |ancestry: Ancestry| ancestry.walk(31, |pid| table.get(&pid).cloned());
        assert_eq!(of(Ancestry { own: 40, trusted: vec![(30, 7), (1, 7)] }), Origin::Outside);
        assert_eq!(of(Ancestry { own: 40, trusted: vec![(30, 6), (1, 7)] }), Origin::Agent);
        let here = Ancestry::of_this_process();
        let parent = std::os::unix::process::parent_id();
        assert!(here.trusted.iter().any(|(pid, _)| *pid == parent), "{here:?}");
        assert!(Ancestry::of_daemons_child().trusted.iter().all(|(pid, _)| *pid != parent));
    }

    #[test]
    fn the_stat_of_a_process_with_any_name_is_read() {
        let stat = b"42 (a) b (c) S 7 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9876 10 11";
        let expected = Process { name: "a) b (c".to_owned(), parent: 7, started: 9876 };
        assert_eq!(Process::parse(stat), Some(expected));
        assert_eq!(Process::parse(b"42 (cut"), None);
    }

    struct Connection {
        client: TcpStream,
        _server: TcpStream,
        inode: u64,
        uid: u32,
    }

    fn connection() -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (server, _) = listener.accept().expect("it comes");
        let found = tcp_client(server.peer_addr().expect("a peer"), server.local_addr().expect("an address"));
        let TcpClient::Local { inode, uid } = found else { panic!("{found:?}") };
        Connection { client, _server: server, inode, uid }
    }

    /// The child of another test may have a copy of a socket until it runs its program.
    fn becomes(inode: u64, wanted: Origin, why: &str) {
        let ancestry = Ancestry::of_this_process();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while ancestry.origin_of_socket(inode) != wanted {
            assert!(std::time::Instant::now() < deadline, "{why}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_socket_is_an_agents_while_a_process_of_the_agent_has_it_open() {
        let connection = connection();
        assert_eq!(connection.uid, rustix::process::getuid().as_raw());
        becomes(connection.inode, Origin::Outside, "this process has it");
        let held = Stdio::from(OwnedFd::from(connection.client.try_clone().expect("a copy")));
        let mut child = Command::new("cat").stdin(held).stdout(Stdio::null()).spawn().expect("it runs");
        assert_eq!(Ancestry::of_this_process().origin(child.id()), Origin::Agent);
        assert_eq!(Ancestry::of_this_process().origin_of_socket(connection.inode), Origin::Agent);
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
        assert_eq!(Ancestry::of_this_process().origin(child.id()), Origin::Unknown);
        becomes(connection.inode, Origin::Outside, "this process has it alone");
    }

    /// An agent sent its request, put the socket on its way to another process and closed it. No process had it open then, and
    /// coop took it for one from outside.
    #[test]
    fn a_socket_that_is_on_its_way_between_processes_is_of_unknown_origin() {
        let Connection { mut client, _server: mut server, inode, .. } = connection();
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        client.write_all(b"steer").expect("written");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        let sockets = [client.as_fd()];
        assert!(message.push(SendAncillaryMessage::ScmRights(&sockets)));
        rustix::net::sendmsg(&ours, &[IoSlice::new(b"x")], &mut message, SendFlags::empty()).expect("sent");
        drop(client);
        becomes(inode, Origin::Unknown, "no process has it");
        // The request has come all the same, and the answer would reach the process that takes the socket out again.
        let mut request = [0; 5];
        server.read_exact(&mut request).expect("read");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 1];
        let flags = RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(&theirs, &mut [IoSliceMut::new(&mut bytes)], &mut message, flags).expect("received");
        let taken: Vec<OwnedFd> = message
            .drain()
            .flat_map(|message| match message {
                RecvAncillaryMessage::ScmRights(sockets) => sockets.collect(),
                _ => Vec::new(),
            })
            .collect();
        assert_eq!(taken.len(), 1);
        becomes(inode, Origin::Outside, "this process has it again");
    }

    #[test]
    fn a_closed_socket_and_one_of_another_machine_are_told() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = listener.local_addr().expect("it is bound");
        let client = TcpStream::connect(server).expect("it listens");
        let from = client.local_addr().expect("it is bound");
        let (_accepted, _) = listener.accept().expect("it comes");
        drop(client);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while tcp_client(from, server) != TcpClient::Closed {
            assert!(std::time::Instant::now() < deadline, "it is closed");
            std::thread::yield_now();
        }
        let elsewhere = "192.0.2.7:4000".parse().expect("an address");
        assert_eq!(tcp_client(elsewhere, server), TcpClient::Remote);
    }

    /// Netlink finds no socket that is bound to an interface, and the client was taken for one of another machine.
    #[test]
    fn a_client_that_is_bound_to_an_interface_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = listener.local_addr().expect("it is bound");
        let url = format!("http://{server}/");
        let curl =
            Command::new("curl").args(["-s", "-m", "60", "--interface", "lo", &url]).stdout(Stdio::null()).spawn();
        let Ok(mut curl) = curl else { return coop_testkit::skip("curl is not installed") };
        let (accepted, from) = listener.accept().expect("it comes");
        let found = tcp_client(from, server);
        drop(accepted);
        curl.wait().expect("it ends");
        let TcpClient::Local { inode, uid } = found else { panic!("{found:?}") };
        assert!(inode > 0 && uid == rustix::process::geteuid().as_raw());
    }

    #[test]
    fn the_kernels_table_is_read() {
        let client: SocketAddr = "127.0.0.1:40404".parse().expect("an address");
        let server: SocketAddr = "127.0.0.1:8080".parse().expect("an address");
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let tail = "01 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 20 4 30 10 -1";
        let home = word([127, 0, 0, 1]);
        let row = format!("   3: {home}:9DD4 {home}:1F90 {tail}");
        assert_eq!(parse_row(&row, client, server), Some((4242, 1000)));
        assert_eq!(parse_row(&row, server, client), None);
        let mapped = format!("{}{}{}{home}", word([0; 4]), word([0; 4]), word([0, 0, 255, 255]));
        assert_eq!(parse_row(&format!("   3: {mapped}:9DD4 {mapped}:1F90 {tail}"), client, server), Some((4242, 1000)));
        assert_eq!(parse_row("   3: nonsense", client, server), None);
    }
}
