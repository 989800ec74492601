//! The log on standard error. While that is a file of coop's own it is kept short.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How long a log may get before it is put aside.
const MOST: u64 = 8 * 1024 * 1024;
/// How many that were put aside are kept: `coop.log.1` is the newest.
const KEPT: u32 = 3;

/// Whose file standard error may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogOwner {
    /// A daemon or sidecar that coop has started, with its log in a file.
    Coop,
    /// The user, who sees to it.
    User,
}

impl LogOwner {
    /// Only what coop starts itself leads a session of its own, and has its log in a file of coop's.
    pub(crate) fn of(own_session: bool) -> Self {
        if own_session { Self::Coop } else { Self::User }
    }
}

/// Writes log lines, and puts the file aside when it is full.
pub(crate) struct Log<W> {
    out: W,
    file: Option<PathBuf>,
    bytes: u64,
}

impl Log<io::Stderr> {
    pub(crate) fn on_stderr(owner: LogOwner) -> Self {
        let named = || fs::read_link("/proc/self/fd/2").ok().filter(|path| path.is_file());
        let file = if owner == LogOwner::Coop { named() } else { None };
        Self::new(io::stderr(), file)
    }
}

impl<W: Write> Log<W> {
    fn new(out: W, file: Option<PathBuf>) -> Self {
        let bytes = file.as_ref().and_then(|file| fs::metadata(file).ok()).map_or(0, |found| found.len());
        Self { out, file, bytes }
    }
}

impl<W: Write> Write for Log<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(file) = self.file.as_ref().filter(|_| self.bytes > MOST) {
            // A log that cannot be put aside goes on as it is.
            let _ = put_aside(file);
            self.bytes = 0;
        }
        let written = self.out.write(line)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Copies a log and empties it. It stays the same file, because others have it open, and locked.
fn put_aside(file: &Path) -> io::Result<()> {
    let numbered = |number: u32| {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    for number in (1..KEPT).rev() {
        // The first times there is none.
        let _ = fs::rename(numbered(number), numbered(number + 1));
    }
    fs::copy(file, numbered(1))?;
    OpenOptions::new().write(true).open(file)?.set_len(0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_full_log_is_put_aside_and_three_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("coop.log");
        let open = || OpenOptions::new().create(true).append(true).mode(0o600).open(&path).expect("open");
        let mut log = Log::new(open(), Some(path.clone()));
        let mebibyte = vec![b'x'; 1 << 20];
        for number in 0..60 {
            log.write_all(format!("{number}\n").as_bytes()).expect("written");
            log.write_all(&mebibyte).expect("written");
        }
        log.write_all(b"last\n").expect("written");
        let mut names: Vec<_> = fs::read_dir(folder.path()).expect("listed").flatten().collect();
        names.sort_by_key(fs::DirEntry::file_name);
        let names: Vec<_> = names.iter().map(|entry| entry.file_name().into_string().expect("text")).collect();
        assert_eq!(names, ["coop.log", "coop.log.1", "coop.log.2", "coop.log.3"]);
        for name in names {
            let found = fs::metadata(folder.path().join(&name)).expect("there");
            assert!(found.len() <= MOST + (2 << 20), "{name}: {}", found.len());
            assert_eq!(found.permissions().mode() & 0o777, 0o600, "{name}");
        }
        assert!(fs::read(&path).expect("read").ends_with(b"last\n"));
        // What was there before counts too.
        assert!(Log::new(open(), Some(path.clone())).bytes > 1 << 20);
    }

    #[test]
    fn a_users_own_file_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mine");
        let mut log = Log::new(fs::File::create(&path).expect("made"), None);
        log.write_all(&vec![b'x'; 9 << 20]).and_then(|()| log.write_all(b"more")).expect("written");
        assert_eq!(fs::metadata(&path).expect("there").len(), (9 << 20) + 4);
    }
}
