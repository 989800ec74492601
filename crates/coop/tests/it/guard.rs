//! An agent cannot steer itself, whatever it runs and however that is detached.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

use rustix::fs::Mode;
use serde_json::{Value, json};

use crate::driven::{Agent, Runtime, Which};
use crate::tool::{LIMIT, request};

/// What the agent's shell runs: it waits for an ask, tries to answer it in every way there is, and says how that went.
/// A line each: the way, then the status, or what gRPC says.
const ATTACK: &str = r#"
api=http://localhost/api/v1
ask() { curl -s -o answer.json -w '%{http_code}' -d "$3" "$1" $2; }
until curl -s --unix-socket "$COOP_SOCKET" $api/agent/asks | grep -q '"touch stolen'; do :; done
yes='{"accept":true}'
unix="--unix-socket $COOP_SOCKET"
rpc() {
    printf '\0\0\0\0\2\10\1' | curl -s -D - -o /dev/null --http2-prior-knowledge -H 'content-type: application/grpc' \
        -H 'te: trailers' --data-binary @- "$1/coop.v1.Coop/Respond" $2 | tr -d '\r' | sed -n 's/^grpc-status: //p'
}
{
    echo "unix $(ask $api/agent/respond "$unix" "$yes") $(cat answer.json)"
    echo "tcp $(ask $TCP/api/v1/agent/respond '' "$yes") $(cat answer.json)"
    echo "keys $(ask $api/input/keys "$unix" '{"keys":["1"]}')"
    echo "input-tcp $(ask $TCP/api/v1/input '' '{"text":"1"}')"
    echo "shutdown $(ask $api/shutdown "$unix" '')"
    echo "grpc-unix $(rpc http://localhost "$unix")"
    echo "grpc-tcp $(rpc $TCP '')"
    echo "look $(curl -s -o /dev/null -w '%{http_code}' $unix $api/agent/asks)"
    echo "look-tcp $(curl -s -o /dev/null -w '%{http_code}' $TCP/api/v1/screen)"
    echo "end"
} >told
"#;

/// Ends at once, and leaves the attack behind, which begins when it has another parent.
const DETACH: &str = r#"
sh -c 'until [ "$(cut -d " " -f 4 /proc/$$/stat)" != '$$' ]; do :; done; exec sh attack.sh' &
"#;

/// Starts an agent that may run the attack, and has another ask open then. Returns what the attack says.
fn attack(detach: &str) -> (Agent, Value, Vec<String>) {
    let mut agent = Agent::start(&Which::Scripted, Runtime::Pty, &["--port", "0"], &[]);
    agent.state("idle");
    let told = agent.work.join("told");
    rustix::fs::mkfifoat(rustix::fs::CWD, &told, Mode::from_raw_mode(0o600)).expect("a pipe");
    fs::write(agent.work.join("attack.sh"), ATTACK).expect("written");
    fs::write(agent.work.join("detach.sh"), DETACH).expect("written");
    let tcp = agent.sidecar.line("http").to_owned();
    agent.nudge(&format!("go [[bash:TCP={tcp} {detach} >/dev/null 2>&1 &]] [[bash:touch stolen.txt]]"));
    agent.asked("permission");
    agent.respond(&json!({ "accept": true }));
    let ask = loop {
        let ask = agent.asked("permission");
        if ask["preview"] == "touch stolen.txt" {
            break ask;
        }
    };
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let pipe = fs::File::open(told).expect("it is there");
        BufReader::new(pipe).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    let mut said = Vec::new();
    while said.last().is_none_or(|line| line != "end") {
        said.push(lines.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("the attack did not end: {said:?}")));
    }
    (agent, ask, said)
}

fn is_refused(detach: &str) {
    let (mut agent, ask, said) = attack(detach);
    let why = "what the agent itself runs may look but not steer; ask from outside of it";
    let refused = json!({ "error": { "code": "FORBIDDEN", "message": why } });
    assert_eq!(
        said,
        [
            format!("unix 403 {refused}"),
            format!("tcp 403 {refused}"),
            "keys 403".to_owned(),
            "input-tcp 403".to_owned(),
            "shutdown 403".to_owned(),
            // PERMISSION_DENIED
            "grpc-unix 7".to_owned(),
            "grpc-tcp 7".to_owned(),
            "look 200".to_owned(),
            "look-tcp 200".to_owned(),
            "end".to_owned(),
        ]
    );
    assert_eq!(agent.get("/api/v1/agent/asks")["asks"][0]["id"], ask["id"], "the ask is no longer open");
    assert!(!agent.has("stolen.txt"));
    // From outside it works, also over TCP.
    let stream = TcpStream::connect(agent.sidecar.line("http").trim_start_matches("http://")).expect("it listens");
    let (status, answered) = request(stream, "POST", "/api/v1/agent/respond", r#"{"accept":true}"#, "");
    assert_eq!((status, &answered["delivered"]), (200, &json!(true)), "{answered}");
    agent.state("idle");
    assert!(agent.has("stolen.txt"));
}

#[test]
fn what_an_agent_runs_cannot_answer_for_its_user() {
    is_refused("sh attack.sh");
}

/// The one that asks is in a session of its own and has lost its parents: it is nobody's child but the sidecar's.
#[test]
fn what_has_detached_itself_from_the_agent_cannot_either() {
    is_refused("setsid sh detach.sh");
}
