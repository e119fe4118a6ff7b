use std::convert::Infallible;
use std::future::{pending, ready};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Request, Response};
use proptest::prelude::*;
use reattempt::admission::Admission;
use reattempt::backoff::{Backoff, Randomness};
use reattempt::strategy::MaxAttempts;
use reattempt::test_util::ms;
use reattempt::{
    AdmissionLayer, CallContext, DeadlineLayer, HasCallContext, HedgeLayer, HedgePolicy,
    OnDeadline, RetryInfo, RetryLayer, RetryThrottle, RouteLayer, RoutePolicy, StopReason,
    ThrottleLayer, TokenBucket,
};
use tokio::time::{Instant, sleep};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};

use super::*;
use crate::HttpClassifier;

type Answer = Result<Response<String>, BoxError>;

/// Three attempts, 100 ms apart.
fn three() -> MaxAttempts {
    MaxAttempts::new(3, Backoff::constant(ms(100)))
}

fn status(status: u16) -> Answer {
    Ok(Response::builder().status(status).body(String::new())?)
}

fn get() -> Request<()> {
    Request::new(())
}

fn with(headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder();
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

/// 2026-01-31T12:00:00Z
fn noon() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_769_860_800)
}

/// The headers of each attempt that reached a service.
type Seen = Arc<Mutex<Vec<HeaderMap>>>;

/// One call through `layer`, above the attempt headers, to a service that responds by `script`.
async fn call<L, S>(
    layer: L,
    headers: AttemptHeadersLayer,
    request: Request<()>,
    script: impl Fn(u32) -> Answer + Clone + Send + 'static,
) -> (Answer, RetryInfo, Vec<HeaderMap>)
where
    L: Layer<AttemptHeaders<Script>, Service = S>,
    S: Service<Request<()>, Response = Response<String>, Error = BoxError>,
{
    let seen = Seen::default();
    let service = Script {
        seen: seen.clone(),
        answers: Arc::new(script),
    };
    let mut request = request;
    let watch = RetryInfo::track(&mut request);
    let outcome = layer.layer(headers.layer(service)).oneshot(request).await;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (outcome, watch.info(), seen)
}

/// Responds to the attempt of each number by a script.
#[derive(Clone)]
struct Script {
    seen: Seen,
    answers: Arc<dyn Fn(u32) -> Answer + Send>,
}

impl Service<Request<()>> for Script {
    type Response = Response<String>;
    type Error = BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Answer>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        self.seen.lock().unwrap().push(request.headers().clone());
        let attempt = request.context().map_or(0, CallContext::attempt);
        let answer = (self.answers)(attempt);
        Box::pin(async move {
            // Slow enough for a hedge.
            sleep(ms(30)).await;
            answer
        })
    }
}

fn retries() -> RetryLayer<HttpClassifier> {
    RetryLayer::new(HttpClassifier::new(), three())
}

