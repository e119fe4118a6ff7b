//! Throttle, limits and policies that refuse a hedge.

use std::sync::Mutex;

use crate::AttemptRecord;
use crate::policy::strategy::RetryOnce;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_routes_policy_beats_the_layers() {
    let probe = probe((1..=2).map(|n| attempt(n).after(ms(50))));
    let mut request = probe.request();
    let policy = RoutePolicy::new("p").hedge(HedgePolicy::new(2, ms(7)).hedge_non_idempotent());
    request.context_mut().set_policy(Arc::new(policy));
    assert_eq!(
        send_request(&three(), &probe, request).await.0,
        CallResult::Answer(1)
    );
    assert_eq!(probe.log().times(), [0, 7]);
}

/// R23
#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_hedged_is_counted_all_the_same() {
    let policies = [
        RoutePolicy::new("none").no_recovery(),
        RoutePolicy::new("retries").retry(RetryOnce),
    ];
    for policy in policies {
        let bucket = Arc::new(TokenBucket::new(10, 100).unwrap());
        let probe = probe([attempt(1).fails(KV_LOCKED).after(ms(30))]);
        let mut request = probe.request();
        let context = request.context_mut();
        context
            .set_policy(Arc::new(policy))
            .set_throttle(bucket.clone());
        assert_eq!(
            send_request(&three(), &probe, request).await.0,
            CallResult::Error(1)
        );
        assert_eq!(bucket.milli_tokens(), Some(9000));
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_asks_for_retries_is_not_hedged() {
    let probe = probe([attempt(1).after(ms(50))]);
    let mut request = probe.request();
    request.context_mut().set_strategy(Arc::new(RetryOnce));
    assert_eq!(
        send_request(&three(), &probe, request).await.0,
        CallResult::Answer(1)
    );
    assert_eq!(probe.log().times(), [0]);
}

/// The events that an observer received, in order.
#[derive(Debug, Default)]
pub(super) struct Diary(Mutex<Vec<String>>);

impl Diary {
    fn write(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    /// The events without the record of a success, which is also reported as the end.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap().clone();
        let said = lines.into_iter();
        said.filter(|line| !line.starts_with("success")).collect()
    }
}

impl Observer for Diary {
    fn attempt_sent(&self, context: &CallContext) {
        self.write(format!("sent {}", context.attempt()));
    }

    fn attempt_settled(&self, _: &CallContext, record: &AttemptRecord) {
        self.write(format!("{} {}", record.outcome.name(), record.number));
    }

    fn hedge_refused(&self, _: &CallContext, stopped: StopReason) {
        self.write(format!("refused: {}", stopped.name()));
    }

    fn call_ended(&self, _: &CallContext, info: &RetryInfo) {
        let stopped = info.stopped().map_or("?", StopReason::name);
        self.write(format!("ended: {stopped}"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_receives_every_step() {
    let diary = Arc::new(Diary::default());
    let probe = probe([attempt(1).hangs(), attempt(2).fails(KV_LOCKED), attempt(3)]);
    let layer = three().observer(diary.clone());
    assert_eq!(send(&layer, &probe).await.0, CallResult::Answer(3));
    let lines = diary.0.lock().unwrap().clone();
    assert_eq!(lines[..4], ["sent 1", "sent 2", "failed 2", "sent 3"]);
    let mut rest = lines[4..].to_vec();
    rest.sort();
    assert_eq!(rest, ["cancelled 1", "ended: success", "success 3"]);
}
