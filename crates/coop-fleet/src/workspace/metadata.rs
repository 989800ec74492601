//! Notes about workspaces, in the repository's own configuration:
//!
//! ```text
//! [branch "feature/x.coop.tags.bug"]
//!     value = {"color":"red"}
//! ```
//!
//! The key is in the section's name because there git keeps capitals apart. A note belongs to the workspace, by its name, also
//! while another branch is checked out there.

use std::collections::BTreeMap;
use std::path::Path;

use super::git::{self, GitError};
use super::name::Key;

/// Notes about one workspace.
pub type Metadata = BTreeMap<String, String>;

const MARK: &str = ".coop.";
const VALUE: &str = ".value";

/// Returns the notes about all workspaces, by name.
pub(super) async fn read_all(repository: &Path) -> Result<BTreeMap<String, Metadata>, GitError> {
    let args = ["config", "--local", "--null", "--get-regexp", r"^branch\..*\.coop\..*\.value$"];
    // None is an exit code of 1.
    let found = git::ask(repository, &args).await?.unwrap_or_default();
    let mut all: BTreeMap<String, Metadata> = BTreeMap::new();
    for entry in found.split_terminator('\0') {
        // A name without a value is nobody's of ours.
        let Some((name, value)) = entry.split_once('\n') else { continue };
        let section = name.strip_prefix("branch.").and_then(|name| name.strip_suffix(VALUE));
        // No workspace has the mark in its name, and a key may.
        let Some((branch, key)) = section.and_then(|section| section.split_once(MARK)) else { continue };
        if Key::new(key).is_ok() {
            all.entry(branch.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(all)
}

/// Writes a note down.
pub(super) async fn set(repository: &Path, name: &str, key: &Key, value: &str) -> Result<(), GitError> {
    let variable = format!("branch.{name}{MARK}{key}{VALUE}");
    git::change(repository, &["config", "--local", "--replace-all", &variable, value]).await
}

/// Removes a note, if there is one.
pub(super) async fn remove(repository: &Path, name: &str, key: &str) -> Result<(), GitError> {
    if read_all(repository).await?.get(name).is_some_and(|notes| notes.contains_key(key)) {
        let section = format!("branch.{name}{MARK}{key}");
        git::change(repository, &["config", "--local", "--remove-section", &section]).await?;
    }
    Ok(())
}

/// Removes all notes about a workspace.
pub(super) async fn clear(repository: &Path, name: &str) -> Result<(), GitError> {
    let notes = read_all(repository).await?.remove(name).unwrap_or_default();
    for key in notes.keys() {
        let section = format!("branch.{name}{MARK}{key}");
        git::change(repository, &["config", "--local", "--remove-section", &section]).await?;
    }
    Ok(())
}
