//! What is let through of what a shim sends: each event once, in order, of this agent alone.
//!
//! A shim counts from 1 in each run. Here the runs are laid end to end, so that one number says how far all of it is known:
//! the number of an event is its run's base and its own. Bases are kept in a file, because a shim outlives whoever follows
//! it and sends its newest thousand events to each new reader.

use std::collections::{HashSet, VecDeque};

use coop_api::Seq;
use serde::{Deserialize, Serialize};

use super::frame::Frame;

/// By how many ids a doubled event is known.
const WINDOW: usize = 10_000;
/// How many runs are remembered; a shim's ring of a thousand events reaches no further back.
const RUNS: usize = 1000;
/// How many bad events are kept to look at, and how much of each.
const KEPT: usize = 100;
const CUT: usize = 2000;

/// Events that were not let through: how many, and the newest of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantine {
    /// How many there were.
    pub count: u64,
    /// The newest.
    pub kept: VecDeque<Quarantined>,
}

/// An event that was not let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// What is wrong with it.
    pub why: String,
    /// Its beginning.
    pub frame: String,
}

/// A run and where its numbers begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    id: String,
    base: u64,
}

/// What became of a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Taken {
    /// It is new.
    New { frame: Frame, seq: Seq, run: u64, missed: Option<(Seq, Seq)> },
    /// It was told before this was made.
    Known { frame: Frame, seq: Seq, run: u64 },
    /// It was seen before.
    Seen,
    /// It is quarantined.
    Bad,
}

/// What is known of one shim's events.
#[derive(Debug)]
pub(crate) struct Intake {
    agent: String,
    ids: HashSet<String>,
    order: VecDeque<String>,
    runs: Vec<Run>,
    /// The last number that was known at the beginning, and that is known now.
    began: u64,
    known: u64,
    quarantine: Quarantine,
    has_new_run: bool,
}

impl Intake {
    /// Returns an intake for an agent of which everything up to a number is known.
    pub(crate) fn new(agent: &str, runs: Vec<Run>, known: Seq) -> Self {
        Self {
            agent: agent.to_owned(),
            ids: HashSet::new(),
            order: VecDeque::new(),
            runs,
            began: known.0,
            known: known.0,
            quarantine: Quarantine::default(),
            has_new_run: false,
        }
    }

    pub(crate) fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Tells, once, that there is a run more than when it was last asked.
    pub(crate) fn has_new_run(&mut self) -> bool {
        std::mem::take(&mut self.has_new_run)
    }

    pub(crate) fn take(&mut self, text: &str) -> Taken {
        let frame = match Frame::read(text) {
            Ok(frame) => frame,
            Err(why) => return self.bad(text, why),
        };
        if frame.agent != self.agent {
            return self.bad(text, format!("it is of the agent {:?}", frame.agent));
        }
        if !self.note(&frame.id) {
            return Taken::Seen;
        }
        let at = self.runs.iter().position(|run| run.id == frame.run);
        let at = at.unwrap_or_else(|| {
            self.runs.push(Run { id: frame.run.clone(), base: self.known });
            self.has_new_run = true;
            if self.runs.len() > RUNS {
                self.runs.remove(0);
            }
            self.runs.len() - 1
        });
        // Hostile numbers must not wrap.
        let Some(number) = self.runs[at].base.checked_add(frame.sequence).filter(|number| *number < i64::MAX as u64)
        else {
            return self.bad(text, "its number is too large".to_owned());
        };
        if number <= self.began {
            return Taken::Known { frame, seq: Seq(number), run: at as u64 + 1 };
        }
        if number <= self.known {
            return self.bad(text, format!("the number {} of its run was there before", frame.sequence));
        }
        if at + 1 < self.runs.len() {
            return self.bad(text, "it is of a run that was followed by another".to_owned());
        }
        let missed = (number > self.known + 1).then(|| (Seq(self.known + 1), Seq(number - 1)));
        self.known = number;
        Taken::New { frame, seq: Seq(number), run: at as u64 + 1, missed }
    }

    /// Notes an id; tells whether it is new.
    fn note(&mut self, id: &str) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > WINDOW
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }

    fn bad(&mut self, text: &str, why: String) -> Taken {
        tracing::warn!(agent = self.agent, why, "an event of a shim is not let through");
        self.quarantine.count += 1;
        if self.quarantine.kept.len() == KEPT {
            self.quarantine.kept.pop_front();
        }
        let frame = text.chars().take(CUT).collect();
        self.quarantine.kept.push_back(Quarantined { why, frame });
        Taken::Bad
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::frame::tests::frame;
    use super::*;

    fn status(run: &str, sequence: u64) -> Value {
        frame(run, sequence, json!({ "type": "status", "message": "m" }))
    }

    fn told(intake: &mut Intake, frame: &Value) -> String {
        match intake.take(&frame.to_string()) {
            Taken::New { seq, missed: None, .. } => format!("{seq}"),
            Taken::New { seq, missed: Some((from, to)), .. } => format!("{from}-{to} missed, {seq}"),
            Taken::Known { .. } => "known".to_owned(),
            Taken::Seen => "seen".to_owned(),
            Taken::Bad => intake.quarantine().kept.back().map(|bad| bad.why.clone()).unwrap_or_default(),
        }
    }

    #[test]
    fn runs_are_laid_end_to_end_and_gaps_are_told() {
        let mut intake = Intake::new("a1", Vec::new(), Seq(0));
        let cases = [
            (status("r", 1), "1"),
            (status("r", 1), "seen"),
            (status("r", 2), "2"),
            (status("r", 5), "3-4 missed, 5"),
            (status("s", 1), "6"),
            (status("s", 3), "7-7 missed, 8"),
            (status("r", 6), "the number 6 of its run was there before"),
            (status("r", 9), "it is of a run that was followed by another"),
            (status("s", u64::MAX), "its number is too large"),
            (status("s", 4), "9"),
        ];
        for (frame, expected) in cases {
            assert_eq!(told(&mut intake, &frame), expected, "{frame}");
        }
        let mut doubled = status("s", 4);
        doubled["sourceEventId"] = json!("another");
        assert_eq!(told(&mut intake, &doubled), "the number 4 of its run was there before");
        let mut other = status("s", 5);
        other["event"]["agentId"] = json!("a2");
        assert_eq!(told(&mut intake, &other), "it is of the agent \"a2\"");
        assert_eq!(told(&mut intake, &status("s", 5)), "10", "what is bad takes no number away");
        assert_eq!(intake.quarantine().count, 5);
    }

    #[test]
    fn who_comes_back_goes_on_after_what_is_known() {
        let mut first = Intake::new("a1", Vec::new(), Seq(0));
        for frame in [status("r", 1), status("r", 2), status("s", 1), status("s", 2)] {
            first.take(&frame.to_string());
        }
        let mut second = Intake::new("a1", first.runs().to_vec(), Seq(3));
        let ring = [status("r", 1), status("r", 2), status("s", 1), status("s", 2), status("t", 1)];
        assert_eq!(ring.map(|frame| told(&mut second, &frame)), ["known", "known", "known", "4", "5"]);
    }

    #[test]
    fn a_flood_of_bad_events_is_counted_and_not_kept() {
        let mut intake = Intake::new("a1", Vec::new(), Seq(0));
        (0..1000).for_each(|_| drop(intake.take(&"x".repeat(10_000))));
        let quarantine = intake.quarantine();
        assert_eq!((quarantine.count, quarantine.kept.len(), quarantine.kept[0].frame.len()), (1000, KEPT, CUT));
    }
}
