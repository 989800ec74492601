//! The binary's tests, in one binary of their own.
mod attach;
mod bridge;
mod cli;
mod repository;
mod sidecar;
mod tool;
