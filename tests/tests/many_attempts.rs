//! Any number of attempts that were never sent do not hide one that is in flight; a clone does not
//! hide its original.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use reattempt::backoff::Backoff;
use reattempt::reason::UNKNOWN;
use reattempt::strategy::MaxAttempts;
use reattempt::test_util::ms;
use reattempt::{
    Call, CallContext, DeadlineLayer, Elapsed, Failure, HasCallContext, HedgeLayer, HedgePolicy,
    Idempotency, RetryLayer, RouteLayer, RoutePolicy, Stage, StopReason, Transparent, Verdict,
    classify_fn,
};
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceBuilder, ServiceExt};

fn write() -> Call<()> {
    let mut call = Call::new(());
    call.context_mut()
        .set_idempotency(Idempotency::NotIdempotent);
    call
}

/// RFC 0049: ambiguous while a write may be in flight, also after a thousand more attempts.
#[tokio::test(start_paused = true)]
async fn a_timeout_is_ambiguous_while_the_first_attempt_is_out() {
    let never_sent = Failure::new(UNKNOWN, Stage::Dispatch).transparent(Transparent::Unlimited);
    let classifier =
        classify_fn(
            move |outcome: Result<&u8, &BoxError>, _: &CallContext| match outcome {
                Ok(_) => Verdict::Success,
                Err(_) => Verdict::Retry(never_sent),
            },
        );
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(ms(5000)))
        .layer(HedgeLayer::new(
            classifier,
            HedgePolicy::new(2, ms(1)).hedge_non_idempotent(),
        ))
        .service_fn(|call: Call<()>| async move {
            if call.context().map(CallContext::attempt) == Some(1) {
                std::future::pending::<()>().await;
            }
            Err::<u8, BoxError>("never sent".into())
        });
    let error = service.oneshot(write()).await.unwrap_err();
    let story = error.downcast::<Elapsed>().unwrap();
    assert!(story.info.attempts() > 17, "{}", story.info.attempts());
    assert!(story.ambiguous);
}

/// A service between the layers sends the request twice: the second call has its own deadline.
#[tokio::test(start_paused = true)]
async fn a_call_cloned_below_our_layers_has_its_own_deadline() {
    let classifier = classify_fn(|_: Result<&u8, &BoxError>, _: &CallContext| Verdict::Success);
    let sent = Arc::new(AtomicU32::new(0));
    let inner = ServiceBuilder::new()
        .layer(DeadlineLayer::new(ms(50)))
        .layer(RetryLayer::new(
            classifier,
            MaxAttempts::new(3, Backoff::constant(ms(1))),
        ))
        .service_fn(move |_: Call<()>| {
            let nth = sent.fetch_add(1, Ordering::Relaxed);
            async move {
                if nth > 0 {
                    std::future::pending::<()>().await;
                }
                Ok::<u8, BoxError>(1)
            }
        });
    let inner = BoxCloneService::new(inner);
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(Arc::new(RoutePolicy::new("r"))))
        .layer(DeadlineLayer::new(ms(500)))
        .service_fn(move |call: Call<()>| {
            let inner = inner.clone();
            async move {
                inner.clone().oneshot(call.clone()).await?;
                inner.oneshot(call).await
            }
        });
    let error = service.oneshot(write()).await.unwrap_err();
    let story = error.downcast::<Elapsed>().unwrap();
    assert!(story.ambiguous, "the second call's write was out");
    assert_eq!(story.info.stopped(), Some(StopReason::Deadline));
    assert_eq!(story.info.attempts(), 1);
}
