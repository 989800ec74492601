//! Google's generateContent. The model and whether to stream are in the path:
//! `/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse`.

use serde_json::{Value, json};

use crate::model::asked::{Asked, Delivery, Said, Tool, items, newest, result_text, string, texts};
use crate::model::fault::Fault;
use crate::model::reply::{Frame, Reply};

pub(super) fn read(path: &str, body: &Value) -> Asked {
    let contents = items(&body["contents"]);
    // What the model said has another role; what tools returned may have none.
    let others = contents.iter().filter(|content| content["role"] != "model");
    let (text, results) = newest(others.flat_map(|content| items(&content["parts"])).filter_map(heard).collect());
    let (place, method) = path.rsplit_once(':').unwrap_or((path, ""));
    let declared = items(&body["tools"]).iter().flat_map(|tool| items(&tool["functionDeclarations"]));
    Asked {
        model: place.rsplit('/').next().unwrap_or_default().to_owned(),
        system: texts(&body["systemInstruction"]["parts"]).join("\n"),
        delivery: if method.starts_with("stream") { Delivery::Stream } else { Delivery::Whole },
        tools: declared.map(|function| Tool::function(string(&function["name"]))).collect(),
        messages: contents.len(),
        text,
        results,
    }
}

fn heard(part: &Value) -> Option<Said> {
    match (part["text"].as_str(), &part["functionResponse"]) {
        (Some(text), _) => Some(Said::User(text.to_owned())),
        (None, Value::Null) => None,
        (None, answer) => {
            let response = &answer["response"];
            let output = response.get("output").or_else(|| response.get("error")).unwrap_or(response);
            Some(Said::Result(result_text(output)))
        }
    }
}

pub(super) fn frames(reply: &Reply) -> Vec<Frame> {
    let words = reply
        .text
        .iter()
        .map(|word| Frame::data(&chunk(reply, vec![json!({ "text": word.text })], Value::Null)).after(word.wait));
    let last = Frame::data(&chunk(reply, call_part(reply).into_iter().collect(), json!("STOP")));
    words.chain([last]).collect()
}

pub(super) fn whole(reply: &Reply) -> Value {
    let text = (!reply.text.is_empty()).then(|| json!({ "text": reply.text() }));
    chunk(reply, text.into_iter().chain(call_part(reply)).collect(), json!("STOP"))
}

pub(super) fn fault(fault: &Fault) -> Value {
    let kind = fault.kind.as_deref().unwrap_or(match fault.status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        503 | 529 => "UNAVAILABLE",
        _ => "UNKNOWN",
    });
    let message = fault.message.clone().unwrap_or_else(|| format!("mock HTTP {}", fault.status));
    let mut error = json!({ "code": fault.status, "message": message, "status": kind });
    if let Some(seconds) = fault.retry_after {
        let delay = format!("{seconds}s");
        error["details"] = json!([{ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay }]);
    }
    json!({ "error": error })
}

/// An empty part keeps clients content that look for one.
fn chunk(reply: &Reply, parts: Vec<Value>, finish: Value) -> Value {
    let parts = if parts.is_empty() { vec![json!({ "text": "" })] } else { parts };
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    if !finish.is_null() {
        candidate["finishReason"] = finish;
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": reply.usage.whole_input(),
            "cachedContentTokenCount": reply.usage.cache_read,
            "candidatesTokenCount": reply.usage.output,
            "totalTokenCount": reply.usage.total(),
        },
        "modelVersion": reply.model,
        "responseId": reply.id.0,
    })
}

fn call_part(reply: &Reply) -> Option<Value> {
    let call = reply.call.as_ref()?;
    let id = format!("fc_{}", reply.id.0);
    Some(json!({ "functionCall": { "id": id, "name": call.name, "args": call.input } }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::asked::ToolKind;
    use crate::model::protocol::testing;

    #[test]
    fn a_request_of_the_gemini_cli_is_read() {
        let body = json!({
            "systemInstruction": { "role": "user", "parts": [{ "text": "You are Gemini." }] },
            "tools": [{ "functionDeclarations": [{ "name": "run_shell_command" }, { "name": "ask_user" }] }],
            "contents": [
                { "role": "user", "parts": [{ "text": "<session_context>[[bash:no]]</session_context>" }] },
                { "role": "user", "parts": [{ "text": "do it" }] },
                { "role": "model", "parts": [{ "text": "[[err:500]]" }] },
                { "role": "user", "parts": [
                    { "functionResponse": { "id": "c", "name": "x", "response": { "output": "out" } } },
                ] },
            ],
        });
        assert_eq!(
            read("/v1beta/models/gemini-2.5-pro:streamGenerateContent", &body),
            Asked {
                model: "gemini-2.5-pro".to_owned(),
                system: "You are Gemini.".to_owned(),
                delivery: Delivery::Stream,
                tools: ["run_shell_command", "ask_user"].map(Tool::function).to_vec(),
                messages: 4,
                text: "do it".to_owned(),
                results: vec!["out".to_owned()],
            }
        );
    }

    #[test]
    fn a_text_streams_word_by_word() {
        insta::assert_snapshot!(testing::shown(&frames(&testing::text())), @r#"
        data: {"candidates":[{"content":{"parts":[{"text":"Hello "}],"role":"model"},"index":0}],"modelVersion":"m","responseId":"1","usageMetadata":{"cachedContentTokenCount":5000,"candidatesTokenCount":42,"promptTokenCount":6500,"totalTokenCount":6542}}
        data: {"candidates":[{"content":{"parts":[{"text":"there."}],"role":"model"},"index":0}],"modelVersion":"m","responseId":"1","usageMetadata":{"cachedContentTokenCount":5000,"candidatesTokenCount":42,"promptTokenCount":6500,"totalTokenCount":6542}}
        data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"m","responseId":"1","usageMetadata":{"cachedContentTokenCount":5000,"candidatesTokenCount":42,"promptTokenCount":6500,"totalTokenCount":6542}}
        "#);
    }

    #[test]
    fn a_call_is_the_last_part() {
        insta::assert_snapshot!(whole(&testing::call("run_shell_command", ToolKind::Function)), @r#"{"candidates":[{"content":{"parts":[{"text":"Calling."},{"functionCall":{"args":{"input":"ls"},"id":"fc_1","name":"run_shell_command"}}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"m","responseId":"1","usageMetadata":{"cachedContentTokenCount":5000,"candidatesTokenCount":42,"promptTokenCount":6500,"totalTokenCount":6542}}"#);
    }

    #[test]
    fn an_error_says_when_to_come_back() {
        let busy = Fault { status: 429, kind: None, message: None, retry_after: Some(2) };
        insta::assert_snapshot!(fault(&busy), @r#"{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"2s"}],"message":"mock HTTP 429","status":"RESOURCE_EXHAUSTED"}}"#);
    }
}
