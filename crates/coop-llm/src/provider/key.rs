//! The key to a provider, and where it is found.

use std::fmt;
use std::path::PathBuf;

use reqwest::header::HeaderValue;
use serde::{Deserialize, Deserializer};

use crate::{AgentError, ErrorKind};

/// A key that is never shown.
///
/// ```
/// let key = coop_llm::ApiKey::new("sk-secret");
/// assert_eq!(format!("{key:?}"), "ApiKey(…)");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(Box<str>);

impl ApiKey {
    /// Takes a key; spaces and line ends around it are not part of it.
    pub fn new(key: &str) -> Self {
        Self(key.trim().into())
    }

    /// Returns a header that holds the key after a prefix. It is marked, so that no log of the HTTP client shows it.
    pub(crate) fn header(&self, prefix: &str) -> Result<HeaderValue, AgentError> {
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.0))
            .map_err(|_| AgentError::new(ErrorKind::Invalid, "the API key has characters that no key has"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Takes the key out of a text: providers have quoted it in their errors.
    pub(crate) fn hide(&self, text: String) -> String {
        if self.0.is_empty() || !text.contains(&*self.0) { text } else { text.replace(&*self.0, "…") }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

impl<'de> Deserialize<'de> for ApiKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|key| Self::new(&key))
    }
}

/// Where a key may be, the first first: a file that somebody named, the environment of this program's own, a
/// configuration, the environment that other programs share.
#[derive(Clone, Debug)]
pub struct KeySources {
    /// A file with nothing but the key.
    pub file: Option<PathBuf>,
    /// Variables that count more than a configuration.
    pub own_variables: &'static [&'static str],
    /// A key from a configuration.
    pub config: Option<ApiKey>,
    /// Variables that count less.
    pub shared_variables: &'static [&'static str],
}

impl KeySources {
    /// Returns the places for Anthropic's key.
    pub fn anthropic() -> Self {
        Self {
            file: None,
            own_variables: &["COOP_API_KEY", "COBBLER_AGENT_API_KEY"],
            config: None,
            shared_variables: &["ANTHROPIC_API_KEY"],
        }
    }

    /// Returns the places for OpenAI's key.
    pub fn openai() -> Self {
        Self { shared_variables: &["OPENAI_API_KEY"], ..Self::anthropic() }
    }

    /// Finds the key. `environment` gives a variable's value, as [`std::env::var`] does.
    pub fn find(&self, environment: impl Fn(&str) -> Option<String>) -> Result<ApiKey, AgentError> {
        if let Some(path) = &self.file {
            let text = std::fs::read_to_string(path).map_err(|error| {
                let message = format!("cannot read the API key from {}", path.display());
                AgentError::new(ErrorKind::Invalid, message).with_source(error)
            })?;
            if text.trim().contains(char::is_whitespace) {
                let message = format!("{} holds more than an API key", path.display());
                return Err(AgentError::new(ErrorKind::Invalid, message));
            }
            return filled(&text).ok_or_else(|| {
                AgentError::new(ErrorKind::Invalid, format!("there is no API key in {}", path.display()))
            });
        }
        let among = |names: &[&str]| names.iter().find_map(|name| filled(&environment(name)?));
        let config = || self.config.clone().filter(|key| !key.0.is_empty());
        among(self.own_variables).or_else(config).or_else(|| among(self.shared_variables)).ok_or_else(|| {
            let names = [self.own_variables, self.shared_variables].concat().join(" or ");
            AgentError::new(ErrorKind::Agent, format!("there is no API key; set {names}, or name a file that holds it"))
        })
    }
}

/// An empty variable is as good as none.
fn filled(text: &str) -> Option<ApiKey> {
    (!text.trim().is_empty()).then(|| ApiKey::new(text))
}

/// Variables that hold keys, which no tool is to see.
pub(crate) const SECRET_VARIABLES: [&str; 4] =
    ["COOP_API_KEY", "COBBLER_AGENT_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"];

#[cfg(test)]
mod tests {
    use super::*;

    fn all(name: &str) -> Option<String> {
        Some(format!("key of {name}"))
    }

    fn only(wanted: &'static str) -> impl Fn(&str) -> Option<String> {
        move |name| if name == wanted { all(name) } else { Some(String::new()) }
    }

    #[test]
    fn the_first_place_with_a_key_wins() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "key-of-the-file\n").unwrap();
        let config = Some(ApiKey::new("key of the config"));
        let sources = KeySources { file: Some(file), config, ..KeySources::anthropic() };
        let found = |sources: &KeySources, environment: &dyn Fn(&str) -> Option<String>| {
            sources.find(environment).unwrap().0.into_string()
        };
        assert_eq!(found(&sources, &all), "key-of-the-file");
        let sources = KeySources { file: None, ..sources };
        assert_eq!(found(&sources, &all), "key of COOP_API_KEY");
        assert_eq!(found(&sources, &only("COBBLER_AGENT_API_KEY")), "key of COBBLER_AGENT_API_KEY");
        assert_eq!(found(&sources, &only("ANTHROPIC_API_KEY")), "key of the config");
        let sources = KeySources { config: None, ..sources };
        assert_eq!(found(&sources, &only("ANTHROPIC_API_KEY")), "key of ANTHROPIC_API_KEY");
        let error = sources.find(|_| None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "agent: there is no API key; set COOP_API_KEY or COBBLER_AGENT_API_KEY or ANTHROPIC_API_KEY, or name a \
             file that holds it"
        );
    }

    #[test]
    fn a_named_file_without_a_key_is_an_error_and_not_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let sources = KeySources { file: Some(file.clone()), ..KeySources::openai() };
        assert_eq!(sources.find(all).unwrap_err().kind, ErrorKind::Invalid);
        std::fs::write(&file, " \n").unwrap();
        assert_eq!(sources.find(all).unwrap_err().kind, ErrorKind::Invalid);
        std::fs::write(&file, "one\ntwo\n").unwrap();
        assert!(sources.find(all).unwrap_err().message.ends_with("holds more than an API key"));
        // Nor is an empty one in a configuration passed on.
        let sources = KeySources { config: Some(ApiKey::new(" ")), ..KeySources::openai() };
        assert_eq!(sources.find(|_| None).unwrap_err().kind, ErrorKind::Agent);
    }

    #[test]
    fn a_key_is_not_shown() {
        let key = ApiKey::new("sk-1");
        assert_eq!(key.hide("wrong key sk-1!".into()), "wrong key …!");
        assert_eq!(format!("{key:?} {:?}", key.header("Bearer ").unwrap()), "ApiKey(…) Sensitive");
        assert!(ApiKey::new("a\nb").header("").is_err());
    }

    #[test]
    fn all_variables_with_keys_are_kept_from_tools() {
        for sources in [KeySources::anthropic(), KeySources::openai()] {
            for name in [sources.own_variables, sources.shared_variables].concat() {
                assert!(SECRET_VARIABLES.contains(&name), "{name}");
            }
        }
    }
}
