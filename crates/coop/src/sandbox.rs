//! What the agent of a sidecar may touch.

use std::env;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use coop_drivers::{KNOWN, Known, Launch, Login};
use coop_fleet::bounded::DaemonSandbox;
use coop_sandbox::{Prepared, Reach, in_home, is_never_given, leads_over_link, secrets_of};
use coop_term::{Access, Sandbox};

use crate::cli::Serve;
use crate::paths::text;
use crate::{install, leftovers, paths};

/// The folder in a sidecar's folder that its agent writes to.
pub(crate) const AGENT_FOLDER: &str = "agent";

/// Returns the agent's sandbox, if it is to have one. The agent's own folder is what it has instead of the user's configuration.
pub(crate) fn make(
    options: &Serve,
    agent: Option<(&Known, &Launch)>,
    folder: &Path,
    own_folder: Option<&str>,
) -> anyhow::Result<Option<Sandbox>> {
    if !options.sandbox.is_wanted {
        return Ok(None);
    }
    let home = home()?;
    let coop = env::current_exe().context("cannot find coop's own program file")?;
    let (own_kinds, others) = kinds(agent);
    let written = match own_folder {
        Some(own) => vec![own.into()],
        None => written_by(&own_kinds, &home)?,
    };
    // An isolated agent does not see the user's configuration of its kind.
    let program = agent.and_then(|(_, launch)| Path::new(&program_of(launch)?).canonicalize().ok());
    let is_needed = |path: &PathBuf| program.as_ref().is_some_and(|program| program.starts_with(path));
    let of_own_kinds = own_kinds.iter().filter(|_| own_folder.is_some());
    let of_own_kinds = of_own_kinds.flat_map(|kind| private_paths(kind, &home)).filter(|path| !is_needed(path));
    let private = others.into_iter().flat_map(|other| private_paths(other, &home)).chain(of_own_kinds);
    let given: Vec<_> = options.sandbox.write.iter().map(|path| in_home(path, &home)).collect();
    let own = own_folders(&home)?;
    let also_hidden: Vec<_> = options.sandbox.hide.iter().map(|path| in_home(path, &home)).collect();
    check_given("--sandbox-hide", &also_hidden)?;
    check_given("--sandbox-write", &given)?;
    check_writable(&given, &own)?;
    let own = own.into_iter().chain(options.socket.clone());
    let secrets = secrets_of(&home).into_iter().chain(private).filter(|path| !given.contains(path));
    let sidecar = folder.parent().unwrap_or(folder);
    let tmp = leftovers::make_tmp(sidecar)?;
    let reach = Reach {
        folder: env::current_dir().context("cannot tell the current folder")?,
        write: written.into_iter().chain([folder.to_owned()]).chain(given.clone()).collect(),
        read: [sidecar.to_owned(), coop.clone()].into_iter().chain(install::prefix()).collect(),
        hidden: own.chain(also_hidden).chain(secrets).collect(),
        tmp: Some(tmp.clone()),
        no_network: options.sandbox.no_network,
    };
    let Prepared { bubblewrap, enter, access } = reach.prepare()?;
    coop_sandbox::check()?;
    let first = |options: &[&str]| {
        let options = ["enter"].iter().chain(options).map(OsString::from);
        let words = [coop.clone().into_os_string()].into_iter().chain(options).chain(enter.clone());
        words.chain(["--".into()]).collect()
    };
    let sandbox =
        Sandbox { bubblewrap, on_terminal: first(&[]), without_terminal: first(&["--without-terminal"]), access, tmp };
    check_own_files(options, &sandbox)?;
    Ok(Some(sandbox))
}

/// Refuses files of coop's own that the agent could replace by links to what its sandbox hides.
fn check_own_files(options: &Serve, sandbox: &Sandbox) -> anyhow::Result<()> {
    for (option, path) in [("--record", &options.record), ("--session-file", &options.session_file)] {
        let Some(path) = path else { continue };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let real = folder.canonicalize().with_context(|| format!("{option} {}", path.display()))?;
        let writable = sandbox.access.iter().filter(|(_, access)| *access == Access::Write);
        let writable: Vec<_> = writable.map(|(path, _)| path.clone()).collect();
        if sandbox.access_to(&real) == Access::Write || leads_over_link(path, &writable) {
            bail!("{option} {}: the agent can write there; name a file that it cannot replace", path.display());
        }
    }
    Ok(())
}

