use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens read, without those from the cache.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from the cache.
    pub cache_read_tokens: u64,
    /// Tokens put into the cache.
    pub cache_write_tokens: u64,
    /// What they cost, in US dollars; nothing if a model's price is not known.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Adds another's numbers; the cost is known only while all of it is.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            // A billionth of a dollar is more than any price is exact to.
            (Some(ours), Some(theirs)) => Some(((ours + theirs) * 1e9).round() / 1e9),
            _ => None,
        };
    }

    /// Returns nothing used, at no cost.
    pub fn none() -> Self {
        Self { cost_usd: Some(0.0), ..Self::default() }
    }
}

/// What a session has used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageReport {
    /// In the turn that is under way, or the last one.
    pub turn: Usage,
    /// Since the conversation began, also by earlier processes.
    pub total: Usage,
    /// Requests to the model.
    pub requests: u64,
}
