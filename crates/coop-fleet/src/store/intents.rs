//! What is to be done, once.

use coop_api::{AgentId, Ask};
use rusqlite::OptionalExtension;

use super::record::{parse, record, signed};
use super::{Store, StoreError};
use crate::Fact;
use crate::engine::{Effect, Input, Intent, IntentId, Timestamp};

/// An answer that was given, by whom and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// When, in milliseconds since 1970.
    pub at: Timestamp,
    /// The answer itself: which agent, which ask, by whom, why.
    pub intent: Intent,
    /// What became of it: `pending`, `claimed`, `done`, `failed` or `unsure`.
    pub state: String,
}

impl Store {
    /// Returns what is to be done and nobody has begun, oldest first.
    pub fn pending(&self) -> Result<Vec<Intent>, StoreError> {
        let found = self.texts("SELECT intent FROM intents WHERE state = 'pending' ORDER BY cause, rowid")?;
        found.iter().map(|text| self.read(text)).collect()
    }

    /// Takes an intent to do it. Only the first who asks gets it, also across restarts.
    pub fn claim(&mut self, id: &IntentId, now: Timestamp) -> Result<bool, StoreError> {
        self.within(|tx, _| {
            let sql = "UPDATE intents SET state = 'claimed', changed = ?2 WHERE id = ?1 AND state = 'pending'";
            Ok(tx.execute(sql, (&id.0, signed(now)))? > 0)
        })
    }

    /// Says that it was done.
    pub fn finish(&mut self, id: &IntentId, now: Timestamp) -> Result<(), StoreError> {
        self.within(|tx, _| {
            let sql = "UPDATE intents SET state = 'done', changed = ?2 WHERE id = ?1 AND state = 'claimed'";
            tx.execute(sql, (&id.0, signed(now))).map(drop)
        })
    }

    /// Says that it could not be done. Returns what is to be done about that.
    pub fn fail(&mut self, id: &IntentId, why: &str, now: Timestamp) -> Result<Vec<Intent>, StoreError> {
        self.within(|tx, _| close(tx, id, "failed", why, now))
    }

    /// Sees to what was begun when we were killed. What can be done again is to be done again; of the rest nobody knows
    /// whether it was done, so a person is called.
    pub fn recover(&mut self, now: Timestamp) -> Result<Vec<Intent>, StoreError> {
        let claimed = self.texts("SELECT intent FROM intents WHERE state = 'claimed' ORDER BY cause, rowid")?;
        let claimed: Vec<Intent> = claimed.iter().map(|text| self.read(text)).collect::<Result<_, _>>()?;
        self.within(|tx, _| {
            let mut intents = Vec::new();
            for Intent { id, effect, .. } in &claimed {
                if effect.is_repeatable() {
                    let sql = "UPDATE intents SET state = 'pending', changed = ?2 WHERE id = ?1";
                    tx.execute(sql, (&id.0, signed(now)))?;
                } else {
                    let why = "coop was killed while it was being done; it may have been done or not";
                    intents.extend(close(tx, id, "unsure", why, now)?);
                }
            }
            Ok(intents)
        })
    }

    /// Returns what agents ask, oldest first.
    pub fn open_asks(&self) -> Result<Vec<(AgentId, Ask)>, StoreError> {
        let sql = "SELECT agent, body FROM asks WHERE closed IS NULL ORDER BY opened, rowid";
        let found = || self.db.prepare(sql)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect();
        let found: rusqlite::Result<Vec<(String, String)>> = found();
        let found = found.map_err(|source| self.error(source))?;
        found.into_iter().map(|(agent, ask)| Ok((AgentId(agent), self.read(&ask)?))).collect()
    }

    /// Returns every answer that was decided without a person, oldest first.
    pub fn audit(&self) -> Result<Vec<Decided>, StoreError> {
        let sql = "SELECT changed, intent, state FROM intents ORDER BY cause, rowid";
        let found = || {
            let row = |row: &rusqlite::Row<'_>| {
                let at = Timestamp(row.get::<_, i64>(0)?.unsigned_abs());
                Ok(Decided { at, intent: parse(&row.get::<_, String>(1)?)?, state: row.get(2)? })
            };
            self.db.prepare(sql)?.query_map([], row)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        let mut found = found().map_err(|source| self.error(source))?;
        found.retain(|decided| matches!(decided.intent.effect, Effect::Answer { .. }));
        Ok(found)
    }
}

fn close(
    tx: &rusqlite::Transaction<'_>,
    id: &IntentId,
    state: &str,
    why: &str,
    now: Timestamp,
) -> rusqlite::Result<Vec<Intent>> {
    let sql =
        "UPDATE intents SET state = ?2, note = ?3, changed = ?4 WHERE id = ?1 AND state = 'claimed' RETURNING agent";
    let agent: Option<String> = tx.query_row(sql, (&id.0, state, why, signed(now)), |row| row.get(0)).optional()?;
    let Some(agent) = agent else { return Ok(Vec::new()) };
    let input = Input::IntentFailed { intent: id.clone(), why: why.to_owned() };
    record(tx, &Fact { agent: AgentId(agent), told: None, input: Some(input), event: None }, now)
}
