//! Runs a command in a session until it ends, for profilers.

use std::time::Duration;

use coop_api::{AgentId, Size};
use coop_session::{Options, Queries, start};
use coop_term::Command;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args_os().skip(1);
    let command = Command { program: args.next().unwrap_or_default(), args: args.collect(), ..Command::default() };
    let options = Options {
        id: AgentId("flood".into()),
        agent: "unknown".into(),
        command,
        driven: None,
        size: Size::DEFAULT,
        ring: 1 << 20,
        queries: Queries::Answered,
        grace: Duration::from_secs(1),
        idle_timeout: None,
        guard: None,
    };
    if let Ok((handle, _)) = start(options).await {
        let _ = handle.ended().wait_for(|ended| *ended).await;
    }
}
