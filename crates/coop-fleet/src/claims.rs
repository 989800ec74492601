//! Who has a conversation open. Two processes that write into one conversation lose each other's work, so whoever goes on
//! with one takes it first, and who comes second is told who has it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use coop_api::AgentId;

/// All conversations that somebody has open, as far as this is known here.
#[derive(Clone, Debug, Default)]
pub struct Claims(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    by_claim: BTreeMap<u64, (Option<String>, Holder)>,
}

/// Somebody who has a conversation open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A person, in a process of their own.
    Person {
        /// The program.
        program: String,
        /// Its process.
        pid: u32,
        /// When it began.
        since: SystemTime,
    },
    /// An agent, which is being started with it.
    Agent(AgentId),
}

/// That somebody else has a conversation open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the conversation {conversation} is open in {}", described(.holder))]
pub struct Held {
    /// Which.
    pub conversation: String,
    /// Who.
    pub holder: Holder,
}

/// A conversation that is held as long as this lives.
#[derive(Debug)]
pub struct Claim {
    claims: Claims,
    number: u64,
}

impl Claims {
    /// Takes a conversation that nobody has.
    pub fn take(&self, conversation: &str, holder: Holder) -> Result<Claim, Held> {
        let mut taken = self.lock();
        match taken.holder(conversation) {
            Some(other) => Err(Held { conversation: conversation.to_owned(), holder: other.clone() }),
            None => Ok(self.add(&mut taken, Some(conversation.to_owned()), holder)),
        }
    }

    /// Notes what somebody has open, whoever else has it: they do. It may not be known yet.
    pub fn note(&self, conversation: Option<String>, holder: Holder) -> Claim {
        self.add(&mut self.lock(), conversation, holder)
    }

    /// Tells whether nobody has a conversation.
    pub fn check(&self, conversation: &str) -> Result<(), Held> {
        let held = |holder: &Holder| Held { conversation: conversation.to_owned(), holder: holder.clone() };
        self.lock().holder(conversation).map_or(Ok(()), |holder| Err(held(holder)))
    }

    fn add(&self, taken: &mut Taken, conversation: Option<String>, holder: Holder) -> Claim {
        taken.next += 1;
        taken.by_claim.insert(taken.next, (conversation, holder));
        Claim { claims: self.clone(), number: taken.next }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // It is whole between any two statements that hold the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn holder(&self, conversation: &str) -> Option<&Holder> {
        let has_it = |(held, _): &&(Option<String>, Holder)| held.as_deref() == Some(conversation);
        self.by_claim.values().find(has_it).map(|(_, holder)| holder)
    }
}

impl Claim {
    /// Notes that its holder has gone to another conversation.
    pub fn moved(&self, conversation: &str) {
        if let Some((held, _)) = self.claims.lock().by_claim.get_mut(&self.number) {
            *held = Some(conversation.to_owned());
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.lock().by_claim.remove(&self.number);
    }
}

fn described(holder: &Holder) -> String {
    match holder {
        Holder::Person { program, pid, since } => {
            // A clock that was set back tells nothing.
            let age = age(since.elapsed().unwrap_or_default());
            format!("a person's own {program} (process {pid}, for {age})")
        }
        Holder::Agent(agent) => format!("the agent {agent}"),
    }
}

fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(pid: u32, age: Duration) -> Holder {
        Holder::Person { program: "claude".to_owned(), pid, since: SystemTime::now() - age }
    }

    #[test]
    fn a_conversation_is_one_holders_until_that_goes() {
        let claims = Claims::default();
        let first = claims.take("x", person(7, Duration::from_secs(200))).expect("nobody has it");
        let held = claims.take("x", Holder::Agent(AgentId("a".to_owned()))).expect_err("it is taken");
        assert_eq!(held.to_string(), "the conversation x is open in a person's own claude (process 7, for 3 min)");
        assert_eq!(claims.check("x"), Err(held));
        let other = claims.take("y", person(8, Duration::ZERO)).expect("another");
        first.moved("z");
        claims.check("x").expect("it has gone on");
        claims.check("z").expect_err("to there");
        drop((first, other));
        for conversation in ["x", "y", "z"] {
            claims.check(conversation).expect("nobody has it");
        }
    }

    #[test]
    fn what_is_found_is_noted_also_if_another_has_it() {
        let claims = Claims::default();
        let one = claims.note(Some("x".to_owned()), person(7, Duration::ZERO));
        let two = claims.note(Some("x".to_owned()), person(8, Duration::ZERO));
        let unknown = claims.note(None, person(9, Duration::ZERO));
        drop(one);
        claims.check("x").expect_err("the second has it");
        drop(two);
        claims.check("x").expect("free");
        unknown.moved("x");
        claims.check("x").expect_err("it is known now");
    }

    #[test]
    fn ages_are_short() {
        let told: Vec<_> = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(|s| age(Duration::from_secs(s))).to_vec();
        assert_eq!(told, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
    }
}
