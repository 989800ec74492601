//! What people look up in a fleet.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use coop_api::{AgentId, Error, ErrorCode};
use coop_fleet::engine::{Agent, Outcome, Phase};
use coop_fleet::store::{Store, StoreError};
use coop_server::fleet::types::{
    AgentCard, AgentCards, AuditBody, ExitBody, HistoryBody, OpenAsk, OpenAsks, Snapshot, StatsBody,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::hub::{Hub, said, word, words};
use super::past;

/// How long somebody waits to be told that an agent has ended. A store that is lost may take any time.
const QUICKLY: Duration = Duration::from_secs(1);

impl Hub {
    pub(super) async fn list(&self) -> Result<Value, Error> {
        let agents = self.fleet.look(|store| cards(store, |_| true)).await.map_err(said)?;
        words(&AgentCards { agents })
    }

    pub(super) async fn show(&self, named: &AgentId) -> Result<Value, Error> {
        let id = self.find(named)?;
        let missing = Error::new(ErrorCode::NotFound, format!("there is no agent {id}"));
        let shown = self.fleet.look(move |store| {
            let Some(agent) = store.agent(&id)? else { return Ok(None) };
            let done = Some(store.deeds(&id)?.iter().map(|deed| json!(deed)).collect());
            let ended = if agent.phase == Phase::Dead { ended(store, &agent)? } else { None };
            let heard = store.last_told(&id)?.map(|(_, heard)| heard.0);
            let defined = store.defined(&id)?;
            let mut warnings = defined.as_ref().map(|defined| defined.warnings()).unwrap_or_default();
            let of_mode = defined.as_ref().and_then(|defined| defined.mode_warning(agent.permission_mode?));
            warnings.extend(of_mode.filter(|warning| !warnings.contains(warning)));
            let asks_first = defined.as_ref().is_some_and(|defined| defined.asks_first()).then_some(true);
            let sandbox = defined.and_then(|defined| defined.sandbox()).map(|_| true);
            Ok(Some(AgentCard { done, ended, heard, warnings, sandbox, asks_first, ..card(store, &agent)? }))
        });
        words(&shown.await.map_err(said)?.ok_or(missing)?)
    }

    /// Says how an agent has ended, if it has.
    pub(super) async fn end_of(&self, named: &AgentId) -> Option<Error> {
        let id = self.find(named).ok()?;
        let ended = self.fleet.look(move |store| {
            let Some(agent) = store.agent(&id)? else { return Ok(None) };
            if agent.phase != Phase::Dead && agent.outcome.is_none() {
                return Ok(None);
            }
            let at = ended(store, &agent)?;
            Ok(Some((agent, at)))
        });
        // Whoever does not get to know it in time finds out by trying.
        let (agent, at) = timeout(QUICKLY, ended).await.ok()?.ok()??;
        let id = &agent.id;
        Some(match agent.phase {
            Phase::Dead if agent.comes_back() => {
                Error::new(ErrorCode::NotReady, format!("{id} is being started again; ask once more in a moment"))
            }
            Phase::Dead => Error::new(ErrorCode::Exited, end_words(&agent, at)),
            Phase::Starting | Phase::Working | Phase::Idle | Phase::Asking | Phase::Blocked => {
                Error::new(ErrorCode::Exited, format!("{id} is being ended"))
            }
        })
    }

    pub(super) async fn snapshot(&self) -> Result<Value, Error> {
        let snapshot = self.fleet.look(|store| {
            let (agents, asks) = (cards(store, |_| true)?, open_asks(store, |_| true)?);
            Ok(Snapshot { newest: store.newest()?, agents, asks })
        });
        words(&snapshot.await.map_err(said)?)
    }

    pub(super) async fn news(&self, after: u64, most: u32) -> Result<Value, Error> {
        let news = self.fleet.look(move |store| {
            let entries = store.log(None, after, most)?;
            let named: BTreeSet<AgentId> = entries.iter().map(|entry| entry.agent.clone()).collect();
            let agents = cards(store, |agent| named.contains(agent))?;
            let asks = open_asks(store, |agent| named.contains(agent))?;
            let gone_through = Some(store.forgotten()?).filter(|through| *through > after);
            let newest = store.newest()?;
            let mut news = json!({ "entries": entries, "agents": agents, "asks": asks, "newest": newest });
            if let Some(through) = gone_through {
                news["gone_through"] = through.into();
            }
            Ok(news)
        });
        news.await.map_err(said)
    }

    pub(super) async fn history(&self, text: String, most: usize) -> Result<Value, Error> {
        let folder = self.agents();
        let past = self.fleet.look(move |store| past::runs(store, &folder, &text));
        let mut runs = past.await.map_err(said)?;
        runs.sort_by_key(|past| Reverse(past.ended));
        let more = runs.len().saturating_sub(most);
        runs.truncate(most);
        words(&HistoryBody { runs, more })
    }

    pub(super) async fn stats(&self) -> Result<Value, Error> {
        let uptime_secs = self.began.elapsed().as_secs();
        let stats = self.fleet.look(move |store| {
            let mut stats = StatsBody {
                uptime_secs,
                asks: store.open_asks()?.len(),
                events: store.count()?,
                newest: store.newest()?,
                intents: store.intent_counts()?,
                store_bytes: store.size()?,
                ..StatsBody::default()
            };
            for agent in store.agents()? {
                stats.agents += 1;
                *stats.phases.entry(word(&agent.phase)).or_default() += 1;
                if let Some(outcome) = &agent.outcome {
                    *stats.outcomes.entry(word(&json!(outcome)["outcome"])).or_default() += 1;
                }
                stats.needing += usize::from(agent.escalated.is_some());
                stats.turns += agent.turn;
                stats.runs += u64::from(agent.run);
                stats.cost_usd += agent.cost_usd;
            }
            Ok(stats)
        });
        words(&stats.await.map_err(said)?)
    }

    pub(super) async fn asks(&self) -> Result<Value, Error> {
        let asks = self.fleet.look(|store| open_asks(store, |_| true)).await.map_err(said)?;
        words(&OpenAsks { asks })
    }

    pub(super) async fn audit(&self, most: Option<u32>) -> Result<Value, Error> {
        let decisions = self.fleet.look(move |store| store.audit(most)).await.map_err(said)?;
        words(&AuditBody { decisions: decisions.iter().map(|decided| json!(decided)).collect() })
    }
}

fn cards(store: &Store, is_wanted: impl Fn(&AgentId) -> bool) -> Result<Vec<AgentCard>, StoreError> {
    store.agents()?.iter().filter(|agent| is_wanted(&agent.id)).map(|agent| card(store, agent)).collect()
}

fn card(store: &Store, agent: &Agent) -> Result<AgentCard, StoreError> {
    let defined = store.defined(&agent.id)?;
    let used_without_ask = agent.permission_mode.and_then(|mode| defined.as_ref()?.use_without_ask(mode));
    let (name, folder) = defined.map(|defined| (defined.name, defined.folder)).unzip();
    Ok(AgentCard {
        id: agent.id.clone(),
        name,
        folder,
        phase: word(&agent.phase),
        outcome: agent.outcome.as_ref().map(|outcome| json!(outcome)),
        needs: agent.escalated.clone(),
        asks: agent.asks.clone(),
        run: agent.run,
        turn: agent.turn,
        since: agent.since.0,
        cost_usd: agent.cost_usd,
        permission_mode: agent.permission_mode,
        used_without_ask: used_without_ask.map(str::to_owned),
        last_message: agent.last_message.clone(),
        exit: agent.exit.map(|(code, signal)| ExitBody { code, signal }),
        ended: None,
        heard: None,
        warnings: Vec::new(),
        sandbox: None,
        asks_first: None,
        done: None,
    })
}

fn open_asks(store: &Store, is_wanted: impl Fn(&AgentId) -> bool) -> Result<Vec<OpenAsk>, StoreError> {
    let asks = store.open_asks()?.into_iter().filter(|(agent, _)| is_wanted(agent));
    Ok(asks.map(|(agent, ask)| OpenAsk { agent, ask }).collect())
}

/// Returns when an agent ended; or, if it never began, when that was known.
fn ended(store: &Store, agent: &Agent) -> Result<Option<u64>, StoreError> {
    let at = match store.gone_at(&agent.id)? {
        Some(at) => Some(at),
        None => store.last_heard(&agent.id)?,
    };
    Ok(at.map(|at| at.0))
}

/// One sentence, with what can be done.
fn end_words(agent: &Agent, at: Option<u64>) -> String {
    let id = &agent.id;
    let at = at.map(|at| format!(" at {}", humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(at))));
    let at = at.unwrap_or_default();
    if agent.run == 0 {
        let why = agent.escalated.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        return format!("{id} never ran{why}; start it anew");
    }
    let how = match agent.exit {
        Some((Some(code), _)) => format!(" with code {code}"),
        Some((None, Some(signal))) => format!(" by signal {signal}"),
        Some((None, None)) | None => String::new(),
    };
    let what = match (&agent.outcome, agent.phase) {
        (Some(Outcome::Done), _) => format!("is done, and ended{at}{how}"),
        (Some(Outcome::Failed { .. }), _) => format!("has failed, and ended{at}{how}"),
        (Some(Outcome::Dismissed { by }), _) => format!("was ended by {by}{at}{how}"),
        (None, _) => format!("ended{at}{how}"),
    };
    format!("{id} {what}; POST /api/v1/agents/{id}/revive goes on with its conversation")
}
