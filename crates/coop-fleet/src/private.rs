//! Files that only this user can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a file, whole or not at all. It is readable for this user only from its first moment on, whatever the umask is.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{:08x}.new", fastrand::u32(..)));
    let written = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new);
    let moved = written.and_then(|mut file| file.write_all(content.as_ref())).and_then(|()| fs::rename(&new, path));
    if moved.is_err() {
        let _ = fs::remove_file(&new);
    }
    moved
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_could_read_is_replaced_by_one_that_they_cannot() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        write(&path, "new").expect("written");
        let mode = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        assert_eq!((fs::read_to_string(&path).expect("read").as_str(), mode), ("new", 0o600));
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
        assert!(write(&folder.path().join("missing/a"), "x").is_err());
    }
}
