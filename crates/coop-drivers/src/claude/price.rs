//! What tokens cost. The agent tells money only over pipes; in its terminal it is worked out from the log.

use coop_api::Usage;
use serde_json::Value;

/// US dollars for a million tokens, read and written; the first whose name a model's begins with. Reading from the cache
/// is a tenth of reading, putting into it is a quarter more, or twice as much for an hour.
const PRICES: [(&str, f64, f64); 9] = [
    ("claude-opus-4-1", 15.0, 75.0),
    ("claude-opus-4-0", 15.0, 75.0),
    ("claude-opus-4-2025", 15.0, 75.0),
    ("claude-opus-4", 5.0, 25.0),
    ("claude-3-opus", 15.0, 75.0),
    ("claude-sonnet", 3.0, 15.0),
    ("claude-3-7-sonnet", 3.0, 15.0),
    ("claude-haiku-4", 1.0, 5.0),
    ("claude-3-5-haiku", 0.8, 4.0),
];
const CACHE_READ: f64 = 0.1;
const CACHE_WRITE: f64 = 1.25;
const CACHE_WRITE_HOUR: f64 = 2.0;

/// Returns what a request cost, if the model's price is known.
pub(super) fn cost(model: &str, usage: &Usage, told: &Value) -> Option<f64> {
    let (_, read, write) = PRICES.iter().find(|(name, ..)| model.starts_with(name))?;
    let hour = told["cache_creation"]["ephemeral_1h_input_tokens"].as_u64().unwrap_or(0).min(usage.cache_write_tokens);
    let short = usage.cache_write_tokens - hour;
    let read_tokens = usage.input_tokens as f64
        + usage.cache_read_tokens as f64 * CACHE_READ
        + short as f64 * CACHE_WRITE
        + hour as f64 * CACHE_WRITE_HOUR;
    Some((read_tokens * read + usage.output_tokens as f64 * write) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The agent itself said 0.02285 for two such requests.
    #[test]
    fn a_request_costs_what_the_agent_says() {
        let usage = Usage {
            input_tokens: 1200,
            output_tokens: 42,
            cache_read_tokens: 5000,
            cache_write_tokens: 300,
            cost_usd: None,
        };
        let cost = cost("claude-opus-4-8[1m]", &usage, &Value::Null).expect("a known model");
        assert!((cost * 2.0 - 0.02285).abs() < 1e-9, "{cost}");
    }
}
