//! Tools that agents call, by the Model Context Protocol, at `/mcp`.
//!
//! Whoever asks says with every request who it is, by a token in `Authorization`: there are no sessions, so nothing holds but
//! what the request itself brings. The protocol is `rmcp`'s, today's form and the earlier ones; this names the tools and turns
//! a call into a [`ToolCall`].

mod stream;
mod tools;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header, request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Json, middleware};
use coop_api::{Error, ErrorCode};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

pub use self::stream::serve_stream;
pub use self::tools::{AgentWhat, Awaited, ToolCall, When, args};
use crate::fleet::{Fleet, Hub};
use crate::workspaces::Caller;

/// Where the tools are.
pub(crate) const MCP_PATH: &str = "/mcp";

/// The header that seed 001 tells workspaces apart by.
const WORKSPACE: &str = "x-workspace-path";

const INSTRUCTIONS: &str = "You work in a workspace of coop: a git worktree with a branch of its own. These tools tell and \
     change what is known of it, make others, and let you start other agents in this project, give them work, wait for them \
     and read what they answer.";

/// Returns the route of the tools, for those who have a token.
pub(crate) fn route<F: Fleet>(hub: &Arc<Hub<F>>) -> Router<Arc<Hub<F>>> {
    // Who may ask at all, and from which page, was checked before.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_cancellation_token(hub.shutdown.clone())
        .disable_allowed_hosts();
    let handler = Tools { hub: Arc::clone(hub) };
    let service =
        StreamableHttpService::new(move || Ok(handler.clone()), Arc::new(NeverSessionManager::default()), config);
    let known = middleware::from_fn_with_state(Arc::clone(hub), identify);
    Router::new().route_service(MCP_PATH, service).route_layer(known)
}

/// Finds out who asks, and keeps out who is nobody.
async fn identify<F: Fleet>(State(hub): State<Arc<Hub<F>>>, mut request: Request, next: Next) -> Response {
    match token(request.headers()) {
        Some(token) => match hub.fleet.caller(token).await {
            Some(caller) if speaks_for(request.headers(), &caller) => {
                request.extensions_mut().insert(caller);
                next.run(request).await
            }
            Some(_) => refused("the token is that of another workspace"),
            None => refused("the token is not that of an agent that runs in a workspace"),
        },
        None => refused("a workspace's token is needed; send it as `Authorization: Bearer TOKEN`"),
    }
}

/// Seed 001's header names the workspace. The token alone says which it is; but who names another one is mistaken.
fn speaks_for(headers: &HeaderMap, caller: &Caller) -> bool {
    headers.get(WORKSPACE).is_none_or(|named| named.as_bytes() == caller.workspace.as_os_str().as_encoded_bytes())
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn refused(why: &str) -> Response {
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32001, "message": why } });
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], Json(body)).into_response()
}

/// Lists the tools, and says of everything else that there is no such thing, in place of an empty list: the protocol asks for
/// either that or to announce it.
macro_rules! nothing_but_tools {
    () => {
        fn get_info(&self) -> rmcp::model::ServerConfig {
            $crate::mcp::info()
        }

        async fn list_tools(
            &self,
            _: Option<rmcp::model::PaginatedRequestParams>,
            _: rmcp::service::RequestContext<rmcp::RoleServer>,
        ) -> Result<rmcp::model::ListToolsResult, rmcp::model::ErrorData> {
            Ok(rmcp::model::ListToolsResult::with_all_items($crate::mcp::tools::list()))
        }

        async fn list_prompts(
            &self,
            _: Option<rmcp::model::PaginatedRequestParams>,
            _: rmcp::service::RequestContext<rmcp::RoleServer>,
        ) -> Result<rmcp::model::ListPromptsResult, rmcp::model::ErrorData> {
            Err(rmcp::model::ErrorData::method_not_found::<rmcp::model::ListPromptsRequestMethod>())
        }

        async fn list_resources(
            &self,
            _: Option<rmcp::model::PaginatedRequestParams>,
            _: rmcp::service::RequestContext<rmcp::RoleServer>,
        ) -> Result<rmcp::model::ListResourcesResult, rmcp::model::ErrorData> {
            Err(rmcp::model::ErrorData::method_not_found::<rmcp::model::ListResourcesRequestMethod>())
        }

        async fn list_resource_templates(
            &self,
            _: Option<rmcp::model::PaginatedRequestParams>,
            _: rmcp::service::RequestContext<rmcp::RoleServer>,
        ) -> Result<rmcp::model::ListResourceTemplatesResult, rmcp::model::ErrorData> {
            Err(rmcp::model::ErrorData::method_not_found::<rmcp::model::ListResourceTemplatesRequestMethod>())
        }

        async fn complete(
            &self,
            _: rmcp::model::CompleteRequestParams,
            _: rmcp::service::RequestContext<rmcp::RoleServer>,
        ) -> Result<rmcp::model::CompleteResult, rmcp::model::ErrorData> {
            Err(rmcp::model::ErrorData::method_not_found::<rmcp::model::CompleteRequestMethod>())
        }
    };
}

pub(crate) use nothing_but_tools;

/// Returns what a server of these tools says of itself.
fn info() -> ServerConfig {
    let mut info = ServerConfig::default();
    info.capabilities = ServerCapabilities::builder().enable_tools().build();
    info.server_info = Implementation::new("coop", env!("CARGO_PKG_VERSION"));
    info.instructions = Some(INSTRUCTIONS.to_owned());
    info
}

struct Tools<F> {
    hub: Arc<Hub<F>>,
}

impl<F> Clone for Tools<F> {
    fn clone(&self) -> Self {
        Self { hub: Arc::clone(&self.hub) }
    }
}

impl<F: Fleet> ServerHandler for Tools<F> {
    nothing_but_tools!();

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = context.extensions.get::<request::Parts>().and_then(|parts| parts.extensions.get::<Caller>());
        let caller = caller.ok_or_else(|| ErrorData::internal_error("nobody has said who asks", None))?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let done = match ToolCall::parse(&request.name, arguments) {
            Err(tools::Unfit::NoSuchTool) => {
                return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
            }
            Err(tools::Unfit::Arguments(wrong)) => Err(Error::bad_request(wrong)),
            Ok(call) => self.hub.fleet.tool(caller, call).await,
        };
        let result = match done {
            Ok(value) => CallToolResult::success(vec![ContentBlock::text(value.to_string())]),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(told(&error).to_string())]),
        };
        Ok(result.into())
    }
}

/// Returns a failure as seed 001's tools tell it.
fn told(error: &Error) -> Value {
    let code = match error.code {
        ErrorCode::NotFound => "workspace-not-found",
        ErrorCode::Internal => "internal-error",
        other => other.as_str(),
    };
    json!({ "error": { "code": code, "message": error.message } })
}
