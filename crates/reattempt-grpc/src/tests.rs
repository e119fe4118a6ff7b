//! The rules of A6 through the whole stack, on paused time. Rule numbers as in docs/conformance/grpc.md.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use reattempt::backoff::Randomness;
use reattempt::pushback::ReadPushback;
use reattempt::strategy::Attempts;
use reattempt::throttle::Settled;
use reattempt::{
    CallContext, Classify, DeadlineLayer, Failure, HedgeLayer, PushbackLayer, RetryInfo,
    RetryLayer, RetryThrottle, RouteLayer, ServerPushback, Stage, Stopped, Transparent, Verdict,
};
use reattempt_http::body::{DeadlineBodyLayer, ReplayBody, ReplayBodyLayer};
use reattempt_http::{TransportError, TransportFault};
use tokio::time::Instant;
use tower::{Service, ServiceBuilder, ServiceExt};

use crate::service_config::{Options, ServiceConfig};
use crate::*;

type Body = UnsyncBoxBody<Bytes, Broken>;

/// A transport error that says what went wrong.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{0:?}")]
struct Broken(TransportFault);

impl TransportError for Broken {
    fn fault(&self) -> TransportFault {
        self.0
    }
}

/// What the server does with one attempt.
#[derive(Clone)]
enum Step {
    /// A Trailers-Only answer.
    Status(Code),
    /// The same with pushback.
    Pushback(Code, &'static str),
    /// Headers at once, the status in real trailers.
    Late(Code),
    /// A message-less stream that breaks off or ends without a status.
    Breaks(Option<TransportFault>),
    /// No answer at all.
    Hangs,
    /// Headers, then nothing.
    HangsInBody,
    Fault(TransportFault),
    /// This step, after a delay.
    After(u64, Box<Step>),
}
use Step::*;

/// What the server saw of one attempt.
#[derive(Clone, Debug)]
struct Seen {
    at_ms: u128,
    previous: Option<String>,
    timeout: Option<String>,
}

#[derive(Clone)]
struct Server {
    script: Arc<Vec<Step>>,
    next: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Seen>>>,
    began: Instant,
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

fn answer(step: Step) -> Result<Response<Body>, Broken> {
    let mut response = Response::new(empty());
    let headers = response.headers_mut();
    match step {
        Status(code) => drop(headers.insert(GRPC_STATUS, code.number().into())),
        Pushback(code, value) => {
            headers.insert(GRPC_STATUS, code.number().into());
            headers.insert(RETRY_PUSHBACK_MS, value.parse().unwrap());
        }
        Late(code) => {
            let mut trailers = HeaderMap::new();
            trailers.insert(GRPC_STATUS, code.number().into());
            let end = std::future::ready(Some(Ok(trailers)));
            *response.body_mut() = empty().with_trailers(end).boxed_unsync();
        }
        Breaks(None) => {}
        Breaks(Some(fault)) => {
            let end = std::future::ready(Some(Err(Broken(fault))));
            *response.body_mut() = empty().with_trailers(end).boxed_unsync();
        }
        HangsInBody => {
            let never = std::future::pending();
            *response.body_mut() = empty().with_trailers(never).boxed_unsync();
        }
        Fault(fault) => return Err(Broken(fault)),
        Hangs | After(..) => unreachable!("handled before"),
    }
    Ok(response)
}

impl Server {
    fn new(script: impl Into<Vec<Step>>) -> Self {
        Self {
            script: Arc::new(script.into()),
            next: Arc::default(),
            seen: Arc::default(),
            began: Instant::now(),
        }
    }

    async fn attempt<B>(self, request: Request<B>) -> Result<Response<Body>, Broken> {
        let text = |name| {
            request
                .headers()
                .get(name)
                .map(|v| v.to_str().unwrap().to_owned())
        };
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        self.seen.lock().unwrap().push(Seen {
            at_ms: self.began.elapsed().as_millis(),
            previous: text(PREVIOUS_ATTEMPTS),
            timeout: text(GRPC_TIMEOUT),
        });
        let mut step = self.script.get(at).or(self.script.last()).unwrap().clone();
        while let After(ms, inner) = step {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            step = *inner;
        }
        if matches!(step, Hangs) {
            std::future::pending::<()>().await;
        }
        answer(step)
    }

