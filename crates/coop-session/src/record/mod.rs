//! A recording of the terminal: what it showed and when, with the agent's states as markers.
//!
//! The recorder is one more reader of the session: it pulls, on a thread of its own, so that neither a slow disk nor a
//! flood of output ever slows the child. Where it could not keep up it says how much is missing and goes on with the whole
//! screen. What the disk refuses ends the recording, and nothing else; the session's events tell of it.

mod cast;
mod file;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use coop_api::{Agents, Dump, Event, EventBody, Feed, Lifecycle, Offset, Pulse, Read, Reply, Request, Seq, Size};
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::sleep;

use self::cast::{Clock, Decoder, Entry, Header, label};
use self::file::{CastFile, Found};
use crate::Handle;

/// A recording that may be smaller would be nothing but beginnings of files.
pub const LEAST_RECORDING: u64 = 1024 * 1024;
/// What comes within this time is one line: an eye sees no difference, and a spinner costs less.
const FRAME: Duration = Duration::from_millis(20);
/// What is recorded per second of a flood, in bytes. More would only wear the disk out: nobody can read it.
const RATE: u64 = 4 * 1024 * 1024;
/// The text in one line.
const LONGEST: usize = 64 * 1024;
/// Lines are handed to the system in pieces of this size.
const PIECE: usize = 256 * 1024;

/// What is recorded where.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The file; one that is a recording already goes on.
    pub path: PathBuf,
    /// How large it may be, in bytes, together with its older part.
    pub limit: u64,
    /// What the terminal is called for programs, as in `TERM`.
    pub term: String,
    /// What players call it.
    pub title: String,
}

/// A recording that is being made.
#[derive(Debug)]
pub struct Recorder {
    stop: oneshot::Sender<()>,
    done: oneshot::Receiver<()>,
}

/// A recording whose file is there, and in which nothing is written yet.
#[derive(Debug)]
pub struct OpenRecording {
    recording: Recording,
    file: CastFile,
    found: Found,
}

impl Recording {
    /// Opens the file. Something else that is there is left alone, and is an error.
    pub fn open(self) -> io::Result<OpenRecording> {
        let (file, found) = CastFile::open(&self.path, self.limit.max(LEAST_RECORDING))?;
        Ok(OpenRecording { recording: self, file, found })
    }
}

impl OpenRecording {
    /// Begins to record a session, from its first byte if that is still there.
    pub fn start(self, handle: &Handle) -> io::Result<Recorder> {
        let Self { recording: Recording { path, term, title, .. }, file, found } = self;
        let feed = handle.feed(handle.id()).map_err(|error| io::Error::other(error.message))?;
        let size = feed.pulse.borrow().size;
        let tape = Tape::new(handle.clone(), feed, file, Header { size, term, title });
        let (stop, stopped) = oneshot::channel();
        let (finished, done) = oneshot::channel();
        thread::Builder::new().name("record".into()).spawn(move || {
            let made = runtime::Builder::new_current_thread().enable_time().build();
            let ended = made.and_then(|runtime| runtime.block_on(tape.run(found, stopped)));
            if let Err(error) = ended {
                tracing::warn!(path = %path.display(), %error, "the recording stops here; the agent goes on");
            }
            let _ = finished.send(());
        })?;
        Ok(Recorder { stop, done })
    }
}

impl Recorder {
    /// Records what is left and ends.
    pub async fn finish(self) {
        let _ = self.stop.send(());
        let _ = self.done.await;
    }
}

/// What is recorded so far, and how far that is.
struct Tape {
    handle: Handle,
    feed: Feed,
    file: CastFile,
    header: Header,
    began: Instant,
    /// When the recording began, before the clock that we read.
    before: Duration,
    /// When what is being recorded happened, if that is known.
    happened: Option<Duration>,
    clock: Clock,
    decoder: Decoder,
    text: String,
    lines: String,
    cursor: Offset,
    events: Seq,
    state: Option<String>,
    /// What was read since the last pause.
    taken: u64,
}

impl Tape {
    fn new(handle: Handle, feed: Feed, file: CastFile, header: Header) -> Self {
        Self {
            handle,
            feed,
            file,
            header,
            began: Instant::now(),
            before: Duration::ZERO,
            happened: None,
            clock: Clock::default(),
            decoder: Decoder::default(),
            text: String::new(),
            lines: String::new(),
            cursor: Offset(0),
            events: Seq(0),
            state: None,
            taken: 0,
        }
    }

    async fn run(mut self, found: Found, stop: oneshot::Receiver<()>) -> io::Result<()> {
        let ended = self.record(found, stop).await;
        if let Err(error) = &ended {
            // There may be room for this line where a longer one was taken back.
            let line = self.clock.line(self.now(), Entry::Marker(&format!("coop: the recording stops here: {error}")));
            let _ = self.file.append(&line);
            self.handle.tell_unrecorded(error.to_string()).await;
        }
        ended
    }

    async fn record(&mut self, found: Found, mut stop: oneshot::Receiver<()>) -> io::Result<()> {
        self.begin(&found)?;
        loop {
            let pulse = *self.feed.pulse.borrow_and_update();
            self.take(pulse).await?;
            let pause = FRAME.max(Duration::from_millis(std::mem::take(&mut self.taken) * 1000 / RATE));
            tokio::select! {
                () = sleep(pause) => {}
                _ = &mut stop => return self.end().await,
            }
            tokio::select! {
                changed = self.feed.pulse.changed() => if changed.is_err() { return self.end().await },
                _ = &mut stop => return self.end().await,
            }
        }
    }

