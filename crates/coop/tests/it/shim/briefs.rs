//! What else a brief says: who is asked, which tools there are, how long it may take. And who may steer.

use std::fs;

use serde_json::{Value, json};

use super::world::{Agent, World, with_both};
use super::{approval, brief};

/// A server of tools that leaves a mark when it is started.
const SERVER: &str = r#"echo "$TOOL_KEY" >mark; while read -r line; do
id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case $line in
*'"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}';;
*'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":[{"name":"heliotrope","description":"d","inputSchema":{"type":"object"}}]}}';;
*'"id"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{}}';;
esac; done"#;

/// Returns the command lines of processes that have something in them.
fn command_lines(part: &str) -> Vec<String> {
    let pids = fs::read_dir("/proc").expect("it is there").flatten();
    let line = |pid: fs::DirEntry| {
        Some(String::from_utf8_lossy(&fs::read(pid.path().join("cmdline")).ok()?).replace('\0', " "))
    };
    pids.filter_map(line).filter(|line| line.contains(part)).collect()
}

fn tools_reach_the_agent(world: &World) {
    let shim = world.start();
    let mut events = shim.follow();
    let mut with_tools = brief(&format!("one {}", world.agent.bash("touch a.txt")));
    let mark = world.work.join("mark");
    let server = SERVER.replace(">mark", &format!(">'{}'", mark.display()));
    with_tools["mcpServers"] = json!([{ "name": "demo", "command": "/bin/sh", "args": ["-c", server], "env": { "TOOL_KEY": "s3cret-of-a-tool" } }]);
    with_tools["secretRefs"] = json!([{ "name": "deploy", "vaultKey": "vault/prod/deploy", "scope": "agent" }]);
    shim.done("/spawn", &with_tools);
    let decision = events.decision();
    assert_eq!(command_lines("s3cret-of-a-tool"), Vec::<String>::new(), "everybody can read a command line");
    shim.resolve(&decision["decisionId"], &approval("reject"));
    events.of("completion");
    if world.is_real() || world.agent == Agent::Api {
        assert_eq!(fs::read_to_string(&mark).expect("it was started").trim(), "s3cret-of-a-tool");
    }
    let told = format!("{:?}", events.past);
    for secret in ["s3cret-of-a-tool", "vault/prod/deploy"] {
        assert!(!told.contains(secret), "{told}");
        assert!(world.model.is_none() || !world.prompts().contains(secret));
    }
}

#[test]
fn tools_reach_claude() {
    with_both(Agent::Claude, tools_reach_the_agent);
}

#[test]
fn tools_reach_codex() {
    with_both(Agent::Codex, tools_reach_the_agent);
}

#[test]
fn tools_reach_opencode() {
    with_both(Agent::OpenCode, tools_reach_the_agent);
}

#[test]
fn tools_reach_gemini() {
    with_both(Agent::Gemini, tools_reach_the_agent);
}

#[test]
fn tools_reach_acp() {
    with_both(Agent::Acp, tools_reach_the_agent);
}

#[test]
fn tools_reach_api() {
    with_both(Agent::Api, tools_reach_the_agent);
}

#[test]
fn what_cannot_be_kept_is_refused_and_nothing_is_spawned() {
    with_both(Agent::Acp, |world| {
        let shim = world.start();
        let refused = [
            ("workspaceRequirements", json!({ "mounts": [], "capabilities": ["gpu"] })),
            (
                "guardrailPolicy",
                json!({ "inputGuardrails": [{ "name": "g", "description": "d", "action": "warn" }],
                                        "outputGuardrails": [], "toolGuardrails": [] }),
            ),
            ("delegationPolicy", json!({ "canSpawnSubagents": false, "allowedHandoffs": [], "maxDepth": 0 })),
            ("mcpServers", json!([{ "name": "a", "transport": "ws", "url": "ws://h" }])),
        ];
        for (key, value) in refused {
            let mut brief = brief("x");
            brief[key] = value;
            let (status, answer) = shim.post("/spawn", &brief);
            assert_eq!((status, &answer["detail"][0]["loc"][1]), (422, &json!(key)), "{answer}");
        }
        assert_eq!(shim.post("/pause", &Value::Null).0, 404);
    });
}

/// Looking needs no leave, neither by the brief nor by the agent.
fn what_is_always_asked(world: &World) {
    let shim = world.start();
    let mut events = shim.follow();
    let mut always = brief("one [[bash:ls]] [[text:Done.]]");
    always["controlMode"] = json!("ecosystem");
    shim.done("/spawn", &always);
    assert_eq!(events.of_any(&["decision", "completion"])["type"], "completion", "it is not asked about otherwise");
    always["escalationProtocol"]["alwaysEscalate"] = json!(["Bash"]);
    always["description"] = json!("two [[bash:ls]] [[text:Done.]]");
    shim.done("/spawn", &always);
    let decision = events.decision();
    assert_eq!(
        (&decision["toolName"], &decision["toolArgs"]["command"]),
        (&json!("Bash"), &json!("ls")),
        "{decision:#}"
    );
    shim.resolve(&decision["decisionId"], &approval("approve"));
    assert_eq!(events.of("completion")["outcome"], "success");
}

