//! Anthropic's Messages.

use serde_json::{Value, json};

use crate::model::asked::{Asked, Delivery, Said, Tool, items, newest, result_text, string, texts};
use crate::model::fault::Fault;
use crate::model::reply::{Call, Frame, Reply, halves};

pub(super) fn read(body: &Value) -> Asked {
    let messages = items(&body["messages"]);
    let said =
        messages.iter().filter(|message| message["role"] == "user").flat_map(|message| heard(&message["content"]));
    let (text, results) = newest(said.collect());
    Asked {
        model: string(&body["model"]).to_owned(),
        system: texts(&body["system"]).join("\n"),
        delivery: Delivery::of(body),
        tools: items(&body["tools"]).iter().map(|tool| Tool::function(string(&tool["name"]))).collect(),
        messages: messages.len(),
        text,
        results,
    }
}

fn heard(content: &Value) -> Vec<Said> {
    match content {
        Value::String(text) => vec![Said::User(text.clone())],
        blocks => items(blocks)
            .iter()
            .filter_map(|block| match string(&block["type"]) {
                "text" => Some(Said::User(string(&block["text"]).to_owned())),
                "tool_result" => Some(Said::Result(result_text(&block["content"]))),
                _ => None,
            })
            .collect(),
    }
}

pub(super) fn frames(reply: &Reply) -> Vec<Frame> {
    // The output is told at the end.
    let start = json!({ "type": "message_start", "message": message(reply, json!([]), Value::Null, 1) });
    let mut frames = vec![Frame::event(&start)];
    let mut index = 0;
    if !reply.text.is_empty() {
        frames.push(opened(index, json!({ "type": "text", "text": "" })));
        for word in &reply.text {
            frames.push(changed(index, json!({ "type": "text_delta", "text": word.text })).after(word.wait));
        }
        frames.push(closed(index));
        index += 1;
    }
    if let Some(call) = &reply.call {
        frames.push(opened(index, tool_use(reply, call, json!({}))));
        // A client that expects an input in one piece must not pass.
        for half in halves(&call.input.to_string()) {
            frames.push(changed(index, json!({ "type": "input_json_delta", "partial_json": half })));
        }
        frames.push(closed(index));
    }
    let delta = json!({ "stop_reason": stop_reason(reply), "stop_sequence": null });
    let usage = usage(reply, reply.usage.output);
    frames.push(Frame::event(&json!({ "type": "message_delta", "delta": delta, "usage": usage })));
    frames.push(Frame::event(&json!({ "type": "message_stop" })));
    frames
}

pub(super) fn whole(reply: &Reply) -> Value {
    let text = (!reply.text.is_empty()).then(|| json!({ "type": "text", "text": reply.text() }));
    let call = reply.call.as_ref().map(|call| tool_use(reply, call, call.input.clone()));
    let content: Vec<Value> = text.into_iter().chain(call).collect();
    message(reply, json!(content), json!(stop_reason(reply)), reply.usage.output)
}

pub(super) fn fault(fault: &Fault) -> Value {
    let kind = fault.kind.as_deref().unwrap_or(match fault.status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    });
    let message = fault.message.clone().unwrap_or_else(|| format!("mock {kind}"));
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

fn message(reply: &Reply, content: Value, stop_reason: Value, output: u64) -> Value {
    json!({
        "id": format!("msg_{}", reply.id.0), "type": "message", "role": "assistant", "model": reply.model,
        "content": content, "stop_reason": stop_reason, "stop_sequence": null, "usage": usage(reply, output),
    })
}

fn usage(reply: &Reply, output: u64) -> Value {
    json!({
        "input_tokens": reply.usage.input,
        "cache_creation_input_tokens": reply.usage.cache_write,
        "cache_read_input_tokens": reply.usage.cache_read,
        "output_tokens": output,
    })
}

fn tool_use(reply: &Reply, call: &Call, input: Value) -> Value {
    json!({ "type": "tool_use", "id": format!("toolu_{}", reply.id.0), "name": call.name, "input": input })
}

fn stop_reason(reply: &Reply) -> &'static str {
    if reply.call.is_some() { "tool_use" } else { "end_turn" }
}

fn opened(index: usize, block: Value) -> Frame {
    Frame::event(&json!({ "type": "content_block_start", "index": index, "content_block": block }))
}

fn changed(index: usize, delta: Value) -> Frame {
    Frame::event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }))
}

