//! Scenarios: which steps answer which prompt.
//!
//! ```toml
//! pace = 0.0                          # seconds before each step, for people watching
//!
//! [[turn]]
//! match = ["fix", "repair"]           # the prompt contains one of these, in any case; left out: any prompt
//! times = 1                           # how often this turn can be used; left out: always
//! steps = [{ read = "a.txt" }, { bash = "touch b" }, "hang", { text = "{result}" }]
//! ```
//!
//! The first turn that fits is taken. Directives in the prompt come before any scenario.
//! Texts may hold `{prompt}`, `{context}` (what hooks added), `{result}` (of the last tool) and `{results}` (how many).

use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use super::step::{Step, directives};

/// The name of the scenario with nothing in it: every prompt gets the mock model's answer.
const PLAIN: &str = "plain";
const DEMO: &str = include_str!("demo.toml");

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// Seconds before each step.
    #[serde(default)]
    pub(crate) pace: f64,
    #[serde(default, rename = "turn")]
    turns: Vec<Turn>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    #[serde(default, rename = "match")]
    words: Vec<String>,
    #[serde(default)]
    whole_word: bool,
    times: Option<u32>,
    #[serde(default)]
    steps: Vec<Step>,
}

/// Where a text comes from that asks for steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The user's prompt.
    Prompt,
    /// A Stop hook's reason to go on, or a sub-agent's prompt: only directives and turns that name it count.
    Aside,
}

/// The steps for a text, and how to pace them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
    pub(crate) pace: f64,
}

impl Scenario {
    /// Reads `COOP_SIM_SCENARIO`: a path, `plain`, or nothing for the built-in demo.
    pub(crate) fn load(name: Option<&str>) -> anyhow::Result<Self> {
        match name {
            None | Some("") => Self::parse(DEMO).context("the built-in scenario"),
            Some(PLAIN) => Ok(Self::default()),
            Some(path) => {
                let text = std::fs::read_to_string(Path::new(path)).with_context(|| format!("scenario {path}"))?;
                Self::parse(&text).with_context(|| format!("scenario {path}"))
            }
        }
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        Ok(toml::from_str(text)?)
    }

    pub(crate) fn script(&mut self, text: &str, asked: Asked) -> Script {
        let steps = directives(text);
        if !steps.is_empty() {
            return Script { steps, pace: 0.0 };
        }
        let fits = |turn: &&mut Turn| match asked {
            Asked::Prompt => turn.fits(text),
            Asked::Aside => !turn.words.is_empty() && turn.fits(text),
        };
        let Some(turn) = self.turns.iter_mut().find(fits) else {
            return Script { steps: Vec::new(), pace: 0.0 };
        };
        if let Some(times) = &mut turn.times {
            *times -= 1;
        }
        Script { steps: turn.steps.clone(), pace: self.pace }
    }
}

impl Turn {
    fn fits(&self, text: &str) -> bool {
        if self.times == Some(0) {
            return false;
        }
        let text = text.to_lowercase();
        self.words.is_empty()
            || self.words.iter().map(|word| word.to_lowercase()).any(|word| match self.whole_word {
                true => text.split(|c: char| !c.is_alphanumeric()).any(|part| part == word),
                false => text.contains(&word),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_is_well_formed_and_greets() {
        let mut demo = Scenario::load(None).unwrap();
        let greeting = demo.script("Hi there", Asked::Prompt);
        assert_eq!(greeting.steps, vec![Step::Text("Hello from the mock model.".into())]);
        assert!(demo.script("build this for me", Asked::Prompt).steps.len() > 5);
    }

    #[test]
    fn a_turn_can_be_used_up() {
        let text = "[[turn]]\ntimes = 1\nsteps = ['hang']\n[[turn]]\nsteps = [{ bash = 'ls' }]\n";
        let mut scenario = Scenario::parse(text).unwrap();
        assert_eq!(scenario.script("a", Asked::Prompt).steps, vec![Step::Hang]);
        assert_eq!(scenario.script("a", Asked::Prompt).steps, vec![Step::Bash("ls".into())]);
    }

    #[test]
    fn capitals_do_not_matter() {
        for more in ["", "whole_word = true\n"] {
            let text = format!("[[turn]]\nmatch = ['Deploy']\n{more}steps = ['hang']\n");
            let mut scenario = Scenario::parse(&text).unwrap();
            for prompt in ["Deploy it", "please DEPLOY", "deploy"] {
                assert_eq!(scenario.script(prompt, Asked::Prompt).steps, vec![Step::Hang], "{prompt} {more}");
            }
            assert_eq!(scenario.script("destroy", Asked::Prompt).steps, vec![]);
        }
    }

    #[test]
    fn directives_come_before_the_scenario() {
        let mut scenario = Scenario::parse("[[turn]]\nsteps = ['hang']\n").unwrap();
        assert_eq!(scenario.script("[[text:no]]", Asked::Prompt).steps, vec![Step::Text("no".into())]);
    }

    #[test]
    fn a_stop_hook_only_wakes_turns_that_name_it() {
        let mut scenario = Scenario::parse("[[turn]]\nsteps = ['hang']\n").unwrap();
        assert_eq!(scenario.script("go on", Asked::Aside).steps, vec![]);
    }
}
