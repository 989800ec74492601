//! Made-up consumption: every request to the model that is not there costs the same.

use serde_json::{Value, json};

use super::notice::Requests;

const INPUT: u64 = 1200;
const CACHE_CREATION: u64 = 300;
const CACHE_READ: u64 = 5000;
const OUTPUT: u64 = 42;
/// What the real one computes for these numbers.
const COST: f64 = 0.011_425;

/// The usage of one request, as the log has it.
pub(crate) fn of_request() -> Value {
    of_requests(1)
}

/// The usage of one request when its answer has only just begun, as the stream has it.
pub(crate) fn at_start() -> Value {
    json!({ "input_tokens": INPUT, "cache_creation_input_tokens": CACHE_CREATION,
        "cache_read_input_tokens": CACHE_READ, "output_tokens": 1 })
}

/// The sums of so many requests.
pub(crate) fn of_requests(count: u64) -> Value {
    json!({
        "input_tokens": INPUT * count,
        "cache_creation_input_tokens": CACHE_CREATION * count,
        "cache_read_input_tokens": CACHE_READ * count,
        "output_tokens": OUTPUT * count,
        "server_tool_use": { "web_search_requests": 0, "web_fetch_requests": 0 },
        "service_tier": "standard",
        "cache_creation": { "ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0 },
        "inference_geo": "", "iterations": [], "speed": "standard",
    })
}

/// `total_cost_usd`: over the whole process.
pub(crate) fn cost(requests: Requests) -> f64 {
    COST * requests.process as f64
}

/// `modelUsage`: over the whole process.
pub(crate) fn by_model(model: &str, requests: Requests) -> Value {
    let count = requests.process;
    if count == 0 {
        return json!({});
    }
    json!({ model: {
        "inputTokens": INPUT * count, "outputTokens": OUTPUT * count,
        "cacheReadInputTokens": CACHE_READ * count, "cacheCreationInputTokens": CACHE_CREATION * count,
        "webSearchRequests": 0, "costUSD": cost(requests),
        "contextWindow": if model.ends_with("[1m]") { 1_000_000 } else { 200_000 }, "maxOutputTokens": 64_000,
    } })
}

/// The name in a message: without the window size.
pub(crate) fn plain_model(model: &str) -> &str {
    model.split('[').next().unwrap_or(model)
}
