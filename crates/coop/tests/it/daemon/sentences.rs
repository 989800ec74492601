//! What people are told when something is not as they think: one sentence, with what to do.

use std::fs;
use std::net::TcpListener;

use super::lab::{Following, Lab, is};
use super::launch::{Launch, by_each_launcher};
use crate::tool::{self, COOP};

const JOB: &str = "[agents.job]\nSIM\nkind = \"job\"\nprompt = \"[[bash:touch made]] [[text:first]]\"\n";

by_each_launcher! {
    a_message_that_waits_is_part_of_the_job_and_one_that_is_dropped_is_told_of,
    what_cannot_be_is_refused_with_what_can,
    the_words_of_the_api_are_commands,
    a_form_with_two_questions_is_answered_on_the_command_line,
    people_read_words_and_programs_json,
}

/// Returns what a command that fails says.
fn said(lab: &Lab, args: &[&str]) -> String {
    let (code, out, said) = lab.run(args);
    assert_eq!(code, 1, "{args:?}: {out}{said}");
    said
}

/// A job was done, and ended, while what a person had told it to do next waited for just that; and nobody heard of it.
fn a_message_that_waits_is_part_of_the_job_and_one_that_is_dropped_is_told_of(launch: Launch) {
    let lab = Lab::by(launch, JOB);
    lab.ok(&["spawn", "job"]);
    lab.until(0, "an ask", |entry| is(entry, "prompt"));
    let queued = lab.ok(&["send", "job", "[[text:second]]", "--when", "idle"]);
    assert!(queued.ends_with(" waits until job is idle\n"), "{queued}");
    lab.ok(&["respond", "job", "yes", "--ask", "ask-1"]);
    let gone = lab.until(0, "its end", |entry| is(entry, "gone"));
    let shown = lab.json(&["show", "job"]);
    assert_eq!((&shown["outcome"]["outcome"], &shown["turn"]), (&"done".into(), &2.into()), "{shown}");
    assert_eq!(shown["last_message"], "second");
    for command in [&["send", "job", "more"][..], &["send", "job", "more", "--when", "idle"]] {
        let said = said(&lab, command);
        assert!(said.starts_with("coop: job is done, and ended at 20"), "{said}");
        assert!(said.ends_with("; `coop resume job` goes on with its conversation\n"), "{said}");
    }
    for command in ["explain", "usage", "interrupt"] {
        let said = said(&lab, &[command, "job"]);
        assert!(said.contains("job is done, and ended at 20") && said.contains("`coop resume job`"), "{said}");
    }
    // The other way round: it is ended before it is idle.
    lab.ok(&["spawn", "job", "--id", "other"]);
    lab.until(gone, "an ask", |entry| is(entry, "prompt"));
    let queued = lab.ok(&["send", "other", "[[text:never]]", "--when", "idle"]);
    let nudge = queued.split(' ').next().expect("its name");
    lab.ok(&["kill", "other"]);
    lab.until(gone, "its end", |entry| is(entry, "gone"));
    let log = lab.ok(&["logs", "other"]);
    let dropped = format!("{nudge} was not delivered: the agent ended before it could be told");
    assert!(log.contains(&dropped), "{log}");
    assert!(said(&lab, &["send", "other", "more"]).starts_with("coop: other was ended by ann at 20"));
}

