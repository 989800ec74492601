//! Notes about workspaces.
//!
//! What others note is in the repository's own configuration, where git shows it:
//!
//! ```text
//! [branch "feature/x.coop.tags.bug"]
//!     value = {"color":"red"}
//! ```
//!
//! The key is in the section's name because there git keeps capitals apart. A note belongs to the workspace, by its name, also
//! while another branch is checked out there.
//!
//! What coop notes itself decides what is deleted and resumed. Agents write to the repository's configuration, so these notes are in
//! a file of coop's own, `STATE/projects/PROJECT/notes.json`.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::git::{GitError, Repository};
use super::name::Key;
use super::{WorkspaceError, file};

/// Notes about one workspace.
pub type Metadata = BTreeMap<String, String>;

type All = BTreeMap<String, Metadata>;

const MARK: &str = ".coop.";
const VALUE: &str = ".value";

/// The notes about all workspaces of a project. Only one at a time may change them: the one that has the project's turn.
pub(super) struct Notes {
    repository: Repository,
    file: PathBuf,
}

impl Notes {
    pub(super) fn new(repository: &Repository, file: PathBuf) -> Self {
        Self { repository: repository.clone(), file }
    }

    /// Makes the file for coop's own notes, if there is none yet.
    pub(super) async fn begin(&self) -> Result<(), WorkspaceError> {
        if self.file.exists() { Ok(()) } else { self.write(&self.own().await?) }
    }

    /// Returns the notes about all workspaces, by name.
    pub(super) async fn read_all(&self) -> Result<All, WorkspaceError> {
        let mut all = self.own().await?;
        for (name, notes) in self.of_repository().await? {
            let others = notes.into_iter().filter(|(key, _)| !Key::is_own(key));
            all.entry(name).or_default().extend(others);
        }
        Ok(all)
    }

    /// Writes a note down.
    pub(super) async fn set(&self, name: &str, key: &Key, value: &str) -> Result<(), WorkspaceError> {
        if Key::is_own(key.as_str()) {
            let mut own = self.own().await?;
            own.entry(name.to_owned()).or_default().insert(key.to_string(), value.to_owned());
            return self.write(&own);
        }
        let variable = format!("branch.{name}{MARK}{key}{VALUE}");
        Ok(self.repository.change_config(&["--replace-all", &variable, value]).await?)
    }

    /// Removes a note, if there is one.
    pub(super) async fn remove(&self, name: &str, key: &str) -> Result<(), WorkspaceError> {
        if Key::is_own(key) {
            let mut own = self.own().await?;
            own.entry(name.to_owned()).or_default().remove(key);
            return self.write(&own);
        }
        if self.of_repository().await?.get(name).is_some_and(|notes| notes.contains_key(key)) {
            self.forget(name, key).await?;
        }
        Ok(())
    }

    /// Removes all notes about a workspace.
    pub(super) async fn clear(&self, name: &str) -> Result<(), WorkspaceError> {
        for key in self.of_repository().await?.remove(name).unwrap_or_default().keys() {
            self.forget(name, key).await?;
        }
        let mut own = self.own().await?;
        own.remove(name);
        self.write(&own)
    }

    async fn forget(&self, name: &str, key: &str) -> Result<(), GitError> {
        self.repository.change_config(&["--remove-section", &format!("branch.{name}{MARK}{key}")]).await
    }

    /// Returns coop's own notes. A coop before this one had them in the repository's configuration; of those only the base
    /// still counts, which decides nothing but what a workspace is compared with.
    async fn own(&self) -> Result<All, WorkspaceError> {
        match fs::read(&self.file) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| file("cannot read", &self.file, error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut all = self.of_repository().await?;
                all.values_mut().for_each(|notes| notes.retain(|key, _| key == "base"));
                Ok(all)
            }
            Err(error) => Err(file("cannot read", &self.file, error)),
        }
    }

    fn write(&self, all: &All) -> Result<(), WorkspaceError> {
        let new = self.file.with_extension("json.new");
        let all: BTreeMap<_, _> = all.iter().filter(|(_, notes)| !notes.is_empty()).collect();
        let text = serde_json::to_vec(&all).unwrap_or_default();
        let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
        let written = made.and_then(|mut made| made.write_all(&text)).and_then(|()| fs::rename(&new, &self.file));
        written.map_err(|source| file("cannot write", &self.file, source))
    }

    async fn of_repository(&self) -> Result<All, GitError> {
        let args = ["--null", "--get-regexp", r"^branch\..*\.coop\..*\.value$"];
        // None is an exit code of 1.
        let found = self.repository.ask_config(&args).await?.unwrap_or_default();
        let mut all = All::new();
        for entry in found.split_terminator('\0') {
            // Names that coop writes have a value.
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
}
