use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use coop_term::Access;

use crate::aliases::other_names;
use crate::bubblewrap::find_bubblewrap;
use crate::mount::{Kind, Mount, below_written, is_written};
use crate::mounted::enter_words;
use crate::secrets::OBEYED;
use crate::{SandboxError, git};

/// Folders in which programs meet: sockets, locks and temporary files of other processes.
pub(crate) const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/run"];
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

/// As many links as Linux follows on the way to one path.
const MOST_LINKS: usize = 40;

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

/// A sandbox that is ready to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Bubblewrap and its arguments. The current folder in the sandbox is that of bubblewrap.
    pub bubblewrap: Vec<OsString>,
    /// The arguments of `coop enter`, the first program in the sandbox, for [`crate::check_mounted`].
    pub enter: Vec<OsString>,
    /// What the agent may do at each path and below, the deeper paths later.
    pub access: Vec<(PathBuf, Access)>,
}

/// Tells whether a path is one of the folders that no agent is given whole.
pub fn is_never_given(path: &Path) -> bool {
    NEVER_GIVEN.iter().any(|known| path == Path::new(known))
}

impl Reach {
    /// Returns the sandbox as words to put before a command. Makes what is missing of the folder's repository, because what is
    /// not there cannot be protected.
    pub fn prepare(&self) -> Result<Prepared, SandboxError> {
        let folder = canonical(&self.folder)?;
        let mounts = self.mounts(&folder)?;
        self.check_programs(&folder, &mounts)?;
        self.check_obeyed(&folder)?;
        Ok(Prepared { bubblewrap: self.words(&mounts)?, enter: enter_words(&mounts), access: self.access(&mounts) })
    }

    /// Refuses a sandbox in which the agent could replace what coop runs outside of it.
    fn check_programs(&self, folder: &Path, mounts: &[Mount]) -> Result<(), SandboxError> {
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        if is_never_given(folder) || home.is_some_and(|home| home.starts_with(folder)) {
            return Err(SandboxError::TooMuch(folder.to_owned()));
        }
        let bubblewrap = find_bubblewrap()?.to_owned();
        let programs = [Some(bubblewrap), std::env::current_exe().ok(), coop_folder::git_program()];
        let programs = programs.into_iter().flatten().filter_map(|path| path.canonicalize().ok());
        let in_tmp = |program: &Path| self.tmp.as_ref().is_some_and(|tmp| program.starts_with(tmp));
        match programs.into_iter().find(|program| is_written(mounts, program) || in_tmp(program)) {
            Some(program) => Err(SandboxError::Replaceable(program)),
            None => Ok(()),
        }
    }