fn what_cannot_be_is_refused_with_what_can(launch: Launch) {
    let mut lab = Lab::by(launch, "[agents.odd]\ndriver = \"clod\"\n[agents.idler]\nSIM\nkind = \"crew\"\n");
    let (code, _, unknown) = lab.run(&["spawn", "--agent", "clod"]);
    assert_eq!(code, 2);
    assert!(unknown.contains("claude") && unknown.contains("codex") && unknown.contains("similar"), "{unknown}");
    let unknown = said(&lab, &["spawn", "odd"]);
    assert!(unknown.contains("coop knows no driver \"clod\"; it knows claude, codex, "), "{unknown}");
    let missing = said(&lab, &["spawn", "nobody"]);
    assert!(missing.contains("no agent \"nobody\" is defined there; there is: idler, odd"), "{missing}");
    // In a cluster there are other folders than here.
    if launch != Launch::Kubernetes {
        let nowhere = said(&lab, &["spawn", "--folder", "/nope", "idler"]);
        assert!(nowhere.contains("there is no folder /nope for it to work in"), "{nowhere}");
    }
    assert_eq!(said(&lab, &["kill", "bad id!"]), "coop: there is no agent bad id!\n");
    assert_eq!(said(&lab, &["kill", ""]), "coop: there is no agent without a name\n");
    assert_eq!(lab.json(&["ls"])["agents"], serde_json::json!([]), "nothing of it was written down");
    // A start that fails leaves its name free, and what is known of it is that it never ran.
    let failed = said(&lab, &["spawn", "writer", "--", "/no/such/program"]);
    assert!(failed.contains("/no/such/program"), "{failed}");
    let never = said(&lab, &["send", "writer", "hello"]);
    assert!(never.starts_with("coop: writer never ran: ") && never.ends_with("; start it anew\n"), "{never}");
    let (status, none) = lab.ask("GET", "/api/v1/agents/writer/recording", "");
    assert_eq!((status, &none["error"]["code"]), (404, &"NOT_FOUND".into()), "{none}");
    assert_eq!(lab.ok(&["spawn", "writer", "--", "sleep", "1000"]), "writer\n");
    assert_eq!(lab.json(&["show", "writer"])["needs"], serde_json::Value::Null);
    assert_eq!(lab.ok(&["spawn", "writer", "--", "sleep", "1000"]), "writer-2\n", "now it is taken");
    lab.ok(&["kill", "writer"]);
    lab.ok(&["kill", "writer-2"]);
    // Without a daemon.
    lab.kill();
    let nobody = said(&lab, &["status"]);
    assert_eq!(nobody, "coop: no daemon answers; start one with `coop up --detach`, which finds its agents again\n");
    for file in ["fleet.db-wal", "fleet.db-shm"] {
        // A whole store could be made again from what was written last.
        let _ = fs::remove_file(lab.state().join(file));
    }
    fs::write(lab.state().join("fleet.db"), "this is no store, and long enough to be looked at").expect("written");
    let damaged = said(&lab, &["up", "--detach"]);
    assert!(damaged.starts_with("coop: the daemon did not start: "), "{damaged}");
    assert!(damaged.contains("fleet.db is damaged: "), "{damaged}");
}

fn the_words_of_the_api_are_commands(launch: Launch) {
    let lab = Lab::by(launch, "[agents.asker]\nSIM\nkind = \"crew\"\nprompt = \"[[bash:touch made]]\"\n");
    lab.ok(&["spawn", "asker"]);
    lab.until(0, "an ask", |entry| is(entry, "prompt"));
    let busy = said(&lab, &["send", "asker", "hello"]);
    insta::assert_snapshot!(
        busy,
        @"coop: the agent asks for a permission; see `coop asks`, and answer it first with `coop respond asker`"
    );
    let wrong = said(&lab, &["respond", "asker", "perhaps"]);
    assert!(wrong.contains("say yes, no, the number of an option"), "{wrong}");
    assert!(!said(&lab, &["respond", "asker", "--text", "why not", "--ask", "ask-1"]).contains("accept"));
    assert!(!lab.workspace("asker").join("made").exists());
    lab.ok(&["kill", "asker"]);
}

