//! Attempts that their own request cuts off because another one continues alone (R51).

use super::*;

/// Ten tokens; a failure takes one, a success adds too little to be visible.
async fn send_cut_off(
    probe: &Probe,
    copies: u32,
    cut_off: &'static [u32],
) -> (CallResult, RetryInfo, u64) {
    let bucket = Arc::new(TokenBucket::new(10, 1).unwrap());
    let mut request = Scarce::new(probe, copies);
    request.cut_off = cut_off;
    request.context_mut().set_throttle(bucket.clone());
    let watch = RetryInfo::track(&mut request);
    let outcome = three().layer(probe.inner()).oneshot(request).await;
    (
        call_result(&outcome),
        watch.info(),
        bucket.milli_tokens().unwrap(),
    )
}

fn outcomes(info: &RetryInfo) -> Vec<(u32, AttemptOutcome)> {
    info.records().map(|r| (r.number, r.outcome)).collect()
}

/// R21, R51: whatever verdict the classifier returns for the error.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_cut_off_is_a_loser_and_counts_as_neither() {
    for cut_off in [
        attempt(2).fails(KV_LOCKED),
        attempt(2).fails_fatally(KV_LOCKED),
        attempt(2).fails(KV_LOCKED).transparently(Transparent::Once),
        attempt(2).fails(KV_NOT_MY_VBUCKET),
    ] {
        let probe = probe([attempt(1).after(ms(100)), cut_off.after(ms(2))]);
        let (call_result, info, tokens) = send_cut_off(&probe, 9, &[2]).await;
        assert_eq!((call_result, tokens), (CallResult::Answer(1), 10_000));
        assert_eq!(probe.log().times(), [0, 10], "none follows it");
        use AttemptOutcome::{Cancelled, Success};
        assert_eq!(outcomes(&info), [(2, Cancelled), (1, Success)]);
        let record = info.records().next().unwrap();
        assert_eq!(record.stopped, Some(StopReason::NotReplayable));
        assert_eq!(info.reasons().count(), 0, "no reason to retry");
    }
}

/// Law 6: the caller gets the server's own failure, whichever of the two arrived last.
#[tokio::test(start_paused = true)]
async fn the_failure_of_the_attempt_that_went_on_is_the_calls() {
    for (one, two) in [(30, 5), (15, 20)] {
        let steps = [
            attempt(1).fails(KV_LOCKED).after(ms(one)),
            attempt(2).fails(KV_TEMPORARY_FAILURE).after(ms(two)),
        ];
        let probe = probe(steps);
        let (call_result, info, tokens) = send_cut_off(&probe, 2, &[2]).await;
        assert_eq!((call_result, tokens), (CallResult::Error(1), 9_000));
        assert_eq!(info.stopped(), Some(StopReason::NotReplayable));
        assert_eq!(info.attempts(), 2);
    }
}

/// A hedge that was being prepared meanwhile changes nothing.
#[tokio::test(start_paused = true)]
async fn a_call_whose_attempts_are_all_cut_off_returns_one_of_them() {
    let probe = probe([attempt(1).fails(KV_LOCKED).after(ms(15))]);
    let probe = probe.ready([readiness(2).after(ms(20))]);
    let (call_result, info, tokens) = send_cut_off(&probe, 9, &[1]).await;
    assert_eq!(
        (call_result, tokens, probe.log().now()),
        (CallResult::Error(1), 10_000, 15)
    );
    assert_eq!(info.stopped(), Some(StopReason::NotReplayable));
    assert_eq!(info.refused(StopReason::NotReplayable), 1);
}

/// A server's response counts, also if the request was cut off at the same time.
#[tokio::test(start_paused = true)]
async fn an_answer_is_never_taken_for_a_cut() {
    let answer = attempt(2).fails(KV_LOCKED).as_answer().after(ms(2));
    let probe = probe([attempt(1).after(ms(100)), answer]);
    let (call_result, info, tokens) = send_cut_off(&probe, 2, &[2]).await;
    // The success adds one thousandth.
    assert_eq!((call_result, tokens), (CallResult::Answer(1), 9_001));
    use AttemptOutcome::{Retry, Success};
    assert_eq!(outcomes(&info), [(2, Retry), (1, Success)]);
}

/// R51, Memory Management: a loser that would wait forever (for its server to read on) is cancelled
/// at once, and the call ends with the remaining attempt.
#[tokio::test(start_paused = true)]
async fn a_loser_that_stays_pending_is_cancelled_at_once() {
    let failing = attempt(1).fails(KV_LOCKED).after(ms(100));
    let probe = probe([failing, attempt(2).after(ms(60_000))]);
    let bucket = Arc::new(TokenBucket::new(10, 1).unwrap());
    // Exactly two copies: nothing is sent after a request that exceeds its buffer.
    let mut request = Scarce::new(&probe, 2);
    request.stalled = &[2];
    request.context_mut().set_throttle(bucket.clone());
    let watch = RetryInfo::track(&mut request);
    let outcome = three().layer(probe.inner()).oneshot(request).await;
    assert_eq!(
        (call_result(&outcome), probe.log().now()),
        (CallResult::Error(1), 100)
    );
    assert_eq!(bucket.milli_tokens(), Some(9_000));
    use AttemptOutcome::{Cancelled, Retry};
    assert_eq!(outcomes(&watch.info()), [(2, Cancelled), (1, Retry)]);
}
