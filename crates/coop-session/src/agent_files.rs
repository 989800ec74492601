//! Files and sockets that the agent makes and the sidecar opens.
//!
//! An agent in a sandbox may put a link in their place, to what the sandbox hides. The sidecar passes on what it reads, so it
//! opens nothing for an agent that the agent does not see.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coop_folder::beneath;
use coop_term::{Access, Sandbox};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use tokio::net::UnixStream;

/// The files that an agent sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentFiles {
    sandbox: Option<Arc<Sandbox>>,
}

impl AgentFiles {
    pub(crate) fn new(sandbox: Option<Sandbox>) -> Self {
        Self { sandbox: sandbox.map(Arc::new) }
    }

    /// Opens a regular file for reading.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        let file = File::from(open_unhindered(path, OFlags::RDONLY)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!("{} is not a regular file", path.display())));
        }
        self.check_read(&file)?;
        Ok(file)
    }

    /// Connects to a socket. A link to a path in `/tmp` means the agent's own `/tmp`.
    pub(crate) async fn connect(&self, path: &Path) -> io::Result<UnixStream> {
        let Some(sandbox) = &self.sandbox else { return UnixStream::connect(path).await };
        let target = fs::read_link(path).ok();
        let socket = match target.as_deref().and_then(|target| target.strip_prefix("/tmp").ok()) {
            Some(within) => {
                let tmp = open_unhindered(&sandbox.tmp, OFlags::PATH | OFlags::DIRECTORY)?;
                let flags = OFlags::PATH | OFlags::NOFOLLOW;
                beneath(tmp, within, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?
            }
            None => open_unhindered(path, OFlags::PATH)?,
        };
        self.check_read(&socket)?;
        // By its descriptor: the path may be too long for an address, and may lead elsewhere by now.
        UnixStream::connect(descriptor_path(&socket)).await
    }

    /// Refuses an open file that the agent does not see.
    pub(crate) fn check_read(&self, file: &impl AsRawFd) -> io::Result<()> {
        self.check(file, Access::Read)
    }

    /// Refuses an open file that the agent may not write to.
    pub(crate) fn check_write(&self, file: &impl AsRawFd) -> io::Result<()> {
        self.check(file, Access::Write)
    }

    fn check(&self, file: &impl AsRawFd, wanted: Access) -> io::Result<()> {
        let Some(sandbox) = &self.sandbox else { return Ok(()) };
        let real = fs::read_link(descriptor_path(file))?;
        if sandbox.access_to(&real) >= wanted {
            return Ok(());
        }
        let why = format!("the agent's sandbox keeps it from {}", real.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

/// Opens without waiting for the other end of a pipe, and takes no terminal for ours.
fn open_unhindered(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    // With PATH nothing is waited for, and no other flag is allowed.
    let unhindered = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
    let flags = flags | unhindered | OFlags::CLOEXEC;
    // A link of `/proc` leads into other mount namespaces, where paths have other meanings.
    Ok(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?)
}

fn descriptor_path(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    struct Lab {
        all: tempfile::TempDir,
        files: AgentFiles,
    }

    /// An agent that sees `own`, and not `own/hidden` or `other`.
    fn lab() -> Lab {
        let all = tempfile::tempdir().expect("a folder");
        let root = all.path().canonicalize().expect("it is there");
        for name in ["own/hidden", "other", "tmp/deep"] {
            fs::create_dir_all(root.join(name)).expect("made");
        }
        for name in ["own/log", "own/hidden/secret", "other/secret"] {
            fs::write(root.join(name), name).expect("written");
        }
        let at = |name: &str| root.join(name);
        let access = [("", Access::None), ("own", Access::Write), ("own/hidden", Access::None), ("tmp", Access::Write)];
        let access = access.map(|(name, access)| (at(name), access)).to_vec();
        let files = AgentFiles::new(Some(Sandbox { access, tmp: at("tmp"), ..Sandbox::default() }));
        Lab { all, files }
    }

    #[test]
    fn a_link_to_what_the_sandbox_hides_is_not_read() {
        let Lab { all, files } = lab();
        let at = |name: &str| all.path().join(name);
        assert!(files.open(&at("own/log")).is_ok());
        symlink(at("own/log"), at("own/link")).expect("made");
        assert!(files.open(&at("own/link")).is_ok());
        for secret in ["own/hidden/secret", "other/secret"] {
            let link = at("own").join(secret.replace('/', "-"));
            symlink(at(secret), &link).expect("made");
            assert_eq!(files.open(&link).expect_err("hidden").kind(), io::ErrorKind::PermissionDenied);
            assert!(AgentFiles::default().open(&link).is_ok(), "without a sandbox the agent reads it itself");
        }
    }

    #[tokio::test]
    async fn a_socket_is_reached_in_the_agents_own_tmp_and_none_that_is_hidden() {
        let Lab { all, files } = lab();
        let at = |name: &str| all.path().join(name);
        let _own = UnixListener::bind(at("tmp/deep/s")).expect("bound");
        let _other = UnixListener::bind(at("other/s")).expect("bound");
        symlink("/tmp/deep/s", at("own/own.sock")).expect("made");
        symlink(at("other/s"), at("own/other.sock")).expect("made");
        symlink(at("other/s"), at("tmp/deep/other")).expect("made");
        symlink("/tmp/deep/other", at("own/twice.sock")).expect("made");
        assert!(files.connect(&at("own/own.sock")).await.is_ok());
        assert!(files.connect(&at("own/other.sock")).await.is_err());
        assert!(files.connect(&at("own/twice.sock")).await.is_err());
        assert!(AgentFiles::default().connect(&at("own/other.sock")).await.is_ok());
    }
}
