//! What a person's own command line of an agent comes to, where coop knows a conversation.
//!
//! Whoever types `claude` or `opencode` in a workspace gets the conversation that is there. The agent is run once, whatever
//! happens to it: nothing here leads to a second try, so no prompt is ever sent twice. A command line that says itself which
//! conversation it wants, or wants none, is left as it is.

use crate::{claude, opencode};

/// An agent that can be wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapped {
    /// Claude Code.
    Claude,
    /// OpenCode.
    OpenCode,
}

impl Wrapped {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Claude, Self::OpenCode];

    /// Returns the name of its driver, which is also its program's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::OpenCode => "opencode",
        }
    }

    /// Tells whether a command line begins a conversation that can be followed by hooks of ours.
    pub fn takes_hooks(self, words: &[String]) -> bool {
        match self {
            Self::Claude => claude::takes_hooks(words),
            Self::OpenCode => false,
        }
    }

    /// Tells whether a command line is about a conversation that a person leads.
    pub fn converses(self, words: &[String]) -> bool {
        match self {
            Self::Claude => claude::converses(words),
            Self::OpenCode => opencode::converses(words),
        }
    }

    /// Returns which conversation a command line says that it goes on with.
    pub fn chosen(self, words: &[String]) -> Chosen {
        match self {
            Self::Claude => claude::chosen(words),
            Self::OpenCode => opencode::chosen(words),
        }
    }

    /// Returns what is to be run. The words are those after the program's own.
    pub fn plan(self, words: &[String], known: Option<&Conversation>) -> Plan {
        let Some(known) = known else { return Plan::AsItIs };
        match self {
            Self::Claude => claude::wrapped(words, known),
            Self::OpenCode => opencode::wrapped(words, known),
        }
    }
}

/// Which conversation a command line goes on with, as far as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The one of this name.
    Named(String),
    /// The one that was written into last.
    Last,
    /// A new one, a copy, one that the person will be asked for, or it does not say.
    Open,
}

/// A conversation that coop knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Its name; an agent that nobody has told anything may have none.
    pub id: Option<String>,
    /// Where it is.
    pub at: At,
}

/// Where a conversation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// An agent of this id has it open, in a terminal of coop's.
    Agent(String),
    /// A server has it, at this URL.
    Server(String),
    /// An agent of this id has it, and its server does not answer.
    Silent(String),
    /// Nobody has it open; the agent has written it down.
    Kept,
    /// It has a name, and nothing was said in it yet.
    Unbegun,
}

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The agent, with the words that there are.
    AsItIs,
    /// The agent, with these words, where the conversation is at home.
    With(Vec<String>),
    /// Nothing but a view of the terminal of this agent of coop's.
    Attach(String),
    /// Nothing, for this reason.
    Refuse(String),
}

/// Returns where Claude Code writes down the conversations of a folder, each as `ID.jsonl`.
pub fn claude_logs(config_dir: &str, folder: &str) -> String {
    claude::logs_in(config_dir, folder)
}
