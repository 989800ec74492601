//! A scripted agent with the manners of Codex: its app-server, an interface that is a client of it, and `exec --json`.
//!
//! It follows the recordings of the real one where there are any, and is simple elsewhere. What it does in a turn stands
//! in the prompt, in the words of the fake model (see `model::directive`). Its tools are real.
//!
//! ```text
//! socket, stdio, tui ─► wire ─► hub ─┬─► every client: conversations and their status
//!                                    └─► turn ─► those who follow the conversation; the rollout
//! ```
//!
//! | Variable | Meaning |
//! |---|---|
//! | `CODEX_HOME`, `HOME` | where its conversations are |
//! | `COOP_SIM_DIALOGS` | `1`: the interface begins with the dialog that offers another model |

mod args;
mod exec;
mod hub;
mod rollout;
mod thread;
mod tui;
mod turn;
mod wire;

use std::ffi::OsString;
use std::io::Write;

use self::args::{Args, What};

/// The version whose manners these are.
const VERSION: &str = "0.166.0";

/// Runs the agent with the arguments after `coop sim codex`; returns its exit code.
pub async fn run(args: Vec<OsString>) -> anyhow::Result<i32> {
    let args = Args::parse(args)?;
    match &args.what {
        What::Version => {
            writeln!(std::io::stdout(), "codex-cli {VERSION}")?;
            Ok(0)
        }
        What::Server { socket } => {
            match socket {
                Some(path) => wire::serve_socket(hub::start(args.home()?), path).await?,
                None => wire::serve_stdio(hub::start(args.home()?)).await?,
            }
            Ok(0)
        }
        What::Interface => tui::run(&args).await,
        What::Exec => exec::run(&args).await,
    }
}
