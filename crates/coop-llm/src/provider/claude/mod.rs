//! Anthropic's Messages API: what is sent. The answer is put together in `answer`.

mod answer;

use std::sync::Arc;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    ApiKey, ErrorReply, Fault, Http, HttpRequest, Protocol, Provider, ProviderConfig, Transport, address, with_extra,
};
use crate::{AgentError, ErrorKind, Message, Part, Request, Role, Text, ThinkingMode, ToolResult, ToolSpec};

/// Claude, by Anthropic's Messages API or something that speaks it.
///
/// ```no_run
/// # fn main() -> Result<(), coop_llm::AgentError> {
/// use coop_llm::{Claude, KeySources, ProviderConfig};
///
/// let key = KeySources::anthropic().find(|name| std::env::var(name).ok())?;
/// let claude = Claude::new(key, ProviderConfig::new("claude-sonnet-4-5"))?;
/// # Ok(())
/// # }
/// ```
pub type Claude = Provider<Messages>;

impl Claude {
    /// Returns a client with a connection pool of its own.
    pub fn new(key: ApiKey, config: ProviderConfig) -> Result<Self, AgentError> {
        // What is wrong is better said before there is something to do.
        address(&config, BASE_URL, PATH)?;
        Ok(Self::over(Arc::new(Http::new()?), key, config))
    }

    /// Returns a client that uses a transport.
    pub fn over(transport: Arc<dyn Transport>, key: ApiKey, config: ProviderConfig) -> Self {
        Self { protocol: Messages, key, config, transport }
    }
}

/// The protocol.
pub struct Messages;

const PATH: &str = "/v1/messages";
const BASE_URL: &str = "https://api.anthropic.com";
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

impl Protocol for Messages {
    type Answer = answer::Accumulator;

    fn request(&self, key: &ApiKey, config: &ProviderConfig, request: &Request) -> Result<HttpRequest, AgentError> {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", key.header("")?);
        headers.insert("anthropic-version", VERSION);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(HttpRequest {
            url: address(config, BASE_URL, PATH)?,
            headers,
            body: with_extra(&Body::new(config, request)?, request)?.into(),
        })
    }

    fn answer(&self) -> answer::Accumulator {
        answer::Accumulator::default()
    }

