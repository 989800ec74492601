//! gRPC: the same operations as over HTTP.

mod agent;

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use coop_api::{Agents, EventBody, Input, Reply, Request as Ask, Screen, Seq, Signal, Size, StopDecision};
use futures_util::{Stream, stream};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use self::proto::coop_server::{Coop, CoopServer};
use self::proto::*;
use crate::app::App;
use crate::error::status;
use crate::follow::{Follower, From, Item, Output, Wants};
use crate::http::type_input;
use crate::wire::{ansi_lines, text_lines};

#[expect(clippy::all, unreachable_pub, reason = "generated")]
#[rustfmt::skip]
pub(crate) mod proto {
    include!("coop.v1.rs");
}

const DESCRIPTOR: &[u8] = include_bytes!("descriptor.bin");

pub(crate) fn router<A: Agents>(app: &Arc<App<A>>) -> Router {
    let mut routes = Routes::new(CoopServer::new(Service(Arc::clone(app))));
    let (reporter, health) = tonic_health::server::health_reporter();
    // The service answers as long as the process does; whether the child runs is told by GetHealth.
    let serving = reporter.clone();
    tokio::spawn(async move { serving.set_serving::<CoopServer<Service<A>>>().await });
    routes = routes.add_service(health);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTOR)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    // Both descriptor sets are part of the program, and a test lists the services through them.
    if let Ok(reflection) = reflection.build_v1() {
        routes = routes.add_service(reflection);
    }
    routes.into_axum_router()
}

pub(crate) struct Service<A>(Arc<App<A>>);

type Streaming<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl<A: Agents> Service<A> {
    async fn ask(&self, request: Ask) -> Result<Reply, Status> {
        self.0.call(request).await.map_err(status)
    }

    /// Follows the agent and turns what is new into messages.
    fn follow<T: Send + 'static>(
        &self,
        wants: Wants,
        convert: impl FnMut(Item) -> Option<T> + Send + 'static,
    ) -> Result<Response<Streaming<T>>, Status> {
        self.follow_after(wants, None, convert)
    }

    /// The same from an event on that is known already.
    fn follow_after<T: Send + 'static>(
        &self,
        wants: Wants,
        after: Option<Seq>,
        convert: impl FnMut(Item) -> Option<T> + Send + 'static,
    ) -> Result<Response<Streaming<T>>, Status> {
        // Of a child that has exited, the exit is told once more, and with it the stream ends.
        let exited = Follower::last_event_of_exited(&self.0).map_err(status)?;
        let follower = Follower::new(&self.0, wants, after.or(exited)).map_err(status)?;
        let tells_events = wants.output.is_none() && !wants.screen;
        let items = stream::unfold((follower, convert), move |(mut follower, mut convert)| async move {
            loop {
                let item = follower.next().await;
                let ended = follower.pulse().ended;
                match item {
                    Ok(Some(Item::Event(event))) if ended && is_exit(&event.body) => {
                        let last = convert(Item::Event(event))?;
                        return Some((Ok(last), (follower, convert)));
                    }
                    Ok(Some(Item::Lagged { from, to })) if tells_events => {
                        let lost = Status::data_loss(format!("the events {from} to {to} are no longer kept"));
                        return Some((Err(lost), (follower, convert)));
                    }
                    Ok(Some(item)) => {
                        if let Some(message) = convert(item) {
                            return Some((Ok(message), (follower, convert)));
                        }
                    }
                    Ok(None) => return None,
                    Err(error) => return Some((Err(status(error)), (follower, convert))),
                }
            }
        });
        Ok(Response::new(Box::pin(items)))
    }
}

fn is_exit(body: &EventBody) -> bool {
    matches!(body, EventBody::Lifecycle(coop_api::Lifecycle::Exited { .. }))
}

#[tonic::async_trait]
impl<A: Agents> Coop for Service<A> {
    type StreamOutputStream = Streaming<OutputChunk>;
    type StreamScreenStream = Streaming<ScreenSnapshot>;
    type StreamStateStream = Streaming<AgentStateEvent>;
    type StreamEventsStream = Streaming<AgentEvent>;

    async fn get_health(&self, _: Request<GetHealthRequest>) -> Result<Response<GetHealthResponse>, Status> {
        let health = self.0.health().await.map_err(status)?;
        Ok(Response::new(GetHealthResponse {
            status: health.state.as_str().into(),
            pid: health.pid.map(|pid| pid as i32),
            uptime_secs: health.uptime.as_secs() as i64,
            agent: health.agent,
            ws_clients: self.0.ws_clients() as i32,
        }))
    }

