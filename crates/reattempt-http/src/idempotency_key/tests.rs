use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt::{
    AttemptOutcome, CallContext, ClientError, ClientErrorLayer, DeadlineLayer, Failure,
    HasCallContext, HedgeLayer, HedgePolicy, RetryInfo, RetryLayer, RoutePolicy, Stage, StopReason,
    Verdict, reason,
};
use tower::{ServiceBuilder, ServiceExt, service_fn};

use super::*;
use crate::HttpClassifier;

fn answered(status: u16) -> Result<Response<()>, Infallible> {
    Ok(Response::builder().status(status).body(()).unwrap())
}

/// The key that is sent, and whether the request counts as idempotent.
async fn sent(
    layer: &IdempotencyKeyLayer,
    of_route: Option<IdempotencyKeys>,
    mut request: Request<()>,
) -> (Option<String>, bool) {
    let service = layer.layer(service_fn(|request: Request<()>| async move {
        let idempotency = request.context().map(CallContext::idempotency);
        let key = request.headers().get("idempotency-key");
        let key = key.map(|key| key.to_str().unwrap().to_owned());
        Ok::<_, Infallible>((key, idempotency.is_some_and(Idempotency::is_idempotent)))
    }));
    if let Some(said) = of_route {
        let data = HttpRoute::new().with_idempotency_key(said);
        let policy = RoutePolicy::new("orders").with_data(data);
        request.context_mut().attach_policy(Arc::new(policy));
    }
    service.oneshot(request).await.unwrap()
}

fn keyed() -> Request<()> {
    let keyed = Request::post("/orders").header("idempotency-key", "a");
    keyed.body(()).unwrap()
}

fn idempotent() -> Request<()> {
    let mut request = keyed();
    let context = request.context_mut();
    context.set_idempotency(Idempotency::Idempotent);
    request
}

fn unkeyed(method: &str) -> Request<()> {
    let request = Request::builder().method(method).uri("/orders");
    request.body(()).unwrap()
}

#[tokio::test]
async fn the_routes_word_counts_and_without_any_the_layers() {
    use IdempotencyKeys::{Generate, Honour, Ignore};
    for (layer, unless_said) in [
        (IdempotencyKeyLayer::new(), true),
        (IdempotencyKeyLayer::new().by_policy(), false),
        (IdempotencyKeyLayer::new().generate(), true),
    ] {
        for (of_route, counts) in [
            (Some(Honour), true),
            (Some(Generate), true),
            (Some(Ignore), false),
            (None, unless_said),
        ] {
            let own_key = (Some("a".to_owned()), counts);
            assert_eq!(sent(&layer, of_route, keyed()).await, own_key);
        }
    }
}

#[tokio::test]
async fn only_a_post_or_patch_without_a_key_gets_one() {
    let layer = IdempotencyKeyLayer::new().generate();
    for method in ["POST", "PATCH"] {
        let (key, counts) = sent(&layer, None, unkeyed(method)).await;
        assert!(key.is_some() && counts, "{method}");
    }
    for method in ["GET", "PUT", "DELETE", "QUERY"] {
        let nothing = (None, false);
        assert_eq!(sent(&layer, None, unkeyed(method)).await, nothing);
    }
    let empty = Request::post("/").header("idempotency-key", "").body(());
    let (key, counts) = sent(&layer, None, empty.unwrap()).await;
    assert!(key.is_some_and(|key| key.len() == 38) && counts);
}

#[tokio::test]
async fn a_route_switches_generated_keys_on_and_off() {
    let made = async |layer: &IdempotencyKeyLayer, of_route: Option<IdempotencyKeys>| {
        let (key, counts) = sent(layer, of_route, unkeyed("POST")).await;
        assert_eq!(key.is_some(), counts);
        counts
    };
    let generating = IdempotencyKeyLayer::new().generate();
    let reading = IdempotencyKeyLayer::new().by_policy();
    for (of_route, unless_said) in [(IdempotencyKeys::Generate, true), (true.into(), false)] {
        for layer in [&generating, &reading] {
            assert_eq!(made(layer, Some(of_route)).await, unless_said);
        }
    }
    assert!(!made(&generating, Some(IdempotencyKeys::Ignore)).await);
    assert!(!made(&reading, None).await);
}

