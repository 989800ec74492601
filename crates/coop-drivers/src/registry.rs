//! The agents coop knows. A new one is a folder beside this file and a line in [`KNOWN`].

use coop_api::PermissionMode;
use serde_json::Value;

use crate::driver::{Driver, Launch, Runtime};
use crate::modes::{self, OwnMode};
use crate::rules::{RuleError, Rules};
use crate::tools::{self, NamedTool, Tool, Unasked};
use crate::{acp, api, claude, codex, gemini, opencode, program};

/// An agent coop knows.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its name, as `--agent` takes it.
    pub name: &'static str,
    /// Names of its program, without a folder; none for coop's own.
    pub programs: &'static [&'static str],
    /// The package it comes from, on npm.
    pub package: &'static str,
    /// Where its program is among what npm has installed of that without running its scripts: the first of these that is
    /// there. `{platform}` is the machine's name for npm, such as `linux-x64`.
    pub binaries: &'static [&'static str],
    /// The versions it was tested with, oldest and newest. Nothing for a protocol, which many programs speak.
    pub tested: Option<(&'static str, &'static str)>,
    /// How it can be run; the first is meant when nothing is said.
    pub runtimes: &'static [Runtime],
    /// Variables of the environment that the driver wants to know.
    pub variables: &'static [&'static str],
    /// Variables of the environment, each of which is a login.
    pub keys: &'static [&'static str],
    /// Files, each of which is a login.
    pub logins: &'static [Login],
    /// Folders below the user's home that it writes to.
    pub folders: &'static [&'static str],
    /// Files below the user's home that it writes to.
    pub files: &'static [&'static str],
    /// The variable that names the folder for its conversations, if those are among coop's own files by default.
    pub state_variable: Option<&'static str>,
    /// Whether the driver wants to know what the program says of its version, which costs the time to run it.
    pub asks_version: bool,
    /// What its screens look like.
    pub rules: &'static str,
    /// Returns files that the driver wants to read before the agent is set up.
    pub reads: fn(&Launch) -> Vec<String>,
    /// Returns a driver for one that is about to be launched.
    pub new: fn(Rules, &Launch) -> Box<dyn Driver>,
    /// The names of its tools in asks.
    pub tools: &'static [&'static [NamedTool]],
    /// What makes it use every tool without an ask.
    pub never_asks: &'static [Unasked],
    /// The permission modes that it has.
    pub modes: &'static [OwnMode],
}

/// Where an agent keeps a login.
#[derive(Debug)]
pub struct Login {
    /// The variable that names the folder.
    pub variable: &'static str,
    /// The folder below the user's home if the variable is not set.
    pub folder: &'static str,
    /// The file in it.
    pub file: &'static str,
}

/// Every agent coop knows.
pub const KNOWN: &[Known] = &[claude::KNOWN, codex::KNOWN, gemini::KNOWN, opencode::KNOWN, acp::KNOWN, api::KNOWN];

impl Known {
    /// Returns the agent of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.name == name)
    }

    /// Returns the agent that a command line runs, and which of its words is the program. Programs that run another one
    /// are looked through, such as `env` and `npx`, and so is coop's own simulator.
    pub fn of_command(command: &[String]) -> Option<(&'static Self, usize)> {
        KNOWN.iter().find_map(|known| Some((known, known.program_in(command)?)))
    }

    /// Returns which word of a command line is this agent's program.
    pub fn program_in(&self, command: &[String]) -> Option<usize> {
        program::find(command, self.programs, self.package)
    }

    /// Returns which word it is if somebody says that this agent is run: the first may then have any name, unless that is
    /// known to run another program.
    pub fn program_said_in(&self, command: &[String]) -> Option<usize> {
        self.program_in(command).or_else(|| (!program::runs_another(command)).then_some(0))
    }

    /// Returns what a tool of this name does.
    pub fn tool(&self, name: &str) -> Option<&'static [Tool]> {
        self.tools.iter().find_map(|table| tools::find(table, name))
    }

    /// Returns what in a command line or in settings of this agent makes it use every tool without an ask.
    pub fn never_asks(&self, command: &[String], settings: Option<&Value>) -> Option<String> {
        // Where coop is the program, the words are its options.
        let at = self.program_said_in(command).filter(|_| !self.programs.is_empty());
        let args = at.and_then(|at| command.get(at + 1..)).unwrap_or(command);
        self.never_asks.iter().find_map(|unasked| unasked.found_in(args, settings))
    }

    /// Returns the permission mode that a command line of this agent names.
    pub fn mode_in(&self, command: &[String]) -> Option<PermissionMode> {
        modes::of_args(self.modes, command.get(self.program_said_in(command)? + 1..)?)
    }

    /// Returns the permission mode that a command line or settings of this agent start it in, as far as they say.
    pub fn mode_of(&self, command: &[String], settings: Option<&Value>) -> Option<PermissionMode> {
        self.mode_in(command).or_else(|| self.never_asks(command, settings).map(|_| PermissionMode::Bypass))
    }

    /// Returns the words that start this agent in a permission mode, or which modes there are.
    pub fn mode_words(&self, mode: PermissionMode) -> Result<&'static [&'static str], String> {
        let offered = || self.modes.iter().filter(|own| !own.words.is_empty());
        offered().find(|own| own.mode == mode).map(|own| own.words).ok_or_else(|| {
            let names: Vec<_> = offered().map(|own| own.mode.as_str()).collect();
            match names[..] {
                [] => format!("coop cannot start {} in a permission mode", self.name),
                _ => format!("{} has no permission mode {}; it has {}", self.name, mode.as_str(), names.join(", ")),
            }
        })
    }

    /// Returns the screen rules that come with coop.
    pub fn rules(&self) -> Result<Rules, RuleError> {
        Rules::parse(self.rules)
    }
}
