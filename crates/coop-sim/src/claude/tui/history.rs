//! An earlier conversation on the screen: what its log says was asked and answered.

use std::path::Path;

use serde_json::Value;

use super::scroll::said;

pub(crate) fn history(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).flat_map(|line| shown(&line)).collect()
}

fn shown(line: &Value) -> Vec<String> {
    let kind = line.get("type").and_then(Value::as_str);
    let content = line.get("message").and_then(|message| message.get("content"));
    let is_meta = line.get("isMeta") == Some(&Value::Bool(true));
    match (kind, content) {
        (Some("user"), Some(Value::String(text))) if !is_meta => said("❯", text),
        (Some("assistant"), Some(Value::Array(blocks))) => {
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            texts.flat_map(|text| said("●", text)).collect()
        }
        _ => Vec::new(),
    }
}
