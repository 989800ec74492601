//! Ten agents on two nodes, and what is broken one after another: `make test-k8s`.

use std::fs;
use std::io::{self, Write};
use std::time::Instant;

use serde_json::{Value, json};

use super::examples;
use super::fleet;
use super::inside;
use super::lab::{Lab, NAMESPACE, kill, limit};

/// The one that has a brief in place of a prompt.
const BRIEFED: usize = 3;

/// What the agents do: four answer and are idle, two work on and on, four ask whether they may.
fn prompt(number: usize) -> &'static str {
    match number {
        0..4 => "Look around. [[text:I have looked.]]",
        4..6 => "Go on. [[hang]]",
        _ => "Write it down. [[bash:touch written]] [[text:It is written.]]",
    }
}

fn state(number: usize) -> &'static str {
    match number {
        0..4 => "idle",
        4..6 => "working",
        _ => "prompt",
    }
}

fn agent(number: usize) -> Value {
    let mut agent = json!({ "apiVersion": "coop.dev/v1alpha1", "kind": "Agent", "metadata": { "name": format!("sim{number}") },
        "spec": {
            "driver": "claude", "image": concat!("localhost/coop:", env!("CARGO_PKG_VERSION")), "imagePullPolicy": "Never",
            // Both ways in which coop comes to an agent.
            "imageHasCoop": number.is_multiple_of(2),
            "command": ["/usr/local/bin/coop", "sim", "claude"],
            "prompt": prompt(number),
            "env": { "COOP_SIM_SCENARIO": "plain", "COOP_SIM_STATE": "/data/sim" },
            "workspace": { "claim": { "size": "1Gi", "storageClass": "shared", "accessModes": ["ReadWriteMany"] } },
            "actions": { "onIdle": [{ "action": "Escalate", "message": "{agent} waits." }] },
        } });
    if number == BRIEFED {
        let prompt = agent["spec"].as_object_mut().and_then(|spec| spec.remove("prompt"));
        agent["spec"]["brief"] = brief(prompt.expect("one"));
    }
    agent
}

fn brief(description: Value) -> Value {
    json!({
        "agentId": "sim", "role": "coder", "workstream": "core", "description": description, "controlMode": "orchestrator",
        "escalationProtocol": { "alwaysEscalate": [], "neverEscalate": [] },
        "projectBrief": { "title": "Demo", "description": "d", "goals": ["Look"], "checkpoints": [] },
        "knowledgeSnapshot": { "version": 0, "generatedAt": "2026-01-01T00:00:00Z", "workstreams": [], "pendingDecisions": [],
            "recentCoherenceIssues": [], "artifactIndex": [], "activeAgents": [], "estimatedTokens": 0 },
    })
}

/// The agent was told what a shim would tell it, and its tools were set up as a shim would.
fn briefed(lab: &Lab, agent: &str) {
    let told = fs::read_to_string(lab.volume(agent).join("sim/prompts.jsonl")).expect("what it was told");
    assert!(
        told.contains(r#"You are a coder working on the \"core\" workstream."#) && told.contains("## Goals"),
        "{told}"
    );
    let runtime = lab.sidecar(agent, "agent", None)["runtime"].clone();
    assert_eq!(runtime, "pipe", "it is run as a shim would");
}

/// A resource that makes no sense says so, and is not begun.
fn invalid(lab: &Lab) {
    let mut wrong = agent(0);
    wrong["metadata"]["name"] = json!("wrong");
    wrong["spec"]["brief"] = json!({ "agentId": "sim" });
    lab.apply(&wrong);
    lab.until("wrong", "state", "pending");
    lab.until_so("it is told what is wrong", || lab.status("wrong")["needs"].is_string());
    let status = lab.status("wrong");
    assert_eq!(status["needs"], "it has a prompt and a brief, and only one of them can be what it is told first");
    assert!(
        status["conditions"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "Valid")),
        "{status}"
    );
    // The API server itself refuses what is no action.
    wrong["spec"]["actions"]["onIdle"][0]["action"] = json!("Gate");
    let (code, _, why) = lab.try_apply(&wrong);
    assert!(code != 0 && why.contains("spec.actions.onIdle.action"), "{why}");
    lab.kubectl(&["delete", "agent", "-n", NAMESPACE, "wrong", &limit()]);
}

