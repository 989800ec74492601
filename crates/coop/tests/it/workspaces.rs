//! `coop ws`, and the tools of agents in workspaces, with simulated agents.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::tool::{self, COOP, LIMIT};

/// A folder with repositories and a daemon's state in it. All that runs there is ended with it.
pub(crate) struct Lab {
    pub(crate) home: tempfile::TempDir,
    daemon: Child,
    port: u16,
}

impl Lab {
    pub(crate) fn new(options: &[&str]) -> Self {
        // Short, for the paths of sockets.
        let home = tempfile::Builder::new().prefix("coop-w-").tempdir().expect("a folder");
        let daemon = start(home.path(), options);
        let mut lab = Self { home, daemon, port: 0 };
        lab.ready();
        lab
    }

    /// Ends the daemon, without its agents, and starts another.
    pub(crate) fn restart(&mut self) {
        let (code, _, err) = tool::run(&mut command(self.home.path(), &["down"]));
        assert_eq!(code, 0, "{err}");
        tool::wait_for(&mut self.daemon);
        self.daemon = start(self.home.path(), &[]);
        self.ready();
    }

    fn ready(&mut self) {
        let stdout = self.daemon.stdout.take().expect("piped");
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(address) = line.strip_prefix("listening http http://") {
                self.port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
            }
            if line == "ready" {
                return;
            }
        }
        panic!("it did not get ready: {}", self.log())
    }

    /// Makes a repository with a definition of agents in it, and opens it.
    pub(crate) fn repository(&self, name: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::create_dir(&path).expect("made");
        let agent = |name: &str| {
            format!(
                "[agents.{name}]\ndriver = \"claude\"\nisolate = true\nkind = \"crew\"\nenv = {{ COOP_SIM_SCENARIO = \"plain\" }}\n\
                 command = [{COOP:?}, \"sim\", \"claude\"]\n"
            )
        };
        fs::write(path.join("coop.toml"), agent("fixer") + &agent("helper")).expect("written");
        self.open(&path);
        path
    }

    /// Makes a repository of what is in a folder, and opens it.
    pub(crate) fn open(&self, path: &Path) {
        git(path, &["init", "--quiet", "--initial-branch", "main"]);
        git(path, &["add", "."]);
        git(path, &["commit", "--quiet", "-m", "first"]);
        self.json(path, &["ws", "open"]);
    }

    pub(crate) fn run(&self, at: &Path, args: &[&str]) -> (i32, String, String) {
        tool::run(command(self.home.path(), args).current_dir(at))
    }

    pub(crate) fn json(&self, at: &Path, args: &[&str]) -> Value {
        let (code, out, err) = self.run(at, &[args, &["--json"]].concat());
        assert_eq!(code, 0, "{args:?}: {out}{err}{}", self.log());
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{args:?} is not JSON: {out}"))
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// Starts an agent in a workspace and returns its token.
    pub(crate) fn agent(&self, at: &Path, workspace: &str, id: &str) -> String {
        self.json(at, &["ws", "spawn", workspace, "fixer", "--id", id]);
        let (code, _, err) = self.run(at, &["wait", id, "--for", "idle", "--timeout", "55"]);
        assert_eq!(code, 0, "{err}{}", self.log());
        self.token(id)
    }

    pub(crate) fn token(&self, agent: &str) -> String {
        let file = self.home.path().join("s/agents").join(agent).join("tools.json");
        let identity: Value = serde_json::from_slice(&fs::read(file).expect("it has one")).expect("JSON");
        identity["token"].as_str().expect("a token").to_owned()
    }

    fn post(&self, headers: &str, body: &Value) -> (u16, Value) {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let headers =
            format!("content-type: application/json\r\naccept: application/json, text/event-stream\r\n{headers}");
        tool::request(stream, "POST", "/mcp", &body.to_string(), &headers)
    }

    /// Calls a tool; what it answers, or its error.
    pub(crate) fn call(&self, token: &str, name: &str, arguments: Value) -> Result<Value, String> {
        let body = call(name, arguments);
        let (status, answer) = self.post(&format!("authorization: Bearer {token}\r\n"), &body);
        assert_eq!(status, 200, "{answer}");
        unwrapped(&answer)
    }

    /// Follows what is told of workspaces.
    pub(crate) fn follow(&self) -> impl Iterator<Item = (String, Value)> + use<> {
        let mut stream = UnixStream::connect(self.home.path().join("s/fleet.sock")).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        write!(stream, "GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        // From here on nothing is missed.
        lines.find(|line| line.is_empty()).expect("an answer");
        let mut name = None;
        lines.filter_map(move |line| {
            if let Some(event) = line.strip_prefix("event: ") {
                name = Some(event.to_owned());
            }
            let data = line.strip_prefix("data: ")?;
            Some((name.take()?, serde_json::from_str(data).expect("JSON")))
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = tool::run(&mut command(self.home.path(), &["down", "--kill"]));
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn start(home: &Path, options: &[&str]) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(home.join("log")).expect("a log");
    let mut daemon = command(home, &["up", "--port", "0"]);
    daemon.args(options).stdout(Stdio::piped()).stderr(log).spawn().expect("it runs")
}

pub(crate) fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = tool::coop(home);
    command.args(args).env("COOP_STATE", home.join("s")).env("USER", "ann");
    command
}

pub(crate) fn git(at: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").args(identity).args(args).current_dir(at).output().expect("git");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": name, "arguments": arguments } })
}

