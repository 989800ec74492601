//! One file.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, Transaction, TransactionBehavior, params_from_iter};

use super::{PATIENCE, Row, Trouble, Value};
use crate::store::schema;

/// KiB of pages that one who only looks keeps at hand; the writer has SQLite's usual 2 MB.
const LOOKERS_CACHE: i64 = 512;

/// Makes a file for this user only, or one that is there; SQLite gives its other files the mode of this one. What is wrong with
/// the file SQLite says itself.
fn close_to_others(path: &Path) {
    let Ok(file) = OpenOptions::new().create(true).append(true).mode(0o600).open(path) else { return };
    if let Err(error) = file.set_permissions(Permissions::from_mode(0o600)) {
        tracing::warn!(path = %path.display(), %error, "other users may be able to read the store");
    }
    for other in ["-wal", "-shm"] {
        // The last time it was closed they were removed.
        let _ = fs::set_permissions(format!("{}{other}", path.display()), Permissions::from_mode(0o600));
    }
}

#[derive(Debug)]
pub(in crate::store) struct Sqlite {
    pub(in crate::store) db: Connection,
}

impl Sqlite {
    /// Opens a file to write in it, or makes it.
    pub(in crate::store) fn open(path: &Path) -> Result<Self, Trouble> {
        close_to_others(path);
        let db = Connection::open(path)?;
        db.busy_timeout(PATIENCE)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        Ok(Self { db })
    }

    /// Opens a file that is there, to look at it only. Whoever looks does not wait for whoever writes.
    pub(in crate::store) fn look(path: &Path) -> Result<Self, Trouble> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(PATIENCE)?;
        db.pragma_update(None, "cache_size", -LOOKERS_CACHE)?;
        Ok(Self { db })
    }

    pub(in crate::store) fn set_patience(&self, patience: Duration) -> Result<(), Trouble> {
        // SQLite counts the milliseconds in 31 bits.
        let most = Duration::from_millis(i32::MAX.unsigned_abs().into());
        Ok(self.db.busy_timeout(patience.min(most))?)
    }

    pub(in crate::store) fn check(&self) -> Result<(), Trouble> {
        let said: String = self.db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if said == "ok" { Ok(()) } else { Err(Trouble::Damaged(said)) }
    }

    pub(in crate::store) fn back_up(&self, to: &Path) -> Result<(), Trouble> {
        // All that was said is in it. SQLite writes into a file that is there only if it is empty.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
        made.map_err(|error| Trouble::Other(format!("cannot make it: {error}")))?;
        self.db.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
        Ok(())
    }

    /// Returns the format of the file.
    pub(in crate::store) fn format(&self) -> Result<u32, Trouble> {
        Ok(self.db.query_row("PRAGMA user_version", [], |row| row.get(0))?)
    }

    pub(in crate::store) fn migrate(&self, found: u32) -> Result<(), Trouble> {
        self.within(|| {
            for migration in &schema::SQLITE[found as usize..] {
                self.db.execute_batch(migration)?;
            }
            Ok(self.db.pragma_update(None, "user_version", schema::KNOWN)?)
        })
    }

    /// Returns how many bytes its pages take.
    pub(in crate::store) fn size(&self) -> Result<u64, Trouble> {
        let pragma = |name: &str| self.db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
        Ok(pragma("page_count")?.unsigned_abs() * pragma("page_size")?.unsigned_abs())
    }

    pub(super) fn rows(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Trouble> {
        let mut statement = self.db.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut found = statement.query(params_from_iter(values))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let values = (0..columns).map(|at| read(row.get_ref(at)?)).collect::<Result<_, Trouble>>()?;
            rows.push(Row(values));
        }
        Ok(rows)
    }

    pub(super) fn change(&self, sql: &str, values: &[Value]) -> Result<u64, Trouble> {
        Ok(self.db.prepare_cached(sql)?.execute(params_from_iter(values))? as u64)
    }

    pub(super) fn within<T>(&self, act: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
        let tx = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate)?;
        let value = act()?;
        tx.commit()?;
        Ok(value)
    }

    pub(super) fn begin_looking(&self) -> Result<(), Trouble> {
        Ok(self.db.execute_batch("BEGIN")?)
    }

    /// Nothing was written, so it does not matter how it ends.
    pub(super) fn end_looking(&self) {
        if let Err(error) = self.db.execute_batch("ROLLBACK") {
            tracing::debug!(%error, "a look at the store did not end well");
        }
    }
}

fn read(value: ValueRef<'_>) -> Result<Value, Trouble> {
    match value {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(number) => Ok(Value::Number(number)),
        ValueRef::Text(text) => String::from_utf8(text.to_vec())
            .map(Value::Text)
            .map_err(|_| Trouble::Damaged("a text is not UTF-8".to_owned())),
        ValueRef::Real(_) | ValueRef::Blob(_) => Err(Trouble::Damaged("a value is of no kind of ours".to_owned())),
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(source.to_string()),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            _ => Self::Other(source.to_string()),
        }
    }
}
