//! The list of agents, live.

use std::io::{self, Write};
use std::ops::ControlFlow;

use super::ask::{Daemon, list};
use super::table::Paper;
use super::wait::follow;

/// Clears the screen and goes to its top.
const ANEW: &str = "\x1b[H\x1b[2J";

/// Shows the list, and again whenever it is another: in the same place on a terminal, else one below the other.
pub(super) async fn watch(daemon: &Daemon) -> anyhow::Result<i32> {
    let mut shown = String::new();
    follow(daemon, None, async |_| {
        let agents = daemon.get("agents").await?;
        let paper = Paper::of_stdout();
        let text = if daemon.json { format!("{}\n", coop_api::visible_json(&agents)) } else { list(&agents, paper) };
        if text != shown {
            let mut out = io::stdout().lock();
            match paper {
                Paper::Terminal { .. } if !daemon.json => write!(out, "{ANEW}{text}")?,
                Paper::Plain if !daemon.json && !shown.is_empty() => write!(out, "\n{text}")?,
                _ => write!(out, "{text}")?,
            }
            out.flush()?;
            shown = text;
        }
        Ok(ControlFlow::Continue(()))
    })
    .await
}
