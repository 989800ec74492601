//! The agent's events: numbered without gaps, the newest kept.

use std::collections::VecDeque;
use std::time::SystemTime;

use coop_api::{AgentId, Epoch, Event, EventBody, EventPage, Offset, Seq};

/// How many events a late reader can still get.
const KEPT: usize = 4096;

#[derive(Debug)]
pub(crate) struct EventLog {
    agent: AgentId,
    events: VecDeque<Event>,
    last: Seq,
}

impl EventLog {
    pub(crate) fn new(agent: AgentId) -> Self {
        Self { agent, events: VecDeque::new(), last: Seq::default() }
    }

    pub(crate) fn last(&self) -> Seq {
        self.last
    }

    pub(crate) fn push(&mut self, run: Epoch, offset: Offset, body: EventBody, now: SystemTime) {
        self.last = self.last.next();
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(Event {
            seq: self.last,
            id: format!("{}-{}", self.agent, self.last),
            ts: humantime::format_rfc3339_millis(now).to_string(),
            agent: self.agent.clone(),
            run,
            offset,
            body,
        });
    }

    /// Returns the events after `cursor`, and which of them are no longer kept.
    pub(crate) fn after(&self, cursor: Seq) -> EventPage {
        let oldest = self.events.front().map_or(self.last.next(), |event| event.seq);
        let lagged = (cursor.next() < oldest).then(|| (cursor.next(), Seq(oldest.0 - 1)));
        let events = self.events.iter().filter(|event| event.seq > cursor).cloned().collect();
        EventPage { lagged, events }
    }
}

#[cfg(test)]
mod tests {
    use coop_api::Lifecycle;

    use super::*;

    #[test]
    fn a_cursor_replays_without_loss_or_is_told_the_range() {
        let mut log = EventLog::new(AgentId("a".into()));
        for _ in 0..KEPT + 10 {
            log.push(Epoch(1), Offset(0), EventBody::Lifecycle(Lifecycle::Stopping), SystemTime::UNIX_EPOCH);
        }
        let page = log.after(Seq(KEPT as u64));
        assert_eq!(page.lagged, None);
        assert_eq!(
            page.events.iter().map(|event| event.seq.0 as usize).collect::<Vec<_>>(),
            (KEPT + 1..=KEPT + 10).collect::<Vec<_>>()
        );
        let page = log.after(Seq(3));
        assert_eq!(page.lagged, Some((Seq(4), Seq(10))));
        assert_eq!(page.events.len(), KEPT);
        assert_eq!(log.after(log.last()), EventPage { lagged: None, events: vec![] });
    }
}
