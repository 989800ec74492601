use std::time::Duration;

use super::Timestamp;

/// How far an agent may go before it is not sent on by itself any more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Turns.
    pub turns: Option<u64>,
    /// Time since it was first started.
    pub time: Option<Duration>,
    /// US dollars, as far as prices are known, for the agent and all that were started by it or below it.
    pub cost_usd: Option<f64>,
}

impl Limits {
    /// Returns which limit is reached, in words.
    pub(crate) fn reached(&self, turns: u64, since: Timestamp, now: Timestamp, cost: f64) -> Option<String> {
        if let Some(most) = self.turns.filter(|most| turns >= *most) {
            return Some(format!("it has had {turns} turns, of {most} at most"));
        }
        if let Some(most) = self.time.filter(|most| now >= since.plus(*most)) {
            return Some(format!("its {} are over", humantime::format_duration(most)));
        }
        let most = self.cost_usd.filter(|most| cost >= *most)?;
        Some(format!("it has cost ${cost:.2}, of ${most:.2} at most"))
    }
}
