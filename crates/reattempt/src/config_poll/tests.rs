use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;

use crate::failure::reason::{KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE};
use crate::policy::strategy::{BestEffort, Decision, RetryStrategy, RetryView};
use crate::{Call, RetryInfo, Verdict};
use tokio::sync::Semaphore;
use tower::{Layer, ServiceBuilder, ServiceExt};

use super::*;
use crate::test_util::{
    Answer, CallResult, Fault, Payload, Probe, Step, attempt, call_result, listen, ms, probe,
    verdict,
};
use crate::{DeadlineLayer, HedgeLayer, HedgePolicy, RetryLayer};

type Verdicts = fn(Result<&Answer, &Fault>, &CallContext) -> Verdict;

/// Requests a configuration after each failed attempt; the waiter depends on the attempt number.
#[derive(Clone, Debug)]
struct Asks(fn(u32) -> Option<ConfigWaiter>);

impl<Req> StaleConfig<Req, Answer, Fault> for Asks {
    type Note = &'static str;

    fn note(&self, _: &Req) -> Self::Note {
        "the key"
    }

    fn check(&self, note: Self::Note, outcome: Result<&Answer, &Fault>) -> Option<ConfigWaiter> {
        assert_eq!(note, "the key");
        match outcome {
            Err(Fault::Server(answer)) => (self.0)(answer.attempt),
            _ => None,
        }
    }
}

fn resolves(after: u64, moved: bool) -> Option<ConfigWaiter> {
    Some(Box::pin(async move {
        tokio::time::sleep(ms(after)).await;
        moved
    }))
}

fn moved(n: u32) -> Step {
    attempt(n).fails(KV_NOT_MY_VBUCKET)
}

fn stack(
    asks: Asks,
    probe: &Probe,
) -> impl Service<Call<Payload>, Response = Answer, Error = Fault> {
    ServiceBuilder::new()
        .layer(RetryLayer::new(verdict as Verdicts, BestEffort::new()))
        .layer(ConfigPollLayer::new(asks))
        .service(probe.inner())
}

async fn send_by(
    layer: impl Layer<
        ConfigPoll<Probe, Asks>,
        Service: Service<Call<Payload>, Response = Answer, Error = Fault>,
    >,
    asks: fn(u32) -> Option<ConfigWaiter>,
    probe: &Probe,
) -> (CallResult, RetryInfo) {
    let mut request = probe.request();
    let watch = RetryInfo::track(&mut request);
    let polling = ConfigPollLayer::new(Asks(asks)).layer(probe.inner());
    let outcome = layer.layer(polling).oneshot(request).await;
    (call_result(&outcome), watch.info())
}

/// At most `attempts` attempts, one hour apart: earlier ones are retries of a failure.
fn hedge(attempts: u32) -> HedgeLayer<Verdicts> {
    HedgeLayer::new(
        verdict as Verdicts,
        HedgePolicy::new(attempts, ms(3_600_000)).hedge_non_idempotent(),
    )
}

async fn send(asks: fn(u32) -> Option<ConfigWaiter>, probe: &Probe) -> (CallResult, RetryInfo) {
    let mut request = probe.request();
    let watch = RetryInfo::track(&mut request);
    let outcome = stack(Asks(asks), probe).oneshot(request).await;
    (call_result(&outcome), watch.info())
}

/// C33: a newer configuration that moved the key sends at once.
#[tokio::test(start_paused = true)]
async fn a_configuration_that_moved_the_key_ends_the_back_off() {
    // The third retry would wait for 50 ms.
    let probe = probe([moved(1), moved(2), moved(3), attempt(4)]);
    let asks = |n| if n == 3 { resolves(20, true) } else { None };
    let (call_result, info) = send(asks, &probe).await;
    assert_eq!(call_result, CallResult::Answer(4));
    assert_eq!(probe.log().times(), [0, 1, 11, 31]);
    assert_eq!(info.count(KV_NOT_MY_VBUCKET), 3);
    let delays: Vec<_> = info.records().filter_map(|record| record.delay).collect();
    assert_eq!(delays, [ms(1), ms(10), ms(20)], "the time actually waited");
}

/// C33
#[tokio::test(start_paused = true)]
async fn one_that_did_not_leaves_it_to_the_back_off() {
    let probe = probe([moved(1), moved(2), moved(3), attempt(4)]);
    let asks = |n| if n == 3 { resolves(20, false) } else { None };
    assert_eq!(send(asks, &probe).await.0, CallResult::Answer(4));
    assert_eq!(probe.log().times(), [0, 1, 11, 61]);
}