#[tokio::test(start_paused = true)]
async fn each_attempt_says_its_number_and_what_it_is_sent_after() {
    let (answer, _, seen) = call(retries(), AttemptHeadersLayer::new(), get(), |n| match n {
        1 => status(503),
        2 => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()),
        _ => status(200),
    })
    .await;
    assert_eq!(answer.unwrap().status(), 200);
    let reasons = [
        None,
        Some("HTTP_SERVICE_UNAVAILABLE"),
        Some("HTTP_CONNECT_FAILED"),
    ];
    for ((headers, number), reason) in seen.iter().zip(1..).zip(reasons) {
        assert_eq!(attempt_count(headers), Some(number));
        assert_eq!(retry_reason(headers), reason);
        assert_eq!(text(headers, "amz-sdk-request"), None);
        assert_eq!(expected_timeout(headers), None);
    }
    assert_eq!(seen.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_says_that_it_is_one() {
    let hedge = HedgeLayer::new(HttpClassifier::new(), HedgePolicy::new(2, ms(10)));
    let (_, _, seen) = call(hedge, AttemptHeadersLayer::new(), get(), |_| status(200)).await;
    let said: Vec<_> = seen.iter().map(retry_reason).collect();
    assert_eq!(said, [None, Some("HEDGE")]);
    // One that a failure brings forward says which.
    let hedge = HedgeLayer::new(HttpClassifier::new(), HedgePolicy::new(2, ms(10_000)));
    let fails_first = |n| status(if n == 1 { 503 } else { 200 });
    let (_, _, seen) = call(hedge, AttemptHeadersLayer::new(), get(), fails_first).await;
    let said: Vec<_> = seen.iter().map(retry_reason).collect();
    assert_eq!(said, [None, Some("HTTP_SERVICE_UNAVAILABLE")]);
}

/// A hedge layer whose policy says nothing of a call passes it through.
#[tokio::test(start_paused = true)]
async fn headers_of_a_call_that_is_passed_through_begin_no_other() {
    let admission = Arc::new(Admission::default().randomness(Randomness::Fixed(0.0)));
    let service = ServiceBuilder::new()
        .layer(AdmissionLayer::new(admission))
        .layer(HedgeLayer::by_policy(HttpClassifier::new()))
        .layer(AttemptHeadersLayer::new())
        .service_fn(|_: Request<()>| ready(status(503)));
    let mut refused = 0;
    for _ in 0..10 {
        refused += u32::from(service.clone().oneshot(get()).await.is_err());
    }
    assert!(refused > 0, "the failures are counted");
}

#[tokio::test(start_paused = true)]
async fn what_another_hop_said_is_not_said_again() {
    let forwarded = with(&[
        ("x-envoy-attempt-count", "7"),
        ("x-reattempt-reason", "HTTP_TIMEOUT"),
        ("x-envoy-expected-rq-timeout-ms", "99999"),
        ("amz-sdk-request", "attempt=7; max=9"),
    ]);
    let within = DeadlineLayer::new(ms(2000));
    let stack = ServiceBuilder::new().layer(within).layer(retries());
    let headers = AttemptHeadersLayer::new().amz_sdk_request();
    let (_, _, seen) = call(stack, headers, forwarded, |_| status(200)).await;
    assert_eq!(attempt_count(&seen[0]), Some(1));
    assert_eq!(retry_reason(&seen[0]), None);
    assert_eq!(expected_timeout(&seen[0]), Some(ms(2000)));
    let amz = AmzSdkRequest::read(&seen[0]).unwrap();
    assert_eq!((amz.attempt, amz.max), (Some(1), None));
    let forwarded = with(&[("x-envoy-expected-rq-timeout-ms", "99999")]);
    let (_, _, seen) = call(retries(), headers, forwarded, |_| status(200)).await;
    assert_eq!(expected_timeout(&seen[0]), None);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_reports_the_time_left_and_the_maximum() {
    let policy = Arc::new(RoutePolicy::new("r").retry(three()));
    let nine = MaxAttempts::new(9, Backoff::constant(ms(1)));
    let stack = ServiceBuilder::new()
        .layer(RouteLayer::new(policy))
        .layer(DeadlineLayer::new(ms(2000)))
        .layer(RetryLayer::new(HttpClassifier::new(), nine));
    let headers = AttemptHeadersLayer::new()
        .amz_sdk_request()
        .max_attempts(9)
        .wall_clock(noon);
    let (_, _, seen) = call(stack, headers, get(), |_| status(503)).await;
    let left: Vec<_> = seen.iter().map(expected_timeout).collect();
    // 30 ms for each attempt and 100 ms between them.
    assert_eq!(left, [ms(2000), ms(1870), ms(1740)].map(Some));
    for (headers, number) in seen.iter().zip(1..=3) {
        let expected = format!("ttl=20260131T120002Z; attempt={number}; max=3");
        assert_eq!(text(headers, "amz-sdk-request"), Some(&*expected));
    }
    let (_, _, seen) = call(retries(), headers, get(), |_| status(200)).await;
    assert_eq!(text(&seen[0], "amz-sdk-request"), Some("attempt=1; max=9"));
    // The call's own strategy has no maximum.
    let mut request = get();
    let patient = reattempt::strategy::BestEffort::new();
    request.context_mut().set_strategy(Arc::new(patient));
    let (_, _, seen) = call(retries(), headers, request, |_| status(200)).await;
    assert_eq!(text(&seen[0], "amz-sdk-request"), Some("attempt=1"));
    for (reserve, left) in [(ms(15), ms(35)), (ms(60), ms(1))] {
        let stack = ServiceBuilder::new()
            .layer(DeadlineLayer::new(ms(50)))
            .layer(retries());
        let headers = AttemptHeadersLayer::new().reserve(reserve);
        let (_, _, seen) = call(stack, headers, get(), |_| status(200)).await;
        assert_eq!(expected_timeout(&seen[0]), Some(left));
    }
}

fn marked(name: &'static str, value: &'static str) -> Answer {
    let mut answer = status(503)?;
    answer.headers_mut().insert(name, value.parse()?);
    Ok(answer)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_says_do_not_retry_ends_the_call_unchanged() {
    for value in ["attempts", "", "two words"] {
        let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
        let stack = ServiceBuilder::new()
            .layer(ThrottleLayer::new(bucket.clone()))
            .layer(retries());
        let headers = AttemptHeadersLayer::new();
        let script = move |_| marked("x-reattempt-do-not-retry", value);
        let (answer, info, seen) = call(stack, headers, get(), script).await;
        assert_eq!((answer.unwrap().status().as_u16(), seen.len()), (503, 1));
        assert_eq!(info.stopped(), Some(StopReason::Pushback));
        assert_eq!(bucket.milli_tokens(), Some(9000), "it counts as a failure");
    }
    let script = |_| {
        let mut good = status(200)?;
        set_do_not_retry(good.headers_mut(), "attempts");
        Ok(good)
    };
    let (_, info, _) = call(retries(), AttemptHeadersLayer::new(), get(), script).await;
    assert_eq!(info.stopped(), Some(StopReason::Success));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_says_do_not_retry_sends_no_further_hedge() {
    let script = |_| marked("x-reattempt-do-not-retry", "throttled");
    for (delay, attempts) in [(50, 1), (12, 3)] {
        let hedge = HedgeLayer::new(HttpClassifier::new(), HedgePolicy::new(9, ms(delay)));
        let (answer, info, _) = call(hedge, AttemptHeadersLayer::new(), get(), script).await;
        assert_eq!(answer.unwrap().status(), 503);
        // Those in flight before the first response, after 30 ms, and no more.
        assert!(
            (attempts..=attempts + 1).contains(&info.attempts()),
            "{info:#}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn envoys_word_is_heeded_where_that_is_asked_for() {
    let heeds = AttemptHeadersLayer::new().heed_envoy_ratelimited();
    for (layer, attempts) in [(AttemptHeadersLayer::new(), 3), (heeds, 1)] {
        let script = |_| marked("x-envoy-ratelimited", "true");
        let (_, info, _) = call(retries(), layer, get(), script).await;
        assert_eq!(info.attempts(), attempts);
    }
}

/// One request to a server with the layer, and how often its service was called.
async fn serve<F>(
    layer: ServerHopLayer,
    request: Request<()>,
    handler: impl Fn(Request<()>) -> F,
) -> (Response<String>, u32)
where
    F: Future<Output = Answer>,
{
    let calls = AtomicU32::new(0);
    let service = layer.layer(tower::service_fn(|request| {
        calls.fetch_add(1, Ordering::Relaxed);
        handler(request)
    }));
    let answer = service.oneshot(request).await.unwrap();
    (answer, calls.into_inner())
}

#[tokio::test(start_paused = true)]
async fn a_server_sees_what_the_hop_before_said() {
    type Said = (Option<u32>, Option<u32>, Option<&'static str>, Option<u64>);
    let cases: [(&[(&str, &str)], Said); 9] = [
        (&[], (None, None, None, None)),
        (
            &[
                ("x-envoy-attempt-count", "2"),
                ("x-reattempt-reason", "HTTP_BAD_GATEWAY"),
                ("x-envoy-expected-rq-timeout-ms", "250"),
            ],
            (Some(2), None, Some("HTTP_BAD_GATEWAY"), Some(250)),
        ),
        (
            &[("amz-sdk-request", "attempt=3; max=4; ttl=20260131T120005Z")],
            (Some(3), Some(4), None, Some(6000)),
        ),
        // Number and time are those of the calling hop; a time given as a duration does not need
        // synchronized clocks.
        (
            &[
                ("x-envoy-attempt-count", "1"),
                ("x-envoy-expected-rq-timeout-ms", "9000"),
                ("amz-sdk-request", "ttl=2026-01-31T12:00:05Z;attempt=3"),
            ],
            (Some(1), None, None, Some(9000)),
        ),
        (
            &[
                ("x-envoy-attempt-count", "0"),
                ("x-reattempt-reason", "two words"),
                ("x-envoy-expected-rq-timeout-ms", "0"),
                ("amz-sdk-request", "attempt=0; max=-1; ttl=soon; x; =; k=v"),
            ],
            (None, None, None, None),
        ),
        (
            &[
                ("x-envoy-attempt-count", "4294967296"),
                ("x-envoy-expected-rq-timeout-ms", "1.5"),
            ],
            (None, None, None, None),
        ),
        (
            &[
                ("x-envoy-attempt-count", "1"),
                ("x-envoy-attempt-count", "2"),
            ],
            (None, None, None, None),
        ),
        (
            &[("x-envoy-expected-rq-timeout-ms", "99999999999999999999")],
            (None, None, None, None),
        ),
        (
            &[(
                "x-reattempt-reason",
                "A123456789012345678901234567890123456789012345678901234567890123x",
            )],
            (None, None, None, None),
        ),
    ];
    for (headers, (attempt, max, reason, left)) in cases {
        let layer = ServerHopLayer::new().wall_clock(noon);
        let began = Instant::now();
        let (answer, calls) = serve(layer, with(headers), |request| {
            let hop = Hop::of(&request).unwrap();
            assert_eq!(hop.attempt(), attempt, "{headers:?}");
            assert_eq!(hop.max_attempts(), max);
            assert_eq!(hop.reason(), reason);
            let deadline = hop.deadline().map(|at| at - began.into_std());
            assert_eq!(deadline, left.map(ms));
            let attached = request.context().and_then(CallContext::deadline);
            assert_eq!(attached.map(|deadline| deadline.at), hop.deadline());
            ready(status(200))
        })
        .await;
        assert_eq!((answer.status().as_u16(), calls), (200, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_time_is_over_is_refused_unseen() {
    let layer = ServerHopLayer::new().wall_clock(noon);
    for (ttl, refused) in [
        ("20260131T115958Z", true),
        ("20260131T115959Z", true),
        // Within the skew.
        ("20260131T120000Z", false),
        ("19700101T000000Z", true),
    ] {
        let amz = format!("ttl={ttl}; attempt=1; max=3");
        let request = with(&[("amz-sdk-request", &amz)]);
        let (answer, calls) = serve(layer, request, |_| ready(status(200))).await;
        assert_eq!(calls, u32::from(!refused), "{ttl}");
        if refused {
            assert_eq!(answer.status(), 504);
            assert_eq!(do_not_retry(answer.headers()), None, "nothing was retried");
        }
    }
    // A time given as a duration does not need synchronized clocks.
    let request = with(&[
        ("amz-sdk-request", "ttl=20260131T110000Z"),
        ("x-envoy-expected-rq-timeout-ms", "250"),
    ]);
    let (_, calls) = serve(layer, request, |_| ready(status(200))).await;
    assert_eq!(calls, 1);
    for skew in [Duration::from_secs(10), Duration::MAX] {
        let request = with(&[("amz-sdk-request", "ttl=20260131T115955Z")]);
        let (_, calls) = serve(layer.clock_skew(skew), request, |_| ready(status(200))).await;
        assert_eq!(calls, 1, "{skew:?}");
    }
}

/// The service is kept, as a server keeps one for each connection.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_gives_its_permit_back() {
    let permits = tower::limit::GlobalConcurrencyLimitLayer::new(1);
    let works = permits.layer(tower::service_fn(|_: Request<()>| ready(status(200))));
    let mut kept = ServerHopLayer::new().layer(works.clone());
    let late = with(&[("amz-sdk-request", "ttl=20000101T000000Z")]);
    let answer = kept.ready().await.unwrap().call(late).await.unwrap();
    assert_eq!(answer.status(), 504);
    let other = tokio::time::timeout(ms(10), works.oneshot(get())).await;
    assert_eq!(other.expect("the permit").unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn grpc_is_refused_in_its_own_words() {
    let request = with(&[
        ("content-type", "application/grpc+proto"),
        ("amz-sdk-request", "ttl=20000101T000000Z"),
    ]);
    let layer = ServerHopLayer::new().wall_clock(noon);
    let (answer, calls) = serve(layer, request, |_| ready(status(200))).await;
    let headers = answer.headers();
    assert_eq!((answer.status().as_u16(), calls), (200, 0));
    assert_eq!(text(headers, "grpc-status"), Some("4"));
    assert_eq!(text(headers, "grpc-retry-pushback-ms"), None);
    assert_eq!(text(headers, "content-type"), Some("application/grpc"));
}

/// A client of gRPC-Web reads no response of another type.
#[tokio::test(start_paused = true)]
async fn only_grpc_itself_is_refused_in_words_of_grpc() {
    for (kind, expected) in [
        ("application/grpc", 200),
        ("application/grpc+proto", 200),
        ("application/grpc;charset=utf-8", 200),
        ("application/grpc ; charset=utf-8", 200),
        ("application/grpc-web", 504),
        ("application/grpc-web+proto", 504),
        ("application/grpc-web-text", 504),
    ] {
        let late = ("amz-sdk-request", "ttl=20000101T000000Z");
        let request = with(&[("content-type", kind), late]);
        let layer = ServerHopLayer::new().wall_clock(noon);
        let (answer, _) = serve(layer, request, |_| ready(status(200))).await;
        assert_eq!(answer.status(), expected, "{kind}");
        let is_grpc = expected == 200;
        assert_eq!(text(answer.headers(), "grpc-status").is_some(), is_grpc);
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_no_caller_waits_for_any_more_is_ended() {
    let soon = || with(&[("x-envoy-expected-rq-timeout-ms", "250")]);
    let began = Instant::now();
    let (answer, calls) = serve(ServerHopLayer::new(), soon(), |_| pending()).await;
    assert_eq!((answer.status().as_u16(), calls), (504, 1));
    assert_eq!(began.elapsed(), ms(250));
    assert_eq!(do_not_retry(answer.headers()), None, "nothing was retried");
    let slow = |_| async {
        sleep(ms(400)).await;
        status(200)
    };
    let (answer, _) = serve(ServerHopLayer::new().finish_late_work(), soon(), slow).await;
    assert_eq!(answer.status(), 200);
    // A response at the exact instant wins.
    let just = |_| async {
        sleep(ms(250)).await;
        status(200)
    };
    let (answer, _) = serve(ServerHopLayer::new(), soon(), just).await;
    assert_eq!(answer.status(), 200);
}

/// A service behind this one, and a client stack for it.
async fn call_behind(
    mut call: Request<()>,
    hop: Option<&Hop>,
    policy: RoutePolicy,
    answers: impl Fn() -> Answer + Clone,
) -> Answer {
    if let Some(hop) = hop {
        hop.pass_on(&mut call);
    }
    ServiceBuilder::new()
        .layer(GaveUpLayer)
        .layer(RouteLayer::new(Arc::new(policy)))
        .layer(DeadlineLayer::no_timeout())
        .layer(retries())
        .layer(AttemptHeadersLayer::new())
        .service_fn(move |_: Request<()>| ready(answers()))
        .oneshot(call)
        .await
}

fn low() -> Arc<TokenBucket> {
    let bucket = TokenBucket::new(2, 1).unwrap();
    let failure = reattempt::Failure::new(reattempt::reason::UNKNOWN, reattempt::Stage::Response);
    bucket.settled(reattempt::throttle::Settled::Failure(&failure));
    Arc::new(bucket)
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_marked_only_if_a_call_of_its_hop_gave_up() {
    use http::Method;
    type Behind = fn() -> Answer;
    let plain = || RoutePolicy::new("r");
    let once = || plain().no_recovery();
    let down: Behind = || status(503);
    let gave_up: Behind = || marked("x-reattempt-do-not-retry", "attempts");
    let (held_back, brief) = (plain().with_throttle(low()), plain().with_timeout(ms(150)));
    let no_more = "no retry would follow anyway";
    let cases: [(&str, RoutePolicy, Method, Behind, Option<&str>); 8] = [
        ("all", plain(), Method::GET, down, Some("attempts")),
        ("held back", held_back, Method::GET, down, Some("throttled")),
        (
            "next gave up",
            plain(),
            Method::GET,
            gave_up,
            Some("pushback"),
        ),
        (no_more, once(), Method::GET, gave_up, Some("pushback")),
        ("no time left", brief, Method::GET, down, Some("deadline")),
        ("final", plain(), Method::GET, || status(404), None),
        ("a write", plain(), Method::POST, down, None),
        ("not its task", once(), Method::GET, down, None),
    ];
    for (name, policy, method, behind, why) in cases {
        let policy = Mutex::new(Some(policy));
        let (answer, _) = serve(ServerHopLayer::new(), get(), |request| {
            let mut call = get();
            *call.method_mut() = method.clone();
            let policy = policy.lock().unwrap().take().unwrap();
            async move {
                let hop = Hop::of(&request);
                let behind = call_behind(call, hop, policy, behind).await;
                // A response of its own, unrelated to that of the next service.
                status(behind.map_or(502, |answer| answer.status().as_u16()))
            }
        })
        .await;
        assert_eq!(do_not_retry(answer.headers()), why, "{name}");
        assert!(text(answer.headers(), "x-envoy-ratelimited").is_none());
    }
}

/// The time that is over may be that of one attempt of the caller.
#[tokio::test(start_paused = true)]
async fn time_that_is_over_is_marked_only_after_a_retry() {
    for (left, why) in [("90", None), ("110", Some("cancelled"))] {
        for kind in ["text/plain", "application/grpc"] {
            let request = with(&[
                ("x-envoy-expected-rq-timeout-ms", left),
                ("content-type", kind),
            ]);
            let layer = ServerHopLayer::new();
            let (answer, _) = serve(layer, request, |request| async move {
                let mut call = get();
                Hop::of(&request).unwrap().pass_on(&mut call);
                // No deadline of its own: only that of the request ends the call.
                let client = ServiceBuilder::new().layer(GaveUpLayer).layer(retries());
                let attempt = |request: Request<()>| async move {
                    if request.context().map(CallContext::attempt) == Some(1) {
                        return status(503);
                    }
                    pending().await
                };
                client.service_fn(attempt).oneshot(call).await
            })
            .await;
            assert_eq!(do_not_retry(answer.headers()), why, "{left} ms");
            let pushback = text(answer.headers(), "grpc-retry-pushback-ms");
            let grpc = kind == "application/grpc";
            assert_eq!(pushback, why.filter(|_| grpc).map(|_| "-1"));
        }
    }
}

/// Another call of the handler failed meanwhile, and its failure is the response.
#[tokio::test(start_paused = true)]
async fn a_retried_call_that_is_dropped_in_time_marks_nothing() {
    let soon = with(&[("x-envoy-expected-rq-timeout-ms", "500")]);
    let (answer, _) = serve(ServerHopLayer::new(), soon, |request| async move {
        let call = || {
            let mut call = get();
            Hop::of(&request).unwrap().pass_on(&mut call);
            call
        };
        let fails_once = |request: Request<()>| async move {
            if request.context().map(CallContext::attempt) == Some(1) {
                return status(503);
            }
            pending().await
        };
        let client = ServiceBuilder::new().layer(GaveUpLayer).layer(retries());
        let retried = client.service_fn(fails_once).oneshot(call());
        let dropped = tokio::time::timeout(ms(200), retried).await;
        assert!(dropped.is_err());
        status(500)
    })
    .await;
    assert_eq!(answer.status(), 500);
    assert_eq!(do_not_retry(answer.headers()), None);
}

#[tokio::test(start_paused = true)]
async fn a_slow_service_is_left_to_the_hop_before() {
    let (answer, _) = serve(ServerHopLayer::new(), get(), |request| async move {
        let mut call = get();
        Hop::of(&request).unwrap().pass_on(&mut call);
        let client = ServiceBuilder::new()
            .layer(GaveUpLayer)
            .layer(DeadlineLayer::new(ms(50)))
            .layer(retries());
        let never = |_: Request<()>| pending::<Answer>();
        client.service_fn(never).oneshot(call).await.or(status(504))
    })
    .await;
    assert_eq!(do_not_retry(answer.headers()), None);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_works_is_not_marked() {
    let (answer, _) = serve(ServerHopLayer::new(), get(), |request| async move {
        let plain = RoutePolicy::new("r");
        let behind = call_behind(get(), Hop::of(&request), plain, || status(503)).await?;
        assert_eq!(behind.status(), 503);
        assert_eq!(
            Hop::of(&request).unwrap().gave_up(),
            Some(StopReason::Attempts)
        );
        status(200)
    })
    .await;
    assert_eq!((answer.status().as_u16(), answer.headers().len()), (200, 0));
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_forwards_both_needs_nothing_else() {
    let request = with(&[("x-envoy-expected-rq-timeout-ms", "150")]);
    // One retry fits before the deadline of the request; the second does not.
    let ends = [
        (OnDeadline::Cap, (504, ms(150))),
        (OnDeadline::GiveUp, (503, ms(100))),
    ];
    for (on_deadline, end) in ends {
        let began = Instant::now();
        let request = request.clone();
        let (answer, _) = serve(ServerHopLayer::new().for_envoy(), request, |request| {
            let policy = RoutePolicy::new("r").retry(three().on_deadline(on_deadline));
            call_behind(request, None, policy, || status(503))
        })
        .await;
        assert_eq!((answer.status().as_u16(), began.elapsed()), end);
        assert_eq!(do_not_retry(answer.headers()), Some("deadline"));
    }

    let (answer, _) = serve(ServerHopLayer::new().for_envoy(), get(), |request| {
        // Only the response is forwarded.
        drop(request);
        call_behind(get(), None, RoutePolicy::new("r"), || status(503))
    })
    .await;
    assert_eq!(do_not_retry(answer.headers()), Some("attempts"));
    assert_eq!(text(answer.headers(), "x-envoy-ratelimited"), Some("true"));
}

#[tokio::test(start_paused = true)]
async fn a_service_may_say_it_by_itself() {
    let (answer, _) = serve(ServerHopLayer::new(), get(), |request| async move {
        Hop::of(&request).unwrap().give_up(StopReason::Throttled);
        status(429)
    })
    .await;
    assert_eq!(do_not_retry(answer.headers()), Some("throttled"));
}

#[tokio::test(start_paused = true)]
async fn grpc_failures_are_marked_where_the_head_is_the_whole_answer() {
    for (code, mark) in [(Some("14"), Some("-1")), (Some("0"), None), (None, None)] {
        let (answer, _) = serve(ServerHopLayer::new(), get(), |request| async move {
            Hop::of(&request).unwrap().give_up(StopReason::Attempts);
            let mut answer = status(200)?;
            if let Some(code) = code {
                answer.headers_mut().insert("grpc-status", code.parse()?);
            }
            Ok(answer)
        })
        .await;
        assert_eq!(text(answer.headers(), "grpc-retry-pushback-ms"), mark);
        assert_eq!(do_not_retry(answer.headers()).is_some(), mark.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_service_come_through() {
    let service = ServerHopLayer::new().layer(tower::service_fn(|request: Request<()>| {
        Hop::of(&request).unwrap().give_up(StopReason::Attempts);
        ready(Err::<Response<String>, _>("broken"))
    }));
    assert_eq!(service.oneshot(get()).await.unwrap_err(), "broken");
}

#[test]
fn amz_sdk_request_is_written_as_it_is_read() {
    let mut said = AmzSdkRequest::new();
    let mut headers = HeaderMap::new();
    headers.insert(AMZ_SDK_REQUEST, "attempt=1".parse().unwrap());
    said.write(&mut headers);
    assert!(headers.is_empty(), "no header");
    (said.ttl, said.attempt, said.max) = (Some(noon()), Some(2), Some(10));
    said.write(&mut headers);
    let text = text(&headers, "amz-sdk-request").unwrap();
    assert_eq!(text, "ttl=20260131T120000Z; attempt=2; max=10");
    assert_eq!(AmzSdkRequest::read(&headers), Some(said));
}

proptest! {
    #[test]
    fn no_header_panics_and_what_is_kept_is_short(
        name in prop_oneof![
            Just("x-envoy-attempt-count"), Just("x-envoy-expected-rq-timeout-ms"), Just("amz-sdk-request"),
            Just("x-reattempt-reason"), Just("x-reattempt-do-not-retry")
        ],
        value in proptest::collection::vec(any::<u8>().prop_filter("no header", |b| *b >= 32 && *b != 127), 0..100),
    ) {
        let mut headers = HeaderMap::new();
        headers.insert(name, http::HeaderValue::from_bytes(&value).unwrap());
        let _ = (attempt_count(&headers), expected_timeout(&headers), AmzSdkRequest::read(&headers));
        prop_assert!(retry_reason(&headers).is_none_or(|word| word.len() <= 64));
        prop_assert!(do_not_retry(&headers).is_none_or(|word| word.len() <= 64));
    }
}

/// Guarantees about the types, checked by compilation.
const _: fn() = || {
    fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}
    fn future<T: Send>() {}
    service::<ServerHop<()>>();
    service::<GaveUpService<()>>();
    service::<AttemptHeaders<()>>();
    future::<ServeHopFuture<std::future::Ready<Result<Response<()>, Infallible>>>>();
};
