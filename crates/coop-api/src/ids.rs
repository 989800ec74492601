use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names one agent; unique on its machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct AgentId(pub String);

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Returns the number that follows.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Orders events and screens; grows by one with each.
    Seq
}
number! {
    /// Counts the bytes a child has written since the session began; never goes back.
    Offset
}
number! {
    /// Counts the children a session has had; the first is 1.
    Epoch
}
number! {
    /// Names one holder of the write lock, such as a WebSocket connection.
    WriterId
}

impl Offset {
    /// Returns the offset `len` bytes further on.
    #[must_use]
    pub fn plus(self, len: usize) -> Self {
        Self(self.0 + len as u64)
    }
}

/// Hashes what names are made of (FNV-1a): the same tomorrow and on another machine. It keeps names apart that differ by
/// accident, and nobody out who chooses them.
pub fn lasting_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
