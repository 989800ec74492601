//! `coop run` with a model on loopback: in a terminal, in a script, and as the agent of a sidecar.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::driven::{Agent, Model};
use crate::tool::{COOP, LIMIT, Sidecar, coop, run, wait_for};

pub(crate) const KEY: &str = "sk-dummy-key-that-nobody-may-see";

/// A folder to work in, something outside of it, and a model.
pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) model: Model,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("coop-run-").tempdir().expect("a folder");
        for name in ["home", "work", "outside"] {
            fs::create_dir(folder.path().join(name)).expect("made");
        }
        let model = Model::start(folder.path());
        Self { folder, model }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there").join(name)
    }

    /// `coop run` without a terminal.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = coop(&self.path("home"));
        command.arg("run").args(args).current_dir(self.path("work")).env("COOP_MODEL", "claude-opus-4-8");
        command.env("COOP_API_KEY", KEY).env("COOP_BASE_URL", &self.model.url);
        command
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let (code, out, err) = run(&mut self.command(args));
        assert!(!out.contains(KEY) && !err.contains(KEY), "the key was shown:\n{out}\n{err}");
        (code, out, err)
    }

    /// `coop run` in a terminal.
    fn in_terminal(&self, args: &[&str]) -> Sidecar {
        let url = ["--base-url", &self.model.url];
        let all = [&["--log-level", "warn", "--linger", "60", "--", COOP, "run"][..], &url, args].concat();
        Sidecar::with(&all, |command| command.env("ANTHROPIC_API_KEY", KEY).current_dir(self.path("work")))
    }

    /// coop's own agent in a sidecar.
    fn agent(&self, args: &[&str]) -> Agent {
        self.agent_with(&[], args)
    }

    /// The same, with options for the sidecar.
    fn agent_with(&self, options: &[&str], args: &[&str]) -> Agent {
        let all = [&["--agent", "api", "--log-level", "warn"][..], options, &["--"], args].concat();
        let sidecar = Sidecar::with(&all, |command| {
            command.env("COOP_API_KEY", KEY).env("COOP_BASE_URL", &self.model.url).current_dir(self.path("work"));
            command.env("XDG_STATE_HOME", self.path("home"))
        });
        Agent::of(sidecar, self.path("work"), None)
    }
}

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

#[test]
fn a_file_is_edited_after_a_yes_and_not_after_a_no() {
    for (key, expected) in [("n\r", "one\n"), ("\r", "one\n"), ("y\r", "two\n")] {
        let world = World::new();
        fs::write(world.path("work/notes.txt"), "one\n").expect("written");
        let terminal = world.in_terminal(&["change it [[edit:notes.txt|one|two]] [[text:That is all.]]"]);
        let asked = terminal.see("Allow it?");
        assert!(asked.contains("edit notes.txt") && asked.contains("- one") && asked.contains("+ two"), "{asked}");
        assert_eq!(fs::read_to_string(world.path("work/notes.txt")).expect("it is there"), "one\n", "not yet");
        terminal.ask("POST", "/api/v1/input", &json!({ "text": key }).to_string());
        let screen = terminal.see("completed");
        assert!(screen.contains("That is all.") && screen.contains("tokens in"), "{screen}");
        assert_eq!(fs::read_to_string(world.path("work/notes.txt")).expect("it is there"), expected, "{key:?}");
    }
}

#[test]
fn always_is_until_the_end_of_the_run() {
    let world = World::new();
    let terminal = world.in_terminal(&["[[write:a.txt|1]] [[write:b.txt|2]] [[text:Both.]]"]);
    terminal.see("Allow it?");
    terminal.ask("POST", "/api/v1/input", &json!({ "text": "a\r" }).to_string());
    let screen = terminal.see("completed");
    assert_eq!(screen.matches("Allow it?").count(), 1, "{screen}");
    assert!(world.path("work/a.txt").exists() && world.path("work/b.txt").exists());
}