    fn times(&self) -> Vec<u128> {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .map(|seen| seen.at_ms)
            .collect()
    }

    fn previous(&self) -> Vec<Option<String>> {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .map(|seen| seen.previous.clone())
            .collect()
    }
}

/// A config with one retry policy for everything and a bucket; each delay is exactly half of its bound.
fn retrying(attempts: u32, codes: &str) -> ServiceConfig {
    config(&format!(
        r#""retryPolicy":{{"maxAttempts":{attempts},"initialBackoff":"0.1s","maxBackoff":"1s",
        "backoffMultiplier":2,"retryableStatusCodes":[{codes}]}}"#
    ))
}

fn hedging(attempts: u32, delay: &str, codes: &str) -> ServiceConfig {
    config(&format!(
        r#""hedgingPolicy":{{"maxAttempts":{attempts},"hedgingDelay":"{delay}","nonFatalStatusCodes":[{codes}]}}"#
    ))
}

fn config(members: &str) -> ServiceConfig {
    let text = format!(
        r#"{{"methodConfig":[{{"name":[{{}}],{members}}}],"retryThrottling":{{"maxTokens":10,"tokenRatio":0.5}}}}"#
    );
    let options = Options::new().randomness(Randomness::Fixed(0.5));
    ServiceConfig::parse_with(&text, &options).unwrap()
}

struct Ended {
    code: Code,
    info: RetryInfo,
    head: HeaderMap,
    at_ms: u128,
}

/// One call through the documented stack, its answer read to the end.
async fn call(config: &ServiceConfig, server: &Server, request: Request<Full<Bytes>>) -> Ended {
    let server_of_attempt = server.clone();
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(config.clone()))
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::unlimited().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(ReplayBodyLayer::new())
        .layer(RetryLayer::new(GrpcClassifier::new(), Attempts::standard()))
        .layer(HedgeLayer::new(
            GrpcClassifier::new(),
            reattempt::HedgePolicy::new(1, Duration::ZERO),
        ))
        .layer(PreviousAttemptsLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(GrpcOutcomeLayer::new())
        .service_fn(move |request: Request<ReplayBody<Full<Bytes>>>| {
            server_of_attempt.clone().attempt(request)
        });
    let mut request = request;
    let watch = CallContext::watch(&mut request);
    let outcome = service.oneshot(request).await;
    let (code, head) = match outcome {
        Err(error) => (classify::failure_of_fault(error.0).0, HeaderMap::new()),
        Ok(response) => {
            let (head, body) = response.into_parts();
            let in_head = head.headers.get(GRPC_STATUS).map(Code::from_header);
            let end = body.collect().await;
            let trailers = end.ok().and_then(|end| end.trailers().cloned());
            let in_trailers =
                trailers.and_then(|trailers| trailers.get(GRPC_STATUS).map(Code::from_header));
            (
                in_head.or(in_trailers).unwrap_or(Code::Internal),
                head.headers,
            )
        }
    };
    Ended {
        code,
        info: watch.info(),
        head,
        at_ms: server.began.elapsed().as_millis(),
    }
}

fn request() -> Request<Full<Bytes>> {
    Request::post("http://h/shop.Cart/Add")
        .body(Full::from("frame"))
        .unwrap()
}

/// R10, R13
#[tokio::test(start_paused = true)]
async fn only_retryable_codes_are_retried_and_the_last_failure_is_the_servers_own() {
    let server = Server::new([Status(Code::Unavailable)]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 3));
    assert_eq!(ended.info.stopped(), Some(Stopped::Attempts));
    let server = Server::new([Status(Code::Internal)]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Internal, 1));
    assert_eq!(ended.info.stopped(), Some(Stopped::Fatal));
}

/// R10
#[tokio::test(start_paused = true)]
async fn response_headers_commit_the_call() {
    let server = Server::new([Late(Code::Unavailable), Status(Code::Ok)]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 1));
    assert_eq!(ended.info.stopped(), Some(Stopped::Committed));
}

