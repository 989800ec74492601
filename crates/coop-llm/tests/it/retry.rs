//! Each row of the table of errors, with the clock paused: what kind it is, whether it is tried again, and when.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use coop_llm::{Agent, AgentError, Claude, Delta, ErrorKind, Event, Events, Retry, RunCx, Usage};
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
        assert_eq!(error.message, format!("Sorry ({status})"));
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
    assert_eq!(error.to_string(), "network: the provider was not reached: connection refused");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test(start_paused = true)]
async fn the_providers_wait_is_kept_in_all_its_forms() {
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
    let rows: [(&'static str, &str, u64, u64); 4] = [
        ("retry-after", "7", 7_000, 7_000),
        ("retry-after", "1.5", 1_500, 1_500),
        ("retry-after-ms", "2500", 2_500, 2_500),
        // A date has whole seconds, and the system's clock is not paused.
        ("retry-after", &date, 90_000, 100_000),
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
    for _ in 0..20 {
        let wire = Wire::new((0..4).map(|_| failure(529, &[], "null")));
        claude(&wire).run(&hi(), &RunCx::default()).await.unwrap_err();
        let pauses = wire.pauses();
        for (pause, most) in pauses.iter().zip([500, 1000, 2000]) {
            assert!(*pause <= Duration::from_millis(most + 2), "{pauses:?}");
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
    assert_eq!(error.to_string(), "timeout: no whole answer within 600s");
    assert!(begun.elapsed() <= Duration::from_millis(600_050));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_in_no_error() {
    let body = r#"{"error":{"message":"bad key sk-secret"}}"#.to_owned();
    let reply = Canned::Reply { status: 401, headers: vec![], pieces: vec![body], end: End::Whole };
    let error = claude(&Wire::new([reply])).run(&hi(), &RunCx::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "agent: bad key … (401)");
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
