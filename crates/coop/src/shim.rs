//! `coop shim`: an agent at a time by the adapter-shim protocol, each started as a sidecar starts one.

mod backend;
pub(crate) mod brief;
mod setup;
mod usage;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use coop_api::{Error, Size};
use coop_server::shim::{Host, Kind, Published, Script, Shim, ShimConfig, Start, Used, Written};
use coop_server::{Config, Listener, ProcessRole};
use coop_session::Handle;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use self::backend::Backend;
use self::usage::Meter;
use crate::cli::{self, Cli, Serve, ShimAgent};
use crate::config::AgentConfig;
use crate::driven::minute;
use crate::log_file::LogOwner;
use crate::serve::{self, Running, Signals};
use crate::shield;

/// How long clients, and the agent, may take to go.
const FAREWELL: Duration = Duration::from_secs(10);

pub(crate) async fn run(options: cli::Shim) -> anyhow::Result<i32> {
    serve::start_log(options.log_format, options.log_level, LogOwner::User);
    if !options.host.is_loopback() && options.auth_token.is_none() {
        bail!(
            "anyone who can reach {} could steer this agent: give a token with --auth-token or COOP_AUTH_TOKEN, or leave \
             --host at 127.0.0.1",
            options.host
        );
    }
    check(&options)?;
    let backend = Backend::from_environment()?;
    if let Some(workspace) = &options.workspace {
        env::set_current_dir(workspace).with_context(|| format!("cannot work in {}", workspace.display()))?;
    }
    shield::raise(ProcessRole::Shim);
    tokio::spawn(shield::reap_adopted());
    let mut signals = Signals::new()?;
    let address = (options.host, options.port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {}:{}; choose another --port, or 0", options.host, options.port))?;
    let port = listener.local_addr()?.port();
    let config = ShimConfig {
        agent: kind(options.agent, options.mock),
        strict: options.strict,
        server: Config { token: options.auth_token.clone(), hosts: options.allow_host.clone(), ..Config::default() },
    };
    let backend = backend.map(Arc::new);
    if let Some(backend) = &backend {
        tokio::spawn(Arc::clone(backend).renew());
    }
    let shim = Shim::new(Sidecars { options, backend, last: Mutex::default(), meter: Meter::default() }, config);
    shim.listen(Listener::Tcp(listener));
    announce(port).context("cannot write to standard output")?;
    signals.next().await;
    tracing::info!("told to stop");
    tokio::select! {
        () = shim.shut_down(FAREWELL) => {}
        // Told a second time, it waits for nobody.
        () = signals.next() => {}
    }
    Ok(0)
}

fn kind(agent: ShimAgent, mock: bool) -> Kind {
    match agent {
        ShimAgent::Mock => Kind::Mock(Script::Claude),
        ShimAgent::Codex if mock => Kind::Mock(Script::OpenAi),
        _ if mock => Kind::Mock(Script::Claude),
        ShimAgent::Claude => Kind::Real { sdk: "claude", plugin: "claude-cli" },
        ShimAgent::Codex => Kind::Real { sdk: "codex", plugin: "openai-codex" },
        ShimAgent::Opencode => Kind::Real { sdk: "opencode", plugin: "opencode" },
        ShimAgent::Gemini => Kind::Real { sdk: "gemini", plugin: "gemini" },
        ShimAgent::Acp => Kind::Real { sdk: "acp", plugin: "acp" },
        ShimAgent::Api => Kind::Real { sdk: "api", plugin: "coop-api" },
    }
}

/// Refuses what no agent could ever be started with.
fn check(options: &cli::Shim) -> anyhow::Result<()> {
    match options.agent {
        ShimAgent::Acp if options.command.is_empty() && !options.mock => {
            bail!("ACP is spoken by many: give the agent's command after --")
        }
        ShimAgent::Gemini | ShimAgent::Acp if options.isolate => {
            bail!(
                "--isolate is for claude, codex and opencode; leave it out, and set HOME for a configuration of its own"
            )
        }
        _ => Ok(()),
    }
}

/// Tells the port, as whoever starts a shim reads it.
fn announce(port: u16) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", json!({ "port": port }))?;
    out.flush()
}

/// Starts each agent in a session of its own, served on a socket like any sidecar's.
struct Sidecars {
    options: cli::Shim,
    backend: Option<Arc<Backend>>,
    /// The end of the last one. There is never more than one, and they have the same socket.
    last: Mutex<Option<JoinHandle<()>>>,
    meter: Meter,
}

impl Host for Sidecars {
    type Agent = Handle;

    async fn start(&self, start: Start) -> Result<Handle, Error> {
        self.launch(start).await.map_err(|error| Error::internal(format!("{error:#}")))
    }

    fn usage(&self) -> Used {
        self.meter.read()
    }

    async fn publish(&self, file: Written) -> Published {
        backend::publish(self.backend.as_deref(), file).await
    }
}

impl Sidecars {
    async fn launch(&self, start: Start) -> anyhow::Result<Handle> {
        let mut last = self.last.lock().await;
        if let Some(last) = last.take() {
            last.await.context("the last agent")?;
        }
        let options = self.serve_options(&start)?;
        minute::over(&options).await;
        let size = Size::new(options.cols, options.rows).context("the terminal's size")?;
        let settings = setup::settings(self.options.agent, &start);
        let mcp = setup::mcp(&start)?;
        let config = AgentConfig { settings, mcp, ..AgentConfig::default() };
        let Running { handle, done, server, _folder, _sockets, _tools, .. } =
            serve::start(&options, config, size).await?;
        *last = Some(tokio::spawn(async move {
            // However it ended, what belongs to it goes.
            let _ = done.await;
            drop((_tools, _sockets, _folder));
            tokio::spawn(server.shut_down(FAREWELL));
        }));
        Ok(handle)
    }

    /// Returns what the command line of a sidecar for this agent would be.
    fn serve_options(&self, start: &Start) -> anyhow::Result<Serve> {
        let Some((name, runtime)) = setup::way(self.options.agent) else { bail!("a script is not run") };
        let mut words: Vec<OsString> = ["coop", "--agent", name].map(OsString::from).to_vec();
        words.extend(self.options.isolate.then(|| "--isolate".into()));
        words.extend(self.options.trust.then(|| "--trust".into()));
        words.push("--".into());
        match self.options.command.as_slice() {
            [] if name == "acp" => bail!("ACP is spoken by many: give the agent's command after --"),
            // It is this program itself.
            [] if self.options.agent == ShimAgent::Api => {}
            [] => words.push(name.into()),
            command => words.extend_from_slice(command),
        }
        words.extend(setup::options(self.options.agent, start));
        // The variables that set a sidecar's options set the shim's, not those of the agent in it.
        let cli = Cli::try_parse_from(words)?;
        Ok(Serve {
            socket: None,
            port: None,
            grpc_port: None,
            health_port: None,
            auth_token: self.options.auth_token.clone(),
            allow_host: self.options.allow_host.clone(),
            steered_by: Some("the shim"),
            attach: None,
            record: None,
            runtime: Some(runtime),
            brief: None,
            session_file: None,
            resume: start.resume.clone(),
            sandbox: self.options.sandbox.clone(),
            ..cli.serve
        })
    }
}
