//! What happened, and what was done about it, to be looked at.

use std::collections::BTreeMap;

use coop_api::{AgentId, AgentState, Event, EventBody, Lifecycle, Seq};
use serde::Serialize;

use super::db::{Db, Row, Trouble, Value, parse};
use super::{Store, StoreError};
use crate::engine::{Input, Intent, Timestamp};

/// Events that are read at a time by one who looks for the last of a kind.
const PAGE: usize = 64;

/// Something that happened, with its number among all that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Its number; it only grows.
    pub id: u64,
    /// To which agent.
    pub agent: AgentId,
    /// When it was heard.
    pub at: Timestamp,
    /// What it means to the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// What the sidecar said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Box<Event>>,
}

/// Something that is to be done or was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deed {
    /// What.
    #[serde(flatten)]
    pub intent: Intent,
    /// What became of it: `pending`, `claimed`, `done`, `failed`, `overtaken` or `unsure`.
    pub state: String,
    /// Why, if it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The number of what it follows from.
    pub cause: u64,
    /// When it last changed.
    pub changed: Timestamp,
}

impl Store {
    /// Returns what happened after a number, so many at most; to one agent or to all.
    pub fn log(&self, agent: Option<&AgentId>, after: u64, most: u32) -> Result<Vec<Entry>, StoreError> {
        let (after, most) = (Value::from(after), Value::Number(most.into()));
        let page = |db: &Db| match agent {
            Some(agent) => {
                let sql = "SELECT id, agent, at, input, event FROM events WHERE id > ?1 AND agent = ?3 \
                           AND defined IS NULL ORDER BY id LIMIT ?2";
                db.rows(sql, &[after, most, (&agent.0).into()])
            }
            None => {
                let sql = "SELECT id, agent, at, input, event FROM events WHERE id > ?1 AND defined IS NULL \
                           ORDER BY id LIMIT ?2";
                db.rows(sql, &[after, most])
            }
        };
        self.read(|db| page(db)?.iter_mut().map(entry).collect())
    }

    /// Returns what was to be done for an agent, in order.
    pub fn deeds(&self, agent: &AgentId) -> Result<Vec<Deed>, StoreError> {
        let sql = "SELECT intent, state, note, cause, changed FROM intents WHERE agent = ?1 ORDER BY cause, rowid";
        self.read(|db| db.rows(sql, &[(&agent.0).into()])?.iter_mut().map(deed).collect())
    }

    /// Returns the sidecar that last told something of an agent, and how much of it is here.
    pub fn last_told(&self, agent: &AgentId) -> Result<Option<(String, Seq)>, StoreError> {
        let sql = "SELECT sidecar FROM events WHERE agent = ?1 AND sidecar IS NOT NULL ORDER BY id DESC LIMIT 1";
        let found = self.read(|db| db.texts(sql, &[(&agent.0).into()]))?;
        found.into_iter().next().map(|sidecar| Ok((sidecar.clone(), self.cursor(agent, &sidecar)?))).transpose()
    }

    /// Returns the conversation that an agent had last, by which it can be resumed.
    pub fn conversation(&self, agent: &AgentId) -> Result<Option<String>, StoreError> {
        // The pattern only spares reading the rest; what it finds is looked at.
        let sql = "SELECT id, input, event FROM events WHERE agent = ?1 AND id < ?2 AND event LIKE '%\"session\"%' \
                   ORDER BY id DESC LIMIT ?3";
        self.read(|db| {
            latest(db, sql, agent, |_, event| match event?.body {
                EventBody::Lifecycle(Lifecycle::Session { id }) => Some(id),
                _ => None,
            })
        })
    }

    /// Returns when the last thing happened that is here.
    pub fn last_moment(&self) -> Result<Timestamp, StoreError> {
        self.read(|db| db.number("SELECT at FROM events ORDER BY id DESC LIMIT 1", &[])).map(Timestamp)
    }

