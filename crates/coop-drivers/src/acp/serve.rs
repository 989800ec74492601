//! What the agent asks to have done for it, and how it is told what came of that. Without leave it is told that there is
//! no such method, as by whoever does not offer it.

use std::path::PathBuf;

use agent_client_protocol_schema::{
    CLIENT_METHOD_NAMES, CreateTerminalRequest, CreateTerminalResponse, Error, ErrorCode, KillTerminalResponse,
    ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalResponse, RequestId, TerminalExitStatus,
    TerminalOutputResponse, WaitForTerminalExitResponse, WriteTextFileRequest, WriteTextFileResponse,
};
use coop_api::Artifact;
use serde_json::Value;

use super::{Acp, ask, signals, wire};
use crate::driver::Say;
use crate::{Ended, Meaning, Serve, Served, Service, Signal, artifact_kind};

/// What was asked, for the answer to it.
#[derive(Debug)]
pub(super) struct Asked {
    id: RequestId,
    kind: Kind,
}

/// Which form the answer has.
#[derive(Debug)]
pub(super) enum Kind {
    Read,
    Write { path: String },
    Create,
    Output,
    Wait,
    Kill,
    Release,
}

impl Acp {
    /// Returns what a request wants done; nothing if that is not offered.
    pub(super) fn wanted(&self, method: &str, params: &Value) -> Option<Result<(Service, Kind), Error>> {
        let (names, allowed) = (CLIENT_METHOD_NAMES, self.launch.allowed);
        let wanted = match method {
            _ if method == names.fs_read_text_file && allowed.files => read(params),
            _ if method == names.fs_write_text_file && allowed.files => write(params),
            _ if !allowed.terminals => return None,
            _ if method == names.terminal_create => create(params),
            _ => {
                let terminal = params["terminalId"].as_str().map(str::to_owned);
                let on = |of: fn(String) -> Service, kind| terminal.map(|terminal| (of(terminal), kind));
                match method {
                    _ if method == names.terminal_output => {
                        on(|terminal| Service::TerminalOutput { terminal }, Kind::Output)
                    }
                    _ if method == names.terminal_wait_for_exit => {
                        on(|terminal| Service::AwaitTerminal { terminal }, Kind::Wait)
                    }
                    _ if method == names.terminal_kill => on(|terminal| Service::KillTerminal { terminal }, Kind::Kill),
                    _ if method == names.terminal_release => {
                        on(|terminal| Service::ReleaseTerminal { terminal }, Kind::Release)
                    }
                    _ => return None,
                }
            }
        };
        Some(wanted.ok_or_else(Error::invalid_params))
    }

    pub(super) fn serve(&mut self, id: &RequestId, what: Service, kind: Kind) {
        let name = ask::name(id);
        self.serving.insert(name.clone(), Asked { id: id.clone(), kind });
        self.to_say.push(Say::Serve(Serve { name, what }));
    }

    /// Tells the agent what came of what it asked for.
    pub(super) fn served(&mut self, name: &str, outcome: &Served) -> Vec<Signal> {
        let Some(Asked { id, kind }) = self.serving.remove(name) else { return Vec::new() };
        let reply = reply(&kind, outcome);
        let wrote = match (&kind, &reply) {
            (Kind::Write { path }, Ok(_)) => Some(Meaning::Wrote(Artifact {
                path: path.clone(),
                artifact_kind: artifact_kind(path).to_owned(),
                tool: CLIENT_METHOD_NAMES.fs_write_text_file.to_owned(),
            })),
            _ => None,
        };
        self.to_say.push(Say::Message(match reply {
            Ok(result) => wire::reply(id, result),
            Err(error) => wire::error(id, error),
        }));
        signals("it was done for the agent", wrote.into_iter().collect())
    }
}

fn read(params: &Value) -> Option<(Service, Kind)> {
    let asked: ReadTextFileRequest = wire::parse(params)?;
    Some((Service::ReadFile { path: text(asked.path)?, from: asked.line, lines: asked.limit }, Kind::Read))
}

fn write(params: &Value) -> Option<(Service, Kind)> {
    let asked: WriteTextFileRequest = wire::parse(params)?;
    let path = text(asked.path)?;
    Some((Service::WriteFile { path: path.clone(), content: asked.content }, Kind::Write { path }))
}

fn create(params: &Value) -> Option<(Service, Kind)> {
    let asked: CreateTerminalRequest = wire::parse(params)?;
    // A command without arguments may be a whole line for a shell: agents rely on that.
    let command = match asked.args.is_empty() {
        true => vec!["sh".to_owned(), "-c".to_owned(), asked.command],
        false => [asked.command].into_iter().chain(asked.args).collect(),
    };
    let cwd = match asked.cwd {
        Some(cwd) => Some(text(cwd)?),
        None => None,
    };
    let env = asked.env.into_iter().map(|variable| (variable.name, variable.value)).collect();
    Some((Service::StartTerminal { command, env, cwd, keep: asked.output_byte_limit }, Kind::Create))
}

fn text(path: PathBuf) -> Option<String> {
    path.into_os_string().into_string().ok()
}

fn reply(kind: &Kind, outcome: &Served) -> Result<Value, Error> {
    Ok(match (kind, outcome) {
        // Agents look before they write, and go on if nothing is there.
        (_, Served::Missing(path)) => return Err(Error::resource_not_found(Some(path.clone()))),
        (_, Served::Failed(why)) => {
            return Err(Error::new(ErrorCode::InternalError.into(), format!("Internal error: {why}")));
        }
        (Kind::Read, Served::Text(text)) => wire::value(ReadTextFileResponse::new(text.clone())),
        (Kind::Write { .. }, Served::Done) => wire::value(WriteTextFileResponse::new()),
        (Kind::Create, Served::Terminal(name)) => wire::value(CreateTerminalResponse::new(name.clone())),
        (Kind::Output, Served::Output { text, truncated, ended }) => {
            let response = TerminalOutputResponse::new(text.clone(), *truncated);
            wire::value(response.exit_status(ended.map(exit_status)))
        }
        (Kind::Wait, Served::Ended(ended)) => wire::value(WaitForTerminalExitResponse::new(exit_status(*ended))),
        (Kind::Kill, Served::Done) => wire::value(KillTerminalResponse::new()),
        (Kind::Release, Served::Done) => wire::value(ReleaseTerminalResponse::new()),
        _ => return Err(Error::internal_error()),
    })
}

fn exit_status(ended: Ended) -> TerminalExitStatus {
    let code = ended.code.and_then(|code| u32::try_from(code).ok());
    let signal = ended.signal.map(|signal| match signal {
        1 => "SIGHUP".to_owned(),
        2 => "SIGINT".to_owned(),
        6 => "SIGABRT".to_owned(),
        9 => "SIGKILL".to_owned(),
        11 => "SIGSEGV".to_owned(),
        15 => "SIGTERM".to_owned(),
        other => other.to_string(),
    });
    TerminalExitStatus::new().exit_code(code).signal(signal)
}
