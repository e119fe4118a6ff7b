//! The layers of an HTTP client in their documented order, and the policies of its routes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt::{
    DeadlineLayer, HedgeLayer, OnDeadline, PushbackLayer, RetryLayer, Route, RouteLayer,
};
use reattempt_http::body::{
    DeadlineBodyLayer, DrainBodyLayer, OutcomeBodyLayer, ReplayBody, ReplayBodyLayer,
};
use reattempt_http::policy::{HttpPolicies, Options};
use reattempt_http::{HttpClassifier, HttpPushback, IdempotencyKeyLayer};
use tower::ServiceBuilder;
use tower::util::BoxCloneSyncService;

use super::received::{Broken, LONGEST_BODY};
use crate::call::attempts::{JournalLayer, JournalObserver};
use crate::call::document::{Document, Fault, Setup};
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

/// The document's policies; `None` leaves every call to the layers' defaults.
pub(super) fn policies(document: &mut Document) -> Result<Option<HttpPolicies>, Fault> {
    let Some(text) = document.rest.text("policy") else {
        return Ok(None);
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
            return Ok(None);
        }
    };
    for warning in parsed.warnings {
        document.rest.warn(warning.below("$.policy"));
    }
    Ok(Some(parsed.policies))
}

/// The layers in their documented order.
pub(super) fn stack(
    setup: &Setup,
    policies: Option<HttpPolicies>,
    transport: Transport<ReplayBody<Full<Bytes>>>,
) -> Stack {
    let classifier = HttpClassifier::new().judge_bodies();
    let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(20))
        .randomness(setup.randomness.clone());
    let strategy = MaxAttempts::new(3, backoff).on_deadline(setup.on_deadline_or_cap());
    let observer = Arc::new(JournalObserver);
    let policies = policies.map(Arc::new);
    let routes =
        move |request: &Request<Full<Bytes>>| policies.as_ref().and_then(|p| p.route(request));
    let service = ServiceBuilder::new()
        .map_response(boxed)
        .layer(RouteLayer::new(routes))
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
        .layer(DrainBodyLayer::new())
        .service(transport);
    BoxCloneSyncService::new(service)
}
