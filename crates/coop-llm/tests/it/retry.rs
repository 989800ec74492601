//! Each row of the table of errors, with the clock paused: what kind it is, whether it is tried again, and when.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use coop_llm::{Agent, AgentError, Budget, Claude, Delta, ErrorKind, Event, Events, Price, Retry, RunCx, Usage};
use tokio::time::Instant;

use crate::canned::{Canned, End, Wire, claude, config, failure, hello, hello_begun, hi, openai, stream_of};

/// What a failure comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tried {
    Once,
    Again,
}
use Tried::{Again, Once};

/// Makes a call to a provider that fails the same way always, and returns the error and how often it was asked.
async fn fails(failure: impl Fn() -> Canned) -> (AgentError, usize) {
    let wire = Wire::new((0..10).map(|_| failure()));
    let error = claude(&wire).run(&hi(), &RunCx::default()).await.unwrap_err();
    (error, wire.count())
}

#[tokio::test(start_paused = true)]
async fn each_status_has_a_kind_and_is_tried_again_or_not() {
    let rows = [
        (400, ErrorKind::Invalid, Once),
        (404, ErrorKind::Invalid, Once),
        (413, ErrorKind::Invalid, Once),
        (422, ErrorKind::Invalid, Once),
        (418, ErrorKind::Invalid, Once),
        (307, ErrorKind::Invalid, Once),
        (401, ErrorKind::Agent, Once),
        (402, ErrorKind::Agent, Once),
        (403, ErrorKind::Agent, Once),
        (408, ErrorKind::Agent, Again),
        (409, ErrorKind::Agent, Again),
        (429, ErrorKind::RateLimit, Again),
        (500, ErrorKind::Agent, Again),
        (502, ErrorKind::Agent, Again),
        (503, ErrorKind::Agent, Again),
        (504, ErrorKind::Agent, Again),
        (529, ErrorKind::Agent, Again),
    ];
    for (status, kind, tried) in rows {
        let (error, count) = fails(|| failure(status, &[], "null")).await;
        assert_eq!((error.kind, count), (kind, if tried == Again { 4 } else { 1 }), "{status}");
        assert!(error.message.starts_with(&format!("Sorry ({status})")), "{error}");
        assert_eq!(error.request_id.as_deref(), Some("req_2"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_provider_may_say_itself_whether_to_try_again() {
    let (_, count) = fails(|| failure(500, &[("x-should-retry", "false")], "null")).await;
    assert_eq!(count, 1);
    let (_, count) = fails(|| failure(400, &[("x-should-retry", "true")], "null")).await;
    assert_eq!(count, 4);
}

#[tokio::test(start_paused = true)]
async fn a_monthly_cap_is_not_waited_for() {
    let cap = r#"{"error_code":"enforced_spend_limit_reached"}"#;
    let (error, count) = fails(|| failure(429, &[], cap)).await;
    assert_eq!((error.kind, count), (ErrorKind::RateLimit, 1));
    let (_, count) = fails(|| failure(429, &[("retry-after", "1")], cap)).await;
    assert_eq!(count, 4);
}

#[tokio::test(start_paused = true)]
async fn no_connection_is_tried_again() {
    let (error, count) = fails(|| Canned::Refused).await;
    assert_eq!((error.kind, count), (ErrorKind::Network, 4));
    assert_eq!(error.to_string(), "network: https://api.anthropic.com: not reached: connection refused");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test(start_paused = true)]
async fn the_providers_wait_is_kept_in_all_its_forms() {
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
    let rows: [(&'static str, &str, u64, u64); 4] = [
        ("retry-after", "7", 7_000, 7_000),
        ("retry-after", "1.5", 1_500, 1_500),
        ("retry-after-ms", "2500", 2_500, 2_500),
        // A date has whole seconds, and the system's clock is not paused: what this machine takes until then is not waited.
        ("retry-after", &date, 1_000, 100_000),
    ];
    for (name, value, least, most) in rows {
        let wire = Wire::new([failure(429, &[(name, value)], "null"), stream_of(hello(), End::Whole)]);
        let response = claude(&wire).run(&hi(), &RunCx::default()).await.unwrap();
        assert_eq!(response.text(), "Grüß Gott 👋");
        let pause = wire.pauses()[0].as_millis() as u64;
        // Timers are good to a millisecond.
        assert!((least..=most + 2).contains(&pause), "{value}: {pause}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_wish_of_the_provider_waits_double() {
    for (luck, expected) in [((|| 1.0) as fn() -> f64, [500, 1000, 2000]), (|| 0.5, [250, 500, 1000])] {
        let wire = Wire::new((0..4).map(|_| failure(529, &[], "null")));
        let config = coop_llm::ProviderConfig { luck, ..config() };
        let claude = Claude::over(wire.clone(), coop_llm::ApiKey::new("k"), config);
        claude.run(&hi(), &RunCx::default()).await.unwrap_err();
        for (pause, expected) in wire.pauses().iter().zip(expected) {
            // Timers are good to a millisecond.
            assert!((expected..=expected + 2).contains(&pause.as_millis()), "{:?}", wire.pauses());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_does_not_fit_is_not_begun() {
    let wire = Wire::new([failure(429, &[("retry-after", "60")], "null")]);
    let begun = Instant::now();
    let cx = RunCx { deadline: Some(begun + Duration::from_secs(30)), ..RunCx::default() };
    let error = claude(&wire).run(&hi(), &cx).await.unwrap_err();
    assert_eq!((error.kind, error.retry_after), (ErrorKind::RateLimit, Some(Duration::from_secs(60))));
    assert_eq!((begun.elapsed(), wire.count()), (Duration::ZERO, 1));

    // Longer than anybody waits, even without a deadline.
    let wire = Wire::new([failure(429, &[("retry-after", "7200")], "null")]);
    let error = claude(&wire).run(&hi(), &RunCx::default()).await.unwrap_err();
    assert_eq!((error.retry_after, begun.elapsed()), (Some(Duration::from_secs(7200)), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn errors_within_a_stream_count_by_their_type() {
    let rows = [
        ("overloaded_error", ErrorKind::Agent, Again),
        ("api_error", ErrorKind::Agent, Again),
        ("rate_limit_error", ErrorKind::RateLimit, Again),
        ("invalid_request_error", ErrorKind::Invalid, Once),
        ("authentication_error", ErrorKind::Agent, Once),
        ("permission_error", ErrorKind::Agent, Once),
        ("something_new", ErrorKind::Agent, Again),
    ];
    for (name, kind, tried) in rows {
        let told = format!(
            "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"{name}\",\"message\":\"Oh\"}}}}\n\n"
        );
        let text = format!("{}{told}", hello_begun());
        let (error, count) = fails(|| stream_of(text.clone(), End::Whole)).await;
        assert_eq!((error.kind, count), (kind, if tried == Again { 4 } else { 1 }), "{name}");
        assert_eq!((error.message.as_str(), error.request_id.as_deref()), ("Oh", Some("req_1")));
        // What was read is paid for, each time.
        assert_eq!(error.usage.input, 25 * count as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_is_tried_again_while_nothing_was_handed_on() {
    for end in [End::Whole, End::Cut, End::Hang] {
        let wire = Wire::new([stream_of(hello_begun(), end), stream_of(hello(), End::Whole)]);
        let response = claude(&wire).run(&hi(), &RunCx::default()).await.unwrap();
        assert_eq!(response.text(), "Grüß Gott 👋");
        assert_eq!(response.usage, Usage { input: 50, output: 16, cache_read: 8, cache_write: 6 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_after_something_was_handed_on_is_not() {
    for end in [End::Whole, End::Cut, End::Hang] {
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let events = Events::to(move |event| seen.lock().unwrap().push(event)).with_deltas();
        let wire = Wire::new([stream_of(hello_begun(), end)]);
        let error = claude(&wire).run(&hi(), &RunCx { events, ..RunCx::default() }).await.unwrap_err();
        assert_eq!((error.kind, wire.count()), (ErrorKind::Network, 1));
        assert_eq!(*told.lock().unwrap(), [Event::Delta(Delta::Text("Grüß".into()))]);
        assert_eq!(error.usage, Usage { input: 25, output: 1, cache_read: 4, cache_write: 3 });
    }
}

#[tokio::test(start_paused = true)]
async fn retries_are_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    let events = Events::to(move |event| seen.lock().unwrap().push(event));
    let wire = Wire::new([failure(429, &[("retry-after", "7")], "null"), stream_of(hello(), End::Whole)]);
    claude(&wire).run(&hi(), &RunCx { events, ..RunCx::default() }).await.unwrap();
    let (kind, message) = (ErrorKind::RateLimit, "Sorry (429)".to_owned());
    assert_eq!(*told.lock().unwrap(), [Event::Retry { attempt: 1, wait: Duration::from_secs(7), kind, message }]);
}

/// Cancels after a while, and returns what became of the call and how long after the cancellation.
async fn cancelled(replies: Vec<Canned>, after: Duration) -> (AgentError, Duration) {
    let wire = Wire::new(replies);
    let cx = RunCx::default();
    let cancel = cx.cancel.clone();
    let claude = claude(&wire);
    let request = hi();
    let (result, at) = tokio::join!(async { (claude.run(&request, &cx).await, Instant::now()) }, async {
        tokio::time::sleep(after).await;
        cancel.cancel();
        Instant::now()
    });
    (result.0.unwrap_err(), result.1 - at)
}

#[tokio::test(start_paused = true)]
async fn cancelling_is_prompt_wherever_the_call_is() {
    let second = Duration::from_secs(1);
    let (error, took) = cancelled(vec![Canned::Silence], second).await;
    assert_eq!((error.kind, took), (ErrorKind::Cancelled, Duration::ZERO));

    let (error, took) = cancelled(vec![stream_of(hello_begun(), End::Hang)], second).await;
    assert_eq!((error.kind, took), (ErrorKind::Cancelled, Duration::ZERO));
    assert_eq!(error.usage, Usage { input: 25, output: 1, cache_read: 4, cache_write: 3 });

    let (error, took) = cancelled(vec![failure(429, &[("retry-after", "60")], "null")], second).await;
    assert_eq!((error.kind, took), (ErrorKind::Cancelled, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_holds_wherever_the_call_is() {
    for reply in [Canned::Silence, stream_of(hello_begun(), End::Hang)] {
        let begun = Instant::now();
        let cx = RunCx { deadline: Some(begun + Duration::from_secs(5)), ..RunCx::default() };
        let error = claude(&Wire::new([reply])).run(&hi(), &cx).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert!(begun.elapsed() <= Duration::from_millis(5050));
    }
    // Time for one attempt, without a deadline.
    let begun = Instant::now();
    let error = claude(&Wire::new([Canned::Silence])).run(&hi(), &RunCx::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "timeout: no whole answer within 600s, which is the `request_timeout`");
    assert!(begun.elapsed() <= Duration::from_millis(600_050));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_in_no_error() {
    let body = r#"{"error":{"message":"bad key sk-secret"}}"#.to_owned();
    let reply = Canned::Reply { status: 401, headers: vec![], pieces: vec![body], end: End::Whole };
    let error = claude(&Wire::new([reply])).run(&hi(), &RunCx::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "agent: bad key … (401); the API key is not taken there");
    assert!(!format!("{error:?}").contains("sk-secret"));
}

#[tokio::test(start_paused = true)]
async fn attempts_can_be_fewer_and_pages_of_proxies_are_shown() {
    let page =
        || Canned::Reply { status: 502, headers: vec![], pieces: vec!["<h1>Bad gateway</h1>".into()], end: End::Cut };
    let wire = Wire::new([page(), page()]);
    let config = coop_llm::ProviderConfig { retry: Retry { attempts: 2, ..Retry::default() }, ..config() };
    let claude = Claude::over(wire.clone(), coop_llm::ApiKey::new("k"), config);
    let error = claude.run(&hi(), &RunCx::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "agent: <h1>Bad gateway</h1> (502)");
    assert_eq!(wire.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_other_provider_follows_the_same_table() {
    let wire = Wire::new((0..4).map(|_| failure(503, &[], "null")));
    assert_eq!(openai(&wire).run(&hi(), &RunCx::default()).await.unwrap_err().kind, ErrorKind::Agent);
    assert_eq!(wire.count(), 4);
    let body = r#"{"error":{"message":"Broke","code":"insufficient_quota"}}"#.to_owned();
    let wire = Wire::new([Canned::Reply { status: 429, headers: vec![], pieces: vec![body], end: End::Whole }]);
    assert_eq!(openai(&wire).run(&hi(), &RunCx::default()).await.unwrap_err().kind, ErrorKind::RateLimit);
    assert_eq!(wire.count(), 1);
}

/// A call that broke off is paid for, and so is the next attempt: together they keep to the limit.
#[tokio::test(start_paused = true)]
async fn what_broke_off_counts_for_the_limit() {
    let price = Price::new(1000.0, 1000.0);
    let tokens = |tokens| Budget { tokens: Some(tokens), cost: None, input: 25 };
    let cost = |cost| Budget { tokens: None, cost: Some((cost, price)), input: 0 };
    // It reads 32 tokens and writes one before it breaks; the next may read 25 and write 100.
    for (budget, attempts) in [(tokens(157), 1), (tokens(158), 2), (cost(0.11), 1), (cost(0.2), 2)] {
        let wire = Wire::new([stream_of(hello_begun(), End::Cut), stream_of(hello(), End::Whole)]);
        let mut request = hi();
        request.config.max_tokens = Some(100);
        request.config.budget = Some(budget);
        let result = claude(&wire).run(&request, &RunCx::default()).await;
        assert_eq!(wire.count(), attempts, "{budget:?}");
        if let Err(error) = result {
            assert!(attempts == 1 && error.message.ends_with("since that could pass a limit"), "{error}");
            assert_eq!((error.kind, error.usage.total()), (ErrorKind::Network, 33));
        }
    }
    // What cost nothing is tried again.
    let wire = Wire::new([failure(529, &[], "null"), stream_of(hello(), End::Whole)]);
    let mut request = hi();
    request.config.budget = Some(tokens(26));
    assert!(claude(&wire).run(&request, &RunCx::default()).await.is_ok());
}

/// Comments are no events, and a sign of life all the same.
#[tokio::test(start_paused = true)]
async fn a_provider_that_shows_signs_of_life_is_waited_for() {
    let lives =
        Canned::Slow { pieces: vec![": keep-alive\n\n".into(); 10], last: hello(), pause: Duration::from_secs(50) };
    let wire = Wire::new([lives]);
    let response = claude(&wire).run(&hi(), &RunCx::default()).await.unwrap();
    assert_eq!((response.text().as_str(), wire.count()), ("Grüß Gott 👋", 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_provider_is_told_at_once() {
    let page = |kind: &str| {
        let headers = vec![("content-type", kind.to_owned())];
        Canned::Reply { status: 200, headers, pieces: vec!["<h1>Welcome</h1>".into()], end: End::Whole }
    };
    for kind in ["text/html; charset=utf-8", "application/json"] {
        let wire = Wire::new([page(kind)]);
        let error = claude(&wire).run(&hi(), &RunCx::default()).await.unwrap_err();
        assert_eq!((error.kind, wire.count()), (ErrorKind::Invalid, 1));
        assert!(error.message.contains("https://api.anthropic.com answered with"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_is_taken_in_all_its_forms_or_refused_by_name() {
    let urls = [
        ("https://h.example", "https://h.example/v1/messages"),
        ("http://h.example:8/x/", "http://h.example:8/x/v1/messages"),
        ("https://h.example/v1", "https://h.example/v1/messages"),
        ("https://h.example/v1/", "https://h.example/v1/messages"),
    ];
    for (base, expected) in urls {
        let wire = Wire::new([stream_of(hello(), End::Whole)]);
        let config = coop_llm::ProviderConfig { base_url: Some(base.into()), ..config() };
        Claude::over(wire.clone(), coop_llm::ApiKey::new("k"), config).run(&hi(), &RunCx::default()).await.unwrap();
        assert_eq!(wire.urls(), [expected]);
    }
    for base in ["foo", "ftp://h.example", "", "h.example:80", "http://"] {
        let config = coop_llm::ProviderConfig { base_url: Some(base.into()), ..config() };
        let error = Claude::new(coop_llm::ApiKey::new("k"), config).err().unwrap();
        assert!(error.kind == ErrorKind::Invalid && error.message.contains("`base_url`"), "{base}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_within_the_other_providers_stream_count_by_their_type() {
    let rows = [
        (r#"{"type":"server_error"}"#, ErrorKind::Agent, 4),
        (r#"{"code":429}"#, ErrorKind::RateLimit, 4),
        (r#"{"code":"rate_limit_exceeded"}"#, ErrorKind::RateLimit, 4),
        (r#"{"type":"invalid_request_error"}"#, ErrorKind::Invalid, 1),
        (r#"{"type":"x","code":"insufficient_quota"}"#, ErrorKind::Agent, 1),
    ];
    for (told, kind, count) in rows {
        let wire = Wire::new((0..4).map(|_| stream_of(format!("data: {{\"error\":{told}}}\n\n"), End::Whole)));
        let error = openai(&wire).run(&hi(), &RunCx::default()).await.unwrap_err();
        assert_eq!((error.kind, wire.count()), (kind, count), "{told}");
    }
}

/// Anthropic's stream may have pieces of nothing, by which nothing is handed on.
#[tokio::test(start_paused = true)]
async fn a_piece_of_nothing_is_not_handed_on() {
    let begun = hello_begun().replace("Grüß", "");
    let wire = Wire::new([stream_of(begun, End::Cut), stream_of(hello(), End::Whole)]);
    let events = Events::to(|_| {}).with_deltas();
    let response = claude(&wire).run(&hi(), &RunCx { events, ..RunCx::default() }).await.unwrap();
    assert_eq!((response.text().as_str(), wire.count()), ("Grüß Gott 👋", 2));
}
