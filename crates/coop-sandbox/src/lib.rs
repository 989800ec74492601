//! What an agent may touch, and the bubblewrap command line that enforces it.
//!
//! An agent in a sandbox has its own mount, PID and IPC namespaces. It writes to its folder and to what [`Reach::write`] names.
//! It sees the rest of the file system read-only, without [`Reach::hidden`], `/tmp`, `/var/tmp` and `/run`. It sees no process
//! but its own, and all of them end with the process that started the sandbox.

mod git;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coop_term::Access;

/// The program, and the package that has it on Debian, Ubuntu, Fedora and Arch.
const BWRAP: &str = "bwrap";
/// Folders in which programs meet: sockets, locks and temporary files of other processes.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/run"];
/// Folders that are the sandbox's own, or the kernel's. No agent is given one of them whole.
const NEVER_GIVEN: [&str; 8] = ["/", "/dev", "/dev/shm", "/proc", "/run", "/sys", "/tmp", "/var/tmp"];
/// What the kernel lets root change, whatever else root may do.
const OF_ROOT: [&str; 4] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"];
/// What programs need of `/run`: how names are resolved, and on NixOS every program.
const NEEDED_OF_RUN: [&str; 2] = ["/run/current-system", "/run/wrappers"];
/// Variables that name places in a folder that the sandbox hides.
const RUNTIME_VARIABLES: [&str; 3] = ["XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS"];
/// The variable that names the folder for temporary files. It most often names one that the sandbox hides.
const TMPDIR: &str = "TMPDIR";
/// Where people keep what lets others act as them, below their home.
const SECRETS: [&str; 52] = [
    ".Xauthority",
    ".aws",
    ".azure",
    ".bash_history",
    ".boto",
    ".cache/huggingface/token",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".composer/auth.json",
    ".config/age",
    ".config/chromium",
    ".config/composer/auth.json",
    ".config/containers",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".docker",
    ".gem/credentials",
    ".git-credentials",
    ".gnupg",
    ".gradle/gradle.properties",
    ".kube",
    ".local/share/fish/fish_history",
    ".local/share/keyrings",
    ".m2/settings.xml",
    ".mozilla",
    ".my.cnf",
    ".mysql_history",
    ".netrc",
    ".node_repl_history",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".s3cfg",
    ".ssh",
    ".terraform.d",
    ".terraformrc",
    ".thunderbird",
    ".var/app",
    ".vault-token",
    ".yarnrc.yml",
    ".zsh_history",
];

/// What an agent may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The agent's folder, which it may write to.
    pub folder: PathBuf,
    /// What else it may write to. What is not there is left out.
    pub write: Vec<PathBuf>,
    /// What it sees, read-only, also in a folder that is hidden.
    pub read: Vec<PathBuf>,
    /// What it does not see.
    pub hidden: Vec<PathBuf>,
    /// The folder that is its `/tmp`, so that several sandboxes share one; without it each has an empty one of its own.
    pub tmp: Option<PathBuf>,
    /// Whether it has no network, not even this machine's.
    pub no_network: bool,
}

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Bubblewrap is not installed.
    #[error("a sandbox needs the program `bwrap`; install the package bubblewrap (`apt install bubblewrap`)")]
    NotInstalled,
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
    #[error("{} cannot be the folder of an agent in a sandbox; start it in a folder below, or name one", .0.display())]
    TooMuch(PathBuf),
    /// A folder cannot be used.
    #[error("cannot prepare {} for the sandbox: {source}", .path.display())]
    Path { path: PathBuf, source: io::Error },
}

/// Returns the places below a home in which people keep what lets others act as them.
pub fn secrets_of(home: &Path) -> Vec<PathBuf> {
    SECRETS.iter().map(|name| home.join(name)).collect()
}

/// Returns a path that a person wrote, with the home for `~`.
pub fn in_home(path: &Path, home: &Path) -> PathBuf {
    path.strip_prefix("~").map_or_else(|_| path.to_owned(), |path| home.join(path))
}

/// Tells whether a path is one of the folders that no agent is given whole.
pub fn is_never_given(path: &Path) -> bool {
    NEVER_GIVEN.iter().any(|known| path == Path::new(known))
}

/// Tries whether sandboxes can be made on this machine. Blocks for a few milliseconds.
pub fn check() -> Result<(), SandboxError> {
    check_with(&find_bubblewrap()?)
}

/// Makes a sandbox in which bubblewrap prints its version. No other program is needed for that.
fn check_with(program: &Path) -> Result<(), SandboxError> {
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

/// One mount of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mount {
    /// How deep the path is: what is deeper is mounted later, and covers what is above.
    depth: usize,
    kind: Kind,
    path: PathBuf,
    /// What is there instead of an empty folder, if it is hidden.
    instead: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Hidden,
    Read,
    Write,
}

