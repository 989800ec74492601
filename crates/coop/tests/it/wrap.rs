//! `coop wrap`: a person's own `claude` and `opencode`, with stand-ins that note how they are run.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::tool;
use crate::workspaces::{Lab, command};

/// A folder with a `claude` and an `opencode` that note how they are run and do what `STAND_IN` says.
pub(crate) struct StandIns {
    folder: PathBuf,
    notes: PathBuf,
}

/// How one was run.
#[derive(Debug, PartialEq)]
pub(crate) struct Noted {
    pub(crate) folder: String,
    config: String,
    /// The password for a server.
    pub(crate) password: String,
    pub(crate) words: Vec<String>,
}

impl StandIns {
    pub(crate) fn new(home: &Path) -> Self {
        let made = Self { folder: home.join("stand-ins"), notes: home.join("notes") };
        fs::create_dir(&made.folder).expect("made");
        let script = format!(
            "#!/bin/sh\n{{ printf '%s\\037%s\\037%s' \"$PWD\" \"$CLAUDE_CONFIG_DIR\" \
             \"$OPENCODE_SERVER_PASSWORD\"; for word; do printf '\\037%s' \"$word\"; done; \
             printf '\\036'; }} >> '{}'\neval \"${{STAND_IN:-exit 0}}\"\n",
            made.notes.display()
        );
        for name in ["claude", "opencode"] {
            tool::write_program(&made.folder.join(name), &script);
        }
        made
    }

    /// Returns how they were run since this was asked last.
    pub(crate) fn noted(&self) -> Vec<Noted> {
        let notes = fs::read_to_string(&self.notes).unwrap_or_default();
        let _ = fs::remove_file(&self.notes);
        let note = |line: &str| {
            let mut words = line.split('\u{1f}').map(str::to_owned);
            let mut next = || words.next().expect("a note");
            let (folder, config, password) = (next(), next(), next());
            // By it a workspace's status has it; the words are the person's, and what coop knows.
            let words = words.filter(|word| !word.starts_with("--settings=")).collect();
            Noted { folder, config, password, words }
        };
        notes.split_terminator('\u{1e}').map(note).collect()
    }

    pub(crate) fn command(&self, lab: &Lab, at: &Path, args: &[&str]) -> Command {
        let mut command = command(lab.home.path(), args);
        let usual = std::env::var("PATH").expect("a path");
        command.env("PATH", format!("{}:{usual}", self.folder.display())).current_dir(at);
        command
    }

    /// Runs the wrapper and returns its exit code, what it said, and how the agent was run.
    pub(crate) fn wrap(&self, lab: &Lab, at: &Path, words: &[&str], what: &str) -> (i32, String, Vec<Noted>) {
        let mut command = self.command(lab, at, &[&["wrap"], words].concat());
        let (code, _, err) = tool::run(command.env("STAND_IN", what));
        (code, err, self.noted())
    }
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn sessions(lab: &Lab, folder: &str) -> Value {
    let socket = std::os::unix::net::UnixStream::connect(lab.home.path().join("s/fleet.sock")).expect("it listens");
    tool::request(socket, "GET", &format!("/api/v1/sessions?folder={folder}"), "", "").1
}

#[test]
fn a_persons_own_claude_goes_on_with_the_conversation_and_no_prompt_is_sent_again() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let stand_ins = StandIns::new(lab.home.path());
    let made = lab.json(&repository, &["ws", "create", "w"]);
    let path = made["path"].as_str().expect("a path").to_owned();
    let here = Path::new(&path);
    fs::create_dir(here.join("src")).expect("made");
    // Nothing is known of any conversation.
    let (code, err, noted) = stand_ins.wrap(&lab, here, &["claude", "--model", "opus"], "exit 3");
    assert_eq!((code, err.as_str()), (3, ""));
    let bare = words(&["--model", "opus"]);
    let expected = Noted { folder: path.clone(), config: String::new(), password: String::new(), words: bare };
    assert_eq!(noted, [expected]);
    lab.json(&repository, &["ws", "spawn", "w", "fixer", "--id", "a", "--prompt", "the very first prompt"]);
    assert_eq!(lab.run(&repository, &["wait", "a", "--for", "idle", "--timeout", "170"]).0, 0, "{}", lab.log());
    let known = sessions(&lab, &path);
    let id = known["sessions"][0]["sessionId"].as_str().expect("a conversation").to_owned();
    let expected = json!({ "agentId": "a", "driver": "claude", "sessionId": id, "isRunning": true, "port": null });
    assert_eq!((&known["workspacePath"], &known["sessions"][0]), (&json!(path), &expected));
    assert_eq!(known["environment"]["COOP_CLAUDE_SESSION_ID"], id.as_str());
    // As long as its agent has it open nobody else writes into it: there is only the terminal, and here is none to show it in.
    let (code, err, noted) = stand_ins.wrap(&lab, here, &["claude"], "exit 0");
    assert!(code == 1 && noted.is_empty() && err.contains("terminal"), "{code} {err} {noted:?}");
    let (code, err, noted) = stand_ins.wrap(&lab, here, &["claude", "do more"], "exit 0");
    assert!(code == 1 && noted.is_empty() && err.contains("coop attach a"), "{code} {err} {noted:?}");
    lab.json(&repository, &["kill", "a"]);
    // From below the workspace, too; it runs where its conversation is at home.
    let resume = format!("--resume={id}");
    let (code, err, noted) = stand_ins.wrap(&lab, &here.join("src"), &["claude"], "exit 0");
    assert_eq!((code, err.as_str(), noted.len()), (0, "", 1));
    assert_eq!((&noted[0].folder, &noted[0].words), (&path, &words(&[&resume])));
    assert!(noted[0].config.contains("isolated/claude"), "{noted:?}");
    // It dies at its start, with a code or by a signal: it is run once, and whoever asked is told the same.
    let (code, _, noted) = stand_ins.wrap(&lab, here, &["claude", "do more"], "exit 7");
    assert_eq!((code, noted.len(), &noted[0].words), (7, 1, &words(&[&resume, "do more"])));
    let mut killed = stand_ins.command(&lab, here, &["wrap", "claude", "do more"]);
    let killed = killed.env("STAND_IN", "kill -TERM $$").status().expect("it runs");
    assert_eq!((killed.signal(), stand_ins.noted().len()), (Some(15), 1));
    // Whoever names a conversation gets that one.
    for line in
        [&["-c"][..], &["--resume", "x"], &["--resume=x"], &["-rx"], &["--session-id=x", "--", "-c"], &["-p", "why?"]]
    {
        let (_, _, noted) = stand_ins.wrap(&lab, here, &[&["claude"], line].concat(), "exit 0");
        assert_eq!((noted.len(), &noted[0].words, &noted[0].folder), (1, &words(line), &path));
    }
    let (_, _, noted) = stand_ins.wrap(&lab, here, &["claude", "--", "--resume", "x"], "exit 0");
    assert_eq!(noted[0].words, words(&[&resume, "--", "--resume", "x"]));
    // Elsewhere, and within an agent, it is what it would be without us.
    let (_, _, noted) = stand_ins.wrap(&lab, &repository, &["claude", "do more"], "exit 0");
    assert_eq!(noted[0].words, words(&["do more"]));
    let mut within = stand_ins.command(&lab, here, &["wrap", "claude"]);
    assert_eq!(tool::run(within.env("COOP", "1")).0, 0);
    assert_eq!(stand_ins.noted()[0].words, words(&[]));
    assert_eq!(tool::run(&mut command(lab.home.path(), &["wrap", "bash"])).0, 1);
}