/// Returns the folders of coop's own files, made if they are missing: what is not there cannot be hidden.
fn own_folders(home: &Path) -> anyhow::Result<Vec<PathBuf>> {
    Ok(vec![paths::private(paths::state_dir(home))?, paths::runtime_dir()?])
}

/// Returns what the sandboxes of gates and commands have in common. They see neither coop's files nor any agent's logins.
pub(crate) fn of_daemon(state: &Path, coop: &Path) -> anyhow::Result<DaemonSandbox> {
    let home = home()?;
    let private = KNOWN.iter().flat_map(|kind| private_paths(kind, &home));
    let hidden = [state.to_owned()].into_iter().chain(own_folders(&home)?).chain(private).collect();
    Ok(DaemonSandbox { coop: coop.to_owned(), hidden })
}

fn home() -> anyhow::Result<PathBuf> {
    let home = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    home.context("HOME is not set, so the agent's files cannot be found")
}

fn check_given(option: &str, paths: &[PathBuf]) -> anyhow::Result<()> {
    for path in paths {
        let real = path.canonicalize().with_context(|| format!("{option} {}: make it first", path.display()))?;
        if is_never_given(&real) {
            bail!("{option} {}: the sandbox has its own; name a folder in it", path.display());
        }
    }
    Ok(())
}

/// Refuses to let an agent write where coop keeps its files, or where programs are that run outside of the sandbox.
fn check_writable(paths: &[PathBuf], own: &[PathBuf]) -> anyhow::Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let search = env::var_os("PATH").unwrap_or_default();
    let programs: Vec<_> =
        env::split_paths(&search).filter(|path| path.is_absolute()).map(|path| real(&path)).collect();
    for path in paths {
        let (shown, path) = (path.display(), real(path));
        if own.iter().map(|own| real(own)).any(|own| path.starts_with(&own) || own.starts_with(&path)) {
            bail!("--sandbox-write {shown}: coop keeps its own files there; name a smaller folder");
        }
        if let Some(found) = programs.iter().find(|found| found.starts_with(&path) || path.starts_with(found)) {
            let found = found.display();
            bail!(
                "--sandbox-write {shown}: programs in {found} also run outside of the sandbox; name a smaller folder"
            );
        }
    }
    Ok(())
}

/// Returns where the agent's program is.
fn program_of(launch: &Launch) -> Option<String> {
    let program = launch.command.get(launch.program_at)?;
    if program.contains('/') { Some(program.clone()) } else { text(&paths::on_path(program)?).ok() }
}

/// Returns the agent kinds that an agent is of, and the others. One that speaks ACP may be the program of another kind.
fn kinds(agent: Option<(&Known, &Launch)>) -> (Vec<&'static Known>, Vec<&'static Known>) {
    let is_own = |kind: &&Known| {
        agent.is_some_and(|(known, launch)| known.name == kind.name || kind.program_in(&launch.command).is_some())
    };
    KNOWN.iter().partition(is_own)
}

/// Returns where agents of some kinds keep their configuration and conversations. Makes the folders that are missing.
fn written_by(kinds: &[&Known], home: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folders = kinds.iter().flat_map(|kind| kind.folders).map(|folder| home.join(folder));
    let logins = kinds.iter().flat_map(|kind| kind.logins);
    let named = logins.filter_map(|login| path_of(login, home).parent().map(Path::to_owned));
    let folders: Vec<PathBuf> = folders.chain(named).collect();
    for folder in &folders {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let files = kinds.iter().flat_map(|kind| kind.files).map(|file| home.join(file));
    Ok(folders.into_iter().chain(files).collect())
}

/// Returns where agents of a kind keep their logins and conversations, whatever the environment says.
fn private_paths(kind: &Known, home: &Path) -> Vec<PathBuf> {
    let folders = kind.folders.iter().chain(kind.files).map(|path| home.join(path));
    login_paths(kind, home).chain(folders).collect()
}

fn login_paths<'a>(kind: &'a Known, home: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    kind.logins.iter().flat_map(move |login| [path_of(login, home), home.join(login.folder).join(login.file)])
}

fn path_of(login: &Login, home: &Path) -> PathBuf {
    let named = env::var_os(login.variable).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| home.join(login.folder)).join(login.file)
}
