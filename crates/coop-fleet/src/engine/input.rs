use coop_api::{Answer, Ask, AskId, Fault, PermissionMode, Seq};
use serde::{Deserialize, Serialize};

use super::intent::IntentId;

/// Something that happened to an agent. These are kept, and a record is what they make of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Input {
    /// A process of its was started and is watched.
    Spawned {
        /// Whether it goes on with a conversation.
        resumed: bool,
    },
    /// It works.
    Working,
    /// It waits for a message.
    Idle {
        /// The last thing it said.
        last_message: Option<String>,
    },
    /// It asks something.
    Prompt {
        /// The whole of it.
        ask: Box<Ask>,
    },
    /// What it asked is answered, or no longer matters.
    AskClosed {
        /// Which ask.
        ask: AskId,
    },
    /// It gave up on an error.
    Failed {
        /// Which.
        fault: Fault,
    },
    /// Its process is gone.
    Gone {
        /// Its exit code, if it had one and that is known.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// It wanted to end its turn and may not: without a reason it is held, with one it was sent back.
    StopBlocked {
        /// What it was told.
        reason: Option<String>,
    },
    /// It may end its turn.
    StopAllowed,
    /// Somebody stopped it in its turn, and has it in hand.
    Interrupted,
    /// These of its events were no longer kept when they were asked for.
    Missed {
        /// The first.
        from: Seq,
        /// The last.
        to: Seq,
    },
    /// The oldest of what it told was removed from the store.
    Trimmed {
        /// How much, and why.
        why: String,
    },
    /// Its process lives, and cannot be reached.
    Unreachable {
        /// What was seen.
        why: String,
    },
    /// Its permission mode became known, or changed.
    PermissionMode {
        /// The mode now.
        mode: PermissionMode,
    },
    /// What its conversation has cost so far.
    Cost {
        /// In US dollars.
        usd: f64,
    },
    /// What an agent has cost that was started by it, or below it, since that was last told.
    DescendantCost {
        /// In US dollars.
        usd: f64,
    },
    /// Another agent has sent it a message. That is no person: what was counted counts on.
    Messaged {
        /// `agent` and its id.
        by: String,
    },
    /// The moment that was waited for has come.
    Due,
    /// A gate has ended.
    GateEnded {
        /// Which.
        intent: IntentId,
        /// How.
        verdict: GateVerdict,
    },
    /// An intent could not be carried out.
    IntentFailed {
        /// Which.
        intent: IntentId,
        /// Why.
        why: String,
    },
    /// A person has told the agent something; what was counted before counts no longer.
    Steered {
        /// Who.
        by: String,
        /// Whether it is a message that waits until the agent is idle.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waits: bool,
    },
    /// A person wants it to run.
    Ordered {
        /// Who.
        by: String,
    },
    /// A person took it over from a daemon that is no more, with the process it had.
    Adopted {
        /// Who.
        by: String,
    },
    /// A person wants it ended.
    Dismissed {
        /// Who.
        by: String,
        /// Whether others end it, or have, so that it is not for us to do.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        others: bool,
    },
    /// Others were to end it and have thought better of it: its process runs on.
    RunsOn {
        /// Who.
        by: String,
    },
    /// A person wants its conversation to go on in a new process.
    Revived {
        /// Who.
        by: String,
    },
    /// A person has answered what it asked. That it took the answer is told by itself.
    Decided {
        /// The answer, and which ask it is for if that was said.
        answer: Box<Answer>,
        /// Who.
        by: String,
    },
}

/// How a gate ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum GateVerdict {
    /// It exited with 0.
    Passed,
    /// It exited with something else.
    Failed {
        /// What it printed.
        output: String,
    },
    /// It took too long and was ended. That is never a yes.
    TimedOut,
    /// It could not be run, or was killed by somebody.
    Broken {
        /// Why.
        why: String,
    },
}
