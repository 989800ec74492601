//! The same tools over a pair of streams, for agents that start their servers of tools as programs. Each call is passed
//! on to the daemon, so a daemon that ended and began again is no matter.

use std::future::Future;

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use super::nothing_but_tools;

/// Serves until the input ends. `post` sends a JSON-RPC request to the daemon's `/mcp`, and returns what was answered.
pub async fn serve_stream<R, W, P, A>(input: R, output: W, post: P) -> Result<(), std::io::Error>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
    P: Fn(Value) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Result<Value, String>> + Send + 'static,
{
    let served = match (Relay { post }).serve((input, output)).await {
        Ok(served) => served,
        // It never began.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(std::io::Error::other(error)),
    };
    served.waiting().await.map(drop).map_err(std::io::Error::other)
}

#[derive(Clone)]
struct Relay<P> {
    post: P,
}

impl<P, A> ServerHandler for Relay<P>
where
    P: Fn(Value) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Result<Value, String>> + Send + 'static,
{
    nothing_but_tools!();

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let params = json!({ "name": request.name, "arguments": request.arguments.unwrap_or_default() });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let failed = |why: String| CallToolResult::error(vec![ContentBlock::text(why)]).into();
        let mut told = match (self.post)(call).await {
            Ok(told) => told,
            Err(why) => return Ok(failed(why)),
        };
        if let Ok(error) = serde_json::from_value::<ErrorData>(told["error"].take()) {
            return Err(error);
        }
        let read = serde_json::from_value::<CallToolResult>(told["result"].take());
        Ok(read.map_or_else(|wrong| failed(format!("the daemon's answer cannot be read: {wrong}")), Into::into))
    }
}
