//! `read`: a text file, or some lines of it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{MAX_OUTPUT, Root};
use crate::cut::floor;
use crate::{Effect, Tool, ToolCx, ToolError, typed};

#[derive(Deserialize, JsonSchema)]
struct Read {
    /// The file, relative to the folder.
    path: String,
    /// The first line to show; the first of the file is 1.
    offset: Option<usize>,
    /// How many lines to show.
    limit: Option<usize>,
}

pub(super) fn tool(root: &Root) -> Arc<dyn Tool> {
    let root = root.clone();
    let about = "Shows a text file. What is too long is cut; ask for the rest with `offset`.";
    Arc::new(
        typed("read", about, move |read: Read, cx: ToolCx| {
            let root = root.clone();
            async move {
                root.look(&cx, move |folder| Ok::<_, ToolError>(lines(&folder.read(&read.path)?, &read))).await
            }
        })
        .with_effect(Effect::Look),
    )
}

fn lines(text: &str, read: &Read) -> String {
    let first = read.offset.unwrap_or(1).max(1);
    let all = text.lines().count();
    let mut shown = String::new();
    let mut count = 0;
    for line in text.split_inclusive('\n').skip(first - 1).take(read.limit.unwrap_or(usize::MAX)) {
        if shown.len() + line.len() > MAX_OUTPUT {
            // A line that is too long by itself is shown in part, or nothing after it could be reached.
            if count == 0 {
                shown.push_str(&line[..floor(line, MAX_OUTPUT)]);
                shown.push_str("[… the rest of this line is left out …]\n");
                count = 1;
            }
            break;
        }
        shown.push_str(line);
        count += 1;
    }
    if (first, count) == (1, all) {
        return shown;
    }
    if !shown.ends_with('\n') && !shown.is_empty() {
        shown.push('\n');
    }
    match count {
        0 if first <= all => "[no line was asked for: `limit` is 0]".to_owned(),
        0 => format!("[there is no line {first}: the file has {all}]"),
        _ => format!("{shown}[lines {first} to {} of {all}]", first + count - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str, offset: Option<usize>, limit: Option<usize>) -> String {
        lines(text, &Read { path: String::new(), offset, limit })
    }

    #[test]
    fn a_file_is_shown_whole_or_in_lines() {
        assert_eq!(show("a\nb\nc\n", None, None), "a\nb\nc\n");
        assert_eq!(show("", None, None), "");
        assert_eq!(show("a\nb\nc", Some(2), None), "b\nc\n[lines 2 to 3 of 3]");
        assert_eq!(show("a\nb\nc", Some(0), Some(1)), "a\n[lines 1 to 1 of 3]");
        assert_eq!(show("a\nb\nc", None, Some(0)), "[no line was asked for: `limit` is 0]");
        assert_eq!(show("a\nb\nc", Some(9), None), "[there is no line 9: the file has 3]");
    }

    #[test]
    fn long_files_are_cut_between_lines() {
        let line = format!("{}\n", "x".repeat(999));
        let shown = show(&line.repeat(100), None, None);
        assert!(shown.ends_with("[lines 1 to 65 of 100]"), "{}", &shown[shown.len() - 40..]);
        let shown = show(&"ä".repeat(MAX_OUTPUT), None, None);
        assert!(shown.len() < MAX_OUTPUT + 100);
    }
}
