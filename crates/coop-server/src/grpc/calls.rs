//! The service: each RPC asks the port, and [`super::terminal`] and [`super::agent`] say how messages are read and made.

use coop_api::{Agents, Error, History, Input, NudgeId, Request as Ask, Seq, Signal, StopDecision};
use tonic::{Request, Response, Status};

use super::proto::coop_server::Coop;
use super::proto::*;
use super::stream::{self, Shown, Streaming};
use super::{Service, agent, terminal};
use crate::error::status;
use crate::follow::{From, Item, Output};
use crate::http::type_input;
use crate::wire::typed;

type Answer<T> = Result<Response<T>, Status>;

fn answer<T>(reply: Result<impl Into<T>, Error>) -> Answer<T> {
    reply.map(|reply| Response::new(reply.into())).map_err(status)
}

impl<A: Agents> Service<A> {
    /// Asks for what has nothing to tell but that it was done.
    async fn done<T>(&self, request: Ask, done: T) -> Answer<T> {
        answer(self.0.call(request).await.map(|_| done))
    }
}

#[tonic::async_trait]
impl<A: Agents> Coop for Service<A> {
    type StreamOutputStream = Streaming<OutputChunk>;
    type StreamScreenStream = Streaming<ScreenSnapshot>;
    type StreamStateStream = Streaming<AgentStateEvent>;
    type StreamEventsStream = Streaming<AgentEvent>;

    async fn get_health(&self, _: Request<GetHealthRequest>) -> Answer<GetHealthResponse> {
        answer(self.0.health().await.map(|health| terminal::health(health, self.0.ws_clients())))
    }

    async fn get_screen(&self, request: Request<GetScreenRequest>) -> Answer<GetScreenResponse> {
        let request = request.into_inner();
        let shown = match request.scrollback {
            0 => self.0.screen().await.map(|screen| History { lines: Vec::new(), screen }),
            count => self.0.history(count as usize).await,
        };
        answer(shown.map(|shown| terminal::screen(&request, &shown)))
    }

    async fn get_dump(&self, _: Request<GetDumpRequest>) -> Answer<GetDumpResponse> {
        answer(self.0.dump().await)
    }

    async fn get_status(&self, _: Request<GetStatusRequest>) -> Answer<GetStatusResponse> {
        answer(self.0.status().await.map(|known| terminal::status(known, self.0.ws_clients())))
    }

    async fn send_input(&self, request: Request<SendInputRequest>) -> Answer<SendInputResponse> {
        let SendInputRequest { text, enter, paste, writer } = request.into_inner();
        answer(type_input(&self.0, writer, typed(text, enter, paste)).await)
    }

    async fn send_keys(&self, request: Request<SendKeysRequest>) -> Answer<SendKeysResponse> {
        let SendKeysRequest { keys, writer } = request.into_inner();
        answer(type_input(&self.0, writer, Input::Keys(keys)).await)
    }

    async fn lock(&self, request: Request<LockRequest>) -> Answer<LockResponse> {
        let request = request.into_inner();
        answer(self.0.lock(terminal::lock_action(&request), request.writer).await)
    }

    async fn resize(&self, request: Request<ResizeRequest>) -> Answer<ResizeResponse> {
        let request = request.into_inner();
        let size = terminal::size(&request).map_err(status)?;
        let writer = self.0.writer(request.writer).map_err(status)?;
        self.done(Ask::Resize { writer, size }, ResizeResponse { cols: request.cols, rows: request.rows }).await
    }

    async fn send_signal(&self, request: Request<SendSignalRequest>) -> Answer<SendSignalResponse> {
        let signal = Signal::parse(&request.into_inner().signal).map_err(status)?;
        self.done(Ask::Signal(signal), SendSignalResponse { delivered: true }).await
    }

    async fn restart(&self, _: Request<RestartRequest>) -> Answer<RestartResponse> {
        self.done(Ask::Restart, RestartResponse {}).await
    }

