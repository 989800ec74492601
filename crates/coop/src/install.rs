//! `coop install`: an agent from npm, in a folder of coop's own. Nothing of the user's is touched, and whatever else is
//! installed stays as it is.
//!
//! ```text
//! DATA/agents/NAME/VERSION/node_modules/…    what npm has put there, with its package-lock.json
//! DATA/agents/NAME/current                   leads to the version that was installed last
//! ```
//!
//! One coop at a time installs an agent: it holds a lock on the agent's folder, and what it finds there half made is of one that
//! was killed.
//!
//! No script of a package is run. npm compares what it has loaded with the checksum that the registry names, and that there
//! was one is looked at afterwards: a package without is not kept. Packages of the versions that coop was tested with have to have
//! the checksums that they had then (`pins.tsv`), so that nobody who has the registry can give out others under their names.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use clap::Args;
use coop_drivers::{KNOWN, Known};
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::paths;

/// The folder that npm fills, until all of it is there.
const NEW: &str = ".new";
/// Packages that coop was tested with: name@version, tab, checksum. Those of tests/real/package-lock.json, and those of
/// opencode-ai, of which the tests install only the program.
const PINS: &str = include_str!("pins.tsv");
/// How much of npm's complaints is passed on.
const COMPLAINTS: usize = 12;

#[derive(Debug, Args)]
pub(crate) struct Install {
    /// Which agent, and which version of it: NAME@VERSION; without a version the newest that coop was tested with
    #[arg(value_name = "NAME[@VERSION]")]
    what: String,
}

pub(crate) async fn run(options: Install) -> anyhow::Result<i32> {
    let (known, version) = wanted(&options.what)?;
    if let Some((oldest, newest)) = known.tested.filter(|(oldest, newest)| !is_between(&version, oldest, newest)) {
        let range = if oldest == newest { oldest.to_owned() } else { format!("{oldest} to {newest}") };
        writeln!(io::stderr(), "coop: {} {version} may not work: coop was tested with {range}", known.name)?;
    }
    let folder = prefix().context("there is no HOME; set XDG_DATA_HOME")?.join(known.name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let _lock = locked(&folder, known).await.with_context(|| format!("cannot lock {}", folder.display()))?;
    let there = folder.join(&version);
    if binary(known, &there).is_none() {
        let mut ends = Ends::new().context("cannot listen for signals")?;
        let loaded = tokio::select! {
            loaded = load(known, &version, &folder) => loaded,
            code = ends.next() => {
                // npm has been killed with what was dropped.
                clear(&folder);
                writeln!(io::stderr(), "coop: broken off; nothing is installed")?;
                return Ok(code);
            }
        };
        clear(&folder);
        loaded?;
    }
    let program = binary(known, &there).with_context(|| format!("there is no program in {}", there.display()))?;
    point(&folder, &version).with_context(|| format!("cannot write to {}", folder.display()))?;
    writeln!(io::stdout(), "{}", program.display())?;
    Ok(0)
}

/// Waits until no other coop installs this agent. The lock is ours until this process ends, however it ends.
async fn locked(folder: &Path, known: &Known) -> anyhow::Result<File> {
    let lock = File::open(folder)?;
    match lock.try_lock() {
        Ok(()) => return Ok(lock),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    writeln!(io::stderr(), "coop: {} is being installed by another coop; waiting for it", known.name)?;
    Ok(tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??)
}

/// The signals that end this.
struct Ends([(Signal, i32); 3]);

impl Ends {
    fn new() -> io::Result<Self> {
        let kinds = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()];
        let [hangup, interrupt, terminate] = kinds.map(|kind| signal(kind).map(|signal| (signal, kind.as_raw_value())));
        Ok(Self([hangup?, interrupt?, terminate?]))
    }

    /// Returns the exit code that shells give for it.
    async fn next(&mut self) -> i32 {
        let [hangup, interrupt, terminate] = &mut self.0;
        let number = tokio::select! {
            _ = hangup.0.recv() => hangup.1,
            _ = interrupt.0.recv() => interrupt.1,
            _ = terminate.0.recv() => terminate.1,
        };
        128 + number
    }
}

/// Removes what is half made.
fn clear(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder.join(NEW))
        && error.kind() != io::ErrorKind::NotFound
    {
        // There may be nobody to tell.
        let _ = writeln!(io::stderr(), "coop: {} is left in {}: {error}", NEW, folder.display());
    }
}

