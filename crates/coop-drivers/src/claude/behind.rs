//! What the logs are yet to tell of a turn. They are written when the agent has time, so the end of a turn may be known
//! before the last of what was said and done in it.

use std::collections::HashMap;

/// Who speaks: a sub-agent, or the agent itself.
type Speaker = Option<String>;

#[derive(Debug, Default)]
pub(super) struct Behind {
    /// What each said last in this turn, as far as it was told.
    said: HashMap<Speaker, String>,
    /// What each is known to have said last, until that is told.
    awaited: HashMap<Speaker, String>,
    /// Whether the line is awaited that ends a turn.
    end: bool,
    /// Whether the line with the person's message is awaited.
    prompt: bool,
}

impl Behind {
    pub(super) fn begin_turn(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_any(&self) -> bool {
        self.end || self.prompt || !self.awaited.is_empty()
    }

    /// Notes what was told.
    pub(super) fn said(&mut self, speaker: Option<&str>, text: &str) {
        let speaker = speaker.map(str::to_owned);
        if self.awaited.get(&speaker).is_some_and(|awaited| is_same(awaited, text)) {
            self.awaited.remove(&speaker);
        }
        self.said.insert(speaker, text.to_owned());
    }

    /// Notes what somebody said last, which a log will tell if it has not yet.
    pub(super) fn await_words(&mut self, speaker: Option<&str>, text: &str) {
        let speaker = speaker.map(str::to_owned);
        if !self.said.get(&speaker).is_some_and(|said| is_same(said, text)) {
            self.awaited.insert(speaker, text.to_owned());
        }
    }

    /// Notes that the log has not told yet what the person said.
    pub(super) fn await_prompt(&mut self) {
        self.prompt = true;
    }

    pub(super) fn record_prompt(&mut self) {
        self.prompt = false;
    }

    /// Notes that the turn is over, of which the log will have a line.
    pub(super) fn await_end(&mut self) {
        self.end = true;
    }

    pub(super) fn ended(&mut self) {
        self.end = false;
    }
}

/// Hooks are told it without the space around it.
fn is_same(one: &str, other: &str) -> bool {
    one.trim() == other.trim()
}
