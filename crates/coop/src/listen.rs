//! Binding what the sidecar listens on.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use coop_server::{Listener, Surface};
use rustix::fs::Mode;
use tokio::net::{TcpListener, UnixListener};

use crate::cli::Serve;
use crate::leftovers::Claim;
use crate::paths;

/// Everything that was bound, and what to tell people about it.
pub(crate) struct Bound {
    pub(crate) listeners: Vec<(Listener, Surface)>,
    /// Lines such as `http://127.0.0.1:8080`.
    pub(crate) lines: Vec<String>,
    pub(crate) socket: SocketFile,
}

/// A socket in the file system, removed when we go, unless somebody put another in its place.
pub(crate) struct SocketFile {
    pub(crate) path: PathBuf,
    inode: Option<u64>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.inode.is_some() && inode(&self.path) == self.inode {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|found| found.ino())
}

/// Binds all of it before anything is started, so that a taken port costs nothing.
pub(crate) async fn bind(options: &Serve) -> anyhow::Result<Bound> {
    if !options.host.is_loopback() && options.auth_token.is_none() {
        bail!(
            "anyone who can reach {} could type into this terminal: give a token with --auth-token or COOP_AUTH_TOKEN, \
             or leave --host at 127.0.0.1",
            options.host
        );
    }
    let mut listeners = Vec::new();
    let mut lines = Vec::new();
    let ports = [
        (options.port, "http", "--port", Surface::Api),
        (options.grpc_port, "grpc", "--grpc-port", Surface::Api),
        (options.health_port, "health", "--health-port", Surface::Health),
    ];
    for (port, kind, flag, surface) in ports {
        if let Some(port) = port {
            let listener = bind_port(options.host, port, flag).await?;
            lines.push(format!("{kind} http://{}", listener.local_addr()?));
            listeners.push((Listener::Tcp(listener), surface));
        }
    }
    let (path, _claim) = match &options.socket {
        Some(path) => (path.clone(), None),
        None => {
            let claim = Claim::take()?;
            (claim.socket(), Some(claim))
        }
    };
    let path = std::path::absolute(&path).context("cannot tell the current folder")?;
    let (listener, socket) = socket_file(&path)?;
    lines.push(format!("unix {}", path.display()));
    listeners.push((Listener::Unix(listener), Surface::Api));
    Ok(Bound { listeners, lines, socket })
}

/// Binds a socket in the place of one that nobody listens on any more.
pub(crate) fn socket_file(path: &Path) -> anyhow::Result<(UnixListener, SocketFile)> {
    paths::check_length(path)?;
    paths::clear_for_socket(path)?;
    let listener = bind_socket(path)?;
    Ok((listener, SocketFile { inode: inode(path), path: path.to_owned() }))
}

async fn bind_port(host: IpAddr, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::new(host, port);
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another {flag}, or 0 for any free port"))
}

/// Binds a socket that only this user can open, from its first moment on.
fn bind_socket(path: &Path) -> anyhow::Result<UnixListener> {
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    bound.with_context(|| format!("cannot make the socket {}; choose another --socket", path.display()))
}
