//! Calls that wait for a connection (R16).

use std::task::{Context, Poll};

use reattempt::strategy::NeverRetry;
use reattempt::{CallDeadline, HasCallContext};
use tower::Service;

use super::*;

fn refused(times: usize) -> Vec<Step> {
    vec![Fault(TransportFault::ConnectFailed); times]
}

/// Refuses this many connections, then takes this step.
fn up_after(times: usize, step: Step) -> Server {
    let mut script = refused(times);
    script.push(step);
    Server::new(script)
}

fn waiting() -> Request<Full<Bytes>> {
    let mut request = request();
    request.extensions_mut().insert(WaitForReady(true));
    request
}

const WAITS: &str = r#""waitForReady":true"#;

/// R16: the call remains one attempt, however many connections fail; its `grpc-timeout` is the time
/// left when it is sent.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_uses_no_attempt_up() {
    let config = config(&format!(r#"{WAITS},"timeout":"10s""#));
    let server = up_after(30, Status(Code::Ok));
    let ended = call(&config, &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Ok, 1));
    assert_eq!((ended.at_ms, tokens(&config)), (3_000, Some(10_000)));
    let timeouts = server.each(|seen| seen.timeout.clone().unwrap());
    assert_eq!([&timeouts[0], &timeouts[30]], ["10000000u", "7000000u"]);
    assert!(server.previous().iter().all(Option::is_none));
    assert!(!ended.head.contains_key(PREVIOUS_ATTEMPTS));
}

/// R16: there is no other limit.
#[tokio::test(start_paused = true)]
async fn without_a_deadline_it_waits_for_ever() {
    let config = config(WAITS);
    let server = up_after(5_000, Status(Code::Ok));
    let ended = call(&config, &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Ok, 1));
    assert_eq!(ended.at_ms, 500_000);
}

/// R16: the caller's extension overrides the config, in both directions.
#[tokio::test(start_paused = true)]
async fn the_callers_word_beats_the_configs() {
    for (members, own, waits) in [
        (WAITS, None, true),
        (WAITS, Some(WaitForReady(false)), false),
        (r#""waitForReady":false"#, Some(WaitForReady(true)), true),
        (r#""waitForReady":false"#, None, false),
        (r#""timeout":"9s""#, None, false),
    ] {
        let mut request = request();
        if let Some(own) = own {
            request.extensions_mut().insert(own);
        }
        let ended = call(&config(members), &up_after(2, Status(Code::Ok)), request).await;
        let expected = if waits {
            (Code::Ok, 200)
        } else {
            (Code::Unavailable, 0)
        };
        assert_eq!((ended.code, ended.at_ms), expected, "{members} {own:?}");
        assert_eq!(ended.info.attempts(), 1);
    }
}

/// R16: every backend is tried once before the call waits.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_tries_each_backend_first() {
    let mut servers = vec![Server::new(refused(1)); 2];
    servers.push(Server::new([Status(Code::Ok)]));
    let ended = call_one_of(&config(WAITS), &servers, request()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::Ok, 2));
    assert_eq!(ended.info.attempts(), 1);
    let record = ended.info.records().next_back();
    assert_eq!(record.and_then(|record| record.failure), None);
}

/// R16: a call remembers 32 backends, so of more than that it cannot know which are untried.
#[tokio::test(start_paused = true)]
async fn of_many_backends_it_tries_a_bounded_number_at_once() {
    let server = Server::new(refused(1));
    let servers = vec![server.clone(); 40];
    let config = config(&format!(r#"{WAITS},"timeout":"1s""#));
    let ended = call_one_of(&config, &servers, request()).await;
    assert_eq!(ended.code, Code::DeadlineExceeded);
    // Without the bound there is a try each millisecond.
    let tries = server.times().len();
    assert!((200..400).contains(&tries), "{tries}");
}

/// R16: then each is tried as often as if it were the only one.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_goes_round_its_backends() {
    let dead = || Server::new(refused(1));
    let servers = [dead(), up_after(4, Status(Code::Ok)), dead(), dead()];
    let ended = call_one_of(&config(WAITS), &servers, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Ok, 1));
    let tries = servers.map(|server| server.times().len());
    assert_eq!(tries, [5, 5, 4, 4]);
    assert_eq!(ended.at_ms, 3 + 14 * 25);
}

/// R16: the second attempt of a call waits for any of the backends, not only for the one picked
/// first.
#[tokio::test(start_paused = true)]
async fn a_further_attempt_that_waits_goes_round_its_backends() {
    let policy = config(&format!(
        r#"{WAITS},"timeout":"60s","retryPolicy":{{"maxAttempts":2,"initialBackoff":"0.1s","maxBackoff":"1s",
        "backoffMultiplier":2,"retryableStatusCodes":[14]}}"#
    ));
    let mut restarts = vec![Status(Code::Unavailable)];
    restarts.extend(refused(3));
    restarts.push(Status(Code::Ok));
    let servers = [Server::new(restarts), Server::new(refused(1))];
    let ended = call_one_of(&policy, &servers, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Ok, 2));
    assert_eq!(ended.at_ms, 400, "in turns, from 50 ms on");
}

