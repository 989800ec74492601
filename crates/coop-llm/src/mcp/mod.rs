//! Tools of MCP servers, by the official SDK.

mod config;
mod tool;

use std::collections::HashSet;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::service::{RoleClient, RunningService, ServiceExt};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::time::timeout;

pub use config::{McpAddress, McpConfig, McpProgram, McpServer, Secrets};
use tool::McpTool;

use crate::process::{Group, command};
use crate::provider::client;
use crate::{AgentError, ErrorKind, RunCx, Tool};

/// Connections to MCP servers. When this is dropped they end, and the programs that were started for them.
pub struct McpServers {
    _connections: Vec<Connection>,
    tools: Vec<Arc<dyn Tool>>,
}

struct Connection {
    // Before the program, so that it is told before it is killed.
    _service: RunningService<RoleClient, ()>,
    _program: Option<Group>,
}

/// Time for a server to start and to say what it has.
const CONNECT_TIME: Duration = Duration::from_secs(30);

impl McpServers {
    /// Connects to all servers at once. One that cannot be reached is an error: an agent must not work without tools that
    /// somebody counted on.
    pub async fn connect(config: &McpConfig, cx: &RunCx) -> Result<Self, AgentError> {
        let all = config.servers.iter().map(|(name, server)| async move {
            let connected = timeout(CONNECT_TIME, connect(name, server)).await;
            connected.map_err(|_| failed(name, format!("nothing came within {CONNECT_TIME:?}")))?
        });
        let (connections, tools): (Vec<_>, Vec<_>) = cx.guard(try_join_all(all)).await?.into_iter().unzip();
        let mut names = HashSet::new();
        let mut tools: Vec<McpTool> = tools.into_iter().flatten().collect();
        tools.iter_mut().for_each(|tool| tool.make_unique(&mut names));
        let tools = tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>).collect();
        Ok(Self { _connections: connections, tools })
    }

    /// Returns the tools of all servers, called `mcp__SERVER__TOOL`.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.clone()
    }
}

async fn connect(name: &str, server: &McpServer) -> Result<(Connection, Vec<McpTool>), AgentError> {
    let (service, program) = match server {
        McpServer::Stdio(program) => {
            let (service, group) = start(name, program).await?;
            (service, Some(group))
        }
        McpServer::Http(address) => (reach(name, address).await?, None),
    };
    let listed = service.peer().list_all_tools().await.map_err(|error| failed(name, error.to_string()))?;
    let tools = listed.into_iter().map(|tool| McpTool::new(name, tool, service.peer().clone())).collect();
    Ok((Connection { _service: service, _program: program }, tools))
}

async fn start(name: &str, program: &McpProgram) -> Result<(RunningService<RoleClient, ()>, Group), AgentError> {
    let mut command = command(&program.command);
    command.args(&program.args).envs(&program.env.0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(folder) = &program.cwd {
        command.current_dir(folder);
    }
    let broken = |error: std::io::Error| failed(name, format!("{}: {error}", program.command)).with_source(error);
    let mut group = Group::spawn(command).map_err(broken)?;
    let child = group.child();
    let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(failed(name, "it has no standard streams".into()));
    };
    let complaints = tokio::spawn(beginning(errors));
    match ().serve((output, input)).await {
        Ok(service) => Ok((service, group)),
        Err(error) => {
            // With the program gone, what it complained of has an end.
            drop(group);
            let said = timeout(TO_COMPLAIN, complaints).await;
            let said = said.map_or_else(|_| String::new(), Result::unwrap_or_default);
            Err(failed(name, format!("{error}\n{}", said.trim())))
        }
    }
}

/// As much of a server's complaints as explains why it did not start.
const COMPLAINTS: usize = 4096;
/// A program that has left the group may hold on to the pipe.
const TO_COMPLAIN: Duration = Duration::from_secs(1);

/// Reads all that a server complains of, so that it never waits for somebody to, and returns the beginning.
async fn beginning(mut errors: ChildStderr) -> String {
    let mut said = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let room = COMPLAINTS.saturating_sub(said.len());
        said.extend_from_slice(&buffer[..count.min(room)]);
    }
    String::from_utf8_lossy(&said).into_owned()
}

async fn reach(name: &str, address: &McpAddress) -> Result<RunningService<RoleClient, ()>, AgentError> {
    let mut headers = HeaderMap::new();
    for (header, value) in &address.headers.0 {
        let wrong = || failed(name, format!("{header:?} is no header"));
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(header).map_err(|_| wrong())?, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(address.url.as_str())
        .custom_headers(headers.into_iter().filter_map(|(name, value)| Some((name?, value))).collect());
    let transport = StreamableHttpClientTransport::with_client(client()?, config);
    ().serve(transport).await.map_err(|error| failed(name, error.to_string()))
}

fn failed(name: &str, why: String) -> AgentError {
    AgentError::new(ErrorKind::Tool, format!("the MCP server {name:?} cannot be used: {}", why.trim()))
}
