use super::glob::Glob;

/// A pattern for files: `*` stays within a folder, `**` crosses folders. One that does not begin with `/` is below the
/// agent's folder.
///
/// Paths are compared as they are written, after `.` and `..` are worked out: what a link leads to is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern(String);

impl PathPattern {
    /// Makes a pattern, or says why it can fit nothing.
    pub fn new(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() {
            return Err("it is empty".to_owned());
        }
        if pattern.split('/').any(|part| part == "..") {
            return Err("\"..\" in it fits nothing: paths are compared after it is worked out".to_owned());
        }
        if pattern.starts_with('~') {
            return Err("\"~\" is not known here; write the whole path".to_owned());
        }
        Ok(Self(pattern.to_owned()))
    }

    /// Tells whether a path of an agent that works in `folder` fits.
    pub fn is_match(&self, folder: &str, path: &str) -> bool {
        // What begins with ~ is somebody's home or a strange file; which one is not ours to guess.
        if path.starts_with('~') || path.contains('\0') {
            return false;
        }
        let pattern = worked_out(folder, &self.0);
        let path = worked_out(folder, path);
        parts_match(&pattern, &path)
    }
}

fn worked_out<'a>(folder: &'a str, path: &'a str) -> Vec<&'a str> {
    let base = if path.starts_with('/') { "" } else { folder };
    let mut parts = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

fn parts_match(pattern: &[&str], path: &[&str]) -> bool {
    match pattern {
        [] => path.is_empty(),
        // Everything below, and not the folder itself.
        ["**"] => !path.is_empty(),
        ["**", rest @ ..] => (0..=path.len()).any(|skip| parts_match(rest, &path[skip..])),
        [first, rest @ ..] => {
            path.first().is_some_and(|part| Glob::new(*first).is_match(part)) && parts_match(rest, &path[1..])
        }
    }
}
