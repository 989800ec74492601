//! What `coop run` goes by: flags, then the environment, then the project's file, then the user's, then defaults.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use coop_llm::{AgentConfig, ApiKey, Limits, ProviderName};
use serde::Deserialize;

use super::options::Run;

/// The model that is meant when nobody says which.
const MODEL: &str = "claude-sonnet-4-5";
/// Where a project's settings are, in its folder.
const PROJECT_FILE: &str = ".coop/config.toml";
/// The environment's names for settings begin so; the second is the specification's.
const PREFIXES: [&str; 2] = ["COOP_", "COBBLER_AGENT_"];
/// Settings that the environment may have, by their names in files.
const NAMES: [&str; 11] = [
    "PROVIDER",
    "MODEL",
    "MAX_TOKENS",
    "TEMPERATURE",
    "REQUEST_TIMEOUT",
    "API_KEY_FILE",
    "BASE_URL",
    "MAX_TURNS",
    "MAX_COST",
    "MAX_TOTAL_TOKENS",
    "MAX_TIME",
];

/// What was settled.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) agent: AgentConfig,
    pub(crate) limits: Limits,
}

/// A file of settings. Other tables in it are for others.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    agent: AgentConfig,
    run: Bounds,
}

/// How far a run may go.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Bounds {
    max_turns: Option<u32>,
    max_cost: Option<f64>,
    max_total_tokens: Option<u64>,
    /// In seconds.
    max_time: Option<f64>,
}

impl Bounds {
    fn over(self, other: Self) -> Self {
        Self {
            max_turns: self.max_turns.or(other.max_turns),
            max_cost: self.max_cost.or(other.max_cost),
            max_total_tokens: self.max_total_tokens.or(other.max_total_tokens),
            max_time: self.max_time.or(other.max_time),
        }
    }

    fn limits(self) -> anyhow::Result<Limits> {
        let time = self.max_time.map(Duration::try_from_secs_f64).transpose().context("max_time")?;
        if self.max_cost.is_some_and(|cost| !(cost.is_finite() && cost >= 0.0)) {
            bail!("max_cost is not an amount of US dollars");
        }
        let Self { max_turns: turns, max_cost: cost, max_total_tokens: tokens, .. } = self;
        Ok(Limits { turns, tokens, cost, time, ..Limits::default() })
    }
}

/// Tells whether a variable is one of these settings, or a key.
pub(crate) fn is_setting(name: &str) -> bool {
    let of = |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| rest == "API_KEY" || NAMES.contains(&rest));
    PREFIXES.iter().any(|prefix| of(prefix))
}

/// Returns a variable's value; one that is set to nothing counts as not set.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads all of it, for work in a folder.
pub(crate) fn read(options: &Run, folder: &Path) -> anyhow::Result<Settings> {
    let user = user_file().map(|path| user(&path)).transpose()?.unwrap_or_default();
    let project = project(&folder.join(PROJECT_FILE))?;
    settle(options, variable, project, user)
}

fn settle(
    options: &Run,
    environment: impl Fn(&str) -> Option<String>,
    project: File,
    user: File,
) -> anyhow::Result<Settings> {
    let (from_flags, from_environment) = (of_flags(options), of_environment(&environment)?);
    let mut agent = from_flags.agent.over(from_environment.agent).over(project.agent).over(user.agent);
    if agent.provider.unwrap_or(ProviderName::Claude) == ProviderName::Claude {
        agent.model.get_or_insert_with(|| MODEL.to_owned());
    }
    if agent.base_url.is_none() {
        // The variables that others go by too count least, as with keys.
        agent.base_url = environment(match agent.provider.unwrap_or(ProviderName::Claude) {
            ProviderName::Claude => "ANTHROPIC_BASE_URL",
            ProviderName::OpenAi => "OPENAI_BASE_URL",
        });
    }
    let run = from_flags.run.over(from_environment.run).over(user.run);
    Ok(Settings { agent, limits: run.limits()? })
}

fn of_flags(options: &Run) -> File {
    File {
        agent: AgentConfig {
            provider: options.provider.map(Into::into),
            model: options.model.clone(),
            max_tokens: options.max_tokens,
            api_key_file: options.api_key_file.clone(),
            base_url: options.base_url.clone(),
            ..AgentConfig::default()
        },
        run: Bounds {
            max_turns: options.max_turns,
            max_cost: options.max_cost,
            max_total_tokens: options.max_total_tokens,
            max_time: options.max_time.map(|time| time.as_secs_f64()),
        },
    }
}

