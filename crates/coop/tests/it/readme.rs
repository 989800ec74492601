//! The README's first steps, as they stand there, with the simulated agent.

use std::process::Command;

use crate::tool::{COOP, LIMIT, coop, run, run_within};

/// Ends the daemon, also if a step has failed.
struct Home(tempfile::TempDir);

impl Drop for Home {
    fn drop(&mut self) {
        run(coop(self.0.path()).args(["down", "--kill"]));
    }
}

/// The bug this keeps away: the steps ended while the agent asked again, and who followed them waited for nothing.
#[test]
fn the_first_steps_lead_to_the_end() {
    let text = include_str!("../../../../README.md");
    let steps = text.split_once("From nothing to an answered question").expect("they are there").1;
    let steps: Vec<&str> = steps.split("```").filter_map(|part| part.strip_prefix("sh\n")).take(2).collect();
    let spawn = "--prompt 'Write a test'\n";
    assert!(steps[0].contains(spawn) && steps[1].contains("coop down"), "{steps:?}");
    let script = steps.concat().replace(spawn, "--prompt 'Write a test' -- coop sim claude\n");
    // Short, for the paths of sockets.
    let home = Home(tempfile::Builder::new().prefix("coop-r-").tempdir().expect("a folder"));
    let folder = home.0.path();
    std::fs::create_dir(folder.join("bin")).expect("made");
    std::os::unix::fs::symlink(COOP, folder.join("bin/coop")).expect("linked");
    let mut command = Command::new("sh");
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    command.env_clear().env("PATH", path).env("HOME", folder).env("XDG_RUNTIME_DIR", folder).current_dir(folder);
    let (code, out, err) = run_within(command.args(["-euc", &script]), LIMIT);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(out.matches("was answered").count(), 2, "{out}");
    let written = std::fs::read_to_string(folder.join("coop-demo.md")).expect("it has written");
    assert!(written.contains("[x] done"), "{written}");
    assert_eq!(run(coop(folder).arg("status")).0, 1, "no daemon runs any more");
}
