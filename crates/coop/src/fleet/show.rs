//! One agent, for people to read.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use coop_api::visible_line;
use serde_json::Value;

use super::ask::items;
use super::table::{self, text};

/// Writes what is known of an agent, and what was done about it.
pub(super) fn agent(agent: &Value) -> io::Result<()> {
    let outcome = agent["outcome"]["outcome"].as_str().map(str::to_owned);
    let asks: Vec<_> = items(agent, "asks").iter().map(text).collect();
    let exit = match (agent["exit"]["code"].as_i64(), agent["exit"]["signal"].as_i64()) {
        (Some(code), _) => format!("code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => String::new(),
    };
    let cost = agent["cost_usd"].as_f64().filter(|cost| *cost > 0.0).map(|cost| format!("{cost:.4} USD"));
    facts(&[
        ("agent", text(&agent["id"])),
        ("state", outcome.unwrap_or_else(|| text(&agent["phase"]))),
        ("why", text(&agent["outcome"]["why"])),
        ("needs", text(&agent["needs"])),
        ("asks", asks.join(", ")),
        ("mode", mode(agent)),
        ("folder", text(&agent["folder"])),
        ("sandbox", if agent["sandbox"] == true { "yes".to_owned() } else { String::new() }),
        ("started", moment(&agent["since"])),
        ("ended", moment(&agent["ended"])),
        ("exit", exit),
        ("process", text(&agent["run"])),
        ("turn", text(&agent["turn"])),
        ("cost", cost.unwrap_or_default()),
        ("says", text(&agent["last_message"])),
    ])?;
    let warnings: Vec<_> = items(agent, "warnings").iter().map(|warning| ("warning", text(warning))).collect();
    facts(&warnings)?;
    let rows: Vec<_> = items(agent, "done").iter().map(deed).collect();
    writeln!(io::stdout())?;
    table::write(&["WHAT", "STATE", "WHEN", "ABOUT"], &rows)
}

/// Writes what an agent's state rests on, the newest last.
pub(super) fn explained(explained: &Value) -> io::Result<()> {
    let evidence = &explained["evidence"];
    let missing: Vec<_> = items(explained, "missing_signals").iter().map(text).collect();
    facts(&[
        ("state", text(&explained["state"]["state"])),
        ("because", format!("{}: {}", text(&evidence["source"]), text(&evidence["detail"]))),
        ("mode", text(&explained["permission_mode"])),
        ("not seen", missing.join(", ")),
    ])?;
    let row = |heard: &Value| ["ts", "source", "meaning", "verdict", "detail"].map(|name| text(&heard[name])).to_vec();
    let rows: Vec<_> = items(explained, "signals").iter().map(row).collect();
    writeln!(io::stdout())?;
    table::write(&["WHEN", "SOURCE", "MEANING", "VERDICT", "SAID"], &rows)
}

/// Writes the tokens that an agent has used.
pub(super) fn usage(usage: &Value) -> io::Result<()> {
    let row = |name: &str, used: &Value| {
        let cost = used["cost_usd"].as_f64().map(|cost| format!("{cost:.4}")).unwrap_or_default();
        let counts = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"];
        let counts = counts.map(|count| text(&used[count]));
        [[name.to_owned()].as_slice(), &counts, &[cost]].concat()
    };
    let rows = [row("this turn", &usage["turn"]), row("all", &usage["total"])];
    table::write(&["", "IN", "OUT", "CACHE READ", "CACHE WRITTEN", "USD"], &rows)?;
    let requests = if usage["requests"] == 1 { "request" } else { "requests" };
    writeln!(io::stdout(), "{} {requests} to the model", usage["requests"])
}

/// Returns a permission mode, with what the agent does in it without an ask.
fn mode(agent: &Value) -> String {
    let name = text(&agent["permission_mode"]);
    match (agent["used_without_ask"].as_str(), agent["asks_first"] == true) {
        (_, true) if name.is_empty() => "it asks before each tool".to_owned(),
        (_, true) => format!("{name}, but it asks before each tool"),
        (Some(used_without_ask), false) => format!("{name}: {used_without_ask}"),
        (None, false) => name,
    }
}

/// What is not there is not told.
fn facts(facts: &[(&str, String)]) -> io::Result<()> {
    let rows: Vec<_> = facts.iter().filter(|(_, value)| !value.is_empty()).collect();
    let mut out = io::stdout().lock();
    rows.iter().try_for_each(|(name, value)| writeln!(out, "{name:<9}{}", visible_line(value)))
}

fn deed(deed: &Value) -> Vec<String> {
    let effect = &deed["effect"];
    let about = ["message", "reason", "run", "why"].iter().map(|name| text(&effect[name]));
    let about: Vec<_> = about.chain([text(&deed["note"])]).filter(|text| !text.is_empty()).collect();
    vec![text(&effect["effect"]).replace('_', " "), text(&deed["state"]), moment(&deed["changed"]), about.join("; ")]
}

/// Returns a moment that is told in milliseconds, as people write it.
fn moment(at: &Value) -> String {
    let at = at.as_u64().map(|at| UNIX_EPOCH + Duration::from_millis(at));
    at.map(|at| humantime::format_rfc3339_seconds(at).to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::table::Paper;

    #[test]
    fn what_was_done_is_told_in_a_line() {
        let done = json!({
            "effect": { "effect": "resolve_stop" }, "state": "failed", "note": "it is gone", "changed": 1_790_000_000_000_u64
        });
        assert_eq!(deed(&done), ["resolve stop", "failed", "2026-09-21T14:13:20Z", "it is gone"]);
        let sent = json!({ "effect": { "effect": "send", "message": "go on" }, "state": "done", "changed": null });
        let shown = table::layout(&["WHAT", "STATE", "WHEN", "ABOUT"], &[deed(&sent)], Paper::Plain);
        assert_eq!(shown.lines().nth(1), Some("send  done         go on"));
    }
}