#[tokio::test(start_paused = true)]
async fn an_optional_one_detects_what_it_contains() {
    for (asks, times) in [(true, [0, 0]), (false, [0, 1])] {
        let probe = probe([moved(1), attempt(2)]);
        let some = asks.then_some(Asks(|_| resolves(0, true)));
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(verdict as Verdicts, BestEffort::new()))
            .layer(ConfigPollLayer::new(some))
            .service(probe.inner());
        let outcome = service.oneshot(probe.request()).await;
        assert_eq!(call_result(&outcome), CallResult::Answer(2));
        assert_eq!(probe.log().times(), times);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_too_late_does_not_hold_up_the_back_off() {
    let probe = probe([moved(1), attempt(2)]);
    assert_eq!(
        send(|_| resolves(9999, true), &probe).await.0,
        CallResult::Answer(2)
    );
    assert_eq!(probe.log().times(), [0, 1]);
}

/// It may hold what the next attempt needs, such as the permit of a limit of connections.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_comes_too_late_ends_with_the_back_off() {
    static PERMIT: Semaphore = Semaphore::const_new(1);
    let asks = Asks(|_| {
        Some(Box::pin(async {
            let _held = PERMIT.acquire().await;
            std::future::pending().await
        }))
    });
    let probe = probe([moved(1), attempt(2).after(ms(50))]);
    let mut call = pin!(stack(asks, &probe).oneshot(probe.request()));
    assert!(tokio::time::timeout(ms(10), &mut call).await.is_err());
    assert_eq!(probe.log().times(), [0, 1]);
    assert_eq!(PERMIT.available_permits(), 1);
    assert_eq!(call_result(&call.await), CallResult::Answer(2));
}

