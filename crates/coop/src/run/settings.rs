//! What `coop run` goes by: flags, then the environment, then the project's file, then the user's, then defaults.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use coop_api::OWN_AGENT_PREFIXES;
use coop_llm::{AgentConfig, ApiKey, Limits, ProviderName};
use serde::Deserialize;

use super::options::Run;

/// The model that is meant when nobody says which.
const MODEL: &str = "claude-sonnet-4-5";
/// Where a project's settings are, in its folder.
const PROJECT_FILE: &str = ".coop/config.toml";
/// What was settled.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) agent: AgentConfig,
    pub(crate) limits: Limits,
}

/// A file of settings. All tables that coop knows are here: a limit under a name that nobody reads would be none.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
    /// Refuses what would be no limit, or would stop every run before it has begun.
    fn check(&self) -> anyhow::Result<()> {
        let none = "would stop every run; leave it out if there is to be no limit";
        if self.max_turns == Some(0) || self.max_total_tokens == Some(0) {
            bail!("max_turns or max_total_tokens is 0, which {none}");
        }
        for (name, value) in [("max_cost", self.max_cost), ("max_time", self.max_time)] {
            match value {
                Some(0.0) => bail!("{name} is 0, which {none}"),
                Some(value) if !(value.is_finite() && value > 0.0) => bail!("{name} is {value}, which is no limit"),
                Some(_) | None => {}
            }
        }
        Ok(())
    }

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
        let Self { max_turns: turns, max_cost: cost, max_total_tokens: tokens, .. } = self;
        Ok(Limits { turns, tokens, cost, time, ..Limits::default() })
    }
}

