//! How clients reach the hub: a WebSocket on a Unix socket, lines on standard input and output, or in this process.

use std::path::Path;

use anyhow::Context;
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::hub::{ClientId, Hub};

/// A connection to the server, from a client's side.
pub(crate) struct Connection {
    pub(crate) to: mpsc::UnboundedSender<Value>,
    pub(crate) from: mpsc::UnboundedReceiver<Value>,
}

/// Serves a socket for ever.
pub(crate) async fn serve_socket(hub: Hub, path: &Path) -> anyhow::Result<()> {
    let listener = UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve_stream(hub.clone(), stream));
    }
}

async fn serve_stream(hub: Hub, stream: UnixStream) {
    // Whoever only looks whether somebody listens says nothing.
    let Ok(socket) = tokio_tungstenite::accept_async(stream).await else { return };
    let (mut sink, mut source) = socket.split();
    let (client, mut told) = hub.connect();
    loop {
        tokio::select! {
            message = told.recv() => match message {
                Some(message) => if sink.send(Message::text(message.to_string())).await.is_err() { break },
                None => break,
            },
            message = source.next() => match message {
                Some(Ok(Message::Text(text))) => said(&hub, client, text.as_bytes()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
        }
    }
    hub.gone(client);
}

/// Serves standard input and output until the input ends.
pub(crate) async fn serve_stdio(hub: Hub) -> anyhow::Result<()> {
    let (client, mut told) = hub.connect();
    let mut lines = stdin_lines();
    let mut stdout = std::io::stdout();
    loop {
        tokio::select! {
            message = told.recv() => match message {
                Some(message) => {
                    use std::io::Write;
                    writeln!(stdout, "{message}")?;
                    stdout.flush()?;
                }
                None => return Ok(()),
            },
            line = lines.recv() => match line {
                Some(line) => said(&hub, client, &line),
                None => return Ok(()),
            },
        }
    }
}

/// Reads on a thread of its own: what is not read when we end must not keep us.
fn stdin_lines() -> mpsc::UnboundedReceiver<Vec<u8>> {
    let (tell, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        use std::io::BufRead;
        for line in std::io::stdin().lock().split(b'\n').map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn said(hub: &Hub, client: ClientId, text: &[u8]) {
    if let Ok(message) = serde_json::from_slice(text) {
        hub.said(client, message);
    }
}

/// Connects to a server in this process.
pub(crate) fn connect_here(hub: &Hub) -> Connection {
    let (client, from) = hub.connect();
    let (to, mut said) = mpsc::unbounded_channel();
    let hub = hub.clone();
    tokio::spawn(async move {
        while let Some(message) = said.recv().await {
            hub.said(client, message);
        }
        hub.gone(client);
    });
    Connection { to, from }
}

/// Connects to a server's socket.
pub(crate) async fn connect(path: &Path) -> anyhow::Result<Connection> {
    let stream = UnixStream::connect(path)
        .await
        .with_context(|| format!("failed to connect to remote app server at `unix://{}`", path.display()))?;
    let (socket, _) = tokio_tungstenite::client_async("ws://localhost/", stream).await?;
    let (mut sink, mut source) = socket.split();
    let (to, mut said) = mpsc::unbounded_channel::<Value>();
    let (tell, from) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = said.recv().await {
            if sink.send(Message::text(message.to_string())).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Some(Ok(message)) = source.next().await {
            let Message::Text(text) = message else { continue };
            let Ok(value) = serde_json::from_str(&text) else { continue };
            if tell.send(value).is_err() {
                return;
            }
        }
    });
    Ok(Connection { to, from })
}

/// Runs a command and returns its output and exit code.
pub(crate) async fn shell(command: &str, cwd: &str) -> (String, i32) {
    let mut shell = tokio::process::Command::new("sh");
    shell.args(["-c", command]).current_dir(cwd).kill_on_drop(true).stdin(std::process::Stdio::null());
    match shell.output().await {
        Ok(done) => {
            let text = [done.stdout, done.stderr].concat();
            (String::from_utf8_lossy(&text).into_owned(), done.status.code().unwrap_or(-1))
        }
        Err(error) => (error.to_string(), 127),
    }
}
