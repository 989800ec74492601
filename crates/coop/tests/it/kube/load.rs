//! What the operator costs as agents become more, against an API server, a node and sidecars that are simulated in this
//! process: `make bench-k8s`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coop_sim::cluster::{Cluster, Sidecars};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const AGENTS: &str = "/apis/coop.dev/v1alpha1/namespaces/team/agents";
/// Where all pods are; an address of loopback that nobody else uses. The port is the one that pods have.
const PODS: &str = "127.77.0.1";
const ROUNDS: u32 = 10;
const LIMIT: Duration = Duration::from_secs(300);

/// What was measured with so many agents.
struct Row {
    agents: u32,
    /// Resident, in kB.
    memory: u64,
    calls_to_start: f64,
    calls_per_change: f64,
    cpu_per_change: Duration,
    cpu_at_rest: Duration,
}

#[tokio::test]
#[ignore = "a measurement: make bench-k8s"]
async fn what_the_operator_costs_grows_with_the_agents_and_no_faster() {
    let coop = std::env::var("COOP_BENCH_K8S").expect("COOP_BENCH_K8S names a coop");
    let mut rows = Vec::new();
    for agents in [10, 50, 100] {
        let measured = measure(&coop, agents);
        rows.push(tokio::time::timeout(LIMIT, measured).await.expect("in time"));
    }
    let say = |line: String| drop(writeln!(io::stdout(), "{line}"));
    say("| agents | memory | calls for a new agent | calls for a change | CPU for a change | CPU in 10 s at rest |"
        .into());
    say("|---|---|---|---|---|---|".into());
    for row in &rows {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        say(format!(
            "| {} | {:.1} MB | {:.1} | {:.2} | {:.2} ms | {:.1} ms |",
            row.agents,
            row.memory as f64 / 1024.0,
            row.calls_to_start,
            row.calls_per_change,
            ms(row.cpu_per_change),
            ms(row.cpu_at_rest),
        ));
    }
    let [first, .., last] = rows.as_slice() else { panic!("three rows") };
    // One write of the status, and now and then the lease.
    assert!(last.calls_per_change < 1.2, "{}", last.calls_per_change);
    assert!(last.calls_to_start < first.calls_to_start * 1.5, "{} {}", first.calls_to_start, last.calls_to_start);
    assert!(last.cpu_per_change < first.cpu_per_change * 2, "{:?} {:?}", first.cpu_per_change, last.cpu_per_change);
}

async fn measure(coop: &str, agents: u32) -> Row {
    let (cluster, mut tasks) = (Cluster::default(), JoinSet::new());
    let sidecars = Sidecars::new(&cluster);
    let api = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let server = format!("http://{}", api.local_addr().expect("an address"));
    let pods = TcpListener::bind((PODS, 8080)).await.expect("the pods' port is free");
    let (served_api, served_pods) = (cluster.clone().serve(api), sidecars.clone().serve(pods));
    tasks.spawn(async move { served_api.await.expect("it is served") });
    tasks.spawn(async move { served_pods.await.expect("they are served") });
    tasks.spawn(cluster.clone().run_pods(PODS));
    let folder = tempfile::tempdir().expect("a folder");
    let operator = Operator::start(coop, &server, folder.path());
    let names: Vec<String> = (0..agents).map(|number| format!("sim{number}")).collect();
    let before = total(&cluster);
    for name in &names {
        let spec = json!({ "driver": "claude", "image": "agent:1" });
        cluster.create(AGENTS, json!({ "metadata": { "name": name }, "spec": spec })).expect("made");
    }
    all_are(&cluster, &names, "idle").await;
    let calls_to_start = f64::from(total(&cluster) - before) / f64::from(agents);
    let (calls, cpu) = (total(&cluster), operator.cpu());
    for round in 0..ROUNDS {
        let state = if round % 2 == 0 { "working" } else { "idle" };
        for name in &names {
            sidecars.say(name, |said| state.clone_into(&mut said.state));
        }
        all_are(&cluster, &names, state).await;
    }
    let changes = ROUNDS * agents;
    let calls_per_change = f64::from(total(&cluster) - calls) / f64::from(changes);
    let cpu_per_change = (operator.cpu() - cpu) / changes;
    let cpu = operator.cpu();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let cpu_at_rest = operator.cpu() - cpu;
    // The next one wants the pods' port.
    tasks.shutdown().await;
    Row { agents, memory: operator.memory(), calls_to_start, calls_per_change, cpu_per_change, cpu_at_rest }
}

async fn all_are(cluster: &Cluster, names: &[String], state: &str) {
    for name in names {
        cluster.until(&format!("{AGENTS}/{name}"), |agent| agent["status"]["state"] == state).await;
    }
}

/// Returns how often the API server was asked for something.
fn total(cluster: &Cluster) -> u32 {
    let calls: BTreeMap<String, u64> = cluster.calls();
    u32::try_from(calls.values().sum::<u64>()).expect("not so many")
}

struct Operator(Child);

impl Operator {
    fn start(coop: &str, server: &str, folder: &std::path::Path) -> Self {
        let config = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "own",
            "clusters": [{ "name": "own", "cluster": { "server": server } }],
            "users": [{ "name": "own", "user": {} }],
            "contexts": [{ "name": "own", "context": { "cluster": "own", "user": "own", "namespace": "team" } }] });
        let path = folder.join("config.json");
        fs::write(&path, config.to_string()).expect("written");
        let mut command = Command::new(coop);
        command.args(["operator", "--image", "coop:1", "--log-level", "warn"]).env_clear().env("KUBECONFIG", path);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it runs"))
    }

    /// Returns the processor's time it has used, by the scheduler's own count.
    fn cpu(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0.id())).expect("it runs");
        let used = |thread: io::Result<fs::DirEntry>| -> Option<u64> {
            fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
        };
        Duration::from_nanos(threads.filter_map(used).sum())
    }

    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
