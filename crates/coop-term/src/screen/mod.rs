//! What the child's output makes the terminal show.
//!
//! Bytes go through `vte`'s parser to [`perform`], which turns them into calls on [`terminal`]. Only this module knows
//! that the cells live in `alacritty_terminal`.

mod backlog;
mod cell;
mod dump;
mod edit;
mod keyboard;
mod modes;
mod osc;
mod palette;
mod perform;
mod report;
mod sgr;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::mem;
use std::str;
use std::sync::Arc;
use std::time::Duration;

use coop_api::{Line, Memo, Modes, Offset, Seq, Size};
use memchr::memmem;
use vte::Perform;

use self::backlog::Backlog;
use self::perform::Performer;
use self::terminal::Terminal;

/// Ends a synchronized frame.
const FRAME_END: &[u8] = b"\x1b[?2026l";
/// A frame this long is shown as it comes, so that one that never ends costs little.
const MAX_FRAME: usize = 1024 * 1024;
/// A control string this long is dropped: nothing real is longer, and the parser and we would keep all of it.
const MAX_STRING: usize = 64 * 1024;
/// The controls that cancel a sequence.
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
/// How far ahead is looked for a control that cancels, and how much is parsed between two looks at `MAX_STRING`.
const STRIDE: usize = 4 * 1024;
/// How many bytes at once are looked at to tell that they are plain text.
const PLAIN_BLOCK: usize = 32;

/// A terminal screen: feed it bytes, ask it what it shows.
pub struct Screen {
    parser: vte::Parser,
    performer: Performer,
    /// What was written and is not on the grid yet. Empty whenever the parser is within a sequence.
    backlog: Backlog,
    /// Whether the parser is at plain text, so that it can be bypassed.
    ground: bool,
    /// The beginning of a character whose other bytes are still to come.
    partial: Vec<u8>,
    /// The bytes of a control sequence that is not complete, so that a dump can hand them on.
    unfinished: Vec<u8>,
    /// The control string that was too long and whose rest is being skipped.
    skipping: Option<StringKind>,
    /// The bytes of a synchronized frame that has not ended.
    frame: Option<Vec<u8>>,
    last_frame: FrameId,
    size: Size,
    seq: Seq,
    offset: Offset,
    shown: Option<Arc<coop_api::Screen>>,
}

/// Tells the synchronized frames of one screen apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId(u64);

/// The control strings, told apart by what ends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringKind {
    /// An operating system command, which a bell ends too.
    Osc,
    Other,
}

impl Screen {
    /// Returns a blank screen.
    pub fn new(size: Size) -> Self {
        Self {
            parser: vte::Parser::new(),
            performer: Performer::new(Terminal::new(size)),
            backlog: Backlog::default(),
            ground: true,
            partial: Vec::new(),
            unfinished: Vec::new(),
            skipping: None,
            frame: None,
            last_frame: FrameId(0),
            size,
            seq: Seq::default(),
            offset: Offset::default(),
            shown: None,
        }
    }

