//! The processes that an agent has had.

use coop_api::{AgentId, Event, EventBody, Turn};

use super::db::{Row, Trouble, parse};
use super::{Store, StoreError};
use crate::engine::{Input, Timestamp};

/// One process of an agent, from its start to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Which of the agent's it is, from 1.
    pub number: u32,
    /// Whether it went on with a conversation.
    pub resumed: bool,
    /// When it was started.
    pub began: Timestamp,
    /// When it ended; nothing while it runs.
    pub ended: Option<Timestamp>,
    /// Who ended it, if a person did.
    pub dismissed: Option<String>,
    /// How it ended, code and signal, if that was told.
    pub exit: Option<(Option<i32>, Option<i32>)>,
    /// Turns it has begun.
    pub turns: u64,
    /// What it was told first.
    pub prompt: Option<String>,
    /// What the conversation had cost by then, as far as that is known.
    pub cost_usd: Option<f64>,
    /// The numbers of what happened in it: the first, and the first that no longer did.
    pub events: (u64, Option<u64>),
}

impl Store {
    /// Returns the processes that an agent has had, the first one first.
    pub fn runs(&self, agent: &AgentId) -> Result<Vec<Run>, StoreError> {
        // The patterns only spare reading the rest; what they find is looked at.
        let sql = "SELECT id, at, input, event FROM events WHERE agent = ?1 AND defined IS NULL AND (input LIKE '%\"spawned\"%' \
                   OR input LIKE '%\"gone\"%' OR input LIKE '%\"dismissed\"%' OR input LIKE '%\"cost\"%' \
                   OR input LIKE '%\"runs_on\"%' \
                   OR event LIKE '%\"began\"%') ORDER BY id";
        self.read(|db| {
            let mut runs = Vec::new();
            for mut row in db.rows(sql, &[(&agent.0).into()])? {
                add(&mut runs, &mut row)?;
            }
            Ok(runs)
        })
    }
}

fn add(runs: &mut Vec<Run>, row: &mut Row) -> Result<(), Trouble> {
    let id = row.number(0)?.unsigned_abs();
    let at = Timestamp(row.number(1)?.unsigned_abs());
    let input: Option<Input> = row.maybe_text(2)?.map(|text| parse(&text)).transpose()?;
    let event: Option<Event> = row.maybe_text(3)?.map(|text| parse(&text)).transpose()?;
    if let Some(Input::Spawned { resumed }) = input {
        // One whose end nobody told of has ended by now.
        end(runs, at, None, id);
        let number = u32::try_from(runs.len()).unwrap_or(u32::MAX).saturating_add(1);
        let cost_usd = runs.last().and_then(|before| before.cost_usd).filter(|_| resumed);
        runs.push(Run {
            number,
            resumed,
            began: at,
            ended: None,
            dismissed: None,
            exit: None,
            turns: 0,
            prompt: None,
            cost_usd,
            events: (id, None),
        });
        return Ok(());
    }
    if let Some(Input::Gone { code, signal }) = input {
        end(runs, at, Some((code, signal)), id + 1);
    }
    let Some(run) = runs.last_mut() else { return Ok(()) };
    match input {
        Some(Input::Cost { usd }) => run.cost_usd = Some(usd),
        // One that has ended already was not ended by that.
        Some(Input::Dismissed { by, .. }) if run.ended.is_none() => run.dismissed = Some(by),
        Some(Input::RunsOn { .. }) if run.ended.is_none() => run.dismissed = None,
        _ => {}
    }
    if let Some(EventBody::Turn(Turn::Began { prompt })) = event.map(|event| event.body) {
        run.turns += 1;
        run.prompt = run.prompt.take().or(prompt);
    }
    Ok(())
}

fn end(runs: &mut [Run], at: Timestamp, exit: Option<(Option<i32>, Option<i32>)>, after: u64) {
    if let Some(run) = runs.last_mut()
        && run.ended.is_none()
    {
        run.ended = Some(at);
        run.exit = exit;
        run.events.1 = Some(after);
    }
}