/// Returns a variable's value; one that is set to nothing counts as not set.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads all of it, for work in a folder.
pub(crate) fn read(options: &Run, folder: &Path) -> anyhow::Result<Settings> {
    // A key that counts more makes the user's own, wherever it is, unimportant.
    let own =
        OWN_AGENT_PREFIXES.iter().flat_map(|prefix| ["API_KEY", "API_KEY_FILE"].map(|name| format!("{prefix}{name}")));
    let has_key = options.api_key_file.is_some() || own.into_iter().any(|name| variable(&name).is_some());
    let named = if has_key { NamedKey::Ignored } else { NamedKey::Read };
    let user = user_file().map(|path| user(&path, named)).transpose()?.unwrap_or_default();
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
        let named = OWN_AGENT_PREFIXES.iter().map(|prefix| format!("{prefix}{name}"));
        named.into_iter().find_map(|name| environment(&name).map(|value| (name, value)))
    };
    let text = |name| get(name).map(|(_, value)| value);
    // As a file would have it, so that it is read the same way, and one after another, so that the wrong one is named.
    let mut read = AgentConfig::default();
    for (key, name) in [
        ("provider", "PROVIDER"),
        ("request_timeout", "REQUEST_TIMEOUT"),
        ("stall_timeout", "STALL_TIMEOUT"),
        ("max_tokens", "MAX_TOKENS"),
        ("temperature", "TEMPERATURE"),
    ] {
        let Some((name, value)) = get(name) else { continue };
        let whole = value.trim().parse::<i64>().map(toml::Value::from);
        let number = whole.or_else(|_| value.trim().parse::<f64>().map(toml::Value::from));
        let table: toml::Table = [(key.to_owned(), number.unwrap_or_else(|_| value.into()))].into_iter().collect();
        let one: AgentConfig = table
            .try_into()
            .map_err(|error: toml::de::Error| anyhow!("{name} cannot be used: {}", error.message().trim()))?;
        check_temperature(&one).context(name)?;
        read = read.over(one);
    }
    let run = Bounds {
        max_turns: number(get("MAX_TURNS"))?,
        max_cost: number(get("MAX_COST"))?,
        max_total_tokens: number(get("MAX_TOTAL_TOKENS"))?,
        max_time: number(get("MAX_TIME"))?,
    };
    run.check().context("the environment's limits")?;
    Ok(File {
        agent: AgentConfig {
            model: text("MODEL"),
            api_key_file: text("API_KEY_FILE").map(PathBuf::from),
            base_url: text("BASE_URL"),
            ..read
        },
        run,
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

/// What is done about a key in a file that a file names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamedKey {
    Read,
    Ignored,
}

fn user(path: &Path, named_key: NamedKey) -> anyhow::Result<File> {
    let mut file = load(path)?;
    // A key in a file that a file names is a key of that file: the environment counts more than it.
    if let Some(named) = file.agent.api_key_file.take()
        && named_key == NamedKey::Read
        && file.agent.api_key.is_none()
    {
        let named = path.parent().unwrap_or(Path::new("")).join(named);
        let key =
            fs::read_to_string(&named).with_context(|| format!("cannot read the API key in {}", named.display()))?;
        if key.trim().is_empty() {
            bail!("there is no API key in {}", named.display());
        }
        file.agent.api_key = Some(ApiKey::new(&key));
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
    let read: Result<File, toml::de::Error> = toml::from_str(&text);
    let read = read.map_err(|error| {
        // Its own words would show the line, and a key may be on it.
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
        anyhow!("{}, line {line}: {}", path.display(), error.message())
    })?;
    read.run.check().with_context(|| path.display().to_string())?;
    check_temperature(&read.agent).with_context(|| path.display().to_string())?;
    Ok(read)
}

/// Providers take no more than 2, and some no more than 1.
fn check_temperature(agent: &AgentConfig) -> anyhow::Result<()> {
    if agent.temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
        bail!("temperature is between 0 and 2");
    }
    Ok(())
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
        for (name, value) in [
            ("COOP_MAX_TURNS", "many"),
            ("COOP_PROVIDER", "me"),
            ("COOP_REQUEST_TIMEOUT", "soon"),
            ("COBBLER_AGENT_PROVIDER", "me"),
            ("COOP_TEMPERATURE", "9"),
        ] {
            let environment = |asked: &str| (asked == name).then(|| value.to_owned());
            let error = settle(&Run::default(), environment, File::default(), File::default()).expect_err(name);
            assert!(format!("{error:#}").contains(name), "{error:#}");
        }
    }

    /// It looks like a limit, and would be none, or stop everything.
    #[test]
    fn a_limit_that_is_none_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.toml");
        for text in [
            "[rnu]\nmax_cost = 1",
            "max_cost = 1",
            "[run]\nmax_cost = 0",
            "[run]\nmax_turns = 0",
            "[run]\nmax_cost = -1",
            "[agent]\ntemperature = 9.0",
        ] {
            fs::write(&path, text).expect("written");
            let error = format!("{:#}", load(&path).expect_err(text));
            assert!(error.contains("config.toml"), "{error}");
        }
        fs::write(&path, "[agent]\nmax_tokens = -1\ntemperature = -1").expect("written");
        assert_eq!(load(&path).expect("nothing is said").agent, AgentConfig::default());
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
        fs::write(&path, "[agent]\nmodel = \"m\"").expect("written");
        assert_eq!(project(&path).expect("settings").agent.model.as_deref(), Some("m"));
    }

    #[test]
    fn a_wrong_file_is_told_by_its_line_and_without_its_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.toml");
        fs::write(&path, "[agent]\nmodel = \"m\"\napi_key = [\"sk-secret\"]\n").expect("written");
        let error = format!("{:#}", user(&path, NamedKey::Read).expect_err("it is wrong"));
        assert!(error.contains("line 3") && !error.contains("sk-secret"), "{error}");
    }

    #[test]
    fn a_key_that_the_users_file_names_counts_less_than_the_environments() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.toml");
        fs::write(folder.path().join("key"), "sk-of-the-file\n").expect("written");
        fs::write(&path, "[agent]\napi_key_file = \"key\"").expect("written");
        let read = user(&path, NamedKey::Read).expect("settings").agent;
        assert_eq!((read.api_key, read.api_key_file), (Some(ApiKey::new("sk-of-the-file")), None));
        // One that is empty is none, and one that is not there does not matter if another counts more.
        fs::write(folder.path().join("key"), "\n").expect("written");
        assert!(user(&path, NamedKey::Read).expect_err("none").to_string().contains("there is no API key in"));
        fs::remove_file(folder.path().join("key")).expect("removed");
        assert!(user(&path, NamedKey::Read).is_err());
        assert_eq!(user(&path, NamedKey::Ignored).expect("settings").agent.api_key, None);
    }
}