/// What each agent asks about only because it was told to, by the name that a backend has for it.
fn what_changes_is_asked(world: &World) {
    let shim = world.start();
    let mut events = shim.follow();
    let task = match world.agent {
        Agent::Codex => r#"one [[tool exec_command {"cmd":"touch a.txt"}]] [[text:Done.]]"#.to_owned(),
        agent => format!("one {} [[text:Done.]]", agent.bash("touch a.txt")),
    };
    let mut always = brief(&task);
    always["controlMode"] = json!("ecosystem");
    always["escalationProtocol"]["alwaysEscalate"] = json!(["Bash"]);
    shim.done("/spawn", &always);
    let decision = events.decision();
    assert!(!world.has("a.txt"), "it was done before anybody was asked");
    shim.resolve(&decision["decisionId"], &approval("approve"));
    assert_eq!(events.of("completion")["outcome"], "success");
    assert!(world.has("a.txt"), "what was approved was not done: {:#?}", events.told());
}

#[test]
fn codex_asks_what_it_would_not() {
    with_both(Agent::Codex, what_changes_is_asked);
}

#[test]
fn opencode_asks_by_the_name_that_a_backend_has() {
    with_both(Agent::OpenCode, what_changes_is_asked);
}

#[test]
fn gemini_asks_by_the_name_that_a_backend_has() {
    with_both(Agent::Gemini, what_changes_is_asked);
}

#[test]
fn claude_asks_what_it_would_not() {
    with_both(Agent::Claude, what_is_always_asked);
}

#[test]
fn turns_are_counted() {
    with_both(Agent::Claude, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        let mut short = brief("x [[bash:touch a.txt]] [[bash:touch b.txt]] [[text:Done.]]");
        short["sessionPolicy"] = json!({ "maxTurns": 1, "historyPolicy": "full" });
        shim.done("/spawn", &short);
        let decision = events.decision();
        let home = world.work.parent().and_then(|home| home.to_str()).expect("UTF-8").to_owned();
        let lines = command_lines(&home);
        assert!(lines.iter().any(|line| line.contains("--max-turns 1")), "{lines:#?}");
        shim.resolve(&decision["decisionId"], &approval("approve"));
        if world.is_real() {
            assert_eq!(events.of("completion")["outcome"], "max_turns", "{:#?}", events.told());
            assert!(!world.has("b.txt"), "it went on");
        }
    });
}

#[test]
fn what_is_used_of_the_machine_is_told() {
    with_both(Agent::Claude, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        let used = || shim.health()["resourceUsage"].clone();
        assert_eq!(used()["memoryMb"], 0.0, "there is no agent");
        // A shell that is busy until it is told to stop.
        shim.done("/spawn", &brief("x [[bash:while test ! -e stop; do :; done]]"));
        let decision = events.decision();
        assert!(used()["memoryMb"].as_f64() > Some(1.0), "{}", used());
        shim.resolve(&decision["decisionId"], &approval("approve"));
        let until = |what: &str, is_so: &dyn Fn(&Value) -> bool| {
            let began = std::time::Instant::now();
            while !is_so(&used()) {
                assert!(began.elapsed() < crate::tool::LIMIT, "{what}: {}", used());
                crate::tool::pause();
            }
        };
        until("it is busy", &|used| used["cpuPercent"].as_f64() >= Some(1.0));
        fs::write(world.work.join("stop"), "").expect("written");
        events.of("completion");
        shim.done("/kill", &json!({ "grace": false }));
        // What it had started may still be on its way out.
        until("it is gone", &|used| used["memoryMb"] == 0.0);
    });
}

#[test]
fn what_the_agent_runs_may_look_and_not_steer() {
    with_both(Agent::Claude, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        let url = format!("http://127.0.0.1:{}", shim.port);
        let code =
            |method: &str, path: &str| format!("curl -s -o /dev/null -w '%{{http_code}} ' -X {method} {url}{path}");
        let paths =
            ["/spawn", "/kill", "/pause", "/resume", "/resolve", "/checkpoint", "/inject-context", "/update-brief"];
        let posts = paths.map(|path| code("POST", path)).join("; ");
        // Also one that has left its parents behind.
        let away = format!("setsid sh -c \"{}; touch away\" >>codes &", code("POST", "/kill"));
        let wait = "while test ! -e away; do sleep 0.05; done";
        let script = format!("({posts}; {}) >codes; {away} {wait}", code("GET", "/health"));
        fs::write(world.work.join("steer.sh"), script).expect("written");
        shim.done("/spawn", &brief("x [[bash:sh steer.sh]] [[text:Done.]]"));
        let decision = events.decision();
        shim.resolve(&decision["decisionId"], &approval("approve"));
        assert_eq!(events.of("completion")["outcome"], "success", "it was steered");
        let codes = fs::read_to_string(world.work.join("codes")).expect("written");
        // A sandbox hides the other agents, so what runs there does not look by a port either.
        let looks = if crate::tool::agents_are_sandboxed() { "403" } else { "200" };
        let expected = [vec!["403"; paths.len()], vec![looks, "403"]].concat();
        assert_eq!(codes.split_whitespace().collect::<Vec<_>>(), expected);
    });
}

#[test]
fn a_sub_agent_begins_and_returns() {
    with_both(Agent::Claude, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        let mut free = brief("x [[agent:look around [[bash:ls]] [[text:Looked.]]]] [[text:Done.]]");
        free["controlMode"] = json!("ecosystem");
        shim.done("/spawn", &free);
        let spawned = events.of("delegation");
        assert_eq!((&spawned["action"], &spawned["rootAgentId"]), (&json!("spawned"), &json!("a1")), "{spawned:#}");
        let returned = events.of("delegation");
        assert_eq!((&returned["action"], &returned["childAgentId"]), (&json!("returned"), &spawned["childAgentId"]));
        assert_eq!(events.of("completion")["outcome"], "success");
    });
}
