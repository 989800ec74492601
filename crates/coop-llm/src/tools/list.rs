//! `list`: what is in a folder.

use std::sync::Arc;

use cap_std::fs::Dir;
use schemars::JsonSchema;
use serde::Deserialize;

use super::root::{Folder, said};
use super::{MAX_OUTPUT, Root};
use crate::cut::cut_middle;
use crate::{Effect, Tool, ToolCx, ToolError, typed};

#[derive(Deserialize, JsonSchema)]
struct List {
    /// The folder to list; all of it if left out.
    path: Option<String>,
    /// How many levels to go down; 1 if left out.
    depth: Option<u32>,
}

/// More names than this are no overview.
const MAX_ENTRIES: usize = 1000;

pub(super) fn tool(root: &Root) -> Arc<dyn Tool> {
    let root = root.clone();
    let about = "Lists files and folders. Folders end with `/`, links with `@`.";
    Arc::new(
        typed("list", about, move |list: List, cx: ToolCx| {
            let root = root.clone();
            async move { root.look(&cx, move |folder| listed(folder, &list)).await }
        })
        .with_effect(Effect::Look),
    )
}

fn listed(folder: &Folder, list: &List) -> Result<String, ToolError> {
    let path = list.path.as_deref().unwrap_or(".");
    let dir = folder.dir.open_dir(folder.inside(path)?).map_err(|error| said(path, &error))?;
    let mut names = Vec::new();
    walk(folder, &dir, "", list.depth.unwrap_or(1), &mut names).map_err(|error| said(path, &error))?;
    let more = names.len() > MAX_ENTRIES;
    names.truncate(MAX_ENTRIES);
    if more {
        names.push(format!("[more than {MAX_ENTRIES}; the rest is left out]"));
    }
    Ok(if names.is_empty() { "[nothing]".into() } else { cut_middle(names.join("\n"), MAX_OUTPUT) })
}

fn walk(folder: &Folder, dir: &Dir, prefix: &str, depth: u32, names: &mut Vec<String>) -> std::io::Result<()> {
    let mut entries = Vec::new();
    for entry in dir.entries()? {
        let entry = entry?;
        entries.push((entry.file_name(), entry.file_type()?));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, kind) in entries {
        if names.len() > MAX_ENTRIES || folder.given_up.is_cancelled() {
            return Ok(());
        }
        let mark = if kind.is_dir() {
            "/"
        } else if kind.is_symlink() {
            "@"
        } else {
            ""
        };
        let path = format!("{prefix}{}{mark}", name.to_string_lossy());
        names.push(path.clone());
        if kind.is_dir() && depth > 1 {
            // One that cannot be opened is listed and left at that.
            if let Ok(below) = dir.open_dir(&name) {
                walk(folder, &below, &path, depth - 1, names)?;
            }
        }
    }
    Ok(())
}
