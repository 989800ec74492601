//! What is left of processes that have ended.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use coop_api::older_part;
use coop_fleet::adapter::SidecarAdapter;
use coop_fleet::engine::{Agent, Outcome, Phase};
use coop_fleet::store::{Run, Store, StoreError};
use coop_server::Links;
use coop_server::fleet::types::{ExitBody, PastRun};
use serde_json::{Value, json};

/// The first line of a recording is not longer.
const HEADER: u64 = 64 * 1024;

/// Returns the processes that have ended and have this text in their agents' names, in their folders, in what they were told
/// first, or in what was said.
pub(super) fn runs(store: &Store, folder: &Path, text: &str) -> Result<Vec<PastRun>, StoreError> {
    let wanted = text.trim().to_lowercase();
    let quotes = if wanted.is_empty() { BTreeMap::new() } else { store.search(&wanted)? };
    let mut past = Vec::new();
    for agent in store.agents()? {
        let ended = of(store, &agent)?;
        if ended.is_empty() {
            continue;
        }
        let defined = store.defined(&agent.id)?;
        let prompt = defined.as_ref().and_then(|defined| defined.rules()).and_then(|rules| rules.prompt);
        let (name, place) = defined.map(|defined| (defined.name, defined.folder)).unzip();
        let recorded = recorded(&SidecarAdapter::recording(&folder.join(&agent.id.0)));
        for run in ended {
            let is_last = run.number >= agent.run && agent.phase == Phase::Dead;
            let prompt = if run.resumed { run.prompt } else { prompt.clone().or(run.prompt) };
            let said = quotes.get(&agent.id).into_iter().flatten();
            let within = |id: u64| run.events.0 <= id && run.events.1.is_none_or(|end| id < end);
            let found = said.clone().find(|(id, _)| within(*id)).map(|(_, part)| part.clone());
            let known = [Some(&agent.id.0), name.as_ref(), place.as_ref(), prompt.as_ref()];
            let fits = known.into_iter().flatten().any(|text| text.to_lowercase().contains(&wanted));
            if !fits && found.is_none() {
                continue;
            }
            let dismissed = run.dismissed.map(|by| Outcome::Dismissed { by });
            let ended = run.ended.unwrap_or(run.began).0;
            past.push(PastRun {
                id: agent.id.clone(),
                name: name.clone(),
                folder: place.clone(),
                run: run.number,
                runs: agent.run,
                resumed: run.resumed,
                outcome: if is_last { agent.outcome.clone() } else { dismissed }.map(|outcome| json!(outcome)),
                exit: run.exit.map(|(code, signal)| ExitBody { code, signal }),
                began: run.began.0,
                ended,
                turns: run.turns,
                cost_usd: run.cost_usd,
                prompt,
                last_message: agent.last_message.clone().filter(|_| is_last),
                // What is older than the recording's beginning is no longer in it.
                recorded: recorded.filter(|(_, since)| ended >= *since).map(|(bytes, _)| bytes),
                found,
            });
        }
    }
    Ok(past)
}

/// Returns an agent's processes that have ended.
fn of(store: &Store, agent: &Agent) -> Result<Vec<Run>, StoreError> {
    if agent.run > 1 {
        let ended = |run: &Run| run.ended.is_some();
        return Ok(store.runs(&agent.id)?.into_iter().filter(ended).collect());
    }
    if agent.phase != Phase::Dead {
        return Ok(Vec::new());
    }
    // Of the only one everything is known without a look at what happened.
    Ok(vec![Run {
        number: agent.run,
        resumed: false,
        began: agent.since,
        ended: Some(store.last_heard(&agent.id)?.unwrap_or(agent.since)),
        dismissed: None,
        exit: agent.exit,
        turns: agent.turn,
        prompt: None,
        cost_usd: Some(agent.cost_usd).filter(|cost| *cost > 0.0),
        events: (0, None),
    }])
}

/// Returns how large a recording is, with its older part, and since when it is one, in milliseconds since 1970.
fn recorded(path: &Path) -> Option<(u64, u64)> {
    let older = older_part(path);
    let length =
        |path: &Path| Links::Refused.open(path).and_then(|file| file.metadata()).map_or(0, |found| found.len());
    // An empty one is left by an agent that never ran.
    let bytes = Some(length(path) + length(&older)).filter(|bytes| *bytes > 0)?;
    let since = began(&older).or_else(|| began(path)).unwrap_or(0);
    Some((bytes, since))
}

fn began(path: &Path) -> Option<u64> {
    let mut first = String::new();
    BufReader::new(Links::Refused.open(path).ok()?.take(HEADER)).read_line(&mut first).ok()?;
    let header: Value = serde_json::from_str(&first).ok()?;
    Some(header["timestamp"].as_u64()?.saturating_mul(1000))
}
