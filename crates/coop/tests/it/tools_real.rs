//! The real agents call coop's tools, as a fake model tells them to; where `COOP_REAL_CLAUDE` and the like name them
//! (`make test-real` does).

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::driven::Model;
use crate::tool::agents_are_sandboxed;
use crate::workspaces::Lab;

const KEY: &str = "sk-dummy-key-for-a-model-on-loopback";

/// Which agent, and how its model calls a tool of ours.
struct Real {
    name: &'static str,
    /// What is before the tool's name.
    prefix: &'static str,
    isolate: bool,
    more: &'static [&'static str],
}

impl Real {
    fn program(&self) -> Option<PathBuf> {
        coop_testkit::real_agent(self.name)
    }

    fn call(&self, tool: &str, arguments: &Value) -> String {
        format!("[[tool {}{tool} {arguments}]]", self.prefix)
    }
}

/// Fills a home for an agent, and returns what is in its environment.
pub(crate) fn prepare(home: &Path, url: &str) -> Value {
    for folder in ["tmp", "codex"] {
        fs::create_dir(home.join(folder)).expect("a folder");
    }
    let codex = format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"fixed\"\ncheck_for_update_on_startup = false\n\
         analytics.enabled = false\nfeatures = {{ apps = false, plugins = false }}\n\
         tui = {{ screen_reader_detection_done = true, show_tooltips = false }}\n\
         notice.model_migrations = {{ \"gpt-5.5\" = \"gpt-6-sol\" }}\n[model_providers.fixed]\n\
         name = \"fixed\"\nbase_url = \"{url}/v1\"\nenv_key = \"MODEL_KEY\"\nwire_api = \"responses\"\n"
    );
    fs::write(home.join("codex/config.toml"), codex).expect("written");
    json!({
        "HOME": home, "TMPDIR": home.join("tmp"), "XDG_RUNTIME_DIR": home,
        "TERM": "xterm-256color", "SHELL": "/bin/sh", "CODEX_HOME": home.join("codex"), "MODEL_KEY": KEY,
        "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1", "DISABLE_AUTOUPDATER": "1",
        "GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url, "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "http_proxy": url, "https_proxy": url, "NO_PROXY": "127.0.0.1,localhost",
    })
}

/// Returns the lines of a definition for such an environment. An agent has the daemon's home and runtime folder.
pub(crate) fn definition_env(env: &Value) -> Vec<String> {
    let env = env.as_object().expect("a table").iter();
    let own = env.filter(|(name, _)| !["HOME", "XDG_RUNTIME_DIR"].contains(&name.as_str()));
    own.map(|(name, value)| format!("{name} = {value}")).collect()
}

pub(crate) fn opencode(url: &str) -> Value {
    let fixed = json!({ "name": "Fixed", "limit": { "context": 200_000, "output": 8000 } });
    let options = json!({ "baseURL": format!("{url}/v1"), "apiKey": KEY });
    let provider = json!({ "npm": "@ai-sdk/openai-compatible", "name": "Fixed", "options": options, "models": { "fixed": fixed } });
    json!({ "autoupdate": false, "share": "disabled", "model": "fixed/fixed", "small_model": "fixed/fixed",
            "provider": { "fixed": provider } })
}

/// An agent gets the tools without anybody setting them up, and what it calls is done.
fn calls_the_tools(real: &Real) {
    let Some(program) = real.program() else { return };
    let lab = Lab::new(&[]);
    let home = lab.home.path().canonicalize().expect("it is there");
    let model = Model::start(&home);
    let env = prepare(&home, &model.url);
    let env = definition_env(&env);
    let command: Vec<_> = std::iter::once(program.to_str().expect("UTF-8")).chain(real.more.iter().copied()).collect();
    let agent = |name: &str| {
        format!(
            "[agents.{name}]\ndriver = {:?}\nisolate = {}\ntrust = {}\nsandbox = {}\ncommand = {command:?}\nenv = {{ {} }}\n",
            real.name,
            real.isolate,
            real.isolate,
            agents_are_sandboxed(),
            env.join(", ")
        )
    };
    let rule = "[[policy]]\ntool = \"*\"\ndecide = \"allow\"\nwhy = \"they are ours\"\n";
    let repository = home.join("project");
    fs::create_dir(&repository).expect("a folder");
    fs::write(repository.join("opencode.json"), opencode(&model.url).to_string()).expect("written");
    fs::write(repository.join("coop.toml"), agent("boss") + &agent("helper") + rule).expect("written");
    lab.open(&repository);
    let made = lab.json(&repository, &["ws", "create", "w"]);
    let path = made["path"].as_str().expect("a path");
    // One dialog less: the agent would ask a person whether it may work there.
    let trusted = format!("projects = {{ {path:?} = {{ trust_level = \"trusted\" }} }}\n");
    let config = home.join("codex/config.toml");
    let known = fs::read_to_string(&config).expect("readable");
    fs::write(&config, trusted + &known).expect("written");
    let calls = [
        real.call("workspace_get_status", &json!({})),
        real.call("workspace_set_metadata", &json!({ "key": "calledBy", "value": real.name })),
        real.call("agent_spawn", &json!({ "agent": "helper", "prompt": "[[text:The answer is 42.]]" })),
        real.call("agent_wait", &json!({ "agent": "helper" })),
        real.call("agent_read", &json!({ "agent": "helper" })),
        "[[text:All done.]]".to_owned(),
    ];
    lab.json(&repository, &["ws", "spawn", "w", "boss", "--prompt", &calls.join(" ")]);
    // It is a job: when it is idle it is done, and ends.
    let wait = || lab.run(&repository, &["wait", "boss", "--for", "exit", "--timeout", "170"]);
    // Twice: it starts another agent, and some take their time.
    let (code, _, err) = Some(wait()).filter(|(code, ..)| *code == 0).unwrap_or_else(wait);
    let shown = lab.json(&repository, &["show", "boss"]);
    assert_eq!(code, 0, "{err}{shown:#}\n{}\n{}", lab.run(&repository, &["screen", "boss"]).1, lab.log());
    let asked = model.asked();
    let told = serde_json::to_string(&asked).expect("JSON");
    assert_eq!(shown["last_message"], "All done.", "{shown:#}\n{}", lab.log());
    let noted = lab.json(&repository, &["ws", "show", "w"]);
    assert_eq!(noted["metadata"]["calledBy"], real.name, "{told}");
    // What the tools answered has reached the model.
    assert!(told.contains("unmergedCommits"), "{told}");
    assert!(told.contains("The answer is 42."), "{told}");
}

#[test]
fn claude_calls_the_tools() {
    calls_the_tools(&Real { name: "claude", prefix: "mcp__coop__", isolate: true, more: &[] });
}

#[test]
fn codex_calls_the_tools() {
    calls_the_tools(&Real { name: "codex", prefix: "mcp__coop__", isolate: false, more: &[] });
}

#[test]
fn opencode_calls_the_tools() {
    calls_the_tools(&Real { name: "opencode", prefix: "coop_", isolate: true, more: &[] });
}

#[test]
fn gemini_calls_the_tools() {
    calls_the_tools(&Real { name: "gemini", prefix: "mcp_coop_", isolate: true, more: &["-m", "gemini-2.5-pro"] });
}
