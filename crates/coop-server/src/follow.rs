//! Following one agent with a cursor: what is new, in order, at the reader's own pace.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coop_api::{AgentId, Agents, Chunk, Dump, Error, Event, Feed, Offset, Pulse, Read, Reply, Request, Screen, Seq};
use tokio::time::sleep_until;

use crate::app::{App, ask};

/// Screens are sent at most this often.
const SCREEN_PACE: Duration = Duration::from_millis(50);
/// What several followers of the output together are sent per second while the child floods. More would take the
/// processor from the child. A single follower is not held back.
const BANDWIDTH: u64 = 48 * 1024 * 1024;
/// Shorter pauses are not worth a timer.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// What a follower wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wants {
    pub(crate) output: Option<Output>,
    pub(crate) screen: bool,
    pub(crate) events: bool,
}

/// From where on a follower wants the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) from: From,
    /// Whether the whole terminal is sent at the beginning and after a gap.
    pub(crate) resync: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Now,
    Offset(Offset),
}

/// Something new.
pub(crate) enum Item {
    /// A part of a chunk, mostly all of it.
    Output {
        chunk: Arc<Chunk>,
        part: Range<usize>,
    },
    Gap {
        from: Offset,
        to: Offset,
    },
    Resync(Dump),
    Screen(Arc<Screen>),
    Event(Box<Event>),
    Lagged {
        from: Seq,
        to: Seq,
    },
}

pub(crate) struct Follower<A: Agents> {
    app: Arc<App<A>>,
    agent: AgentId,
    feed: Feed,
    wants: Wants,
    cursor: Offset,
    needs_resync: bool,
    /// The newest screen that was sent.
    screen: Option<Seq>,
    screen_due: Instant,
    events: Seq,
    /// Events that wait for the output before them.
    pending: VecDeque<Event>,
    /// What was sent so far is paid for until then.
    paid_until: Instant,
}

/// One of those who share the bandwidth: a follower that asks for output, and not one that is still being sent the last
/// piece, which may take for ever.
struct Share(Arc<AtomicUsize>);