fn of_environment(environment: &impl Fn(&str) -> Option<String>) -> anyhow::Result<File> {
    let get = |name: &str| {
        let named = PREFIXES.iter().map(|prefix| format!("{prefix}{name}"));
        named.into_iter().find_map(|name| environment(&name).map(|value| (name, value)))
    };
    let text = |name| get(name).map(|(_, value)| value);
    // As a file would have it, so that it is read the same way.
    let mut agent = toml::Table::new();
    if let Some(provider) = text("PROVIDER") {
        agent.insert("provider".into(), provider.into());
    }
    if let Some(time) = text("REQUEST_TIMEOUT") {
        let seconds = time.parse::<f64>().map(Into::into);
        agent.insert("request_timeout".into(), seconds.unwrap_or_else(|_| time.into()));
    }
    if let Some(tokens) = number::<u32>(get("MAX_TOKENS"))? {
        agent.insert("max_tokens".into(), tokens.into());
    }
    if let Some(temperature) = number::<f64>(get("TEMPERATURE"))? {
        agent.insert("temperature".into(), temperature.into());
    }
    let read: AgentConfig = agent.try_into().map_err(|error: toml::de::Error| {
        anyhow!("COOP_PROVIDER or COOP_REQUEST_TIMEOUT cannot be used: {}", error.message())
    })?;
    Ok(File {
        agent: AgentConfig {
            model: text("MODEL"),
            api_key_file: text("API_KEY_FILE").map(PathBuf::from),
            base_url: text("BASE_URL"),
            ..read
        },
        run: Bounds {
            max_turns: number(get("MAX_TURNS"))?,
            max_cost: number(get("MAX_COST"))?,
            max_total_tokens: number(get("MAX_TOTAL_TOKENS"))?,
            max_time: number(get("MAX_TIME"))?,
        },
    })
}

fn number<T: FromStr>(given: Option<(String, String)>) -> anyhow::Result<Option<T>> {
    let Some((name, value)) = given else { return Ok(None) };
    value.trim().parse().map(Some).map_err(|_| anyhow!("{name} is not a number that makes sense here"))
}

fn user_file() -> Option<PathBuf> {
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = config.or_else(|| Some(Path::new(&variable("HOME")?).join(".config")))?;
    Some(folder.join("coop/config.toml"))
}

fn user(path: &Path) -> anyhow::Result<File> {
    let mut file = load(path)?;
    // A key in a file that a file names is a key of that file: the environment counts more than it.
    if let Some(named) = file.agent.api_key_file.take() {
        let named = path.parent().unwrap_or(Path::new("")).join(named);
        let key =
            fs::read_to_string(&named).with_context(|| format!("cannot read the API key in {}", named.display()))?;
        file.agent.api_key.get_or_insert_with(|| ApiKey::new(&key));
    }
    Ok(file)
}

/// Reads a project's settings. They come with whatever somebody has checked out, so they say nothing of the user's key,
/// where it is sent, and what may be spent.
fn project(path: &Path) -> anyhow::Result<File> {
    let File { agent, run } = load(path)?;
    let told = [
        // Each provider would be sent the key.
        ("agent.provider", agent.provider.is_some()),
        ("agent.api_key", agent.api_key.is_some()),
        ("agent.api_key_file", agent.api_key_file.is_some()),
        ("agent.base_url", agent.base_url.is_some()),
        ("agent.prices", !agent.prices.is_empty()),
        ("run", run != Bounds::default()),
    ];
    if let Some((name, _)) = told.iter().find(|(_, is_told)| *is_told) {
        bail!("{} has {name}, which is not for a project to say; it belongs into your own settings", path.display());
    }
    Ok(File { agent, run })
}

