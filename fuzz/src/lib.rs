//! What is fuzzed. Each function takes any bytes and panics where a promise is broken. `make fuzz` runs them under libFuzzer,
//! guided by coverage, for hours; `make test` runs them on inputs made from a fixed seed.
#![expect(clippy::expect_used, reason = "a fuzz target fails by panicking")]

mod requests;
mod screen;
mod shell;

pub use self::requests::fuzz_requests;
pub use self::screen::fuzz_screen;
pub use self::shell::{fuzz_shell, has_bash};
