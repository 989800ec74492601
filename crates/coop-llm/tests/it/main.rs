//! The crate from outside: providers over a transport in memory with the clock paused, and over HTTP to a fake model.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "the whole crate is tests")]

mod canned;
mod conversation;
mod example;
#[cfg(feature = "mcp")]
mod mcp;
mod retry;
mod sim;
mod stream;
mod tools;

/// A file that is not in the list above would not be run.
#[test]
fn no_file_is_forgotten() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = std::fs::read_to_string(here.join("main.rs")).unwrap();
    for file in std::fs::read_dir(&here).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(module == "main" || main.contains(&format!("mod {module};")), "{name} is not in main.rs");
    }
}
