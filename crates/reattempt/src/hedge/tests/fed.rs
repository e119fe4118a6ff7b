//! What a hedge delay that learns is fed: each attempt once, with how long it took, and its end.

use std::sync::Mutex;

use crate::backends::BackendLayer;
use crate::policy::AttemptEnd::{self, Dropped, Failed, Lost, Succeeded};
use crate::policy::{EndedAttempt, HedgeView};
use crate::{AttemptDeadlineLayer, Failure, Stage};

use super::*;

/// Ten milliseconds; keeps number, milliseconds and end of each attempt.
#[derive(Debug, Default)]
struct Feed(Mutex<Vec<(u32, u128, AttemptEnd)>>);

impl HedgeDelay for Feed {
    fn delay(&self, _: &HedgeView<'_>) -> Option<Duration> {
        Some(ms(10))
    }

    fn learns(&self) -> bool {
        true
    }

    fn ended(&self, attempt: &EndedAttempt) {
        let took = attempt.ended().duration_since(attempt.sent());
        assert_eq!(took, attempt.took());
        let ended = (attempt.number(), took.as_millis(), attempt.end());
        self.0.lock().unwrap().push(ended);
    }
}

/// By attempt.
async fn fed(request: impl HasCallContext + Replay, probe: &Probe) -> Vec<(u32, u128, AttemptEnd)> {
    fed_by(HedgePolicy::hedge_non_idempotent, request, probe).await
}

async fn fed_by(
    change: fn(HedgePolicy) -> HedgePolicy,
    request: impl HasCallContext + Replay,
    probe: &Probe,
) -> Vec<(u32, u128, AttemptEnd)> {
    let feed = Arc::new(Feed::default());
    let policy = change(HedgePolicy::with_delay(3, feed.clone()));
    let layer = HedgeLayer::new(verdict as Verdicts, policy);
    let call = layer.layer(probe.inner()).oneshot(request);
    // The caller gives up.
    let _ = tokio::time::timeout(ms(200), call).await;
    let mut fed = feed.0.lock().unwrap().clone();
    fed.sort_by_key(|ended| ended.0);
    fed
}

/// Their times would move the delay of the calls that are hedged.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_hedged_teaches_nothing() {
    let scripts = [
        attempt(1),
        attempt(1).after(ms(25)),
        attempt(1).hangs(),
        attempt(1).fails_fatally(KV_LOCKED).after(ms(5)),
    ];
    for script in scripts {
        let probe = probe([script]);
        let fed = fed_by(|policy| policy, probe.request(), &probe).await;
        assert_eq!(fed, []);
    }
}

