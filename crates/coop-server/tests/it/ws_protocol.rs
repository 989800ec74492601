//! The WebSocket protocol itself, frame by frame, after the cases of the Autobahn suite.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::fake::{LIMIT, Live};

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FINAL: u8 = 0x80;

/// First byte and payload.
type Frame<'a> = (u8, &'a [u8]);

/// A connection on which we write every byte ourselves.
struct Raw(TcpStream);

impl Raw {
    async fn open(live: &Live) -> Self {
        let mut stream = TcpStream::connect(&live.address).await.expect("it listens");
        let request = format!(
            "GET /ws?mode=state HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            live.address
        );
        stream.write_all(request.as_bytes()).await.expect("it is open");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(LIMIT, stream.read_u8()).await.expect("in time").expect("an answer"));
        }
        let head = String::from_utf8(head).expect("text");
        assert!(head.starts_with("HTTP/1.1 101") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        Self(stream)
    }

    /// Sends a frame; `first` holds the final flag, reserved bits and opcode.
    async fn send(&mut self, first: u8, payload: &[u8]) {
        let mut frame = vec![first];
        match payload.len() {
            len @ 0..=125 => frame.push(0x80 | len as u8),
            len @ 126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend((len as u16).to_be_bytes());
            }
            len => {
                frame.push(0x80 | 127);
                frame.extend((len as u64).to_be_bytes());
            }
        }
        let mask = [0x11, 0x22, 0x33, 0x44];
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.write(&frame).await;
    }

    async fn write(&mut self, bytes: &[u8]) {
        // The other side may have closed already, which the next read tells.
        let _ = self.0.write_all(bytes).await;
    }

    /// Returns the next frame's first byte and payload; nothing when the connection is closed.
    async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let read = async {
            let first = self.0.read_u8().await.ok()?;
            let len = match self.0.read_u8().await.ok()? {
                126 => u64::from(self.0.read_u16().await.ok()?),
                127 => self.0.read_u64().await.ok()?,
                len => u64::from(len),
            };
            let mut payload = vec![0; len as usize];
            self.0.read_exact(&mut payload).await.ok()?;
            Some((first, payload))
        };
        timeout(LIMIT, read).await.expect("in time")
    }

    /// Expects the connection to be closed with this code.
    async fn closed(&mut self, code: u16, case: &str) {
        match self.next().await {
            Some((first, payload)) if first == FINAL | CLOSE => {
                assert_eq!(payload.get(..2), Some(&code.to_be_bytes()[..]), "{case}");
            }
            other => panic!("{case}: unexpected {other:?}"),
        }
    }
}

const JSON_PING: &[u8] = br#"{"type":"ping"}"#;
const JSON_PONG: &[u8] = br#"{"type":"pong"}"#;

#[tokio::test]
async fn pings_are_answered_with_their_payload() {
    let live = Live::start(None).await;
    let mut raw = Raw::open(&live).await;
    for payload in [&b""[..], b"Hello", &[0, 255, 254, 1], &[b'x'; 125]] {
        raw.send(FINAL | PING, payload).await;
        assert_eq!(raw.next().await, Some((FINAL | PONG, payload.to_vec())));
    }
    // An unasked pong is nothing.
    raw.send(FINAL | PONG, b"unasked").await;
    raw.send(FINAL | TEXT, JSON_PING).await;
    assert_eq!(raw.next().await, Some((FINAL | TEXT, JSON_PONG.to_vec())));
}

