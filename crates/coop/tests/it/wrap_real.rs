//! The real programs as people run them, by `coop wrap`, where an agent of coop's had a conversation; where `COOP_REAL_CLAUDE`
//! and `COOP_REAL_OPENCODE` name them (`make test-real` does).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::driven::Model;
use crate::guests::guests;
use crate::tool::{self, COOP, Terminal};
use crate::tools_real::{definition_env, opencode, prepare};
use crate::workspaces::Lab;

const FIRST: &str = "the very first prompt [[text:First answer.]]";
const SECOND: &str = "more [[text:Second answer.]]";
/// What the shell prints before the exit code of the wrapper.
const EXIT_CODE: &str = "exit code: ";

/// A workspace in which an agent of coop's has had a turn, with the real program behind it.
struct Place {
    lab: Lab,
    model: Model,
    repository: PathBuf,
    path: PathBuf,
    /// What the program is run with.
    env: Vec<String>,
    conversation: String,
}

impl Place {
    fn new(name: &str) -> Option<Self> {
        let program = coop_testkit::real_agent(name)?;
        let lab = Lab::new(&[]);
        let home = lab.home.path().canonicalize().expect("it is there");
        let model = Model::start(&home);
        let table = prepare(&home, &model.url);
        let toml = definition_env(&table);
        let table = table.as_object().expect("a table");
        let repository = home.join("project");
        fs::create_dir(&repository).expect("a folder");
        fs::write(repository.join("opencode.json"), opencode(&model.url).to_string()).expect("written");
        let agent = format!(
            "[agents.boss]\ndriver = {name:?}\nisolate = true\ntrust = true\nkind = \"crew\"\n{}command = [{program:?}]\nenv = {{ {} }}\n",
            tool::sandbox_setting(&home),
            toml.join(", ")
        );
        fs::write(repository.join("coop.toml"), agent).expect("written");
        lab.open(&repository);
        let made = lab.json(&repository, &["ws", "create", "w"]);
        lab.json(&repository, &["ws", "spawn", "w", "boss", "--prompt", FIRST]);
        let wait = || lab.run(&repository, &["wait", "boss", "--for", "idle", "--timeout", "170"]);
        // Twice: some take their time to start.
        let (code, _, err) = Some(wait()).filter(|(code, ..)| *code == 0).unwrap_or_else(wait);
        assert_eq!(code, 0, "{err}{}\n{}", lab.run(&repository, &["screen", "boss"]).1, lab.log());
        let told = lab.json(&repository, &["ws", "env", "w"]);
        let conversation = told[format!("COOP_{}_SESSION_ID", name.to_uppercase())].as_str().expect("one").to_owned();
        let mut env: Vec<_> =
            table.iter().map(|(name, value)| format!("{name}={}", value.as_str().expect("text"))).collect();
        let bin = program.parent().expect("a folder").display();
        env.push(format!("PATH={bin}:{}", env::var("PATH").expect("a path")));
        env.push(format!("COOP_STATE={}", home.join("s").display()));
        let path = PathBuf::from(made["path"].as_str().expect("a path"));
        Some(Self { lab, model, repository, path, env, conversation })
    }

    /// Runs the wrapper in a shell on a terminal, as a person would: within no agent of coop's. The shell prints the exit code,
    /// because tmux 3.3 can miss the end of a program while a test polls it: `#{pane_dead_status}` then stays empty.
    fn wrap(&self, words: &[&str]) -> Terminal {
        let script = format!("\"$@\"; echo \"{EXIT_CODE}$?.\"");
        let mut args = vec!["sh", "-c", &script, "sh", "env", "-i"];
        args.extend(self.env.iter().map(String::as_str));
        args.extend([COOP, "wrap"]);
        args.extend(words);
        Terminal::start(&args, &self.path)
    }