fn unwrapped(answer: &Value) -> Result<Value, String> {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"));
    let value: Value = serde_json::from_str(text).expect("JSON");
    if answer["result"]["isError"] == true { Err(value["error"]["message"].to_string()) } else { Ok(value) }
}

pub(crate) fn agent_type(told: impl Iterator<Item = (String, Value)>, wanted: &str) -> Value {
    let mut seen = Vec::new();
    for (name, data) in told {
        if name == "workspace:status-changed" && data["agent"]["type"] == wanted {
            return data;
        }
        seen.push(data);
    }
    panic!("{wanted} never came: {seen:?}")
}

#[test]
fn a_workspace_is_made_used_put_to_sleep_woken_and_deleted() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let made = lab.json(&repository, &["ws", "create", "feature/x"]);
    let path = PathBuf::from(made["path"].as_str().expect("a path"));
    assert_eq!((&made["branch"], &made["agent"]), (&json!("feature/x"), &json!({ "type": "none" })));
    let mut told = lab.follow();
    lab.agent(&repository, "feature/x", "a");
    let change = agent_type(&mut told, "idle");
    assert_eq!(change["path"], made["path"]);
    assert_eq!(change["agent"]["counts"], json!({ "idle": 1, "busy": 0, "total": 1 }));
    // From within the workspace its project is known, too.
    lab.json(&path, &["ws", "note", "feature/x", "reviewState", "open"]);
    let shown = lab.json(&path, &["ws", "show", "feature/x"]);
    assert_eq!(shown["metadata"], json!({ "base": "main", "made": "branch", "reviewState": "open" }));
    assert_eq!((&shown["isDirty"], &shown["unmergedCommits"]), (&json!(false), &json!(0)));
    lab.json(&repository, &["ws", "hibernate", "feature/x"]);
    agent_type(&mut told, "none");
    let (code, _, err) = lab.run(&repository, &["ws", "spawn", "feature/x", "fixer"]);
    assert!(code == 1 && err.contains("asleep"), "{err}");
    let woken = lab.json(&repository, &["ws", "wake", "feature/x"]);
    assert_eq!(woken, json!({ "agents": ["a"], "failed": [] }));
    agent_type(&mut told, "idle");
    // What would be lost is not deleted, and its agent goes on.
    fs::write(path.join("new"), "x").expect("written");
    let (code, _, err) = lab.run(&repository, &["ws", "rm", "feature/x"]);
    assert!(code == 1 && err.contains("in no commit") && err.contains("or lose them with --ignore-warnings"), "{err}");
    assert_ne!(lab.json(&repository, &["ls"])["agents"][0]["phase"], "dead");
    fs::remove_file(path.join("new")).expect("removed");
    let deleted = lab.json(&repository, &["ws", "rm", "feature/x"]);
    assert_eq!(deleted, json!({ "wasThere": true, "branchDeleted": true }));
    let done = told.find(|(name, data)| name == "workspace:deletion-progress" && data["steps"][4][1] == "done");
    assert_eq!(done.expect("told").1["path"], made["path"]);
    assert_eq!(lab.json(&repository, &["ls"])["agents"][0]["phase"], "dead");
    assert!(!path.exists() && !lab.home.path().join("s/agents/a/tools.json").exists());
    assert_eq!(lab.json(&repository, &["ws", "rm", "feature/x"])["wasThere"], false);
    lab.json(&repository, &["ws", "close"]);
    assert_eq!(lab.json(&repository, &["ws", "ls"]), json!({ "projects": [] }));
}