    async fn get_screen(&self, request: Request<GetScreenRequest>) -> Result<Response<GetScreenResponse>, Status> {
        let request = request.into_inner();
        let screen = self.0.screen().await.map_err(status)?;
        let lines = match request.format() {
            get_screen_request::Format::Text => text_lines(&screen),
            get_screen_request::Format::Ansi => ansi_lines(&screen),
        };
        Ok(Response::new(GetScreenResponse {
            lines,
            cols: screen.size.cols().into(),
            rows: screen.size.rows().into(),
            alt_screen: screen.modes.alt_screen,
            cursor: request.include_cursor.then(|| cursor(&screen)),
            sequence: screen.seq.0,
        }))
    }

    async fn get_status(&self, _: Request<GetStatusRequest>) -> Result<Response<GetStatusResponse>, Status> {
        let known = self.0.status().await.map_err(status)?;
        Ok(Response::new(GetStatusResponse {
            state: known.state.as_str().into(),
            pid: known.pid.map(|pid| pid as i32),
            uptime_secs: known.uptime.as_secs() as i64,
            exit_code: known.exit_code,
            screen_seq: known.screen_seq.0,
            bytes_read: known.bytes_read,
            bytes_written: known.bytes_written,
            ws_clients: self.0.ws_clients() as i32,
            exit_signal: known.exit_signal,
        }))
    }

    async fn send_input(&self, request: Request<SendInputRequest>) -> Result<Response<SendInputResponse>, Status> {
        let SendInputRequest { mut text, enter } = request.into_inner();
        if enter {
            text.push('\r');
        }
        let written = type_input(&self.0, Input::Bytes(text.into())).await.map_err(status)?;
        Ok(Response::new(SendInputResponse {
            bytes_written: written.bytes_written as i32,
            queued: written.queued as i32,
        }))
    }

    async fn send_keys(&self, request: Request<SendKeysRequest>) -> Result<Response<SendKeysResponse>, Status> {
        let written = type_input(&self.0, Input::Keys(request.into_inner().keys)).await.map_err(status)?;
        Ok(Response::new(SendKeysResponse {
            bytes_written: written.bytes_written as i32,
            queued: written.queued as i32,
        }))
    }

    async fn resize(&self, request: Request<ResizeRequest>) -> Result<Response<ResizeResponse>, Status> {
        let ResizeRequest { cols, rows } = request.into_inner();
        let size = Size::new(cols.max(0) as u32, rows.max(0) as u32)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.ask(Ask::Resize(size)).await?;
        Ok(Response::new(ResizeResponse { cols, rows }))
    }

    async fn send_signal(&self, request: Request<SendSignalRequest>) -> Result<Response<SendSignalResponse>, Status> {
        let signal = Signal::parse(&request.into_inner().signal).map_err(status)?;
        self.ask(Ask::Signal(signal)).await?;
        Ok(Response::new(SendSignalResponse { delivered: true }))
    }

    async fn stream_output(
        &self,
        request: Request<StreamOutputRequest>,
    ) -> Result<Response<Self::StreamOutputStream>, Status> {
        let from = From::Offset(coop_api::Offset(request.into_inner().from_offset));
        let wants = Wants { output: Some(Output { from, resync: false }), screen: false, events: true };
        let mut gap_from = None;
        self.follow(wants, move |item| match item {
            Item::Output { chunk, part } => Some(OutputChunk {
                offset: chunk.offset.plus(part.start).0,
                data: chunk.data.slice(part),
                gap_from: gap_from.take(),
            }),
            Item::Gap { from, .. } => {
                gap_from = Some(from.0);
                None
            }
            Item::Resync(_) | Item::Screen(_) | Item::Event(_) | Item::Lagged { .. } => None,
        })
    }

    async fn stream_screen(
        &self,
        _: Request<StreamScreenRequest>,
    ) -> Result<Response<Self::StreamScreenStream>, Status> {
        self.follow(Wants { output: None, screen: true, events: true }, |item| match item {
            Item::Screen(screen) => Some(ScreenSnapshot {
                lines: text_lines(&screen),
                cols: screen.size.cols().into(),
                rows: screen.size.rows().into(),
                alt_screen: screen.modes.alt_screen,
                cursor: Some(cursor(&screen)),
                sequence: screen.seq.0,
            }),
            Item::Output { .. } | Item::Gap { .. } | Item::Resync(_) | Item::Event(_) | Item::Lagged { .. } => None,
        })
    }

