//! Settings of an agent, as a file has them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::{Agent, AgentError, ApiKey, Claude, ErrorKind, KeySources, OpenAi, Price, Prices, ProviderConfig};

/// Settings of an agent, of which any may be missing. Several files, the environment and flags make one by
/// [`over`](Self::over).
///
/// The names are those of the specification. There, 0 tokens and a temperature of -1 mean that nothing is set; they do here.
///
/// ```
/// use coop_llm::AgentConfig;
///
/// let file: AgentConfig = serde_json::from_str(r#"{"model": "m", "max_tokens": 0, "request_timeout": "90s"}"#).unwrap();
/// let flags = AgentConfig { model: Some("n".into()), ..AgentConfig::default() };
/// let both = flags.over(file);
/// assert_eq!((both.model.as_deref(), both.max_tokens), (Some("n"), None));
/// assert_eq!(both.request_timeout.map(|time| time.as_secs()), Some(90));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// Who has the model; Claude if nobody says.
    pub provider: Option<ProviderName>,
    /// The model.
    pub model: Option<String>,
    /// The most tokens of one answer.
    #[serde(deserialize_with = "unless_zero")]
    pub max_tokens: Option<u32>,
    /// How freely the model chooses its words.
    #[serde(deserialize_with = "unless_negative")]
    pub temperature: Option<f64>,
    /// Time for one attempt at a call, as a number of seconds or as in `2m 30s`.
    #[serde(deserialize_with = "time")]
    pub request_timeout: Option<Duration>,
    /// How long the provider may be silent in the middle of an answer, likewise.
    #[serde(deserialize_with = "time")]
    pub stall_timeout: Option<Duration>,
    /// The key. Better in a file of its own or the environment.
    pub api_key: Option<ApiKey>,
    /// A file with the key.
    pub api_key_file: Option<PathBuf>,
    /// Where the provider is.
    pub base_url: Option<String>,
    /// What models cost, by the beginnings of their names.
    pub prices: BTreeMap<String, Price>,
}

/// Who has a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderName {
    /// Anthropic, or something that speaks its protocol.
    #[serde(alias = "anthropic")]
    Claude,
    /// OpenAI, or something that speaks its chat completions.
    #[serde(rename = "openai")]
    OpenAi,
}

impl AgentConfig {
    /// Returns these settings, and the others where these say nothing.
    pub fn over(self, other: Self) -> Self {
        let mut prices = other.prices;
        prices.extend(self.prices);
        Self {
            provider: self.provider.or(other.provider),
            model: self.model.or(other.model),
            max_tokens: self.max_tokens.or(other.max_tokens),
            temperature: self.temperature.or(other.temperature),
            request_timeout: self.request_timeout.or(other.request_timeout),
            stall_timeout: self.stall_timeout.or(other.stall_timeout),
            api_key: self.api_key.or(other.api_key),
            api_key_file: self.api_key_file.or(other.api_key_file),
            base_url: self.base_url.or(other.base_url),
            prices,
        }
    }

    /// Returns the known prices with those that were set.
    pub fn prices(&self) -> Prices {
        self.prices.iter().fold(Prices::default(), |prices, (model, price)| prices.with(model, *price))
    }

    /// Returns the agent. `environment` gives a variable's value; see [`KeySources`] for which.
    pub fn agent(&self, environment: impl Fn(&str) -> Option<String>) -> Result<Arc<dyn Agent>, AgentError> {
        let Some(model) = &self.model else {
            return Err(AgentError::new(
                ErrorKind::Invalid,
                "there is no model; name one by `model`, `--model` or COOP_MODEL",
            ));
        };
        let provider = self.provider.unwrap_or(ProviderName::Claude);
        let places = match provider {
            ProviderName::Claude => KeySources::anthropic(),
            ProviderName::OpenAi => KeySources::openai(),
        };
        let sources = KeySources { file: self.api_key_file.clone(), config: self.api_key.clone(), ..places };
        let key = sources.find(environment)?;
        let mut config = ProviderConfig::new(model);
        config.model.max_tokens = self.max_tokens.unwrap_or(config.model.max_tokens);
        config.temperature = self.temperature;
        config.base_url.clone_from(&self.base_url);
        config.request_timeout = self.request_timeout.unwrap_or(config.request_timeout);
        config.stall_timeout = self.stall_timeout.unwrap_or(config.stall_timeout);
        Ok(match provider {
            ProviderName::Claude => Arc::new(Claude::new(key, config)?),
            ProviderName::OpenAi => Arc::new(OpenAi::new(key, config)?),
        })
    }
}

fn unless_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    use serde::de::Error;
    let given = Option::<i64>::deserialize(deserializer)?.filter(|tokens| *tokens > 0);
    given.map(|tokens| u32::try_from(tokens).map_err(D::Error::custom)).transpose()
}

fn unless_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.filter(|temperature| *temperature >= 0.0))
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Time {
        Seconds(f64),
        Text(String),
    }
    use serde::de::Error;
    let given = Option::<Time>::deserialize(deserializer)?;
    let time = match given {
        None => return Ok(None),
        Some(Time::Seconds(seconds)) => Duration::try_from_secs_f64(seconds).map_err(D::Error::custom)?,
        Some(Time::Text(text)) => humantime::parse_duration(&text).map_err(D::Error::custom)?,
    };
    Ok((!time.is_zero()).then_some(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specifications_names_are_understood() {
        let text = r#"{"provider": "claude", "model": "claude-sonnet-4-20250514", "max_tokens": 100, "temperature": 0,
            "request_timeout": 30, "api_key": "sk-1", "prices": {"m": {"input": 1, "output": 2}}}"#;
        let config: AgentConfig = serde_json::from_str(text).unwrap();
        assert_eq!((config.max_tokens, config.temperature), (Some(100), Some(0.0)));
        assert_eq!(config.request_timeout, Some(Duration::from_secs(30)));
        assert_eq!(config.prices().of("m").unwrap().output, 2.0);
        assert!(!format!("{config:?}").contains("sk-1"));
        let agent = config.agent(|_| None).unwrap();
        assert_eq!((agent.model().name.as_str(), agent.model().max_tokens), ("claude-sonnet-4-20250514", 100));
    }

    #[test]
    fn what_means_nothing_is_nothing() {
        let config: AgentConfig =
            serde_json::from_str(r#"{"max_tokens": -1, "temperature": -1, "request_timeout": 0}"#).unwrap();
        assert_eq!(config, AgentConfig::default());
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for text in
            [r#"{"modell": "m"}"#, r#"{"provider": "me"}"#, r#"{"request_timeout": -1}"#, r#"{"request_timeout": "x"}"#]
        {
            assert!(serde_json::from_str::<AgentConfig>(text).is_err(), "{text}");
        }
        let no_model = AgentConfig { api_key: Some(ApiKey::new("k")), ..AgentConfig::default() };
        assert_eq!(no_model.agent(|_| None).err().map(|error| error.kind), Some(ErrorKind::Invalid));
        let no_key = AgentConfig { model: Some("m".into()), ..AgentConfig::default() };
        assert_eq!(no_key.agent(|_| None).err().map(|error| error.kind), Some(ErrorKind::Agent));
    }
}
