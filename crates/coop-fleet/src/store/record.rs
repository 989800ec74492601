//! From what happened to what is known, in one piece.

use coop_api::{AgentId, Event};

use super::db::{Db, Trouble, Value, json, parse};
use super::{Defined, Store, StoreError};
use crate::Fact;
use crate::engine::{Agent, Input, Intent, Timestamp};

/// Events that are read at a time when all of them are.
const PAGE: usize = 512;

impl Store {
    /// Says what holds for an agent from here on. The first time makes the agent.
    pub(crate) fn define(&mut self, agent: &AgentId, defined: &Defined, now: Timestamp) -> Result<(), StoreError> {
        if defined.rules().is_none() {
            return Err(StoreError::Undefined { agent: agent.0.clone() });
        }
        self.within(|db| define(db, agent, defined, now))
    }

    /// Keeps what an agent is and what a person wants of it, both or nothing: one of which nothing was wanted would be starting
    /// for ever.
    pub fn order(&mut self, defined: &Defined, order: &Fact, now: Timestamp) -> Result<Vec<Intent>, StoreError> {
        if defined.rules().is_none() {
            return Err(StoreError::Undefined { agent: order.agent.0.clone() });
        }
        self.within(|db| {
            define(db, &order.agent, defined, now)?;
            record(db, order, now)
        })
    }

    /// Keeps what happened and what follows from it, all of it or nothing. Returns what is to be done.
    pub fn record(&mut self, facts: &[Fact], now: Timestamp) -> Result<Vec<Intent>, StoreError> {
        let intents = self.within(|db| {
            let mut intents = Vec::new();
            for fact in facts {
                intents.extend(record(db, fact, now)?);
            }
            Ok(intents)
        })?;
        facts.iter().filter(|fact| fact.event.is_some()).try_for_each(|fact| self.count_event(fact, now))?;
        Ok(intents)
    }

    /// Makes what follows from the events anew. Nothing is done again: an intent that is there stays as it is.
    pub fn rebuild(&mut self) -> Result<(), StoreError> {
        self.within(|db| {
            db.change("DELETE FROM agents", &[])?;
            db.change("DELETE FROM asks", &[])?;
            let sql = "SELECT id, agent, sidecar, at, input, defined FROM events WHERE id > ?1 ORDER BY id LIMIT ?2";
            let mut after = 0;
            loop {
                let mut page = db.rows(sql, &[Value::Number(after), Value::Number(PAGE as i64)])?;
                for row in &mut page {
                    after = row.number(0)?;
                    let (agent, sidecar) = (AgentId(row.text(1)?), row.maybe_text(2)?);
                    let at = Timestamp(row.number(3)?.unsigned_abs());
                    let (input, defined) = (row.maybe_text(4)?, row.maybe_text(5)?);
                    if defined.is_some() && load(db, &agent)?.is_none() {
                        save(db, &Agent::new(agent.clone(), at))?;
                    }
                    if let Some(text) = input {
                        follow(db, after, &agent, sidecar.as_deref(), &parse(&text)?, at)?;
                    }
                }
                if page.len() < PAGE {
                    return Ok(());
                }
            }
        })
    }

    /// Returns what sidecars told of an agent, in order.
    pub fn events(&self, agent: &AgentId) -> Result<Vec<Event>, StoreError> {
        let sql = "SELECT event FROM events WHERE agent = ?1 AND event IS NOT NULL ORDER BY id";
        self.read(|db| db.texts(sql, &[(&agent.0).into()])?.iter().map(|text| parse(text)).collect())
    }
}

fn define(db: &Db, agent: &AgentId, defined: &Defined, now: Timestamp) -> Result<(), Trouble> {
    let sql = "INSERT INTO events (agent, at, defined) VALUES (?1, ?2, ?3)";
    db.change(sql, &[(&agent.0).into(), now.0.into(), json(defined)?])?;
    match load(db, agent)? {
        Some(_) => Ok(()),
        None => save(db, &Agent::new(agent.clone(), now)),
    }
}

pub(super) fn record(db: &Db, fact: &Fact, now: Timestamp) -> Result<Vec<Intent>, Trouble> {
    let (sidecar, seq) = match &fact.told {
        Some((sidecar, seq)) => (Some(sidecar.as_str()), Some(seq.0)),
        None => (None, None),
    };
    let input = fact.input.as_ref().map(json).transpose()?;
    let event = fact.event.as_ref().map(json).transpose()?;
    let sql = "INSERT INTO events (agent, sidecar, seq, at, input, event) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
               ON CONFLICT DO NOTHING RETURNING id";
    let values = [(&fact.agent.0).into(), sidecar.into(), seq.into(), now.0.into(), input.into(), event.into()];
    let (Some(input), Some(mut added)) = (&fact.input, db.row(sql, &values)?) else { return Ok(Vec::new()) };
    let Input::Cost { usd } = input else { return follow(db, added.number(0)?, &fact.agent, sidecar, input, now) };
    let before = load(db, &fact.agent)?.map(|record| parse::<Agent>(&record)).transpose()?;
    let intents = follow(db, added.number(0)?, &fact.agent, sidecar, input, now)?;
    // A conversation that begins anew costs less than the one before; what was spent is spent.
    let more = usd - before.map_or(0.0, |agent| agent.cost_usd);
    if more > 0.0 {
        charge_ancestors(db, &fact.agent, more, now)?;
    }
    Ok(intents)
}

