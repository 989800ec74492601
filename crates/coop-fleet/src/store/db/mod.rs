//! The two places a store can be in, as one: the same statements, with `?1` for values, on SQLite and on PostgreSQL.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod session;
mod sqlite;
#[cfg(feature = "postgres")]
mod tls;
#[cfg(feature = "postgres")]
mod wire;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "postgres")]
pub(super) use self::postgres::Postgres;
pub(super) use self::sqlite::Sqlite;

/// How long somebody else may keep what we need.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// An open way to a store.
#[derive(Debug)]
pub(super) enum Db {
    Sqlite(Sqlite),
    #[cfg(feature = "postgres")]
    Postgres(Box<Postgres>),
}

/// What goes in and what comes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Number(i64),
    Text(String),
}

/// What one statement found, in the order of its columns.
#[derive(Debug)]
pub(super) struct Row(Vec<Value>);

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("there is no room")]
    Full,
    #[error("{0}")]
    Damaged(String),
    #[error("somebody else has it locked")]
    Locked,
    /// Another daemon is the one that writes.
    #[error("it is used by {0}")]
    Taken(String),
    /// The server cannot be reached, or went away meanwhile.
    #[error("{0}")]
    Lost(String),
    #[error("{0}")]
    Other(String),
}

impl Db {
    /// Returns what a statement finds.
    pub(super) fn rows(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Trouble> {
        match self {
            Self::Sqlite(db) => db.rows(sql, values),
            #[cfg(feature = "postgres")]
            Self::Postgres(db) => db.rows(sql, values),
        }
    }

    /// Changes something. Returns how many rows that was.
    pub(super) fn change(&self, sql: &str, values: &[Value]) -> Result<u64, Trouble> {
        match self {
            Self::Sqlite(db) => db.change(sql, values),
            #[cfg(feature = "postgres")]
            Self::Postgres(db) => db.change(sql, values),
        }
    }

    /// Does all or nothing. What is done must be the same if it is done again: where a connection breaks in between,
    /// nothing of it is there, and it begins anew.
    pub(super) fn within<T>(&self, act: impl Fn(&Self) -> Result<T, Trouble>) -> Result<T, Trouble> {
        match self {
            Self::Sqlite(db) => db.within(|| act(self)),
            #[cfg(feature = "postgres")]
            Self::Postgres(db) => db.within(|| act(self)),
        }
    }

    /// Looks at everything as it is at one moment.
    pub(super) fn at_once<T, E: From<Trouble>>(&self, look: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        match self {
            Self::Sqlite(db) => db.begin_looking()?,
            #[cfg(feature = "postgres")]
            Self::Postgres(db) => db.begin_looking()?,
        }
        let seen = look();
        match self {
            Self::Sqlite(db) => db.end_looking(),
            #[cfg(feature = "postgres")]
            Self::Postgres(db) => db.end_looking(),
        }
        seen
    }

    /// Returns the first row, if there is one.
    pub(super) fn row(&self, sql: &str, values: &[Value]) -> Result<Option<Row>, Trouble> {
        Ok(self.rows(sql, values)?.into_iter().next())
    }

    /// Returns the one number that a statement finds; nothing is zero.
    pub(super) fn number(&self, sql: &str, values: &[Value]) -> Result<u64, Trouble> {
        match self.row(sql, values)? {
            Some(mut row) => Ok(row.maybe_number(0)?.unwrap_or(0).unsigned_abs()),
            None => Ok(0),
        }
    }

    /// Returns the first column of all that a statement finds.
    pub(super) fn texts(&self, sql: &str, values: &[Value]) -> Result<Vec<String>, Trouble> {
        self.rows(sql, values)?.iter_mut().map(|row| row.text(0)).collect()
    }
}

impl Row {
    pub(super) fn number(&mut self, at: usize) -> Result<i64, Trouble> {
        self.maybe_number(at)?.ok_or_else(|| odd(at))
    }

    pub(super) fn maybe_number(&mut self, at: usize) -> Result<Option<i64>, Trouble> {
        match self.take(at) {
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(Value::Null) => Ok(None),
            Some(Value::Text(_)) | None => Err(odd(at)),
        }
    }

    pub(super) fn text(&mut self, at: usize) -> Result<String, Trouble> {
        self.maybe_text(at)?.ok_or_else(|| odd(at))
    }

    pub(super) fn maybe_text(&mut self, at: usize) -> Result<Option<String>, Trouble> {
        match self.take(at) {
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::Null) => Ok(None),
            Some(Value::Number(_)) | None => Err(odd(at)),
        }
    }

    /// Each is read once, so that texts need not be copied.
    fn take(&mut self, at: usize) -> Option<Value> {
        self.0.get_mut(at).map(|value| std::mem::replace(value, Value::Null))
    }
}

fn odd(at: usize) -> Trouble {
    Trouble::Damaged(format!("column {at} has no such value"))
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// Stores' numbers have a sign; times and counts of ours never need the half that they lose.
impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

pub(super) fn json(value: &impl Serialize) -> Result<Value, Trouble> {
    serde_json::to_string(value).map(Value::Text).map_err(|wrong| Trouble::Other(wrong.to_string()))
}

pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Trouble> {
    serde_json::from_str(text).map_err(|wrong| Trouble::Damaged(wrong.to_string()))
}
