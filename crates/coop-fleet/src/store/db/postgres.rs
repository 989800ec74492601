//! A database of a PostgreSQL server.

use std::cell::{Cell, RefCell};
use std::fmt;

use tokio_postgres::Config;

use super::wire::{Link, Wire};
use super::{Row, Trouble, Value};
use crate::store::pulse::Pulse;
use crate::store::schema;

const TABLES: [&str; 5] = ["events", "intents", "agents", "asks", "forgotten"];

pub(in crate::store) struct Postgres {
    pub(super) config: Config,
    pub(super) wire: Wire,
    pub(super) pulse: Pulse,
    pub(super) link: RefCell<Option<Link>>,
    pub(super) is_within: Cell<bool>,
    /// Nothing for one who only looks.
    pub(super) writer: RefCell<Option<Writer>>,
}

/// Who we are to the server.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// The name of this daemon, which no other has had.
    pub(super) token: String,
    /// The number of the last write that is known to be there.
    pub(super) number: u64,
    /// The session that has the lock, or had it: its process, and when that began, because numbers come again.
    pub(super) session: (i64, String),
}

impl Postgres {
    /// Becomes the one that writes.
    pub(in crate::store) fn open(config: &Config, pulse: Pulse) -> Result<Self, Trouble> {
        let db = Self::new(config, pulse)?;
        db.connect()?;
        let encoding = db.text("SELECT current_setting('server_encoding')")?;
        if encoding != "UTF8" {
            return Err(Trouble::Other(format!("its encoding is {encoding}, and coop needs UTF8")));
        }
        *db.writer.borrow_mut() = Some(Writer::default());
        db.lock()?;
        Ok(db)
    }

    /// Only looks, and reaches the server when it is first asked something.
    pub(in crate::store) fn look(config: &Config) -> Result<Self, Trouble> {
        Self::new(config, Pulse::default())
    }

    fn new(config: &Config, pulse: Pulse) -> Result<Self, Trouble> {
        let wire = Wire::start().map_err(|error| Trouble::Other(error.to_string()))?;
        let (link, writer) = (RefCell::new(None), RefCell::new(None));
        Ok(Self { config: config.clone(), wire, pulse, link, is_within: Cell::new(false), writer })
    }

    /// Returns the format of the tables that are there, and takes them over if they are of one that is known.
    pub(in crate::store) fn format(&self) -> Result<u32, Trouble> {
        let is_there =
            self.number("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'writer'")?;
        let found = if is_there == 0 { 0 } else { self.number("SELECT format FROM writer")? };
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if found <= schema::KNOWN {
            self.enrol()?;
        }
        Ok(found)
    }

    pub(in crate::store) fn migrate(&self, found: u32) -> Result<(), Trouble> {
        let migrate = || {
            for migration in &schema::POSTGRES[found as usize..] {
                self.batch(migration)?;
            }
            self.change("UPDATE writer SET format = ?1", &[Value::Number(schema::KNOWN.into())]).map(drop)
        };
        self.wire.patiently(|| self.within(migrate))
    }

    /// Has the server read every value that is there.
    pub(in crate::store) fn check(&self) -> Result<(), Trouble> {
        self.wire.patiently(|| {
            TABLES.iter().try_for_each(|table| {
                let sql = "SELECT count(*) + coalesce(sum(length(t::text)), 0)::bigint * 0 FROM";
                self.number(&format!("{sql} {table} t")).map(drop)
            })
        })
    }

    /// Returns how many bytes the tables take.
    pub(in crate::store) fn size(&self) -> Result<u64, Trouble> {
        let sizes: Vec<_> = TABLES.iter().map(|table| format!("pg_total_relation_size('{table}')")).collect();
        self.number(&format!("SELECT {}", sizes.join(" + ")))
    }