#[test]
#[ignore = "needs a cluster: make test-k8s"]
fn ten_agents_on_two_nodes_outlive_what_is_broken() {
    let lab = Lab::new().expect("COOP_K8S names the script of a cluster");
    let names: Vec<String> = (0..10).map(|number| format!("sim{number}")).collect();
    lab.volumes(&names);
    let began = Instant::now();
    let told = |what: &str| {
        let _ = writeln!(io::stderr(), "{:>4} s  {what}", began.elapsed().as_secs());
    };
    let all: Vec<Value> = (0..10).map(agent).collect();
    lab.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": all }));
    for (number, name) in names.iter().enumerate() {
        lab.until(name, "prompt", "Delivered");
        lab.until(name, "state", state(number));
    }
    told("ten agents are in the states they are to be in");
    told(&format!("\n{}", lab.kubectl(&["get", "agents", "-n", NAMESPACE])));

    briefed(&lab, &names[BRIEFED]);
    invalid(&lab);
    told("a brief was told as a shim tells it; what makes no sense is not begun");

    rights(&lab);
    walls(&lab);
    lab.walls_of("operator");
    told("the operator may do what it must and no more; an agent is not root, and cannot reach another");

    answer(&lab, "sim7");
    lab.until("sim7", "state", "idle");
    assert!(lab.volume("sim7").join("workspace/written").exists(), "what was allowed was done");
    told("an answer was given");

    fleet::answers(&lab.kubeconfig(), NAMESPACE, "sim9", &names);
    lab.until("sim9", "state", "idle");
    assert!(lab.volume("sim9").join("workspace/written").exists(), "what was allowed was done");
    told("an answer was given by a fleet over the cluster");

    examples::apply(&lab);
    inside::answers(&lab, "sim6", &names);
    assert!(lab.volume("sim6").join("workspace/written").exists(), "what was allowed was done");
    told(
        "a fleet in the cluster showed all agents, answered one, and made and ended one; it may do what it must and no more",
    );

    examples::run(&lab);
    told("the examples run as they are");

    another_operator(&lab);
    told("the operator that led was killed; the other leads, and knows what happened meanwhile");

    lab.cluster(&["restart-apiserver"]);
    let receipt = lab.sidecar("sim0", "agent/nudge", Some(&json!({ "message": "After the restart. [[hang]]" })));
    assert_eq!(receipt["delivered"], true, "{receipt}");
    lab.until("sim0", "state", "working");
    told("the API server was killed and started again");

    let before = lab.status("sim1");
    let pid = lab.sidecars("sim1");
    assert_eq!(pid.len(), 1);
    kill(pid[0]);
    lab.until("sim1", "starts", &after(&before));
    lab.until("sim1", "state", "idle");
    went_on(&lab, "sim1", &before);
    told("a sidecar was killed, and its conversation goes on");

    drained(&lab, "sim2");
    told("a node was drained: the agent ended in order, and goes on on the other");

    node_loss(&lab, &names);
    told("a node was lost, and its agents go on on the other");

    lab.kubectl(&["delete", "agents", "--all", "-n", NAMESPACE, &limit()]);
    for name in &names {
        assert_eq!(lab.sidecars(name), Vec::<u32>::new(), "{name} has ended before it was gone");
    }
    for name in &names {
        assert_eq!(lab.json(&["get", "pvc", &format!("agent-{name}")])["status"]["phase"], "Bound", "volumes stay");
    }
    told("the agents were deleted, and their volumes are there");
}

/// Returns how many starts an agent has when it has been started once more.
fn after(before: &Value) -> String {
    (before["starts"].as_u64().expect("a number") + 1).to_string()
}

fn answer(lab: &Lab, agent: &str) {
    let asks = lab.sidecar(agent, "agent/asks", None);
    lab.until(agent, "ask.id", asks["asks"][0]["id"].as_str().expect("an ask"));
    lab.until(agent, "ask.preview", "touch written");
    let reply = lab.sidecar(agent, "agent/respond", Some(&json!({ "ask": asks["asks"][0]["id"], "accept": true })));
    assert_eq!(reply["delivered"], true, "{reply}");
}

/// The agent has the same conversation, with what was said before, and was told its prompt once.
fn went_on(lab: &Lab, agent: &str, before: &Value) {
    let after = lab.status(agent);
    assert!(before["session"].is_string(), "{before}");
    assert_eq!(after["session"], before["session"], "{agent}");
    assert_eq!(lab.sidecars(agent).len(), 1, "{agent} runs once");
    let transcript = lab.sidecar_text(agent, "transcripts/catchup", None);
    let number: usize = agent.trim_start_matches("sim").parse().expect("a number");
    assert!(transcript.contains(prompt(number)), "{agent}: {transcript}");
    let prompts = fs::read_to_string(lab.volume(agent).join("sim/prompts.jsonl")).expect("what it was told");
    let times = prompts.lines().filter(|line| line.contains(prompt(number))).count();
    assert_eq!(times, 1, "{agent} was told its prompt once: {prompts}");
    // Whoever is in a conversation can be talked to.
    let receipt = lab.sidecar(agent, "agent/nudge", Some(&json!({ "message": "Are you there? [[text:Yes.]]" })));
    assert_eq!(receipt["delivered"], true, "{agent}: {receipt}");
    lab.until(agent, "state", "idle");
}

/// Two operators run. One leads; when it dies, what happens meanwhile is told by the other.
fn another_operator(lab: &Lab) {
    lab.until("sim8", "state", "prompt");
    let first = lab.leader();
    lab.kill_operator(&first);
    answer(lab, "sim8");
    lab.until_so("what was allowed", || lab.volume("sim8").join("workspace/written").exists());
    let told = lab.status("sim8")["state"].clone();
    if lab.leader() == first {
        assert_eq!(told, "prompt", "nobody is there to tell");
    }
    lab.until("sim8", "state", "idle");
    assert_ne!(lab.leader(), first);
}

