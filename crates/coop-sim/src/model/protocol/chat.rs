//! OpenAI's chat completions.

use std::time::Duration;

use serde_json::{Value, json};

use crate::model::asked::{Asked, Delivery, Said, Tool, items, newest, result_text, string, texts};
use crate::model::reply::{Call, Frame, Reply};

pub(super) fn read(body: &Value) -> Asked {
    let messages = items(&body["messages"]);
    let (text, results) = newest(messages.iter().flat_map(heard).collect());
    let told = messages.iter().filter(|message| message["role"] == "system" || message["role"] == "developer");
    Asked {
        model: string(&body["model"]).to_owned(),
        system: told.flat_map(|message| texts(&message["content"])).collect::<Vec<_>>().join("\n"),
        delivery: Delivery::of(body),
        tools: items(&body["tools"]).iter().map(|tool| Tool::function(string(&tool["function"]["name"]))).collect(),
        messages: messages.len(),
        text,
        results,
    }
}

fn heard(message: &Value) -> Vec<Said> {
    match string(&message["role"]) {
        "user" => texts(&message["content"]).into_iter().map(Said::User).collect(),
        "tool" => vec![Said::Result(result_text(&message["content"]))],
        _ => Vec::new(),
    }
}

pub(super) fn frames(reply: &Reply) -> Vec<Frame> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        Frame::data(&completion(reply, "chat.completion.chunk", json!([choice]), Value::Null))
    };
    let mut frames = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    frames.extend(reply.text.iter().map(|word| chunk(json!({ "content": word.text }), Value::Null).after(word.wait)));
    if let Some(call) = &reply.call {
        let begun = tool_call(reply, call, "");
        let rest = json!({ "index": 0, "function": { "arguments": call.input.to_string() } });
        frames.push(chunk(json!({ "tool_calls": [begun] }), Value::Null));
        frames.push(chunk(json!({ "tool_calls": [rest] }), Value::Null));
    }
    frames.push(chunk(json!({}), json!(finish_reason(reply))));
    frames.push(Frame::data(&completion(reply, "chat.completion.chunk", json!([]), usage(reply))));
    frames.push(Frame { text: "data: [DONE]\n\n".to_owned(), wait: Duration::ZERO });
    frames
}

pub(super) fn whole(reply: &Reply) -> Value {
    let mut message = json!({ "role": "assistant", "content": reply.text() });
    if let Some(call) = &reply.call {
        message["tool_calls"] = json!([tool_call(reply, call, &call.input.to_string())]);
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish_reason(reply) });
    completion(reply, "chat.completion", json!([choice]), usage(reply))
}

fn completion(reply: &Reply, object: &str, choices: Value, usage: Value) -> Value {
    json!({
        "id": format!("chatcmpl-{}", reply.id.0), "object": object, "created": 0, "model": reply.model,
        "choices": choices, "usage": usage,
    })
}

fn usage(reply: &Reply) -> Value {
    json!({
        "prompt_tokens": reply.usage.whole_input(),
        "completion_tokens": reply.usage.output,
        "total_tokens": reply.usage.total(),
        "prompt_tokens_details": { "cached_tokens": reply.usage.cache_read },
    })
}

fn tool_call(reply: &Reply, call: &Call, arguments: &str) -> Value {
    let function = json!({ "name": call.name, "arguments": arguments });
    json!({ "index": 0, "id": format!("call_{}", reply.id.0), "type": "function", "function": function })
}

fn finish_reason(reply: &Reply) -> &'static str {
    if reply.call.is_some() { "tool_calls" } else { "stop" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::asked::ToolKind;
    use crate::model::protocol::testing;

    #[test]
    fn a_request_of_opencode_is_read() {
        let body = json!({
            "model": "fixed", "stream": true,
            "tools": [{ "type": "function", "function": { "name": "bash" } }],
            "messages": [
                { "role": "system", "content": "You are OpenCode." },
                { "role": "user", "content": [{ "type": "text", "text": "do it" }] },
                { "role": "assistant", "content": "", "tool_calls": [] },
                { "role": "tool", "tool_call_id": "c", "content": "out" },
            ],
        });
        assert_eq!(
            read(&body),
            Asked {
                model: "fixed".to_owned(),
                system: "You are OpenCode.".to_owned(),
                delivery: Delivery::Stream,
                tools: vec![Tool::function("bash")],
                messages: 4,
                text: "do it".to_owned(),
                results: vec!["out".to_owned()],
            }
        );
    }

    #[test]
    fn a_text_streams_word_by_word() {
        insta::assert_snapshot!(testing::shown(&frames(&testing::text())), @r#"
        data: {"choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0}],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":null}
        data: {"choices":[{"delta":{"content":"Hello "},"finish_reason":null,"index":0}],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":null}
        data: {"choices":[{"delta":{"content":"there."},"finish_reason":null,"index":0}],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":null}
        data: {"choices":[{"delta":{},"finish_reason":"stop","index":0}],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":null}
        data: {"choices":[],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":42,"prompt_tokens":6500,"prompt_tokens_details":{"cached_tokens":5000},"total_tokens":6542}}
        data: [DONE]
        "#);
    }

    #[test]
    fn a_call_streams_its_arguments() {
        insta::assert_snapshot!(testing::shown(&frames(&testing::call("bash", ToolKind::Function))), @r#"
        data: {"choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0}],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":null}
        data: {"choices":[{"delta":{"content":"Calling."},"finish_reason":null,"index":0}],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":null}
        data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"","name":"bash"},"id":"call_1","index":0,"type":"function"}]},"finish_reason":null,"index":0}],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":null}
        data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"input\":\"ls\"}"},"index":0}]},"finish_reason":null,"index":0}],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":null}
        data: {"choices":[{"delta":{},"finish_reason":"tool_calls","index":0}],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":null}
        data: {"choices":[],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":42,"prompt_tokens":6500,"prompt_tokens_details":{"cached_tokens":5000},"total_tokens":6542}}
        data: [DONE]
        "#);
    }

    #[test]
    fn an_answer_in_one_piece_has_text_and_call() {
        insta::assert_snapshot!(whole(&testing::call("bash", ToolKind::Function)), @r#"{"choices":[{"finish_reason":"tool_calls","index":0,"message":{"content":"Calling.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"input\":\"ls\"}","name":"bash"},"id":"call_1","index":0,"type":"function"}]}}],"created":0,"id":"chatcmpl-1","model":"m","object":"chat.completion","usage":{"completion_tokens":42,"prompt_tokens":6500,"prompt_tokens_details":{"cached_tokens":5000},"total_tokens":6542}}"#);
    }
}
