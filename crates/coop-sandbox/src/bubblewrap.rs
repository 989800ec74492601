//! The program that makes the namespaces.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use coop_folder::{find_programs, only_root_writes};

use crate::SandboxError;

/// The program, and the package that has it on Debian, Ubuntu, Fedora and Arch.
const BWRAP: &str = "bwrap";

/// Tries whether sandboxes can be made on this machine. Blocks for a few milliseconds.
pub fn check() -> Result<(), SandboxError> {
    check_with(find_bubblewrap()?)
}

/// Makes a sandbox in which bubblewrap prints its version. No other program is needed for that.
pub(crate) fn check_with(program: &Path) -> Result<(), SandboxError> {
    let words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--ro-bind", "/", "/", "--dev", "/dev"];
    let mut command = Command::new(program);
    command.args(words).args(["--proc", "/proc", "--"]).arg(program).arg("--version").stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(SandboxError::NotAllowed(said.trim().trim_start_matches("bwrap: ").to_owned()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(SandboxError::NotInstalled),
        Err(error) => Err(SandboxError::NotAllowed(error.to_string())),
    }
}

/// The variable with the path of bubblewrap, for a user who trusts a program that is not root's.
pub const BUBBLEWRAP_VARIABLE: &str = "COOP_BUBBLEWRAP";

/// Returns bubblewrap, as it was when coop first looked. A folder of `PATH` may be one that an agent writes to, and coop runs
/// bubblewrap outside of the sandbox: only a program that root alone can replace counts, or the one that the user names.
pub(crate) fn find_bubblewrap() -> Result<&'static Path, SandboxError> {
    static NAMED: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let named = std::env::var_os(BUBBLEWRAP_VARIABLE).map(PathBuf::from);
        named.filter(|path| path.is_absolute())
    });
    static FOUND: LazyLock<Vec<PathBuf>> = LazyLock::new(|| find_programs(BWRAP));
    if let Some(named) = NAMED.as_deref() {
        return Ok(named);
    }
    match (FOUND.iter().find(|path| only_root_writes(path)), FOUND.first()) {
        (Some(program), _) => Ok(program),
        (None, Some(replaceable)) => Err(SandboxError::NotOfRoot(replaceable.clone())),
        (None, None) => Err(SandboxError::NotInstalled),
    }
}
