//! What the agent's requests to its model used. A request is told often; it counts once.

use std::collections::HashMap;

use coop_api::{Usage, UsageReport};

#[derive(Debug, Default)]
pub(super) struct UsageBook {
    /// Each reply's usage, and whether it belongs to the turn that is under way.
    replies: HashMap<String, (Usage, u64)>,
    turn: u64,
}

impl UsageBook {
    pub(super) fn begin_turn(&mut self) {
        self.turn += 1;
    }

    /// Counts a request, and tells whether that changed anything. What is told later of the same one is right.
    pub(super) fn add(&mut self, id: &str, usage: Usage) -> bool {
        let turn = self.replies.get(id).map_or(self.turn, |(_, turn)| *turn);
        self.replies.insert(id.to_owned(), (usage, turn)) != Some((usage, turn))
    }

    pub(super) fn report(&self) -> UsageReport {
        let mut report = UsageReport { turn: Usage::none(), total: Usage::none(), requests: self.replies.len() as u64 };
        for (usage, turn) in self.replies.values() {
            report.total.add(usage);
            if *turn == self.turn {
                report.turn.add(usage);
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_once_and_in_its_turn() {
        let used = |output_tokens| Usage { output_tokens, cost_usd: Some(1.0), ..Usage::default() };
        let mut book = UsageBook::default();
        book.begin_turn();
        assert!(book.add("a", used(1)));
        assert!(book.add("a", used(5)));
        assert!(!book.add("a", used(5)));
        book.begin_turn();
        book.add("b", used(7));
        book.add("a", used(5));
        let report = book.report();
        assert_eq!((report.turn.output_tokens, report.total.output_tokens, report.requests), (7, 12, 2));
        assert_eq!(report.total.cost_usd, Some(2.0));
    }
}
