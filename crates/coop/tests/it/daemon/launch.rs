//! Who runs the agents of a lab: the stories of these tests are told once and seen by each launcher.
//!
//! Told of processes of this machine only, each with its reason:
//!
//! - what an agent may do with its fleet's socket, and a socket that is deleted: no other agent has one;
//! - what becomes of the store (locked, slow, full, PostgreSQL), completions, the demo, the README and shims: nothing of it
//!   goes by a launcher;
//! - real agents: the fakes' machines are this one, so they would be the same processes.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use super::lab::Lab;
use crate::kube::nodes::Nodes;
use crate::launchers::{FakeCluster, FakeEngine};
use crate::tool::COOP;

/// A launcher, as `coop up --launcher` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    Local,
    Container,
    Kubernetes,
}

/// Where the agents of a lab are. All that runs there ends with it.
pub(crate) enum Place {
    Machine,
    Engine(FakeEngine),
    Cluster(FakeCluster),
    /// A real cluster, if that is where the tests run: `make test-k8s`.
    Nodes(Nodes),
}

/// Makes three tests of each story, one by each launcher, so that what fails says by which.
macro_rules! by_each_launcher {
    ($($story:ident),+ $(,)?) => { $(
        mod $story {
            use crate::daemon::launch::Launch;

            // What is printed is the same by each.
            #[test]
            fn local() {
                insta::allow_duplicates! { super::$story(Launch::Local) }
            }

            #[test]
            fn container() {
                insta::allow_duplicates! { super::$story(Launch::Container) }
            }

            #[test]
            fn kubernetes() {
                insta::allow_duplicates! { super::$story(Launch::Kubernetes) }
            }
        }
    )+ };
}
pub(crate) use by_each_launcher;

impl Place {
    /// Starts what a launcher needs in a lab's folder, for the agents of this file.
    pub(super) fn start(launch: Launch, home: &Path, agents: &str) -> Self {
        match launch {
            Launch::Local => Self::Machine,
            Launch::Container => Self::Engine(FakeEngine::start(home)),
            Launch::Kubernetes => match Nodes::find(agents) {
                Some(nodes) => Self::Nodes(nodes),
                None => Self::Cluster(FakeCluster::start(home)),
            },
        }
    }

    /// Returns how simulated agents are run there, as a `coop.toml` has it.
    pub(super) fn sim(&self, home: &Path) -> String {
        let (program, folders) = match self {
            Self::Machine => (COOP, String::new()),
            Self::Engine(_) | Self::Cluster(_) => {
                let folders = ["HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"].map(|name| format!(", {name} = {home:?}"));
                (COOP, folders.concat())
            }
            Self::Nodes(_) => ("/usr/local/bin/coop", String::new()),
        };
        let env = format!("env = {{ COOP_SIM_SCENARIO = \"plain\"{folders} }}");
        format!("driver = \"claude\"\nisolate = true\n{env}\ncommand = [{program:?}, \"sim\", \"claude\"]")
    }

    /// Returns what a daemon has to know of it.
    pub(super) fn env(&self) -> Vec<(&'static str, PathBuf)> {
        let image = ("COOP_AGENT_IMAGE", PathBuf::from("agent:1"));
        match self {
            Self::Machine => Vec::new(),
            Self::Engine(engine) => {
                vec![("COOP_LAUNCHER", "container".into()), image, ("COOP_ENGINE", engine.socket.clone())]
            }
            Self::Cluster(cluster) => vec![
                ("COOP_LAUNCHER", "kubernetes".into()),
                image,
                ("COOP_AGENT_CLAIM", "1Gi".into()),
                ("COOP_KUBECONFIG", cluster.kubeconfig.clone()),
            ],
            Self::Nodes(nodes) => nodes.env(),
        }
    }
}

impl Lab {
    /// Returns the cluster of a lab that has one of its own.
    pub(crate) fn cluster(&self) -> &FakeCluster {
        match &self.place {
            Place::Cluster(cluster) => cluster,
            Place::Machine | Place::Engine(_) | Place::Nodes(_) => panic!("there is none"),
        }
    }

    /// Returns where an agent works.
    pub(crate) fn workspace(&self, agent: &str) -> PathBuf {
        match &self.place {
            Place::Machine | Place::Engine(_) => self.home.path().to_owned(),
            Place::Cluster(cluster) => cluster.workspace(agent),
            Place::Nodes(nodes) => nodes.workspace(agent),
        }
    }

    /// Returns the process of an agent's sidecar, which runs.
    pub(crate) fn sidecar(&self, agent: &str) -> Pid {
        self.process(agent).expect("its sidecar runs")
    }

    /// Returns the process of an agent's sidecar: those of containers and pods are processes of this machine too.
    fn process(&self, agent: &str) -> Option<Pid> {
        let pid = match &self.place {
            Place::Machine => {
                let file = fs::read(self.state().join("agents").join(agent).join("sidecar.json")).expect("it is there");
                let file: Value = serde_json::from_slice(&file).expect("JSON");
                file["pid"].as_u64().map(|pid| u32::try_from(pid).expect("small"))
            }
            Place::Engine(engine) => engine.process(agent),
            Place::Cluster(cluster) => cluster.process(agent),
            Place::Nodes(nodes) => nodes.process(agent),
        };
        Pid::from_raw(i32::try_from(pid?).expect("small"))
    }

    /// Tells whether an agent's sidecar runs.
    pub(crate) fn runs(&self, agent: &str) -> bool {
        self.process(agent).is_some_and(|pid| test_kill_process(pid).is_ok())
    }

    /// Kills an agent's sidecar, as a machine that has too little memory does.
    pub(crate) fn kill_sidecar(&self, agent: &str) {
        kill_process(self.process(agent).expect("it runs"), Signal::KILL).expect("it is ours");
    }

    /// Waits until nothing of an agent runs any more, and nothing is left of what it ran in.
    pub(crate) fn nothing_is_left(&self, agent: &str) {
        let socket = self.state().join("agents").join(agent).join("coop.sock");
        self.wait_until("nothing is left", || match &self.place {
            Place::Machine => UnixStream::connect(&socket).is_err(),
            Place::Engine(engine) => engine.count() == 0,
            Place::Cluster(cluster) => ["agents", "pods"].iter().all(|kind| cluster.is_empty(kind)),
            Place::Nodes(nodes) => nodes.is_empty(),
        });
    }
}
