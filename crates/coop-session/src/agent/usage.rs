//! What the agent's requests to its model used. A request is told often; it counts once, and in its turn.

use std::collections::{HashMap, VecDeque};

use coop_api::{Usage, UsageReport};

/// How many requests are known one by one. What is told again, or better, is one of the newest.
const KEPT: usize = 1024;

#[derive(Debug)]
pub(super) struct UsageBook {
    /// Each reply's usage, and how many turns were over when it was made; nothing for what an earlier process did.
    replies: HashMap<String, (Usage, Option<u64>)>,
    /// Their names, oldest first.
    order: VecDeque<String>,
    /// What those used that are no longer known one by one: all of them, and those of this turn and the last.
    older: Usage,
    older_count: u64,
    older_of_turns: Vec<(u64, Usage)>,
    /// How many turns are over.
    ended: u64,
    /// When the last one was, in milliseconds since 1970.
    ended_at: u64,
    in_turn: bool,
}

impl Default for UsageBook {
    fn default() -> Self {
        Self {
            replies: HashMap::new(),
            order: VecDeque::new(),
            older: Usage::none(),
            older_count: 0,
            older_of_turns: Vec::new(),
            ended: 0,
            ended_at: 0,
            in_turn: false,
        }
    }
}

impl UsageBook {
    pub(super) fn begin_turn(&mut self) {
        self.in_turn = true;
    }

    pub(super) fn end_turn(&mut self, at: u64) {
        self.in_turn = false;
        self.ended += 1;
        self.ended_at = at;
        self.older_of_turns.retain(|(turn, _)| turn + 1 >= self.ended);
    }

    /// Counts a request that was made at this time, and tells whether that changed anything. What is told later of the
    /// same one is right. It may be told after its turn is over, and before that has begun: by another source than the
    /// turn's.
    pub(super) fn add(&mut self, id: &str, usage: Usage, at: Option<u64>) -> bool {
        let is_late = self.ended > 0 && at.is_some_and(|at| at <= self.ended_at);
        let turn = if is_late { self.ended - 1 } else { self.ended };
        self.count(id, usage, Some(turn))
    }

    /// Counts what an earlier process used.
    pub(super) fn add_past(&mut self, id: &str, usage: Usage) -> bool {
        self.count(id, usage, None)
    }

    fn count(&mut self, id: &str, usage: Usage, turn: Option<u64>) -> bool {
        let turn = self.replies.get(id).map_or(turn, |(_, turn)| *turn);
        let before = self.replies.insert(id.to_owned(), (usage, turn));
        if before.is_none() {
            self.order.push_back(id.to_owned());
            self.sum_up();
        }
        before != Some((usage, turn))
    }

    /// Sums up the oldest, if there are too many.
    fn sum_up(&mut self) {
        if self.order.len() <= KEPT {
            return;
        }
        let Some((usage, turn)) = self.order.pop_front().and_then(|oldest| self.replies.remove(&oldest)) else {
            return;
        };
        self.older.add(&usage);
        self.older_count += 1;
        let Some(turn) = turn.filter(|turn| turn + 1 >= self.ended) else { return };
        match self.older_of_turns.iter_mut().find(|(of, _)| *of == turn) {
            Some((_, sum)) => sum.add(&usage),
            None => self.older_of_turns.push((turn, usage)),
        }
    }

    /// Returns what was used in all, and in the turn that is under way or was the last.
    pub(super) fn report(&self) -> UsageReport {
        let turn = if self.in_turn { Some(self.ended) } else { self.ended.checked_sub(1) };
        let requests = self.older_count + self.replies.len() as u64;
        let older = self.older_of_turns.iter().find(|(of, _)| Some(*of) == turn);
        let of_turn = older.map_or_else(Usage::none, |(_, usage)| *usage);
        let mut report = UsageReport { turn: of_turn, total: self.older, requests };
        for (usage, of) in self.replies.values() {
            report.total.add(usage);
            if of.is_some() && *of == turn {
                report.turn.add(usage);
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(output_tokens: u64) -> Usage {
        Usage { output_tokens, cost_usd: Some(1.0), ..Usage::default() }
    }

    fn outputs(book: &UsageBook) -> (u64, u64, u64) {
        let report = book.report();
        (report.turn.output_tokens, report.total.output_tokens, report.requests)
    }

    #[test]
    fn a_request_counts_once_and_in_its_turn() {
        let mut book = UsageBook::default();
        book.begin_turn();
        assert!(book.add("a", used(1), Some(1)));
        assert!(book.add("a", used(5), Some(1)));
        assert!(!book.add("a", used(5), Some(1)));
        book.end_turn(2);
        assert_eq!(outputs(&book), (5, 5, 1));
        book.begin_turn();
        book.add("b", used(7), Some(3));
        book.add("a", used(5), Some(1));
        assert_eq!(outputs(&book), (7, 12, 2));
        assert_eq!(book.report().total.cost_usd, Some(2.0));
    }

    /// The log and the turn's own source need not agree about which comes first.
    #[test]
    fn a_request_told_too_early_or_too_late_is_its_turns() {
        let mut book = UsageBook::default();
        book.add("first", used(1), Some(10));
        assert_eq!(outputs(&book), (0, 1, 1));
        book.begin_turn();
        assert_eq!(outputs(&book), (1, 1, 1));
        book.end_turn(20);
        book.add("late", used(2), Some(20));
        assert_eq!(outputs(&book), (3, 3, 2));
        book.add("early", used(4), Some(30));
        assert_eq!(outputs(&book), (3, 7, 3));
        book.begin_turn();
        book.add("later still", used(8), Some(19));
        assert_eq!(outputs(&book), (4, 15, 4));
    }

    /// All that an agent ever asked its model was kept, and added up at each request.
    #[test]
    fn of_many_requests_the_sums_are_right_and_the_newest_are_kept() {
        let mut book = UsageBook::default();
        let many = 3 * KEPT as u64;
        for turn in 1..=3 {
            book.begin_turn();
            for number in 0..many {
                book.add(&format!("{turn}-{number}"), used(turn), Some(turn * 10));
            }
            assert_eq!(outputs(&book).0, turn * many);
            book.end_turn(turn * 10);
            assert_eq!(outputs(&book).0, turn * many);
        }
        assert_eq!(outputs(&book), (3 * many, 6 * many, 3 * many));
        assert_eq!(book.report().total.cost_usd, Some(3.0 * many as f64));
        assert_eq!((book.replies.len(), book.order.len()), (KEPT, KEPT));
        assert!(book.older_of_turns.len() <= 2);
        assert!(!book.add(&format!("3-{}", many - 1), used(3), Some(30)), "it is known");
    }

    #[test]
    fn what_an_earlier_process_used_is_no_turn_of_this_one() {
        let mut book = UsageBook::default();
        book.add_past("old", used(1));
        assert_eq!(outputs(&book), (0, 1, 1));
        book.begin_turn();
        book.add("old", used(1), Some(5));
        assert_eq!(outputs(&book), (0, 1, 1));
    }
}