/// R63, R70: a transparent attempt that is sent while a hedge waits is none before the hedge.
#[tokio::test(start_paused = true)]
async fn a_hedge_that_waits_counts_what_came_before_it() {
    let policy = config(&format!(
        r#"{WAITS},"hedgingPolicy":{{"maxAttempts":2,"hedgingDelay":"0.02s","nonFatalStatusCodes":[14]}}"#
    ));
    let server = Server::new([
        After(60, Box::new(Fault(TransportFault::StreamRefused))),
        Fault(TransportFault::ConnectFailed),
        Hangs,
        Status(Code::Ok),
    ]);
    let ended = call(&policy, &server, request()).await;
    assert_eq!((ended.code, ended.info.retries()), (Code::Ok, 1));
    assert_eq!(server.times(), [0, 20, 60, 120]);
    assert_eq!(server.previous()[3].as_deref(), Some("1"));
}

/// R14, R16: nothing was sent, so the timeout is not ambiguous.
#[tokio::test(start_paused = true)]
async fn the_deadline_ends_the_wait() {
    let config = config(&format!(r#"{WAITS},"timeout":"0.95s""#));
    let server = Server::new(refused(1));
    let ended = call(&config, &server, request()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::DeadlineExceeded, 950));
    assert_eq!((ended.info.attempts(), server.times().len()), (1, 10));
    let message = ended.head[GRPC_MESSAGE].to_str().unwrap();
    assert!(message.contains("unambiguous"), "{message}");
}

/// R16: a failure after the wait goes by the policy as usual, and is known to have been sent.
#[tokio::test(start_paused = true)]
async fn failures_after_the_wait_go_by_the_policy() {
    let config = config(&format!(
        r#"{WAITS},"retryPolicy":{{"maxAttempts":2,"initialBackoff":"0.1s","maxBackoff":"1s",
        "backoffMultiplier":2,"retryableStatusCodes":[14]}}"#
    ));
    let mut script = refused(3);
    script.push(Fault(TransportFault::ConnectionReset));
    script.extend(refused(2));
    script.push(Status(Code::Unavailable));
    let ended = call(&config, &Server::new(script), request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 2));
    let stages: Vec<_> = ended
        .info
        .records()
        .filter_map(|record| Some(record.failure?.stage))
        .collect();
    assert_eq!(stages, [Stage::InFlight, Stage::Response]);
    assert_eq!(tokens(&config), Some(8_000));
    assert_eq!(ended.at_ms, 300 + 50 + 200);
}

/// R16, R49: a drop is final also for a call that waits, and was never sent.
#[tokio::test(start_paused = true)]
async fn a_drop_is_not_waited_out() {
    let tries = AtomicUsize::new(0);
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(config(WAITS)))
        .layer(ReplayBodyLayer::new())
        .layer(standard())
        .layer(WaitForReadyLayer::new())
        .service_fn(|_: Request<ReplayBody<Full<Bytes>>>| {
            let is_first = tries.fetch_add(1, Ordering::Relaxed) == 0;
            std::future::ready(match is_first {
                true => Err(Broken(TransportFault::ConnectFailed)),
                false => Ok(ControlPlaneFailure::dropped("too many calls").into_response::<()>()),
            })
        });
    let mut request = request();
    let watch = RetryInfo::track(&mut request);
    let answer = service.oneshot(request).await.unwrap();
    assert_eq!(
        Code::from_header(&answer.headers()[GRPC_STATUS]),
        Code::Unavailable
    );
    assert_eq!(tries.load(Ordering::Relaxed), 2);
    let info = watch.info();
    let last = info.records().last().and_then(|record| record.failure);
    assert_eq!(last.map(|failure| failure.stage), Some(Stage::Dispatch));
}

