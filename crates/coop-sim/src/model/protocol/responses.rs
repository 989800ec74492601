//! OpenAI's Responses.

use std::time::Duration;

use serde_json::{Value, json};

use crate::model::asked::{Asked, Delivery, Said, Tool, ToolKind, items, newest, result_text, string, texts};
use crate::model::reply::{Call, Frame, Reply};

pub(super) fn read(body: &Value) -> Asked {
    let input = match &body["input"] {
        Value::String(text) => vec![json!({ "role": "user", "content": text })],
        input => items(input).to_vec(),
    };
    let (text, results) = newest(input.iter().flat_map(heard).collect());
    let mut system = vec![string(&body["instructions"]).to_owned()];
    let told = input.iter().filter(|item| item["role"] == "developer" || item["role"] == "system");
    system.extend(told.flat_map(|item| texts(&item["content"])));
    Asked {
        model: string(&body["model"]).to_owned(),
        system: system.join("\n"),
        delivery: Delivery::of(body),
        tools: items(&body["tools"]).iter().flat_map(offered).collect(),
        messages: input.len(),
        text,
        results,
    }
}

fn heard(item: &Value) -> Vec<Said> {
    match (string(&item["type"]), string(&item["role"])) {
        ("" | "message", "user") => texts(&item["content"]).into_iter().map(Said::User).collect(),
        ("function_call_output" | "custom_tool_call_output" | "local_shell_call_output", _) => {
            vec![Said::Result(result_text(&item["output"]))]
        }
        _ => Vec::new(),
    }
}

fn offered(tool: &Value) -> Vec<Tool> {
    let name = string(&tool["name"]).to_owned();
    match string(&tool["type"]) {
        "function" => vec![Tool { name, kind: ToolKind::Function }],
        "custom" => vec![Tool { name, kind: ToolKind::Freeform }],
        "local_shell" => vec![Tool { name: "local_shell".to_owned(), kind: ToolKind::LocalShell }],
        "namespace" => items(&tool["tools"])
            .iter()
            .map(|inner| Tool { name: string(&inner["name"]).to_owned(), kind: ToolKind::Namespaced(name.clone()) })
            .collect(),
        // Finds tools that are not listed, such as MCP servers'.
        "tool_search" => vec![Tool { name: "tool_search".to_owned(), kind: ToolKind::Function }],
        // The service's own, such as a web search.
        _ => Vec::new(),
    }
}

pub(super) fn frames(reply: &Reply) -> Vec<Frame> {
    let mut events = vec![(json!({ "type": "response.created", "response": opened(reply) }), Duration::ZERO)];
    let mut index = 0;
    if !reply.text.is_empty() {
        events.extend(text_events(reply, index));
        index += 1;
    }
    if let Some(call) = &reply.call {
        events.extend(call_events(reply, call, index).into_iter().map(|event| (event, Duration::ZERO)));
    }
    events.push((json!({ "type": "response.completed", "response": whole(reply) }), Duration::ZERO));
    let numbered = events.into_iter().enumerate().map(|(number, (mut event, wait))| {
        event["sequence_number"] = json!(number);
        Frame::event(&event).after(wait)
    });
    numbered.collect()
}

pub(super) fn whole(reply: &Reply) -> Value {
    let text = (!reply.text.is_empty()).then(|| message(reply, "completed", json!([part(&reply.text())])));
    let call = reply.call.as_ref().map(|call| call_item(reply, call, Filled::Whole));
    let output: Vec<Value> = text.into_iter().chain(call).collect();
    let usage = json!({
        "input_tokens": reply.usage.whole_input(),
        "input_tokens_details": { "cached_tokens": reply.usage.cache_read },
        "output_tokens": reply.usage.output,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": reply.usage.total(),
    });
    response(reply, "completed", json!(output), usage)
}

fn opened(reply: &Reply) -> Value {
    response(reply, "in_progress", json!([]), Value::Null)
}

