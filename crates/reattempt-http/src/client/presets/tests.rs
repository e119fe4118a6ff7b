use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use reattempt::{HasCallContext, Idempotency, RetryInfo, StopReason};
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};

use super::*;
use crate::body::ReplayBody;

/// A status with headers; status 0 loses the connection.
type Answer = (u16, &'static [(&'static str, &'static str)]);

const LOST: Answer = (0, &[]);

/// What is left of GitHub's primary limit.
const LEFT: (&str, &str) = ("x-ratelimit-remaining", "4987");
const NONE_LEFT: (&str, &str) = ("x-ratelimit-remaining", "0");

/// What became of a call.
#[derive(Debug)]
struct Seen {
    status: u16,
    attempts: u32,
    took: Duration,
    stopped: Option<StopReason>,
}

/// Gives these answers in order, then 200.
async fn send(
    layer: &HttpClientLayer,
    mut request: Request<Full<Bytes>>,
    answers: &[Answer],
) -> Seen {
    let answers = answers.iter().copied().collect::<VecDeque<_>>();
    let answers = Arc::new(Mutex::new(answers));
    let service = service_fn(move |request: Request<ReplayBody<Full<Bytes>>>| {
        let next = answers.lock().unwrap().pop_front();
        let (status, headers) = next.unwrap_or((200, &[]));
        let mut response = Response::builder().status(status.max(100));
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        async move {
            request.into_body().collect().await.unwrap();
            if status == 0 {
                Err(io::Error::from(io::ErrorKind::ConnectionReset))
            } else {
                Ok(response.body(Full::<Bytes>::default()).unwrap())
            }
        }
    });
    let handle = RetryInfo::track(&mut request);
    let began = Instant::now();
    let outcome = layer.layer(service).oneshot(request).await;
    Seen {
        status: outcome.map_or(0, |response| response.status().as_u16()),
        attempts: handle.info().attempts(),
        took: began.elapsed(),
        stopped: handle.info().stopped(),
    }
}

fn request(method: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method);
    let request = request.uri("https://api.example/things");
    request.body(Full::from("one loaf")).unwrap()
}

/// The attempts of a write with this length whose first one is refused by a limit.
async fn attempts_of(layer: &HttpClientLayer, bytes: usize) -> u32 {
    let write = request("POST").map(|_| Full::from(vec![b'x'; bytes]));
    let limited = (429, &[("retry-after", "1")][..]);
    send(layer, write, &[limited]).await.attempts
}

/// The shortest and longest time that a GET takes which fails so often.
async fn delays(layer: &HttpClientLayer, answer: Answer, failures: usize) -> (Duration, Duration) {
    let layer = layer.clone().no_throttle();
    let failures = vec![answer; failures];
    let mut took = Vec::new();
    for _ in 0..300 {
        let seen = send(&layer, request("GET"), &failures).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        took.push(seen.took);
    }
    (*took.iter().min().unwrap(), *took.iter().max().unwrap())
}

/// Whether 300 random delays fill this range, to a tenth of its width.
fn fills((min, max): (Duration, Duration), least: f64, most: f64) {
    let (min, max) = (min.as_secs_f64(), max.as_secs_f64());
    let tenth = (most - least) / 10.0;
    assert!((least..=least + tenth).contains(&min), "{min} {max}");
    assert!((most - tenth..=most).contains(&max), "{min} {max}");
}

