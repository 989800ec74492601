//! Conversations that Gemini CLI would lose.
//!
//! It names their files by the minute in which they were begun. When it loads one it begins a file for it first, and if that
//! has the same name, because the minute is the same, what it writes there empties the conversation for good; then it says
//! "No previous sessions found". So it is not started before that minute is over. So it is by its protocol; in its terminal it
//! goes on with the conversation that it is started with.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use coop_drivers::Known;

use crate::cli::{RuntimeChoice, Serve};

const MINUTE: u64 = 60;
/// As much of a conversation's name as is in that of its file.
const OF_NAME: usize = 8;

/// Waits until an agent can load the conversation that it is to go on with. Whoever starts one waits for this before.
pub(crate) async fn over(options: &Serve) {
    let Some(conversation) = loaded(options) else { return };
    let home = ["GEMINI_CLI_HOME", "HOME"].iter().filter_map(env::var_os).find(|home| !home.is_empty());
    let Some(home) = home else { return };
    let home = PathBuf::from(home);
    let mut now = SystemTime::now();
    // The clock on the wall may be set while we wait by another.
    while is_of_this_minute(&home, conversation, now) {
        tracing::info!("Gemini CLI cannot load a conversation in the minute it is from; it is started in the next");
        tokio::time::sleep(rest(now)).await;
        now = SystemTime::now();
    }
}

/// Returns the conversation that Gemini CLI is to load by its protocol, whichever name it is run by.
fn loaded(options: &Serve) -> Option<&str> {
    let words: Vec<_> = options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let runs_it = || Known::of_command(&words).is_some_and(|(known, _)| known.name == "gemini");
    let is_by_protocol = options.agent == "acp" || options.runtime == Some(RuntimeChoice::Pipe);
    let conversation = options.resume.as_deref().filter(|_| is_by_protocol);
    conversation.filter(|_| options.agent == "gemini" || runs_it())
}

/// Tells whether the file that would be begun is the one that the conversation is in. One that is older has files of all the
/// minutes in which it was loaded, and is in the first of them.
fn is_of_this_minute(home: &Path, conversation: &str, now: SystemTime) -> bool {
    let minute: String = humantime::format_rfc3339_seconds(now).to_string().chars().take(16).collect();
    let name: String = conversation.chars().take(OF_NAME).collect();
    let now = format!("session-{}-{name}.jsonl", minute.replace(':', "-"));
    let projects = fs::read_dir(home.join(".gemini/tmp")).into_iter().flatten().flatten();
    let chats = projects.flat_map(|project| fs::read_dir(project.path().join("chats")).into_iter().flatten().flatten());
    let files = chats.filter_map(|chat| chat.file_name().into_string().ok());
    files.filter(|file| file.ends_with(&format!("-{name}.jsonl"))).min().is_some_and(|first| first == now)
}

fn rest(now: SystemTime) -> Duration {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Duration::from_secs(MINUTE - seconds % MINUTE)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn whoever_loads_by_the_protocol_waits() {
        let loaded = |line: &str| {
            let words = line.split_whitespace();
            let options = Cli::try_parse_from(["coop"].into_iter().chain(words)).expect("a command line").serve;
            super::loaded(&options).map(str::to_owned)
        };
        for line in [
            "--agent gemini --runtime pipe --resume c-1 -- gemini",
            "--agent gemini --runtime pipe --resume c-1 -- mine",
            "--runtime pipe --resume c-1 -- npx gemini",
            "--agent acp --resume c-1 -- gemini --acp",
        ] {
            assert_eq!(loaded(line).as_deref(), Some("c-1"), "{line}");
        }
        for line in [
            "--agent gemini --runtime pipe -- gemini",
            "--agent gemini --resume c-1 -- gemini",
            "--agent acp --resume c-1 -- opencode acp",
            "--runtime pipe --resume c-1 -- claude",
        ] {
            assert_eq!(loaded(line), None, "{line}");
        }
    }

    #[test]
    fn a_conversation_of_this_minute_waits_for_the_next() {
        let home = tempfile::tempdir().expect("a folder");
        let chats = home.path().join(".gemini/tmp/work/chats");
        fs::create_dir_all(&chats).expect("made");
        fs::write(chats.join("session-2026-01-01T10-20-0a1b2c3d.jsonl"), "").expect("written");
        let at = |time: &str| humantime::parse_rfc3339(time).expect("a time");
        let is_of = |id: &str, time: &str| is_of_this_minute(home.path(), id, at(time));
        assert!(is_of("0a1b2c3d-4e5f", "2026-01-01T10:20:40Z"));
        assert!(!is_of("0a1b2c3d-4e5f", "2026-01-01T10:21:00Z"));
        assert!(!is_of("ffffffff-4e5f", "2026-01-01T10:20:40Z"));
        fs::write(chats.join("session-2026-01-01T10-21-0a1b2c3d.jsonl"), "").expect("written");
        assert!(!is_of("0a1b2c3d-4e5f", "2026-01-01T10:21:00Z"), "it is in the older file");
        assert_eq!(rest(at("2026-01-01T10:20:40Z")), Duration::from_secs(20));
    }
}
