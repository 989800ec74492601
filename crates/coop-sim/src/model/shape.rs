//! What a provider refuses: conversations whose calls and results do not belong together.

use std::collections::BTreeSet;

use serde_json::Value;

use super::asked::{items, string};
use super::protocol::Protocol;

/// Returns why the provider would refuse a request, if it would.
pub(crate) fn fault(protocol: Protocol, body: &Value) -> Option<String> {
    match protocol {
        Protocol::Anthropic => anthropic(body).err(),
        Protocol::Chat => chat(items(&body["messages"])).err(),
        // The calls may stand in the response that is named.
        Protocol::Responses if body["previous_response_id"].is_string() => None,
        Protocol::Responses => responses(items(&body["input"])).err(),
        Protocol::Gemini => None,
    }
}

fn anthropic(body: &Value) -> Result<(), String> {
    if body["max_tokens"].as_u64().is_none_or(|max| max == 0) {
        return Err("max_tokens: a number above 0 is required".into());
    }
    let turns = turns(items(&body["messages"]));
    if turns.first().is_none_or(|(role, _)| *role != "user") {
        return Err("messages: the first must be the user's".into());
    }
    let mut calls = BTreeSet::new();
    for (_, blocks) in &turns {
        let results = ids(blocks, "tool_result", "tool_use_id");
        paired(&calls, &results)?;
        let after = blocks.iter().skip_while(|block| block["type"] == "tool_result");
        if after.clone().any(|block| block["type"] == "tool_result") {
            return Err("messages: tool_result blocks must come first".into());
        }
        if after.into_iter().any(|block| block["type"] == "text" && string(&block["text"]).trim().is_empty()) {
            return Err("messages: text blocks must not be empty".into());
        }
        calls = ids(blocks, "tool_use", "id");
    }
    paired(&calls, &BTreeSet::new())
}

/// Returns the blocks of each side's turns: messages of one role that follow each other are one.
fn turns(messages: &[Value]) -> Vec<(&str, Vec<&Value>)> {
    let mut turns: Vec<(&str, Vec<&Value>)> = Vec::new();
    for message in messages {
        let role = string(&message["role"]);
        match turns.last_mut() {
            Some((last, blocks)) if *last == role => blocks.extend(items(&message["content"])),
            Some(_) | None => turns.push((role, items(&message["content"]).iter().collect())),
        }
    }
    turns
}

fn ids<'a>(blocks: &[&'a Value], kind: &str, key: &str) -> BTreeSet<&'a str> {
    blocks.iter().filter(|block| block["type"] == kind).map(|block| string(&block[key])).collect()
}

/// Sees that every call has a result, and every result a call.
fn paired(calls: &BTreeSet<&str>, results: &BTreeSet<&str>) -> Result<(), String> {
    if let Some(call) = calls.difference(results).next() {
        return Err(format!("the call {call:?} has no result right after it"));
    }
    match results.difference(calls).next() {
        Some(result) => Err(format!("the result of {result:?} has no call right before it")),
        None => Ok(()),
    }
}

fn chat(messages: &[Value]) -> Result<(), String> {
    let mut calls = BTreeSet::new();
    let mut results = BTreeSet::new();
    for message in messages {
        if message["role"] == "tool" {
            results.insert(string(&message["tool_call_id"]));
            continue;
        }
        paired(&calls, &std::mem::take(&mut results))?;
        calls = items(&message["tool_calls"]).iter().map(|call| string(&call["id"])).collect();
    }
    paired(&calls, &results)
}

fn responses(input: &[Value]) -> Result<(), String> {
    let called = |is_result: bool| -> BTreeSet<&str> {
        let named = input.iter().filter(|item| item["call_id"].is_string());
        named
            .filter(|item| string(&item["type"]).ends_with("_output") == is_result)
            .map(|item| string(&item["call_id"]))
            .collect()
    };
    paired(&called(false), &called(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(messages: Value) -> Option<String> {
        fault(Protocol::Anthropic, &json!({ "max_tokens": 1, "messages": messages }))
    }

    fn user(content: Value) -> Value {
        json!({ "role": "user", "content": content })
    }

    fn call(id: &str) -> Value {
        json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": id, "name": "f", "input": {} }] })
    }

    fn result(id: &str) -> Value {
        json!({ "type": "tool_result", "tool_use_id": id, "content": "x" })
    }

    #[test]
    fn calls_and_results_of_anthropic_belong_together() {
        let text = json!({ "type": "text", "text": "and" });
        let go = user(json!("go"));
        assert_eq!(of(json!([go, call("a"), user(json!([result("a"), text]))])), None);
        assert_eq!(of(json!([go, call("a"), user(json!([result("a")])), user(json!("on"))])), None);
        let refused = [
            json!([]),
            json!([call("a"), user(json!([result("a")]))]),
            json!([go, call("a")]),
            json!([go, call("a"), user(json!("never mind"))]),
            json!([go, call("a"), call("b"), user(json!([result("a")]))]),
            json!([go, user(json!([result("a")]))]),
            json!([go, call("a"), user(json!([text, result("a")]))]),
            json!([user(json!([{ "type": "text", "text": " " }]))]),
        ];
        for messages in refused {
            assert!(of(messages.clone()).is_some(), "{messages}");
        }
        assert!(fault(Protocol::Anthropic, &json!({ "messages": [go] })).is_some(), "max_tokens is needed");
    }

    #[test]
    fn calls_and_results_of_openai_belong_together() {
        let chat = |messages| fault(Protocol::Chat, &json!({ "messages": messages }));
        let calls = json!({ "role": "assistant", "tool_calls": [{ "id": "a" }, { "id": "b" }] });
        let [a, b] = ["a", "b"].map(|id| json!({ "role": "tool", "tool_call_id": id }));
        assert_eq!(chat(json!([calls, b, a, { "role": "user" }])), None);
        assert!(chat(json!([calls, a])).is_some());
        assert!(chat(json!([calls, a, { "role": "user" }, b])).is_some());
        assert!(chat(json!([a])).is_some());
        let [call, output] =
            ["function_call", "function_call_output"].map(|kind| json!({ "type": kind, "call_id": "a" }));
        let responses = |input: Value| fault(Protocol::Responses, &json!({ "input": input }));
        assert_eq!(responses(json!([call, { "type": "message" }, output])), None);
        assert!(responses(json!([call])).is_some());
        assert!(responses(json!([output])).is_some());
        let later = json!({ "previous_response_id": "r", "input": [output] });
        assert_eq!(fault(Protocol::Responses, &later), None);
    }
}