/// What the event stream tells of workspaces the WebSocket does too, and only what is new.
#[test]
fn the_status_comes_over_the_websocket_when_it_changes() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let made = lab.json(&repository, &["ws", "create", "w"]);
    let stream = UnixStream::connect(lab.home.path().join("s/fleet.sock")).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let (mut socket, _) =
        tokio_tungstenite::tungstenite::client("ws://localhost/api/v1/ws", stream).expect("it is served");
    let mut told = std::iter::from_fn(|| {
        let message = socket.read().ok()?;
        Some(serde_json::from_str::<Value>(message.to_text().expect("text")).expect("JSON"))
    });
    assert_eq!(told.next().expect("first")["type"], "snapshot");
    lab.agent(&repository, "w", "a");
    lab.json(&repository, &["ws", "rm", "w"]);
    let mut changes: Vec<Value> = Vec::new();
    for message in told.by_ref().filter(|message| message["type"] == "workspace:status-changed") {
        assert_eq!(message["data"]["path"], made["path"]);
        changes.push(message["data"]["agent"].clone());
        if message["data"]["agent"]["type"] == "none" {
            break;
        }
    }
    let counts = json!({ "idle": 1, "busy": 0, "total": 1 });
    assert_eq!(changes, [json!({ "type": "idle", "counts": counts }), json!({ "type": "none" })]);
    let done =
        |message: &Value| message["type"] == "workspace:deletion-progress" && message["data"]["steps"][4][1] == "done";
    assert!(told.any(|message| done(&message)));
}

#[test]
fn a_process_in_a_workspace_keeps_it_until_it_is_ended() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let made = lab.json(&repository, &["ws", "create", "w"]);
    let path = made["path"].as_str().expect("a path");
    let mut squatter = Command::new("sleep").arg("600").current_dir(path).spawn().expect("it runs");
    let (code, _, err) = lab.run(&repository, &["ws", "rm", "w"]);
    assert!(code == 1 && err.contains(&format!("{} (sleep); --kill ends them", squatter.id())), "{err}");
    let deleted = lab.json(&repository, &["ws", "rm", "w", "--kill"]);
    assert_eq!(deleted["wasThere"], true);
    tool::wait_for(&mut squatter);
}

#[test]
fn a_token_is_its_workspaces_and_nobody_elses() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let paths = ["a", "b"].map(|name| lab.json(&repository, &["ws", "create", name])["path"].clone());
    let [a, b] = ["a", "b"].map(|name| lab.agent(&repository, name, name));
    let other = lab.repository("two");
    let far = lab.json(&other, &["ws", "create", "far"])["path"].clone();
    let status = lab.call(&a, "workspace_get_status", json!({})).expect("known");
    let counts = json!({ "idle": 1, "busy": 0, "total": 1 });
    assert_eq!(
        status,
        json!({ "isDirty": false, "unmergedCommits": 0, "agent": { "type": "idle", "counts": counts } })
    );
    // By either name, and only for its own.
    assert_eq!(lab.call(&a, "workspace.setMetadata", json!({ "key": "k", "value": "v" })), Ok(Value::Null));
    assert_eq!(lab.call(&a, "workspace.getMetadata", json!({})).expect("known")["k"], "v");
    assert_eq!(lab.call(&b, "workspace_get_metadata", json!({})).expect("known")["k"], Value::Null);
    let body = call("workspace_get_status", json!({}));
    let status = |headers: &str| lab.post(headers, &body).0;
    let with = |token: &str, more: &str| format!("authorization: Bearer {token}\r\n{more}");
    assert_eq!(status(""), 401);
    assert_eq!(status(&with("wrong", "")), 401);
    let named = |path: &Value| format!("x-workspace-path: {}\r\n", path.as_str().expect("a path"));
    assert_eq!((status(&with(&a, &named(&paths[0]))), status(&with(&a, &named(&paths[1])))), (200, 401));
    assert_eq!(status(&with(&a, "origin: http://evil.example\r\n")), 403);
    // A name that was made to lead here is no name of ours.
    let mut stream = TcpStream::connect(("127.0.0.1", lab.port)).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let head = format!("POST /mcp HTTP/1.1\r\nhost: evil.example\r\n{}content-length: 0\r\n\r\n", with(&a, ""));
    stream.write_all(head.as_bytes()).expect("sent");
    let answer = BufReader::new(stream).lines().next().expect("an answer").expect("text");
    assert!(answer.contains(" 403 "), "{answer}");
    // Another project is out of reach, and so is what only people decide.
    for (tool, arguments) in [
        ("workspace_hibernate", json!({ "workspacePath": far })),
        ("workspace_delete", json!({ "workspacePath": far })),
        ("workspace_create", json!({ "projectPath": other, "name": "x" })),
        ("agent_spawn", json!({ "workspacePath": far })),
        ("workspace_set_metadata", json!({ "key": "base", "value": "HEAD" })),
        ("workspace_execute_command", json!({ "command": "editor.action.format" })),
        ("agent_send", json!({ "agent": "a", "message": "me" })),
    ] {
        assert!(lab.call(&a, tool, arguments).is_err(), "{tool}");
    }
    let projects = lab.call(&a, "project_list", json!({})).expect("known");
    assert_eq!(projects["projects"].as_array().map(Vec::len), Some(1));
    // With its agent its token ends.
    lab.json(&repository, &["kill", "b"]);
    assert_eq!(status(&with(&b, "")), 401);
}

