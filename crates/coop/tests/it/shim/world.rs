//! Where each agent runs: the scripted one, or the real one on a fake model.

use std::env;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::json;

use super::Shim;
use crate::driven::Model;
use crate::tool::{COOP, agents_are_sandboxed, request};

const KEY: &str = "sk-dummy-key-for-a-model-on-loopback";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    Claude,
    Codex,
    OpenCode,
    Gemini,
    Acp,
    /// coop's own, which is always the real one on a fake model.
    Api,
}

impl Agent {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Gemini => "gemini",
            Self::Acp => "acp",
            Self::Api => "api",
        }
    }

    /// Returns the program that the environment names; `COOP_REAL_CLAUDE` and the like.
    fn real(self) -> Option<PathBuf> {
        match self {
            Self::Claude | Self::Codex | Self::OpenCode | Self::Gemini => coop_testkit::real_agent(self.name()),
            Self::Acp | Self::Api => None,
        }
    }

    /// Has a command run that needs leave.
    pub(super) fn bash(self, command: &str) -> String {
        match self {
            Self::Codex => {
                let input =
                    json!({ "cmd": command, "sandbox_permissions": "require_escalated", "justification": "why" });
                format!("[[tool exec_command {input}]]")
            }
            Self::Claude | Self::OpenCode | Self::Gemini | Self::Acp | Self::Api => format!("[[bash:{command}]]"),
        }
    }

    /// Tells whether the agent asks questions.
    pub(super) fn asks_questions(self) -> bool {
        matches!(self, Self::Claude | Self::OpenCode)
    }

    /// Tells whether it can run another input than the one it asked about.
    pub(super) fn takes_edits(self) -> bool {
        self == Self::Claude
    }
}

/// A home, a folder to work in and a model, for one shim after another.
pub(super) struct World {
    pub(super) agent: Agent,
    real: Option<PathBuf>,
    home: Arc<tempfile::TempDir>,
    pub(super) work: PathBuf,
    pub(super) model: Option<Model>,
}

/// Runs a check for an agent: the scripted one, and the real one if there is one.
pub(super) fn with_both(agent: Agent, check: impl Fn(&World)) {
    check(&World::new(agent, None));
    if let Some(real) = agent.real() {
        check(&World::new(agent, Some(real)));
    }
}

impl World {
    fn new(agent: Agent, real: Option<PathBuf>) -> Self {
        // In a sandbox `/tmp` is another, and Codex cannot make its own sandbox if its home is below the folder for temporary files.
        let above = if agents_are_sandboxed() { env!("CARGO_TARGET_TMPDIR").into() } else { env::temp_dir() };
        let home = Arc::new(tempfile::Builder::new().prefix("coop-shim-").tempdir_in(above).expect("a folder"));
        let at = home.path().canonicalize().expect("it is there");
        let work = at.join("work");
        for folder in [&work, &at.join("tmp"), &at.join("codex"), &at.join("sim")] {
            fs::create_dir(folder).expect("a folder");
        }
        let has_model = real.is_some() || agent == Agent::Api;
        let model = has_model.then(|| Model::start(&at.join("tmp")));
        let world = Self { agent, real, home, work, model };
        world.configure(&at);
        world
    }

