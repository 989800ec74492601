use std::ffi::OsString;
use std::path::{Path, PathBuf};

use coop_term::Access;

/// One mount of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mount {
    /// How deep the path is: what is deeper is mounted later, and covers what is above.
    pub(crate) depth: usize,
    pub(crate) kind: Kind,
    pub(crate) path: PathBuf,
    /// The folder that is mounted in place of a hidden one, instead of an empty one.
    pub(crate) instead: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Hidden,
    Read,
    Write,
}

impl Kind {
    pub(crate) fn access(self) -> Access {
        match self {
            Self::Hidden => Access::None,
            Self::Read => Access::Read,
            Self::Write => Access::Write,
        }
    }
}

impl Mount {
    pub(crate) fn new(kind: Kind, path: &Path) -> Self {
        Self { depth: path.components().count(), kind, path: path.to_owned(), instead: None }
    }

    /// Tells whether a hidden path lies in a folder that is hidden already. To mount it again would show its name there.
    pub(crate) fn is_hidden_anyway(&self, sorted: &[Self]) -> bool {
        let above = sorted.iter().rfind(|mount| mount.depth < self.depth && self.path.starts_with(&mount.path));
        self.kind == Kind::Hidden && above.is_some_and(|mount| mount.kind == Kind::Hidden)
    }

    pub(crate) fn is_hidden_folder(&self) -> bool {
        self.kind == Kind::Hidden && self.path.is_dir()
    }

    pub(crate) fn words(&self) -> Vec<OsString> {
        let path = OsString::from(&self.path);
        match self.kind {
            Kind::Hidden if self.is_hidden_folder() => match &self.instead {
                Some(instead) => vec!["--bind".into(), instead.into(), path],
                None => vec!["--tmpfs".into(), path],
            },
            Kind::Hidden => vec!["--ro-bind".into(), "/dev/null".into(), path],
            Kind::Read => vec!["--ro-bind".into(), path.clone(), path],
            Kind::Write => vec!["--bind".into(), path.clone(), path],
        }
    }
}

/// Returns the folders above a path that lie in a folder that can be written to.
pub(crate) fn below_written(path: &Path, write: &[PathBuf]) -> Vec<PathBuf> {
    let Some(parent) = path.parent() else { return Vec::new() };
    let is_within = |above: &Path| write.iter().any(|write| above.starts_with(write) && above != write);
    parent.ancestors().filter(|above| is_within(above)).map(Path::to_owned).collect()
}

/// Tells whether a path can be written to. The mounts are sorted, so the last that fits counts.
pub(crate) fn is_written(sorted: &[Mount], path: &Path) -> bool {
    sorted.iter().rfind(|mount| path.starts_with(&mount.path)).is_some_and(|mount| mount.kind == Kind::Write)
}
