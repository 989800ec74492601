//! What a client subscribes to, and how things are put into frames.

use std::ops::Range;

use axum::extract::ws::{Message, Utf8Bytes};
use bytes::{Bytes, BytesMut};
use coop_api::{Chunk, Error, Event, EventBody, Offset, Screen, Seq};
use serde::Deserialize;

use crate::follow::{From, Item, Output, Wants};
use crate::wire::{ServerMessage, Spelling, event_message, log_message};

/// The query of an upgrade.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Subscription {
    mode: Option<String>,
    subscribe: Option<String>,
    #[serde(deserialize_with = "flag")]
    pub(crate) binary: bool,
    #[serde(deserialize_with = "flag")]
    resync: bool,
    offset: Option<Offset>,
    /// The last event already known.
    pub(crate) after: Option<Seq>,
}

/// `?binary`, `?binary=1` and `?binary=true` all mean yes.
fn flag<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.as_str() {
        "" | "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        other => Err(serde::de::Error::custom(format!("{other:?} is neither true nor false"))),
    }
}

impl Subscription {
    /// Returns in which words, and which of the events, the client wants.
    pub(crate) fn telling(&self) -> Telling {
        let names: Vec<_> = self.list().split(',').map(str::trim).collect();
        let has = |name: &str| names.contains(&name);
        Telling {
            binary: self.binary,
            spelling: if self.subscribe.is_some() { Spelling::Short } else { Spelling::Long },
            messages: has("messages") || has("events") || has("all"),
            events: has("events") || has("all"),
            log: has("log"),
        }
    }

    fn list(&self) -> &str {
        self.subscribe.as_deref().or(self.mode.as_deref()).unwrap_or("all")
    }

    pub(crate) fn wants(&self) -> Result<Wants, Error> {
        let (mut output, mut screen) = (false, false);
        for name in self.list().split(',').map(str::trim) {
            match name {
                "raw" | "output" => output = true,
                "screen" => screen = true,
                // State and messages are events, which are chosen when they are told.
                "state" | "messages" | "events" | "log" => {}
                "all" => (output, screen) = (true, true),
                other => {
                    let message = format!(
                        "{other:?} cannot be subscribed to; use output (or raw), screen, state, messages, events, log or all"
                    );
                    return Err(Error::bad_request(message));
                }
            }
        }
        let from = self.offset.map_or(From::Now, From::Offset);
        let output = output.then_some(Output { from, resync: self.resync });
        Ok(Wants { output, screen, events: true })
    }
}

/// How a client wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Telling {
    /// Output as binary frames.
    binary: bool,
    spelling: Spelling,
    /// Also what is said and done.
    messages: bool,
    /// Also everything else that happens.
    events: bool,
    /// Everything that happens, whole and as it is kept, in place of all other messages about events.
    log: bool,
}

pub(crate) fn text(message: &ServerMessage) -> Message {
    Message::Text(encode(message))
}

fn encode(message: &ServerMessage) -> Utf8Bytes {
    // These types have no maps and no failing fields.
    serde_json::to_string(message).unwrap_or_default().into()
}

/// Puts something new into a frame, unless the client does not want it. Chunks and screens are encoded once for all
/// clients.
pub(crate) fn frame(item: &Item, telling: Telling) -> Option<Message> {
    Some(match item {
        Item::Output { chunk, part } if telling.binary => Message::Binary(binary_chunk(chunk, part)),
        Item::Output { chunk, part } => Message::Text(text_chunk(chunk, part)),
        Item::Gap { from, to } => text(&ServerMessage::Gap { from: *from, to: *to }),
        Item::Resync(dump) => text(&ServerMessage::Resync(dump.into())),
        Item::Screen(screen) => Message::Text(screen_text(screen)),
        Item::Event(event) => return event_frame(event, telling),
        Item::Lagged { from, to } => text(&ServerMessage::Lagged { from: *from, to: *to }),
    })
}

