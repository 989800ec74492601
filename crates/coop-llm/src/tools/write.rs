//! `write`: a whole file.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Root;
use crate::{Effect, Tool, ToolCx, ToolError, typed};

#[derive(Deserialize, JsonSchema)]
struct Write {
    /// The file, relative to the folder.
    path: String,
    /// All that the file shall hold.
    content: String,
}

pub(super) fn tool(root: &Root) -> Arc<dyn Tool> {
    let root = root.clone();
    let about = "Writes a file, new or in place of what it held, and the folders it is in.";
    Arc::new(
        typed("write", about, move |write: Write, cx: ToolCx| {
            let root = root.clone();
            async move {
                root.change(&cx, move |folder| {
                    folder.write(&write.path, &write.content)?;
                    Ok::<_, ToolError>(format!("wrote {} bytes to {}", write.content.len(), write.path))
                })
                .await
            }
        })
        .with_effect(Effect::Change),
    )
}
