//! From what happened to what is known, in one piece.

use coop_api::{AgentId, Event};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Defined, Store, StoreError};
use crate::Fact;
use crate::engine::{Agent, Input, Intent, Timestamp};

impl Store {
    /// Says what holds for an agent from here on. The first time makes the agent.
    pub fn define(&mut self, agent: &AgentId, defined: &Defined, now: Timestamp) -> Result<(), StoreError> {
        if defined.rules().is_none() {
            return Err(StoreError::Undefined { agent: agent.0.clone() });
        }
        self.within(|tx, _| {
            let sql = "INSERT INTO events (agent, at, defined) VALUES (?1, ?2, ?3)";
            tx.execute(sql, (&agent.0, signed(now), json(defined)?))?;
            if load(tx, agent)?.is_none() {
                save(tx, &Agent::new(agent.clone(), now))?;
            }
            Ok(())
        })
    }

    /// Keeps what happened and what follows from it, all of it or nothing. Returns what is to be done.
    pub fn record(&mut self, facts: &[Fact], now: Timestamp) -> Result<Vec<Intent>, StoreError> {
        self.within(|tx, _| {
            let mut intents = Vec::new();
            for fact in facts {
                intents.extend(record(tx, fact, now)?);
            }
            Ok(intents)
        })
    }

    /// Makes what follows from the events anew. Nothing is done again: an intent that is there stays as it is.
    pub fn rebuild(&mut self) -> Result<(), StoreError> {
        self.within(|tx, _| {
            tx.execute_batch("DELETE FROM agents; DELETE FROM asks;")?;
            let mut events = tx.prepare("SELECT id, agent, sidecar, at, input, defined FROM events ORDER BY id")?;
            let mut rows = events.query([])?;
            while let Some(row) = rows.next()? {
                let agent = AgentId(row.get(1)?);
                let at = Timestamp(row.get::<_, i64>(3)?.unsigned_abs());
                if row.get_ref(5)?.as_str_or_null()?.is_some() && load(tx, &agent)?.is_none() {
                    save(tx, &Agent::new(agent.clone(), at))?;
                }
                if let Some(text) = row.get::<_, Option<String>>(4)? {
                    let sidecar: Option<String> = row.get(2)?;
                    follow(tx, row.get(0)?, &agent, sidecar.as_deref(), &parse(&text)?, at)?;
                }
            }
            Ok(())
        })
    }

    /// Returns what sidecars told of an agent, in order.
    pub fn events(&self, agent: &AgentId) -> Result<Vec<Event>, StoreError> {
        let sql = "SELECT event FROM events WHERE agent = ?1 AND event IS NOT NULL ORDER BY id";
        let found = || self.db.prepare(sql)?.query_map([&agent.0], |row| row.get(0))?.collect();
        let found: rusqlite::Result<Vec<String>> = found();
        found.map_err(|source| self.error(source))?.iter().map(|text| self.read(text)).collect()
    }
}

pub(super) fn record(tx: &Transaction<'_>, fact: &Fact, now: Timestamp) -> rusqlite::Result<Vec<Intent>> {
    let (sidecar, seq) = match &fact.told {
        Some((sidecar, seq)) => (Some(sidecar.as_str()), Some(seq.0.cast_signed())),
        None => (None, None),
    };
    let input = fact.input.as_ref().map(json).transpose()?;
    let event = fact.event.as_ref().map(json).transpose()?;
    let sql = "INSERT OR IGNORE INTO events (agent, sidecar, seq, at, input, event) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let is_new = tx.execute(sql, (&fact.agent.0, sidecar, seq, signed(now), input, event))? > 0;
    match &fact.input {
        Some(input) if is_new => follow(tx, tx.last_insert_rowid(), &fact.agent, sidecar, input, now),
        _ => Ok(Vec::new()),
    }
}

/// Works out what an input makes of an agent, and writes it down.
fn follow(
    tx: &Transaction<'_>,
    cause: i64,
    id: &AgentId,
    sidecar: Option<&str>,
    input: &Input,
    now: Timestamp,
) -> rusqlite::Result<Vec<Intent>> {
    let agent: Agent =
        parse(&load(tx, id)?.ok_or_else(|| unreadable("something happened to an agent that is not defined"))?)?;
    let defined: Defined = parse(&defined_before(tx, id, cause)?)?;
    let rules = defined.rules().ok_or_else(|| unreadable("a definition that was fine no longer is"))?;
    let (agent, intents) = agent.step(&rules, input, now);
    save(tx, &agent)?;
    for intent in &intents {
        let sql = "INSERT OR IGNORE INTO intents (id, agent, cause, intent, changed) VALUES (?1, ?2, ?3, ?4, ?5)";
        tx.execute(sql, (&intent.id.0, &id.0, cause, json(intent)?, signed(now)))?;
    }
    note_asks(tx, id, sidecar.unwrap_or_default(), input, now)?;
    Ok(intents)
}

fn note_asks(tx: &Transaction<'_>, id: &AgentId, sidecar: &str, input: &Input, now: Timestamp) -> rusqlite::Result<()> {
    match input {
        Input::Prompt { ask } => {
            let sql = "INSERT OR IGNORE INTO asks (agent, sidecar, ask, body, opened) VALUES (?1, ?2, ?3, ?4, ?5)";
            tx.execute(sql, (&id.0, sidecar, &ask.id.0, json(ask)?, signed(now)))?;
        }
        Input::AskClosed { ask } => {
            let sql = "UPDATE asks SET closed = ?1 WHERE agent = ?2 AND ask = ?3 AND closed IS NULL";
            tx.execute(sql, (signed(now), &id.0, &ask.0))?;
        }
        Input::Gone { .. } | Input::Spawned { .. } => {
            tx.execute("UPDATE asks SET closed = ?1 WHERE agent = ?2 AND closed IS NULL", (signed(now), &id.0))?;
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn load(db: &Connection, id: &AgentId) -> rusqlite::Result<Option<String>> {
    db.query_row("SELECT record FROM agents WHERE id = ?1", [&id.0], |row| row.get(0)).optional()
}

pub(super) fn defined(db: &Connection, id: &AgentId) -> rusqlite::Result<String> {
    defined_before(db, id, i64::MAX)
}

fn defined_before(db: &Connection, id: &AgentId, event: i64) -> rusqlite::Result<String> {
    let sql =
        "SELECT defined FROM events WHERE agent = ?1 AND id < ?2 AND defined IS NOT NULL ORDER BY id DESC LIMIT 1";
    db.query_row(sql, (&id.0, event), |row| row.get(0))
}

fn save(tx: &Transaction<'_>, agent: &Agent) -> rusqlite::Result<()> {
    let sql = "INSERT INTO agents (id, record) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET record = ?2";
    tx.execute(sql, (&agent.id.0, json(agent)?)).map(drop)
}

/// SQLite's numbers have a sign; times and counts of ours never need the half that they lose.
pub(super) fn signed(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

pub(super) fn json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|wrong| rusqlite::Error::ToSqlConversionFailure(wrong.into()))
}

pub(super) fn parse<T: DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|wrong| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, wrong.into()))
}

fn unreadable(why: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, why.into())
}