#[test]
fn an_agent_starts_another_waits_for_it_and_reads_its_answer() {
    let lab = Lab::new(&["--spawn-depth", "1"]);
    let repository = lab.repository("one");
    lab.json(&repository, &["ws", "create", "w"]);
    let token = lab.agent(&repository, "w", "boss");
    let made = json!({ "name": "sub", "agent": "helper", "prompt": "say hello" });
    let made = lab.call(&token, "workspace_create", made).expect("made");
    assert_eq!(made["agentId"], "helper");
    let waited = lab.call(&token, "agent_wait", json!({ "agent": "helper", "for": "idle" })).expect("waited");
    assert_eq!((&waited["reached"], &waited["turn"]), (&json!(true), &json!(1)), "{waited}");
    let read = lab.call(&token, "agent_read", json!({ "agent": "helper" })).expect("read");
    let first = read["lastMessage"].as_str().expect("it said something").to_owned();
    lab.call(&token, "agent_send", json!({ "agent": "helper", "message": "and again" })).expect("sent");
    let waited = lab.call(&token, "agent_wait", json!({ "agent": "helper" })).expect("waited");
    assert_eq!((&waited["reached"], &waited["turn"]), (&json!(true), &json!(2)), "after {first:?}: {waited}");
    let screen = lab.call(&token, "agent_read", json!({ "agent": "helper", "what": "screen" })).expect("read");
    assert!(screen["screen"].as_str().is_some_and(|text| text.contains("and again")), "{screen}");
    let listed = lab.call(&token, "agent_list", json!({})).expect("listed");
    let depths: Vec<_> =
        listed["agents"].as_array().expect("a list").iter().map(|agent| agent["depth"].clone()).collect();
    assert_eq!(depths, [json!(0), json!(1)]);
    let deeper = lab.call(&lab.token("helper"), "agent_spawn", json!({})).expect_err("too deep");
    assert!(deeper.contains("no deeper"), "{deeper}");
    let late = lab.call(&token, "agent_wait", json!({ "agent": "helper", "for": "exit", "timeout": 0.05 }));
    assert_eq!(late.expect("waited")["reached"], false);
    // It may delete the other's workspace, and then the other is gone.
    lab.call(&token, "workspace_delete", json!({ "workspacePath": made["path"] })).expect("deleted");
    assert!(!Path::new(made["path"].as_str().expect("a path")).exists());
}

#[test]
fn an_agent_runs_what_its_definition_has_a_name_for_and_nothing_else() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let commands = "[commands]\nshow = [\"sh\", \"-c\", \"pwd; cat; echo; echo $0 $COOP_AUTH_TOKEN\", \"$(id)\"]\n\
                    slow = { run = [\"sleep\", \"600\"], limit = \"50ms\" }\n";
    let definition = fs::read_to_string(repository.join("coop.toml")).expect("there") + commands;
    fs::write(repository.join("more.toml"), definition).expect("written");
    let made = lab.json(&repository, &["ws", "create", "w"]);
    lab.json(&repository, &["ws", "spawn", "w", "fixer", "--id", "a", "--file", "more.toml"]);
    assert_eq!(lab.run(&repository, &["wait", "a", "--for", "idle", "--timeout", "55"]).0, 0, "{}", lab.log());
    let token = lab.token("a");
    let run = |name: &str, args: Value| {
        lab.call(&token, "workspace_execute_command", json!({ "command": name, "args": args }))
    };
    let output = format!("{}\n[\"--x\",{{\"y\":1}}]\n$(id)\n", made["path"].as_str().expect("a path"));
    let expected = json!({ "code": 0, "output": output, "isCut": false });
    assert_eq!(run("show", json!(["--x", { "y": 1 }])), Ok(expected));
    assert!(run("slow", json!([])).is_err_and(|why| why.contains("took longer")));
    let none = run("editor.action.format", json!([])).expect_err("there is none");
    assert!(none.contains("no editor") && none.contains("show, slow"), "{none}");
    // By its other name too.
    assert!(lab.call(&token, "workspace.executeCommand", json!({ "command": "show" })).is_ok());
}

