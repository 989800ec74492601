//! Commands that follow what happens, also across a restart of the daemon.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::bail;
use coop_api::visible_json;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::ask::Daemon;
use super::cli::Awaited;

/// It never will be.
const NEVER: i32 = 3;
/// Not in time.
const LATE: i32 = 4;
/// How long an agent is left alone that is idle and to which something is on its way.
const SOON: Duration = Duration::from_millis(50);
/// Pauses before a daemon that has gone is looked for again; one that is being restarted is there by then.
const PAUSES: [u64; 9] = [50, 100, 500, 1000, 3000, 5000, 10_000, 10_000, 10_000];

pub(super) async fn wait(daemon: &Daemon, agent: &str, what: Awaited, limit: Option<Duration>) -> anyhow::Result<i32> {
    // It must be there to begin with.
    let shown = patiently(daemon, async || daemon.agent(agent).await).await?;
    let id = shown["id"].as_str().unwrap_or(agent).to_owned();
    let until = follow(daemon, None, async |entry| {
        // The events are followed from before the first look, so that nothing happens in between.
        if entry.is_some_and(|entry| entry["agent"] != id.as_str()) {
            return Ok(ControlFlow::Continue(()));
        }
        loop {
            let known = daemon.agent(&id).await?;
            match judged(&known, what) {
                // What is known may be of a moment ago: it may have been told something since. Its sidecar knows.
                Some(0) if !is_still_so(daemon, &known, what).await => return Ok(ControlFlow::Continue(())),
                Some(code) => return Ok(ControlFlow::Break(code)),
                // That what was on its way to it is done with is no event.
                None if what == Awaited::Idle && is_idle(&known) => sleep(SOON).await,
                None => return Ok(ControlFlow::Continue(())),
            }
        }
    });
    let code = match limit {
        Some(limit) => timeout(limit, until).await.unwrap_or(Ok(LATE))?,
        None => until.await?,
    };
    if daemon.json {
        let came = match code {
            0 => "so",
            NEVER => "over",
            _ => "late",
        };
        writeln!(io::stdout(), "{}", json!({ "agent": id, "is": came }))?;
    }
    Ok(code)
}

/// Asks the sidecar. If it does not answer, what is known has to do.
async fn is_still_so(daemon: &Daemon, known: &Value, what: Awaited) -> bool {
    let name = match what {
        Awaited::Idle => "idle",
        Awaited::Ask => "prompt",
        Awaited::Exit => return true,
    };
    let state = daemon.get_of(known["id"].as_str().unwrap_or_default(), "agent").await;
    state.map_or(true, |state| state["name"] == name && !is_behind(known, &state))
}

/// Tells whether the sidecar has told what was not written down when this was known. It may be idle again, after a turn that
/// is not known of.
fn is_behind(known: &Value, state: &Value) -> bool {
    let (heard, newest) = (known["heard"].as_u64(), state["event_seq"].as_u64());
    heard.zip(newest).is_some_and(|(heard, newest)| heard < newest)
}

fn judged(agent: &Value, what: Awaited) -> Option<i32> {
    let phase = agent["phase"].as_str().unwrap_or_default();
    let is_so = match what {
        Awaited::Idle => is_idle(agent) && !is_about_to_work(agent),
        Awaited::Ask => phase == "asking",
        Awaited::Exit => phase == "dead",
    };
    match phase {
        _ if is_so => Some(0),
        "dead" => Some(NEVER),
        _ => None,
    }
}

fn is_idle(agent: &Value) -> bool {
    agent["phase"] == "idle"
}

/// Tells whether something is on its way to an agent that will keep it busy, such as its first message.
fn is_about_to_work(agent: &Value) -> bool {
    let deeds = agent["done"].as_array().map_or(&[][..], Vec::as_slice);
    deeds.iter().any(|deed| {
        let sets_to_work = matches!(deed["effect"]["effect"].as_str(), Some("spawn" | "send" | "resume" | "restart"));
        sets_to_work && matches!(deed["state"].as_str(), Some("pending" | "claimed"))
    })
}

