use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Returns where the older part of a recording is kept.
///
/// A recording is two files, so that it can go on for ever and stays bounded: when the newer is half of what is allowed it
/// becomes the older, and the one before goes. Each has a header of its own and begins with the whole screen.
pub fn older_part(recording: &Path) -> PathBuf {
    let mut name = OsString::from(recording);
    name.push(".old");
    name.into()
}