impl Kind {
    fn access(self) -> Access {
        match self {
            Self::Hidden => Access::None,
            Self::Read => Access::Read,
            Self::Write => Access::Write,
        }
    }
}

impl Reach {
    /// Tries whether this sandbox can be made. Blocks for a few milliseconds.
    pub fn check(&self) -> Result<(), SandboxError> {
        let program = find_bubblewrap()?;
        let folder = canonical(&self.folder)?;
        self.check_programs(&folder, &self.mounts(&folder)?)?;
        check_with(&program)
    }

    /// Refuses a sandbox in which the agent could replace what coop runs outside of it.
    fn check_programs(&self, folder: &Path, mounts: &[Mount]) -> Result<(), SandboxError> {
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        if is_never_given(folder) || home.is_some_and(|home| home.starts_with(folder)) {
            return Err(SandboxError::TooMuch(folder.to_owned()));
        }
        let programs = [Some(find_bubblewrap()?), std::env::current_exe().ok(), coop_folder::git_program()];
        let programs = programs.into_iter().flatten().filter_map(|path| path.canonicalize().ok());
        match programs.into_iter().find(|program| is_written(mounts, program)) {
            Some(program) => Err(SandboxError::Replaceable(program)),
            None => Ok(()),
        }
    }

    /// Returns the words to put before a command, so that it runs in the sandbox. Its current folder is that of bubblewrap.
    pub fn words(&self) -> Result<Vec<OsString>, SandboxError> {
        let folder = canonical(&self.folder)?;
        let mounts = self.mounts(&folder)?;
        self.check_programs(&folder, &mounts)?;
        let program = find_bubblewrap()?;
        let mut words: Vec<OsString> =
            ["--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"]
                .map(OsString::from)
                .to_vec();
        words.insert(0, program.into());
        if self.no_network {
            words.push("--unshare-net".into());
        }
        for name in RUNTIME_VARIABLES {
            words.extend(["--unsetenv", name].map(OsString::from));
        }
        let tmpdir = std::env::var_os(TMPDIR).and_then(|path| Path::new(&path).canonicalize().ok());
        if !tmpdir.is_some_and(|path| is_written(&mounts, &path)) {
            words.extend(["--unsetenv", TMPDIR].map(OsString::from));
        }
        words.extend(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"].map(OsString::from));
        if rustix::process::geteuid().is_root() {
            words.extend(OF_ROOT.into_iter().flat_map(|path| ["--ro-bind-try", path, path]).map(OsString::from));
        }
        words.extend(mounts.iter().flat_map(Mount::words));
        // What is written to a hidden folder would be lost, so it cannot be written to, other than temporary files.
        for mount in mounts
            .iter()
            .filter(|mount| mount.is_hidden_folder() && !SHARED.iter().any(|shared| mount.path == Path::new(shared)))
        {
            words.extend(["--remount-ro".into(), mount.path.clone().into()]);
        }
        words.push("--".into());
        Ok(words)
    }

    /// Returns paths with what the agent may do there and below, the deeper ones later.
    pub fn access(&self) -> Result<Vec<(PathBuf, Access)>, SandboxError> {
        let mounts = self.mounts(&canonical(&self.folder)?)?;
        // The agent has others than the machine's.
        let own = ["/proc", "/dev"].map(|path| (PathBuf::from(path), Access::None));
        let tmp = self.tmp.iter().map(|tmp| (tmp.clone(), Access::Write));
        let mounted = mounts.into_iter().map(|mount| (mount.path, mount.kind.access()));
        Ok(mounted.chain(own).chain(tmp).collect())
    }

    fn mounts(&self, folder: &Path) -> Result<Vec<Mount>, SandboxError> {
        self.check_links(folder)?;
        let shared = SHARED.iter().map(Path::new).filter(|path| path.is_dir());
        let hidden: Vec<PathBuf> = self.hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let mut write: Vec<PathBuf> = self.write.iter().filter_map(|path| path.canonicalize().ok()).collect();
        if let Some(own) =
            write.iter().find(|path| hidden.contains(path)).or(hidden.iter().find(|path| *path == folder))
        {
            return Err(SandboxError::Hidden(own.clone()));
        }
        // Sandboxes' own folders for temporary files are there.
        let temporary = std::env::temp_dir().canonicalize().ok();
        let temporary = temporary.filter(|path| {
            !SHARED.iter().any(|shared| path.starts_with(shared)) && !write.iter().any(|write| path.starts_with(write))
        });
        let hidden: Vec<PathBuf> =
            hidden.into_iter().chain(temporary.filter(|path| !path.starts_with(folder))).collect();
        let mut read: Vec<PathBuf> = self.read.iter().filter_map(|path| path.canonicalize().ok()).collect();
        read.extend(NEEDED_OF_RUN.iter().map(PathBuf::from).filter(|path| path.exists()));
        // Often a link into /run.
        read.extend(Path::new("/etc/resolv.conf").canonicalize().ok().filter(|path| path.starts_with("/run")));
        write.push(folder.to_owned());
        let git = git::protect(folder)?;
        write.extend(git.write);
        read.extend(git.read);
        let instead = |path: &Path| self.tmp.clone().filter(|_| path == Path::new(SHARED[0]));
        let shared = shared.map(|path| Mount { instead: instead(path), ..Mount::new(Kind::Hidden, path) });
        let mut mounts: Vec<Mount> = shared.collect();
        // What is mounted cannot be renamed. Else a hidden path would be seen by a sandbox that is made after its parent was.
        let is_seen = |path: &PathBuf| !hidden.iter().any(|hidden| path.starts_with(hidden));
        let between = hidden.iter().chain(&read).flat_map(|path| below_written(path, &write));
        let between: Vec<_> = between.filter(is_seen).collect();
        for (kind, paths) in
            [(Kind::Hidden, &hidden), (Kind::Read, &read), (Kind::Write, &write), (Kind::Write, &between)]
        {
            mounts.extend(paths.iter().map(|path| Mount::new(kind, path)));
        }
        mounts.sort();
        mounts.dedup();
        Ok(mounts.iter().filter(|mount| !mount.is_hidden_anyway(&mounts)).cloned().collect())
    }
}

impl Reach {
    /// Refuses paths that a link in a folder that the agent writes to leads elsewhere: they are looked up at each start.
    fn check_links(&self, folder: &Path) -> Result<(), SandboxError> {
        let real = |path: &PathBuf| path.canonicalize().ok();
        let named = self.write.iter().filter_map(|path| Some((path.as_path(), real(path)?)));
        let writable: Vec<_> = named.chain([(folder, folder.to_owned()), (&self.folder, folder.to_owned())]).collect();
        let is_linked = |path: &&PathBuf| {
            let Some(target) = real(path) else { return false };
            writable.iter().any(|(named, real)| path.starts_with(named) && !target.starts_with(real))
        };
        match self.write.iter().chain(&self.hidden).find(is_linked) {
            Some(path) => Err(SandboxError::Linked(path.clone())),
            None => Ok(()),
        }
    }
}

impl Mount {
    fn new(kind: Kind, path: &Path) -> Self {
        Self { depth: path.components().count(), kind, path: path.to_owned(), instead: None }
    }

