//! How far a run may go.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{Price, Usage};

/// How far a run may go. The run ends before the call that would pass a limit, not after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Calls of the model.
    pub turns: Option<u32>,
    /// Tokens, read and written, of all calls together.
    pub tokens: Option<u64>,
    /// US dollars. The price of the model must be known.
    pub cost: Option<f64>,
    /// Time for everything.
    pub time: Option<Duration>,
    /// Time for each tool.
    pub tool_time: Duration,
    /// Bytes of a tool's output that the model is shown; the middle of what is longer is left out.
    pub tool_output: usize,
    /// Turns in a row in which every tool failed, after which the run fails.
    pub failures: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turns: None,
            tokens: None,
            cost: None,
            time: None,
            tool_time: Duration::from_secs(600),
            tool_output: 128 * 1024,
            // A model that got everything wrong so often will not get it right.
            failures: Some(10),
        }
    }
}

/// A limit that ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Calls of the model.
    Turns,
    /// Tokens.
    Tokens,
    /// Money.
    Cost,
    /// Time.
    Time,
}

impl Limit {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "max_turns",
            Self::Tokens => "max_total_tokens",
            Self::Cost => "max_cost",
            Self::Time => "max_time",
        }
    }
}

/// What the next call may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Room {
    /// The most tokens it may write.
    pub(super) output: u32,
    /// The limit that makes this less than was wanted.
    pub(super) because: Option<Limit>,
}

/// Works out whether a call can be made within the limits, and how much it may then write. `input` is what it will read,
/// `wanted` the least that is worth the call and the most that is of use.
pub(super) fn room(
    limits: &Limits,
    spent: &Usage,
    cost: f64,
    price: Option<Price>,
    input: u64,
    wanted: RangeInclusive<u32>,
) -> Result<Room, Limit> {
    let (least, most_wanted) = wanted.into_inner();
    let mut room = Room { output: most_wanted, because: None };
    if let Some(most) = limits.tokens {
        room.shrink(most.saturating_sub(spent.total()).saturating_sub(input), least, Limit::Tokens)?;
    }
    if let (Some(most), Some(price)) = (limits.cost, price) {
        let left = most - cost - input as f64 * price.dearest_input() / 1e6;
        let tokens = if price.output > 0.0 { left * 1e6 / price.output } else { f64::from(most_wanted) };
        // A negative number becomes 0.
        room.shrink(if left > 0.0 { tokens as u64 } else { 0 }, least, Limit::Cost)?;
    }
    Ok(room)
}

impl Room {
    fn shrink(&mut self, left: u64, least: u32, limit: Limit) -> Result<(), Limit> {
        if left < u64::from(self.output) {
            self.output = u32::try_from(left).unwrap_or(u32::MAX);
            self.because = Some(limit);
            if self.output < least {
                return Err(limit);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(limits: Limits, spent: u64, cost: f64, input: u64) -> Result<(u32, Option<Limit>), Limit> {
        let spent = Usage { input: spent, ..Usage::default() };
        // 1.25 dollars for a million read, 10 written.
        let price = Some(Price::new(1.0, 10.0));
        room(&limits, &spent, cost, price, input, 256..=4096).map(|room| (room.output, room.because))
    }

    #[test]
    fn without_limits_all_is_free() {
        assert_eq!(ask(Limits::default(), u64::MAX, 1e9, u64::MAX), Ok((4096, None)));
    }

    #[test]
    fn tokens_shrink_the_answer_and_then_forbid_the_call() {
        let limits = Limits { tokens: Some(10_000), ..Limits::default() };
        assert_eq!(ask(limits.clone(), 1000, 0.0, 1000), Ok((4096, None)));
        assert_eq!(ask(limits.clone(), 5000, 0.0, 4000), Ok((1000, Some(Limit::Tokens))));
        assert_eq!(ask(limits.clone(), 5000, 0.0, 4900), Err(Limit::Tokens));
        assert_eq!(ask(limits, 5000, 0.0, 6000), Err(Limit::Tokens));
    }

    #[test]
    fn money_counts_what_is_read_at_its_dearest() {
        let limits = Limits { cost: Some(0.10), ..Limits::default() };
        assert_eq!(ask(limits.clone(), 0, 0.0, 1000), Ok((4096, None)));
        // 0.02 left, 0.01 of it for reading: 1000 tokens to write.
        assert_eq!(ask(limits.clone(), 0, 0.08, 8000), Ok((1000, Some(Limit::Cost))));
        assert_eq!(ask(limits.clone(), 0, 0.099, 8000), Err(Limit::Cost));
        assert_eq!(ask(limits, 0, 5.0, 1), Err(Limit::Cost));
    }
}
