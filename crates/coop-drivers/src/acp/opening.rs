//! How it begins: which version is spoken, who logs in, and which conversation it is.

use std::collections::BTreeMap;

use agent_client_protocol_schema::{
    AuthenticateRequest, ClientCapabilities, EnvVariable, Error, ErrorCode, FileSystemCapabilities, HttpHeader,
    Implementation, InitializeRequest, InitializeResponse, LoadSessionRequest, McpServer, McpServerHttp, McpServerSse,
    McpServerStdio, NewSessionRequest, ProtocolVersion, ResumeSessionRequest,
};
use coop_api::{Fault, FaultKind, TurnOutcome};
use serde_json::Value;

use super::config::Settings;
use super::turn::METHODS;
use super::{Acp, config, fault, mode_from_name, signals, wire};
use crate::driver::{Launch, Say};
use crate::{McpWay, Meaning, Signal};

/// The ids of our requests. Each is open once at a time, and those of prompts and settings follow after.
pub(super) const INITIALIZE: i64 = 1;
pub(super) const AUTHENTICATE: i64 = 2;
pub(super) const SESSION: i64 = 3;

/// The variables that hold the keys of known ways to log in.
pub(crate) const VARIABLES: &[&str] =
    &["GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY", "ANTHROPIC_API_KEY"];
/// Ways to log in that take a key from the environment, and from which variable.
const KEYS: [(&str, &str); 5] = [
    ("gemini-api-key", VARIABLES[0]),
    ("vertex-ai", VARIABLES[1]),
    ("openai-api-key", VARIABLES[2]),
    ("codex-api-key", VARIABLES[3]),
    ("anthropic-api-key", VARIABLES[4]),
];

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It was greeted.
    Initializing,
    /// It was asked for a conversation.
    Opening { logged_in: bool },
    /// It has one.
    Open,
    /// It has none, and will not get one.
    Failed,
}

/// Returns the greeting.
pub(super) fn initialize(launch: &Launch) -> Value {
    let files =
        FileSystemCapabilities::new().read_text_file(launch.allowed.files).write_text_file(launch.allowed.files);
    let request = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(ClientCapabilities::new().fs(files).terminal(launch.allowed.terminals))
        .client_info(Implementation::new("coop", env!("CARGO_PKG_VERSION")));
    wire::request(INITIALIZE, METHODS.initialize, request)
}

impl Acp {
    /// Takes in the answer to one of our requests.
    pub(super) fn replied(&mut self, id: i64, outcome: Result<&Value, Error>) -> Vec<Signal> {
        match (id, self.phase) {
            (INITIALIZE, Phase::Initializing) => {
                let meanings = self.initialized(outcome);
                signals(METHODS.initialize, meanings)
            }
            (AUTHENTICATE, Phase::Opening { logged_in: true }) => match outcome {
                Ok(_) => signals(METHODS.authenticate, self.open(true)),
                Err(error) => signals(METHODS.authenticate, self.locked_out(&error)),
            },
            (SESSION, Phase::Opening { logged_in }) => {
                let meanings = self.opened(outcome, logged_in);
                signals(self.way_in().unwrap_or(METHODS.session_new), meanings)
            }
            _ if self.turn.as_ref().is_some_and(|turn| turn.id == id) => self.turn_replied(outcome),
            _ if id > config::IDS => {
                let error = outcome.err().map(|error| fault::words(&error));
                signals("the reply to a setting", vec![Meaning::Replied { request: id.to_string(), error }])
            }
            _ => Vec::new(),
        }
    }

    fn initialized(&mut self, outcome: Result<&Value, Error>) -> Vec<Meaning> {
        let reply = match outcome {
            Ok(reply) => wire::parse::<InitializeResponse>(reply),
            Err(error) => return self.failed(fault::fault(&error)),
        };
        match reply {
            Some(reply) if reply.protocol_version == ProtocolVersion::V1 => {
                self.capabilities = reply.agent_capabilities;
                self.auth_methods = reply.auth_methods;
                self.open(false)
            }
            Some(reply) => {
                let why = format!("it speaks version {} of ACP, and coop version 1", reply.protocol_version);
                self.failed(fault::other(why))
            }
            None => self.failed(fault::other("its answer to the greeting is not ACP's".into())),
        }
    }

    /// Asks for a conversation: a new one, or the one to go on with.
    fn open(&mut self, logged_in: bool) -> Vec<Meaning> {
        let cwd = self.launch.cwd.clone();
        let servers = match self.mcp_servers() {
            Ok(servers) => servers,
            Err(why) => return self.failed(fault::other(why)),
        };
        let request = match (self.way_in(), self.launch.resume.clone()) {
            (Some(method), None) => wire::request(SESSION, method, NewSessionRequest::new(cwd).mcp_servers(servers)),
            (Some(method), Some(id)) if method == METHODS.session_resume => {
                wire::request(SESSION, method, ResumeSessionRequest::new(id, cwd).mcp_servers(servers))
            }
            (Some(method), Some(id)) => {
                wire::request(SESSION, method, LoadSessionRequest::new(id, cwd).mcp_servers(servers))
            }
            (None, _) => {
                let why = "it cannot go on with an earlier conversation; start it without --resume";
                return self.failed(fault::other(why.into()));
            }
        };
        self.phase = Phase::Opening { logged_in };
        self.to_say.push(Say::Message(request));
        Vec::new()
    }

