//! How failures of single attempts affect the call.

use super::*;

/// R42
#[tokio::test(start_paused = true)]
async fn a_fatal_failure_ends_the_call_and_drops_the_others() {
    let probe = probe([
        attempt(1).hangs(),
        attempt(2).fails_fatally(KV_LOCKED).after(ms(2)),
    ]);
    let (call_result, info) = send(&three(), &probe).await;
    assert_eq!((call_result, probe.log().now()), (CallResult::Error(2), 12));
    assert_eq!(probe.log().future_dropped(1), Some((12, false)));
    assert_eq!(info.stopped(), Some(StopReason::Fatal));
}

/// Law 7
#[tokio::test(start_paused = true)]
async fn a_hedges_failure_does_not_end_the_call_if_others_can_succeed() {
    let failing = (2..=3).map(|n| attempt(n).fails(KV_LOCKED));
    let probe = probe([attempt(1).after(ms(100))].into_iter().chain(failing));
    assert_eq!(send(&three(), &probe).await.0, CallResult::Answer(1));
}

/// Law 7
#[tokio::test(start_paused = true)]
async fn a_hedge_that_was_never_sent_drops_no_other_attempt() {
    let unsent = Verdict::Fatal(Failure::new(KV_LOCKED, Stage::Dispatch));
    let probe = probe([
        attempt(1).after(ms(100)),
        attempt(2).comes_to(unsent).after(ms(2)),
    ]);
    let (call_result, info) = send(&three(), &probe).await;
    assert_eq!((call_result, info.attempts()), (CallResult::Answer(1), 2));
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
    assert_eq!(send(&three(), &probe).await.0, CallResult::Answer(1));
    let calls = probe.log().calls();
    let sent = calls.iter().map(|call| &call.context);
    let sent: Vec<_> = sent.map(|it| (it.kind(), it.may_lose())).collect();
    let (hedge, replacement) = (AttemptKind::Hedge, AttemptKind::Transparent);
    assert_eq!(sent[1..3], [(hedge, true), (replacement, false)]);
}

#[tokio::test(start_paused = true)]
async fn the_failure_that_is_kept_is_the_last_one_only() {
    let failing = (1..=2).map(|n| attempt(n).fails(KV_LOCKED).as_answer());
    let probe = probe(failing.chain([attempt(3).after(ms(30))]));
    assert_eq!(send(&three(), &probe).await.0, CallResult::Answer(3));
    assert_eq!(probe.log().outcome_dropped(1), Some(0));
}