/// The agent that coop starts dies before it can be told anything. Whoever comes after it tells nothing in its place.
#[test]
fn the_first_prompt_of_an_agent_that_dies_at_its_start_is_sent_by_nobody() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let stand_ins = StandIns::new(lab.home.path());
    let home = lab.home.path().to_str().expect("UTF-8");
    let program = stand_ins.folder.join("claude");
    let definition = format!(
        "[agents.dies]\ndriver = \"claude\"\nisolate = true\nprompt = \"the very first prompt\"\ncommand = [{program:?}]\n\
         env = {{ HOME = {home:?}, XDG_RUNTIME_DIR = {home:?}, XDG_STATE_HOME = {home:?}, STAND_IN = \"exit 1\" }}\n"
    );
    fs::write(repository.join("dies.toml"), definition).expect("written");
    let made = lab.json(&repository, &["ws", "create", "w"]);
    let here = PathBuf::from(made["path"].as_str().expect("a path"));
    lab.run(&repository, &["ws", "spawn", "w", "dies", "--file", "dies.toml"]);
    let (code, _, err) = lab.run(&repository, &["wait", "dies", "--for", "exit", "--timeout", "170"]);
    assert_eq!(code, 0, "{err}{}", lab.log());
    let by_coop = stand_ins.noted();
    assert_eq!(by_coop.len(), 1, "{by_coop:?}");
    let (code, _, by_hand) = stand_ins.wrap(&lab, &here, &["claude"], "exit 5");
    assert_eq!((code, by_hand.len()), (5, 1), "{by_hand:?}");
    // Under the name that coop knows, if it knows one: there is nothing yet to go on with.
    let named = |noted: &Noted| noted.words.iter().find(|word| word.starts_with("--session-id=")).cloned();
    assert!(by_hand[0].words.is_empty() || named(&by_hand[0]) == named(&by_coop[0]), "{by_hand:?} {by_coop:?}");
    for noted in by_coop.iter().chain(&by_hand) {
        assert!(!noted.words.iter().any(|word| word.contains("first prompt")), "{noted:?}");
    }
}

#[test]
fn the_folder_for_the_path_has_wrappers_that_do_not_run_themselves() {
    let lab = Lab::new(&[]);
    let stand_ins = StandIns::new(lab.home.path());
    let home = lab.home.path();
    let (code, folder, err) = lab.run(home, &["wrap", "--dir"]);
    assert_eq!(code, 0, "{err}");
    // Once more is no harm.
    assert_eq!(lab.run(home, &["wrap", "--dir"]).1, folder);
    let folder = folder.trim_end();
    for name in ["claude", "opencode"] {
        let mut command = Command::new(Path::new(folder).join(name));
        command.env_clear().env("HOME", home).current_dir(home).args(["-c", "--", "a b"]);
        command.env("PATH", format!("{folder}:{}:/usr/bin:/bin", stand_ins.folder.display()));
        assert_eq!(tool::run(command.env("STAND_IN", "exit 4")).0, 4);
        assert_eq!(stand_ins.noted()[0].words, words(&["-c", "--", "a b"]));
        let (code, _, err) = tool::run(command.env("PATH", format!("{folder}:/usr/bin:/bin")));
        assert!(code == 127 && err.contains("coop install"), "{code} {err}");
    }
}