    fn words(&self, mounts: &[Mount]) -> Result<Vec<OsString>, SandboxError> {
        let mut words: Vec<OsString> =
            ["--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"]
                .map(OsString::from)
                .to_vec();
        words.insert(0, find_bubblewrap()?.into());
        if self.no_network {
            words.push("--unshare-net".into());
        }
        for name in RUNTIME_VARIABLES {
            words.extend(["--unsetenv", name].map(OsString::from));
        }
        let tmpdir = std::env::var_os(TMPDIR).and_then(|path| Path::new(&path).canonicalize().ok());
        if !tmpdir.is_some_and(|path| is_written(mounts, &path)) {
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

    fn access(&self, mounts: &[Mount]) -> Vec<(PathBuf, Access)> {
        // The agent has others than the machine's.
        let own = ["/proc", "/dev"].map(|path| (PathBuf::from(path), Access::None));
        let tmp = self.tmp.iter().map(|tmp| (tmp.clone(), Access::Write));
        let mounted = mounts.iter().map(|mount| (mount.path.clone(), mount.kind.access()));
        mounted.chain(own).chain(tmp).collect()
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
        let mut hidden: Vec<PathBuf> =
            hidden.into_iter().chain(temporary.filter(|path| !path.starts_with(folder))).collect();
        let shared_paths: Vec<PathBuf> = shared.clone().map(Path::to_owned).chain(hidden.iter().cloned()).collect();
        hidden.extend(other_names(&shared_paths)?);
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

    /// Refuses paths that lead over a link in a folder that the agent writes to: they are looked up at each start.
    fn check_links(&self, folder: &Path) -> Result<(), SandboxError> {
        let written = self.write.iter().filter_map(|path| path.canonicalize().ok());
        let writable: Vec<_> = written.chain([folder.to_owned()]).collect();
        let is_linked = |path: &&PathBuf| leads_over_link(path, &writable);
        match self.write.iter().chain(&self.hidden).chain([&self.folder]).find(is_linked) {
            Some(path) => Err(SandboxError::Linked(path.clone())),
            None => Ok(()),
        }
    }

    /// Refuses to let the agent write to what programs outside of the sandbox run or obey.
    fn check_obeyed(&self, folder: &Path) -> Result<(), SandboxError> {
        let Some(home) = std::env::home_dir().and_then(|home| home.canonicalize().ok()) else { return Ok(()) };
        let written = self.write.iter().filter_map(|path| path.canonicalize().ok());
        for path in written.chain([folder.to_owned()]) {
            // People keep such files elsewhere, with a link in their place.
            let mut obeyed = OBEYED.iter().map(|name| home.join(name)).flat_map(|found| {
                let real = found.canonicalize().ok().filter(|real| *real != found);
                [Some(found), real].into_iter().flatten()
            });
            if let Some(found) = obeyed.find(|found| found.starts_with(&path) || path.starts_with(found)) {
                return Err(SandboxError::Obeyed { path, found });
            }
        }
        Ok(())
    }
}

/// Tells whether the way to a path leads over a link in one of these folders, whose own paths have no links in them.
pub fn leads_over_link(path: &Path, writable: &[PathBuf]) -> bool {
    let mut real = PathBuf::from("/");
    let mut rest = vec![std::path::absolute(path).unwrap_or_else(|_| path.to_owned())];
    let mut links = 0;
    while let Some(next) = rest.pop() {
        let mut parts = next.components();
        let Some(part) = parts.next() else { continue };
        rest.push(parts.as_path().to_owned());
        match part {
            Component::RootDir => real = PathBuf::from("/"),
            Component::ParentDir => drop(real.pop()),
            Component::CurDir | Component::Prefix(_) => {}
            Component::Normal(name) => match std::fs::read_link(real.join(name)) {
                Ok(target) => {
                    links += 1;
                    if links > MOST_LINKS || writable.iter().any(|folder| real.starts_with(folder)) {
                        return true;
                    }
                    rest.push(target);
                }
                Err(_) => real.push(name),
            },
        }
    }
    false
}

fn canonical(path: &Path) -> Result<PathBuf, SandboxError> {
    path.canonicalize().map_err(|source| SandboxError::Path { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::check;

    /// Runs a script in a sandbox; nothing where there is none to be had.
    fn run(reach: &Reach, script: &str) -> Option<String> {
        if let Err(why) = check() {
            coop_testkit::skip(&why.to_string());
            return None;
        }
        let words = reach.prepare().expect("a sandbox").bubblewrap;
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
        assert!(matches!(own.prepare(), Err(SandboxError::Hidden(_))));
        let asked = Reach { write: vec![all.join("home/work/../state")], ..reach };
        assert!(matches!(asked.prepare(), Err(SandboxError::Hidden(_))));
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
        std::os::unix::fs::symlink("work/cache", all.join("over")).expect("made");
        for way in ["work/cache", "work/./cache/", "work/deep/../cache", "over"] {
            let linked = Reach { write: vec![all.join(way)], ..reach.clone() };
            assert!(matches!(linked.prepare(), Err(SandboxError::Linked(_))), "{way}");
        }
        let too_much = Reach { folder: "/tmp".into(), ..Reach::default() };
        assert!(matches!(too_much.prepare(), Err(SandboxError::TooMuch(_))));
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
