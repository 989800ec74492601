//! `edit`: a piece of a file in place of another.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Root;
use crate::{Effect, Tool, ToolCx, ToolError, typed};

#[derive(Deserialize, JsonSchema)]
struct Edit {
    /// The file, relative to the folder.
    path: String,
    /// The text to replace, exactly as it is in the file.
    old: String,
    /// What to put in its place.
    new: String,
    /// Replace it everywhere, not just in the one place where it has to be.
    #[serde(default)]
    all: bool,
}

pub(super) fn tool(root: &Root) -> Arc<dyn Tool> {
    let root = root.clone();
    let about = "Replaces a text in a file by another. The old text must be there exactly once, or `all` be set.";
    Arc::new(
        typed("edit", about, move |edit: Edit, cx: ToolCx| {
            let root = root.clone();
            async move {
                root.change(&cx, move |folder| {
                    let (text, places) = replaced(&folder.read(&edit.path)?, &edit)?;
                    folder.write(&edit.path, &text)?;
                    Ok(format!("changed {places} place{} in {}", if places == 1 { "" } else { "s" }, edit.path))
                })
                .await
            }
        })
        .with_effect(Effect::Change),
    )
}

fn replaced(text: &str, edit: &Edit) -> Result<(String, usize), ToolError> {
    if edit.old.is_empty() {
        return Err(ToolError::Arguments("`old` is empty".into()));
    }
    if edit.old == edit.new {
        return Err(ToolError::Arguments("`old` and `new` are the same".into()));
    }
    match text.matches(&edit.old).count() {
        0 => Err(ToolError::Failed(format!("{} does not hold the old text", edit.path))),
        1 => Ok((text.replacen(&edit.old, &edit.new, 1), 1)),
        places if edit.all => Ok((text.replace(&edit.old, &edit.new), places)),
        places => {
            let why = format!("the old text is in {places} places of {}; give more of it, or set `all`", edit.path);
            Err(ToolError::Failed(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str, all: bool) -> Result<(String, usize), ToolError> {
        let edit = Edit { path: "f".into(), old: old.into(), new: new.into(), all };
        replaced("one two two", &edit)
    }

    #[test]
    fn one_place_is_changed_or_all() {
        assert_eq!(edit("one", "1", false), Ok(("1 two two".into(), 1)));
        assert_eq!(edit("two", "2", true), Ok(("one 2 2".into(), 2)));
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        for (old, new, all, why) in [
            ("two", "2", false, "the old text is in 2 places of f; give more of it, or set `all`"),
            ("three", "3", false, "f does not hold the old text"),
            ("", "3", true, "the arguments do not fit: `old` is empty"),
            ("one", "one", true, "the arguments do not fit: `old` and `new` are the same"),
        ] {
            assert_eq!(edit(old, new, all).unwrap_err().to_string(), why);
        }
    }
}
