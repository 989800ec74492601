//! What the agent asks as decisions, and what humans decide as answers. The first one wins.

mod answers;
mod told;

use coop_api::{Answer, Ask, AskId, AskKind, QuestionAnswer};

use self::answers::{answered, choice, permission, plain};
use self::told::{decisions, id_of, questions};
use super::types::{Decision, Resolution};

pub(crate) use self::answers::allowing;

/// The choices for a plan, and for a question to be answered in own words.
const APPROVE: &str = "approve";
const REJECT: &str = "reject";
const ANSWER: &str = "answer";

/// The decisions that are open.
#[derive(Debug, Default)]
pub(crate) struct Decisions(Vec<Open>);

#[derive(Debug)]
struct Open {
    ask: Ask,
    parts: Vec<Part>,
    /// Whether an answer is on its way.
    is_claimed: bool,
}

/// One decision; an ask with several questions has one for each.
#[derive(Debug)]
struct Part {
    id: String,
    answer: Option<QuestionAnswer>,
}

/// What is to be done about a resolution.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// It counts once the other questions are answered too.
    Noted,
    Answer(Box<Given>),
}

/// An answer for the agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    pub(crate) ask: AskId,
    pub(crate) answer: Answer,
    /// What to say to an agent that cannot do the first.
    pub(crate) instead: Option<Answer>,
    /// Whether it lets the agent use the tool as it wanted to, or another way.
    pub(crate) allows: bool,
    /// The tool to allow from now on.
    pub(crate) always: Option<String>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("No pending decision with id {0}")]
    NotPending(String),
    #[error("{0}")]
    Invalid(String),
}

impl Decisions {
    /// Takes in what the agent asks, and returns what a human is to decide.
    pub(crate) fn open(&mut self, ask: &Ask) -> Vec<Decision> {
        let decisions = decisions(ask);
        let parts = decisions.iter().map(|decision| Part { id: id_of(decision).to_owned(), answer: None }).collect();
        self.0.push(Open { ask: ask.clone(), parts, is_claimed: false });
        decisions
    }

    /// Forgets an ask that was answered or is gone.
    pub(crate) fn close(&mut self, ask: &AskId) -> Option<Ask> {
        let at = self.0.iter().position(|open| open.ask.id == *ask)?;
        Some(self.0.remove(at).ask)
    }

    pub(crate) fn pending(&self) -> Vec<String> {
        let parts = self.0.iter().flat_map(|open| &open.parts);
        parts.filter(|part| part.answer.is_none()).map(|part| part.id.clone()).collect()
    }

    /// Takes in what a human decided. An answer that is to be given is claimed until it is [closed](Self::close) or
    /// [released](Self::release).
    pub(crate) fn resolve(&mut self, id: &str, resolution: &Resolution) -> Result<Step, Refused> {
        let not_pending = || Refused::NotPending(id.to_owned());
        let has_it = |open: &&mut Open| open.parts.iter().any(|part| part.id == id && part.answer.is_none());
        let open = self.0.iter_mut().find(has_it).filter(|open| !open.is_claimed).ok_or_else(not_pending)?;
        let at = open.parts.iter().position(|part| part.id == id).ok_or_else(not_pending)?;
        let given = match (open.ask.kind, resolution) {
            (
                AskKind::Permission,
                Resolution::ToolApproval { action, modified_args, always_approve, rationale, .. },
            ) => permission(&open.ask, *action, modified_args.as_ref(), *always_approve, rationale.as_deref())?,
            (AskKind::Permission, Resolution::Option { .. }) => {
                return Err(Refused::Invalid("this decision is a tool_approval, not an option".to_owned()));
            }
            (_, Resolution::ToolApproval { .. }) => {
                return Err(Refused::Invalid("this decision is an option, not a tool_approval".to_owned()));
            }
            (AskKind::Question, Resolution::Option { chosen_option_id, rationale, .. }) => {
                let questions = questions(&open.ask);
                let Some(question) = questions.get(at) else { return Err(not_pending()) };
                open.parts[at].answer = Some(answered(question, chosen_option_id, rationale)?);
                let answers: Option<Vec<_>> = open.parts.iter().map(|part| part.answer.clone()).collect();
                let Some(answers) = answers else { return Ok(Step::Noted) };
                Given { answer: Answer { answers, ..Answer::default() }, ..plain(&open.ask, true) }
            }
            (AskKind::Plan | AskKind::Setup, Resolution::Option { chosen_option_id, rationale, .. }) => {
                choice(&open.ask, chosen_option_id, rationale)?
            }
        };
        open.is_claimed = true;
        let answer = Answer { ask: Some(given.ask.clone()), ..given.answer };
        let instead = given.instead.map(|instead| Answer { ask: Some(given.ask.clone()), ..instead });
        Ok(Step::Answer(Box::new(Given { answer, instead, ..given })))
    }

    /// Opens a decision again whose answer did not reach the agent.
    pub(crate) fn release(&mut self, ask: &AskId) {
        for open in self.0.iter_mut().filter(|open| open.ask.id == *ask) {
            open.is_claimed = false;
            open.parts.iter_mut().for_each(|part| part.answer = None);
        }
    }
}

#[cfg(test)]
mod tests;
