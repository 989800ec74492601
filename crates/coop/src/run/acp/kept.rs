//! Conversations, kept so that they can go on when the agent is started again.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use coop_drivers::{Existing, FileToWrite};
use coop_llm::{Message, Usage};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::driven::write_private;
use crate::run::settings::variable;

/// What was said so far, and what it took.
#[derive(Debug, Default, PartialEq, Deserialize)]
pub(super) struct Conversation {
    pub(super) history: Vec<Message>,
    pub(super) usage: Usage,
    pub(super) cost: f64,
}

/// The same of somebody else's.
#[derive(Serialize)]
struct Kept<'a> {
    history: &'a [Message],
    usage: &'a Usage,
    cost: f64,
}

/// Keeps a conversation that may be in the middle of a turn.
pub(super) fn save(id: &str, history: &[Message], usage: &Usage, cost: f64) -> anyhow::Result<()> {
    save_to(&folder()?, id, &Kept { history, usage, cost })
}

impl Conversation {
    pub(super) fn load(id: &str) -> anyhow::Result<Self> {
        Self::load_from(&folder()?, id)
    }

    fn load_from(folder: &Path, id: &str) -> anyhow::Result<Self> {
        let path = path(folder, id)?;
        let text = fs::read_to_string(&path).with_context(|| format!("the conversation {id} was not found"))?;
        let kept: serde_json::Result<Self> = serde_json::from_str(&text);
        let mut kept = kept.with_context(|| format!("{} is not a conversation", path.display()))?;
        // Whoever kept it may have been killed while tools ran.
        Message::settle(&mut kept.history);
        Ok(kept)
    }
}

fn save_to(folder: &Path, id: &str, kept: &Kept<'_>) -> anyhow::Result<()> {
    let path = path(folder, id)?.into_os_string().into_string();
    let path = path.ok().context("the folder for conversations is not UTF-8")?;
    let file = FileToWrite { path, content: serde_json::to_string(kept)?, existing: Existing::Replaced };
    write_private(&file).context("cannot keep the conversation")
}

/// Returns where a conversation is. Its name comes from outside, and must not lead anywhere else.
fn path(folder: &Path, id: &str) -> anyhow::Result<PathBuf> {
    let is_ours = Uuid::try_parse(id).is_ok_and(|uuid| uuid.to_string() == id);
    ensure!(is_ours, "the conversation {id:?} was not found: it is not a name that coop gives");
    Ok(folder.join(format!("{id}.json")))
}

fn folder() -> anyhow::Result<PathBuf> {
    let state = variable("XDG_STATE_HOME").map(PathBuf::from);
    let home = || variable("HOME").map(|home| Path::new(&home).join(".local/state"));
    let state = state.or_else(home).context("HOME is not set, so conversations cannot be found")?;
    Ok(state.join("coop/conversations"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_kept_whole_and_for_this_user_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let usage = Usage { input: 7, ..Usage::default() };
        let kept = Conversation { history: vec![Message::user("Hä?")], usage, cost: 0.5 };
        let id = Uuid::new_v4().to_string();
        save_to(folder.path(), &id, &Kept { history: &kept.history, usage: &usage, cost: 0.5 }).expect("saved");
        assert_eq!(Conversation::load_from(folder.path(), &id).expect("loaded"), kept);
        let file = fs::metadata(folder.path().join(format!("{id}.json"))).expect("it is there");
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&file) & 0o777, 0o600);
    }

    #[test]
    fn an_id_leads_nowhere_else() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("x.json"), r#"{"history":[],"usage":{},"cost":0}"#).expect("written");
        for id in ["x", "../x", "", "/etc/passwd", "6F9619FF-8B86-D011-B42D-00CF4FC964FF"] {
            let error = Conversation::load_from(folder.path(), id).expect_err(id);
            assert!(error.to_string().contains("not found"), "{error}");
        }
    }
}
