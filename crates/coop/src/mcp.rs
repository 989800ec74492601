//! `coop mcp`: the daemon's tools over standard input and output.
//!
//! An agent in a sandbox reaches no daemon. Its `coop mcp` passes everything to its sidecar, which calls the daemon.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use coop_api::Token;
use coop_server::mcp::serve_stream;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, stdin, stdout};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::fleet::Identity;

/// How many programs of an agent may use its tools at the same time.
const MAX_TOOL_CONNECTIONS: usize = 16;
/// How long to wait after a connection could not be accepted, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// File that says which agent calls: its tools.json
    #[arg(long = "as", value_name = "FILE", required_unless_present = "via")]
    identity: Option<PathBuf>,
    /// Socket of a sidecar that calls the daemon for its agent
    #[arg(long, value_name = "SOCKET", conflicts_with = "identity")]
    via: Option<PathBuf>,
}

pub(crate) async fn run(options: Mcp) -> anyhow::Result<i32> {
    if let Some(socket) = options.via {
        let stream = UnixStream::connect(&socket).await;
        let stream = stream.with_context(|| format!("no sidecar answers at {}", socket.display()))?;
        let (mut answers, mut calls) = stream.into_split();
        let (mut input, mut output) = (stdin(), stdout());
        // The input may stay open for ever, so the end of the answers is the end.
        tokio::select! {
            told = copy(&mut answers, &mut output) => drop(told.context("the sidecar closed the connection; restart the agent")?),
            () = async {
                let _ = copy(&mut input, &mut calls).await;
                let _ = calls.shutdown().await;
                std::future::pending().await
            } => {}
        }
    }
    if let Some(identity) = options.identity {
        serve(stdin(), stdout(), &identity).await?;
    }
    Ok(0)
}

/// Serves the tools of an agent in a sandbox, until this future is dropped.
pub(crate) async fn serve_on(listener: UnixListener, identity: PathBuf) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        while connections.len() >= MAX_TOOL_CONNECTIONS {
            connections.join_next().await;
        }
        let (input, output) = match listener.accept().await {
            Ok((stream, _)) => stream.into_split(),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of the agent's tools");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let identity = identity.clone();
        connections.spawn(async move {
            if let Err(error) = serve(input, output, &identity).await {
                tracing::warn!(error = format!("{error:#}"), "cannot serve the agent's tools");
            }
        });
    }
}

/// Serves the tools until the input ends. Each call goes to the daemon in the name of the agent that the file is of.
async fn serve<R, W>(input: R, output: W, identity: &Path) -> anyhow::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let found = Identity::read(identity).with_context(|| format!("cannot read {}", identity.display()))?;
    let token = Token::new(found.token).map_err(anyhow::Error::msg)?;
    let target = found.socket.to_str().context("the daemon's folder is not UTF-8")?;
    let client = Client::new(Some(target), Some(token))?;
    let call_daemon = move |call: Value| {
        let client = client.clone();
        async move {
            let answer = client.post("/mcp", &call).await.map_err(|error| format!("{error:#}"))?;
            serde_json::from_slice::<Value>(&answer).map_err(|wrong| format!("the daemon's answer is no JSON: {wrong}"))
        }
    };
    Ok(serve_stream(input, output, call_daemon).await?)
}
