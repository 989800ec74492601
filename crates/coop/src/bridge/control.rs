//! What tmux writes in control mode, as typed events. Pure: bytes in, events out.
//!
//! ```text
//! %begin TIME NUMBER FLAGS      a reply to a command; FLAGS is 1 if the command came from our input
//! ...lines...
//! %end TIME NUMBER FLAGS        or %error; the numbers repeat those of %begin
//! %output %PANE DATA            DATA escapes bytes below space and the backslash as \ooo
//! %layout-change @WINDOW ...    and other notifications, never within a reply
//! ```
//!
//! Everything is in one order: a reply shows the state after the output before it, and before the output after it.

use std::fmt;

use super::raw::Size;

/// No line of tmux comes near this: it writes at most 8 KiB of output at a time.
const MAX_LINE: usize = 1024 * 1024;

/// A pane of the server, for as long as the server lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PaneId(u32);

/// A window of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowId(u32);

/// How a window is divided: `CHECKSUM,WxH,X,Y` and then a pane's number or parts in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout(Vec<u8>);

/// One line of a reply.
pub(super) type Line = Vec<u8>;

/// Something tmux told us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A program wrote something.
    Output { pane: PaneId, data: Vec<u8> },
    /// A command of ours was done, or failed.
    Reply(Result<Vec<Line>, Vec<Line>>),
    /// A command was done, or failed, that did not come from our input: the one that attached us, or a hook.
    Foreign(Result<Vec<Line>, Vec<Line>>),
    /// Panes of a window were resized, made, closed or moved.
    LayoutChanged { window: WindowId, visible: Layout },
    /// Windows or sessions came or went.
    Regrouped,
    /// A format we subscribed to has another value.
    Subscription { name: Line, value: Line },
    /// tmux lets go of us.
    Exit { reason: String },
}

/// A line was too long to be tmux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineTooLong;

/// Turns the bytes of a control mode client into events.
#[derive(Default)]
pub(super) struct Decoder {
    partial: Line,
    reply: Option<OpenReply>,
}

struct OpenReply {
    guard: Line,
    lines: Vec<Line>,
}

impl Decoder {
    /// Takes the next bytes, which may end anywhere, and returns the events they complete.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, LineTooLong> {
        let mut events = Vec::new();
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let mut line = std::mem::take(&mut self.partial);
            line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            events.extend(self.line(line));
        }
        if self.partial.len() + bytes.len() > MAX_LINE {
            return Err(LineTooLong);
        }
        self.partial.extend_from_slice(bytes);
        Ok(events)
    }

    fn line(&mut self, line: Line) -> Option<Event> {
        let Some(mut reply) = self.reply.take() else {
            if let Some(guard) = line.strip_prefix(b"%begin ") {
                self.reply = Some(OpenReply { guard: guard.to_vec(), lines: Vec::new() });
                return None;
            }
            return notification(&line);
        };
        let outcome = if line.strip_prefix(b"%end ") == Some(&reply.guard) {
            Ok(reply.lines)
        } else if line.strip_prefix(b"%error ") == Some(&reply.guard) {
            Err(reply.lines)
        } else {
            reply.lines.push(line);
            self.reply = Some(reply);
            return None;
        };
        let flags = reply.guard.rsplit(|&byte| byte == b' ').next();
        Some(if flags == Some(b"1") { Event::Reply(outcome) } else { Event::Foreign(outcome) })
    }
}

fn notification(line: &[u8]) -> Option<Event> {
    let (name, rest) = split_word(line);
    match name {
        b"%output" => {
            let (pane, data) = split_word(rest);
            Some(Event::Output { pane: PaneId::parse(pane)?, data: unescape(data) })
        }
        b"%layout-change" => {
            let (window, layouts) = split_word(rest);
            let (_, visible) = split_word(layouts);
            let visible = Layout(split_word(visible).0.to_vec());
            Some(Event::LayoutChanged { window: WindowId::parse(window)?, visible })
        }
        b"%window-close" | b"%unlinked-window-close" | b"%session-changed" | b"%sessions-changed" => {
            Some(Event::Regrouped)
        }
        b"%subscription-changed" => {
            let (name, rest) = split_word(rest);
            let value = rest.windows(3).position(|three| three == b" : ").map(|at| &rest[at + 3..])?;
            Some(Event::Subscription { name: name.to_vec(), value: value.to_vec() })
        }
        b"%exit" => Some(Event::Exit { reason: String::from_utf8_lossy(rest).into_owned() }),
        _ => None,
    }
}

/// Undoes tmux's octal escapes. A backslash that starts none stands for itself.
pub(super) fn unescape(data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(data.len());
    let mut rest = data;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), after)
            }
            _ => (first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    bytes
}

fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|&byte| byte == b' ') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

fn parse_id(text: &[u8], sigil: u8) -> Option<u32> {
    std::str::from_utf8(text.strip_prefix(&[sigil])?).ok()?.parse().ok()
}

impl PaneId {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        parse_id(text, b'%').map(Self)
    }
}

impl WindowId {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        parse_id(text, b'@').map(Self)
    }
}

