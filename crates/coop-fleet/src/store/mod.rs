//! What is remembered: one SQLite file, or one database of a PostgreSQL server.
//!
//! `events` is all that happened, and is only added to. `agents` and `asks` follow from it and can be made anew. `intents`
//! is what is to be done: a row is written together with the event that it follows from, before anything is done, under a
//! name that the same events always give. So nothing is done that is not written down, and nothing twice.
//!
//! ```text
//! pending ─claim─► claimed ─finish─► done | failed | overtaken
//!    ▲                │ killed in between
//!    └─ repeatable ───┴─ else ─► unsure, and a person is called
//! ```
//!
//! Writes are on the disk when a call returns (`synchronous = FULL`): what is claimed stays claimed.

mod db;
mod defined;
mod error;
mod intents;
mod log;
mod place;
mod pulse;
mod quota;
mod record;
mod runs;
mod schema;
mod search;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod tests;

use std::path::Path;
use std::time::Duration;

use coop_api::{AgentId, Seq};

#[cfg(feature = "postgres")]
use self::db::Postgres;
use self::db::{Db, Sqlite, Trouble};
pub use self::defined::Defined;
pub use self::error::StoreError;
pub use self::intents::Decided;
pub use self::log::{Deed, Entry};
pub use self::place::{Place, PlaceError};
pub use self::pulse::{Condition, Pulse};
use self::quota::Quota;
pub use self::runs::Run;
pub use self::search::Quotes;
use crate::engine::{Agent, Timestamp};
use crate::sidecar::launcher::RunOwner;

/// A store that is open. One owner has it; others have one of their own, to look.
#[derive(Debug)]
pub struct Store {
    db: Db,
    place: Place,
    pulse: Pulse,
    quota: Quota,
}

/// Writes a whole copy of a file, also while somebody has it open; to a file that is not there yet.
pub fn back_up(path: &Path, to: &Path) -> Result<(), StoreError> {
    let db = Sqlite::look(path).map_err(|trouble| StoreError::of(&path.into(), trouble))?;
    db.back_up(to).map_err(|trouble| StoreError::of(&to.into(), trouble))
}

/// Checks that a store is whole, also while somebody has it open.
pub fn check(place: &Place) -> Result<(), StoreError> {
    Store::look(place)?.check()
}

impl Store {
    /// Opens a store to write in it, makes it if need be, and checks that all of it is whole.
    pub fn open(place: &Place) -> Result<Self, StoreError> {
        let (pulse, found) = (Pulse::default(), StoreError::of);
        let db = match place {
            Place::File(path) => Sqlite::open(path).map(Db::Sqlite),
            #[cfg(feature = "postgres")]
            Place::Server(config) => Postgres::open(config, pulse.clone()).map(Box::new).map(Db::Postgres),
        };
        let store = Self {
            db: db.map_err(|trouble| found(place, trouble))?,
            place: place.clone(),
            pulse,
            quota: Quota::default(),
        };
        if matches!(store.db, Db::Sqlite(_)) {
            store.check()?;
        }
        store.migrate()?;
        Ok(store)
    }

    /// Opens a store that is there, to look at it only, beside whoever writes.
    pub fn look(place: &Place) -> Result<Self, StoreError> {
        let db = match place {
            Place::File(path) => Sqlite::look(path).map(Db::Sqlite),
            #[cfg(feature = "postgres")]
            Place::Server(config) => Postgres::look(config).map(Box::new).map(Db::Postgres),
        };
        let db = db.map_err(|trouble| StoreError::of(place, trouble))?;
        Ok(Self { db, place: place.clone(), pulse: Pulse::default(), quota: Quota::default() })
    }

    /// Sets how long another program may have the file locked. A server has limits of its own.
    pub fn set_patience(&self, patience: Duration) -> Result<(), StoreError> {
        match &self.db {
            Db::Sqlite(db) => db.set_patience(patience).map_err(|trouble| self.error(trouble)),
            #[cfg(feature = "postgres")]
            Db::Postgres(_) => Ok(()),
        }
    }

