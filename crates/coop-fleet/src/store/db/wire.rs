//! A connection to a PostgreSQL server, for callers that wait.
//!
//! The client speaks asynchronously, and a store's owner does not. So a thread of its own serves the connection, whatever
//! runtime the caller may be in.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{error, io};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, Error, NoTls, Statement};

use super::tls::Tls;
use super::{Row, Trouble, Value};
use crate::store::place;

/// How long the server may take to answer: what we ask by the way takes moments, and whoever does not answer is as good as
/// gone. A statement of which nobody knows whether it was done is asked about anew, as after a lost connection.
const LONGEST: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 30 });
/// How long what goes through all that is there may take.
const THOROUGH: Duration = Duration::from_secs(24 * 60 * 60);

/// The thread that serves connections. It ends with this.
#[derive(Debug)]
pub(super) struct Wire {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    limit: Cell<Duration>,
}

/// One connection, and what the server has been taught over it.
pub(super) struct Link {
    client: Arc<Client>,
    statements: HashMap<String, Statement>,
    served: AbortHandle,
}

/// One that waits for an answer would wait on, and its session with it.
impl Drop for Link {
    fn drop(&mut self) {
        self.served.abort();
    }
}

impl Wire {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            // It is never sent: the other end goes.
            let _ = runtime.block_on(stopped);
        };
        let thread = thread::Builder::new().name("postgres".to_owned()).spawn(serve)?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread), limit: Cell::new(LONGEST) })
    }

    pub(super) fn connect(&self, config: &Config) -> Result<Link, Trouble> {
        let mut config = config.clone();
        let (client, served) = self.wait(async move {
            if !place::is_private(&config) {
                config.ssl_mode(SslMode::Disable);
                let (client, connection) = config.connect(NoTls).await?;
                return Ok((client, tokio::spawn(serve(connection)).abort_handle()));
            }
            config.ssl_mode(SslMode::Require);
            let tls = Tls::new().map_err(|error| Trouble::Other(error.to_string()))?;
            let (client, connection) = config.connect(tls).await?;
            Ok((client, tokio::spawn(serve(connection)).abort_handle()))
        })?;
        Ok(Link { client: Arc::new(client), statements: HashMap::new(), served })
    }

    /// Runs statements that take and give nothing.
    pub(super) fn batch(&self, link: &Link, sql: &str) -> Result<(), Trouble> {
        let (client, sql) = (Arc::clone(&link.client), sql.to_owned());
        self.wait(async move { Ok(client.batch_execute(&sql).await?) })
    }

    pub(super) fn rows(&self, link: &mut Link, sql: &str, values: &[Value]) -> Result<Vec<Row>, Trouble> {
        let (client, statement, values) = (Arc::clone(&link.client), self.statement(link, sql)?, values.to_vec());
        self.wait(async move {
            let found = client.query(&statement, &by_reference(&values)).await?;
            found.iter().map(read).collect()
        })
    }

    pub(super) fn change(&self, link: &mut Link, sql: &str, values: &[Value]) -> Result<u64, Trouble> {
        let (client, statement, values) = (Arc::clone(&link.client), self.statement(link, sql)?, values.to_vec());
        self.wait(async move { Ok(client.execute(&statement, &by_reference(&values)).await?) })
    }

    fn statement(&self, link: &mut Link, sql: &str) -> Result<Statement, Trouble> {
        if let Some(statement) = link.statements.get(sql) {
            return Ok(statement.clone());
        }
        // No text in our statements has a question mark.
        let (client, words) = (Arc::clone(&link.client), sql.replace('?', "$"));
        let statement = self.wait(async move { Ok(client.prepare(&words).await?) })?;
        link.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Does what may take long.
    pub(super) fn patiently<T>(&self, work: impl FnOnce() -> T) -> T {
        self.limit.set(THOROUGH);
        let done = work();
        self.limit.set(LONGEST);
        done
    }

    /// Has something done on the thread, and waits for it. If it takes too long, the connection is as good as lost.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Trouble>> + Send + 'static,
    ) -> Result<T, Trouble> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let limit = self.limit.get();
        let late = move |_| Err(Trouble::Lost(format!("the server has not answered for {} s", limit.as_secs())));
        self.handle.spawn(async move { drop(sender.send(timeout(limit, work).await.unwrap_or_else(late))) });
        receiver.recv().unwrap_or_else(|_| Err(Trouble::Other("what serves the connection broke off".to_owned())))
    }
}

async fn serve(connection: impl Future<Output = Result<(), Error>>) {
    if let Err(error) = connection.await {
        tracing::warn!(error = %said(&error), "the connection to the store's server broke");
    }
}

/// Connections are closed before anybody goes on, so that whoever opens the same store next finds it free.
impl Drop for Wire {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn by_reference(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn read(row: &tokio_postgres::Row) -> Result<Row, Trouble> {
    let values = (0..row.len()).map(|at| Ok(row.try_get::<_, Option<Value>>(at)?.unwrap_or(Value::Null)));
    Ok(Row(values.collect::<Result<_, Error>>()?))
}

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut bytes::BytesMut) -> Result<IsNull, Box<dyn error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Number(number) if *kind == Type::INT4 => i32::try_from(*number)?.to_sql(kind, out),
            Self::Number(number) => number.to_sql(kind, out),
            // It is the one character that a text of PostgreSQL's cannot have.
            Self::Text(text) => text.replace('\0', "\u{fffd}").to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT4 | Type::INT8 | Type::TEXT)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn error::Error + Sync + Send>> {
        match *kind {
            Type::BOOL => bool::from_sql(kind, raw).map(|yes| Self::Number(yes.into())),
            Type::INT4 => i32::from_sql(kind, raw).map(|number| Self::Number(number.into())),
            Type::INT8 => i64::from_sql(kind, raw).map(Self::Number),
            _ => String::from_sql(kind, raw).map(Self::Text),
        }
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::BOOL | Type::INT4 | Type::INT8 | Type::TEXT | Type::VARCHAR | Type::NAME)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        let said = said(&error);
        let Some(code) = error.code() else {
            return if is_of_the_line(&error) { Self::Lost(said) } else { Self::Other(said) };
        };
        match code {
            &SqlState::DISK_FULL => Self::Full,
            &SqlState::LOCK_NOT_AVAILABLE => Self::Locked,
            &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => Self::Damaged(said),
            &SqlState::READ_ONLY_SQL_TRANSACTION => Self::Lost(said),
            code if PASSING.iter().any(|class| code.code().starts_with(class)) => Self::Lost(said),
            _ => Self::Other(said),
        }
    }
}

/// Classes of errors that pass, so that what was asked is asked again over a new connection: of the connection (08), a
/// transaction that was rolled back for the sake of another (40), a server that has too little of something (53), and one that
/// somebody stops, or a statement that somebody cancels (57).
const PASSING: [&str; 4] = ["08", "40", "53", "57"];

/// Tells whether it was the connection that failed, and not what was asked over it.
fn is_of_the_line(error: &Error) -> bool {
    let mut source = error::Error::source(error);
    while let Some(cause) = source {
        if cause.is::<io::Error>() {
            return true;
        }
        source = cause.source();
    }
    error.is_closed() || error.to_string().contains("timeout")
}

fn said(error: &Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => match error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}