impl Share {
    fn take(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<A: Agents> Follower<A> {
    /// Begins to follow. `events_after` is the last event already known; without it only new ones are told.
    pub(crate) fn new(app: &Arc<App<A>>, wants: Wants, events_after: Option<Seq>) -> Result<Self, Error> {
        let agent = app.agent()?;
        let mut feed = app.agents.feed(&agent)?;
        let pulse = *feed.pulse.borrow_and_update();
        let cursor = match wants.output.map(|output| output.from) {
            Some(From::Offset(offset)) => within(offset, &pulse)?,
            Some(From::Now) | None => pulse.written,
        };
        // So that there is something to say at once.
        feed.pulse.mark_changed();
        Ok(Self {
            app: Arc::clone(app),
            agent,
            feed,
            wants,
            cursor,
            needs_resync: wants.output.is_some_and(|output| output.resync && output.from == From::Now),
            screen: None,
            screen_due: Instant::now(),
            // A number from before a restart of coop means nothing here: then everything is new.
            events: events_after.map_or(pulse.events, |after| if after > pulse.events { Seq(0) } else { after }),
            pending: VecDeque::new(),
            paid_until: Instant::now(),
        })
    }

    /// Goes back, or on, to another offset of the output.
    pub(crate) fn replay(&mut self, offset: Offset) -> Result<(), Error> {
        if self.wants.output.is_none() {
            return Err(Error::bad_request("this connection takes no output to replay; subscribe to output or raw"));
        }
        self.cursor = within(offset, &self.pulse())?;
        self.needs_resync = false;
        self.feed.pulse.mark_changed();
        Ok(())
    }

    /// Returns the number before the last event of a child that has exited.
    pub(crate) fn last_event_of_exited(app: &App<A>) -> Result<Option<Seq>, Error> {
        let pulse = *app.agents.feed(&app.agent()?)?.pulse.borrow();
        Ok(pulse.ended.then(|| Seq(pulse.events.0.saturating_sub(1))))
    }

    /// Waits for something new. Cancel safe. Returns nothing once everything was told and the session is over or the
    /// server shuts down; what is left to tell then is told first, and without pauses.
    pub(crate) async fn next(&mut self) -> Result<Option<Item>, Error> {
        let _share = self.wants.output.map(|_| Share::take(&self.app.followers));
        loop {
            // One clock for the whole turn: what is not due by it must be waited for by it.
            let now = Instant::now();
            let closing = self.app.shutdown.is_cancelled();
            let pause = if closing { None } else { self.pause(now) };
            let pulse = *self.feed.pulse.borrow_and_update();
            if self.wants.events
                && self.pending.is_empty()
                && self.events < pulse.events
                && let Some((from, to)) = self.load_events().await?
            {
                return Ok(Some(Item::Lagged { from, to }));
            }
            let output_pending = self.wants.output.is_some() && self.cursor < pulse.written;
            let screen_pending = self.wants.screen && self.screen < Some(pulse.screen);
            let screen_due = screen_pending && (self.screen_due <= now || pulse.ended || closing);
            // An exit follows also the last screen.
            if (output_pending || !screen_due)
                && let Some(event) = self.next_event()
            {
                return Ok(Some(Item::Event(Box::new(event))));
            }
            if self.needs_resync {
                let dump = self.dump().await?;
                self.needs_resync = false;
                self.cursor = dump.offset;
                return Ok(Some(Item::Resync(dump)));
            }
            if self.wants.output.is_some()
                && pause.is_none()
                && let Some(item) = self.read_output(&pulse)
            {
                return Ok(Some(item));
            }
            if screen_due {
                let screen = self.screen().await?;
                // It may be newer than the pulse.
                self.screen = Some(screen.seq.max(pulse.screen));
                self.screen_due = Instant::now() + SCREEN_PACE;
                return Ok(Some(Item::Screen(screen)));
            }
            let wake_at = [pause.filter(|_| output_pending), screen_pending.then_some(self.screen_due)];
            if closing || !self.wait(wake_at.into_iter().flatten().min()).await {
                return Ok(None);
            }
        }
    }

    /// Returns false once the session is over.
    async fn wait(&mut self, until: Option<Instant>) -> bool {
        let soon = until.unwrap_or_else(Instant::now);
        tokio::select! {
            changed = self.feed.pulse.changed() => changed.is_ok(),
            () = sleep_until(soon.into()), if until.is_some() => true,
            () = self.app.shutdown.cancelled() => true,
        }
    }

    /// Returns the next event if all the output before it was sent. Those before a resync are told first: what it shows
    /// is newer.
    fn next_event(&mut self) -> Option<Event> {
        let waits = self.wants.output.is_some() && !self.needs_resync;
        let due = self.pending.front().is_some_and(|event| !waits || event.offset <= self.cursor);
        if due { self.pending.pop_front() } else { None }
    }

    /// Reads on, up to the next event. Events that are not loaded yet lie beyond the pulse.
    fn read_output(&mut self, pulse: &Pulse) -> Option<Item> {
        let limit = self.pending.front().map_or(pulse.written, |event| event.offset.min(pulse.written));
        if self.cursor >= limit {
            return None;
        }
        match self.feed.tap.read(self.cursor) {
            Read::UpToDate => None,
            Read::Gap { from, to } => {
                self.cursor = to;
                self.needs_resync = self.wants.output.is_some_and(|output| output.resync);
                Some(Item::Gap { from, to })
            }
            Read::Chunk { chunk, skip } => {
                self.cursor = chunk.end().min(limit);
                let part = skip..(self.cursor.0 - chunk.offset.0) as usize;
                self.pace(part.len());
                Some(Item::Output { chunk, part })
            }
        }
    }

    /// Makes this follower's next piece wait for its share of the bandwidth.
    fn pace(&mut self, sent: usize) {
        let sharers = self.app.followers.load(Ordering::Relaxed) as u64;
        if sharers <= 1 {
            return;
        }
        let cost = Duration::from_nanos(sent as u64 * sharers * 1_000_000_000 / BANDWIDTH);
        let now = Instant::now();
        self.paid_until = self.paid_until.max(now) + cost;
    }

    /// Returns until when to wait, if it is worth waiting.
    fn pause(&self, now: Instant) -> Option<Instant> {
        Some(self.paid_until).filter(|until| *until > now + SHORTEST_PAUSE)
    }

    async fn dump(&self) -> Result<Dump, Error> {
        ask!(self, Request::Dump, Reply::Dump)
    }

    async fn screen(&self) -> Result<Arc<Screen>, Error> {
        ask!(self, Request::Screen, Reply::Screen)
    }

    async fn load_events(&mut self) -> Result<Option<(Seq, Seq)>, Error> {
        let page = ask!(self, Request::Events(self.events), Reply::Events)?;
        if let Some(last) = page.events.last() {
            self.events = last.seq;
        }
        self.pending = page.events.into();
        Ok(page.lagged)
    }

    async fn call(&self, request: Request) -> Result<Reply, Error> {
        self.app.agents.call(&self.agent, request).await
    }

    /// Returns the newest of everything.
    pub(crate) fn pulse(&self) -> Pulse {
        *self.feed.pulse.borrow()
    }
}

fn within(offset: Offset, pulse: &Pulse) -> Result<Offset, Error> {
    if offset > pulse.written {
        return Err(Error::bad_request(format!("the output ends at {}; {offset} lies beyond it", pulse.written)));
    }
    Ok(offset)
}

#[cfg(test)]
mod tests {
    use coop_api::{Size, Tap};
    use futures_util::poll;
    use tokio::sync::watch;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::app::Config;

    /// An agent that has written a lot.
    struct Flood(Feed);

    struct Endless;

    const WRITTEN: Offset = Offset(1 << 40);

    impl Tap for Endless {
        fn read(&self, from: Offset) -> Read {
            Read::Chunk { chunk: Arc::new(Chunk::new(from, vec![b'x'; 1 << 20].into())), skip: 0 }
        }

        fn range(&self) -> (Offset, Offset) {
            (Offset(0), WRITTEN)
        }
    }

    impl Agents for Flood {
        fn list(&self) -> Vec<AgentId> {
            vec![AgentId("flood".into())]
        }

        async fn call(&self, _: &AgentId, _: Request) -> Result<Reply, Error> {
            Err(Error::internal("not asked in these tests"))
        }

        fn feed(&self, _: &AgentId) -> Result<Feed, Error> {
            Ok(self.0.clone())
        }
    }

    #[tokio::test]
    async fn only_those_who_take_output_share_the_bandwidth() {
        let pulse = Pulse { written: WRITTEN, screen: Seq(0), events: Seq(0), size: Size::DEFAULT, ended: false };
        let (_alive, pulse) = watch::channel(pulse);
        let flood = Flood(Feed { pulse, tap: Arc::new(Endless) });
        let app = Arc::new(App::new(flood, Config::default(), CancellationToken::new()));
        let output = Some(Output { from: From::Offset(Offset(0)), resync: false });
        let wants = Wants { output, screen: false, events: false };
        let follow = || Follower::new(&app, wants, None).expect("it can be followed");
        let (mut reader, mut other) = (follow(), follow());
        let held_back = |follower: &Follower<Flood>| follower.paid_until > Instant::now();
        // Its piece is on its way, and never arrives.
        assert!(other.next().await.is_ok());
        for _ in 0..100 {
            assert!(reader.next().await.is_ok());
            assert!(!held_back(&reader));
        }
        // Now it has arrived, and the other waits for its next.
        other.paid_until = Instant::now() + Duration::from_secs(1000);
        let mut asking = std::pin::pin!(other.next());
        assert!(poll!(asking.as_mut()).is_pending());
        assert!(reader.next().await.is_ok());
        assert!(held_back(&reader));
    }
}
