//! The agent's events: numbered without gaps, the newest kept.

use std::collections::VecDeque;
use std::io;
use std::time::SystemTime;

use coop_api::{AgentId, Epoch, Event, EventBody, EventPage, Offset, Seq};

/// How many events a late reader can still get.
const KEPT: usize = 4096;
/// How many bytes they may take together. The newest is kept whatever it takes.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct EventLog {
    agent: AgentId,
    /// Each with its size as JSON.
    events: VecDeque<(Event, usize)>,
    bytes: usize,
    last: Seq,
}

/// Counts what is written to it.
#[derive(Default)]
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl EventLog {
    pub(crate) fn new(agent: AgentId) -> Self {
        Self { agent, events: VecDeque::new(), bytes: 0, last: Seq::default() }
    }

    pub(crate) fn last(&self) -> Seq {
        self.last
    }

    pub(crate) fn push(&mut self, run: Epoch, offset: Offset, mut body: EventBody, now: SystemTime) {
        self.last = self.last.next();
        body.shorten();
        let mut size = Count::default();
        // These are words and nothing else, and the count takes all of them.
        let _ = serde_json::to_writer(&mut size, &body);
        self.bytes += size.0;
        while self.events.len() >= KEPT || self.bytes > KEPT_BYTES {
            let Some((_, freed)) = self.events.pop_front() else { break };
            self.bytes -= freed;
        }
        let event = Event {
            seq: self.last,
            id: format!("{}-{}", self.agent, self.last),
            ts: humantime::format_rfc3339_millis(now).to_string(),
            agent: self.agent.clone(),
            run,
            offset,
            body,
        };
        self.events.push_back((event, size.0));
    }

    /// Returns the events after `cursor`, and which of them are no longer kept.
    pub(crate) fn after(&self, cursor: Seq) -> EventPage {
        let oldest = self.events.front().map_or(self.last.next(), |(event, _)| event.seq);
        let lagged = (cursor.next() < oldest).then(|| (cursor.next(), Seq(oldest.0 - 1)));
        let events = self.events.iter().map(|(event, _)| event).filter(|event| event.seq > cursor).cloned().collect();
        EventPage { lagged, events }
    }
}

#[cfg(test)]
mod tests {
    use coop_api::{Lifecycle, Message, Role, ToolPhase, ToolUse};

    use super::*;

    /// Ten reports of a hook with 10 MiB each made the sidecar hold 200 MB.
    #[test]
    fn large_events_are_cut_and_all_together_are_bounded() {
        let mut log = EventLog::new(AgentId("a".into()));
        for _ in 0..10 {
            let output = Some(serde_json::json!({ "stdout": "x".repeat(10 << 20) }));
            let (id, tool, phase) = ("1".to_owned(), "Bash".to_owned(), ToolPhase::Completed);
            let used = ToolUse { id, tool, phase, input: None, output, duration_ms: None, subagent: None };
            log.push(Epoch(1), Offset(0), EventBody::Tool(used), SystemTime::UNIX_EPOCH);
        }
        assert_eq!(log.events.len(), 10);
        assert!(log.bytes < 10 * (66 << 10), "{}", log.bytes);
        for _ in 0..40 {
            let message = Message { role: Role::User, text: "x".repeat(1 << 20), id: None, subagent: None };
            log.push(Epoch(1), Offset(0), EventBody::Message(message), SystemTime::UNIX_EPOCH);
        }
        assert!(log.bytes <= KEPT_BYTES && log.events.len() > 10, "{} {}", log.bytes, log.events.len());
        assert_eq!(log.bytes, log.events.iter().map(|(_, size)| size).sum::<usize>());
        let page = log.after(Seq(0));
        assert_eq!(page.lagged, Some((Seq(1), Seq(50 - page.events.len() as u64))), "what is gone is told");
    }

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
