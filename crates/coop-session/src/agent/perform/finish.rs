//! Telling whoever waits how it went.

use coop_api::{Answered, Error, ErrorCode, Receipt, Reply};

use super::{Failure, Performance, Purpose, Via, same_text};
use crate::agent::nudges::receipt_event;
use crate::agent::{Agent, Effect, Now};

impl Agent {
    pub(super) fn finish(
        &mut self,
        performance: Performance,
        outcome: Result<(), Failure>,
        now: &Now,
        effects: &mut Vec<Effect>,
    ) {
        let Performance { purpose, proof, proven, attempts, state_before, .. } = performance;
        let proof = proof.filter(|proof| proof.refused.is_none());
        let (confirmed_by, prompt) = proof.map_or((None, None), |proof| (Some(proof.detail), proof.prompt));
        match purpose {
            Purpose::Nudge { id, text, reply, began } => {
                self.nudges.done();
                let receipt = Receipt {
                    id,
                    delivered: outcome.is_ok(),
                    queued: false,
                    confirmed_by,
                    attempts,
                    ms: now.instant.saturating_duration_since(began).as_millis() as u64,
                    state_before,
                    reason: reason(&outcome, prompt.as_deref(), &text),
                };
                effects.push(receipt_event(&receipt));
                reply.map(|reply| reply.send(Ok(Reply::Receipt(receipt))));
            }
            Purpose::Answer { ask, reach, answer, reply } => {
                let via = Via::from(&reach);
                let told = match outcome {
                    Ok(()) => {
                        self.settle(&ask.id, &answer, via, now, effects);
                        Ok(Reply::Answered(Answered {
                            delivered: true,
                            ask: ask.id,
                            prompt_type: ask.kind,
                            via: via.as_str().to_owned(),
                            confirmed_by,
                        }))
                    }
                    Err(Failure::Gone) => {
                        let why = format!("the agent no longer waits for an answer to {}; nothing was sent", ask.id);
                        Err(Error::new(ErrorCode::NoPrompt, why))
                    }
                    Err(Failure::Rejected(Some(404))) => {
                        self.unsettled(&ask.id, "it was answered elsewhere", now, effects);
                        let why = format!("{} was answered already, or the agent moved on", ask.id);
                        Err(Error::new(ErrorCode::AlreadyAnswered, why))
                    }
                    Err(failure) => {
                        let why = match failure {
                            Failure::Unconfirmed | Failure::Gone => {
                                "was answered, and nothing shows that the agent took it".to_owned()
                            }
                            Failure::NotShown => {
                                "was not answered: the screen does not show what it should, so nothing more was typed"
                                    .to_owned()
                            }
                            Failure::Refused(why) => format!("was answered, and the agent refuses: {why}"),
                            Failure::Rejected(_) => "was answered, and the agent's server does not take it".to_owned(),
                        };
                        self.unsettled(&ask.id, "it is not to be seen any more, and was not answered", now, effects);
                        Err(Error::new(ErrorCode::Unconfirmed, format!("{} {why}; look at its state", ask.id)))
                    }
                };
                let _ = reply.send(told);
            }
            Purpose::Interrupt { reply } | Purpose::Configure { reply } => {
                let before = if proven > 0 { "; what was sent before it is done" } else { "" };
                let failed = |failure| match failure {
                    Failure::Unconfirmed | Failure::NotShown | Failure::Gone | Failure::Rejected(_) => {
                        let why = format!("it was sent, and nothing shows that the agent took it{before}");
                        Error::new(ErrorCode::Unconfirmed, why)
                    }
                    Failure::Refused(why) => Error::bad_request(format!("the agent refuses: {why}{before}")),
                };
                let _ = reply.send(outcome.map(|()| Reply::Done).map_err(failed));
            }
        }
    }
}

/// Says what was wrong with a delivery.
fn reason(outcome: &Result<(), Failure>, prompt: Option<&str>, text: &str) -> Option<String> {
    match (outcome, prompt) {
        (Err(Failure::Unconfirmed | Failure::Gone), _) => Some("unconfirmed".to_owned()),
        (Err(Failure::NotShown), _) => Some("not_shown".to_owned()),
        (Err(Failure::Rejected(_)), _) => Some("refused".to_owned()),
        (Err(Failure::Refused(_)), _) => Some("refused".to_owned()),
        (Ok(()), Some(prompt)) if !same_text(prompt, text) => {
            Some("the agent took it together with what was in its input, or changed".to_owned())
        }
        (Ok(()), _) => None,
    }
}
