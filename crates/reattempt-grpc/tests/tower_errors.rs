//! Errors of tower's layers below the recovery layer, and errors that no reader knows.

use std::future::{pending, ready};
use std::time::Duration;

use http::{Request, Response};
use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt::test_util::listen;
use reattempt::{Failure, RetryInfo, RetryLayer, Stage, Transparent};
use reattempt_grpc::reasons::GRPC_DEADLINE_EXCEEDED;
use reattempt_grpc::{Code, CodeSet, GrpcClassifier, WaitForReady, WaitForReadyLayer};
use reattempt_http::reasons::HTTP_SHED;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};

const MS: Duration = Duration::from_millis(1);

fn retry() -> RetryLayer<GrpcClassifier> {
    let strategy = MaxAttempts::new(3, Backoff::constant(MS));
    RetryLayer::new(GrpcClassifier::new(), strategy)
}

async fn never_answers(_: Request<()>) -> Result<Response<()>, BoxError> {
    pending().await
}

/// The failure of the first attempt, and how many there were.
async fn fails<S>(client: S) -> (Failure, u32)
where
    S: Service<Request<()>, Response = Response<()>, Error = BoxError>,
{
    let mut request = Request::new(());
    // A service that sheds is no missing connection.
    request.extensions_mut().insert(WaitForReady(true));
    let watch = RetryInfo::track(&mut request);
    assert!(client.oneshot(request).await.is_err());
    let info = watch.info();
    let failure = info.records().next().and_then(|record| record.failure);
    (failure.unwrap(), info.attempts())
}

/// B4: `docs/layer-order.md`.
#[tokio::test(start_paused = true)]
async fn a_shed_call_is_unavailable_and_goes_by_the_policy() {
    let mut limited = ServiceBuilder::new()
        .concurrency_limit(1)
        .service_fn(never_answers);
    // The only permit is held by this call.
    let running = limited.ready().await.unwrap().call(Request::new(()));
    let client = ServiceBuilder::new()
        .layer(retry())
        .layer(WaitForReadyLayer::new())
        .load_shed()
        .service(limited);
    let (failure, attempts) = fails(client).await;
    drop(running);
    assert_eq!(failure.code, Some(Code::Unavailable.number()));
    assert_eq!(
        (failure.reason, failure.stage),
        (HTTP_SHED, Stage::Dispatch),
        "the client's own: it blames no server"
    );
    assert_eq!((failure.transparent, failure.safe), (Transparent::No, true));
    assert_eq!(attempts, 3);
}

/// Sent again only if the policy lists the code.
#[tokio::test(start_paused = true)]
async fn a_timed_out_call_was_in_flight() {
    let listed = GrpcClassifier::new().retryable(CodeSet::EMPTY.with(Code::DeadlineExceeded));
    for (classifier, sent) in [(GrpcClassifier::new(), 1), (listed, 3)] {
        let client = ServiceBuilder::new()
            .layer(RetryLayer::new(classifier, MaxAttempts::standard()))
            .timeout(50 * MS)
            .service_fn(never_answers);
        let (failure, attempts) = fails(client).await;
        assert_eq!(failure.reason, GRPC_DEADLINE_EXCEEDED);
        assert_eq!((failure.stage, attempts), (Stage::InFlight, sent));
    }
}

#[derive(Debug, thiserror::Error)]
#[error("hunter2 is wrong")]
struct LoginFailed {
    _password: &'static str,
}

#[tokio::test(start_paused = true)]
async fn an_unknown_error_is_logged_once_by_its_type() {
    let listener = listen();
    let client = retry().layer(tower::service_fn(|_: Request<()>| {
        let error = LoginFailed {
            _password: "hunter2",
        };
        ready(Err::<Response<()>, BoxError>(error.into()))
    }));
    for _ in 0..3 {
        assert!(client.clone().oneshot(Request::new(())).await.is_err());
    }
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let unknown = "RetryLayer got an error of a type that no reader knows (`LoginFailed`)";
    assert!(warnings[0].starts_with(unknown), "{warnings:?}");
    assert!(!warnings[0].contains("hunter2"), "{warnings:?}");
}