    async fn get_agent_state(
        &self,
        _: Request<GetAgentStateRequest>,
    ) -> Result<Response<GetAgentStateResponse>, Status> {
        Ok(Response::new(self.0.agent_state().await.map_err(status)?.into()))
    }

    async fn nudge(&self, request: Request<NudgeRequest>) -> Result<Response<NudgeResponse>, Status> {
        let receipt = self.0.nudge(self.0.new_writer(), request.into_inner().into()).await.map_err(status)?;
        Ok(Response::new(receipt.into()))
    }

    async fn respond(&self, request: Request<RespondRequest>) -> Result<Response<RespondResponse>, Status> {
        let answer = agent::answer(request.into_inner()).map_err(status)?;
        Ok(Response::new(self.0.respond(self.0.new_writer(), answer).await.map_err(status)?.into()))
    }

    async fn stream_state(&self, _: Request<StreamStateRequest>) -> Result<Response<Self::StreamStateStream>, Status> {
        let wants = Wants { output: None, screen: false, events: true };
        self.follow(wants, |item| match item {
            Item::Event(event) => agent::state_event(&event),
            _ => None,
        })
    }

    async fn explain(&self, _: Request<ExplainRequest>) -> Result<Response<ExplainResponse>, Status> {
        Ok(Response::new(self.0.explain().await.map_err(status)?.into()))
    }

    async fn list_asks(&self, _: Request<ListAsksRequest>) -> Result<Response<ListAsksResponse>, Status> {
        let asks = self.0.asks().await.map_err(status)?;
        let asks_json = asks.iter().map(|ask| serde_json::to_string(ask).unwrap_or_default()).collect();
        Ok(Response::new(ListAsksResponse { asks_json }))
    }

    async fn cancel_nudge(
        &self,
        request: Request<CancelNudgeRequest>,
    ) -> Result<Response<CancelNudgeResponse>, Status> {
        self.0.call(Ask::CancelNudge(coop_api::NudgeId(request.into_inner().id))).await.map_err(status)?;
        Ok(Response::new(CancelNudgeResponse {}))
    }

    async fn interrupt(&self, _: Request<InterruptRequest>) -> Result<Response<InterruptResponse>, Status> {
        self.0.call(Ask::Interrupt { writer: self.0.new_writer() }).await.map_err(status)?;
        Ok(Response::new(InterruptResponse {}))
    }

    async fn resolve_stop(
        &self,
        request: Request<ResolveStopRequest>,
    ) -> Result<Response<ResolveStopResponse>, Status> {
        let ResolveStopRequest { block, reason } = request.into_inner();
        let decision = if block { StopDecision::Block(reason) } else { StopDecision::Allow };
        self.0.call(Ask::ResolveStop(decision)).await.map_err(status)?;
        Ok(Response::new(ResolveStopResponse {}))
    }

    async fn get_transcript(
        &self,
        _: Request<GetTranscriptRequest>,
    ) -> Result<Response<GetTranscriptResponse>, Status> {
        let lines = self.0.transcript().await.map_err(status)?;
        Ok(Response::new(GetTranscriptResponse { lines: lines.to_vec() }))
    }

    async fn get_usage(&self, _: Request<GetUsageRequest>) -> Result<Response<GetUsageResponse>, Status> {
        Ok(Response::new(self.0.usage().await.map_err(status)?.into()))
    }

    async fn stream_events(
        &self,
        request: Request<StreamEventsRequest>,
    ) -> Result<Response<Self::StreamEventsStream>, Status> {
        let wants = Wants { output: None, screen: false, events: true };
        self.follow_after(wants, request.into_inner().after.map(Seq), |item| match item {
            Item::Event(event) => Some(AgentEvent {
                seq: event.seq.0,
                kind: event.body.kind().into(),
                json: serde_json::to_string(&event).unwrap_or_default(),
            }),
            _ => None,
        })
    }

    async fn shutdown(&self, _: Request<ShutdownRequest>) -> Result<Response<ShutdownResponse>, Status> {
        self.0.call(Ask::Shutdown).await.map_err(status)?;
        Ok(Response::new(ShutdownResponse {}))
    }
}

fn cursor(screen: &Screen) -> CursorPosition {
    CursorPosition { row: screen.cursor.row.into(), col: screen.cursor.col.into() }
}
