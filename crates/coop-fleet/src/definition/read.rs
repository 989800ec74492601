//! TOML values that know where they stand.

use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::DefinitionError;

/// Makes an error from where it is in the text.
pub(super) fn error(text: &str, at: usize, message: impl Into<String>) -> DefinitionError {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
    DefinitionError { line, column, message: message.into() }
}

/// A name in a table, and where it stands.
#[derive(Clone)]
pub(super) struct Key<'a> {
    source: &'a str,
    name: &'a str,
    at: usize,
}

impl<'a> Key<'a> {
    pub(super) fn text(&self) -> &'a str {
        self.name
    }

    pub(super) fn error(&self, message: impl Into<String>) -> DefinitionError {
        error(self.source, self.at, message)
    }
}

/// A value, and where it stands.
#[derive(Clone)]
pub(super) struct Node<'a> {
    source: &'a str,
    value: Value<'a>,
    at: usize,
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Table(&'a DeTable<'a>),
    Other(&'a DeValue<'a>),
}

/// A table whose names are all known.
pub(super) struct Table<'a> {
    source: &'a str,
    entries: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    pub(super) fn get(&self, name: &str) -> Option<Node<'a>> {
        let (_, value) = self.entries.iter().find(|(key, _)| key.get_ref() == name)?;
        Some(Node::new(self.source, value))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, DefinitionError> {
        self.get(name).map(|node| node.text().map(str::to_owned)).transpose()
    }
}

impl<'a> Node<'a> {
    pub(super) fn table_of(source: &'a str, table: &'a Spanned<DeTable<'a>>) -> Self {
        Self { source, value: Value::Table(table.get_ref()), at: 0 }
    }

    fn new(source: &'a str, value: &'a Spanned<DeValue<'a>>) -> Self {
        Self { source, value: Value::Other(value.get_ref()), at: value.span().start }
    }

    pub(super) fn error(&self, message: impl Into<String>) -> DefinitionError {
        error(self.source, self.at, message)
    }

    pub(super) fn line(&self) -> usize {
        self.error("").line
    }

    /// Tells whether it is text, so that a name can stand for a table with nothing but that.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.value, Value::Other(DeValue::String(_)))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.value, Value::Other(DeValue::Array(_)))
    }

    pub(super) fn text(&self) -> Result<&'a str, DefinitionError> {
        match self.value {
            Value::Other(DeValue::String(text)) => Ok(text),
            _ => Err(self.error("this has to be text, in quotes")),
        }
    }

    pub(super) fn flag(&self) -> Result<bool, DefinitionError> {
        match self.value {
            Value::Other(DeValue::Boolean(flag)) => Ok(*flag),
            _ => Err(self.error("this has to be true or false")),
        }
    }

    pub(super) fn whole(&self) -> Result<u64, DefinitionError> {
        let wrong = || self.error("this has to be a whole number");
        match self.value {
            Value::Other(DeValue::Integer(number)) => {
                u64::from_str_radix(number.as_str(), number.radix()).map_err(|_| wrong())
            }
            _ => Err(wrong()),
        }
    }

    pub(super) fn number(&self) -> Result<f64, DefinitionError> {
        let wrong = || self.error("this has to be a number that is not negative");
        let text = match self.value {
            Value::Other(DeValue::Float(number)) => number.as_str(),
            Value::Other(DeValue::Integer(number)) => number.as_str(),
            _ => return Err(wrong()),
        };
        text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0).ok_or_else(wrong)
    }

    pub(super) fn time(&self) -> Result<Duration, DefinitionError> {
        let wrong = || self.error("this has to be a time such as \"30s\", \"5m\" or \"2h 30m\"");
        let text = self.text().map_err(|_| wrong())?;
        humantime::parse_duration(text).map_err(|_| wrong())
    }

    pub(super) fn list(&self) -> Result<Vec<Node<'a>>, DefinitionError> {
        match self.value {
            Value::Other(DeValue::Array(values)) => {
                Ok(values.iter().map(|value| Node::new(self.source, value)).collect())
            }
            _ => Err(self.error("this has to be a list")),
        }
    }

    pub(super) fn texts(&self) -> Result<Vec<String>, DefinitionError> {
        self.list()?.iter().map(|node| node.text().map(str::to_owned)).collect()
    }

    pub(super) fn entries(&self) -> Result<Vec<(Key<'a>, Node<'a>)>, DefinitionError> {
        let entries = self.raw_table()?;
        let key = |key: &'a Spanned<_>| Key { source: self.source, name: as_str(key), at: key.span().start };
        let mut found: Vec<_> =
            entries.iter().map(|(name, value)| (key(name), Node::new(self.source, value))).collect();
        found.sort_by_key(|(key, _)| key.at);
        Ok(found)
    }

    /// Returns a table that has no names but these.
    pub(super) fn table(&self, known: &[&str]) -> Result<Table<'a>, DefinitionError> {
        for (key, _) in self.entries()? {
            if !known.contains(&key.text()) {
                let known = known.join(", ");
                return Err(key.error(format!("{:?} is not known here; there are {known}", key.text())));
            }
        }
        Ok(Table { source: self.source, entries: self.raw_table()? })
    }

    /// Returns it as JSON.
    pub(super) fn json(&self) -> Result<serde_json::Value, DefinitionError> {
        use serde_json::Value as Json;
        let wrong = || self.error("this cannot be said in JSON");
        Ok(match self.value {
            Value::Other(DeValue::String(text)) => Json::String(text.to_string()),
            Value::Other(DeValue::Boolean(flag)) => Json::Bool(*flag),
            Value::Other(DeValue::Integer(number)) => {
                i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| wrong())?.into()
            }
            Value::Other(DeValue::Float(number)) => {
                let number: f64 = number.as_str().parse().map_err(|_| wrong())?;
                serde_json::Number::from_f64(number).map(Json::Number).ok_or_else(wrong)?
            }
            Value::Other(DeValue::Array(_)) => {
                Json::Array(self.list()?.iter().map(Self::json).collect::<Result<_, _>>()?)
            }
            Value::Other(DeValue::Datetime(_)) => return Err(wrong()),
            Value::Table(_) | Value::Other(DeValue::Table(_)) => {
                let entry = |(key, node): (Key<'a>, Self)| Ok((key.text().to_owned(), node.json()?));
                Json::Object(self.entries()?.into_iter().map(entry).collect::<Result<_, _>>()?)
            }
        })
    }

    fn raw_table(&self) -> Result<&'a DeTable<'a>, DefinitionError> {
        match self.value {
            Value::Table(table) | Value::Other(DeValue::Table(table)) => Ok(table),
            Value::Other(_) => Err(self.error("this has to be a table, such as { action = \"nudge\" }")),
        }
    }
}

fn as_str<'a>(key: &'a Spanned<std::borrow::Cow<'a, str>>) -> &'a str {
    key.get_ref()
}