#[test]
fn the_tools_are_there_over_standard_input_and_output_also_after_a_restart() {
    let mut lab = Lab::new(&[]);
    let repository = lab.repository("one");
    lab.json(&repository, &["ws", "create", "w"]);
    lab.agent(&repository, "w", "a");
    let identity = lab.home.path().join("s/agents/a/tools.json");
    let mut server = command(lab.home.path(), &["mcp", "--as", identity.to_str().expect("UTF-8")]);
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut input = server.stdin.take().expect("piped");
    let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let mut ask = |message: &Value| {
        writeln!(input, "{message}").expect("it reads");
        if message["method"] == "initialize" {
            writeln!(input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
                .expect("it reads");
        }
        serde_json::from_str::<Value>(&lines.next().expect("an answer")).expect("JSON")
    };
    let client =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client }));
    assert_eq!(hello["result"]["serverInfo"]["name"], "coop");
    let listed = ask(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {} }));
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(18));
    assert_eq!(unwrapped(&ask(&call("workspace_get_status", json!({})))).expect("known")["isDirty"], false);
    // The daemon begins again, and finds who has which token.
    kill_process(Pid::from_child(&lab.daemon), Signal::KILL).expect("it is ours");
    lab.daemon.wait().expect("it is ours");
    let gone = ask(&call("workspace_get_status", json!({})));
    assert_eq!(gone["result"]["isError"], true, "{gone}");
    let mut again = command(lab.home.path(), &["up"]);
    let mut again = again.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let stdout = BufReader::new(again.stdout.take().expect("piped"));
    assert!(stdout.lines().map_while(Result::ok).any(|line| line == "ready"));
    lab.daemon = again;
    assert_eq!(unwrapped(&ask(&call("workspace_get_metadata", json!({})))).expect("known")["base"], "main");
    drop(input);
    assert_eq!(tool::wait_for(&mut server), 0);
}

#[test]
fn a_hundred_workspaces_leave_nothing() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let before = fs::read_to_string(repository.join(".git/config")).expect("readable");
    std::thread::scope(|scope| {
        for worker in 0..5 {
            let (lab, repository) = (&lab, &repository);
            scope.spawn(move || {
                for number in 0..20 {
                    let name = format!("w/{worker}-{number}");
                    let made = lab.json(repository, &["ws", "create", &name, "--agent", "fixer"]);
                    let agent = made["agentId"].as_str().expect("an agent");
                    let (code, _, err) = lab.run(repository, &["wait", agent, "--for", "idle", "--timeout", "170"]);
                    assert_eq!(code, 0, "{err}{}", lab.log());
                    let deleted = lab.json(repository, &["ws", "rm", &name]);
                    assert_eq!(deleted, json!({ "wasThere": true, "branchDeleted": true }));
                }
            });
        }
    });
    assert_eq!(git(&repository, &["branch", "--format=%(refname:short)"]), "main\n");
    assert_eq!(git(&repository, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(fs::read_to_string(repository.join(".git/config")).expect("readable"), before);
    let state = lab.home.path().join("s");
    let projects = fs::read_dir(state.join("projects")).expect("readable").flatten();
    let left = projects.flat_map(|project| ["workspaces", "trash"].map(|name| project.path().join(name)));
    for folder in left.chain([state.join("agents")]) {
        let entries: Vec<_> = fs::read_dir(&folder).expect("readable").flatten().map(|entry| entry.path()).collect();
        assert_eq!(entries, Vec::<PathBuf>::new());
    }
    // But for the daemon nothing runs there.
    let state = state.canonicalize().expect("it is there");
    let works_there = |process: &fs::DirEntry| {
        fs::read_link(process.path().join("cwd")).is_ok_and(|folder| folder.starts_with(&state))
    };
    let left: Vec<_> = fs::read_dir("/proc").expect("readable").flatten().filter(works_there).collect();
    assert!(left.is_empty(), "{left:?}");
}