    fn configure(&self, home: &Path) {
        let Some(model) = &self.model else { return };
        let url = &model.url;
        let write = |path: PathBuf, text: String| {
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        match self.agent {
            Agent::Claude | Agent::Acp | Agent::Api => {}
            Agent::Codex => write(
                home.join("codex/config.toml"),
                format!(
                    "model = \"gpt-5.5\"\nmodel_provider = \"fixed\"\ncheck_for_update_on_startup = false\n\
                     analytics.enabled = false\nfeatures = {{ apps = false, plugins = false }}\n\
                     projects = {{ \"{}\" = {{ trust_level = \"trusted\" }} }}\n[model_providers.fixed]\n\
                     name = \"fixed\"\nbase_url = \"{url}/v1\"\nenv_key = \"MODEL_KEY\"\nwire_api = \"responses\"\n",
                    self.work.display()
                ),
            ),
            Agent::OpenCode => {
                let options = json!({ "baseURL": format!("{url}/v1"), "apiKey": KEY });
                let fixed = json!({ "name": "Fixed", "limit": { "context": 200_000, "output": 8000 } });
                let provider = json!({ "npm": "@ai-sdk/openai-compatible", "name": "Fixed", "options": options,
                                       "models": { "fixed": fixed } });
                let config = json!({ "autoupdate": false, "share": "disabled", "model": "fixed/fixed",
                                     "small_model": "fixed/fixed", "provider": { "fixed": provider },
                                     "permission": { "bash": "ask", "edit": "ask" } });
                write(self.work.join("opencode.json"), config.to_string());
            }
            // Its cleaning up would delete a conversation that was loaded once: docs/SHIM.md.
            Agent::Gemini => {
                let trusted = json!({ self.work.to_string_lossy(): "TRUST_FOLDER" });
                write(home.join(".gemini/trustedFolders.json"), trusted.to_string());
                let settings = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } },
                                       "privacy": { "usageStatisticsEnabled": false },
                                       "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false,
                                                    "sessionRetention": { "enabled": false } } });
                write(home.join(".gemini/settings.json"), settings.to_string());
            }
        }
    }

    pub(super) fn start(&self) -> Shim {
        self.start_with(&[], |command| command)
    }

    pub(super) fn start_with(&self, options: &[&str], change: impl FnOnce(&mut Command) -> &mut Command) -> Shim {
        let program = match &self.real {
            _ if self.agent == Agent::Api => vec!["--model", "claude-opus-4-8"],
            Some(path) => vec![path.to_str().expect("UTF-8")],
            None => vec![COOP, "sim", self.agent.name()],
        };
        let more: &[&str] = match (self.agent, &self.real) {
            (Agent::Gemini, Some(_)) => &["-m", "gemini-2.5-pro"],
            _ => &[],
        };
        // The real Gemini and Codex find their model by the user's configuration.
        let isolate: &[&str] = match self.agent {
            Agent::Claude | Agent::OpenCode => &["--isolate", "--trust"],
            Agent::Codex | Agent::Gemini | Agent::Acp | Agent::Api => &[],
        };
        let home = self.home.path().canonicalize().expect("it is there");
        let sandbox = sandbox_options(&home);
        let sandbox: Vec<_> = sandbox.iter().map(String::as_str).collect();
        let args = [&["--agent", self.agent.name()][..], isolate, &sandbox, options, &["--"], &program, more].concat();
        Shim::start_in(Arc::clone(&self.home), &self.work, &args, |command| {
            command.env("HOME", &home).env("COOP_SIM_SCENARIO", "plain").env("TERM", "xterm-256color");
            command.env("XDG_STATE_HOME", home.join("state")).env("COOP_SIM_STATE", home.join("sim"));
            command.env("CODEX_HOME", home.join("codex")).env("TMPDIR", home.join("tmp")).env("SHELL", "/bin/sh");
            if let Some(model) = &self.model {
                let url = model.url.as_str();
                command.envs([
                    ("ANTHROPIC_API_KEY", KEY),
                    ("ANTHROPIC_BASE_URL", url),
                    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                    ("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL", "1"),
                    ("DISABLE_AUTOUPDATER", "1"),
                    ("CLAUDE_CODE_MAX_RETRIES", "1"),
                    ("MODEL_KEY", KEY),
                    ("GEMINI_API_KEY", KEY),
                    ("GOOGLE_GEMINI_BASE_URL", url),
                    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                    ("http_proxy", url),
                    ("https_proxy", url),
                    ("NO_PROXY", "127.0.0.1,localhost"),
                ]);
            }
            change(command)
        })
    }

    /// Returns what the agent, or the model behind it, was told so far.
    pub(super) fn prompts(&self) -> String {
        let model = self.model.as_ref().map(|model| {
            let address = model.url.trim_start_matches("http://");
            let stream = std::net::TcpStream::connect(address).expect("it listens");
            request(stream, "GET", "/coop/requests", "", "").1.to_string()
        });
        let home = self.home.path();
        // Some scripted agents keep their prompts in order, the others in what they keep of the conversation.
        model.unwrap_or_else(|| fs::read_to_string(home.join("sim/prompts.jsonl")).unwrap_or_else(|_| texts(home)))
    }

    /// Returns the socket of the agent's own, as `coop attach` finds it.
    pub(super) fn socket(&self) -> PathBuf {
        let folder = fs::read_dir(self.home.path().join("coop")).expect("a folder");
        let mut paths = folder.map(|entry| entry.expect("an entry").path());
        paths.find(|path| path.extension().is_some_and(|kind| kind == "sock")).expect("a socket")
    }

    /// Returns the number of the agent's process.
    pub(super) fn agent_pid(&self) -> i32 {
        let stream = UnixStream::connect(self.socket()).expect("it listens");
        let (_, status) = request(stream, "GET", "/api/v1/status", "", "");
        status["pid"].as_i64().and_then(|pid| pid.try_into().ok()).unwrap_or_else(|| panic!("no process in {status}"))
    }

    pub(super) fn is_real(&self) -> bool {
        self.real.is_some()
    }

    pub(super) fn has(&self, file: &str) -> bool {
        self.work.join(file).exists()
    }
}

/// Returns the options for agents in a sandbox, if they are to be in one; simulated agents keep conversations in two folders.
fn sandbox_options(home: &Path) -> Vec<String> {
    if !agents_are_sandboxed() {
        return Vec::new();
    }
    let written = [home.join("sim"), home.join(".local/share/coop-sim")];
    let options = written.iter().flat_map(|folder| {
        fs::create_dir_all(folder).expect("made");
        ["--sandbox-write".to_owned(), folder.display().to_string()]
    });
    ["--sandbox".to_owned()].into_iter().chain(options).collect()
}

/// Returns all JSON that is in a folder and below it.
fn texts(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let text = |path: PathBuf| match path.extension().and_then(|kind| kind.to_str()) {
        _ if path.is_dir() => texts(&path),
        Some("json" | "jsonl") => fs::read_to_string(path).unwrap_or_default(),
        _ => String::new(),
    };
    entries.map(text).collect()
}