/// What was typed while the model was at work is no answer to a question that came later.
#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let (world, terminal) = loop {
        let world = World::new();
        let terminal = world.in_terminal(&["[[slow:3]] [[write:a.txt|1]] [[text:Done.]]"]);
        terminal.see("tick");
        terminal.ask("POST", "/api/v1/input", &json!({ "text": "y\r" }).to_string());
        // A slow machine may be late with it.
        if !terminal.screen().contains("Allow it?") {
            break (world, terminal);
        }
    };
    terminal.see("Allow it?");
    terminal.ask("POST", "/api/v1/input", &json!({ "text": "n\r" }).to_string());
    terminal.see("completed");
    assert!(!world.path("work/a.txt").exists(), "an early key allowed it");
}

#[test]
fn without_a_terminal_only_what_is_allowed_is_done() {
    let world = World::new();
    let prompt = "[[write:made.txt|yes]] [[text:Done.]]";
    let (code, out, err) = world.run(&[prompt]);
    assert_eq!((code, out.as_str()), (0, "Done.\n"));
    assert!(err.contains("not allowed: write made.txt: nobody is here to ask; --allow write allows it"), "{err}");
    assert!(!world.path("work/made.txt").exists(), "it was not allowed");

    let (code, out, err) = world.run(&["--allow", "write", prompt]);
    assert_eq!((code, out.as_str()), (0, "Done.\n"));
    assert!(err.contains("● write made.txt") && err.contains("completed · 2 turns, 1 tool ·"), "{err}");
    assert_eq!(fs::read_to_string(world.path("work/made.txt")).expect("it is there"), "yes");
}

#[test]
fn nothing_leads_out_of_the_folder() {
    let world = World::new();
    fs::write(world.path("outside/secret.txt"), "hush").expect("written");
    symlink(world.path("outside"), world.path("work/link")).expect("made");
    symlink(world.path("outside/secret.txt"), world.path("work/file")).expect("made");
    let outside = world.path("outside/made.txt");
    let prompt = format!(
        "[[write:link/made.txt|x]] [[write:../outside/made.txt|x]] [[write:{}|x]] [[read:file]] [[text:Done.]]",
        outside.display()
    );
    let (code, out, err) = world.run(&["--allow", "write", "--json", &prompt]);
    assert_eq!(code, 0, "{err}");
    let ended: Vec<_> = lines(&out).into_iter().filter(|line| line["type"] == "tool_end").collect();
    assert_eq!(ended.len(), 4);
    assert!(ended.iter().all(|line| line["is_error"] == true), "{ended:#?}");
    assert!(!outside.exists() && !out.contains("hush"), "{out}");
}

#[test]
fn each_step_is_a_line_of_json() {
    let world = World::new();
    fs::write(world.path("work/notes.txt"), "the fox").expect("written");
    let (code, out, _) = world.run(&["--json", "[[read:notes.txt]] [[err:529x1]] [[text:A fox.]]"]);
    let lines = lines(&out);
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["call", "reply", "tool_start", "tool_end", "call", "retry", "reply", "end"]);
    assert!(lines[3]["output"].as_str().is_some_and(|text| text.contains("the fox")), "{}", lines[3]);
    let end = lines.last().expect("an end");
    assert_eq!((code, &end["exit"], &end["text"]), (0, &json!("completed"), &json!("A fox.")));
    assert_eq!((&end["turns"], &end["usage"]["output"]), (&json!(2), &json!(84)), "{end}");
    assert!(end["cost_usd"].as_f64().is_some_and(|cost| cost > 0.02), "{end}");
}

/// Every run of the world's looks for the key in what is printed.
#[test]
fn commands_do_not_inherit_the_key() {
    let world = World::new();
    let (code, out, err) = world.run(&["--allow", "shell", "--json", "[[bash:env]] [[text:Done.]]"]);
    assert!(code == 0 && out.contains("PATH="), "{out}\n{err}");
}