    async fn shutdown(&self, _: Request<ShutdownRequest>) -> Answer<ShutdownResponse> {
        self.done(Ask::Shutdown, ShutdownResponse {}).await
    }

    async fn stream_output(&self, request: Request<StreamOutputRequest>) -> Answer<Self::StreamOutputStream> {
        let from = From::Offset(coop_api::Offset(request.into_inner().from_offset));
        let mut gap_from = None;
        stream::until_exit(&self.0, Shown::Output(Output { from, resync: false }), move |item| match item {
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

    async fn stream_screen(&self, _: Request<StreamScreenRequest>) -> Answer<Self::StreamScreenStream> {
        stream::until_exit(&self.0, Shown::Screens, |item| match item {
            Item::Screen(screen) => Some(terminal::snapshot(&screen)),
            Item::Output { .. } | Item::Gap { .. } | Item::Resync(_) | Item::Event(_) | Item::Lagged { .. } => None,
        })
    }

    async fn get_agent_state(&self, _: Request<GetAgentStateRequest>) -> Answer<GetAgentStateResponse> {
        answer(self.0.agent_state().await)
    }

    async fn explain(&self, _: Request<ExplainRequest>) -> Answer<ExplainResponse> {
        answer(self.0.explain().await)
    }

    async fn nudge(&self, request: Request<NudgeRequest>) -> Answer<NudgeResponse> {
        answer(self.0.nudge(self.0.new_writer(), request.into_inner().into()).await)
    }

    async fn list_nudges(&self, _: Request<ListNudgesRequest>) -> Answer<ListNudgesResponse> {
        answer(self.0.agent_state().await.map(|report| agent::nudges(report.queue)))
    }

    async fn cancel_nudge(&self, request: Request<CancelNudgeRequest>) -> Answer<CancelNudgeResponse> {
        self.done(Ask::CancelNudge(NudgeId(request.into_inner().id)), CancelNudgeResponse {}).await
    }

    async fn list_asks(&self, _: Request<ListAsksRequest>) -> Answer<ListAsksResponse> {
        answer(self.0.asks().await.map(|asks| agent::asks(&asks)))
    }

    async fn respond(&self, request: Request<RespondRequest>) -> Answer<RespondResponse> {
        let given = agent::answer(request.into_inner()).map_err(status)?;
        answer(self.0.respond(self.0.new_writer(), given).await)
    }

    async fn interrupt(&self, _: Request<InterruptRequest>) -> Answer<InterruptResponse> {
        self.done(Ask::Interrupt { writer: self.0.new_writer() }, InterruptResponse {}).await
    }

    async fn configure(&self, request: Request<ConfigureRequest>) -> Answer<ConfigureResponse> {
        let ConfigureRequest { mode, model } = request.into_inner();
        self.done(Ask::Configure(coop_api::Configure { mode, model }), ConfigureResponse {}).await
    }

    async fn resolve_stop(&self, request: Request<ResolveStopRequest>) -> Answer<ResolveStopResponse> {
        let ResolveStopRequest { block, reason } = request.into_inner();
        let decision = if block { StopDecision::Block(reason) } else { StopDecision::Allow };
        self.done(Ask::ResolveStop(decision), ResolveStopResponse {}).await
    }

    async fn get_transcript(&self, _: Request<GetTranscriptRequest>) -> Answer<GetTranscriptResponse> {
        answer(self.0.transcript().await.map(|lines| GetTranscriptResponse { lines }))
    }

    async fn get_usage(&self, _: Request<GetUsageRequest>) -> Answer<GetUsageResponse> {
        answer(self.0.usage().await)
    }

    async fn stream_state(&self, _: Request<StreamStateRequest>) -> Answer<Self::StreamStateStream> {
        stream::events(&self.0, None, agent::state_event)
    }

    async fn stream_events(&self, request: Request<StreamEventsRequest>) -> Answer<Self::StreamEventsStream> {
        stream::events(&self.0, request.into_inner().after.map(Seq), |event| Some(agent::event(event)))
    }
}
