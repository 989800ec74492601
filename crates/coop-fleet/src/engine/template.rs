//! Messages with places for what is known when they are sent.

use std::fmt;

/// What a message may name.
const PLACES: [&str; 7] = ["agent", "attempt", "attempts", "output", "last_message", "error", "exit"];

/// A message with places such as `{output}`. Other braces are plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(String);

/// A place that nothing is known for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message knows no {{{name}}}; it may name {}", known())]
pub struct TemplateError {
    name: String,
}

fn known() -> String {
    PLACES.map(|place| format!("{{{place}}}")).join(", ")
}

/// What stands in the places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts<'a> {
    pub(crate) agent: &'a str,
    pub(crate) attempt: u32,
    pub(crate) attempts: String,
    pub(crate) output: &'a str,
    pub(crate) last_message: &'a str,
    pub(crate) error: &'a str,
    pub(crate) exit: String,
}

impl Template {
    /// Reads a message; a place with an unknown name is most likely a slip.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        for (name, _) in places(text) {
            if !PLACES.contains(&name) {
                return Err(TemplateError { name: name.to_owned() });
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the message. What is put in is not looked at again, so no agent can name a place.
    pub(crate) fn fill(&self, facts: &Facts<'_>) -> String {
        let mut filled = String::with_capacity(self.0.len());
        let mut from = 0;
        for (name, at) in places(&self.0) {
            filled.push_str(&self.0[from..at]);
            match name {
                "agent" => filled.push_str(facts.agent),
                "attempt" => filled.push_str(&facts.attempt.to_string()),
                "attempts" => filled.push_str(&facts.attempts),
                "output" => filled.push_str(facts.output),
                "last_message" => filled.push_str(facts.last_message),
                "error" => filled.push_str(facts.error),
                _ => filled.push_str(&facts.exit),
            }
            from = at + name.len() + 2;
        }
        filled.push_str(&self.0[from..]);
        filled
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the names in braces, each with where its brace stands.
fn places(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.match_indices('{').filter_map(|(at, _)| {
        let rest = &text[at + 1..];
        let name = &rest[..rest.find('}')?];
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        is_name.then_some((name, at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_once_and_other_braces_stay() {
        let template = Template::parse("{agent}: {\"a\": {}} {output} {attempt}/{attempts}{").expect("known places");
        let facts = Facts { agent: "fixer", output: "{agent}", attempt: 2, attempts: "3".into(), ..Facts::default() };
        assert_eq!(template.fill(&facts), "fixer: {\"a\": {}} {agent} 2/3{");
    }

    #[test]
    fn a_place_that_nothing_is_known_for_is_refused() {
        let error = Template::parse("look at {outptu}").expect_err("a slip");
        assert_eq!(
            error.to_string(),
            "a message knows no {outptu}; it may name {agent}, {attempt}, {attempts}, {output}, {last_message}, {error}, {exit}"
        );
    }
}