#[tokio::test]
async fn what_the_caller_said_of_its_request_is_kept() {
    let layer = IdempotencyKeyLayer::new().generate();
    let mut request = unkeyed("POST");
    let context = request.context_mut();
    context.set_idempotency(Idempotency::NotIdempotent);
    let (key, counts) = sent(&layer, None, request).await;
    assert!(key.is_some() && !counts);
}

/// The caller's next call has another key.
#[tokio::test(start_paused = true)]
async fn with_a_generated_key_a_timeout_stays_ambiguous() {
    for (request, ambiguous) in [(keyed(), false), (unkeyed("POST"), true)] {
        let stack = ServiceBuilder::new()
            .layer(IdempotencyKeyLayer::new().generate())
            .layer(DeadlineLayer::new(Duration::from_secs(1)))
            .layer(ClientErrorLayer)
            .service(service_fn(|_: Request<()>| {
                std::future::pending::<Result<Response<()>, Infallible>>()
            }));
        let Err(ClientError::Elapsed(elapsed)) = stack.oneshot(request).await else {
            panic!("it hangs")
        };
        assert_eq!(elapsed.ambiguous, ambiguous);
    }
}

/// The draft, Error Handling: a concurrent request.
#[tokio::test(start_paused = true)]
async fn a_conflict_with_another_attempt_of_the_call_is_retried() {
    let at_once = || MaxAttempts::new(3, Backoff::constant(Duration::ZERO));
    let status = async |layer: Option<IdempotencyKeyLayer>, answers: &'static [u16]| {
        let request = idempotent();
        let left = Arc::new(Mutex::new(answers.iter()));
        let service = ServiceBuilder::new()
            .option_layer(layer)
            .layer(RetryLayer::new(HttpClassifier::new(), at_once()))
            .service_fn(move |_: Request<()>| {
                let status = *left.lock().unwrap().next().unwrap();
                ready(answered(status))
            });
        service.oneshot(request).await.unwrap().status().as_u16()
    };
    let layer = || Some(IdempotencyKeyLayer::new());
    assert_eq!(status(layer(), &[503, 409, 200]).await, 200);
    assert_eq!(status(layer(), &[503, 409, 409]).await, 409);
    assert_eq!(status(layer(), &[409, 200]).await, 409, "the only attempt");
    assert_eq!(status(None, &[503, 409, 200]).await, 409, "no key counts");
}

/// What happens to the attempts of a call with a key in turn: the status of an answer, or a fault.
async fn ends_with(script: &'static [Result<u16, io::ErrorKind>]) -> (u16, u32) {
    let (status, info) = ends_by(HttpClassifier::new(), script).await;
    (status, info.attempts())
}