    /// Tells whether a hidden path lies in a folder that is hidden already. To mount it again would show its name there.
    fn is_hidden_anyway(&self, sorted: &[Self]) -> bool {
        let above = sorted.iter().rfind(|mount| mount.depth < self.depth && self.path.starts_with(&mount.path));
        self.kind == Kind::Hidden && above.is_some_and(|mount| mount.kind == Kind::Hidden)
    }

    fn is_hidden_folder(&self) -> bool {
        self.kind == Kind::Hidden && self.path.is_dir()
    }

    fn words(&self) -> Vec<OsString> {
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
fn below_written(path: &Path, write: &[PathBuf]) -> Vec<PathBuf> {
    let Some(parent) = path.parent() else { return Vec::new() };
    let is_within = |above: &Path| write.iter().any(|write| above.starts_with(write) && above != write);
    parent.ancestors().filter(|above| is_within(above)).map(Path::to_owned).collect()
}

fn find_bubblewrap() -> Result<PathBuf, SandboxError> {
    coop_folder::find_program(BWRAP).ok_or(SandboxError::NotInstalled)
}

/// Tells whether a path can be written to. The mounts are sorted, so the last that fits counts.
fn is_written(sorted: &[Mount], path: &Path) -> bool {
    sorted.iter().rfind(|mount| path.starts_with(&mount.path)).is_some_and(|mount| mount.kind == Kind::Write)
}

fn canonical(path: &Path) -> Result<PathBuf, SandboxError> {
    path.canonicalize().map_err(|source| SandboxError::Path { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Runs a script in a sandbox; nothing where there is none to be had.
    fn run(reach: &Reach, script: &str) -> Option<String> {
        if let Err(why) = check() {
            coop_testkit::skip(&why.to_string());
            return None;
        }
        let words = reach.words().expect("a command");
        let output = Command::new(&words[0]).args(&words[1..]).args(["sh", "-c", script]).output().expect("run");
        Some(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
    }

    #[test]
    fn what_is_deeper_is_mounted_later() {
        let all = tempfile::tempdir().expect("a folder");
        let all = all.path().canonicalize().expect("it is there");
        for name in ["home/work/sub", "home/state/own", "home/state/other"] {
            fs::create_dir_all(all.join(name)).expect("made");
        }
        let reach = Reach {
            folder: all.join("home"),
            write: vec![all.join("home/state/own"), all.join("nowhere")],
            // The second is hidden with the first, and leaves no name of its own there.
            hidden: vec![all.join("home/state"), all.join("home/state/other")],
            ..Reach::default()
        };
        let mounts = reach.mounts(&all.join("home")).expect("mounts");
        let order: Vec<_> = mounts.iter().filter(|mount| mount.path.starts_with(&all)).collect();
        let order: Vec<_> =
            order.iter().map(|mount| (mount.kind, mount.path.strip_prefix(&all).expect("within"))).collect();
        let expected = [(Kind::Write, "home"), (Kind::Hidden, "home/state"), (Kind::Write, "home/state/own")];
        assert_eq!(order, expected.map(|(kind, path)| (kind, Path::new(path))));
        let own = Reach { folder: all.join("home/state"), ..reach.clone() };
        assert!(matches!(own.words(), Err(SandboxError::Hidden(_))));
        let asked = Reach { write: vec![all.join("home/work/../state")], ..reach };
        assert!(matches!(asked.words(), Err(SandboxError::Hidden(_))));
    }

    /// What is named in the agent's folder could be another place at the next start.
    #[test]
    fn a_folder_above_what_is_hidden_is_a_mount_and_no_link_leads_out_of_the_agents_folder() {
        let all = tempfile::tempdir().expect("a folder");
        let all = all.path().canonicalize().expect("it is there");
        fs::create_dir_all(all.join("work/deep/er/hidden")).expect("made");
        fs::create_dir(all.join("secret")).expect("made");
        std::os::unix::fs::symlink(all.join("secret"), all.join("work/cache")).expect("made");
        let reach =
            Reach { folder: all.join("work"), hidden: vec![all.join("work/deep/er/hidden")], ..Reach::default() };
        let mounts = reach.mounts(&all.join("work")).expect("mounts");
        let order = mounts.iter().filter_map(|mount| Some((mount.kind, mount.path.strip_prefix(&all).ok()?)));
        let expected = [
            (Kind::Write, "work"),
            (Kind::Write, "work/deep"),
            (Kind::Write, "work/deep/er"),
            (Kind::Hidden, "work/deep/er/hidden"),
        ];
        assert_eq!(order.collect::<Vec<_>>(), expected.map(|(kind, path)| (kind, Path::new(path))));
        let linked = Reach { write: vec![all.join("work/cache")], ..reach };
        assert!(matches!(linked.words(), Err(SandboxError::Linked(_))));
        let too_much = Reach { folder: "/tmp".into(), ..Reach::default() };
        assert!(matches!(too_much.words(), Err(SandboxError::TooMuch(_))));
    }

    #[test]
    fn only_the_folder_can_be_written_to_and_the_hidden_is_not_there() {
        let all = tempfile::tempdir().expect("a folder");
        for name in ["work", "more", "other", "hidden"] {
            fs::create_dir(all.path().join(name)).expect("made");
            fs::write(all.path().join(name).join("f"), "secret").expect("written");
        }
        let at = |name: &str| all.path().join(name);
        let reach = Reach {
            folder: at("work"),
            write: vec![at("more")],
            read: vec![at("other")],
            hidden: vec![at("hidden"), at("other/f")],
            tmp: None,
            no_network: true,
        };
        let script = format!(
            "cd {}; for d in work more other hidden; do (echo x >$d/new) 2>/dev/null && echo \"$d written\"; done; \
             cat hidden/f other/f 2>/dev/null; ls /proc | grep -c '^[0-9]'; kill -0 {} 2>/dev/null && echo signalled; \
             grep CapEff /proc/self/status; (: >/etc/x) 2>/dev/null && echo etc; wc -l </proc/net/route",
            all.path().display(),
            std::process::id(),
        );
        let Some(told) = run(&reach, &script) else { return };
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines[..2], ["work written", "more written"], "{told}");
        assert!(lines[2].parse::<u32>().is_ok_and(|processes| processes < 8), "{told}");
        assert_eq!(lines[3..], ["CapEff:\t0000000000000000", "1"], "{told}");
        assert!(at("work/new").exists() && !at("other/new").exists() && !at("hidden/new").exists());
    }
}
