//! How much of what agents tell is kept.
//!
//! Each agent has so many bytes of events. When it has told more, the oldest messages and uses of tools are removed, until three
//! quarters are left, and an entry in its log says so. What the engine was told stays: asks, answers, states, starts and ends.

use std::collections::HashMap;

use coop_api::AgentId;

use super::db::{Db, Trouble, Value, json};
use super::record::follow;
use super::{Store, StoreError};
use crate::Fact;
use crate::engine::{Input, Timestamp};

/// Months of work of an agent that does not waste it.
const QUOTA: u64 = 256 * 1024 * 1024;
/// Rows that are looked at in one go.
const ROWS: i64 = 256;
/// What may be removed: what means nothing to the engine.
const REMOVABLE: &str = "agent = ?1 AND input IS NULL \
                         AND (event LIKE '%\"kind\":\"tool\"%' OR event LIKE '%\"kind\":\"message\"%')";

/// What the events of each agent take, as far as that was counted.
#[derive(Debug)]
pub(super) struct Quota {
    bytes: HashMap<AgentId, u64>,
    pub(super) most: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Self { bytes: HashMap::new(), most: QUOTA }
    }
}

impl Store {
    /// Counts an event that was just written, and makes room if it is one too many.
    pub(super) fn count_event(&mut self, fact: &Fact, now: Timestamp) -> Result<(), StoreError> {
        let (agent, most) = (&fact.agent, self.quota.most);
        let mut total = match self.quota.bytes.get(agent) {
            Some(total) => total + size(fact),
            // All that is there, with this one.
            None => {
                let sql = "SELECT CAST(SUM(OCTET_LENGTH(event)) AS BIGINT) FROM events WHERE agent = ?1";
                self.read(|db| db.number(sql, &[(&agent.0).into()]))?
            }
        };
        if total > most {
            total = self.within(|db| trim(db, agent, total, most, now))?;
        }
        self.quota.bytes.insert(agent.clone(), total);
        Ok(())
    }
}

/// Removes the oldest of what an agent told. Returns how many bytes are left.
fn trim(db: &Db, agent: &AgentId, total: u64, most: u64, now: Timestamp) -> Result<u64, Trouble> {
    let (mut left, mut removed, mut gone) = (total, 0_u64, 0_i64);
    let rows =
        format!("SELECT id, CAST(OCTET_LENGTH(event) AS BIGINT) FROM events WHERE {REMOVABLE} ORDER BY id LIMIT ?2");
    while left > most / 4 * 3 {
        let mut last = None;
        for row in &mut db.rows(&rows, &[(&agent.0).into(), Value::Number(ROWS)])? {
            last = Some(row.number(0)?);
            left = left.saturating_sub(row.number(1)?.unsigned_abs());
            removed += 1;
            if left <= most / 4 * 3 {
                break;
            }
        }
        let Some(last) = last else { break };
        gone = last;
        let values = [(&agent.0).into(), Value::Number(last)];
        db.change(&format!("DELETE FROM events WHERE {REMOVABLE} AND id <= ?2"), &values)?;
    }
    if removed > 0 {
        // A client with a cursor before it is told that some events are gone.
        db.change("DELETE FROM forgotten WHERE through < ?1", &[gone.into()])?;
        db.change("INSERT INTO forgotten (through) VALUES (?1)", &[gone.into()])?;
        let (freed, most) = ((total - left) >> 10, most >> 10);
        let why =
            format!("the oldest {removed} messages and uses of tools ({freed} KiB): it told more than {most} KiB");
        let input = Input::Trimmed { why };
        let sql = "INSERT INTO events (agent, at, input) VALUES (?1, ?2, ?3) RETURNING id";
        if let Some(mut added) = db.row(sql, &[(&agent.0).into(), now.0.into(), json(&input)?])? {
            follow(db, added.number(0)?, agent, None, &input, now)?;
        }
    }
    Ok(left)
}

fn size(fact: &Fact) -> u64 {
    let event = fact.event.as_ref().and_then(|event| serde_json::to_string(event).ok());
    event.map_or(0, |event| event.len() as u64)
}
