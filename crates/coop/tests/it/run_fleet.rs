//! coop's own agent among those of a daemon.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::run::{KEY, World};
use crate::tool::{self, LIMIT};

/// A daemon that has the key and the model's address in its environment, and a project with settings for Claude Code.
struct Daemon<'a> {
    world: &'a World,
    child: Child,
}

impl<'a> Daemon<'a> {
    fn start(world: &'a World, definition: &str) -> Self {
        fs::write(world.path("work/coop.toml"), definition).expect("written");
        fs::create_dir(world.path("work/.claude")).expect("made");
        fs::write(world.path("work/.claude/settings.json"), r#"{"model":"opus"}"#).expect("written");
        let mut command = Self::command(world, &["up"]);
        command.env("COOP_API_KEY", KEY).env("COOP_BASE_URL", &world.model.url).env("COOP_MODEL", "claude-opus-4-8");
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "ready"));
        Self { world, child }
    }

    fn command(world: &World, args: &[&str]) -> Command {
        let mut command = tool::coop(&world.path("home"));
        command.args(args).env("COOP_STATE", world.path("s")).env("USER", "ann").current_dir(world.path("work"));
        command
    }

    fn ok(&self, args: &[&str]) -> String {
        let (code, out, err) = tool::run(&mut Self::command(self.world, args));
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    }

    /// Follows what happens until it is this.
    fn until(&self, what: &str, is_it: impl Fn(&Value) -> bool) {
        let mut stream = UnixStream::connect(self.world.path("s/fleet.sock")).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        write!(stream, "GET /api/v1/events?after=0 HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
        let mut seen = Vec::new();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let entry: Value = serde_json::from_str(data).expect("JSON");
            if is_it(&entry["input"]) {
                return;
            }
            seen.push(entry["input"].to_string());
        }
        panic!("{what} never came; {seen:#?}")
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = tool::run(&mut Self::command(self.world, &["down", "--kill"]));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whatever is to be done when it is idle: it cannot be held at the end of a turn, and need not be.
#[test]
fn it_works_asks_and_is_idle_like_the_others() {
    let world = World::new();
    let definition = "[agents.own]\ndriver = \"api\"\nruntime = \"inproc\"\nkind = \"crew\"\n\
                      prompt = \"[[write:made.txt|yes]] [[text:It is written.]]\"\n";
    let daemon = Daemon::start(&world, definition);
    daemon.ok(&["spawn", "own"]);
    daemon.until("an ask", |input| input["what"] == "prompt");
    assert!(!world.path("work/made.txt").exists(), "not yet");
    daemon.ok(&["respond", "own", "yes", "--ask", "ask-1"]);
    // It was idle before it had its prompt, too.
    daemon.until("its end", |input| input["what"] == "idle" && input["last_message"] == "It is written.");
    assert_eq!(fs::read_to_string(world.path("work/made.txt")).expect("it is there"), "yes");
    daemon.until("its cost", |input| input["what"] == "cost" && input["usd"].as_f64().is_some_and(|usd| usd > 0.02));
    let shown: Value = serde_json::from_str(&daemon.ok(&["show", "own", "--json"])).expect("JSON");
    assert_eq!(shown["last_message"], "It is written.", "{shown}");
    assert!(shown["cost_usd"].as_f64().is_some_and(|cost| cost > 0.02), "{shown}");
}

#[test]
fn it_takes_options_and_settings_of_its_own() {
    let world = World::new();
    let definition = "[agents.own]\ndriver = \"api\"\ncommand = [\"--allow\", \"shell\"]\n\
                      env = { COOP_MODEL = \"claude-haiku-4\" }\n\
                      prompt = \"[[bash:env >seen.txt]] [[text:Done.]]\"\n";
    let daemon = Daemon::start(&world, definition);
    daemon.ok(&["spawn", "own"]);
    assert_eq!(tool::run(&mut Daemon::command(&world, &["wait", "own", "--for", "exit"])).0, 0);
    let seen = fs::read_to_string(world.path("work/seen.txt")).expect("it ran without an ask");
    assert!(!seen.contains(KEY), "{seen}");
    let asked = world.model.asked();
    assert!(asked.len() == 2 && asked.iter().all(|call| call["model"] == "claude-haiku-4"), "{asked:?}");
}