fn load(path: &Path) -> anyhow::Result<File> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(File::default()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    toml::from_str(&text).map_err(|error| {
        // Its own words would show the line, and a key may be on it.
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
        anyhow!("{}, line {line}: {}", path.display(), error.message())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        toml::from_str(text).expect("settings")
    }

    #[test]
    fn what_is_nearer_to_the_call_wins() {
        let user =
            || file("[agent]\nmodel = \"u\"\nmax_tokens = 1\ntemperature = 0.1\n[run]\nmax_turns = 1\nmax_cost = 1");
        let project = || file("[agent]\nmodel = \"p\"\nmax_tokens = 2");
        let environment = |name: &str| match name {
            "COOP_MODEL" => Some("e".to_owned()),
            "COBBLER_AGENT_MODEL" => Some("not asked".to_owned()),
            "COBBLER_AGENT_MAX_TURNS" => Some("2".to_owned()),
            "COOP_REQUEST_TIMEOUT" => Some("2m".to_owned()),
            _ => None,
        };
        let none = Run::default();
        let flags = Run { model: Some("f".into()), ..Run::default() };
        let model = |options: &Run, environment: &dyn Fn(&str) -> Option<String>, project, user| {
            settle(options, environment, project, user).expect("settings").agent.model
        };
        assert_eq!(model(&flags, &environment, project(), user()).as_deref(), Some("f"));
        assert_eq!(model(&none, &environment, project(), user()).as_deref(), Some("e"));
        assert_eq!(model(&none, &|_| None, project(), user()).as_deref(), Some("p"));
        assert_eq!(model(&none, &|_| None, File::default(), user()).as_deref(), Some("u"));
        assert_eq!(model(&none, &|_| None, File::default(), File::default()).as_deref(), Some(MODEL));
        let all = settle(&none, environment, project(), user()).expect("settings");
        assert_eq!((all.agent.max_tokens, all.agent.temperature), (Some(2), Some(0.1)));
        assert_eq!(all.agent.request_timeout, Some(Duration::from_secs(120)));
        assert_eq!((all.limits.turns, all.limits.cost), (Some(2), Some(1.0)));
    }

    #[test]
    fn what_makes_no_sense_in_the_environment_is_told_by_name() {
        for (name, value) in [("COOP_MAX_TURNS", "many"), ("COOP_PROVIDER", "me"), ("COOP_REQUEST_TIMEOUT", "soon")] {
            let environment = |asked: &str| (asked == name).then(|| value.to_owned());
            let error = settle(&Run::default(), environment, File::default(), File::default()).expect_err(name);
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn a_project_says_nothing_of_keys_addresses_and_money() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.toml");
        for text in [
            "[agent]\nbase_url = \"http://evil.example\"",
            "[agent]\nprovider = \"openai\"",
            "[agent]\napi_key = \"x\"",
            "[agent]\napi_key_file = \"x\"",
            "[agent.prices]\nm = { input = 0, output = 0 }",
            "[run]\nmax_cost = 1000",
        ] {
            fs::write(&path, text).expect("written");
            assert!(project(&path).expect_err(text).to_string().contains("not for a project to say"));
        }
        fs::write(&path, "[agent]\nmodel = \"m\"\n[others]\nx = 1").expect("written");
        assert_eq!(project(&path).expect("settings").agent.model.as_deref(), Some("m"));
    }

    #[test]
    fn a_wrong_file_is_told_by_its_line_and_without_its_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.toml");
        fs::write(&path, "[agent]\nmodel = \"m\"\napi_key = [\"sk-secret\"]\n").expect("written");
        let error = format!("{:#}", user(&path).expect_err("it is wrong"));
        assert!(error.contains("line 3") && !error.contains("sk-secret"), "{error}");
    }

    #[test]
    fn a_key_that_the_users_file_names_counts_less_than_the_environments() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.toml");
        fs::write(folder.path().join("key"), "sk-of-the-file\n").expect("written");
        fs::write(&path, "[agent]\napi_key_file = \"key\"").expect("written");
        let read = user(&path).expect("settings").agent;
        assert_eq!((read.api_key, read.api_key_file), (Some(ApiKey::new("sk-of-the-file")), None));
    }

    #[test]
    fn settings_are_known_by_their_names() {
        assert!(is_setting("COOP_API_KEY") && is_setting("COBBLER_AGENT_MODEL") && is_setting("COOP_MAX_TIME"));
        assert!(!is_setting("COOP_AUTH_TOKEN") && !is_setting("COOP_PORT") && !is_setting("PATH"));
    }
}