/// A strategy that decides with what the waiter holds.
#[derive(Debug)]
struct Shares(&'static Semaphore);

impl RetryStrategy for Shares {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        let permit = self.0.acquire();
        Decision::Defer(Box::pin(async {
            drop(permit.await);
            Ok(Some(ms(100)))
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_goes_on_while_a_strategy_decides() {
    static PERMIT: Semaphore = Semaphore::const_new(1);
    let asks = Asks(|_| {
        Some(Box::pin(async {
            let _held = PERMIT.acquire().await;
            tokio::time::sleep(ms(20)).await;
            true
        }))
    });
    let probe = probe([attempt(1).fails(KV_TEMPORARY_FAILURE), attempt(2)]);
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(verdict as Verdicts, Shares(&PERMIT)))
        .layer(ConfigPollLayer::new(asks))
        .service(probe.inner());
    let outcome = service.oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(2));
    assert_eq!(
        probe.log().times(),
        [0, 20],
        "and what moved ends the delay"
    );
}

#[tokio::test(start_paused = true)]
async fn a_readiness_is_still_acquired_before_it_is_sent() {
    let probe = probe([moved(1), attempt(2)]).ready([crate::test_util::readiness(2).after(ms(5))]);
    let asks = |_| Some(Box::pin(std::future::ready(true)) as ConfigWaiter);
    assert_eq!(send(asks, &probe).await.0, CallResult::Answer(2));
    assert_eq!(probe.log().times(), [0, 5]);
}

/// Law 9: a server that always answers "moved" never makes one poll last forever.
#[tokio::test(start_paused = true)]
async fn an_always_newer_configuration_yields_between_attempts() {
    let probe = probe((1..=9).map(moved));
    let asks = Asks(|_| Some(Box::pin(std::future::ready(true)) as ConfigWaiter));
    let mut call = pin!(stack(asks, &probe).oneshot(probe.request()));
    let mut context = Context::from_waker(Waker::noop());
    for sent in [4, 8] {
        assert!(call.as_mut().poll(&mut context).is_pending());
        assert_eq!(probe.log().times().len(), sent);
    }
}

/// C33: a hedged call too.
#[tokio::test(start_paused = true)]
async fn a_configuration_that_moved_the_key_nudges_a_hedged_call() {
    for (moves, third) in [(true, 31), (false, 61)] {
        let probe = probe([moved(1), moved(2), moved(3), attempt(4)]);
        let asks: fn(u32) -> _ = match moves {
            true => |n| (n == 3).then(|| resolves(20, true)).flatten(),
            false => |n| (n == 3).then(|| resolves(20, false)).flatten(),
        };
        let (call_result, info) = send_by(hedge(2), asks, &probe).await;
        assert_eq!(call_result, CallResult::Answer(4));
        assert_eq!(probe.log().times(), [0, 1, 11, third]);
        let delays: Vec<_> = info.records().filter_map(|record| record.delay).collect();
        assert_eq!(
            delays,
            [ms(1), ms(10), ms(third - 11)],
            "the time actually waited"
        );
    }
}

/// C33: of several attempts in flight only the retry of the failed one is sent earlier.
#[tokio::test(start_paused = true)]
async fn only_the_retry_of_the_failed_attempt_is_nudged() {
    let policy = HedgePolicy::new(4, ms(10)).hedge_non_idempotent();
    let layer = HedgeLayer::new(verdict as Verdicts, policy);
    let steps = [
        moved(1).after(ms(25)),
        moved(2).after(ms(40)),
        attempt(3).after(ms(500)),
    ];
    let probe = probe(
        steps
            .into_iter()
            .chain((4..=6).map(|n| attempt(n).after(ms(500)))),
    );
    // The second fails at 50 ms, and its retry would be sent 10 ms later.
    let asks = |n| (n == 2).then(|| resolves(3, true)).flatten();
    assert_eq!(send_by(layer, asks, &probe).await.0, CallResult::Answer(3));
    assert_eq!(probe.log().times(), [0, 10, 20, 26, 36, 53]);
}

/// Law 9: a cluster that moves the key with every response does not receive requests without delay,
/// forever.
#[tokio::test(start_paused = true)]
async fn a_hedged_call_follows_at_most_sixteen_configurations() {
    let probe = probe((1..=17).map(moved).chain([attempt(18)]));
    let asks = |_| Some(Box::pin(std::future::ready(true)) as ConfigWaiter);
    assert_eq!(
        send_by(hedge(2), asks, &probe).await.0,
        CallResult::Answer(18)
    );
    assert_eq!(probe.log().times()[16..], [0, 1000]);
}

/// A6, Pushback: a server's own delay is exact.
#[tokio::test(start_paused = true)]
async fn no_configuration_shortens_server_pushback() {
    let after = crate::ServerPushback::After(ms(40));
    let probe = probe([moved(1).pushback(after), attempt(2)]);
    let asks = |_| resolves(5, true);
    assert_eq!(
        send_by(hedge(2), asks, &probe).await.0,
        CallResult::Answer(2)
    );
    assert_eq!(probe.log().times(), [0, 40]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_asks_for_nothing() {
    let probe = probe([attempt(1)]);
    let asked = |_| panic!("the response showed no sign of a stale configuration");
    assert_eq!(send(asked, &probe).await.0, CallResult::Answer(1));
}

#[tokio::test(start_paused = true)]
async fn outside_of_any_recovery_layer_it_still_asks_and_warns() {
    let listener = listen();
    let probe = probe([moved(1)]);
    let layer = ConfigPollLayer::new(Asks(|_| resolves(1, true)));
    let outcome = layer.layer(probe.inner()).oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Error(1));
    let warnings = listener.warnings();
    assert!(
        warnings[0].starts_with("ConfigPollLayer is outside of any"),
        "{warnings:?}"
    );
}

/// The thread's next call reuses the block: until then it must keep no data of the caller.
#[tokio::test(start_paused = true)]
async fn where_no_recovery_layer_acts_no_waiter_outlives_its_call() {
    static ALIVE: AtomicU32 = AtomicU32::new(0);
    struct Alive;
    impl Drop for Alive {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let waits = |_| {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        let alive = Alive;
        let waiter = async move {
            let _alive = alive;
            std::future::pending().await
        };
        Some(Box::pin(waiter) as ConfigWaiter)
    };
    let probe = probe([moved(1)]);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(ms(20)))
        .layer(ConfigPollLayer::new(Asks(waits)))
        .layer(DeadlineLayer::new(ms(10)))
        .service(probe.inner());
    let outcome = service.oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Error(1));
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
}

/// Compile-time checks of the layer's types.
const _: fn() = || {
    fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}
    fn future<T: Send + Unpin + std::fmt::Debug>() {}
    service::<ConfigPollLayer<Asks>>();
    service::<ConfigPoll<Probe, Asks>>();
    future::<<ConfigPoll<Probe, Asks> as Service<Call<()>>>::Future>();
};