    /// Returns where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns what tells how it is.
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Looks at everything as it is at one moment, whatever is written meanwhile.
    pub fn at_once<T>(&self, look: impl FnOnce(&Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let seen = self.db.at_once(|| look(self).map_err(Seen::Store));
        seen.map_err(|error| match error {
            Seen::Store(error) => error,
            Seen::Trouble(trouble) => self.error(trouble),
        })
    }

    fn check(&self) -> Result<(), StoreError> {
        let checked = match &self.db {
            Db::Sqlite(db) => db.check(),
            #[cfg(feature = "postgres")]
            Db::Postgres(db) => self.db.at_once(|| db.check()),
        };
        checked.map_err(|trouble| self.error(trouble))
    }

    fn migrate(&self) -> Result<(), StoreError> {
        let found = match &self.db {
            Db::Sqlite(db) => db.format(),
            #[cfg(feature = "postgres")]
            Db::Postgres(db) => db.format(),
        };
        let found = found.map_err(|trouble| self.error(trouble))?;
        if found > schema::KNOWN {
            return Err(StoreError::Newer { place: self.place.clone(), found, known: schema::KNOWN });
        }
        let migrated = match &self.db {
            Db::Sqlite(db) => db.migrate(found),
            #[cfg(feature = "postgres")]
            Db::Postgres(db) => db.migrate(found),
        };
        migrated.map_err(|trouble| self.error(trouble))
    }

    /// Returns what is known of an agent.
    pub fn agent(&self, id: &AgentId) -> Result<Option<Agent>, StoreError> {
        self.read(|db| record::load(db, id)?.map(|text| db::parse(&text)).transpose())
    }

    /// Returns all agents, in the order of their ids.
    pub fn agents(&self) -> Result<Vec<Agent>, StoreError> {
        self.read(|db| {
            let found = db.texts("SELECT record FROM agents ORDER BY id", &[])?;
            found.iter().map(|text| db::parse(text)).collect()
        })
    }

    /// Returns how much of what a sidecar tells is here.
    pub fn cursor(&self, agent: &AgentId, sidecar: &str) -> Result<Seq, StoreError> {
        let sql = "SELECT max(seq) FROM events WHERE agent = ?1 AND sidecar = ?2";
        self.read(|db| db.number(sql, &[(&agent.0).into(), sidecar.into()])).map(Seq)
    }

    /// Returns where an agent's rules come from.
    pub fn defined(&self, agent: &AgentId) -> Result<Option<Defined>, StoreError> {
        self.read(|db| record::defined(db, agent)?.map(|text| db::parse(&text)).transpose())
    }

    /// Returns who decides whether an agent runs.
    pub fn run_owner(&self, agent: &AgentId) -> Result<RunOwner, StoreError> {
        Ok(self.defined(agent)?.map(|defined| defined.run_owner).unwrap_or_default())
    }

    /// Forgets agents that are over and that nothing happened to since a moment, each with all that is known of it.
    pub fn forget(&mut self, before: Timestamp) -> Result<Vec<AgentId>, StoreError> {
        let mut over: Vec<AgentId> = Vec::new();
        for agent in self.agents()? {
            let sql = "SELECT max(at) FROM events WHERE agent = ?1";
            let last = self.read(|db| db.number(sql, &[(&agent.id.0).into()]))?;
            if agent.outcome.is_some() && last < before.0 {
                over.push(agent.id);
            }
        }
        self.within(|db| {
            for agent in &over {
                let of_it = [(&agent.0).into()];
                let sql =
                    "INSERT INTO forgotten SELECT max(id) FROM events WHERE agent = ?1 HAVING max(id) IS NOT NULL";
                db.change(sql, &of_it)?;
                for table in ["events", "intents", "asks"] {
                    db.change(&format!("DELETE FROM {table} WHERE agent = ?1"), &of_it)?;
                }
                db.change("DELETE FROM agents WHERE id = ?1", &of_it)?;
            }
            Ok(())
        })?;
        Ok(over)
    }

    /// Returns the number of the last event that is gone with an agent that was forgotten.
    pub fn forgotten(&self) -> Result<u64, StoreError> {
        self.read(|db| db.number("SELECT max(through) FROM forgotten", &[]))
    }

    /// Does all or nothing.
    fn within<T>(&mut self, act: impl Fn(&Db) -> Result<T, Trouble>) -> Result<T, StoreError> {
        self.pulse.during(|| self.db.within(act)).map_err(|trouble| self.error(trouble))
    }

    fn read<T>(&self, read: impl FnOnce(&Db) -> Result<T, Trouble>) -> Result<T, StoreError> {
        read(&self.db).map_err(|trouble| self.error(trouble))
    }

    fn error(&self, trouble: Trouble) -> StoreError {
        StoreError::of(&self.place, trouble)
    }
}

/// Why a look failed: by what was looked for, or before that.
enum Seen {
    Store(StoreError),
    Trouble(Trouble),
}

impl From<Trouble> for Seen {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}
