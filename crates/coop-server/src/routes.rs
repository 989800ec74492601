//! What is served over HTTP, as one table. OpenAPI and the tests that walk every route are made from it.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post};
use coop_api::Agents;

use crate::app::App;
use crate::body::MAX_BODY;
use crate::guard::WS_PATH;
use crate::{http, page, sse, ws};

/// One route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// Its path.
    pub path: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// The schema of what it takes, by the name of a type in `openapi`.
    pub request: Option<&'static str>,
    /// The schema of what it gives; nothing for text and streams.
    pub response: Option<&'static str>,
    /// Its query parameters: name, type, meaning.
    pub query: &'static [(&'static str, &'static str, &'static str)],
}

pub(crate) const fn route(method: &'static str, path: &'static str, summary: &'static str) -> Route {
    Route { method, path, summary, request: None, response: None, query: &[] }
}

const SCREEN_QUERY: &[(&str, &str, &str)] =
    &[("format", "string", "text (the default), ansi or styled"), ("cursor", "boolean", "false leaves the cursor out")];

const WS_QUERY: &[(&str, &str, &str)] = &[
    ("mode", "string", "raw, screen, state or all (the default)"),
    ("subscribe", "string", "instead of mode: a list of output, screen, state, messages, events, log, all"),
    ("binary", "boolean", "output as binary frames: 8 bytes of offset, big endian, then the bytes"),
    ("offset", "integer", "where the output is to begin; from now on without it"),
    ("after", "integer", "the last event already known; only new ones without it"),
    ("resync", "boolean", "send the whole terminal at the beginning and after a gap"),
    ("token", "string", "the token, for clients that cannot set headers"),
];

/// Every route of the API.
pub const ROUTES: &[Route] = &[
    Route { response: Some("HealthBody"), ..route("GET", "/api/v1/health", "Health check") },
    Route { response: Some("ScreenBody"), query: SCREEN_QUERY, ..route("GET", "/api/v1/screen", "Rendered screen") },
    Route {
        query: &[("scrollback", "integer", "how many lines that scrolled off to put before it")],
        ..route("GET", "/api/v1/screen/text", "Plain text screen")
    },
    Route {
        response: Some("DumpBody"),
        ..route("GET", "/api/v1/screen/dump", "The whole terminal as control sequences")
    },
    Route {
        response: Some("OutputBody"),
        query: &[
            ("offset", "integer", "where to begin; the oldest byte kept without it"),
            ("limit", "integer", "how many bytes at most; 1 MiB without it"),
        ],
        ..route("GET", "/api/v1/output", "Raw output by offset")
    },
    Route { response: Some("StatusBody"), ..route("GET", "/api/v1/status", "Process status") },
    Route {
        query: &[("after", "integer", "the last event already known; only new ones without it")],
        ..route("GET", "/api/v1/events", "Events as they happen (SSE)")
    },
    Route {
        request: Some("InputBody"),
        response: Some("Written"),
        ..route("POST", "/api/v1/input", "Send text input")
    },
    Route {
        request: Some("KeysBody"),
        response: Some("Written"),
        ..route("POST", "/api/v1/input/keys", "Send key sequences")
    },
    Route {
        request: Some("LockBody"),
        response: Some("LockedBody"),
        ..route("POST", "/api/v1/lock", "Take or give back the write lock")
    },
    Route { request: Some("ResizeBody"), response: Some("Size"), ..route("POST", "/api/v1/resize", "Resize terminal") },
    Route {
        request: Some("SignalBody"),
        response: Some("Delivered"),
        ..route("POST", "/api/v1/signal", "Signal the child's process group")
    },
    Route {
        response: Some("Delivered"),
        ..route("POST", "/api/v1/restart", "End the child and start the same command again")
    },
    Route { response: Some("Delivered"), ..route("POST", "/api/v1/shutdown", "End the child, then coop") },
    Route { response: Some("AgentBody"), ..route("GET", "/api/v1/agent", "Agent state, another spelling") },
    Route { response: Some("AgentBody"), ..route("GET", "/api/v1/agent/state", "Agent state + prompt context") },
    Route {
        response: Some("Explanation"),
        ..route(
            "GET",
            "/api/v1/agent/explain",
            "Why the state is what it is: the last signals and what was made of them",
        )
    },
    Route {
        request: Some("NudgeBody"),
        response: Some("Receipt"),
        ..route("POST", "/api/v1/agent/nudge", "Deliver message to idle agent")
    },
    Route { response: Some("NudgesBody"), ..route("GET", "/api/v1/agent/nudges", "Messages that wait") },
    Route {
        response: Some("Delivered"),
        ..route("DELETE", "/api/v1/agent/nudges/{id}", "Take back a message that waits")
    },
    Route { response: Some("AsksBody"), ..route("GET", "/api/v1/agent/asks", "What the agent asks") },
    Route {
        request: Some("Answer"),
        response: Some("Answered"),
        ..route("POST", "/api/v1/agent/respond", "Answer agent prompt")
    },
    Route {
        response: Some("Delivered"),
        ..route("POST", "/api/v1/agent/interrupt", "Stop what the agent is doing; it is idle then")
    },
    Route {
        request: Some("Configure"),
        response: Some("Delivered"),
        ..route("POST", "/api/v1/agent/configure", "Set the mode or model of a running agent")
    },
    Route {
        request: Some("StopBody"),
        response: Some("Delivered"),
        ..route("POST", "/api/v1/stop/resolve", "Decide about an agent that wants to end its turn and is held")
    },
    route("POST", "/api/v1/hooks/{event}", "For the agent's hooks, with their own token; answers with what to print"),
    route("GET", "/api/v1/transcripts/catchup", "The conversation so far, as the agent keeps it (JSON lines)"),
    Route { response: Some("UsageReport"), ..route("GET", "/api/v1/session/usage", "Tokens and cost") },
    Route {
        response: Some("ChangesBody"),
        ..route("GET", "/api/v1/changes", "What has changed in the agent's folder, by git")
    },
    route("GET", "/api/v1/recording", "The recording of the terminal (asciicast v3); takes Range"),
    Route {
        request: Some("LoginBody"),
        response: Some("Delivered"),
        ..route("POST", "/api/v1/login", "For browsers: the token once, for a cookie")
    },
    Route { response: Some("Delivered"), ..route("POST", "/api/v1/logout", "Takes the cookie back") },
    route("GET", "/api/v1/openapi.json", "This description"),
    Route { query: WS_QUERY, ..route("GET", WS_PATH, "WebSocket, see docs/WEBSOCKET.md") },
];

