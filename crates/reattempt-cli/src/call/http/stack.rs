//! The layers of an HTTP client in their documented order, and the policies of its routes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use reattempt::backoff::Backoff;
use reattempt::health::CircuitBreaker;
use reattempt::strategy::MaxAttempts;
use reattempt::{
    AdmissionLayer, CircuitBreakerLayer, DeadlineLayer, HedgeLayer, OnDeadline, PushbackLayer,
    RetryLayer, RouteLayer,
};
use reattempt_http::body::{
    DeadlineBodyLayer, DrainBodyLayer, OutcomeBodyLayer, ReplayBody, ReplayBodyLayer,
};
use reattempt_http::policy::{HttpPolicies, LiveHttpPolicies, Options};
use reattempt_http::{HttpClassifier, HttpPushback, IdempotencyKeyLayer};
use tokio::time::Instant;
use tower::ServiceBuilder;
use tower::util::BoxCloneSyncService;

use super::received::{Broken, LONGEST_BODY};
use crate::call::attempts::{JournalLayer, JournalObserver};
use crate::call::document::{Document, Fields, Found, Setup};
use crate::call::transport::{Transport, TransportError};

/// Any stack of layers, with one response body type.
pub(super) type Stack = BoxCloneSyncService<
    Request<Full<Bytes>>,
    Response<UnsyncBoxBody<Bytes, Broken>>,
    TransportError,
>;

/// Boxes the body of a response, for [`Stack`].
pub(super) fn boxed<B>(answer: Response<B>) -> Response<UnsyncBoxBody<Bytes, Broken>>
where
    B: Body<Data = Bytes> + Send + 'static,
    Broken: From<B::Error>,
{
    answer.map(|body| body.map_err(Broken::from).boxed_unsync())
}

/// Keeps all of a request's body, which is already in memory. A route may set a lower limit.
pub(super) fn replay() -> ReplayBodyLayer {
    ReplayBodyLayer::new()
        .bytes_per_call(LONGEST_BODY)
        .no_budget()
}

/// The document's policies; an empty table leaves every call to the layers' defaults. `health` of
/// the policy is that of the one server.
pub(super) fn policies(document: &mut Document) -> (HttpPolicies, Option<Arc<CircuitBreaker>>) {
    let Some(text) = document.rest.text("policy") else {
        return Default::default();
    };
    let setup = &document.setup;
    let mut options = Options::new()
        .randomness(setup.randomness.clone())
        .default_on_deadline(OnDeadline::Cap);
    options.on_deadline = setup.on_deadline;
    // Paths of the policy start at its own root.
    let parsed = match HttpPolicies::parse_with(&text, &options) {
        Ok(parsed) => parsed,
        Err(faults) => {
            document.rest.add_all("policy", &faults);
            return Default::default();
        }
    };
    for warning in parsed.warnings {
        document.rest.warn(warning.below("$.policy"));
    }
    let members = Fields::of(text.as_bytes(), "$", Found::default());
    let breaker = members.first_byte("health").map(|_| {
        let now = Instant::now().into_std();
        Arc::new(CircuitBreaker::new(parsed.policies.health(), now))
    });
    (parsed.policies, breaker)
}

/// The layers in their documented order.
pub(super) fn stack(
    setup: &Setup,
    policies: HttpPolicies,
    breaker: Option<Arc<CircuitBreaker>>,
    transport: Transport<ReplayBody<Full<Bytes>>>,
) -> Stack {
    let classifier = HttpClassifier::new().judge_bodies();
    let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(20))
        .randomness(setup.randomness.clone());
    let strategy = MaxAttempts::new(3, backoff).on_deadline(setup.on_deadline_or_cap());
    let observer = Arc::new(JournalObserver);
    let admission = Arc::clone(policies.admission());
    let breaker = breaker.map(|breaker| CircuitBreakerLayer::new(breaker, classifier));
    let service = ServiceBuilder::new()
        .map_response(boxed)
        .layer(AdmissionLayer::new(admission))
        .layer(RouteLayer::new(LiveHttpPolicies::new(policies)))
        // Above the deadline, which uses the idempotency to decide whether a timeout is ambiguous.
        .layer(IdempotencyKeyLayer::new().by_policy())
        .layer(DeadlineLayer::no_timeout())
        .layer(DeadlineBodyLayer::new())
        .layer(replay())
        .layer(RetryLayer::new(classifier, strategy).observer(observer.clone()))
        .layer(HedgeLayer::by_policy(classifier).observer(observer))
        .layer(OutcomeBodyLayer::new())
        .layer(DeadlineLayer::no_timeout())
        .layer(DeadlineBodyLayer::new())
        .layer(PushbackLayer::new(HttpPushback::new()))
        .layer(JournalLayer)
        .option_layer(breaker)
        .layer(DrainBodyLayer::new())
        .service(transport);
    BoxCloneSyncService::new(service)
}
