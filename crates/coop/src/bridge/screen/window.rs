//! The program in a window: when it ends, and whether it reads its input.

use std::fs;
use std::future::pending;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

use super::LAST_WORDS;
use crate::bridge::raw::watch;

/// A terminal that holds more unread input than this gets no more.
///
/// screen must never hold input that it cannot write: once its buffer of 4096 bytes is full, `stuff` makes it loop
/// forever (4.9.0, `WinProcess`), and the session is lost.
const MAX_UNREAD: u64 = 1024;
/// How often to look whether the program reads again, or has been started.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often to look for the process. In a window just made it has yet to become the program, and shows no number.
const FIND_TIMES: u32 = 25;

/// The process that screen started in a window. If it cannot be found, for it may have changed its user, nothing is
/// known about it: it never ends before its session, and always takes input.
pub(super) struct Window {
    exit: Option<AsyncFd<OwnedFd>>,
    tty: Option<PathBuf>,
}

impl Window {
    /// Looks among the children of the session's server for the one of this window.
    pub(super) async fn find(server: i32, number: &str) -> Self {
        let mut process = None;
        for _ in 0..FIND_TIMES {
            process = children(server).into_iter().find(|child| child.is_in_window(number));
            if process.is_some() {
                break;
            }
            sleep(LOOK_AGAIN).await;
        }
        let exit = process.as_ref().and_then(|process| {
            let pidfd = pidfd_open(Pid::from_raw(process.pid)?, PidfdFlags::NONBLOCK).ok()?;
            watch(pidfd, Interest::READABLE).ok()
        });
        Self { exit, tty: process.and_then(|process| process.tty) }
    }

    /// Waits until the program has ended and its last output may have been displayed.
    pub(super) async fn ended(&self) {
        match &self.exit {
            Some(exit) if exit.readable().await.is_ok() => sleep(LAST_WORDS).await,
            Some(_) | None => pending().await,
        }
    }

    /// Waits until the program has read most of what it was sent.
    pub(super) async fn ready_for_input(&self) {
        while self.unread() > MAX_UNREAD {
            sleep(LOOK_AGAIN).await;
        }
    }

    /// The terminal is opened for a moment only; while we held it, screen could not see the program close it.
    fn unread(&self) -> u64 {
        let Some(path) = &self.tty else { return 0 };
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        open(path, flags, Mode::empty()).and_then(ioctl_fionread).unwrap_or_default()
    }
}

struct Process {
    pid: i32,
    tty: Option<PathBuf>,
}

impl Process {
    fn is_in_window(&self, number: &str) -> bool {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        let wanted = format!("WINDOW={number}");
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    }
}

fn children(parent: i32) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let processes = pids.filter_map(|pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (its_parent, tty) = parent_and_tty(&stat)?;
        (its_parent == parent).then_some(Process { pid, tty })
    });
    processes.collect()
}

/// Fields 4 and 7 of `/proc/PID/stat`; the name before them may hold blanks and parentheses.
fn parent_and_tty(stat: &str) -> Option<(i32, Option<PathBuf>)> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let device: u32 = fields.nth(2)?.parse().ok()?;
    Some((parent, pts_path(device)))
}

/// Linux gives pseudo-terminals the major numbers 136 to 143, 256 each, or 136 with larger minor numbers.
fn pts_path(device: u32) -> Option<PathBuf> {
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xfff00);
    let number = major.checked_sub(136).filter(|&block| block < 8)? * 256 + minor;
    Some(PathBuf::from(format!("/dev/pts/{number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_tells_parent_and_terminal() {
        let stat = "17823 (sh (x) y) S 17821 17823 17823 34816 17823 4194304";
        assert_eq!(parent_and_tty(stat), Some((17821, Some(PathBuf::from("/dev/pts/0")))));
        assert_eq!(parent_and_tty("1 (init) S 0 1 1 0 -1"), Some((0, None)));
        assert_eq!(parent_and_tty("nonsense"), None);
    }

    #[test]
    fn terminals_past_the_first_256_are_found() {
        assert_eq!(pts_path(34816 + 255), Some(PathBuf::from("/dev/pts/255")));
        assert_eq!(pts_path((137 << 8) | 3), Some(PathBuf::from("/dev/pts/259")));
        assert_eq!(pts_path((1 << 20) | (136 << 8) | 1), Some(PathBuf::from("/dev/pts/257")));
        assert_eq!(pts_path(0x0401), None);
    }
}
