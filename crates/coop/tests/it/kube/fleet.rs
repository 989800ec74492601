//! A fleet over the cluster, from outside of it.

use std::path::Path;

use serde_json::Value;

use crate::daemon::lab::{Lab, is};

/// Starts `coop up --launcher kubernetes`, sees all these agents, which others have applied, and answers what one of them
/// asks by the fleet's own command. The daemon is ended; the agents stay.
pub(crate) fn answers(kubeconfig: &Path, namespace: &str, asking: &str, all: &[String]) {
    let env = vec![
        ("COOP_LAUNCHER", "kubernetes".into()),
        ("COOP_KUBECONFIG", kubeconfig.to_owned()),
        ("COOP_NAMESPACE", namespace.into()),
    ];
    let lab = Lab::with_env("", env);
    lab.wait_until("all agents are shown", || {
        let shown = lab.json(&["ls"]);
        let ids: Vec<&str> =
            shown["agents"].as_array().into_iter().flatten().filter_map(|agent| agent["id"].as_str()).collect();
        all.iter().all(|agent| ids.contains(&agent.as_str()))
    });
    assert_eq!(lab.run(&["wait", asking, "--for", "ask"]).0, 0, "{}", lab.log());
    let newest = lab.entries().iter().filter_map(|entry| entry["id"].as_u64()).max().unwrap_or(0);
    let (code, _, said) = lab.respond(asking, "yes");
    assert_eq!(code, 0, "{said}");
    lab.until(newest, "the ask's end", |entry| entry["agent"] == asking && is(entry, "ask_closed"));
    let asks = lab.json(&["asks"]);
    let is_its = |ask: &Value| ask["agent"] == asking;
    assert!(!asks["asks"].as_array().into_iter().flatten().any(is_its), "{asks}");
}