    fn fault(&self, reply: &ErrorReply) -> Fault {
        let mut fault = reply.fault();
        // A limit for the month is not lifted by waiting a little.
        let code = &reply.body["error"]["details"]["error_code"];
        if reply.status == 429 && reply.retry_after.is_none() && code == "enforced_spend_limit_reached" {
            fault.retry = false;
        }
        fault
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[Cached<SystemText<'a>>; 1]>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
}

impl<'a> Body<'a> {
    fn new(config: &'a ProviderConfig, request: &'a Request) -> Result<Self, AgentError> {
        let max_tokens = request.config.max_tokens.unwrap_or(config.model.max_tokens);
        let system = request.system.as_deref().filter(|system| !system.is_empty());
        let last = request.messages.len().saturating_sub(1);
        // The last message is where what the next call has in common with this one ends.
        let turn = |(at, message)| {
            if config.cache && at == last { Turn::marked(message) } else { Turn::plain(message) }
        };
        let cache_control = config.cache.then_some(EPHEMERAL);
        Ok(Self {
            model: &config.model.name,
            max_tokens,
            stream: true,
            system: system.map(|text| [Cached { block: SystemText { kind: "text", text }, cache_control }]),
            messages: request.messages.iter().enumerate().map(turn).collect(),
            tools: request.tools.iter().map(ToolBody::from).collect(),
            temperature: request.config.temperature.or(config.temperature),
            stop_sequences: &request.config.stop_sequences,
            thinking: request.config.thinking.map(|mode| thinking(mode, max_tokens)).transpose()?,
        })
    }
}

/// The least that the API takes.
const LEAST_THINKING: u32 = 1024;

fn thinking(mode: ThinkingMode, max_tokens: u32) -> Result<Value, AgentError> {
    match mode {
        ThinkingMode::Adaptive => Ok(json!({"type": "adaptive"})),
        // Thoughts count as output, and something has to be left for the answer.
        ThinkingMode::Budget(wanted) => match wanted.min(max_tokens.saturating_sub(1)) {
            budget @ LEAST_THINKING.. => Ok(json!({"type": "enabled", "budget_tokens": budget})),
            budget => {
                let message = format!("{budget} tokens are too few to think; {LEAST_THINKING} is the least");
                Err(AgentError::new(ErrorKind::Invalid, message))
            }
        },
    }
}

#[derive(Serialize)]
struct SystemText<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct ToolBody<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

impl<'a> From<&'a ToolSpec> for ToolBody<'a> {
    fn from(tool: &'a ToolSpec) -> Self {
        Self { name: &tool.name, description: &tool.description, input_schema: &tool.parameters }
    }
}

/// A message.
#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

/// A part; the last of a conversation may be marked for the cache.
#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Plain(&'a Part),
    Text(Cached<&'a Text>),
    Result(Cached<&'a ToolResult>),
}

#[derive(Serialize)]
struct Cached<T> {
    #[serde(flatten)]
    block: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

const EPHEMERAL: CacheControl = CacheControl { kind: "ephemeral" };

impl<'a> Turn<'a> {
    fn plain(message: &'a Message) -> Self {
        Self { role: message.role, content: message.content.iter().map(Block::Plain).collect() }
    }

    fn marked(message: &'a Message) -> Self {
        let mut turn = Self::plain(message);
        let mark = match message.content.last() {
            // The API takes no mark on nothing.
            Some(Part::Text(text)) if !text.text.is_empty() => {
                Some(Block::Text(Cached { block: text, cache_control: Some(EPHEMERAL) }))
            }
            Some(Part::ToolResult(result)) => {
                Some(Block::Result(Cached { block: result, cache_control: Some(EPHEMERAL) }))
            }
            _ => None,
        };
        if let (Some(last), Some(mark)) = (turn.content.last_mut(), mark) {
            *last = mark;
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestConfig;

    fn body(config: &ProviderConfig, request: &Request) -> String {
        let http = Messages.request(&ApiKey::new("sk-1"), config, request).unwrap();
        assert!(!format!("{http:?}").contains("sk-1"));
        String::from_utf8(http.body.to_vec()).unwrap()
    }

    fn uncached() -> ProviderConfig {
        ProviderConfig { cache: false, ..ProviderConfig::new("m") }
    }

    #[test]
    fn a_request_says_what_is_set_and_nothing_else() {
        let request = Request { messages: vec![Message::user("Hi")], ..Request::default() };
        assert_eq!(
            body(&uncached(), &request),
            r#"{"model":"m","max_tokens":8192,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}"#
        );
        let config = RequestConfig {
            max_tokens: Some(5000),
            temperature: Some(0.5),
            stop_sequences: vec!["END".into()],
            thinking: Some(ThinkingMode::Budget(9000)),
            budget: None,
            extra: [("top_k".to_owned(), json!(3))].into_iter().collect(),
        };
        let tools = vec![ToolSpec { name: "t".into(), description: "d".into(), parameters: json!({"type": "object"}) }];
        let request = Request { system: Some("Be.".into()), messages: vec![], tools, config };
        assert_eq!(
            body(&uncached(), &request),
            concat!(
                r#"{"model":"m","max_tokens":5000,"stream":true,"system":[{"type":"text","text":"Be."}],"messages":[],"#,
                r#""tools":[{"name":"t","description":"d","input_schema":{"type":"object"}}],"temperature":0.5,"#,
                r#""stop_sequences":["END"],"thinking":{"budget_tokens":4999,"type":"enabled"},"top_k":3}"#
            )
        );
    }

    #[test]
    fn the_end_of_the_conversation_is_marked_for_the_cache() {
        let result = ToolResult { tool_use_id: "t".into(), content: "ok".into(), is_error: false };
        let messages = vec![Message::user("Hi"), Message::results(vec![result])];
        let request = Request { system: Some("Be.".into()), messages, ..Request::default() };
        let body = body(&ProviderConfig::new("m"), &request);
        let mark = r#","cache_control":{"type":"ephemeral"}"#;
        assert!(body.contains(&format!(r#"[{{"type":"text","text":"Be."{mark}}}]"#)), "{body}");
        assert!(body.contains(&format!(r#""content":"ok"{mark}}}]"#)), "{body}");
        assert!(body.contains(r#""text":"Hi"}]"#), "{body}");
    }

    #[test]
    fn a_field_cannot_be_set_twice() {
        let extra = [("model".to_owned(), json!("x"))].into_iter().collect();
        let request = Request { config: RequestConfig { extra, ..RequestConfig::default() }, ..Request::default() };
        let error = Messages.request(&ApiKey::new("k"), &uncached(), &request).unwrap_err();
        assert_eq!(error.to_string(), "invalid: the extra field \"model\" is set already");
    }

    #[test]
    fn too_little_to_think_with_is_refused() {
        assert_eq!(thinking(ThinkingMode::Budget(5000), 1024).unwrap_err().kind, ErrorKind::Invalid);
    }
}
