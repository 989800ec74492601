//! Asks the kernel for one TCP socket, by netlink's `sock_diag`. `/proc/net/tcp` says the same, and the kernel walks its whole
//! table of connections for it: 5 ms on a machine with 24 GiB.
//!
//! ```text
//! request   nlmsghdr (16 bytes)   inet_diag_req_v2: family, protocol, ext, pad (1 each), states (4), id (48)
//! answer    nlmsghdr (16 bytes)   inet_diag_msg: family, state, timer, retrans (1 each), id (48), expires, rqueue, wqueue, uid,
//!                                 inode (4 each)
//! id        sport, dport (2 each, big-endian), src, dst (16 each), interface (4), cookie (8)
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with, sockopt,
};

const HEADER: usize = 16;
const REQUEST: usize = HEADER + 8 + ID;
const ID: usize = 48;
/// Where the parts of an answer are.
const ANSWER_ID: usize = HEADER + 4;
const ANSWER_UID: usize = ANSWER_ID + ID + 12;
const ANSWER_INODE: usize = ANSWER_UID + 4;
/// How long the kernel may take, which answers at once.
const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
const ALL_STATES: u32 = u32::MAX;
/// Finds the socket whatever its cookie.
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// A TCP socket of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpSocket {
    /// 0 if no process has it open any more.
    pub(crate) inode: u32,
    pub(crate) uid: u32,
}

/// Returns the socket with these addresses, if this machine has one.
pub(crate) fn find_tcp(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<TcpSocket>> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER_TIMEOUT))?;
    send(&socket, &request(local, remote), SendFlags::empty())?;
    let mut answer = [0; 4096];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    parse(&answer[..length], local, remote)
}

fn request(local: SocketAddr, remote: SocketAddr) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    let family = if local.ip().to_canonical().is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    bytes[HEADER..HEADER + 2].copy_from_slice(&[family.as_raw() as u8, IPPROTO_TCP]);
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&ALL_STATES.to_ne_bytes());
    bytes[HEADER + 8..].copy_from_slice(&id(local, remote));
    bytes
}

fn id(local: SocketAddr, remote: SocketAddr) -> [u8; ID] {
    let mut bytes = [0; ID];
    bytes[..2].copy_from_slice(&local.port().to_be_bytes());
    bytes[2..4].copy_from_slice(&remote.port().to_be_bytes());
    for (at, address) in [(4, local), (20, remote)] {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => bytes[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    bytes[40..].copy_from_slice(&NO_COOKIE);
    bytes
}

fn parse(answer: &[u8], local: SocketAddr, remote: SocketAddr) -> io::Result<Option<TcpSocket>> {
    let short = || io::Error::new(io::ErrorKind::InvalidData, "the answer of sock_diag is too short");
    let field = |at: usize| answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).ok_or_else(short);
    let kind: [u8; 4] = field(4)?;
    if u16::from_ne_bytes([kind[0], kind[1]]) == NLMSG_ERROR {
        let error = io::Error::from_raw_os_error(-i32::from_ne_bytes(field(HEADER)?));
        return if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) };
    }
    let ports: [u8; 4] = field(ANSWER_ID)?;
    // Without a connection the kernel answers with whatever listens on the port.
    if ports != *[local.port().to_be_bytes(), remote.port().to_be_bytes()].as_flattened() {
        return Ok(None);
    }
    let number = |at: usize| field(at).map(u32::from_ne_bytes);
    Ok(Some(TcpSocket { inode: number(ANSWER_INODE)?, uid: number(ANSWER_UID)? }))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    fn find(local: SocketAddr, remote: SocketAddr) -> Option<TcpSocket> {
        find_tcp(local, remote).expect("the kernel answers")
    }

    #[test]
    fn each_end_of_a_connection_is_found_by_its_addresses() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // There may be no IPv6 on this machine.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let server = listener.local_addr().expect("it is bound");
            let client = TcpStream::connect(server).expect("it listens");
            let (accepted, from) = listener.accept().expect("it comes");
            let uid = rustix::process::geteuid().as_raw();
            for (socket, local, remote) in [(client.as_fd(), from, server), (accepted.as_fd(), server, from)] {
                let inode = u32::try_from(rustix::fs::fstat(socket).expect("it is open").st_ino).expect("small");
                assert_eq!(find(local, remote), Some(TcpSocket { inode, uid }));
            }
        }
    }

    #[test]
    fn a_client_of_a_listener_for_both_families_is_found() {
        let Ok(listener) = TcpListener::bind("[::]:0") else { return };
        let port = listener.local_addr().expect("it is bound").port();
        let client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let (accepted, from) = listener.accept().expect("it comes");
        let server = accepted.local_addr().expect("it is bound");
        let inode = u32::try_from(rustix::fs::fstat(&client).expect("it is open").st_ino).expect("small");
        assert_eq!(find(from, server).map(|socket| socket.inode), Some(inode));
    }

    #[test]
    fn a_listener_is_no_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = listener.local_addr().expect("it is bound");
        assert_eq!(find(server, "127.0.0.1:9".parse().expect("an address")), None);
        assert_eq!(find("127.0.0.1:9".parse().expect("an address"), server), None);
    }
}
