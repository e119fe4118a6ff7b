//! When attempts are sent, and what happens to winner and losers.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_answer_in_time_is_all_there_is() {
    let probe = probe([attempt(1).after(ms(9))]);
    let (call_result, info) = send(&three(), &probe).await;
    assert_eq!(call_result, CallResult::Answer(1));
    assert_eq!((info.attempts(), info.records().len()), (1, 0));
    assert_eq!(info.stopped(), Some(StopReason::Success));
}

#[test]
fn an_answer_that_is_there_arms_no_timer() {
    // Without a runtime, any timer would panic.
    let probe = probe([attempt(1)]);
    let call = three().layer(probe.inner()).oneshot(probe.request());
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(call).poll(&mut context).is_ready());
}

/// R41
#[tokio::test(start_paused = true)]
async fn losers_are_dropped_at_once() {
    let probe = probe([
        attempt(1).hangs(),
        attempt(2).after(ms(15)),
        attempt(3).hangs(),
    ]);
    let (call_result, info) = send(&three(), &probe).await;
    assert_eq!(call_result, CallResult::Answer(2));
    assert_eq!(probe.log().now(), 25);
    assert_eq!(probe.log().future_dropped(1), Some((25, false)));
    assert_eq!(probe.log().future_dropped(3), Some((25, false)));
    let of = |outcome| {
        let of = info.records().filter(|r| r.outcome == outcome);
        of.map(|r| r.number).collect::<Vec<_>>()
    };
    assert_eq!(of(AttemptOutcome::Success), [2]);
    assert_eq!(of(AttemptOutcome::Cancelled), [1, 3]);
    assert_eq!(info.stopped(), Some(StopReason::Success));
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_is_not_ready_never_holds_up_the_others() {
    let steps = [attempt(1).after(ms(100)), attempt(2).after(ms(5))];
    let probe = probe(steps).ready([readiness(2).never()]);
    let (call_result, _) = send(&three(), &probe).await;
    assert_eq!(call_result, CallResult::Answer(2));
    assert_eq!(probe.log().now(), 25);
    // The third was ready before the second.
    assert_eq!(probe.log().times(), [0, 20]);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_whose_service_broke_leaves_the_others_alone() {
    let steps = [attempt(1).after(ms(100)), attempt(2).after(ms(5))];
    let probe = probe(steps).ready([readiness(2).breaks()]);
    let (call_result, info) = send(&three(), &probe).await;
    assert_eq!(call_result, CallResult::Answer(2));
    assert_eq!(probe.log().now(), 25);
    assert_eq!(probe.log().times(), [0, 20], "only that hedge is used up");
    assert_eq!(info.stopped(), Some(StopReason::Success));
}

/// The observed events of a call, in order.
#[derive(Debug, Default)]
struct Order(std::sync::Mutex<Vec<String>>);

impl Observer for Order {
    fn attempt_settled(&self, _: &CallContext, record: &AttemptRecord) {
        let said = format!("{} {}", record.number, record.outcome.name());
        self.0.lock().unwrap().push(said);
    }

    fn call_ended(&self, _: &CallContext, _: &RetryInfo) {
        self.0.lock().unwrap().push("end".to_owned());
    }
}

/// Law 8: a winning first attempt leaves its record with the losers' too, and the end is reported
/// last.
#[tokio::test(start_paused = true)]
async fn a_first_attempt_that_wins_is_recorded_after_the_losers() {
    let probe = probe([attempt(1).after(ms(15)), attempt(2).hangs()]);
    let order = std::sync::Arc::new(Order::default());
    let (call_result, info) = send(&three().observer(order.clone()), &probe).await;
    assert_eq!(call_result, CallResult::Answer(1));
    let said = order.0.lock().unwrap().clone();
    assert_eq!(said, ["2 cancelled", "1 success", "end"]);
    let outcomes: Vec<_> = info.records().map(|r| (r.number, r.outcome)).collect();
    use AttemptOutcome::{Cancelled, Success};
    assert_eq!(outcomes, [(2, Cancelled), (1, Success)]);
}

/// R42 and law 8: the end is reported after the records of attempts that a fatal failure drops.
#[tokio::test(start_paused = true)]
async fn a_fatal_failure_reports_the_end_after_the_losers() {
    let fatal = attempt(2).fails_fatally(KV_LOCKED).after(ms(15));
    let probe = probe([attempt(1).hangs(), fatal, attempt(3).hangs()]);
    let order = std::sync::Arc::new(Order::default());
    let (call_result, info) = send(&three().observer(order.clone()), &probe).await;
    assert_eq!(call_result, CallResult::Error(2));
    let said = order.0.lock().unwrap().clone();
    assert_eq!(said, ["2 fatal", "1 cancelled", "3 cancelled", "end"]);
    assert_eq!(info.stopped(), Some(StopReason::Fatal));
}

/// R47, R45 and law 8: also if the call ends with the last of several failures or with a stop.
#[tokio::test(start_paused = true)]
async fn the_last_failure_is_recorded_before_the_end_is_reported() {
    let all_fail = vec![
        attempt(1).fails(KV_LOCKED).after(ms(15)),
        attempt(2).fails(KV_LOCKED).after(ms(15)),
        attempt(3).fails(KV_LOCKED).after(ms(1)),
    ];
    let stop = vec![
        attempt(1).fails(KV_LOCKED).after(ms(15)),
        attempt(2)
            .fails(KV_LOCKED)
            .pushback(ServerPushback::Stop)
            .after(ms(1)),
    ];
    let in_turn = &["1 failed", "3 failed", "2 failed", "end"][..];
    let stopped_first = &["2 failed", "1 failed", "end"];
    for (steps, expected, stopped) in [
        (all_fail, in_turn, StopReason::Attempts),
        (stop, stopped_first, StopReason::Pushback),
    ] {
        let probe = probe(steps);
        let order = std::sync::Arc::new(Order::default());
        let (_, info) = send(&three().observer(order.clone()), &probe).await;
        assert_eq!(*order.0.lock().unwrap(), expected);
        assert_eq!(info.stopped(), Some(stopped));
    }
}

/// Failures that can no longer be returned are not kept until the deadline.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_left_to_the_deadline_holds_one_failure() {
    let late = ServerPushback::After(ms(5000));
    let first = attempt(1).fails(KV_LOCKED).after(ms(14));
    let others = (2..=6).map(|n| attempt(n).fails(KV_LOCKED).after(ms(10)).pushback(late));
    let probe = probe(std::iter::once(first).chain(others));
    let policy = HedgePolicy::new(4, ms(10)).hedge_non_idempotent();
    let hedges = HedgeLayer::new(verdict as Verdicts, policy).layer(probe.inner());
    let service = crate::DeadlineLayer::new(ms(1000)).layer(hedges);
    let outcome = service.oneshot(probe.request()).await;
    assert_eq!(call_result(&outcome), CallResult::Elapsed);
    let attempts = u32::try_from(probe.log().times().len()).unwrap();
    let dropped = (1..=attempts).map(|n| probe.log().outcome_dropped(n).unwrap());
    let (held, earlier): (Vec<_>, Vec<_>) = dropped.partition(|at| *at == 1000);
    assert_eq!(held.len(), 1);
    assert!(earlier.iter().all(|at| *at < 30), "{earlier:?}");
}

/// A call whose deadline is enforced, it says, by a layer that polls it no more.
#[tokio::test(start_paused = true)]
async fn a_call_past_its_deadline_ends_without_a_layer_above() {
    let late = ServerPushback::After(ms(5000));
    for first in [attempt(1), attempt(1).after(ms(4))] {
        let probe = probe([first.fails(KV_LOCKED).pushback(late)]);
        let mut request = probe.request();
        let at = crate::clock::now() + ms(1000);
        let context = request.context_mut();
        context.attach_deadline(crate::CallDeadline::enforced(at));
        let watch = RetryInfo::track(&mut request);
        let outcome = three().layer(probe.inner()).oneshot(request).await;
        assert_eq!(
            (call_result(&outcome), probe.log().now()),
            (CallResult::Error(1), 2000)
        );
        assert_eq!(watch.info().stopped(), Some(StopReason::Deadline));
    }
}

/// R1 R40
#[tokio::test(start_paused = true)]
async fn nothing_is_cloned_where_no_hedge_is_possible() {
    let probe = probe([attempt(1).fails(KV_LOCKED)]);
    let once = HedgePolicy::new(1, ms(10)).hedge_non_idempotent();
    let layer = HedgeLayer::new(NeverForces, once);
    assert_eq!(send(&layer, &probe).await.0, CallResult::Error(1));
    assert_eq!(
        (probe.log().request_clones(), probe.log().service_clones()),
        (0, 0)
    );
}

/// R48
#[tokio::test(start_paused = true)]
async fn a_cancelled_call_drops_and_records_all_attempts() {
    let probe = probe((1..=2).map(|n| attempt(n).hangs()));
    let mut request = probe.request();
    let watch = RetryInfo::track(&mut request);
    let call = three().layer(probe.inner()).oneshot(request);
    assert!(tokio::time::timeout(ms(15), call).await.is_err());
    assert_eq!(probe.log().future_dropped(1), Some((15, false)));
    assert_eq!(probe.log().future_dropped(2), Some((15, false)));
    let info = watch.info();
    assert_eq!(info.stopped(), Some(StopReason::Cancelled));
    let outcomes = info.records().map(|record| record.outcome);
    assert!(outcomes.eq([AttemptOutcome::Cancelled; 2]));
}