    /// Returns when something was last heard of an agent.
    pub fn last_heard(&self, agent: &AgentId) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT at FROM events WHERE agent = ?1 ORDER BY id DESC LIMIT 1";
        let last = self.read(|db| db.row(sql, &[(&agent.0).into()])?.map(|mut row| row.number(0)).transpose())?;
        Ok(last.map(|at| Timestamp(at.unsigned_abs())))
    }

    /// Returns when the last process of an agent was gone.
    pub fn gone_at(&self, agent: &AgentId) -> Result<Option<Timestamp>, StoreError> {
        let sql =
            "SELECT at FROM events WHERE agent = ?1 AND input LIKE '{\"what\":\"gone\"%' ORDER BY id DESC LIMIT 1";
        let last = self.read(|db| db.row(sql, &[(&agent.0).into()])?.map(|mut row| row.number(0)).transpose())?;
        Ok(last.map(|at| Timestamp(at.unsigned_abs())))
    }

    /// Returns the state that an agent's last sidecar told of last; nothing if it has told of none.
    pub fn last_state(&self, agent: &AgentId) -> Result<Option<AgentState>, StoreError> {
        let sql = "SELECT id, input, event FROM events WHERE agent = ?1 AND id < ?2 \
                   AND (input LIKE '%\"spawned\"%' OR event LIKE '%\"state\"%') ORDER BY id DESC LIMIT ?3";
        let state = |input: Option<Input>, event: Option<Event>| match (event.map(|event| event.body), input) {
            (Some(EventBody::State(change)), _) => Some(Some(change.next)),
            (_, Some(Input::Spawned { .. })) => Some(None),
            _ => None,
        };
        self.read(|db| latest(db, sql, agent, state)).map(Option::flatten)
    }

    /// Returns how many events are kept.
    pub fn count(&self) -> Result<u64, StoreError> {
        self.read(|db| db.number("SELECT count(*) FROM events WHERE defined IS NULL", &[]))
    }

    /// Returns how many intents are in each state.
    pub fn intent_counts(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let sql = "SELECT state, count(*) FROM intents GROUP BY state";
        let count = |row: &mut Row| Ok((row.text(0)?, row.number(1)?.unsigned_abs()));
        self.read(|db| db.rows(sql, &[])?.iter_mut().map(count).collect())
    }

    /// Returns how many bytes it takes.
    pub fn size(&self) -> Result<u64, StoreError> {
        self.read(|db| match db {
            Db::Sqlite(db) => db.size(),
            #[cfg(feature = "postgres")]
            Db::Postgres(db) => db.size(),
        })
    }

    /// Returns the number of the last thing that is here.
    pub fn newest(&self) -> Result<u64, StoreError> {
        self.read(|db| db.number("SELECT max(id) FROM events", &[]))
    }
}

/// Goes back through an agent's events until one is it.
fn latest<T>(
    db: &Db,
    sql: &str,
    agent: &AgentId,
    is_it: impl Fn(Option<Input>, Option<Event>) -> Option<T>,
) -> Result<Option<T>, Trouble> {
    let mut before = i64::MAX;
    loop {
        let mut page = db.rows(sql, &[(&agent.0).into(), before.into(), Value::Number(PAGE as i64)])?;
        for row in &mut page {
            before = row.number(0)?;
            let input = row.maybe_text(1)?.map(|text| parse(&text)).transpose()?;
            let event = row.maybe_text(2)?.map(|text| parse(&text)).transpose()?;
            if let Some(found) = is_it(input, event) {
                return Ok(Some(found));
            }
        }
        if page.len() < PAGE {
            return Ok(None);
        }
    }
}

fn entry(row: &mut Row) -> Result<Entry, Trouble> {
    Ok(Entry {
        id: row.number(0)?.unsigned_abs(),
        agent: AgentId(row.text(1)?),
        at: Timestamp(row.number(2)?.unsigned_abs()),
        input: row.maybe_text(3)?.map(|text| parse(&text)).transpose()?,
        event: row.maybe_text(4)?.map(|text| parse(&text)).transpose()?,
    })
}

fn deed(row: &mut Row) -> Result<Deed, Trouble> {
    Ok(Deed {
        intent: parse(&row.text(0)?)?,
        state: row.text(1)?,
        note: row.maybe_text(2)?,
        cause: row.number(3)?.unsigned_abs(),
        changed: Timestamp(row.number(4)?.unsigned_abs()),
    })
}
