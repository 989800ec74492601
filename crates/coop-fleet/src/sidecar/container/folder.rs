//! What a container sees of an agent's folder.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::super::config::AGENT_CONFIG;
use super::super::launcher::{LaunchError, portable_settings};
use super::failed;
use crate::sidecar::container_folder;

/// Makes what a container sees of an agent's folder.
pub(super) fn furnish(folder: &Path) -> Result<(), LaunchError> {
    let inside = container_folder(folder);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(inside.join("home"));
    made.map_err(|error| failed("its folder cannot be made", error))?;
    let settings = portable_settings(folder).map_err(|error| failed("its settings", error))?;
    // The agent may have put a link in its place, which must not lead us out of here.
    let config = inside.join(AGENT_CONFIG);
    match fs::remove_file(&config) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("its settings", error)),
        _ => {}
    }
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&config);
    let written = written.and_then(|mut file| file.write_all(settings.as_bytes()));
    written.map_err(|error| failed("its settings", error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// What is in there belongs to the agent, which may leave a link to a file that is not.
    #[test]
    fn a_link_in_the_agents_own_folder_leads_nowhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at(AGENT_CONFIG), r#"{"stop":{"mode":"allow"},"tools":"/a","session":"/b"}"#).expect("written");
        fs::write(at("precious"), "keep me").expect("written");
        fs::create_dir(at("inside")).expect("made");
        symlink(at("precious"), container_folder(folder.path()).join(AGENT_CONFIG)).expect("linked");
        for _ in 0..2 {
            furnish(folder.path()).expect("furnished");
        }
        assert_eq!(fs::read_to_string(at("precious")).expect("read"), "keep me");
        let settings = fs::read_to_string(container_folder(folder.path()).join(AGENT_CONFIG)).expect("read");
        assert_eq!(settings, r#"{"stop":{"mode":"allow"}}"#);
    }
}
