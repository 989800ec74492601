//! `.keepfiles`: what a workspace gets a copy of although git does not know it, such as `.env`. Written like `.gitignore`.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path};

use coop_folder::read_beneath;

use super::git::Repository;

const FILE: &str = ".keepfiles";

/// Copies what is to be kept. It is a convenience: what cannot be copied is logged.
pub(super) async fn copy(repository: &Repository, workspace: &Path) {
    let project = repository.location().work_tree.as_path();
    if read_beneath(project, Path::new(FILE)).is_err() {
        return;
    }
    // Git itself reads the patterns, and tells which files that it does not know they fit.
    let listed = repository.git(&["ls-files", "--others", "--ignored", "-z", "--exclude-from", FILE]).await;
    let listed = match listed {
        Ok(listed) => listed,
        Err(error) => return tracing::warn!(%error, "what is to be kept cannot be told"),
    };
    let (project, workspace) = (project.to_owned(), workspace.to_owned());
    let copied = tokio::task::spawn_blocking(move || {
        for name in listed.split_terminator('\0') {
            if let Err(error) = copy_one(&project, &workspace, Path::new(name)) {
                tracing::warn!(name, %error, "it is not kept");
            }
        }
    });
    // It cannot be cut off but with all of us.
    let _ = copied.await;
}

/// Copies one file, over nothing, and through no link.
fn copy_one(project: &Path, workspace: &Path, name: &Path) -> io::Result<()> {
    if name.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(io::Error::other("its name leads elsewhere"));
    }
    let mut folder = workspace.to_owned();
    for part in name.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ if folder.symlink_metadata()?.is_dir() => {}
            _ => return Err(io::Error::other("there is no folder in the workspace for it")),
        }
    }
    let (from, to) = (project.join(name), workspace.join(name));
    let kind = from.symlink_metadata()?;
    if kind.is_symlink() {
        return symlink(fs::read_link(&from)?, &to);
    }
    if !kind.is_file() {
        // A repository within the repository, a socket, a device.
        return Err(io::Error::other("it is no file"));
    }
    let mut source = read_beneath(project, name)?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(kind.permissions().mode()).open(&to)?;
    io::copy(&mut source, &mut target)?;
    Ok(())
}