async fn ends_by(
    classifier: HttpClassifier,
    script: &'static [Result<u16, io::ErrorKind>],
) -> (u16, RetryInfo) {
    let mut request = keyed();
    let watch = RetryInfo::track(&mut request);
    let left = Arc::new(Mutex::new(script.iter()));
    let at_once = MaxAttempts::new(script.len() as u32, Backoff::constant(Duration::ZERO));
    let service = ServiceBuilder::new()
        .layer(IdempotencyKeyLayer::new())
        .layer(RetryLayer::new(classifier, at_once))
        .service_fn(move |_: Request<()>| {
            let next = *left.lock().unwrap().next().unwrap();
            ready(match next {
                Ok(status) => Ok(answered(status).unwrap()),
                Err(kind) => Err(io::Error::from(kind)),
            })
        });
    let status = service.oneshot(request).await.unwrap().status();
    (status.as_u16(), watch.info())
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_final_if_no_other_attempt_was_accepted() {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset};
    for unprocessed in [
        &[Err(ConnectionRefused), Ok(409), Ok(200)][..],
        &[Ok(429), Ok(409), Ok(200)],
        &[Ok(425), Ok(409), Ok(200)],
        &[Ok(429), Err(ConnectionRefused), Ok(409), Ok(200)],
    ] {
        let attempts = unprocessed.len() as u32 - 1;
        assert_eq!(ends_with(unprocessed).await, (409, attempts));
    }
    for accepted in [
        &[Ok(503), Ok(429), Ok(409), Ok(200)][..],
        &[Err(ConnectionReset), Ok(409), Ok(200)],
        &[Ok(503), Ok(409), Ok(409), Ok(200)],
    ] {
        let attempts = accepted.len() as u32;
        assert_eq!(ends_with(accepted).await, (200, attempts));
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_after_a_403_of_a_limit_is_final() {
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&attempts);
    let service = ServiceBuilder::new()
        .layer(IdempotencyKeyLayer::new())
        .layer(RetryLayer::new(
            HttpClassifier::new().limited_403(),
            MaxAttempts::new(3, Backoff::constant(Duration::ZERO)),
        ))
        .service_fn(move |_: Request<()>| {
            let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            let mut answer = answered(if first { 403 } else { 409 }).unwrap();
            if first {
                let limit = http::HeaderValue::from_static("1");
                answer.headers_mut().insert("retry-after", limit);
            }
            ready(Ok::<_, io::Error>(answer))
        });
    assert_eq!(service.oneshot(keyed()).await.unwrap().status(), 409);
    assert_eq!(attempts.load(Ordering::Relaxed), 2);
}

/// A gateway's 503 may be of a request that goes on.
#[tokio::test(start_paused = true)]
async fn a_status_that_may_be_repeated_is_not_one_unprocessed() {
    let safe = HttpClassifier::new().safe(crate::StatusSet::of(&[429, 503]));
    let script = &[Ok(503), Ok(409), Ok(200)];
    let (status, info) = ends_by(safe, script).await;
    assert_eq!((status, info.attempts()), (200, 3));
}

/// The second attempt meets the first in flight; that one ends, before the third does.
#[tokio::test(start_paused = true)]
async fn a_conflict_does_not_say_that_its_own_attempt_was_accepted() {
    let mut request = keyed();
    let watch = RetryInfo::track(&mut request);
    let policy = HedgePolicy::new(3, Duration::from_millis(10));
    let service = ServiceBuilder::new()
        .layer(IdempotencyKeyLayer::new())
        .layer(HedgeLayer::new(HttpClassifier::new(), policy))
        .service_fn(|request: Request<()>| async move {
            let is_first = request.context().map(CallContext::attempt) == Some(1);
            let (ms, status) = if is_first { (13, 429) } else { (2, 409) };
            tokio::time::sleep(Duration::from_millis(ms)).await;
            answered(status)
        });
    assert_eq!(service.oneshot(request).await.unwrap().status(), 409);
    let info = watch.info();
    let outcomes = info.records().map(|record| record.outcome);
    use AttemptOutcome::{Fatal, Retry};
    assert!(outcomes.eq([Retry, Retry, Fatal]));
    assert_eq!(info.stopped(), Some(StopReason::Fatal));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_the_users_function_ends_is_not_retried() {
    const FAILURE: Failure = Failure::new(reason::UNKNOWN, Stage::Response);
    let ends = |status: StatusCode, _: &http::HeaderMap| {
        (status == 409).then_some(Verdict::Fatal(FAILURE))
    };
    let retries = |status: StatusCode, _: &http::HeaderMap| {
        (status == 409).then_some(Verdict::Retry(FAILURE))
    };
    let script = &[Ok(503), Ok(409), Ok(200)];
    let (status, info) = ends_by(HttpClassifier::new().judge_heads(ends), script).await;
    assert_eq!((status, info.attempts()), (409, 2));
    let (status, info) = ends_by(HttpClassifier::new().judge_heads(retries), script).await;
    assert_eq!((status, info.attempts()), (200, 3));
    let reasons: Vec<_> = info.reasons().collect();
    assert!(reasons.contains(&reason::UNKNOWN), "its own: {reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_the_server_says_is_final_is_not_retried() {
    let mut request = keyed();
    let watch = RetryInfo::track(&mut request);
    let classifier = HttpClassifier::new().should_retry_header();
    let service = ServiceBuilder::new()
        .layer(IdempotencyKeyLayer::new())
        .layer(RetryLayer::new(classifier, MaxAttempts::standard()))
        .service_fn(|request: Request<()>| {
            let is_first = request.context().is_some_and(|it| it.attempt() == 1);
            let status = if is_first { 503 } else { 409 };
            let mut response = Response::builder().status(status);
            if !is_first {
                response = response.header("x-should-retry", "false");
            }
            let response = response.body(()).unwrap();
            async { Ok::<_, Infallible>(response) }
        });
    assert_eq!(service.oneshot(request).await.unwrap().status(), 409);
    assert_eq!(watch.info().attempts(), 2);
}

/// The first attempt reaches the server after its hedge.
#[tokio::test(start_paused = true)]
async fn a_conflict_with_its_own_hedge_does_not_end_the_call() {
    let request = idempotent();
    let policy = HedgePolicy::new(2, Duration::from_millis(10));
    let service = ServiceBuilder::new()
        .layer(IdempotencyKeyLayer::new())
        .layer(HedgeLayer::new(HttpClassifier::new(), policy))
        .service_fn(|request: Request<()>| async move {
            let is_first = request.context().map(CallContext::attempt) == Some(1);
            let (ms, status) = if is_first { (20, 409) } else { (30, 200) };
            tokio::time::sleep(Duration::from_millis(ms)).await;
            answered(status)
        });
    assert_eq!(service.oneshot(request).await.unwrap().status(), 200);
}

/// RFC 9562, section 5.4: version and variant; RFC 9651, section 3.3.3: a string.
#[test]
fn a_key_is_a_quoted_random_uuid() {
    let of = |roll: f64| key(&Randomness::Fixed(roll));
    assert_eq!(of(0.0), "\"00000000-0000-4000-8000-000000000000\"");
    assert_eq!(of(1.0), "\"ffffffff-ffff-4fff-bfff-ffffffffffff\"");
    let seeded = Randomness::seeded(7);
    let keys: std::collections::HashSet<_> = (0..1000).map(|_| key(&seeded)).collect();
    assert_eq!(keys.len(), 1000);
    assert!(keys.iter().all(|key| {
        let key = key.as_bytes();
        key.len() == 38 && key[15] == b'4' && matches!(key[20], b'8' | b'9' | b'a' | b'b')
    }));
    assert_ne!(key(&Randomness::Thread), key(&Randomness::Thread));
}

#[tokio::test(start_paused = true)]
async fn all_attempts_of_a_call_have_its_key_and_no_others() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keys = Arc::clone(&seen);
    let strategy = MaxAttempts::new(3, Backoff::constant(Duration::from_secs(1)));
    let service = ServiceBuilder::new()
        .layer(IdempotencyKeyLayer::new().generate())
        .layer(RetryLayer::new(HttpClassifier::new(), strategy))
        .service_fn(move |request: Request<()>| {
            let key = request.headers()["idempotency-key"].clone();
            keys.lock().unwrap().push(key);
            ready(answered(502))
        });
    for _ in 0..2 {
        let started = tokio::time::Instant::now();
        let answer = service.clone().oneshot(unkeyed("POST")).await.unwrap();
        assert_eq!(answer.status(), 502);
        assert_eq!(started.elapsed(), Duration::from_secs(2));
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 6);
    let (first, second) = seen.split_at(3);
    assert!(first.iter().all(|key| key == first[0]));
    assert!(second.iter().all(|key| key == second[0]));
    assert_ne!(first[0], second[0]);
}
