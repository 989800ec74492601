use std::io;
use std::path::PathBuf;

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Bubblewrap is not installed.
    #[error("a sandbox needs the program `bwrap`; install the package bubblewrap (`apt install bubblewrap`)")]
    NotInstalled,
    /// A program of the user's could replace bubblewrap, which coop runs outside of the sandbox.
    #[error(
        "programs of this user can replace {}; install the package bubblewrap (`apt install bubblewrap`), or name a program that \
         you trust by COOP_BUBBLEWRAP", .0.display()
    )]
    NotOfRoot(PathBuf),
    /// Nothing tells which logins are to be hidden.
    #[error("HOME is not set, so coop cannot tell which logins to hide; set it and start coop again")]
    NoHome,
    /// Bubblewrap cannot make namespaces.
    #[error(
        "bubblewrap cannot make a sandbox here: {0}; allow user namespaces to this user \
         (`sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu `kernel.apparmor_restrict_unprivileged_userns=0`; \
         in a container they need `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`)"
    )]
    NotAllowed(String),
    /// A path is to be hidden and written to.
    #[error("the agent cannot write to {}, which its sandbox hides; choose another folder", .0.display())]
    Hidden(PathBuf),
    /// A program that coop runs outside of the sandbox can be replaced from within.
    #[error("the agent could replace {}, which coop runs outside of the sandbox; let it write to a smaller folder", .0.display())]
    Replaceable(PathBuf),
    /// A path leads out of a folder that the agent writes to.
    #[error("{} is reached by a link that the agent could change; name the place that it leads to", .0.display())]
    Linked(PathBuf),
    /// A folder is too much.
    #[error("{} cannot be the folder of an agent in a sandbox: it holds the home or folders of the system; start the agent in a folder of a project", .0.display())]
    TooMuch(PathBuf),
    /// A folder holds what programs outside of the sandbox run or obey.
    #[error(
        "the agent cannot write to {}: programs outside of the sandbox run or obey {}; let it write to a smaller folder",
        .path.display(), .found.display()
    )]
    Obeyed { path: PathBuf, found: PathBuf },
    /// A folder cannot be used.
    #[error("cannot prepare {} for the sandbox: {source}", .path.display())]
    Path { path: PathBuf, source: io::Error },
}
