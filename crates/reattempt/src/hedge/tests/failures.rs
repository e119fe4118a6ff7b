//! How failures of single attempts affect the call.

use super::*;

/// R43
#[tokio::test(start_paused = true)]
async fn a_non_fatal_failure_sends_the_next_hedge_at_once() {
    let steps = [
        attempt(1).fails(KV_LOCKED).after(ms(3)),
        attempt(2).after(ms(50)),
        attempt(3).after(ms(50)),
    ];
    let probe = probe(steps);
    assert_eq!(send(&three(), &probe).await.0, Told::Answer(2));
    assert_eq!(probe.log().times(), [0, 3, 13]);
}

/// R43
#[tokio::test(start_paused = true)]
async fn a_failure_that_is_there_at_once_sends_the_next_at_once_too() {
    let probe = probe([attempt(1).fails(KV_LOCKED), attempt(2)]);
    assert_eq!(send(&three(), &probe).await.0, Told::Answer(2));
    assert_eq!(probe.log().times(), [0, 0]);
}

/// R44
#[tokio::test(start_paused = true)]
async fn pushback_moves_the_next_hedge_exactly() {
    for after in [0, 3] {
        let pushback = ServerPushback::After(ms(40));
        let first = attempt(1).fails(KV_LOCKED).pushback(pushback);
        let later = (2..=3).map(|n| attempt(n).after(ms(50)));
        let probe = probe([first.after(ms(after))].into_iter().chain(later));
        let (told, info) = send(&three(), &probe).await;
        assert_eq!(told, Told::Answer(2));
        assert_eq!(probe.log().times(), [0, after + 40, after + 50]);
        assert_eq!(info.records().next().unwrap().delay, Some(ms(40)));
    }
}

/// R45
#[tokio::test(start_paused = true)]
async fn a_stop_sends_no_more_and_leaves_attempts_in_flight() {
    let stop = attempt(2).fails(KV_LOCKED).pushback(ServerPushback::Stop);
    let probe = probe([attempt(1).after(ms(100)), stop]);
    assert_eq!(send(&three(), &probe).await.0, Told::Answer(1));
    assert_eq!(probe.log().times(), [0, 10]);
    assert_eq!(probe.log().now(), 100);
}

/// R42
#[tokio::test(start_paused = true)]
async fn a_fatal_failure_ends_the_call_and_drops_the_others() {
    let probe = probe([
        attempt(1).hangs(),
        attempt(2).fails_for_good(KV_LOCKED).after(ms(2)),
    ]);
    let (told, info) = send(&three(), &probe).await;
    assert_eq!((told, probe.log().now()), (Told::Error(2), 12));
    assert_eq!(probe.log().future_dropped(1), Some((12, false)));
    assert_eq!(info.stopped(), Some(StopReason::Fatal));
}

/// R47
#[tokio::test(start_paused = true)]
async fn when_all_failed_the_last_to_arrive_is_returned() {
    let steps = [
        attempt(1).fails(KV_LOCKED).after(ms(45)),
        attempt(2).fails(KV_TEMPORARY_FAILURE).after(ms(60)),
        attempt(3).fails(KV_LOCKED).after(ms(11)),
    ];
    let probe = probe(steps);
    let (told, info) = send(&three(), &probe).await;
    assert_eq!((told, probe.log().now()), (Told::Error(2), 70));
    assert_eq!(info.stopped(), Some(StopReason::Attempts));
    assert_eq!(
        (info.count(KV_LOCKED), info.count(KV_TEMPORARY_FAILURE)),
        (2, 1)
    );
}

/// Law 7
#[tokio::test(start_paused = true)]
async fn a_hedges_failure_does_not_end_the_call_if_others_can_succeed() {
    let failing = (2..=3).map(|n| attempt(n).fails(KV_LOCKED));
    let probe = probe([attempt(1).after(ms(100))].into_iter().chain(failing));
    assert_eq!(send(&three(), &probe).await.0, Told::Answer(1));
}

/// A probe of an ejected backend is a hedge: what replaces a failed attempt goes to a healthy one.
#[tokio::test(start_paused = true)]
async fn the_replacement_of_a_failed_hedge_may_not_lose() {
    let probe = probe([
        attempt(1).after(ms(100)),
        attempt(2)
            .fails(KV_LOCKED)
            .transparently(Transparent::Once)
            .after(ms(1)),
        attempt(3).hangs(),
        attempt(4).hangs(),
    ]);
    assert_eq!(send(&three(), &probe).await.0, Told::Answer(1));
    let calls = probe.log().calls();
    let sent = calls.iter().map(|call| &call.context);
    let sent: Vec<_> = sent.map(|it| (it.kind(), it.may_lose())).collect();
    let (hedge, replacement) = (AttemptKind::Hedge, AttemptKind::Transparent);
    assert_eq!(sent[1..3], [(hedge, true), (replacement, false)]);
}

/// R61: uses the next planned hedge, uncounted.
#[tokio::test(start_paused = true)]
async fn a_refused_stream_is_retried_beyond_the_maximum() {
    let refused = attempt(1).fails(KV_LOCKED).transparently(Transparent::Once);
    let failing = (2..=4).map(|n| attempt(n).fails(KV_LOCKED));
    let probe = probe([refused].into_iter().chain(failing));
    let (told, info) = send(&three(), &probe).await;
    assert_eq!(told, Told::Error(4));
    assert_eq!(probe.log().kinds()[1], AttemptKind::Transparent);
    assert_eq!((info.attempts(), info.retries()), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn reasons_that_always_retry_take_a_controlled_back_off() {
    let moved = (1..=4).map(|n| attempt(n).fails(KV_NOT_MY_VBUCKET));
    let probe = probe(moved.chain([attempt(5)]));
    let layer = HedgeLayer::new(
        verdict as Verdicts,
        HedgePolicy::new(1, ms(10)).hedge_non_idempotent(),
    );
    assert_eq!(send(&layer, &probe).await.0, Told::Answer(5));
    assert_eq!(probe.log().times(), [0, 1, 11, 61, 161]);
}

#[tokio::test(start_paused = true)]
async fn the_failure_that_is_kept_is_the_last_one_only() {
    let failing = (1..=2).map(|n| attempt(n).fails(KV_LOCKED).as_answer());
    let probe = probe(failing.chain([attempt(3).after(ms(30))]));
    assert_eq!(send(&three(), &probe).await.0, Told::Answer(3));
    assert_eq!(probe.log().outcome_dropped(1), Some(0));
}
