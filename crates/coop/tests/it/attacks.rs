//! What a hostile agent or another user of the machine tries, and does not get.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;

use crate::daemon::lab::{Lab, is};
use crate::tool::Sidecar;

/// An agent that asks before it makes a file, and one that runs a script.
const VICTIM_AND_ATTACKER: &str = r#"
[agents.victim]
SIM
kind = "crew"
prompt = "[[bash:touch stolen.txt]]"
[agents.attacker]
command = ["bash", "attack.sh"]
kind = "crew"
"#;

/// Tries to answer the victim, to type to it and to start an agent, and writes a status for each to `told`.
const STEER: &str = r#"
try() { curl -s -o /dev/null -w '%{http_code}' --unix-socket "$1" -d "$3" "http://localhost/api/v1/$2"; }
steer() {
    echo "respond $(try s/agents/victim/coop.sock agent/respond '{"accept":true}')"
    echo "keys $(try s/agents/victim/coop.sock input/keys '{"keys":["1"]}')"
    echo "by-daemon $(try s/fleet.sock agents/victim/agent/respond '{"accept":true}')"
    echo "spawn $(try s/fleet.sock agents '{"definition":"[agents.x]\ncommand=[\"touch\",\"spawned\"]\nkind=\"crew\"","agent":"x"}')"
}
"#;

const REFUSED: &str = "respond 403\nkeys 403\nby-daemon 403\nspawn 403\n";

fn waiting_victim() -> Lab {
    let lab = Lab::new(VICTIM_AND_ATTACKER);
    lab.ok(&["spawn", "victim"]);
    lab.until(0, "the victim's ask", |entry| is(entry, "prompt"));
    lab
}

/// Waits for what an attack has written, which is complete once it is in its place.
fn told(lab: &Lab) -> String {
    let path = lab.home.path().join("told");
    lab.wait_until("the attack ends", || path.exists());
    fs::read_to_string(path).expect("it is there")
}

fn assert_nothing_was_done(lab: &Lab) {
    assert!(!lab.home.path().join("stolen.txt").exists(), "the victim was answered");
    assert!(!lab.home.path().join("spawned").exists(), "an agent was started");
    assert_eq!(lab.json(&["asks"])["asks"].as_array().map(Vec::len), Some(1), "the ask is open");
}

/// Sidecars had no token and knew only their own agent, so agents answered each other.
#[test]
fn an_agent_cannot_answer_for_another_agent() {
    let lab = waiting_victim();
    fs::write(lab.home.path().join("attack.sh"), format!("{STEER}steer >t; mv t told; sleep 1000")).expect("written");
    lab.ok(&["spawn", "attacker"]);
    assert_eq!(told(&lab), REFUSED);
    assert_nothing_was_done(&lab);
    lab.ok(&["down", "--kill"]);
}

/// A gate runs below the daemon and not below a sidecar, and counted as a person.
#[test]
fn a_gate_cannot_steer_an_agent() {
    let gated = "[agents.gated]\nSIM\nkind = \"crew\"\nprompt = \"[[text:done]]\"\n\
                 on_idle = { action = \"gate\", run = \"bash attack.sh\" }\n";
    let lab = Lab::new(&format!("{VICTIM_AND_ATTACKER}{gated}"));
    lab.ok(&["spawn", "victim"]);
    lab.until(0, "the victim's ask", |entry| is(entry, "prompt"));
    fs::write(lab.home.path().join("attack.sh"), format!("{STEER}steer >t; mv t told")).expect("written");
    lab.ok(&["spawn", "gated"]);
    assert_eq!(told(&lab), REFUSED);
    assert_nothing_was_done(&lab);
    lab.ok(&["down", "--kill"]);
}

/// What an agent leaves behind when it kills its sidecar had `init` for a parent, and counted as a person.
#[test]
fn an_agent_that_kills_its_sidecar_stays_an_agent() {
    let lab = waiting_victim();
    let attack = format!(
        "{STEER}if [ -z \"$1\" ]; then env -i PATH=\"$PATH\" setsid bash attack.sh $PPID & sleep 1000; fi\n\
         kill -9 $1; while kill -0 $1; do :; done\nsteer >t; mv t told"
    );
    fs::write(lab.home.path().join("attack.sh"), attack).expect("written");
    // It may be gone before it was seen to run.
    lab.run(&["spawn", "attacker"]);
    assert_eq!(told(&lab), REFUSED);
    assert_nothing_was_done(&lab);
    lab.ok(&["down", "--kill"]);
}

