//! Rules of RFC 0049 through the public layer. Rule numbers as in docs/conformance/couchbase.md.

use std::sync::{Arc, Mutex};

use reattempt::strategy::BestEffort;
use reattempt::{
    Call, CallContext, Decision, Failure, HasCallContext, Idempotency, RetryInfo, RetryLayer,
    RetryReason, RetryStrategy, RetryView, ServerPushback, Stage, Verdict, classify_fn, reason,
};
use tower::{Layer, ServiceExt, service_fn};

/// C14: a later report does not change a call that is over.
#[tokio::test(start_paused = true)]
async fn a_report_after_the_end_of_a_call_changes_nothing() {
    let seen = Arc::<Mutex<Vec<CallContext>>>::default();
    let saw = Arc::clone(&seen);
    let server = service_fn(move |call: Call<()>| {
        let mut saw = saw.lock().unwrap();
        saw.extend(call.context().cloned());
        let outcome = if saw.len() == 1 { Err(()) } else { Ok(()) };
        async move { outcome }
    });
    let failure = Failure::new(reason::KV_LOCKED, Stage::Response);
    let classifier = classify_fn(
        move |outcome: Result<&(), &()>, _: &CallContext| match outcome {
            Ok(()) => Verdict::Success,
            Err(()) => Verdict::Retry(failure),
        },
    );
    let mut request = Call::new(());
    let watch = RetryInfo::track(&mut request);
    let service = RetryLayer::new(classifier, BestEffort::new()).layer(server);
    let outcome = service.oneshot(request).await;
    let before = watch.info();
    assert_eq!((outcome, before.attempts()), (Ok(()), 2));
    let contexts: Vec<CallContext> = seen.lock().unwrap().clone();
    for context in contexts {
        context.reporter().pushback(ServerPushback::Stop);
        context.reporter().forbid();
        context.reporter().finish(&Verdict::Retry(failure));
        assert_eq!(context.info(), before);
    }
    assert_eq!(seen.lock().unwrap().len(), 2, "nothing more was sent");
}

/// What a strategy received: the idempotency, the retries made, the reasons so far, the
/// application's data.
type Shown = (bool, u32, Vec<RetryReason>, Option<&'static str>);

/// Best effort that also records what it receives.
#[derive(Clone, Debug, Default)]
struct Noting(BestEffort, Arc<Mutex<Vec<Shown>>>);

impl RetryStrategy for Noting {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        self.1.lock().unwrap().push((
            view.idempotent,
            view.retries,
            view.info().reasons().collect(),
            view.data().copied(),
        ));
        self.0.decide(view)
    }
}

/// C11: RFC 0049, Request Annotation and Accessible Context. A strategy sees all of it, also of a
/// call without a watch.
#[tokio::test(start_paused = true)]
async fn a_strategy_sees_the_annotation_of_its_request() {
    use reason::{KV_LOCKED, KV_TEMPORARY_FAILURE};
    let fails = [KV_LOCKED, KV_TEMPORARY_FAILURE, KV_LOCKED];
    let attempts = Arc::new(Mutex::new(0));
    let server = service_fn(move |_: Call<()>| {
        let attempt = *attempts.lock().unwrap();
        *attempts.lock().unwrap() += 1;
        let outcome = fails.get(attempt).copied().map_or(Ok(()), Err);
        async move { outcome }
    });
    let classifier = classify_fn(
        |outcome: Result<&(), &RetryReason>, _: &CallContext| match outcome {
            Ok(()) => Verdict::Success,
            Err(why) => Verdict::Retry(Failure::new(*why, Stage::Response)),
        },
    );
    let (of_layer, of_request) = (Noting::default(), Noting::default());
    let mut request = Call::new(());
    let context = request.context_mut();
    context.set_idempotency(Idempotency::Idempotent);
    context.set_data("of a person");
    context.set_strategy(Arc::new(of_request.clone()));
    let service = RetryLayer::new(classifier, of_layer.clone()).layer(server);
    assert_eq!(service.oneshot(request).await, Ok(()));
    let person = Some("of a person");
    let expected: [Shown; 3] = [
        (true, 0, vec![], person),
        (true, 1, vec![KV_LOCKED], person),
        (true, 2, vec![KV_LOCKED, KV_TEMPORARY_FAILURE], person),
    ];
    assert_eq!(*of_request.1.lock().unwrap(), expected);
    assert_eq!(
        *of_layer.1.lock().unwrap(),
        [],
        "the request's own overrides it"
    );
}
