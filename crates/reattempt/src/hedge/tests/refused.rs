//! Hedges that are refused while others are in flight: the decision is visible, also if the call
//! then succeeds (law 8).

use crate::policy::{HedgeAdmission, HedgeDelay, HedgeView};
use crate::{Failure, Stage};

use super::gates::Diary;
use super::*;

/// The events and the info of a call that succeeds although its hedges were refused.
async fn held_back<R>(probe: &Probe, mut request: R) -> (Vec<String>, RetryInfo)
where
    R: HasCallContext + Replay,
{
    let watch = RetryInfo::track(&mut request);
    let diary = Arc::new(Diary::default());
    let layer = three().observer(diary.clone());
    let outcome = layer.layer(probe.inner()).oneshot(request).await;
    assert_eq!(call_result(&outcome), CallResult::Answer(1));
    (diary.lines(), watch.info())
}

fn refusals(info: &RetryInfo) -> Vec<(StopReason, u32)> {
    let by = info.refusals();
    by.map(|stopped| (stopped, info.refused(stopped))).collect()
}

/// R46
#[tokio::test(start_paused = true)]
async fn the_info_shows_that_the_throttle_refused_hedges() {
    let bucket = Arc::new(TokenBucket::new(2, 1000).unwrap());
    let failure = Failure::new(KV_LOCKED, Stage::Response);
    bucket.settled(crate::policy::throttle::Settled::Failure(&failure));
    let probe = probe([attempt(1).after(ms(100))]);
    let mut request = probe.request();
    request.context_mut().set_throttle(bucket);
    let (said, info) = held_back(&probe, request).await;
    let refused = "refused: throttled";
    assert_eq!(said, ["sent 1", refused, refused, "ended: success"]);
    assert_eq!(refusals(&info), [(StopReason::Throttled, 2)]);
    assert_eq!(
        info.stopped(),
        Some(StopReason::Success),
        "the call succeeded"
    );
}

/// R51
#[tokio::test(start_paused = true)]
async fn a_request_that_can_no_longer_be_copied_is_reported_once() {
    for copies in [0, 1] {
        let probe = probe([attempt(1).after(ms(100))]);
        let request = Scarce::new(&probe, copies);
        let (said, info) = held_back(&probe, request).await;
        assert_eq!(
            said,
            ["sent 1", "refused: not_replayable", "ended: success"]
        );
        assert_eq!(
            refusals(&info),
            [(StopReason::NotReplayable, 1)],
            "{copies}"
        );
    }
}

/// What it admits counts as sent, and would be missing for calls that can be hedged.
#[tokio::test(start_paused = true)]
async fn a_delay_is_not_asked_for_a_request_without_copies() {
    #[derive(Debug, Default)]
    struct Asked(AtomicU32);

    impl HedgeDelay for Asked {
        fn delay(&self, _: &HedgeView<'_>) -> Option<Duration> {
            Some(ms(10))
        }

        fn admit(&self, _: &HedgeView<'_>) -> HedgeAdmission {
            self.0.fetch_add(1, Ordering::Relaxed);
            HedgeAdmission::Send
        }
    }

    for (copies, admitted) in [(0, 0), (1, 0), (2, 1)] {
        let asked = Arc::new(Asked::default());
        let policy = HedgePolicy::with_delay(3, asked.clone()).hedge_non_idempotent();
        let probe = probe([attempt(1).after(ms(100)), attempt(2).hangs()]);
        let layer = HedgeLayer::new(verdict as Verdicts, policy);
        let service = layer.layer(probe.inner());
        let outcome = service.oneshot(Scarce::new(&probe, copies)).await;
        assert_eq!(call_result(&outcome), CallResult::Answer(1));
        assert_eq!(asked.0.load(Ordering::Relaxed), admitted, "{copies}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_service_is_reported_for_its_hedge() {
    let steps = [attempt(1).after(ms(50)), attempt(2).hangs()];
    let probe = probe(steps).ready([readiness(2).breaks()]);
    let request = probe.request();
    let (said, info) = held_back(&probe, request).await;
    assert_eq!(said[..3], ["sent 1", "refused: fatal", "sent 2"]);
    assert_eq!(refusals(&info), [(StopReason::Fatal, 1)]);
}

/// R48
#[tokio::test(start_paused = true)]
async fn a_hedge_due_after_an_unenforced_limit_is_reported() {
    let probe = probe([attempt(1).after(ms(50))]);
    let mut request = probe.request();
    let at = clock::now() + ms(5);
    request
        .context_mut()
        .attach_deadline(CallDeadline::attached(at));
    let (said, info) = held_back(&probe, request).await;
    assert_eq!(said, ["sent 1", "refused: deadline", "ended: success"]);
    assert_eq!(refusals(&info), [(StopReason::Deadline, 1)]);
}

/// R45
#[tokio::test(start_paused = true)]
async fn a_stop_is_reported_for_the_hedge_being_prepared() {
    let steps = [
        attempt(1).after(ms(100)),
        attempt(2)
            .fails(KV_LOCKED)
            .pushback(ServerPushback::Stop)
            .after(ms(15)),
    ];
    let probe = probe(steps).ready([readiness(3).after(ms(20))]);
    let request = probe.request();
    let (said, info) = held_back(&probe, request).await;
    assert_eq!(said[2..4], ["failed 2", "refused: pushback"]);
    assert_eq!(refusals(&info), [(StopReason::Pushback, 1)]);
}

/// R45, R51 ("pending hedged requests should be canceled immediately"): a busy service does not
/// delay the failure.
#[tokio::test(start_paused = true)]
async fn a_hedge_that_cannot_be_sent_any_more_is_not_made_ready() {
    for busy in [readiness(2).after(ms(9_000)), readiness(2).never()] {
        let step = attempt(1)
            .fails(KV_LOCKED)
            .pushback(ServerPushback::Stop)
            .after(ms(15));
        let probe = probe([step]).ready([busy]);
        let began = clock::now();
        let (outcome, info) = send(&three(), &probe).await;
        assert_eq!(outcome, CallResult::Error(1));
        assert_eq!(clock::now() - began, ms(15));
        assert_eq!(refusals(&info), [(StopReason::Pushback, 1)]);
        assert_eq!(info.stopped(), Some(StopReason::Pushback));
    }
}

/// R26, R46: a refusal that ends the call is counted as one too.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_leaves_nothing_is_counted_and_ends_the_call() {
    let bucket = Arc::new(TokenBucket::new(2, 1000).unwrap());
    let probe = probe([attempt(1).fails(KV_LOCKED)]);
    let mut request = probe.request();
    request.context_mut().set_throttle(bucket);
    let diary = Arc::new(Diary::default());
    let layer = three().observer(diary.clone());
    let (_, info) = send_request(&layer, &probe, request).await;
    let said = [
        "sent 1",
        "failed 1",
        "refused: throttled",
        "ended: throttled",
    ];
    assert_eq!(diary.lines(), said);
    assert_eq!(refusals(&info), [(StopReason::Throttled, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_call_with_all_hedges_sent_reports_no_refusal() {
    let probe = probe((1..=3).map(|n| attempt(n).after(ms(50))));
    let (_, info) = held_back(&probe, probe.request()).await;
    assert_eq!(refusals(&info), []);
}