    /// Returns what the model was asked in the conversation: the newest message, and how many there were.
    fn asked(&self) -> Vec<(String, u64)> {
        let of_it = self.model.asked().into_iter().filter(|asked| asked["side"] == false);
        let text = |asked: &Value| asked["text"].as_str().unwrap_or_default().trim().to_owned();
        of_it.map(|asked| (text(&asked), asked["messages"].as_u64().expect("a number"))).collect()
    }

    /// Waits until the model was asked the second time, which is for more messages than the first.
    fn second(&self, terminal: &Terminal) {
        until(terminal, || self.asked().len() == 2);
        let asked = self.asked();
        assert!(asked[0].0.contains(FIRST) && asked[1].0.contains(SECOND) && asked[1].1 > asked[0].1, "{asked:?}");
    }
}

/// Waits until something is so.
fn until(terminal: &Terminal, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + tool::LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never was; the screen shows:\n{}", terminal.screen());
        tool::pause();
    }
}

/// Types a message and sends it once it stands there.
fn say(terminal: &Terminal, text: &str) {
    terminal.tmux(&["send-keys", "-l", text]);
    terminal.see(text);
    press(terminal, "Enter");
}

fn press(terminal: &Terminal, key: &str) {
    terminal.tmux(&["send-keys", key]);
}

/// Waits for the end of the wrapper, and returns its exit code.
fn exit_code(terminal: &Terminal) -> String {
    let code = |screen: &str| Some(screen.rsplit_once(EXIT_CODE)?.1.split_once('.')?.0.to_owned());
    until(terminal, || code(&terminal.screen()).is_some());
    code(&terminal.screen()).expect("it was there")
}

#[test]
fn the_real_claude_goes_on_with_the_agents_conversation() {
    let Some(place) = Place::new("claude") else { return };
    place.lab.json(&place.repository, &["kill", "boss"]);
    let terminal = place.wrap(&["claude"]);
    // What was said is there, nothing is said again, and it is the conversation that its own hooks name.
    terminal.see("First answer.");
    let held = |here: &Path| guests(&place.lab, here)[0]["sessionId"].clone();
    assert_eq!(held(&place.path), json!(place.conversation));
    assert_eq!(place.asked().len(), 1, "nobody has told the model anything");
    say(&terminal, SECOND);
    place.second(&terminal);
    let told = || guests(&place.lab, &place.path)[0].clone();
    until(&terminal, || told()["status"] == "idle" && told()["hooks"].as_u64().is_some_and(|hooks| hooks > 2));
    assert_eq!(told()["sessionId"], json!(place.conversation));
    // An agent does not come between.
    let (code, _, err) = place.lab.run(&place.repository, &["resume", "boss"]);
    assert!(code == 1 && err.contains("a person's own claude"), "{code} {err}");
    say(&terminal, "/exit");
    assert_eq!(exit_code(&terminal), "0");
    // Its own exit code, when it does not like what it is told.
    let terminal = place.wrap(&["claude", "--no-such-option"]);
    assert_eq!(exit_code(&terminal), "1");
    place.lab.json(&place.repository, &["resume", "boss"]);
}

#[test]
fn the_real_opencode_comes_to_the_agents_server() {
    let Some(place) = Place::new("opencode") else { return };
    let terminal = place.wrap(&["opencode"]);
    terminal.see("First answer.");
    assert_eq!(place.asked().len(), 1, "nobody has told the model anything");
    say(&terminal, SECOND);
    place.second(&terminal);
    // The agent has had the turn: it is its server and its conversation.
    until(&terminal, || {
        let shown = place.lab.json(&place.repository, &["show", "boss"]);
        shown["turn"] == 2 && shown["phase"] == "idle" && shown["last_message"] == "Second answer."
    });
    let told = place.lab.json(&place.repository, &["ws", "env", "w"]);
    assert_eq!(told["COOP_OPENCODE_SESSION_ID"], json!(place.conversation));
    press(&terminal, "C-c");
    assert_eq!(exit_code(&terminal), "0");
}