    /// Takes in the child's output, in pieces of any length.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.seq = self.seq.next();
        self.offset = self.offset.plus(bytes.len());
        while !bytes.is_empty() {
            bytes = match self.frame.take() {
                Some(frame) => self.feed_frame(frame, bytes),
                None => self.parse(bytes),
            };
        }
    }

    /// Returns the bytes the terminal has to answer the child with, and forgets them.
    pub fn take_replies(&mut self) -> Vec<u8> {
        mem::take(&mut self.performer.term.replies)
    }

    /// How long a synchronized frame may take before [`Self::end_frame`]; terminals agree on about this much.
    pub const FRAME_PATIENCE: Duration = Duration::from_millis(150);

    /// Returns the synchronized frame that has begun and not ended.
    pub fn open_frame(&self) -> Option<FrameId> {
        self.frame.as_ref().map(|_| self.last_frame)
    }

    /// Shows an unfinished frame as far as it came. To be called when it takes too long.
    pub fn end_frame(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.performer.term.flags.synchronized = false;
            self.seq = self.seq.next();
            let mut rest = &frame[..];
            while !rest.is_empty() {
                rest = self.parse(rest);
                // A frame within the frame: it is late already.
                self.frame = None;
                self.performer.term.flags.synchronized = false;
            }
        }
    }

    /// Gives the terminal another size; long lines are wrapped anew.
    pub fn resize(&mut self, size: Size) {
        self.end_frame();
        if size != self.size {
            self.settle();
            self.size = size;
            self.seq = self.seq.next();
            self.performer.term.resize(size);
        }
    }

    /// Returns what the terminal shows. The same thing is shared until it changes.
    pub fn snapshot(&mut self) -> Arc<coop_api::Screen> {
        if let Some(shown) = &self.shown
            && shown.seq == self.seq
        {
            return Arc::clone(shown);
        }
        self.settle();
        let term = &self.performer.term;
        let before = self.shown.as_ref().map_or(&[][..], |shown| &shown.lines);
        let lines = (0..term.rows())
            .map(|row| {
                let line = term.line(row, self.seq);
                match before.get(row) {
                    Some(old) if old.same_content(&line) => Arc::clone(old),
                    _ => Arc::new(line),
                }
            })
            .collect();
        let title = match &self.shown {
            Some(shown) if *shown.title == *term.title => Arc::clone(&shown.title),
            _ => Arc::from(term.title.as_str()),
        };
        let snapshot = Arc::new(coop_api::Screen {
            seq: self.seq,
            offset: Offset(self.offset.0 - self.frame.as_ref().map_or(0, |frame| frame.len() as u64)),
            size: self.size,
            lines,
            cursor: term.cursor(),
            modes: term.modes(),
            title,
            title_count: term.title_count,
            cwd: term.cwd.as_deref().map(Arc::from),
            scrollback: term.history_len(),
            plain: Memo::default(),
            ansi: Memo::default(),
            styled: Memo::default(),
            message: Memo::default(),
        });
        self.shown = Some(Arc::clone(&snapshot));
        snapshot
    }

    /// Returns control sequences that make a fresh terminal of this size show and do the same, also with what follows:
    /// they end with the frame, sequence or character that has begun and is not complete.
    pub fn dump(&mut self) -> Vec<u8> {
        self.settle();
        let mut dump = self.performer.term.dump().into_bytes();
        if let Some(frame) = &self.frame {
            dump.extend_from_slice(b"\x1b[?2026h");
            dump.extend_from_slice(frame);
        } else if let Some(kind) = self.skipping {
            // A string whose beginning we dropped; the reader drops it too.
            dump.extend_from_slice(match kind {
                StringKind::Osc => b"\x1b]",
                StringKind::Other => b"\x1bX",
            });
        } else {
            dump.extend_from_slice(&self.unfinished);
            dump.extend_from_slice(&self.partial);
        }
        dump
    }

    /// Returns the newest `count` lines that scrolled off, oldest first.
    pub fn history(&mut self, count: usize) -> Vec<Line> {
        self.settle();
        self.performer.term.history(count)
    }

    /// Returns the modes the child has set.
    pub fn modes(&self) -> Modes {
        self.performer.term.modes()
    }

    /// Returns the size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns the number that grows with every change.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Collects a frame until its end and then shows it at once. Returns what follows it.
    fn feed_frame<'a>(&mut self, mut frame: Vec<u8>, bytes: &'a [u8]) -> &'a [u8] {
        let taken = match frame_end(&frame, bytes) {
            Some(end) => end,
            None => bytes.len(),
        };
        frame.extend_from_slice(&bytes[..taken]);
        let over = frame.ends_with(FRAME_END) || frame.len() > MAX_FRAME;
        self.frame = Some(frame);
        if over {
            self.end_frame();
        }
        &bytes[taken..]
    }

    /// Parses until a frame begins or all is done, and returns the rest.
    fn parse<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while !bytes.is_empty() && self.frame.is_none() {
            // The parser would carry out a string that these cancel, so they are kept from it.
            let window = &bytes[..bytes.len().min(STRIDE)];
            let mut clean = memchr::memchr2(CAN, SUB, window).unwrap_or(window.len());
            if clean == 0 {
                self.cancel();
                bytes = &bytes[1..];
            }
            while clean > 0 && self.frame.is_none() {
                let used = self.parse_some(&bytes[..clean]);
                bytes = &bytes[used..];
                clean -= used;
            }
        }
        bytes
    }

    /// Handles what cancels a sequence; at plain text it does nothing.
    fn cancel(&mut self) {
        self.settle();
        if !self.ground {
            self.parser = vte::Parser::new();
            self.performer.cancel();
            self.unfinished.clear();
        } else if !self.partial.is_empty() {
            self.print_utf8(&[], false);
        }
        self.performer.term.last_printed = None;
        self.skipping = None;
        self.ground = true;
    }

    /// Parses up to the next point of interest and returns how much that was.
    fn parse_some(&mut self, bytes: &[u8]) -> usize {
        if let Some(kind) = self.skipping {
            return self.skip_string(kind, bytes);
        }
        if self.ground {
            let used = self.parse_ground(bytes);
            if used > 0 {
                return used;
            }
        }
        self.performer.at_ground = false;
        let begins_anew = bytes[0] == 0x1b;
        self.performer.string_is_older = begins_anew;
        if begins_anew {
            // It ends whatever was under way.
            self.unfinished.clear();
        }
        let (sequence, complete) = self.clip_csi(bytes);
        let used = self.parser.advance_until_terminated(&mut self.performer, sequence);
        if complete && used == sequence.len() && !self.performer.at_ground {
            // One that makes no sense, which the parser leaves without a word.
            self.parser = vte::Parser::new();
            self.performer.at_ground = true;
        }
        self.ground = self.performer.at_ground;
        if self.ground {
            self.unfinished.clear();
        } else {
            // Controls within a sequence are obeyed at once, so they are not to be obeyed again.
            self.unfinished.extend(bytes[..used].iter().filter(|&&byte| byte >= 0x20 || byte == 0x1b));
            if self.unfinished.len() > MAX_STRING {
                self.shorten();
            }
        }
        if mem::take(&mut self.performer.frame_began) {
            self.frame = Some(Vec::new());
            self.last_frame.0 += 1;
        }
        used
    }

    /// Forgets most of a sequence that is too long.
    fn shorten(&mut self) {
        let kind = match self.unfinished[1..].iter().find(means) {
            Some(b']') => StringKind::Osc,
            Some(b'P' | b'X' | b'^' | b'_') => StringKind::Other,
            // Of other sequences the parser keeps no more than the beginning.
            _ => return self.unfinished.truncate(MAX_STRING),
        };
        self.parser = vte::Parser::new();
        self.performer.cancel();
        self.unfinished = Vec::new();
        self.skipping = Some(kind);
    }

    /// Cuts off what follows the sequence that is under way, and tells whether it is a control sequence that is complete.
    fn clip_csi<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], bool) {
        // ESC begins anew wherever it stands.
        let bytes = match memchr::memchr(0x1b, &bytes[1..]) {
            Some(at) => &bytes[..=at],
            None => bytes,
        };
        let bracket_from = |from: usize| {
            let at = from + bytes.get(from..)?.iter().position(|byte| means(&byte))?;
            (bytes[at] == b'[').then_some(at + 1)
        };
        let from = match &self.unfinished[..] {
            [] => bracket_from(1),
            [_, known @ ..] => match known.iter().find(means) {
                Some(second) => (*second == b'[').then_some(0),
                None => bracket_from(0),
            },
        };
        let Some(from) = from else { return (bytes, false) };
        match bytes[from..].iter().position(|byte| matches!(byte, 0x40..=0x7e)) {
            Some(at) => (&bytes[..=from + at], true),
            None => (bytes, false),
        }
    }

    /// Handles what needs no parser: text, whole characters and single controls. Returns how many bytes that was.
    fn parse_ground(&mut self, bytes: &[u8]) -> usize {
        if !self.partial.is_empty() || !bytes[0].is_ascii() {
            self.settle();
            let end = bytes.iter().position(u8::is_ascii).unwrap_or(bytes.len());
            self.print_utf8(&bytes[..end], end == bytes.len());
            if end > 0 {
                return end;
            }
        }
        let plain = plain_prefix(bytes);
        if plain > 0 {
            self.print_plain(&bytes[..plain]);
            return plain;
        }
        self.settle();
        match bytes.first() {
            None | Some(0x1b) => 0,
            Some(&control @ 0..=0x1f) => {
                self.performer.execute(control);
                1
            }
            // DEL, which is not printed.
            Some(_) => 1,
        }
    }

    /// Prints bytes that are not ASCII. What is no UTF-8 shows as U+FFFD; an unfinished character at the end of what
    /// came waits for the rest.
    fn print_utf8(&mut self, bytes: &[u8], may_go_on: bool) {
        let joined = match self.partial.is_empty() {
            true => None,
            false => Some([&mem::take(&mut self.partial)[..], bytes].concat()),
        };
        let mut rest = joined.as_deref().unwrap_or(bytes);
        loop {
            let (valid, wrong) = match str::from_utf8(rest) {
                Ok(text) => (text, None),
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    // Just checked.
                    (str::from_utf8(valid).unwrap_or_default(), Some((error.error_len(), after)))
                }
            };
            for c in valid.chars() {
                match c {
                    '\u{80}'..='\u{9f}' => self.performer.execute(c as u8),
                    _ => self.performer.term.print(c),
                }
            }
            match wrong {
                None => return,
                Some((None, unfinished)) if may_go_on => {
                    self.partial = unfinished.to_vec();
                    return;
                }
                Some((len, after)) => {
                    self.performer.term.print(char::REPLACEMENT_CHARACTER);
                    rest = &after[len.unwrap_or(after.len())..];
                }
            }
        }
    }

    /// Drops a string that was too long, up to its end. Returns how much that was.
    fn skip_string(&mut self, kind: StringKind, bytes: &[u8]) -> usize {
        let end = match kind {
            StringKind::Osc => memchr::memchr2(0x07, 0x1b, bytes),
            StringKind::Other => memchr::memchr(0x1b, bytes),
        };
        let Some(at) = end else { return bytes.len() };
        self.skipping = None;
        self.ground = true;
        // ESC begins the string's own end, or the next sequence; a bell is over with itself.
        at + usize::from(bytes[at] == 0x07)
    }

    /// Prints text, carriage returns and line feeds without the parser, or keeps them to be printed later.
    fn print_plain(&mut self, mut text: &[u8]) {
        while !text.is_empty() {
            let term = &self.performer.term;
            if !self.backlog.is_empty() || term.scrolls_with_plain_lines() {
                let taken = self.backlog.take_in(text, term.cols(), term.most_lines());
                text = &text[taken..];
            }
            if !text.is_empty() {
                self.settle();
                // After one line the next may be one to keep.
                let end = memchr::memchr(b'\n', text).map_or(text.len(), |at| at + 1);
                self.performer.term.print_plain(&text[..end]);
                text = &text[end..];
            }
        }
    }

    /// Draws what was kept back. To be called before anybody looks and before anything but plain text is obeyed.
    fn settle(&mut self) {
        if !self.backlog.is_empty() {
            self.backlog.drain(|text| self.performer.term.print_plain(text));
        }
    }
}