fn event_frame(event: &Event, telling: Telling) -> Option<Message> {
    if telling.log {
        return Some(Message::Text(log_message(event).to_string().into()));
    }
    if let Some(message) = ServerMessage::event(event, telling.spelling) {
        return Some(text(&message));
    }
    let is_wanted = match &event.body {
        EventBody::Message(_) | EventBody::Tool(_) => telling.messages,
        // Whoever follows the state must hear of every ask, also of a second one beside the first.
        EventBody::Ask(_) => true,
        EventBody::State(_)
        | EventBody::Turn(_)
        | EventBody::Artifact(_)
        | EventBody::Usage(_)
        | EventBody::Fault(_)
        | EventBody::Stop(_)
        | EventBody::Delivery(_)
        | EventBody::Lifecycle(_) => telling.events,
    };
    is_wanted.then(|| Message::Text(event_message(event).to_string().into()))
}

pub(crate) fn screen_text(screen: &Screen) -> Utf8Bytes {
    screen.message.get_or_make(|| encode(&ServerMessage::screen(screen, &[])))
}

fn text_chunk(chunk: &Chunk, part: &Range<usize>) -> Utf8Bytes {
    let make = || encode(&ServerMessage::output(chunk.offset.plus(part.start), &chunk.data[part.clone()]));
    if part.len() == chunk.data.len() { chunk.text.get_or_make(make) } else { make() }
}

fn binary_chunk(chunk: &Chunk, part: &Range<usize>) -> Bytes {
    let make = || {
        let mut frame = BytesMut::with_capacity(8 + part.len());
        frame.extend_from_slice(&chunk.offset.plus(part.start).0.to_be_bytes());
        frame.extend_from_slice(&chunk.data[part.clone()]);
        frame.freeze()
    };
    if part.len() == chunk.data.len() { chunk.binary.get_or_make(make) } else { make() }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_spellings_of_a_subscription_are_known() {
        let wants = |query: &str| {
            let uri = format!("http://x/ws?{query}").parse().expect("a uri");
            let axum::extract::Query(subscription) =
                axum::extract::Query::<Subscription>::try_from_uri(&uri).map_err(|error| error.to_string())?;
            let wants = subscription.wants().map_err(|error| error.to_string())?;
            Ok::<_, String>((wants.output.is_some(), wants.screen))
        };
        assert_eq!(wants(""), Ok((true, true)));
        assert_eq!(wants("mode=raw"), Ok((true, false)));
        assert_eq!(wants("mode=screen"), Ok((false, true)));
        assert_eq!(wants("mode=state"), Ok((false, false)));
        assert_eq!(wants("subscribe=state,messages"), Ok((false, false)));
        assert_eq!(wants("subscribe=log"), Ok((false, false)));
        assert_eq!(wants("subscribe=output,screen&binary=1"), Ok((true, true)));
        assert!(wants("mode=everything").is_err());
        assert!(wants("binary=maybe").is_err());
        assert!(wants("offset=-1").is_err());
    }

    proptest! {
        #[test]
        fn chunks_survive_both_encodings(data in prop::collection::vec(any::<u8>(), 1..300), at in 0_u64..1 << 40, cut in (0_usize..300, 0_usize..300)) {
            let start = cut.0.min(data.len() - 1);
            let part = start..data.len().saturating_sub(cut.1).max(start + 1);
            let chunk = Chunk::new(Offset(at), Bytes::copy_from_slice(&data));
            // Twice: the second time from the memo.
            for _ in 0..2 {
                let frame = binary_chunk(&chunk, &part);
                prop_assert_eq!(&frame[..8], &(at + start as u64).to_be_bytes());
                prop_assert_eq!(&frame[8..], &data[part.clone()]);
                let value: serde_json::Value = serde_json::from_str(&text_chunk(&chunk, &part)).expect("JSON");
                prop_assert_eq!(&value["type"], "output");
                prop_assert_eq!(value["offset"].as_u64(), Some(at + start as u64));
                let decoded = STANDARD.decode(value["data"].as_str().expect("text")).expect("base64");
                prop_assert_eq!(&decoded[..], &data[part.clone()]);
            }
        }
    }
}