/// Nor one whose request cannot be sent twice.
#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_sent_twice_teaches_nothing() {
    let fails = attempt(1).fails_fatally(KV_LOCKED).after(ms(5));
    let late = attempt(1).after(ms(25));
    for script in [
        attempt(1),
        attempt(1).after(ms(5)),
        late,
        attempt(1).hangs(),
        fails,
    ] {
        let probe = probe([script]);
        assert_eq!(fed(Scarce::new(&probe, 0), &probe).await, []);
    }
    // One that no longer can when its hedge is due counts all the same: to leave out the slow ones
    // would shorten the delay.
    for took in [5, 25] {
        let probe = probe([attempt(1).after(ms(took))]);
        let ends = fed(Scarce::new(&probe, 1), &probe).await;
        assert_eq!(ends, [(1, took.into(), Succeeded)]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_winner_and_the_losers_are_fed_once_each() {
    let at_once = probe([attempt(1)]);
    assert_eq!(fed(at_once.request(), &at_once).await, [(1, 0, Succeeded)]);
    let alone = probe([attempt(1).after(ms(5))]);
    assert_eq!(fed(alone.request(), &alone).await, [(1, 5, Succeeded)]);
    let first = probe([
        attempt(1).after(ms(25)),
        attempt(2).hangs(),
        attempt(3).hangs(),
    ]);
    let ends = [(1, 25, Succeeded), (2, 15, Lost), (3, 5, Lost)];
    assert_eq!(fed(first.request(), &first).await, ends);
    let second = probe([attempt(1).hangs(), attempt(2).after(ms(5))]);
    let ends = [(1, 15, Lost), (2, 5, Succeeded)];
    assert_eq!(fed(second.request(), &second).await, ends);
}

#[tokio::test(start_paused = true)]
async fn attempts_that_fail_are_fed_once_each_if_they_were_sent() {
    let fails = |number| attempt(number).fails(KV_LOCKED).after(ms(4));
    let all = probe([fails(1), fails(2), fails(3)]);
    assert_eq!(
        fed(all.request(), &all).await,
        [(1, 4, Failed)],
        "the others follow a failure"
    );
    let both = probe([attempt(1).hangs(), fails(2), attempt(3)]);
    let ends = [(1, 14, Lost), (2, 4, Failed)];
    assert_eq!(fed(both.request(), &both).await, ends);
    let refused = Verdict::Retry(Failure::new(KV_LOCKED, Stage::Dispatch));
    let unsent = |number| attempt(number).comes_to(refused).after(ms(4));
    let first = probe([unsent(1), unsent(2), fails(3)]);
    assert_eq!(fed(first.request(), &first).await, []);
    let last = probe([attempt(1).hangs(), attempt(2).fails_fatally(KV_LOCKED)]);
    let ends = [(1, 10, Lost), (2, 0, Failed)];
    assert_eq!(fed(last.request(), &last).await, ends);
}

/// The server would have taken longer.
#[tokio::test(start_paused = true)]
async fn a_first_attempt_that_its_deadline_ends_is_fed_as_cancelled() {
    let feed = Arc::new(Feed::default());
    let policy = HedgePolicy::with_delay(2, feed.clone()).hedge_non_idempotent();
    let silent = probe([attempt(1).hangs(), attempt(2).hangs()]);
    let each = AttemptDeadlineLayer::new(ms(20)).layer(silent.inner());
    let layer = HedgeLayer::new(verdict as Verdicts, policy);
    let outcome = layer.layer(each).oneshot(silent.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Elapsed);
    let ends = [(1, 20, Dropped), (2, 20, Failed)];
    assert_eq!(feed.0.lock().unwrap()[..], ends);
}

#[tokio::test(start_paused = true)]
async fn attempts_that_were_sent_are_fed_once_when_they_are_dropped() {
    let silent = probe([attempt(1).hangs(), attempt(2).hangs(), attempt(3).hangs()]);
    let ends = [(1, 200, Dropped), (2, 190, Dropped), (3, 180, Dropped)];
    assert_eq!(fed(silent.request(), &silent).await, ends);
    let unsent = |number| attempt(number).reaches(Stage::Dispatch).hangs();
    let waits = probe([unsent(1), unsent(2), attempt(3).hangs()]);
    assert_eq!(fed(waits.request(), &waits).await, [(3, 180, Dropped)]);
    let lost = probe([unsent(1), attempt(2)]);
    assert_eq!(fed(lost.request(), &lost).await, [(2, 0, Succeeded)]);
    let alone = probe([attempt(1).after(ms(100)), attempt(2).hangs()]);
    let mut request = Scarce::new(&alone, 2);
    request.stalled = &[2];
    let ends = [(1, 100, Succeeded), (2, 0, Dropped)];
    assert_eq!(fed(request, &alone).await, ends, "the second was cut off");
}

/// No hedge was due.
#[tokio::test(start_paused = true)]
async fn a_first_attempt_that_is_dropped_alone_is_fed_once() {
    let unsent = attempt(1).reaches(Stage::Dispatch).hangs();
    for (silent, fed) in [
        (attempt(1).hangs(), vec![(1, 6, Dropped)]),
        (unsent, Vec::new()),
    ] {
        let (feed, silent) = (Arc::new(Feed::default()), probe([silent]));
        let policy = HedgePolicy::with_delay(3, feed.clone()).hedge_non_idempotent();
        let layer = HedgeLayer::new(verdict as Verdicts, policy);
        let call = layer.layer(silent.inner()).oneshot(silent.request());
        assert!(tokio::time::timeout(ms(6), call).await.is_err());
        assert_eq!(feed.0.lock().unwrap()[..], fed);
    }
}

/// Keeps what it was asked for: route and backend, attempts so far, and the time.
#[derive(Debug, Default)]
struct Asked(Mutex<Vec<(String, u32, Duration)>>);

impl HedgeDelay for Asked {
    fn delay(&self, view: &HedgeView<'_>) -> Option<Duration> {
        let backend = view.backend();
        let at = backend.as_ref().map_or("none", |backend| backend.as_str());
        let seen = format!("{} at {at}", view.route());
        self.0
            .lock()
            .unwrap()
            .push((seen, view.attempts, view.elapsed));
        Some(ms(10))
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_sees_route_and_backend_of_its_call() {
    let (asked, late) = (
        Arc::new(Asked::default()),
        probe([attempt(1).hangs(), attempt(2)]),
    );
    let policy = HedgePolicy::with_delay(3, asked.clone());
    let layer = HedgeLayer::new(verdict as Verdicts, policy);
    let mut request = late.request();
    request
        .context_mut()
        .set_idempotency(Idempotency::Idempotent);
    let route = RoutePolicy::new("orders");
    request.context_mut().set_policy(Arc::new(route));
    let replica = BackendLayer::new("replica").layer(late.inner());
    let _ = layer.layer(replica).oneshot(request).await;
    let seen = asked.0.lock().unwrap();
    let orders = || "orders at replica".to_owned();
    assert_eq!(
        seen[..],
        [(orders(), 1, Duration::ZERO), (orders(), 2, ms(10))]
    );
}
