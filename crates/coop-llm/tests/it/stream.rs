//! Streams in pieces of every size.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use coop_llm::{
    Agent, ApiKey, Claude, HttpReply, HttpRequest, Json, OpenAi, Part, ProviderConfig, Response, RunCx, StopReason,
    ToolUse, Transport, TransportError, Usage,
};
use futures_util::StreamExt;
use proptest::prelude::*;
use reqwest::header::HeaderMap;

use crate::canned::{hello, hi};

const PARALLEL: &str = include_str!("../data/parallel/1.sse");
const CHAT: &str = include_str!("../data/chat.sse");

/// Gives one answer in the given pieces.
struct Pieces(Vec<Bytes>);

#[async_trait]
impl Transport for Pieces {
    async fn send(&self, _request: HttpRequest) -> Result<HttpReply, TransportError> {
        let body = futures_util::stream::iter(self.0.clone().into_iter().map(Ok)).boxed();
        Ok(HttpReply { status: 200, headers: HeaderMap::new(), body })
    }
}

fn heard(pieces: Vec<Bytes>, provider: fn(Arc<dyn Transport>) -> Box<dyn Agent>) -> Response {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(provider(Arc::new(Pieces(pieces))).run(&hi(), &RunCx::default())).unwrap()
}

fn claude(transport: Arc<dyn Transport>) -> Box<dyn Agent> {
    Box::new(Claude::over(transport, ApiKey::new("k"), ProviderConfig::new("m")))
}

fn openai(transport: Arc<dyn Transport>) -> Box<dyn Agent> {
    Box::new(OpenAi::over(transport, ApiKey::new("k"), ProviderConfig::new("m")))
}

fn whole(text: &str) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(text.as_bytes())]
}

#[test]
fn a_stream_cut_anywhere_in_two_says_the_same() {
    for (text, provider) in [(PARALLEL, claude as fn(_) -> _), (&hello(), claude), (CHAT, openai)] {
        for text in [text.to_owned(), text.replace('\n', "\r\n"), text.replace('\n', "\r")] {
            let expected = heard(whole(&text), provider);
            let bytes = Bytes::from(text);
            for at in 0..=bytes.len() {
                assert_eq!(heard(vec![bytes.slice(..at), bytes.slice(at..)], provider), expected, "cut at {at}");
            }
            let single = (0..bytes.len()).map(|at| bytes.slice(at..=at)).collect();
            assert_eq!(heard(single, provider), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_stream_in_any_pieces_says_the_same(sizes in prop::collection::vec(0_usize..200, 1..200)) {
        let mut left = Bytes::from_static(PARALLEL.as_bytes());
        let mut pieces = Vec::new();
        for size in sizes {
            pieces.push(left.split_to(size.min(left.len())));
        }
        pieces.push(left);
        prop_assert_eq!(heard(pieces, claude), heard(whole(PARALLEL), claude));
    }
}

#[test]
fn what_is_not_known_is_passed_over_or_kept() {
    let text = concat!(
        "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":1}}}\n\n",
        ": a comment\n\n",
        "event: new_thing\ndata: {\"type\":\"new_thing\",\"x\":[]}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\",\"input\":{}}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"q\\\":1}\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"web_search_tool_result\",\"z\":1,  \"a\":2}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"citations_delta\",\"citation\":{}}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":9,\"delta\":{\"type\":\"text_delta\",\"text\":\"nowhere\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"brand_new\"},\"usage\":{\"input_tokens\":7,\"output_tokens\":3}}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    );
    let response = heard(whole(text), claude);
    assert_eq!(
        response.parts,
        [
            Part::Other(Json::new(r#"{"id":"s","input":{"q":1},"name":"web_search","type":"server_tool_use"}"#)),
            Part::Other(Json::new(r#"{"type":"web_search_tool_result","z":1,  "a":2}"#)),
        ]
    );
    assert_eq!(response.stop, StopReason::Other("brand_new".into()));
    assert_eq!(response.usage, Usage { input: 7, output: 3, ..Usage::default() });
}

#[test]
fn a_chat_may_end_without_saying_so() {
    let short = CHAT.replace("data: [DONE]\n\n", "");
    assert_eq!(heard(whole(&short), openai), heard(whole(CHAT), openai));
}

#[test]
fn chunks_of_a_chat_become_one_answer() {
    let call = |id: &str, input: &str| {
        Part::ToolUse(ToolUse { id: id.into(), name: "weather".into(), input: Json::new(input) })
    };
    let response = heard(whole(CHAT), openai);
    assert_eq!(
        response,
        Response {
            parts: vec![
                Part::text("I look: Zürich."),
                call("call_1", r#"{"city": "Zürich"}"#),
                call("call_2", r#"{"city": "東京"}"#),
            ],
            usage: Usage { input: 60, output: 31, cache_read: 40, cache_write: 0 },
            stop: StopReason::ToolUse,
            model: "gpt-x".into(),
            request_id: None,
        }
    );
}

/// Some servers give calls no numbers: then a new name is a new call.
#[test]
fn calls_without_numbers_are_told_apart() {
    let strip = |line: &str| match line.split_once("\"tool_calls\":[{\"index\":") {
        Some((before, after)) => format!("{before}\"tool_calls\":[{{{}", &after[2..]),
        None => line.to_owned(),
    };
    let bare: String = CHAT.lines().map(|line| strip(line) + "\n").collect();
    assert!(bare != CHAT && !bare.contains("\"tool_calls\":[{\"index\""), "{bare}");
    let parts = |text: &str| heard(whole(text), openai).parts;
    assert_eq!(parts(&bare), parts(CHAT));
}
