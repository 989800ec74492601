//! Its configuration: settings with hooks, trusted folders, and where a project's logs are.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::{Value, json};

use super::log::{Log, timestamp};

pub(super) struct Home {
    /// The folder `.gemini`.
    pub(super) folder: PathBuf,
    pub(super) cwd: PathBuf,
    pub(super) is_trusted: bool,
    /// In the order of their weight.
    settings: Vec<Value>,
}

impl Home {
    pub(super) fn find() -> anyhow::Result<Self> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = set("GEMINI_CLI_HOME").or_else(|| set("HOME")).context("there is no home")?;
        let cwd = std::env::current_dir().and_then(|cwd| cwd.canonicalize()).context("no working directory")?;
        let folder = home.join(".gemini");
        let trusted = read(&folder.join("trustedFolders.json"));
        let is_trusted = trusted[cwd.to_string_lossy().as_ref()] == "TRUST_FOLDER";
        let files = [set("GEMINI_CLI_SYSTEM_DEFAULTS_PATH"), Some(folder.join("settings.json"))];
        let settings = files.iter().flatten().map(|path| read(path)).collect();
        Ok(Self { folder, cwd, is_trusted, settings })
    }

    /// Remembers that the folder is trusted.
    pub(super) fn trust(&self) -> anyhow::Result<()> {
        let path = self.folder.join("trustedFolders.json");
        let mut trusted = read(&path);
        if !trusted.is_object() {
            trusted = json!({});
        }
        trusted[self.cwd.to_string_lossy().as_ref()] = "TRUST_FOLDER".into();
        fs::create_dir_all(&self.folder)?;
        fs::write(&path, trusted.to_string()).context("cannot remember that the folder is trusted")
    }

    /// Returns the folder of this project's logs, after giving the project a name if it has none.
    pub(super) fn chats(&self) -> anyhow::Result<PathBuf> {
        let path = self.folder.join("projects.json");
        let mut file = read(&path);
        let key = self.cwd.to_string_lossy().into_owned();
        let known = file["projects"][&key].as_str().map(str::to_owned);
        let name = known.unwrap_or_else(|| {
            let base = self.cwd.file_name().map_or_else(String::new, |name| name.to_string_lossy().to_lowercase());
            let words: Vec<_> =
                base.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
            words.join("-")
        });
        if !file["projects"].is_object() {
            file = json!({ "projects": {} });
        }
        file["projects"][&key] = name.clone().into();
        let chats = self.folder.join("tmp").join(name).join("chats");
        fs::create_dir_all(&chats).context("cannot make the folder of its logs")?;
        fs::write(&path, file.to_string()).context("cannot remember the project")?;
        Ok(chats)
    }

    /// Runs the hooks of an event, if the folder is trusted, and returns what the last of them says.
    pub(super) fn hook(&self, event: &str, more: &Value, log: &Log) -> Value {
        let is_off = self.settings.iter().any(|settings| settings["hooksConfig"]["enabled"] == false);
        if is_off || !self.is_trusted {
            return Value::Null;
        }
        let mut payload = json!({
            "session_id": log.session,
            "transcript_path": log.told_path(),
            "cwd": self.cwd,
            "hook_event_name": event,
            "timestamp": timestamp(),
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            payload[key] = value.clone();
        }
        let list = |settings: &Value| settings["hooks"][event].as_array().cloned().unwrap_or_default();
        let groups = self.settings.iter().flat_map(list);
        let hooks = groups.flat_map(|group| group["hooks"].as_array().cloned().unwrap_or_default());
        let commands = hooks.filter_map(|hook| Some(hook["command"].as_str()?.to_owned()));
        let mut said = Value::Null;
        for command in commands {
            let says = self.run(&command, &payload).unwrap_or_default();
            if !says.is_null() {
                said = says;
            }
        }
        said
    }

    fn run(&self, command: &str, payload: &Value) -> anyhow::Result<Value> {
        let mut child = Command::new("bash")
            .args(["-c", command])
            .current_dir(&self.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // It need not read it.
            let _ = stdin.write_all(payload.to_string().as_bytes());
        }
        let output = child.wait_with_output()?;
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    }
}

/// Returns the content of a file of JSON; null if there is none.
fn read(path: &Path) -> Value {
    fs::read_to_string(path).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}