fn closed(index: usize) -> Frame {
    Frame::event(&json!({ "type": "content_block_stop", "index": index }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::asked::ToolKind;
    use crate::model::protocol::testing;

    #[test]
    fn a_request_of_claude_code_is_read() {
        let body = json!({
            "model": "claude-opus-4-8", "stream": true, "max_tokens": 1,
            "system": [{ "type": "text", "text": "You are [[bash:no]]." }],
            "tools": [{ "name": "Bash", "input_schema": {} }, { "name": "Read" }],
            "messages": [
                { "role": "user", "content": "before" },
                { "role": "assistant", "content": [{ "type": "text", "text": "[[err:500]]" }] },
                { "role": "user", "content": [
                    { "type": "text", "text": "<system-reminder>[[bash:no]]</system-reminder>" },
                    { "type": "text", "text": "do it", "cache_control": { "type": "ephemeral" } },
                ] },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": "Bash", "input": {} }] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "t", "content": [{ "type": "text", "text": "out" }] },
                    { "type": "text", "text": "<system-reminder>soon</system-reminder>" },
                ] },
            ],
        });
        assert_eq!(
            read(&body),
            Asked {
                model: "claude-opus-4-8".to_owned(),
                system: "You are [[bash:no]].".to_owned(),
                delivery: Delivery::Stream,
                tools: ["Bash", "Read"].map(Tool::function).to_vec(),
                messages: 5,
                text: "do it".to_owned(),
                results: vec!["out".to_owned()],
            }
        );
    }

    #[test]
    fn a_text_streams_word_by_word() {
        insta::assert_snapshot!(testing::shown(&frames(&testing::text())), @r#"
        event: message_start
        data: {"message":{"content":[],"id":"msg_1","model":"m","role":"assistant","stop_reason":null,"stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":300,"cache_read_input_tokens":5000,"input_tokens":1200,"output_tokens":1}},"type":"message_start"}
        event: content_block_start
        data: {"content_block":{"text":"","type":"text"},"index":0,"type":"content_block_start"}
        event: content_block_delta
        data: {"delta":{"text":"Hello ","type":"text_delta"},"index":0,"type":"content_block_delta"}
        event: content_block_delta
        data: {"delta":{"text":"there.","type":"text_delta"},"index":0,"type":"content_block_delta"}
        event: content_block_stop
        data: {"index":0,"type":"content_block_stop"}
        event: message_delta
        data: {"delta":{"stop_reason":"end_turn","stop_sequence":null},"type":"message_delta","usage":{"cache_creation_input_tokens":300,"cache_read_input_tokens":5000,"input_tokens":1200,"output_tokens":42}}
        event: message_stop
        data: {"type":"message_stop"}
        "#);
    }

    #[test]
    fn a_call_streams_its_input() {
        insta::assert_snapshot!(testing::shown(&frames(&testing::call("Bash", ToolKind::Function))), @r#"
        event: message_start
        data: {"message":{"content":[],"id":"msg_1","model":"m","role":"assistant","stop_reason":null,"stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":300,"cache_read_input_tokens":5000,"input_tokens":1200,"output_tokens":1}},"type":"message_start"}
        event: content_block_start
        data: {"content_block":{"text":"","type":"text"},"index":0,"type":"content_block_start"}
        event: content_block_delta
        data: {"delta":{"text":"Calling.","type":"text_delta"},"index":0,"type":"content_block_delta"}
        event: content_block_stop
        data: {"index":0,"type":"content_block_stop"}
        event: content_block_start
        data: {"content_block":{"id":"toolu_1","input":{},"name":"Bash","type":"tool_use"},"index":1,"type":"content_block_start"}
        event: content_block_delta
        data: {"delta":{"partial_json":"{\"input","type":"input_json_delta"},"index":1,"type":"content_block_delta"}
        event: content_block_delta
        data: {"delta":{"partial_json":"\":\"ls\"}","type":"input_json_delta"},"index":1,"type":"content_block_delta"}
        event: content_block_stop
        data: {"index":1,"type":"content_block_stop"}
        event: message_delta
        data: {"delta":{"stop_reason":"tool_use","stop_sequence":null},"type":"message_delta","usage":{"cache_creation_input_tokens":300,"cache_read_input_tokens":5000,"input_tokens":1200,"output_tokens":42}}
        event: message_stop
        data: {"type":"message_stop"}
        "#);
    }

    #[test]
    fn an_answer_in_one_piece_has_both_blocks() {
        insta::assert_snapshot!(whole(&testing::call("Bash", ToolKind::Function)), @r#"{"content":[{"text":"Calling.","type":"text"},{"id":"toolu_1","input":{"input":"ls"},"name":"Bash","type":"tool_use"}],"id":"msg_1","model":"m","role":"assistant","stop_reason":"tool_use","stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":300,"cache_read_input_tokens":5000,"input_tokens":1200,"output_tokens":42}}"#);
    }

    #[test]
    fn errors_have_the_type_of_their_status() {
        let of = |status| fault(&Fault { status, kind: None, message: None, retry_after: None }).to_string();
        insta::assert_snapshot!([401, 429, 500, 529].map(of).join("\n"), @r#"
        {"error":{"message":"mock authentication_error","type":"authentication_error"},"type":"error"}
        {"error":{"message":"mock rate_limit_error","type":"rate_limit_error"},"type":"error"}
        {"error":{"message":"mock api_error","type":"api_error"},"type":"error"}
        {"error":{"message":"mock overloaded_error","type":"overloaded_error"},"type":"error"}
        "#);
    }
}
