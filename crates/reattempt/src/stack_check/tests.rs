use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tower::{Layer, Service, ServiceBuilder, ServiceExt};

use super::StackCheck;
use crate::failure::reason::UNKNOWN;
use crate::strategy::RetryOnce;
use crate::test_util::listen;
use crate::{
    Call, CallContext, Classify, Failure, HasCallContext, HedgeLayer, HedgePolicy, RetryLayer,
    Stage, TokenBucket, Verdict,
};

type Classifier = fn(Result<&u8, &Infallible>, &CallContext) -> Verdict;

const COMMITTED: Classifier = |_, _| Verdict::Committed;

fn retry() -> RetryLayer<Classifier> {
    RetryLayer::new(COMMITTED, RetryOnce)
}

fn hedge() -> HedgeLayer<Classifier> {
    HedgeLayer::new(COMMITTED, HedgePolicy::new(2, Duration::from_secs(1)))
}

async fn send<S>(service: S, throttled: bool)
where
    S: Service<Call<()>, Response = u8, Error = Infallible>,
{
    let mut request = Call::new(());
    if throttled {
        let bucket = TokenBucket::new(10, 100).unwrap();
        request.context_mut().set_throttle(Arc::new(bucket));
    }
    let Ok(0) = service.oneshot(request).await else {
        panic!("the inner response")
    };
}

/// Reports no end of its responses.
async fn ignores_the_end(_: Call<()>) -> Result<u8, Infallible> {
    Ok(0)
}

async fn follows_the_end(request: Call<()>) -> Result<u8, Infallible> {
    let reporter = request.context().map(|context| context.reporter().follow());
    reporter.unwrap().finish(&Verdict::Success);
    Ok(0)
}

#[test]
fn one_value_and_its_clones_log_once() {
    let listener = listen();
    let [one, mut other] = [StackCheck::default(), StackCheck::default()];
    for _ in 0..2 {
        one.warn("One", "is wrong");
        one.clone().warn("One", "is wrong");
        other.inside_recovery("Other", Some(&CallContext::default()));
        other.outside_recovery("Other", &CallContext::default());
    }
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("One is wrong"));
    assert!(warnings[1].starts_with("Other is outside of any recovery layer"));
}

#[test]
fn a_service_that_is_right_is_checked_no_more() {
    let listener = listen();
    let mut right = StackCheck::default();
    let mut other = right.clone();
    let mut context = CallContext::default();
    context.claim_first();
    for context in [context, CallContext::default()] {
        right.inside_recovery("Right", Some(&context));
        right.clone().inside_recovery("Right", None);
    }
    assert_eq!(listener.warnings().len(), 0);
    other.inside_recovery("Other", None);
    assert_eq!(listener.warnings().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_stack_without_an_outcome_layer_is_reported_once() {
    let listener = listen();
    for stack in 1..=2 {
        let retried = ServiceBuilder::new()
            .layer(retry())
            .service_fn(ignores_the_end);
        let hedged = ServiceBuilder::new()
            .layer(hedge())
            .service_fn(ignores_the_end);
        for _ in 0..3 {
            send(retried.clone(), true).await;
            send(hedged.clone(), true).await;
        }
        let warnings = listener.warnings();
        assert_eq!(warnings.len(), 2 * stack, "{warnings:?}");
        let ends = "got a response that ends later, but no layer below it reports the end";
        assert!(warnings[2 * stack - 2].starts_with(&format!("RetryLayer {ends}")));
        assert!(warnings[2 * stack - 1].starts_with(&format!("HedgeLayer {ends}")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_followed_response_is_not_reported() {
    let listener = listen();
    let retried = ServiceBuilder::new().layer(retry());
    send(retried.service_fn(follows_the_end), true).await;
    let hedged = ServiceBuilder::new().layer(hedge());
    send(hedged.service_fn(follows_the_end), true).await;
    assert_eq!(listener.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_a_throttle_no_end_is_needed() {
    let listener = listen();
    let retried = ServiceBuilder::new().layer(retry());
    send(retried.service_fn(ignores_the_end), false).await;
    let hedged = ServiceBuilder::new().layer(hedge());
    send(hedged.service_fn(ignores_the_end), false).await;
    assert_eq!(listener.warnings(), [""; 0]);
}

/// Knows `Ok` and 7, and not 8.
#[derive(Clone, Copy)]
struct KnowsSeven;

const UNREAD: Failure = Failure::new(UNKNOWN, Stage::InFlight);

impl Classify<u8, u8> for KnowsSeven {
    fn classify(&self, outcome: Result<&u8, &u8>, _: &CallContext) -> Verdict {
        match outcome {
            Ok(_) => Verdict::Success,
            Err(_) => Verdict::Fatal(UNREAD),
        }
    }

    fn unknown_error(&self, error: &u8, failure: &Failure) -> Option<String> {
        assert_eq!(*failure, UNREAD);
        (*error == 8).then(|| "got an 8".to_owned())
    }
}

async fn fail<S: Service<Call<u8>, Response = u8, Error = u8>>(service: S, error: u8) {
    let failed = service.oneshot(Call::new(error)).await;
    assert_eq!(failed, Err(error));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_error_is_logged_once_per_stack() {
    let listener = listen();
    let inner = tower::service_fn(async |call: Call<u8>| Err(call.request));
    for stack in 1..=2 {
        let retried = RetryLayer::new(KnowsSeven, RetryOnce).layer(inner);
        fail(retried.clone(), 7).await;
        assert_eq!(listener.warnings().len(), 2 * stack - 2, "a known error");
        fail(retried.clone(), 8).await;
        fail(retried, 8).await;
        let policy = HedgePolicy::new(2, Duration::from_secs(1));
        let hedged = HedgeLayer::new(KnowsSeven, policy).layer(inner);
        fail(hedged.clone(), 8).await;
        fail(hedged, 8).await;
        let warnings = listener.warnings();
        assert_eq!(warnings.len(), 2 * stack, "{warnings:?}");
        assert!(warnings[2 * stack - 2].starts_with("RetryLayer got an 8"));
        assert!(warnings[2 * stack - 1].starts_with("HedgeLayer got an 8"));
    }
}

#[test]
fn a_shared_classifier_names_the_errors_that_it_does_not_know() {
    let shared = Arc::new(KnowsSeven);
    let named = [7, 8].map(|e| Classify::<u8, u8>::unknown_error(&shared, &e, &UNREAD));
    assert_eq!(named, [None, Some("got an 8".to_owned())]);
}