    fn begin(&mut self, found: &Found) -> io::Result<()> {
        match found {
            Found::Nothing => self.file.append(&self.header.line(SystemTime::now())),
            Found::Recording(last) => {
                self.before = SystemTime::now().duration_since(*last).unwrap_or_default();
                self.entry(Entry::Marker("coop: another process"));
                self.entry(Entry::Resize(self.header.size));
                // Whatever the one before has left on the screen.
                self.entry(Entry::Output("\x1bc"));
                self.flush()
            }
        }
    }

    async fn end(&mut self) -> io::Result<()> {
        let pulse = *self.feed.pulse.borrow_and_update();
        self.take(pulse).await?;
        self.decoder.end(&mut self.text);
        self.flush()
    }

    /// Records what there is: each event after the output before it.
    async fn take(&mut self, pulse: Pulse) -> io::Result<()> {
        let mut through = pulse.written;
        if pulse.events > self.events
            && let Ok(Reply::Events(page)) = self.handle.call(self.handle.id(), Request::Events(self.events)).await
        {
            if let Some((from, to)) = page.lagged {
                let count = to.0 - from.0 + 1;
                self.entry(Entry::Marker(&format!("coop: {count} events are missing here")));
            }
            for event in &page.events {
                self.events = event.seq;
                through = through.max(event.offset);
                // It is read some time later, maybe with others; a state that was short must not have no time at all.
                self.happened = self.time_of(event);
                self.output(event.offset).await?;
                self.event(event);
            }
            self.happened = None;
        }
        self.output(through).await?;
        self.flush()?;
        if self.file.is_full() { self.turn().await } else { Ok(()) }
    }

    async fn output(&mut self, through: Offset) -> io::Result<()> {
        while self.cursor < through {
            match self.feed.tap.read(self.cursor) {
                Read::Chunk { chunk, skip } => {
                    let end = chunk.data.len().min((through.0 - chunk.offset.0) as usize);
                    self.write(&chunk.data[skip..end])?;
                    self.cursor = chunk.offset.plus(end);
                }
                Read::Gap { .. } => self.skip().await?,
                Read::UpToDate => break,
            }
        }
        Ok(())
    }

    /// Goes on with the whole screen where output is gone.
    async fn skip(&mut self) -> io::Result<()> {
        let dump = self.dump().await?;
        let missing = dump.offset.0 - self.cursor.0;
        self.decoder.end(&mut self.text);
        self.entry(Entry::Marker(&format!("coop: {missing} bytes of output are missing here")));
        self.resize(dump.size);
        self.show(&dump)
    }

    fn show(&mut self, dump: &Dump) -> io::Result<()> {
        self.cursor = dump.offset;
        self.write(&dump.data)
    }

    async fn dump(&self) -> io::Result<Dump> {
        match self.handle.call(self.handle.id(), Request::Dump).await {
            Ok(Reply::Dump(dump)) => Ok(dump),
            Ok(_) => Err(io::Error::other("the session gave a reply of the wrong kind")),
            Err(error) => Err(io::Error::other(error.message)),
        }
    }

    /// Begins another file, with the whole screen and the state, so that it can be read without the one before.
    async fn turn(&mut self) -> io::Result<()> {
        let dump = self.dump().await?;
        self.output(dump.offset).await?;
        self.resize(dump.size);
        self.flush()?;
        self.file.turn(&self.header.line(SystemTime::now()))?;
        self.decoder = Decoder::default();
        if let Some(state) = self.state.clone() {
            self.entry(Entry::Marker(&state));
        }
        self.show(&dump)?;
        self.flush()
    }

    fn event(&mut self, event: &Event) {
        match &event.body {
            EventBody::State(change) => {
                let label = label(&change.next);
                self.entry(Entry::Marker(&label));
                self.state = Some(label);
            }
            EventBody::Lifecycle(Lifecycle::Resized { size }) => self.resize(*size),
            EventBody::Lifecycle(Lifecycle::Exited { code, signal }) => {
                self.entry(Entry::Exit(code.or(signal.map(|signal| 128 + signal)).unwrap_or(1)));
            }
            EventBody::Lifecycle(_)
            | EventBody::Turn(_)
            | EventBody::Message(_)
            | EventBody::Tool(_)
            | EventBody::Ask(_)
            | EventBody::Artifact(_)
            | EventBody::Usage(_)
            | EventBody::Fault(_)
            | EventBody::Stop(_)
            | EventBody::Delivery(_) => {}
        }
    }

    fn resize(&mut self, size: Size) {
        if size != self.header.size {
            self.header.size = size;
            self.entry(Entry::Resize(size));
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.taken += bytes.len() as u64;
        for piece in bytes.chunks(LONGEST) {
            self.decoder.push(piece, &mut self.text);
            if self.text.len() >= LONGEST {
                self.tell_text();
            }
        }
        if self.lines.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    fn entry(&mut self, entry: Entry<'_>) {
        self.tell_text();
        let line = self.clock.line(self.now(), entry);
        self.lines.push_str(&line);
    }

    fn tell_text(&mut self) {
        if !self.text.is_empty() {
            let line = self.clock.line(self.now(), Entry::Output(&self.text));
            self.lines.push_str(&line);
            self.text.clear();
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tell_text();
        let written = if self.lines.is_empty() { Ok(()) } else { self.file.append(&self.lines) };
        self.lines.clear();
        written
    }

    fn now(&self) -> Duration {
        self.happened.unwrap_or_else(|| self.before + self.began.elapsed())
    }

    /// Returns when an event happened, in the recording's time. The clock makes a line of the past one of the last moment.
    fn time_of(&self, event: &Event) -> Option<Duration> {
        let then = humantime::parse_rfc3339(&event.ts).ok()?;
        let ago = SystemTime::now().duration_since(then).ok()?;
        Some((self.before + self.began.elapsed()).saturating_sub(ago))
    }
}