/// Returns the program of an agent that is installed here.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let known = Known::by_name(name)?;
    binary(known, &prefix()?.join(name).join("current").canonicalize().ok()?)
}

/// Tells whether a version is one of a range, by its numbers.
pub(crate) fn is_between(version: &str, oldest: &str, newest: &str) -> bool {
    let numbers = |version: &str| -> Vec<u64> {
        let plain = version.split(['-', '+']).next().unwrap_or_default();
        plain.split('.').map_while(|part| part.parse().ok()).collect()
    };
    (numbers(oldest)..=numbers(newest)).contains(&numbers(version))
}

fn wanted(what: &str) -> anyhow::Result<(&'static Known, String)> {
    let (name, version) = match what.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (what, None),
    };
    let can_be = || KNOWN.iter().filter(|known| known.tested.is_some() && !known.binaries.is_empty());
    let Some(known) = can_be().find(|known| known.name == name) else {
        let names: Vec<_> = can_be().map(|known| known.name).collect();
        bail!("coop cannot install {name:?}; it can install {}", names.join(", "));
    };
    let version = version.or(known.tested.map(|(_, newest)| newest)).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    if !version.starts_with(|c: char| c.is_ascii_digit()) || !version.chars().all(is_plain) {
        bail!("{version:?} is no version; one looks like 1.2.3");
    }
    Ok((known, version.to_owned()))
}

pub(crate) fn prefix() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("coop/agents"))
}

fn binary(known: &Known, there: &Path) -> Option<PathBuf> {
    let os = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let platform = format!("{os}-{arch}");
    let file = |name: &&str| there.join("node_modules").join(name.replace("{platform}", &platform));
    known.binaries.iter().map(file).find(|file| paths::is_program(file))
}

/// Has npm load a version, whole or not at all.
async fn load(known: &Known, version: &str, folder: &Path) -> anyhow::Result<()> {
    if paths::on_path("npm").is_none() {
        bail!(
            "npm is not on PATH: install Node.js, or install {}@{version} in another way and put it on PATH",
            known.package
        );
    }
    clear(folder);
    let new = folder.join(NEW);
    fs::create_dir(&new).with_context(|| format!("cannot make {}", new.display()))?;
    load_into(&new, known, version).await?;
    let there = folder.join(version);
    // There is no program in it.
    let _ = fs::remove_dir_all(&there);
    fs::rename(&new, &there).with_context(|| format!("cannot make {}", there.display()))
}

async fn load_into(new: &Path, known: &Known, version: &str) -> anyhow::Result<()> {
    let mut npm = coop_fleet::bounded::command("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", "--fetch-retries=1"]);
    npm.arg("--prefix").arg(new).arg(format!("{}@{version}", known.package));
    // What a project here says of npm is not meant for this.
    npm.current_dir(new).env("npm_config_update_notifier", "false").stdin(Stdio::null()).kill_on_drop(true);
    let output = npm.output().await.context("cannot run npm")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).take(COMPLAINTS).collect();
        bail!("{}; npm said:\n{}", why(&said, known, version), lines.join("\n"));
    }
    check(new, known, version)
}

