//! Tests that cannot run on this machine.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

/// Names a file that gets a line for each skipped test: its name, a tab, the reason. `make test` counts the lines at its
/// end, and in CI each must be expected (`.ci/skips`).
const SKIPS_FILE: &str = "COOP_SKIPS";

/// Reports that the running test, or a part of it, is skipped. The caller returns afterwards.
#[expect(clippy::print_stderr, reason = "people who run one test see why it did nothing")]
pub fn skip(reason: &str) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test}: {reason}");
    let Some(path) = env::var_os(SKIPS_FILE) else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("COOP_SKIPS names a file");
    // One write: the processes of many tests append at the same time.
    file.write_all(format!("{test}\t{reason}\n").as_bytes()).expect("the line is written");
}

/// Tells whether a process here may have namespaces of its own with mounts in them, or reports that it may not.
pub fn has_user_namespaces() -> bool {
    let unshared = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"]).output();
    let is_possible = unshared.is_ok_and(|output| output.status.success());
    if !is_possible {
        skip("`unshare --user --mount` is refused; the kernel must allow user namespaces");
    }
    is_possible
}

/// Returns the real program of an agent kind, which `COOP_REAL_CLAUDE` and its like name, or reports that it is skipped.
pub fn real_agent(kind: &str) -> Option<PathBuf> {
    let variable = format!("COOP_REAL_{}", kind.to_uppercase());
    let program = env::var_os(&variable).filter(|path| !path.is_empty());
    if program.is_none() {
        skip(&format!("{variable} names no real {kind}; `make test-real` installs one"));
    }
    program.map(PathBuf::from)
}