impl Layout {
    /// Returns the size of a pane, if it is part of this.
    pub(super) fn size_of(&self, pane: PaneId) -> Option<Size> {
        let text = std::str::from_utf8(&self.0).ok()?;
        let parts: Vec<&str> = text.split([',', '[', ']', '{', '}']).filter(|part| !part.is_empty()).collect();
        // A size starts each part, so the number after a size, X and Y is a pane's, unless a size follows.
        let leaf = parts.windows(4).find(|part| part[0].contains('x') && part[3].parse() == Ok(pane.0))?;
        let (cols, rows) = leaf[0].split_once('x')?;
        Some(Size { cols: cols.parse().ok()?, rows: rows.parse().ok()? })
    }
}

impl fmt::Display for PaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for WindowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &[u8]) -> Vec<Event> {
        Decoder::default().push(text).unwrap()
    }

    fn output(pane: u32, data: &[u8]) -> Event {
        Event::Output { pane: PaneId(pane), data: data.to_vec() }
    }

    /// Escapes as `control_append_data` of tmux does.
    fn escape(data: &[u8]) -> Vec<u8> {
        let escaped = data.iter().flat_map(|&byte| match byte {
            0..b' ' | b'\\' => format!("\\{byte:03o}").into_bytes(),
            _ => vec![byte],
        });
        escaped.collect()
    }

    #[test]
    fn output_carries_every_byte_value() {
        let all: Vec<u8> = (0..=255).collect();
        let line = [b"%output %7 ", &escape(&all)[..], b"\n"].concat();
        assert_eq!(decode(&line), [output(7, &all)]);
    }

    #[test]
    fn a_line_may_come_in_pieces() {
        let text = b"%output %1 a\\033[0m\\134\n%begin 5 2 1\nx\n%end 5 2 1\n%output %1  b \n";
        let whole = decode(text);
        assert_eq!(whole, [output(1, b"a\x1b[0m\\"), Event::Reply(Ok(vec![b"x".to_vec()])), output(1, b" b ")]);
        for cut in 0..text.len() {
            let mut decoder = Decoder::default();
            let mut events = decoder.push(&text[..cut]).unwrap();
            events.extend(decoder.push(&text[cut..]).unwrap());
            assert_eq!(events, whole, "cut at {cut}");
        }
        let mut decoder = Decoder::default();
        let bytewise: Vec<Event> = text.iter().flat_map(|&byte| decoder.push(&[byte]).unwrap()).collect();
        assert_eq!(bytewise, whole);
    }

    #[test]
    fn what_starts_no_escape_stands_for_itself() {
        assert_eq!(unescape(br"\\ \9 \12 \400 \12"), br"\\ \9 \12 \400 \12");
        assert_eq!(unescape(br"\101\1011\"), br"AA1\");
    }

    #[test]
    fn a_reply_holds_everything_up_to_its_own_end() {
        let text = b"%begin 9 4 1\n%end 9 3 1\n%output %1 no\n\n%end 9 4 1\n";
        let lines = vec![b"%end 9 3 1".to_vec(), b"%output %1 no".to_vec(), Vec::new()];
        assert_eq!(decode(text), [Event::Reply(Ok(lines))]);
    }

    #[test]
    fn replies_tell_failure_and_who_asked() {
        let text = b"%begin 9 4 0\ncan't find session: x\n%error 9 4 0\n%begin 9 5 1\n%error 9 5 1\n";
        let complaint = vec![b"can't find session: x".to_vec()];
        assert_eq!(decode(text), [Event::Foreign(Err(complaint)), Event::Reply(Err(Vec::new()))]);
    }

    #[test]
    fn notifications_that_matter_are_told_apart() {
        let text = b"%layout-change @3 b25f,80x24,0,0,2 b25f,80x23,0,0,2 *\n%window-close @3\n%sessions-changed\n\
            %subscription-changed coop $1 @3 0 %2 : a : b\n%window-renamed @3 bash\n%exit\n%exit server exited\n";
        assert_eq!(
            decode(text),
            [
                Event::LayoutChanged { window: WindowId(3), visible: Layout(b"b25f,80x23,0,0,2".to_vec()) },
                Event::Regrouped,
                Event::Regrouped,
                Event::Subscription { name: b"coop".to_vec(), value: b"a : b".to_vec() },
                Event::Exit { reason: String::new() },
                Event::Exit { reason: "server exited".to_owned() },
            ]
        );
    }

    #[test]
    fn a_layout_tells_the_size_of_each_pane() {
        let layout = Layout(b"d67e,200x50,0,0{100x50,0,0,1,99x50,101,0[99x25,101,0,20,99x24,101,26,3]}".to_vec());
        assert_eq!(layout.size_of(PaneId(1)), Some(Size { cols: 100, rows: 50 }));
        assert_eq!(layout.size_of(PaneId(20)), Some(Size { cols: 99, rows: 25 }));
        assert_eq!(layout.size_of(PaneId(3)), Some(Size { cols: 99, rows: 24 }));
        assert_eq!(layout.size_of(PaneId(2)), None);
        assert_eq!(layout.size_of(PaneId(0)), None);
        assert_eq!(Layout(b"b25f,80x24,0,0,2".to_vec()).size_of(PaneId(2)), Some(Size { cols: 80, rows: 24 }));
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(&vec![b'a'; MAX_LINE]), Ok(Vec::new()));
        assert_eq!(decoder.push(b"a"), Err(LineTooLong));
    }
}
