//! One folder, and nothing outside it.

use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::MAX_FILE;
use crate::{ToolCx, ToolError};

/// A folder that tools are confined to.
///
/// Everything goes through one open descriptor of it, so links are resolved by the kernel below it and cannot lead out, also
/// if somebody changes them at the same moment.
#[derive(Clone, Debug)]
pub struct Root {
    path: Arc<Path>,
    dir: Arc<Dir>,
    /// Held while a file is read and written back: two edits of one turn must not undo each other. It is fair, so they
    /// happen in the order of the calls.
    writing: Arc<Mutex<()>>,
}

impl Root {
    /// Opens a folder.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().canonicalize()?;
        let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
        Ok(Self { path: path.into(), dir: Arc::new(dir), writing: Arc::default() })
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks into the folder, beside the runtime.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        cx: &ToolCx,
        work: impl FnOnce(&Folder) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let given_up = cx.cancel.child_token();
        // When this future is dropped, the work ends at its next look at the token.
        let _guard = given_up.clone().drop_guard();
        let folder = Folder { path: Arc::clone(&self.path), dir: Arc::clone(&self.dir), given_up };
        let begin = move || {
            if folder.given_up.is_cancelled() {
                return Err(ToolError::Failed("not run: the run was stopped".into()));
            }
            work(&folder)
        };
        let done = tokio::task::spawn_blocking(begin).await;
        done.map_err(|_| ToolError::Failed("the tool broke".into()))?
    }

    /// Changes files in the folder, one call after another.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        cx: &ToolCx,
        work: impl FnOnce(&Folder) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let turn = Arc::clone(&self.writing).lock_owned().await;
        // The lock goes along: a change that was begun is finished, even if nobody waits for it any more.
        self.look(cx, move |folder| {
            let _turn = turn;
            work(folder)
        })
        .await
    }
}

/// The folder, for one piece of work.
pub(super) struct Folder {
    path: Arc<Path>,
    pub(super) dir: Arc<Dir>,
    pub(super) given_up: CancellationToken,
}

impl Folder {
    /// Returns a path within the folder for what the model wrote. It may be absolute, if that is in the folder.
    pub(super) fn inside(&self, path: &str) -> Result<PathBuf, ToolError> {
        let given = Path::new(path);
        let inside =
            if given.is_absolute() { given.strip_prefix(&self.path).map_err(|_| outside(path))? } else { given };
        // `..` is left for the kernel, which knows what is a link.
        Ok(if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside.to_owned() })
    }

    /// Reads a text file.
    pub(super) fn read(&self, path: &str) -> Result<String, ToolError> {
        let inside = self.inside(path)?;
        let file = open_file(&self.dir, &inside).map_err(|error| said(path, &error))?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| said(path, &error))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(ToolError::Failed(format!("{path} is larger than {} MiB", MAX_FILE >> 20)));
        }
        String::from_utf8(bytes).map_err(|_| ToolError::Failed(format!("{path} is not a text in UTF-8")))
    }

    /// Writes a file, whole or not at all, and the folders it is in.
    pub(super) fn write(&self, path: &str, content: &str) -> Result<(), ToolError> {
        let inside = self.inside(path)?;
        replace(&self.dir, &inside, content).map_err(|error| said(path, &error))
    }
}

/// Opens something that is a file: a pipe would keep its reader waiting.
pub(super) fn open_file(dir: &Dir, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = dir.open_with(path, &options)?;
    match file.metadata()? {
        data if data.is_file() => Ok(file),
        data if data.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file")),
    }
}

fn replace(dir: &Dir, path: &Path, content: &str) -> io::Result<()> {
    // A link stays, and what it names is written.
    let linked = dir.symlink_metadata(path).is_ok_and(|data| data.is_symlink());
    let path = if linked { dir.canonicalize(path)? } else { path.to_owned() };
    let Some(Component::Normal(name)) = path.components().next_back() else {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    };
    let folder = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => match dir.open_dir(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                dir.create_dir_all(parent)?;
                dir.open_dir(parent)?
            }
            opened => opened?,
        },
        None => dir.try_clone()?,
    };
    let mode = match folder.symlink_metadata(name) {
        Ok(data) if data.is_file() => Some(data.permissions()),
        Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let part = format!(".coop-{:016x}", fastrand::u64(..));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if mode.is_some() {
        // Not even for a moment can anybody read it who could not before.
        options.mode(0o600);
    }
    let mut file = folder.open_with(&part, &options)?;
    let written = file
        .write_all(content.as_bytes())
        .and_then(|()| mode.map_or(Ok(()), |mode| file.set_permissions(mode)))
        .and_then(|()| folder.rename(&part, &folder, name));
    if written.is_err() {
        // The first failure is the one to tell.
        let _ = folder.remove_file(&part);
    }
    written
}

/// Says what went wrong with which path.
pub(super) fn said(path: &str, error: &io::Error) -> ToolError {
    match error.kind() {
        // So says the confinement; a file that is merely not readable has the system's own number.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => outside(path),
        _ if error.raw_os_error() == Some(rustix::io::Errno::XDEV.raw_os_error()) => outside(path),
        io::ErrorKind::NotFound => ToolError::Failed(format!("{path} does not exist")),
        _ => ToolError::Failed(format!("{path}: {error}")),
    }
}

fn outside(path: &str) -> ToolError {
    ToolError::Failed(format!("{path} is outside the folder"))
}