fn response(reply: &Reply, status: &str, output: Value, usage: Value) -> Value {
    json!({
        "id": format!("resp_{}", reply.id.0), "object": "response", "created_at": 0, "status": status,
        "model": reply.model, "output": output, "usage": usage,
    })
}

fn text_events(reply: &Reply, index: usize) -> Vec<(Value, Duration)> {
    let id = format!("msg_{}", reply.id.0);
    let of_part = |kind: &str, key: &str, value: Value| json!({ "type": kind, "item_id": id, "output_index": index, "content_index": 0, key: value });
    let now = |event| (event, Duration::ZERO);
    let mut events = vec![
        now(item_event("added", index, message(reply, "in_progress", json!([])))),
        now(of_part("response.content_part.added", "part", part(""))),
    ];
    let delta = |text: &str| of_part("response.output_text.delta", "delta", json!(text));
    events.extend(reply.text.iter().map(|word| (delta(&word.text), word.wait)));
    events.push(now(of_part("response.output_text.done", "text", json!(reply.text()))));
    events.push(now(of_part("response.content_part.done", "part", part(&reply.text()))));
    events.push(now(item_event("done", index, message(reply, "completed", json!([part(&reply.text())])))));
    events
}

fn call_events(reply: &Reply, call: &Call, index: usize) -> Vec<Value> {
    let id = call_item(reply, call, Filled::Empty)["id"].clone();
    let of_item =
        |kind: &str, key: &str, value: &str| json!({ "type": kind, "item_id": id, "output_index": index, key: value });
    let filling = match &call.kind {
        ToolKind::Function | ToolKind::Namespaced(_) => {
            let arguments = call.input.to_string();
            vec![
                of_item("response.function_call_arguments.delta", "delta", &arguments),
                of_item("response.function_call_arguments.done", "arguments", &arguments),
            ]
        }
        ToolKind::Freeform => vec![
            of_item("response.custom_tool_call_input.delta", "delta", &freeform(&call.input)),
            of_item("response.custom_tool_call_input.done", "input", &freeform(&call.input)),
        ],
        ToolKind::LocalShell => Vec::new(),
    };
    let mut events = vec![item_event("added", index, call_item(reply, call, Filled::Empty))];
    events.extend(filling);
    events.push(item_event("done", index, call_item(reply, call, Filled::Whole)));
    events
}

/// Whether an item has its input yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    Empty,
    Whole,
}

fn call_item(reply: &Reply, call: &Call, filled: Filled) -> Value {
    let id = &reply.id.0;
    let call_id = format!("call_{id}");
    let status = match filled {
        Filled::Empty => "in_progress",
        Filled::Whole => "completed",
    };
    let input = |text: String| match filled {
        Filled::Empty => String::new(),
        Filled::Whole => text,
    };
    match &call.kind {
        ToolKind::Function => json!({
            "id": format!("fc_{id}"), "type": "function_call", "status": status, "call_id": call_id,
            "name": call.name, "arguments": input(call.input.to_string()),
        }),
        ToolKind::Namespaced(space) => json!({
            "id": format!("fc_{id}"), "type": "function_call", "status": status, "call_id": call_id,
            "namespace": space, "name": call.name, "arguments": input(call.input.to_string()),
        }),
        ToolKind::Freeform => json!({
            "id": format!("ctc_{id}"), "type": "custom_tool_call", "status": status, "call_id": call_id,
            "name": call.name, "input": input(freeform(&call.input)),
        }),
        ToolKind::LocalShell => json!({
            "id": format!("lsh_{id}"), "type": "local_shell_call", "status": status, "call_id": call_id,
            "action": { "type": "exec", "command": call.input["command"], "env": {} },
        }),
    }
}

/// Returns the input of a tool that takes text.
fn freeform(input: &Value) -> String {
    match input.as_str().or_else(|| input["input"].as_str()) {
        Some(text) => text.to_owned(),
        None => input.to_string(),
    }
}

fn item_event(what: &str, index: usize, item: Value) -> Value {
    json!({ "type": format!("response.output_item.{what}"), "output_index": index, "item": item })
}

