//! Identifiers: newtypes, and the one place that makes them up.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// One round of hooks for one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct HookRun(pub(crate) u64);

/// A timer or a gate the engine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WaitId(pub(crate) u64);

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub(crate) struct $name(pub(crate) String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// The conversation, and the name of its log.
    SessionId
);
text_id!(
    /// One call of one tool.
    ToolUseId
);
text_id!(
    /// One answer of the model; its content blocks share it.
    MessageId
);
text_id!(
    /// One question to the user.
    RequestId
);
text_id!(
    /// One sub-agent.
    AgentId
);

/// Makes identifiers that look like the real ones, from a seed, so that a test can foresee them.
#[derive(Debug)]
pub(crate) struct Ids {
    state: u64,
    serial: u64,
}

impl Ids {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { state: seed, serial: 0 }
    }

    pub(crate) fn random() -> Self {
        Self::seeded(RandomState::new().hash_one(std::process::id()))
    }

    /// Another source, for somebody who makes up identifiers on their own.
    pub(crate) fn split(&mut self) -> Self {
        Self::seeded(self.next())
    }

    pub(crate) fn uuid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            (low >> 48) & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }

    pub(crate) fn session(&mut self) -> SessionId {
        SessionId(self.uuid())
    }

    pub(crate) fn request(&mut self) -> RequestId {
        RequestId(self.uuid())
    }

    pub(crate) fn message(&mut self) -> MessageId {
        MessageId(format!("msg_{}", self.short()))
    }

    pub(crate) fn tool_use(&mut self) -> ToolUseId {
        ToolUseId(format!("toolu_{}", self.short()))
    }

    pub(crate) fn agent(&mut self) -> AgentId {
        AgentId(format!("a{:016x}", self.next()))
    }

    pub(crate) fn task(&mut self) -> String {
        format!("b{:07x}", self.next() & 0xfff_ffff)
    }

    pub(crate) fn hook_run(&mut self) -> HookRun {
        HookRun(self.count())
    }

    pub(crate) fn wait(&mut self) -> WaitId {
        WaitId(self.count())
    }

    fn count(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn short(&mut self) -> String {
        format!("{:016x}{:04x}", self.next(), self.next() & 0xffff)
    }

    /// SplitMix64: good enough to never repeat, small enough to need no crate.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Whether a text has the shape of a UUID, as `--session-id` demands.
pub(crate) fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_uuids_have_the_shape_and_differ() {
        let mut ids = Ids::seeded(7);
        let (first, second) = (ids.uuid(), ids.uuid());
        assert!(is_uuid(&first) && is_uuid(&second), "{first} {second}");
        assert_ne!(first, second);
        assert!(!is_uuid("not-a-uuid"));
    }
}