fn a_form_with_two_questions_is_answered_on_the_command_line(launch: Launch) {
    let lab = Lab::by(launch, "[agents.form]\nSIM\nkind = \"crew\"\nprompt = \"[[ask2]] [[text:thanks]]\"\n");
    lab.ok(&["spawn", "form"]);
    let asked = lab.until(0, "an ask", |entry| is(entry, "prompt"));
    insta::assert_snapshot!(lab.ok(&["asks"]), @r"
    AGENT  ASK    KIND      TOOL             ABOUT
    form   ask-1  question  AskUserQuestion  Which database should we use? … (+1 line)
        Which database should we use?   1: PostgreSQL (Robust (Recommended))   2: SQLite (Simple file)   3: MySQL (Popular)
        Which language?   1: Rust (Fast)   2: Go (Simple)
        coop respond form --answer NUMBER --answer NUMBER --ask ask-1
    ");
    let half = said(&lab, &["respond", "form", "--answer", "2", "--ask", "ask-1"]);
    assert!(half.contains("2 question(s)") && half.contains("say --answer once for each"), "{half}");
    lab.ok(&["respond", "form", "--answer", "2", "--answer", "none of them", "--ask", "ask-1"]);
    lab.until(asked, "idleness", |entry| is(entry, "idle") && entry["input"]["last_message"] == "thanks");
    let log = lab.ok(&["logs", "form"]);
    assert!(log.contains("SQLite") || log.contains("\"option\":2"), "{log}");
    lab.ok(&["kill", "form"]);
}

fn people_read_words_and_programs_json(launch: Launch) {
    let lab = Lab::by(launch, "[agents.idler]\nSIM\nkind = \"crew\"\nprompt = \"[[text:hello]]\"\n");
    lab.ok(&["spawn", "idler"]);
    lab.until(0, "its answer", |entry| is(entry, "idle") && entry["input"]["last_message"] == "hello");
    let shown = lab.ok(&["show", "idler"]);
    let (facts, done) = shown.split_once("\n\n").expect("two parts");
    for fact in ["agent    idler", "state    idle", "needs    it is idle", "turn     1", "says     hello"] {
        assert!(facts.lines().any(|line| line == fact), "{fact}: {facts}");
    }
    let heads: Vec<_> = done.lines().map(|line| line.split("  ").next().unwrap_or_default()).collect();
    assert_eq!(heads, ["WHAT", "spawn", "send", "resolve stop", "escalate"], "{done}");
    let explained = lab.ok(&["explain", "idler"]);
    assert!(explained.starts_with("state    idle\nbecause  ") && explained.contains("\nWHEN  "), "{explained}");
    lab.wait_until("what it used", || lab.json(&["usage", "idler"])["requests"] == 1);
    let usage = lab.ok(&["usage", "idler"]);
    insta::assert_snapshot!(usage, @r"
               IN    OUT  CACHE READ  CACHE WRITTEN  USD
    this turn  1200  42   5000        300            0.0114
    all        1200  42   5000        300            0.0114
    1 request to the model
    ");
    lab.ok(&["kill", "idler"]);
    // Its end is heard of a moment after it was seen to.
    lab.ok(&["wait", "idler", "--for", "exit"]);
    let ended = lab.ok(&["show", "idler"]);
    assert!(ended.contains("\nstate    dismissed\n") && ended.contains("\nended    20"), "{ended}");
}

#[test]
fn looking_at_a_store_makes_nothing() {
    let lab = Lab::new("");
    let elsewhere = lab.home.path().join("none");
    let mut command = lab.command(&["db", "check", "--state", elsewhere.to_str().expect("UTF-8")]);
    let (code, out, said) = tool::run(&mut command);
    assert_eq!((code, out.as_str()), (1, ""), "{said}");
    assert!(said.contains("there is no store at") && said.contains("`coop up` makes one"), "{said}");
    assert!(!elsewhere.exists());
    lab.ok(&["down"]);
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(lab.state()).expect("there").flatten().map(|entry| entry.file_name()).collect();
        // SQLite's own, which whoever reads a file with a journal like this may make.
        names.retain(|name| name != "fleet.db-wal" && name != "fleet.db-shm");
        names.sort();
        names
    };
    let before = names();
    lab.ok(&["db", "check"]);
    assert_eq!(names(), before);
    let mut status = tool::coop(lab.home.path());
    status.args(["status"]).env("COOP_STATE", &elsewhere);
    assert_eq!(tool::run(&mut status).0, 1);
    assert!(!elsewhere.exists(), "{COOP} only asks");
}

/// A daemon that was ready over a cluster that nobody could reach: `status` said that it runs, and a spawn failed much later.
#[test]
fn a_cluster_that_is_not_there_is_told_of() {
    let home = tempfile::tempdir().expect("a folder");
    // It takes no connection, and nobody else has its port.
    let silent = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = format!("http://{}", silent.local_addr().expect("an address"));
    let config = home.path().join("config");
    let of = |words: &[&str]| {
        let mut command = tool::coop(home.path());
        command.args(words).env("COOP_STATE", home.path().join("s"));
        command
    };
    let up = ["up", "--launcher", "kubernetes", "--kubeconfig", config.to_str().expect("text")];
    let (code, _, said) = tool::run(&mut of(&up));
    let wrong = format!("coop: no cluster is known: {} is missing or empty; say which ", config.display());
    assert!(code == 1 && said.starts_with(&wrong) && said.lines().count() == 1, "{said}");
    let named = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\nclusters: [{{name: here, cluster: {{server: '{address}'}}}}]\n\
         contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\nusers: [{{name: me, user: {{}}}}]\n"
    );
    fs::write(&config, named).expect("written");
    let mut daemon = Following::start(&mut of(&up));
    let said = daemon.until("ready");
    let lost = format!("the API server at {address} does not answer");
    assert!(said.iter().any(|line| line.starts_with(&format!("warning {lost}; "))), "{said:?}");
    let (_, status, _) = tool::run(&mut of(&["status"]));
    assert!(status.contains(&format!("; its cluster is lost ({lost})")), "{status}");
    assert_eq!(tool::run(&mut of(&["down"])).0, 0);
    assert_eq!(daemon.wait(), 0);
}