/// R11
#[tokio::test(start_paused = true)]
async fn delays_double_up_to_the_maximum_and_the_jitter_is_full() {
    let server = Server::new([Status(Code::Unavailable)]);
    call(&retrying(5, "14"), &server, request()).await;
    assert_eq!(server.times(), [0, 50, 150, 350, 750]);
}

/// R14, R80
#[tokio::test(start_paused = true)]
async fn the_earlier_of_both_deadlines_ends_the_call_at_its_instant() {
    let with = |timeout: &str| {
        config(&format!(
            r#""timeout":"{timeout}","retryPolicy":{{"maxAttempts":2,"initialBackoff":"9s","maxBackoff":"9s",
            "backoffMultiplier":1,"retryableStatusCodes":[14]}}"#
        ))
    };
    for (of_config, of_caller, ends) in [("0.2s", "1S", 200), ("2s", "300m", 300)] {
        let server = Server::new([Status(Code::Unavailable)]);
        let mut request = request();
        request
            .headers_mut()
            .insert(GRPC_TIMEOUT, of_caller.parse().unwrap());
        let ended = call(&with(of_config), &server, request).await;
        assert_eq!((ended.code, ended.at_ms), (Code::DeadlineExceeded, ends));
        assert_eq!(
            ended.info.attempts(),
            1,
            "nothing is sent after the deadline"
        );
        let message = ended.head[GRPC_MESSAGE].to_str().unwrap();
        assert!(message.contains("GRPC_UNAVAILABLE"), "{message}");
    }
}

