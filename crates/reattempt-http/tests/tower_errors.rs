//! The errors of tower's `LoadShed` and `Timeout` below the recovery layer.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt::{RetryInfo, RetryLayer, Stage, StopReason, Transparent};
use reattempt_http::reasons::{HTTP_SHED, HTTP_TIMEOUT};
use reattempt_http::{AnyTransportError, HttpClassifier, TransportFault};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

const MS: Duration = Duration::from_millis(1);

fn retry() -> RetryLayer<HttpClassifier> {
    let strategy = MaxAttempts::new(3, Backoff::constant(10 * MS));
    RetryLayer::new(HttpClassifier::new(), strategy)
}

fn request(method: Method) -> Request<()> {
    Request::builder().method(method).body(()).unwrap()
}

/// Not ready for its first calls.
#[derive(Clone)]
struct BusyFor {
    busy: Arc<AtomicU32>,
    called: Arc<AtomicU32>,
}

impl BusyFor {
    fn calls(busy: u32) -> Self {
        Self {
            busy: Arc::new(AtomicU32::new(busy)),
            called: Arc::default(),
        }
    }
}

impl Service<Request<()>> for BusyFor {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        let less = |busy: u32| busy.checked_sub(1);
        let busy = &self.busy;
        match busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => Poll::Pending,
            Err(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        self.called.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(())))
    }
}

/// B4: `docs/layer-order.md`.
#[tokio::test(start_paused = true)]
async fn a_shed_attempt_is_sent_again_for_any_method() {
    for method in [Method::GET, Method::POST] {
        let inner = BusyFor::calls(2);
        let client = ServiceBuilder::new()
            .layer(retry())
            .load_shed()
            .service(inner.clone());
        let mut request = request(method);
        let watch = RetryInfo::track(&mut request);
        let answer = client.oneshot(request).await;
        assert_eq!(answer.unwrap().status(), 200);
        let info = watch.info();
        assert_eq!((info.attempts(), info.retries()), (3, 2), "they count");
        assert_eq!(inner.called.load(Ordering::Relaxed), 1);
        for record in info.records().take(2) {
            let failure = record.failure.unwrap();
            assert_eq!(
                (failure.reason, failure.stage),
                (HTTP_SHED, Stage::Dispatch)
            );
            assert_eq!(failure.transparent, Transparent::No, "the policy decides");
            assert_eq!(record.delay, Some(10 * MS));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stays_overloaded_is_asked_by_the_policy() {
    let client = ServiceBuilder::new()
        .layer(retry())
        .load_shed()
        .service(BusyFor::calls(u32::MAX));
    let mut request = request(Method::GET);
    let watch = RetryInfo::track(&mut request);
    let error = client.oneshot(request).await.unwrap_err();
    assert!(error.is::<tower::load_shed::error::Overloaded>());
    assert_eq!(watch.info().attempts(), 3);
    assert_eq!(watch.info().stopped(), Some(StopReason::Attempts));
}

/// `Timeout` has called its service: the request may have been carried out.
#[tokio::test(start_paused = true)]
async fn a_timed_out_attempt_was_in_flight() {
    for (method, attempts) in [(Method::GET, 3), (Method::PUT, 3), (Method::POST, 1)] {
        let client = ServiceBuilder::new()
            .layer(retry())
            .timeout(50 * MS)
            .service_fn(|_: Request<()>| pending::<Result<Response<()>, BoxError>>());
        let mut request = request(method);
        let watch = RetryInfo::track(&mut request);
        let error = client.oneshot(request).await.unwrap_err();
        assert!(error.is::<tower::timeout::error::Elapsed>());
        let info = watch.info();
        assert_eq!(info.attempts(), attempts);
        let failure = info.records().next().unwrap().failure.unwrap();
        assert_eq!(
            (failure.reason, failure.stage),
            (HTTP_TIMEOUT, Stage::InFlight)
        );
    }
}

#[test]
fn towers_errors_are_found_inside_other_errors() {
    let shed = tower::load_shed::error::Overloaded::new();
    let shed = AnyTransportError::new(std::io::Error::other(shed));
    assert_eq!(TransportFault::of(&shed), TransportFault::Shed);
    let timeout = std::io::Error::other(tower::timeout::error::Elapsed::new());
    assert_eq!(TransportFault::of(&timeout), TransportFault::Timeout);
}
