//! Both providers over HTTP against the fake model server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use coop_llm::{
    Agent, AgentError, ApiKey, Claude, ErrorKind, Events, Executor, Exit, Http, HttpReply, HttpRequest, Message,
    OpenAi, ProviderConfig, Request, Response, Retry, RunCx, ToolError, Transport, TransportError, typed,
};
use coop_sim::model::{Model, Script};
use futures_util::stream::{self, StreamExt};
use tokio::time::Instant;

/// A test that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(60);

async fn server() -> Model {
    Model::start(Script::default()).await.unwrap()
}

fn config(model: &Model) -> ProviderConfig {
    let retry = Retry { base: Duration::from_millis(1), ..Retry::default() };
    let base_url = Some(format!("{}/", model.url()));
    ProviderConfig { base_url, retry, ..ProviderConfig::new("claude-opus-4-8") }
}

fn both(model: &Model) -> [Arc<dyn Agent>; 2] {
    let key = ApiKey::new("none");
    [Arc::new(Claude::new(key.clone(), config(model)).unwrap()), Arc::new(OpenAi::new(key, config(model)).unwrap())]
}

async fn ask(agent: &dyn Agent, text: &str) -> Result<Response, AgentError> {
    let request = Request { messages: vec![Message::user(text)], ..Request::default() };
    tokio::time::timeout(LIMIT, agent.run(&request, &RunCx::default())).await.expect("in time")
}

#[tokio::test]
async fn an_answer_comes_over_http() {
    let model = server().await;
    for agent in both(&model) {
        let response = ask(&*agent, "Hi [[text:Servus 👋]] [[usage:100,7,50,0]]").await.unwrap();
        assert_eq!(response.text(), "Servus 👋");
        assert_eq!((response.usage.total_input(), response.usage.output), (150, 7), "{:?}", response.usage);
        assert_eq!(response.usage.cache_read, 50);
    }
    let paths: Vec<_> = model.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/v1/messages", "/v1/chat/completions"]);
}

#[tokio::test]
async fn faults_pass_or_are_told() {
    let model = server().await;
    for agent in both(&model) {
        for (directive, kind, requests) in [
            ("[[err:529x2]]", None, 3),
            ("[[err:500x3]]", None, 4),
            ("[[err:429x1:retry=0]]", None, 2),
            ("[[cutx1]]", None, 2),
            ("[[err:529]]", Some(ErrorKind::Agent), 4),
            ("[[err:401]]", Some(ErrorKind::Agent), 1),
            ("[[err:400]]", Some(ErrorKind::Invalid), 1),
            ("[[err:429x1:retry=3600]]", Some(ErrorKind::RateLimit), 1),
            ("[[cut]]", Some(ErrorKind::Network), 4),
        ] {
            model.reset();
            let result = ask(&*agent, &format!("{directive} [[text:Done.]]")).await;
            assert_eq!(result.as_ref().err().map(|error| error.kind), kind, "{directive}: {result:?}");
            assert_eq!(model.requests().len(), requests, "{directive}");
        }
    }
}

/// HTTP during which the paused clock stands still. Else it would jump to the next deadline whenever everybody waits for a
/// socket; it does not while a blocking task runs.
struct Frozen(Http);

fn freeze() -> std::sync::mpsc::Sender<()> {
    let (hold, held) = std::sync::mpsc::channel();
    tokio::task::spawn_blocking(move || held.recv());
    hold
}

#[async_trait]
impl Transport for Frozen {
    async fn send(&self, request: HttpRequest) -> Result<HttpReply, TransportError> {
        let hold = freeze();
        let reply = self.0.send(request).await?;
        let body = stream::unfold((reply.body, hold), |(mut body, hold)| async {
            let piece = body.next().await?;
            Some((piece, (body, hold)))
        });
        Ok(HttpReply { body: body.boxed(), ..reply })
    }
}

