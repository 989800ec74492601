//! `search`: lines that match a pattern.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use cap_std::fs::Dir;
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::root::{Folder, open_file, said};
use super::{MAX_FILE, MAX_OUTPUT, Root};
use crate::cut::{cut_middle, floor};
use crate::{Effect, Tool, ToolCx, ToolError, typed};

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// A regular expression.
    pattern: String,
    /// The file or folder to search; everything if left out.
    path: Option<String>,
    /// Only files whose name matches, for instance `*.rs`.
    name: Option<String>,
    /// Take large and small letters for the same.
    #[serde(default)]
    ignore_case: bool,
}

/// Folders of things that were not written by hand.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];
/// More than anybody reads.
const MAX_LINES: usize = 300;
/// Longer lines are seldom written by hand.
const MAX_LINE: usize = 400;

pub(super) fn tool(root: &Root) -> Arc<dyn Tool> {
    let root = root.clone();
    let about = "Finds lines that match a regular expression in text files, as `path:line:text`. \
                 Links, `.git`, `node_modules` and `target` are left out.";
    Arc::new(
        typed("search", about, move |search: Search, cx: ToolCx| {
            let root = root.clone();
            async move { root.look(&cx, move |folder| found(folder, &search)).await }
        })
        .with_effect(Effect::Look),
    )
}

fn found(folder: &Folder, search: &Search) -> Result<String, ToolError> {
    let wrong = |error: regex::Error| ToolError::Arguments(error.to_string());
    let pattern = RegexBuilder::new(&search.pattern).case_insensitive(search.ignore_case).build().map_err(wrong)?;
    let name = search.name.as_deref().map(wildcard).transpose().map_err(wrong)?;
    let path = search.path.as_deref().unwrap_or(".");
    let inside = folder.inside(path)?;
    let mut finder = Finder { folder, pattern, name, lines: Vec::new() };
    let data = folder.dir.metadata(&inside).map_err(|error| said(path, &error))?;
    if data.is_dir() {
        let dir = folder.dir.open_dir(&inside).map_err(|error| said(path, &error))?;
        let prefix = if path == "." { String::new() } else { format!("{}/", path.trim_end_matches('/')) };
        finder.walk(&dir, &prefix).map_err(|error| said(path, &error))?;
    } else {
        // Somebody asked for this one: to say that no line matches would be a lie.
        folder.read(path)?;
        finder.file(&folder.dir, &inside, path).map_err(|error| said(path, &error))?;
    }
    let mut lines = finder.lines;
    let more = lines.len() > MAX_LINES;
    lines.truncate(MAX_LINES);
    if more {
        lines.push(format!("[more than {MAX_LINES} lines; the rest is left out]"));
    }
    Ok(if lines.is_empty() { "[no line matches]".into() } else { cut_middle(lines.join("\n"), MAX_OUTPUT) })
}

struct Finder<'a> {
    folder: &'a Folder,
    pattern: Regex,
    name: Option<Regex>,
    lines: Vec<String>,
}

impl Finder<'_> {
    fn walk(&mut self, dir: &Dir, prefix: &str) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in dir.entries()? {
            let entry = entry?;
            entries.push((entry.file_name(), entry.file_type()?));
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, kind) in entries {
            if self.lines.len() > MAX_LINES || self.folder.given_up.is_cancelled() {
                return Ok(());
            }
            let shown = name.to_string_lossy();
            // What cannot be read is passed over, as in a search by hand.
            if kind.is_dir() && !SKIPPED.contains(&&*shown) {
                if let Ok(below) = dir.open_dir(&name) {
                    let _ = self.walk(&below, &format!("{prefix}{shown}/"));
                }
            } else if kind.is_file() && self.name.as_ref().is_none_or(|wanted| wanted.is_match(&shown)) {
                let _ = self.file(dir, Path::new(&name), &format!("{prefix}{shown}"));
            }
        }
        Ok(())
    }

    fn file(&mut self, dir: &Dir, name: &Path, shown: &str) -> io::Result<()> {
        let mut bytes = Vec::new();
        open_file(dir, name)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        let Ok(text) = String::from_utf8(bytes) else { return Ok(()) };
        if text.len() as u64 > MAX_FILE {
            return Ok(());
        }
        for (at, line) in text.lines().enumerate().filter(|(_, line)| self.pattern.is_match(line)) {
            self.lines.push(format!("{shown}:{}:{}", at + 1, &line[..floor(line, MAX_LINE)]));
            if self.lines.len() > MAX_LINES {
                break;
            }
        }
        Ok(())
    }
}

/// Makes a pattern of a name with `*` and `?`.
fn wildcard(name: &str) -> Result<Regex, regex::Error> {
    let pattern: String = name
        .chars()
        .map(|char| match char {
            '*' => ".*".to_owned(),
            '?' => ".".to_owned(),
            char => regex::escape(char.encode_utf8(&mut [0; 4])),
        })
        .collect();
    Regex::new(&format!("^{pattern}$"))
}
