//! The JSON that goes over the wire.

mod agent;
mod ask;
mod client_message;
mod input;
mod process;
mod screen;
mod server_message;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use coop_api::Error;

pub(crate) use self::agent::{AgentBody, NudgeBody, NudgesBody, StopBody};
pub(crate) use self::ask::{AsksBody, PromptBody};
pub(crate) use self::client_message::ClientMessage;
pub(crate) use self::input::{
    Delivered, InputBody, KeysBody, LockBody, LockedBody, Nothing, ResizeBody, SignalBody, typed,
};
pub(crate) use self::process::{HealthBody, StatusBody};
pub(crate) use self::screen::{DumpBody, Format, Gap, OutputBody, ScreenBody, ansi_lines, text_lines};
pub(crate) use self::server_message::{ServerMessage, Spelling, event_message, log_message, tool};

pub(crate) fn from_base64(text: &str) -> Result<Bytes, Error> {
    match STANDARD.decode(text) {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) => Err(Error::bad_request(format!("the data is not base64: {error}"))),
    }
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
