//! What every command of a fleet prints, for people and as JSON. Their help is in `docs/CLI.md`, which is checked too.

use serde_json::Value;

use super::lab::{Lab, is};
use super::launch::{Launch, by_each_launcher};

by_each_launcher! {
    what_the_commands_print,
}

/// Replaces what is another each time: paths, numbers of processes, times.
fn steady(lab: &Lab, text: &str) -> String {
    let home = lab.home.path().to_str().expect("UTF-8");
    text.replace(home, "HOME").lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Returns the JSON, with what is another each time left out.
fn json(lab: &Lab, args: &[&str]) -> String {
    let mut value = lab.json(args);
    settle(&mut value);
    steady(lab, &format!("{value:#}"))
}

fn settle(value: &mut Value) {
    const RESTLESS: [&str; 13] = [
        "pid",
        "newest",
        "since",
        "changed",
        "cause",
        "opened",
        "version",
        "ms",
        "cost_usd",
        "confirmed_by",
        "attempts",
        "heard",
        "permission_mode",
    ];
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                if RESTLESS.contains(&key.as_str()) {
                    *value = Value::from("…");
                } else {
                    settle(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(settle),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn what_the_commands_print(launch: Launch) {
    let lab = Lab::by(
        launch,
        "[agents.asker]\nSIM\nkind = \"crew\"\nprompt = \"[[bash:touch made]] [[text:made it]]\"\n\
         [agents.idler]\nSIM\nkind = \"crew\"\n",
    );
    // One write that takes more than a second is told of.
    lab.wait_until("the store is fine", || lab.json(&["status"])["store"]["condition"] == "fine");
    let status = steady(&lab, &lab.ok(&["status"])).replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(status, @"running, version VERSION, 0 agents");
    // Only a daemon over a cluster has one.
    let mut status = lab.json(&["status"]);
    let cluster = status.as_object_mut().expect("an object").remove("cluster");
    assert_eq!(
        cluster.as_ref().map(|cluster| &cluster["condition"]),
        (launch == Launch::Kubernetes).then_some(&"fine".into())
    );
    settle(&mut status);
    insta::assert_snapshot!(format!("{status:#}"), @r#"
    {
      "agents": 0,
      "newest": "…",
      "orphans": 0,
      "pid": "…",
      "status": "running",
      "store": {
        "condition": "fine",
        "kind": "sqlite"
      },
      "version": "…"
    }
    "#);
    insta::assert_snapshot!(lab.ok(&["spawn", "asker"]), @"asker");
    insta::assert_snapshot!(json(&lab, &["spawn", "idler"]), @r#"
    {
      "id": "idler"
    }
    "#);
    lab.until(0, "an ask", |entry| is(entry, "prompt"));
    lab.ok(&["wait", "idler", "--for", "idle"]);
    insta::assert_snapshot!(lab.ok(&["ls"]), @r"
    AGENT  STATE   TURN  NEEDS                SAYS
    asker  asking  1     it asks: touch made
    idler  idle    0
    ");
    insta::assert_snapshot!(json(&lab, &["ls"]), @r#"
    {
      "agents": [
        {
          "asks": [
            "ask-1"
          ],
          "cost_usd": "…",
          "exit": null,
          "folder": "HOME",
          "id": "asker",
          "last_message": null,
          "name": "asker",
          "needs": "it asks: touch made",
          "outcome": null,
          "permission_mode": "…",
          "phase": "asking",
          "run": 1,
          "since": "…",
          "turn": 1
        },
        {
          "asks": [],
          "cost_usd": "…",
          "exit": null,
          "folder": "HOME",
          "id": "idler",
          "last_message": null,
          "name": "idler",
          "needs": null,
          "outcome": null,
          "permission_mode": "…",
          "phase": "idle",
          "run": 1,
          "since": "…",
          "turn": 0
        }
      ]
    }
    "#);
    insta::assert_snapshot!(lab.ok(&["asks"]), @r"
    AGENT  ASK    KIND        TOOL  ABOUT
    asker  ask-1  permission  Bash  touch made
        │ command: touch made
        │ description: run a command
        1: Yes   2: Yes, and don't ask again   3: No
        coop respond asker yes --ask ask-1
    ");
    insta::assert_snapshot!(json(&lab, &["asks"]), @r#"
    {
      "asks": [
        {
          "agent": "asker",
          "ask": {
            "channel": "structured",
            "id": "ask-1",
            "input": {
              "command": "touch made",
              "description": "run a command"
            },
            "kind": "permission",
            "opened": "…",
            "options": [
              {
                "id": "allow",
                "kind": "allow_once",
                "label": "Yes"
              },
              {
                "id": "allow_always",
                "kind": "allow_always",
                "label": "Yes, and don't ask again"
              },
              {
                "id": "reject",
                "kind": "reject",
                "label": "No"
              }
            ],
            "preview": "touch made",
            "tool": "Bash"
          }
        }
      ]
    }
    "#);
    insta::assert_snapshot!(json(&lab, &["wait", "asker", "--for", "ask"]), @r#"
    {
      "agent": "asker",
      "is": "so"
    }
    "#);
    insta::assert_snapshot!(json(&lab, &["respond", "asker", "yes", "--ask", "ask-1"]), @r#"
    {
      "ask": "ask-1",
      "confirmed_by": "…",
      "delivered": true,
      "prompt_type": "permission",
      "via": "hook"
    }
    "#);
    lab.ok(&["wait", "asker", "--for", "idle"]);
    // A person is called beside that.
    let is_done = |deed: &Value| deed["state"] != "pending" && deed["state"] != "claimed";
    let deeds = || lab.json(&["show", "asker"])["done"].as_array().cloned().unwrap_or_default();
    lab.wait_until("all is done", || deeds().len() == 5 && deeds().iter().all(is_done));
    insta::assert_snapshot!(json(&lab, &["show", "asker"]), @r#"
    {
      "asks": [],
      "cost_usd": "…",
      "done": [
        {
          "agent": "asker",
          "cause": "…",
          "changed": "…",
          "effect": {
            "effect": "spawn"
          },
          "id": "asker/1",
          "state": "done"
        },
        {
          "agent": "asker",
          "cause": "…",
          "changed": "…",
          "effect": {
            "effect": "send",
            "message": "[[bash:touch made]] [[text:made it]]"
          },
          "id": "asker/2",
          "state": "done"
        },
        {
          "agent": "asker",
          "cause": "…",
          "changed": "…",
          "effect": {
            "ask": "ask-1",
            "effect": "escalate",
            "reason": "it asks: touch made"
          },
          "id": "asker/3",
          "state": "done"
        },
        {
          "agent": "asker",
          "cause": "…",
          "changed": "…",
          "effect": {
            "effect": "resolve_stop"
          },
          "id": "asker/4",
          "state": "done"
        },
        {
          "agent": "asker",
          "cause": "…",
          "changed": "…",
          "effect": {
            "ask": null,
            "effect": "escalate",
            "reason": "it is idle"
          },
          "id": "asker/5",
          "state": "done"
        }
      ],
      "exit": null,
      "folder": "HOME",
      "heard": "…",
      "id": "asker",
      "last_message": "made it",
      "name": "asker",
      "needs": "it is idle",
      "outcome": null,
      "permission_mode": "…",
      "phase": "idle",
      "run": 1,
      "since": "…",
      "turn": 1
    }
    "#);
    // In the order of the alphabet: who is told of something first is another each time.
    let log = || -> Vec<String> { lab.ok(&["logs", "asker"]).lines().map(|line| line[20..].to_owned()).collect() };
    // What it says is read out of its own log, which may be behind.
    lab.wait_until("what it said", || log().iter().any(|line| line.trim() == "made it"));
    let mut log = log();
    log.sort();
    insta::assert_snapshot!(log.join("\n"), @r#"
    > [[bash:touch made]] [[text:made it]]
    Bash {"command":"touch made","description":"run a command"}
    I will call Bash.
    ask-1 was answered: {"accept":true}
    asks: Bash touch made
    decided by ann
    made it
    ordered by ann
    spawned
    "#);
    insta::assert_snapshot!(json(&lab, &["send", "idler", "[[text:hello]]"]), @r#"
    {
      "attempts": "…",
      "confirmed_by": "…",
      "delivered": true,
      "id": "nudge-1",
      "ms": "…",
      "queued": false,
      "state_before": "waiting_for_input"
    }
    "#);
    lab.until(0, "its answer", |entry| is(entry, "idle") && entry["input"]["last_message"] == "hello");
    lab.wait_until("what it used", || lab.json(&["usage", "idler"])["requests"] == 1);
    let usage = json(&lab, &["usage", "idler"]);
    insta::assert_snapshot!(usage, @r#"
    {
      "requests": 1,
      "total": {
        "cache_read_tokens": 5000,
        "cache_write_tokens": 300,
        "cost_usd": "…",
        "input_tokens": 1200,
        "output_tokens": 42
      },
      "turn": {
        "cache_read_tokens": 5000,
        "cache_write_tokens": 300,
        "cost_usd": "…",
        "input_tokens": 1200,
        "output_tokens": 42
      }
    }
    "#);
    let explained: Value = lab.json(&["explain", "idler"]);
    insta::assert_snapshot!(explained["state"].to_string(), @r#"{"state":"idle"}"#);
    insta::assert_snapshot!(json(&lab, &["kill", "idler"]), @r#"
    {
      "id": "idler"
    }
    "#);
    insta::assert_snapshot!(json(&lab, &["resume", "asker"]), @r#"
    {
      "id": "asker"
    }
    "#);
    insta::assert_snapshot!(json(&lab, &["kill", "asker"]), @r#"
    {
      "id": "asker"
    }
    "#);
    // Their ends are heard of a moment after they were seen to.
    for agent in ["asker", "idler"] {
        lab.ok(&["wait", agent, "--for", "exit"]);
    }
    insta::assert_snapshot!(lab.ok(&["ls"]), @r"
    AGENT  STATE      TURN  NEEDS  SAYS
    asker  dismissed  1            made it
    idler  dismissed  1            hello
    ");
    let (code, out, error) = lab.run(&["interrupt", "asker", "--json"]);
    let refused: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &refused["error"]["code"]), (1, &"EXITED".into()), "{out}");
    assert_eq!(error, format!("coop: {}\n", refused["error"]["message"].as_str().expect("a sentence")));
    insta::assert_snapshot!(json(&lab, &["down"]), @r#"
    {
      "status": "ending"
    }
    "#);
}