/// Tells whether a byte is part of a sequence. Others, obeyed at once or ignored, may stand even between its first two.
fn means(byte: &&u8) -> bool {
    matches!(byte, 0x20..=0x7e)
}

/// Returns how many of the bytes belong to a frame that ends in them; its end may have begun before them.
fn frame_end(frame: &[u8], bytes: &[u8]) -> Option<usize> {
    let most = FRAME_END.len() - 1;
    let before = &frame[frame.len().saturating_sub(most)..];
    let joint = [before, &bytes[..bytes.len().min(most)]].concat();
    let across = memmem::find(&joint, FRAME_END).map(|at| at + FRAME_END.len() - before.len());
    across.or_else(|| memmem::find(bytes, FRAME_END).map(|at| at + FRAME_END.len()))
}

/// Returns how many bytes at the front are printable ASCII or line ends.
fn plain_prefix(bytes: &[u8]) -> usize {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\r' | b'\n');
    // Without a way out in the middle a block is a few vector instructions.
    let is_plain_block = |block: &&[u8]| block.iter().fold(true, |plain, &byte| plain & is_plain(byte));
    let blocks = bytes.chunks_exact(PLAIN_BLOCK).take_while(is_plain_block).count() * PLAIN_BLOCK;
    let rest = &bytes[blocks..];
    blocks + rest.iter().position(|&byte| !is_plain(byte)).unwrap_or(rest.len())
}
