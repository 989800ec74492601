//! Programs that coop runs itself, outside of every sandbox.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::{Access, access};

/// Returns where git is, as it was when coop first looked: a folder of `PATH` may be one that an agent writes to later.
pub fn git_program() -> Option<PathBuf> {
    static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| find_programs("git").into_iter().next());
    PROGRAM.clone()
}

/// Returns the programs of a name in the folders of `PATH`, in their order, without links. A relative folder does not count:
/// it depends on where coop runs.
pub fn find_programs(name: &str) -> Vec<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&search).filter(|folder| folder.is_absolute());
    let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    folders.filter_map(|folder| folder.join(name).canonicalize().ok().filter(is_program)).collect()
}

/// Tells whether only root can write to a file or folder, and to every folder above it. The path has no links in it.
pub fn only_root_writes(path: &Path) -> bool {
    // In a sticky folder, such as /nix/store, others can add files, and not replace those of root.
    let is_sticky = |mode: u32| mode & 0o1000 != 0 && mode & 0o170_000 == 0o040_000;
    let is_roots = |path: &Path| {
        fs::symlink_metadata(path)
            .is_ok_and(|found| found.uid() == 0 && (found.mode() & 0o022 == 0 || is_sticky(found.mode())))
    };
    path.ancestors().all(is_roots)
}
