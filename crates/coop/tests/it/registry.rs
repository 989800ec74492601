//! `coop install` with the real npm, where there is one, and a registry on this machine: packages, their checksums, and what goes
//! wrong with them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::tool::{self, LIMIT};

/// One whose checksums coop does not know.
const VERSION: &str = "2.1.198";
const OWN: &str = "@anthropic-ai/claude-code";

/// What the registry says of a package's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksum {
    Right,
    Wrong,
    None,
}

/// A registry with the packages of one agent, whose program says what version it is of.
struct Registry {
    url: String,
    home: tempfile::TempDir,
    /// The paths that were asked for.
    asked: Arc<Mutex<Vec<String>>>,
    /// Told when a package is asked for which never comes.
    stuck: mpsc::Receiver<()>,
}

impl Registry {
    /// Returns one, if there is an npm to ask it.
    fn new(checksum: Checksum) -> Option<Self> {
        Self::answering(checksum, true)
    }

    fn answering(checksum: Checksum, sends_packages: bool) -> Option<Self> {
        if !Command::new("npm").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
            coop_testkit::skip("npm is not installed");
            return None;
        }
        let home = tempfile::tempdir().expect("a folder");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let files = files(home.path(), &url, checksum);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (tell, stuck) = mpsc::channel();
        let known = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (files, known, tell) = (files.clone(), Arc::clone(&known), tell.clone());
                thread::spawn(move || answer(stream, &files, &known, &tell, sends_packages));
            }
        });
        Some(Self { url, home, asked, stuck })
    }

    fn install(&self) -> Command {
        let mut command = tool::coop(self.home.path());
        command.args(["install", &format!("claude@{VERSION}")]);
        command.env("npm_config_registry", &self.url).env("npm_config_fetch_timeout", "60000");
        command
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join(".local/share/coop/agents/claude")
    }

    /// Returns what is in the agent's folder.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).expect("a folder").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn packages_sent(&self) -> usize {
        self.asked.lock().expect("no panic").iter().filter(|path| path.ends_with(".tgz")).count()
    }
}

/// Makes the packages, and returns what is at each path.
fn files(home: &Path, url: &str, checksum: Checksum) -> BTreeMap<String, Vec<u8>> {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let program = format!("{OWN}-linux-{arch}");
    let mut files = BTreeMap::new();
    for (name, needs) in [(OWN, json!({ &program: VERSION })), (&program, json!({}))] {
        let folder = home.join("made").join(name.replace('/', "-"));
        fs::create_dir_all(folder.join("package")).expect("made");
        // It must not be run.
        let script = format!("touch {}", home.join("script-was-run").display());
        let own =
            json!({ "name": name, "version": VERSION, "dependencies": needs, "scripts": { "postinstall": script } });
        fs::write(folder.join("package/package.json"), own.to_string()).expect("written");
        if name != OWN {
            let file = folder.join("package/claude");
            fs::write(&file, format!("#!/bin/sh\necho {VERSION}\n")).expect("written");
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
        }
        let packed = Command::new("tar").args(["-cz", "package"]).current_dir(&folder).output().expect("tar").stdout;
        let mut dist = json!({ "tarball": format!("{url}/{name}.tgz") });
        match checksum {
            Checksum::Right => dist["integrity"] = sha512(&packed).into(),
            Checksum::Wrong => dist["integrity"] = sha512(b"another").into(),
            Checksum::None => {}
        }
        let version =
            json!({ "name": name, "version": VERSION, "dependencies": needs, "dist": dist, "hasInstallScript": true });
        let all = json!({ "name": name, "dist-tags": { "latest": VERSION }, "versions": { VERSION: version } });
        files.insert(format!("/{name}"), all.to_string().into_bytes());
        files.insert(format!("/{name}.tgz"), packed);
    }
    files
}

