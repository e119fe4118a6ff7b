use std::sync::Arc;

use crate::failure::reason::KV_TEMPORARY_FAILURE;
use crate::policy::backoff::{Backoff, Jitter};
use crate::policy::strategy::MaxAttempts;
use crate::{
    Call, CallContext, FoundPushback, RetryInfo, ServerPushback, StopReason, TokenBucket, Verdict,
};
use tower::{ServiceBuilder, ServiceExt};

use super::*;
use crate::RetryLayer;
use crate::test_util::{
    Answer, CallResult, Fault, Probe, Step, attempt, call_result, ms, probe, verdict,
};

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;

/// The server's pushback, by attempt.
type Words = fn(u32) -> Option<ServerPushback>;

#[derive(Clone, Debug)]
struct Reader(Words);

impl ReadPushback<Answer, Fault> for Reader {
    fn read(&self, outcome: Result<&Answer, &Fault>, _: &CallContext) -> FoundPushback {
        match outcome {
            Ok(answer) | Err(Fault::Server(answer)) => (self.0)(answer.attempt).into(),
            Err(_) => FoundPushback::Absent,
        }
    }
}

fn after(n: u64) -> Option<ServerPushback> {
    Some(ServerPushback::After(ms(n)))
}

fn fails(n: u32) -> Step {
    attempt(n).fails(KV_TEMPORARY_FAILURE)
}

/// Up to four attempts, with a back-off that doubles from 10 ms.
async fn send(words: Words, probe: &Probe) -> (CallResult, RetryInfo) {
    let strategy = MaxAttempts::new(
        4,
        Backoff::exponential(ms(10), ms(1000)).jitter(Jitter::None),
    );
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(verdict as Verdicts, strategy))
        .layer(PushbackLayer::new(Reader(words)))
        .service(probe.inner());
    let mut request = probe.request();
    let watch = RetryInfo::track(&mut request);
    let outcome = service.oneshot(request).await;
    (call_result(&outcome), watch.info())
}

/// R31 R32: exactly the server's delay, then the back-off restarts.
#[tokio::test(start_paused = true)]
async fn the_servers_delay_replaces_the_back_off_and_restarts_it() {
    let probe = probe([fails(1), fails(2), fails(3), attempt(4)]);
    let (call_result, info) = send(|n| if n == 2 { after(5000) } else { None }, &probe).await;
    assert_eq!(call_result, CallResult::Answer(4));
    assert_eq!(probe.log().times(), [0, 10, 5010, 5020]);
    let second = info.records().nth(1).unwrap();
    assert_eq!(
        (second.pushback, second.delay),
        (after(5000), Some(ms(5000)))
    );
}

/// R30
#[tokio::test(start_paused = true)]
async fn a_pushback_of_zero_sends_at_once() {
    let probe = probe([fails(1), attempt(2)]);
    assert_eq!(send(|_| after(0), &probe).await.0, CallResult::Answer(2));
    assert_eq!(probe.log().times(), [0, 0]);
}

/// R30
#[tokio::test(start_paused = true)]
async fn a_stop_returns_the_servers_failure() {
    let probe = probe([fails(1)]);
    let (call_result, info) = send(|_| Some(ServerPushback::Stop), &probe).await;
    assert_eq!(call_result, CallResult::Error(1));
    assert_eq!(info.stopped(), Some(StopReason::Pushback));
    assert_eq!(
        info.records().next().unwrap().pushback,
        Some(ServerPushback::Stop)
    );
}

/// R33
#[tokio::test(start_paused = true)]
async fn it_never_adds_attempts() {
    let probe = probe((1..=4).map(fails));
    let (call_result, info) = send(|_| after(1), &probe).await;
    assert_eq!(call_result, CallResult::Error(4));
    assert_eq!(info.stopped(), Some(StopReason::Attempts));
}

/// R34
#[tokio::test(start_paused = true)]
async fn on_a_failure_that_is_final_it_is_not_followed() {
    let probe = probe([attempt(1).fails_fatally(KV_TEMPORARY_FAILURE)]);
    assert_eq!(send(|_| after(1), &probe).await.0, CallResult::Error(1));
}

