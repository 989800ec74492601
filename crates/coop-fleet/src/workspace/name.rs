//! Names of workspaces and of what is noted about them.

use std::fmt;

use serde::{Deserialize, Serialize};

const LONGEST_NAME: usize = 100;
const LONGEST_KEY: usize = 64;
/// Notes that coop makes itself; what they say decides what may be deleted.
const OWN: [&str; 4] = ["base", "made", "closing", "hibernated"];

/// The name of a workspace, which is also its branch's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkspaceName(String);

/// The key of a note about a workspace: parts with dots between them, each a letter and then letters, digits and hyphens, and
/// no hyphen at its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(String);

/// Why something is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It cannot be a workspace's.
    #[error(
        "{0:?} cannot be the name of a workspace: letters, digits, -, _, . and /, beginning with a letter or digit, without \
         \"..\" and \".coop\", {LONGEST_NAME} at most"
    )]
    Workspace(String),
    /// It cannot be a key.
    #[error(
        "{0:?} cannot be a key: parts with dots between them, each a letter and then letters, digits and hyphens, \
         {LONGEST_KEY} at most"
    )]
    Key(String),
    /// It is a key that only coop sets.
    #[error("{0:?} is set by coop alone")]
    Own(String),
}

impl WorkspaceName {
    /// Returns the name, if it can be one. Whether git takes it as a branch's is git's to say.
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        let begins = text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
        // The part with ".coop" would be taken for a note about another branch.
        let is_one = begins && text.len() <= LONGEST_NAME && text.bytes().all(is_plain);
        if is_one && !text.contains("..") && !text.contains(".coop") && !text.ends_with('/') && !text.contains("//") {
            Ok(Self(text))
        } else {
            Err(NameError::Workspace(text))
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of its folder: one, without folders in it.
    pub(super) fn folder(&self) -> String {
        self.0.replace('/', "%")
    }

    /// Returns the name that a folder stands for.
    pub(super) fn of_folder(folder: &str) -> Result<Self, NameError> {
        Self::new(folder.replace('%', "/"))
    }
}

impl Key {
    /// Returns the key, if it can be one.
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        let is_part = |part: &str| {
            part.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !part.ends_with('-')
        };
        if text.len() <= LONGEST_KEY && text.split('.').all(is_part) {
            Ok(Self(text))
        } else {
            Err(NameError::Key(text))
        }
    }

    /// Returns the key, if it is one that others than coop may set.
    pub fn of_others(text: impl Into<String>) -> Result<Self, NameError> {
        let key = Self::new(text)?;
        if Self::is_own(&key.0) { Err(NameError::Own(key.0)) } else { Ok(key) }
    }

    /// Tells whether only coop sets this key.
    pub(super) fn is_own(text: &str) -> bool {
        OWN.contains(&text)
    }

    /// Returns one of coop's own.
    pub(super) fn own(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text!(WorkspaceName);
text!(Key);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_those_of_branches_and_keys_those_of_notes() {
        for name in ["a", "feature/x-1", "9.2_z", &"a".repeat(100)] {
            assert!(WorkspaceName::new(name).is_ok(), "{name}");
        }
        let long = "a".repeat(101);
        for name in ["", "-a", ".a", "/a", "a..b", "a\\b", "a b", "ä", "a/", "a//b", "a.coop", "a.coop.b", &long] {
            assert!(WorkspaceName::new(name).is_err(), "{name}");
        }
        for key in ["a", "reviewState", "tags.bug-2", "a.b.c", &"k".repeat(64)] {
            assert!(Key::new(key).is_ok(), "{key}");
        }
        let long = "k".repeat(65);
        for key in ["", "1a", "a-", "a.-b", "a..b", ".a", "a.", "a_b", "a b", "a\n", &long] {
            assert!(Key::new(key).is_err(), "{key}");
        }
        for key in OWN {
            assert_eq!(Key::of_others(key), Err(NameError::Own(key.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn a_folder_is_one_name_and_stands_for_its_workspace(text in "[A-Za-z0-9][-_./A-Za-z0-9]{0,40}") {
            if let Ok(name) = WorkspaceName::new(text) {
                prop_assert!(!name.folder().contains('/') && name.folder() != "." && name.folder() != "..");
                prop_assert_eq!(WorkspaceName::of_folder(&name.folder()), Ok(name));
            }
        }
    }
}
