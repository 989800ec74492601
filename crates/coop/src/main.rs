//! `coop`: parse, wire, exit code.
#![cfg_attr(
    not(all(feature = "containers", feature = "kubernetes")),
    allow(dead_code, unused_imports, unused_variables, reason = "helpers of the launchers that are left out")
)]

mod attach;
mod await_socket;
mod bridge;
mod cli;
mod client;
mod command;
mod config;
mod doctor;
mod driven;
mod enter;
mod fleet;
mod guard;
mod hook;
mod inotify;
mod install;
mod leftovers;
mod listen;
mod log_file;
mod mcp;
mod oneshot;
#[cfg(feature = "kubernetes")]
mod operator;
mod paths;
mod record;
mod run;
mod sandbox;
mod serve;
mod session_file;
mod shield;
mod shim;

use std::io::{self, Write};
use std::process::ExitCode;

use crate::cli::{Cli, Sim, Simulated, Sub};

/// The first descriptor that is none of the three standard streams.
const FIRST_INHERITED: i32 = 3;

fn main() -> ExitCode {
    shield::close_if_secret();
    let cli = Cli::read();
    if matches!(cli.sub, Some(Sub::Guard { .. } | Sub::Enter { .. } | Sub::Await { .. })) {
        close_files_on_exec();
    }
    if let Some(Sub::Hook { event, hold, guest }) = &cli.sub {
        // Before everything else: the agent waits for it.
        hook::run(event, *hold, guest.as_deref());
        return ExitCode::SUCCESS;
    }
    if let Some(Sub::Guard { socket, leaders }) = &cli.sub {
        guard::run(socket, leaders);
        return ExitCode::SUCCESS;
    }
    if let Some(Sub::Enter { terminal_to, without_terminal, mounted, covered, command }) = &cli.sub {
        if let Err(error) = coop_sandbox::check_mounted(mounted, covered) {
            return fail(&error.into());
        }
        return match (terminal_to, without_terminal) {
            (Some(pid), _) => {
                enter::give_terminal(*pid).map_or_else(|error| fail(&error.into()), |()| ExitCode::SUCCESS)
            }
            (None, false) => fail(&enter::run_on_terminal(command)),
            (None, true) => fail(&enter::run(command)),
        };
    }
    if let Some(Sub::Await { within, socket, missing, words, commands }) = &cli.sub {
        return fail(&await_socket::run(socket, missing, *within, *words, commands).into());
    }
    // What follows the name of a person's own agent is for that agent.
    if !matches!(cli.sub, Some(Sub::Wrap(_) | Sub::Sim(_))) {
        shield::hide_token();
    }
    let store = match &cli.sub {
        Some(Sub::Up(options)) => Some(&options.store),
        Some(Sub::Fleet(command)) => command.store(),
        Some(_) | None => None,
    };
    if let Some(url) = store.and_then(|store| store.store.as_ref()) {
        shield::hide_store(&url.0);
    }
    // Not before: what starts coop once more, to hide a secret, may have given it a file by its descriptor.
    close_files_on_exec();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let outcome = runtime.block_on(async {
        match cli.sub {
            None => serve::run(cli.serve).await,
            Some(Sub::Attach(options)) => attach::run(options).await,
            Some(Sub::Screen(options)) => oneshot::screen(options).await,
            Some(Sub::Type(options)) => oneshot::type_text(options).await,
            Some(Sub::Keys(options)) => oneshot::keys(options).await,
            Some(Sub::Run(options)) => run::run(*options).await,
            Some(Sub::Shim(options)) => shim::run(options).await,
            Some(Sub::Up(options)) => fleet::up(*options).await,
            Some(Sub::Fleet(command)) => fleet::run(command).await,
            Some(Sub::Ws(options)) => fleet::ws::run(options).await,
            Some(Sub::Wrap(options)) => fleet::wrap::run(options).await,
            Some(Sub::Mcp(options)) => mcp::run(options).await,
            Some(Sub::Completions { shell }) => cli::completions(shell),
            Some(Sub::Doctor(options)) => doctor::run(options).await,
            Some(Sub::Install(options)) => install::run(options).await,
            #[cfg(feature = "kubernetes")]
            Some(Sub::Operator(options)) => operator::run(options).await,
            #[cfg(feature = "kubernetes")]
            Some(Sub::Unpack(options)) => operator::unpack(&options),
            Some(Sub::Sim(Sim { what })) => simulate(what).await,
            Some(Sub::Hook { .. } | Sub::Guard { .. } | Sub::Enter { .. } | Sub::Await { .. }) => Ok(0),
            Some(Sub::Bridge(options)) => Ok(bridge::run(options.target()?).await?),
        }
    });
    // A read of the terminal may still be under way; it must not keep us.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => ExitCode::from(code.rem_euclid(256) as u8),
        Err(error) => fail(&error),
    }
}

async fn simulate(what: Option<Simulated>) -> anyhow::Result<i32> {
    match what {
        None => coop_sim::claude::run(std::iter::empty()),
        Some(Simulated::Claude { args }) => coop_sim::claude::run(args.into_iter()),
        Some(Simulated::Acp { auth, load_only }) => coop_sim::acp::run(coop_sim::acp::Options { auth, load_only }),
        Some(Simulated::Codex { args }) => coop_sim::codex::run(args).await,
        Some(Simulated::Opencode { args }) => coop_sim::opencode::run(args.into_iter()).await,
        Some(Simulated::Gemini { args }) => coop_sim::gemini::run(args).await,
        Some(Simulated::Model { port, script }) => {
            coop_sim::model::run(coop_sim::model::Options { port, script }).await.map(|()| 0)
        }
    }
}

/// Has open files closed in the programs that coop starts: one in a sandbox could read through them.
fn close_files_on_exec() {
    close_fds::CloseFdsBuilder::new().cloexecfrom(FIRST_INHERITED);
}

fn fail(error: &anyhow::Error) -> ExitCode {
    // There may be nobody to tell.
    let _ = writeln!(io::stderr(), "coop: {}", coop_api::visible(&format!("{error:#}")));
    ExitCode::from(error.downcast_ref::<serve::CannotRun>().map_or(1, |error| error.code()))
}