/// Says in one line what npm's complaints mean.
fn why(said: &str, known: &Known, version: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let package = known.package;
    if has(&["EINTEGRITY"]) {
        format!("what npm has loaded of {package}@{version} is not what its checksum says; nothing is installed")
    } else if has(&["ETARGET", "E404"]) {
        format!("npm has no {package}@{version}")
    } else if has(&["ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "ERR_SOCKET_TIMEOUT"]) {
        format!("npm cannot reach its registry to load {package}@{version}: is this machine offline?")
    } else {
        format!("npm cannot install {package}@{version}")
    }
}

/// Looks whether npm has compared all that it has loaded with a checksum, and whether it is what was wanted.
fn check(folder: &Path, known: &Known, version: &str) -> anyhow::Result<()> {
    let path = folder.join("package-lock.json");
    let lock = fs::read(&path).with_context(|| format!("npm has not written {}", path.display()))?;
    let lock: Value = serde_json::from_slice(&lock).context("npm's package-lock.json is no JSON")?;
    let packages = lock["packages"].as_object().context("npm's package-lock.json names no packages")?;
    let own = &lock["packages"][format!("node_modules/{}", known.package)];
    if own["version"] != version {
        bail!("npm has installed {} {}, and not {version}", known.package, own["version"]);
    }
    let unchecked = packages.iter().find(|(name, entry)| !name.is_empty() && !entry["integrity"].is_string());
    if let Some((name, _)) = unchecked {
        bail!("the registry names no checksum for {name}; nothing is installed");
    }
    for (path, entry) in packages {
        let name = path.rsplit("node_modules/").next().unwrap_or_default();
        let version = entry["version"].as_str().unwrap_or_default();
        if let Some(tested) = pinned(name, version).filter(|tested| entry["integrity"] != **tested) {
            bail!(
                "{name} {version} is not what coop was tested with: its checksum is {}, and was {tested}; nothing is installed. \
                 Either the registry that npm asks gives out something else, or another version of coop is needed",
                entry["integrity"].as_str().unwrap_or_default()
            );
        }
    }
    Ok(())
}

/// Returns the checksum of a package that coop was tested with.
fn pinned(name: &str, version: &str) -> Option<&'static str> {
    let mut pins = PINS.lines().filter_map(|line| line.split_once('\t'));
    pins.find_map(|(package, checksum)| (package.rsplit_once('@')? == (name, version)).then_some(checksum))
}

fn point(folder: &Path, version: &str) -> io::Result<()> {
    let new = folder.join(".current");
    let _ = fs::remove_file(&new);
    symlink(version, &new)?;
    fs::rename(new, folder.join("current"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(is_between("2.1.197", "2.1.197", "2.1.197"));
        assert!(is_between("2.1.99", "2.1.9", "2.1.197"));
        assert!(is_between("0.61.0-preview.1", "0.61.0", "0.61.0"));
        assert!(!is_between("2.2.0", "2.1.9", "2.1.197"));
        assert!(!is_between("2.1.8", "2.1.9", "2.1.197"));
    }

    #[test]
    fn every_tested_package_has_the_checksum_it_was_tested_with() {
        let lock = include_str!("../../../tests/real/package-lock.json");
        let lock: Value = serde_json::from_str(lock).expect("JSON");
        for (path, entry) in lock["packages"].as_object().expect("packages").iter().filter(|(path, _)| !path.is_empty())
        {
            let name = path.rsplit("node_modules/").next().expect("a name");
            let version = entry["version"].as_str().expect("a version");
            assert_eq!(pinned(name, version), entry["integrity"].as_str(), "pins.tsv: {name}@{version}");
        }
        for known in KNOWN.iter().filter(|known| !known.binaries.is_empty()) {
            let (_, newest) = known.tested.expect("tested");
            assert!(pinned(known.package, newest).is_some_and(|pin| pin.starts_with("sha512-")), "{}", known.package);
        }
    }

    #[test]
    fn what_is_wanted_is_an_agent_and_a_version() {
        let named =
            |what: &str| wanted(what).map(|(known, version)| (known.package, version)).map_err(|e| e.to_string());
        let newest = Known::by_name("claude").and_then(|known| known.tested).expect("tested").1;
        assert_eq!(named("claude"), Ok(("@anthropic-ai/claude-code", newest.to_owned())));
        assert_eq!(named("opencode@1.2.3-rc.1"), Ok(("opencode-ai", "1.2.3-rc.1".to_owned())));
        for what in ["acp", "bash@1", "claude@", "claude@latest", "claude@../x", "claude@1/../..", "claude@1 2"] {
            assert!(named(what).is_err(), "{what}");
        }
    }
}
