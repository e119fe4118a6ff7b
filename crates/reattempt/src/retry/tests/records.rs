//! What callers, observers and throttles receive.

use std::sync::Mutex;

use crate::{
    AttemptRecord, Decision, Failure, Observer, RetryStrategy, RetryThrottle, RetryView, Stage,
    TokenBucket,
};

use super::*;

#[tokio::test(start_paused = true)]
async fn each_attempt_leaves_its_reason_delay_and_gate() {
    let first = attempt(1).fails(TMPFAIL).goes_to("a").after(ms(2));
    let probe = probe([
        first,
        attempt(2).fails_fatally(TMPFAIL).code(7).goes_to("b"),
    ]);
    let (_, info) = send(&retry(three()), &probe).await;
    let records: Vec<_> = info.records().cloned().collect();
    let [first, second] = &*records else {
        panic!("two records, not {records:?}")
    };
    assert_eq!((first.number, first.outcome), (1, AttemptOutcome::Retry));
    assert_eq!((first.delay, first.stopped), (Some(ms(10)), None));
    assert_eq!(first.backend.as_ref().map(|b| b.as_str()), Some("a"));
    assert_eq!((second.number, second.kind), (2, AttemptKind::Retry));
    assert_eq!(second.failure.and_then(|f| f.code), Some(7));
    assert_eq!(
        (second.delay, second.stopped),
        (None, Some(StopReason::Fatal))
    );
    let tried = probe.log().calls()[1].context.backends_tried();
    assert_eq!(
        tried.iter().map(|b| b.as_str()).collect::<Vec<_>>(),
        ["a", "b"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_success_after_a_failure_is_recorded() {
    let probe = probe([attempt(1).fails(TMPFAIL), attempt(2)]);
    let (_, info) = send(&retry(three()), &probe).await;
    let last = info.records().last().cloned().unwrap();
    assert_eq!((last.number, last.outcome), (2, AttemptOutcome::Success));
    assert_eq!(info.stopped(), Some(StopReason::Success));
}

/// Starts a call, lets it run until `at`, and drops it.
async fn cancelled_at(at: u64, layer: RetryLayer<Verdicts>, probe: &Probe) -> RetryInfo {
    let mut request = probe.request();
    let watch = RetryInfo::track(&mut request);
    let call = layer.layer(probe.inner()).oneshot(request);
    let outcome = tokio::time::timeout(ms(at), call).await;
    assert!(outcome.is_err(), "the call was not cancelled");
    watch.info()
}

/// E4
#[tokio::test(start_paused = true)]
async fn a_call_cancelled_in_flight_is_recorded() {
    let probe = probe([attempt(1).fails(TMPFAIL), attempt(2).hangs()]);
    let info = cancelled_at(15, retry(three()), &probe).await;
    assert_eq!(probe.log().future_dropped(2), Some((15, false)));
    let last = info.records().last().cloned().unwrap();
    assert_eq!((last.number, last.outcome), (2, AttemptOutcome::Cancelled));
    assert_eq!(last.stopped, Some(StopReason::Cancelled));
    assert_eq!(info.stopped(), Some(StopReason::Cancelled));
}

/// R15
#[tokio::test(start_paused = true)]
async fn a_call_cancelled_between_attempts_sends_no_more() {
    let probe = probe([attempt(1).fails(TMPFAIL)]);
    let info = cancelled_at(5, retry(three()), &probe).await;
    assert_eq!(info.stopped(), Some(StopReason::Cancelled));
    assert_eq!((info.attempts(), info.count(TMPFAIL)), (1, 1));
}

#[derive(Debug)]
struct NeverDecides;

impl RetryStrategy for NeverDecides {
    fn decide(&self, _: &RetryView<'_>) -> Decision {
        Decision::Defer(Box::pin(std::future::pending()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_cancelled_during_a_deferred_decision_has_its_record() {
    let probe = probe([attempt(1).fails(TMPFAIL)]);
    let info = cancelled_at(5, retry(NeverDecides), &probe).await;
    assert_eq!(info.count(TMPFAIL), 1);
    let record = info.records().last().cloned().unwrap();
    assert_eq!(record.outcome, AttemptOutcome::Retry);
    assert_eq!(record.stopped, Some(StopReason::Cancelled));
}

/// The events that an observer received, in order.
#[derive(Debug, Default)]
struct Diary(Mutex<Vec<String>>);

impl Diary {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Diary {
    fn sees_success(&self) -> bool {
        false
    }

    fn first_succeeded(&self, _: &CallContext, _: bool) {
        self.0.lock().unwrap().push("first succeeded".to_owned());
    }

    fn attempt_sent(&self, context: &CallContext) {
        self.0
            .lock()
            .unwrap()
            .push(format!("sent {}", context.attempt()));
    }

    fn attempt_settled(&self, _: &CallContext, record: &AttemptRecord) {
        let line = format!("{} {}", record.outcome.name(), record.number);
        self.0.lock().unwrap().push(line);
    }

    fn call_ended(&self, _: &CallContext, info: &RetryInfo) {
        let stopped = info.stopped().map_or("?", StopReason::name);
        self.0.lock().unwrap().push(format!("ended: {stopped}"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_receives_every_step() {
    let diary = Arc::new(Diary::default());
    let layer = retry(three()).observer(diary.clone());
    send(&layer, &probe([attempt(1).fails(TMPFAIL), attempt(2)])).await;
    assert_eq!(
        diary.lines(),
        [
            "sent 1",
            "failed 1",
            "sent 2",
            "success 2",
            "ended: success"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_wants_no_successes_gets_none() {
    /// Wants everything.
    #[derive(Debug)]
    struct Other;
    impl Observer for Other {}
    for (limited, beside) in [(false, false), (true, false), (false, true)] {
        for after in [0, 5] {
            let diary = Arc::new(Diary::default());
            let mut layer = retry(three()).observer(diary.clone());
            if beside {
                layer = layer.observer(Arc::new(Other));
            }
            let probe = probe([attempt(1).after(ms(after))]);
            let mut request = probe.request();
            if limited {
                let policy = crate::RoutePolicy::new("limited").with_attempt_timeout(ms(50));
                request.context_mut().set_policy(Arc::new(policy));
            }
            send_request(&layer, &probe, request).await;
            assert_eq!(diary.lines(), ["sent 1"], "{limited} {beside} {after}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_receives_the_end_of_a_cancelled_call() {
    let diary = Arc::new(Diary::default());
    let layer = retry(three()).observer(diary.clone());
    let probe = probe([attempt(1).hangs()]);
    cancelled_at(5, layer, &probe).await;
    assert_eq!(diary.lines(), ["sent 1", "cancelled 1", "ended: cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_receives_a_readiness_error() {
    let diary = Arc::new(Diary::default());
    let layer = retry(three()).observer(diary.clone());
    let probe = probe([attempt(1).fails(TMPFAIL)]).ready([readiness(2).breaks()]);
    send(&layer, &probe).await;
    assert_eq!(diary.lines(), ["sent 1", "failed 1", "ended: fatal"]);
}

/// Sends a call whose response head commits it, and concludes it twice with a failure.
async fn commit(bucket: &Arc<TokenBucket>) -> RetryInfo {
    let probe = probe([attempt(1).commits()]);
    let mut request = probe.request();
    request.context_mut().set_throttle(bucket.clone());
    let (call_result, info) = send_request(&retry(three()), &probe, request).await;
    assert_eq!(call_result, CallResult::Answer(1));
    assert_eq!(milli_tokens(bucket), 10_000, "nothing is counted yet");
    let reporter = probe.log().calls()[0].context.reporter();
    let failure = Failure::new(TMPFAIL, Stage::Response);
    reporter.finish(&Verdict::Retry(failure));
    reporter.clone().finish(&Verdict::Success);
    reporter.finish(&Verdict::Retry(failure));
    assert_eq!(info.records().len(), 0, "the head alone leaves none");
    probe.log().calls()[0].context.info()
}

fn milli_tokens(bucket: &TokenBucket) -> u64 {
    bucket.milli_tokens().unwrap_or_default()
}

/// R10 R23
#[tokio::test(start_paused = true)]
async fn a_committed_answer_is_counted_once_when_it_ends() {
    let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
    let info = commit(&bucket).await;
    assert_eq!(info.stopped(), Some(StopReason::Committed));
    assert_eq!(milli_tokens(&bucket), 9000);
    assert_eq!(info.count(TMPFAIL), 1, "its end is part of the history");
    let call_result: Vec<_> = info
        .records()
        .map(|r| (r.number, r.outcome, r.failure))
        .collect();
    let failure = Failure::new(TMPFAIL, Stage::Response);
    assert_eq!(call_result, [(1, AttemptOutcome::Committed, Some(failure))]);
}

/// R23
#[tokio::test(start_paused = true)]
async fn a_success_is_counted_at_once_and_cannot_be_concluded_again() {
    let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
    bucket.settled(crate::policy::throttle::Settled::Failure(&Failure::new(
        TMPFAIL,
        Stage::Response,
    )));
    let probe = probe([attempt(1)]);
    let mut request = probe.request();
    request.context_mut().set_throttle(bucket.clone());
    send_request(&retry(three()), &probe, request).await;
    assert_eq!(milli_tokens(&bucket), 9100);
    probe.log().calls()[0]
        .context
        .reporter()
        .finish(&Verdict::Success);
    assert_eq!(milli_tokens(&bucket), 9100);
}
