//! `coop shim`: an agent at a time by the adapter-shim protocol, each started as a sidecar starts one.

mod backend;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use coop_api::{Error, Size};
use coop_server::shim::{Host, Kind, Published, Script, Shim, ShimConfig, Start, Written};
use coop_server::{Config, Listener};
use coop_session::Handle;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use self::backend::Backend;
use crate::cli::{self, Cli, Serve, ShimAgent};
use crate::config::AgentConfig;
use crate::serve::{self, Running, Signals};
use crate::shield;

/// How long clients, and the agent, may take to go.
const FAREWELL: Duration = Duration::from_secs(10);

pub(crate) async fn run(options: cli::Shim) -> anyhow::Result<i32> {
    serve::start_log(options.log_format, options.log_level);
    if !options.host.is_loopback() && options.auth_token.is_none() {
        bail!(
            "anyone who can reach {} could steer this agent: give a token with --auth-token or COOP_AUTH_TOKEN, or leave \
             --host at 127.0.0.1",
            options.host
        );
    }
    let backend = Backend::from_environment()?;
    if let Some(workspace) = &options.workspace {
        env::set_current_dir(workspace).with_context(|| format!("cannot work in {}", workspace.display()))?;
    }
    shield::raise();
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
        server: Config { token: options.auth_token.clone(), hosts: options.allow_host.clone() },
    };
    let backend = backend.map(Arc::new);
    if let Some(backend) = &backend {
        tokio::spawn(Arc::clone(backend).renew());
    }
    let shim = Shim::new(Sidecars { options, backend, last: Mutex::default() }, config);
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
}

impl Host for Sidecars {
    type Agent = Handle;

    async fn start(&self, start: Start) -> Result<Handle, Error> {
        self.launch(start).await.map_err(|error| Error::internal(format!("{error:#}")))
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
        let size = Size::new(options.cols, options.rows).context("the terminal's size")?;
        let config = AgentConfig { settings: settings(self.options.agent, &start), ..AgentConfig::default() };
        let Running { handle, done, server, _folder, _socket, .. } = serve::start(&options, config, size).await?;
        *last = Some(tokio::spawn(async move {
            // However it ended, what belongs to it goes.
            let _ = done.await;
            drop((_folder, _socket));
            tokio::spawn(server.shut_down(FAREWELL));
        }));
        Ok(handle)
    }

    /// Returns what the command line of a sidecar for this agent would be.
    fn serve_options(&self, start: &Start) -> anyhow::Result<Serve> {
        let (name, runtime) = match self.options.agent {
            ShimAgent::Claude => ("claude", "pipe"),
            ShimAgent::Codex => ("codex", "pipe"),
            ShimAgent::Opencode => ("opencode", "server"),
            ShimAgent::Gemini => ("gemini", "pipe"),
            ShimAgent::Acp => ("acp", "pipe"),
            ShimAgent::Mock => bail!("a script is not run"),
        };
        let mut words: Vec<OsString> = ["coop", "--agent", name, "--runtime", runtime].map(OsString::from).to_vec();
        words.extend(self.options.isolate.then(|| "--isolate".into()));
        words.push("--".into());
        match self.options.command.as_slice() {
            [] if name == "acp" => bail!("ACP is spoken by many: give the agent's command after --"),
            [] => words.push(name.into()),
            command => words.extend_from_slice(command),
        }
        if let (ShimAgent::Claude, Some(most)) = (self.options.agent, start.max_turns) {
            words.extend(["--max-turns".into(), most.to_string().into()]);
        }
        // Some are told on their own command line what to go on with, some by an option of ours.
        let mut resume = start.resume.clone();
        match self.options.agent {
            ShimAgent::Codex => words.extend(resume.take().into_iter().flat_map(|id| ["resume".into(), id.into()])),
            ShimAgent::Opencode => words.extend(resume.take().into_iter().flat_map(|id| ["-s".into(), id.into()])),
            ShimAgent::Claude | ShimAgent::Gemini | ShimAgent::Acp | ShimAgent::Mock => {}
        }
        // The variables that set a sidecar's options set the shim's, not those of the agent in it.
        let cli = Cli::try_parse_from(words)?;
        Ok(Serve {
            socket: None,
            port: None,
            grpc_port: None,
            health_port: None,
            auth_token: None,
            attach: None,
            resume,
            ..cli.serve
        })
    }
}

/// Returns settings by which the agent asks about tools that it would use without asking.
fn settings(agent: ShimAgent, start: &Start) -> Option<serde_json::Value> {
    let is_claude = agent == ShimAgent::Claude && !start.ask_about.is_empty();
    is_claude.then(|| json!({ "permissions": { "ask": start.ask_about } }))
}
