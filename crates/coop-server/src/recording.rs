//! A terminal's recording, as one file of asciicast v3.
//!
//! It is kept in two parts, each with a header of its own ([`older_part`]); what is sent is the older and then the newer
//! without its header. `Range` works as for any file. The `ETag` changes when the older part is another, for then every
//! byte is at another place.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use coop_api::{Error, ErrorCode, older_part};
use futures_util::stream;
use rustix::fs::OFlags;

/// What is read at a time.
const PIECE: u64 = 64 * 1024;
/// How often it is looked again at a recording that got another part meanwhile, and how long is waited for one to begin.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// Sends a recording, or the part of it that is asked for. What a browser keeps it as is called by this name.
pub(crate) async fn send(recorded: &Recorded, headers: &HeaderMap) -> Result<Response, Error> {
    let Recorded { path, name, links } = recorded.clone();
    let opened = tokio::task::spawn_blocking(move || Parts::open(&path, links)).await;
    let none = || Error::new(ErrorCode::NotFound, "there is no recording of this terminal");
    let parts = opened.map_err(|error| Error::internal(error.to_string()))?.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => none(),
        _ => Error::internal(format!("the recording cannot be read: {error}")),
    })?;
    if parts.length() == 0 {
        // Its sidecar ended before there was a terminal.
        return Err(none());
    }
    respond(parts, &name, headers)
}

fn respond(parts: Parts, name: &str, headers: &HeaderMap) -> Result<Response, Error> {
    let total = parts.length();
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    // A part of what is another by now is of no use.
    let is_same = text(header::IF_RANGE).is_none_or(|tag| tag == parts.tag);
    let range = text(header::RANGE).filter(|_| is_same).map_or(Range::Whole, |asked| Range::parse(asked, total));
    let (status, from, to) = match range {
        Range::Whole => (StatusCode::OK, 0, total),
        Range::Part(from, to) => (StatusCode::PARTIAL_CONTENT, from, to),
        Range::Beyond => (StatusCode::RANGE_NOT_SATISFIABLE, 0, 0),
    };
    let plain: String = name
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() || "-_.".contains(char) { char } else { '_' })
        .collect();
    let mut response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/x-asciicast")
        .header(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{plain}.cast\""))
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::ETAG, parts.tag.as_str())
        .header(header::CONTENT_LENGTH, to - from);
    match range {
        Range::Whole => {}
        Range::Part(..) => {
            response = response.header(header::CONTENT_RANGE, format!("bytes {from}-{}/{total}", to - 1));
        }
        Range::Beyond => response = response.header(header::CONTENT_RANGE, format!("bytes */{total}")),
    }
    response.body(body(Arc::new(parts), from, to)).map_err(|error| Error::internal(error.to_string()))
}

fn body(parts: Arc<Parts>, from: u64, to: u64) -> Body {
    Body::from_stream(stream::unfold(from, move |at| {
        let parts = Arc::clone(&parts);
        async move {
            if at >= to {
                return None;
            }
            let length = PIECE.min(to - at);
            let read = tokio::task::spawn_blocking(move || parts.read(at, length)).await;
            let read = read.unwrap_or_else(|error| Err(io::Error::other(error)));
            let next = read.as_ref().map_or(to, |bytes| at + bytes.len() as u64);
            Some((read, next))
        }
    }))
}

/// What of a file is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    Whole,
    /// From one byte to before another.
    Part(u64, u64),
    Beyond,
}

impl Range {
    /// Reads `bytes=A-B`, `bytes=A-` and `bytes=-N`. Several at a time, and what is none, mean the whole, as HTTP allows.
    fn parse(asked: &str, total: u64) -> Self {
        let Some((from, to)) = asked.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
            return Self::Whole;
        };
        let (from, to) = match (from.trim().parse::<u64>(), to.trim().parse::<u64>()) {
            (Ok(from), Ok(last)) if last >= from => (from, last.saturating_add(1).min(total)),
            (Ok(from), Err(_)) if to.trim().is_empty() => (from, total),
            (Err(_), Ok(count)) if from.trim().is_empty() => (total.saturating_sub(count), total),
            _ => return Self::Whole,
        };
        if from >= to { Self::Beyond } else { Self::Part(from, to) }
    }
}

/// The files of a recording as they are at one moment; what is added later is not seen.
struct Parts {
    files: Vec<Part>,
    tag: String,
}

struct Part {
    file: File,
    /// Where in the file it begins and how much of it there is.
    skip: u64,
    length: u64,
}

