use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Names one ask of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct AskId(pub String);

impl fmt::Display for AskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Something the agent waits on a human for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ask {
    /// Its name.
    pub id: AskId,
    /// Its kind.
    pub kind: AskKind,
    /// The tool it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What the tool is to be called with, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The heart of it in one line: a command, a path, a question. It ends with how much it leaves out: `… (+3 lines)`.
    pub preview: String,
    /// The questions, if it asks some; each is to be answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// What can be chosen, in the agent's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<AskOption>,
    /// When it was opened, RFC 3339.
    pub opened: String,
    /// How it can be answered.
    pub channel: AskChannel,
    /// What the screen showed of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub screen_lines: Vec<String>,
}

/// Kinds of asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// May a tool be used?
    Permission,
    /// Is the plan right?
    Plan,
    /// One or more questions.
    Question,
    /// A dialog before the agent can begin.
    Setup,
}

impl AskKind {
    /// Returns the kind's name on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::Plan => "plan",
            Self::Question => "question",
            Self::Setup => "setup",
        }
    }
}

/// How an answer reaches the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskChannel {
    /// As data, by the agent's own protocol or a hook it waits on.
    Structured,
    /// By keys for options that are on the screen.
    Keys,
}

/// One of several things to choose from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskOption {
    /// Its name within the ask.
    pub id: String,
    /// What the agent calls it.
    pub label: String,
    /// What more the agent says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What choosing it does.
    pub kind: OptionKind,
}

/// What choosing an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OptionKind {
    /// Allows this once.
    AllowOnce,
    /// Allows this and what is like it.
    AllowAlways,
    /// Refuses.
    Reject,
    /// Answers a question.
    Choice,
}

/// A question with its options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The question.
    pub question: String,
    /// A word or two for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// What can be chosen.
    pub options: Vec<AskOption>,
    /// Whether more than one can be chosen.
    pub multi_select: bool,
}

/// An answer to what the agent asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// Which ask it is for; the open one without it.
    pub ask: Option<AskId>,
    /// Accepts or rejects a permission, a plan or a set-up dialog.
    pub accept: Option<bool>,
    /// With `accept: true`: also allows what is like it from now on.
    pub always: bool,
    /// Picks an option, counted from 1.
    pub option: Option<u32>,
    /// Picks several options of a question that allows it.
    pub options: Vec<u32>,
    /// Free text, or the feedback of a rejection.
    pub text: Option<String>,
    /// One answer for each of several questions, in their order.
    pub answers: Vec<QuestionAnswer>,
    /// What the tool is to be called with instead.
    pub input: Option<Value>,
    /// Keys by name, such as `Down` and `Enter`, for a screen whose options coop does not know. They stand alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// What the person was shown of the ask; the daemon records it, and decides nothing by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
}

/// How much of an ask a client has shown to the person that answers it, by the client's own word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// `cli`, `page`, or the client's own name.
    pub surface: String,
    /// How many characters of the ask were on the screen.
    pub characters: u64,
    /// Whether that was all of it.
    pub whole: bool,
}

impl Answer {
    /// Whether it only says no. That approves nothing, so it need not name its ask.
    pub fn is_denial(&self) -> bool {
        self.accept == Some(false) && self.keys.is_empty()
    }

    /// Says what is wrong with an answer, whatever agent it is for: a part that would be left aside could be the one that
    /// mattered.
    pub fn check(&self, kind: AskKind) -> Result<(), &'static str> {
        let picks = self.option.is_some() || !self.options.is_empty() || !self.answers.is_empty();
        let has_others = picks || self.accept.is_some() || self.text.is_some() || self.input.is_some();
        if !self.keys.is_empty() && has_others {
            return Err("\"keys\" stand alone; give either keys or another answer");
        }
        if self.input.as_ref().is_some_and(|input| !input.is_object()) {
            return Err("\"input\" is not an object; give all of what the tool is called with");
        }
        if self.input.is_some() && self.accept == Some(false) {
            return Err("\"input\" says what to do, \"accept\": false not to do it; give one of them");
        }
        if self.always && self.accept != Some(true) {
            return Err("\"always\" goes with \"accept\": true");
        }
        match kind {
            AskKind::Question if self.accept == Some(false) && picks => {
                Err("\"accept\": false declines to answer; give that or an answer")
            }
            AskKind::Permission | AskKind::Plan | AskKind::Setup
                if self.accept == Some(true) && self.text.is_some() =>
            {
                Err("a yes carries no \"text\"; answer without it, then send it as a message")
            }
            AskKind::Question | AskKind::Permission | AskKind::Plan | AskKind::Setup => Ok(()),
        }
    }
}

/// The answer to one of several questions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QuestionAnswer {
    /// Picks an option, counted from 1.
    pub option: Option<u32>,
    /// Picks several.
    pub options: Vec<u32>,
    /// Answers in own words.
    pub text: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_no_part_that_would_be_left_aside() {
        use AskKind::{Permission, Plan, Question};
        for (kind, answer, is_good) in [
            (Permission, r#"{"accept":true}"#, true),
            (Permission, r#"{"accept":true,"always":true}"#, true),
            (Permission, r#"{"accept":false,"text":"no"}"#, true),
            (Permission, r#"{"accept":true,"input":{"command":"ls"}}"#, true),
            (Permission, r#"{"accept":true,"input":"ls"}"#, false),
            (Permission, r#"{"accept":true,"input":["ls"]}"#, false),
            (Permission, r#"{"accept":false,"input":{"command":"ls"}}"#, false),
            (Permission, r#"{"accept":false,"always":true}"#, false),
            (Permission, r#"{"option":1,"always":true}"#, false),
            (Permission, r#"{"accept":true,"text":"but only once"}"#, false),
            (Plan, r#"{"text":"smaller steps"}"#, true),
            (Plan, r#"{"accept":true,"text":"smaller steps"}"#, false),
            (Question, r#"{"option":1}"#, true),
            (Question, r#"{"accept":false,"text":"later"}"#, true),
            (Question, r#"{"accept":false,"option":1}"#, false),
            (AskKind::Setup, r#"{"keys":["Enter"]}"#, true),
            (AskKind::Setup, r#"{"keys":["Enter"],"accept":false}"#, false),
        ] {
            let parsed: Answer = serde_json::from_str(answer).expect("an answer");
            assert_eq!(parsed.check(kind).is_ok(), is_good, "{kind:?} {answer}");
        }
    }
}