/// A user without rights, so that nothing is readable only because the tests run as root.
const NOBODY: u32 = 65534;

#[test]
fn the_key_cannot_be_read_off_the_agent() {
    let world = World::new();
    fs::set_permissions(world.folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let prompt = "[[bash:tr '\\0' '\\n' </proc/$PPID/environ; tr '\\0' ' ' </proc/$PPID/cmdline]] [[text:Done.]]";
    let mut command = world.command(&["--allow", "shell", "--json", prompt]);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let (code, out, err) = run(&mut command);
    // That the command line is there shows that it was the right process.
    assert!(code == 0 && out.contains("Permission denied") && out.contains("--allow shell"), "{out}\n{err}");
    assert!(!out.contains(KEY), "{out}");
}

#[test]
fn what_it_runs_cannot_steer_it() {
    let world = World::new();
    let mut agent = world.agent(&["--allow", "shell"]);
    agent.state("idle");
    let shut_down = "curl -s -w ' %{http_code}' --unix-socket \"$COOP_SOCKET\" -d '' http://localhost/api/v1/shutdown";
    agent.nudge(&format!("[[bash:{shut_down}]] [[text:I tried.]]"));
    let done = agent.event("the command", |body| body["kind"] == "tool" && body["phase"] == "completed");
    let said = done["output"].as_str().expect("a text");
    assert!(said.contains("FORBIDDEN") && said.contains(" 403"), "{said}");
    agent.state("idle");
}

#[test]
fn another_provider_does_the_same() {
    let world = World::new();
    let args = ["--provider", "openai", "--model", "house-model", "--allow", "write", "--json"];
    let (code, out, err) = world.run(&[&args[..], &["[[write:made.txt|yes]] [[text:Done.]]"]].concat());
    assert_eq!(code, 0, "{err}");
    assert_eq!(lines(&out).last().map(|end| end["cost_usd"].clone()), Some(Value::Null), "its price is not known");
    assert!(err.contains("price not known"), "{err}");
    assert_eq!(fs::read_to_string(world.path("work/made.txt")).expect("it is there"), "yes");
}

#[test]
fn the_exit_code_says_how_it_ended() {
    let world = World::new();
    let again = "[[read:a]] [[read:b]] [[read:c]]";
    // What one call takes costs 1.1 cents with this model.
    let cases: &[(&[&str], i32, &str)] = &[
        (&["[[err:401]]"], 1, "(401)"),
        (&["--max-turns", "2", again], 3, "max_turns · 2 turns"),
        (&["--max-cost", "0.03", again], 3, "stopped by --max-cost"),
        (&["--max-total-tokens", "15000", again], 3, "max_total_tokens · 2 turns"),
        (&["--max-time", "0.2", "[[hang]]"], 3, "max_time"),
        (&["--model", "stranger", "--max-cost", "1", "hi"], 1, "needs the model's price"),
        (&["--allow", "shel", "hi"], 2, "there is no such tool; there are read"),
        (&[" "], 2, "there is nothing to do"),
        (&["--tools", "shel", "hi"], 2, "--tools"),
        (&["--model", "", "hi"], 2, "--model"),
        (&["--allow", "write, edit", "hi"], 0, "completed"),
        (&["--tools", "none,read", "hi"], 2, "none"),
        (&["[[err:429x1:retry=3600]]"], 1, "it asks to wait 3600 s"),
        (&["--base-url", "ftp://h.example", "hi"], 1, "`base_url`"),
        (&["--max-cost", "many", "hi"], 2, "--max-cost"),
        (&[], 2, "<PROMPT>"),
    ];
    for (args, expected, words) in cases {
        let (code, _, err) = world.run(args);
        assert_eq!(code, *expected, "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
}

#[test]
fn a_signal_ends_the_run_with_all_it_started() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let world = World::new();
        let fifo = world.path("work/fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("it runs").success());
        let mut command = world.command(&["--allow", "shell", "[[bash:echo $$ >fifo; exec sleep 987]]"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
        let shell: u32 = read_within_limit(&fifo).trim().parse().expect("a number");
        kill_process(Pid::from_child(&child), signal).expect("it lives");
        assert_eq!(wait_for(&mut child), code);
        let errors = std::io::read_to_string(child.stderr.take().expect("it is piped")).expect("text");
        assert!(errors.contains("cancelled · 1 turn,"), "{errors}");
        assert_gone(shell);
    }
}

fn assert_gone(pid: u32) {
    let deadline = Instant::now() + LIMIT;
    let is_there = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Whoever adopted it may not have reaped it yet.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    while is_there() {
        assert!(Instant::now() < deadline, "{pid} is left");
        crate::tool::pause();
    }
}

/// Reads a FIFO once, for as long as a test may take.
fn read_within_limit(fifo: &Path) -> String {
    let (told, read) = mpsc::channel();
    let path = fifo.to_owned();
    thread::spawn(move || told.send(fs::read_to_string(path)));
    read.recv_timeout(LIMIT).expect("somebody writes in time").expect("it is written")
}

/// A person who presses Ctrl-C twice does not want to wait: neither for a tool nor for whoever does not read.
#[test]
fn a_second_signal_waits_for_nobody() {
    let world = World::new();
    let much = "x".repeat(200_000);
    fs::write(world.path("work/much.txt"), &much).expect("written");
    // Nobody reads its output, so it stands still in the middle of a line: one read is no more than a pipe holds.
    let reads = "[[read:much.txt]] ".repeat(5);
    let mut command = world.command(&["--json", &format!("{reads}[[text:Done.]]")]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let mut out = child.stdout.take().expect("it is piped");
    std::io::Read::read_exact(&mut out, &mut [0; 10_000]).expect("it begins");
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status;
        }
        assert!(Instant::now() < deadline, "it does not end");
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        crate::tool::pause();
    };
    assert_eq!(status.code(), Some(130));
}

/// Who reads the first line and goes does not want the rest, and it costs money.
#[test]
fn when_nobody_reads_it_stops_and_says_what_it_took() {
    let world = World::new();
    let mut command =
        world.command(&["--json", "--allow", "shell", "[[bash:echo one]] [[bash:echo >two]] [[text:Done.]]"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    drop(child.stdout.take());
    assert_eq!(wait_for(&mut child), 1);
    let errors = std::io::read_to_string(child.stderr.take().expect("it is piped")).expect("text");
    assert!(errors.contains("standard output cannot be written to") && errors.contains("tokens in"), "{errors}");
    assert!(!world.path("work/two").exists(), "it went on");

    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let (code, _, errors) = {
        let mut command = world.command(&["[[text:Done.]]"]);
        let mut child = command.stdout(full).stderr(Stdio::piped()).spawn().expect("it runs");
        let code = wait_for(&mut child);
        (code, (), std::io::read_to_string(child.stderr.take().expect("it is piped")).expect("text"))
    };
    assert!(code == 1 && errors.contains("tokens in"), "{errors}");
}

#[test]
fn the_time_for_everything_is_also_for_mcp_servers() {
    let world = World::new();
    let config = world.path("mcp.json").display().to_string();
    let server = json!({ "command": "sleep", "args": ["99"] });
    fs::write(&config, json!({ "mcpServers": { "s": server } }).to_string()).expect("written");
    let (code, _, err) = world.run(&["--max-time", "1", "--mcp-config", &config, "hi"]);
    assert!(code == 3 && err.contains("--max-time"), "{code} {err}");
    fs::write(&config, r#"{"servers": {}}"#).expect("written");
    let (code, _, err) = world.run(&["--mcp-config", &config, "hi"]);
    assert!(code == 1 && err.contains("it has no object \"mcpServers\""), "{err}");
}

/// Its own settings are in its own folder, and a model that reads them is not to tell.
#[test]
fn a_key_that_is_read_from_a_file_is_not_told() {
    let world = World::new();
    fs::write(world.path("work/config.toml"), format!("api_key = \"{KEY}\"\n")).expect("written");
    let (code, out, _) = world.run(&["--json", "[[read:config.toml]] [[text:Done.]]"]);
    assert!(code == 0 && out.contains("api_key = "), "{out}");
    assert!(!world.model.asked().iter().any(|call| call.to_string().contains(KEY)));
}

#[test]
fn tools_of_mcp_servers_are_added_and_asked_about() {
    let world = World::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../coop-llm/tests/data/mcp-server.sh");
    let config = json!({ "mcpServers": { "s": { "command": "sh", "args": [script] } } });
    fs::write(world.path("mcp.json"), config.to_string()).expect("written");
    let config = world.path("mcp.json").display().to_string();
    let fifo = world.path("work/alive");
    let prompt = r#"[[tool mcp__s__echo {"text":"hello"}]] [[text:Done.]]"#;
    for (allow, is_error) in [("read", true), ("mcp__s__echo", false)] {
        let (code, out, err) = world.run(&["--mcp-config", &config, "--allow", allow, "--json", prompt]);
        assert_eq!(code, 0, "{err}");
        let ended = lines(&out).into_iter().find(|line| line["type"] == "tool_end").expect("it was called");
        assert_eq!(ended["is_error"], is_error, "{ended}");
        assert_eq!(ended["output"].as_str().is_some_and(|said| said.contains("hello")), !is_error, "{ended}");
        fs::remove_file(&fifo).expect("the server made it");
    }
    fs::write(world.path("mcp.json"), r#"{"mcpServers": {"s": {"url": 1, "headers": "Bearer sk-x"}}}"#)
        .expect("written");
    let (code, _, err) = world.run(&["--mcp-config", &config, "hi"]);
    assert!(code == 1 && err.contains("cannot be used") && !err.contains("sk-x"), "{err}");
}

#[test]
fn settings_come_from_files_and_a_project_cannot_send_the_key_elsewhere() {
    let world = World::new();
    let user = world.path("home").join(".config/coop");
    fs::create_dir_all(&user).expect("made");
    let settings =
        format!("[agent]\nmodel = \"claude-haiku-4\"\nbase_url = \"{}\"\napi_key_file = \"key\"\n", world.model.url);
    fs::write(user.join("config.toml"), settings + "[run]\nmax_turns = 1\n").expect("written");
    fs::write(user.join("key"), KEY).expect("written");
    let plain = |args: &[&str]| {
        let mut command = coop(&world.path("home"));
        run(command.arg("run").args(args).current_dir(world.path("work")))
    };
    let (code, out, err) = plain(&["[[text:It works.]]"]);
    assert_eq!((code, out.as_str()), (0, "It works.\n"), "{err}");
    assert_eq!(plain(&["[[read:a]] [[read:b]]"]).0, 3, "the user's limit");

    fs::create_dir(world.path("work/.coop")).expect("made");
    fs::write(world.path("work/.coop/config.toml"), "[agent]\nbase_url = \"http://127.0.0.1:9\"\n").expect("written");
    let (code, _, err) = plain(&["hi"]);
    assert!(code == 1 && err.contains("agent.base_url, which is not for a project to say"), "{err}");
}

#[test]
fn a_key_is_asked_for_by_its_names() {
    let world = World::new();
    let (code, _, err) = run(coop(&world.path("home")).args(["run", "hi"]).current_dir(world.path("work")));
    assert_eq!(code, 1);
    assert!(
        err.contains("there is no API key; set COOP_API_KEY or COBBLER_AGENT_API_KEY or ANTHROPIC_API_KEY"),
        "{err}"
    );
}

#[test]
fn the_prompt_may_come_from_standard_input() {
    let world = World::new();
    let mut child = world.command(&["-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut input = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut input, b"[[text:From a pipe.]]").expect("it reads");
    drop(input);
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("it answers");
    assert_eq!((wait_for(&mut child), line.as_str()), (0, "From a pipe.\n"));
}

#[test]
fn in_a_sidecar_it_is_an_agent_like_any_other() {
    let world = World::new();
    let mut agent = world.agent(&["--model", "claude-opus-4-8", "--allow", "shell"]);
    assert!(agent.sidecar.lines.contains(&"agent api".to_owned()), "{:?}", agent.sidecar.lines);
    agent.state("idle");
    let about = agent.get("/api/v1/agent");
    assert_eq!((&about["agent"], &about["runtime"]), (&json!("api"), &json!("inproc")), "{about}");

    let happened = agent.turn("[[write:made.txt|yes]] [[text:It is written.]]", &[json!({ "accept": true })]);
    let of = |kind: &str| happened.iter().filter(|body| body["kind"] == kind).cloned().collect::<Vec<_>>();
    assert_eq!(fs::read_to_string(world.path("work/made.txt")).expect("it is there"), "yes");
    assert_eq!(of("artifact")[0]["path"], world.path("work/made.txt").display().to_string());
    let phases: Vec<_> = of("tool").iter().map(|body| body["phase"].as_str().expect("a phase").to_owned()).collect();
    assert_eq!(phases, ["requested", "completed"]);
    let said: Vec<_> = of("message").iter().map(|body| body["text"].as_str().expect("a text").to_owned()).collect();
    assert_eq!(said.last().map(String::as_str), Some("It is written."));
    let usage = agent.get("/api/v1/session/usage");
    assert_eq!(usage["turn"]["output_tokens"], 84, "{usage}");
    assert!(usage["turn"]["cost_usd"].as_f64().is_some_and(|cost| cost > 0.02), "{usage}");

    let happened = agent.turn("[[write:denied.txt|no]] [[text:Well.]]", &[json!({ "accept": false })]);
    assert!(!world.path("work/denied.txt").exists(), "what was denied was done");
    assert!(happened.iter().any(|body| body["kind"] == "tool" && body["phase"] == "failed"), "{happened:#?}");

    // A call that is made again is told, and the agent is at work meanwhile.
    let happened = agent.turn("[[err:529x1]] [[text:At last.]]", &[]);
    let fault = happened.iter().find(|body| body["kind"] == "fault").expect("it is told");
    assert_eq!((&fault["fault"]["kind"], &fault["retry"]["attempt"]), (&json!("overload"), &json!(1)), "{fault}");
}

#[test]
fn an_interrupt_ends_the_command_and_the_conversation_goes_on() {
    let world = World::new();
    let fifo = world.path("work/fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("it runs").success());
    let mut agent = world.agent(&["--allow", "shell"]);
    agent.state("idle");
    agent.nudge("[[bash:echo $$ >fifo; exec sleep 986]]");
    let shell: u32 = read_within_limit(&fifo).trim().parse().expect("a number");
    agent.post("/api/v1/agent/interrupt", &json!({}));
    agent.state("idle");
    assert_gone(shell);
    agent.nudge("[[text:I am still here.]]");
    agent.state("idle");
    assert_eq!(agent.get("/api/v1/agent")["last_message"], "I am still here.");
}

#[test]
fn money_is_for_the_whole_conversation() {
    let world = World::new();
    let mut agent = world.agent(&["--model", "claude-opus-4-8", "--max-cost", "0.04"]);
    agent.state("idle");
    agent.nudge("[[text:one]]");
    agent.state("idle");
    agent.post("/api/v1/agent/nudge", &json!({ "message": "[[read:a]] [[read:b]] [[read:c]] [[read:d]]" }));
    let blocked = agent.state("blocked");
    assert_eq!(blocked["next"]["fault"]["message"], "stopped by max_cost");
    // A call costs 1.1 cents, and what it may write is counted before it is made.
    let usage = agent.get("/api/v1/session/usage");
    assert_eq!(
        (&usage["turn"]["output_tokens"], &usage["total"]["output_tokens"]),
        (&json!(42), &json!(84)),
        "{usage}"
    );
    let cost = usage["total"]["cost_usd"].as_f64().expect("it is known");
    assert!((0.02..0.04).contains(&cost), "{usage}");
}

/// Whatever ends the agent in the middle of a turn, what was said and paid for counts for whoever goes on.
#[test]
fn a_turn_that_was_cut_off_is_kept() {
    for killed in [false, true] {
        let world = World::new();
        let model = ["--model", "claude-opus-4-8"];
        let mut agent = world.agent(&model);
        agent.state("idle");
        agent.post("/api/v1/agent/nudge", &json!({ "message": "[[read:a]] [[hang]]" }));
        agent.event("the first call", |body| body["kind"] == "usage" && body["total"]["output_tokens"] == 42);
        // The second one is under way, with the result of the first in it.
        agent.event("its tool", |body| body["kind"] == "tool" && body["phase"] == "failed");
        let deadline = Instant::now() + LIMIT;
        while world.model.asked().len() < 2 {
            assert!(Instant::now() < deadline, "it does not go on");
            crate::tool::pause();
        }
        let id = agent.get("/api/v1/agent")["session_id"].as_str().expect("a conversation").to_owned();
        if killed {
            let status = agent.get("/api/v1/status");
            let pid = status["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
            kill_process(pid.expect("a process"), Signal::KILL).expect("it lives");
        } else {
            agent.post("/api/v1/shutdown", &json!({}));
        }
        agent.sidecar.wait();

        let mut agent = world.agent_with(&["--resume", &id], &model);
        agent.state("idle");
        let usage = agent.get("/api/v1/session/usage");
        // A call that was stopped is paid for as far as it came; of one that was killed nobody knows.
        let before = usage["total"]["output_tokens"].as_u64().expect("a count");
        assert!(before == 42 || before == 43 && !killed, "killed: {killed}: {usage}");
        assert!(usage["total"]["cost_usd"].as_f64().is_some_and(|cost| cost > 0.01), "{usage}");
        agent.nudge("[[text:I remember.]]");
        agent.state("idle");
        let usage = agent.get("/api/v1/session/usage");
        assert_eq!(
            (&usage["turn"]["output_tokens"], &usage["total"]["output_tokens"], &usage["requests"]),
            (&json!(42), &json!(before + 42), &json!(2)),
            "{usage}"
        );
        assert!(usage["turn"]["cost_usd"].as_f64().is_some_and(|cost| cost > 0.01), "{usage}");
        // The message, the call, its result, and the new message.
        let asked = world.model.asked();
        assert_eq!(asked.last().expect("it was asked")["messages"], 4, "{asked:?}");
    }
}

#[test]
fn calls_that_fail_are_paid_for_and_told() {
    let world = World::new();
    let mut agent = world.agent(&["--model", "claude-opus-4-8"]);
    agent.state("idle");
    agent.post("/api/v1/agent/nudge", &json!({ "message": "[[read:a]] [[read:b]] [[cut]]" }));
    agent.state("blocked");
    let usage = agent.get("/api/v1/session/usage");
    assert_eq!(usage["requests"], 3, "two calls, and what was left of the third: {usage}");
    assert!(usage["total"]["cost_usd"].as_f64().is_some_and(|cost| cost > 0.03), "{usage}");
}

#[test]
fn without_a_key_the_agent_says_that_somebody_has_to_log_in() {
    let world = World::new();
    let sidecar =
        Sidecar::with(&["--agent", "api", "--log-level", "warn"], |command| command.current_dir(world.path("work")));
    let mut agent = Agent::of(sidecar, world.path("work"), None);
    let blocked = agent.state("blocked");
    let fault = &blocked["next"]["fault"];
    assert_eq!(fault["kind"], "auth", "{blocked}");
    assert!(fault["message"].as_str().is_some_and(|why| why.contains("set COOP_API_KEY")), "{blocked}");
}
