use std::fmt;

use subtle::ConstantTimeEq;

/// A secret that is never printed.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Returns the token, unless it is empty or could not stand in a header.
    pub fn new(text: impl Into<String>) -> Result<Self, &'static str> {
        let text = text.into();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token is one or more printable ASCII characters without blanks");
        }
        Ok(Self(text))
    }

    /// Returns the token itself, for a header.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in constant time.
    pub fn matches(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