async fn retried(layer: &HttpClientLayer, method: &str, answer: Answer) -> bool {
    send(layer, request(method), &[answer]).await.attempts == 2
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn google_waits_up_to_a_second_then_doubles() {
    let google = HttpClientLayer::google();
    fills(delays(&google, (503, &[]), 1).await, 0.0, 1.0);
    let (_, longest) = delays(&google, (503, &[]), 3).await;
    let bounds = secs(3)..=secs(1 + 2 + 4);
    assert!(bounds.contains(&longest), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn google_sends_ten_attempts_within_a_minute() {
    let google = HttpClientLayer::google();
    // Server-provided delays: ten attempts in nine seconds.
    let failing = [(503, &[("retry-after", "1")][..]); 20];
    let seen = send(&google, request("GET"), &failing).await;
    assert_eq!((seen.status, seen.attempts), (503, 10));
    assert_eq!(seen.stopped, Some(StopReason::Attempts));
    let failing = [(503, &[("retry-after", "20")][..]); 20];
    let seen = send(&google, request("GET"), &failing).await;
    // 20, 40; a third delay would pass the minute.
    assert_eq!((seen.status, seen.attempts), (503, 3));
    assert!(seen.took < secs(41), "{seen:?}");
    assert_eq!(seen.stopped, Some(StopReason::Deadline));
}

#[tokio::test(start_paused = true)]
async fn google_retries_408_429_and_every_5xx() {
    let google = HttpClientLayer::google().no_throttle();
    for status in [408, 429, 500, 501, 502, 503, 504, 599, 0] {
        assert!(retried(&google, "GET", (status, &[])).await, "{status}");
        let post = retried(&google, "POST", (status, &[])).await;
        assert_eq!(post, status == 429, "{status}");
    }
    for status in [400, 401, 403, 404, 409, 425] {
        assert!(!retried(&google, "GET", (status, &[])).await, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn github_waits_a_minute_after_a_limit_that_names_no_time() {
    let github = HttpClientLayer::github();
    fills(delays(&github, (429, &[]), 1).await, 60.0, 75.0);
    let primary_is_left = &[LEFT, ("x-ratelimit-reset", "3000")];
    fills(delays(&github, (429, primary_is_left), 1).await, 60.0, 75.0);
    let failing = [(429, &[][..]); 9];
    let seen = send(&github, request("GET"), &failing).await;
    assert_eq!((seen.status, seen.attempts), (429, 4));
    assert!((secs(420)..=secs(525)).contains(&seen.took), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn github_waits_as_a_limit_says() {
    let github = HttpClientLayer::github();
    for (status, headers, least) in [
        (403, &[("retry-after", "61")][..], 61),
        (429, &[("retry-after", "61")], 61),
        // A number below 10⁹ is a delay: paused time and the system's clock do not agree.
        (403, &[NONE_LEFT, ("x-ratelimit-reset", "90")], 90),
        (429, &[NONE_LEFT, ("x-ratelimit-reset", "90")], 90),
    ] {
        for method in ["GET", "POST"] {
            let seen = send(&github, request(method), &[(status, headers)]).await;
            let ended = (seen.status, seen.attempts);
            assert_eq!(ended, (200, 2), "{status} {headers:?}");
            let bounds = secs(least)..=secs(least + 1);
            assert!(bounds.contains(&seen.took), "{seen:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn github_returns_a_limit_that_outlasts_the_deadline() {
    let limited: Answer = (403, &[NONE_LEFT, ("x-ratelimit-reset", "3000")]);
    let seen = send(&HttpClientLayer::github(), request("GET"), &[limited]).await;
    assert_eq!((seen.status, seen.took), (403, Duration::ZERO));
    let patient = HttpClientLayer::github().timeout(secs(7200));
    let seen = send(&patient, request("GET"), &[limited]).await;
    assert_eq!((seen.status, seen.attempts), (200, 2));
    assert!(seen.took >= secs(3000));
    let too_long: Answer = (429, &[("retry-after", "3601")]);
    let seen = send(&patient, request("GET"), &[too_long]).await;
    assert_eq!(seen.status, 429);
    assert_eq!(seen.stopped, Some(StopReason::Pushback));
}

#[tokio::test(start_paused = true)]
async fn github_retries_other_failures_after_squares() {
    let github = HttpClientLayer::github();
    fills(delays(&github, (502, &[]), 1).await, 0.75, 1.0);
    let failing = [(502, &[][..]); 9];
    let seen = send(&github, request("GET"), &failing).await;
    assert_eq!((seen.status, seen.attempts), (502, 4));
    let (least, most) = (Duration::from_millis(10_500), secs(1 + 4 + 9));
    assert!((least..=most).contains(&seen.took), "{seen:?}");
    let github = github.no_throttle();
    for status in [400, 401, 403, 404, 410, 422, 451] {
        assert!(!retried(&github, "GET", (status, &[])).await, "{status}");
    }
    for answer in [(502, &[][..]), LOST] {
        assert!(retried(&github, "GET", answer).await);
        assert!(!retried(&github, "POST", answer).await);
    }
}

#[tokio::test(start_paused = true)]
async fn kubernetes_repeats_reads_and_what_was_not_processed() {
    let kubernetes = HttpClientLayer::kubernetes().no_throttle();
    for answer in [(500, &[][..]), (502, &[]), (503, &[]), (504, &[]), LOST] {
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] {
            let is_read = matches!(method, "GET" | "HEAD");
            let is_retried = retried(&kubernetes, method, answer).await;
            assert_eq!(is_retried, is_read, "{method} {answer:?}");
        }
    }
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        let busy = (429, &[("retry-after", "1")][..]);
        assert!(retried(&kubernetes, method, busy).await, "{method}");
    }
    for status in [400, 403, 404, 408, 409, 410, 422] {
        let is_retried = retried(&kubernetes, "GET", (status, &[])).await;
        assert!(!is_retried, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn kubernetes_sends_eleven_attempts_as_client_go_does() {
    let failing = [(429, &[("retry-after", "1")][..]); 20];
    let kubernetes = HttpClientLayer::kubernetes();
    let seen = send(&kubernetes, request("POST"), &failing).await;
    assert_eq!((seen.status, seen.attempts), (429, 11));
    fills(delays(&kubernetes, (503, &[]), 1).await, 0.0, 1.0);
}

#[tokio::test(start_paused = true)]
async fn what_the_caller_says_of_a_write_counts() {
    let mut apply = request("PATCH");
    apply.context_mut().set_idempotency(Idempotency::Idempotent);
    let seen = send(&HttpClientLayer::kubernetes(), apply, &[LOST]).await;
    assert_eq!((seen.status, seen.attempts), (200, 2));
}

#[tokio::test(start_paused = true)]
async fn llm_waits_half_a_second_then_doubles_up_to_eight() {
    let llm = HttpClientLayer::llm();
    fills(delays(&llm, (529, &[]), 1).await, 0.375, 0.5);
    let (shortest, longest) = delays(&llm, (529, &[]), 2).await;
    assert!(shortest >= Duration::from_millis(1125), "{shortest:?}");
    assert!(longest > Duration::from_millis(1300) && longest <= Duration::from_millis(1500));
    let failing = [(529, &[][..]); 9];
    let seen = send(&llm, request("GET"), &failing).await;
    assert_eq!((seen.status, seen.attempts), (529, 3));
}

#[tokio::test(start_paused = true)]
async fn llm_obeys_the_servers_delay_up_to_two_minutes() {
    let llm = HttpClientLayer::llm();
    for (headers, millis) in [
        (
            &[("retry-after-ms", "1500"), ("retry-after", "9")][..],
            1500,
        ),
        (&[("retry-after", "120")], 120_000),
    ] {
        let seen = send(&llm, request("POST"), &[(429, headers)]).await;
        assert_eq!((seen.status, seen.attempts), (200, 2));
        let least = Duration::from_millis(millis);
        assert!((least..=least + Duration::from_millis(250)).contains(&seen.took));
    }
    let seen = send(&llm, request("GET"), &[(429, &[("retry-after", "121")])]).await;
    assert_eq!((seen.status, seen.took), (429, Duration::ZERO));
    // Not a delay of the SDKs.
    let unread: Answer = (429, &[("x-ratelimit-reset", "90")]);
    fills(delays(&llm, unread, 1).await, 0.375, 0.5);
}

#[tokio::test(start_paused = true)]
async fn llm_repeats_a_post_only_if_it_was_not_done() {
    let llm = HttpClientLayer::llm().no_throttle();
    for status in [408, 409, 500, 503, 529, 0] {
        assert!(retried(&llm, "GET", (status, &[])).await, "{status}");
        assert!(!retried(&llm, "POST", (status, &[])).await, "{status}");
    }
    assert!(retried(&llm, "POST", (429, &[])).await);
    assert!(retried(&llm, "POST", (529, &[("x-should-retry", "true")])).await);
    assert!(retried(&llm, "POST", (400, &[("x-should-retry", "true")])).await);
    assert!(!retried(&llm, "GET", (529, &[("x-should-retry", "false")])).await);
    let mut keyed = request("POST");
    let key = http::HeaderValue::from_static("8e03978e");
    keyed.headers_mut().insert("idempotency-key", key);
    assert_eq!(send(&llm, keyed, &[LOST]).await.attempts, 2);
    let mut marked = request("POST");
    marked
        .context_mut()
        .set_idempotency(Idempotency::Idempotent);
    assert_eq!(send(&llm, marked, &[LOST]).await.attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_callers_key_costs_no_tokens() {
    for (layer, status) in [
        (HttpClientLayer::llm(), 429),
        (HttpClientLayer::github(), 429),
        (HttpClientLayer::github(), 403),
    ] {
        let limited = (status, &[("retry-after", "1")][..]);
        for call in 0..100 {
            assert!(retried(&layer, "POST", limited).await, "{status} {call}");
        }
        for _ in 0..100 {
            send(&layer, request("GET"), &[(503, &[])]).await;
        }
        let seen = send(&layer, request("GET"), &[(503, &[])]).await;
        assert_eq!(seen.stopped, Some(StopReason::Throttled));
        assert!(retried(&layer, "POST", limited).await, "the bucket is low");
    }
}

/// A prompt with images, as long as Anthropic takes one.
#[tokio::test(start_paused = true)]
async fn llm_repeats_a_prompt_of_32_mib() {
    let llm = HttpClientLayer::llm();
    assert_eq!(attempts_of(&llm, 32 * MIB).await, 2);
    assert_eq!(attempts_of(&llm, 32 * MIB + 1).await, 1);
}

#[tokio::test(start_paused = true)]
async fn kubernetes_repeats_an_object_of_2_mib() {
    let kubernetes = HttpClientLayer::kubernetes();
    assert_eq!(attempts_of(&kubernetes, 2 * MIB).await, 2);
    assert_eq!(attempts_of(&kubernetes, 2 * MIB + 1).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_presets_differ_in_their_time_to_the_head() {
    let hangs = service_fn(|_: Request<ReplayBody<Full<Bytes>>>| {
        std::future::pending::<Result<Response<Full<Bytes>>, io::Error>>()
    });
    for (layer, seconds) in [
        (HttpClientLayer::google(), 60),
        (HttpClientLayer::kubernetes(), 70),
        (HttpClientLayer::llm(), 600),
    ] {
        let began = Instant::now();
        let outcome = layer.layer(hangs).oneshot(request("GET")).await;
        assert!(outcome.is_err_and(|error| error.elapsed().is_some()));
        assert_eq!(began.elapsed(), secs(seconds));
    }
    // Of four attempts of 30 s each.
    let began = Instant::now();
    let github = HttpClientLayer::github().layer(hangs);
    assert!(github.oneshot(request("GET")).await.is_err());
    assert!((secs(130)..=secs(134)).contains(&began.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn without_its_timeout_an_attempt_has_the_time_of_the_call() {
    let slow = service_fn(|_: Request<ReplayBody<Full<Bytes>>>| async {
        tokio::time::sleep(secs(40)).await;
        Ok::<_, io::Error>(Response::new(Full::<Bytes>::default()))
    });
    let github = HttpClientLayer::github().no_attempt_timeout();
    let mut request = request("GET");
    let handle = RetryInfo::track(&mut request);
    let response = github.layer(slow).oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(handle.info().attempts(), 1);
}