    /// Returns the servers of tools that the agent is to use, or says which of them it has no way to.
    fn mcp_servers(&self) -> Result<Vec<McpServer>, String> {
        let can = &self.capabilities.mcp_capabilities;
        let headers = |given: &BTreeMap<String, String>| -> Vec<HttpHeader> {
            given.iter().map(|(name, value)| HttpHeader::new(name, value)).collect()
        };
        let entry = |server: &crate::McpServer| match &server.way {
            McpWay::Program { command, args, env } => {
                let env = env.iter().map(|(name, value)| EnvVariable::new(name, value)).collect();
                Ok(McpServer::Stdio(McpServerStdio::new(&server.name, command).args(args.clone()).env(env)))
            }
            McpWay::Url { url, headers: given, is_sse: false } if can.http => {
                Ok(McpServer::Http(McpServerHttp::new(&server.name, url).headers(headers(given))))
            }
            McpWay::Url { url, headers: given, is_sse: true } if can.sse => {
                Ok(McpServer::Sse(McpServerSse::new(&server.name, url).headers(headers(given))))
            }
            McpWay::Url { .. } => Err(format!("it cannot reach the MCP server {} by its address", server.name)),
        };
        self.launch.mcp.iter().map(entry).collect()
    }

    /// Returns the method that opens the conversation; nothing if it has none for an earlier one.
    fn way_in(&self) -> Option<&'static str> {
        if self.launch.resume.is_none() {
            Some(METHODS.session_new)
        } else if self.capabilities.session_capabilities.resume.is_some() {
            Some(METHODS.session_resume)
        } else if self.capabilities.load_session {
            Some(METHODS.session_load)
        } else {
            None
        }
    }

    fn opened(&mut self, outcome: Result<&Value, Error>, logged_in: bool) -> Vec<Meaning> {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(error) if error.code == ErrorCode::AuthRequired && !logged_in => return self.log_in(&error),
            Err(error) if error.code == ErrorCode::AuthRequired => return self.locked_out(&error),
            Err(error) => return self.failed(fault::fault(&error)),
        };
        let new = reply["sessionId"].as_str().map(str::to_owned);
        let Some(id) = self.launch.resume.clone().or(new) else {
            return self.failed(fault::other("it did not name the conversation it began".into()));
        };
        self.settings = Settings::of(reply);
        self.session = Some(id.clone());
        self.phase = Phase::Open;
        self.tells_past = self.way_in() == Some(METHODS.session_load);
        let idle = self.turn.is_none().then_some(Meaning::Idle(TurnOutcome::Completed));
        let mode = reply["modes"]["currentModeId"].as_str().and_then(mode_from_name);
        [Meaning::Session { id, transcript: None }].into_iter().chain(mode).chain(idle).collect()
    }

    /// Logs in with a key that the environment has, or says that somebody has to.
    fn log_in(&mut self, error: &Error) -> Vec<Meaning> {
        let has = |variable: &str| self.launch.variables.get(variable).is_some_and(|key| !key.is_empty());
        let offered = |method: &str| self.auth_methods.iter().any(|offered| *offered.id().0 == *method);
        let Some((method, _)) = KEYS.iter().find(|(method, variable)| offered(method) && has(variable)) else {
            return self.locked_out(error);
        };
        let request = AuthenticateRequest::new(*method);
        self.phase = Phase::Opening { logged_in: true };
        self.to_say.push(Say::Message(wire::request(AUTHENTICATE, METHODS.authenticate, request)));
        Vec::new()
    }

    /// Says which ways to log in there are.
    fn locked_out(&mut self, error: &Error) -> Vec<Meaning> {
        let known = |id: &str| KEYS.iter().find(|(method, _)| *method == id).map(|(_, variable)| *variable);
        let methods = self.auth_methods.iter().map(|method| match known(&method.id().0) {
            Some(variable) => format!("{} ({}; set {variable})", method.id(), method.name()),
            None => format!("{} ({})", method.id(), method.description().unwrap_or(method.name())),
        });
        let methods = methods.collect::<Vec<_>>().join(", ");
        let methods = if methods.is_empty() { "it names none".to_owned() } else { methods };
        let message = format!("it wants somebody to log in first: {}; its ways: {methods}", fault::words(error));
        self.failed(Fault { kind: FaultKind::Auth, message, status: None, until: None })
    }

    fn failed(&mut self, fault: Fault) -> Vec<Meaning> {
        self.phase = Phase::Failed;
        vec![Meaning::Blocked(fault)]
    }
}
