//! A session with a PostgreSQL server: begun, lost, begun again.
//!
//! One daemon writes, by a lock of its session. When the connection breaks it is made anew, and nothing is done twice:
//!
//! ```text
//! lost ─► connect ─► the lock again ─► is the number of my last write there? ─ yes ─► it was done
//!           ▲  later and later            the token, and it is mine          └ no ──► it begins anew
//!           └──────────────┘              └ another's ─► I am not the one any more
//! ```
//!
//! Whoever has the lock knows that its earlier session is over, so what that had begun is done or is not, for good.

use std::fs;
use std::time::{Duration, Instant};

use super::postgres::Postgres;
use super::{PATIENCE, Trouble};
use crate::store::schema;

/// Pauses between tries grow from one to the other.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What the lock is known by: "coop", and the schema that the tables are in.
const KEY: &str = "1668247408, to_regnamespace(quote_ident(current_schema()))::oid::integer";

impl Postgres {
    pub(super) fn connect(&self) -> Result<(), Trouble> {
        let link = self.wire.connect(&self.config)?;
        let patience = PATIENCE.as_millis();
        self.wire.batch(
            &link,
            &format!(
                "SET lock_timeout = {patience}; SET statement_timeout = 0; SELECT set_config('synchronous_commit', 'on', false) \
                 WHERE current_setting('synchronous_commit') = 'off'"
            ),
        )?;
        *self.link.borrow_mut() = Some(link);
        Ok(())
    }

    /// Makes the connection anew, however long that takes, and is the one that writes again.
    pub(super) fn rejoin(&self, why: String) -> Result<(), Trouble> {
        tracing::warn!(why, "the store's server went away; it is tried again");
        let (mut why, mut pause) = (why, FIRST_PAUSE);
        let begin = Instant::now();
        self.is_within.set(true);
        let back = loop {
            self.pulse.lost(&why);
            if !self.pulse.pause(pause) {
                break Err(Trouble::Lost(format!("{why}; it was given up")));
            }
            match self.connect().and_then(|()| self.lock()).and_then(|()| self.recognise()) {
                Err(Trouble::Lost(still)) => why = still,
                back => break back,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        self.is_within.set(false);
        self.pulse.found();
        back?;
        tracing::info!(after = ?begin.elapsed(), "the store's server is back");
        Ok(())
    }

    /// Takes the lock. An earlier session of ours that the server still holds open is ended for it.
    pub(super) fn lock(&self) -> Result<(), Trouble> {
        let sql = format!("SELECT pg_try_advisory_lock({KEY})");
        let begin = Instant::now();
        loop {
            if self.number(&sql)? == 1 {
                let sql = "SELECT pid, extract(epoch FROM backend_start)::text FROM pg_stat_activity \
                           WHERE pid = pg_backend_pid()";
                let mut rows = self.rows(sql, &[])?;
                let row = rows.first_mut().ok_or_else(|| Trouble::Other("it does not know our session".to_owned()))?;
                let session = (row.number(0)?, row.text(1)?);
                if let Some(writer) = &mut *self.writer.borrow_mut() {
                    writer.session = session;
                }
                return Ok(());
            }
            let (pid, began) = self.writer.borrow().as_ref().map(|writer| writer.session.clone()).unwrap_or_default();
            let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks JOIN pg_stat_activity USING (pid) \
                       WHERE locktype = 'advisory' AND granted AND classid = 1668247408 AND pid = ?1 \
                       AND extract(epoch FROM backend_start)::text = ?2";
            self.rows(sql, &[pid.into(), began.into()])?;
            if begin.elapsed() > PATIENCE {
                return Err(Trouble::Taken(self.holder()));
            }
            if !self.pulse.pause(FIRST_PAUSE) {
                return Err(Trouble::Lost("it was given up".to_owned()));
            }
        }
    }

    /// Looks whether nobody else has written since. Who has would know of agents what we do not.
    fn recognise(&self) -> Result<(), Trouble> {
        let token = self.writer.borrow().as_ref().map(|writer| writer.token.clone()).unwrap_or_default();
        if token.is_empty() || self.text("SELECT token FROM writer")? == token {
            return Ok(());
        }
        Err(Trouble::Taken(self.holder()))
    }

    /// Writes down who we are.
    pub(super) fn enrol(&self) -> Result<(), Trouble> {
        self.batch(schema::WRITER)?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let holder = format!("the coop of process {} on {}", std::process::id(), host.trim());
        let sql = "INSERT INTO writer (token, holder, number) VALUES (gen_random_uuid()::text, ?1, 0) \
                   ON CONFLICT (one) DO UPDATE SET token = excluded.token, holder = excluded.holder \
                   RETURNING token, number";
        let mut rows = self.rows(sql, &[holder.into()])?;
        let row = rows.first_mut().ok_or_else(|| Trouble::Damaged("nobody can be its writer".to_owned()))?;
        if let Some(writer) = &mut *self.writer.borrow_mut() {
            writer.token = row.text(0)?;
            writer.number = row.number(1)?.unsigned_abs();
        }
        Ok(())
    }

    pub(super) fn holder(&self) -> String {
        let told = self.text("SELECT holder FROM writer");
        told.unwrap_or_else(|_| "another program".to_owned())
    }
}