pub(crate) fn router<A: Agents>() -> Router<Arc<App<A>>> {
    Router::new()
        .route("/api/v1/health", get(http::health))
        .route("/api/v1/screen", get(http::screen))
        .route("/api/v1/screen/text", get(http::screen_text))
        .route("/api/v1/screen/dump", get(http::dump))
        .route("/api/v1/output", get(http::output))
        .route("/api/v1/status", get(http::status))
        .route("/api/v1/events", get(sse::events))
        .route("/api/v1/input", post(http::input))
        .route("/api/v1/input/keys", post(http::keys))
        .route("/api/v1/lock", post(http::lock))
        .route("/api/v1/resize", post(http::resize))
        .route("/api/v1/signal", post(http::signal))
        .route("/api/v1/restart", post(http::restart))
        .route("/api/v1/shutdown", post(http::shutdown))
        .route("/api/v1/agent", get(http::agent_state))
        .route("/api/v1/agent/state", get(http::agent_state))
        .route("/api/v1/agent/explain", get(http::explain))
        .route("/api/v1/agent/nudge", post(http::nudge))
        .route("/api/v1/agent/nudges", get(http::nudges))
        .route("/api/v1/agent/nudges/{id}", delete(http::cancel_nudge))
        .route("/api/v1/agent/asks", get(http::asks))
        .route("/api/v1/agent/respond", post(http::respond))
        .route("/api/v1/agent/interrupt", post(http::interrupt))
        .route("/api/v1/agent/configure", post(http::configure))
        .route("/api/v1/stop/resolve", post(http::resolve_stop))
        .route("/api/v1/hooks/{event}", post(http::hook))
        .route("/api/v1/transcripts/catchup", get(http::transcript))
        .route("/api/v1/session/usage", get(http::usage))
        .route("/api/v1/changes", get(http::changes))
        .route("/api/v1/recording", get(http::recording))
        .route("/api/v1/login", post(http::log_in))
        .route("/api/v1/logout", post(http::log_out))
        .route("/api/v1/openapi.json", get(http::openapi))
        .route(WS_PATH, get(ws::upgrade))
        .merge(page::router())
        .method_not_allowed_fallback(http::wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
}