impl Parts {
    fn open(path: &Path, links: Links) -> io::Result<Self> {
        let older = older_part(path);
        for _ in 0..TRIES {
            let newer = match links.open(path) {
                Ok(file) => file,
                // Between the moment it becomes the older part and the next one's beginning.
                Err(error) if error.kind() == io::ErrorKind::NotFound && older.symlink_metadata().is_ok() => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let before = match links.open(&older) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            if is_still(path, &newer)? {
                return Self::of(before, newer);
            }
        }
        Err(io::Error::other("it changes too fast"))
    }

    fn of(before: Option<File>, newer: File) -> io::Result<Self> {
        let tag = format!("\"{:x}-{:x}\"", before.as_ref().map_or(Ok(0), inode)?, inode(&newer)?);
        let mut files = Vec::new();
        let mut skip = 0;
        if let Some(file) = before {
            let length = file.metadata()?.len();
            files.push(Part { file, skip: 0, length });
            skip = BufReader::new(&newer).read_until(b'\n', &mut Vec::new())? as u64;
        }
        let length = newer.metadata()?.len() - skip;
        files.push(Part { file: newer, skip, length });
        Ok(Self { files, tag })
    }

    fn length(&self) -> u64 {
        self.files.iter().map(|part| part.length).sum()
    }

    /// Reads from one of the parts, as much as is wanted and there is.
    fn read(&self, mut at: u64, wanted: u64) -> io::Result<Bytes> {
        for part in &self.files {
            if at < part.length {
                let mut piece = vec![0; wanted.min(part.length - at) as usize];
                part.file.read_exact_at(&mut piece, part.skip + at)?;
                return Ok(piece.into());
            }
            at -= part.length;
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn inode(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.ino())
}

/// Tells whether a path still leads to this file.
fn is_still(path: &Path, file: &File) -> io::Result<bool> {
    match std::fs::metadata(path) {
        Ok(now) => Ok(now.ino() == inode(file)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where a recording is, and what it is called.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its newer part.
    pub path: PathBuf,
    /// What a file that is made of it is called, without an ending.
    pub name: String,
    /// Whether it may be elsewhere.
    pub links: Links,
}

/// Whether a file is read that only a link leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// It is: whoever can make one here has said which file is meant.
    Followed,
    /// It is not, and nothing but a plain file is: an agent could have made the link, to show what it cannot read itself.
    Refused,
}

impl Links {
    /// Opens a file to be read.
    pub fn open(self, path: &Path) -> io::Result<File> {
        match self {
            Self::Followed => File::open(path),
            Self::Refused => {
                // Nobody has to write to a pipe that is in its place.
                let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
                let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
                let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
                if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use http_body_util::BodyExt;

    use super::*;

    async fn sent(path: &Path, range: &[(header::HeaderName, &str)]) -> (u16, HeaderMap, String) {
        let headers = range.iter().map(|(name, value)| (name.clone(), value.parse().expect("a value"))).collect();
        let response = send(&recorded(path, Links::Refused), &headers).await.expect("it is there");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&body).into_owned())
    }

    fn recorded(path: &Path, links: Links) -> Recorded {
        Recorded { path: path.to_owned(), name: "a b/c".to_owned(), links }
    }

    /// An agent in a container can put a link where its recording is looked for, to a file that only we can read.
    #[tokio::test]
    async fn a_link_shows_nothing_unless_it_may() {
        let folder = tempfile::tempdir().expect("a folder");
        let [secret, link, pipe] = ["secret", "a.cast", "b.cast"].map(|name| folder.path().join(name));
        fs::write(&secret, "{\"version\":3}\n").expect("written");
        std::os::unix::fs::symlink(&secret, &link).expect("linked");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
        for path in [&link, &pipe] {
            let refused = send(&recorded(path, Links::Refused), &HeaderMap::new()).await;
            assert_eq!(refused.map(|_| ()).map_err(|error| error.code), Err(ErrorCode::Internal), "{path:?}");
        }
        assert!(send(&recorded(&link, Links::Followed), &HeaderMap::new()).await.is_ok());
        // The older part is shown with the newer.
        fs::remove_file(&link).expect("removed");
        fs::write(&link, "{\"version\":3}\n").expect("written");
        std::os::unix::fs::symlink(&secret, older_part(&link)).expect("linked");
        assert!(send(&recorded(&link, Links::Refused), &HeaderMap::new()).await.is_err());
    }

    #[tokio::test]
    async fn both_parts_are_one_file_with_one_header() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.cast");
        let missing = send(&recorded(&path, Links::Refused), &HeaderMap::new()).await.expect_err("nothing is there");
        assert_eq!(missing.code, ErrorCode::NotFound);
        fs::write(&path, "{\"version\":3}\n[1,\"o\",\"new\"]\n").expect("written");
        let (status, headers, body) = sent(&path, &[]).await;
        assert_eq!((status, body.as_str()), (200, "{\"version\":3}\n[1,\"o\",\"new\"]\n"));
        assert_eq!(headers[header::CONTENT_DISPOSITION], "attachment; filename=\"a_b_c.cast\"");
        let alone = headers[header::ETAG].clone();
        fs::write(older_part(&path), "{\"version\":3,\"old\":1}\n[1,\"o\",\"old\"]\n").expect("written");
        let whole = "{\"version\":3,\"old\":1}\n[1,\"o\",\"old\"]\n[1,\"o\",\"new\"]\n";
        let (_, headers, body) = sent(&path, &[]).await;
        assert_eq!(body, whole);
        assert_ne!(headers[header::ETAG], alone);
        // Every range is that of the whole, also across the parts.
        for (from, to) in [(0, 0), (3, 40), (whole.len() - 3, whole.len() + 100)] {
            let (status, headers, body) = sent(&path, &[(header::RANGE, &format!("bytes={from}-{to}"))]).await;
            let end = (to + 1).min(whole.len());
            assert_eq!((status, body.as_str()), (206, &whole[from..end]));
            assert_eq!(headers[header::CONTENT_RANGE], format!("bytes {from}-{}/{}", end - 1, whole.len()));
        }
        assert_eq!(sent(&path, &[(header::RANGE, "bytes=-5")]).await.2, whole[whole.len() - 5..]);
        assert_eq!(sent(&path, &[(header::RANGE, "bytes=9999-")]).await.0, 416);
        let stale = [(header::RANGE, "bytes=5-"), (header::IF_RANGE, alone.to_str().expect("text"))];
        assert_eq!(sent(&path, &stale).await.2, whole, "of another file the whole is sent");
    }
}
