//! The model on a port of the loopback interface.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::answer::Mind;
use super::log::Request;
use super::script::Script;

/// A model that runs; it ends when dropped.
pub struct Model {
    url: String,
    mind: Arc<Mind>,
    stop: DropGuard,
    task: JoinHandle<()>,
}

/// How long to wait after an accept that failed, which is when the process has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Model {
    /// Starts a model on a free port.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::listen(script, 0).await
    }

    /// Starts a model on a port; 0 is any.
    pub async fn listen(script: Script, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let salt = RandomState::new().hash_one(()) as u32;
        let mind = Arc::new(Mind::new(script, salt));
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(listener, Arc::clone(&mind), stop.clone()));
        Ok(Self { url, mind, stop: stop.drop_guard(), task })
    }

    /// Returns the address without a path: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns what was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.mind.requests()
    }

    /// Returns the hosts that were asked for, of the model as a proxy.
    pub fn refused(&self) -> Vec<String> {
        self.mind.refused()
    }

    /// Forgets what was asked and which faults happened.
    pub fn reset(&self) {
        self.mind.reset();
    }

    /// Closes every connection, also of answers under way, and the port.
    pub async fn stop(self) {
        drop(self.stop);
        // It fails only when it panicked, and then it has ended too.
        let _ = self.task.await;
    }
}

async fn accept(listener: TcpListener, mind: Arc<Mind>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, Arc::clone(&mind)));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    connections.shutdown().await;
}

async fn serve(stream: TcpStream, mind: Arc<Mind>) {
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mind = Arc::clone(&mind);
        async move { mind.answer(request.map(Body::new)).await }
    });
    // A client that goes, and an answer that is cut, are as they should be.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
