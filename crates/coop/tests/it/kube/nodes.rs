//! A daemon's agents on the real cluster, for those stories of `daemon` that are told there too.

use std::fs;
use std::path::PathBuf;

use super::lab::{Lab, NAMESPACE, limit};

/// The cluster, with volumes for a story's agents. They go with this, and the agents too.
pub(crate) struct Nodes {
    lab: Lab,
    agents: Vec<String>,
}

impl Nodes {
    /// Returns the cluster with what the agents of a `coop.toml` need, if there is one.
    pub(crate) fn find(definition: &str) -> Option<Self> {
        let lab = Lab::new()?;
        let named = |line: &str| Some(line.strip_prefix("[agents.")?.strip_suffix(']')?.to_owned());
        let agents: Vec<String> = definition.lines().filter_map(named).collect();
        lab.volumes(&agents);
        Some(Self { lab, agents })
    }

    /// Returns what a daemon outside of the cluster has to know of it.
    pub(crate) fn env(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("COOP_LAUNCHER", "kubernetes".into()),
            ("COOP_KUBECONFIG", self.lab.kubeconfig()),
            ("COOP_NAMESPACE", NAMESPACE.into()),
            ("COOP_AGENT_IMAGE", concat!("localhost/coop:", env!("CARGO_PKG_VERSION")).into()),
            ("COOP_IMAGE_HAS_COOP", "true".into()),
            ("COOP_AGENT_CLAIM", "1Gi".into()),
            ("COOP_STORAGE_CLASS", "shared".into()),
        ]
    }

    pub(crate) fn workspace(&self, agent: &str) -> PathBuf {
        self.lab.volume(agent).join("workspace")
    }

    /// Returns the process of an agent's sidecar, whichever node it is on.
    pub(crate) fn process(&self, agent: &str) -> Option<u32> {
        let found = self.lab.sidecars(agent);
        assert!(found.len() < 2, "{agent} runs once: {found:?}");
        found.first().copied()
    }

    /// Tells whether nothing of the story's agents is there any more.
    pub(crate) fn is_empty(&self) -> bool {
        let pods = self.agents.iter().map(|agent| format!("pod/agent-{agent}"));
        let all: Vec<String> = self.agents.iter().map(|agent| format!("agent/{agent}")).chain(pods).collect();
        let words = ["get", "-n", NAMESPACE, "--ignore-not-found", "-o", "name"].into_iter();
        let words: Vec<&str> = words.chain(all.iter().map(String::as_str)).collect();
        self.lab.kubectl(&words).trim().is_empty()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        let named = |kind: &str, prefix: &str| -> Vec<String> {
            self.agents.iter().map(|agent| format!("{kind}/{prefix}{agent}")).collect()
        };
        for all in [named("agent", ""), named("pvc", "agent-"), named("pv", "volume-")] {
            let limit = limit();
            let words = ["delete", "-n", NAMESPACE, "--ignore-not-found", &limit].into_iter();
            // A test that failed is told of by what failed.
            let _ = self.lab.try_kubectl(&words.chain(all.iter().map(String::as_str)).collect::<Vec<_>>());
        }
        for agent in &self.agents {
            let _ = fs::remove_dir_all(self.lab.volume(agent));
        }
    }
}
