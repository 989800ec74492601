//! Conversations, kept as lines of JSON.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub(super) struct Store {
    folder: PathBuf,
    /// Where every prompt is written down, for whoever tests.
    prompts: Option<PathBuf>,
}

impl Store {
    pub(super) fn new(folder: PathBuf, prompts: Option<PathBuf>) -> Self {
        Self { folder, prompts }
    }

    /// Returns what was said in a conversation: by whom, and what.
    pub(super) fn load(&self, id: &str) -> io::Result<Vec<(String, String)>> {
        let lines = fs::read_to_string(self.path(id))?;
        let said = |line: &str| {
            let line: Value = serde_json::from_str(line).ok()?;
            Some((line["role"].as_str()?.to_owned(), line["text"].as_str()?.to_owned()))
        };
        Ok(lines.lines().filter_map(said).collect())
    }

    pub(super) fn add(&self, id: &str, role: &str, text: &str) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        append(&self.path(id), &json!({ "role": role, "text": text }))
    }

    pub(super) fn note_prompt(&self, text: &str) -> io::Result<()> {
        self.prompts.as_deref().map_or(Ok(()), |path| append(path, &json!(text)))
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{}.jsonl", id.replace('/', "-")))
    }
}

fn append(path: &Path, line: &Value) -> io::Result<()> {
    writeln!(OpenOptions::new().create(true).append(true).open(path)?, "{line}")
}
