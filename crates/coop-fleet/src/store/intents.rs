//! What is to be done, once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coop_api::{AgentId, Answer, Ask, AskChange, AskId, Event, EventBody, Shown};
use serde::Serialize;

use super::db::{Db, Row, Trouble, parse};
use super::record::record;
use super::{Store, StoreError};
use crate::Fact;
use crate::engine::{By, Effect, Input, Intent, IntentId, Timestamp};

/// An answer that was given, by whom and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decided {
    /// When.
    pub at: Timestamp,
    /// To which agent.
    pub agent: AgentId,
    /// To which ask; nobody may have said, and then it was the open one.
    pub ask: Option<AskId>,
    /// Yes or no, if it was one of them.
    pub accept: Option<bool>,
    /// By whom.
    pub by: By,
    /// Why, or what was said with it.
    pub why: Option<String>,
    /// What the person was shown, by the word of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    /// What became of it: `pending`, `claimed`, `done`, `failed`, `overtaken` or `unsure`.
    pub state: String,
}

impl Store {
    /// Returns what is to be done and nobody has begun, oldest first.
    pub fn pending(&self) -> Result<Vec<Intent>, StoreError> {
        self.in_state("SELECT intent FROM intents WHERE state = 'pending' ORDER BY cause, rowid")
    }

    fn in_state(&self, sql: &str) -> Result<Vec<Intent>, StoreError> {
        self.read(|db| db.texts(sql, &[])?.iter().map(|text| parse(text)).collect())
    }

    /// Takes an intent to do it. Only the first who asks gets it, also across restarts.
    pub fn claim(&mut self, id: &IntentId, now: Timestamp) -> Result<bool, StoreError> {
        let sql = "UPDATE intents SET state = 'claimed', changed = ?2 WHERE id = ?1 AND state = 'pending'";
        self.within(|db| Ok(db.change(sql, &[(&id.0).into(), now.0.into()])? > 0))
    }

    /// Says that it was done.
    pub fn finish(&mut self, id: &IntentId, now: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE intents SET state = 'done', changed = ?2 WHERE id = ?1 AND state = 'claimed'";
        self.within(|db| db.change(sql, &[(&id.0).into(), now.0.into()]).map(drop))
    }

    /// Gives back an intent that was refused, so that it is still to be done.
    pub fn release(&mut self, id: &IntentId, now: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE intents SET state = 'pending', changed = ?2 WHERE id = ?1 AND state = 'claimed'";
        self.within(|db| db.change(sql, &[(&id.0).into(), now.0.into()]).map(drop))
    }

    /// Says that there is nothing left to do: what it was about has changed meanwhile.
    pub fn overtake(&mut self, id: &IntentId, why: &str, now: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE intents SET state = 'overtaken', note = ?2, changed = ?3 \
                   WHERE id = ?1 AND state IN ('pending', 'claimed')";
        self.within(|db| db.change(sql, &[(&id.0).into(), why.into(), now.0.into()]).map(drop))
    }

    /// Says that it could not be done. Returns what is to be done about that.
    pub fn fail(&mut self, id: &IntentId, why: &str, now: Timestamp) -> Result<Vec<Intent>, StoreError> {
        self.within(|db| close(db, id, "failed", why, now))
    }

    /// Sees to what was begun when we were killed. What can be done again is to be done again; of the rest nobody knows
    /// whether it was done, so a person is called.
    pub fn recover(&mut self, now: Timestamp) -> Result<Vec<Intent>, StoreError> {
        let claimed = self.in_state("SELECT intent FROM intents WHERE state = 'claimed' ORDER BY cause, rowid")?;
        self.within(|db| {
            let mut intents = Vec::new();
            for Intent { id, effect, .. } in &claimed {
                if effect.is_repeatable() {
                    let sql = "UPDATE intents SET state = 'pending', changed = ?2 WHERE id = ?1";
                    db.change(sql, &[(&id.0).into(), now.0.into()])?;
                } else {
                    let why = "coop was killed while it was being done; it may have been done or not";
                    intents.extend(close(db, id, "unsure", why, now)?);
                }
            }
            Ok(intents)
        })
    }

    /// Returns what agents ask, oldest first.
    pub fn open_asks(&self) -> Result<Vec<(AgentId, Ask)>, StoreError> {
        let sql = "SELECT agent, body FROM asks WHERE closed IS NULL ORDER BY opened, rowid";
        let ask = |row: &mut Row| Ok((AgentId(row.text(0)?), parse(&row.text(1)?)?));
        self.read(|db| db.rows(sql, &[])?.iter_mut().map(ask).collect())
    }

    /// Returns the number of asks that an agent has opened, in all of its runs.
    pub fn count_asks(&self, agent: &AgentId) -> Result<u64, StoreError> {
        self.read(|db| {
            let found = db.row("SELECT count(*) FROM asks WHERE agent = ?1", &[(&agent.0).into()])?;
            found.map_or(Ok(0), |mut row| Ok(row.number(0)?.unsigned_abs()))
        })
    }