/// The agent's pod is evicted, and its process ends.
fn drained(lab: &Lab, agent: &str) {
    let before = lab.status(agent);
    let node = before["node"].as_str().expect("a node");
    let which = format!("--pod-selector=coop.dev/agent={agent}");
    lab.kubectl(&["drain", node, &which, "--delete-emptydir-data", &limit()]);
    lab.until(agent, "starts", &after(&before));
    lab.until(agent, "state", "idle");
    assert_ne!(lab.status(agent)["node"], before["node"]);
    went_on(lab, agent, &before);
    lab.kubectl(&["uncordon", node]);
}

fn node_loss(lab: &Lab, names: &[String]) {
    let node = "127.0.0.2";
    let before: Vec<Value> = names.iter().map(|name| lab.status(name)).collect();
    let lost: Vec<usize> = (0..names.len()).filter(|&number| before[number]["node"] == node).collect();
    assert!(!lost.is_empty() && lost.len() < names.len(), "both nodes have agents: {before:?}");
    lab.cluster(&["kill-node", "2"]);
    for &number in &lost {
        // Its sidecar may be missed before its node is.
        lab.until_so("the node is missed", || {
            lab.status(&names[number])["needs"].as_str().is_some_and(|needs| needs.starts_with(node))
        });
        let status = lab.status(&names[number]);
        assert_eq!(status["state"], "unknown");
        assert_eq!(status["node"], node, "it is started nowhere else before the node is known to be down");
        assert_eq!(lab.sidecars(&names[number]), Vec::<u32>::new());
    }
    lab.kubectl(&["taint", "node", node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"]);
    for &number in &lost {
        lab.until(&names[number], "starts", &after(&before[number]));
        lab.until(&names[number], "node", "127.0.0.3");
        // A turn that was cut off is not begun again by itself.
        lab.until(&names[number], "state", "idle");
        went_on(lab, &names[number], &before[number]);
    }
    for (name, before) in names.iter().zip(&before) {
        assert_eq!(lab.sidecars(name).len(), 1, "{name} runs once");
        assert_eq!(lab.status(name)["session"], before["session"]);
    }
}

/// What the operator may do: this and nothing else.
fn rights(lab: &Lab) {
    let all = [
        "agents.coop.dev [] [] [get list watch patch]",
        "agents.coop.dev/finalizers [] [] [update]",
        "agents.coop.dev/status [] [] [update]",
        "leases.coordination.k8s.io [] [] [create]",
        "leases.coordination.k8s.io [] [coop-operator] [get update]",
        "networkpolicies.networking.k8s.io [] [] [list watch create patch]",
        "nodes [] [] [list watch]",
        "persistentvolumeclaims [] [] [list watch create]",
        "pods [] [] [list watch create delete]",
        "secrets [] [] [list watch create]",
    ];
    assert_eq!(lab.may("coop-operator", NAMESPACE), all.map(str::to_owned).into());
    assert_eq!(lab.may("coop-operator", "default"), ["nodes [] [] [list watch]".to_owned()].into(), "elsewhere");
}

/// An agent's pod from inside.
fn walls(lab: &Lab) {
    let pods = lab.json(&["get", "pods", "-l", "coop.dev/agent"])["items"].as_array().cloned().expect("pods");
    // Two on one node, so that no way between nodes is what keeps them apart.
    let (one, other) = (&pods[0], pods[1..].iter().find(|pod| pod["spec"]["nodeName"] == pods[0]["spec"]["nodeName"]));
    let other = other.expect("ten agents on two nodes");
    let name = |pod: &Value| pod["metadata"]["labels"]["coop.dev/agent"].as_str().expect("its agent").to_owned();
    let pod = format!("agent-{}", name(one));
    let inside = |words: &[&str]| {
        let all: Vec<&str> =
            ["exec", "-n", NAMESPACE, &pod, "-c", "agent", "--"].iter().chain(words).copied().collect();
        lab.try_kubectl(&all)
    };
    assert_eq!(inside(&["id", "-u"]).1.trim(), "65532");
    let (code, _, err) = inside(&["touch", "/etc/x"]);
    assert!(code != 0 && err.contains("Read-only"), "{err}");
    let (_, capabilities, _) = inside(&["grep", "CapEff", "/proc/1/status"]);
    assert_eq!(capabilities.split_whitespace().last(), Some("0000000000000000"), "{capabilities}");
    let (code, _, _) = inside(&["ls", "/var/run/secrets/kubernetes.io"]);
    assert_ne!(code, 0, "it has no account with the API server");
    // The network of these tests heeds no policy: the other's API can be reached, and it is the token that keeps others out.
    let url = format!("http://{}:8080/api/v1/agent", other["status"]["podIP"].as_str().expect("an address"));
    // From the network of the one's pod, with what its image does not have.
    let from = lab.sidecars(&name(one))[0];
    for (token, status) in [(String::new(), 401), (lab.token(&name(one)), 401), (lab.token(&name(other)), 200)] {
        assert_eq!(lab.ask_from(from, &url, &token), status, "of {} from {}", name(other), name(one));
    }
}