#[tokio::test]
async fn a_message_may_come_in_fragments_with_pings_between_and_byte_by_byte() {
    let live = Live::start(None).await;
    let mut raw = Raw::open(&live).await;
    raw.send(TEXT, &JSON_PING[..4]).await;
    raw.send(FINAL | PING, b"between").await;
    raw.send(0, &[]).await;
    raw.send(FINAL, &JSON_PING[4..]).await;
    assert_eq!(raw.next().await, Some((FINAL | PONG, b"between".to_vec())));
    assert_eq!(raw.next().await, Some((FINAL | TEXT, JSON_PONG.to_vec())));
    let mut frame = vec![FINAL | TEXT, 0x80 | JSON_PING.len() as u8, 0, 0, 0, 0];
    frame.extend(JSON_PING);
    for byte in frame {
        raw.write(&[byte]).await;
    }
    assert_eq!(raw.next().await, Some((FINAL | TEXT, JSON_PONG.to_vec())));
    // Text may be cut within a character.
    let text = r#"{"type":"ping","note":"漢字"}"#.as_bytes();
    let cut = text.iter().position(|byte| !byte.is_ascii()).expect("it is there") + 1;
    raw.send(TEXT, &text[..cut]).await;
    raw.send(FINAL, &text[cut..]).await;
    assert_eq!(raw.next().await, Some((FINAL | TEXT, JSON_PONG.to_vec())));
    for len in [0, 125, 126, 127, 128, 65535, 65536, 1 << 20] {
        raw.send(FINAL | BINARY, &vec![b'x'; len]).await;
    }
    raw.send(FINAL | TEXT, JSON_PING).await;
    assert_eq!(raw.next().await, Some((FINAL | TEXT, JSON_PONG.to_vec())));
    let typed: usize = live
        .fake
        .asked()
        .iter()
        .map(|request| match request {
            coop_api::Request::Write { input: coop_api::Input::Bytes(bytes), .. } => bytes.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(typed, 125 + 126 + 127 + 128 + 65535 + 65536 + (1 << 20));
}

#[tokio::test]
async fn what_the_protocol_forbids_ends_the_connection() {
    let live = Live::start(None).await;
    let cases: &[(&str, &[Frame], u16)] = &[
        ("a ping too long", &[(FINAL | PING, &[b'x'; 126])], 1002),
        ("a ping in fragments", &[(PING, b"x")], 1002),
        ("a reserved bit", &[(FINAL | 0x40 | TEXT, JSON_PING)], 1002),
        ("all reserved bits", &[(FINAL | 0x70 | PING, b"")], 1002),
        ("a reserved opcode", &[(FINAL | 3, b"")], 1002),
        ("a reserved control opcode", &[(FINAL | 11, b"")], 1002),
        ("a continuation of nothing", &[(FINAL, b"x")], 1002),
        ("a message within a message", &[(TEXT, b"a"), (FINAL | TEXT, b"b")], 1002),
        ("text that is no UTF-8", &[(FINAL | TEXT, &[0xce, 0xba, 0xe1, 0xff])], 1007),
        ("half a character at the end", &[(FINAL | TEXT, &[0xce])], 1007),
        ("a surrogate", &[(FINAL | TEXT, &[0xed, 0xa0, 0x80])], 1007),
        ("a close of one byte", &[(FINAL | CLOSE, b"x")], 1002),
        ("a close with a code that cannot be", &[(FINAL | CLOSE, &[0x03, 0xed])], 1002),
        ("a close whose reason is no UTF-8", &[(FINAL | CLOSE, &[0x03, 0xe8, 0xce])], 1007),
    ];
    for (case, frames, code) in cases {
        let mut raw = Raw::open(&live).await;
        for (first, payload) in *frames {
            raw.send(*first, payload).await;
        }
        raw.closed(*code, case).await;
    }
    let mut raw = Raw::open(&live).await;
    raw.write(&[FINAL | TEXT, 1, b'x']).await;
    raw.closed(1002, "a frame without a mask").await;
    assert!(live.fake.asked().iter().all(|request| !matches!(request, coop_api::Request::Write { .. })));
}

#[tokio::test]
async fn a_close_is_answered_in_kind() {
    let live = Live::start(None).await;
    for (payload, answer) in
        [(&b""[..], &b""[..]), (&[0x03, 0xe8], &[0x03, 0xe8]), (&[0x0b, 0xb8, b'b', b'y', b'e'], &[0x0b, 0xb8])]
    {
        let mut raw = Raw::open(&live).await;
        raw.send(FINAL | CLOSE, payload).await;
        let (first, told) = raw.next().await.expect("a close is answered");
        assert_eq!((first, &told[..answer.len()]), (FINAL | CLOSE, answer));
        assert_eq!(raw.next().await, None);
    }
}