pub(super) async fn events(daemon: &Daemon, after: Option<u64>) -> anyhow::Result<i32> {
    follow(daemon, after, async |entry| {
        if let Some(entry) = entry {
            let mut out = io::stdout().lock();
            writeln!(out, "{}", visible_json(entry))?;
            out.flush()?;
        }
        Ok(ControlFlow::Continue(()))
    })
    .await
}

/// Asks again while the daemon is being restarted.
pub(super) async fn patiently(daemon: &Daemon, ask: impl AsyncFn() -> anyhow::Result<Value>) -> anyhow::Result<Value> {
    for pause in PAUSES {
        match ask().await {
            Err(error) if daemon.client.may_be_back(&error) => sleep(Duration::from_millis(pause)).await,
            told => return told,
        }
    }
    ask().await
}

/// Tells of each entry once, also if the daemon is restarted meanwhile; and that it begins, each time it does.
pub(super) async fn follow(
    daemon: &Daemon,
    after: Option<u64>,
    mut tell: impl AsyncFnMut(Option<&Value>) -> anyhow::Result<ControlFlow<i32>>,
) -> anyhow::Result<i32> {
    let mut after = match after {
        Some(after) => after,
        None => patiently(daemon, async || daemon.get("health").await).await?["newest"].as_u64().unwrap_or_default(),
    };
    let mut pauses = PAUSES.iter();
    loop {
        let mut was_there = false;
        let round = async {
            daemon.get("health").await?;
            was_there = true;
            if let ControlFlow::Break(code) = tell(None).await? {
                return Ok(Some(code));
            }
            let path = format!("/api/v1/events?after={after}");
            let followed = daemon.client.follow(&path, async |data| {
                let entry: Value = serde_json::from_str(data)?;
                let told = tell(Some(&entry)).await?;
                // Only now: what could not be told is told again.
                after = entry["id"].as_u64().unwrap_or(after);
                pauses = PAUSES.iter();
                Ok(told)
            });
            followed.await
        };
        let ended: anyhow::Result<Option<i32>> = round.await;
        // It was there, so that it is away now is another restart. What it refuses it would refuse again.
        if was_there && ended.as_ref().map_or_else(|error| daemon.client.may_be_back(error), Option::is_none) {
            pauses = PAUSES.iter();
        }
        match (ended, pauses.next()) {
            (Ok(Some(code)), _) => return Ok(code),
            (_, Some(pause)) => sleep(Duration::from_millis(*pause)).await,
            (Err(error), None) => return Err(error),
            (Ok(None), None) => bail!("the daemon has ended"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_idle_again_is_not_taken_for_one_that_still_is() {
        let state = |newest: u64| json!({ "name": "idle", "event_seq": newest });
        let known = json!({ "phase": "idle", "heard": 7 });
        assert_eq!([6, 7, 8].map(|newest| is_behind(&known, &state(newest))), [false, false, true]);
        assert!(!is_behind(&known, &json!({ "name": "idle" })), "one behind a shim does not say");
    }

    #[test]
    fn an_agent_is_not_idle_before_it_has_its_message() {
        let agent = |state: &str| {
            let deeds = [("spawn", "done"), ("send", state), ("escalate", "pending")];
            let done = deeds.map(|(effect, state)| json!({ "effect": { "effect": effect }, "state": state }));
            json!({ "phase": "idle", "done": done })
        };
        assert_eq!(["pending", "claimed"].map(|state| judged(&agent(state), Awaited::Idle)), [None; 2]);
        assert_eq!(["done", "failed", "unsure"].map(|state| judged(&agent(state), Awaited::Idle)), [Some(0); 3]);
        assert_eq!(judged(&json!({ "phase": "dead" }), Awaited::Idle), Some(NEVER));
    }
}
