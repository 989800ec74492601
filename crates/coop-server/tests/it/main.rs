//! The server's tests in one binary.
mod generated;