/// The table of errors and retries: what kind each is, how often it is tried, and how long that takes.
#[tokio::test(start_paused = true)]
async fn each_error_is_tried_as_often_and_waited_for_as_long_as_it_should() {
    let model = server().await;
    let (http, key) = (Arc::new(Frozen(Http::new().unwrap())), ApiKey::new("none"));
    let config = ProviderConfig { retry: Retry::default(), luck: || 1.0, ..config(&model) };
    let claude: Arc<dyn Agent> = Arc::new(Claude::over(http.clone(), key.clone(), config.clone()));
    let openai: Arc<dyn Agent> = Arc::new(OpenAi::over(http, key, config));
    // Waits of half a second, a second, and two, if luck is what it is here.
    let all = 3_500..=3_510;
    let statuses = [
        (ErrorKind::Invalid, 1, 0..=0, &[400, 404, 413, 422][..]),
        (ErrorKind::Agent, 1, 0..=0, &[401, 402, 403]),
        (ErrorKind::Agent, 4, all.clone(), &[408, 409, 500, 502, 503, 504, 529]),
        (ErrorKind::RateLimit, 4, all.clone(), &[429]),
    ];
    let fails = statuses.into_iter().flat_map(|(kind, requests, time, statuses)| {
        statuses.iter().map(move |status| (format!("[[err:{status}]]"), Some(kind), requests, time.clone()))
    });
    let others = [
        ("[[cut]]", Some(ErrorKind::Network), 4, all),
        ("[[cutx2]]", None, 3, 1_500..=1_510),
        ("[[err:529x1]]", None, 2, 500..=510),
        ("[[err:429x2:retry=7]]", None, 3, 14_000..=14_010),
        ("[[err:429x1:retry=3600]]", Some(ErrorKind::RateLimit), 1, 0..=0),
    ];
    let others = others.map(|(directive, kind, requests, time)| (directive.to_owned(), kind, requests, time));
    let rows: Vec<_> = fails.chain(others).collect();
    for agent in [claude, openai] {
        for (directive, kind, requests, time) in &rows {
            model.reset();
            let begun = Instant::now();
            let request = Request { messages: vec![Message::user(directive)], ..Request::default() };
            let result = agent.run(&request, &RunCx::default()).await;
            let took = begun.elapsed().as_millis();
            assert_eq!(result.as_ref().err().map(|error| error.kind), *kind, "{directive}: {result:?}");
            assert!(time.contains(&took), "{directive}: {took} ms");
            assert_eq!(model.requests().len(), *requests, "{directive}");
        }
    }
}

#[tokio::test]
async fn nobody_there_is_a_network_error() {
    let model = server().await;
    let agents = both(&model);
    model.stop().await;
    for agent in agents {
        let error = ask(&*agent, "Hi").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Network);
        assert!(error.message.contains("refused"), "{error}");
    }
}

#[tokio::test]
async fn an_answer_is_cancelled_in_its_middle() {
    let model = server().await;
    for agent in both(&model) {
        let request = Request { messages: vec![Message::user("[[slow:600]]")], ..Request::default() };
        let (told, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let events = Events::to(move |_| told.send(()).unwrap_or_default()).with_deltas();
        let cx = RunCx { events, ..RunCx::default() };
        let call = agent.run(&request, &cx);
        let stop = async {
            begun.recv().await;
            cx.cancel.cancel();
        };
        let (result, ()) = tokio::time::timeout(LIMIT, async { tokio::join!(call, stop) }).await.expect("in time");
        assert_eq!(result.unwrap_err().kind, ErrorKind::Cancelled);
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[tokio::test]
async fn the_loop_runs_with_both() {
    let model = server().await;
    for agent in both(&model) {
        model.reset();
        let add = typed("add", "Adds.", |sum: Add, _| async move { Ok::<_, ToolError>((sum.a + sum.b).to_string()) });
        let text = r#"[[tool add {"a": 2, "b": 3}]] [[tool add {"a": 2, "b": "x"}]] [[text:Five.]]"#;
        let (executor, cx) = (Executor::new(agent).tool(add), RunCx::default());
        let run = executor.run(vec![Message::user(text)], &cx);
        let run = tokio::time::timeout(crate::tools::LIMIT, run).await.expect("in time");
        assert!(matches!(run.exit, Exit::Completed), "{:?}", run.exit);
        assert_eq!(run.text(), "Five.");
        assert_eq!((run.metrics.invocations, run.metrics.tool_calls, run.metrics.tool_errors), (3, 2, 1));
        let last = model.requests().pop().unwrap();
        assert_eq!(last.results[0], "5");
        assert!(last.results[1].contains("do not fit"), "{:?}", last.results);
    }
}
