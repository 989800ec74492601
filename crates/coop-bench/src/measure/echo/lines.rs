//! The four ways to type a byte.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use super::Line;
use crate::bare::Bare;
use crate::client::{Http, Output};
use crate::grpc::{CoopClient, OutputChunk, SendInputRequest, StreamOutputRequest};
use crate::sidecar::Sidecar;

const KEY: &str = "x";

/// Straight to the PTY.
pub(super) struct BareLine(Bare);

impl BareLine {
    pub(super) fn open(command: &[&OsStr]) -> anyhow::Result<Self> {
        let bare = Bare::start(command)?;
        bare.read(&mut [0; 16])?;
        Ok(Self(bare))
    }
}

impl Line for BareLine {
    async fn echo(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.0.write(KEY.as_bytes())?;
        let length = self.0.read(&mut [0; 16])?;
        let took = began.elapsed();
        ensure!(length == KEY.len(), "the bare echo was {length} bytes long");
        Ok(took)
    }
}

/// Typed and seen over a WebSocket.
pub(super) struct WsLine(Output);

impl WsLine {
    pub(super) async fn open(sidecar: &Sidecar) -> anyhow::Result<Self> {
        let mut output = Output::from_the_beginning(&sidecar.http).await?;
        output.next_bytes().await?;
        Ok(Self(output))
    }

    async fn seen(&mut self) -> anyhow::Result<Instant> {
        let echo = self.0.next_bytes().await?;
        let seen = Instant::now();
        ensure!(echo == KEY, "the echo was {echo:?}");
        Ok(seen)
    }
}

impl Line for WsLine {
    async fn echo(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.0.type_bytes(KEY.as_bytes()).await?;
        Ok(self.seen().await?.duration_since(began))
    }
}

/// Typed by a request, seen over a WebSocket.
pub(super) struct HttpLine {
    http: Http,
    output: WsLine,
}

impl HttpLine {
    pub(super) async fn open(sidecar: &Sidecar) -> anyhow::Result<Self> {
        Ok(Self { http: Http::connect(&sidecar.http).await?, output: WsLine::open(sidecar).await? })
    }
}

impl Line for HttpLine {
    async fn echo(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        // The answer may come before or after the echo; it is awaited, but not counted.
        let (answered, seen) = tokio::join!(self.http.type_text(KEY), self.output.seen());
        answered?;
        Ok(seen?.duration_since(began))
    }
}

/// Typed by a call, seen on a stream.
pub(super) struct GrpcLine {
    client: CoopClient<Channel>,
    output: Streaming<OutputChunk>,
}

impl GrpcLine {
    pub(super) async fn open(sidecar: &Sidecar) -> anyhow::Result<Self> {
        let channel = Endpoint::from_shared(sidecar.grpc.clone())?.tcp_nodelay(true).connect().await?;
        let mut client = CoopClient::new(channel);
        let mut output = client.stream_output(StreamOutputRequest { from_offset: 0 }).await?.into_inner();
        output.message().await?;
        Ok(Self { client, output })
    }
}

impl Line for GrpcLine {
    async fn echo(&mut self) -> anyhow::Result<Duration> {
        let request = SendInputRequest { text: KEY.to_owned(), ..SendInputRequest::default() };
        let began = Instant::now();
        let seen = async { anyhow::Ok((self.output.message().await?, Instant::now())) };
        let (answered, seen) = tokio::join!(self.client.send_input(request), seen);
        answered?;
        let (chunk, seen) = seen?;
        let chunk = chunk.context("the stream ended")?;
        ensure!(chunk.data == KEY.as_bytes(), "the echo was {:?}", chunk.data);
        Ok(seen.duration_since(began))
    }
}