/// A user without rights.
const NOBODY: u32 = 65534;

/// Asks as another user, by HTTP/2 if it is gRPC. Returns the status, and what gRPC says.
fn as_nobody(method: &str, url: &str) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code} %header{grpc-status}", "-X", method, "-m", "60"]);
    if url.contains("/coop.") || url.contains("/grpc.") {
        let grpc = ["--http2-prior-knowledge", "-H", "content-type: application/grpc", "-H", "te: trailers"];
        curl.args(grpc).args(["--data-binary", "@/dev/null"]);
    } else if method == "POST" {
        curl.args(["-H", "content-type: application/json", "-d", "{}"]);
    }
    let out = curl.arg(url).uid(NOBODY).gid(NOBODY).output().expect("curl runs");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// Returns every route that a description of an API has, with something in place of its parameters.
fn routes(openapi: &Value) -> Vec<(String, String)> {
    let paths = openapi["paths"].as_object().expect("paths");
    let methods = |(path, item): (&String, &Value)| {
        let parts: Vec<_> = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        let path = parts.join("/");
        let methods: Vec<_> = item.as_object().expect("an item").keys().map(|method| method.to_uppercase()).collect();
        methods.into_iter().map(move |method| (method, path.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(methods).collect()
}

fn rpcs() -> Vec<String> {
    let mut rpcs = vec!["/grpc.health.v1.Health/Check".to_owned()];
    let sidecars = include_str!("../../../../proto/coop/v1/coop.proto");
    let fleets = include_str!("../../../../proto/coop/fleet/v1/fleet.proto");
    for (proto, service) in [(sidecars, "coop.v1.Coop"), (fleets, "coop.fleet.v1.Fleet")] {
        let names = proto.lines().filter_map(|line| line.trim().strip_prefix("rpc ")?.split('(').next());
        rpcs.extend(names.map(|name| format!("/{service}/{}", name.trim())));
    }
    rpcs
}

#[test]
fn another_user_gets_nothing_from_a_port() {
    if !rustix::process::geteuid().is_root() {
        return coop_testkit::skip("only root can run a program as another user");
    }
    let sidecar = Sidecar::start(&["--port", "0", "--", "cat"]);
    let mut lab = Lab::new("");
    lab.kill();
    let lines = lab.up_with(&["--port", "0"]);
    let daemon = lines.iter().find_map(|line| line.strip_prefix("listening http ")).expect("a port").to_owned();
    for (server, document) in [
        (sidecar.line("http").to_owned(), sidecar.ask("GET", "/api/v1/openapi.json", "").1),
        (daemon, lab.ask("GET", "/api/v1/openapi.json", "").1),
    ] {
        let has_token = server != sidecar.line("http");
        let mut tried = 0;
        for (method, path) in routes(&document) {
            // The daemon's login refuses requests without its token itself.
            let status = as_nobody(&method, &format!("{server}{path}"));
            let is_upgrade = path.ends_with("/ws") && has_token && status == "400";
            assert!(matches!(status.as_str(), "401" | "403") || is_upgrade, "{method} {path}: {status}");
            tried += 1;
        }
        for rpc in rpcs() {
            let status = as_nobody("POST", &format!("{server}{rpc}"));
            assert!(matches!(status.as_str(), "200 7" | "200 16"), "{rpc}: {status}");
            tried += 1;
        }
        assert!(tried > 40, "{tried}");
    }
    // The same user needs no token.
    let out = Command::new("curl").args(["-s", &format!("{}/api/v1/screen", sidecar.line("http"))]).output();
    let shown: Value = serde_json::from_slice(&out.expect("curl runs").stdout).expect("JSON");
    assert!(shown["lines"].is_array(), "{shown}");
}