    pub(super) fn rows(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Trouble> {
        self.over(|link| self.wire.rows(link, sql, values))
    }

    pub(super) fn change(&self, sql: &str, values: &[Value]) -> Result<u64, Trouble> {
        self.over(|link| self.wire.change(link, sql, values))
    }

    pub(super) fn batch(&self, sql: &str) -> Result<(), Trouble> {
        self.over(|link| self.wire.batch(link, sql))
    }

    /// Asks something over the connection. What is part of a whole is not asked again by itself.
    fn over<T>(&self, ask: impl Fn(&mut Link) -> Result<T, Trouble>) -> Result<T, Trouble> {
        loop {
            let answer = match &mut *self.link.borrow_mut() {
                Some(link) => ask(link),
                None => Err(Trouble::Lost("there is no connection".to_owned())),
            };
            match answer {
                Err(Trouble::Lost(why)) => {
                    *self.link.borrow_mut() = None;
                    if self.is_within.get() || self.writer.borrow().is_none() {
                        return Err(Trouble::Lost(why));
                    }
                    self.rejoin(why)?;
                }
                answer => return answer,
            }
        }
    }

    pub(super) fn within<T>(&self, act: impl Fn() -> Result<T, Trouble>) -> Result<T, Trouble> {
        loop {
            let number = self.writer.borrow().as_ref().map_or(0, |writer| writer.number) + 1;
            self.is_within.set(true);
            let (value, done) = self.attempt(number, &act);
            self.is_within.set(false);
            match (value, done) {
                (Some(value), Ok(())) => return Ok(self.counted(number, value)),
                (value, Err(Trouble::Lost(why))) => {
                    self.rejoin(why)?;
                    if let Some(value) = value
                        && self.number("SELECT number FROM writer")? == number
                    {
                        return Ok(self.counted(number, value));
                    }
                }
                (_, done) => {
                    // An error has ended it on the server already; this only says that we know.
                    self.batch("ROLLBACK")?;
                    done?;
                }
            }
        }
    }

    /// Tries once. There is a value if all was said and only the answer to the last word is missing.
    fn attempt<T>(&self, number: u64, act: &impl Fn() -> Result<T, Trouble>) -> (Option<T>, Result<(), Trouble>) {
        let acted = || {
            self.batch("BEGIN")?;
            let value = act()?;
            let token = self.writer.borrow().as_ref().map(|writer| writer.token.clone()).unwrap_or_default();
            let sql = "UPDATE writer SET number = ?1 WHERE token = ?2";
            if self.change(sql, &[number.into(), token.into()])? == 0 {
                return Err(Trouble::Taken(self.holder()));
            }
            Ok(value)
        };
        match acted() {
            Ok(value) => (Some(value), self.batch("COMMIT")),
            Err(trouble) => (None, Err(trouble)),
        }
    }

    fn counted<T>(&self, number: u64, value: T) -> T {
        if let Some(writer) = &mut *self.writer.borrow_mut() {
            writer.number = number;
        }
        value
    }

    pub(super) fn begin_looking(&self) -> Result<(), Trouble> {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        // The connection may have broken since somebody looked last; then it is made anew, once.
        if self.link.borrow().is_some() {
            match self.batch(BEGIN) {
                Err(Trouble::Lost(_)) => {}
                begun => return begun,
            }
        }
        self.connect()?;
        self.batch(BEGIN)
    }

    pub(super) fn end_looking(&self) {
        if self.batch("ROLLBACK").is_err() {
            *self.link.borrow_mut() = None;
        }
    }

    pub(super) fn number(&self, sql: &str) -> Result<u64, Trouble> {
        let mut rows = self.rows(sql, &[])?;
        Ok(rows.first_mut().map_or(Ok(0), |row| row.number(0))?.unsigned_abs())
    }

    pub(super) fn text(&self, sql: &str) -> Result<String, Trouble> {
        let mut rows = self.rows(sql, &[])?;
        rows.first_mut().map_or_else(|| Ok(String::new()), |row| row.text(0))
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("writer", &self.writer).finish_non_exhaustive()
    }
}