/// Counts what an agent has cost for the agent that started it, and so on. Nothing is done about it at once.
fn charge_ancestors(db: &Db, agent: &AgentId, usd: f64, now: Timestamp) -> Result<(), Trouble> {
    let input = Input::DescendantCost { usd };
    let mut charged = vec![agent.clone()];
    let parent_of = |agent: &AgentId| -> Result<Option<AgentId>, Trouble> {
        let defined = defined(db, agent)?.map(|text| parse::<Defined>(&text)).transpose()?;
        Ok(defined.and_then(|defined| defined.parent))
    };
    let mut next = parent_of(agent)?;
    while let Some(ancestor) = next.filter(|ancestor| !charged.contains(ancestor)) {
        if load(db, &ancestor)?.is_none() {
            return Ok(());
        }
        let sql = "INSERT INTO events (agent, at, input) VALUES (?1, ?2, ?3) RETURNING id";
        if let Some(mut added) = db.row(sql, &[(&ancestor.0).into(), now.0.into(), json(&input)?])? {
            follow(db, added.number(0)?, &ancestor, None, &input, now)?;
        }
        next = parent_of(&ancestor)?;
        charged.push(ancestor);
    }
    Ok(())
}

/// Works out what an input makes of an agent, and writes it down.
pub(super) fn follow(
    db: &Db,
    cause: i64,
    id: &AgentId,
    sidecar: Option<&str>,
    input: &Input,
    now: Timestamp,
) -> Result<Vec<Intent>, Trouble> {
    let unreadable = |why: &str| Trouble::Damaged(why.to_owned());
    let found = load(db, id)?.ok_or_else(|| unreadable("something happened to an agent that is not defined"))?;
    let agent: Agent = parse(&found)?;
    let defined = defined_before(db, id, cause)?.ok_or_else(|| unreadable("an agent is there that is not defined"))?;
    let defined: Defined = parse(&defined)?;
    let rules = defined.rules().ok_or_else(|| unreadable("a definition that was fine no longer is"))?;
    let (agent, intents) = agent.step(&rules, input, now);
    save(db, &agent)?;
    for intent in &intents {
        let sql = "INSERT INTO intents (id, agent, cause, intent, changed) VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT DO NOTHING";
        db.change(sql, &[(&intent.id.0).into(), (&id.0).into(), cause.into(), json(intent)?, now.0.into()])?;
    }
    note_asks(db, id, sidecar.unwrap_or_default(), input, now)?;
    Ok(intents)
}

fn note_asks(db: &Db, id: &AgentId, sidecar: &str, input: &Input, now: Timestamp) -> Result<(), Trouble> {
    let (agent, now) = (Value::from(&id.0), Value::from(now.0));
    match input {
        Input::Prompt { ask } => {
            let sql = "INSERT INTO asks (agent, sidecar, ask, body, opened) VALUES (?1, ?2, ?3, ?4, ?5) \
                       ON CONFLICT DO NOTHING";
            db.change(sql, &[agent, sidecar.into(), (&ask.id.0).into(), json(ask)?, now])?;
        }
        Input::AskClosed { ask } => {
            let sql = "UPDATE asks SET closed = ?1 WHERE agent = ?2 AND ask = ?3 AND closed IS NULL";
            db.change(sql, &[now, agent, (&ask.0).into()])?;
        }
        Input::Gone { .. } | Input::Spawned { .. } => {
            db.change("UPDATE asks SET closed = ?1 WHERE agent = ?2 AND closed IS NULL", &[now, agent])?;
        }
        Input::Working
        | Input::Idle { .. }
        | Input::Failed { .. }
        | Input::StopBlocked { .. }
        | Input::StopAllowed
        | Input::Interrupted
        | Input::Missed { .. }
        | Input::Trimmed { .. }
        | Input::Unreachable { .. }
        | Input::PermissionMode { .. }
        | Input::Cost { .. }
        | Input::DescendantCost { .. }
        | Input::Messaged { .. }
        | Input::Due
        | Input::GateEnded { .. }
        | Input::IntentFailed { .. }
        | Input::Steered { .. }
        | Input::Ordered { .. }
        | Input::Adopted { .. }
        | Input::Dismissed { .. }
        | Input::RunsOn { .. }
        | Input::Revived { .. }
        | Input::Decided { .. } => {}
    }
    Ok(())
}

pub(super) fn load(db: &Db, id: &AgentId) -> Result<Option<String>, Trouble> {
    let found = db.row("SELECT record FROM agents WHERE id = ?1", &[(&id.0).into()])?;
    found.map(|mut row| row.text(0)).transpose()
}

pub(super) fn defined(db: &Db, id: &AgentId) -> Result<Option<String>, Trouble> {
    defined_before(db, id, i64::MAX)
}

fn defined_before(db: &Db, id: &AgentId, event: i64) -> Result<Option<String>, Trouble> {
    let sql =
        "SELECT defined FROM events WHERE agent = ?1 AND id < ?2 AND defined IS NOT NULL ORDER BY id DESC LIMIT 1";
    let found = db.row(sql, &[(&id.0).into(), event.into()])?;
    found.map(|mut row| row.text(0)).transpose()
}

fn save(db: &Db, agent: &Agent) -> Result<(), Trouble> {
    let sql = "INSERT INTO agents (id, record) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET record = excluded.record";
    db.change(sql, &[(&agent.id.0).into(), json(agent)?]).map(drop)
}
