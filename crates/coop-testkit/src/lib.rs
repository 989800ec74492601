//! What the tests of several crates share. Nothing of it is in the program.
#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod postgres;
mod skip;

pub use self::postgres::PostgresServer;
pub use self::skip::{has_user_namespaces, real_agent, skip};
