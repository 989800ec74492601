//! `coop mcp`: the daemon's tools over standard input and output.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use coop_api::Token;
use serde_json::Value;

use crate::client::Client;
use crate::fleet::Identity;

#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// Who calls: the agent's tools.json
    #[arg(long = "as", value_name = "FILE")]
    identity: PathBuf,
}

pub(crate) async fn run(options: Mcp) -> anyhow::Result<i32> {
    let path = options.identity;
    let identity = Identity::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let token = Token::new(identity.token).map_err(anyhow::Error::msg)?;
    let target = identity.socket.to_str().context("the daemon's folder is not UTF-8")?;
    let client = Client::new(Some(target), Some(token))?;
    coop_server::mcp::serve_stdio(move |call: Value| {
        let client = client.clone();
        async move {
            let told = client.post("/mcp", &call).await.map_err(|error| format!("{error:#}"))?;
            serde_json::from_slice::<Value>(&told).map_err(|wrong| format!("the daemon's answer is no JSON: {wrong}"))
        }
    })
    .await?;
    Ok(0)
}
