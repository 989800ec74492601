//! Tokens and what they cost.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Tokens of a call, or of several. The kinds do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Read at full price.
    pub input: u64,
    /// Written by the model.
    pub output: u64,
    /// Read from the provider's cache.
    pub cache_read: u64,
    /// Read and put into the cache.
    pub cache_write: u64,
}

impl Usage {
    /// Returns all tokens that the model read.
    pub fn total_input(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Returns all tokens.
    pub fn total(&self) -> u64 {
        self.total_input().saturating_add(self.output)
    }
}

impl Add for Usage {
    type Output = Self;

    // A provider's numbers are not trusted to be small.
    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Given")]
pub struct Price {
    /// Read at full price.
    pub input: f64,
    /// Written.
    pub output: f64,
    /// Read from the cache.
    pub cache_read: f64,
    /// Put into the cache.
    pub cache_write: f64,
}

/// A price in a file, where the cache may be left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl From<Given> for Price {
    fn from(given: Given) -> Self {
        let usual = Self::new(given.input, given.output);
        Self {
            cache_read: given.cache_read.unwrap_or(usual.cache_read),
            cache_write: given.cache_write.unwrap_or(usual.cache_write),
            ..usual
        }
    }
}

impl Price {
    /// Returns a price with Anthropic's rule for the cache: a tenth to read from it, a quarter more to put into it.
    pub const fn new(input: f64, output: f64) -> Self {
        Self { input, output, cache_read: input * 0.1, cache_write: input * 1.25 }
    }

    /// Returns US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        (usage.input as f64 * self.input
            + usage.output as f64 * self.output
            + usage.cache_read as f64 * self.cache_read
            + usage.cache_write as f64 * self.cache_write)
            / 1e6
    }

    /// Returns the most that reading a token can cost.
    pub(crate) fn dearest_input(&self) -> f64 {
        self.input.max(self.cache_read).max(self.cache_write)
    }
}

/// Prices by the beginnings of models' names.
///
/// ```
/// use coop_llm::{Price, Prices, Usage};
///
/// let prices = Prices::default().with("house-model", Price::new(1.0, 2.0));
/// let usage = Usage { input: 1_000_000, ..Usage::default() };
/// assert_eq!(prices.of("house-model-7b").map(|price| price.cost(&usage)), Some(1.0));
/// assert_eq!(prices.of("stranger"), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Prices(Vec<(String, Price)>);

/// Anthropic's list prices. Other providers' are for the user to give: compatible servers use each other's names.
const KNOWN: [(&str, Price); 9] = [
    ("claude-opus-4-1", Price::new(15.0, 75.0)),
    ("claude-opus-4-0", Price::new(15.0, 75.0)),
    ("claude-opus-4-2025", Price::new(15.0, 75.0)),
    ("claude-opus-4", Price::new(5.0, 25.0)),
    ("claude-3-opus", Price::new(15.0, 75.0)),
    ("claude-sonnet-4", Price::new(3.0, 15.0)),
    ("claude-3-7-sonnet", Price::new(3.0, 15.0)),
    ("claude-haiku-4", Price::new(1.0, 5.0)),
    ("claude-3-5-haiku", Price::new(0.8, 4.0)),
];

impl Default for Prices {
    fn default() -> Self {
        Self(KNOWN.iter().map(|(name, price)| ((*name).to_owned(), *price)).collect())
    }
}

impl Prices {
    /// Returns a table without prices.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Sets the price of all models whose names begin so. The longest beginning counts.
    pub fn with(mut self, model: impl Into<String>, price: Price) -> Self {
        let model = model.into();
        self.0.retain(|(name, _)| *name != model);
        self.0.push((model, price));
        self
    }

    /// Returns a model's price, if it is known.
    pub fn of(&self, model: &str) -> Option<Price> {
        let fits = self.0.iter().filter(|(name, _)| model.starts_with(name.as_str()));
        fits.max_by_key(|(name, _)| name.len()).map(|(_, price)| *price)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claude Code itself said 0.02285 for two such calls.
    #[test]
    fn a_call_costs_what_the_provider_says() {
        let usage = Usage { input: 1200, output: 42, cache_read: 5000, cache_write: 300 };
        let price = Prices::default().of("claude-opus-4-8[1m]").unwrap();
        assert!((price.cost(&usage) * 2.0 - 0.02285).abs() < 1e-9);
        assert_eq!(usage.total_input(), 6500);
        assert_eq!(usage.total(), 6542);
    }

    #[test]
    fn the_longest_name_and_the_users_price_win() {
        let prices = Prices::default();
        assert_eq!(prices.of("claude-opus-4-1-20250805").unwrap().input, 15.0);
        assert_eq!(prices.of("claude-opus-4-5").unwrap().input, 5.0);
        let prices = prices.with("claude-opus-4", Price::new(1.0, 1.0));
        assert_eq!(prices.of("claude-opus-4-5").unwrap().input, 1.0);
        assert_eq!(Prices::none().of("claude-opus-4-5"), None);
    }

    #[test]
    fn a_price_in_a_file_may_leave_out_the_cache() {
        let price: Price = serde_json::from_str(r#"{"input": 10, "output": 20, "cache_read": 5}"#).unwrap();
        assert_eq!(price, Price { input: 10.0, output: 20.0, cache_read: 5.0, cache_write: 12.5 });
        assert!(serde_json::from_str::<Price>(r#"{"input": 10, "output": 20, "x": 5}"#).is_err());
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let much = Usage { input: u64::MAX, output: u64::MAX, cache_read: 1, cache_write: 1 };
        assert_eq!((much + much).total(), u64::MAX);
    }
}