/// R14
#[tokio::test(start_paused = true)]
async fn a_stream_ends_at_the_deadline_with_the_status_in_trailers() {
    let server = Server::new([HangsInBody]);
    let ended = call(&config(r#""timeout":"0.5s""#), &server, request()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::DeadlineExceeded, 500));
}

/// R14: each attempt is told the time that is left.
#[tokio::test(start_paused = true)]
async fn the_timeout_of_each_attempt_is_the_time_left() {
    let server = Server::new([
        After(100, Box::new(Status(Code::Unavailable))),
        Status(Code::Ok),
    ]);
    let config = config(
        r#""timeout":"2s","retryPolicy":{"maxAttempts":2,"initialBackoff":"0.1s","maxBackoff":"1s",
        "backoffMultiplier":2,"retryableStatusCodes":[14]}"#,
    );
    call(&config, &server, request()).await;
    let seen = server.seen.lock().unwrap().clone();
    assert_eq!(seen[0].timeout.as_deref(), Some("2000000u"));
    assert_eq!(seen[1].timeout.as_deref(), Some("1850000u"));
}

/// R20, R21, R26
#[tokio::test(start_paused = true)]
async fn a_drained_bucket_returns_the_failure_at_once() {
    let config = retrying(5, "14");
    let server = Server::new([Status(Code::Unavailable)]);
    let first = call(&config, &server, request()).await;
    assert_eq!(first.info.attempts(), 5);
    assert_eq!(first.info.stopped(), Some(Stopped::Attempts));
    assert_eq!(
        config.throttle().unwrap().milli_tokens(),
        Some(5_000),
        "the last counts too"
    );
    let began = Instant::now();
    let second = call(&config, &server, request()).await;
    assert_eq!(
        (second.code, second.info.attempts()),
        (Code::Unavailable, 1)
    );
    assert_eq!(second.info.stopped(), Some(Stopped::Throttled));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// R22, R23: what counts, also for methods without a policy.
#[tokio::test(start_paused = true)]
async fn the_bucket_counts_what_a6_says() {
    use TransportFault::{ConnectionReset, StreamReset};
    for (retries, step, tokens) in [
        (true, Late(Code::Ok), 5_500),
        (true, Status(Code::Ok), 5_500),
        (true, Late(Code::Unavailable), 4_000),
        (true, Late(Code::InvalidArgument), 5_000),
        (true, Status(Code::InvalidArgument), 5_000),
        (true, Pushback(Code::InvalidArgument, "-1"), 4_000),
        (true, Pushback(Code::Unavailable, "junk"), 4_000),
        (true, Breaks(None), 5_000),
        (true, Breaks(Some(ConnectionReset)), 4_000),
        (true, Breaks(Some(StreamReset(8))), 5_000),
        (false, Late(Code::Ok), 5_500),
        (false, Status(Code::Unavailable), 5_000),
        (false, Pushback(Code::Unavailable, "-1"), 4_000),
    ] {
        let config = if retries {
            retrying(2, "14")
        } else {
            config(r#""waitForReady":true"#)
        };
        let bucket = config.throttle().unwrap();
        let failure = Failure::new(reasons::GRPC_UNAVAILABLE, Stage::Response);
        (0..5).for_each(|_| bucket.settled(Settled::Failure(&failure)));
        let server = Server::new([step]);
        call(&config, &server, request()).await;
        assert_eq!(bucket.milli_tokens(), Some(tokens), "{:?}", server.times());
    }
}

/// R24, R60, R62, R63: never sent.
#[tokio::test(start_paused = true)]
async fn attempts_that_were_never_sent_cost_nothing_and_need_no_policy() {
    let refused = Fault(TransportFault::ConnectFailed);
    let server = Server::new([refused.clone(), refused.clone(), refused, Status(Code::Ok)]);
    let config = config(r#""waitForReady":false"#);
    let ended = call(&config, &server, request()).await;
    assert_eq!(
        (ended.code, ended.info.attempts(), ended.info.retries()),
        (Code::Ok, 4, 0)
    );
    assert_eq!(server.previous(), [None, None, None, None]);
    assert_eq!(config.throttle().unwrap().milli_tokens(), Some(10_000));
    assert!(!ended.head.contains_key(PREVIOUS_ATTEMPTS));
}

/// R61: a refused stream is sent again once, then the policy decides.
#[tokio::test(start_paused = true)]
async fn a_refused_stream_is_sent_again_once_per_call() {
    let refused = || Fault(TransportFault::StreamRefused);
    let server = Server::new([refused(), refused(), Status(Code::Ok)]);
    let ended = call(&config(r#""waitForReady":false"#), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 2));
    let server = Server::new([
        Status(Code::Unavailable),
        refused(),
        refused(),
        Status(Code::Ok),
    ]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!(
        (ended.code, ended.info.attempts(), ended.info.retries()),
        (Code::Ok, 4, 2)
    );
    let previous = [None, Some("1"), Some("1"), Some("2")];
    assert_eq!(server.previous(), previous.map(|n| n.map(str::to_owned)));
}

/// R30
#[test]
fn pushback_is_read_strictly() {
    let ms = |ms| ServerPushback::After(Duration::from_millis(ms));
    assert_eq!(GrpcPushback::parse(b"0"), ms(0));
    assert_eq!(GrpcPushback::parse(b"500"), ms(500));
    assert_eq!(GrpcPushback::parse(b"2147483647"), ms(2_147_483_647));
    for stop in [
        "-1",
        "",
        "xxx",
        "10abc",
        "1.5",
        "0x10",
        "007",
        "00",
        "-0",
        "-01",
        "+5",
        " 10",
        "10 ",
        "2147483648",
        "9223372036854775808",
        "99999999999999999999",
        "-99999999999999999999",
    ] {
        assert_eq!(
            GrpcPushback::parse(stop.as_bytes()),
            ServerPushback::Stop,
            "{stop:?}"
        );
    }
    let of = |values: &[&str]| {
        let mut trailers = HeaderMap::new();
        for value in values {
            trailers.append(RETRY_PUSHBACK_MS, value.parse().unwrap());
        }
        GrpcPushback::of(&trailers)
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&["5", "5"]), Some(ms(5)));
    assert_eq!(of(&["5", "6"]), Some(ServerPushback::Stop));
}

/// R31, R32, R33
#[tokio::test(start_paused = true)]
async fn pushback_is_waited_exactly_and_the_backoff_starts_anew() {
    let busy = || Status(Code::Unavailable);
    let server = Server::new([busy(), Pushback(Code::Unavailable, "3000"), busy(), busy()]);
    let ended = call(&retrying(5, "14"), &server, request()).await;
    assert_eq!(
        server.times(),
        [0, 50, 3050, 3100, 3200],
        "50 again after the pushback"
    );
    assert_eq!(ended.info.attempts(), 5);
    let server = Server::new([Pushback(Code::Unavailable, "0")]);
    let ended = call(&retrying(2, "14"), &server, request()).await;
    assert_eq!((server.times(), ended.info.attempts()), (vec![0, 0], 2));
}

/// R34
#[tokio::test(start_paused = true)]
async fn pushback_on_a_code_that_is_not_retryable_is_not_retried() {
    let server = Server::new([Pushback(Code::Internal, "5")]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Internal, 1));
}

/// R30: a stop.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_call_with_the_servers_failure() {
    let server = Server::new([Pushback(Code::Unavailable, "-1")]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 1));
    assert_eq!(ended.info.stopped(), Some(Stopped::Pushback));
}

/// R35, R36
#[test]
fn pushback_on_ok_and_after_response_headers_is_ignored() {
    let read = |status: Option<&str>| {
        let mut response = Response::builder().header(RETRY_PUSHBACK_MS, "5");
        if let Some(status) = status {
            response = response.header(GRPC_STATUS, status);
        }
        ReadPushback::<_, Infallible>::read(&GrpcPushback, Ok(&response.body(()).unwrap()))
    };
    assert_eq!(read(Some("0")), None);
    assert_eq!(read(None), None);
    assert!(read(Some("14")).is_some());
}

/// R40
#[tokio::test(start_paused = true)]
async fn hedges_go_out_at_each_delay_and_all_at_once_without_one() {
    let slow = || After(10_000, Box::new(Status(Code::Ok)));
    let server = Server::new([slow()]);
    call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!(server.times(), [0, 200, 400, 600]);
    let server = Server::new([slow()]);
    call(&hedging(3, "0s", "14"), &server, request()).await;
    assert_eq!(server.times(), [0, 0, 0]);
}

/// R41, R42, R43
#[tokio::test(start_paused = true)]
async fn headers_commit_a_hedge_and_fatal_ends_all_and_non_fatal_sends_the_next() {
    let server = Server::new([Hangs, After(50, Box::new(Late(Code::Ok)))]);
    let ended = call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!(
        (ended.code, ended.at_ms, server.times()),
        (Code::Ok, 250, vec![0, 200])
    );
    let server = Server::new([Hangs, Status(Code::InvalidArgument)]);
    let ended = call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::InvalidArgument, 200));
    let busy = After(50, Box::new(Status(Code::Unavailable)));
    let server = Server::new([busy, Hangs, Status(Code::Ok)]);
    call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!(server.times(), [0, 50, 250], "at once, then each delay");
}

/// R44, R45
#[tokio::test(start_paused = true)]
async fn pushback_moves_the_next_hedge_and_a_stop_ends_new_ones_only() {
    let busy = Pushback(Code::Unavailable, "1000");
    let server = Server::new([busy, Hangs, Status(Code::Ok)]);
    call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!(server.times(), [0, 1000, 1200]);
    let server = Server::new([
        After(350, Box::new(Status(Code::Ok))),
        Pushback(Code::Unavailable, "-1"),
        Status(Code::Internal),
    ]);
    let ended = call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!(
        (ended.code, ended.at_ms, server.times()),
        (Code::Ok, 350, vec![0, 200])
    );
}

/// R46, R47, R50
#[tokio::test(start_paused = true)]
async fn hedges_ask_the_throttle_and_tell_their_place_and_the_last_failure_is_returned() {
    let config = hedging(3, "0.2s", "14");
    let server = Server::new([Status(Code::Unavailable)]);
    let ended = call(&config, &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 3));
    assert_eq!(
        server.previous(),
        [None, Some("1".to_owned()), Some("2".to_owned())]
    );
    assert_eq!(config.throttle().unwrap().milli_tokens(), Some(7_000));
    call(&config, &server, request()).await;
    let server = Server::new([Status(Code::Unavailable)]);
    let ended = call(&config, &server, request()).await;
    assert_eq!(ended.info.attempts(), 1, "the bucket is down to its half");
}

