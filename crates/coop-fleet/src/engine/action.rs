//! What can be done, by occasion. That an action makes no sense for an occasion is a type, not a check.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::plan::Attempts;

/// What the actions of all occasions have in common.
pub trait Act: Copy + Eq + std::fmt::Debug {
    /// What is done when nothing else is left.
    const LAST: Self;

    /// Returns its name in a definition.
    fn name(self) -> &'static str;

    /// Tells whether nothing comes after it.
    fn is_last(self) -> bool;

    /// Tells whether it hands a message to somebody.
    fn takes_message(self) -> bool;

    /// Tells whether it runs a command.
    fn runs(self) -> bool;

    /// Returns how often it is tried if nobody says.
    fn attempts(self) -> Attempts;

    /// Returns how long it waits between two attempts if nobody says.
    fn cooldown(self) -> Duration {
        Duration::ZERO
    }
}

/// When an agent has ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleAction {
    /// It is done and ends.
    Done,
    /// It has failed and ends.
    Fail,
    /// It is told to go on.
    Nudge,
    /// A command decides whether it is done.
    Gate,
    /// It is ended and goes on with its conversation in a new process.
    Resume,
    /// A person is called.
    Escalate,
    /// It decides for itself; coop asks it once.
    Auto,
}

/// When an agent's process has ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadAction {
    /// It is done.
    Done,
    /// It has failed.
    Fail,
    /// A new process goes on with its conversation.
    Resume,
    /// A new process begins anew.
    Restart,
    /// Somebody else starts another. A person is called if none comes in time.
    Wait,
    /// A person is called.
    Escalate,
}

/// When an agent asks something and no rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptAction {
    /// A person is called.
    Escalate,
    /// Yes.
    Allow,
    /// No.
    Deny,
    /// A command decides.
    Gate,
}

/// When an agent has given up on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorAction {
    /// It is told to go on, after a while.
    Retry,
    /// It is ended and goes on with its conversation in a new process.
    Resume,
    /// A person is called.
    Escalate,
    /// It has failed and ends.
    Fail,
}

/// What its sidecar does with an agent that wants to end its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    /// It may.
    Allow,
    /// It is held until somebody decides.
    Gate,
    /// It is asked once, and decides.
    Auto,
}

impl IdleAction {
    /// Returns the stop mode that goes with it.
    pub fn stop_mode(self) -> StopMode {
        match self {
            Self::Done | Self::Fail => StopMode::Allow,
            Self::Nudge | Self::Gate | Self::Resume | Self::Escalate => StopMode::Gate,
            Self::Auto => StopMode::Auto,
        }
    }
}

/// Attempts of what costs a turn of the agent's, before a person is called.
const TURNS: Attempts = Attempts::Times(3);
/// Attempts of what costs a process.
const PROCESSES: Attempts = Attempts::Times(1);
/// How long an error is given to pass.
const BREATH: Duration = Duration::from_secs(60);
/// How long whoever starts another process may take: one that fails at its start is followed that late at most in a cluster.
const PATIENCE: Duration = Duration::from_secs(300);

impl Act for IdleAction {
    const LAST: Self = Self::Escalate;

    fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Fail => "fail",
            Self::Nudge => "nudge",
            Self::Gate => "gate",
            Self::Resume => "resume",
            Self::Escalate => "escalate",
            Self::Auto => "auto",
        }
    }

    fn is_last(self) -> bool {
        matches!(self, Self::Done | Self::Fail | Self::Escalate | Self::Auto)
    }

    fn takes_message(self) -> bool {
        matches!(self, Self::Nudge | Self::Gate | Self::Resume | Self::Escalate)
    }

    fn runs(self) -> bool {
        self == Self::Gate
    }

    fn attempts(self) -> Attempts {
        match self {
            Self::Nudge | Self::Gate => TURNS,
            Self::Resume => PROCESSES,
            Self::Done | Self::Fail | Self::Escalate | Self::Auto => Attempts::Forever,
        }
    }
}

impl Act for DeadAction {
    const LAST: Self = Self::Escalate;

    fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Fail => "fail",
            Self::Resume => "resume",
            Self::Restart => "restart",
            Self::Wait => "wait",
            Self::Escalate => "escalate",
        }
    }

    fn is_last(self) -> bool {
        matches!(self, Self::Done | Self::Fail | Self::Wait | Self::Escalate)
    }

    fn takes_message(self) -> bool {
        matches!(self, Self::Resume | Self::Restart | Self::Wait | Self::Escalate)
    }

    fn runs(self) -> bool {
        false
    }

    fn attempts(self) -> Attempts {
        match self {
            Self::Resume | Self::Restart => PROCESSES,
            Self::Done | Self::Fail | Self::Wait | Self::Escalate => Attempts::Forever,
        }
    }

    fn cooldown(self) -> Duration {
        match self {
            Self::Wait => PATIENCE,
            Self::Done | Self::Fail | Self::Resume | Self::Restart | Self::Escalate => Duration::ZERO,
        }
    }
}

impl Act for PromptAction {
    const LAST: Self = Self::Escalate;

    fn name(self) -> &'static str {
        match self {
            Self::Escalate => "escalate",
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Gate => "gate",
        }
    }

    fn is_last(self) -> bool {
        self == Self::Escalate
    }

    fn takes_message(self) -> bool {
        matches!(self, Self::Deny | Self::Gate | Self::Escalate)
    }

    fn runs(self) -> bool {
        self == Self::Gate
    }

    /// Each ask is another one, so none is an attempt at the one before.
    fn attempts(self) -> Attempts {
        Attempts::Forever
    }
}

impl Act for ErrorAction {
    const LAST: Self = Self::Escalate;

    fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Resume => "resume",
            Self::Escalate => "escalate",
            Self::Fail => "fail",
        }
    }

    fn is_last(self) -> bool {
        matches!(self, Self::Escalate | Self::Fail)
    }

    fn takes_message(self) -> bool {
        matches!(self, Self::Retry | Self::Resume | Self::Escalate)
    }

    fn runs(self) -> bool {
        false
    }

    fn attempts(self) -> Attempts {
        match self {
            Self::Retry => TURNS,
            Self::Resume => PROCESSES,
            Self::Escalate | Self::Fail => Attempts::Forever,
        }
    }

    fn cooldown(self) -> Duration {
        match self {
            Self::Retry => BREATH,
            Self::Resume | Self::Escalate | Self::Fail => Duration::ZERO,
        }
    }
}