/// R16: a pick that finds no backend is no attempt.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_waits_for_a_backend() {
    let tries = AtomicUsize::new(0);
    let service = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new())
        .layer(RetryLayer::new(GrpcClassifier::new(), NeverRetry))
        .layer(WaitForReadyLayer::new())
        .service_fn(|_: Request<ReplayBody<Full<Bytes>>>| {
            let try_of_call = tries.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok::<_, Broken>(match try_of_call {
                0..5 => ControlPlaneFailure::no_backend("all are down").into_response::<()>(),
                _ => ControlPlaneFailure::new(Code::Unavailable, "no token").into_response(),
            }))
        });
    for (waits, answer, tried) in [(true, "no token", 6), (false, "all are down", 1)] {
        tries.store(0, Ordering::Relaxed);
        let mut request = request();
        request.extensions_mut().insert(WaitForReady(waits));
        let watch = RetryInfo::track(&mut request);
        let response = service.clone().oneshot(request).await.unwrap();
        let failure = response.extensions().get::<ControlPlaneFailure>().unwrap();
        assert_eq!(failure.message(), answer);
        assert_eq!(tries.load(Ordering::Relaxed), tried);
        assert_eq!(watch.info().attempts(), 1);
    }
}

/// R16: a picker that once said that a backend is left, and then finds none.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_backend_backs_off() {
    let tries = AtomicUsize::new(0);
    let service = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new())
        .layer(RetryLayer::new(GrpcClassifier::new(), NeverRetry))
        .layer(WaitForReadyLayer::new())
        .service_fn(|request: Request<ReplayBody<Full<Bytes>>>| {
            let is_first = tries.fetch_add(1, Ordering::Relaxed) == 0;
            let context = request.context().unwrap();
            std::future::ready(if is_first {
                context.reporter().untried_backend(true);
                Err(Broken(TransportFault::ConnectFailed))
            } else {
                Ok(ControlPlaneFailure::no_backend("all are down").into_response::<()>())
            })
        });
    let request = waiting();
    let limit = std::time::Duration::from_secs(10);
    let waited = tokio::time::timeout(limit, service.oneshot(request)).await;
    assert!(waited.is_err());
    let tries = tries.load(Ordering::Relaxed);
    assert!(tries < 30, "{tries}");
}

/// A limit that no layer enforces: the failure is returned in time.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_only_attached_ends_the_wait_too() {
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(GrpcClassifier::new(), NeverRetry).transparent(false))
        .layer(WaitForReadyLayer::new().backoff(Backoff::constant(Duration::from_millis(100))))
        .service_fn(|_: Request<ReplayBody<Full<Bytes>>>| async {
            Err::<Response<()>, _>(Broken(TransportFault::ConnectFailed))
        });
    let mut request = waiting().map(ReplayBody::new);
    let at = Instant::now() + Duration::from_millis(350);
    let context = request.context_mut();
    context.attach_deadline(CallDeadline::attached(at.into_std()));
    let began = Instant::now();
    let error = service.oneshot(request).await.unwrap_err();
    assert_eq!(error.0, TransportFault::ConnectFailed);
    assert_eq!(began.elapsed(), Duration::from_millis(300));
}

/// A channel that connects before it is ready (like tonic's), and refuses once.
#[derive(Clone)]
struct Connects {
    ready_at: Instant,
    refused: Arc<AtomicUsize>,
}

impl Service<Request<ReplayBody<Full<Bytes>>>> for Connects {
    type Response = Response<()>;
    type Error = Broken;
    type Future = std::future::Ready<Result<Response<()>, Broken>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if Instant::now() >= self.ready_at || self.refused.load(Ordering::Relaxed) == 0 {
            return Poll::Ready(Ok(()));
        }
        let (waker, at) = (cx.waker().clone(), self.ready_at);
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            waker.wake();
        });
        Poll::Pending
    }

    fn call(&mut self, _: Request<ReplayBody<Full<Bytes>>>) -> Self::Future {
        if self.refused.fetch_add(1, Ordering::Relaxed) == 0 {
            return std::future::ready(Err(Broken(TransportFault::NeverSent)));
        }
        let answer = Response::builder().header(GRPC_STATUS, "0").body(());
        std::future::ready(Ok(answer.unwrap()))
    }
}

/// R16: the call waits for a service that is not ready; the whole body is sent each time.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_ready_is_waited_for() {
    let began = Instant::now();
    let service = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new())
        .layer(standard())
        .layer(WaitForReadyLayer::new())
        .service(Connects {
            ready_at: began + Duration::from_secs(5),
            refused: Arc::default(),
        });
    let mut request = waiting();
    let watch = RetryInfo::track(&mut request);
    service.oneshot(request).await.unwrap();
    assert_eq!(watch.info().attempts(), 1);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}
