//! The files of an agent's configuration: where coop's own are, and how they are written.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use coop_api::lasting_hash;
use coop_drivers::{Existing, FileToWrite, Known, merge};
use serde_json::Value;

use crate::paths::{private, text};

/// Returns a folder of coop's for the agent's configuration, by which no dialog comes up. Nobody else's is ever written.
pub(super) fn isolated(home: &str, known: &Known, cwd: &Path) -> anyhow::Result<String> {
    let state = match env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(home).join(".local/state"),
    };
    text(&private(state.join("coop/isolated").join(known.name).join(folder_name(cwd)))?)
}

/// Returns a name for what belongs to a folder: readable, and another for each.
fn folder_name(folder: &Path) -> String {
    let readable = |c: char| if c.is_alphanumeric() { c } else { '-' };
    let name: String = folder.to_string_lossy().chars().map(readable).collect();
    let hash = lasting_hash(folder.as_os_str().as_encoded_bytes());
    format!("{name}-{hash:016x}")
}

/// Writes a file that only this user can read. Whoever reads it meanwhile sees all of it or what was there before.
pub(crate) fn write_private(file: &FileToWrite) -> io::Result<()> {
    let path = Path::new(&file.path);
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let content = match file.existing {
        Existing::Replaced => file.content.clone(),
        Existing::Merged => merged(fs::read(path).ok(), &file.content)?,
    };
    let new = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let write = |mut file: File| file.write_all(content.as_bytes());
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).and_then(write);
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Returns JSON with the fields of both; what is there and is not JSON goes.
fn merged(there: Option<Vec<u8>>, more: &str) -> io::Result<String> {
    let mut all = there.and_then(|there| serde_json::from_slice(&there).ok()).unwrap_or(Value::Null);
    merge(&mut all, &serde_json::from_str(more)?);
    Ok(all.to_string())
}

/// Tells whether nobody but root can write to a folder or to one above it.
pub(super) fn only_root_writes(folder: &Path) -> bool {
    let is_roots = |folder: &Path| {
        let found = fs::symlink_metadata(folder);
        found.is_ok_and(|found| found.is_dir() && found.uid() == 0 && found.mode() & 0o022 == 0)
    };
    folder.ancestors().all(is_roots)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Two agents in one folder share it, and the second start lost what the first agent had written.
    #[test]
    fn what_an_agent_has_written_into_its_configuration_stays() {
        let there =
            json!({ "theme": "light", "own": 1, "approved": ["a"], "projects": { "/x": { "trusted": false } } });
        let more =
            json!({ "theme": "dark", "approved": ["a", "b"], "projects": { "/x": { "trusted": true }, "/y": {} } });
        let all = merged(Some(there.to_string().into()), &more.to_string()).expect("JSON");
        let expected = json!({ "theme": "dark", "own": 1, "approved": ["a", "b"],
                               "projects": { "/x": { "trusted": true }, "/y": {} } });
        assert_eq!(serde_json::from_str::<Value>(&all).expect("JSON"), expected);
        assert_eq!(merged(Some("half a fi".into()), "{}").expect("JSON"), "{}");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f.json");
        let write = |content: &str, existing| {
            write_private(&FileToWrite { path: text(&path).expect("text"), content: content.to_owned(), existing })
        };
        write(r#"{"a":1}"#, Existing::Replaced).expect("written");
        write(r#"{"b":2}"#, Existing::Merged).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), r#"{"a":1,"b":2}"#);
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).expect("it is there"));
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left");
    }

    #[test]
    fn each_folder_has_a_name_of_its_own() {
        let names = ["/a/b.c", "/a/b-c", "/a/b/c"].map(|folder| folder_name(Path::new(folder)));
        assert!(names.iter().all(|name| name.starts_with("-a-b-c-")), "{names:?}");
        assert!(names[0] != names[1] && names[1] != names[2]);
        assert_eq!(names[0], folder_name(Path::new("/a/b.c")));
    }
}