    /// Returns the answers that were decided, by rules, by gates, by people and at a sidecar's own API, in the order of what led
    /// to them; all, or so many at most, the last ones.
    pub fn audit(&self, most: Option<u32>) -> Result<Vec<Decided>, StoreError> {
        // The patterns only spare reading the rest; what they find is looked at.
        let sql = "SELECT cause, changed, agent, state, intent AS body, 1 FROM intents \
                   WHERE intent LIKE '%\"effect\":\"answer\"%' \
                   UNION ALL SELECT id, at, agent, 'done', input, 0 FROM events WHERE input LIKE '{\"what\":\"decided\"%' \
                   UNION ALL SELECT id, at, agent, 'done', event, 2 FROM events WHERE event LIKE '%\"what\":\"answered\"%' \
                   ORDER BY 1";
        let found: Vec<_> = self.read(|db| db.rows(sql, &[])?.iter_mut().map(decided).collect::<Result<_, _>>())?;
        let mut found = without_reports(found.into_iter().flatten().collect());
        let last = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        Ok(found.split_off(found.len().saturating_sub(last)))
    }
}

/// Takes out what sidecars report of answers that the daemon itself passed on: each such decision has one report. The reports
/// that are left are of answers given at the sidecar's own API.
fn without_reports(mut all: Vec<Decided>) -> Vec<Decided> {
    let mut reports = BTreeMap::<_, VecDeque<usize>>::new();
    for (at, report) in all.iter().enumerate().filter(|(_, one)| one.by == By::Sidecar) {
        reports.entry((&report.agent, report.ask.as_ref())).or_default().push_back(at);
    }
    let passed_on = |one: &&Decided| one.by != By::Sidecar && matches!(&*one.state, "claimed" | "done" | "unsure");
    // Those with an id first: one without may be about any ask of its agent.
    let (named, unnamed): (Vec<_>, Vec<_>) = all.iter().filter(passed_on).partition(|one| one.ask.is_some());
    let mut known = BTreeSet::new();
    for Decided { agent, ask, .. } in named {
        known.extend(reports.get_mut(&(agent, ask.as_ref())).and_then(VecDeque::pop_front));
    }
    for decision in unnamed {
        let of_agent = reports.iter_mut().filter(|((agent, _), _)| *agent == &decision.agent);
        known.extend(of_agent.filter_map(|(_, reports)| reports.pop_front()).next());
    }
    let mut at = 0..;
    all.retain(|_| at.next().is_none_or(|at| !known.contains(&at)));
    all
}

/// Reads a row of what `kind` says: 0 an input of a person's answer, 1 an intent, 2 a sidecar's report of an answer.
fn decided(row: &mut Row) -> Result<Option<Decided>, Trouble> {
    let at = Timestamp(row.number(1)?.unsigned_abs());
    let (agent, state, body, kind) = (AgentId(row.text(2)?), row.text(3)?, row.text(4)?, row.number(5)?);
    if kind == 2 {
        let EventBody::Ask(AskChange::Answered { ask, answer, .. }) = parse::<Event>(&body)?.body else {
            return Ok(None);
        };
        let accept = parse::<Answer>(&answer).ok().and_then(|answer| answer.accept);
        let (ask, why) = (Some(ask), Some(answer));
        return Ok(Some(Decided { at, agent, ask, accept, by: By::Sidecar, why, shown: None, state }));
    }
    if kind == 1 {
        return Ok(match parse::<Intent>(&body)?.effect {
            Effect::Answer { ask, allow, by, why, .. } => {
                Some(Decided { at, agent, ask: Some(ask), accept: Some(allow), by, why: Some(why), shown: None, state })
            }
            Effect::Spawn
            | Effect::Send { .. }
            | Effect::ResolveStop
            | Effect::Gate { .. }
            | Effect::Resume
            | Effect::Restart
            | Effect::Escalate { .. }
            | Effect::Finish { .. } => None,
        });
    }
    let Input::Decided { answer, by: name } = parse(&body)? else { return Ok(None) };
    let Answer { ask, accept, text: why, shown, .. } = *answer;
    Ok(Some(Decided { at, agent, ask, accept, by: By::Person { name }, why, shown, state }))
}

fn close(db: &Db, id: &IntentId, state: &str, why: &str, now: Timestamp) -> Result<Vec<Intent>, Trouble> {
    let sql =
        "UPDATE intents SET state = ?2, note = ?3, changed = ?4 WHERE id = ?1 AND state = 'claimed' RETURNING agent";
    let closed = db.row(sql, &[(&id.0).into(), state.into(), why.into(), now.0.into()])?;
    let Some(mut closed) = closed else { return Ok(Vec::new()) };
    let input = Input::IntentFailed { intent: id.clone(), why: why.to_owned() };
    record(db, &Fact { agent: AgentId(closed.text(0)?), told: None, input: Some(input), event: None }, now)
}