fn sha512(bytes: &[u8]) -> String {
    let mut child = Command::new("sha512sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("piped").write_all(bytes).expect("written");
    let told = child.wait_with_output().expect("it ends").stdout;
    let hex = std::str::from_utf8(&told[..128]).expect("text");
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("a number");
    format!("sha512-{}", BASE64_STANDARD.encode((0..128).step_by(2).map(byte).collect::<Vec<_>>()))
}

/// Answers one request.
fn answer(
    mut stream: TcpStream,
    files: &BTreeMap<String, Vec<u8>>,
    asked: &Mutex<Vec<String>>,
    stuck: &mpsc::Sender<()>,
    sends_packages: bool,
) {
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    lines.find(String::is_empty);
    let path = first.split(' ').nth(1).unwrap_or_default().replace("%2f", "/").replace("%2F", "/");
    asked.lock().expect("no panic").push(path.clone());
    if path.ends_with(".tgz") && !sends_packages {
        let _ = stuck.send(());
        // Until who asked goes away.
        let _ = stream.read(&mut [0]);
        return;
    }
    let (status, body) = files.get(&path).map_or(("404 No", &b"{}"[..]), |body| ("200 OK", body.as_slice()));
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

#[test]
fn an_agent_comes_from_the_registry_with_its_checksums_and_runs_no_script() {
    let Some(registry) = Registry::new(Checksum::Right) else { return };
    let (code, program, err) = tool::run(&mut registry.install());
    assert!(code == 0 && err.contains("coop was tested with 2.1.197") && err.lines().count() == 1, "{code} {err}");
    assert_eq!(tool::run(&mut Command::new(program.trim_end())).1, format!("{VERSION}\n"));
    assert_eq!(registry.left(), [VERSION, "current"]);
    assert!(!registry.home.path().join("script-was-run").exists());
    let lock = fs::read(registry.folder().join(VERSION).join("package-lock.json")).expect("there");
    let lock: Value = serde_json::from_slice(&lock).expect("JSON");
    assert!(lock["packages"][format!("node_modules/{OWN}")]["integrity"].is_string(), "{lock:#}");
}

#[test]
fn what_is_not_what_its_checksum_says_is_refused() {
    for (checksum, expected) in [
        (Checksum::Wrong, "is not what its checksum says; nothing is installed"),
        (Checksum::None, "the registry names no checksum"),
    ] {
        let Some(registry) = Registry::new(checksum) else { return };
        let (code, out, err) = tool::run(&mut registry.install());
        assert!(code == 1 && out.is_empty() && err.contains(expected), "{checksum:?}: {code} {err}");
        assert_eq!(registry.left(), Vec::<String>::new());
    }
}

#[test]
fn offline_is_said_and_leaves_nothing() {
    let Some(registry) = Registry::new(Checksum::Right) else { return };
    // Nobody can listen there.
    let mut command = registry.install();
    let (code, _, err) = tool::run(command.env("npm_config_registry", "http://127.0.0.1:1"));
    assert!(code == 1 && err.contains("is this machine offline?"), "{code} {err}");
    assert_eq!(registry.left(), Vec::<String>::new());
}

#[test]
fn of_two_at_once_one_loads_it_and_both_have_it() {
    let Some(registry) = Registry::new(Checksum::Right) else { return };
    let results: Vec<_> = thread::scope(|scope| {
        let commands = [registry.install(), registry.install()];
        let both = commands.map(|mut command| scope.spawn(move || tool::run(&mut command)));
        both.into_iter().map(|one| one.join().expect("no panic")).collect()
    });
    assert!(results.iter().all(|(code, out, _)| *code == 0 && *out == results[0].1), "{results:?}");
    assert_eq!(registry.left(), [VERSION, "current"]);
    assert_eq!(registry.packages_sent(), 2, "each of the two packages once");
}

/// A signal that can be seen leaves nothing; what a kill leaves is gone with the next that is tried.
#[test]
fn one_that_is_broken_off_leaves_nothing() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::KILL, 137)] {
        // Each has one of its own: npm may have asked the one before for the other package, too.
        let Some(registry) = Registry::answering(Checksum::Right, false) else { return };
        let mut command = registry.install();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        registry.stuck.recv_timeout(LIMIT).expect("npm asks for a package");
        kill_process(Pid::from_child(&child), signal).expect("it is ours");
        assert_eq!(tool::wait_for(&mut child), code);
        if signal == Signal::KILL {
            assert_eq!(registry.left(), [".new"]);
            let mut command = registry.install();
            assert_eq!(tool::run(command.env("npm_config_registry", "http://127.0.0.1:1")).0, 1);
        }
        assert_eq!(registry.left(), Vec::<String>::new());
    }
}