/// R70, R71
#[tokio::test(start_paused = true)]
async fn a_users_own_count_never_passes_and_the_callers_answer_tells_it() {
    let server = Server::new([Status(Code::Unavailable), Status(Code::Ok)]);
    let mut request = request();
    request
        .headers_mut()
        .insert(PREVIOUS_ATTEMPTS, "7".parse().unwrap());
    let ended = call(&retrying(3, "14"), &server, request).await;
    assert_eq!(server.previous(), [None, Some("1".to_owned())]);
    assert_eq!(ended.head[PREVIOUS_ATTEMPTS], "1");
}

/// R80
#[tokio::test(start_paused = true)]
async fn the_callers_shorter_timeout_stays_on_the_wire() {
    let server = Server::new([Status(Code::Ok)]);
    let mut request = request();
    request
        .headers_mut()
        .insert(GRPC_TIMEOUT, "5m".parse().unwrap());
    call(&config(r#""timeout":"9s""#), &server, request).await;
    assert_eq!(
        server.seen.lock().unwrap()[0].timeout.as_deref(),
        Some("5m")
    );
}

fn classify(outcome: Result<&Response<()>, &Broken>) -> Verdict {
    GrpcClassifier::new().classify(outcome, &CallContext::default())
}

#[test]
fn http_statuses_without_a_grpc_status_are_mapped() {
    for (status, code) in [
        (400, Code::Internal),
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::Unimplemented),
        (429, Code::Unavailable),
        (502, Code::Unavailable),
        (503, Code::Unavailable),
        (504, Code::Unavailable),
        (500, Code::Unknown),
        (302, Code::Unknown),
    ] {
        let response = Response::builder().status(status).body(()).unwrap();
        let verdict = classify(Ok(&response));
        assert_eq!(
            verdict.failure().unwrap().code,
            Some(code.number()),
            "{status}"
        );
        assert_eq!(
            matches!(verdict, Verdict::Retry(_)),
            code == Code::Unavailable
        );
    }
    let head = Response::builder().status(200).body(()).unwrap();
    assert_eq!(classify(Ok(&head)), Verdict::Committed);
    let junk = Response::builder()
        .header(GRPC_STATUS, "banana")
        .body(())
        .unwrap();
    assert_eq!(classify(Ok(&junk)).failure().unwrap().code, Some(2));
}

#[test]
fn transport_faults_become_codes_with_their_stage() {
    use TransportFault::*;
    for (fault, code, stage, transparent) in [
        (
            ConnectFailed,
            Code::Unavailable,
            Stage::Dispatch,
            Transparent::Unlimited,
        ),
        (
            NeverSent,
            Code::Unavailable,
            Stage::Dispatch,
            Transparent::Unlimited,
        ),
        (
            StreamRefused,
            Code::Unavailable,
            Stage::InFlight,
            Transparent::Once,
        ),
        (
            ConnectionReset,
            Code::Unavailable,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            StreamReset(8),
            Code::Cancelled,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            StreamReset(11),
            Code::ResourceExhausted,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            StreamReset(12),
            Code::PermissionDenied,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            StreamReset(2),
            Code::Internal,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            Timeout,
            Code::DeadlineExceeded,
            Stage::InFlight,
            Transparent::No,
        ),
        (Unknown, Code::Unknown, Stage::InFlight, Transparent::No),
    ] {
        let verdict = classify(Err(&Broken(fault)));
        let failure = verdict.failure().unwrap();
        assert_eq!(
            (failure.code, failure.stage, failure.transparent),
            (Some(code.number()), stage, transparent),
            "{fault:?}"
        );
    }
}

/// R4
#[test]
fn codes_are_known_by_number_and_by_name_in_any_case() {
    for (number, code) in (0..).zip(Code::ALL) {
        assert_eq!(Code::from_number(number), Some(code));
        assert_eq!(i64::from(code.number()), number);
        assert_eq!(code.name().to_lowercase().parse(), Ok(code));
        let reason = code.reason().map(|reason| reason.name());
        let named = (code != Code::Ok).then(|| format!("GRPC_{}", code.name()));
        assert_eq!(reason.map(str::to_owned), named);
    }
    assert_eq!("CANCELED".parse::<Code>(), Err(UnknownCode));
    assert_eq!((Code::from_number(17), Code::from_number(-1)), (None, None));
}
