//! What is remembered: one SQLite file.
//!
//! `events` is all that happened, and is only added to. `agents` and `asks` follow from it and can be made anew. `intents`
//! is what is to be done: a row is written together with the event that it follows from, before anything is done, under a
//! name that the same events always give. So nothing is done that is not written down, and nothing twice.
//!
//! ```text
//! pending ─claim─► claimed ─finish─► done | failed
//!    ▲                │ killed in between
//!    └─ repeatable ───┴─ else ─► unsure, and a person is called
//! ```
//!
//! Writes are on the disk when a call returns (`synchronous = FULL`): what is claimed stays claimed.

mod error;
mod intents;
mod record;
mod schema;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use coop_api::{AgentId, Seq};
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

pub use self::error::StoreError;
pub use self::intents::Decided;
use crate::definition::Definition;
use crate::engine::{Agent, Rules, Timestamp};

/// How long somebody else may keep the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// The file, open. One owner has it.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    path: PathBuf,
}

/// Where an agent's rules come from: the text of a definition, and the name in it. It is kept as text, so that what was
/// decided can be decided again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defined {
    /// The whole file.
    pub text: String,
    /// Which agent in it.
    pub name: String,
    /// Where it works.
    pub folder: String,
}

impl Defined {
    fn rules(&self) -> Option<Rules> {
        let definition = Definition::parse(&self.text).ok()?;
        Some(definition.agents.get(&self.name)?.rules(&definition.policy, &self.folder))
    }
}

impl Store {
    /// Opens the file, makes it if need be, and checks that all of it is whole.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let db = Connection::open(path).map_err(|source| StoreError::of(path, source))?;
        let mut store = Self { db, path: path.to_owned() };
        store.prepare().map_err(|source| store.error(source))?;
        store.check()?;
        store.migrate()?;
        Ok(store)
    }

    fn prepare(&self) -> rusqlite::Result<()> {
        self.db.busy_timeout(PATIENCE)?;
        self.db.pragma_update(None, "journal_mode", "WAL")?;
        self.db.pragma_update(None, "synchronous", "FULL")
    }

    fn check(&self) -> Result<(), StoreError> {
        let said: rusqlite::Result<String> = self.db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0));
        match said.map_err(|source| self.error(source))?.as_str() {
            "ok" => Ok(()),
            detail => Err(StoreError::damaged(&self.path, detail)),
        }
    }

    fn migrate(&mut self) -> Result<(), StoreError> {
        let known = schema::MIGRATIONS.len() as u32;
        let found: u32 = self.ask("PRAGMA user_version")?;
        if found > known {
            return Err(StoreError::Newer { path: self.path.clone(), found, known });
        }
        self.within(|tx, _| {
            for migration in &schema::MIGRATIONS[found as usize..] {
                tx.execute_batch(migration)?;
            }
            tx.pragma_update(None, "user_version", known)
        })
    }

    /// Returns what is known of an agent.
    pub fn agent(&self, id: &AgentId) -> Result<Option<Agent>, StoreError> {
        let found = record::load(&self.db, id).map_err(|source| self.error(source))?;
        found.map(|text| self.read(&text)).transpose()
    }

    /// Returns all agents, in the order of their ids.
    pub fn agents(&self) -> Result<Vec<Agent>, StoreError> {
        self.texts("SELECT record FROM agents ORDER BY id")?.iter().map(|text| self.read(text)).collect()
    }

    /// Returns how much of what a sidecar tells is here.
    pub fn cursor(&self, agent: &AgentId, sidecar: &str) -> Result<Seq, StoreError> {
        let sql = "SELECT max(seq) FROM events WHERE agent = ?1 AND sidecar = ?2";
        let found: rusqlite::Result<Option<i64>> = self.db.query_row(sql, (&agent.0, sidecar), |row| row.get(0));
        Ok(Seq(found.map_err(|source| self.error(source))?.unwrap_or(0).unsigned_abs()))
    }

    /// Returns where an agent's rules come from.
    pub fn defined(&self, agent: &AgentId) -> Result<Option<Defined>, StoreError> {
        let found = record::defined(&self.db, agent).optional().map_err(|source| self.error(source))?;
        found.map(|text| self.read(&text)).transpose()
    }

    /// Forgets agents that are over and that nothing happened to since a moment, each with all that is known of it.
    pub fn forget(&mut self, before: Timestamp) -> Result<Vec<AgentId>, StoreError> {
        let mut over: Vec<AgentId> = Vec::new();
        for agent in self.agents()? {
            let sql = "SELECT max(at) FROM events WHERE agent = ?1";
            let last: rusqlite::Result<i64> = self.db.query_row(sql, [&agent.id.0], |row| row.get(0));
            let last = last.map_err(|source| self.error(source))?;
            if agent.outcome.is_some() && last.unsigned_abs() < before.0 {
                over.push(agent.id);
            }
        }
        self.within(|tx, _| {
            for agent in &over {
                for table in ["events", "intents", "asks"] {
                    tx.execute(&format!("DELETE FROM {table} WHERE agent = ?1"), [&agent.0])?;
                }
                tx.execute("DELETE FROM agents WHERE id = ?1", [&agent.0])?;
            }
            Ok(())
        })?;
        Ok(over)
    }

    /// Writes a whole copy, while the file is in use; to a file that is not there yet.
    pub fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        let copied = self.db.execute("VACUUM INTO ?1", [to.to_string_lossy()]);
        copied.map(drop).map_err(|source| StoreError::of(to, source))
    }

    /// Does all or nothing.
    fn within<T>(
        &mut self,
        act: impl FnOnce(&rusqlite::Transaction<'_>, &Path) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let path = self.path.clone();
        let done = (|| {
            let tx = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let value = act(&tx, &path)?;
            tx.commit()?;
            Ok(value)
        })();
        done.map_err(|source| StoreError::of(&path, source))
    }

    fn ask<T: rusqlite::types::FromSql>(&self, sql: &str) -> Result<T, StoreError> {
        self.db.query_row(sql, [], |row| row.get(0)).map_err(|source| self.error(source))
    }

    fn texts(&self, sql: &str) -> Result<Vec<String>, StoreError> {
        let found = || self.db.prepare(sql)?.query_map([], |row| row.get(0))?.collect();
        let found: rusqlite::Result<Vec<String>> = found();
        found.map_err(|source| self.error(source))
    }

    fn read<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|wrong| StoreError::damaged(&self.path, wrong))
    }

    fn error(&self, source: rusqlite::Error) -> StoreError {
        StoreError::of(&self.path, source)
    }
}