fn message(reply: &Reply, status: &str, content: Value) -> Value {
    let id = format!("msg_{}", reply.id.0);
    json!({ "id": id, "type": "message", "status": status, "role": "assistant", "content": content })
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::protocol::testing;

    /// The types and names only, for the whole events are long.
    fn outline(frames: &[Frame]) -> String {
        frames
            .iter()
            .filter_map(|frame| frame.text.lines().next()?.strip_prefix("event: response."))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn a_request_of_codex_is_read() {
        let body = json!({
            "model": "gpt-5.5", "stream": true, "instructions": "You are Codex.",
            "tools": [
                { "type": "function", "name": "exec_command" },
                { "type": "custom", "name": "apply_patch" },
                { "type": "local_shell" },
                { "type": "web_search" },
                { "type": "namespace", "name": "mcp__coop", "tools": [{ "type": "function", "name": "ping" }] },
            ],
            "input": [
                { "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "[[bash:no]]" }] },
                { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "do it" }] },
                { "type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c" },
                { "type": "function_call_output", "call_id": "c", "output": "out" },
                { "type": "custom_tool_call_output", "call_id": "d", "output": [{ "type": "input_text", "text": "ok" }] },
            ],
        });
        let tool = |name: &str, kind| Tool { name: name.to_owned(), kind };
        assert_eq!(
            read(&body),
            Asked {
                model: "gpt-5.5".to_owned(),
                system: "You are Codex.\n[[bash:no]]".to_owned(),
                delivery: Delivery::Stream,
                tools: vec![
                    tool("exec_command", ToolKind::Function),
                    tool("apply_patch", ToolKind::Freeform),
                    tool("local_shell", ToolKind::LocalShell),
                    tool("ping", ToolKind::Namespaced("mcp__coop".to_owned())),
                ],
                messages: 5,
                text: "do it".to_owned(),
                results: vec!["out".to_owned(), "ok".to_owned()],
            }
        );
    }

    #[test]
    fn a_text_streams_word_by_word() {
        insta::assert_snapshot!(testing::shown(&frames(&testing::text())), @r#"
        event: response.created
        data: {"response":{"created_at":0,"id":"resp_1","model":"m","object":"response","output":[],"status":"in_progress","usage":null},"sequence_number":0,"type":"response.created"}
        event: response.output_item.added
        data: {"item":{"content":[],"id":"msg_1","role":"assistant","status":"in_progress","type":"message"},"output_index":0,"sequence_number":1,"type":"response.output_item.added"}
        event: response.content_part.added
        data: {"content_index":0,"item_id":"msg_1","output_index":0,"part":{"annotations":[],"text":"","type":"output_text"},"sequence_number":2,"type":"response.content_part.added"}
        event: response.output_text.delta
        data: {"content_index":0,"delta":"Hello ","item_id":"msg_1","output_index":0,"sequence_number":3,"type":"response.output_text.delta"}
        event: response.output_text.delta
        data: {"content_index":0,"delta":"there.","item_id":"msg_1","output_index":0,"sequence_number":4,"type":"response.output_text.delta"}
        event: response.output_text.done
        data: {"content_index":0,"item_id":"msg_1","output_index":0,"sequence_number":5,"text":"Hello there.","type":"response.output_text.done"}
        event: response.content_part.done
        data: {"content_index":0,"item_id":"msg_1","output_index":0,"part":{"annotations":[],"text":"Hello there.","type":"output_text"},"sequence_number":6,"type":"response.content_part.done"}
        event: response.output_item.done
        data: {"item":{"content":[{"annotations":[],"text":"Hello there.","type":"output_text"}],"id":"msg_1","role":"assistant","status":"completed","type":"message"},"output_index":0,"sequence_number":7,"type":"response.output_item.done"}
        event: response.completed
        data: {"response":{"created_at":0,"id":"resp_1","model":"m","object":"response","output":[{"content":[{"annotations":[],"text":"Hello there.","type":"output_text"}],"id":"msg_1","role":"assistant","status":"completed","type":"message"}],"status":"completed","usage":{"input_tokens":6500,"input_tokens_details":{"cached_tokens":5000},"output_tokens":42,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":6542}},"sequence_number":8,"type":"response.completed"}
        "#);
    }

    #[test]
    fn a_call_streams_its_arguments() {
        let call = testing::call("exec_command", ToolKind::Function);
        insta::assert_snapshot!(testing::shown(&call_frames(&call)), @r#"
        event: response.created
        data: {"response":{"created_at":0,"id":"resp_1","model":"m","object":"response","output":[],"status":"in_progress","usage":null},"sequence_number":0,"type":"response.created"}
        event: response.output_item.added
        data: {"item":{"arguments":"","call_id":"call_1","id":"fc_1","name":"exec_command","status":"in_progress","type":"function_call"},"output_index":0,"sequence_number":1,"type":"response.output_item.added"}
        event: response.function_call_arguments.delta
        data: {"delta":"{\"input\":\"ls\"}","item_id":"fc_1","output_index":0,"sequence_number":2,"type":"response.function_call_arguments.delta"}
        event: response.function_call_arguments.done
        data: {"arguments":"{\"input\":\"ls\"}","item_id":"fc_1","output_index":0,"sequence_number":3,"type":"response.function_call_arguments.done"}
        event: response.output_item.done
        data: {"item":{"arguments":"{\"input\":\"ls\"}","call_id":"call_1","id":"fc_1","name":"exec_command","status":"completed","type":"function_call"},"output_index":0,"sequence_number":4,"type":"response.output_item.done"}
        event: response.completed
        data: {"response":{"created_at":0,"id":"resp_1","model":"m","object":"response","output":[{"arguments":"{\"input\":\"ls\"}","call_id":"call_1","id":"fc_1","name":"exec_command","status":"completed","type":"function_call"}],"status":"completed","usage":{"input_tokens":6500,"input_tokens_details":{"cached_tokens":5000},"output_tokens":42,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":6542}},"sequence_number":5,"type":"response.completed"}
        "#);
    }

    fn call_frames(reply: &Reply) -> Vec<Frame> {
        let only_call = Reply { text: Vec::new(), ..reply.clone() };
        frames(&only_call)
    }

    #[test]
    fn other_kinds_of_tools_are_called_in_their_own_way() {
        let kinds = [ToolKind::Freeform, ToolKind::LocalShell, ToolKind::Namespaced("mcp".to_owned())];
        let items = kinds.map(|kind| {
            let reply = testing::call("x", kind);
            let item = reply.call.as_ref().map(|call| call_item(&reply, call, Filled::Whole).to_string());
            format!("{}\n{}", outline(&call_frames(&reply)), item.unwrap_or_default())
        });
        insta::assert_snapshot!(items.join("\n"), @r#"
        created output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done completed
        {"call_id":"call_1","id":"ctc_1","input":"ls","name":"x","status":"completed","type":"custom_tool_call"}
        created output_item.added output_item.done completed
        {"action":{"command":null,"env":{},"type":"exec"},"call_id":"call_1","id":"lsh_1","status":"completed","type":"local_shell_call"}
        created output_item.added function_call_arguments.delta function_call_arguments.done output_item.done completed
        {"arguments":"{\"input\":\"ls\"}","call_id":"call_1","id":"fc_1","name":"x","namespace":"mcp","status":"completed","type":"function_call"}
        "#);
    }

    #[test]
    fn an_answer_in_one_piece_has_both_items() {
        insta::assert_snapshot!(whole(&testing::call("exec_command", ToolKind::Function)), @r#"{"created_at":0,"id":"resp_1","model":"m","object":"response","output":[{"content":[{"annotations":[],"text":"Calling.","type":"output_text"}],"id":"msg_1","role":"assistant","status":"completed","type":"message"},{"arguments":"{\"input\":\"ls\"}","call_id":"call_1","id":"fc_1","name":"exec_command","status":"completed","type":"function_call"}],"status":"completed","usage":{"input_tokens":6500,"input_tokens_details":{"cached_tokens":5000},"output_tokens":42,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":6542}}"#);
    }
}
