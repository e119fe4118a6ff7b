//! What a single call sets overrides the policy of its route and the layers, on the wire; a
//! strategy that asks another server before it decides.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use reattempt::backoff::Backoff;
use reattempt::strategy::{Decision, MaxAttempts, NeverRetry};
use reattempt::{
    CallContext, CallDeadline, ClientError, HasCallContext, Idempotency, RetryInfo, RetryStrategy,
    RetryView, StopReason, TokenBucket,
};
use reattempt_http::{HttpClientLayer, HttpPolicies};
use reattempt_testbed::http::{Script, Server, Step};
use tower::{Layer, ServiceExt};

/// The time after which a test fails instead of hanging: less than the client's own limit.
const PATIENCE: Duration = Duration::from_secs(20);

/// Three attempts by the route's policy, at once.
const POLICY: &str =
    r#"{"default": {"retry": {"maxAttempts": 3, "backoff": {"initial": "0.001s"}}}}"#;

/// One call, with what `set` says of it.
async fn call(
    server: &Server,
    method: Method,
    set: impl FnOnce(&mut CallContext) -> &mut CallContext,
) -> (Result<StatusCode, ClientError<Error>>, RetryInfo) {
    let mut request = Request::builder()
        .method(method)
        .uri(server.uri())
        .body(Full::<Bytes>::from("apples"))
        .expect("a request");
    set(request.context_mut());
    let watch = RetryInfo::track(&mut request);
    let policies = HttpPolicies::parse(POLICY).expect("a policy").policies;
    let client = Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build_http();
    let client = HttpClientLayer::standard().route(policies).layer(client);
    let answer = tokio::time::timeout(PATIENCE, client.oneshot(request)).await;
    let answer = answer.expect("it hangs");
    (answer.map(|answer| answer.status()), watch.info())
}

async fn always(step: Step) -> Server {
    let script = Script::new().otherwise(step);
    Server::start(script).await.expect("a server")
}

#[tokio::test]
async fn a_callers_strategy_overrides_that_of_the_route() {
    let server = always(Step::status(503)).await;
    let at_once = Backoff::constant(Duration::ZERO);
    let strategies: [(Option<Arc<dyn RetryStrategy>>, u32); 3] = [
        (None, 3),
        (Some(Arc::new(NeverRetry)), 1),
        (Some(Arc::new(MaxAttempts::new(5, at_once))), 5),
    ];
    let mut seen = 0;
    for (strategy, attempts) in strategies {
        let (answer, info) = call(&server, Method::GET, |context| match strategy {
            Some(strategy) => context.set_strategy(strategy),
            None => context,
        })
        .await;
        assert_eq!(answer.expect("an answer"), 503);
        assert_eq!(info.attempts(), attempts);
        seen += attempts as usize;
        assert_eq!(server.seen_count(), seen);
    }
}

#[tokio::test]
async fn a_caller_says_that_a_post_may_be_repeated() {
    for (idempotency, attempts) in [
        (Idempotency::Unknown, 1),
        (Idempotency::NotIdempotent, 1),
        (Idempotency::Idempotent, 3),
    ] {
        let server = always(Step::close_before()).await;
        let (answer, info) = call(&server, Method::POST, |context| {
            context.set_idempotency(idempotency)
        })
        .await;
        assert!(answer.expect_err("no answer").transport().is_some());
        assert_eq!(info.attempts(), attempts, "{idempotency:?}");
    }
}

#[tokio::test]
async fn a_callers_throttle_overrides_that_of_the_origin() {
    let server = always(Step::status(503)).await;
    let spent = Arc::new(TokenBucket::new(1, 1).expect("a bucket"));
    let (answer, info) = call(&server, Method::GET, |context| context.set_throttle(spent)).await;
    assert_eq!(answer.expect("an answer"), 503);
    assert_eq!(info.stopped(), Some(StopReason::Throttled));
    assert_eq!(server.seen_count(), 1);
}

#[tokio::test]
async fn a_callers_deadline_ends_the_call_before_the_layers() {
    let server = always(Step::hang()).await;
    let soon = tokio::time::Instant::now() + Duration::from_millis(50);
    let limit = CallDeadline::attached(soon.into_std());
    let (answer, info) = call(&server, Method::POST, |context| {
        context.attach_deadline(limit)
    })
    .await;
    let error = answer.expect_err("no answer");
    assert!(error.elapsed().is_some_and(|elapsed| elapsed.ambiguous));
    assert_eq!(info.stopped(), Some(StopReason::Deadline));
}

/// Asks this server whether the call may be retried.
#[derive(Debug)]
struct Asks(String);

impl RetryStrategy for Asks {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        let uri = self.0.parse().expect("a URI");
        Decision::Defer(Box::pin(async move {
            let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
            let answer = client.get(uri).await?;
            Ok(answer.status().is_success().then_some(Duration::ZERO))
        }))
    }
}

/// RFC 0049: a strategy may decide later. Its own failure ends the call.
#[tokio::test]
async fn a_deferred_decision_is_that_of_the_server_it_asks() {
    for (quota, attempts) in [
        (vec![Step::status(200), Step::status(403)], 2),
        (vec![Step::status(403)], 1),
        (vec![Step::close_before()], 1),
    ] {
        let asked = quota.len();
        let script = quota.into_iter().fold(Script::new(), Script::then);
        let quota = Server::start(script).await.expect("a server");
        let server = always(Step::status(503)).await;
        let strategy = Arc::new(Asks(quota.uri()));
        let (answer, info) = call(&server, Method::GET, |context| {
            context.set_strategy(strategy)
        })
        .await;
        assert_eq!(answer.expect("an answer"), 503);
        assert_eq!(info.attempts(), attempts);
        assert_eq!(info.stopped(), Some(StopReason::Strategy));
        assert_eq!(server.seen_count(), attempts as usize);
        assert_eq!(quota.seen_count(), asked);
    }
}
