//! What kind of file an agent wrote, by its name.

/// Returns `test`, `code`, `document`, `config` or `other`; tests come before what they are written in.
pub fn artifact_kind(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.contains(".test.") || name.contains(".spec.") || name.starts_with("test_") {
        return "test";
    }
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "ts" | "js" | "py" | "rs" | "go" | "java" | "tsx" | "jsx" => "code",
        "md" | "txt" | "rst" => "document",
        "json" | "yaml" | "yml" | "toml" | "ini" | "cfg" => "config",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_a_test_whatever_it_is_written_in() {
        let kinds = ["a/foo.test.ts", "test_x.py", "src/main.rs", "README.md", "x.toml", "Makefile", "a.b/c"];
        assert_eq!(kinds.map(artifact_kind), ["test", "test", "code", "document", "config", "other", "other"]);
    }
}
