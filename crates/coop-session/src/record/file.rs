//! The files of a recording: bounded, for this user alone, and whole lines whatever happens.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use coop_api::older_part;
use serde_json::Value;

/// The end of a file in which its last line is looked for.
const TAIL: u64 = 1024 * 1024;

/// The newer of the two files.
#[derive(Debug)]
pub(super) struct CastFile {
    path: PathBuf,
    file: File,
    /// How much of it is whole lines.
    length: u64,
    /// What both files may have together.
    limit: u64,
}

/// What was found at a path.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing: a recording begins.
    Nothing,
    /// A recording, which goes on after this moment.
    Recording(SystemTime),
}

impl CastFile {
    pub(super) fn open(path: &Path, limit: u64) -> io::Result<(Self, Found)> {
        let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)?;
        let about = file.metadata()?;
        let mut found = Found::Nothing;
        let mut length = 0;
        // A device is no file to read or to cut.
        if about.is_file() {
            if about.len() > 0 {
                check(&file)?;
            }
            file.set_permissions(Permissions::from_mode(0o600))?;
            if about.len() > 0 {
                length = whole_lines(&mut file, about.len())?;
                file.set_len(length)?;
                file.seek(SeekFrom::Start(length))?;
                found = Found::Recording(about.modified()?);
            }
        }
        Ok((Self { path: path.to_owned(), file, length, limit }, found))
    }

    /// Adds whole lines, as many as there is room for.
    pub(super) fn append(&mut self, lines: &str) -> io::Result<()> {
        let mut rest = lines.as_bytes();
        while !rest.is_empty() {
            let error = match self.file.write(rest) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    rest = &rest[count..];
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            // What came of a line that did not fit is taken back, which also makes room to say so.
            let written = &lines.as_bytes()[..lines.len() - rest.len()];
            let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            self.length += whole as u64;
            let _ = self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
            return Err(error);
        }
        self.length += lines.len() as u64;
        Ok(())
    }

    /// Tells whether it is time for another file.
    pub(super) fn is_full(&self) -> bool {
        self.length > self.limit / 2
    }

    /// Begins another file. This one becomes the older, and the older before it goes.
    pub(super) fn turn(&mut self, header: &str) -> io::Result<()> {
        // Under another name first: where there is no room for it, nothing has moved.
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        // One that was left by a process that was killed here; if it cannot go, that is told below.
        let _ = fs::remove_file(&beside);
        let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&beside)?;
        let mut next = Self { path: self.path.clone(), file, length: 0, limit: self.limit };
        let moved = next.append(header).and_then(|()| self.give_way(&beside));
        match moved {
            Ok(()) => *self = next,
            Err(_) => drop(fs::remove_file(&beside)),
        }
        moved
    }

    /// Becomes the older part, and lets another file have its name.
    fn give_way(&self, to: &Path) -> io::Result<()> {
        let older = older_part(&self.path);
        fs::rename(&self.path, &older)?;
        fs::rename(to, &self.path).inspect_err(|_| drop(fs::rename(&older, &self.path)))
    }
}

/// Something else must not be written into.
fn check(file: &File) -> io::Result<()> {
    let mut first = String::new();
    let read = BufReader::new(file).take(TAIL).read_line(&mut first);
    let header: Option<Value> = read.ok().and_then(|_| serde_json::from_str(&first).ok());
    match header {
        Some(header) if header["version"] == 3 => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no recording (asciicast v3)")),
    }
}

/// Returns where the last whole line ends.
fn whole_lines(file: &mut File, length: u64) -> io::Result<u64> {
    let from = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let ends = tail.iter().rposition(|byte| *byte == b'\n');
    ends.map(|at| from + at as u64 + 1).ok_or_else(|| io::Error::other("the recording has a line without an end"))
}