/// R35
#[tokio::test(start_paused = true)]
async fn on_a_success_it_is_ignored() {
    let probe = probe([attempt(1)]);
    let (call_result, info) = send(|_| Some(ServerPushback::Stop), &probe).await;
    assert_eq!(call_result, CallResult::Answer(1));
    assert_eq!(info.stopped(), Some(StopReason::Success));
}

/// R22 R23: a stop on any code counts, also if no layer recovers the call.
#[tokio::test(start_paused = true)]
async fn a_stop_counts_for_the_bucket_on_any_failure() {
    use crate::{RetryThrottle, RoutePolicy};
    for policy in [
        RoutePolicy::new("retries"),
        RoutePolicy::new("none").no_recovery(),
    ] {
        let bucket = std::sync::Arc::new(TokenBucket::new(10, 100).unwrap());
        let probe = probe([attempt(1).fails_fatally(KV_TEMPORARY_FAILURE)]);
        let mut request = probe.request();
        let context = request.context_mut();
        context.set_policy(std::sync::Arc::new(policy));
        context.set_throttle(bucket.clone());
        let strategy = MaxAttempts::new(4, Backoff::constant(ms(10)));
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(verdict as Verdicts, strategy))
            .layer(PushbackLayer::new(Reader(|_| Some(ServerPushback::Stop))))
            .service(probe.inner());
        assert_eq!(
            call_result(&service.oneshot(request).await),
            CallResult::Error(1)
        );
        assert_eq!(bucket.milli_tokens(), Some(9000));
    }
}

#[cfg(feature = "http")]
#[tokio::test(start_paused = true)]
async fn outside_of_any_recovery_layer_it_warns_and_changes_nothing() {
    use crate::test_util::listen;
    use tower::Layer;

    let listener = listen();
    let layer = PushbackLayer::new(Reader(|_| after(1)));
    let plain = probe([fails(1)]);
    let outcome = layer.layer(plain.inner()).oneshot(plain.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Error(1));
    // A request without a context has no recovery layer above either.
    let bare = probe([fails(1)]);
    let outcome = layer
        .layer(bare.inner())
        .oneshot(http::Request::new(()))
        .await;
    assert_eq!(call_result(&outcome), CallResult::Error(1));
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 2, "one warning per service: {warnings:?}");
    assert!(
        warnings
            .iter()
            .all(|said| said.starts_with("PushbackLayer is outside of any"))
    );
}

/// Compile-time checks of the layer's types.
const _: fn() = || {
    fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}
    fn future<T: Send + Unpin + std::fmt::Debug>() {}
    service::<PushbackLayer<Reader>>();
    service::<Pushback<Probe, Reader>>();
    future::<<Pushback<Probe, Reader> as Service<Call<()>>>::Future>();
};

/// Reads nothing, and reports an unreadable pushback.
#[derive(Clone, Debug)]
struct Baffled;

impl ReadPushback<Answer, Fault> for Baffled {
    fn read(&self, outcome: Result<&Answer, &Fault>, _: &CallContext) -> FoundPushback {
        match outcome {
            Ok(_) => FoundPushback::Absent,
            Err(_) => FoundPushback::Unreadable,
        }
    }
}

/// Law 8: ignored pushback is recorded, whether the attempts share the reader or not.
#[tokio::test(start_paused = true)]
async fn unreadable_pushback_counts_as_none_and_is_recorded() {
    ignores(Baffled).await;
    ignores(Arc::new(Baffled)).await;
}

async fn ignores(reader: impl ReadPushback<Answer, Fault> + Clone) {
    let probe = probe([fails(1), attempt(2)]);
    let strategy = MaxAttempts::new(
        4,
        Backoff::exponential(ms(10), ms(1000)).jitter(Jitter::None),
    );
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(verdict as Verdicts, strategy))
        .layer(PushbackLayer::new(reader))
        .service(probe.inner());
    let mut request = probe.request();
    let watch = RetryInfo::track(&mut request);
    assert_eq!(
        call_result(&service.oneshot(request).await),
        CallResult::Answer(2)
    );
    assert_eq!(probe.log().times(), [0, 10], "by the back-off");
    let info = watch.info();
    let record = info.records().next().unwrap();
    assert_eq!((record.pushback, record.pushback_unreadable), (None, true));
}
